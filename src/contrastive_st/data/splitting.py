"""Split rows into those to train on and those to validate on."""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np

from contrastive_st.errors import InputError


def split_rows(rows: datasets.Dataset, share: float, seed: int = 0) -> tuple[datasets.Dataset, datasets.Dataset]:
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
        >>> rows = datasets.Dataset.from_dict({"anchor": ["a", "b", "a", "c"], "positive": ["w", "x", "y", "z"]})
        >>> train, validation = split_rows(rows, 0.5)
        >>> len(train) + len(validation), set(train["anchor"]) & set(validation["anchor"])
        (4, set())
    """
    if not 0 < share < 1:
        raise InputError(f"a share of {share:g} for validation: give one between 0 and 1, such as 0.05")
    number: dict[Any, int] = {}
    group = np.array([number.setdefault(text, len(number)) for text in rows[rows.column_names[0]][:]], dtype=np.int64)
    sizes = np.bincount(group, minlength=len(number))
    order = np.random.default_rng(seed).permutation(len(number))
    taken, wanted = np.cumsum(sizes[order]), share * len(rows)
    count = int(np.argmin(np.abs(np.concatenate([[0], taken]) - wanted))) if len(rows) else 0
    if not 0 < count < len(number):
        what = f"{len(rows)} rows with {len(number)} different texts in column {rows.column_names[0]!r}"
        raise InputError(f"{what} leave no rows for {'training' if count else 'validation'} at a share of {share:g}")
    chosen = np.zeros(len(number), dtype=bool)
    chosen[order[:count]] = True
    return rows.select(np.flatnonzero(~chosen[group])), rows.select(np.flatnonzero(chosen[group]))
