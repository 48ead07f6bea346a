"""`StoreLoader`: one source after another goes into a collection, by any number of processes at once."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.types.json import Jsonb

from contrastive_st.errors import InputError
from contrastive_st.search.index import Batch, Files, Ids, Members, Metadata, State
from contrastive_st.search.postgres.copying import copy_rows, merge_rows
from contrastive_st.search.postgres.database import StoreConnection
from contrastive_st.search.postgres.writes import StoreWrites
from contrastive_st.search.shards import FIRST
from contrastive_st.search.values import same, storable

_UNLOCK = "SELECT pg_advisory_unlock(hashtext(%s), %s)"
_IDS, _HASHED = " ids", " files"  # after the fingerprint of a source whose documents have ids, of a column or by file
#: Other folders of a collection and the paths of their files; the names of patterns are not those of folders
_OF_OTHERS = (
    "sources AS s WHERE s.collection = f.collection AND s.number = f.source AND f.collection = %(collection)s"
    f" AND s.number <> %(source)s AND s.mark LIKE '%%{_HASHED}' AND s.name !~ '[*?[]' AND f.file <> ''"
    " AND s.name || '/' || f.file"
)


class StoreLoader:
    """Loads the shards of one source. Any number of processes, on any machines, may load the same source at once.

    Advisory locks assign the shards. If a process dies, the database releases its lock, and the next process takes the
    shard. The rows of a shard and the record of the shard are one transaction, so a kill neither loses nor repeats a
    row.

    Args:
        store: the collection.
        source: the name of the corpus.
        fingerprint: its fingerprint, which changes with its content.
        replace: index the source again, with what had been deleted from it: its earlier documents are deleted if its
            fingerprint has changed and it has no ids, and else compared.
        own_ids: the documents have ids: one that exists already is replaced if it differs.
        restore: add what had been deleted from the source.
        sync: remove what has left the source. Without it, only what has left a file of a folder that has changed is
            removed, because the file replaces what it was.
        files: of a folder, its files; those that have not changed need not be read.
        types: of the columns of the corpus, as far as they were decided.
        of_shards: the documents come from a folder of shards, of which former versions recorded no files.

    Raises:
        InputError: the source has shards of other content and no ids, and `replace` is not set; or the
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
        sync: bool = False,
        files: Files | None = None,
        types: Mapping[str, str] | None = None,
        of_shards: bool = False,
    ) -> None:
        self.store: StoreWrites = store.now()  # it stays with its tables, whatever name they get
        self.source, self.own_ids = storable(source), own_ids
        self.afresh, self.sync, self.files = replace or restore, sync, files or Files()
        self.replace, self.of_shards = replace, of_shards
        self.removed = self.kept = 0
        self.types = types or {}
        self.kind = _HASHED if self.files.hashed else _IDS if own_ids else ""
        self.fingerprint = fingerprint + self.kind
        self.number, self.run = self.store.database.run(lambda connection: self._register(connection, replace))
        self.first = 0 if own_ids else self.number * FIRST
        self._gone = np.array([] if self.afresh else self.store.deleted(), dtype=np.int64)
        self._mutex = threading.Lock()
        self._locks: StoreConnection | None = None
        self._unchanged: set[str] = set()
        self._done = self.store.database.run(self._loaded)

    @property
    def _key(self) -> dict[str, object]:
        return {"collection": self.store.tables.prefix, "source": self.number, "run": self.run}

    def claim(self, shard: int) -> bool:
        """Whether this process should encode the shard: it is missing, and no other process encodes it."""
        if shard in self._done:
            return False
        with self._mutex:
            try:
                return self._lock(shard)
            except (psycopg.OperationalError, psycopg.InterfaceError):  # the connection is closed, and its locks ended
                self.store.database.rows("SELECT 1")  # an embedded server is started again
                return self._lock(shard)

    def deleted(self, ids: Ids) -> NDArray[np.bool_]:
        """Which of these documents were deleted and are left out."""
        return np.isin(ids + self.first, self._gone)

    def known_files(self) -> tuple[set[str], Counter[str]]:
        """The files that have not changed since the last run that ended, and how many of their documents there are."""
        if self.afresh or not self.files.digests:
            return set(), Counter()
        rows = self.store.database.rows(
            "SELECT f.file, sum(cardinality(f.ids)), CASE WHEN %(deleted)s THEN sum((SELECT count(*) FROM _deleted AS d"
            " WHERE d.collection = f.collection AND d.id = ANY(f.ids))) ELSE 0 END"
            " FROM _files AS f JOIN unnest(%(names)s::text[], %(digests)s::text[]) AS now(file, digest) USING (file)"
            " WHERE f.collection = %(collection)s AND f.source = %(source)s"
            " GROUP BY f.file HAVING bool_and(f.digest IS NOT DISTINCT FROM now.digest)",
            {**self._key, **_lists(self.files.digests), "deleted": len(self._gone) > 0},
        )
        others = set(self.store.database.run(self._elsewhere)) if self.kind == _HASHED else set()
        # what another source has may be changed by a run of it that has not ended
        rows = [row for row in rows if row[0] not in others]
        self._unchanged = {file for file, _, _ in rows}
        total, gone = (int(sum(row[column] for row in rows)) for column in (1, 2))
        return self._unchanged, Counter({"unchanged": total - gone, "deleted": gone})

    def compare(self, ids: Ids, texts: Sequence[str], metadata: Metadata) -> list[State]:
        """What each of these documents is to the collection: new, changed, relabelled, unchanged or deleted."""
        states: list[State] = np.where(self.deleted(ids), "deleted", "new").tolist()
        if self.own_ids or self.afresh:  # else all of the shard are new
            statement = self.store.tables.statement("SELECT id, text, metadata FROM {texts} WHERE id = ANY(%s)")
            keys = (ids + self.first).tolist()
            there = {id: (text, stored) for id, text, stored in self.store.database.rows(statement, (keys,))}
            for i, (key, text, item) in enumerate(zip(keys, map(storable, texts), metadata, strict=True)):
                if key in there:
                    former, held = there[key]
                    differs = self.replace or former != text
                    states[i] = "changed" if differs else "unchanged" if same(held, item) else "relabelled"
        return states

    def relabel(self, ids: Ids, metadata: Metadata) -> None:
        """Replace the metadata of documents."""
        statement = self.store.tables.statement(
            "UPDATE {texts} AS t SET metadata = n.metadata FROM (SELECT id, n.metadata FROM {texts} AS t"
            " JOIN unnest(%s::bigint[], %s::jsonb[]) AS n(id, metadata) USING (id) ORDER BY id FOR NO KEY UPDATE OF t"
            ") AS n WHERE t.id = n.id"
        )
        parameters = (ids + self.first).tolist(), list(map(Jsonb, metadata))
        # their files are read again if this run does not end, and by other sources that have them
        forget = "UPDATE _files SET digest = NULL WHERE collection = %s AND ids && %s::bigint[] RETURNING source"

        def work(connection: StoreConnection) -> None:
            self.store.at(connection, lock=True).add_types(connection, metadata, self.types)
            connection.execute(statement, parameters)
            holding = connection.column(forget, (self.store.tables.prefix, parameters[0]))
            self._restart(connection, {*holding} - {self.number})

        if len(ids):
            self.store.database.transact(work)

    def add(self, shard: int, batch: Batch, members: Members | None = None) -> None:
        """Commit a shard of these members, of which those of `batch` are new; what was deleted meanwhile is left out.

        Nothing is written if another process was faster or is replacing the source. Of documents that the model knows
        no token of, the former versions are removed first.
        """
        ids, texts, metadata, vectors = batch
        put = merge_rows if self.own_ids or self.afresh else copy_rows
        keys = ids + self.first
        members = members or Members([""] * len(ids), ids)
        self.removed += self._leave_out(members.left_out + self.first)
        self.store.decide_language(texts)

        def work(connection: StoreConnection) -> None:
            connection.lift_limits()
            store = self.store.at(connection, lock=True)  # first, as all writes
            store.add_types(connection, metadata, self.types)
            added = connection.execute(
                "INSERT INTO shards (collection, source, shard, rows)"
                " SELECT collection, number, %s, %s FROM sources"
                " WHERE collection = %s AND number = %s AND mark = %s AND run = %s FOR KEY SHARE"
                " ON CONFLICT DO NOTHING RETURNING shard",
                (shard, len(members.ids), store.tables.prefix, self.number, self.fingerprint, self.run),
            ).fetchone()
            if not added:
                return
            if self.own_ids:
                connection.execute(
                    "INSERT INTO _files (collection, source, run, file, ids)"
                    " SELECT %(collection)s, %(source)s, %(run)s, file, array_agg(id)"
                    " FROM unnest(%(names)s::text[], %(ids)s::bigint[]) AS member(file, id) GROUP BY file",
                    {**self._key, "names": list(members.files), "ids": members.ids.tolist()},
                )
            gone: list[int] | Ids = [] if self.afresh else store.tombstones(connection, keys)
            kept = np.flatnonzero(~np.isin(keys, gone))
            rows = [texts[i] for i in kept.tolist()], [metadata[i] for i in kept.tolist()]
            store.write(connection, (keys[kept], *rows, vectors[kept]), put)
            if self.afresh:
                store.revive(connection, keys)

        self.store.database.transact(work)
        self._done.add(shard)
        with self._mutex, contextlib.suppress(psycopg.OperationalError, psycopg.InterfaceError):
            if self._locks is not None and self._locks.is_usable:  # else the locks ended with the connection
                self._locks.execute(_UNLOCK, self._lock_key(shard))
        self.store.join_words()

    def finish(self, shards: int, unread: Set[str] = frozenset()) -> bool:
        """Record the number of shards of the source; return whether all of them are there.

        If they are, what has left the source is removed in the same transaction, as `sync` says.
        """

        def work(connection: StoreConnection) -> tuple[bool, int]:
            connection.lift_limits()
            recorded = connection.execute(
                "UPDATE sources SET shards = %s WHERE collection = %s AND number = %s AND mark = %s AND run = %s",
                (shards, self.store.tables.prefix, self.number, self.fingerprint, self.run),
            ).rowcount
            self._done = self._loaded(connection)
            complete = bool(recorded) and len(self._done) == shards
            return complete, self._settle(connection, unread) if complete and self.own_ids else 0

        complete, removed = self.store.database.transact(work)
        self.removed += removed
        if complete:
            self.store.database.transact(
                lambda connection: self.store.at(connection, lock=True).decide_types(connection, self.types)
            )
        return complete

    def close(self) -> None:
        """Release the locks at once, not only when the database notices that the connection is closed."""
        if self._locks is not None and self._locks.is_usable:
            with contextlib.suppress(psycopg.Error):
                self._locks.execute("SELECT pg_advisory_unlock_all()")
            self._locks.close()

    # ------------------------------------------------------------------ inside

    def _register(self, connection: StoreConnection, replace: bool) -> tuple[int, int]:
        """The number of the source and of its run; a new source if it has no shards."""
        name = self.store.tables.prefix
        with connection.transaction():
            connection.execute("SELECT 1 FROM collections WHERE tables = %s FOR UPDATE", (name,))
            row = connection.execute(
                "SELECT number, run, mark, shards, (SELECT count(*) FROM shards AS h"
                " WHERE h.collection = s.collection AND h.source = s.number)"
                " FROM sources AS s WHERE collection = %s AND name = %s",
                (name, self.source),
            ).fetchone()
            other = connection.value(
                "SELECT name FROM sources WHERE collection = %s AND mark NOT LIKE %s AND (mark LIKE %s) != %s",
                (name, "%" + _HASHED, "%" + _IDS, self.kind == _IDS),
            )
            if other is not None and self.kind != _HASHED:  # they would be confused in one collection
                kinds = "ids in its rows", "the numbers of its rows as ids"
                this, those = kinds if self.own_ids else kinds[::-1]
                raise InputError(
                    f"{self.source} has {this}, and {other} in collection {self.store.collection!r} has {those}; choose"
                    " another --collection, or --id_column"
                )
            if row is not None:
                source, run, mark, shards, loaded = row
                same = mark == self.fingerprint
                if same or (self.own_ids and (mark.endswith(self.kind) or self._is_former(connection, source, mark))):
                    if self.afresh or not same or (self.own_ids and loaded == shards):
                        run += 1  # every row is compared, so that those that differ are updated
                        begin = "DELETE FROM shards WHERE collection = %s AND source = %s"
                        connection.execute(begin, (name, source))
                    connection.execute(
                        "UPDATE sources SET mark = %s, run = %s, shards = CASE run WHEN %s THEN shards END"
                        " WHERE collection = %s AND number = %s",
                        (self.fingerprint, run, run, name, source),
                    )
                    return int(source), int(run)
                if loaded and not replace:
                    raise InputError(
                        f"{self.source} has changed since it was indexed, or is read with other options (such as "
                        "--columns, --metadata, --split_into); give --replace to index it again, or the former options"
                    )
                self.store.delete_source(connection, source, not mark.endswith((_IDS, _HASHED)))
            following = "SELECT coalesce(max(number) + 1, 0) FROM sources WHERE collection = %s"
            number = connection.value(following, (name,))
            while not self.own_ids and self.store.uses_numbers(connection, number):
                number += 1
            connection.execute(
                "INSERT INTO sources (collection, number, name, mark) VALUES (%s, %s, %s, %s)",
                (name, number, self.source, self.fingerprint),
            )
            return int(number), 0

    def _is_former(self, connection: StoreConnection, source: int, mark: str) -> bool:
        """Whether a source was filled by a former version from shards of this kind, whose files it did not know."""
        if not self.of_shards or self.kind != _HASHED or not mark.endswith(_IDS):
            return False
        named = "SELECT EXISTS (SELECT FROM _files WHERE collection = %s AND source = %s AND file <> '')"
        return not connection.value(named, (self.store.tables.prefix, source))

    def _settle(self, connection: StoreConnection, unread: Set[str]) -> int:
        """Record the digests of the files of this run, in the open transaction; return how many documents it removes.

        A file that was read replaces its former documents. Without `sync`, those that have left another source stay,
        as do the files that have left a folder, and documents of which no file was known.
        """
        folder = bool(self.files.digests)
        read = self.files.digests if folder else {"": self.fingerprint}
        read = {file: digest for file, digest in read.items() if file not in self._unchanged and file not in unread}
        replaced = {*read, ""} - self._unchanged - unread  # also the documents of which no file was known
        parameters = {**self._key, **_lists(read), "replaced": sorted(replaced), "left": []}
        mine = "f.collection = %(collection)s AND f.source = %(source)s"
        if folder:
            count = "coalesce(sum(cardinality(ids)) FILTER (WHERE run <> %(run)s), 0)"
            statement = f"SELECT file, {count} FROM _files AS f WHERE {mine} GROUP BY file"
            there = {file: int(former) for file, former in connection.execute(statement.encode(), parameters)}
            left = {file for file in there if self.files.are_without(file)}
            parameters["left"] = sorted(left) if self.sync else []
            unreadable = there.keys() - self.files.digests.keys() - left | unread
            self.kept = sum(there.get(file, 0) for file in unreadable)
        former = f"""DELETE FROM _files AS f WHERE {mine}
            AND (f.file = ANY(%(left)s) OR f.file = ANY(%(replaced)s) AND f.run <> %(run)s) RETURNING file, ids"""
        rows = connection.execute(former.encode(), parameters).fetchall()
        ids = [id for _, some in rows for id in some]
        ids += self._take_over(connection, read) if self.kind == _HASHED else []
        now = "unnest(%(names)s::text[], %(digests)s::text[]) AS now(file, digest)"
        for statement in (
            f"UPDATE _files AS f SET digest = now.digest FROM {now} WHERE {mine} AND f.file = now.file",
            "INSERT INTO _files (collection, source, run, file, digest, ids)"
            f" SELECT %(collection)s, %(source)s, %(run)s, file, digest, '{{}}' FROM {now}"
            f" WHERE NOT EXISTS (SELECT FROM _files AS f WHERE {mine} AND f.file = now.file)",
        ):
            connection.execute(statement.encode(), parameters)
        if not self.sync and "" not in self.files.digests:
            connection.execute(
                "INSERT INTO _files (collection, source, run, file, digest, ids)"
                " SELECT %(collection)s, %(source)s, -1, '', '', array_agg(id)"
                " FROM (SELECT unnest(%(ids)s::bigint[]) AS id"
                " EXCEPT SELECT unnest(ids) FROM _files WHERE collection = %(collection)s AND source = %(source)s)"
                " AS stay HAVING count(*) > 0",
                {**parameters, "ids": [id for file, some in rows if not file for id in some]},
            )
        return self.store.remove(connection, ids) if folder or self.sync else 0

    def _take_over(self, connection: StoreConnection, read: Iterable[str]) -> list[int]:
        """Remove the files of this run from other sources, with `sync` also those that are not in this folder any more.

        A folder has the files of those inside of it: each file is in the source that read it last.

        Returns:
            The ids of their documents.
        """
        files = [f"{self.source}/{file}" for file in read]
        if self.sync:
            for file in self._elsewhere(connection):
                path = f"{self.source}/{file}"
                if self.files.are_without(file) and not os.path.lexists(path):  # it may be hidden, or have come since
                    files.append(path)
        remove = f"DELETE FROM _files AS f USING {_OF_OTHERS} = ANY(%(files)s) RETURNING f.source, ids"
        rows = connection.execute(remove.encode(), {**self._key, "files": files}).fetchall()
        self._restart(connection, {source for source, _ in rows})
        return [id for _, some in rows for id in some]

    def _restart(self, connection: StoreConnection, sources: Set[int]) -> None:
        """Let runs of other sources that have not ended begin again: their documents are not what they were."""
        for begin in (
            "UPDATE sources SET run = run + 1 WHERE collection = %s AND number = ANY(%s)",
            "DELETE FROM shards WHERE collection = %s AND source = ANY(%s)",
        ):
            connection.execute(begin, (self.store.tables.prefix, sorted(sources)))

    def _elsewhere(self, connection: StoreConnection) -> list[str]:
        """The files in this folder that another source has, by their names here."""
        folder = f"{self.source}/"
        statement = f"SELECT DISTINCT s.name || '/' || f.file FROM _files AS f, {_OF_OTHERS} ^@ %(folder)s"
        paths = connection.column(statement, {**self._key, "folder": folder})
        return [path.removeprefix(folder) for path in paths]

    def _leave_out(self, ids: Ids) -> int:
        """Delete documents that the source still has, but without a vector; return how many there were.

        The source is without them from now on: they stay if another source has them, until they leave that one too.
        It is a transaction of its own, because whoever writes locks texts first.
        """
        statement = self.store.tables.statement("SELECT id FROM {texts} WHERE id = ANY(%s)")
        forget = (  # without the digest, so that the file is read again if it becomes what it was
            "UPDATE _files SET digest = NULL, ids = ARRAY(SELECT unnest(ids) EXCEPT SELECT unnest(%(gone)s::bigint[]))"
            " WHERE collection = %(collection)s AND source = %(source)s AND ids && %(gone)s::bigint[]"
        )

        def work(connection: StoreConnection) -> int:
            store = self.store.at(connection, lock=True)
            recorded = connection.execute(
                "SELECT FROM sources WHERE collection = %s AND number = %s AND mark = %s AND run = %s FOR KEY SHARE",
                (store.tables.prefix, self.number, self.fingerprint, self.run),
            )
            there = connection.column(statement, (ids.tolist(),)) if recorded.rowcount else []
            if not there:  # mostly: it never had a vector
                return 0
            removed = store.remove(connection, there, self.number)
            connection.execute(forget, {**self._key, "gone": there})
            return removed

        return self.store.database.transact(work) if len(ids) else 0

    def _loaded(self, connection: StoreConnection) -> set[int]:
        statement = "SELECT shard FROM shards WHERE collection = %s AND source = %s"
        return set(connection.column(statement, (self.store.tables.prefix, self.number)))

    def _lock(self, shard: int) -> bool:
        if self._locks is None or not self._locks.is_usable:
            self._locks = self.store.database.connect()
        free = self._locks.value("SELECT pg_try_advisory_lock(hashtext(%s), %s)", self._lock_key(shard))
        if free and shard in self.store.database.run(self._loaded):  # committed between the first look and the lock
            self._done.add(shard)
            self._locks.execute(_UNLOCK, self._lock_key(shard))
            return False
        return bool(free)

    def _lock_key(self, shard: int) -> tuple[str, int]:
        """The advisory lock of a shard."""
        return self.store.tables.lock(self.number), shard


def _lists(digests: Mapping[str, str]) -> dict[str, list[str]]:
    return {"names": list(digests), "digests": list(digests.values())}
