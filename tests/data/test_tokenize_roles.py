"""`tokenize` follows the names of columns, whatever holds the rows."""

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from contrastive_st.data import read_examples, read_texts, tokenize, train_wordpiece
from contrastive_st.errors import InputError

TEXTS = [f"{word} {other}" for word in ("red", "blue", "old", "new") for other in ("cat", "dog")]
ROWS = [{"id": f"q{i}", "positive": f"dog {text}", "anchor": f"cat {text}"} for i, text in enumerate(TEXTS)]
TOKENIZER = train_wordpiece([*TEXTS, "cat dog"] * 3, 60)


def texts_of(rows):
    return [tuple(TOKENIZER.decode(ids, skip_special_tokens=True) for ids in row["input_ids"]) for row in rows]


def of_rows(batch):
    return {name: [row[name] for row in batch["row"]] for name in ROWS[0]}


def views(rows):
    pytest.importorskip("pyarrow", "20")  # older ones do not cast them
    return datasets.Dataset.from_list(rows, datasets.Features(dict.fromkeys(ROWS[0], datasets.Value("string_view"))))


WANTED = [(row["anchor"], row["positive"]) for row in ROWS]
HOLDERS = {
    "list": lambda rows: rows,
    "dataset": datasets.Dataset.from_list,
    "frame": pd.DataFrame,
    "stream": lambda rows: datasets.Dataset.from_list(rows).to_iterable_dataset(),
    "stream of a generator": lambda rows: datasets.IterableDataset.from_generator(lambda: iter(rows)),
    "stream of Arrow": lambda rows: datasets.Dataset.from_list(rows).to_iterable_dataset().with_format("arrow"),
    "generator": iter,
    "columns": lambda rows: {name: [row[name] for row in rows] for name in rows[0]},
    "polars": lambda rows: pytest.importorskip("polars").DataFrame(rows),
    "pyarrow": pa.Table.from_pylist,
    "batch of pyarrow": pa.RecordBatch.from_pylist,
    "views of strings": views,
    "transform": lambda rows: datasets.Dataset.from_list([{"row": row} for row in rows]).with_transform(of_rows),
    "hidden column": lambda rows: datasets.Dataset.from_list(
        [{**row, "negative": "old cat"} for row in rows]
    ).with_format(columns=list(rows[0])),
}


@pytest.mark.parametrize("make", [
    list, np.array, pd.Series, pa.array, iter, tuple, lambda texts: pa.chunked_array([texts]),
    lambda texts: datasets.Dataset.from_dict({"text": texts})["text"],
    lambda texts: pytest.importorskip("polars").Series(texts),
])  # fmt: skip
def test_a_column_of_texts(make):
    wanted = tokenize([{"text": text} for text in TEXTS], TOKENIZER, 16)["input_ids"][:]
    assert tokenize(make(TEXTS), TOKENIZER, 16)["input_ids"][:] == wanted
    assert read_texts(make(TEXTS))["text"][:] == TEXTS


@pytest.mark.parametrize("make", [list, np.array, lambda rows: (tuple(row) for row in rows)])
def test_cells_without_names_are_columns_by_position(make):
    assert texts_of(tokenize(make(WANTED), TOKENIZER, 16)) == WANTED


def test_names_of_files_are_not_texts(tmp_path):
    with pytest.raises(InputError, match="several"):
        read_texts(["no.cvs", "one.cvs"])
    with pytest.raises(InputError, match="read_examples"):
        tokenize("rows.csv", TOKENIZER)
    path = tmp_path / "two words.txt"
    path.write_text("red cat\n")
    assert read_texts([str(path)])["text"][:] == ["red cat"]


@pytest.mark.parametrize(
    "given", [{"red cat", "old cat"}, None, 5, [5], ["red cat", {"text": "old cat"}], {"a": "red cat"}]
)
def test_what_has_no_rows_is_one_line(given):
    with pytest.raises(InputError, match="data"):
        read_examples(given)


def test_two_columns_of_one_name_are_an_error():
    names = ["anchor", "positive", "positive"]
    for table in (pd.DataFrame([TEXTS[:3]] * 3, columns=names), pa.table([TEXTS] * 3, names=names)):
        with pytest.raises(InputError, match="'positive'"):
            read_examples(table)


def test_a_split_of_a_dictionary_of_data_sets():
    parts = {"train": datasets.Dataset.from_list(ROWS), "test": datasets.Dataset.from_list(ROWS[:2])}
    streams = datasets.IterableDatasetDict({name: part.to_iterable_dataset() for name, part in parts.items()})
    for given in (parts, datasets.DatasetDict(parts), streams):
        assert [len(read_examples(given, split=name)[0]) for name in parts] == [len(ROWS), 2]
        tokens = tokenize(given, TOKENIZER, 16)
        assert {name: texts_of(rows) for name, rows in tokens.items()} == {"train": WANTED, "test": WANTED[:2]}
    with pytest.raises(InputError, match="'dev'"):
        read_examples(parts, split="dev")


@pytest.mark.parametrize("holder", HOLDERS)
def test_an_id_is_no_text_the_order_of_columns_does_not_matter_and_a_null_is_not_trained(holder, caplog):
    rows = [*ROWS, {"id": "x", "positive": None, "anchor": "red cat"}]
    assert texts_of(tokenize(HOLDERS[holder](rows), TOKENIZER, 16)) == WANTED
    if not holder.startswith("stream"):
        assert "dropped 1 of 9 rows" in caplog.text


def test_labels_that_are_texts_are_no_stream():
    with pytest.raises(InputError, match="stream"):
        tokenize(datasets.Dataset.from_list([{"text": "a b", "label": "x"}] * 4).to_iterable_dataset(), TOKENIZER, 16)


NAMED = [{"positive": "dog old", "anchor": "cat red", "label": "cat new", "x": "blue"}] * 2


@pytest.mark.parametrize(("columns", "wanted"), [
    ("positive=anchor anchor=positive", ["dog old", "cat red"]),
    ("anchor label=positive positive=negative", ["cat red", "cat new", "dog old"]),
    ("positive=anchor x=positive", ["dog old", "blue"]),
    ("label=anchor positive", ["cat new", "dog old"]),
    ("label=text", "cat new"),
    ("label=text anchor=label", "cat new"),
    ("x=positive positive=anchor anchor=label", ["dog old", "blue"]),
])  # fmt: skip
def test_columns_have_the_roles_that_were_asked_for_whatever_their_names_say(columns, wanted):
    columns = columns.split()
    decode = TOKENIZER.batch_decode if isinstance(wanted, list) else TOKENIZER.decode
    for rows, again in ((read_examples(NAMED, columns)[0], None), (read_texts(NAMED, columns), None), (NAMED, columns)):
        ids = tokenize(rows, TOKENIZER, 16, columns=again)[0]["input_ids"]
        assert decode(ids, skip_special_tokens=True) == wanted


def test_a_prompt_goes_before_the_column_of_its_name_as_it_was_given():
    rows = tokenize(NAMED, TOKENIZER, 16, None, {"positive": "new "}, ["positive=anchor", "anchor=positive"])
    assert texts_of(rows)[0] == ("new dog old", "cat red")
