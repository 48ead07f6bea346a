"""The spaces of a collection: vectors of several models for the same documents, one of which answers.

A vector in any space is that of the text that its document has now. Whoever writes a document also writes its vector in
each space of the same model; from the others the vector of a text that has changed is removed, and is missing there
until it is encoded. A document that is deleted takes its vectors along, by foreign keys. A space answers only if none
is missing.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING

import numpy as np
from psycopg import sql

from contrastive_st.errors import InputError
from contrastive_st.search.index import Ids, Space, Vectors
from contrastive_st.search.postgres.copying import Put, code_rows, merge_rows, vector_rows
from contrastive_st.search.postgres.database import StoreConnection
from contrastive_st.search.postgres.names import FLOAT_BYTES, SIGNS
from contrastive_st.search.postgres.naming import Named, moved
from contrastive_st.search.postgres.schema import Tables, create_vectors, create_view, follow
from contrastive_st.search.values import storable

if TYPE_CHECKING:
    from typing import Self

_FIRST = -(1 << 63)
_LINKS = 340  # bytes of a row in the graph besides its vector
_ALL = """SELECT s.space, s.model, s.fingerprint, s.dimension FROM _spaces AS s
    JOIN collections AS c ON c.tables = s.collection WHERE s.collection = %s ORDER BY s.space <> c.space, s.space"""
_KEEP = """UPDATE _spaces AS s SET index = c.index FROM collections AS c
    WHERE c.tables = s.collection AND s.space = c.space AND s.collection = %s"""
_ANSWER = """UPDATE collections AS c SET (model, fingerprint, dimension, index, space) =
    (SELECT model, fingerprint, dimension, index, space FROM _spaces AS s
    WHERE s.collection = c.tables AND s.space = %s) WHERE tables = %s"""
_FIRST_SPACE = """INSERT INTO _spaces (collection, space, model, fingerprint, dimension, index)
    SELECT tables, space, model, fingerprint, dimension, index FROM collections WHERE tables = %s
    ON CONFLICT DO NOTHING"""
_LIVE = "SELECT space FROM collections WHERE tables = %s"
_NAMES = "SELECT name FROM collections WHERE tables = %s UNION SELECT name FROM _aliases WHERE collection = %s"


class StoreSpaces(Named):
    """What a move to another model asks of a collection."""

    def spaces(self) -> list[Space]:
        """All spaces, the live one first."""
        return self.database.run(lambda connection: self.at(connection)._spaces(connection))

    def live(self) -> Self:
        """The collection with the vectors that answer now."""
        result = copy(self)
        result.moved = False
        self.database.run(result.load)
        return result

    def within(self, space: Space) -> Self:
        """The same documents with the vectors of another space."""
        return self.database.run(lambda connection: self._inside(connection, space))

    def add_space(self, space: Space) -> Space:
        """Add a space without vectors, or return the one with this model."""

        def work(connection: StoreConnection) -> Space:
            now = self._alone(connection)
            spaces: list[Space] = now._spaces(connection)
            for one in spaces:
                if one.fingerprint == space.fingerprint:
                    return one
            if connection.execute(_FIRST_SPACE, (now.tables.prefix,)).rowcount:
                follow(connection, now.tables.vectors, now.tables.texts)
            number = max(one.number for one in spaces) + 1
            connection.execute(
                "INSERT INTO _spaces (collection, space, model, fingerprint, dimension) VALUES (%s, %s, %s, %s, %s)",
                (now.tables.prefix, number, storable(space.model), space.fingerprint, space.dimension),
            )
            now.tables = Tables(now.tables.prefix, now.tables.schema, number)
            create_vectors(connection, now.tables, space.dimension, now.storage, now.partitions)
            follow(connection, now.tables.vectors, now.tables.texts)
            return Space(number, space.model, space.fingerprint, space.dimension)

        return self.database.transact(work)

    def missing(self, space: Space, after: int | None, limit: int) -> tuple[Ids, list[str]]:
        """Documents without a vector in a space, ordered by id."""
        statement = self.within(space).tables.statement(
            # OFFSET 0: a look for each document, however few rows the planner expects
            "SELECT t.id, t.text FROM {texts} AS t LEFT JOIN LATERAL (SELECT true AS there FROM {vectors} AS v"
            " WHERE v.id = t.id OFFSET 0) AS v ON true WHERE t.id > %s AND v.there IS NULL ORDER BY t.id LIMIT %s"
        )
        rows = self.database.rows(statement, (_FIRST if after is None else after, limit))
        return np.array([id for id, _ in rows], np.int64), [text for _, text in rows]

    def count_missing(self, space: Space) -> int:
        """How many documents have no vector in a space."""
        return int(self.database.run(self.within(space)._count_missing))

    def put(self, space: Space, ids: Ids, texts: Sequence[str], vectors: Vectors) -> None:
        """Write vectors of those of the documents that still have these texts."""
        statement = (
            "SELECT t.id FROM unnest(%s::bigint[], %s::text[]) AS n (id, text) JOIN {texts} AS t"
            " ON t.id = n.id AND t.text = n.text ORDER BY t.id FOR SHARE OF t"
        )
        within = self.within(space)

        def work(connection: StoreConnection) -> None:
            now = within.at(connection, lock=True)
            same = np.isin(ids, connection.column(now.tables.statement(statement), (ids.tolist(), list(texts))))
            now.write_vectors(connection, ids[same], vectors[same], merge_rows)

        self.database.transact(work)

    def activate(self, space: Space) -> int:
        """Let searches go to a space if no document lacks a vector there; return how many do."""

        def work(connection: StoreConnection) -> int:
            self._alone(connection)
            now = self._inside(connection, space)
            if missing := now._count_missing(connection):
                return int(missing)
            prefix = (now.tables.prefix,)
            connection.execute(_KEEP, prefix)
            connection.execute(_ANSWER, (space.number, *prefix))
            for name in connection.column(_NAMES, prefix * 2):
                connection.execute(sql.SQL("DROP VIEW {}").format(sql.Identifier(now.tables.schema, name)))
                create_view(connection, name, now.tables)
            return 0

        return self.database.transact(work)

    def drop_space(self, space: Space) -> None:
        """Remove a space that is not live."""

        def work(connection: StoreConnection) -> None:
            now = self._alone(connection)
            if now.tables.space == space.number:
                raise InputError(f"the vectors of {space.model} are in use, so they cannot be removed")
            tables = Tables(now.tables.prefix, now.tables.schema, space.number)
            of_space = "DELETE FROM _spaces WHERE collection = %s AND space = %s"
            connection.execute(of_space, (tables.prefix, space.number))
            connection.execute(tables.statement("DROP TABLE IF EXISTS {codes}, {vectors}"))

        self.database.transact(work)

    def space_bytes(self, space: Space, documents: int) -> tuple[int, int | None]:
        """About how many bytes such a space would take with its graph, and how many are free."""
        now, server = self.now(), self.database.server
        row = space.dimension * FLOAT_BYTES[now.storage]
        graph = {"none": 0, "hnsw": row + _LINKS, "binary": space.dimension * SIGNS // 4 + _LINKS}[now.index]
        free = None if server is None else shutil.disk_usage(server.folder).free
        return documents * (row * 11 // 10 + 60 + graph), free

    # ------------------------------------------------------------------ for the other writes

    def write_vectors(self, connection: StoreConnection, ids: Ids, vectors: Vectors, put: Put) -> list[int] | None:
        """Write the vectors of documents that are there, in the open transaction; return what `put` does."""
        written = put(connection, self.tables.vectors, ("embedding",), vector_rows(ids, vectors, self.storage))
        # asked after the statement above, which waits for a process that builds an index
        statement = (
            "SELECT CASE c.space WHEN %(space)s THEN c.index ELSE s.index END FROM collections AS c"
            " LEFT JOIN _spaces AS s ON s.collection = c.tables AND s.space = %(space)s WHERE c.tables = %(tables)s"
        )
        kind = connection.value(statement, {"space": self.tables.space, "tables": self.tables.prefix})
        if kind is None:
            raise InputError(f"collection {self.collection!r} has been deleted")
        if kind == "binary":
            put(connection, self.tables.codes, ("code",), code_rows(ids, vectors))
        return written

    def changed(self, connection: StoreConnection, ids: Ids, texts: Sequence[str]) -> list[int]:
        """Those of the ids whose documents have other texts, all of which are locked."""
        statement = self.tables.statement(
            "SELECT t.id, t.text <> n.text FROM unnest(%s::bigint[], %s::text[]) AS n (id, text) JOIN {texts} AS t"
            " ON t.id = n.id ORDER BY t.id FOR NO KEY UPDATE OF t"
        )
        rows = connection.execute(statement, (ids.tolist(), [storable(text) for text in texts])).fetchall()
        return [id for id, differs in rows if differs]

    def write_elsewhere(
        self, connection: StoreConnection, others: Sequence[Space], ids: Ids, vectors: Vectors, changed: list[int]
    ) -> None:
        """Write the vectors where they belong too, and remove those of texts that have changed.

        Raises:
            Moved: the live space would lack these documents.
        """
        for space in others:
            other = copy(self)
            other.tables = Tables(self.tables.prefix, self.tables.schema, space.number)
            if space.fingerprint == self.fingerprint:
                other.write_vectors(connection, ids, vectors, merge_rows)
            elif space.number == int(connection.value(_LIVE, (self.tables.prefix,))):
                raise moved(self.collection, space.model)
            else:
                connection.execute(other.tables.statement("DELETE FROM {vectors} WHERE id = ANY(%s)"), (changed,))

    def all_tables(self, connection: StoreConnection) -> list[sql.Identifier]:
        """The tables of all spaces, some of which may not exist, and those of the words and texts."""
        spaces = [Tables(self.tables.prefix, self.tables.schema, one.number) for one in self._spaces(connection)]
        of_spaces = [name for tables in spaces for name in (tables.codes, tables.vectors)]
        return [*of_spaces, self.tables.words, self.tables.texts]

    # ------------------------------------------------------------------ inside

    def _alone(self, connection: StoreConnection) -> Self:
        """The collection with its live space; writers wait until the end of the open transaction."""
        mine = "SELECT tables FROM collections WHERE tables = %s FOR UPDATE"
        prefix = connection.value(mine, (self.at(connection).tables.prefix,))
        result = copy(self)
        result.tables, result._fixed = Tables(prefix, self.database.schema), True
        result.load(connection)
        return result

    def _inside(self, connection: StoreConnection, space: Space) -> Self:
        result = copy(self)
        result._within, result.model, result.fingerprint = space.number, space.model, space.fingerprint
        return result.at(connection)

    def _spaces(self, connection: StoreConnection) -> list[Space]:
        rows = connection.execute(_ALL, (self.tables.prefix,)).fetchall()
        this = self.tables.space, self.model, self.fingerprint, self.dimension
        return [Space(*row) for row in rows] or [Space(*this)]

    def _count_missing(self, connection: StoreConnection) -> int:
        missing = "SELECT count(*) FROM {texts} AS t WHERE NOT EXISTS (SELECT 1 FROM {vectors} AS v WHERE v.id = t.id)"
        return int(connection.value(self.tables.statement(missing)))
