"""What SimCSE does to an encoder that is not a sentence encoder, and which of its parts matter: tables.

    python benchmarks/simcse_lift.py START SENTENCES TRIPLETS SENTEVAL [--steps 100] [--seeds 0 1 2] [--only ROW ...]

START is the encoder to start from (docs/simcse.md says how ours was made), SENTENCES a file of plain text, TRIPLETS one
of anchor, positive and hard negative, for supervised SimCSE. Each row is one change to a recipe: dropout pairs, batch
64, T = 0.05, at most 32 tokens, mean pooling. (The paper, Gao et al. 2021, takes the first token's state with a head
that is used in training only: a row here.) For each pooling and for triplets the learning rate is the best of
`--learning_rates` on STS-B dev with the first seed; the other rows take the recipe's. Runs that are in the output file
already are not repeated.

Printed are the mean and the standard deviation over the seeds: STS-B dev and test, Spearman x100; the mean of STS12, 14
and 15, Pearson x100; alignment and uniformity of STS-B dev (Figure 3 of the paper; lower is better).
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any, ClassVar

from datasets import Dataset
from torch import Tensor
from transformers import TrainerCallback, set_seed

from compare import cell_of
from contrastive_st import (
    AutoModelForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DropoutPairCollator,
    InfoNCE,
    PairCollator,
    SentenceEncoder,
    evaluate,
    read_examples,
    read_texts,
    tokenize,
)
from contrastive_st.models import load_tokenizer
from contrastive_st.models.auto import load_config
from contrastive_st.random_state import preserved_random_state
from contrastive_st.scripts import with_dropout
from contrastive_st.training import trainer as training

TASKS = "STSB,STS12,STS14,STS15,space"
COLUMNS = ("STS-B dev", "STS-B", "mean STS", "alignment", "uniformity")
FIELDS = ("start", "variant", "steps", "learning_rate", "seed", *COLUMNS)


@dataclass(frozen=True)
class SameMask(InfoNCE):
    """InfoNCE of one view with itself: both have the same dropout mask, so the positive's embedding is the anchor's."""

    name: ClassVar[str] = "same_mask_info_nce"

    def __call__(self, views: Tensor, targets: Tensor | None = None, **others: Any) -> Tensor:
        """The loss of the first view of each row."""
        return super().__call__(views[:, :1].expand(-1, 2, -1), targets, **others)


def without_words(text: str, share: float) -> str:
    """The text with each word deleted at random; one is left at least."""
    words = text.split()
    return " ".join([word for word in words if random.random() >= share] or [random.choice(words)])


def cropped(text: str, share: float) -> str:
    """A random stretch of the text that leaves out this share of its words."""
    words = text.split()
    kept = max(round(len(words) * (1 - share)), 1)
    begin = random.randint(0, len(words) - kept)
    return " ".join(words[begin : begin + kept])


@dataclass(frozen=True)
class Variant:
    """One row: the recipe, with what is given here changed."""

    name: str
    dropout: float = 0.1
    loss: InfoNCE = field(default_factory=lambda: InfoNCE(0.05))
    positive: Callable[[str], str] | None = None  # makes the second view; the same text by default
    supervised: int = 0  # how many columns of the triplets to train on, in place of the sentences
    settings: dict[str, Any] = field(default_factory=lambda: {"pooling": "mean"})
    own_rate: bool = False  # its learning rate is looked for


RECIPE = Variant("dropout 0.1", own_rate=True)
VARIANTS = (
    RECIPE,
    Variant("no dropout", dropout=0.0),
    Variant("dropout 0.05", dropout=0.05),
    Variant("dropout 0.2", dropout=0.2),
    Variant("dropout 0.1, one mask for both views", loss=SameMask(0.05)),
    Variant("dropout 0.1 and 10% of the words deleted", positive=lambda text: without_words(text, 0.1)),
    Variant("dropout 0.1 and 10% of the words cropped", positive=lambda text: cropped(text, 0.1)),
    Variant("supervised, entailed pairs", supervised=2, own_rate=True),
    Variant("supervised, with hard negatives", supervised=3, own_rate=True),
    Variant("cls, head in training only", settings={"pooling": "cls", "mlp_only_train": True}, own_rate=True),
    Variant("cls, head kept", settings={"pooling": "cls"}, own_rate=True),
    Variant("cls without a head", settings={"pooling": "cls_before_pooler"}, own_rate=True),
)
BEFORE = ("cls_before_pooler", "mean", "avg_first_last")


def judged(model: Any, senteval: Path, **options: Any) -> dict[str, float]:
    """The scores of `COLUMNS`."""
    found = {
        (s.task, s.split, s.metric, s.aggregation): s.value
        for s in evaluate([model], TASKS, senteval, **options).scores
    }
    sts = [found[f"STS{year}", "test", "pearson", "mean"] for year in (12, 14, 15)]
    space = {name: value for (task, _, name, _), value in found.items() if task == "space"}
    return {
        "STS-B dev": 100 * found["STSB", "dev", "spearman", "all"],
        "STS-B": 100 * found["STSB", "test", "spearman", "all"],
        "mean STS": 100 * mean(sts),
        "alignment": space["alignment"],
        "uniformity": space["uniformity"],
    }


def columns_of(args: argparse.Namespace, variant: Variant, seed: int) -> dict[str, list[str]]:
    """The texts of a variant, 64 rows for each step."""
    rows = read_examples(args.triplets)[0] if variant.supervised else read_texts(args.sentences)
    rows = rows.shuffle(seed=seed).take(args.steps * 64)
    columns = {name: rows[name][:] for name in rows.column_names[: variant.supervised or 1]}
    if variant.positive:
        [anchors] = columns.values()
        columns["positive"] = [variant.positive(text) for text in anchors]
    return columns


class Curve(TrainerCallback):
    """Alignment and uniformity of STS-B dev, every so many steps, the start included."""

    def __init__(self, senteval: Path, every: int, points: list[dict[str, float]]) -> None:
        self.senteval, self.every, self.points, self.tokenizer = senteval, every, points, None

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self.tokenizer = kwargs["processing_class"]
        self.add(state, model)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if state.global_step % self.every == 0:
            self.add(state, model)

    def add(self, state: Any, model: Any) -> None:
        """A point of the curve; the model goes on training as if it had not been asked."""
        with preserved_random_state():
            found = evaluate([SentenceEncoder(model, self.tokenizer)], "space,STSB", self.senteval).scores
        model.train()
        names = {("space", "alignment"), ("space", "uniformity"), ("STSB", "spearman")}
        point = {s.metric: s.value for s in found if (s.task, s.metric) in names and s.split == "dev"}
        self.points.append({"step": state.global_step, **{name: round(x, 4) for name, x in point.items()}})


def trained(
    args: argparse.Namespace, variant: Variant, learning_rate: float, seed: int,
    judge: Callable[[str], dict[str, float]] | None = None, every: int = 0, curve: list[dict[str, float]] | None = None,
) -> dict[str, float]:  # fmt: skip
    """Train one variant with one seed and evaluate it; points of its `curve` are added `every` so many steps."""
    training.check_views = lambda views, hashes: None  # it refuses dropout pairs without dropout, which are a row here
    set_seed(seed)
    tokenizer, columns = load_tokenizer(args.start), columns_of(args, variant, seed)
    model = AutoModelForCL.from_pretrained(
        args.start, config=with_dropout(load_config(args.start), variant.dropout), loss=variant.loss, **variant.settings
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = ContrastiveTrainer(
            model=model,
            args=ContrastiveTrainingArguments(
                folder, max_steps=args.steps, per_device_train_batch_size=64, learning_rate=learning_rate, seed=seed,
                save_strategy="no", report_to="none", disable_tqdm=True, logging_steps=50,
            ),
            train_dataset=tokenize(Dataset.from_dict(columns), tokenizer, 32), processing_class=tokenizer,
            data_collator=PairCollator(tokenizer) if len(columns) > 1 else DropoutPairCollator(tokenizer),
            callbacks=[Curve(args.senteval, every, curve)] if every and curve is not None else [],
        )  # fmt: skip
        trainer.train()
        model.drop_heads()
        trainer.save_model()
        return judge(folder) if judge else judged(folder, args.senteval)


def recorded(args: argparse.Namespace, run: dict[str, Any], measure: Callable[[], dict[str, float]]) -> dict[str, Any]:
    """The scores of a run: those in the output file, or else measured and written there."""
    run = {"start": args.start, **run}
    if args.output.exists():
        with open(args.output, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if all(row[name] == str(value) for name, value in run.items()):
                    return {name: float(row[name]) for name in COLUMNS}
    figures = measure()
    new = not args.output.exists()
    with open(args.output, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        if new:
            writer.writeheader()
        writer.writerow(run | figures)
    return figures


def row_of(name: str, runs: Sequence[dict[str, float]]) -> str:
    """A row of the table."""
    cells = [cell_of([run[column] for run in runs], 1 if "STS" in column else 2) for column in COLUMNS]
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Train, evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start")
    parser.add_argument("sentences")
    parser.add_argument("triplets")
    parser.add_argument("senteval", type=Path, help="folder of SentEval's files")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--learning_rates", type=float, nargs="+", default=[3e-5, 1e-4, 3e-4])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=[variant.name for variant in VARIANTS], metavar="ROW")
    parser.add_argument("--output", type=Path, default=Path("simcse_lift.csv"))
    args = parser.parse_args()

    def run(variant: Variant, rate: float, seed: int) -> dict[str, float]:
        about = {"variant": variant.name, "steps": args.steps, "learning_rate": rate, "seed": seed}
        return recorded(args, about, lambda: trained(args, variant, rate, seed))

    print(f"| {args.steps} steps | {' | '.join(COLUMNS)} |\n|---|{'---:|' * len(COLUMNS)}")
    for pooling in BEFORE:
        about = {"variant": f"before, {pooling}", "steps": 0, "learning_rate": "", "seed": ""}
        figures = recorded(args, about, lambda pooling=pooling: judged(args.start, args.senteval, pooling=pooling))
        print(row_of(about["variant"], [figures]), flush=True)
    rate = 0.0
    for variant in VARIANTS:
        if args.only and variant.name not in args.only and variant is not RECIPE:
            continue
        if variant.own_rate:
            tried = {rate: run(variant, rate, args.seeds[0])["STS-B dev"] for rate in args.learning_rates}
            rate = max(tried, key=lambda rate: tried[rate])
            words = ", ".join(f"{rate:g}: {value:.1f}" for rate, value in tried.items())
            print(f"{variant.name}, STS-B dev by learning rate with seed {args.seeds[0]}: {words}", file=sys.stderr)
        runs = [run(variant, rate, seed) for seed in args.seeds]
        print(row_of(f"{variant.name} ({rate:g})", runs), flush=True)


if __name__ == "__main__":
    main()
