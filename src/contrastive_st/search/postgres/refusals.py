"""What the errors of PostgreSQL mean: one line for the command, a status for the API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from contrastive_st.errors import about, first_line
from contrastive_st.search.index import Refused, Unreachable

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
    said = f"{where}: {what}: {first_line(error)}" + (f"; {hint}" if hint else "")
    return Refused(said, status, what)
