"""What cannot be read is one line at every door: texts, examples, pairs, corpora and the lines of evaluations."""

import json
import os

import datasets
import kreuzberg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_documents import pdf_of
from refusals import refusal

from contrastive_st.data import SentenceCorpus, read_examples, read_texts
from contrastive_st.data.reading import open_table
from contrastive_st.errors import InputError, install, one_line
from contrastive_st.evaluation.datasets.senteval import read_lines
from contrastive_st.search.documents import open_corpus

DOORS = {
    "texts": lambda source: read_texts(source),
    "examples": lambda source: read_examples(source),
    "corpus": lambda source: list(open_corpus(source).read()),
    "sentences": lambda source: SentenceCorpus(source, None, 8),
    "lines": lambda source: read_lines(source),
}
TABLES = [door for door in DOORS if door not in ("lines", "sentences")]


def refused(door, source, *fragments):
    with refusal("", *fragments):
        DOORS[door](str(source))


@pytest.mark.parametrize("door", DOORS)
def test_what_is_no_file(door, tmp_path):
    (tmp_path / "link.txt").symlink_to(tmp_path / "gone.txt")
    refused(door, tmp_path / "link.txt", "no such file")
    refused(door, tmp_path / "gone.txt" / "deeper.txt", "no")
    with pytest.raises(OSError, match="too long"):
        DOORS[door](str(tmp_path / f"{'long' * 100}.txt"))
    refused(door, "~nobody-of-that-name/a.txt", "no such file")
    (tmp_path / "loop.txt").symlink_to(tmp_path / "loop.txt")
    with pytest.raises(OSError, match="loop"):
        DOORS[door](str(tmp_path / "loop.txt"))
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises((InputError, OSError)):
        DOORS[door](str(tmp_path / "folder.txt"))
    with pytest.raises(ValueError, match=r"null|no such file"):
        DOORS[door]("no\0name.txt")


@pytest.mark.parametrize("door", [*TABLES, "sentences"])
def test_a_pipe_cannot_be_read_twice(door, tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    refused(door, tmp_path / "pipe.txt", "not a regular file")


@pytest.mark.parametrize("door", [door for door in DOORS if door != "lines"])
def test_a_dangling_link_in_a_folder_and_an_empty_folder(door, tmp_path):
    refused(door, tmp_path)
    (tmp_path / "link.txt").symlink_to(tmp_path / "gone.txt")
    refused(door, tmp_path)


@pytest.mark.parametrize("door", TABLES)
@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        ("[" * 200_000, "recursion"),
        ('{"text": ' * 200_000, "recursion"),
        ('{"text": "a", "n": ' + "7" * 5000 + "}", "line 1"),
        ('{"text": "a"}\n{"text": ', "line 2: invalid JSON"),
        ('{"text": "a"} x', "invalid JSON"),
    ],
    ids=range(5),
)
def test_json(door, content, fragment, tmp_path):
    for suffix in (".jsonl", ".json"):
        (tmp_path / f"a{suffix}").write_text(content)
        refused(door, tmp_path / f"a{suffix}", fragment)


@pytest.mark.parametrize("door", [*TABLES, "sentences"])
def test_parquet_with_text_that_is_not_utf8(door, tmp_path):
    cells = [b"good"] * 9 + [b"caf\xe9"]
    broken = pa.array(cells, pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": broken, "doc": [1] * 10}), tmp_path / "a.parquet")
    with pytest.raises((UnicodeDecodeError, pa.ArrowInvalid), match=r"utf-8|UTF8") as caught:
        DOORS[door](str(tmp_path / "a.parquet"))
    assert "a.parquet" in one_line(caught.value)


@pytest.mark.parametrize("door", [*TABLES, "sentences"])
def test_damaged_parquet(door, tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"sentence {i}" for i in range(1000)], "doc": [1] * 1000}), path)
    whole = path.read_bytes()
    for damaged in (b"nonsense", whole[:-100], whole[:4] + bytes(200) + whole[204:]):
        path.write_bytes(damaged)
        with pytest.raises((InputError, OSError, pa.ArrowException)) as caught:
            DOORS[door](str(path))
        assert door == "sentences" or "a.parquet" in getattr(caught.value, "about", "") + str(caught.value)


def test_a_cell_is_longer_than_pythons_own_reader_takes_and_a_page_is_deep(tmp_path):
    (tmp_path / "a.csv").write_text("text\n" + "word " * 100_000 + "\n")
    assert len(read_texts(str(tmp_path / "a.csv"))[0]["text"]) == 499_999
    (tmp_path / "a.html").write_text("<div>" * 100_000 + "deep")
    assert [document.text for document in open_corpus(str(tmp_path / "a.html")).read()] == ["deep"]


def test_numbers_too_long_for_a_score(tmp_path):
    (tmp_path / "a.csv").write_text("query,answer,score\nx,y," + "7" * 5000 + "\n")
    refused("examples", tmp_path / "a.csv", "is not in 0 to 1")
    for digits in (30, 400, 5000):
        (tmp_path / "a.csv").write_text("a,b,label\nx,y," + "7" * digits + "\n")
        refused("examples", tmp_path / "a.csv")


# ---- what `save_to_disk` wrote


def test_a_saved_folder_is_data_at_every_door(tmp_path):
    data = datasets.Dataset.from_dict({"question": ["why ", "how"], "answer": ["so", "thus"], "score": [0.5, 1.0]})
    data.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": data, "test": data.select([1])}).save_to_disk(tmp_path / "split")
    for name in ("one", "split"):
        source = str(tmp_path / name)
        assert read_texts(source, ["question"])["question"][:] == ["why", "how"]
        assert read_examples(source)[1].kind == "scored_pairs"
        documents = list(open_corpus(source, column="question").read())
        assert [(document.text, document.metadata) for document in documents] == [
            ("why", {"answer": "so", "score": 0.5}),
            ("how", {"answer": "thus", "score": 1.0}),
        ]
    assert read_texts(str(tmp_path / "split"), split="test").num_rows == 1
    with pytest.raises(InputError, match="'dev'"):
        read_texts(str(tmp_path / "split"), split="dev")
    before = open_corpus(str(tmp_path / "one")).fingerprint
    (tmp_path / "one" / "data-00000-of-00001.arrow").write_bytes(b"not arrow")
    assert open_corpus(str(tmp_path / "one")).fingerprint != before
    for door in TABLES:
        with pytest.raises(pa.ArrowException) as caught:
            DOORS[door](str(tmp_path / "one"))
        assert "save_to_disk" in caught.value.about


# ---- documents


@pytest.mark.parametrize("content", [b"nonsense", b"%PDF-1.4\n", b"%PDF-1.4\ntrailer<</Root 1 0 R>>\n%%EOF"])
def test_damaged_documents(tmp_path, content):
    (tmp_path / "a.pdf").write_bytes(content)
    with pytest.raises(kreuzberg.ParsingError) as caught:
        list(open_corpus(str(tmp_path / "a.pdf")).read())
    assert "a.pdf" in one_line(caught.value)


def test_a_reader_that_is_not_installed_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "kreuzberg", None)
    (tmp_path / "a.pdf").write_bytes(pdf_of("x"))
    refused("corpus", tmp_path / "a.pdf", install("documents"))


# ---- a changed corpus is noticed


def test_an_edit_in_the_middle_of_equal_length_is_noticed(tmp_path):
    path = tmp_path / "a.txt"
    lines = [f"line {i:07}" for i in range(400_000)]
    path.write_text("\n".join(lines))
    before, facts = open_corpus(str(path)).fingerprint, path.stat()
    assert open_corpus(str(path)).fingerprint == before
    lines[200_000] = "LINE 0200000"
    path.write_text("\n".join(lines))
    assert path.stat().st_size == facts.st_size
    assert open_corpus(str(path)).fingerprint != before


def test_rows_can_be_read_as_often_as_wanted(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([{"a": 1}, {"a": 2}]))
    rows = open_table(tmp_path / "a.json")
    assert list(rows) == list(rows)
    assert rows.where(2).endswith("a.json, object 2")


@pytest.mark.parametrize("door", [door for door in DOORS if door != "lines"])
@pytest.mark.parametrize("log", ["_delta_log/0.json", ".hoodie/hoodie.properties", "metadata/v1.metadata.json"])
def test_a_table_of_which_a_log_says_what_its_files_hold_now(door, log, tmp_path):
    for name in (f"table/{log}", "table/data/a.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a former row\n")
    for folder in (tmp_path / "table", tmp_path):
        refused(door, folder, f"{tmp_path / 'table'} is a table of ", "; write those of now with ")


@pytest.mark.parametrize("other", [".venv/_delta_log/0.json", "api/metadata/button.metadata.json", "notes/_delta_log"])
def test_what_only_is_called_as_a_log_is_left_alone(other, tmp_path):
    for name, content in {other: '{"text": "a row"}', "a.txt": "a row\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert "a.txt" in {document.metadata["file"] for document in open_corpus(str(tmp_path)).read()}
