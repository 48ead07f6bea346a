"""What every objective is."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from contrastive_st.distributed import LOCAL, Gather


class Objective:
    """From the views of a batch, and its targets, to a loss."""

    def __call__(
        self, views: Tensor, targets: Tensor | None = None, *, keys: Tensor | None = None, gather: Gather = LOCAL
    ) -> Tensor:
        """The loss of views `[B, V, d]`: local sums weighted so that the average over processes is the batch's mean."""
        raise NotImplementedError

    def figures(
        self, views: Tensor, targets: Tensor | None = None, *, keys: Tensor | None = None, gather: Gather = LOCAL
    ) -> dict[str, float]:
        """What a training log wants to see of a batch."""
        raise NotImplementedError

    def describe(self, anchors: int, num_views: int) -> str:
        """What a step compares, in words, from the number of anchors over all processes and the views of each."""
        raise NotImplementedError

    def make_head(self, width: int) -> nn.Module | None:
        """A fresh module that is trained with an encoder of that width, and dropped when it is finished."""
        return None

    def with_head(self, head: Any) -> Any:
        """This objective, using that module."""
        return self
