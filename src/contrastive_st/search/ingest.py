"""From a corpus to an index: read, encode, write, one shard after the other."""

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
from tqdm.auto import tqdm

from contrastive_st.errors import InputError
from contrastive_st.search.documents import Corpus, Document
from contrastive_st.search.index import Ids, Metadata, Vectors, storable
from contrastive_st.search.postgres.database import StoreConnection
from contrastive_st.search.postgres.store import VectorStore
from contrastive_st.search.postgres.writes import copy_documents
from contrastive_st.search.shards import FIRST, ShardFolder
from contrastive_st.vectors import unit_vectors

if TYPE_CHECKING:
    from contrastive_st.models.encoder import SentenceEncoder  # it imports torch, which loading does without

SHARD_ROWS = 16_384  # rows that are sorted by length and committed together: a kill costs the time of one such shard
Shard = tuple[int, int, list[Document]]  # its number, the place of its first row, its rows


class Sink(Protocol):
    """Where shards go: a `ShardFolder` or a `StoreLoader`."""

    def claim(self, shard: int) -> bool: ...

    def add(self, shard: int, ids: Ids, texts: Sequence[str], metadata: Metadata, vectors: Vectors) -> None: ...

    def finish(self, shards: int, rows: int) -> bool: ...


@dataclass
class Outcome:
    """What a run did: rows it encoded, rows the corpus has, and whether all of them are in the index now.

    `loading` is the part of its seconds that went into writing; the rest went into reading and encoding.
    """

    encoded: int = 0
    rows: int = 0
    complete: bool = False
    loading: float = 0.0


def index_corpus(
    corpus: Corpus, encoder: SentenceEncoder, sink: Sink, *, shard_rows: int = SHARD_ROWS, progress: bool = False
) -> Outcome:
    """Encode what is not yet there, and write it; to be called again after a kill, or by many processes at once.

    Args:
        corpus: read as a stream.
        encoder: the model.
        sink: takes the shards, and knows which are there.
        shard_rows: rows a shard. The same for all runs over a corpus: it is part of what a shard is.
        progress: show a bar with the rate and the time left.
    """
    if shard_rows < 1:
        raise InputError(f"{shard_rows} rows a shard: give 1 or more")
    outcome = Outcome()
    with tqdm(total=corpus.rows, disable=not progress, unit=" rows", desc="index", file=sys.stderr) as bar:

        def wanted() -> Iterator[Shard]:
            for shard, first, documents in _shards(corpus, shard_rows):
                outcome.rows = first + len(documents)
                if sink.claim(shard):
                    yield shard, first, documents
                else:  # counted as there from the first, or the rate and the time left would be wrong
                    bar.initial = getattr(bar, "initial", 0) + _source_rows(documents)
                    bar.update(_source_rows(documents))

        def texts(shard: Shard) -> list[str]:
            return [chunk for document in shard[2] for chunk in document.chunks]

        for (shard, first, documents), vectors in encoder.encode_stream(wanted(), texts):
            ids = np.arange(first, first + len(documents), dtype=np.int64)
            rows = ([document.text for document in documents], [document.metadata for document in documents])
            pooled = _pooled(documents, unit_vectors(vectors, of=f"{corpus.name}, shard {shard}"))
            started = time.perf_counter()
            sink.add(shard, ids, *rows, pooled)
            outcome.loading += time.perf_counter() - started
            outcome.encoded += len(documents)
            bar.update(_source_rows(documents))
    outcome.complete = sink.finish(-(-outcome.rows // shard_rows), outcome.rows)
    return outcome


def load_shards(folder: ShardFolder, sink: Sink, *, progress: bool = False) -> Outcome:
    """Load what was encoded before, without a model."""
    outcome = Outcome()
    numbers = []
    with tqdm(total=len(folder.paths()), disable=not progress, unit=" shards", desc="load", file=sys.stderr) as bar:
        for shard, (ids, texts, metadata, vectors) in folder.batches():
            numbers.append(shard)
            outcome.rows += len(ids)
            if sink.claim(shard):
                sink.add(shard, ids, texts, metadata, unit_vectors(vectors, of=f"{folder.folder}, shard {shard}"))
                outcome.encoded += len(ids)
            bar.update(1)
    if numbers != list(range(len(numbers))):
        raise InputError(f"{folder.folder} lacks shards; encode the corpus to its end first")
    outcome.complete = sink.finish(len(numbers), outcome.rows)
    return outcome


class StoreLoader:
    """Takes the shards of one source. Any number of processes, on any machines, may load the same source at once.

    Which shard is whose is settled by advisory locks, which the database takes back from a process that dies: its
    shard falls to the next that asks. The rows of a shard and its mark are committed together, so that no kill makes a
    row be lost or be there twice.

    Args:
        store: the collection.
        source: the corpus' name.
        fingerprint: changes with its content.
        replace: delete what the source brought before, if its fingerprint was another.
        former: a fingerprint of the same content as earlier releases made it; a source that has it gets the new one.

    Raises:
        InputError: shards of the source are there that were made of other content, and they are not to be replaced.
    """

    def __init__(
        self, store: VectorStore, source: str, fingerprint: str, replace: bool = False, former: str | None = None
    ) -> None:
        self.store, self.source, self.fingerprint = store, storable(source), fingerprint
        self.number = store.database.run(lambda connection: self._register(connection, replace, former))
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

    def add(self, shard: int, ids: Ids, texts: Sequence[str], metadata: Metadata, vectors: Vectors) -> None:
        """Commit a shard; where another process was faster, or indexes the source anew, nothing is written."""
        store = self.store

        def work(connection: StoreConnection) -> None:
            with connection.transaction():
                added = connection.execute(
                    "INSERT INTO contrastive_st.shards (collection, source, shard, rows)"
                    " SELECT collection, number, %s, %s FROM contrastive_st.sources"
                    " WHERE collection = %s AND number = %s AND mark = %s FOR KEY SHARE"
                    " ON CONFLICT DO NOTHING RETURNING shard",
                    (shard, len(ids), store.collection, self.number, self.fingerprint),
                ).fetchone()
                if added:
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
        """Let go of the locks, now and not when the database notices that the connection is gone."""
        if self._locks is not None:
            with contextlib.suppress(psycopg.Error):
                self._locks.execute("SELECT pg_advisory_unlock_all()")
            self._locks.close()

    # ------------------------------------------------------------------ inside

    def _register(self, connection: StoreConnection, replace: bool, former: str | None) -> int:
        """The number of the source, which is new where none of its shards is there."""
        name = self.store.collection
        with connection.transaction():
            connection.execute("SELECT 1 FROM contrastive_st.collections WHERE name = %s FOR UPDATE", (name,))
            row = connection.execute(
                "SELECT number, mark, EXISTS (SELECT 1 FROM contrastive_st.shards AS h"
                " WHERE h.collection = s.collection AND h.source = s.number)"
                " FROM contrastive_st.sources AS s WHERE collection = %s AND name = %s",
                (name, self.source),
            ).fetchone()
            if row is not None and row[1] == former:
                connection.execute(
                    "UPDATE contrastive_st.sources SET mark = %s WHERE collection = %s AND number = %s",
                    (self.fingerprint, name, row[0]),
                )
            if row is not None and row[1] in (self.fingerprint, former):
                return int(row[0])
            if row is not None:
                if row[2] and not replace:
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
                (name, number, self.source, self.fingerprint),
            )
            return int(number)

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
                self._locks = None  # with the connection the locks are gone


def _shards(corpus: Corpus, shard_rows: int) -> Iterator[Shard]:
    documents = corpus.read()
    for shard in itertools.count():
        rows = list(itertools.islice(documents, shard_rows))
        if not rows:
            return
        if shard * shard_rows >= FIRST:
            raise InputError(f"{corpus.name}: more than {FIRST} rows; index it in parts")
        yield shard, shard * shard_rows, rows


def _source_rows(documents: Sequence[Document]) -> int:
    return len({document.row for document in documents})


def _pooled(documents: Sequence[Document], vectors: Vectors) -> Vectors:
    """One unit vector a document: the mean of those of its chunks, or the last one's where they cancel out."""
    if len(vectors) == len(documents):
        return vectors
    ends = np.cumsum([len(document.chunks) for document in documents])
    sums = np.add.reduceat(vectors, np.concatenate([[0], ends[:-1]]), axis=0)
    nothing = np.linalg.norm(sums, axis=1) < 1e-6
    sums[nothing] = vectors[ends - 1][nothing]
    return unit_vectors(sums, np.float32)
