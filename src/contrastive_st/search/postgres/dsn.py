"""The address of a store: a DSN of a database, in each of its usual spellings, or a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from contrastive_st.errors import InputError, first_line
from contrastive_st.forks import Lock, undone
from contrastive_st.search.postgres.schema import SCHEMA

#: A URL as SQLAlchemy, Django and JDBC write it differs from libpq's in its beginning alone
_URL = re.compile(r"(?:jdbc:)?(?:postgres|postgresql|pgsql)(?:\+\w+)?://", re.IGNORECASE)
_KEYWORDS = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
#: Variables that libpq reads for every connection, whatever its DSN says
_WITHOUT_PARAMETER = ("PGSERVICE", "PGTZ", "PGDATESTYLE", "PGGEQO")
#: Parameters of which libpq refuses a blank value
_NOT_BLANK = {"connect_timeout": "10", "sslcertmode": "allow", "min_protocol_version": "3.0",
              "max_protocol_version": "3.0", "sslmode": "disable"}  # fmt: skip
_environment = Lock()
_QUOTED = re.compile(r'(option |parameter: )?"([^"]*)"')  # in libpq's messages; may be a part of the password


def dsn_of(where: str) -> str | None:
    """The DSN as libpq reads it, with or without a `schema`; None for a folder.

    Blanks and quotes around it are dropped: files of environment variables leave them there.

    Raises:
        InputError: it is the URL of something else than PostgreSQL.

    Example:
        >>> dsn_of("postgresql+psycopg://host/name"), dsn_of("'postgres://host/name' ")
        ('postgresql://host/name', 'postgresql://host/name')
        >>> dsn_of("sslmode=prefer host=/run"), dsn_of("./host=x"), dsn_of("/a dbname=b")
        ('sslmode=prefer host=/run', None, None)
    """
    bare = where.strip()
    bare = bare[1:-1].strip() if re.fullmatch(r"(['\"]).*\1", bare, re.DOTALL) else bare
    if match := _URL.match(bare):
        return f"postgresql://{bare[match.end() :]}"
    if re.match(r"\w+\s*=", bare) and _KEYWORDS.intersection(re.findall(r"(?<!\S)(\w+)\s*=", bare)):
        return bare
    if "://" in bare:
        raise InputError(
            f"{_name(where)} is a URL, but not of PostgreSQL; give postgresql://user@host/name or a folder"
        )
    return None


def split_schema(where: str) -> tuple[str, str]:
    """A DSN as libpq reads it, without `schema`, which PostgreSQL does not know; and the name of that schema.

    Returns:
        Both; for a folder, the folder and the schema of every store in a folder.

    Raises:
        InputError: the schema is not a name of a-z, 0-9 and _, libpq cannot read the DSN, or as for `dsn_of`.

    Example:
        >>> split_schema("postgresql+asyncpg://host/name?schema=search&connect_timeout=3")
        ('postgresql://host/name?connect_timeout=3', 'search')
        >>> split_schema("host=/run dbname=x schema=search"), split_schema("folder")
        (('host=/run dbname=x ', 'search'), ('folder', 'contrastive_st'))
    """
    if (dsn := dsn_of(where)) is None:
        return where, SCHEMA
    parameter = r"(?<=[?&])schema=([^&]*)&?" if "://" in dsn else r"(?<!\S)schema\s*=\s*(\S*)"
    schema = SCHEMA
    if result := re.search(parameter, dsn):
        schema, dsn = result[1], (dsn[: result.start()] + dsn[result.end() :]).rstrip("?&")
    if not re.fullmatch(r"(?!pg_)[a-z_][a-z0-9_]{0,50}", schema):
        raise InputError(f"schema {schema!r}: give a name of a-z, 0-9 and _")
    try:
        conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        reason = _QUOTED.sub(lambda one: one[0] if one[1] or one[2] == "=" else '"***"', first_line(error))
        raise InputError(f"{_name(where)} is not a DSN that PostgreSQL can read: {reason}") from None
    return dsn, schema


def complete(dsn: str) -> str:
    """A DSN that has each parameter for which libpq would else look into the environment.

    Example:
        >>> complete("host=/run user=me dbname=name").split()[:4]
        ['user=me', 'dbname=name', 'host=/run', "password=''"]
    """
    parameters = conninfo_to_dict(dsn)
    for option in psycopg.pq.Conninfo.get_defaults():
        name = option.keyword.decode()
        if option.envvar and name != "service":
            parameters.setdefault(name, _NOT_BLANK.get(name, (option.compiled or b"").decode()))
    return make_conninfo("", **parameters)


@contextmanager
def without_variables() -> Iterator[None]:
    """Hide from libpq the variables that no parameter replaces, while a connection is made."""
    hidden = {name: os.environ[name] for name in _WITHOUT_PARAMETER if name in os.environ}

    def show() -> None:
        for name, value in hidden.items():
            os.putenv(name, value)

    with _environment.held() if hidden else nullcontext(), undone(show):
        for name in hidden:
            os.unsetenv(name)  # not from `os.environ`, where other threads look
        yield


def hide_password(dsn: str) -> str:
    """The DSN of `split_schema` without its password, to show in a message; a folder is shown as it is.

    Example:
        >>> hide_password("postgresql://me:secret@host/name")
        'host=host dbname=name user=me'
    """
    if dsn_of(dsn) is None:
        return dsn
    parts = conninfo_to_dict(dsn)
    shown = ("host", "port", "dbname", "user")
    return " ".join(f"{name}={parts[name]}" for name in shown if parts.get(name))


def _name(where: str) -> str:
    """Where the address came from, for a message, which does not show it because it may hold a password."""
    return "$CONTRASTIVE_ST_STORE" if where == os.environ.get("CONTRASTIVE_ST_STORE") else "the store"
