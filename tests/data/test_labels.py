"""Texts with their classes are read as they are written, from every format."""

import datetime
import uuid

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contrastive_st.data.labels import joined, read_labels
from contrastive_st.errors import InputError

TEXTS, LABELS = ["a cat, asleep", "a dog", "rain"], ["animal", "animal", "weather"]


def test_several_labels_are_lists_or_separated(tmp_path):
    assert in_memory(["a", "b"], [], ["a", None]) == [["a", "b"], [], ["a"]]
    assert in_memory([""], ["a"], ["b"]) == [[], ["a"], ["b"]]
    several = {"text": ["one", "two"], "topics": [["a", "b"], []], "vector": [[0.5], [0.25]]}
    pq.write_table(pa.table(several), tmp_path / "several.parquet")
    assert read_labels(tmp_path / "several.parquet", ["text", "topics=label"]).labels == [["a", "b"], []]
    path = tmp_path / "several.csv"
    path.write_text("text,labels\none,a | b\ntwo,\n")
    assert read_labels(path, separator="|").labels == [["a", "b"], []]


WRITTEN = {
    "pandas, of arrays": ("['a'\n 'b c']", "['a']", "[]"),
    "pandas, of tuples": ("('a', 'b c')", "('a',)", "()"),
    "pandas, of texts of numpy": ("[np.str_('a'), np.str_('b c')]", "['a']", "[]"),
    "JSON": ('["a", "b c", null]', '["a"]', "[]"),
    "PostgreSQL": ('{a,"b c"}', "{a}", "{}"),
    "Python, sets": ("{'a', 'b c'}", "{'a'}", "[]"),
    "some single": ("['a', 'b c']", "a", "[]"),
}


@pytest.mark.parametrize("cells", WRITTEN.values(), ids=WRITTEN)
def test_lists_written_as_text_are_lists(cells, tmp_path):
    pd.DataFrame({"text": TEXTS, "labels": cells}).to_csv(tmp_path / "rows.csv", index=False)
    assert read_labels(tmp_path / "rows.csv").labels == [["a", "b c"], ["a"], []]


@pytest.mark.parametrize(
    ("first", "labels"), [(np.array(["it's", 'a "b"']), ["it's", 'a "b"']), (np.arange(2), ["0", "1"])]
)
def test_arrays_of_numpy_in_a_csv_of_pandas_are_lists(first, labels, tmp_path):
    pd.DataFrame({"text": TEXTS, "labels": [first, first[:1], first[:1]]}).to_csv(tmp_path / "rows.csv")
    assert read_labels(tmp_path / "rows.csv").labels == [labels, labels[:1], labels[:1]]


def test_a_single_label_among_lists_is_a_list_of_one():
    assert in_memory(["x"], "y", None) == [["x"], ["y"]]
    assert in_memory({"choices": ["x", "y"]}, "y", []) == [["x", "y"], ["y"], []]
    assert in_memory("x", "y", None) == ["x", "y"]  # no list at all: the last has no label
    assert in_memory('{"choices": ["x", "y"]}', "y", None) == [["x", "y"], ["y"]]


def test_columns_of_0_and_1_are_labels_where_they_are_named(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("text,id,sea,moon,stars\na,7,1,1,5\nb,8,0,0,4\nc,9,True,0,3\nd,9,,1,3\n")
    labels = [["sea", "moon"], [], ["sea"]]
    with pytest.raises(InputError, match="--columns"):
        read_labels(path)
    assert read_labels(path, ["text", "sea=label", "moon=label"]).labels == labels
    assert read_labels(path, ["text", "sea=label"]).labels == ["1", "0", "True"]
    with pytest.raises(InputError, match="'sea'"):
        read_labels(path, ["text", "sea=label", "stars=label"])
    path.write_text("text,positive,negative,neutral\na,1,0,0\nb,0,1,0\nc,0,0,1\n")  # two have names of texts
    with pytest.raises(InputError, match="--columns text positive=label negative=label neutral=label;"):
        read_labels(path)
    path.write_text("comment,anchor,label\na,1,0\nb,0,1\nc,0,0\n")
    with pytest.raises(InputError, match="comment=text label, or --columns comment=text anchor=label label;"):
        read_labels(path)


def test_a_whole_number_is_one_label_however_it_is_written(caplog):
    assert in_memory("1", "1.0", "2.0") == ["1", "1", "2.0"]
    assert "the label 1.0 is read as 1" in caplog.text
    assert in_memory("01", "1", "1.5") == ["01", "1", "1.5"]
    assert joined([read_labels([{"text": "a", "label": own}]) for own in (1, 1.0, ["1.0", "3"])]).labels == [
        ["1"], ["1"], ["1", "3"],
    ]  # fmt: skip


def in_memory(*rows):
    return read_labels([{"text": text, "label": label} for text, label in zip(TEXTS, rows, strict=True)]).labels


def test_a_label_is_any_single_value_or_a_list_of_them():
    assert in_memory([1, 3], [], [1]) == [["1", "3"], [], ["1"]]
    assert in_memory(["1", "3"], ["1"], ["3"]) == [["1", "3"], ["1"], ["3"]]
    assert in_memory(0.5, 1.5, 0.5) == ["0.5", "1.5", "0.5"]
    days = [datetime.date(2026, 1, day) for day in (1, 2, 1)]
    assert in_memory(*days) == ["2026-01-01", "2026-01-02", "2026-01-01"]
    assert in_memory(uuid.UUID(int=7), pd.Period("2026-01"), pd.Interval(0, 1)) == [
        "00000000-0000-0000-0000-000000000007", "2026-01", "(0, 1]",
    ]  # fmt: skip
    assert in_memory(True, False, 2) == ["true", "false", "2"]
    assert in_memory("a", pd.NA, "b") == ["a", "b"]
    rows = [{"text": text, "label": 0, "label_text": "calm"} for text in TEXTS]
    assert read_labels(rows).labels == ["0"] * 3
    assert read_labels(rows, ["text", "label_text=label"]).labels == ["calm"] * 3
    assert read_labels([{"text": "a", "label_name": "calm"}]).labels == ["calm"]


@pytest.mark.parametrize("form", ["memory", "parquet", "saved", "stream"])
def test_class_labels_have_their_names_and_minus_one_is_no_label(form, tmp_path):
    names = datasets.ClassLabel(names=["cold", "warm"])
    features = {"text": datasets.Value("string"), "label": names, "labels": datasets.List(names)}
    rows = {"text": TEXTS, "label": [1, -1, 0], "labels": [[0, 1], [], [-1]]}
    source = data = datasets.Dataset.from_dict(rows, datasets.Features(features))
    if form == "parquet":
        source = tmp_path / "rows.parquet"
        data.to_parquet(source)
    elif form == "saved":
        source = tmp_path / "rows"
        datasets.DatasetDict(train=data).save_to_disk(source)
    elif form == "stream":
        source = data.to_iterable_dataset()
    assert read_labels(source, ["text", "label"]) == ([TEXTS[0], TEXTS[2]], ["warm", "cold"])
    assert read_labels(source, ["text", "labels=label"]).labels == [["cold", "warm"], [], []]


def test_what_it_suggests_can_be_followed():
    rows = [{"id": i, "text": TEXTS[i], "user": 1, "topic": LABELS[i]} for i in range(3)]
    with pytest.raises(InputError, match="--columns"):
        read_labels(rows)
    rows = [{"sentence": "a cat", "remark": "so", "class": "x"}]
    with pytest.raises(InputError, match="--columns") as caught:
        read_labels(rows)
    assert "anchor" not in str(caught.value)
    assert read_labels(rows, ["sentence=text", "class=label"]).labels == ["x"]
    rows = [{"review": "a cat", "stars": 1}]
    with pytest.raises(InputError, match="--columns"):
        read_labels(rows)
    assert read_labels(rows, ["review=text", "stars=label"]).labels == ["1"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pairs.csv", "anchor,positive\na,b\n", "holds anchors and positives, not single texts with a class"),
        ("none.csv", "text,label\n,a\n,b\nx,\n", "all 3 rows lack a text or a label"),
        ("nested.jsonl", '{"text": "a", "label": ["x", ["y"]]}\n', r"line 1: 'label' is .*, not a text"),
        (
            "object.jsonl",
            '{"text": "a", "label": "x"}\n{"text": "b", "label": {"y": 1}}\n',
            "line 2: 'label' is {\"y\": 1}, not a text",
        ),
        (
            "numbers.jsonl",
            '{"text": "a", "label": "x"}\n{"text": 5, "label": "y"}\n',
            "line 2: 'text' is 5, not a text",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_labels(tmp_path / name)
