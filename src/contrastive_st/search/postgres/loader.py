"""`StoreLoader`: one source after another goes into a collection, by any number of processes at once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from contrastive_st.errors import InputError
from contrastive_st.search.index import CHANGED, DELETED, NEW, UNCHANGED, Ids, Metadata, Vectors
from contrastive_st.search.postgres.copying import copy_rows, merge_rows
from contrastive_st.search.postgres.database import StoreConnection
from contrastive_st.search.postgres.writes import StoreWrites
from contrastive_st.search.shards import FIRST
from contrastive_st.search.values import storable

_OWN = " ids"  # after the fingerprint of a source whose documents have ids of their own


class StoreLoader:
    """Loads the shards of one source. Any number of processes, on any machines, may load the same source at once.

    Advisory locks assign the shards. If a process dies, the database releases its lock, and the next process takes the
    shard. The rows of a shard and the record of the shard are one transaction, so a kill neither loses nor repeats a
    row.

    Args:
        store: the collection.
        source: the name of the corpus.
        fingerprint: its fingerprint, which changes with its content.
        replace: index the source afresh, with what had been deleted from it: its earlier documents are deleted if its
            fingerprint has changed and it has no ids of its own, and else compared.
        own_ids: the documents have ids of their own: one that is there already is replaced if it differs.
        restore: add what had been deleted from the source.

    Raises:
        InputError: the source has shards of other content and no ids of its own, and `replace` is not set; or the
            collection has ids of the other kind.
    """

    def __init__(
        self,
        store: StoreWrites,
        source: str,
        fingerprint: str,
        replace: bool = False,
        own_ids: bool = False,
        restore: bool = False,
    ) -> None:
        self.store: StoreWrites = store.now()  # it stays with its tables, whatever name they get
        self.source, self.own_ids = storable(source), own_ids
        self.afresh = replace or restore
        self.fingerprint = fingerprint + _OWN * own_ids
        self.number = self.store.database.run(lambda connection: self._register(connection, replace))
        self.first = 0 if own_ids else self.number * FIRST
        self._gone = np.array([] if self.afresh else self.store.deleted(), dtype=np.int64)
        self._mutex = threading.Lock()
        self._locks: StoreConnection | None = None
        self._done = self._loaded()

    def claim(self, shard: int) -> bool:
        """Whether this process should encode the shard: it is missing, and no other process encodes it."""
        if shard in self._done:
            return False
        with self._mutex:
            try:
                return self._lock(shard)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                self._locks = None
                self.store.database.rows("SELECT 1")  # an embedded server is started again
                return self._lock(shard)

    def deleted(self, ids: Ids) -> NDArray[np.bool_]:
        """Which of these documents were deleted and are left out."""
        return np.isin(ids + self.first, self._gone)

    def compare(self, ids: Ids, texts: Sequence[str], metadata: Metadata) -> list[str]:
        """What each of these documents is to the collection: new, changed, unchanged or deleted."""
        states: list[str] = np.where(self.deleted(ids), DELETED, NEW).tolist()
        if self.own_ids or self.afresh:  # else all of the shard are new
            statement = sql.SQL("SELECT id, text, metadata FROM {} WHERE id = ANY(%s)").format(self.store.tables.texts)
            keys = (ids + self.first).tolist()
            there = {id: (text, known) for id, text, known in self.store.database.rows(statement, (keys,))}
            for i, (key, *own) in enumerate(zip(keys, map(storable, texts), metadata, strict=True)):
                if key in there:
                    states[i] = UNCHANGED if there[key] == tuple(own) else CHANGED
        return states

    def add(
        self, shard: int, ids: Ids, texts: Sequence[str], metadata: Metadata, vectors: Vectors, rows: int | None = None
    ) -> None:
        """Commit a shard of `rows` rows, of which these are new; what has been deleted meanwhile is left out.

        Nothing is written if another process was faster or is replacing the source.
        """
        put = merge_rows if self.own_ids or self.afresh else copy_rows
        keys = ids + self.first

        def work(connection: StoreConnection) -> None:
            with connection.transaction():
                store = self.store.at(connection, lock=True)  # first, as all writes
                added = connection.execute(
                    "INSERT INTO shards (collection, source, shard, rows)"
                    " SELECT collection, number, %s, %s FROM sources"
                    " WHERE collection = %s AND number = %s AND mark = %s FOR KEY SHARE"
                    " ON CONFLICT DO NOTHING RETURNING shard",
                    (shard, len(ids) if rows is None else rows, store.tables.prefix, self.number, self.fingerprint),
                ).fetchone()
                if not added:
                    return
                if self.afresh:
                    store.revive(connection, keys)
                kept = np.flatnonzero(~np.isin(keys, store.tombstones(connection, keys)))
                own = [texts[i] for i in kept.tolist()], vectors[kept], [metadata[i] for i in kept.tolist()]
                store.write(connection, keys[kept], *own, put=put)

        self.store.database.run(work)
        self._done.add(shard)
        self._unlock(shard)

    def finish(self, shards: int, rows: int) -> bool:
        """Record the number of shards of the source; return whether all of them are there."""
        self.store.database.run(
            lambda connection: connection.execute(
                "UPDATE sources SET shards = %s WHERE collection = %s AND number = %s",
                (shards, self.store.tables.prefix, self.number),
            )
        )
        self._done = self._loaded()
        return len(self._done) == shards

    def close(self) -> None:
        """Release the locks at once, not only when the database notices that the connection is closed."""
        if self._locks is not None:
            with contextlib.suppress(psycopg.Error):
                self._locks.execute("SELECT pg_advisory_unlock_all()")
            self._locks.close()

    # ------------------------------------------------------------------ inside

    def _register(self, connection: StoreConnection, replace: bool) -> int:
        """The number of the source; a new one if it has no shards."""
        name = self.store.tables.prefix
        with connection.transaction():
            connection.execute("SELECT 1 FROM collections WHERE tables = %s FOR UPDATE", (name,))
            row = connection.execute(
                "SELECT number, mark, shards, (SELECT count(*) FROM shards AS h"
                " WHERE h.collection = s.collection AND h.source = s.number)"
                " FROM sources AS s WHERE collection = %s AND name = %s",
                (name, self.source),
            ).fetchone()
            self._check_kind(connection)
            if row is not None:
                source, mark, shards, loaded = row
                same = mark == self.fingerprint
                if self.own_ids or same:
                    if self.afresh or not same or (self.own_ids and loaded == shards):
                        self._begin_again(connection, source)
                    connection.execute(
                        "UPDATE sources SET mark = %s WHERE collection = %s AND number = %s",
                        (self.fingerprint, name, source),
                    )
                    return int(source)
                if loaded and not replace:
                    raise InputError(
                        f"{self.source} has changed since it was indexed, or is split otherwise; "
                        "give --replace to index it again"
                    )
                self.store.delete_source(connection, source)
            (number,) = connection.execute(
                "SELECT coalesce(max(number) + 1, 0) FROM sources WHERE collection = %s", (name,)
            ).fetchone()  # type: ignore[misc]
            connection.execute(
                "INSERT INTO sources (collection, number, name, mark) VALUES (%s, %s, %s, %s)",
                (name, number, self.source, self.fingerprint),
            )
            return int(number)

    def _begin_again(self, connection: StoreConnection, source: int) -> None:
        """Let every row of a source be compared, so that those that differ are updated."""
        for statement in (
            "DELETE FROM shards WHERE collection = %s AND source = %s",
            "UPDATE sources SET shards = NULL WHERE collection = %s AND number = %s",
        ):
            connection.execute(statement, (self.store.tables.prefix, source))

    def _check_kind(self, connection: StoreConnection) -> None:
        """Numbers of rows and ids of the corpus would be confused in one collection."""
        statement = "SELECT name FROM sources WHERE collection = %s AND (mark LIKE %s) != %s"
        other = connection.execute(statement, (self.store.tables.prefix, "%" + _OWN, self.own_ids)).fetchone()
        if other is not None:
            kinds = "ids of its own", "the numbers of its rows as ids"
            this, those = kinds if self.own_ids else kinds[::-1]
            raise InputError(
                f"{self.source} has {this}, and {other[0]} in collection {self.store.collection!r} has {those}; choose "
                "another --collection, or --id_column"
            )

    def _loaded(self) -> set[int]:
        statement = "SELECT shard FROM shards WHERE collection = %s AND source = %s"
        return {shard for (shard,) in self.store.database.rows(statement, (self.store.tables.prefix, self.number))}

    def _lock(self, shard: int) -> bool:
        if self._locks is None or self._locks.closed:
            self._locks = self.store.database.connect()
        key = (f"{self.store.tables.prefix} {self.number}", shard)
        (free,) = self._locks.execute("SELECT pg_try_advisory_lock(hashtext(%s), %s)", key).fetchone()  # type: ignore[misc]
        if free and shard in self._loaded():  # committed between the first look and the lock
            self._done.add(shard)
            self._locks.execute("SELECT pg_advisory_unlock(hashtext(%s), %s)", key)
            return False
        return bool(free)

    def _unlock(self, shard: int) -> None:
        with self._mutex:
            try:
                if self._locks is not None:
                    key = (f"{self.store.tables.prefix} {self.number}", shard)
                    self._locks.execute("SELECT pg_advisory_unlock(hashtext(%s), %s)", key)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                self._locks = None  # the locks ended with the connection
