"""Where candidates come from: this process alone, or every process, with gradient.

Each of W processes holds its own anchors. A gathered tensor stacks the rows of all processes in rank
order, so the candidates are the same everywhere and the positives of rank r start at `offset`:

                     candidates of rank 0   candidates of rank 1
    anchors, rank 0  [ P n n n              n n n n ]   offset 0, local loss 0
    anchors, rank 1  [ n n n n              P n n n ]   offset 4, local loss 1

Gradients flow to remote candidates too (the backward pass sums what every rank says about them), so the
average of the local gradients, which is what DDP computes, is the gradient of the whole batch on one process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

Item = TypeVar("Item")
Result = TypeVar("Result")

# --- Processes, and work shared out over them. accelerate's own helpers see only groups that it made, and leave the
# --- others waiting where one process fails; here an error on one is raised on all.


def processes() -> tuple[int, int]:
    """This process's rank and how many there are; `(0, 1)` where nothing is distributed."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def world_size() -> int:
    """Number of processes that train together; 1 where nothing is distributed."""
    return processes()[1]


def is_first_process() -> bool:
    """Whether this process is the one that prints and writes."""
    return processes()[0] == 0


def partition(costs: Sequence[float], ranks: int) -> list[list[int]]:
    """Divide items among `ranks`: each in turn, dearest first, goes to the rank that has least so far.

    Example:
        >>> partition([5, 1, 4, 2], 2)
        [[0, 1], [2, 3]]
    """
    assigned: list[list[int]] = [[] for _ in range(ranks)]
    load = [0.0] * ranks
    for i in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        least = load.index(min(load))
        assigned[least].append(i)
        load[least] += costs[i]
    return assigned


def shared(
    work: Callable[[Item], Result], items: Sequence[Item], costs: Sequence[float], *, distributed: bool = True
) -> list[Result]:
    """`[work(item) for item in items]`, each item worked on by one process; a collective call.

    An error on one process is raised on all, so that none waits for one that stopped.

    Args:
        work: gives the same result on whichever process it runs; the result must pickle.
        items: the same on all processes.
        costs: how long each may take, in any unit.
        distributed: False works on all items here, and may be called on one process alone.

    Example:
        >>> shared(len, ["a", "bcd"], [1, 3])
        [1, 3]
    """
    rank, count = processes() if distributed else (0, 1)
    if count == 1:
        return [work(item) for item in items]
    own: dict[int, Any] = {}
    failure: Exception | None = None
    try:
        for i in partition(costs, count)[rank]:
            own[i] = work(items[i])
    except Exception as error:  # raised below, on every process
        failure = error
    outcomes: list[Any] = [None] * count
    dist.all_gather_object(outcomes, (own, failure))
    for _, failed in outcomes:
        if failed is not None:
            raise failed
    merged = {i: result for done, _ in outcomes for i, result in done.items()}
    return [merged[i] for i in range(len(items))]


def from_first(compute: Callable[[], Result], *, distributed: bool = True) -> Result:
    """What `compute` gives on the first process, on all; a collective call. An error there is raised on all."""
    return shared(lambda _: compute(), [None], [1.0], distributed=distributed)[0]


def any_process(flag: bool, device: torch.device | str = "cpu") -> bool:
    """Whether `flag` is set on any process; a collective call."""
    if world_size() == 1:
        return flag
    total = torch.tensor([int(flag)], dtype=torch.int32, device=device)
    dist.all_reduce(total)
    return bool(total.item())


# --- The rows of all processes as one batch.


class Gather:
    """One process: the candidates are the batch's own rows. The plain case of the same code."""

    def __call__(self, rows: Tensor) -> Tensor:
        """All rows of the whole batch, `[N_local, ...] -> [N, ...]`, in rank order, with gradient."""
        return rows

    def offset(self, rows: int) -> int:
        """Position of this process's first row among the gathered rows; `rows` is its own number of rows."""
        return 0

    def total(self, count: int) -> int:
        """The sum of a count over all processes."""
        return count

    def widest(self, width: int) -> int:
        """The greatest of a width over all processes."""
        return width

    @property
    def world(self) -> int:
        """How many processes there are."""
        return 1

    def mean(self, loss_sum: Tensor, count: int) -> Tensor:
        """From the sum over the local `count`: what, averaged over the processes, is the mean over all counts."""
        return loss_sum * (self.world / max(self.total(count), 1))


class ProcessGather(Gather):
    """All processes of a `torch.distributed` group; ranks may hold different numbers of rows."""

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self.group = group
        self.rank = dist.get_rank(group)

    @property
    def world(self) -> int:
        return dist.get_world_size(self.group)

    def _sizes(self, rows: int) -> list[int]:
        device = "cuda" if dist.get_backend(self.group) == "nccl" else "cpu"
        sizes = [torch.empty(1, dtype=torch.long, device=device) for _ in range(self.world)]
        dist.all_gather(sizes, torch.tensor([rows], device=device), group=self.group)
        return torch.cat(sizes).tolist()

    def __call__(self, rows: Tensor) -> Tensor:
        gathered: Tensor = _AllGather.apply(rows, self._sizes(len(rows)), self.rank, self.group)
        return gathered

    def offset(self, rows: int) -> int:
        return sum(self._sizes(rows)[: self.rank])

    def total(self, count: int) -> int:
        return sum(self._sizes(count))

    def widest(self, width: int) -> int:
        return max(self._sizes(width))


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int], rank: int, group: Any) -> Tensor:
        ctx.sizes, ctx.rank, ctx.group = sizes, rank, group
        padded = rows.new_zeros((max(sizes), *rows.shape[1:]))
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded.contiguous(), group=group)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        grad = grad.contiguous()
        dist.all_reduce(grad, group=ctx.group)  # every rank's say about every candidate
        start = sum(ctx.sizes[: ctx.rank])
        return grad[start : start + ctx.sizes[ctx.rank]], None, None, None


LOCAL = Gather()


def default_gather() -> Gather:
    """`ProcessGather` where several processes train together, else the plain `Gather`."""
    return ProcessGather() if world_size() > 1 else LOCAL
