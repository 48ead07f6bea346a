"""Tables of the store: their names, the schema version, and the SQL statements.

Names must match a fixed pattern and are quoted identifiers in statements; everything else is a parameter. The tables of
the store have no schema in statements: `Database` puts the one that was chosen first in the search path.
"""

from __future__ import annotations

from typing import LiteralString

from psycopg import Connection, sql

from contrastive_st.search.filters import Filter
from contrastive_st.search.postgres.names import FLOAT_BYTES
from contrastive_st.search.postgres.predicates import subject_of

SCHEMA = "contrastive_st"  # by default
_LOCK = 0x636F6E7472617374  # advisory lock for all schemas, since all have the same pgvector
#: Puts a schema first in the search path, of the transaction or of the session, and that of pgvector after it
SEARCH_PATH = (
    "SELECT set_config('search_path', concat_ws(', ', quote_ident(%s), (SELECT quote_ident(n.nspname)"
    " FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace"
    " WHERE e.extname = 'vector'), nullif(current_setting('search_path'), '')), %s)"
)

VERSION = 9  # of the tables below, and of the lexemes in them
# The tables of a collection keep the name that they were made with, and what belongs to it refers to that name, so
# that it can be renamed; a name in _aliases is one more. No collection has a name that begins with _. A language of
# NULL is not known yet. The row of a collection describes the live space, and has its number; _spaces has all of
# them, once there was a second one. _deleted has the documents that their sources do not add again. _files has the
# ids of the documents of each file of a source (of a source that is not a folder: of the file without a name), by the
# run that wrote them; the digest is that of the file, NULL until the run has ended, and blank for documents that have
# left their file and stay. The types are those of the columns of the metadata.
#: Makes a new store. The statements of a release never change: those of the next one make its tables of these
TABLES = """
    CREATE TABLE IF NOT EXISTS migrations (
        version int PRIMARY KEY,
        applied timestamptz NOT NULL DEFAULT now()
    );
    CREATE TABLE collections (
        name text PRIMARY KEY,
        model text NOT NULL,
        fingerprint text NOT NULL,
        dimension int NOT NULL,
        storage text NOT NULL,
        partitions int NOT NULL,
        index text NOT NULL DEFAULT 'none',
        created timestamptz NOT NULL DEFAULT now(),
        tables text NOT NULL UNIQUE,
        language text,
        space int NOT NULL DEFAULT 0,
        types jsonb NOT NULL DEFAULT '{}'
    );
    CREATE TABLE sources (
        collection text NOT NULL REFERENCES collections (tables) ON DELETE CASCADE,
        number int NOT NULL,
        name text NOT NULL,
        mark text NOT NULL,
        shards int,
        run int NOT NULL DEFAULT 0,
        PRIMARY KEY (collection, number),
        UNIQUE (collection, name)
    );
    CREATE TABLE shards (
        collection text NOT NULL,
        source int NOT NULL,
        shard int NOT NULL,
        rows int NOT NULL,
        added timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (collection, source, shard),
        FOREIGN KEY (collection, source) REFERENCES sources ON DELETE CASCADE
    );
    CREATE TABLE _deleted (
        collection text NOT NULL REFERENCES collections (tables) ON DELETE CASCADE,
        id bigint NOT NULL,
        deleted timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (collection, id)
    );
    CREATE TABLE _aliases (
        name text PRIMARY KEY,
        collection text NOT NULL REFERENCES collections (tables) ON DELETE CASCADE
    );
    CREATE TABLE _spaces (
        collection text NOT NULL REFERENCES collections (tables) ON DELETE CASCADE,
        space int NOT NULL,
        model text NOT NULL,
        fingerprint text NOT NULL,
        dimension int NOT NULL,
        index text NOT NULL DEFAULT 'none',
        added timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (collection, space)
    );
    CREATE TABLE _files (
        collection text NOT NULL,
        source int NOT NULL,
        file text NOT NULL,
        run int NOT NULL,
        digest text,
        ids bigint[] NOT NULL,
        FOREIGN KEY (collection, source) REFERENCES sources ON DELETE CASCADE
    );
    CREATE INDEX ON _files (collection, source);
"""


def version_of(connection: Connection, schema: str) -> int:
    """The version of the store in a schema; 0 if there is none. Needs USAGE and SELECT alone."""
    there = "SELECT to_regclass(format('%%I.migrations', %s::text)) IS NOT NULL"
    if connection.execute(there, (schema,)).fetchone() != (True,):
        return 0
    statement = sql.SQL("SELECT coalesce(max(version), 0) FROM {}").format(sql.Identifier(schema, "migrations"))
    (version,) = connection.execute(statement).fetchone()  # type: ignore[misc]
    return int(version)


def create_store(connection: Connection, schema: str) -> None:
    """Make the store if there is none, one process at a time.

    Raises:
        psycopg.Error: the database lacks pgvector or the right to create tables.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        connection.execute("SET LOCAL client_min_messages = error")
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        if connection.execute("SELECT to_regnamespace(quote_ident(%s))", (schema,)).fetchone() == (None,):
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        connection.execute(SEARCH_PATH, (schema, True))
        if not version_of(connection, schema):
            connection.execute(TABLES)
            connection.execute("INSERT INTO migrations (version) VALUES (%s)", (VERSION,))


class Tables:
    """The tables of one collection, as identifiers for statements: in a schema, named after `prefix`.

    `vectors` has `(id, embedding)`, hash-partitioned by id; `texts` `(id, text, metadata)`, apart because each new
    version of a row enters every index again; `words` the postings of full text (`postings.py`); `codes` `(id, code)`,
    the rotated signs of the vectors, partitioned like these, only with a binary graph. A view with the name of the
    collection joins the first two, for plain SQL. Those of another `space` than the first have its number in their
    names.
    """

    def __init__(self, prefix: str, schema: str = SCHEMA, space: int = 0) -> None:
        self.prefix, self.schema, self.space = prefix, schema, space
        self.mark = f"_s{space}" if space else ""
        self.texts, self.vectors, self.codes = self.name("texts"), self.in_space("vectors"), self.in_space("codes")
        self.words = self.name("words")

    def name(self, what: str) -> sql.Identifier:
        """A table or an index of the collection, with its schema."""
        return sql.Identifier(self.schema, f"{self.prefix}_{what}")

    def in_space(self, what: str) -> sql.Identifier:
        """A table or an index of the vectors of this space, with its schema."""
        return self.name(what + self.mark)

    def lock(self, what: object) -> str:
        """The name of an advisory lock of the collection: such locks are those of a database, with all its schemas."""
        return f"{self.schema}.{self.prefix} {what}"

    def partition(self, number: int, of: str = "vectors") -> sql.Identifier:
        """One partition of the vectors, or of the codes."""
        return self.name(f"{of}{self.mark}_{number}")

    def statement(self, template: LiteralString, **others: object) -> sql.Composed:
        """A statement in which names in braces, such as `{texts}`, are these tables; `others` are literals, or SQL."""
        names = {"texts": self.texts, "words": self.words, "vectors": self.vectors, "codes": self.codes}
        return sql.SQL(template).format(**names, **others)

    def index(self, what: str) -> sql.Identifier:
        """An index by its short name, for the statement that makes it: it is in the schema of its table."""
        return sql.Identifier(f"{self.prefix}_{what}")


# in a table of words, no page is cut into parts
_MAKE = """CREATE TABLE {texts} (id bigint PRIMARY KEY, text text NOT NULL, metadata jsonb NOT NULL DEFAULT '{{}}');
    ALTER TABLE {texts} ALTER metadata SET STATISTICS 1000;
    CREATE TABLE {words} (segment bigint GENERATED BY DEFAULT AS IDENTITY, page int NOT NULL, data bytea NOT NULL,
        PRIMARY KEY (segment, page)) WITH (toast_tuple_target = 8160);
    ALTER TABLE {words} ALTER data SET STORAGE EXTERNAL;
    CREATE INDEX {index} ON {words} (segment) WHERE page = -1"""


def create_tables(connection: Connection, tables: Tables, dimension: int, storage: str, partitions: int) -> None:
    """Make the tables of a collection."""
    connection.execute(tables.statement(_MAKE, index=tables.index("words_idx")))
    create_vectors(connection, tables, dimension, storage, partitions)


def create_vectors(connection: Connection, tables: Tables, dimension: int, storage: str, partitions: int) -> None:
    """Make the table of the vectors of a space."""
    column = sql.SQL("embedding {}({})").format(sql.SQL(storage), dimension)
    create_partitioned(connection, tables, "vectors", column, partitions)
    # uncompressed, because vectors compress badly and plain rows are read without detoasting
    kept = sql.SQL("PLAIN" if dimension * FLOAT_BYTES[storage] < 4000 else "EXTERNAL")
    for number in range(partitions):
        table = tables.partition(number)
        connection.execute(sql.SQL("ALTER TABLE {} ALTER embedding SET STORAGE {}").format(table, kept))


def create_view(connection: Connection, name: str, tables: Tables) -> None:
    """Make the view of a collection under one of its names."""
    rows = "SELECT v.id, t.text, t.metadata, v.embedding FROM {vectors} AS v JOIN {texts} AS t ON t.id = v.id"
    connection.execute(tables.statement(f"CREATE VIEW {{view}} AS {rows}", view=sql.Identifier(tables.schema, name)))


def follow(connection: Connection, table: sql.Identifier, other: sql.Identifier) -> None:
    """Let the rows of a table go when those of the other go that have their ids."""
    statement = sql.SQL("ALTER TABLE {} ADD FOREIGN KEY (id) REFERENCES {} ON DELETE CASCADE")
    connection.execute(statement.format(table, other))


def create_partitioned(
    connection: Connection, tables: Tables, what: str, column: sql.Composed, partitions: int
) -> None:
    """Make the table of the vectors or of the codes of a space, with its partitions."""
    parent = "CREATE TABLE {table} (id bigint PRIMARY KEY, {column} NOT NULL) PARTITION BY HASH (id)"
    connection.execute(tables.statement(parent, table=getattr(tables, what), column=column))
    statement = sql.SQL("CREATE TABLE {} PARTITION OF {} FOR VALUES WITH (MODULUS {}, REMAINDER {})")
    for number in range(partitions):
        names = tables.partition(number, what), getattr(tables, what)
        connection.execute(statement.format(*names, sql.Literal(partitions), sql.Literal(number)))


# --- The statements of searches: composed of constants and checked identifiers; everything else is a parameter.

Statement = sql.Composed
_MATCHES = "{subject} @@ %(filter)s::jsonpath"

_DISTANCE = "SELECT v.id, v.embedding <=> %(q)b AS distance FROM"
#: The k nearest, by the kind of index; of equal ones the lowest id, but for a graph, which is not scanned in such an
#: order. Adding 0 keeps the planner from answering by the approximate index.
_BY_INDEX = {
    "none": _DISTANCE + " {vectors} AS v{matching} ORDER BY (v.embedding <=> %(q)b) + 0, v.id LIMIT %(k)s",
    "hnsw": _DISTANCE + " {vectors} AS v{matching} ORDER BY v.embedding <=> %(q)b LIMIT %(k)s",
    "binary": _DISTANCE + " (SELECT v.id FROM {codes} AS v{matching} ORDER BY v.code <~> %(code)b LIMIT %(many)s) AS c"
    " JOIN {vectors} AS v ON v.id = c.id ORDER BY 2, v.id LIMIT %(k)s",
}

_COSINES = "SELECT n.id, 1 - n.distance FROM nearest AS n"
_TEXTS = "SELECT n.id, 1 - n.distance, t.text, t.metadata FROM nearest AS n JOIN {texts} AS t ON t.id = n.id"


def nearest(tables: Tables, index: str, filter: Filter, texts: bool) -> Statement:
    """`id, cosine` of the k nearest, or also `text, metadata`; `index` is `none` for an exact search."""
    outer = _TEXTS if texts else _COSINES
    template = f"WITH nearest AS MATERIALIZED ({_BY_INDEX[index]}) {outer} ORDER BY n.distance, n.id"
    return _compose(template, tables, filter)


def matching(tables: Tables, filter: Filter, some: bool = False) -> Statement:
    """The ids of the documents that meet the filter; with `some`, of those among `ids`."""
    among = " AND t.id = ANY(%(ids)s)" if some else ""
    return _compose(f"SELECT t.id FROM {{texts}} AS t WHERE {_MATCHES}{among}", tables, filter)


def _compose(template: LiteralString, tables: Tables, filter: Filter) -> Statement:
    subject = sql.SQL(subject_of(filter))
    joined = tables.statement(f" JOIN {{texts}} AS t ON t.id = v.id WHERE {_MATCHES}", subject=subject)
    return tables.statement(template, subject=subject, matching=joined if filter else sql.SQL(""))
