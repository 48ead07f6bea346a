"""Vectors that come from outside, checked once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError


def as_queries(vectors: Any, dimension: int) -> NDArray[np.float32]:
    """One vector `[d]` or several `[Q, d]` as unit vectors `[Q, d]`.

    Raises:
        InputError: another shape or dimension; NaN, infinite or zero vectors, to which nothing is near.

    Example:
        >>> as_queries([0.0, 4.0], 2)
        array([[0., 1.]], dtype=float32)
    """
    array = np.asarray(vectors, dtype=np.float32)
    array = array[None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] != dimension:
        shape = " x ".join(map(str, array.shape))
        raise InputError(f"vectors of {dimension} dimensions are wanted, not {shape}; is the model the same?")
    norms = np.linalg.norm(array.astype(np.float64), axis=1, keepdims=True)
    if not np.all(np.isfinite(norms) & (norms > 0)):
        row = int(np.argmin(np.isfinite(norms) & (norms > 0)))
        raise InputError(f"vector {row} is zero, NaN or infinite; nothing is near to it")
    return (array / norms).astype(np.float32)
