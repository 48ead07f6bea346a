"""Memory and time of the exact nearest-neighbour search against the number of sentences.

    python benchmarks/neighbors.py CORPUS.parquet

Embeddings are histograms of bytes, projected to 384 dimensions: they cost next to nothing, so that what is measured is
the search, reading the corpus and keeping the embeddings on disk. Each size runs in a process of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

WIDTH, QUERIES, SIZES = 384, 100, (100_000, 1_000_000)


def main(corpus: str) -> None:
    print("| sentences | pass | seconds | peak memory, MB | of it before the search | embeddings, MB |")
    print("|--:|---|--:|--:|--:|--:|")
    for size in SIZES:
        with tempfile.TemporaryDirectory() as cache:
            for name in ("embed, keep and search", "search what is kept"):
                command = [sys.executable, __file__, corpus, str(size), cache]
                run = subprocess.run(command, capture_output=True, text=True, check=True)
                seconds, peak, before, count = run.stdout.split()
                own = int(count) * WIDTH * 4 / 1e6
                print(f"| {int(count):,} | {name} | {seconds} | {peak} | {before} | {own:.0f} |", flush=True)


def one(corpus: str, size: int, cache: str) -> None:
    from contrastive_st.data import read_texts
    from contrastive_st.evaluation.neighbor_search import first_of_each, neighbors
    from contrastive_st.models.protocol import FunctionEncoder

    projection = np.random.default_rng(0).normal(size=(256, WIDTH)).astype(np.float32)

    def encode(texts):
        counts = [np.bincount(np.frombuffer(text.encode(), np.uint8), minlength=256) for text in texts]
        return np.array(counts, dtype=np.float32) @ projection

    encoder = FunctionEncoder("bytes", encode, fingerprint="bytes")
    rows = read_texts(corpus)
    rows = rows.select(range(min(size, len(rows))))
    rows = rows.select(first_of_each(text for batch in rows.iter(4096) for text in batch["text"]))
    before = peak_megabytes()
    start = time.perf_counter()
    neighbors(encoder, rows["text"][:QUERIES], rows["text"], 5, cache)
    print(f"{time.perf_counter() - start:.1f} {peak_megabytes():.0f} {before:.0f} {len(rows)}")


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        one(sys.argv[1], int(sys.argv[2]), sys.argv[3])
