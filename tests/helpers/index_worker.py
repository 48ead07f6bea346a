"""Index `COUNT` lines into the store of a folder, as `contrastive-st index` does, by a model that is a hash.

python index_worker.py FOLDER COUNT SECONDS_A_SHARD
"""

import hashlib
import sys
import time

import numpy as np

from contrastive_st.search.documents import texts_corpus
from contrastive_st.search.ingest import index_corpus
from contrastive_st.search.postgres.loader import StoreLoader
from contrastive_st.search.postgres.store import VectorStore

WIDTH, SHARD_ROWS = 16, 50


class HashEncoder:
    """Vectors from a hash of the text; as slow as asked for."""

    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def encode(self, texts):
        digests = b"".join(hashlib.blake2b(text.encode(), digest_size=WIDTH).digest() for text in texts)
        vectors = np.frombuffer(digests, np.uint8).reshape(-1, WIDTH).astype(np.float32) - 127.5
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def encode_stream(self, items, texts_of):
        for item in items:
            time.sleep(self.seconds)
            yield item, self.encode(texts_of(item))


def texts(count):
    return [f"line {i} of the corpus, it's about {i % 17}" for i in range(count)]


def create(folder):
    return VectorStore.create(folder, "documents", model="hash", fingerprint="hash", dimension=WIDTH, storage="vector")


def main(folder, count, seconds):
    corpus = texts_corpus("corpus", texts(count))
    with create(folder) as store:
        loader = StoreLoader(store, corpus.name, corpus.fingerprint)
        outcome = index_corpus(corpus, HashEncoder(seconds), loader, shard_rows=SHARD_ROWS)
        loader.close()
        if outcome.complete:
            store.build_index("hnsw")
    print(outcome)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
