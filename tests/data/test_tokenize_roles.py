"""`tokenize` follows the names of columns, whatever holds the rows."""

import datasets
import pandas as pd
import pytest

from contrastive_st.data import read_examples, tokenize, train_wordpiece
from contrastive_st.errors import InputError

TEXTS = [f"{word} {other}" for word in ("red", "blue", "old", "new") for other in ("cat", "dog")]
ROWS = [{"id": f"q{i}", "positive": f"dog {text}", "anchor": f"cat {text}"} for i, text in enumerate(TEXTS)]
TOKENIZER = train_wordpiece([*TEXTS, "cat dog"] * 3, 60)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def texts_of(rows):
    return [tuple(TOKENIZER.decode(ids, skip_special_tokens=True) for ids in row["input_ids"]) for row in rows]


WANTED = [(row["anchor"], row["positive"]) for row in ROWS]
HOLDERS = {
    "list": lambda rows: rows,
    "dataset": datasets.Dataset.from_list,
    "frame": pd.DataFrame,
    "stream": lambda rows: datasets.Dataset.from_list(rows).to_iterable_dataset(),
    "generator": lambda rows: datasets.IterableDataset.from_generator(lambda: iter(rows)),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_an_id_is_no_text_and_the_order_of_columns_does_not_matter(holder):
    found = tokenize(HOLDERS[holder](ROWS), TOKENIZER, 16)
    assert texts_of(found) == WANTED


def test_each_split():
    parts = datasets.DatasetDict({name: datasets.Dataset.from_list(ROWS) for name in ("train", "test")})
    assert {name: texts_of(rows) for name, rows in tokenize(parts, TOKENIZER, 16).items()} == {
        "train": WANTED,
        "test": WANTED,
    }


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_null_is_not_trained(holder, caplog):
    rows = [*ROWS, {"id": "x", "positive": None, "anchor": "red cat"}]
    assert texts_of(tokenize(HOLDERS[holder](rows), TOKENIZER, 16)) == WANTED
    if holder not in ("stream", "generator"):
        assert "dropped 1 of 9 rows" in caplog.text


def test_lists_of_negatives_are_hard_negatives():
    rows = [{"query": "red cat", "pos": ["old cat", "new cat"], "neg": ["red dog", "old dog"]}] * 2
    found = texts_of(tokenize(datasets.Dataset.from_list(rows), TOKENIZER, 16))
    assert found == [("red cat", positive, "red dog", "old dog") for positive in ("old cat", "new cat")] * 2


@pytest.mark.parametrize("labels", [[0, 1, None, 2], ["a", "b", None, "c"], [0, 1, -1, 2]])
def test_no_label_is_no_row(labels):
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, labels, strict=False)]
    assert tokenize(datasets.Dataset.from_list(rows), TOKENIZER, 16)["label"][:] == [0, 1, 2]


def test_signs_are_classes():
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, [-1, 0, 1] * 2, strict=False)]
    assert tokenize(rows, TOKENIZER, 16)["label"][:] == [0, 1, 2] * 2


def test_what_is_not_clear_is_an_error():
    rows = [{"x": text, "anchor": text, "positive": text} for text in TEXTS]
    with pytest.raises(InputError, match="the role of column 'x' is unknown"):
        tokenize(rows, TOKENIZER, 16)
    assert texts_of(tokenize(rows, TOKENIZER, 16, columns=["anchor", "positive"]))[0] == (TEXTS[0], TEXTS[0])
    with pytest.raises(InputError, match="a stream may have texts and scores"):
        tokenize(datasets.Dataset.from_list([{"text": "a b", "label": "x"}] * 4).to_iterable_dataset(), TOKENIZER, 16)


def test_roles_that_the_user_gives_hold_against_the_names():
    rows = [{"answer": f"cat {text}", "question": f"dog {text}"} for text in TEXTS]
    data, roles = read_examples(rows, ["answer=anchor", "question=positive"])
    assert roles.texts == data.column_names
    assert texts_of(tokenize(data, TOKENIZER, 16))[0] == (rows[0]["answer"], rows[0]["question"])
