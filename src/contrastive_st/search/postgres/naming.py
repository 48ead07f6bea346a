"""The names of collections: the tables behind a name, and how names are given, exchanged and taken."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import psycopg
from psycopg import sql

from contrastive_st.errors import InputError
from contrastive_st.search.index import DeletedCollection, Moved
from contrastive_st.search.postgres.database import Database, StoreConnection
from contrastive_st.search.postgres.names import check_name
from contrastive_st.search.postgres.schema import Tables, create_view

if TYPE_CHECKING:
    from typing import Self

_LOCK = 0x636F6E74726E616D  # seed of the advisory locks under which names are given
_ROW = """SELECT tables, model, fingerprint, dimension, storage, partitions, index, language, space, types
    FROM collections AS c """
_BY_NAME = "WHERE name = %(name)s OR tables = (SELECT collection FROM _aliases AS a WHERE a.name = %(name)s)"
_SPACE = (
    "SELECT space, model, fingerprint, dimension, index FROM _spaces WHERE collection = %(tables)s"
    " AND (space = %(space)s OR fingerprint = %(fingerprint)s)"
)
_BY_TABLES = "WHERE tables = %(tables)s"
Result = TypeVar("Result")


class Named:
    """A collection under its name, or an alias.

    The name may be given to other tables at any time. So each operation asks once which tables have it (`now`), and
    keeps to these. Where a name is gone, its tables have been renamed, and are meant still.
    """

    database: Database
    collection: str
    tables: Tables = None  # type: ignore[assignment]  # until it is loaded
    model: str
    fingerprint: str
    dimension: int
    storage: str
    partitions: int
    index: str
    language: str | None
    held_types: dict[str, str]  # of the columns of the metadata
    moved = False  # another model answers now; this object uses its former space, as long as there is one
    _fixed = False  # this stays with its tables, whatever name they get
    _within: int | None = None  # this stays with this space, whichever answers

    def load(self, connection: StoreConnection, lock: bool = False) -> None:
        """Read what the store says of the collection; with `lock`, until the end of the open transaction.

        Raises:
            InputError: there is no such collection.
            DeletedCollection: there is none any more.
        """
        asked = {"name": self.collection, "tables": self.tables.prefix if self.tables else None}
        # A lock that has waited for a new name of the row does not see who has it now, so it asks twice.
        places = (_BY_TABLES,) if self._fixed else (_BY_NAME, _BY_NAME, _BY_TABLES)
        for condition in places:
            if row := connection.execute(_ROW + condition + (" FOR KEY SHARE" if lock else ""), asked).fetchone():
                self.tables = Tables(row[0], self.database.schema, row[8])
                self.model, self.fingerprint, self.dimension, self.storage, self.partitions, self.index = row[1:7]
                self.language, self.held_types = row[7], row[9]
                return
        if self.tables:
            raise DeletedCollection(f"collection {self.collection!r} has been deleted")
        _no_collection(connection, self.database, self.collection)

    def at(self, connection: StoreConnection, lock: bool = False) -> Self:
        """The collection that has the name now, which stays with its tables.

        Args:
            connection: where it is read.
            lock: keep it from being renamed or deleted until the end of the open transaction.

        Raises:
            DeletedCollection: it has been deleted.
            InputError: its vectors of the model that this stays with are gone.
            Moved: its vectors are of another model, and those of the former one are gone.
        """
        result = copy(self)
        result.load(connection, lock)
        result._fixed = True
        self.moved = self._within is None and self.fingerprint != result.fingerprint
        if self._within is not None and self._within != result.tables.space:
            if not result._go_to(connection, {"space": self._within, "fingerprint": None}):
                raise InputError(f"collection {self.collection!r} has no vectors of {self.model} any more")
        elif self.moved and not result._go_to(connection, {"space": None, "fingerprint": self.fingerprint}):
            raise moved(self.collection, result.model)
        return result

    def _go_to(self, connection: StoreConnection, which: dict[str, Any]) -> bool:
        """Take the tables of a space that does not answer; whether there is one."""
        if row := connection.execute(_SPACE, {"tables": self.tables.prefix, **which}).fetchone():
            self.tables = Tables(self.tables.prefix, self.tables.schema, row[0])
            self.model, self.fingerprint, self.dimension, self.index = row[1:]
        return row is not None

    def now(self) -> Self:
        """As `at`, by a connection of the pool."""
        return self.database.run(self.at)

    def read(self, work: Callable[[StoreConnection, Self], Result]) -> Result:
        """Call `work` with a connection and the collection as it is `now`; again, if its tables go meanwhile."""

        def once(connection: StoreConnection) -> Result:
            return work(connection, self.at(connection))

        try:
            return self.database.run(once)
        except psycopg.errors.UndefinedTable:
            return self.database.run(once)


def moved(collection: str, model: str) -> Moved:
    """The error for a collection that has moved to a model while it was open."""
    return Moved(f"collection {collection!r} has moved to {model}; open it again, and encode with that")


def free_prefix(connection: StoreConnection, schema: str, name: str) -> Tables | None:
    """Unused tables for a new collection, in the open transaction; None if the name is taken."""
    _lock_names(connection, schema)
    if connection.execute(f"SELECT 1 FROM collections {_BY_NAME}", {"name": name}).fetchone():
        return None
    prefix = connection.value(  # a collection that was renamed keeps the tables of its first name
        "SELECT prefix FROM generate_series(1, 1 + (SELECT count(*) FROM collections)) AS n,"
        " LATERAL (SELECT %s::text || CASE n WHEN 1 THEN '' ELSE '_' || n END AS prefix) AS p"
        " WHERE NOT EXISTS (SELECT FROM collections WHERE tables = prefix) ORDER BY n LIMIT 1",
        (name,),
    )
    return Tables(prefix, schema)


def rename(database: Database, old: str, new: str) -> None:
    """Give a collection, or an alias, another name, in one transaction.

    Raises:
        InputError: there is no such collection, or the new name is not valid or taken.
    """
    check_name(new, new=True)

    def work(connection: StoreConnection) -> None:
        _check_names(connection, database, old, new)
        _move(connection, database.schema, old, new)

    _alone(database, work)


def swap(database: Database, one: str, other: str) -> None:
    """Exchange the names of two collections, in one transaction: every search sees the state before or after it.

    Raises:
        InputError: there is no such collection.
    """

    def work(connection: StoreConnection) -> None:
        _check_names(connection, database, one)
        _check_names(connection, database, other)
        for old, new in ((one, "_swapped"), (other, one), ("_swapped", other)):
            _move(connection, database.schema, old, new)

    _alone(database, work)


def set_alias(database: Database, name: str, collection: str) -> None:
    """Let one more name stand for a collection; one that stood for another stands for this from now on.

    Raises:
        InputError: there is no such collection, or a collection has this name itself.
    """
    check_name(name, new=True)

    def work(connection: StoreConnection) -> None:
        tables = _check_names(connection, database, collection)
        if not forget_alias(connection, database.schema, name):
            _check_names(connection, database, collection, name)
        connection.execute("INSERT INTO _aliases (name, collection) VALUES (%s, %s)", (name, tables.prefix))
        create_view(connection, name, tables)

    _alone(database, work)


def forget_alias(connection: StoreConnection, schema: str, name: str) -> bool:
    """Take an alias away; whether there was one."""
    with connection.transaction():
        there = connection.execute("DELETE FROM _aliases WHERE name = %s", (name,)).rowcount > 0
        if there:
            connection.execute(sql.SQL("DROP VIEW {}").format(sql.Identifier(schema, name)))
        return there


def _alone(database: Database, work: Callable[[StoreConnection], None]) -> None:
    """Do the work in one transaction, during which no other gives names."""

    def once(connection: StoreConnection) -> None:
        _lock_names(connection, database.schema)
        work(connection)

    database.transact(once)


def _lock_names(connection: StoreConnection, schema: str) -> None:
    """Wait until no other process gives names in this schema, and keep it so until the end of the open transaction."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, %s))", (schema, _LOCK))


def _check_names(connection: StoreConnection, database: Database, name: str, new: str | None = None) -> Tables:
    """The tables of a name, which must exist, unlike `new`."""
    statement = f"SELECT tables, space FROM collections {_BY_NAME}"
    result, taken = (connection.execute(statement, {"name": one}).fetchone() for one in (name, new))
    if result is None:
        _no_collection(connection, database, name)
    if taken:
        raise InputError(f"there is a collection {new!r} already; choose another name, or --swap the two")
    return Tables(result[0], database.schema, result[1])


def _no_collection(connection: StoreConnection, database: Database, name: str) -> NoReturn:
    names = connection.column("SELECT name FROM collections UNION SELECT name FROM _aliases ORDER BY 1")
    existing = ", ".join(names) or "none; make one with contrastive-st index"
    raise InputError(f"there is no collection {name!r} in {database.shown}; there is: {existing}")


def _move(connection: StoreConnection, schema: str, old: str, new: str) -> None:
    """Give a name, and the view of that name, to what has another."""
    connection.execute("UPDATE collections SET name = %s WHERE name = %s", (new, old))
    connection.execute("UPDATE _aliases SET name = %s WHERE name = %s", (new, old))
    connection.execute(sql.SQL("ALTER VIEW {} RENAME TO {}").format(sql.Identifier(schema, old), sql.Identifier(new)))
