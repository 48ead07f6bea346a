"""Finding one relevant document among many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def ranks_of_own(
    queries: NDArray[np.floating], documents: NDArray[np.floating], block: int = 1024
) -> NDArray[np.int64]:
    """Rank (1 is first) of document i for query i by dot product, `[N, d], [N, d] -> [N]`.

    Ties count against the model, so that equal embeddings do not look like a perfect ranking. NaN ranks last.
    """
    ranks = np.empty(len(queries), dtype=np.int64)
    for start in range(0, len(queries), block):
        scores = np.asarray(queries[start : start + block] @ documents.T)
        own = scores[np.arange(len(scores)), np.arange(start, start + len(scores))]
        ranks[start : start + block] = (~(scores < own[:, None])).sum(1)
    return ranks


def retrieval_metrics(ranks: NDArray[np.int64], k: int = 10) -> dict[str, float]:
    """`mrr@k` and `recall@k`, each from 0 to 1, of one relevant document a query.

    Example:
        >>> retrieval_metrics(np.array([1, 2, 50]), k=10)
        {'mrr@10': 0.5, 'recall@10': 0.6666666666666666}
    """
    found = ranks <= k
    return {f"mrr@{k}": float(np.where(found, 1 / ranks, 0).mean()), f"recall@{k}": float(found.mean())}
