"""Files of candidates: FlagEmbedding's lists, columns of negatives, and a teacher's scores beside them."""

import json
import math
from decimal import Decimal

import datasets
import numpy as np
import pytest
from small_files import put

from conftest import SENTENCES
from contrastive_st import InputError
from contrastive_st.data import CandidatesCollator, GuidedRows, read_examples, tokenize
from contrastive_st.data.reading import examples
from contrastive_st.models.base import text_hashes

ROWS = [
    {"query": "why?", "pos": ["so", "thus"], "neg": ["no", "yes", "red"], "pos_scores": [9, 8.5],
     "neg_scores": [1, -2, 0]},
    {"query": "who?", "pos": ["me"], "neg": ["it"], "pos_scores": [7.5], "neg_scores": [3], "prompt": "p", "type": "t"},
]  # fmt: skip
READ = {
    "query": ["why?", "why?", "who?"],
    "pos": ["so", "thus", "me"],
    "neg_1": ["no", "no", "it"],
    "neg_2": ["yes", "yes", None],
    "neg_3": ["red", "red", None],
}
SCORES = [[9.0, 1.0, -2.0, 0.0], [8.5, 1.0, -2.0, 0.0], [7.5, 3.0, math.nan, math.nan]]


def written(folder, kind, rows):
    if kind == "saved":
        datasets.Dataset.from_list(rows).save_to_disk(folder / "rows")
        return str(folder / "rows")
    if kind == "csv":
        names = dict.fromkeys(name for row in rows for name in row)
        cells = [{name: row.get(name) for name in names} for row in rows]
        rows = [{n: json.dumps(c) if isinstance(c, list) else c for n, c in row.items()} for row in cells]
    return str(put(folder, f"rows.{kind}", rows))


def without_nan(lists):
    return [[None if math.isnan(score) else score for score in own] for own in lists]


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet", "csv", "saved"])
def test_the_format_of_flag_embedding(kind, tmp_path, monkeypatch):
    if kind == "jsonl":  # its second chunk has fewer negatives
        monkeypatch.setattr(examples, "CHUNK", 1)
    data, roles = read_examples(written(tmp_path, kind, ROWS))
    assert roles.kind == "scored_candidates"
    assert (roles.loss, roles.collator) == ("kl_distillation", "CandidatesCollator")
    assert roles.columns == {
        "query": "anchor", "pos": "positive", "neg": "negative", "pos_scores": "positive_score",
        "neg_scores": "negative_score",
    }  # fmt: skip
    found = data[:]
    assert without_nan(found.pop("scores")) == without_nan(SCORES)
    assert found == READ
    assert "positive_score  pos_scores" in str(roles)


@pytest.mark.parametrize("number", [Decimal, np.float32, np.int64])
def test_lists_of_scores_hold_any_type_of_number(number, tmp_path):
    rows = [{**ROWS[1], "pos_scores": [number(7)], "neg_scores": [number(3)]}]
    for source in (rows, written(tmp_path, "parquet", rows)):
        assert read_examples(source)[0]["scores"][:] == [[7.0, 3.0]]


WIDE = [
    {"anchor": "a", "positive": "b", "negative_1": "c", "negative_2": "d"},
    {"anchor": "e", "positive": "f", "negative_1": "g", "negative_2": ""},
]
NAMED = [
    {"positive_score": 3, "negative_1_score": 2, "negative_2_score": -1},
    {"positive_score": 3.5, "negative_1_score": 2.5, "negative_2_score": None},
]


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv"])
@pytest.mark.parametrize(
    ("scores", "last"),
    [
        (NAMED, None),
        ([{"scores": [3, 2, -1]}, {"scores": [3.5, 2.5, None]}], None),
        ([{"label": [3.0, 2.0, -1.0]}, {"negative_2": "h", "label": [3.5, 2.5, 0.5]}], 0.5),
    ],
)
def test_columns_of_negatives_and_of_scores(kind, scores, last, tmp_path):
    """Scores of their own columns, or one list as sentence-transformers has it; a blank negative is none."""
    rows = [{**own, **more} for own, more in zip(WIDE, scores, strict=True)]
    data, roles = read_examples(written(tmp_path, kind, rows))
    assert roles.kind == "scored_candidates"
    assert data["negative_2"][:] == ["d", rows[1]["negative_2"] or None]
    assert without_nan(data["scores"][:]) == [[3.0, 2.0, -1.0], [3.5, 2.5, last]]


def test_roles_by_hand(tmp_path):
    rows = [{"q": "a", "good": "b", "bad": ["c", "d"], "g": 2, "b": [1, 0]}]
    columns = ["q=anchor", "good=positive", "bad=negative", "g=positive_score", "b=negative_score"]
    data, roles = read_examples(written(tmp_path, "jsonl", rows), columns)
    assert roles.kind == "scored_candidates"
    assert data[0] == {"q": "a", "good": "b", "bad_1": "c", "bad_2": "d", "scores": [2.0, 1.0, 0.0]}


def test_rows_that_are_left_out(tmp_path, caplog):
    scores = {"pos_scores": [1], "neg_scores": [0]}
    rows = [
        *ROWS,
        {"query": "", "pos": ["x"], "neg": ["y"], **scores},
        {"query": "q", "pos": ["x"], "neg": [" "], **scores},
        {"query": "q", "pos": [None, "x"], "neg": ["", "y"], "pos_scores": [5, 1], "neg_scores": [7, 0]},
    ]
    path = written(tmp_path, "jsonl", rows)
    data, _ = read_examples(path)
    assert len(data) == 4
    assert data[3]["pos"] == "x"
    assert data[3]["neg_1"] == "y"
    assert data[3]["scores"][:2] == [1.0, 0.0]
    assert "dropped 2 of 5" in caplog.text
    with pytest.raises(InputError, match="line 3"):
        read_examples(path, strict=True)


def test_batches(tmp_path, tokenizer):
    texts = [SENTENCES[:4], SENTENCES[4:7]]
    scores = [([5], [1, 2]), ([4], [3])]
    rows = [
        {"query": anchor, "pos": [positive], "neg": negatives, "pos_scores": own[0], "neg_scores": own[1]}
        for (anchor, positive, *negatives), own in zip(texts, scores, strict=True)
    ]
    texts, _ = read_examples(written(tmp_path, "jsonl", rows))
    tokens = tokenize(texts, tokenizer, 8)
    assert tokens[1]["input_ids"][3] == []
    batch = CandidatesCollator(tokenizer)([tokens[i] for i in range(2)])
    assert batch["input_ids"].shape[:2] == (2, 4)
    assert not batch["attention_mask"][1, 3].any()
    assert without_nan(batch["targets"].tolist()) == [[5.0, 1.0, 2.0], [4.0, 3.0, None]]
    hashes = text_hashes(batch["input_ids"], batch["attention_mask"])
    assert (hashes == np.iinfo(np.int64).min).tolist() == [[False] * 4, [False] * 3 + [True]]
    prompted = tokenize(texts, tokenizer, 8, prompts={"query": "the ", **dict.fromkeys(texts.column_names[1:4], "a ")})
    batch = CandidatesCollator(tokenizer)([prompted[i] for i in range(2)])
    assert not batch["text_mask"][1, 3].any()
    asked = []
    guide = lambda own: asked.append(own) or np.ones((len(own), 2))
    guided = GuidedRows(tokens, texts.select_columns(texts.column_names[:4]), guide)
    assert guided[1]["guide"].tolist() == [[1.0, 1.0]] * 3 + [[0.0, 0.0]]
    assert None not in asked[0]


def test_rows_without_scores_have_no_targets(tokenizer):
    with pytest.raises(InputError, match="scores"):
        CandidatesCollator(tokenizer)([{"input_ids": [[2, 3], [2, 3], [2, 3]]}])


def test_files_with_other_negatives_are_read_together(tmp_path):
    """Each row has the negatives of its file; what the other file calls them is not a blank cell of it."""
    (tmp_path / "a.csv").write_text("anchor,positive,negative_1\na cat,the cat,a dog\n")
    (tmp_path / "b.csv").write_text("anchor,positive,hard_neg\nb cat,that cat,b dog\n")
    rows, roles = read_examples([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")])
    assert roles.kind == "triplets"
    assert [list(row.values()) for row in rows] == [["a cat", "the cat", "a dog"], ["b cat", "that cat", "b dog"]]
