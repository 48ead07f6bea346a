"""A sample of an index in one pass, of bounded memory, that does not hang on the order of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError
from contrastive_st.search.index import VectorIndex
from contrastive_st.vectors import unit_vectors


@dataclass(frozen=True)
class Sample:
    """Some documents of an index, ordered by id.

    Args:
        ids: int64 `[n]`.
        texts: their texts.
        metadata: their metadata.
        vectors: unit vectors, float32 `[n, d]`.
        total: documents in the index.
    """

    ids: NDArray[np.int64]
    texts: list[str]
    metadata: list[dict[str, Any]]
    vectors: NDArray[np.float32]
    total: int


def sample(index: VectorIndex, size: int, seed: int = 0) -> Sample:
    """At most `size` documents, chosen by a hash of their ids: the same ones whatever the batches.

    Raises:
        InputError: the index is empty.
    """
    rows: list[tuple[int, str, dict[str, Any]]] = []
    keys, vectors = np.empty(0, dtype=np.uint64), np.empty((0, index.dimension), dtype=np.float32)
    total = 0
    for ids, texts, metadata, batch in index.scan():
        total += len(ids)
        keys = np.concatenate([keys, mix(ids, seed)])
        rows += zip(ids.tolist(), texts, metadata, strict=True)
        vectors = np.concatenate([vectors, batch])
        if len(rows) > size:
            kept = np.argpartition(keys, size)[:size]
            keys, vectors, rows = keys[kept], vectors[kept], [rows[i] for i in kept]
    if not rows:
        raise InputError("the index holds no documents; fill it first (contrastive-st index CORPUS)")
    order = np.argsort([row[0] for row in rows], kind="stable")
    ids, texts, metadata = zip(*(rows[i] for i in order), strict=True)
    return Sample(np.array(ids, dtype=np.int64), list(texts), list(metadata), unit_vectors(vectors[order]), total)


def mix(ids: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele et al. 2014): numbers that look random, one for each id and seed."""
    x = ids.astype(np.uint64) + np.uint64((0x9E3779B97F4A7C15 * (seed + 1)) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(x ^ (x >> np.uint64(31)))
