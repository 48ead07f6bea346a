"""Do a teacher's scores of mined candidates help a student? Held-out documentation, with and without the scores.

    python benchmarks/teacher_scores.py TEACHER STUDENT [--learning_rate 2e-4] [--epochs 2] [--mined mined.parquet]

TEACHER (all-MiniLM-L6-v2) mines the hard negatives of the pairs of the installed Python documentation, first line and
paragraph, and its cosines are their scores: no cross-encoder was available. STUDENT is a smaller encoder, such as
model_cards/minilm-1-layer or static-minilm. All rows below have the same anchors, positives, steps, batch and rate;
those after the second have the same negatives too, and differ by the loss alone:

* pairs: InfoNCE, in-batch negatives alone
* without scores: InfoNCE, with the hard negatives
* margin_mse, kl_distillation, kl_distillation in batch: the losses of candidates with scores, the last with the
  candidates of the other rows as negatives

Evaluated on 1,000 held-out pairs, of which no near copy is trained on: MRR@10 x100, mean and standard deviation over
the seeds, and the 95% bootstrap interval of the difference to `without scores` (over the pairs, of the mean of the
seeds).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from transformers import set_seed

from contrastive_st import (
    AutoModelForCL,
    CandidatesCollator,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InfoNCE,
    KLDistillationLoss,
    MarginMSELoss,
    PairCollator,
    SentenceEncoder,
    read_examples,
    tokenize,
    write_hard_negatives,
)
from contrastive_st.data.docs_sets import texts_of
from contrastive_st.evaluation.docs_search import DocsSearch
from contrastive_st.evaluation.scorers.retrieval import mean_interval, ranks_of_own, reciprocal_ranks
from contrastive_st.models import load_tokenizer

LENGTH, BATCH = 64, 64
BASELINE = "without scores"
#: With the temperature that `train` chooses for a teacher's cosines
LOSSES: dict[str, Any] = {
    "pairs": InfoNCE(),
    BASELINE: InfoNCE(),
    "margin_mse": MarginMSELoss("cosine"),
    "kl_distillation": KLDistillationLoss(teacher_temperature=0.05),
    "kl_distillation in batch": KLDistillationLoss(teacher_temperature=0.05, in_batch_negatives=True),
}


def train(args: argparse.Namespace, mined: Dataset, name: str, seed: int, folder: str) -> None:
    """Train the student with one of the losses and save it."""
    set_seed(seed)
    tokenizer = load_tokenizer(args.student)
    texts = mined.select_columns(["anchor", "positive"]) if name == "pairs" else mined
    trainer = ContrastiveTrainer(
        model=AutoModelForCL.from_pretrained(args.student, loss=LOSSES[name]),
        args=ContrastiveTrainingArguments(
            folder, num_train_epochs=args.epochs, per_device_train_batch_size=BATCH, learning_rate=args.learning_rate,
            seed=seed, warmup_steps=0.1, save_strategy="no", report_to="none", disable_tqdm=True, logging_steps=1000,
        ),
        train_dataset=tokenize(texts, tokenizer, LENGTH), processing_class=tokenizer,
        data_collator=(PairCollator if name == "pairs" else CandidatesCollator)(tokenizer),
    )  # fmt: skip
    trainer.train()
    trainer.save_model()


def reciprocal(encoder: SentenceEncoder, docs: DocsSearch) -> NDArray[np.float64]:
    """The reciprocal rank of each held-out paragraph, sought by its first line."""
    titles, texts = ([pair[i] for pair in docs.heldout] for i in (0, 1))
    options: Any = {"normalize_embeddings": True}
    return reciprocal_ranks(
        ranks_of_own(encoder.encode_query(titles, **options), encoder.encode_document(texts, **options))
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teacher")
    parser.add_argument("student")
    parser.add_argument("--learning_rate", type=float, default=2e-4)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--num_negatives", type=int, default=4)
    parser.add_argument("--relative_margin", type=float, default=0.05)
    parser.add_argument("--mined", type=Path, default=Path("mined.parquet"), help="is written if it is not there")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    args = parser.parse_args()
    docs = DocsSearch.load()
    pairs = texts_of(docs.training).rename_columns({"title": "anchor", "text": "positive"})
    columns = ["positive", *(f"negative_{number}" for number in range(1, args.num_negatives + 1))]
    if not args.mined.exists():
        rules = {"num_negatives": args.num_negatives, "relative_margin": args.relative_margin}
        write_hard_negatives(pairs, args.mined, args.teacher, output_scores=True, verbose=True, **rules)
    texts = {pair.text for pair in docs.training}  # the packages may have changed since the file was written
    mined = read_examples(args.mined)[0].filter(lambda row: texts.issuperset(row[name] for name in columns))
    print(
        f"{len(mined):,} pairs, {args.num_negatives} negatives each; rate {args.learning_rate:g}, {args.epochs} epochs"
    )
    print("| | MRR@10 | less without scores |\n|---|--:|--:|")
    for name in (args.teacher, args.student):
        figure = 100 * reciprocal(SentenceEncoder(name), docs).mean()
        print(f"| {'teacher' if name == args.teacher else 'student before'} | {figure:.1f} | |", flush=True)
    found: dict[str, NDArray[np.float64]] = {}
    for name in (BASELINE, *(other for other in LOSSES if other != BASELINE)):
        ranks = []
        for seed in args.seeds:
            with tempfile.TemporaryDirectory() as folder:
                train(args, mined, name, seed, folder)
                ranks.append(reciprocal(SentenceEncoder(folder), docs))
        found[name] = 100 * np.stack(ranks)
        each = found[name].mean(1)
        mean, low, high = mean_interval(found[name].mean(0) - found[BASELINE].mean(0))
        less = "" if name == BASELINE else f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"
        print(f"| {name} | {each.mean():.1f} ± {each.std(ddof=min(len(each) - 1, 1)):.1f} | {less} |", flush=True)


if __name__ == "__main__":
    main()
