"""Parts of the rows of a data set: a sample, validation rows, and the three parts of labelled pairs."""

from __future__ import annotations

import zlib
from typing import Annotated

import numpy as np
from annotated_types import Gt, Lt
from datasets import Dataset

from contrastive_st.errors import InputError
from contrastive_st.options import checked


def sample(rows: Dataset, count: int | None, seed: int = 0) -> Dataset:
    """`count` of the rows, drawn by the seed; all rows for None.

    Example:
        >>> sample(Dataset.from_dict({"text": ["a", "b", "c"]}), 2).num_rows
        2
    """
    if count is None or count >= len(rows):
        return rows
    return rows.select(np.random.default_rng(seed).permutation(len(rows))[:count])


def split_by_first(pairs: Dataset) -> tuple[Dataset, Dataset, Dataset]:
    """Train, dev and test (0.8, 0.1, 0.1), by a checksum of the first text, so all its pairs are in one split.

    The NLI task of `contrastive-st evaluate` splits in the same way, so its test pairs are never trained on.

    Raises:
        InputError: a part would be empty.

    Example:
        >>> pairs = Dataset.from_dict({"first": [str(i) for i in range(100)], "second": ["a"] * 100})
        >>> [len(part) for part in split_by_first(pairs)]
        [74, 17, 9]
    """
    first = pairs[pairs.column_names[0]][:]
    tenth = np.array([zlib.crc32(text.encode()) % 10 for text in first])
    parts = tenth > 1, tenth == 1, tenth == 0
    if not all(part.any() for part in parts):
        what = f"{len(pairs)} pairs of {len(set(first))} first texts are too few"
        raise InputError(f"{what} to hold out some of them for dev and test; give more")
    return tuple(pairs.select(np.flatnonzero(part)) for part in parts)


def split_rows(rows: Dataset, share: float, seed: int = 0) -> tuple[Dataset, Dataset]:
    """Split rows at random into rows for training and rows for validation.

    Rows with the same text in their first column (the anchor) stay together, so no anchor is on both sides. Both parts
    keep the order of the rows.

    Args:
        rows: a column of text first, as `read_examples` returns them.
        share: the share of the rows for validation, between 0 and 1. As anchors stay together, it may be missed by some
            rows.
        seed: seed of the random choice.

    Returns:
        The rows for training and those for validation.

    Raises:
        InputError: the share is not between 0 and 1, or leaves one of the sides without rows.

    Example:
        >>> rows = Dataset.from_dict({"anchor": ["a", "b", "a", "c"], "positive": ["w", "x", "y", "z"]})
        >>> train, validation = split_rows(rows, 0.5)
        >>> len(train) + len(validation), set(train["anchor"]) & set(validation["anchor"])
        (4, set())
    """
    checked("share of the rows for validation", share, Annotated[float, Gt(0), Lt(1)])
    number: dict[object, int] = {}
    group = np.array([number.setdefault(text, len(number)) for text in rows[rows.column_names[0]][:]], dtype=np.int64)
    sizes = np.bincount(group, minlength=len(number))
    order = np.random.default_rng(seed).permutation(len(number))
    taken, goal = np.cumsum(sizes[order]), share * len(rows)
    count = int(np.argmin(np.abs(np.concatenate([[0], taken]) - goal))) if len(rows) else 0
    if not 0 < count < len(number):
        what = f"{len(rows)} rows with {len(number)} different texts in column {rows.column_names[0]!r}"
        raise InputError(f"{what} leave no rows for {'training' if count else 'validation'} at a share of {share:g}")
    chosen = np.zeros(len(number), dtype=bool)
    chosen[order[:count]] = True
    return rows.select(np.flatnonzero(~chosen[group])), rows.select(np.flatnonzero(chosen[group]))
