"""What a model's space looks like on STS-B: one number each, and a histogram of similarity by human score."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from contrastive_st.evaluation.figures import Figure
from contrastive_st.evaluation.geometry import alignment, anisotropy, effective_rank, uniformity
from contrastive_st.evaluation.rows import Embed, Parts
from contrastive_st.evaluation.sts import cosine

SPLIT = "dev"
_POSITIVE = 4.0  # pairs scored above this mean the same, as in the SimCSE paper


def score_space(parts: Parts, embed: Embed, task: str) -> list[Figure]:
    """Alignment of the pairs scored above 4; uniformity, anisotropy and effective rank of all distinct sentences."""
    if SPLIT not in parts:
        return [Figure(task, SPLIT, "uniformity", None, note=parts.missing.get(SPLIT, f"no {SPLIT} split"))]
    rows = parts[SPLIT]
    alike = rows.take(np.flatnonzero(rows.gold > _POSITIVE))
    a, b = (torch.from_numpy(np.asarray(embed(column), dtype=np.float64)) for column in alike.columns)
    every = list(dict.fromkeys(rows.columns[0] + rows.columns[1]))
    x = torch.from_numpy(np.asarray(embed(every), dtype=np.float64))
    found = [Figure(task, SPLIT, "alignment", alignment(a, b).item(), f"pairs scored above {_POSITIVE:g}", len(alike))]
    for measure in (uniformity, anisotropy, effective_rank):
        found.append(Figure(task, SPLIT, measure.__name__, measure(x).item(), "distinct sentences", len(every)))
    return found


def similarity_histogram(parts: Parts, embed: Embed) -> dict[str, Any]:
    """How many pairs of each score (0-1, 1-2, ..., 4-5) fall in each of 40 ranges of cosine similarity."""
    rows = parts[SPLIT]
    similarity = cosine(embed(rows.columns[0]), embed(rows.columns[1]))
    edges = np.linspace(-1, 1, 41).round(10)
    band = np.minimum(np.asarray(rows.gold, dtype=np.float64).astype(int), 4)
    counts = {f"{low}-{low + 1}": np.histogram(similarity[band == low], edges)[0].tolist() for low in range(5)}
    return {"data": f"STS-B {SPLIT}", "edges": edges.tolist(), "counts": counts}
