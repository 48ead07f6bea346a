"""Rows of numbers as vectors: unit vectors, cosines, the greatest scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrastive_st.errors import InputError

Best = tuple[NDArray[np.floating[Any]], NDArray[np.int64]]  # scores [Q, k], falling, and the numbers of the candidates


def unit_vectors(vectors: ArrayLike, dtype: Any = None, of: str | None = None) -> NDArray[Any]:
    """Rows `[N, d]` divided by their lengths; a row of zeros stays zero.

    Args:
        vectors: `[N, d]`.
        dtype: of the result; by default that of the vectors, float32 at least.
        of: what the vectors are of. Where it is given, a row that has no direction is an error.

    Raises:
        InputError: `of` is given and a row is zero, NaN or infinite.

    Example:
        >>> unit_vectors([[3.0, 4.0], [0.0, 0.0]]).tolist()
        [[0.6, 0.8], [0.0, 0.0]]
    """
    rows = np.asarray(vectors)
    rows = np.asarray(rows, dtype=dtype or np.promote_types(rows.dtype, np.float32))
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if of is not None and not (sound := np.isfinite(lengths) & (lengths > 0)).all():
        raise InputError(f"{of}: vector {int(np.argmin(sound))} is zero, NaN or infinite; nothing is near to it")
    return np.asarray(rows / np.maximum(lengths, 1e-12))


def cosine(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Cosine of each row of `a` with the same row of `b`, `[N, d], [N, d] -> [N]`, in float64; 0 beside a zero vector.

    Example:
        >>> cosine([[3.0, 4.0]], [[4.0, 3.0]]).tolist()
        [0.96]
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray((a * b).sum(1) / np.maximum(lengths, np.finfo(np.float64).tiny))


def top_k(scores: NDArray[np.floating[Any]], k: int, before: Best | None = None, first: int = 0) -> Best:
    """The k greatest scores of each row, falling; of equal ones, those that come first.

    Args:
        scores: `[Q, N]`, of the candidates numbered `first`, `first + 1`, ...
        k: how many; all where there are fewer.
        before: the k best of the candidates with smaller numbers, where there were any: a corpus is searched block
            after block, and the scores of one block are there at a time.
        first: number of the first candidate.

    Returns:
        Scores `[Q, min(k, candidates)]` and numbers of the candidates.

    Example:
        >>> best = top_k(np.array([[0.1, 0.9, 0.5]]), 2)
        >>> best[0].tolist(), best[1].tolist()
        ([[0.9, 0.5]], [[1, 2]])
        >>> top_k(np.array([[0.7, 0.5]]), 2, best, first=3)[1].tolist()
        [[1, 3]]
    """
    empty = (np.empty((len(scores), 0), scores.dtype), np.empty((len(scores), 0), np.int64))
    known, numbers = empty if before is None else before
    keep = scores > known[:, -1:] if known.shape[1] == k else scores >= -np.inf  # an equal one comes later: it loses
    if np.count_nonzero(keep) > k * len(scores):  # so only in the first of many blocks
        keep &= scores >= np.partition(scores, -k, axis=1)[:, -k, None]
    query, column = np.nonzero(keep)
    queries = np.concatenate([np.repeat(np.arange(len(known)), known.shape[1]), query])
    values = np.concatenate([known.ravel(), scores[query, column]])
    labels = np.concatenate([numbers.ravel(), first + column])
    order = np.lexsort((labels, -values, queries))
    counts = np.bincount(queries, minlength=len(known))
    place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    order = order[place < k]
    width = min(k, known.shape[1] + scores.shape[1])
    return values[order].reshape(len(known), width), labels[order].reshape(len(known), width)
