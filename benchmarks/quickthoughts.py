"""Training speed and memory of the QuickThoughts GRU against a plain loop: same widths, same sentences.

    python benchmarks/quickthoughts.py --sentences novels.parquet
    python benchmarks/quickthoughts.py --sentences novels.parquet --profile       # where the time of our steps goes

Everyone trains two GRUs with word vectors of their own on batches of sentences in the order of the book, each
sentence picking the next one of the batch. The plain loop does what the published PyTorch code does in a step: it
pads to the longest sentence, runs `torch.nn.GRU` on the padding too, in float32, and updates with plain Adam. The
systems take turns, each time in a new process, round after round; medians and ratios are printed. The first steps of
a run are not counted. Peak memory is the process's resident set, its imports included.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import machine
from training import Clock

SYSTEMS = ("ours", "ours float32", "plain loop bf16", "plain loop")
WARM_UP = 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", help="a parquet file with a column `text`, in order")
    parser.add_argument("--batch", type=int, default=400)
    parser.add_argument("--hidden", type=int, default=1000)
    parser.add_argument("--words", type=int, default=30000, help="size of the vocabulary")
    parser.add_argument("--max_length", type=int, default=50, help="longer sentences are cut, as in the published code")
    parser.add_argument("--steps", type=int, default=6, help="counted steps a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="ours alone: the share of each kind of operation")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--rows", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(work(args)))
        return
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        prepare(args, Path(folder))
        systems = SYSTEMS[: 1 if args.profile else None]
        rounds: dict[str, list[dict]] = {name: [] for name in systems}
        for turn in range(1 if args.profile else args.rounds):
            for name in systems:
                command = [sys.executable, __file__, *sys.argv[1:], "--rows", folder, "--worker", name]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    sys.exit(f"{name} failed:\n{done.stderr[-3000:]}")
                rounds[name].append(json.loads(done.stdout.splitlines()[-1]))
                print(f"round {turn + 1}, {name}: {rounds[name][-1]}", file=sys.stderr)
                if args.profile:
                    print("\n".join(done.stdout.splitlines()[:-1]))
        report(args, rounds, Path(folder))


def prepare(args: argparse.Namespace, folder: Path) -> None:
    """A vocabulary of the whole file, and batches of sentences from places spread evenly over it."""
    import pyarrow.parquet

    from contrastive_st.data import train_word_tokenizer

    texts = pyarrow.parquet.read_table(args.sentences, columns=["text"])["text"]
    tokenizer = train_word_tokenizer(texts.to_pylist(), args.words, args.max_length)
    tokenizer.save_pretrained(folder)
    count = args.steps + WARM_UP
    starts = [i * (len(texts) - args.batch) // count for i in range(count)]
    rows = [tokenizer(texts.slice(i, args.batch).to_pylist(), truncation=True)["input_ids"] for i in starts]
    (folder / "rows.json").write_text(json.dumps(rows))


def report(args: argparse.Namespace, rounds: dict[str, list[dict]], folder: Path) -> None:
    """Medians of each system, and each round's ratio to ours."""
    import torch

    batches = [[len(row) for row in batch] for batch in json.loads((folder / "rows.json").read_text())[WARM_UP:]]
    padded, real = sum(len(batch) * max(batch) for batch in batches), sum(map(sum, batches))
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{torch.get_num_threads()} CPU threads"
    print(f"\n{device}, torch {torch.__version__}; hidden {args.hidden}, batch ", end="")
    print(
        f"{args.batch}, {args.words} words, sentences of up to {args.max_length} words, {real / padded:.0%} of the ",
        end="",
    )
    print(f"padded batches real; {args.rounds} rounds of {args.steps} steps")
    print("\n| system | sentences/s | words/s | ours / it, min-max over rounds | peak memory | last loss |")
    print("|---|---|---|---|---|---|")
    ours = next(iter(rounds.values()))
    for name, runs in rounds.items():
        speed, memory, loss = (statistics.median(run[key] for run in runs) for key in ("speed", "gib", "loss"))
        ratios = [mine["speed"] / run["speed"] for mine, run in zip(ours, runs, strict=True)]
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        words = speed * real / sum(map(len, batches))
        print(f"| {name} | {speed:.0f} | {words:.0f} | {ratio} | {memory:.2f} GiB | {loss:.3f} |")


# ------------------------------------------------------------------ one system, in a process of its own


def work(args: argparse.Namespace) -> dict:
    """Train with the system `args.worker`; sentences/s, peak GiB and the last loss."""
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.set_seed(0)
    rows = json.loads(Path(args.rows, "rows.json").read_text())
    clock = Clock(args.batch, WARM_UP, args.profile)
    loss = (run_ours if args.worker.startswith("ours") else run_loop)(args, rows, clock)
    clock.report()
    unit = 1 if sys.platform == "darwin" else 1024
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    if torch.cuda.is_available():
        used = torch.cuda.max_memory_allocated()
    return {"speed": round(clock.speed(), 2), "gib": round(used / 2**30, 2), "loss": round(loss, 4)}


def run_ours(args: argparse.Namespace, rows: list, clock: Clock) -> float:
    from datasets import Dataset
    from transformers import AutoTokenizer

    from contrastive_st import ContrastiveTrainer, ContrastiveTrainingArguments
    from contrastive_st.data import ContextWindowCollator
    from contrastive_st.models import QuickThoughtsConfig, QuickThoughtsGRU

    tokenizer = AutoTokenizer.from_pretrained(args.rows)
    model = QuickThoughtsGRU(QuickThoughtsConfig(len(tokenizer), hidden_size=args.hidden), targets="next")
    columns = {
        "input_ids": [row for batch in rows for row in batch],
        "document": [i for i, batch in enumerate(rows) for _ in batch],
        "position": [i for batch in rows for i in range(len(batch))],
    }
    with tempfile.TemporaryDirectory() as folder:
        training = ContrastiveTrainingArguments(
            folder, per_device_train_batch_size=args.batch, max_steps=len(rows), learning_rate=5e-4, max_grad_norm=5.0,
            lr_scheduler_type="constant", logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True,
            train_sampling_strategy="sequential", bf16=False if "float32" in args.worker else None, seed=0,
        )  # fmt: skip
        trainer = ContrastiveTrainer(
            model, training, train_dataset=Dataset.from_dict(columns), callbacks=[clock.callback()],
            data_collator=ContextWindowCollator(tokenizer),
        )  # fmt: skip
        trainer.train()
    return [row["loss"] for row in trainer.state.log_history if "loss" in row][-1]


def run_loop(args: argparse.Namespace, rows: list, clock: Clock) -> float:
    import torch
    from torch import nn
    from transformers import AutoTokenizer

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embeddings = nn.Embedding(words, 300)
            self.gru = nn.GRU(300, args.hidden, batch_first=True)
            for weight in self.parameters():
                nn.init.uniform_(weight, -0.1, 0.1)

        def forward(self, ids, lengths):
            states, _ = self.gru(self.embeddings(ids))
            return states[torch.arange(len(ids), device=ids.device), lengths - 1]

    words, device = len(AutoTokenizer.from_pretrained(args.rows)), "cuda" if torch.cuda.is_available() else "cpu"
    f, g = Encoder().to(device), Encoder().to(device)
    weights = [*f.parameters(), *g.parameters()]
    optimizer = torch.optim.Adam(weights, lr=5e-4)
    for batch in rows:
        ids = nn.utils.rnn.pad_sequence([torch.tensor(row or [1]) for row in batch], batch_first=True).to(device)
        lengths = torch.tensor([max(len(row), 1) for row in batch], device=device)
        with torch.autocast(device, torch.bfloat16, enabled="bf16" in args.worker):
            views = f(ids, lengths), g(ids, lengths)
        scores = views[0].float() @ views[1].float().T
        scores = scores.masked_fill(torch.eye(len(ids), dtype=torch.bool, device=device), float("-inf"))
        loss = nn.functional.cross_entropy(scores[:-1], torch.arange(1, len(ids), device=device))
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 5.0)
        optimizer.step()
        optimizer.zero_grad()
        clock.tick()
    return loss.item()


if __name__ == "__main__":
    main()
