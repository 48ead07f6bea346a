"""A bounded pool of connections to PostgreSQL: by a DSN, or to the embedded server of a folder."""

from __future__ import annotations

import atexit
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, LiteralString, NamedTuple, TypeVar
from weakref import WeakSet

import psycopg
from pgvector.psycopg import register_vector
from psycopg import sql
from psycopg_pool import ConnectionPool

from contrastive_st.errors import InputError, about, first_line
from contrastive_st.forks import Lock
from contrastive_st.search.index import Refused, Unreachable
from contrastive_st.search.postgres import schema as store_schema
from contrastive_st.search.postgres.dsn import complete, dsn_of, hide_password, split_schema, without_variables
from contrastive_st.search.postgres.server import EmbeddedServer, default_store

#: By SQLSTATE, or its first two characters: the status of HTTP, what happened, and what to do
_MEANINGS = {
    "08": (503, "the connection to the database broke", "try again"),
    "22": (400, "the database cannot hold or compare a value", ""),
    "23": (409, "another process has changed the same rows", "try again"),
    "25006": (409, "the database is read-only, as a standby is", "write to its primary server"),
    "28": (403, "the database does not let this role in", ""),
    "40": (503, "another process has changed the same rows", "try again"),
    "42501": (403, "the role of this connection may not do that", "contrastive-st database shows what it may do"),
    "53": (503, "the database is short of memory or connections", "try again"),
    "53100": (507, "the disk of the database is full", "free some space; nothing of this step was written"),
    "54": (400, "the database cannot hold a text or a value of this size", ""),
    "55": (503, "another process uses the same tables", "try again"),
    "57": (503, "the database is being stopped", "try again"),
    "57014": (503, "the database cancelled the statement", "if it took too long, raise the role's statement_timeout"),
}
_PASSING = ("08", "40", "57P")  # the connection has ended, or two transactions met


def is_passing(error: psycopg.Error) -> bool:
    """Whether the same work may succeed when it is done again."""
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) and (
        error.sqlstate is None or error.sqlstate.startswith(_PASSING)
    )


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Raise errors of PostgreSQL as their `refusal`; all are about the store at this address."""
    try:
        with about(where):
            yield
    except psycopg.Error as error:
        raise refusal(error, where) from error


def refusal(error: psycopg.Error, where: str) -> Refused | psycopg.Error:
    """The error as one that every door understands; the same one if PostgreSQL says that a statement is at fault.

    Args:
        error: of psycopg.
        where: the address of the store, for the line.

    Returns:
        The error to raise.

    Example:
        >>> str(refusal(psycopg.errors.DiskFull("No space left on device"), "/tmp/s"))
        '/tmp/s: the disk of the database is full: No space left on device; free some space; nothing of this step ...'
    """
    state = error.sqlstate or ""
    if not state:
        return Unreachable(f"{where}: {first_line(error)}") if is_passing(error) else error
    if (meaning := _MEANINGS.get(state) or _MEANINGS.get(state[:2])) is None:
        return error
    status, what, advice = meaning
    hint = error.diag.message_hint or advice
    message = f"{where}: {what}: {first_line(error)}" + (f"; {hint}" if hint else "")
    return Refused(message, status, what)


# Plans are made for the actual values: a generic plan knows neither LIMIT nor filter and may scan everything.
_SETTINGS = {"plan_cache_mode": "force_custom_plan", "work_mem": "32MB", "hnsw.max_scan_tuples": "200000"}
_VECTOR = "0.8.0"  # the least version of pgvector: it has iterative scans
_UPDATE = "ALTER EXTENSION vector UPDATE"
POOL = 8  # connections; more clients than this wait for their turn
#: What a parameter of the DSN or a variable of the environment, such as PGCLIENTENCODING, does not change
_ALWAYS: dict[str, Any] = {"autocommit": True, "application_name": "contrastive-st", "client_encoding": "UTF8"}
_SOON = 3.0  # seconds for a connection of the pool, after which the database is asked whether it answers
PATIENCE = 60.0  # seconds for an answer, and then for a connection of a busy pool
Result = TypeVar("Result")
Parameters = Sequence[object] | Mapping[str, object] | None
Query = LiteralString | sql.SQL | sql.Composed


class StoreConnection(psycopg.Connection):
    """A connection that remembers its settings, so that they are sent only when they change.

    `pooled`: a pooler such as pgbouncer stands before the server, which may give each transaction another session. Then
    settings, prepared statements and locks must not outlive a transaction.
    """

    pooled = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.known: dict[str, str] = {}
        self._process = os.getpid()

    @property
    def is_usable(self) -> bool:
        """Whether it is open, and this process made it: one that was forked must not use those of the other."""
        return not self.closed and self._process == os.getpid()

    def use(self, settings: Mapping[str, object]) -> None:
        """Set parameters of the session, or behind a pooler of the transaction."""
        for name, value in settings.items():
            if self.pooled or self.known.get(name) != str(value):
                self.execute("SELECT set_config(%s, %s, %s)", (name, str(value), self.pooled))
                self.known[name] = str(value)

    def lift_limits(self, local: bool = True) -> None:
        """Let the statements that load and build take as long as they need, in the open transaction or session."""
        self.execute(
            "SELECT set_config(name, '0', %s) FROM pg_settings WHERE name IN ('statement_timeout',"
            " 'transaction_timeout', 'idle_in_transaction_session_timeout', 'lock_timeout') AND setting <> '0'",
            (local,),
        )

    def value(self, statement: Query, parameters: Parameters = None) -> Any:
        """The first cell of the rows of a statement; None if there are none."""
        row = self.execute(statement, parameters).fetchone()
        return row and row[0]

    def column(self, statement: Query, parameters: Parameters = None) -> list[Any]:
        """The first cell of each row of a statement."""
        return [row[0] for row in self.execute(statement, parameters).fetchall()]

    def configure(self, schema: str) -> None:
        """Find the tables of the store, and know pgvector's types."""
        process = self.value("SELECT pg_backend_pid()")
        self.pooled = process != self.info.backend_pid  # a pooler invents this number
        if self.pooled:
            self.prepare_threshold = None
        with self.transaction() if self.pooled else nullcontext():
            self.begin(schema)  # first, because pgvector may be in a schema that no other search path has
            register_vector(self)

    def begin(self, schema: str) -> None:
        """Set what every statement needs, for the session or the transaction."""
        self.execute(store_schema.SEARCH_PATH, (schema, self.pooled))
        self.use(_SETTINGS)


class EmbeddedConnection(StoreConnection):
    """A connection to the embedded server, which takes nothing from the environment."""

    @classmethod
    def connect(cls, conninfo: str = "", **kwargs: Any) -> EmbeddedConnection:
        """Connect to an address of `EmbeddedServer`."""
        with without_variables():
            return super().connect(complete(conninfo), **kwargs)


_FACTS = """SELECT current_setting('server_version'), (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
    (SELECT default_version FROM pg_available_extensions WHERE name = 'vector'), current_setting('server_encoding'),
    (SELECT datctype FROM pg_database WHERE datname = current_database()),
    current_setting('transaction_read_only')::bool, current_setting('statement_timeout')"""


class Facts(NamedTuple):
    """What a server is, asked once when a store is opened: versions, limits, and what cannot be done there."""

    server: str
    vector: str | None  # that the database has
    available: str | None  # that it would get
    encoding: str
    locale: str
    read_only: bool
    timeout: str

    def check(self, where: str) -> None:
        """Raises `InputError` if the database cannot hold a store."""
        if self.encoding != "UTF8":
            raise InputError(
                f"{where} has the encoding {self.encoding}, which does not hold every text; make a database with "
                "CREATE DATABASE name TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8'"
            )
        version = self.vector or self.available
        if version is None:
            raise InputError(f"{where}: PostgreSQL {self.server} has no pgvector; install {_VECTOR} or newer there")
        if _numbers(version) < _numbers(_VECTOR):
            newer = self.available is not None and _numbers(self.available) >= _numbers(_VECTOR)
            fix = _UPDATE if newer else f"install {_VECTOR} or newer there, and then {_UPDATE}"
            raise InputError(f"{where} has pgvector {version}, but this package needs {_VECTOR} or newer; {fix}")

    def __str__(self) -> str:
        limits = ["read-only"] * self.read_only + [f"statement_timeout {self.timeout}"] * (self.timeout != "0")
        return ", ".join([f"PostgreSQL {self.server}", f"pgvector {self.vector}", f"locale {self.locale}", *limits])


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


class Database:
    """Runs statements; starts the embedded server, and starts it again if it was killed.

    Opening reads the version of the store and writes nothing, so that a role with USAGE and SELECT can do it. A process
    that is forked from this one opens connections of its own when it first needs one.

    Args:
        where: a folder for the embedded server, or a DSN (`postgresql://...`); None is `default_store()`. A parameter
            `schema` of the DSN names the schema of the tables (`postgresql://host/name?schema=search`).
        pool: most connections at a time.
        setup: make the store if there is none; with the embedded server this is always done.
        patience: seconds that work waits for a database that does not answer, such as one that is restarted.

    Raises:
        InputError: the database has no store of this version.
        psycopg.Error: the database cannot be reached or cannot hold vectors.
    """

    def __init__(
        self, where: str | Path | None = None, pool: int = POOL, *, setup: bool = False, patience: float = PATIENCE
    ) -> None:
        self.patience = patience
        self.where, self.schema = split_schema(str(where or default_store()))
        self.shown = hide_password(self.where)
        self.server = EmbeddedServer(self.where) if dsn_of(self.where) is None else None
        self._kind = EmbeddedConnection if self.server else StoreConnection
        self._size, self._pools, self._opening = pool, dict[int, ConnectionPool[StoreConnection]](), Lock()
        with ExitStack() as failed:
            if self.server:
                failed.callback(self.server.close)
            with translated(self.shown):
                self._connected(lambda: self._check(setup))
            _OPEN.add(self)
            atexit.unregister(_at_exit)  # it runs before what was registered earlier: before the server is released
            atexit.register(_at_exit)
            failed.pop_all()

    @property
    def dsn(self) -> str:
        """The address as libpq reads it."""
        return self.server.dsn if self.server else self.where

    @property
    def _pool(self) -> ConnectionPool[StoreConnection]:
        """The pool of this process; after a fork, that of the other one stays as it is."""
        with self._opening.held():
            if (pool := self._pools.get(os.getpid())) is None:
                if self._pools and self.server:
                    self.server.ensure_running()
                pool = self._pools[os.getpid()] = ConnectionPool(
                    self.dsn, connection_class=self._kind, min_size=1, max_size=self._size, open=True, kwargs=_ALWAYS,
                    configure=lambda connection: connection.configure(self.schema), reconnect_timeout=_SOON,
                )  # fmt: skip
            return pool

    def _connected(self, connect: Callable[[], Result]) -> Result:
        """Connect; a second time if the embedded server has been killed, which is started again."""
        try:
            return connect()
        except psycopg.OperationalError:
            if not self.server:
                raise
            self.server.ensure_running()
            return connect()

    def _check(self, setup: bool) -> None:
        """Check that there is a store of this version; make one if there is none and `setup` is set."""
        with self._kind.connect(self.dsn, connect_timeout=30, **_ALWAYS) as connection:
            if not self.server:
                info = connection.info
                self.shown = f"host={info.host} port={info.port} dbname={info.dbname} user={info.user}"
            Facts(*connection.execute(_FACTS).fetchone()).check(self.shown)  # type: ignore[misc]
            version = store_schema.version_of(connection, self.schema)
            if version == 0 and (setup or self.server):
                store_schema.create_store(connection, self.schema)
            elif version == 0:
                raise InputError(f"{self.shown} has no store in schema {self.schema}; contrastive-st index creates one")
            elif version != store_schema.VERSION:
                before = "it is from before the first release; drop the schema and index again"
                raise InputError(
                    f"the store in schema {self.schema} has version {version}, but this package needs version "
                    f"{store_schema.VERSION}; {before if version < store_schema.VERSION else 'update contrastive-st'}"
                )
            connection.configure(self.schema)  # an error of the pool's own connections would come a minute later

    def run(self, work: Callable[[StoreConnection], Result]) -> Result:
        """Call `work` with a connection, and once more if the connection breaks, so `work` must be repeatable.

        Raises:
            Refused: the database does not do it: `refusal` says why.
            Unreachable: it does not answer, or all connections are busy for a minute.
        """
        with translated(self.shown):
            try:
                return self._once(work, _SOON)
            except psycopg.Error as error:  # also of a pool with no connection yet
                if not is_passing(error):
                    raise
            deadline = time.monotonic() + self.patience
            while True:  # until the database answers; then the connections that are broken are dropped
                try:
                    if self.server:
                        self.server.ensure_running()
                    self._kind.connect(self.dsn, connect_timeout=int(_SOON)).close()
                    self._pool.check()
                    break
                except psycopg.OperationalError as error:
                    if time.monotonic() > deadline:
                        raise Unreachable(f"{self.shown} does not answer: {first_line(error)}") from error
                    time.sleep(0.1)
            return self._once(work, PATIENCE)

    def transact(self, work: Callable[[StoreConnection], Result]) -> Result:
        """As `run`, with the work in one transaction."""

        def once(connection: StoreConnection) -> Result:
            with connection.transaction():
                return work(connection)

        return self.run(once)

    def _once(self, work: Callable[[StoreConnection], Result], seconds: float) -> Result:
        with self._pool.connection(seconds) as connection:
            if not connection.pooled:
                return work(connection)
            with connection.transaction():
                connection.begin(self.schema)
                return work(connection)

    def rows(self, statement: Query, parameters: Parameters = None) -> list[Any]:
        """The rows of a statement that can be repeated."""
        return self.run(lambda connection: connection.execute(statement, parameters).fetchall())

    def describe(self) -> dict[str, str]:
        """The version of the store, and what this role may do, as text."""
        ((role, version, create, write, *facts),) = self.rows(
            "SELECT current_user, (SELECT max(version) FROM migrations), has_schema_privilege(%s, 'CREATE'),"
            f" has_table_privilege('collections', 'INSERT'), facts.* FROM ({_FACTS}) AS facts",
            (self.schema,),
        )
        rights = "read, write and create collections" if create and write else "read and write" if write else "read"
        return {
            "store": f"schema {self.schema} of {self.shown}",
            "version": f"{version} of {store_schema.VERSION}",
            "server": str(Facts(*facts)),
            "role": f"{role} may {rights}",
        }

    def connect(self, **settings: str) -> StoreConnection:
        """A separate connection outside the pool, for long work or locks, without a time limit; close it after use.

        Raises:
            InputError: a pooler stands between, which may give away the session with its locks.
        """
        connection = self._connected(lambda: self._kind.connect(self.dsn, **_ALWAYS))
        connection.configure(self.schema)
        if connection.pooled:
            connection.close()
            raise InputError(
                f"{self.shown} is a pooler, such as pgbouncer; indexing holds locks over many transactions, so give it "
                "the address of PostgreSQL (searches, upserts and deletions pass through a pooler)"
            )
        connection.lift_limits(local=False)
        connection.use(settings)
        return connection

    def close(self) -> None:
        """Close all connections; the last user of an embedded server stops it."""
        _OPEN.discard(self)
        if pool := self._pools.get(os.getpid()):
            pool.close()
        if self.server:
            self.server.close()


_OPEN: WeakSet[Database] = WeakSet()


def _at_exit() -> None:
    """A pool whose server stops first would write to stderr."""
    for database in list(_OPEN):
        database.close()
