"""Metrics of an embedding space: alignment, uniformity, anisotropy, effective rank."""

from __future__ import annotations

import torch
from torch import Tensor

from contrastive_st.losses.functional import at_least_float32, normalize


def alignment(a: Tensor, b: Tensor) -> Tensor:
    """Mean squared distance between unit vectors of positive pairs, `[N, d], [N, d]`; 0 is best.

    Wang and Isola (2020), as in the SimCSE paper.

    Example:
        >>> alignment(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])).item()
        2.0
    """
    return (normalize(a) - normalize(b)).square().sum(-1).mean()


def uniformity(x: Tensor) -> Tensor:
    """Log of the mean over distinct pairs of `exp(-2 |x_i - x_j|^2)` on unit vectors `[N, d]`; lower is better.

    Wang and Isola (2020). 0 where all vectors are equal; NaN for fewer than two rows.

    Example:
        >>> round(uniformity(torch.tensor([[1.0, 0.0], [-1.0, 0.0]])).item(), 6)
        -8.0
    """
    x = normalize(x)
    distances = (2 - 2 * (x @ x.T)).clamp(min=0)
    diagonal = torch.eye(len(x), dtype=torch.bool, device=x.device)
    return distances[~diagonal].mul(-2).exp().mean().log()


def anisotropy(x: Tensor) -> Tensor:
    """Mean cosine between distinct rows of `[N, d]`: 0 if directions are spread evenly, 1 in a narrow cone.

    Ethayarajh (2019). NaN for fewer than two rows.

    Example:
        >>> anisotropy(torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])).item()
        0.3333...
    """
    x = normalize(x)
    return (x.sum(0).square().sum() - x.square().sum()) / (len(x) * (len(x) - 1))


def effective_rank(x: Tensor) -> Tensor:
    """Exponential of the entropy of the normalised singular values of the centred `[N, d]`: 1 (a line) to d.

    Roy and Vetterli (2007). 1 where all rows are equal.

    Example:
        >>> round(effective_rank(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])).item(), 4)
        2.0
    """
    x = at_least_float32(x)
    values = torch.linalg.svdvals(x - x.mean(0))
    shares = values / values.sum().clamp(min=torch.finfo(x.dtype).tiny)
    rank: Tensor = torch.special.entr(shares).sum().exp()
    return rank
