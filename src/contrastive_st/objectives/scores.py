"""Anchor x candidate similarities, in float32 whatever the autocast dtype."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """`x` in float32, or in float64 when it already is: half precision never reaches a loss."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def normalize(x: Tensor) -> Tensor:
    """Unit vectors along the last dimension; a zero vector stays zero and has a finite gradient."""
    return torch.nn.functional.normalize(at_least_float32(x), dim=-1, eps=1e-12)


def cosine_scores(anchors: Tensor, candidates: Tensor, temperature: float = 1.0) -> Tensor:
    """Cosine similarity over temperature, `[B, d], [C, d] -> [B, C]`, as one matrix product.

    Example:
        >>> import torch
        >>> cosine_scores(torch.tensor([[2.0, 0.0]]), torch.tensor([[3.0, 0.0], [0.0, 1.0]]), 0.5)
        tensor([[2., 0.]])
    """
    return matmul_float32(normalize(anchors), normalize(candidates)) / temperature


def angular_similarity(a: Tensor, b: Tensor) -> Tensor:
    """`1 - arccos(cos(a, b)) / pi`, `[B, d], [C, d] -> [B, C]`: 1 for the same direction, 0 for the opposite.

    It tells nearly equal vectors apart better than the cosine (Cer et al. 2018, Universal Sentence Encoder). In float64
    inside, since the arc cosine loses half of the digits near 1; short of 0 and 1 by 5e-7, so that it has a gradient.

    Example:
        >>> import torch
        >>> a, b = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 1.0], [-3.0, 0.0]])
        >>> angular_similarity(a, b).round(decimals=4)
        tensor([[1.0000, 0.5000, 0.0000]])
    """
    cosines = matmul_float32(normalize(a.double()), normalize(b.double())).clamp(-1 + 1e-12, 1 - 1e-12)
    return (1 - cosines.acos() / math.pi).to(at_least_float32(a).dtype)


def dot_scores(anchors: Tensor, candidates: Tensor) -> Tensor:
    """Plain dot products, `[B, d], [C, d] -> [B, C]`."""
    return matmul_float32(at_least_float32(anchors), at_least_float32(candidates))


def matmul_float32(anchors: Tensor, candidates: Tensor) -> Tensor:
    """`anchors @ candidates.T` outside autocast."""
    with torch.autocast(anchors.device.type, enabled=False):
        return anchors @ candidates.T
