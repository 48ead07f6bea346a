"""A contrastive loss, and beside it the words of the sentence itself, predicted from its vector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.losses.base import Loss, parse_loss
from contrastive_st.losses.functional import at_least_float32
from contrastive_st.losses.targets import BAGS, TargetsLoss
from contrastive_st.options import Count, Positive


@dataclass(frozen=True)
class ReconstructionLoss(Loss):
    r"""A loss of neighbours plus the cross-entropy of a sentence's words, given its vector.

        loss = inner(views) + weight * mean over i of sum over w of -b_iw log softmax(W x_i + c)_w

    Here b_i is the bag of words of sentence i, scaled to a sum of 1, and x_i its vector, of all towers. The order of
    the words is not predicted (TSDAE does that), so the loss is a function of views like all others.

    Args:
        inner: a `TargetsLoss`, or its settings.
        vocab_size: number of words, that of the tokenizer.
        weight: of the reconstruction; the weight of `inner` is 1.
        head: the matrix W and c; `make_head` makes it.

    Example:
        >>> loss = ReconstructionLoss(TargetsLoss("next"), vocab_size=9)
        >>> loss = loss.with_head(loss.make_head(8))
        >>> bags = torch.tensor([[[0, i], [7, 1], [5 + i, 1]] for i in range(3)]).float()  # place, then words
        >>> loss(torch.ones(3, 2, 4), bags).shape
        torch.Size([])
    """

    name: ClassVar[str] = "reconstruction"
    words: ClassVar[str] = "reconstruction beside contrast"
    tag: ClassVar[str] = "reconstruction"
    citation: ClassVar[str] = TargetsLoss.citation
    inner: Any = field(default_factory=TargetsLoss)
    vocab_size: Count = 30_522
    weight: Positive = 1.0
    head: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.inner, Loss):
            object.__setattr__(self, "inner", parse_loss(self.inner))

    def __call__(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> Tensor:
        """The loss of one batch.

        Args:
            views: `[B, V, d]`, the vectors of the towers.
            targets: `[B, 1 + K, 2]`, place and bag of words (`CooccurrenceCollator`).
            text_hashes: as for `inner`.
            gather: as for `inner`.
        """
        contrast: Tensor = self.inner(views, self._of_inner(targets), text_hashes=text_hashes, gather=gather)
        return contrast + self.weight * gather.mean(*self._words(views, targets))

    def metrics(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> dict[str, float]:
        """The metrics of `inner`, and `reconstruction`: the cross-entropy of the words."""
        total, count = self._words(views, targets)
        found: dict[str, float] = self.inner.metrics(
            views, self._of_inner(targets), text_hashes=text_hashes, gather=gather
        )
        return {**found, "reconstruction": (total / max(int(count), 1)).item()}

    def chances(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Nothing: what the words add is not known."""
        return {}

    def describe(self, anchors: int, num_views: int) -> str:
        """Describe what a step learns."""
        return f"{self.inner.describe(anchors, num_views)}; and to write the words of each ({self.weight:g})"

    def make_head(self, dim: int) -> nn.Module:
        """The scores of all words, from a vector of `dim` dimensions."""
        return nn.Linear(dim, self.vocab_size)

    def _of_inner(self, targets: Tensor | None) -> Tensor | None:
        return targets if targets is None or self.inner.targets in BAGS else targets[:, 0].long()

    def _words(self, views: Tensor, targets: Tensor | None) -> tuple[Tensor, Tensor]:
        """The sum of the cross-entropies, and the number of sentences that have words."""
        head = self.needed_head()
        assert targets is not None  # `inner` has checked them
        logs = functional.log_softmax(at_least_float32(head(views.flatten(1)[:, : head.in_features])), -1)
        ids, weights = targets[:, 1:, 0].long(), targets[:, 1:, 1].to(logs.dtype)
        mass = weights.sum(1)
        losses = -(logs.gather(1, ids) * weights).sum(1) / torch.where(mass > 0, mass, 1.0)
        return losses.sum(), (mass > 0).sum()
