"""Tables whose gradient has only the rows that a batch has used: `RowAdam`, which updates those, and their norm."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.optim import Optimizer

_CPU_ROWS = 1024  # rows that a CPU updates at a time, few enough for its caches


class RowAdam(Optimizer):
    """Adam of tables `[V, d]`, for the rows alone that have a gradient: a step costs as much as the batch has tokens.

    The other rows, and their moments, stay as they are. These are the steps of `torch.optim.SparseAdam`, in half the
    time; and tables may have dense gradients, of which the rows that are not zero count.

    Args:
        params: the tables.
        lr: the learning rate.
        betas: decay of the moments.
        eps: added to the square root of the second moment.

    Example:
        >>> table = torch.nn.Parameter(torch.zeros(3, 2))
        >>> optimizer = RowAdam([table], lr=0.1)
        >>> torch.nn.functional.embedding(torch.tensor([0]), table, sparse=True).sum().backward()
        >>> _ = optimizer.step()
        >>> table.data.round(decimals=3).tolist()
        [[-0.1..., -0.1...], [0.0, 0.0], [0.0, 0.0]]
    """

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step, with the gradients of the tables."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    self._update(table, *_rows(table.grad), **{name: group[name] for name in ("lr", "betas", "eps")})
        return loss

    def _update(
        self, table: Tensor, rows: Tensor, gradient: Tensor, lr: float, betas: tuple[float, float], eps: float
    ) -> None:
        state = self.state[table]
        if not state:
            state.update(step=0, first=torch.zeros_like(table), second=torch.zeros_like(table))
        state["step"] += 1
        rate = lr * (1 - betas[1] ** state["step"]) ** 0.5 / (1 - betas[0] ** state["step"])
        most = _CPU_ROWS if table.device.type == "cpu" else max(len(rows), 1)
        for part, change in zip(rows.split(most), gradient.split(most), strict=True):
            first = state["first"].index_select(0, part).lerp_(change, 1 - betas[0])
            second = state["second"].index_select(0, part).mul_(betas[1]).addcmul_(change, change, value=1 - betas[1])
            state["first"].index_copy_(0, part, first)
            state["second"].index_copy_(0, part, second)
            change = first.div_(second.sqrt_().add_(eps))
            table.index_copy_(0, part, table.index_select(0, part).sub_(change, alpha=rate))


def sparse_norm(parameters: Iterable[torch.nn.Parameter]) -> Tensor | None:
    """The norm of the gradients of weights, of which some are sparse; None if none is, which torch can compute.

    Example:
        >>> table = torch.nn.Parameter(torch.zeros(9, 2))
        >>> torch.nn.functional.embedding(torch.tensor([4, 4]), table, sparse=True).sum().backward()
        >>> sparse_norm([table]).round(decimals=3)
        tensor(2.8280)
    """
    gradients = [weight.grad for weight in parameters if weight.grad is not None]
    if not any(gradient.is_sparse for gradient in gradients):
        return None
    values = [_rows(gradient)[1] if gradient.is_sparse else gradient for gradient in gradients]
    norm: Tensor = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(x.float()) for x in values]))
    return norm


def _rows(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The rows that a gradient `[V, d]` has, in ascending order, and their gradients `[n, d]`."""
    if not gradient.is_sparse:
        rows = gradient.any(1).nonzero()[:, 0]
        return rows, gradient[rows]
    rows, values = gradient._indices()[0], gradient._values()
    if bool((rows[1:] > rows[:-1]).all()):  # one batch; those of several chunks are added up
        return rows, values
    merged = gradient.coalesce()
    return merged.indices()[0], merged.values()
