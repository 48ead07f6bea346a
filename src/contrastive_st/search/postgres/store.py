"""`VectorStore`: texts, metadata and vectors in PostgreSQL with pgvector."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, LiteralString

import numpy as np
from numpy.typing import NDArray
from pgvector import Bit, HalfVector, Vector
from psycopg import Cursor, sql

from contrastive_st.errors import choice
from contrastive_st.search.bm25 import Postings, best, shares
from contrastive_st.search.filters import Filter, Filterable, as_filter
from contrastive_st.search.index import Asked, Batch, Hit, Id, Ids, VectorIndex, Vectors, all_known, check_model, fuse
from contrastive_st.search.lexemes import UNKNOWN_LANGUAGE, query_keys
from contrastive_st.search.postgres import schema as queries
from contrastive_st.search.postgres.copying import signs_of, vectors_of
from contrastive_st.search.postgres.database import PATIENCE, POOL, Database, Parameters, StoreConnection
from contrastive_st.search.postgres.loader import StoreLoader
from contrastive_st.search.postgres.names import STORAGES, check_name
from contrastive_st.search.postgres.naming import free_prefix
from contrastive_st.search.postgres.postings import View, Words, segments_of
from contrastive_st.search.postgres.predicates import as_jsonpath, paths_of, subject_of
from contrastive_st.search.postgres.schema import create_tables, create_view
from contrastive_st.search.postgres.writes import StoreWrites
from contrastive_st.search.values import GIVEN, OWN_ID, as_ids, given_and_own, one_line, storable

EF_SEARCH = 200  # candidates that HNSW keeps: more candidates give a higher recall and take longer
EXACT_ROWS = 20_000  # with fewer matching documents the search is exact: tens of milliseconds
_MOST_EF = 1000  # pgvector's limit


_DOCUMENTS = """SELECT v.id, t.text, t.metadata, {send}(v.embedding) FROM {vectors} AS v
    JOIN {texts} AS t ON t.id = v.id """
_COSINES = "SELECT v.id, 1 - (v.embedding <=> %(q)b) FROM {vectors} AS v WHERE v.id = ANY(%(ids)s)"


class VectorStore(StoreWrites, VectorIndex):
    """A collection of documents with their vectors, in the embedded PostgreSQL or in another one.

    Args:
        where: a DSN (`postgresql://...`), or a folder for the embedded server, or an open database, which is closed
            with the collection; by default `contrastive_st.search.postgres.server.default_store()`.
        collection: its name; a database holds any number.
        fingerprint: fingerprint of the model of the queries; an error if another model made the collection.
        pool: most connections at a time; more clients wait for their turn.
        patience: seconds that work waits for a database that does not answer.

    Raises:
        InputError: the collection does not exist or has another model or dimension, a newer version made the store, or
            the database cannot be reached.

    Example:
        >>> made = VectorStore.create("/tmp/s", "docs", model="m", fingerprint="f", dimension=3)  # doctest: +SKIP
        >>> with made as store:  # doctest: +SKIP
        ...     store.upsert([7], ["a text"], [[1.0, 0.0, 0.0]], [{"source": "x"}])
        ...     store.search([1.0, 0.1, 0.0])[0][0].text
        'a text'
    """

    made = False  # created by this object

    def __init__(
        self,
        where: str | Path | Database | None = None,
        collection: str = "documents",
        *,
        fingerprint: str | None = None,
        pool: int = POOL,
        patience: float = PATIENCE,
    ) -> None:
        self.collection, self.words = check_name(collection), Words()
        self.database = where if isinstance(where, Database) else Database(where, pool, patience=patience)
        with ExitStack() as failed:
            failed.callback(self.close)
            self.database.run(self.load)
            check_model(self, fingerprint, f"collection {self.collection!r}")
            failed.pop_all()

    @classmethod
    def create(
        cls,
        where: str | Path | Database | None = None,
        collection: str = "documents",
        *,
        model: str,
        fingerprint: str,
        dimension: int,
        storage: str = "halfvec",
        partitions: int = 1,
        pool: int = POOL,
    ) -> VectorStore:
        """Open a collection; create it if it does not exist.

        Args:
            where: as for `VectorStore`.
            collection: its name.
            model: the name of the model that makes the vectors, for messages.
            fingerprint: a hash of that model.
            dimension: elements of a vector.
            storage: `halfvec` (16-bit floats) or `vector` (32-bit floats, twice the space).
            partitions: number of tables for the vectors, which are distributed by a hash of their id. Use several for a
                collection that will be distributed over nodes; each partition has an index.
            pool: as for `VectorStore`.

        Returns:
            The open collection; its attribute `made` tells whether this call created it.
        """
        check_name(collection), choice("storage", storage, STORAGES)

        def make(connection: StoreConnection) -> bool:
            tables = free_prefix(connection, database.schema, collection)
            if tables is None:
                return False
            check_name(collection, new=True)
            columns = "name, tables, model, fingerprint, dimension, storage, partitions"
            row = (collection, tables.prefix, *map(storable, (model, fingerprint)), dimension, storage, partitions)
            connection.execute(f"INSERT INTO collections ({columns}) VALUES (%s, %s, %s, %s, %s, %s, %s)", row)
            create_tables(connection, tables, dimension, storage, partitions)
            create_view(connection, collection, tables)
            return True

        database = where if isinstance(where, Database) else Database(where, pool, setup=True)
        with ExitStack() as failed:
            failed.callback(database.close)
            made = collection not in cls.names(database) and database.transact(make)
            store = cls(database, collection, fingerprint=fingerprint)
            store.made = made
            failed.pop_all()
        return store

    @staticmethod
    def names(database: Database) -> dict[str, str]:
        """The names and aliases of all collections of a database, sorted, each with the name of its collection."""
        statement = (
            "SELECT name, name FROM collections UNION SELECT a.name, c.name FROM _aliases AS a"
            " JOIN collections AS c ON c.tables = a.collection ORDER BY 1"
        )
        return dict(database.rows(statement))

    def describe(self) -> dict[str, str]:
        """A description of the collection as text: columns, space on disk, corpora and their shards."""

        def work(connection: StoreConnection, now: VectorStore) -> tuple[VectorStore, Any, list[Any]]:
            *parts, texts = [name.as_string(connection) for name in now.all_tables(connection)]
            about = connection.execute(
                "SELECT name, (SELECT string_agg(name, ', ' ORDER BY name) FROM _aliases WHERE collection = tables),"
                " to_char(created, 'YYYY-MM-DD HH24:MI'), pg_size_pretty(pg_total_relation_size(%s) + (SELECT"
                " sum(pg_total_relation_size(relid)) FROM unnest(%s::text[]) AS n, pg_partition_tree(to_regclass(n))))"
                " FROM collections WHERE tables = %s",
                (texts, parts, now.tables.prefix),
            ).fetchone()
            sources = connection.execute(
                "SELECT s.name, count(h.shard), s.shards, coalesce(sum(h.rows), 0), (SELECT count(DISTINCT f.file)"
                " FROM _files AS f WHERE f.collection = s.collection AND f.source = s.number AND f.file <> '')"
                " FROM sources AS s"
                " LEFT JOIN shards AS h ON h.collection = s.collection AND h.source = s.number"
                " WHERE s.collection = %s GROUP BY s.collection, s.number ORDER BY s.number",
                (now.tables.prefix,),
            ).fetchall()
            return now, about, sources

        now, (name, aliases, created, size), sources = self.read(work)
        last_deleted = (
            "SELECT d.id, f.file FROM _deleted AS d LEFT JOIN LATERAL (SELECT file FROM _files AS f"
            " WHERE f.collection = d.collection AND d.id = ANY(f.ids) LIMIT 1) AS f ON true"
            " WHERE d.collection = %s ORDER BY d.deleted DESC, d.id LIMIT 20"
        )
        rows = self.database.rows(last_deleted, (now.tables.prefix,))
        gone = ", ".join(f"{id} ({file})" if file else str(id) for id, file in rows)
        (live, *others), total, moves = self.spaces(), len(now), {}
        for space in [live, *others] if others else []:  # the progress of a move to another model
            done = f"{total - self.count_missing(space):,} of {total:,} documents encoded"
            answers = ", which searches use" if space == live else ""
            moves[f"space {space.number}"] = f"vectors of {space.model} ({space.fingerprint[:8]}){answers}; {done}"
        types = {name: f" ({kind})" for name, kind in now.types().items()}
        partitions = f", in {now.partitions} partitions" if now.partitions > 1 else ""
        result = {
            "collection": f"{name}, created {created}, {size} on disk",
            "aliases": aliases or "",
            "documents": f"{total:,}",
            "vectors": f"{now.dimension} dimensions as {now.storage}, index {now.index}{partitions}",
            "full text": now.language or f"{UNKNOWN_LANGUAGE}, until an index is built",
            "model": f"{now.model} (fingerprint {now.fingerprint[:8]})",
            **moves,
            "columns": ", ".join(name + types.get(name, "") for name in now.columns()) or "none",
            "deleted": f"{len(now.deleted()):,}: {one_line(gone, 1000)}" if gone else "",
        }
        for number, (source, done, shards, loaded, files) in enumerate(sources, 1):
            of_shards = f"{loaded:,} rows in {done} of {'?' if shards is None else shards} shards"
            result[f"corpus {number}"] = f"{source}, {f'{files:,} files' if files else of_shards}"
        return {name: value for name, value in result.items() if value}

    def loader(self, source: str, fingerprint: str, **options: Any) -> StoreLoader:
        """What loads the shards of a source; see `StoreLoader`.

        Args:
            source: the name of the corpus.
            fingerprint: changes with its content.
            options: as for `StoreLoader`.

        Returns:
            The loader; close it after use.
        """
        return StoreLoader(self, source, fingerprint, **options)

    def close(self) -> None:
        """Close the connections; the last user of an embedded server stops it."""
        self.database.close()

    def __enter__(self) -> VectorStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.count()

    def state(self) -> Hashable:
        """What is equal as long as the documents, their texts and their model are; see `VectorIndex.state`."""

        def work(connection: StoreConnection, now: VectorStore) -> Hashable:
            return now.tables.prefix, now.tables.space, segments_of(connection, now.tables)

        return self.read(work)

    # ------------------------------------------------------------------ reading

    def nearest(self, asked: Asked) -> list[list[Hit]]:
        """As for `VectorIndex`.

        If the planner expects few matches of the filter (`EXACT_ROWS`), all of them are compared exactly; else the
        graph is scanned until there are k matches. The candidates of a binary graph are compared again by their full
        vectors.
        """

        def work(connection: StoreConnection, now: VectorStore) -> list[list[Hit]]:
            filter, k, ef = asked.filter, asked.k, max(asked.ef_search or EF_SEARCH, asked.k)
            graph, ef = now._plan(connection, filter, asked.exact, ef)
            if asked.text is not None:
                return [now._hybrid(connection, asked, asked.text, graph, ef)]
            results = (now._near_rows(connection, query, k, filter, graph, ef) for query in asked.queries)
            return [[Hit.of(*row) for row in rows] for rows in results]

        return self.read(work)

    def similar(self, id: Id, k: int = 10, *, filter: Filterable = None) -> list[Hit]:
        """As for `VectorIndex`, all of it from the tables that have the name now."""
        return VectorIndex.similar(self.now(), id, k, filter=filter)

    def vectors(self, ids: Sequence[Id]) -> Vectors:
        """The vectors of these documents, `[n, d]`, in that order."""
        now, numbers = self.now(), as_ids(ids)
        statement = f"SELECT id, {now.storage}_send(embedding) FROM {{vectors}} WHERE id = ANY(%s)"
        rows = self.database.rows(now.tables.statement(statement), (numbers.tolist(),))
        result = dict(zip([row[0] for row in rows], vectors_of([row[1] for row in rows], now.storage), strict=True))
        none = np.empty((0, self.dimension), np.float32)
        return np.stack([result[id] for id in all_known(ids, result)]) if len(numbers) else none

    def get(self, ids: Sequence[Id]) -> list[Hit]:
        """The documents of these ids, in that order; their score is NaN."""
        numbers = as_ids(ids)
        rows = self._rows("SELECT id, text, metadata FROM {texts} WHERE id = ANY(%s)", (numbers.tolist(),))
        result = {id: Hit.of(id, math.nan, text, metadata) for id, text, metadata in rows}
        return [result[id] for id in all_known(ids, result)]

    def known(self, ids: Sequence[Id]) -> list[int]:
        """Those of the ids that the collection has."""
        rows = self._rows("SELECT id FROM {texts} WHERE id = ANY(%s)", (as_ids(ids).tolist(),))
        return [id for (id,) in rows]

    def draw(self, count: int, seed: int = 0) -> Batch:
        """So many documents at random, or all, ordered by id; see `VectorIndex.draw`."""
        drawn = "(SELECT id FROM {vectors} ORDER BY hashint8extended(id, %s) LIMIT %s)"
        return self.now()._batch(f"WHERE v.id IN {drawn} ORDER BY v.id", (seed, count))

    def scan(self, batch_size: int = 10_000) -> Iterator[Batch]:
        """All documents in batches, ordered by id; each batch is a separate snapshot."""
        now, last = self.now(), -(1 << 63)
        which = "WHERE v.id > %s ORDER BY v.id LIMIT %s"
        while len((batch := now._batch(which, (last, batch_size)))[0]):
            yield batch
            last = int(batch[0][-1])

    def count(self, filter: Filterable = None) -> int:
        """How many documents meet a filter."""
        chosen = as_filter(filter).of_types(self.types()) if filter else Filter()
        condition = f"WHERE {subject_of(chosen)} @@ %(filter)s::jsonpath" if chosen else ""
        rows = self._rows(f"SELECT count(*) FROM {{texts}} AS t {condition}", {"filter": as_jsonpath(chosen)})
        return int(rows[0][0])

    def matching(self, filter: Filterable = None) -> list[int]:
        """The ids of the documents that meet a filter, sorted."""
        chosen = as_filter(filter).of_types(self.types())
        work = lambda connection, now: connection.column(
            queries.matching(now.tables, chosen), {"filter": as_jsonpath(chosen)}
        )
        return sorted(self.read(work))

    def values(self, column: str, most: int = 20) -> list[object]:
        """At most so many of the different values of a column; see `VectorIndex.values`."""
        statement = (
            "SELECT DISTINCT value FROM {texts}, unnest(%s::text[]) AS path, jsonb_path_query(metadata, path::jsonpath)"
            " AS value WHERE jsonb_typeof(value) NOT IN ('null', 'array', 'object') LIMIT %s"
        )
        parameters = ([f"{path}[*]" for path in paths_of(column)], most)
        return [value for (value,) in self._rows(statement, parameters)]

    def columns(self) -> list[str]:
        """The names of the metadata of all documents, sorted."""
        rows = self._rows("SELECT DISTINCT jsonb_object_keys(metadata) FROM {texts} ORDER BY 1", ())
        return [name for (name,) in rows if name not in (OWN_ID, GIVEN)]

    def has_column(self, column: str) -> bool:
        """Whether a document has a column, if only with null; see `VectorIndex.has_column`."""
        statement = (
            "SELECT EXISTS (SELECT FROM {texts}, unnest(%s::text[]) AS path"
            " WHERE jsonb_path_exists(metadata, path::jsonpath))"
        )
        return bool(self._rows(statement, (paths_of(column),))[0][0])

    def types(self) -> dict[str, str]:
        """The types of the columns, as they were recorded with the documents."""
        return self.now().held_types

    # ------------------------------------------------------------------ inside

    def _rows(self, statement: LiteralString, parameters: Parameters) -> list[Any]:
        """The rows of a statement (`Tables.statement`)."""
        asked = lambda connection, now: connection.execute(now.tables.statement(statement), parameters).fetchall()
        return self.read(asked)

    def _batch(self, which: LiteralString, parameters: Parameters) -> Batch:
        """Documents with their vectors."""
        statement = self.tables.statement(_DOCUMENTS + which, send=sql.SQL(f"{self.storage}_send"))
        rows = self.database.rows(statement, parameters)
        ids, texts, metadata, vectors = zip(*rows, strict=True) if rows else ((), (), (), ())
        plain = [given_and_own(item)[0] for item in metadata]
        return np.array(ids, dtype=np.int64), list(texts), plain, vectors_of(vectors, self.storage)

    def _plan(self, connection: StoreConnection, filter: Filter, exact: bool | None, ef: int) -> tuple[str, int]:
        """The index to search (`none` for an exact search), and the number of candidates that it keeps."""
        index = "none" if exact else self.index
        if index == "none":
            return "none", 0
        ef = min(ef, _MOST_EF)
        if not filter or exact is False:
            return index, ef
        estimate = sql.SQL("EXPLAIN (FORMAT JSON) ") + queries.matching(self.tables, filter)
        expected = float(connection.value(estimate, {"filter": as_jsonpath(filter)})[0]["Plan"]["Plan Rows"])
        if expected <= EXACT_ROWS:
            return "none", 0
        size = "SELECT greatest(reltuples, 1) FROM pg_class WHERE oid = %s::regclass"
        total = connection.value(size, (self.tables.texts.as_string(connection),))
        return index, int(min(max(ef, 2 * ef * total / expected), _MOST_EF))

    def _hybrid(self, connection: StoreConnection, asked: Asked, text: str, graph: str, ef: int) -> list[Hit]:
        query, filter, many = asked.queries[0], asked.filter, asked.candidates
        ef = max(ef, many)
        self._use_graph(connection, many, filter, graph, ef)
        # In a pipeline, `execute` does not wait: the server searches by vectors while this process ranks by words.
        with connection.pipeline():
            view = self.words.view(connection, self.tables)
            nearest = self._nearest(connection, query, many, filter, graph, ef, texts=False)
            numbers, view, postings = self._by_words(connection, text, many, filter, graph == "none", view)
            near = nearest.fetchall()
        if len(near) < many and graph != "none":  # the index has stopped its scan early
            near = self._nearest(connection, query, many, filter, "none", ef, texts=False).fetchall()
        cosines: dict[int, float] = dict(near)
        if others := [id for id in view.ids[numbers].tolist() if id not in cosines]:
            parameters = {"q": self._parameter(query), "ids": others}
            cosines |= connection.execute(self.tables.statement(_COSINES), parameters, binary=True).fetchall()
        ids, values = np.array(list(cosines), np.int64), np.array(list(cosines.values()))
        ids, values = ids[~np.isnan(values)], values[~np.isnan(values)]
        scores, (places, alive) = np.zeros(len(ids)), view.places(ids)
        scores[alive] = shares(postings, view.norms, view.total, places)
        halves = [id for id, _ in near], view.ids[numbers]
        order = ids[fuse(ids, values, scores, view.length, halves)[: asked.k]].tolist()
        statement = self.tables.statement("SELECT id, text, metadata FROM {texts} WHERE id = ANY(%s)")
        texts = {id: rest for id, *rest in connection.execute(statement, (order,))}
        return [Hit.of(id, float(cosines[id]), *texts[id]) for id in order if id in texts]

    def _near_rows(
        self, connection: StoreConnection, query: Vectors, k: int, filter: Filter, graph: str, ef: int
    ) -> list[Any]:
        """Ids, cosines, texts and metadata of the nearest."""
        self._use_graph(connection, k, filter, graph, ef)
        rows = self._nearest(connection, query, k, filter, graph, ef, texts=True).fetchall()
        # the index has stopped its scan early; comparing few documents is fast
        if len(rows) < k and graph != "none":
            return self._near_rows(connection, query, k, filter, "none", ef)
        # a vector of zeros, of a text of which the model knows no token, has no cosine
        return [row for row in rows if not math.isnan(row[1])]

    def _use_graph(self, connection: StoreConnection, k: int, filter: Filter, graph: str, ef: int) -> None:
        if graph != "none":
            scan = "relaxed_order" if filter else "off"
            connection.use({"hnsw.ef_search": max(ef, min(k, _MOST_EF)), "hnsw.iterative_scan": scan})

    def _nearest(
        self, connection: StoreConnection, query: Vectors, k: int, filter: Filter, graph: str, ef: int, texts: bool
    ) -> Cursor[Any]:
        """Send the statement of the k nearest; in a pipeline, its rows are waited for when they are fetched."""
        parameters: dict[str, object] = {"q": self._parameter(query), "k": k, "many": max(ef, k)}
        if filter:
            parameters["filter"] = as_jsonpath(filter)
        if graph == "binary":
            digits = (signs_of(query[None])[0] + np.uint8(ord("0"))).tobytes()
            parameters["code"] = Bit(digits.decode())  # text, because pgvector 0.4.0 takes no array with numpy 1
        statement = queries.nearest(self.tables, graph, filter, texts)
        return connection.execute(statement, parameters, binary=True)

    def _parameter(self, query: Vectors) -> HalfVector | Vector:
        return HalfVector(query) if self.storage == "halfvec" else Vector(query)

    def _by_words(
        self, connection: StoreConnection, text: str, k: int, filter: Filter, few: bool, view: View | None = None
    ) -> tuple[Ids, View, list[Postings]]:
        """The k documents with the highest BM25 that meet the filter; with `few`, it is asked for all documents.

        Returns:
            Their numbers in the view of all documents, that view or a later one, and the postings of the words.
        """
        keys = query_keys(storable(text), self.language or UNKNOWN_LANGUAGE)
        view = view or self.words.view(connection, self.tables)
        while (postings := self.words.postings(connection, self.tables, view, keys)) is None:
            view = self.words.view(connection, self.tables)

        def ranked(most: int, chosen: NDArray[np.bool_] | None = None) -> Ids:
            return best(postings, view.norms, view.total, most, chosen)[0]

        if not filter:
            return ranked(k), view, postings
        parameters: dict[str, object] = {"filter": as_jsonpath(filter)}
        if few:
            ids = connection.column(queries.matching(self.tables, filter), parameters)
            chosen = np.zeros(len(view.ids), np.bool_)
            chosen[view.places(np.array(ids, np.int64))[0]] = True
            return ranked(k, chosen), view, postings
        most, statement = 4 * k, queries.matching(self.tables, filter, some=True)
        while True:
            numbers = ranked(most)
            meets = connection.column(statement, {**parameters, "ids": view.ids[numbers].tolist()})
            if len(meets) >= k or len(numbers) < most:
                return numbers[np.isin(view.ids[numbers], meets)][:k], view, postings
            most *= 8
