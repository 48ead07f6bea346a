"""Exact search as mining does it, compared with faiss; and time and memory of mining hard negatives.

    python benchmarks/mining.py wikipedia.parquet                                             # minutes
    python benchmarks/mining.py wikipedia.parquet --part mine --passages 1000000 --anchors 20000

Passages are distinct sentences, encoded by the static model of this package; the positive of an anchor is the sentence
after it.

`search`: the nearest passages of all anchors. Rounds alternate between products alone, on numbers that the cache holds
and as many operations (the peak); the search of the mining, which reads float16 from a file and leaves positives out;
and faiss flat, float32 in memory. The processor's seconds are printed too, which other work on the
machine changes less, and those of the search by kind of operation.

`mine`: reading, encoding, search and writing, in a process of its own. `--recall` adds that of 200 anchors against
products in float64, which encodes the passages once more.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from machine import machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", help="a .parquet file with the column text, in order")
    parser.add_argument("--part", choices=("search", "mine", "both"), default="both")
    parser.add_argument("--passages", type=int, default=200_000)
    parser.add_argument("--anchors", type=int, default=8192)
    parser.add_argument("--num_negatives", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3, help="of the search")
    parser.add_argument("--recall", action="store_true")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.folder:
        print(json.dumps(mine(args)))
        return
    from contrastive_st.prefetch import product_threads

    print(f"{machine()}; {product_threads()} threads, {args.num_negatives} negatives of each anchor", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        write(args, Path(folder))
        if args.part != "mine":
            search(args, Path(folder))
        if args.part == "search":
            return
        command = [sys.executable, __file__, *sys.argv[1:], "--folder", folder]
        found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
        found["recall"] = f"{recall(args, Path(folder)):.4f}" if args.recall else ""
    print("\n| passages | anchors | rows | seconds | peak memory, GiB | recall |\n|--:|--:|--:|--:|--:|--:|")
    print("| {passages:,} | {anchors:,} | {rows:,} | {seconds:.0f} | {gib:.2f} | {recall} |".format(**found))


def write(args: argparse.Namespace, folder: Path) -> None:
    """The corpus and the pairs as parquet files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = pq.read_table(args.sentences, columns=["text"])["text"].to_pylist()
    texts = list(dict.fromkeys(text.strip() for text in texts))[: args.passages]
    pq.write_table(pa.table({"text": texts}), folder / "corpus.parquet")
    rows = range(0, len(texts) - 1, max(len(texts) // args.anchors, 1))[: args.anchors]
    pairs = {"anchor": [texts[i] for i in rows], "positive": [texts[i + 1] for i in rows]}
    pq.write_table(pa.table(pairs), folder / "pairs.parquet")


def search(args: argparse.Namespace, folder: Path) -> None:
    """Seconds of each search, and what the search of the mining spends them on."""
    import faiss
    import numpy as np

    from contrastive_st.models.protocol import open_encoder
    from contrastive_st.prefetch import product_threads
    from contrastive_st.search.mining.hard_negatives import EncoderScores
    from contrastive_st.search.mining.known_pairs import KnownPairs, pair_columns, read_corpus
    from contrastive_st.search.mining.negative_rules import NegativeRules

    columns = pair_columns(str(folder / "pairs.parquet"), "anchor", "positive")
    pairs = KnownPairs(*columns, [read_corpus(folder / "corpus.parquet", None)])
    finder = EncoderScores(open_encoder(), pairs.documents, folder / "vectors", True)
    block, k = pairs.block(0, len(pairs.anchors)), NegativeRules(num_negatives=args.num_negatives).candidates
    asked, count = finder.ask(block.anchors), pairs.searched
    faiss.omp_set_num_threads(product_threads())
    flat = faiss.IndexFlatIP(finder.dim)
    flat.add(finder._mapped(0, count).astype(np.float32))
    most = k + int(np.bincount(block.barred[0]).max())  # faiss leaves none out
    kinds: Counter[str] = Counter()
    runs: dict[str, Callable[[], Any]] = {
        "products alone": lambda: products(asked, count),
        "this package": by_kind(kinds, lambda: finder.nearest(asked, k, count, block)),
        "faiss flat": lambda: flat.search(asked, most)[1],
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    found: dict[str, Any] = {}
    for _ in range(args.rounds):
        for name, run in runs.items():
            started, busy = time.perf_counter(), time.process_time()
            found[name] = run()
            times[name].append((time.perf_counter() - started, time.process_time() - busy))
    theirs = [
        [i for i in row if i not in bars][:k]
        for row, bars in zip(found["faiss flat"].tolist(), barred(block), strict=True)
    ]
    same = np.mean([len({*a} & {*b}) / k for a, b in zip(theirs, found["this package"].tolist(), strict=True)])
    print(f"\n{len(asked):,} anchors, {count:,} passages, {finder.dim} dimensions, the {k} nearest of each; "
          f"{same:.5f} of them are faiss's too\n")  # fmt: skip
    table(times, 2 * len(asked) * count * finder.dim)
    busy = sum(own[1] for own in times["this package"])
    kinds["the rest"] = busy - kinds.total()
    print("\nThis package's processor seconds: "
          + ", ".join(f"{name} {100 * own / busy:.0f}%" for name, own in kinds.items()), flush=True)  # fmt: skip


def products(asked: Any, count: int) -> None:
    """As many operations as the search has, by each thread alone, on numbers that are in its cache."""
    import numpy as np

    from contrastive_st.prefetch import on_threads

    rows, columns = asked[:1024], asked[:2048].T
    calls = round(len(asked) * count / (len(rows) * columns.shape[1]) / 16)

    def some(number: int) -> None:
        out = np.empty((len(rows), columns.shape[1]), np.float32)
        for _ in range(calls):
            np.matmul(rows, columns, out=out)

    list(on_threads(some, range(16)))


def by_kind(kinds: Counter[str], run: Callable[[], Any]) -> Callable[[], Any]:
    """The run, with the processor seconds of each kind of operation added to a counter."""
    from contrastive_st import vectors
    from contrastive_st.search.mining import scores

    def timed(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def same(*given: Any) -> Any:
            started = time.thread_time()
            try:
                return call(*given)
            finally:
                kinds[name] += time.thread_time() - started

        return same

    def profiled() -> Any:
        places = (vectors, "_passing", "selection"), (vectors, "_merged", "sorting what was selected")
        kept = [getattr(module, name) for module, name, _ in places]
        in_blocks = scores.top_k_in_blocks
        try:
            for (module, name, kind), call in zip(places, kept, strict=True):
                setattr(module, name, timed(kind, call))
            reading = "reading and products"
            scores.top_k_in_blocks = lambda compare, *given: in_blocks(timed(reading, compare), *given)
            return run()
        finally:
            for (module, name, _), call in zip(places, kept, strict=True):
                setattr(module, name, call)
            scores.top_k_in_blocks = in_blocks

    return profiled


def barred(block: Any) -> list[set[int]]:
    """The documents that may not be negatives of each anchor."""
    found: list[set[int]] = [set() for _ in block.anchors]
    for row, number in zip(*(column.tolist() for column in block.barred), strict=True):
        found[row].add(number)
    return found


def table(times: dict[str, list[tuple[float, float]]], operations: int) -> None:
    """Seconds of each, and their share of the peak."""
    peak, busiest = (min(own[i] for own in times["products alone"]) for i in (0, 1))
    print("| | seconds, least (most) | GFLOP/s | of the peak | processor seconds | of the peak |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, own in times.items():
        (least, busy), most = (min(run[i] for run in own) for i in (0, 1)), max(run[0] for run in own)
        print(f"| {name} | {least:.1f} ({most:.1f}) | {operations / least / 1e9:.0f} | {peak / least:.0%} | "
              f"{busy:.1f} | {busiest / busy:.0%} |", flush=True)  # fmt: skip


def mine(args: argparse.Namespace) -> dict[str, float]:
    """The run that is measured."""
    import pyarrow.parquet as pq

    from contrastive_st import write_hard_negatives
    from contrastive_st.device import peak_resident

    folder = Path(args.folder)
    counts = write_hard_negatives(
        folder / "pairs.parquet", folder / "mined.parquet", corpus=folder / "corpus.parquet",
        num_negatives=args.num_negatives, verbose=True,
    )  # fmt: skip
    return {
        "passages": pq.read_metadata(folder / "corpus.parquet").num_rows, "anchors": counts.anchors,
        "rows": counts.rows, "seconds": counts.seconds, "gib": peak_resident() / 2**30,
    }  # fmt: skip


def recall(args: argparse.Namespace, folder: Path, count: int = 200) -> float:
    """The share of the nearest passages, by cosines in float64, that were mined; positives and anchors left out."""
    import numpy as np
    import pyarrow.parquet as pq

    from contrastive_st.models.protocol import open_encoder

    rows = pq.read_table(folder / "mined.parquet").slice(0, count).to_pylist()
    encoder, k = open_encoder(), args.num_negatives
    queries = encoder.encode([row["anchor"] for row in rows], normalize_embeddings=True).astype(np.float64)
    best = np.full((len(rows), k + 2), -2.0)
    names = np.full((len(rows), k + 2), "", dtype=object)
    corpus = pq.ParquetFile(folder / "corpus.parquet")
    for batch in corpus.iter_batches(50_000):
        texts = batch["text"].to_pylist()
        scores = queries @ encoder.encode(texts, normalize_embeddings=True).astype(np.float64).T
        near = np.argpartition(-scores, k + 2, axis=1)[:, : k + 2]
        best = np.concatenate([best, np.take_along_axis(scores, near, 1)], axis=1)
        names = np.concatenate([names, np.array(texts, dtype=object)[near]], axis=1)
        order = np.argsort(-best, axis=1)[:, : k + 2]
        best, names = np.take_along_axis(best, order, 1), np.take_along_axis(names, order, 1)
    found = 0
    for row, nearest in zip(rows, names.tolist(), strict=True):
        wanted = [text for text in nearest if text not in (row["anchor"], row["positive"])][:k]
        found += len({row[f"negative_{i}"] for i in range(1, k + 1)} & set(wanted))
    return found / (k * len(rows))


if __name__ == "__main__":
    main()
