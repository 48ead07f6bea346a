"""Time and memory of mining hard negatives among a million passages.

    python benchmarks/mining.py wikipedia.parquet --passages 1000000 --anchors 20000

Passages are distinct sentences; the positive of an anchor is the sentence after it. What is measured is reading,
encoding by the static model of this package, the exact search and writing, in a process of its own. `--recall` adds
that of 200 anchors against products in float64, which encodes the passages once more.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", help="a .parquet file with the column text, in order")
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--anchors", type=int, default=20_000)
    parser.add_argument("--num_negatives", type=int, default=5)
    parser.add_argument("--recall", action="store_true")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.folder:
        print(json.dumps(mine(args)))
        return
    with tempfile.TemporaryDirectory() as folder:
        write(args, Path(folder))
        command = [sys.executable, __file__, *sys.argv[1:], "--folder", folder]
        found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
        found["recall"] = f"{recall(args, Path(folder)):.4f}" if args.recall else ""
    print(f"{date.today()}, {os.cpu_count()} CPUs, {args.num_negatives} negatives of each anchor\n")
    print("| passages | anchors | rows | seconds | peak memory, GiB | recall |\n|--:|--:|--:|--:|--:|--:|")
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


def mine(args: argparse.Namespace) -> dict[str, float]:
    """The run that is measured."""
    import pyarrow.parquet as pq

    from contrastive_st import write_hard_negatives
    from contrastive_st.memory import peak_resident

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
