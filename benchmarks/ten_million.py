"""Ten million documents on one machine: from a file to answers, with the model of the package.

    python benchmarks/ten_million.py --data DATA --work WORK

The documents are the distinct sentences of Wikipedia and of the novels, then their windows of two, three, ... sentences
until there are `--rows`; windows do not cross documents. Every 500th document is left out, and the queries are
sentences of these. `contrastive-st index` reads the file, encodes and loads in a process of its own, as a user would
run it; what it prints is shown. Then the graph is built. Recall is against the exact neighbours, from the stored
vectors by products of blocks.

The store is kept in --work (about 20 GB for ten million); a second run measures its queries again.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from contrastive_st.search.postgres.copying import vectors_of
from search import SHARD, K, begin, memory, nearest, report, sizes

EVERY, GROUP, MODEL = 500, 100_000, "static-minilm"


def main() -> None:
    """Make the file, index it, ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", default="binary", choices=("binary", "hnsw"))
    parser.add_argument("--partitions", type=int, default=1)
    args = begin(parser, rows=10_000_000)
    Path(args.work).chmod(0o755)  # the database has an account of its own where this is root
    corpus, folder = Path(args.work, f"windows-{args.rows}.parquet"), Path(args.work, f"store-{args.rows}")
    if not corpus.exists():
        write(args, corpus)
    command = [sys.executable, "-m", "contrastive_st.cli", "index", corpus, "--model", MODEL, "--index", "none",
               "--store", folder, "--partitions", str(args.partitions)]  # fmt: skip
    if not built(folder):
        with memory(folder) as peak:
            subprocess.run(list(map(str, command)), check=True)
            print(f"  the server's memory while loading {peak():.2f} GiB", flush=True)
    ask(args, folder)


def built(folder: Path) -> bool:
    """Whether an earlier run has built a graph here."""
    from contrastive_st.search.postgres.store import VectorStore

    if not folder.exists():
        return False
    with VectorStore(folder) as store:
        return store.index != "none"


def documents(data: str) -> Iterator[tuple[str, int, list[str]]]:
    """`(corpus, document, its sentences)` in order."""
    for name in ("wikipedia", "novels"):
        with pq.ParquetFile(Path(data, f"{name}.parquet"), memory_map=True) as file:
            rows = (row for batch in file.iter_batches(columns=["doc", "text"]) for row in batch.to_pylist())
            for number, members in groupby(rows, itemgetter("doc")):
                yield name, number, [row["text"] for row in members]


def write(args: argparse.Namespace, target: Path) -> None:
    """The corpus as Parquet: `text`, `corpus`, `document`, `sentences` (the width of the window)."""
    kept = [item for i, item in enumerate(documents(args.data)) if i % EVERY]
    columns = ("text", "corpus", "document", "sentences")
    types = [pa.string(), pa.string(), pa.int32(), pa.int8()]
    schema, part = pa.schema(list(zip(columns, types, strict=True))), target.with_suffix(".part")
    seen: set[bytes] = set()
    rows: list[tuple[str, str, int, int]] = []
    with pq.ParquetWriter(part, schema) as writer:
        for width in range(1, 100):
            for name, number, sentences in kept:
                for start in range(len(sentences) - width + 1):
                    text = " ".join(sentences[start : start + width])
                    if len(seen) == args.rows:
                        break
                    if (digest := hashlib.blake2b(text.encode(), digest_size=8).digest()) not in seen:
                        seen.add(digest)
                        rows.append((text, name, number, width))
                if len(rows) >= GROUP or (rows and len(seen) == args.rows):
                    writer.write_table(pa.table(list(map(list, zip(*rows, strict=True))), schema=schema))
                    rows = []
            print(f"windows of {width}: {len(seen):,} rows", flush=True)
            if len(seen) == args.rows:
                break
    part.rename(target)


def ask(args: argparse.Namespace, folder: Path) -> None:
    """Latency and recall of sentences that are in no document."""
    from contrastive_st.models.protocol import open_encoder
    from contrastive_st.search.postgres.store import VectorStore

    held_out = [text for i, item in enumerate(documents(args.data)) if not i % EVERY for text in item[2]]
    queries = open_encoder(MODEL).encode(random.Random(0).sample(sorted(set(held_out)), args.queries))
    with VectorStore(folder) as store, memory(folder) as peak:
        if store.index != args.index:
            started = time.perf_counter()
            store.build_index(args.index)
            print(f"  built {args.index}, full text and metadata in {time.perf_counter() - started:,.0f} s, "
                  f"peak memory {peak():.2f} GiB", flush=True)  # fmt: skip
        print(f"\n{len(store):,} x {store.dimension} {store.storage}, index {store.index}, {args.queries} queries, "
              f"{sizes(store)}", flush=True)  # fmt: skip
        truth = store.database.run(lambda connection: nearest(stored(connection, store), queries))
        for ef in (200, 400, 1000):
            find = lambda q, ef=ef: [hit.id for hit in store.search(q, K, ef_search=ef)[0]]
            for clients in (1, 16):
                report(f"store {store.index} ef {ef}", queries, truth, find, clients)
        find = lambda q: [hit.id for hit in store.search(q, K, exact=True)[0]]
        report("store exact", queries[:10], truth, find)
        print(f"peak memory of this process and the server {peak():.2f} GiB", flush=True)


def stored(connection: Any, store: Any) -> Iterator[tuple[Any, Any]]:
    """The ids and vectors that the store holds, in blocks."""
    statement = f"SELECT id, {store.storage}_send(embedding) FROM contrastive_st.{store.collection}_vectors"
    with connection.transaction(), connection.cursor("all_vectors", binary=True) as cursor:
        cursor.execute(statement)
        while rows := cursor.fetchmany(SHARD):
            ids, vectors = zip(*rows, strict=True)
            yield np.array(ids), vectors_of(vectors, store.storage)


if __name__ == "__main__":
    main()
