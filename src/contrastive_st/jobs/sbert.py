"""Train Sentence-BERT with several losses and poolings, and compare them."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import set_seed

from contrastive_st.data import (
    LabelledPairCollator,
    PairCollator,
    installed_docs,
    pairs_of_labels,
    read_examples,
    read_pairs,
    read_texts,
    split_pairs,
    tokenize,
    train_wordpiece,
)
from contrastive_st.distributed import is_first_process
from contrastive_st.errors import InputError
from contrastive_st.jobs.docs_search import docs_mrr, labelled_docs, triplets_of
from contrastive_st.jobs.job import (
    EncoderArguments,
    PromptArguments,
    check_data,
    direction,
    fit_batch,
    job_metadata,
    measures,
    own_folder,
    parse_job,
    prompt_settings,
    prompts_of,
    sample,
    say_what_happens,
    small_bert,
    with_lora,
    with_matryoshka,
)
from contrastive_st.models import AutoModelForCL, BertForCL
from contrastive_st.models.checkpoint import load_tokenizer
from contrastive_st.training import ContrastiveTrainer, check_output_dir

logger = logging.getLogger(__name__)
POOLINGS = ["cls_before_pooler", "mean", "max"]
LEFT_OUT = ("label", "score")
#: Every loss of this job, and the flag of the data that it is trained on
FILES = {
    "softmax": "nli_file", "cosine_similarity": "sts_file", "cosent": "sts_file", "angle": "sts_file",
    "triplet": "triplet_file",
}  # fmt: skip


@dataclass
class SBERTArguments(EncoderArguments, PromptArguments):
    """Data, losses and poolings of the job."""

    train_file: str | None = field(
        default=None,
        metadata={
            "help": "One file, whose columns say what it trains: pairs with a score (cosine_similarity, cosent, angle) "
            "or a label (softmax), triplets, or texts with a label. In place of the three files below."
        },
    )
    columns: list[str] | None = field(
        default=None,
        metadata={"help": "Its columns, by name or position, or as name=role (anchor, score, ...)."},
    )
    score_scale: list[float] | None = field(
        default=None, metadata={"help": "Its lowest and highest score, such as 0 5; by default 0 1."}
    )
    nli_file: str | None = field(
        default=None, metadata={"help": "For softmax: a file of SNLI, MultiNLI, ... or a name such as SNLI."}
    )
    sts_file: str | None = field(
        default=None, metadata={"help": "For cosine_similarity, cosent and angle: sts-train.csv, or STSB (of the Hub)."}
    )
    triplet_file: str | None = field(
        default=None, metadata={"help": "For triplets: a file of three columns, anchor, positive, negative."}
    )
    losses: list[str] | None = field(
        default=None,
        metadata={
            "help": "One or more of softmax, cosine_similarity, cosent, angle and triplet; by default the one that "
            "suits --train_file, else softmax, cosine_similarity and triplet."
        },
    )
    poolings: list[str] | None = field(
        default=None,
        metadata={
            "help": "One or more; by default mean with --train_file, else cls_before_pooler, mean and max. (The "
            "paper's CLS is cls_before_pooler; cls has the projection head on top.)"
        },
    )
    model_name_or_path: str | None = field(
        default=None, metadata={"help": "Encoder; by default a small BERT from scratch."}
    )
    max_train_samples: int | None = field(
        default=None, metadata={"help": "Rows of each data set to train on, drawn at random."}
    )
    max_length: int = field(default=48, metadata={"help": "Longest text, in tokens."})
    num_layers: int = field(default=1, metadata={"help": "Layers of an encoder from scratch."})
    hidden_size: int = field(default=128, metadata={"help": "Width of an encoder from scratch."})
    vocab_size: int = field(default=8000, metadata={"help": "Vocabulary of an encoder from scratch."})


DOCS_DEFAULTS: dict[str, Any] = {
    "output_dir": "out/sbert", "per_device_train_batch_size": 64, "learning_rate": 1e-3, "max_steps": 180,
    "warmup_steps": 0.1, "save_strategy": "no", "logging_steps": 50, "report_to": "none", "max_train_samples": 12_000,
}  # fmt: skip
DEFAULTS = {
    **DOCS_DEFAULTS, "max_train_samples": None, "per_device_train_batch_size": 16, "learning_rate": 2e-5,
    "max_steps": -1, "num_train_epochs": 1,
}  # fmt: skip


def main(argv: Sequence[str] | None = None, docs: bool = False) -> dict[str, dict[str, float]]:
    """Train each loss with each pooling from the same start; return the figures of each."""
    args, training = parse_job(SBERTArguments, argv, "Train Sentence-BERT.", DOCS_DEFAULTS if docs else DEFAULTS)
    check_data(docs, args.train_file or args.nli_file or args.sts_file or args.triplet_file, "sbert")
    say_what_happens()
    check_output_dir(training, args.overwrite_output_dir)
    data, heldout = read(args, training.seed)
    poolings = args.poolings or (["mean"] if args.train_file else POOLINGS)
    alone = args.train_file is not None and len(data) * len(poolings) == 1
    tokenizer = open_tokenizer(args, data)
    evaluate = measures(tokenizer, **({"docs_mrr": docs_mrr(tokenizer, heldout)} if heldout else {}))
    figures = {}
    for loss, pooling in itertools.product(data, poolings):
        set_seed(training.seed)
        labels = {"num_labels": max(data[loss]["label"][:]) + 1} if loss == "softmax" else {}
        settings = {**with_matryoshka({"loss": loss, **labels}, args), **prompt_settings(args)}
        model = open_model(args, tokenizer, pooling=pooling, **settings)
        if "untrained " + pooling not in figures:
            figures["untrained " + pooling] = evaluate(model)
        own = own_folder(training, Path(str(training.output_dir), *([] if alone else [f"{loss}-{pooling}"])))
        rows, collator = collated(data[loss], tokenizer, args.max_length, prompts_of(args, data[loss], model.settings))
        fit_batch(own, len(rows))
        trainer = ContrastiveTrainer(
            model=model, args=own, train_dataset=rows, data_collator=collator, processing_class=tokenizer,
            evaluator=evaluate,
        )  # fmt: skip
        trainer.metadata = job_metadata(args, len(rows), args.train_file or vars(args)[FILES[loss]])
        trainer.train()
        model.drop_heads()
        trainer.save_model()
        figures[f"{loss} {pooling}"] = evaluate(model)
    if is_first_process():
        report(figures, Path(str(training.output_dir)))
    return figures


def read(args: SBERTArguments, seed: int) -> tuple[dict[str, Dataset], Any]:
    """The rows of each loss, from the given files or else the documentation; and the held-out pairs."""
    if unknown := sorted(set(args.losses or []) - set(FILES)):
        raise InputError(f"--losses {' '.join(unknown)}: choose from {', '.join(FILES)}")
    if args.train_file:
        named, rows = read_by_columns(args, seed)
        return dict.fromkeys(named, sample(rows, args.max_train_samples)), None
    losses = args.losses or ["softmax", "cosine_similarity", "triplet"]
    files = {loss: vars(args)[flag] for loss, flag in FILES.items()}
    data: dict[str, Dataset] = {}
    heldout = None
    if any(files[loss] is None for loss in losses):
        pairs, heldout = split_pairs(installed_docs(), 1000)
        rows = labelled_docs(pairs)
        by_flag = {
            "nli_file": rows.remove_columns("score"),
            "sts_file": rows.remove_columns("label"),
            "triplet_file": triplets_of(rows),
        }
        data = {loss: by_flag[flag] for loss, flag in FILES.items()}
    for loss, file in files.items():
        if file is not None and loss in losses:
            data[loss] = read_texts(file, (0, 1, 2)) if loss == "triplet" else read_pairs(file)
    return {name: sample(data[name], args.max_train_samples) for name in losses}, heldout


def read_by_columns(args: SBERTArguments, seed: int) -> tuple[list[str], Dataset]:
    """The given losses, or the one that fits the columns of the file, and the rows."""
    if args.score_scale and len(args.score_scale) != 2:
        raise InputError(f"--score_scale {' '.join(map(str, args.score_scale))}: give the lowest and the highest score")
    low_high: Any = tuple(args.score_scale) if args.score_scale else None
    rows, roles = read_examples(str(args.train_file), args.columns, scale=low_high)
    logger.info(roles)
    if roles.kind == "labelled_texts":
        rows = pairs_of_labels(rows, seed)
    elif roles.kind in ("texts", "pairs"):
        raise InputError(
            f"{args.train_file} holds {roles.words} without score, label or negative; contrastive-st train simcse "
            "trains them"
        )
    usual = "triplet" if roles.kind == "triplets" else roles.loss
    suitable = [loss for loss, flag in FILES.items() if flag == FILES[usual]]
    if wrong := [loss for loss in args.losses or [] if loss not in suitable]:
        raise InputError(
            f"{args.train_file} holds {roles.words}; --losses {' '.join(wrong)} does not train them, but "
            f"{', '.join(suitable)}"
        )
    return args.losses or [usual], rows


def open_tokenizer(args: Any, data: dict[str, Dataset], prompts: Sequence[str] = ()) -> Any:
    """The tokenizer of the given encoder, or one learned from the texts and prompts."""
    if args.model_name_or_path:
        tokenizer = load_tokenizer(args.model_name_or_path)
        tokenizer.model_max_length = args.max_length
        return tokenizer
    columns = [rows[name][:] for rows in data.values() for name in rows.column_names if name not in LEFT_OUT]
    columns += [
        [*prompt_settings(args).get("prompts", {}).values(), *prompts]
    ] * 2  # words that occur once are left out
    return train_wordpiece((text for column in columns for text in column), args.vocab_size, args.max_length)


def open_model(args: Any, tokenizer: Any, **settings: Any) -> Any:
    """The encoder, with a new head for the loss."""
    if args.model_name_or_path:
        settings |= {"with_head": True, **direction(args)}
        return with_lora(AutoModelForCL.from_pretrained(args.model_name_or_path, **settings), args)
    return with_lora(BertForCL(small_bert(args, len(tokenizer)), **settings), args)


def collated(rows: Dataset, tokenizer: Any, max_length: int, prompts: dict[str, str]) -> tuple[Dataset, PairCollator]:
    """Tokenized rows and their collator: of labelled pairs, or of triplets."""
    kind = LabelledPairCollator if set(LEFT_OUT) & set(rows.column_names) else PairCollator
    return tokenize(rows, tokenizer, max_length, prompts=prompts), kind(tokenizer)


def report(figures: dict[str, dict[str, float]], folder: Path) -> None:
    """Print the table and write it beside the checkpoints."""
    names = list(next(iter(figures.values())))
    print(f"{'':34}" + "".join(f"{name:>16}" for name in names))
    for run, values in figures.items():
        print(f"{run:34}" + "".join(f"{100 * values[name]:>16.2f}" for name in names))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
