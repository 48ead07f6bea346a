"""Sentences beside their teacher's embeddings: rows and batches for relational distillation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from contrastive_st.data.collators import pad_sentences
from contrastive_st.data.corpus import BlockSampler
from contrastive_st.errors import InputError


class TeacherRows(Dataset[dict[str, Any]]):
    """Rows `{"input_ids", "teacher"}`, in the order given, or along a path on which neighbours are similar.

    Args:
        ids: `input_ids` of N sentences: a list of lists, or a tokenized data set.
        embeddings: `[N, D]`, the teacher's; an array or a memory map.
        order: a permutation, as of `contrastive_st.data.order_corpus`: then `ContrastiveTrainer` reads contiguous
            batches of it, other ones each epoch. By default single sentences are shuffled.

    Raises:
        InputError: another number of sentences than of embeddings.

    Example:
        >>> rows = TeacherRows([[5, 6], [7]], np.eye(2, dtype=np.float32), np.array([1, 0]))
        >>> rows[0]["input_ids"], rows[0]["teacher"].tolist()
        ([7], [0.0, 1.0])
    """

    def __init__(self, ids: Any, embeddings: NDArray[np.floating], order: NDArray[np.int64] | None = None) -> None:
        if len(ids) != len(embeddings):
            raise InputError(f"{len(ids)} sentences and {len(embeddings)} embeddings; give one for each, in one order")
        self.ids = ids if isinstance(ids, list) else ids["input_ids"]
        self.embeddings, self.order = embeddings, order

    def __len__(self) -> int:
        return len(self.embeddings)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = int(index if self.order is None else self.order[index])
        return {"input_ids": self.ids[row], "teacher": self.embeddings[row]}

    def sampler(self, batch_size: int, seed: int) -> BlockSampler:
        """The order for training with batches of `batch_size` a process."""
        return BlockSampler(len(self), 1 if self.order is None else batch_size, seed)


@dataclass
class TeacherCollator:
    """Sentences and, as their targets, the teacher's embeddings of them.

    Args:
        tokenizer: the student's; pads on the right, to the longest sentence of the batch.

    Example:
        ::

            [{"input_ids": [7, 8], "teacher": [0.6, 0.8]},      input_ids  [[[7, 8]], [[9, 0]]]
             {"input_ids": [9],    "teacher": [1.0, 0.0]}]  ->  targets    [[0.6, 0.8], [1.0, 0.0]]
    """

    tokenizer: PreTrainedTokenizerBase

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        if "teacher" not in rows[0]:
            raise InputError("rows have no teacher; pair sentences with a teacher's embeddings by TeacherRows")
        batch = pad_sentences(self.tokenizer, rows)
        batch["targets"] = torch.from_numpy(np.stack([np.asarray(row["teacher"], np.float32) for row in rows]))
        return batch
