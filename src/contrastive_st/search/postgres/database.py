"""A bounded pool of connections to a PostgreSQL: your own by its DSN, or the embedded server of a folder."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, LiteralString, TypeVar

import psycopg
from pgvector.psycopg import register_vector
from psycopg import sql
from psycopg_pool import ConnectionPool, PoolTimeout

from contrastive_st.errors import about
from contrastive_st.search.postgres.schema import migrate
from contrastive_st.search.postgres.server import EmbeddedServer, default_store

POOL = 8  # connections; more clients than this wait for their turn
_WAIT = 60.0  # seconds
Result = TypeVar("Result")
Query = LiteralString | sql.SQL | sql.Composed


class StoreConnection(psycopg.Connection[Any]):
    """A connection that remembers its settings, so that they are sent only when they change."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.known: dict[str, str] = {}

    def use(self, settings: Mapping[str, object]) -> None:
        """Set parameters of the session."""
        for name, value in settings.items():
            if self.known.get(name) != str(value):
                self.execute("SELECT set_config(%s, %s, false)", (name, str(value)))
                self.known[name] = str(value)


class Database:
    """Runs statements; starts the embedded server, and starts it again if it was killed.

    Args:
        where: a folder for the embedded server, or a DSN (`postgresql://...`); None is `default_store()`.
        pool: most connections at a time.

    Raises:
        psycopg.Error: the database cannot be reached or cannot hold vectors.
    """

    def __init__(self, where: str | Path | None = None, pool: int = POOL) -> None:
        self.where = str(where or default_store())
        self.shown = hide_password(self.where)
        self.server = None if is_dsn(self.where) else EmbeddedServer(self.where)
        self.dsn = self.server.dsn if self.server else self.where
        try:
            with about(self.shown), psycopg.connect(self.dsn, autocommit=True, connect_timeout=30) as connection:
                migrate(connection)
            self._pool = ConnectionPool(
                self.dsn, connection_class=StoreConnection, min_size=1, max_size=pool, timeout=_WAIT, open=True,
                kwargs={"autocommit": True, "application_name": "contrastive-st"}, configure=_configure,
            )  # fmt: skip
        except BaseException:
            if self.server:
                self.server.close()
            raise

    def run(self, work: Callable[[StoreConnection], Result]) -> Result:
        """Call `work` with a connection, and once more if the connection breaks, so `work` must be repeatable."""
        with about(self.shown):
            try:
                with self._pool.connection() as connection:
                    return work(connection)
            except (PoolTimeout, psycopg.errors.DiskFull):
                raise
            except (psycopg.OperationalError, psycopg.InterfaceError):
                if self.server:
                    self.server.ensure_running()
                self._pool.check()
            with self._pool.connection() as connection:
                return work(connection)

    def rows(self, statement: Query, parameters: Any = None) -> list[Any]:
        """The rows of a statement that can be repeated."""
        return self.run(lambda connection: connection.execute(statement, parameters).fetchall())

    def connect(self, **settings: str) -> StoreConnection:
        """A separate connection outside the pool, for long work or locks; close it after use."""
        open_one = functools.partial(
            StoreConnection.connect, self.dsn, autocommit=True, application_name="contrastive-st"
        )
        try:
            connection = open_one()
        except psycopg.OperationalError:
            if not self.server:
                raise
            self.server.ensure_running()
            connection = open_one()
        _configure(connection)
        connection.use(settings)
        return connection

    def close(self) -> None:
        """Close all connections; the last user of an embedded server stops it."""
        self._pool.close()
        if self.server:
            self.server.close()


def is_dsn(where: str) -> bool:
    """Whether this is a DSN rather than a folder.

    Example:
        >>> is_dsn("postgresql://host/name"), is_dsn("host=/run dbname=x"), is_dsn("./host=x"), is_dsn("/a dbname=b")
        (True, True, False, False)
    """
    return re.match(r"postgres(ql)?://|\s*(host|hostaddr|port|dbname|user|password|service)\s*=", where) is not None


def hide_password(dsn: str) -> str:
    """The DSN without its password, to show in a message.

    Example:
        >>> hide_password("postgresql://me:secret@host/name")
        'host=host dbname=name user=me'
    """
    if not is_dsn(dsn):
        return dsn
    try:
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return "(not a valid connection string)"
    shown = ("host", "port", "dbname", "user")
    return " ".join(f"{name}={parts[name]}" for name in shown if parts.get(name))


def _configure(connection: psycopg.Connection[Any]) -> None:
    register_vector(connection)
    # Plans are made for the actual values: a generic plan knows neither LIMIT nor filter and may scan everything.
    for setting in ("plan_cache_mode = force_custom_plan", "work_mem = '32MB'", "hnsw.max_scan_tuples = 200000"):
        connection.execute(f"SET {setting}".encode())
