"""Losses for training on several data sets, each with its own loss, and with a head per task (USE)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from contrastive_st.errors import InputError
from contrastive_st.losses.base import Loss, Others, Term, Wrapper, head_of, parse_loss
from contrastive_st.tokens import name_number

_TAKEN = set(dir(nn.ModuleDict())) | {"training"}  # not allowed as names of tasks, which are keys of a ModuleDict


@dataclass(frozen=True)
class MixtureLoss(Wrapper):
    """Computes the loss of each batch with the loss of its data set, which the first entry of the targets identifies.

    Args:
        tasks: the loss (or its settings) of each data set, by the names in the `Mixture`.
        head: the heads of the losses that have one, by the same names; `make_head` makes them.
        task: the data set of the batch, if it is known without reading the targets; see `of_task`.

    Raises:
        InputError: no losses, or a name that is not allowed.

    Example:
        >>> from contrastive_st.losses import CoSENTLoss, InfoNCE
        >>> loss = MixtureLoss({"nli": InfoNCE(), "scores": CoSENTLoss()})
        >>> views, scores = torch.randn(2, 2, 4), torch.tensor([0.2, 0.9])
        >>> targets = torch.stack([torch.full((2,), float(name_number("scores"))), scores], 1)
        >>> bool(loss(views, targets) == CoSENTLoss()(views, scores))
        True
    """

    name: ClassVar[str] = "mixture"
    words: ClassVar[str] = "Several tasks"
    tag: ClassVar[str] = "multi-task"
    tasks: Mapping[str, Any] = field(default_factory=dict)
    head: nn.ModuleDict | None = None
    task: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for task in self.tasks or [""]:
            if not isinstance(task, str) or not task or "." in task or task in _TAKEN:
                raise InputError(f"{task!r} cannot be the name of a task; give one or more other words, without dots")
        if len({name_number(task) for task in self.tasks}) < len(self.tasks):
            raise InputError(f"two of the names {', '.join(self.tasks)} have the same hash; rename one of them")
        tasks = {name: loss if isinstance(loss, Loss) else parse_loss(loss) for name, loss in self.tasks.items()}
        object.__setattr__(self, "tasks", tasks)

    def __call__(self, views: Tensor, targets: Tensor | None = None, **other: object) -> Tensor:
        """The loss of one batch.

        Args:
            views: `[B, V, d]`.
            targets: `[B, 1 + k, ...]`: first the `name_number` of the data set, the same in every row and on every
                process, then k entries that are the targets of its loss (which gets `[B]` if k is 1, None if k is 0).
            other: `text_hashes` `[B, V]` and `gather`, as for the data set's loss.

        Raises:
            InputError: no targets, an unknown data set, or the model was saved without its heads.
        """
        weights = () if self.head is None else self.head.parameters()
        # all parameters get a gradient, because the processes must agree on which have one
        return super().__call__(views, targets, **other) + 0.0 * sum(weight.sum() for weight in weights)

    def terms(self, views: Tensor, targets: Tensor | None, other: Others) -> Iterator[Term]:
        """The loss of the batch's data set, whose name the names of its metrics begin with."""
        name = self.task_of(targets)
        yield Term((f"{name}_", ""), 1.0, self._with_its_head(name), (views, _without_task(targets)), other)

    def chances(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """What the loss of the batch's data set says, under the name that the log has for it."""
        result: dict[str, float] = {}
        for task, loss in self.tasks.items():
            part = {name.removeprefix(f"{task}_"): x for name, x in metrics.items() if name.startswith(f"{task}_")}
            result |= {f"{name}_{task}": chance for name, chance in loss.chances(part).items()}
        return result

    def describe(self, anchors: int, num_views: int) -> str:
        """Describe what a step compares, for the data set of the batch: others have other numbers of texts."""
        words = f"one of {', '.join(self.tasks)} per step"
        if self.task is None:
            return words
        return f"{words}; of {self.task}: {self.tasks[self.task].describe(anchors, max(num_views, 2))}"

    def truncated(self, views: Tensor, targets: Tensor | None, dim: int) -> tuple[Tensor, Tensor | None]:
        """Views truncated to their first `dim` dimensions, and the targets for them, by the loss of the data set."""
        rest = _without_task(targets)
        views, cut = self.tasks[self.task_of(targets)].truncated(views, rest, dim)
        if targets is None or cut is None or cut is rest:
            return views, targets
        return views, torch.cat([targets[:, :1], cut], 1)

    def make_head(self, dim: int) -> nn.Module | None:
        """New heads of the losses that have one, for embeddings of `dim` dimensions; None if no loss has one."""
        heads = {name: loss.make_head(dim) for name, loss in self.tasks.items()}
        made = {name: head for name, head in heads.items() if head is not None}
        return nn.ModuleDict(made) if made else None

    def in_use(self, part: str | None = None) -> tuple[Loss, int | None]:
        """The loss of that data set, with its head."""
        if part is None or part not in self.tasks:
            return self, None
        return self._with_its_head(part), None

    def _with_its_head(self, name: str) -> Loss:
        """The loss of a data set with its head; a `CandidateHead` is not of the loss but of the task."""
        loss: Loss = self.tasks[name]
        head = self.head[name] if self.head is not None and name in self.head else None
        return loss if head is None or isinstance(head, CandidateHead) else loss.with_head(head)

    def task_of(self, targets: Tensor | None) -> str:
        """The name of the batch's data set, read from the targets.

        Raises:
            InputError: the targets identify no data set, or several.
        """
        if self.task is not None:
            return self.task
        numbers = [] if targets is None or targets.dim() < 2 else targets[:, 0].long().unique().tolist()
        name = {name_number(name): name for name in self.tasks}.get(numbers[0]) if len(numbers) == 1 else None
        if name is None:
            raise InputError(f"a batch must be of one of {', '.join(self.tasks)}; collate with MixtureCollator")
        return name

    def of_task(self, task: str | None) -> MixtureLoss:
        """This loss for batches of the data set `task`."""
        return replace(self, task=task)


def _without_task(targets: Tensor | None) -> Tensor | None:
    """The targets without the number of the data set."""
    if targets is None or targets.shape[1] == 1:
        return None
    return targets[:, 1] if targets.dim() == 2 and targets.shape[1] == 2 else targets[:, 1:]


@dataclass(frozen=True)
class MultiTaskLoss(MixtureLoss):
    """A `MixtureLoss` with a head for every task (Universal Sentence Encoder, https://arxiv.org/abs/1803.11175).

    If the loss of a task has a head (a classifier), that is used. For every other task the candidates go through a
    feed-forward head, as in Cer et al. 2018: `g = W2 relu(W1 v)`.

    Args:
        tasks: as for `MixtureLoss`.
        head: the heads of all tasks; `make_head` makes them.

    Example:
        >>> from contrastive_st.losses import InfoNCE, SoftmaxLoss
        >>> loss = MultiTaskLoss({"answers": InfoNCE(), "nli": SoftmaxLoss()})
        >>> loss = loss.with_head(loss.make_head(4))
        >>> targets = torch.tensor([[name_number("nli"), 0], [name_number("nli"), 2]])  # two pairs, labels 0 and 2
        >>> loss(torch.randn(2, 2, 4), targets).shape
        torch.Size([])
    """

    name: ClassVar[str] = "multi_task"

    def make_head(self, dim: int) -> nn.Module:
        """New heads of all tasks, for embeddings of `dim` dimensions."""
        heads = {name: loss.make_head(dim) or CandidateHead(dim) for name, loss in self.tasks.items()}
        return nn.ModuleDict(heads)

    def terms(self, views: Tensor, targets: Tensor | None, other: Others) -> Iterator[Term]:
        """The loss of the batch's task, with candidates that have gone through its head."""
        heads = head_of(self)
        for term in super().terms(views, targets, other):
            if isinstance(head := heads.get_submodule(self.task_of(targets)), CandidateHead):
                with torch.autocast(views.device.type, enabled=False):
                    changed = torch.cat([views[:, :1], head(views[:, min(1, views.shape[1] - 1) :])], 1)
                term = term._replace(batch=(changed, term.batch[1]))
            yield term


class CandidateHead(nn.Module):
    """Two layers that candidates go through before they are compared with anchors, `[..., d] -> [..., d]`."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, embeddings: Tensor) -> Tensor:
        """`[..., d] -> [..., d]`."""
        changed: Tensor = self.layers(embeddings)
        return changed
