"""A corpus with ids of its own: an unchanged row is left alone, a changed one is an update; and deleting."""

import io
import json
import sys

import pyarrow as pa
import pyarrow.parquet
import pytest
from refusals import refused, told

from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.search.documents import identified, open_corpus
from contrastive_st.search.opening import open_index
from contrastive_st.search.values import own_id

pytestmark = pytest.mark.slow

ROWS = [
    {"id": "talk-1", "text": "the tides rise at night", "year": 1999},
    {"id": 2, "text": "a cat sat on the harbour wall", "year": 2004},
    {"id": "3", "text": "taxes rose again", "year": 2004},
]


def write(folder, rows):
    path = folder / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def index(place, tmp_path, request, capsys):
    """Indexes rows into a collection of this test; returns the exit code and stderr."""
    collection = f"c{abs(hash(request.node.name)) % 10**8}"

    def run(rows, *flags):
        capsys.readouterr()
        code = main(["index", write(tmp_path, rows), "--store", place, "--collection", collection,
                     "--shard_rows", "2", "--index", "none", *flags])  # fmt: skip
        return code, capsys.readouterr().err

    def delete(*flags):
        capsys.readouterr()
        code = main(["delete", collection, "--store", place, *flags])
        return code, capsys.readouterr().err

    def load(rows, *flags):
        folder = tmp_path / f"shards{len(list(tmp_path.glob('shards*')))}"
        told(capsys, "index", write(tmp_path, rows), "--output", folder, "--shard_rows", "2")
        code = main(["index", str(folder), "--store", place, "--collection", collection, "--index", "none", *flags])
        return code, capsys.readouterr().err

    run.load = load
    run.delete, run.open = delete, lambda: open_index(place, collection)
    return run


def there(index):
    """Text and metadata of the documents."""
    with index.open() as found:
        return [
            {**item, "text": text}
            for _, texts, items, _ in found.scan()
            for text, item in zip(texts, items, strict=True)
        ]


def ids(index):
    return sorted(str(row["id"]) for row in there(index))


def test_unchanged_rows_are_left_alone_and_changed_ones_are_updates(index):
    assert "3 of 3 rows added" in index(ROWS)[1]
    assert "0 of 3 rows added, 0 updated, 3 unchanged" in index(ROWS)[1]
    changed = [ROWS[0], {**ROWS[1], "text": "a dog ran along the pier"}, {**ROWS[2], "year": 2005}]
    changed.append({"id": 4, "text": "rain fell", "year": 2006})
    assert "1 of 4 rows added, 2 updated, 1 unchanged" in index(changed)[1]
    assert "0 of 1 rows added" in index([ROWS[0]])[1]  # rows that the corpus has lost stay
    by_id = lambda rows: sorted(rows, key=lambda row: str(row["id"]))
    assert by_id(there(index)) == by_id(changed)


@pytest.mark.parametrize("flags", [[], ["--sync"], ["--replace"], ["shards"], ["shards", "--replace"]], ids=" ".join)
def test_a_row_without_a_token_any_more_is_left_out_as_by_a_first_index(index, flags):
    assert index(ROWS)[0] == 0
    changed = [{**ROWS[0], "text": "\u2063\u2063"}, *ROWS[1:]]
    by_shards = flags[:1] == ["shards"]
    for removed in (", 1 removed", ""):
        said = index.load(changed, *flags[1:])[1] if by_shards else index(changed, *flags)[1]
        counts = "2 updated, 0 unchanged" if "--replace" in flags else "0 updated, 2 unchanged"
        assert f"0 of {2 if by_shards else 3} rows added, {counts}{removed} in" in said
        assert by_shards or "left out: 1 without a token" in said
        assert ids(index) == ["2", "3"]
    assert "1 of 3 rows added, 0 updated, 2 unchanged in" in index(ROWS)[1]


def test_a_row_without_a_token_any_more_stays_while_another_corpus_has_its_id(index, tmp_path):
    index(ROWS)
    (tmp_path / "other").mkdir()
    with index.open() as store:
        main(["index", write(tmp_path / "other", ROWS[:1]), "--store", str(store.database.where),
              "--collection", store.collection, "--index", "none"])  # fmt: skip
    index([{**ROWS[0], "text": "\u2063\u2063"}, *ROWS[1:]])
    assert ids(index) == ["2", "3", "talk-1"]
    with index.open() as store:  # and no longer than that has it
        main(["index", write(tmp_path / "other", [{**ROWS[0], "id": "talk-2"}]), "--store", str(store.database.where),
              "--collection", store.collection, "--index", "none", "--sync"])  # fmt: skip
    assert ids(index) == ["2", "3", "talk-2"]


def test_shards_that_are_loaded_again_are_counted_as_their_corpus_is(index):
    rows = [{"text": row["text"], "year": row["year"]} for row in ROWS]
    assert "3 of 3 rows added, 0 updated, 0 unchanged in" in index.load(rows)[1]
    index.delete("--filter", "year=1999", "--yes")
    for way in (index.load, index, index.load):
        said = way(rows)[1]
        assert "0 of 3 rows added, 0 updated, 2 unchanged in" in said
        assert "1 rows are left out because they were deleted" in said


def test_the_column_named_id_has_the_ids_whatever_metadata_are_kept(index):
    index(ROWS, "--metadata", "year")
    changed = [ROWS[0], {**ROWS[1], "text": "a dog ran along the pier"}, ROWS[2]]
    assert "0 of 3 rows added, 1 updated, 2 unchanged" in index(changed, "--metadata", "year", "--id_column", "id")[1]
    with index.open() as found:
        hits = found.get(["talk-1", 2])
    assert [(hit.own_id, hit.metadata) for hit in hits] == [("talk-1", {"year": 1999}), (2, {"year": 2004})]


@pytest.mark.parametrize(
    ("row", "words"),
    [({"id": 2, "text": "twice"}, r"line 4 has the id 2 of .*corpus\.jsonl, line 2; make"),
     ({"id": 1.5, "text": "half"}, "line 4: 1.5 is not an id"),
     ({"id": 1 << 64, "text": "long"}, r"line 4: 18446744073709551616 is not an id.*--id_column"),
     ({"id": None, "text": "none"}, "line 4: there is no id"), ({"text": "none"}, "line 4: there is no id")],
)  # fmt: skip
def test_rows_without_an_id_of_their_own_are_named(tmp_path, row, words):
    with pytest.raises(InputError, match=words):
        list(identified(open_corpus(write(tmp_path, [*ROWS, row]))).read())


@pytest.mark.parametrize("first", [{"id": None}, {}], ids=["null", "missing"])
def test_a_first_row_without_an_id_is_at_fault_as_any_other(index, first):
    code, said = index([{**first, "text": "none"}, *ROWS])
    assert (code, "line 1: there is no id" in said or "line 1 has none" in said) == (2, True), said
    assert index([{**first, "text": "none"}, *ROWS], "--id_column", "")[0] == 0


def test_whole_numbers_are_ids_however_they_are_written(tmp_path):
    pa.parquet.write_table(pa.table({"id": [1.0, 2.0], "text": ["one", "two"]}), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("id,text\n1.0,one\n2.0,two\n")
    for name in ("a.parquet", "a.csv"):
        assert [document.id for document in identified(open_corpus(str(tmp_path / name))).read()] == [1, 2]
    assert own_id(1, {"id": "1.0"}) == 1  # not the text, which is not hashed


def test_rows_of_one_id_in_two_files_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("id,text\n1,one\ntalk-7,two\n")
    (tmp_path / "b.csv").write_text("id,text\n2,one\ntalk-7,two\n")
    with pytest.raises(InputError, match=r"b\.csv"):
        list(identified(open_corpus(str(tmp_path))).read())


def test_numbers_of_rows_and_ids_do_not_meet_in_a_collection(index):
    index(ROWS)
    code, said = index(ROWS, "--id_column", "")
    assert (code, "choose another --collection" in said) == (2, True)
    code, said = index(ROWS, "--id_column", "", "--sync")
    assert (code, "--sync needs a folder, or rows with ids" in said) == (2, True)


# --- Deleting


def test_what_would_be_deleted_is_shown_before_it_is(index, monkeypatch):
    index(ROWS)
    code, said = index.delete("--filter", "year>=2004", "--filter", "id!=2")
    assert (code, "1 of 3 documents" in said) == (2, True)
    assert said.splitlines()[-1] == "error: nothing was deleted; without a terminal to ask on, give --yes"
    with monkeypatch.context() as terminal:
        typed = io.StringIO("n\n")
        typed.isatty = lambda: True
        terminal.setattr(sys, "stdin", typed)
        terminal.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        assert index.delete("--filter", "year=2004")[0] == 2
    assert len(ids(index)) == 3
    assert index.delete("--filter", "year>=2004; id!=2", "--yes")[0] == 0
    assert ids(index) == ["2", "talk-1"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"2\n")))
    assert index.delete("--yes", "--ids", "-")[0] == 0
    assert ids(index) == ["talk-1"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_file_of_ids_in_any_encoding(index, tmp_path, encoding):
    index(ROWS)
    (tmp_path / "ids.txt").write_text("talk-1\r\n\r\n7\r\nno-such\r\n", encoding=encoding)
    code, said = index.delete("--ids", str(tmp_path / "ids.txt"), "--yes")
    assert (code, "no document has 2 of the ids: 7, no-such\n" in said) == (0, True)
    assert ids(index) == ["2", "3"]


@pytest.mark.parametrize("flags", [[], ["--id_column", ""]], ids=["ids", "numbers"])
def test_what_was_deleted_stays_away_until_it_is_restored(index, flags):
    index(ROWS, *flags)
    for flag in ("--restore", "--replace"):
        index.delete("--filter", "year=2004", "--yes")
        said = index(ROWS, *flags)[1]
        assert "0 of 3 rows added" in said
        assert "2 rows are left out because they were deleted from the collection" in said
        assert ids(index) == ["talk-1"]
        assert "2 of 3 rows added" in index(ROWS, *flags, flag)[1]
        assert len(ids(index)) == 3


def test_a_deletion_at_fault_deletes_nothing(index, place, capsys):
    index(ROWS)
    for flags, words in (
        ([], "give --filter or --ids, one of them"), (["--filter", "yaer=1"], "in the column 'yaer'"),
        (["--ids", "/no/such/file"], "No such file"), (["--filter", "year=1", "--ids", "-"], "one of them"),
    ):  # fmt: skip
        code, said = index.delete(*flags, "--yes")
        assert (code, words in said) == (2, True), said
    with index.open() as store, pytest.raises(InputError, match="empty filter"):
        store.delete_matching({})
    assert len(ids(index)) == 3
    assert "'nowhere'" in refused(capsys, "delete", "nowhere", "--store", place, "--filter", "a=1")
