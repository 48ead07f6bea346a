"""Memory of a training run against the size of its corpus: peak resident memory for two sizes, the same steps.

    python benchmarks/corpus_memory.py --corpus novels.parquet

A small BERT trains on dropout pairs from the first sentences of the file, streamed from disk in shuffled blocks
(`SentenceCorpus`); each size in a process of its own, its conversion and the imports included. The steps make more
than one pass over the smaller corpus.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, help="a .parquet file with columns text and doc")
    parser.add_argument("--sizes", type=int, nargs="+", default=[50_000, 900_000])
    parser.add_argument("--steps", type=int, default=850)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shuffle_buffer", type=int, default=0)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(train(args)))
        return
    print(machine(), flush=True)
    runs: dict[int, list[dict]] = {size: [] for size in args.sizes}
    for _ in range(args.rounds):
        for size in args.sizes:
            command = [sys.executable, __file__, *sys.argv[1:], "--worker", str(size)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                sys.exit(done.stderr[-3000:])
            runs[size].append(json.loads(done.stdout.splitlines()[-1]))
    print(f"{args.steps} steps of {args.batch} sentences, {args.rounds} rounds\n")
    print("| sentences | corpus in memory would be | peak resident, min-max | after the imports |\n|---|---|---|---|")
    for found in runs.values():
        peaks = [run["peak"] for run in found]
        first = found[0]
        print(f"| {first['sentences']:,} | {first['text']:.0f} MiB | {min(peaks):.0f}-{max(peaks):.0f} MiB "
              f"| {first['imports']:.0f} MiB |")  # fmt: skip
    worst = max(run["peak"] for run in runs[args.sizes[-1]]) / min(run["peak"] for run in runs[args.sizes[0]])
    print(f"\nlargest peak of the last over smallest of the first: {worst:.3f}")


def resident_peak() -> float:
    """Peak resident memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def train(args: argparse.Namespace) -> dict:
    """Train on the first `args.worker` sentences; memory in MiB."""
    import datasets
    import pyarrow.parquet as pq
    import transformers

    from contrastive_st import (
        BertForCL,
        ContrastiveTrainer,
        ContrastiveTrainingArguments,
        DropoutPairCollator,
        SentenceCorpus,
    )
    from contrastive_st.data import train_wordpiece

    transformers.utils.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder:
        part, text = Path(folder, "part.parquet"), 0
        with pq.ParquetFile(args.corpus) as whole, pq.ParquetWriter(part, whole.schema_arrow) as writer:
            rest = args.worker
            for batch in whole.iter_batches(10_000, use_threads=False):
                writer.write_batch(batch[:rest])
                text += batch[:rest]["text"].nbytes
                rest -= min(rest, len(batch))
        datasets.config.HF_DATASETS_CACHE = Path(folder)
        words = next(pq.ParquetFile(args.corpus).iter_batches(20_000, columns=["text"], use_threads=False))
        tokenizer = train_wordpiece(words["text"].to_pylist(), vocab_size=4000, max_length=32)
        imports = resident_peak()
        model = BertForCL(transformers.BertConfig(
            vocab_size=len(tokenizer), hidden_size=64, num_hidden_layers=1, num_attention_heads=1,
            intermediate_size=128, max_position_embeddings=32,
        ))  # fmt: skip
        corpus = SentenceCorpus(part, tokenizer, max_length=32, shuffle_buffer=args.shuffle_buffer)
        training = ContrastiveTrainingArguments(
            folder, per_device_train_batch_size=args.batch, max_steps=args.steps, learning_rate=1e-3, bf16=False,
            save_strategy="no", report_to="none", disable_tqdm=True, logging_steps=args.steps,
        )  # fmt: skip
        trainer = ContrastiveTrainer(
            model, training, train_dataset=corpus, data_collator=DropoutPairCollator(tokenizer)
        )
        trainer.train()
        return {"sentences": len(corpus), "text": text / 2**20, "imports": imports, "peak": resident_peak()}


if __name__ == "__main__":
    main()
