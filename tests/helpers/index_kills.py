"""Kills an indexer, its database or both by SIGKILL, and holds what is found at the end to a plain dictionary.

python index_kills.py FOLDER KILLS SEED

The indexer works through `operations`: versions of a corpus with ids of its own, in each of which some rows have
changed, deletions by ids and by a filter, upserts, and versions of a corpus that is numbered by its rows and replaced.
Like whoever calls commands one after the other, it begins again with the first operation that did not end. Every
process is a fork of this one, which has imported all. After each kill, whatever rows there are have the vectors of
their texts.
"""

import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
from kill_worker import ends, fork, told_by
from store_places import postmaster

from contrastive_st.search.documents import Corpus, Document, texts_corpus
from contrastive_st.search.exact import ExactIndex
from contrastive_st.search.ingest import index_corpus
from contrastive_st.search.postgres.loader import StoreLoader
from contrastive_st.search.postgres.store import VectorStore

ROWS, SHARD_ROWS, GROUPS, WIDTH = 400, 50, 7, 64


class TellingEncoder:
    """Vectors of signs, whose norm is 1 exactly; tells the parent of every shard."""

    def __init__(self, told=None):
        self.told = told

    def encode(self, texts):
        digests = b"".join(hashlib.blake2b(text.encode(), digest_size=WIDTH // 8).digest() for text in texts)
        return (
            np.unpackbits(np.frombuffer(digests, np.uint8).reshape(len(texts), WIDTH // 8), axis=1) / np.float32(4)
            - 0.125
        )

    def encode_stream(self, items, texts_of):
        for item in items:
            os.write(self.told, b".")
            time.sleep(0.01)
            yield item, self.encode(texts_of(item))


def rows_of(version):
    """Rows of a version by id: a fifth of them is new in each."""
    found = {}
    for i in range(ROWS):
        changed = max(own for own in range(version + 1) if not own or (i + own) % 5 == 0)
        found[7 * i - 100] = (f"row {i} of the corpus, it's of version {changed}", {"group": i % GROUPS, "row": i})
    return found


def lines_of(version):
    """Texts without ids, all of which are new in each version."""
    return [f"line {i}, of version {version}" for i in range(ROWS // 2)]


def operations(versions):
    for version in range(versions):
        yield "index", version
        yield "delete", [id for id in rows_of(version) if (id + version) % 9 == 0]
        yield "delete_matching", {"group": version % GROUPS}
        yield "upsert", list(range(10**6 + 20 * version, 10**6 + 20 * version + 40))
        yield "lines", version


def upserted(ids):
    return [f"upserted {id} of {len(ids)} from {ids[0]}" for id in ids], [{"group": -1, "row": id} for id in ids]


def expected(versions):
    """What is in the two collections at the end, by a plain dictionary: texts and metadata by id."""
    documents, lines, deleted = {}, {}, set()  # what was deleted is left out by `index`, until it is upserted
    for name, what in operations(versions):
        gone = set()
        if name == "index":
            documents |= {id: row for id, row in rows_of(what).items() if id not in deleted}
        elif name == "lines":
            lines = dict(enumerate(lines_of(what)))
        elif name == "upsert":
            documents |= dict(zip(what, zip(*upserted(what), strict=True), strict=True))
        elif name == "delete":
            gone = documents.keys() & set(what)
        else:
            gone = {id for id, row in documents.items() if row[1]["group"] == what["group"]}
        deleted |= gone
        documents = {id: row for id, row in documents.items() if id not in gone}
    return documents, lines


def corpus_of(version):
    rows = rows_of(version).items()
    read = lambda report: (Document(text, metadata, i, id) for i, (id, (text, metadata)) in enumerate(rows))
    return Corpus("rows", f"version {version}", read, ROWS, own_ids=True)


def create(folder, name):
    return VectorStore.create(folder, name, model="hash", fingerprint="hash", dimension=WIDTH, storage="vector")


def work(folder, versions, told):
    """All operations that are not recorded in `done`; each can be done again."""
    record, encoder = folder / "done", TellingEncoder(told)
    with create(folder, "documents") as store, create(folder, "lines") as lines:
        for number, (name, what) in enumerate(operations(versions)):
            if number < (int(record.read_text()) if record.exists() else 0):
                continue
            os.write(told, b".")
            if name in ("index", "lines"):
                corpus = corpus_of(what) if name == "index" else texts_corpus("lines", lines_of(what))
                own = {"own_ids": True} if name == "index" else {"replace": True}
                loader = StoreLoader(store if name == "index" else lines, corpus.name, corpus.fingerprint, **own)
                assert index_corpus(corpus, encoder, loader, shard_rows=SHARD_ROWS).complete
                loader.close()
            elif name == "upsert":
                texts, metadata = upserted(what)
                store.upsert(what, texts, encoder.encode(texts), metadata)
            else:
                getattr(store, name)(what)
            record.with_suffix(".new").write_text(str(number + 1))
            os.replace(record.with_suffix(".new"), record)
        for collection in (store, lines):
            collection.build_index("hnsw")


def contents(store):
    """Rows by id: texts, metadata, vectors; none is there twice, and each has the vector of its text."""
    found = {}
    for ids, texts, metadata, vectors in store.scan():
        np.testing.assert_array_equal(vectors, TellingEncoder().encode(texts))
        own = zip(texts, metadata, vectors, strict=True)
        new = {id: (text, item, vector.tobytes()) for id, (text, item, vector) in zip(ids.tolist(), own, strict=True)}
        assert len(new) == len(ids)
        assert not new.keys() & found.keys()
        found |= new
    return found


def check(folder, told):
    """Rows that are there, whatever the last kill left; brings the database up again."""
    with create(folder, "documents") as store, create(folder, "lines") as lines:
        os.write(told, json.dumps([len(contents(store)), len(contents(lines))]).encode())


def check_the_end(folder, versions, told):
    """Contents and hits are those of a plain dictionary."""
    documents, lines = expected(versions)
    with create(folder, "documents") as store, create(folder, "lines") as others:
        there, below = contents(store), contents(others)
        assert {id: row[:2] for id, row in there.items()} == documents
        first = min(below)  # the number of the source decides where its ids begin
        assert {id - first: row[0] for id, row in below.items()} == lines
        ids = sorted(documents)
        texts = [documents[id][0] for id in ids]
        vectors = TellingEncoder().encode(texts)
        queries = np.random.default_rng(0).normal(size=(10, WIDTH)).astype(np.float32)
        wanted = [[hit.id for hit in own] for own in ExactIndex(np.array(ids), texts, vectors).search(queries, 10)]
        for exact in (True, None):
            found = store.search(queries, 10, exact=exact, ef_search=1000)
            assert [[hit.id for hit in own] for own in found] == wanted
    os.write(told, f"{len(there)} rows and {len(below)} lines".encode())


def kill(folder, what, versions, moments):
    """Let the indexer do something, then kill."""
    children, pipe = fork(1, lambda told: work(folder, versions, told))

    def wait(events):
        for _ in range(events):
            assert os.read(pipe, 1), f"it ended by itself: {ends(children)}"
        time.sleep(moments.random() * 0.03)

    wait(moments.randint(1, 9))
    if what != "indexer":
        os.kill(postmaster(folder), signal.SIGKILL)
    if what == "database":  # the indexer brings it up again and goes on
        wait(moments.randint(2, 4))
    os.kill(children[0], signal.SIGKILL)
    assert ends(children) == [-signal.SIGKILL]
    os.close(pipe)


def main(folder, kills, seed):
    moments, versions = random.Random(seed), 2 + kills // 2
    for number in range(kills):
        what = ("indexer", "database", "both")[number % 3]
        kill(folder, what, versions, moments)
        done = (folder / "done").read_text() if (folder / "done").exists() else "0"
        rows = told_by(lambda told: check(folder, told))
        print(f"kill {number + 1} of {kills}: {what}, {done} operations done, {rows} rows", flush=True)
    assert int(done) < 5 * versions, "the last kill came too late to tell anything"
    told_by(lambda told: work(folder, versions, os.open(os.devnull, os.O_WRONLY)))
    found = told_by(lambda told: check_the_end(folder, versions, told))
    print(f"{kills} kills of the indexer, the database or both, seed {seed}: {5 * versions} operations with updates "
          f"and deletions, {found}, bit-equal to those of a plain dictionary")  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
