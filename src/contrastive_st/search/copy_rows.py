"""Rows as PostgreSQL's binary COPY format, made by numpy a block at a time: Python objects would be the slowest part.

The format (PostgreSQL manual, COPY, "Binary Format"): a signature, then for each row the number of fields and each
field's length and content, all big-endian; -1 ends it. A `vector` is two 16-bit numbers (dimension, 0) and 32-bit
floats, a `halfvec` the same with 16-bit floats.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastive_st.search.filters import storable, storable_json

SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END = b"\xff\xff"
FLOATS = {"vector": ">f4", "halfvec": ">f2"}


def vector_rows(ids: NDArray[np.int64], vectors: NDArray[np.floating], storage: str) -> bytes:
    """Rows `(id bigint, embedding)` of ids `[n]` and vectors `[n, d]`."""
    count, width = vectors.shape
    floats = np.dtype((FLOATS[storage], width))
    row = np.dtype(
        [("fields", ">i2"), ("n1", ">i4"), ("id", ">i8"), ("n2", ">i4"), ("dim", ">i2"), ("zero", ">i2"), ("x", floats)]
    )
    rows = np.zeros(count, dtype=row)
    rows["fields"], rows["n1"], rows["id"] = 2, 8, ids
    rows["n2"], rows["dim"], rows["x"] = 4 + floats.itemsize, width, vectors
    return rows.tobytes()


def text_rows(ids: NDArray[np.int64], texts: Sequence[str], metadata: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows `(id bigint, text, metadata jsonb)`; what PostgreSQL cannot hold is replaced (`filters.storable`)."""
    head, length = struct.Struct(">hiqi").pack, struct.Struct(">i").pack
    parts: list[bytes] = []
    for id, text, item in zip(ids.tolist(), texts, metadata, strict=True):
        content = storable(text).encode()
        value = (
            b"\x01" + json.dumps(storable_json(item), ensure_ascii=False, allow_nan=False).encode()
            if item
            else b"\x01{}"
        )
        parts += (head(3, 8, id, len(content)), content, length(len(value)), value)
    return b"".join(parts)


def vectors_of(rows: Sequence[bytes], storage: str) -> NDArray[np.float32]:
    """What `vector_send` or `halfvec_send` gave for each row, as float32 `[n, d]`."""
    if not rows:
        return np.empty((0, 0), dtype=np.float32)
    raw = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), -1)
    return np.ascontiguousarray(raw[:, 4:]).view(FLOATS[storage]).astype(np.float32)
