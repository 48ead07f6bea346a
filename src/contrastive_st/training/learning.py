"""Whether a run learns: a batch of at least some rows, views that differ, a gradient, and a step."""

from __future__ import annotations

import logging
from collections.abc import Sized
from typing import Any

import torch
from torch import Tensor, nn
from transformers import TrainerCallback, TrainerControl, TrainerState

from contrastive_st.data.mixture import EndlessStream, Mixture
from contrastive_st.distributed import any_process, world_size
from contrastive_st.errors import InputError
from contrastive_st.training.arguments import ContrastiveTrainingArguments

logger = logging.getLogger(__name__)


class Learning(TrainerCallback):
    """Whether a run learns: it took a step with a gradient and a rate that are not zero.

    The gradients are read at each step until there is such a step, which is the first one or the one after it. Batches
    without anything to learn from, such as negatives, are counted; the first is warned of.

    Attributes:
        before: number of steps that were taken before training began: more than 0 in a resumed run.
        learned: there was such a step.
        batches: number of batches so far.
        skipped: number of those that had nothing to learn from.
    """

    def __init__(self) -> None:
        self.before, self.learned, self.batches, self.skipped, self.why = 0, False, 0, 0, ""

    def on_train_begin(self, args: object, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        """Start to count."""
        self.__init__()  # type: ignore[misc]
        self.before = state.global_step

    def count(self, step: int, why: str | None) -> None:
        """Count a batch, and say why there is nothing to learn from it if so."""
        self.batches += 1
        if why is None:
            return
        if not self.skipped:
            logger.warning(f"step {step}: {why}. Batches like this one are skipped")
        self.skipped, self.why = self.skipped + 1, why

    def on_epoch_end(self, args: object, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        """Check that some batch had something to learn from."""
        self.check_batches()

    def had_nothing(self) -> bool:
        """Whether no batch so far had anything to learn from; a collective call."""
        return not (any_process(self.skipped < self.batches or not self.batches) or self.before)

    def check_batches(self) -> None:
        """Raise `InputError` if no batch of the run had anything to learn from; a collective call."""
        if self.had_nothing():
            raise InputError(f"in all {self.batches} batches: {self.why}")

    def on_pre_optimizer_step(self, args: object, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """See whether there is a gradient and a rate that are not zero."""
        if not self.learned:
            rate = any(group.get("lr") is None or group["lr"] > 0 for group in kwargs["optimizer"].param_groups)
            self.learned = any_process(rate and has_gradient(kwargs["model"]))

    def check(self, state: TrainerState) -> None:
        """Raise `InputError` if a run has ended, or has come to this step, without having learned."""
        if state.global_step == self.before:
            raise InputError("no step was taken: the data have no full batch; give more rows, or a smaller batch")
        self.check_batches()
        if self.skipped:
            logger.warning(f"{self.skipped} of {self.batches} batches were skipped; the last: {self.why}")
        elif not self.learned:
            raise InputError(
                f"nothing was learned: the gradient was zero in all {state.global_step - self.before} steps. Give more "
                "rows or a larger batch (a text is contrasted with the others of its batch), or look at loss and data"
            )


def has_gradient(model: nn.Module) -> bool:
    """Whether the gradient of a weight is not zero. Without gradients to be seen (DeepSpeed keeps them) it is true.

    Example:
        >>> layer = nn.Linear(1, 1)
        >>> (0 * layer(torch.ones(1))).backward()
        >>> has_gradient(layer)
        False
    """
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    local = (getattr(gradient, "to_local", lambda x=gradient: x)() for gradient in gradients)
    values = (x.coalesce().values() if x.is_sparse else x for x in local)
    return not gradients or any(bool(x.any()) for x in values)


def fit_batch(rows: object, args: ContrastiveTrainingArguments) -> None:
    """Reduce the batch size to the share of rows of a process, so that there is one whole batch; logs a warning.

    Raises:
        InputError: there are fewer rows than processes.
    """
    endless = isinstance(rows, EndlessStream | Mixture)  # a mixture refuses a part that is smaller than a batch
    if not isinstance(rows, Sized) or endless or not args.dataloader_drop_last:
        return
    share, batch = len(rows) // world_size(), args.per_device_train_batch_size
    if not share:
        raise InputError(f"{len(rows)} rows are too few for {world_size()} process(es), of which each needs one")
    if share < batch:
        logger.warning(f"only {len(rows)} rows: the batch size is {share}, not {batch}")
        args.per_device_train_batch_size = share


def check_trainable(model: nn.Module) -> None:
    """Refuse a model without a weight to train.

    Raises:
        InputError: all of its weights are frozen.
    """
    if not any(weight.requires_grad for weight in model.parameters()):
        raise InputError(
            "all weights of the model are frozen; unfreeze those to train, such as model.requires_grad_(True), or add "
            "an adapter with add_lora(model)"
        )


def check_views(views: Tensor, hashes: Tensor) -> None:
    """Refuse pairs that teach nothing: views `[B, V, d]` of equal texts that are equal vectors.

    Dropout pairs of a model without dropout are such, and crops of single words.

    Raises:
        InputError: each anchor is equal to its positive, in text and in vector.
    """
    texts = hashes.dim() == 2 and hashes.shape[1] > 1 and bool((hashes[:, 0] == hashes[:, 1]).all())
    if texts and torch.equal(views[:, 0], views[:, 1]):
        raise InputError(
            "both views of each text are the same vector: the model has no dropout, by which dropout pairs differ, or "
            "the texts are single words, which have no crops; give --dropout 0.1, longer texts, or pairs"
        )
