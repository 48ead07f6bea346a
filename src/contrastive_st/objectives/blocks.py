"""Losses over many anchors x many candidates, a block of rows at a time: never a matrix of all scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

BLOCK = 1 << 24  # scores held at a time, 64 MiB in float32: a larger matrix is never made

RowsLoss = Callable[[Tensor, Tensor, slice], tuple[Tensor, Tensor]]


def in_blocks(
    anchors: Tensor, candidates: Tensor, rows_loss: RowsLoss, width: int | None = None
) -> tuple[Tensor, Tensor]:
    """Sum `rows_loss` over blocks of anchors; value and gradient are those of one whole block.

    Each block's gradient is taken while its scores are there, so the memory is that of one block.

    Args:
        anchors: `[B, d]`.
        candidates: `[C, d]`.
        rows_loss: of the block's anchors `[b, d]`, all candidates and the slice of rows: the sum of the losses of
            these rows, and a count to be summed beside it (of the rows that have a loss, say).
        width: how many numbers `rows_loss` holds of one anchor; by default a score for each candidate.

    Returns:
        The sum of the losses and the sum of the counts, scalars.

    Example:
        >>> import torch
        >>> loss = lambda a, c, rows: ((a @ c.T).sum(), torch.tensor(len(a)))
        >>> total, count = in_blocks(torch.ones(3, 2), torch.ones(4, 2), loss)
        >>> total.item(), count.item()
        (24.0, 3)
    """
    size = max(BLOCK // max(len(candidates) if width is None else width, 1), 1)
    if size >= len(anchors):
        return rows_loss(anchors, candidates, slice(0, len(anchors)))
    blocks = [slice(start, min(start + size, len(anchors))) for start in range(0, len(anchors), size)]
    return _Blocked.apply(anchors, candidates, blocks, rows_loss)


class _Blocked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, anchors: Tensor, candidates: Tensor, blocks: list[slice], rows_loss: RowsLoss
    ) -> tuple[Tensor, Tensor]:
        leaves = [anchors.detach().requires_grad_(), candidates.detach().requires_grad_()]
        sums = [torch.zeros_like(leaf) for leaf in leaves]
        total, count = anchors.new_zeros(()), torch.zeros((), dtype=torch.long, device=anchors.device)
        for rows in blocks:
            with torch.enable_grad():
                loss, found = rows_loss(leaves[0][rows], leaves[1], rows)
            for gradient, part in zip(sums, torch.autograd.grad(loss, leaves), strict=True):
                gradient += part
            total += loss.detach()
            count += found
        ctx.save_for_backward(*sums)
        ctx.mark_non_differentiable(count)
        return total, count

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor, Tensor, None, None]:  # type: ignore[override]
        anchors, candidates = ctx.saved_tensors
        return grad * anchors, grad * candidates, None, None
