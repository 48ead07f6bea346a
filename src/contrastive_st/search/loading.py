"""A corpus on its way into the store: shard by shard, each in one transaction with the mark that it is there."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from contrastive_st.errors import InputError
from contrastive_st.search.database import StoreConnection
from contrastive_st.search.filters import storable
from contrastive_st.search.shards import FIRST
from contrastive_st.search.store import VectorStore
from contrastive_st.search.writes import copy_documents


class StoreLoader:
    """Takes the shards of one source. Any number of processes, on any machines, may load the same source at once.

    Which shard is whose is settled by advisory locks, which the database takes back from a process that dies: its
    shard falls to the next that asks. The rows of a shard and its mark are committed together, so that no kill makes a
    row be lost or be there twice.

    Args:
        store: the collection.
        source: the corpus' name; `mark` changes with its content, and then the load is refused.
        replace: delete what the source brought before, if its mark is another.
    """

    def __init__(self, store: VectorStore, source: str, mark: str, replace: bool = False) -> None:
        self.store, self.source = store, storable(source)
        self.number = store.database.run(lambda connection: self._register(connection, mark, replace))
        self.first = self.number * FIRST
        self._mutex = threading.Lock()
        self._locks: StoreConnection | None = None
        self._done = self._loaded()

    def claim(self, shard: int) -> bool:
        """Whether this process is to encode the shard: it is not there, and no other process is at it."""
        if shard in self._done:
            return False
        with self._mutex:
            try:
                return self._lock(shard)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                self._locks = None
                self.store.database.run(lambda connection: connection.execute("SELECT 1"))  # up again, if it is ours
                return self._lock(shard)

    def add(
        self,
        shard: int,
        ids: NDArray[np.int64],
        texts: Sequence[str],
        metadata: Sequence[Mapping[str, Any]],
        vectors: NDArray[np.float32],
    ) -> None:
        """Commit a shard; where another process was faster it is left as it is."""
        store = self.store

        def work(connection: StoreConnection) -> None:
            with connection.transaction():
                mark = connection.execute(
                    "INSERT INTO contrastive_st.shards (collection, source, shard, rows) VALUES (%s, %s, %s, %s)"
                    " ON CONFLICT DO NOTHING RETURNING shard",
                    (store.collection, self.number, shard, len(ids)),
                ).fetchone()
                if mark:
                    tables = store.tables
                    rows = (texts, vectors, metadata)
                    copy_documents(connection, tables.texts, tables.vectors, store.storage, ids + self.first, *rows)

        store.database.run(work)
        self._done.add(shard)
        self._unlock(shard)

    def finish(self, shards: int, rows: int) -> bool:
        """Note how many shards the source has; whether all are there."""
        self.store.database.run(
            lambda connection: connection.execute(
                "UPDATE contrastive_st.sources SET shards = %s WHERE collection = %s AND number = %s",
                (shards, self.store.collection, self.number),
            )
        )
        self._done = self._loaded()
        return len(self._done) == shards

    def close(self) -> None:
        """Let go of the locks."""
        if self._locks is not None:
            self._locks.close()

    # ------------------------------------------------------------------ inside

    def _register(self, connection: StoreConnection, mark: str, replace: bool) -> int:
        name = self.store.collection
        with connection.transaction():
            connection.execute("SELECT 1 FROM contrastive_st.collections WHERE name = %s FOR UPDATE", (name,))
            row = connection.execute(
                "SELECT number, mark FROM contrastive_st.sources WHERE collection = %s AND name = %s",
                (name, self.source),
            ).fetchone()
            if row is not None and row[1] == mark:
                return row[0]
            if row is not None:
                if not replace:
                    raise InputError(
                        f"{self.source} has changed since it was indexed, or is split otherwise; "
                        "give --replace to index it anew"
                    )
                self.store.delete_source(connection, row[0])
            (number,) = connection.execute(
                "SELECT coalesce(max(number) + 1, 0) FROM contrastive_st.sources WHERE collection = %s", (name,)
            ).fetchone()  # type: ignore[misc]
            connection.execute(
                "INSERT INTO contrastive_st.sources (collection, number, name, mark) VALUES (%s, %s, %s, %s)",
                (name, number, self.source, mark),
            )
            return number

    def _loaded(self) -> set[int]:
        statement = "SELECT shard FROM contrastive_st.shards WHERE collection = %s AND source = %s"
        parameters = (self.store.collection, self.number)
        rows = self.store.database.run(lambda connection: connection.execute(statement, parameters).fetchall())
        return {shard for (shard,) in rows}

    def _lock(self, shard: int) -> bool:
        if self._locks is None or self._locks.closed:
            self._locks = self.store.database.connect()
        key = (f"{self.store.collection} {self.number}", shard)
        (free,) = self._locks.execute("SELECT pg_try_advisory_lock(hashtext(%s), %s)", key).fetchone()  # type: ignore[misc]
        if free and shard in self._loaded():  # committed between the first look and the lock
            self._done.add(shard)
            self._locks.execute("SELECT pg_advisory_unlock(hashtext(%s), %s)", key)
            return False
        return free

    def _unlock(self, shard: int) -> None:
        with self._mutex:
            try:
                if self._locks is not None:
                    key = (f"{self.store.collection} {self.number}", shard)
                    self._locks.execute("SELECT pg_advisory_unlock(hashtext(%s), %s)", key)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                self._locks = None  # with the connection the locks are gone
