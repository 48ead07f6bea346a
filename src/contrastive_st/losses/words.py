"""Losses of words, which are predicted from states of tokens: in place of a loss of views, or in addition to one.

The words of a row depend on that row alone, so their loss is a sum over rows. The model computes it
(`contrastive_st.models.words`); this module has the name, the settings and the weight.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from contrastive_st.citations import cited
from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.errors import InputError
from contrastive_st.losses.base import Loss, head_of, parse_loss
from contrastive_st.losses.functional import at_least_float32
from contrastive_st.losses.targets import BAGS, TargetsLoss
from contrastive_st.options import Count, Positive


class WordsLoss(Loss, register=False):
    """A loss of words alone: views are only what words are predicted from."""

    words_weight = 1.0

    def __call__(self, views: Tensor, targets: Tensor | None = None, **other: object) -> Tensor:
        """Refuse: this loss is computed from words, not from views.

        Raises:
            InputError: always.
        """
        raise InputError(
            f"{self.words} is a loss of words, not of views, so no other loss can be made of it; train with it alone"
        )


@dataclass(frozen=True)
class TSDAELoss(WordsLoss):
    """The settings of TSDAE (Wang et al. 2021): from the vector of a part, generate the whole sentence.

    The decoder is `models.words.VectorDecoder`.
    """

    name: ClassVar[str] = "tsdae"
    words: ClassVar[str] = "TSDAE"
    tag: ClassVar[str] = "tsdae"
    citation: ClassVar[str] = cited("wang2021tsdae")
    description: ClassVar[str] = "{anchors} sentences per step, each to be generated from its vector"
    generates: ClassVar[bool] = True

    def metrics(self, views: Tensor, targets: Tensor | None = None, **other: object) -> dict[str, float]:
        """`written`: number of tokens to generate per sentence."""
        return {} if targets is None else {"written": int((targets[:, 1:] != -100).sum()) / len(views)}


@dataclass(frozen=True)
class SkipThoughtsLoss(WordsLoss):
    """The settings of Skip-Thoughts: from the vector of a sentence, generate those before and after it."""

    name: ClassVar[str] = "skip_thoughts"
    words: ClassVar[str] = "Skip-Thoughts"
    tag: ClassVar[str] = "skip-thoughts"
    citation: ClassVar[str] = cited("kiros2015skip")
    description: ClassVar[str] = (
        "{anchors} sentences per step, from each of which the one before and the one after are generated"
    )

    def metrics(self, views: Tensor, targets: Tensor | None = None, **other: object) -> dict[str, float]:
        """`neighbors`: sentences to generate per sentence read: 2, except at the ends of documents and of the batch."""
        if targets is None:
            return {}
        rows = targets[:1024]  # in order, so that neighbours of one are among them too
        return {"neighbors": sum(len(pair[0]) for pair in neighbors(rows)) / len(rows)}


def neighbors(places: Tensor, all_places: Tensor | None = None) -> list[tuple[Tensor, Tensor]]:
    """Pairs of adjacent sentences: row numbers `[n]` of those read and of the neighbour to generate for each.

    The first pair of lists has the sentences before those read, the second the sentences after.

    Args:
        places: `[B, 2]` integers, the document of each sentence read and its position in it.
        all_places: `[N, 2]`, those of the sentences that may be generated; by default the same.

    Example:
        >>> places = torch.tensor([[0, 5], [0, 6], [1, 0]])  # two of document 0, the first of document 1
        >>> [(readers.tolist(), written.tolist()) for readers, written in neighbors(places)]
        [([1], [0]), ([0], [1])]
    """
    all_places = places if all_places is None else all_places
    same = places[:, None, 0] == all_places[None, :, 0]
    offset = all_places[None, :, 1] - places[:, None, 1]
    result = [(same & (offset == step)).nonzero(as_tuple=True) for step in (-1, 1)]
    return [(readers, written) for readers, written in result]


# --- Reconstruction with a contrastive loss: the words of a sentence, as a bag, from its vector.


@dataclass(frozen=True)
class ReconstructionLoss(Loss):
    r"""A loss of neighbours plus the cross-entropy of a sentence's words, given its vector.

        loss = inner(views) + weight * mean over i of sum over w of -b_iw log softmax(W x_i + c)_w

    Here b_i is the bag of words of sentence i, scaled to a sum of 1, and x_i its vector, of all towers. The order of
    the words is not predicted, so this is a function of views.

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
    words: ClassVar[str] = "reconstruction with a contrastive loss"
    tag: ClassVar[str] = "reconstruction"
    citation: ClassVar[str] = TargetsLoss.citation
    inner: TargetsLoss = field(default_factory=TargetsLoss)
    vocab_size: Count = 30_522
    weight: Positive = 1.0
    head: nn.Module | None = None

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

    def metrics(self, views: Tensor, targets: Tensor | None = None, **other: Any) -> dict[str, float]:
        """The metrics of `inner`, and `reconstruction`: the cross-entropy of the words."""
        total, count = self._words(views, targets)
        result = self.inner.metrics(views, self._of_inner(targets), **other)
        return {**result, "reconstruction": (total / max(int(count), 1)).item()}

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
        head = head_of(self)
        assert targets is not None  # `inner` has checked them
        logs = functional.log_softmax(at_least_float32(head(views.flatten(1)[:, : head.in_features])), -1)
        ids, weights = targets[:, 1:, 0].long(), targets[:, 1:, 1].to(logs.dtype)
        mass = weights.sum(1)
        losses = -(logs.gather(1, ids) * weights).sum(1) / torch.where(mass > 0, mass, 1.0)
        return losses.sum(), (mass > 0).sum()
