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

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


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
        return _AllGather.apply(rows, self._sizes(len(rows)), self.rank, self.group)

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
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        grad = grad.contiguous()
        dist.all_reduce(grad, group=ctx.group)  # every rank's say about every candidate
        start = sum(ctx.sizes[: ctx.rank])
        return grad[start : start + ctx.sizes[ctx.rank]], None, None, None


LOCAL = Gather()


def default_gather() -> Gather:
    """`ProcessGather` where several processes train together, else the plain `Gather`."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        return ProcessGather()
    return LOCAL
