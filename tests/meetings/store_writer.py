"""What a store is written with, in the process of the tests and in another one: `python store_writer.py MODEL ...`.

The other process reads a command per line, `[name, where, collection, arguments]`, and answers each with a line.
"""

import json
import os
import signal
import sys
import traceback

from contrastive_st.models.protocol import open_encoder
from contrastive_st.search.documents import by_file, cut, identified, texts_corpus
from contrastive_st.search.index import OtherModel
from contrastive_st.search.ingest import index_corpus
from contrastive_st.search.postgres.database import Database
from contrastive_st.search.postgres.store import VectorStore

SHARD_ROWS = 3
SOURCES = ("rows", "ids", "parts")  # of documents with numbers, with ids, and of lines of documents with ids


def corpus_of(kind, name, rows):
    """The corpus of rows `[id, text, metadata]`."""
    texts, items = [text for _, text, _ in rows], [{**item, "id": id} for id, _, item in rows]
    if kind == "rows":
        return texts_corpus(name, texts, [item for *_, item in rows])
    corpus = identified(texts_corpus(name, texts, items))
    return by_file(cut(corpus, "lines")) if kind == "parts" else corpus


def index(store, encoder, kind, name, rows, kill_at=None, **how):
    corpus = corpus_of(kind, name, rows)
    loader = store.loader(
        corpus.name, f"{corpus.fingerprint} {SHARD_ROWS}", own_ids=corpus.own_ids, files=corpus.files, **how
    )
    add = loader.add

    def killed(shard, *rest):
        if shard == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        add(shard, *rest)

    loader.add = killed
    try:
        return index_corpus(corpus, encoder, loader, shard_rows=SHARD_ROWS)
    finally:
        loader.close()


class Writer:
    """Writes to collections that it keeps open, under the names that they had then."""

    def __init__(self, encoders):
        self.encoders, self.databases, self.stores = encoders, {}, {}

    def store(self, where, name):
        if where not in self.databases:
            self.databases[where] = Database(where)
        if (where, name) not in self.stores:
            self.stores[where, name] = VectorStore(self.databases[where], name)
        return self.stores[where, name]

    def do(self, what, where, name, arguments):
        if what == "killed":  # in a process of its own, which ends in between
            if child := os.fork():
                return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            self.do("index", where, name, arguments)
            os._exit(0)
        try:
            return self._do(what, self.store(where, name), arguments)
        except OtherModel:  # it has moved
            del self.stores[where, name]
            return self._do(what, self.store(where, name), arguments)

    def _do(self, what, store, arguments):
        encoder = self.encoders[store.fingerprint]
        if what == "upsert":
            ids, texts, metadata = arguments
            return dict(store.upsert(ids, texts, encoder.encode_document(texts), metadata))
        if what == "index":
            kind, source, rows, how = arguments
            return index(store, encoder, kind, source, rows, **how).complete
        return getattr(store, what)(*arguments)


def main(models):
    encoders = {encoder.fingerprint: encoder for encoder in map(open_encoder, models)}
    writer = Writer(encoders)
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            answer = {"value": writer.do(*json.loads(line))}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main([name or None for name in sys.argv[1:]])
