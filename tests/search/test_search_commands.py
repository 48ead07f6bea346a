"""The commands of search as a user types them: what is refused before the work, what is printed, what is written."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from index_worker import HashEncoder
from refusals import refused, told
from store_places import new_store, postmaster, store_place, unit_vectors

from conftest import SENTENCES, save_both
from contrastive_st import BertForCL, SentenceEncoder
from contrastive_st.cli import main
from contrastive_st.errors import InputError, one_line
from contrastive_st.search.documents import texts_corpus
from contrastive_st.search.exact import ExactIndex
from contrastive_st.search.index import Unreachable
from contrastive_st.search.ingest import index_corpus, load_shards
from contrastive_st.search.postgres.loader import StoreLoader
from contrastive_st.search.postgres.store import VectorStore
from contrastive_st.search.shards import Encoding, ShardFolder

pytestmark = pytest.mark.slow

HOSTILE = "a\x1b[2Jclears \x9b31m the \u202escreen"


@pytest.fixture
def shards(tmp_path):
    """A folder of encoded shards of four documents, two of them alike, all hostile to a terminal."""
    vectors = unit_vectors(4)
    vectors[1] = vectors[0]
    folder = ShardFolder(tmp_path / "shards", Encoding("m", "f", 8, "corpus", "mark", 20))
    texts, metadata = [f"{HOSTILE} {i}" for i in range(4)], [{"k": HOSTILE, "year": i} for i in range(4)]
    folder.add(0, (np.arange(4), texts, metadata, vectors))
    assert folder.finish(1)
    return str(folder.folder)


# --- What is printed and written


def test_documents_cannot_act_on_the_terminal(shards, capsys, tmp_path):
    for command in (["similar", "0"], ["duplicates"], ["trends", "--by", "k"], ["similar", "0", "--json"]):
        shown = told(capsys, *command, "--store", shards)
        assert "clears" in shown.out
        assert not any(character in shown.out + shown.err for character in "\x1b\x9b\u202e")


def test_documents_and_queries_have_the_prompts_of_the_model(tmp_path, capsys, bert_config, tokenizer):
    model = BertForCL(bert_config, pooling="mean", prompts={"query": "the cat ", "document": "old town: "},
                      include_prompt=False, truncate_dim=6)  # fmt: skip
    folder = save_both(model, tokenizer, tmp_path / "model")
    (tmp_path / "texts.txt").write_text("\n".join(SENTENCES))
    where, named = str(tmp_path / "shards"), ["--model", str(folder), "--precision", "fp32"]
    assert main(["index", str(tmp_path / "texts.txt"), "--output", where, *named]) == 0
    encoder = SentenceEncoder(folder)
    documents = encoder.encode_document(SENTENCES, normalize_embeddings=True)
    np.testing.assert_allclose(next(ExactIndex.open(where).scan())[3], documents, atol=1e-3)  # kept in float16
    capsys.readouterr()
    assert main(["search", "a dog", "--store", where, "-k", "8", "--json"]) == 0
    found = {hit["text"]: hit["score"] for hit in map(json.loads, capsys.readouterr().out.splitlines())}
    scores, without = (
        documents @ encoder.encode("a dog", normalize_embeddings=True, **prompt)
        for prompt in ({"prompt_name": "query"}, {"prompt": ""})
    )
    np.testing.assert_allclose([found[text] for text in SENTENCES], scores, atol=5e-3)
    assert np.abs(scores - without).max() > 2e-2


@pytest.mark.parametrize("storage", ["int8", "ubinary"])
def test_shards_of_a_byte_or_a_bit_a_number(tmp_path, capsys, storage):
    text, where = str(tmp_path / "texts.txt"), str(tmp_path / "shards")
    Path(text).write_text("\n".join([*SENTENCES, SENTENCES[3]]))
    told(capsys, "index", text, "--output", where, "--storage", storage)
    assert main(["search", SENTENCES[3], "--store", where, "-k", "2", "--json"]) == 0
    hits = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [hit["text"] for hit in hits] == [SENTENCES[3]] * 2
    assert [hit["score"] for hit in hits] == pytest.approx([1.0] * 2, abs=1e-3 if storage == "int8" else 0.5)
    error = refused(capsys, "index", text, "--output", where, "-m", "static-minilm")
    assert f"precision {storage}, not float32" in error or f"precision float32, not {storage}" in error
    assert "the store can hold halfvec, vector" in refused(capsys, "index", text, "--storage", storage)
    assert "shards can hold" in refused(capsys, "index", text, "-o", "x", "--storage", "vector")


def test_hits_below_a_score_are_left_out(capsys, tmp_path):
    (tmp_path / "corpus.txt").write_text("\n".join(SENTENCES))
    assert main(["index", str(tmp_path / "corpus.txt"), "--output", str(tmp_path / "out")]) == 0
    search = ["search", "tide", "--store", str(tmp_path / "out"), "-k", "3", "--min_score"]
    assert "left out: 3 of 3 hits, with a score below 0.99\nno hits" in told(capsys, *search, "0.99").err
    assert "--min_score" in refused(capsys, *search, "2")


def test_files_are_written_before_anything_is_printed(shards, tmp_path, monkeypatch):
    def closed(*_):
        raise BrokenPipeError

    monkeypatch.setattr("contrastive_st.search.cli.say", closed)
    texts, groups, folder = tmp_path / "texts.txt", tmp_path / "groups.csv", tmp_path / "trends"
    texts.write_text("a cat sleeps\nthe cat is sleeping\n")
    own = ["--threshold", "0.01"]
    for command, output in (
        (["duplicates", "--store", shards, *own], tmp_path / "pairs.csv"),
        (["group", str(texts), "--min_community_size", "2", *own], groups),
        (["trends", "--store", shards], folder / "trends.csv"),
    ):
        where = folder if command[0] == "trends" else output
        assert main([*command, "-o", str(where)]) == 2
        assert output.stat().st_size


def test_outputs_are_not_overwritten_unasked_and_appear_whole(shards, capsys, tmp_path, monkeypatch):
    groups, folder = tmp_path / "groups.csv", tmp_path / "trends"
    groups.write_text("mine")
    folder.mkdir()
    (folder / "trends.csv").write_text("mine")
    (folder / "notes").write_text("mine too")
    for command, output in (("duplicates", groups), ("trends", folder)):
        assert "give --overwrite" in refused(capsys, command, "--store", shards, "-o", str(output))
        told(capsys, command, "--store", shards, "-o", output, "--overwrite")
    assert "mine" not in groups.read_text() + (folder / "trends.csv").read_text()
    assert (folder / "notes").read_text() == "mine too"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("contrastive_st.search.analysis.projection.draw_map", fails)
    assert "No space left" in refused(capsys, "trends", "--store", shards, "-o", str(folder), "--overwrite")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


# --- What is refused, in one line, before the work


def test_numbers_out_of_range(shards, capsys):
    for k in (str(2**70), "0", "-1"):
        assert "give a number from 1 to 100,000" in refused(capsys, "similar", "0", "-k", k, "--store", shards)
    assert "--limit -1" in refused(capsys, "duplicates", "--limit", "-1", "--store", shards)
    assert "groups" in told(capsys, "duplicates", "--limit", "0", "--threshold", "0.01", "--store", shards).err
    assert "--seed" in refused(capsys, "trends", "--seed", "-1", "--store", shards)


def test_a_mistyped_column_is_named_and_leaves_nothing_behind(place, tmp_path, capsys):
    (tmp_path / "corpus.csv").write_text("title,text\na,the cat\nb,the dog\n")
    where = ["--store", place, "--collection", "columns"]
    command = ["index", tmp_path / "corpus.csv", "-m", "static-minilm", *where]
    assert "unknown column 'txet'; choose one of title, text" in refused(capsys, *command, "--columns", "txet")
    assert "there is no collection" in refused(capsys, "similar", "0", *where)
    assert '"maintenance_work_mem": "lots"' in refused(capsys, *command, "--build_memory", "lots")
    assert main([*map(str, command), "--columns", "title"]) == 0
    assert "--storage" in refused(capsys, *command, "--columns", "title", "--storage", "vector")
    assert main([*map(str, command), "--columns", "title", "--replace"]) == 0  # all are encoded again
    assert "0 of 2 rows added, 2 updated" in capsys.readouterr().err
    assert "unknown column 'txet'" in refused(capsys, *command, "--columns", "txet")
    assert "give --replace" in refused(capsys, *command, "--columns", "text")


@pytest.mark.parametrize("column", ["title", "0", "title=text"])
def test_a_column_that_is_there_is_not_said_to_be_in_none_of_the_files(column, tmp_path, capsys):
    (tmp_path / "corpus.csv").write_text("title,text\na,the cat\nb,the dog\n")
    command = ["index", tmp_path / "corpus.csv", "-m", "static-minilm", "--output", tmp_path / "out"]
    said = told(capsys, *command, "--columns", column).err
    assert "2 of 2 rows added" in said
    assert "in none of the files" not in said


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--shard_rows=0", "--shard_rows 0: give"), (f"--shard_rows={2**70}", f"--shard_rows {2**70}: give"),
        ("--partitions=0", "--partitions 0: give"), ("--partitions=5000", "--partitions 5000: give"),
        ("--collection=A B", "is not a valid name"), ("--output=shards --language=german", "--language"),
    ],
)  # fmt: skip
def test_index_refuses_an_option_before_it_reads_or_loads(flag, words, capsys):
    """The corpus and the model are not there, and are not missed."""
    flags = flag.split(" --")
    assert words in refused(capsys, "index", "none.txt", "-m", "none", flags[0], *(f"--{one}" for one in flags[1:]))


def test_a_first_index_that_fails_leaves_no_collection(place, tmp_path, capsys, monkeypatch, bert_config, tokenizer):
    save_both(BertForCL(bert_config, pooling="mean"), tokenizer, tmp_path / "model")
    (tmp_path / "corpus.txt").write_text("the cat\nthe dog\n")
    where = ["--store", place, "--collection", "first"]
    command = ["index", str(tmp_path / "corpus.txt"), "-m", str(tmp_path / "model"), *where]

    def breaks(encoder, items, texts_of, longer=None):
        next(iter(items))
        raise InputError("the model broke")
        yield

    with monkeypatch.context() as patched:
        patched.setattr(SentenceEncoder, "encode_stream", breaks)
        assert "the model broke" in refused(capsys, *command)
        assert "there is no collection" in refused(capsys, "similar", "0", *where)
        with new_store(place, "first", fingerprint="another") as store:
            store.drop()  # nothing was in the way
        assert "the model broke" in refused(capsys, *command)
    assert main(command) == 0
    told(capsys, "similar", "0", *where)
    with monkeypatch.context() as patched:
        patched.setattr(SentenceEncoder, "encode_stream", breaks)
        (tmp_path / "more.txt").write_text("the bird\n")
        assert "the model broke" in refused(capsys, "index", str(tmp_path / "more.txt"), *command[2:])
    assert main(["similar", "0", *where]) == 0  # what was there before stays


def test_an_unused_collection_goes_and_one_that_is_used_stays(place):
    with new_store(place, "used") as store:
        assert store.made
        loader = StoreLoader(store, "corpus", "mark")
        assert loader.claim(0)
        store.drop(only_unused=True)  # a process encodes its first shard
        loader.add(0, (np.arange(1), ["x"], [{}], unit_vectors(1)))
        loader.close()
        store.drop(only_unused=True)  # a document is there
        with VectorStore(place, "used") as same:
            assert not same.made
            assert len(same) == 1
        store.delete([0])
        store.drop(only_unused=True)
        with pytest.raises(InputError, match="no collection"):
            VectorStore(place, "used")


def test_a_source_without_a_shard_is_no_source(place):
    """A first run that failed before its first shard is forgotten; one that had shards is not."""
    with new_store(place, "failed") as store:
        late = StoreLoader(store, "corpus", "wrong column")
        loader = StoreLoader(store, "corpus", "right column")
        assert loader.claim(0)
        late.add(1, (np.arange(2), ["x", "y"], [{}, {}], unit_vectors(2)))  # by a process of the run that was given up
        assert len(store) == 0
        loader.add(0, (np.arange(1), ["x"], [{}], unit_vectors(1)))
        with pytest.raises(InputError, match="--replace"):
            StoreLoader(store, "corpus", "third column")
        assert len(store) == 1
        late.close()
        loader.close()
        store.drop()


@pytest.mark.parametrize("value", [np.nan, 0.0, np.inf])
def test_vectors_without_a_direction_are_not_stored(tmp_path, value):
    class Broken(HashEncoder):
        def encode(self, texts):
            vectors = super().encode(texts)
            vectors[1] = value
            return vectors

    folder = ShardFolder(tmp_path / "shards", Encoding("m", "f", 16, "corpus", "mark", 20))
    if value == 0.0:  # how an encoder says that it knows no token of a text
        assert index_corpus(texts_corpus("corpus", ["a", "b", "c"]), Broken(), folder).encoded == 2
    else:
        with pytest.raises(InputError, match="infinite"):
            index_corpus(texts_corpus("corpus", ["a", "b", "c"]), Broken(), folder)
        assert folder.paths() == []
    folder.add(0, (np.arange(2), ["a", "b"], [{}, {}], np.full((2, 16), value, np.float32)))
    assert folder.finish(1)
    with pytest.raises(InputError, match="NaN"):
        load_shards(folder, ShardFolder(tmp_path / "other", folder.encoding))


def test_a_port_that_cannot_be_had_is_told_before_a_model_is_loaded(shards, capsys, monkeypatch):
    pytest.importorskip("gradio")
    from contrastive_st.serve.gate import reserve

    monkeypatch.setattr("contrastive_st.search.opening.open_encoder_for", lambda *_: pytest.fail("a model was opened"))
    with reserve(port=0) as listener:
        for port in (listener.getsockname()[1], 70_000):
            assert f":{port}: " in refused(capsys, "serve", shards, "--port", str(port))
    assert "--port" in refused(capsys, "serve", shards, "--host", "no.such.host.invalid", "--port", "0")


# --- Collections


def test_names_that_collide_are_refused(place, capsys):
    """An index or a table of one collection would take the name of another collection."""
    for name in ("foo_hnsw", "baz_binary", "x_texts", "x_vectors", "x_vectors_0", "collections", "sources", "shards",
                 "migrations", "a_metadata", "a_words", "a_texts_pkey", "a_vectors_0_embedding_idx"):  # fmt: skip
        with pytest.raises(InputError, match="ending"):
            new_store(place, name)
        with pytest.raises(InputError, match="no collection"):
            VectorStore(place, name)
    for name in ("texts", "my_talks", "hnsw", "words_2020"):
        with new_store(place, name) as store:
            store.drop()


def test_the_same_model_in_another_folder_goes_on_and_is_found_there(place, tmp_path, capsys, bert_config, tokenizer):
    folder, moved = save_both(BertForCL(bert_config), tokenizer, tmp_path / "model"), tmp_path / "moved"
    texts, shards = tmp_path / "texts.txt", str(tmp_path / "shards")
    texts.write_text("\n".join(SENTENCES))
    places = (["--output", shards], ["--store", place, "--collection", "moving"])
    for model in folder, moved:
        for where in places:
            assert main(["index", str(texts), "--model", str(model), *where]) == 0
        if model == folder:
            Path(folder).rename(moved)
    for where in (["--store", shards], places[1]):
        assert main(["search", SENTENCES[0], *where]) == 0
    capsys.readouterr()
    other = save_both(BertForCL(bert_config), tokenizer, folder)
    for where in places:
        assert "fingerprint" in refused(capsys, "index", str(texts), "--model", str(other), *where)


def test_collections_are_described_and_deleted(place, shards, capsys):
    assert "--split_into" in refused(capsys, "index", shards, "--store", place, "--split_into", "lines")
    store = ["--store", place]
    told(capsys, "index", shards, *store, "--collection", "talks")
    shown = told(capsys, "collections", "talks", *store).out
    for words in ("documents    4\n", "8 dimensions as halfvec, index hnsw", "m (fingerprint f)",
                  "k (text), year (number)", "corpus, 4 rows in 1 of 1 shards"):  # fmt: skip
        assert words in shown
    assert main(["collections", "talks", "--delete", *store]) == 0
    assert "no collection 'talks'" in refused(capsys, "collections", "talks", *store)
    assert "no store in" in refused(capsys, "collections", "--store", f"{place}/nothing")


# --- PostgreSQL killed, and the command ended


def test_a_database_killed_while_it_builds_the_index_is_one_line(tmp_path):
    count = 20_000
    with store_place() as folder, new_store(folder, dimension=64) as store:
        store.upsert(range(count), ["x"] * count, unit_vectors(count, 64))
        building = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX%' AND state = 'active'"

        def kill():
            deadline = time.monotonic() + 60
            while not (found := store.database.run(lambda c: c.execute(building).fetchone())):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            os.kill(postmaster(folder), signal.SIGKILL)
            os.kill(found[0], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(Unreachable) as caught:
            store.build_index("hnsw")
        killer.join()
        assert "no document is lost: run the same command again" in one_line(caught.value)
        store.build_index("hnsw", ef_construction=8, m=4)
        assert len(store) == count
        assert len(store.search(unit_vectors(1, 64)[0], 3)[0]) == 3


def test_groups_of_a_file_with_a_typical_text(capsys, tmp_path):
    texts = ["a cat sleeps", "the cat is sleeping", "a sleeping cat", "shares fell", HOSTILE, ""]
    rows = [{"id": i, "group": None, "text": text} for i, text in enumerate(texts)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    output = tmp_path / "groups.csv"
    group = ["group", str(tmp_path / "t.jsonl"), "--threshold", "0.5", "--min_community_size", "2"]
    printed = told(capsys, *group, "--output", output)
    assert printed.out.startswith("3 texts: ")
    assert printed.err.endswith("1 groups of 3 of 5 texts\n")
    header, *rows = output.read_text().splitlines()
    assert header == "found_group,typical,id,group,text"  # the columns of the file are kept
    assert sorted(row.split(",")[2:] for row in rows) == [[str(i), "", text] for i, text in enumerate(texts[:3])]
    assert "--overwrite" in refused(capsys, *group, "--output", str(output))
    assert ".csv" in refused(capsys, *group, "--output", str(tmp_path / "groups.txt"))
    assert "--limit -1" in refused(capsys, *group, "--limit", "-1")
