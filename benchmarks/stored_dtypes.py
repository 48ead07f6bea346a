"""STS-B dev after training from copies of one base in float32, bfloat16 and float16: a table.

    OMP_NUM_THREADS=1 python benchmarks/stored_dtypes.py model_cards/minilm-1-layer NLI SENTEVAL [--steps 200]

NLI is a csv of triplets (sent0, sent1, hard_neg), of which one epoch of batches of 16 is read; SENTEVAL is the folder
of SentEval's files. Each copy is trained on the same batches and saved in its own type; what is saved is evaluated.
Spearman x100, one column a seed.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from scipy.stats import spearmanr
from transformers import set_seed

from contrastive_st import (
    AutoModelForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InfoNCE,
    NLITripletCollator,
    SentenceEncoder,
    tokenize,
)
from contrastive_st.evaluation.tasks import choose
from contrastive_st.models import load_tokenizer

TYPES = ("float32", "bfloat16", "float16")


def copy_of(base: str, dtype: str, folder: Path) -> Path:
    """A copy of the base whose weights are stored in this type."""
    model = AutoModelForCL.from_pretrained(base)
    model.save_dtype = getattr(torch, dtype)
    model.save_pretrained(folder)
    load_tokenizer(base).save_pretrained(folder)
    return folder


def trained(base: Path, triplets: Dataset, seed: int, args: argparse.Namespace, folder: Path) -> Path:
    """Train a copy; the folder it is saved in."""
    set_seed(seed)
    tokenizer = load_tokenizer(base)
    trainer = ContrastiveTrainer(
        model=AutoModelForCL.from_pretrained(base, loss=InfoNCE(0.05)),
        args=ContrastiveTrainingArguments(
            str(folder), max_steps=args.steps, per_device_train_batch_size=16, learning_rate=args.learning_rate,
            seed=seed, warmup_steps=10, save_strategy="no", report_to="none", disable_tqdm=True, logging_steps=50,
        ),
        train_dataset=tokenize(triplets, tokenizer, 24), processing_class=tokenizer,
        data_collator=NLITripletCollator(tokenizer),
    )  # fmt: skip
    trainer.train()
    trainer.model.drop_heads()
    trainer.save_model()
    return folder


def score(folder: Path | str, rows: Any) -> float:
    """Spearman x100 of the cosines of the pairs."""
    encoder = SentenceEncoder(folder)
    first, second = (encoder.encode(column, normalize_embeddings=True) for column in rows.columns)
    return 100 * float(spearmanr((first * second).sum(1), rows.labels).statistic)


def main() -> None:
    """Train, evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("nli", type=Path)
    parser.add_argument("senteval", type=Path)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--learning_rate", type=float, default=1e-4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--types", nargs="+", default=TYPES)
    args = parser.parse_args()
    with args.nli.open(newline="", encoding="utf-8") as file:
        columns = zip(*list(csv.reader(file))[1 : 1 + 16 * args.steps], strict=True)
    triplets = Dataset.from_dict(dict(zip(("anchor", "positive", "negative"), map(list, columns), strict=True)))
    dev = choose("STSB")[0].load(args.senteval)["dev"]
    print("| stored in | " + " | ".join(f"seed {seed}" for seed in args.seeds) + " | mean |\n|---|" + "--:|" * 4)
    print(f"| (before) | {score(args.base, dev):.2f} |", flush=True)
    for dtype in args.types:
        with tempfile.TemporaryDirectory() as work:
            base = copy_of(args.base, dtype, Path(work, "base"))
            runs = [score(trained(base, triplets, n, args, Path(work, f"{n}")), dev) for n in args.seeds]
        print(f"| {dtype} | " + " | ".join(f"{x:.2f}" for x in (*runs, np.mean(runs))) + " |", flush=True)


if __name__ == "__main__":
    main()
