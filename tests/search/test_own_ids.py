"""A corpus with ids of its own: an unchanged row is left alone, a changed one is an update; and deleting."""

import io
import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.models import SentenceEncoder
from contrastive_st.models.protocol import open_encoder
from contrastive_st.search.documents import cut, identified, open_corpus
from contrastive_st.search.opening import open_index
from contrastive_st.search.values import as_id, own_id

pytestmark = pytest.mark.slow

ROWS = [
    {"id": "talk-1", "text": "the tides rise at night", "year": 1999},
    {"id": 2, "text": "a cat sat on the harbour wall", "year": 2004},
    {"id": "3", "text": "taxes rose again", "year": 2004},
]


@pytest.fixture
def index(place, tmp_path, request):
    """Indexes rows into a collection of this test; returns how many texts were encoded."""
    collection = f"c{abs(hash(request.node.name)) % 10**8}"
    encoded = []

    def run(rows, *flags, name="corpus.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        encoded.clear()
        assert (
            main(["index", str(path), "--store", place, "--collection", collection, "--shard_rows", "2", *flags]) == 0
        )
        return sum(encoded)

    original = SentenceEncoder.encode_stream

    def counted(self, items, texts_of, **options):
        for item, vectors in original(self, items, texts_of, **options):
            encoded.append(len(vectors))
            yield item, vectors

    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(SentenceEncoder, "encode_stream", counted)
    run.collection = collection
    yield run
    monkeypatch.undo()


def stored(place, collection):
    """Text and metadata by the id of the row; and the vectors are those of the texts."""
    index = open_index(place, collection)
    try:
        found = {}
        for ids, texts, metadata, vectors in index.scan():
            wanted = open_encoder().encode(texts, normalize_embeddings=True)
            np.testing.assert_allclose(vectors, wanted, atol=1e-3)
            found |= {id: (text, item) for id, text, item in zip(ids.tolist(), texts, metadata, strict=True)}
        return found
    finally:
        index.close()


def as_stored(rows):
    return {as_id(row["id"]): (row["text"], {name: row[name] for name in row if name != "text"}) for row in rows}


def test_unchanged_rows_are_left_alone_and_changed_ones_are_updates(index, place):
    assert index(ROWS) == 3
    assert stored(place, index.collection) == as_stored(ROWS)
    assert index(ROWS) == 0
    changed = [ROWS[0], {**ROWS[1], "text": "a dog ran along the pier"}, {**ROWS[2], "year": 2005}]
    assert index([*changed, {"id": 4, "text": "rain fell", "year": 2006}]) == 2  # a year alone changes no vector
    everything = as_stored([*changed, {"id": 4, "text": "rain fell", "year": 2006}])
    assert stored(place, index.collection) == everything
    assert index([ROWS[0]]) == 0  # rows that the corpus has lost stay
    assert stored(place, index.collection) == everything


@pytest.mark.parametrize("kind", ["hnsw", "binary"])
def test_an_update_reaches_the_graph(index, place, capsys, kind):
    index(ROWS, "--index", kind)
    index([{**ROWS[2], "text": "whales sing in the deep sea"}], "--index", kind, name="other.jsonl")
    where = ["--store", place, "--collection", index.collection, "--json", "-k", "1"]
    capsys.readouterr()
    assert main(["search", "whales sing in the deep sea", *where]) == 0
    hit = json.loads(capsys.readouterr().out)
    assert (hit["id"], hit["score"]) == (3, pytest.approx(1.0, abs=1e-3))
    assert main(["similar", "talk-1", *where]) == 0
    assert json.loads(capsys.readouterr().out)["id"] in (2, 3)


def test_numbers_of_rows_and_own_ids_do_not_meet_in_a_collection(index, place, tmp_path, capsys):
    index(ROWS)
    text = tmp_path / "plain.txt"
    text.write_text("a line\n")
    where = ["--store", place, "--collection", index.collection]
    assert main(["index", str(text), *where]) == 2
    assert "choose another --collection" in capsys.readouterr().err
    assert main(["index", str(tmp_path / "corpus.jsonl"), "--id_column", "", *where]) == 2


@pytest.mark.parametrize(
    ("row", "words"),
    [({"id": 2, "text": "twice"}, r"line 4 has the id 2 of .*corpus\.jsonl, line 2; make"),
     ({"id": 1.5, "text": "half"}, "line 4: 1.5 is not an id"),
     ({"id": 1 << 64, "text": "long"}, r"line 4: 18446744073709551616 is not an id.*--id_column"),
     ({"id": None, "text": "none"}, "line 4: there is no id"), ({"text": "none"}, "line 4: there is no id")],
)  # fmt: skip
def test_rows_without_an_id_of_their_own_are_named(tmp_path, row, words):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*ROWS, row]))
    with pytest.raises(InputError, match=words):
        list(identified(open_corpus(str(path))).read())


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


def test_chunks_are_numbered(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    corpus = cut(open_corpus(str(path)), "sentences")
    assert not corpus.own_ids
    assert {document.id for document in corpus.read()} == {None}


def test_delete(index, place, tmp_path, capsys, monkeypatch):
    index(ROWS, "--index", "binary")
    where = ["delete", index.collection, "--store", place]
    assert main([*where, "--yes", "--filter", "year>=2004", "--filter", "id=3"]) == 0
    assert stored(place, index.collection) == as_stored(ROWS[:2])
    assert main([*where, "--filter", "yaer=1"]) == 2
    assert "no document has a value in the column 'yaer'" in capsys.readouterr().err
    (tmp_path / "ids").write_text("talk-1\n\n77\n")
    capsys.readouterr()
    assert main([*where, "--yes", "--ids", str(tmp_path / "ids")]) == 0
    assert "deleted 1 documents; 1 are left" in capsys.readouterr().err
    assert stored(place, index.collection) == as_stored(ROWS[1:2])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"2\n")))
    assert main([*where, "--yes", "--ids", "-"]) == 0
    assert stored(place, index.collection) == {}
    for flags, words in (
        ([], "give --filter or --ids, one of them"),
        (["--ids", "/no/such/file"], "No such file"), (["--filter", "year=1", "--ids", "-"], "one of them"),
    ):  # fmt: skip
        assert main([*where, *flags]) == 2
        assert words in capsys.readouterr().err
    assert main(["delete", "nowhere", "--store", place, "--filter", "a=1"]) == 2
    assert "there is no collection 'nowhere'" in capsys.readouterr().err


def test_an_empty_filter_deletes_nothing(index, place):
    index(ROWS)
    store = open_index(place, index.collection)
    with pytest.raises(InputError, match="empty filter"):
        store.delete_matching({})
    with pytest.raises(InputError, match="'yaer'"):
        store.delete_matching("yaer=1")
    assert store.delete_matching("year=1") == 0
    assert len(store) == 3
    store.close()
