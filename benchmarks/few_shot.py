"""Classifiers from a few labelled texts: `classify`, `classify --tune` and setfit, on the same rows of the same data.

    pip install setfit
    python benchmarks/few_shot.py all-MiniLM-L6-v2 --data senteval --output few_shot.csv

For each task, number of texts per class and draw, every method gets the same texts and the same test rows:

* `logistic`: `SentenceClassifier(model)`, logistic regression on the embeddings.
* `tuned`: `SentenceClassifier(model, tune=True)`, which first trains the encoder on pairs of the classes.
* `tuned_float32`: the same without bf16, in which this package trains where the hardware is faster with it.
* `setfit`: setfit's `Trainer` with its defaults, which are the same: oversampling, one epoch, batch 16, rate 2e-5.

A row of the csv is written as soon as it is measured, and rows that are there are not measured again, so a run that was
stopped goes on. `--table` prints the table of a csv and measures nothing. The seconds are processor time of training
and fitting, on one thread, without imports and opening the model, so that other work on the machine counts little.

Test rows are those of the task, or a quarter of the rows, at most 2,000, where it has no test split.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ["OMP_NUM_THREADS"] = "1"  # before numpy and torch are imported

FIELDS = ("task", "texts_a_class", "draw", "method", "accuracy", "macro_f1", "seconds", "test_rows")
KEY = FIELDS[:4]
Predict = Callable[[Sequence[str]], Sequence[int]]


def main() -> None:
    """Measure the cells that are missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="the encoder: folder or Hub name, in sentence-transformers' layout")
    parser.add_argument("--data", default=os.environ.get("CONTRASTIVE_ST_DATA"), help="a folder of SentEval's files")
    parser.add_argument("--output", "-o", default="few_shot.csv")
    parser.add_argument("--tasks", nargs="+", default=["CR", "SST2"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[8, 16, 64], help="texts per class")
    parser.add_argument("--draws", nargs="+", type=int, default=list(range(10)))
    parser.add_argument("--methods", nargs="+", default=SHOWN, choices=list(METHODS))
    parser.add_argument("--table", action="store_true", help="print the table of --output, and measure nothing")
    args = parser.parse_args()
    path = Path(args.output)
    if not args.table:
        measure(args, path)
    print(table(read(path)))


def measure(args: argparse.Namespace, path: Path) -> None:
    """Append a row to the csv for each cell that it lacks."""
    done = {tuple(row[name] for name in KEY) for row in read(path)}
    rows = {task: rows_of(task, args.data) for task in args.tasks}
    for size, draw, task, method in itertools.product(args.sizes, args.draws, args.tasks, args.methods):
        if (task, str(size), str(draw), method) not in done:
            pool, test = rows[task]
            figures = judged(METHODS[method], args.model, drawn(pool, size, draw), test, draw)
            append(path, dict(zip(KEY, (task, size, draw, method), strict=True)) | figures)


def judged(method: Any, model: str, examples: Any, test: Any, seed: int) -> dict[str, Any]:
    """Accuracy, macro-F1 and seconds of a method that learns from the examples."""
    from sklearn.metrics import accuracy_score, f1_score

    opened = method.open(model, seed)
    started = time.process_time()
    predict: Predict = method.fit(opened, *examples, seed)
    seconds = time.process_time() - started
    predicted, gold = list(predict(test.columns[0])), test.labels
    found = {"accuracy": accuracy_score(gold, predicted), "macro_f1": f1_score(gold, predicted, average="macro")}
    return {name: f"{value:.4f}" for name, value in found.items()} | {
        "seconds": f"{seconds:.2f}",
        "test_rows": len(test),
    }


class Ours:
    """`SentenceClassifier`, with or without training its encoder."""

    def __init__(self, tune: bool, float32: bool = False) -> None:
        self.tune, self.float32 = tune, float32

    def open(self, model: str, seed: int) -> Any:
        """The encoder."""
        from contrastive_st.models.encoder import SentenceEncoder

        return SentenceEncoder(model, device="cpu")

    def fit(self, opened: Any, texts: Sequence[str], labels: Sequence[int], seed: int) -> Predict:
        """A classifier of the examples."""
        from contrastive_st import SentenceClassifier
        from contrastive_st.training import arguments

        fast = (lambda: False) if self.float32 else arguments.bf16_is_fast
        with patch.object(arguments, "bf16_is_fast", fast):
            return SentenceClassifier(opened, tune=self.tune, seed=seed).fit(texts, labels).predict


class Theirs:
    """setfit."""

    def open(self, model: str, seed: int) -> Any:
        """The model with a logistic regression."""
        from setfit import SetFitModel

        return SetFitModel.from_pretrained(model, device="cpu")

    def fit(self, opened: Any, texts: Sequence[str], labels: Sequence[int], seed: int) -> Predict:
        """A classifier of the examples."""
        from datasets import Dataset
        from setfit import Trainer, TrainingArguments

        rows = Dataset.from_dict({"text": list(texts), "label": [int(label) for label in labels]})
        with tempfile.TemporaryDirectory() as folder:
            training = TrainingArguments(
                output_dir=folder, seed=seed, report_to="none", save_strategy="no", show_progress_bar=False
            )
            Trainer(model=opened, args=training, train_dataset=rows).train()
        return lambda tests: opened.predict(list(tests), as_numpy=True)


METHODS: dict[str, Any] = {
    "logistic": Ours(tune=False),
    "tuned": Ours(tune=True),
    "setfit": Theirs(),
    "tuned_float32": Ours(tune=True, float32=True),
}
SHOWN = ("logistic", "tuned", "setfit")


def rows_of(task: str, data: str) -> tuple[Any, Any]:
    """The rows to draw from and the test rows of a task."""
    from contrastive_st.evaluation.scorers.few_shot import pool_and_test
    from contrastive_st.evaluation.tasks import tasks

    return pool_and_test(tasks()[task].load(data))


def drawn(pool: Any, size: int, draw: int) -> tuple[list[str], list[int]]:
    """The texts and labels of a draw."""
    from contrastive_st.evaluation.scorers.few_shot import draw_examples

    chosen = pool.take(draw_examples(pool.labels, size, draw))
    return chosen.columns[0], chosen.labels.tolist()


def read(path: Path) -> list[dict[str, str]]:
    """The rows of the csv; none if there is no file yet."""
    if not path.is_file():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def append(path: Path, row: dict[str, Any]) -> None:
    """Add a row to the csv, and print it."""
    new = not path.is_file()
    with open(path, "a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if new:
            writer.writeheader()
        writer.writerow(row)
    print(" ".join(str(row[name]) for name in FIELDS), file=sys.stderr, flush=True)


def table(rows: Sequence[dict[str, str]]) -> str:
    """Mean accuracy and seconds of each method, and ours minus setfit's over the draws that both have."""
    import numpy as np
    from scipy.stats import t

    def interval(values: Sequence[float], digits: int = 1) -> str:
        half = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0
        return f"{np.mean(values):.{digits}f} ± {half:.{digits}f}"

    cells: dict[Any, dict[str, dict[str, tuple[float, float]]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        own = 100 * float(row["accuracy"]), float(row["seconds"])
        cells[row["task"], int(row["texts_a_class"])][row["method"]][row["draw"]] = own
    lines = [
        "| task | texts per class | draws | logistic regression | `--tune` | setfit | `--tune` minus setfit | seconds, "
        "`--tune` | seconds, setfit |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for (task, size), found in sorted(cells.items()):
        both = sorted(found["tuned"].keys() & found["setfit"].keys() & found["logistic"].keys())
        if not both:
            continue
        accuracy = {name: [found[name][draw][0] for draw in both] for name in SHOWN}
        seconds = {name: np.mean([found[name][draw][1] for draw in both]) for name in SHOWN}
        less = [a - b for a, b in zip(accuracy["tuned"], accuracy["setfit"], strict=True)]
        lines.append(
            f"| {task} | {size} | {len(both)} | {' | '.join(interval(accuracy[name]) for name in SHOWN)} "
            f"| {interval(less, 2)} | {seconds['tuned']:.1f} | {seconds['setfit']:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
