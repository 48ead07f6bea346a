"""Columns mean what their names say; numbers are never sentences; what is ambiguous is told in one line."""

import json

import datasets
import pytest

from contrastive_st.data import column_roles, pairs_of_labels, read_examples, tokenize, train_wordpiece
from contrastive_st.data.roles import KINDS
from contrastive_st.errors import InputError

WORDS = ["a cat", "two dogs", "no bird", "one fish"]


def roles_of(*names, columns=None, **cells):
    cells.setdefault("id", 7)
    rows = [{name: cells.get(name, f"{word} {name}") for name in names} for word in WORDS]
    return column_roles(rows, columns, source="t.csv")


@pytest.mark.parametrize(
    ("names", "kind", "order"),
    [
        ("text", "texts", "text"),
        ("sentence", "texts", "sentence"),
        ("whatever", "texts", "whatever"),
        ("id question", "texts", "question"),
        ("anchor positive", "pairs", "anchor positive"),
        ("answer question", "pairs", "question answer"),
        ("premise hypothesis", "pairs", "premise hypothesis"),
        ("sentence_B sentence_A", "pairs", "sentence_A sentence_B"),
        ("x y", "pairs", "x y"),
        ("text simplified", "pairs", "text simplified"),
        ("title abstract", "pairs", "title abstract"),
        ("question passage", "pairs", "question passage"),
        ("sent0 sent1 hard_neg", "triplets", "sent0 sent1 hard_neg"),
        ("negative query positive", "triplets", "query positive negative"),
        ("anchor positive negative_1 negative_2", "triplets", "anchor positive negative_1 negative_2"),
        ("x y z", "triplets", "x y z"),
        ("id genre anchor positive", "pairs", "anchor positive"),
    ],
)
def test_texts_by_name_and_else_in_their_order(names, kind, order):
    roles = roles_of(*names.split())
    assert roles.kind == kind
    assert list(roles.columns) == order.split()


@pytest.mark.parametrize("score", [0.5, "0.5", 1, "4e-1", " .5 "])
@pytest.mark.parametrize("names", ["question answer score", "score sentence1 sentence2", "x similarity y"])
def test_scores_are_never_sentences(names, score):
    roles = roles_of(*names.split(), score=score, similarity=score)
    assert roles.kind == "scored_pairs"
    assert roles.columns[roles.gold] == "score"
    assert (roles.collator, roles.loss) == ("LabelledPairCollator", "cosine_similarity")


@pytest.mark.parametrize(
    ("names", "cells", "kind"),
    [
        ("text label", {"label": "animal"}, "labelled_texts"),
        ("text label", {"label": 1}, "labelled_texts"),
        ("review sentiment", {"sentiment": "good"}, "labelled_texts"),
        ("premise hypothesis label", {"label": "neutral"}, "labelled_pairs"),
        ("question1 question2 is_duplicate", {"is_duplicate": "0"}, "labelled_pairs"),
        ("idx sentence1 sentence2 label", {"label": 2.5, "idx": 4}, "scored_pairs"),
    ],
)
def test_labels(names, cells, kind):
    assert roles_of(*names.split(), **cells).kind == kind


def test_numbers_without_a_name_that_says_a_role_are_left_out():
    roles = roles_of("id", "question", "answer", "votes", id="7", votes=3)
    assert list(roles.columns) == ["question", "answer"]
    assert roles.left_out == ("id", "votes")


@pytest.mark.parametrize(
    ("names", "columns", "cells", "message"),
    [
        ("query question positive", None, {}, "'query' and 'question' would each be the anchor"),
        ("text title body", None, {}, "besides 'text' there is text in 'title', 'body'"),
        ("anchor x y", None, {}, "no column is the positive (x, y could be)"),
        ("negative x", None, {}, "no column is the anchor"),
        ("n m", None, {"n": 1, "m": "2"}, "no column holds text"),
        ("a b score label", None, {"score": 0.5, "label": 1}, "'score' and 'label' would each be"),
        ("anchor positive negative score", None, {"score": 0.5}, "a score needs two text columns"),
        ("text score", None, {"score": 0.5}, "a score needs two text columns"),
        ("a b", ["a", "c"], {}, "no column 'c'"),
        ("a b", ["a", "a"], {}, "asked for twice"),
        ("a b", ["a=ancor"], {}, "'ancor' is not a role"),
        ("a n", ["a", "n"], {"n": 3}, "'n' holds numbers, not sentences"),
        ("a b c", ["a", "b", "c=score"], {}, "'c' holds text, not scores"),
    ],
)
def test_what_cannot_be_told_is_one_line_that_shows_how_to_name_it(names, columns, cells, message):
    with pytest.raises(InputError) as caught:
        roles_of(*names.split(), columns=columns, **cells)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    if columns is None:
        assert "--columns" in str(caught.value)


def test_columns_asked_for_by_name_position_and_role():
    assert roles_of("a", "b", columns=["b", 0]).columns == {"b": "anchor", "a": "positive"}
    assert roles_of("a", "b", columns=["a=positive", "1=anchor"]).columns == {"b": "anchor", "a": "positive"}
    assert roles_of("question", "answer", "score", columns=["answer"], score=1).columns == {"answer": "text"}
    assert roles_of("a", "n", columns=["a", "n=label"], n=3).kind == "labelled_texts"


def test_the_description_shows_each_role_with_an_example():
    shown = str(roles_of("id", "question", "answer", "score", id=4, score="0.25"))
    assert shown.splitlines() == [
        "t.csv: pairs with a score of their similarity (scored_pairs)",
        "  anchor    question  'a cat question'",
        "  positive  answer    'a cat answer'",
        "  score     score     '0.25'",
        "  left out: id",
    ]


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet"])
def test_scored_pairs_are_read_from_every_format(tmp_path, name):
    rows = [{"score": i / 4, "answer": f"so {i}", "question": f"why {i}"} for i in range(5)]
    data = datasets.Dataset.from_list(rows)
    {"csv": data.to_csv, "jsonl": data.to_json, "parquet": data.to_parquet}[name.split(".")[1]](tmp_path / name)
    read, roles = read_examples(str(tmp_path / name))
    assert roles.kind == "scored_pairs"
    assert read.column_names == ["question", "answer", "score"]
    assert read["score"][:] == [0.0, 0.25, 0.5, 0.75, 1.0]
    ids = tokenize(read, train_wordpiece(WORDS, 60), 8)
    assert set(ids.column_names) == {"score", "input_ids"}
    assert len(ids[0]["input_ids"]) == 2


def test_labels_become_numbers_and_rows_without_one_are_left_out(tmp_path, caplog):
    path = tmp_path / "nli.jsonl"
    labels = ["entailment", "-", "neutral", "contradiction"]
    path.write_text(
        "".join(json.dumps({"premise": "p", "hypothesis": "h", "gold_label": one}) + "\n" for one in labels)
    )
    read, roles = read_examples(str(path))
    assert roles.kind == "labelled_pairs"
    assert read["label"][:] == [0, 1, 2]
    assert "left out 1 rows without a label" in caplog.text


def test_scores_outside_of_their_scale(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,score\nx,y,4.5\n")
    with pytest.raises(InputError, match=r"score 4\.5 in column 'score' is not in 0 to 1; give the scale"):
        read_examples(str(path))
    assert read_examples(str(path), scale=(0, 5))[0]["score"][:] == [0.9]


def test_partners_are_of_the_own_class_and_of_another():
    labels = [0, 0, 0, 1, 1, 2]
    rows = datasets.Dataset.from_dict({"text": [f"{label} {i}" for i, label in enumerate(labels)], "label": labels})
    pairs = pairs_of_labels(rows)
    assert len(pairs) == 5 + 6  # the only text of class 2 has no partner of its own
    for row in pairs:
        assert (row["anchor"][0] == row["positive"][0]) == (row["score"] == 1.0)
        assert row["anchor"] != row["positive"]
    assert pairs_of_labels(rows)[:] == pairs[:]
    assert pairs_of_labels(rows, seed=1)[:] != pairs[:]
    with pytest.raises(InputError, match="only one class"):
        pairs_of_labels(rows.select([0, 1]))


def test_every_kind_names_a_collator_of_this_package():
    import contrastive_st.data

    assert all(hasattr(contrastive_st.data, kind.collator) for kind in KINDS.values())
