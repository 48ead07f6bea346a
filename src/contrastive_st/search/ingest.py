"""Indexing of a corpus: read, encode and write one shard after the other."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql
from tqdm.auto import tqdm

from contrastive_st.errors import InputError
from contrastive_st.search.documents import Corpus, Document
from contrastive_st.search.index import Ids, Metadata, Vectors, storable, storable_json
from contrastive_st.search.postgres.database import StoreConnection
from contrastive_st.search.postgres.store import VectorStore
from contrastive_st.search.postgres.writes import copy_rows, merge_rows
from contrastive_st.search.shards import FIRST, ShardFolder
from contrastive_st.vectors import unit_vectors

if TYPE_CHECKING:
    from contrastive_st.models.encoder import (
        SentenceEncoder,
    )  # imported late: it imports torch, which loading does not need

SHARD_ROWS = 16_384  # rows that are sorted by length and committed together: a kill loses at most one such shard
Shard = tuple[int, int, list[Document]]  # its number, the number of its rows, those that are to be encoded


class Sink(Protocol):
    """Receives the shards: a `ShardFolder` or a `StoreLoader`."""

    def claim(self, shard: int) -> bool: ...

    def unchanged(self, ids: Ids, texts: Sequence[str], metadata: Metadata) -> NDArray[np.bool_]: ...

    def add(
        self, shard: int, ids: Ids, texts: Sequence[str], metadata: Metadata, vectors: Vectors, rows: int | None = None
    ) -> None: ...

    def finish(self, shards: int, rows: int) -> bool: ...


@dataclass
class Outcome:
    """Result of a run: rows it encoded, rows of the corpus, and whether all of them are in the index now.

    `loading` is the number of seconds spent on writing, as opposed to reading and encoding.
    """

    encoded: int = 0
    rows: int = 0
    complete: bool = False
    loading: float = 0.0


def index_corpus(
    corpus: Corpus, encoder: SentenceEncoder, sink: Sink, *, shard_rows: int = SHARD_ROWS, progress: bool = False
) -> Outcome:
    """Encode and write the missing shards. It can be called again after a kill, and by many processes at once.

    Args:
        corpus: the corpus, read as a stream.
        encoder: the model.
        sink: receives the shards and knows which of them exist.
        shard_rows: rows per shard; must be the same in all runs over a corpus.
        progress: show a bar with the rate and the time left.
    """
    if shard_rows < 1:
        raise InputError(f"{shard_rows} rows per shard: give 1 or more")
    outcome = Outcome()
    with tqdm(total=corpus.rows, disable=not progress, unit=" rows", desc="index", file=sys.stderr) as bar:

        def wanted() -> Iterator[Shard]:
            for shard, documents in _shards(corpus, shard_rows):
                outcome.rows += len(documents)
                if sink.claim(shard):
                    yield shard, len(documents), _changed(sink, documents) if corpus.own_ids else documents
                else:  # existing shards count as done from the start, or the rate and the time left would be wrong
                    bar.initial = getattr(bar, "initial", 0) + _source_rows(documents)
                    bar.update(_source_rows(documents))

        def texts(shard: Shard) -> list[str]:
            return [chunk for document in shard[2] for chunk in document.chunks]

        for (shard, count, documents), vectors in encoder.encode_stream(wanted(), texts):
            first = shard * shard_rows
            ids = _ids(documents) if corpus.own_ids else np.arange(first, first + count, dtype=np.int64)
            rows = ([document.text for document in documents], [document.metadata for document in documents])
            pooled = _pooled(documents, unit_vectors(vectors, of=f"{corpus.name}, shard {shard}"))
            started = time.perf_counter()
            sink.add(shard, ids, *rows, pooled, count)
            outcome.loading += time.perf_counter() - started
            outcome.encoded += len(documents)
            bar.update(_source_rows(documents))
    outcome.complete = sink.finish(-(-outcome.rows // shard_rows), outcome.rows)
    return outcome


def load_shards(folder: ShardFolder, sink: Sink, *, progress: bool = False) -> Outcome:
    """Load shards that were encoded before, without a model."""
    outcome = Outcome()
    numbers = []
    with tqdm(total=len(folder.paths()), disable=not progress, unit=" shards", desc="load", file=sys.stderr) as bar:
        for shard, (ids, texts, metadata, vectors) in folder.batches():
            numbers.append(shard)
            outcome.rows += len(ids)
            if sink.claim(shard):
                vectors = unit_vectors(vectors, of=f"{folder.folder}, shard {shard}")
                sink.add(shard, ids, texts, metadata, vectors)
                outcome.encoded += len(ids)
            bar.update(1)
    if numbers != list(range(len(numbers))):
        raise InputError(f"{folder.folder} is incomplete; finish encoding the corpus first")
    outcome.complete = sink.finish(len(numbers), outcome.rows)
    return outcome


class StoreLoader:
    """Loads the shards of one source. Any number of processes, on any machines, may load the same source at once.

    Advisory locks assign the shards. If a process dies, the database releases its lock, and the next process takes the
    shard. The rows of a shard and the record of the shard are one transaction, so a kill neither loses nor repeats a
    row.

    Args:
        store: the collection.
        source: the name of the corpus.
        fingerprint: its fingerprint, which changes with its content.
        replace: delete the earlier documents of the source if its fingerprint has changed.
        former: the fingerprint that earlier releases gave the same content; such a source gets the new one.
        own_ids: the documents have ids of their own: one that is there already is replaced if it differs.

    Raises:
        InputError: the source has shards of other content and no ids of its own, and `replace` is not set; or the
            collection has ids of the other kind.
    """

    def __init__(
        self,
        store: VectorStore,
        source: str,
        fingerprint: str,
        replace: bool = False,
        former: str | None = None,
        own_ids: bool = False,
    ) -> None:
        self.store, self.source, self.own_ids = store, storable(source), own_ids
        self.fingerprint = fingerprint + _OWN * own_ids
        self.number = store.database.run(lambda connection: self._register(connection, replace, former))
        self.first = 0 if own_ids else self.number * FIRST
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
                self.store.database.run(
                    lambda connection: connection.execute("SELECT 1")
                )  # an embedded server is started again
                return self._lock(shard)

    def unchanged(self, ids: Ids, texts: Sequence[str], metadata: Metadata) -> NDArray[np.bool_]:
        """Which of these documents are in the collection as they are here."""
        statement = sql.SQL("SELECT id, text, metadata FROM {} WHERE id = ANY(%s)").format(self.store.tables.texts)
        rows = self.store.database.run(lambda connection: connection.execute(statement, (ids.tolist(),)).fetchall())
        there = {id: (text, known) for id, text, known in rows}
        own = zip(ids.tolist(), texts, metadata, strict=True)
        return np.array([there.get(id) == (storable(text), storable_json(item)) for id, text, item in own], np.bool_)

    def add(
        self, shard: int, ids: Ids, texts: Sequence[str], metadata: Metadata, vectors: Vectors, rows: int | None = None
    ) -> None:
        """Commit a shard of `rows` rows, of which these are new.

        Nothing is written if another process was faster or is replacing the source.
        """
        store, put = self.store, merge_rows if self.own_ids else copy_rows

        def work(connection: StoreConnection) -> None:
            with connection.transaction():
                added = connection.execute(
                    "INSERT INTO contrastive_st.shards (collection, source, shard, rows)"
                    " SELECT collection, number, %s, %s FROM contrastive_st.sources"
                    " WHERE collection = %s AND number = %s AND mark = %s FOR KEY SHARE"
                    " ON CONFLICT DO NOTHING RETURNING shard",
                    (shard, len(ids) if rows is None else rows, store.collection, self.number, self.fingerprint),
                ).fetchone()
                if added:
                    store.write(connection, ids + self.first, texts, vectors, metadata, put=put)

        store.database.run(work)
        self._done.add(shard)
        self._unlock(shard)

    def finish(self, shards: int, rows: int) -> bool:
        """Record the number of shards of the source; return whether all of them are there."""
        self.store.database.run(
            lambda connection: connection.execute(
                "UPDATE contrastive_st.sources SET shards = %s WHERE collection = %s AND number = %s",
                (shards, self.store.collection, self.number),
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

    def _register(self, connection: StoreConnection, replace: bool, former: str | None) -> int:
        """The number of the source; a new one if it has no shards."""
        name = self.store.collection
        with connection.transaction():
            connection.execute("SELECT 1 FROM contrastive_st.collections WHERE name = %s FOR UPDATE", (name,))
            row = connection.execute(
                "SELECT number, mark, EXISTS (SELECT 1 FROM contrastive_st.shards AS h"
                " WHERE h.collection = s.collection AND h.source = s.number)"
                " FROM contrastive_st.sources AS s WHERE collection = %s AND name = %s",
                (name, self.source),
            ).fetchone()
            self._check_kind(connection)
            if row is not None and row[1] == former:
                connection.execute(
                    "UPDATE contrastive_st.sources SET mark = %s WHERE collection = %s AND number = %s",
                    (self.fingerprint, name, row[0]),
                )
            if row is not None and row[1] in (self.fingerprint, former):
                return int(row[0])
            if row is not None and self.own_ids:  # of every row it is found whether it has changed
                connection.execute(
                    "DELETE FROM contrastive_st.shards WHERE collection = %s AND source = %s", (name, row[0])
                )
                connection.execute(
                    "UPDATE contrastive_st.sources SET mark = %s, shards = NULL WHERE collection = %s AND number = %s",
                    (self.fingerprint, name, row[0]),
                )
                return int(row[0])
            if row is not None:
                if row[2] and not replace:
                    raise InputError(
                        f"{self.source} has changed since it was indexed, or is split otherwise; "
                        "give --replace to index it again"
                    )
                self.store.delete_source(connection, row[0])
            (number,) = connection.execute(
                "SELECT coalesce(max(number) + 1, 0) FROM contrastive_st.sources WHERE collection = %s", (name,)
            ).fetchone()  # type: ignore[misc]
            connection.execute(
                "INSERT INTO contrastive_st.sources (collection, number, name, mark) VALUES (%s, %s, %s, %s)",
                (name, number, self.source, self.fingerprint),
            )
            return int(number)

    def _check_kind(self, connection: StoreConnection) -> None:
        """Numbers of rows and ids of the corpus would be confused in one collection."""
        statement = "SELECT name FROM contrastive_st.sources WHERE collection = %s AND (mark LIKE %s) != %s"
        other = connection.execute(statement, (self.store.collection, "%" + _OWN, self.own_ids)).fetchone()
        if other is not None:
            kinds = "ids of its own", "the numbers of its rows as ids"
            this, those = kinds if self.own_ids else kinds[::-1]
            raise InputError(
                f"{self.source} has {this}, and {other[0]} in collection {self.store.collection!r} has {those}; choose "
                "another --collection, or --id_column"
            )

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
        return bool(free)

    def _unlock(self, shard: int) -> None:
        with self._mutex:
            try:
                if self._locks is not None:
                    key = (f"{self.store.collection} {self.number}", shard)
                    self._locks.execute("SELECT pg_advisory_unlock(hashtext(%s), %s)", key)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                self._locks = None  # the locks ended with the connection


_OWN = " ids"  # after the fingerprint of a source whose documents have ids of their own


def _ids(documents: Sequence[Document]) -> Ids:
    return np.array([document.id for document in documents], dtype=np.int64)


def _changed(sink: Sink, documents: list[Document]) -> list[Document]:
    """Those that the sink does not have as they are."""
    texts, metadata = [document.text for document in documents], [document.metadata for document in documents]
    same = sink.unchanged(_ids(documents), texts, metadata)
    return [document for document, known in zip(documents, same, strict=True) if not known]


def _shards(corpus: Corpus, shard_rows: int) -> Iterator[tuple[int, list[Document]]]:
    documents = corpus.read()
    for shard in itertools.count():
        rows = list(itertools.islice(documents, shard_rows))
        if not rows:
            return
        if shard * shard_rows >= FIRST:
            raise InputError(f"{corpus.name}: more than {FIRST} rows; index it in parts")
        yield shard, rows


def _source_rows(documents: Sequence[Document]) -> int:
    return len({document.row for document in documents})


def _pooled(documents: Sequence[Document], vectors: Vectors) -> Vectors:
    """One unit vector per document: the mean of those of its chunks, or the last one if they cancel out."""
    if len(vectors) == len(documents):
        return vectors
    ends = np.cumsum([len(document.chunks) for document in documents])
    sums = np.add.reduceat(vectors, np.concatenate([[0], ends[:-1]]), axis=0)
    nothing = np.linalg.norm(sums, axis=1) < 1e-6
    sums[nothing] = vectors[ends - 1][nothing]
    return unit_vectors(sums, np.float32)
