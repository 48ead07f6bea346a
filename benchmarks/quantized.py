"""A byte or a bit per number: recall, latency and memory of `ExactIndex` compared with exact float32.

    python benchmarks/quantized.py --data DATA                                     # 100,000 rows
    python benchmarks/quantized.py --data DATA --rows 1000000
    python benchmarks/quantized.py --data DATA --rows 1000000 --model static-minilm

The vectors are those of `benchmarks/search.py` (sentences of Wikipedia, kept in --work; queries are other sentences),
written as folders of shards and opened as `index --output` and `ExactIndex.open` do, each precision in a process of its
own: codes alone, and codes with the float32 vectors on the disk to compare the nearest again. `reads` is what a first
pass goes through, with its share of float32 and of float16. Of the mapped float32 file, the pages that are in memory
after the queries are those of candidates, which the kernel takes back at will; a "cold" query finds none of them there.
"""

from __future__ import annotations

import argparse
import mmap
import multiprocessing
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from search import SHARD, K, begin, blocks_of, embeddings, nearest, report

COLD = 20  # queries


def main() -> None:
    """Write the shards that are missing, and search them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oversample", type=int, nargs="+", default=[4, 10, 20, 40, 80, 160])
    args = begin(parser)
    vectors, queries = embeddings(args)
    folders = {precision: shards(args, vectors, precision) for precision in ("float32", "int8", "ubinary")}
    unit = np.concatenate([unit_part(vectors, start).astype(np.float32) for start in range(0, args.rows, SHARD)])
    truth = nearest(blocks_of(unit), queries)
    print(f"\n{args.rows:,} x {vectors.shape[1]}, {len(queries)} queries, one at a time", flush=True)
    del unit
    runs = [
        ("float32", "float32"),
        ("int8", "int8"),
        ("float32", "int8"),
        ("ubinary", "ubinary"),
        ("float32", "ubinary"),
    ]
    for held, precision in runs:
        process = multiprocessing.get_context("spawn").Process(
            target=search, args=(args, folders[held], precision, queries, truth)
        )
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(process.exitcode)


def unit_part(vectors: Any, start: int) -> Any:
    """The unit vectors of a shard."""
    part = np.asarray(vectors[start : start + SHARD], dtype=np.float32)
    return part / np.linalg.norm(part, axis=1, keepdims=True)


def shards(args: argparse.Namespace, vectors: Any, precision: str) -> Path:
    """A folder of encoded shards."""
    from contrastive_st.search.shards import Encoding, ShardFolder

    dim = vectors.shape[1]
    made = Encoding("benchmark", "benchmark", dim, "wikipedia", str(args.rows), SHARD, precision)
    folder = ShardFolder(Path(args.work, f"shards-{args.rows}-{dim}-{precision}"), made)
    for shard, start in enumerate(range(0, args.rows, SHARD)):
        if folder.claim(shard):
            part = unit_part(vectors, start)
            folder.add(shard, (np.arange(start, start + len(part)), [""] * len(part), [{}] * len(part), part))
    return folder.folder


def search(args: argparse.Namespace, folder: Path, precision: str, queries: Any, truth: list[set[int]]) -> None:
    """One line for each number of candidates."""
    from contrastive_st.search.exact import ExactIndex

    started = time.perf_counter()
    index = ExactIndex.open(folder, precision=precision)
    opened = time.perf_counter() - started
    codes, vectors = index._codes, index._vectors
    read = (vectors if codes is None else codes.stored).nbytes
    full = 4 * len(index) * index.dimension
    on_disk = codes is not None and codes is not vectors
    what = f"{precision}{', float32 on the disk' if on_disk else ''}"
    share = "" if codes is None else f", 1/{full / read:.0f} of float32, 1/{full / 2 / read:.0f} of float16"
    print(f"{what}: reads {read / 2**20:,.0f} MiB{share}; opened in {opened:.1f} s", flush=True)
    for oversample in (1,) if codes is None else args.oversample:
        find = lambda query, wide=oversample: [hit.id for hit in index.search(query, K, oversample=wide)[0]]
        report("exact" if codes is None else f"oversample {oversample}", queries, truth, find)
        if on_disk:
            in_memory = resident(folder / "exact" / "vectors.npy")
            times = [cold(find, query, vectors, folder / "exact" / "vectors.npy") for query in queries[:COLD]]
            print(f"  {'':22} cold      p50 {1000 * statistics.median(times):7.2f} ms; pages of the float32 file in "
                  f"memory after {len(queries)} queries: {in_memory:,.0f} MiB", flush=True)  # fmt: skip


def cold(find: Any, query: Any, mapped: Any, path: Path) -> float:
    """Seconds of a query when no page of a mapped file is in memory."""
    mapped._mmap.madvise(mmap.MADV_DONTNEED)
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    started = time.perf_counter()
    find(query)
    return time.perf_counter() - started


def resident(path: Path) -> float:
    """MiB of a mapped file that this process has in memory."""
    total, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if not line.split()[0].endswith(":"):
            ours = line.endswith(str(path.resolve()))
        elif ours and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total / 2**10


if __name__ == "__main__":
    main()
