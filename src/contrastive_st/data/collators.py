"""Collators: token ids of a few rows to the tensors of one batch, `[B, V, L]`.

They work under the stock `transformers.Trainer`, under `ContrastiveTrainer` and in a bare accelerate loop.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerBase

from contrastive_st.errors import InputError


@dataclass
class PairCollator:
    """Rows with V >= 2 texts each: `[[anchor ids, positive ids, ...], ...]` to `[B, V, L]`.

    Args:
        tokenizer: pads on the right, to the longest row of the batch.
        do_mlm: add `mlm_input_ids` and `mlm_labels`, masked copies for the auxiliary loss; the contrastive
            inputs are never masked.
        mlm_probability: share of the tokens to predict; of those 80% are masked, 10% replaced, 10% kept.
        pad_to_multiple_of: round the length up, for kernels that like multiples of 8.

    Example:
        Two pairs, ids 2 and 3 being [CLS] and [SEP], 0 the padding::

            [{"input_ids": [[2, 7, 8, 3], [2, 9, 3]]},       input_ids       [[[2, 7, 8, 3], [2, 9, 3, 0]],
             {"input_ids": [[2, 5, 3],    [2, 6, 3]]}]   ->                   [[2, 5, 3, 0], [2, 6, 3, 0]]]
                                                             attention_mask  [[[1, 1, 1, 1], [1, 1, 1, 0]],
                                                                              [[1, 1, 1, 0], [1, 1, 1, 0]]]
    """

    tokenizer: PreTrainedTokenizerBase
    do_mlm: bool = False
    mlm_probability: float = 0.15
    pad_to_multiple_of: int | None = None

    def views(self, row: dict[str, Any]) -> Sequence[Sequence[int]]:
        """The V lists of ids of one row."""
        views = row["input_ids"]
        if not views or isinstance(views[0], int):
            raise InputError(
                "a row holds one text, and pairs need two or more: give a file with two columns, or train on "
                "dropout pairs with DropoutPairCollator"
            )
        return views

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        views = [self.views(row) for row in rows]
        counts = {len(row) for row in views}
        if len(counts) != 1:
            raise InputError(f"rows of one batch hold {sorted(counts)} texts each; every row needs the same number")
        flat = [{"input_ids": list(ids)} for row in views for ids in row]
        padded = self.tokenizer.pad(flat, return_tensors="pt", pad_to_multiple_of=self.pad_to_multiple_of)
        shape = (len(views), counts.pop(), -1)
        batch = {"input_ids": padded["input_ids"], "attention_mask": padded["attention_mask"]}
        if "token_type_ids" in self.tokenizer.model_input_names:
            batch["token_type_ids"] = torch.zeros_like(batch["input_ids"])
        if self.do_mlm:
            batch["mlm_input_ids"], batch["mlm_labels"] = self._mask(batch["input_ids"])
        return {name: tensor.view(shape) for name, tensor in batch.items()}

    def _mask(self, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        collator = DataCollatorForLanguageModeling(self.tokenizer, mlm_probability=self.mlm_probability)
        # drawn from what is in the batch: batches are made ahead of the steps, so that after a resume the state of the
        # default generator is not the one that the uninterrupted run had here
        collator.generator = torch.Generator().manual_seed(zlib.crc32(input_ids.numpy().tobytes()))
        inputs, labels = collator.torch_mask_tokens(input_ids.clone())
        return inputs, labels


@dataclass
class DropoutPairCollator(PairCollator):
    """Rows with one text: tokenized once, repeated V times; dropout makes the views differ (unsupervised SimCSE).

    Example:
        ::

            [{"input_ids": [2, 7, 8, 3]},       input_ids  [[[2, 7, 8, 3], [2, 7, 8, 3]],
             {"input_ids": [2, 5, 3]}]     ->               [[2, 5, 3, 0], [2, 5, 3, 0]]]
    """

    num_views: int = 2

    def views(self, row: dict[str, Any]) -> Sequence[Sequence[int]]:
        ids = row["input_ids"]
        if ids and not isinstance(ids[0], int):
            raise InputError("a row holds several texts, and a dropout pair is made of one; use PairCollator")
        return [ids] * self.num_views


@dataclass
class NLITripletCollator(PairCollator):
    """Rows with anchor, positive and one or more hard negatives (supervised SimCSE: entailment, contradiction).

    Example:
        ::

            [{"input_ids": [[2, 7, 3], [2, 8, 3], [2, 9, 3]]}]  ->  input_ids  [[[2, 7, 3], [2, 8, 3], [2, 9, 3]]]
    """

    def views(self, row: dict[str, Any]) -> Sequence[Sequence[int]]:
        views = super().views(row)
        if len(views) < 3:
            raise InputError("a row holds two texts, and a triplet needs a hard negative as third; use PairCollator")
        return views
