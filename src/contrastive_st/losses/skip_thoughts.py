"""The loss of Skip-Thoughts, as far as views hold it: who writes whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.errors import InputError
from contrastive_st.losses.base import Loss


@dataclass(frozen=True)
class SkipThoughtsLoss(Loss):
    """What a log says of Skip-Thoughts: its loss is of words, not of views, so `SkipThoughts.forward` computes it."""

    name: ClassVar[str] = "skip_thoughts"

    def __call__(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> Tensor:
        raise InputError(
            "Skip-Thoughts learns from the words of neighbours, which views do not hold: its memory is that of a batch "
            "of words. Leave out chunk_size and chunk_tokens"
        )

    def metrics(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> dict[str, float]:
        """`neighbors`: sentences to write, per sentence read; 2 but for the ends of documents and of the batch."""
        return {} if targets is None else {"neighbors": sum(len(pair[0]) for pair in neighbors(targets)) / len(views)}

    def describe(self, anchors: int, num_views: int) -> str:
        """What a step compares, in words."""
        return f"{anchors} sentences a step, each to write the one before and the one after it"


def neighbors(places: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Who reads and who is written, row numbers `[n]` each: the sentences before the readers, and those after.

    Args:
        places: `[B, 2]` integers, the document of each sentence and its position there.

    Example:
        >>> import torch
        >>> places = torch.tensor([[0, 5], [0, 6], [1, 0]])  # two of document 0, the first of document 1
        >>> [(readers.tolist(), written.tolist()) for readers, written in neighbors(places)]
        [([1], [0]), ([0], [1])]
    """
    same = places[:, None, 0] == places[None, :, 0]
    offset = places[None, :, 1] - places[:, None, 1]
    found = [(same & (offset == step)).nonzero(as_tuple=True) for step in (-1, 1)]
    return [(readers, written) for readers, written in found]
