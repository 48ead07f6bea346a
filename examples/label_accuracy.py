"""Accuracy of the classifier that a loss trains together with the encoder."""

from __future__ import annotations

from typing import Any

import torch
from datasets import Dataset

from contrastive_st.data import LabelledPairCollator, MixtureCollator


@torch.no_grad()
def label_accuracy(model: Any, tokenizer: Any, rows: Dataset, task: str | None = None, batch_size: int = 256) -> float:
    """The share of labelled pairs whose label the classifier of the model's loss predicts.

    Args:
        model: a model with its head, whose loss is `softmax`, or has `softmax` as one of its tasks.
        tokenizer: the tokenizer of the rows.
        rows: the result of `tokenize`; not empty.
        task: the name of the task, for a model that trains several.
        batch_size: number of pairs encoded at a time.
    """
    collate: Any = LabelledPairCollator(tokenizer)
    if task is not None:
        collate = MixtureCollator({task: collate})
    figure = "accuracy" if task is None else f"{task}_accuracy"
    was_training, right = model.training, 0.0
    model.eval()
    for start in range(0, len(rows), batch_size):
        some = [{**row, "dataset": task} for row in rows.select(range(start, min(start + batch_size, len(rows))))]
        batch = {name: tensor.to(model.device) for name, tensor in collate(some).items()}
        views = model.embed(batch["input_ids"], batch["attention_mask"])
        right += model.loss_fn.metrics(views, batch["targets"])[figure] * len(some)
    model.train(was_training)
    return right / len(rows)
