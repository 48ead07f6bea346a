"""One encoder, several tasks with heads of their own, a batch of one task at a time (Universal Sentence Encoder)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.errors import InputError
from contrastive_st.losses.base import Loss, parse_loss


@dataclass(frozen=True)
class MultiTaskLoss(Loss):
    """Each batch by its own task's loss, which the first column of the targets names by number.

    A task whose loss has a head of its own (a classifier) uses that; of any other the candidates go through a
    feed-forward head of the task, as in Cer et al. 2018: `g = W2 relu(W1 v)`.

    Args:
        tasks: the losses, or the settings of each, by name; the order gives their numbers.
        head: the modules of all tasks; `make_head` makes them.

    Example:
        >>> from contrastive_st.losses import InfoNCE, SoftmaxLoss
        >>> loss = MultiTaskLoss({"answers": InfoNCE(), "nli": SoftmaxLoss()})
        >>> loss = loss.with_head(loss.make_head(4))
        >>> loss(torch.randn(2, 2, 4), torch.tensor([[1, 0], [1, 2]])).shape  # two pairs of task 1, labels 0 and 2
        torch.Size([])
    """

    name: ClassVar[str] = "multi_task"
    tasks: Mapping[str, Any] = field(default_factory=dict)
    head: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.tasks, Mapping) or not self.tasks:
            raise InputError("the loss multi_task needs tasks: a name and the settings of a loss for each")
        tasks = {name: own if isinstance(own, Loss) else parse_loss(own) for name, own in self.tasks.items()}
        object.__setattr__(self, "tasks", tasks)

    def __call__(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> Tensor:
        """The loss of one batch.

        Args:
            views: `[B, V, d]`.
            targets: `[B, 1 + k]`: the number of the task, the same in every row and on every process, then the k
                columns of its own targets (`[B]` where k is 1).
            text_hashes: `[B, V]`, as for the task's loss.
            gather: as for the task's loss.

        Raises:
            InputError: no targets or no such task, or the model was saved without its heads.
        """
        name, task, views, own = self._task(views, targets)
        loss = task(views, own, text_hashes=text_hashes, gather=gather)
        unused = (weight.sum() for other, head in self.head.items() if other != name for weight in head.parameters())
        # processes that train together agree on what has a gradient: all of it
        total: Tensor = loss + 0.0 * sum(unused)
        return total

    def metrics(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> dict[str, float]:
        """The metrics of the batch's task, with its name before theirs."""
        name, loss, views, own = self._task(views, targets)
        found = loss.metrics(views, own, text_hashes=text_hashes, gather=gather)
        return {f"{name}_{key}": value for key, value in found.items()}

    def describe(self, anchors: int, num_views: int) -> str:
        """What a step compares, in words."""
        return "one task a step: " + "; ".join(
            f"{name}: {loss.describe(anchors, max(num_views, 2))}" for name, loss in self.tasks.items()
        )

    def make_head(self, dim: int) -> nn.Module:
        """Fresh heads of all tasks for embeddings of `dim` dimensions."""
        heads = {name: loss.make_head(dim) or CandidateHead(dim) for name, loss in self.tasks.items()}
        return nn.ModuleDict(heads)

    def with_head(self, head: Any) -> MultiTaskLoss:
        """This loss, with those heads."""
        return replace(self, head=head)

    def _task(self, views: Tensor, targets: Tensor | None) -> tuple[str, Any, Tensor, Tensor | None]:
        """The task of a batch: its name, its loss, the views it compares and its own targets."""
        if self.head is None:
            raise InputError("this model was saved without its heads; open it with with_head=True to train them anew")
        numbers = [] if targets is None or targets.dim() != 2 else targets[:, 0].long().unique().tolist()
        if targets is None or len(numbers) != 1 or not 0 <= numbers[0] < len(self.tasks):
            raise InputError(f"a batch is of one of the tasks {', '.join(self.tasks)}; collate with TaskCollator")
        name = list(self.tasks)[numbers[0]]
        loss, head = self.tasks[name], self.head[name]
        own = targets[:, 1] if targets.shape[1] == 2 else targets[:, 1:]
        if isinstance(head, CandidateHead):
            with torch.autocast(views.device.type, enabled=False):
                views = torch.cat([views[:, :1], head(views[:, min(1, views.shape[1] - 1) :])], 1)
            return name, loss, views, own if own.shape[-1] else None
        return name, loss.with_head(head), views, own


class CandidateHead(nn.Module):
    """Two layers from an embedding to what others are compared with, `[..., d] -> [..., d]`."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, embeddings: Tensor) -> Tensor:
        changed: Tensor = self.layers(embeddings)
        return changed
