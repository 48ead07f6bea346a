"""Collators of labelled rows, and of batches of several tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from contrastive_st.data.collators import PairCollator
from contrastive_st.errors import InputError


@dataclass
class LabelledPairCollator(PairCollator):
    """Rows of two texts and a `label` (a class number) or a `score` (0 to 1), which become the targets `[B]`.

    Example:
        ::

            [{"input_ids": [[2, 7, 3], [2, 8, 3]], "label": 1},   input_ids  [[[2, 7, 3], [2, 8, 3]],
             {"input_ids": [[2, 5, 3], [2, 6, 3]], "label": 0}] ->            [[2, 5, 3], [2, 6, 3]]]
                                                                  targets    [1, 0]
    """

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        name = next((name for name in ("label", "score") if name in rows[0]), None)
        if name is None:
            raise InputError("rows have no label and no score; read labelled pairs with read_pairs")
        batch = super().__call__(rows)
        values = [row[name] for row in rows]
        batch["targets"] = torch.tensor(values, dtype=torch.long if name == "label" else torch.float32)
        return batch


@dataclass
class TaskCollator:
    """Batches of rows of a `TaskMix`: each by its task's own collator, its number in the first column of the targets.

    Args:
        collators: one a task, in the order of the tasks.

    Example:
        Two pairs of task 1::

            [{"input_ids": [[7], [8]], "label": 2, "task": 1},
             {"input_ids": [[5], [6]], "label": 0, "task": 1}]  ->  targets  [[1, 2], [1, 0]]
    """

    collators: Sequence[Callable[[Sequence[dict[str, Any]]], dict[str, Tensor]]]

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        numbers = {row["task"] for row in rows}
        if len(numbers) != 1:
            raise InputError(f"a batch holds rows of the tasks {sorted(numbers)}; read them in the order of TaskMix")
        number = numbers.pop()
        batch = self.collators[number](rows)
        own = batch.get("targets", torch.zeros(len(rows), 0, dtype=torch.long))
        own = own[:, None] if own.dim() == 1 else own
        batch["targets"] = torch.cat([torch.full((len(rows), 1), number, dtype=own.dtype), own], 1)
        return batch
