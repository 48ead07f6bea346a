"""What an embedding space looks like: alignment, uniformity, anisotropy, effective rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from contrastive_st.evaluation.datasets.senteval import Embed, Splits
from contrastive_st.evaluation.scorers import Score
from contrastive_st.losses.functional import at_least_float32, normalize
from contrastive_st.vectors import cosine


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
    own = torch.eye(len(x), dtype=torch.bool, device=x.device)
    return distances[~own].mul(-2).exp().mean().log()


def anisotropy(x: Tensor) -> Tensor:
    """Mean cosine between distinct rows of `[N, d]`: 0 where directions spread evenly, 1 in a narrow cone.

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


# --- What a model's space looks like on STS-B: one number each, and a histogram of similarity by human score.

SPLIT = "dev"
_POSITIVE = 4.0  # pairs scored above this mean the same, as in the SimCSE paper


def score_space(splits: Splits, embed: Embed, task: str) -> list[Score]:
    """Alignment of the pairs scored above 4; uniformity, anisotropy and effective rank of all distinct sentences."""
    if SPLIT not in splits:
        return [Score(task, SPLIT, "uniformity", None, note=splits.missing.get(SPLIT, f"no {SPLIT} split"))]
    rows = splits[SPLIT]
    alike = rows.take(np.flatnonzero(rows.gold > _POSITIVE))
    a, b = (torch.from_numpy(np.asarray(embed(column), dtype=np.float64)) for column in alike.columns)
    every = list(dict.fromkeys(rows.columns[0] + rows.columns[1]))
    x = torch.from_numpy(np.asarray(embed(every), dtype=np.float64))
    found = [Score(task, SPLIT, "alignment", alignment(a, b).item(), f"pairs scored above {_POSITIVE:g}", len(alike))]
    for measure in (uniformity, anisotropy, effective_rank):
        found.append(Score(task, SPLIT, measure.__name__, measure(x).item(), "distinct sentences", len(every)))
    return found


def similarity_histogram(splits: Splits, embed: Embed) -> dict[str, Any]:
    """How many pairs of each score (0-1, 1-2, ..., 4-5) fall in each of 40 ranges of cosine similarity."""
    rows = splits[SPLIT]
    similarity = cosine(embed(rows.columns[0]), embed(rows.columns[1]))
    edges = np.linspace(-1, 1, 41).round(10)
    band = np.minimum(np.asarray(rows.gold, dtype=np.float64).astype(int), 4)
    counts = {f"{low}-{low + 1}": np.histogram(similarity[band == low], edges)[0].tolist() for low in range(5)}
    return {"data": f"STS-B {SPLIT}", "edges": edges.tolist(), "counts": counts}
