"""One table gives the same rows from every format, encoding and layout, through every door that reads it."""

from functools import partial

import datasets
import pytest
from small_files import COMPRESS, delimited, lines, put

from contrastive_st.classification.cli import _input
from contrastive_st.data import corpus_texts, read_examples
from contrastive_st.data.reading import stream_texts
from contrastive_st.data.reading.texts import read_corpus
from contrastive_st.data.table_writers import write_table
from contrastive_st.errors import InputError
from contrastive_st.evaluation.datasets.user_data import read_relevant_pairs
from contrastive_st.search.documents import open_corpus
from contrastive_st.search.mining.known_pairs import pair_columns

ROWS = [
    {
        "anchor": f"Where, if at all; is café |{i}|?",
        "positive": f'In the "old" town, on hill {i}; very near.',
        "nr": f"2{i}.10",
    }
    for i in range(6)
]
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "cp1252")
FORMATS = {
    **{f"a{d}{e}.csv": (d, e) for d in ",;|\t" for e in ENCODINGS},
    "a.tsv": ("\t", "utf-8"),
}  # fmt: skip
WHOLE = ["a.json", "a.jsonl", "a.parquet", *(f"a.jsonl{end}" for end in COMPRESS), "a.csv.gz"]
SHARDS = ["shards", "glob", "list", "splits", "mixed"]


def written(folder, name, monkeypatch):
    """The source of this name."""
    if name in FORMATS:
        return put(folder, f"a{name[-4:]}", delimited(ROWS, *FORMATS[name]))
    if name in WHOLE:
        return put(folder, name, ROWS)
    if name in ("saved", "hub"):
        datasets.Dataset.from_list(ROWS).save_to_disk(folder / "saved")
    if name == "saved":
        return folder / "saved"
    if name == "mixed":
        datasets.Dataset.from_list(ROWS[2:]).save_to_disk(folder / "saved", num_shards=2)
        return [str(put(folder, "a.csv", ROWS[:2])), str(folder / "saved")]
    if name == "hub":
        monkeypatch.setattr(datasets, "load_dataset", partial(on_hub, folder / "saved"))
        monkeypatch.setattr("contrastive_st.search.documents.hub_commit", lambda *args: "1")
        return "owner/name"
    parts = {f"{'train-' if name == 'splits' else 'part-'}{i}.jsonl": lines(ROWS[3 * i : 3 * i + 3]) for i in range(2)}
    put(folder, "many", parts | ({"test-0.jsonl": lines(ROWS[:1])} if name == "splits" else {}))
    paths = sorted(map(str, (folder / "many").glob("part-*")))
    return {"glob": str(folder / "many" / "part-*.jsonl"), "list": paths}.get(name, folder / "many")


def on_hub(saved, name, config, split, streaming=False, **options):
    data = datasets.load_from_disk(saved)
    return data.to_iterable_dataset() if streaming else data


def mined(source):
    import numpy as np

    return [column[np.arange(len(column))] for column in pair_columns(source, None, None)[0]]


def classified(source):
    rows, column, _ = _input(source, ["anchor"])
    return [row[column] for row in rows]


ANCHORS, POSITIVES = ([row[name] for row in ROWS] for name in ("anchor", "positive"))
DOORS = {
    "train": lambda source: [read_examples(source)[0][name][:] for name in ("anchor", "positive")],
    "train neighbors, static, quickthoughts, skipthoughts": lambda source: [list(corpus_texts(source, "anchor"))],
    "mine": mined,
    "encode": lambda source: [list(stream_texts(source, "anchor")())],
    "neighbors, group": lambda source: [read_corpus(source, "anchor")["anchor"][:]],
    "index": lambda source: [[one.text for one in open_corpus(source, column="anchor").read()]],
    "classify": lambda source: [classified(source)],
    "evaluate": lambda source: [list(column) for column in zip(*read_relevant_pairs(source).pairs, strict=True)],
}


@pytest.mark.parametrize("name", [*FORMATS, *WHOLE, "saved", "hub", *SHARDS])
def test_every_door_has_the_same_rows(name, tmp_path, monkeypatch):
    source = written(tmp_path, name, monkeypatch)
    for door, read in DOORS.items():
        if door == "index" and isinstance(source, list):
            with pytest.raises(InputError, match="there"):
                read(source)
            continue
        found = read(source if isinstance(source, list) else str(source))
        if door == "index" and name == "splits":  # all files of a folder are documents
            found = [found[0][1:]]
        assert found == [ANCHORS, POSITIVES][: len(found)], (door, found)


def test_cells_of_delimited_text_stay_strings(tmp_path):
    rows = [{"text": f"line {i}", "version": f"{i}.10", "code": f"00{i}"} for i in range(3)]
    put(tmp_path, "a.csv", rows)
    found = open_corpus(str(tmp_path / "a.csv")).read()
    assert [one.metadata["code"] for one in found] == ["000", "001", "002"]
    texts = ["two\rlines", "two\nlines", "two\r\nlines", "one, line", 'so "it" is']
    write_table(tmp_path / "b.csv", [{"text": text} for text in texts])
    assert read_examples(str(tmp_path / "b.csv"))[0]["text"][:] == texts
