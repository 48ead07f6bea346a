"""Fine-tuning of an encoder and a new classifier on a few labelled sentences, to compare pre-trainings (CERT)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from transformers import (
    AutoModelForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
    set_seed,
)

from contrastive_st.errors import InputError, about
from contrastive_st.evaluation.datasets.senteval import Rows, Splits
from contrastive_st.evaluation.tasks import Task, chosen
from contrastive_st.models import AutoModelForCL
from contrastive_st.models.checkpoint import Checkpoint
from contrastive_st.tokens import beginnings


def labelled_parts(task: Task | str, data: str | None, samples: int) -> Splits:
    """The test rows of a task, and `samples` of its training rows, in a fixed random order.

    Args:
        task: such as `TREC`, `SST2`, `MRPC` or `SICKE`.
        data: folder of SentEval's files, or `hub`; by default `$CONTRASTIVE_ST_DATA`.
        samples: number of training rows.

    Raises:
        InputError: there are no data, or the task has no classes, or lacks one of the parts.
    """
    where = data or os.environ.get("CONTRASTIVE_ST_DATA")
    if not where:
        raise InputError("the labelled task needs data; set --eval_data or CONTRASTIVE_ST_DATA to a folder or hub")
    task = chosen([task] if isinstance(task, Task) else task, 5)[0]
    parts = task.load(where)
    if "train" not in parts or "test" not in parts or parts["train"].labels.dtype.kind != "i":
        raise InputError(f"{task.name} has no classes in a training and a test part; choose TREC, SST2, MRPC or SICKE")
    order = np.random.default_rng(0).permutation(len(parts["train"]))[:samples]
    return Splits({"train": parts["train"].take(order), "test": parts["test"]})


def new_classifier(start: str | Path, parts: Splits) -> PreTrainedModel:
    """An encoder with a new classifier over the classes of the training rows, all weights in float32 and trained.

    Args:
        start: folder of the encoder; an adapter is merged into its base.
        parts: from `labelled_parts`.

    Raises:
        ValueError: transformers has no classifier of this family.
    """
    checkpoint = Checkpoint.find(start)
    with about(start):
        model = AutoModelForSequenceClassification.from_pretrained(
            checkpoint.model, num_labels=int(parts["train"].labels.max()) + 1, dtype=torch.float32,
            use_safetensors=True, trust_remote_code=False,
        )  # fmt: skip
    if checkpoint.adapter is not None:  # transformers would open it with a frozen base
        merged = AutoModelForCL.from_pretrained(checkpoint, merge_adapter=True)
        held = merged.get_submodule(merged.base_model_prefix).state_dict()
        own = model.base_model.state_dict()  # without a pooler in some families
        model.base_model.load_state_dict({name: held.get(name, weight) for name, weight in own.items()})
    return model


def fine_tuned_accuracy(
    start: str | Path, tokenizer: PreTrainedTokenizerBase, parts: Splits, args: TrainingArguments
) -> float:
    """Train encoder and a new classifier on the training rows; returns the accuracy on the test rows.

    Args:
        start: folder of the encoder or the adapter.
        tokenizer: texts are truncated to its `model_max_length`.
        parts: from `labelled_parts`.
        args: arguments of the training; their seed initialises the classifier and orders the rows.
    """
    set_seed(args.seed)
    model = new_classifier(start, parts)
    trainer = Trainer(
        model=model, args=args, train_dataset=_rows(parts["train"], tokenizer), processing_class=tokenizer,
        data_collator=DataCollatorWithPadding(tokenizer),
    )  # fmt: skip
    trainer.train()
    logits = np.asarray(trainer.predict(_rows(parts["test"], tokenizer)).predictions)
    return float((logits.argmax(1) == parts["test"].labels).mean())


def _rows(rows: Rows, tokenizer: PreTrainedTokenizerBase) -> Dataset:
    """Labelled sentences, or pairs of them, as a classifier takes them."""
    longest = tokenizer.model_max_length
    columns = (beginnings(tokenizer, column, longest) for column in rows.columns)
    ids = tokenizer(*columns, truncation=True, max_length=longest)
    return Dataset.from_dict({**ids, "labels": rows.labels.tolist()})
