"""All pairs of vectors with a cosine of a threshold or more: every pair is compared, in blocks of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from contrastive_st.prefetch import on_threads

ROWS = 512  # rows and columns of a block of scores: 512 x 8192 float32 are 16 MiB
COLUMNS = 8192
_AT_ONCE = 1 << 20  # pairs that are handed on at a time
_SLACK = 1e-5  # larger than the float32 rounding of a bound, so that no pair is lost
Pairs = tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.floating]]  # rows, columns and cosines


def near_pairs(vectors: Any, threshold: float, bounds: Any = None, progress: bool = False) -> Iterator[Pairs]:
    """Yield the rows, columns (row < column) and cosines of the pairs that are near, at most a million at a time.

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
        # 4 bytes a number: where many vectors are alike, nearly every pair of a block is near
        rows, columns = np.divmod(np.flatnonzero(scores >= least).astype(np.int32), np.int32(scores.shape[1]))
        upper = rows + i < columns + j
        rows, columns = rows[upper], columns[upper]
        cosines = scores[rows, columns]
        rows, columns = rows + np.int32(i), columns + np.int32(j)
        if bounds is None:
            return rows, columns, cosines
        for start in range(0, len(rows), COLUMNS):
            part = slice(start, start + COLUMNS)
            cosines[part] = np.einsum("nd,nd->n", vectors[rows[part]], vectors[columns[part]])
        near = cosines >= threshold
        return rows[near], columns[near], cosines[near]

    blocks = [(i, j) for i in range(0, count, ROWS) for j in range(i // COLUMNS * COLUMNS, count, COLUMNS)]
    result = on_threads(of_block, blocks)
    for pairs in tqdm(result, total=len(blocks), disable=not progress, unit=" blocks", desc="compare"):
        for start in range(0, len(pairs[0]), _AT_ONCE):
            rows, columns, cosines = (column[start : start + _AT_ONCE] for column in pairs)
            yield rows.astype(np.int64), columns.astype(np.int64), cosines
