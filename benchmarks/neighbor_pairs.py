"""What a sentence's positive should be where there are no labels: a table, and a curve over the steps.

    python benchmarks/neighbor_pairs.py START CORPUS SENTEVAL [--steps 150] [--seeds 0 1 2] [--only ROW ...]

START is an encoder that is not a sentence encoder (docs/simcse.md describes ours), CORPUS a .parquet file with
sentences in order in `text` and their document in `doc`. Each row trains on the same pairs' anchors, drawn from
everywhere in the corpus: 64 a step, mean pooling, dropout 0.1, InfoNCE with T = 0.05 whose candidates of the anchor's
document are masked, at most 32 tokens. Rows differ in the positive. Runs that are in the output file are not repeated.

Printed are the mean and the standard deviation over the seeds, as `simcse_lift.py` does; with `--curve 50 100` also
what the first seed has after so many steps.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from datasets import Dataset
from transformers import TrainerCallback, set_seed

from contrastive_st import AutoModelForCL, ContrastiveTrainer, ContrastiveTrainingArguments, tokenize
from contrastive_st.data import NeighborPairCollator
from contrastive_st.models import load_tokenizer
from contrastive_st.models.auto import load_config
from contrastive_st.scripts import with_dropout
from simcse_lift import COLUMNS, judged, recorded, row_of

Pair = Callable[[str, str], tuple[str, str]]  # what a sentence and the next one become


def cropped(text: str) -> str:
    """A random stretch of 40 to 80% of the words."""
    words = text.split()
    kept = max(round(len(words) * random.uniform(0.4, 0.8)), 1)
    begin = random.randint(0, len(words) - kept)
    return " ".join(words[begin : begin + kept])


def one_of(*kinds: Pair) -> Pair:
    """Each row is made by one of these, drawn at random."""
    return lambda text, after: random.choice(kinds)(text, after)


def dropout(text: str, after: str) -> tuple[str, str]:
    """The sentence itself, with another dropout mask (SimCSE)."""
    return text, text


def crops(text: str, after: str) -> tuple[str, str]:
    """Two crops of the sentence."""
    return cropped(text), cropped(text)


def neighbors(text: str, after: str) -> tuple[str, str]:
    """The next sentence."""
    return text, after


VARIANTS: dict[str, Pair] = {
    "neighbours": neighbors,
    "dropout": dropout,
    "crops": crops,
    "crops of neighbours": lambda text, after: (cropped(text), cropped(after)),
    "neighbours or crops": one_of(neighbors, crops),
    "neighbours or dropout": one_of(neighbors, dropout),
}


def pairs_of(args: argparse.Namespace, variant: str, seed: int) -> Dataset:
    """64 rows a step."""
    table = pq.read_table(args.corpus, columns=["text", "doc"])
    documents = table["doc"].to_numpy()
    starts = np.flatnonzero(documents[1:] == documents[:-1])
    chosen = np.random.default_rng(seed).choice(starts, args.steps * 64, replace=False)
    sides = [table["text"].take(chosen + step).to_pylist() for step in (0, 1)]
    random.seed(seed)
    made = [VARIANTS[variant](*pair) for pair in zip(*sides, strict=True)]
    return Dataset.from_dict(
        {"text": [a for a, _ in made], "positive": [b for _, b in made], "document": documents[chosen]}
    )


class Curve(TrainerCallback):
    """Evaluates the model after some of the steps."""

    def __init__(self, steps: list[int], note: Callable[[int, Any], None]) -> None:
        self.steps, self.note = steps, note

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Evaluate it."""
        if state.global_step in self.steps:
            self.note(state.global_step, model)


def trained(args: argparse.Namespace, variant: str, seed: int, note: Callable[[int, Any], None]) -> dict[str, float]:
    """Train one variant with one seed and evaluate it."""
    set_seed(seed)
    tokenizer = load_tokenizer(args.start)
    model = AutoModelForCL.from_pretrained(
        args.start, config=with_dropout(load_config(args.start), 0.1), loss="document_info_nce", temperature=0.05,
        pooling="mean",
    )  # fmt: skip
    rows = tokenize(pairs_of(args, variant, seed), tokenizer, 32)
    with tempfile.TemporaryDirectory() as folder:
        trainer = ContrastiveTrainer(
            model=model,
            args=ContrastiveTrainingArguments(
                folder, max_steps=args.steps, per_device_train_batch_size=64, learning_rate=args.learning_rate,
                seed=seed, save_strategy="no", report_to="none", disable_tqdm=True, logging_steps=50,
            ),
            train_dataset=rows, data_collator=NeighborPairCollator(tokenizer), processing_class=tokenizer,
            callbacks=[Curve(args.curve if seed == args.seeds[0] else [], note)],
        )  # fmt: skip
        trainer.train()
        trainer.save_model()
        return judged(folder, args.senteval)


def main() -> None:
    """Train, evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start")
    parser.add_argument("corpus")
    parser.add_argument("senteval", type=Path, help="folder of SentEval's files")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--curve", type=int, nargs="*", default=[50, 100])
    parser.add_argument("--learning_rate", type=float, default=1e-4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), default=list(VARIANTS), metavar="ROW")
    parser.add_argument("--output", type=Path, default=Path("neighbor_pairs.csv"))
    args = parser.parse_args()

    def about(variant: str, steps: int, seed: Any) -> dict[str, Any]:
        return {"variant": variant, "steps": steps, "learning_rate": args.learning_rate, "seed": seed}

    def run(variant: str, seed: int) -> dict[str, float]:
        def note(steps: int, model: Any) -> None:
            with tempfile.TemporaryDirectory() as folder:
                model.save_pretrained(folder)
                load_tokenizer(args.start).save_pretrained(folder)
                figures = recorded(args, about(variant, steps, seed), lambda: judged(folder, args.senteval))
            print(row_of(f"{variant}, {steps} steps, seed {seed}", [figures]), flush=True, file=sys.stderr)

        return recorded(args, about(variant, args.steps, seed), lambda: trained(args, variant, seed, note))

    print(f"| {args.steps} steps | {' | '.join(COLUMNS)} |\n|---|{'---:|' * len(COLUMNS)}")
    start = recorded(args, about("before", 0, ""), lambda: judged(args.start, args.senteval, pooling="mean"))
    print(row_of("before", [start]), flush=True)
    for variant in args.only:
        print(row_of(variant, [run(variant, seed) for seed in args.seeds]), flush=True)


if __name__ == "__main__":
    main()
