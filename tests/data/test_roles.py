"""Columns mean what their names say; numbers are never sentences; what is not clear is asked in one line."""

import re

import datasets
import pytest

from contrastive_st.data import column_roles, pairs_of_labels, read_examples, read_texts
from contrastive_st.data.label_pairs import check_targets
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
        ("text simplified", "pairs", "text simplified"),
        ("title abstract", "pairs", "title abstract"),
        ("question passage", "pairs", "question passage"),
        ("sent0 sent1 hard_neg", "triplets", "sent0 sent1 hard_neg"),
        ("negative query positive", "triplets", "query positive negative"),
        ("anchor positive negative_1 negative_2", "triplets", "anchor positive negative_1 negative_2"),
        ("id genre anchor positive", "pairs", "anchor positive"),
        ("source target", "pairs", "source target"),
    ],
)
def test_texts_by_name(names, kind, order):
    roles = roles_of(*names.split())
    assert roles.kind == kind
    assert list(roles.columns) == order.split()


@pytest.mark.parametrize("score", [0.5, "0.5", 1, "4e-1", " .5 "])
@pytest.mark.parametrize("names", ["question answer score", "score sentence1 sentence2", "query similarity answer"])
def test_scores_are_never_sentences(names, score):
    roles = roles_of(*names.split(), score=score, similarity=score)
    assert roles.kind == "scored_pairs"
    assert roles.columns[roles.target] == "score"
    assert (roles.collator, roles.loss) == ("LabelledPairCollator", "cosine_similarity")


@pytest.mark.parametrize(
    ("names", "cells", "kind"),
    [
        ("text label", {"label": "animal"}, "labelled_texts"),
        ("text label", {"label": 1}, "labelled_texts"),
        ("review sentiment", {"sentiment": "good"}, "labelled_texts"),
        ("premise hypothesis label", {"label": "neutral"}, "labelled_pairs"),
        ("question1 question2 is_duplicate", {"is_duplicate": "0"}, "labelled_pairs"),
    ],
)
def test_labels(names, cells, kind):
    assert roles_of(*names.split(), **cells).kind == kind


def test_numbers_that_can_be_no_scores_are_left_out_without_a_name():
    roles = roles_of("id", "question", "answer", "votes", id="7", votes=31)
    assert list(roles.columns) == ["question", "answer"]
    assert tuple(roles.left_out) == ("id", "votes")


@pytest.mark.parametrize(
    ("names", "columns", "cells", "message"),
    [
        ("query question positive", None, {}, "'query' and 'question' would each be the anchor"),
        ("x y", None, {}, "'x'; give --columns x=anchor y=positive; the columns are x ('a cat x'), y ('a cat y')"),
        ("x y z", None, {}, "or --columns x=anchor y=positive z=negative;"),
        ("text heading rest", None, {}, "no role is known for column 'heading'"),
        ("anchor x y", None, {}, "no role is known for column 'x'"),
        ("negative x", None, {}, "no role is known for column 'x'"),
        ("n m", None, {"n": 1, "m": "2"}, "no role is known for column 'n'"),
        ("query answer score label", None, {"score": 0.5, "label": 1}, "'score' and 'label' would each be"),
        ("anchor positive negative score", None, {"score": 0.5}, "there is no training with these columns"),
        ("text score", None, {"score": 0.5}, "there is no training with these columns"),
        ("a b", ["a", "c"], {}, "unknown column 'c'; choose one of a, b"),
        ("a b", ["a", "a"], {}, "asked for twice"),
        ("a b", ["a=ancor"], {}, "unknown role 'ancor'"),
        ("a n", ["a", "n"], {"n": 3}, "'n' holds numbers, not sentences"),
    ],
)
def test_what_cannot_be_told_is_one_line_that_shows_how_to_name_it(names, columns, cells, message):
    with pytest.raises(InputError) as caught:
        roles_of(*names.split(), columns=columns, **cells)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    if columns is None and "n" not in names.split():
        assert "--columns" in str(caught.value)


@pytest.mark.parametrize(
    ("row", "advice"),
    [
        ({"text": 7}, "text"),
        ({"title": "a cat", "x": ["a", "b"], "y": "a b"}, "title=anchor y=positive"),
        ({"x": "a cat", "pos": "a dog", "pos_scores": 0.5}, "x=anchor pos=positive"),
        ({"sentence1": "a cat", "sentence2": ["a", "b"], "score": [0.5, 0.25]}, "sentence1=anchor sentence2=positive"),
        ({"text": "a cat", "x": "a dog", "labels": ["a", "b"]}, "text=anchor x=positive"),
    ],
)
def test_what_a_question_advises_is_taken(row, advice):
    with pytest.raises(InputError, match=f"give --columns {advice}[,;]"):
        column_roles([row] * 3)
    assert read_examples([row] * 3, columns=advice.split())


def test_columns_of_several_files_are_not_advised_together():
    files = {"anchor": "a cat", "positive": "a dog"}, {"query": "a bird", "positive": "a fish", "negative": "a bee"}
    with pytest.raises(InputError, match="no row has all of them: give the files the same columns"):
        column_roles([*files] * 3)


def test_the_only_text_is_no_list():
    with pytest.raises(InputError, match="'positive' holds lists or objects, not texts"):
        read_examples([{"positive": ["a cat", "a dog"]}] * 3)


def test_columns_asked_for_by_name_position_and_role():
    assert roles_of("a", "b", columns=["b", 0]).columns == {"b": "anchor", "a": "positive"}
    assert roles_of("a", "b", columns=["a=positive", "1=anchor"]).columns == {"b": "anchor", "a": "positive"}
    assert roles_of("question", "answer", "score", columns=["answer"], score=1).columns == {"answer": "text"}
    assert roles_of("a", "n", columns=["a", "n=label"], n=3).kind == "labelled_texts"


@pytest.mark.parametrize(
    ("trained", "held", "numbers"),
    [
        ("same almost different", "almost same", [0, 2]),  # in the order of their names: almost, different, same
        ("0 1 2", "2 1.0", [2, 1]),
        ("-1 0 1", "1 0", [2, 1]),  # three classes, as in the rows to train on
        ("entailment neutral contradiction", "Contradiction 0 -", [2, 0]),
        ("0 1 2", "neutral NA", [1]),
        ("+ -", "- + -", [1, 0, 1]),
    ],
)
def test_classes_of_other_rows_are_those_of_the_rows_to_train_on(tmp_path, trained, held, numbers):
    def read(name, labels, classes=None):
        path = tmp_path / name
        path.write_text("sentence1,sentence2,label\n" + "".join(f"a,b,{label}\n" for label in labels.split()))
        return read_examples(str(path), classes=classes)

    roles = read("train.csv", trained)[1]
    assert read("held.csv", held, roles.classes)[0]["label"][:] == numbers
    known = r"row 2: '3' in column 'label' is not a class of the rows to train on, which are \S+, \S+"
    with pytest.raises(InputError, match=r"other\.csv, " + known):
        read("other.csv", "3", roles.classes)


@pytest.mark.parametrize("row", [{"messages": [{"role": "user", "content": "w"}]}, {"texts": ["w", "x"], "label": 0.5}])
def test_texts_inside_a_cell_are_no_column_to_name(row):
    with pytest.raises(InputError, match=f"'{next(iter(row))}' holds lists or objects, .* give each text a column"):
        read_examples([row])


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
    with pytest.raises(InputError, match="label"):
        pairs_of_labels(rows.select([0, 1]))
    with pytest.raises(InputError, match=r"b\.csv"):
        pairs_of_labels(rows.select([0, 3, 5]), source="b.csv")


@pytest.mark.parametrize(("name", "same"), [("score", 1), ("label", 1), ("label", 0), ("label", "yes")])
def test_scores_and_labels_that_are_all_equal_say_nothing(name, same):
    rows = [{"anchor": f"a{i}", "positive": f"b{i}", name: same} for i in range(4)]
    with pytest.raises(InputError, match=f"all rows have the same {name}, {same}, .* name only their columns"):
        check_targets(*read_examples(rows))
    check_targets(*read_examples(rows, ["anchor", "positive"]))
    check_targets(*read_examples([*rows, {**rows[0], name: 0.5 if name == "score" else 2 if same != "yes" else "no"}]))


def test_every_kind_names_a_collator_of_this_package():
    import contrastive_st.data

    assert all(hasattr(contrastive_st.data, kind.collator) for kind in KINDS.values())


# ---- what is not known is not guessed


@pytest.mark.parametrize(
    "beside",
    [
        {"id": "q-17"},
        {"pairID": "123.jpg#1e"},
        {"split": "train"},
        {"source": "web forum"},
        {"lang": "en"},
        {"sentence1_binary_parse": "( a b )"},
        {"found_at": "https://example.org/a"},
        {"day": "2024-02-29"},
        {"votes": "n/a", "seen": 31},
    ],
)
def test_what_nobody_embeds_is_left_out_and_said(beside):
    rows = [{"question": f"why {i}", "answer": f"so {i}", **beside} for i in range(20)]
    rows = [row | ({"votes": i} if i and "votes" in beside else {}) for i, row in enumerate(rows)]
    roles = column_roles(rows)
    assert (roles.kind, tuple(roles.left_out)) == ("pairs", tuple(beside))
    assert all(f"not used  {name}" in str(roles) for name in beside)


@pytest.mark.parametrize("name", ["positive", "negative_1", "label", "score"])
@pytest.mark.parametrize("blank", ["", None, " "])
def test_a_known_column_that_holds_nothing_is_an_error(name, blank):
    with pytest.raises(InputError, match=f"column '{name}' is empty"):
        column_roles([{"anchor": f"a {i}", "answer" if name != "positive" else "": "b", name: blank} for i in range(3)])


PAIRS_OF_NUMBERS = {"anchor": ["1,5", "x"], "positive": ["2.5", "y"]}


def test_a_score_that_is_a_text_is_an_error_with_its_row(tmp_path):
    path = tmp_path / "t.csv"
    for cell, mend in (("good", "write a number"), ("0,5", "give --decimal comma")):
        path.write_text(f"a;b;c\nx;y;{cell}\n")
        with pytest.raises(InputError, match=f"row 2: '{cell}' in column 'c' is not a score; .*{mend}"):
            read_examples(str(path), ["a", "b", "c=score"])
    path.write_text("anchor;positive;score\n1,5;2.5;0,5\nx;y;0.5\n")
    with pytest.raises(InputError, match=r"row 3: '0\.5' .* is not a score; if the point .* give --decimal point"):
        read_examples(str(path), decimal="comma")
    path.write_text("anchor;positive;label\n1,5;2.5;1,0\nx;y;0\n")
    assert read_examples(str(path), decimal="comma")[0].to_dict() == PAIRS_OF_NUMBERS | {"label": [1, 0]}
    rows = [{"anchor": "1,5", "positive": "2.5", "score": 0.25}, {"anchor": "x", "positive": "y", "score": 1}]
    assert read_examples(rows, decimal="comma")[0].to_dict() == PAIRS_OF_NUMBERS | {"score": [0.25, 1]}


JSON = '{"anchor": "a", "positive": "b", "score": %s}\n'


@pytest.mark.parametrize("cell", ["", " ", "nan", "n/a", "NA", "NULL", "null", "<NA>", r"\N"])
def test_a_row_without_a_score_is_left_out_and_counted_or_refused(tmp_path, caplog, cell):
    path = tmp_path / "t.csv"
    path.write_text(f"anchor,positive,score\na,b,0.5\na,b,{cell}\na,b,1\n")
    assert read_examples(str(path))[0]["score"][:] == [0.5, 1.0]
    assert "left out 1 rows without a score" in caplog.text
    with pytest.raises(InputError, match=r"t\.csv"):
        read_examples(str(path), strict=True)


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        *(("t.csv", cell) for cell in ("good", "inf", "-Infinity", "1e999")),
        *(("t.jsonl", cell) for cell in ("Infinity", '"x"', "true")),
    ],
)
def test_a_score_that_is_no_number_is_an_error_with_its_file(tmp_path, name, cell):
    head, line = {"t.csv": ("anchor,positive,score\n", "a,b,%s\n"), "t.jsonl": ("", JSON % "%s")}[name]
    (tmp_path / name).write_text(head + line % 0.5 * 20 + line % cell + line % 0.25)
    with pytest.raises(InputError, match=re.escape(name)):
        read_examples(str(tmp_path / name))


@pytest.mark.parametrize("cell", [None, float("nan"), float("inf")])
@pytest.mark.parametrize("saved", [False, True])
def test_scores_of_parquet_and_saved_folders(tmp_path, cell, saved):
    """A missing score leaves its row out, an infinite one is an error."""
    data = datasets.Dataset.from_dict({"anchor": ["a"] * 4, "positive": ["b"] * 4, "score": [0.5, 1.0, cell, 0.0]})
    data.save_to_disk(tmp_path / "d") if saved else data.to_parquet(tmp_path / "t.parquet")
    source = str(tmp_path / ("d" if saved else "t.parquet"))
    if cell != float("inf"):
        assert read_examples(source)[0]["score"][:] == [0.5, 1.0, 0.0]
        return
    with pytest.raises(InputError, match="'score'"):
        read_examples(source)


@pytest.mark.parametrize("cell", ["Infinity", "true", "3", '["a"]', '{"b": 1}'])
def test_a_cell_of_json_that_is_no_text_is_an_error_with_its_line(tmp_path, cell):
    path = tmp_path / "t.jsonl"
    line = '{"anchor": "a", "positive": %s}\n'
    path.write_text(line % '"b"' * 3 + line % cell)
    with pytest.raises(InputError, match=r"t\.jsonl"):
        read_examples(str(path))
    path.write_text(line % '"b"' * 3 + line % "null")
    assert len(read_examples(str(path))[0]) == 3


# ---- headers


def test_a_header_again_and_a_cell_with_the_name_of_its_column_are_questions(tmp_path):
    path = tmp_path / "joined.csv"
    for first in ("anchor,positive", "left,right"):
        path.write_text(f"{first}\na b,c d\na,b\ne,f\n{first}\ne f,g h\n")
        for columns in (None, first.split(",")):
            with pytest.raises(InputError, match=f"row 5: .* sed 5,5d {path} > |--header true --columns left"):
                read_examples(str(path), columns)
    path.write_text('Q1,Q2\nFirst?,Second?\n"{""ImportId"":""Q1""}","{""ImportId"":""Q2""}"\nwhy,so\n')
    with pytest.raises(InputError, match=f"row 3: .* sed 2,3d {path} > "):
        read_examples(str(path), ["Q1=anchor", "Q2=positive"])
    path.write_text("text,label\nsum,1\nsum,0\n# Tides,1\n")  # neither a total nor a comment there
    for columns in (None, ["text", "label"]):
        assert read_examples(str(path), columns)[0]["text"][:] == ["sum", "sum", "# Tides"]
    path.write_text("positive,great\nnegative,awful\npositive,fine\n")
    with pytest.raises(InputError, match="--header"):
        read_texts(str(path))
