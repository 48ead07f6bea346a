"""All pairs of vectors with a cosine of a threshold or more: every pair is compared, in blocks of bounded memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from contrastive_st.prefetch import on_threads

ROWS = 2048  # rows and columns of a block of scores: 2048 x 8192 float32 are 64 MiB
COLUMNS = 8192
_SLACK = 1e-5  # larger than the float32 rounding of a bound, so that no pair is lost
Pairs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]  # rows, columns and cosines


def near_pairs(vectors: Any, threshold: float, bounds: Any = None, progress: bool = False) -> Iterator[Pairs]:
    """Yield the rows, columns (row < column) and cosines of the pairs of each block that are near.

    Args:
        vectors: unit vectors `[N, d]`, float32; may be memory-mapped.
        threshold: lowest cosine.
        bounds: `[N, b]`, such that no cosine is greater than the product of two rows of them. Only pairs whose bound
            reaches the threshold are then compared in full, which is faster if b is small and such pairs are few.
        progress: show a bar with the time left.

    Example:
        >>> vectors = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]], dtype=np.float32)
        >>> [[part.tolist() for part in pairs[:2]] for pairs in near_pairs(vectors, 0.7)]
        [[[0, 1], [2, 2]]]
    """
    count = len(vectors)
    compared, least = (vectors, threshold) if bounds is None else (bounds, threshold - _SLACK)

    def of_block(place: tuple[int, int]) -> Pairs:
        i, j = place
        scores = compared[i : i + ROWS] @ compared[j : j + COLUMNS].T
        rows, columns = np.divmod(np.flatnonzero(scores >= least), scores.shape[1])
        upper = rows + i < columns + j
        rows, columns = rows[upper], columns[upper]
        if bounds is None:
            return rows + i, columns + j, scores[rows, columns]
        rows, columns = rows + i, columns + j
        cosines = np.empty(len(rows), dtype=np.float32)
        for start in range(0, len(rows), COLUMNS):
            part = slice(start, start + COLUMNS)
            cosines[part] = np.einsum("nd,nd->n", vectors[rows[part]], vectors[columns[part]])
        near = cosines >= threshold
        return rows[near], columns[near], cosines[near]

    blocks = [(i, j) for i in range(0, count, ROWS) for j in range(i // COLUMNS * COLUMNS, count, COLUMNS)]
    found = on_threads(of_block, blocks)
    yield from tqdm(found, total=len(blocks), disable=not progress, unit=" blocks", desc="compare", file=sys.stderr)
