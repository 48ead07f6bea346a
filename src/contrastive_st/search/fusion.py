"""Several rankings made into one."""

from __future__ import annotations

from collections.abc import Sequence

RRF_CONSTANT = 60  # of Cormack, Clarke and Buettcher 2009


def reciprocal_rank_fusion(rankings: Sequence[Sequence[int]], constant: int = RRF_CONSTANT) -> list[int]:
    """Ids by the sum of `1 / (constant + rank)` over the rankings that hold them, best first; ties by id.

    Example:
        >>> reciprocal_rank_fusion([[1, 2, 3], [3, 4]])
        [3, 1, 2, 4]
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, id in enumerate(ranking, 1):
            scores[id] = scores.get(id, 0.0) + 1 / (constant + rank)
    return sorted(scores, key=lambda id: (-scores[id], id))
