"""L2 logistic regression for many folds and a whole grid of penalties at once, exact to the optimum.

The folds of a cross-validation share their sentences and differ in which of them they see. So one problem is a column:
a step of all of them is a product of the embeddings with a matrix of columns, which runs at the machine's full rate,
where one fit after the other reads all embeddings for each vector product. Along the grid each solution starts from
the ones before it.

The method is Newton's, with directions by conjugate gradients (Lin, Weng and Keerthi, 2008) in the principal axes of
the embeddings, where the diagonal of the Hessian is a good preconditioner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

_MOST_STEPS, _MOST_DIRECTIONS, _REDUCTION = 50, 30, 0.05


@dataclass(frozen=True)
class Solution:
    """The fits for one `C`: `weights [P, K, d]`, `bias [P, K]`, and `logits [N, P, K]` of seen and unseen rows alike.

    `K` is 1 for two classes (positive logit: class 1), otherwise the number of classes.
    """

    c: float
    weights: NDArray[np.float64]
    bias: NDArray[np.float64]
    logits: NDArray[np.float64]
    gradient: float

    def classes(self) -> NDArray[np.int64]:
        """The class of every row by every fit, `[N, P]`."""
        return (self.logits[..., 0] > 0).astype(np.int64) if self.logits.shape[2] == 1 else self.logits.argmax(2)


def fit_path(
    x: NDArray[Any],
    targets: NDArray[Any],
    seen: NDArray[Any],
    grid: Sequence[float],
    tolerance: float = 1e-6,
    dtype: torch.dtype = torch.float32,
) -> Iterator[Solution]:
    """Minimise `|w|^2 / 2 + C * sum of cross-entropies` for each `C` of the grid; the bias has no penalty.

    The objective is that of `sklearn.linear_model.LogisticRegression`, for two classes (one weight vector) and for
    more (one each).

    Args:
        x: embeddings `[N, d]`.
        targets: class numbers `[N]`, or distributions over classes `[N, K]`.
        seen: which rows each of P problems is fitted to, `[P, N]` of 0 and 1.
        grid: values of `C` in rising order: from the heaviest penalty to the lightest.
        tolerance: largest entry of the mean gradient at which a problem counts as solved (scikit-learn's is 1e-4).
        dtype: float32 reaches 1e-6; for less, take float64.

    Example:
        >>> x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
        >>> last = list(fit_path(x, np.array([0, 0, 1, 1]), np.ones((1, 4)), [0.1, 1.0]))[-1]
        >>> last.classes()[:, 0].tolist(), round(float(last.weights[0, 0, 0]), 4)
        ([0, 0, 1, 1], 1.0597)
    """
    problem = _Problem(x, targets, seen, dtype)
    before = now = torch.zeros(problem.x.shape[1], problem.count, problem.width, dtype=dtype)
    for c in grid:
        start = 2 * now - before  # where the path points to
        before, (now, logits, gradient) = now, problem.solve(start, 1 / c, tolerance)
        weights = torch.einsum("de,epk->pkd", problem.axes, now[:-1].double())
        bias = now[-1].double() - weights @ problem.mean
        yield Solution(c, weights.numpy(), bias.numpy(), logits.numpy(), gradient)


class _Problem:
    """Centred embeddings in their principal axes, a column of ones for the bias, targets and masks."""

    def __init__(self, x: NDArray[Any], targets: NDArray[Any], seen: NDArray[Any], dtype: torch.dtype) -> None:
        raw = torch.as_tensor(np.asarray(x))
        self.mean = raw.double().mean(0)
        centred = (raw - self.mean).to(dtype)
        self.axes = torch.linalg.eigh((centred.T @ centred).double()).eigenvectors
        self.x = torch.cat([centred @ self.axes.to(dtype), torch.ones(len(raw), 1, dtype=dtype)], 1)
        self.squares = self.x.square()
        self.penalised = torch.ones(self.x.shape[1], 1, 1, dtype=dtype)
        self.penalised[-1] = 0
        self.seen = torch.as_tensor(np.asarray(seen).T.astype(np.float32)).to(dtype).unsqueeze(2)
        self.targets = _columns(np.asarray(targets)).to(dtype)
        self.count, self.width = len(seen), self.targets.shape[2]
        self.rows = self.seen.sum(0).squeeze(1)

    def solve(self, theta: Tensor, penalty: float, tolerance: float) -> tuple[Tensor, Tensor, float]:
        ridge = self.penalised * penalty
        logits = self._apply(theta)
        value = self._value(theta, logits, ridge)
        for _ in range(_MOST_STEPS):
            shares = logits.sigmoid() if self.width == 1 else logits.softmax(2)
            gradient = self._back(self.x, self.seen * (shares - self.targets)) + ridge * theta
            size = gradient.abs().amax((0, 2)) / self.rows
            if (size <= tolerance).all():
                break
            step = self._direction(gradient, shares, ridge)
            theta, logits, value = self._move(theta, logits, value, step, ridge)
        return theta, logits, float(size.max())

    def _direction(self, gradient: Tensor, shares: Tensor, ridge: Tensor) -> Tensor:
        """The Newton step of every problem to within `_REDUCTION`, by preconditioned conjugate gradients."""
        curvature = self.seen * shares * (1 - shares)
        inverse = 1 / (self._back(self.squares, curvature) + ridge + 1e-6)
        step, residual = torch.zeros_like(gradient), -gradient
        direction = ready = inverse * residual
        energy = first = _dot(residual, ready)
        for _ in range(_MOST_DIRECTIONS):
            moved = self._apply(direction)
            if self.width == 1:
                curved = curvature * moved
            else:
                curved = self.seen * shares * (moved - (shares * moved).sum(2, keepdim=True))
            product = self._back(self.x, curved) + ridge * direction
            length = energy / _dot(direction, product).clamp(min=1e-30)
            step = step + length * direction
            residual = residual - length * product
            ready = inverse * residual
            energy, last = _dot(residual, ready), energy
            if (energy <= _REDUCTION**2 * first).all():
                break
            direction = ready + energy / last.clamp(min=1e-30) * direction
        return step

    def _move(
        self, theta: Tensor, logits: Tensor, value: Tensor, step: Tensor, ridge: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Take the step, halved for the problems whose objective it would raise by more than rounding."""
        change = self._apply(step)
        length = torch.ones(1, self.count, 1, dtype=theta.dtype)
        slack = 100 * torch.finfo(theta.dtype).eps * value.abs()
        for _ in range(30):
            moved = theta + length * step, logits + length * change
            new = self._value(*moved, ridge)
            worse = new > value + slack
            if not worse.any():
                break
            length = torch.where(worse.view(1, -1, 1), length / 2, length)
        return *moved, new

    def _value(self, theta: Tensor, logits: Tensor, ridge: Tensor) -> Tensor:
        if self.width == 1:
            losses = functional.softplus(logits) - self.targets * logits
        else:
            losses = logits.logsumexp(2, keepdim=True) - (self.targets * logits).sum(2, keepdim=True)
        return (self.seen * losses).sum((0, 2)) + (ridge * theta.square()).sum((0, 2)) / 2

    def _apply(self, theta: Tensor) -> Tensor:
        return (self.x @ theta.flatten(1)).view(-1, self.count, self.width)

    def _back(self, x: Tensor, residual: Tensor) -> Tensor:
        return (x.T @ residual.flatten(1)).view(-1, self.count, self.width)


def _columns(targets: NDArray[Any]) -> Tensor:
    """Targets `[N, 1, K]`; for two classes the second's share alone."""
    if targets.ndim == 1:
        targets = np.eye(max(int(targets.max()) + 1, 2))[targets.astype(np.int64)]
    kept = targets[:, 1:] if targets.shape[1] == 2 else targets
    return torch.as_tensor(np.asarray(kept, dtype=np.float64)).unsqueeze(1)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum((0, 2), keepdim=True)
