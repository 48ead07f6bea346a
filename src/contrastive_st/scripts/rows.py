"""The rows that a training script reads: texts to train on and to validate on, and their tokens."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from contrastive_st import data
from contrastive_st.data import (
    DocPair,
    installed_docs,
    pairs_of_labels,
    read_examples,
    split_pairs,
    split_rows,
    tokenize,
)
from contrastive_st.data.docs_sets import texts_of, write_docs_corpus
from contrastive_st.data.label_pairs import check_targets
from contrastive_st.data.roles import KINDS, TARGETS, ColumnRoles, leave_out
from contrastive_st.distributed import is_first_process
from contrastive_st.errors import InputError
from contrastive_st.models.base import ForCL
from contrastive_st.scripts.arguments import DataArguments, ValidationArguments
from contrastive_st.terminal import is_quiet
from contrastive_st.tokens import column_prompts, token_ids
from contrastive_st.training.arguments import ContrastiveTrainingArguments

logger = logging.getLogger(__name__)


class Rows(NamedTuple):
    """Rows of text to train on and to validate on.

    Attributes:
        texts: a column for each view, then the score or the label.
        kind: the kind of the rows, a key of `contrastive_st.data.roles.KINDS`.
        held_out: validation rows, or None.
        held_out_kind: their kind, which may be another.
    """

    texts: Dataset
    kind: str
    held_out: Dataset | None = None
    held_out_kind: str | None = None

    @property
    def collator(self) -> Any:
        """The class of the collator that suits the rows."""
        return getattr(data, KINDS[self.kind].collator)

    @property
    def dropout_collator(self) -> Any:
        """The same for SimCSE and what builds on it: a single text is its positive too, by dropout."""
        return data.DropoutPairCollator if self.kind == "texts" else self.collator


def read_rows(
    args: DataArguments,
    validation: ValidationArguments,
    training: ContrastiveTrainingArguments,
    kinds: Sequence[str] = (),
    views: str = ColumnRoles.views,
) -> Rows:
    """Read the training file, and the validation file or a share of the rows to validate on; prints what they are.

    Texts with a class become pairs with a score (`pairs_of_labels`). With validation rows the run is evaluated
    regularly and keeps the best checkpoint.

    Args:
        args: which file, and which of its columns.
        validation: where the validation rows come from.
        training: its seed draws rows; `evaluate_regularly` is called if there are validation rows.
        kinds: the kinds of rows that the script trains; by default any.
        views: what the script makes of single texts.

    Returns:
        The rows to train on and to validate on.

    Raises:
        InputError: there is no file, its rows are of another kind, or all have the same score or label.
    """
    if args.train_file is None:
        raise InputError("give --train_file, a file or a data set of the Hub")
    texts, roles = _read(args.train_file, args, views)
    if kinds and roles.kind not in kinds:
        accepted = "; ".join(KINDS[kind].words for kind in kinds)
        raise InputError(
            f"{roles.source} has {roles.words}, but this script trains on {accepted}; name columns with "
            f"{leave_out(roles)}, or run contrastive-st train --train_file, which trains on every kind"
        )
    texts = texts.take(min(args.max_train_samples or len(texts), len(texts)))
    held_out, held_out_roles = None, roles
    if validation.validation_file is not None:
        classes = roles.classes if roles.kind == "labelled_pairs" else {}
        held_out, held_out_roles = _read(validation.validation_file, args, views, classes)
    elif validation.validation_split is not None:
        texts, held_out = split_rows(texts, validation.validation_split, training.seed)
    if held_out is not None:
        training.evaluate_regularly()
    if args.score_range and "scored_pairs" not in (roles.kind, held_out_roles.kind):
        raise InputError(f"--score_range: {roles.source} has {roles.words}, without a score; leave it out")
    check_targets(texts, roles)
    texts, held_out = (
        pairs_of_labels(part, training.seed, own.source) if part is not None and own.kind == "labelled_texts" else part
        for part, own in ((texts, roles), (held_out, held_out_roles))
    )
    return Rows(texts, roles.kind, held_out, held_out_roles.kind)


def _read(
    file: str | Sequence[str], args: DataArguments, views: str, classes: Mapping[str, int] | None = None
) -> tuple[Dataset, ColumnRoles]:
    scale: Any = args.score_range and tuple(args.score_range)
    texts, roles = read_examples(file, args.columns, strict=args.strict, scale=scale, classes=classes)
    if is_first_process() and not is_quiet():
        print(replace(roles, views=views))
    return texts, roles


def documentation_rows(
    args: DataArguments, validation: ValidationArguments, texts: Dataset | None = None, kind: str = "texts"
) -> Rows:
    """The rows of a script without a file: of the documentation of the installed Python packages.

    Args:
        args: how many rows.
        validation: must name no rows.
        texts: what the script makes of the documentation; by default its paragraphs.
        kind: their kind.

    Raises:
        InputError: validation rows are asked for, which only a file has.
    """
    for name, value in vars(validation).items():
        if value is not None:
            raise InputError(f"--{name} goes with --train_file; give it too")
    if texts is None:
        texts = texts_of(split_pairs(installed_docs(), 1000)[0]).select_columns(["text"])
    return Rows(texts.take(min(args.max_train_samples or len(texts), len(texts))), kind)


def validation_parts(
    rows: Rows, model: ForCL, tokenizer: PreTrainedTokenizerBase, training: ContrastiveTrainingArguments
) -> dict[str, object]:
    """The arguments of `ContrastiveTrainer` for the validation rows; none without them.

    Rows of the kind that is trained have a loss and a metric; rows of another kind, such as scored pairs when texts are
    trained, have another collator and only the metric.
    """
    if rows.held_out is None:
        return {}
    result = {"eval_dataset": tokenized(rows.held_out, model, tokenizer, training)}
    if rows.held_out_kind != rows.kind:
        result["eval_collator"] = getattr(data, KINDS[str(rows.held_out_kind)].collator)(tokenizer)
    return result


def prompts_before(columns: Sequence[str], model: ForCL) -> dict[str, str]:
    """The prompt before the texts of each column in training, "" for none; a line of the log says which.

    Args:
        columns: names of the columns of text.
        model: it has the prompts.

    Raises:
        InputError: it has prompts, and none of them is for a column.
    """
    settings = model.settings
    prompts = column_prompts(columns, settings.prompts, settings.default_prompt_name)
    if any(settings.prompts.values()) and not any(prompts.values()):
        raise InputError(
            f"none of the prompts {' '.join(settings.prompts)} is for {', '.join(columns)}: name them query for the "
            "first of several columns and document for the others, or name one with --default_prompt_name"
        )
    if any(prompts.values()):
        logger.info("prompts: " + ", ".join(f"{prompt!r} before {name}" for name, prompt in prompts.items() if prompt))
    return prompts


def tokenized(
    texts: Dataset,
    model: ForCL,
    tokenizer: PreTrainedTokenizerBase,
    training: ContrastiveTrainingArguments,
    num_proc: int | None = None,
) -> Dataset:
    """The rows of `contrastive_st.data.tokenize`, each text with the prompt of its column; says how many are truncated.

    Args:
        texts: columns of text, and columns of numbers.
        model: its prompts are put before the texts.
        tokenizer: texts are truncated to its `model_max_length`.
        training: the first process tokenizes, the others read what it cached.
        num_proc: processes that tokenize.
    """
    columns = [name for name in texts.column_names if name not in TARGETS]
    prompts, max_length = prompts_before(columns, model), tokenizer.model_max_length
    with training.main_process_first(desc="tokenize"):
        rows = tokenize(texts, tokenizer, max_length, num_proc, {name: text for name, text in prompts.items() if text})
    if count := _truncated(texts, rows, tokenizer, prompts):
        total = len(rows) * len(columns)
        logger.warning(
            f"{count:,} of {total:,} texts are truncated to {max_length} tokens; --max_length sets the limit"
        )
    return rows


def _truncated(texts: Dataset, rows: Dataset, tokenizer: PreTrainedTokenizerBase, prompts: Mapping[str, str]) -> int:
    """How many texts have more tokens than the tokenizer's `model_max_length`; those that fill it are read again."""
    max_length = tokenizer.model_max_length
    ids = rows.with_format("arrow")["input_ids"][:]
    ids = pc.list_flatten(ids) if len(prompts) > 1 else ids
    full = np.flatnonzero(pc.greater_equal(pc.list_value_length(ids), min(max_length, 1 << 30)).to_numpy())
    count = 0
    for i, (name, prompt) in enumerate(prompts.items()):
        long = [prompt + text for text in texts.select(full[full % len(prompts) == i] // len(prompts))[name]]
        count += sum(len(row) > max_length for row in token_ids(tokenizer, long, max_length + 1))
    return count


def check_window(
    training: ContrastiveTrainingArguments, corpus: Sized, context_size: int = 1, run_length: int | None = None
) -> None:
    """Check that a batch, or a run of consecutive sentences, holds a sentence and its neighbours on one side.

    Raises:
        InputError: it does not, or the corpus is too small for it.
    """
    batch = min(training.per_device_train_batch_size, len(corpus) // max(training.world_size, 1))
    if batch <= context_size:
        raise InputError(
            f"a batch of {batch} sentences, of {len(corpus)} in the corpus, is smaller than a window of {context_size} "
            "and the sentence itself; give more sentences, a larger --per_device_train_batch_size, or a smaller window"
        )
    if run_length is not None and run_length <= context_size:
        raise InputError(
            f"--run_length {run_length} is shorter than a window of {context_size} and the sentence itself"
        )


def corpus_files(
    files: Sequence[str] | None, training: ContrastiveTrainingArguments
) -> tuple[list[str], Sequence[DocPair]]:
    """The files of sentences in order, by default the installed documentation, and its pairs that are held out."""
    if files:
        return list(files), []
    path = Path(str(training.output_dir), "corpus.txt")
    with training.main_process_first(desc="read the documentation"):
        heldout = write_docs_corpus(path)
    return [str(path)], heldout


def every_text(rows: Dataset) -> Iterable[str]:
    """The texts of all columns of text, one column after the other."""
    columns = [name for name in rows.column_names if name not in TARGETS]
    return (text for name in columns for batch in rows.iter(10_000) for text in batch[name] if text is not None)
