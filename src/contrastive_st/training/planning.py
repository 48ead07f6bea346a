"""Values of a batch that the host needs before the device computes: lengths, counts of words, the data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from contrastive_st.buckets import row_lengths
from contrastive_st.losses import Loss
from contrastive_st.tokens import check_id
from contrastive_st.training.gradcache import Batch


@dataclass
class PlanningCollator:
    """Adds values that the host needs to the batches of another collator; they are not moved to the device.

    * `lengths` `[B, V]`: number of tokens of each row, for buckets and chunks;
    * `predicted` `[B, V]`, or `[B]` with TSDAE: number of tokens of each row that are to be predicted;
    * `task`: the name of the batch's data set in a mixture.

    Args:
        collator: any collator; its tensors are still on the host.
        loss: the loss of the model.
        vocabulary: number of token ids for which the model has a vector; a greater id is an error.

    Example:
        >>> import torch
        >>> collate = PlanningCollator(lambda rows: {"attention_mask": torch.tensor([[[1, 1, 0], [1, 0, 0]]])}, Loss())
        >>> collate([])["lengths"].tolist()
        [[2, 1]]
    """

    collator: Callable[[Any], Batch]
    loss: Loss
    vocabulary: int | None = None

    def __call__(self, rows: object) -> Batch:
        """Make one batch.

        Args:
            rows: the rows of the batch.

        Returns:
            The batch of the collator, with `lengths` and, where the loss has use for them, `predicted` and `task`.

        Raises:
            InputError: a token for which the model has no vector.
        """
        batch = dict(self.collator(rows))
        if self.vocabulary is not None and "input_ids" in batch:
            check_id(int(batch["input_ids"].max()), self.vocabulary, getattr(self.collator, "tokenizer", None))
        targets, words = batch.get("targets"), batch.get("mlm_targets")
        if targets is not None and self.loss.generates:
            words = targets[:, 1:]
        if "attention_mask" in batch:
            batch["lengths"] = row_lengths(batch["attention_mask"])
        if words is not None:
            batch["predicted"] = row_lengths(words != -100)
        task = self.loss.task_of(targets)
        return batch if task is None else {**batch, "task": task}
