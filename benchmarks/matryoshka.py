"""STS-B by dimension, trained with Matryoshka and without: a table, and a plot.

    python benchmarks/matryoshka.py STUDENT NLI SENTEVAL [--steps 150] [--seeds 0 1 2] [--output matryoshka.png]

STUDENT is the encoder to start from (model_cards/minilm-1-layer), NLI a csv of triplets (sent0, sent1, hard_neg). Each
seed is trained twice on the same batches: by `InfoNCE` of the whole embedding, and by `MatryoshkaLoss` over it at
every dimension of the table. Evaluated on STS-B dev (Spearman x100) with the first dimensions alone; mean and standard
deviation over the seeds.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.stats import spearmanr
from transformers import set_seed

from contrastive_st import (
    AutoModelForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InfoNCE,
    MatryoshkaLoss,
    NLITripletCollator,
    SentenceEncoder,
    tokenize,
)
from contrastive_st.data.reading import open_table
from contrastive_st.evaluation.tasks import choose
from contrastive_st.models import load_tokenizer

DIMS = (384, 256, 128, 64, 32, 16)


def trained(args: argparse.Namespace, triplets: Dataset, loss: Any, seed: int, folder: str) -> str:
    """Train the student by this loss; the folder it is saved in."""
    set_seed(seed)
    tokenizer = load_tokenizer(args.student)
    trainer = ContrastiveTrainer(
        model=AutoModelForCL.from_pretrained(args.student, loss=loss),
        args=ContrastiveTrainingArguments(
            folder, max_steps=args.steps, per_device_train_batch_size=128, learning_rate=args.learning_rate, seed=seed,
            warmup_steps=10, save_strategy="no", report_to="none", disable_tqdm=True, logging_steps=50,
        ),
        train_dataset=tokenize(triplets, tokenizer, 48), processing_class=tokenizer,
        data_collator=NLITripletCollator(tokenizer),
    )  # fmt: skip
    trainer.train()
    trainer.model.drop_heads()
    trainer.save_model()
    return folder


def by_dimension(folder: str, rows: Any) -> list[float]:
    """Spearman x100 of the pairs at each of `DIMS`."""
    encoder = SentenceEncoder(folder, precision="auto")
    first, second = (encoder.encode(column) for column in rows.columns)
    cosines = [
        (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
        for a, b in ((first[:, :dim], second[:, :dim]) for dim in DIMS)
    ]
    return [100 * float(spearmanr(cosine, rows.labels).statistic) for cosine in cosines]


def draw(found: dict[str, Any], path: Path) -> None:
    """A line a variant, with the deviation over the seeds."""
    figure = Figure(figsize=(6.5, 4), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for (name, values), colour in zip(found.items(), ("tab:gray", "tab:orange", "tab:blue"), strict=True):
        axes.errorbar(DIMS, values.mean(0), values.std(0), marker="o", capsize=3, color=colour, label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(DIMS, [str(dim) for dim in DIMS])
    axes.set(xlabel="first dimensions of the embedding", ylabel="STS-B dev, Spearman x100")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path)


def main() -> None:
    """Train, evaluate, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("student")
    parser.add_argument("nli", type=Path)
    parser.add_argument("senteval", type=Path, help="folder of SentEval's files")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--learning_rate", type=float, default=3e-4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--output", type=Path, default=Path("matryoshka.png"))
    args = parser.parse_args()
    cells = [list(row.values()) for _, row in open_table(args.nli)]
    columns = map(list, zip(*cells, strict=True))
    triplets = Dataset.from_dict(dict(zip(("anchor", "positive", "negative"), columns, strict=True)))
    dev = choose("STSB")[0].load(args.senteval)["dev"]
    found = {"before": np.array([by_dimension(args.student, dev)])}
    for name, loss in (("InfoNCE", InfoNCE(0.05)), ("Matryoshka over InfoNCE", MatryoshkaLoss(InfoNCE(0.05), DIMS))):
        runs = []
        for seed in args.seeds:
            with tempfile.TemporaryDirectory() as folder:
                runs.append(by_dimension(trained(args, triplets, loss, seed, folder), dev))
        found[name] = np.array(runs)
    print(
        f"| {args.steps} steps, seeds {args.seeds} | " + " | ".join(map(str, DIMS)) + " |\n|---|" + "--:|" * len(DIMS)
    )
    for name, values in found.items():
        deviation = values.std(0, ddof=1) if len(values) > 1 else [None] * len(DIMS)
        cells = [
            f"{mean:.1f}" + ("" if sd is None else f" ± {sd:.1f}")
            for mean, sd in zip(values.mean(0), deviation, strict=True)
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")
    draw(found, args.output)


if __name__ == "__main__":
    main()
