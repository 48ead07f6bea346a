"""A linear map from the vectors of one model to those of another, fitted on texts that both have encoded."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError
from contrastive_st.vectors import unit_vectors

RIDGE = 0.3  # of the mean diagonal of the Gram matrix: 0.1 to 1 rank alike, and 10 harms
Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class LinearMap:
    """Vectors of one model as if another model had made them.

    Args:
        matrix: `[d + 1, D]`: a product, and in the last row a constant.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> old = unit_vectors(rng.standard_normal((500, 3)))
        >>> lift = LinearMap.fit(old, old[:, ::-1], ridge=1e-6)
        >>> lift(np.eye(3)).round(2).tolist()[0]
        [0.0, 0.0, 1.0]
    """

    matrix: Vectors

    @classmethod
    def fit(cls, old: Vectors, new: Vectors, ridge: float = RIDGE) -> LinearMap:
        """Ridge regression of vectors `[n, D]` on vectors `[n, d]` of the same texts."""
        mean, target = old.mean(0, dtype=np.float64), new.mean(0, dtype=np.float64)
        centered = old - mean
        gram = centered.T @ centered
        penalty = ridge * max(np.trace(gram) / len(gram), 1e-12)
        product = np.linalg.solve(gram + penalty * np.eye(len(gram)), centered.T @ (new - target))
        return cls(np.vstack([product, target - mean @ product]).astype(np.float32))

    def __call__(self, vectors: Vectors) -> Vectors:
        """Unit vectors `[n, D]` of vectors `[n, d]`."""
        return unit_vectors(np.asarray(vectors, np.float32) @ self.matrix[:-1] + self.matrix[-1])

    def to_bytes(self) -> bytes:
        """The map as a .npy file."""
        file = io.BytesIO()
        np.save(file, self.matrix, allow_pickle=False)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> LinearMap:
        """What `to_bytes` gave."""
        matrix = np.load(io.BytesIO(content), allow_pickle=False)
        if matrix.ndim != 2 or matrix.dtype != np.float32 or not np.isfinite(matrix).all():
            raise InputError("a map between models is damaged: it is not a matrix of finite float32 numbers")
        return cls(matrix)
