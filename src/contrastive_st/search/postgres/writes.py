"""Writes to a collection: upserts, deletions, indices."""

from __future__ import annotations

import logging
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import LiteralString, cast

import numpy as np
import psycopg
from numpy.typing import ArrayLike
from psycopg import sql
from psycopg.types.json import Jsonb

from contrastive_st.device import peak_resident
from contrastive_st.errors import InputError, choice
from contrastive_st.search import values
from contrastive_st.search.column_types import LIST, MIXED, OBJECT, joined_types, types_of
from contrastive_st.search.filters import Filterable, as_filter
from contrastive_st.search.index import Batch, Hit, Id, Ids, Metadata, VectorIndex, all_known, as_queries, check_filter
from contrastive_st.search.lexemes import LANGUAGES, UNKNOWN_LANGUAGE, language_of
from contrastive_st.search.postgres.copying import Put, code_rows, copy_rows, merge_rows, text_rows, vectors_of
from contrastive_st.search.postgres.database import StoreConnection, translated
from contrastive_st.search.postgres.names import BINARY_LIMIT, FLOAT_BYTES, INDEXES, SIGNS, STORAGES
from contrastive_st.search.postgres.naming import forget_alias
from contrastive_st.search.postgres.postings import add_words, fill_words, join_words, remove_words
from contrastive_st.search.postgres.predicates import as_jsonpath, subject_of
from contrastive_st.search.postgres.schema import create_partitioned, follow
from contrastive_st.search.postgres.spaces import StoreSpaces
from contrastive_st.search.shards import FIRST
from contrastive_st.search.values import MOMENT, OF_DOCUMENT, OWN, PART, Row, as_id, as_ids
from contrastive_st.vectors import float_array

logger = logging.getLogger(__name__)


_LEAST_BUILD_MEMORY = 1 << 20  # kB: the least for building a graph, and the amount on a server of another
_LEAP = "..(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00"  # years with a 29th of February
_NO_DAY = f".{{5}}(00|1[3-9]|[2-9]|02-3|(0[469]|11)-31)|.{{8}}(00|3[2-9]|[4-9])|(?!{_LEAP}).{{5}}02-29"
_IS_DATE = f"^(?!0000|{_NO_DAY})({MOMENT.pattern})$"  # as `moment`
_BLOCK = 16_384  # vectors that are made codes at a time


class StoreWrites(StoreSpaces):
    """The writing half of `VectorStore`.

    A writer first locks the texts of its documents, in the order of their ids, and then writes the rest of them. So two
    writers never deadlock.
    """

    def upsert(
        self, ids: Sequence[Id], texts: Sequence[str], vectors: ArrayLike, metadata: Metadata | None = None
    ) -> Counter[str]:
        """Insert documents, or replace those with the same ids, in one transaction.

        Unchanged vectors are not written again, so that new metadata costs no work on the index.

        Args:
            ids: integers or texts (`as_id`), distinct. A text is kept as the own id of the document, which stays if
                a later one gives the number.
            texts: the texts.
            vectors: `[n, d]`.
            metadata: a mapping for each document, converted by `plain` of `search/values.py`.

        Returns:
            How many documents are `new`, have another text or other metadata (`changed`), or neither (`unchanged`).

        Raises:
            InputError: the numbers differ, an id is given twice, or a vector is zero, NaN or infinite.
        """
        rows = float_array(vectors)
        raw = ids if isinstance(ids, np.ndarray) else values.as_list("ids", ids)
        unit = as_queries(rows, self.dimension, raw) if len(rows) else np.empty((0, self.dimension), dtype=np.float32)
        numbers, kept, items = values.as_documents(raw, texts, metadata, len(unit))

        def work(connection: StoreConnection) -> Counter[str]:
            now = self.at(connection, lock=True)
            statement = now.tables.statement("SELECT id, metadata FROM {texts} WHERE id = ANY(%s)")
            there: dict[int, Row] = dict(connection.execute(statement, (numbers.tolist(),)).fetchall())
            now.add_types(connection, items, {})
            named = [
                item if isinstance(id, str) or number not in there else _with_own_id_of(there[number], number, item)
                for id, number, item in zip(raw, numbers.tolist(), items, strict=True)
            ]
            written = now.write(connection, (numbers, kept, named, unit), merge_rows)
            now.revive(connection, numbers)
            new, unchanged = len(numbers) - len(there), len(numbers) - written
            return Counter({"new": new, "changed": written - new, "unchanged": unchanged})

        self.decide_language(kept)
        counts = self.database.transact(work)
        self.join_words()
        return counts

    def add_types(self, connection: StoreConnection, metadata: Metadata, decided: Mapping[str, str]) -> None:
        """Join the types of the columns with those of metadata that are written, and of columns that were decided.

        In the open transaction, before its other locks.
        """
        types = types_of(metadata, decided)
        if joined_types(self.held_types, types) == self.held_types:
            return
        held = "SELECT types FROM collections WHERE tables = %s FOR NO KEY UPDATE"
        there = connection.value(held, (self.tables.prefix,))
        self._record_types(connection, joined_types(there, types))

    def decide_types(self, connection: StoreConnection, decided: Mapping[str, str]) -> None:
        """Record the types of the values that there are, and of columns that were decided, in the open transaction.

        Nothing is read if that can change nothing.
        """
        there = self.held_types
        if not any(MIXED in kind for kind in there.values()) and all(
            there.get(name) == decided[name] for name in decided
        ):
            return
        connection.lift_limits()
        connection.execute("SELECT FROM collections WHERE tables = %s FOR NO KEY UPDATE", (self.tables.prefix,))
        connection.execute(self.tables.statement("LOCK TABLE {texts} IN SHARE MODE"))
        statement = self.tables.statement(
            "SELECT DISTINCT e.key, jsonb_typeof(e.value) = 'array', jsonb_typeof(x), x #>> '{{}}' ~ %s"
            " FROM {texts} AS t, jsonb_each(t.metadata) AS e, jsonb_path_query(e.value, 'lax $[*]') AS x"
            """ WHERE jsonb_typeof(x) <> 'null' AND x <> '""'"""
        )
        types: dict[str, str] = {}
        for key, in_list, kind, date in connection.execute(statement, (_IS_DATE,)).fetchall():
            text = "date" if date and decided.get(key) != "text" else "text"
            one = {"string": text, "number": "number", "boolean": "boolean"}.get(kind, OBJECT)
            types = joined_types(types, {key: LIST * in_list + one} if key not in OWN else {})
        self._record_types(connection, joined_types(types, decided))

    def _record_types(self, connection: StoreConnection, types: Mapping[str, str]) -> None:
        self.held_types = dict(types)
        connection.execute("UPDATE collections SET types = %s WHERE tables = %s", (Jsonb(types), self.tables.prefix))

    def tombstones(self, connection: StoreConnection, ids: Ids) -> Ids:
        """Those of the ids whose documents were deleted, in the open transaction."""
        statement = "SELECT id FROM _deleted WHERE collection = %s AND id = ANY(%s)"
        return np.array(connection.column(statement, (self.tables.prefix, ids.tolist())), dtype=np.int64)

    def deleted(self) -> list[int]:
        """The ids of the documents that were deleted, and that `index` leaves out; the first deleted first."""
        statement = "SELECT id FROM _deleted WHERE collection = %s ORDER BY deleted, id"
        return [id for (id,) in self.database.rows(statement, (self.now().tables.prefix,))]

    def revive(self, connection: StoreConnection, ids: Ids) -> None:
        """Forget that documents were deleted, in the open transaction."""
        statement = "DELETE FROM _deleted WHERE collection = %s AND id = ANY(%s)"
        connection.execute(statement, (self.tables.prefix, ids.tolist()))

    def write(self, connection: StoreConnection, batch: Batch, put: Put) -> int:
        """Write documents in the open transaction; `put` is `copy_rows` if all are new, or else `merge_rows`.

        Returns:
            How many texts or metadata were written, because they differ.
        """
        ids, texts, metadata, vectors = batch
        others = [one for one in self._spaces(connection) if one.number != self.tables.space]
        changed = self.changed(connection, ids, texts) if others else []
        written = put(connection, self.tables.texts, ("text", "metadata"), text_rows(ids, texts, metadata))
        moved = self.write_vectors(connection, ids, vectors, put)
        self.write_elsewhere(connection, others, ids, vectors, changed)
        if written is None or moved is None:  # all are new
            add_words(connection, self.tables, ids, texts)
            return len(ids)
        # also those of a vector alone, which `state` tells by words
        places = np.flatnonzero(np.isin(ids, [*written, *moved]))
        add_words(connection, self.tables, ids[places], [texts[index] for index in places.tolist()])
        return len(written)

    def set_metadata(self, id: Id, metadata: Mapping[str, object]) -> None:
        """Replace a document's metadata; its vector, its entry in the index and its own id do not change.

        Args:
            id: of the document.
            metadata: by column.
        """
        tables, number = self.now().tables, as_id(id)
        (item,) = values.as_metadata([metadata], 1)

        def work(connection: StoreConnection) -> int:
            self.at(connection, lock=True).add_types(connection, [item], {})
            statement = tables.statement("SELECT metadata FROM {texts} WHERE id = %s FOR UPDATE")
            row = connection.execute(statement, (number,)).fetchone()
            if row is None:
                return 0
            kept = {name: row[0][name] for name in (OF_DOCUMENT, PART) if name in row[0]}
            named = _with_own_id_of(row[0], number, item | kept)
            statement = tables.statement("UPDATE {texts} SET metadata = %s WHERE id = %s")
            return connection.execute(statement, (Jsonb(named), number)).rowcount

        changed = self.database.transact(work)
        all_known([id], as_ids([id] * changed))

    def delete(self, ids: Sequence[Id]) -> int:
        """Delete documents; return how many existed. `index` leaves them out from now on, unless it restores them."""
        return self._delete("t.id = ANY(%(which)s)", as_ids(ids).tolist())

    def delete_matching(self, filter: Filterable) -> int:
        """Delete the documents that meet a filter (see `VectorIndex`), as `delete` does; return how many there were.

        Raises:
            InputError: the filter is empty or at fault, or has a column that no document has.
        """
        chosen = as_filter(filter)
        if not chosen:
            raise InputError("an empty filter matches every document; delete the collection instead")
        chosen = chosen.of_types(self.now().held_types)
        deleted = self._delete(f"{subject_of(chosen)} @@ %(which)s::jsonpath", as_jsonpath(chosen))
        if not deleted:
            check_filter(cast("VectorIndex", self), chosen, matched=False)
        return deleted

    def _delete(self, condition: LiteralString, which: list[int] | str) -> int:
        def work(connection: StoreConnection) -> int:
            # It waits for shards that are being written, and later ones see what was deleted.
            now = self.at(connection, lock=True)
            key = (now.tables.prefix,)
            connection.execute("SELECT 1 FROM sources WHERE collection = %s ORDER BY number FOR UPDATE", key)
            gone = now._take(connection, condition, {"which": which})
            connection.execute(
                "INSERT INTO _deleted (collection, id) SELECT %s, unnest(%s::bigint[])"
                " ON CONFLICT (collection, id) DO UPDATE SET deleted = now()",
                (*key, gone),
            )
            return len(gone)

        count = self.database.transact(work)
        self.join_words()
        return count

    def _take(
        self, connection: StoreConnection, condition: LiteralString, parameters: Mapping[str, object]
    ) -> list[int]:
        """Delete the documents `t` that meet a condition, in the open transaction; return their ids."""
        statement = self.tables.statement(
            "WITH gone AS (SELECT t.id FROM {texts} AS t WHERE {condition} ORDER BY t.id FOR UPDATE OF t),"
            " vectors AS (DELETE FROM {vectors} AS v USING gone WHERE v.id = gone.id)"
            " DELETE FROM {texts} AS t USING gone WHERE t.id = gone.id RETURNING t.id",
            condition=sql.SQL(condition),
        )
        gone = connection.column(statement, parameters)
        remove_words(connection, self.tables, gone)
        return gone

    def decide_language(self, texts: Sequence[str], language: str | None = None) -> None:
        """Record the language of the words of an empty collection, before texts are written.

        Args:
            texts: the first texts.
            language: by default that of the texts, if it is clear.
        """

        def work(connection: StoreConnection) -> str | None:
            now = self.at(connection)
            empty = now.tables.statement("SELECT NOT EXISTS (SELECT FROM {words})")
            if now.language is not None or not connection.value(empty):
                return str(now.language) if now.language else None
            if (decided := language or language_of(texts)) == UNKNOWN_LANGUAGE:
                return None
            key = (now.tables.prefix,)
            connection.execute("SELECT FROM collections WHERE tables = %s FOR NO KEY UPDATE", key)
            # waits for others that write first texts; they have then made words without a language
            connection.execute(now.tables.statement("LOCK TABLE {words} IN SHARE ROW EXCLUSIVE MODE"))
            if connection.value(empty):
                statement = "UPDATE collections SET language = coalesce(language, %s) WHERE tables = %s"
                connection.execute(statement, (decided, *key))
            return decided

        if self.language is None:
            self.language = self.database.transact(work)

    def join_words(self) -> None:
        """Join segments of the words, if there are many."""

        def work(connection: StoreConnection) -> None:
            join_words(connection, self.at(connection, lock=True).tables)

        self.database.transact(work)

    def uses_numbers(self, connection: StoreConnection, number: int) -> bool:
        """Whether a document has, or had, an id that a source of this number would give to one of its rows."""
        statement = self.tables.statement(
            "SELECT EXISTS (SELECT FROM {texts} WHERE id >= %(first)s AND id < %(end)s) OR EXISTS (SELECT FROM _deleted"
            " WHERE collection = %(collection)s AND id >= %(first)s AND id < %(end)s)"
        )
        ids = {"first": number * FIRST, "end": (number + 1) * FIRST}
        return bool(connection.value(statement, {**ids, "collection": self.tables.prefix}))

    def delete_source(self, connection: StoreConnection, number: int, numbered: bool) -> None:
        """Delete all documents of a source, in the open transaction; `numbered`: their ids are the numbers of rows."""
        source = (self.tables.prefix, number)
        # First: it waits for the processes that are writing shards of it
        connection.execute("SELECT FROM sources WHERE collection = %s AND number = %s FOR UPDATE", source)
        named = connection.column("SELECT unnest(ids) FROM _files WHERE collection = %s AND source = %s", source)
        connection.execute("DELETE FROM sources WHERE collection = %s AND number = %s", source)
        self.remove(connection, named)
        if not numbered:
            return
        ids = {"first": number * FIRST, "end": (number + 1) * FIRST, "collection": self.tables.prefix}
        self._take(connection, "t.id >= %(first)s AND t.id < %(end)s", ids)
        forget = "DELETE FROM _deleted WHERE collection = %(collection)s AND id >= %(first)s AND id < %(end)s"
        if forgotten := connection.execute(forget, ids).rowcount:
            logger.warning(f"the corpus is indexed again, with {forgotten:,} documents that had been deleted from it")

    def remove(self, connection: StoreConnection, ids: Sequence[int], source: int | None = None) -> int:
        """Delete documents that no file of a source, other than this one, has, in the open transaction.

        They are not remembered as deleted.

        Args:
            connection: with the open transaction.
            ids: of the documents.
            source: the number of a source that does not count.

        Returns:
            How many there were.
        """
        if not ids:
            return 0
        condition = (
            "t.id IN (SELECT unnest(%(ids)s::bigint[]) EXCEPT SELECT unnest(ids) FROM _files"
            " WHERE collection = %(collection)s AND source IS DISTINCT FROM %(source)s)"
        )
        parameters = {"ids": list(ids), "collection": self.tables.prefix, "source": source}
        return len(self._take(connection, condition, parameters))

    def drop(self, *, only_unused: bool = False) -> None:
        """Delete the whole collection; with `only_unused`, only if it is empty and no process is filling it."""
        used = (
            "SELECT EXISTS (SELECT 1 FROM {texts}) OR EXISTS (SELECT 1 FROM sources AS s JOIN pg_locks AS l"
            " ON l.locktype = 'advisory' AND l.classid = hashtext(%s || s.number)::oid"
            " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            " WHERE s.collection = %s)"
        )

        def work(connection: StoreConnection) -> None:
            now = self.at(connection, lock=True)
            tables, key = now.tables, (now.tables.prefix,)
            name = connection.value("SELECT name FROM collections WHERE tables = %s FOR UPDATE", key)
            if only_unused and connection.value(tables.statement(used), (tables.lock(""), *key)):
                return
            for alias in connection.column("SELECT name FROM _aliases WHERE collection = %s", key):
                forget_alias(connection, tables.schema, alias)
            connection.execute(sql.SQL("DROP VIEW IF EXISTS {}").format(sql.Identifier(tables.schema, name)))
            every = sql.SQL(", ").join(now.all_tables(connection))
            connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(every))
            connection.execute("DELETE FROM collections WHERE tables = %s", key)

        self.database.transact(work)

    def record_location(self, model: str) -> None:
        """Record where the model of the collection is now, which its fingerprint tells from others."""
        parameters = (values.storable(model), self.tables.prefix, self.fingerprint)

        def work(connection: StoreConnection) -> None:
            connection.execute("UPDATE collections SET model = %s WHERE tables = %s AND fingerprint = %s", parameters)
            connection.execute("UPDATE _spaces SET model = %s WHERE collection = %s AND fingerprint = %s", parameters)

        self.database.transact(work)
        self.model = model

    def build_index(
        self,
        kind: str = "hnsw",
        *,
        m: int = 16,
        ef_construction: int = 64,
        memory: str | None = None,
        workers: int = 1,
        language: str | None = None,
    ) -> int:
        """Build the index of the vectors, which replaces one of another kind, and those of full text and metadata.

        Load all rows first, because adding a row to an HNSW index takes milliseconds.

        Args:
            kind: `hnsw`; `binary`, an HNSW index over four bits per dimension whose hits are compared again by the full
                vectors; or `none`, so that every search is exact.
            m: links per node of the graph.
            ef_construction: candidates kept during the build.
            memory: PostgreSQL's `maintenance_work_mem`, such as `4GB`; a graph that does not fit is built many times
                slower, with a warning. By default 1 GB, or on the embedded server as much as the graph needs, up to
                half of the machine's memory.
            workers: parallel workers in addition to the main process.
            language: of full text, a text search configuration of PostgreSQL; by default the recorded one, else the one
                whose stop words the texts have, or `simple` if there is none.

        Returns:
            Peak memory of the embedded database's process in bytes; 0 for another database.

        Raises:
            InputError: the kind is unknown or supports fewer dimensions.
            psycopg.Error: the connection breaks.
        """
        self.check_build(kind, language, memory)
        now = self.now()
        if memory is None:
            # for each row the vector, 2m links of 16 bytes, and its levels; the hash fills no partition equally
            kilobytes = _LEAST_BUILD_MEMORY
            if self.database.server is not None:
                ((count,),) = self.database.rows(now.tables.statement("SELECT count(*) FROM {vectors}"))
                size = SIGNS * self.dimension // 8 if kind == "binary" else self.dimension * FLOAT_BYTES[self.storage]
                machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024
                needed = int(1.1 * count / self.partitions * (200 + 36 * m + size)) // 1024
                kilobytes = max(_LEAST_BUILD_MEMORY, min(needed, machine // 2))
            memory = f"{kilobytes}kB"

        def warn(notice: psycopg.errors.Diagnostic) -> None:
            if "no longer fits" in (notice.message_primary or ""):  # the wording of pgvector's notice
                logger.warning(
                    f"{notice.message_primary} ({memory}): the rest of the build takes many times as long; "
                    "give more (--build_memory), or index again with more --partitions"
                )

        with (
            translated(f"{self.database.shown}, the index (no document is lost: run the same command again)"),
            closing(
                self.database.connect(maintenance_work_mem=memory, max_parallel_maintenance_workers=str(workers))
            ) as connection,
        ):
            connection.add_notice_handler(warn)
            connection.execute("SELECT pg_advisory_lock(hashtext(%s))", (now.tables.lock("index"),))
            try:
                now._build(connection, kind, m, ef_construction, language)
            except psycopg.errors.DiskFull:  # parallel workers share memory in /dev/shm, which is small in containers
                connection.use({"max_parallel_maintenance_workers": 0})
                now._build(connection, kind, m, ef_construction, language)
            connection.execute(now.tables.statement("ANALYZE {texts}, {vectors}"))
            peak = peak_resident(connection.info.backend_pid) if self.database.server else 0
        self.index = kind
        return peak

    def check_build(self, kind: str, language: str | None = None, memory: str | None = None) -> None:
        """Check the arguments of `build_index`, before anything is encoded.

        Args:
            kind: the kind of index.
            language: of full text.
            memory: PostgreSQL's `maintenance_work_mem`.

        Raises:
            InputError: the kind or language is unknown, or the kind supports fewer dimensions.
            psycopg.Error: PostgreSQL does not take this amount of memory.
        """
        choice("index", kind, INDEXES)
        if memory is not None:
            self.database.rows("SELECT set_config('maintenance_work_mem', %s, true)", (memory,))
        if language is not None:
            choice("language of full text", language, LANGUAGES)
        most = STORAGES[self.storage] if kind == "hnsw" else BINARY_LIMIT
        if kind != "none" and self.dimension > most:
            what = f"pgvector indexes {self.storage} up to {most} dimensions, not {self.dimension}"
            raise InputError(f"{what}; choose another --index, or none")

    def _build(
        self, connection: StoreConnection, kind: str, m: int, ef_construction: int, language: str | None
    ) -> None:
        tables = self.tables
        with connection.transaction():
            # From here on writers and `drop` wait. All lock in this order, or two processes could wait for each other.
            mine = "SELECT 1 FROM collections WHERE tables = %s FOR NO KEY UPDATE"
            connection.execute(mine, (tables.prefix,))
            held = "{vectors}" if self._within is not None else "{texts}, {vectors}"
            connection.execute(tables.statement(f"LOCK TABLE {held} IN SHARE MODE"))
            if kind != "hnsw":
                connection.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(tables.in_space("hnsw")))
            if kind != "binary":
                connection.execute(tables.statement("DROP TABLE IF EXISTS {codes}"))
            if kind == "binary":
                self._make_codes(connection)
            if kind != "none":
                near = f"{{vectors}} USING hnsw (embedding {self.storage}_cosine_ops)"
                graph = near if kind == "hnsw" else "{codes} USING hnsw (code bit_hamming_ops)"
                create = f"CREATE INDEX IF NOT EXISTS {{index}} ON {graph} WITH (m = {{m}}, ef_construction = {{ef}})"
                index = tables.index(kind + tables.mark)
                connection.execute(tables.statement(create, index=index, m=int(m), ef=int(ef_construction)))
            recorded = kind, tables.prefix, tables.space
            connection.execute("UPDATE collections SET index = %s WHERE tables = %s AND space = %s", recorded)
            connection.execute("UPDATE _spaces SET index = %s WHERE collection = %s AND space = %s", recorded)
            if self._within is not None:
                return
            gin = "CREATE INDEX IF NOT EXISTS {index} ON {texts} USING gin (metadata jsonb_path_ops)"
            connection.execute(tables.statement(gin, index=tables.index("metadata")))
            held_language = self.at(connection).language
            language = language or held_language
            if language is None:
                first = tables.statement("SELECT text FROM {texts} ORDER BY id LIMIT 1000")
                language = language_of(connection.column(first))
            if language == (held_language or UNKNOWN_LANGUAGE):
                join_words(connection, tables, all_of_them=True)
            else:  # the words of all documents are made again
                fill_words(connection, tables, language)
            statement = "UPDATE collections SET language = %s WHERE tables = %s"
            connection.execute(statement, (language, tables.prefix))

    def _make_codes(self, connection: StoreConnection) -> None:
        """The codes of all vectors, in the open transaction, unless they exist."""
        name = self.tables.codes.as_string(connection)
        if connection.value("SELECT to_regclass(%s)", (name,)) is not None:
            return
        column = sql.SQL("code bit({})").format(SIGNS * self.dimension)
        create_partitioned(connection, self.tables, "codes", column, self.partitions)
        statement = self.tables.statement(f"SELECT id, {self.storage}_send(embedding) FROM {{vectors}}")
        with connection.cursor("all_vectors", binary=True) as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(_BLOCK):
                ids, vectors = zip(*rows, strict=True)
                codes = code_rows(np.array(ids, dtype=np.int64), vectors_of(vectors, self.storage))
                copy_rows(connection, self.tables.codes, ("code",), codes)
        follow(connection, self.tables.codes, self.tables.vectors)


def _with_own_id_of(former: Row, number: int, item: Row) -> Row:
    """Metadata with the own id of the document that they replace, which may be a value of its former metadata."""
    return values.with_own_id(item, number, Hit.of(number, math.nan, "", former).own_id)
