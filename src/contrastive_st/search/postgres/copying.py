"""Rows as PostgreSQL's binary COPY format, made by numpy a block at a time (objects would be slow), and their COPY."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from contrastive_st.search.index import Ids, Metadata, Vectors
from contrastive_st.search.postgres.database import StoreConnection
from contrastive_st.search.postgres.names import SIGNS
from contrastive_st.search.values import storable
from contrastive_st.vectors import rotated

SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END = b"\xff\xff"
FLOATS = {"vector": ">f4", "halfvec": ">f2"}


def vector_rows(ids: Ids, vectors: NDArray[np.floating], storage: str) -> bytes:
    """Rows `(id bigint, embedding)` of ids `[n]` and vectors `[n, d]`."""
    return _rows(ids, vectors.shape[1] << 16, vectors, FLOATS[storage])  # 16 bits of d, 16 that are not used


def signs_of(vectors: Vectors) -> NDArray[np.bool_]:
    """The code of each vector of a binary graph, `[n, d] -> [n, SIGNS * d]`."""
    return np.asarray(rotated(vectors, SIGNS) > 0)


def code_rows(ids: Ids, vectors: Vectors) -> bytes:
    """Rows `(id bigint, code bit)` of ids `[n]` and vectors `[n, d]`."""
    codes = signs_of(vectors)
    return _rows(ids, codes.shape[1], np.packbits(codes, axis=1), "u1")


def _rows(ids: Ids, length: int, values: np.ndarray, kind: str) -> bytes:
    """Rows of an id and a value: 32 bits with its length, and then the numbers `[n, m]` as `kind`."""
    numbers = np.dtype((kind, values.shape[1]))
    row = np.dtype([("fields", ">i2"), ("n1", ">i4"), ("id", ">i8"), ("n2", ">i4"), ("length", ">i4"), ("x", numbers)])
    rows = np.zeros(len(ids), dtype=row)
    rows["fields"], rows["n1"], rows["id"] = 2, 8, ids
    rows["n2"], rows["length"], rows["x"] = 4 + numbers.itemsize, length, values
    return rows.tobytes()


def text_rows(ids: Ids, texts: Sequence[str], metadata: Metadata) -> bytes:
    """Rows `(id bigint, text, metadata jsonb)`; characters that PostgreSQL cannot store are replaced (`storable`)."""
    head, length = struct.Struct(">hiqi").pack, struct.Struct(">i").pack
    rows: list[bytes] = []
    for id, text, item in zip(ids.tolist(), texts, metadata, strict=True):
        content = storable(text).encode()
        value = b"\x01" + json.dumps(item, ensure_ascii=False, allow_nan=False).encode()
        rows += (head(3, 8, id, len(content)), content, length(len(value)), value)
    return b"".join(rows)


def vectors_of(rows: Sequence[bytes], storage: str) -> Vectors:
    """Decode the output of `vector_send` or `halfvec_send` of each row into float32 `[n, d]`."""
    if not rows:
        return np.empty((0, 0), dtype=np.float32)
    raw = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), -1)
    return np.ascontiguousarray(raw[:, 4:]).view(FLOATS[storage]).astype(np.float32)


def copy_rows(connection: StoreConnection, table: sql.Identifier, columns: Sequence[str], rows: bytes) -> None:
    """COPY rows of `id` and these columns into a table, in the open transaction."""
    names = sql.SQL(", ").join(map(sql.Identifier, ("id", *columns)))
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(table, names)
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for piece in (SIGNATURE, rows, END):
            copy.write(piece)


def merge_rows(connection: StoreConnection, table: sql.Identifier, columns: Sequence[str], rows: bytes) -> list[int]:
    """As `copy_rows`, but rows whose id exists are replaced, if they differ; return the ids of those written."""
    staged = sql.Identifier("staged")
    connection.execute(sql.SQL("CREATE TEMP TABLE {} (LIKE {})").format(staged, table))
    copy_rows(connection, staged, columns, rows)
    old, new = (sql.SQL(", ").join(sql.Identifier(side, name) for name in columns) for side in ("old", "excluded"))
    written = connection.column(
        sql.SQL(
            "INSERT INTO {} AS old SELECT * FROM {} ORDER BY id ON CONFLICT (id) DO UPDATE SET ({}) = ROW ({})"
            " WHERE ({}) IS DISTINCT FROM ({}) RETURNING old.id"
        ).format(table, staged, sql.SQL(", ").join(map(sql.Identifier, columns)), new, old, new)
    )
    connection.execute(sql.SQL("DROP TABLE {}").format(staged))
    return written


#: `copy_rows` for rows that are all new, or else `merge_rows`
Put = Callable[["StoreConnection", sql.Identifier, Sequence[str], bytes], "list[int] | None"]
