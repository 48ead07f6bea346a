"""Eight indexers at once over four schemas of one database, of which one is killed at a time.

python tenant_kills.py KILLS SECONDS

Each schema has a corpus of its own under the same names, which two indexers share. An indexer that is killed is started
again. In the end each collection has the rows of one that a single process made, bit for bit.
"""

import multiprocessing
import random
import sys
import time

import numpy as np
import psycopg
from index_worker import SHARD_ROWS, WIDTH, HashEncoder
from store_places import tcp_server

from contrastive_st.search.documents import texts_corpus
from contrastive_st.search.ingest import index_corpus
from contrastive_st.search.postgres.store import VectorStore

SCHEMAS, INDEXERS = 4, 8
MADE = {"model": "hash", "fingerprint": "hash", "dimension": WIDTH, "storage": "vector"}


def index(address, owner, rows, seconds):
    """Index the corpus of an owner into the schema of an address."""
    texts = [f"line {i} of the corpus of owner {owner}, about {i % 17}" for i in range(rows)]
    corpus = texts_corpus("corpus", texts, [{"owner": owner, "row": i} for i in range(rows)])
    with VectorStore.create(address, "documents", **MADE) as store:
        loader = store.loader(corpus.name, corpus.fingerprint)
        index_corpus(corpus, HashEncoder(seconds), loader, shard_rows=SHARD_ROWS)
        loader.close()


def contents(address):
    """Ids, texts, metadata and the bytes of the vectors of a collection."""
    with VectorStore(address, "documents", fingerprint="hash") as store:
        batches = list(store.scan())
    return [(ids.tobytes(), texts, metadata, vectors.tobytes()) for ids, texts, metadata, vectors in batches]


def run(kills, seconds):
    """Kill so many times, so many seconds apart; returns what was found."""
    context, moments = multiprocessing.get_context("fork"), random.Random(7)
    rows = SHARD_ROWS * max(8, int(4 * kills * seconds))  # two indexers of half a second a shard take as long
    with tcp_server() as (_, address):
        where = [f"{address.format('postgres')}?schema=owner_{i}" for i in range(SCHEMAS)]
        with psycopg.connect(address.format("postgres"), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")

        def start(number):
            owner = number % SCHEMAS
            child = context.Process(target=index, args=(where[owner], owner, rows, 0.5))
            child.start()
            return child

        children = [start(number) for number in range(INDEXERS)]
        running = 0
        for _ in range(kills):
            time.sleep(seconds)
            number = moments.randrange(INDEXERS)
            running += children[number].is_alive()
            children[number].kill()
            children[number].join()
            children[number] = start(number)
        for child in children:
            child.join()
            assert child.exitcode == 0
        for owner in range(SCHEMAS):
            alone = f"{address.format('postgres')}?schema=alone_{owner}"
            index(alone, owner, rows, 0.0)
            there = contents(where[owner])
            assert sum(len(texts) for _, texts, _, _ in there) == rows
            assert there == contents(alone)
    return f"{running} of {kills} kills met a running indexer; {SCHEMAS} collections of {rows:,} rows are bit-equal"


if __name__ == "__main__":
    np.seterr(all="raise")
    print(run(int(sys.argv[1]), float(sys.argv[2])))
