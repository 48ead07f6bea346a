"""The rows of a user's query as cells by column, read from the server of a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import psycopg

from contrastive_st.errors import InputError, first_line
from contrastive_st.search.postgres.database import translated
from contrastive_st.search.postgres.dsn import dsn_of, hide_password, split_schema

_BATCH = 2000  # rows that are fetched at a time
_SETTINGS = """SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO'; SET LOCAL intervalstyle = 'postgres';
    SET LOCAL extra_float_digits = 1"""  # a role or the environment may have others: whoever asks reads the same
_DATES = 1082, 1114, 1184  # oids of date, timestamp and timestamptz, of whose values Python does not have all


def query_rows(where: str, query: str) -> Iterator[dict[str, object]]:
    """Yield the rows of a SELECT, in one transaction that writes nothing.

    Args:
        where: a DSN, as of a store.
        query: the statement.

    Returns:
        The cells of each row, by column.

    Raises:
        InputError: the address is not a DSN, the statement or a cell is at fault, or two columns have one name.
    """
    dsn, _ = split_schema(where)
    shown = hide_password(dsn)
    if dsn_of(dsn) is None:
        raise InputError(f"--query reads from a server: give --store postgresql://..., not {where}")
    with (
        translated(shown),
        psycopg.connect(dsn, client_encoding="UTF8", application_name="contrastive-st") as connection,
    ):
        connection.read_only, connection.isolation_level = True, psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute(_SETTINGS)
        cursor = connection.cursor("contrastive_st_query", row_factory=psycopg.rows.dict_row)
        cursor.itersize = _BATCH
        try:
            cursor.execute(query.strip().rstrip(";").encode())
        except psycopg.ProgrammingError as error:
            raise InputError(f"--query: {first_line(error)}") from error
        names = Counter(column.name for column in cursor.description or ())
        if twice := [name for name, count in names.items() if count > 1]:
            raise InputError(f"--query: two columns are named {twice[0]}; give one another name with AS")
        try:
            yield from cursor
        except psycopg.DataError as error:
            dates = [column.name for column in cursor.description or () if column.type_code in _DATES]
            what = "" if error.sqlstate or not dates else f"; select {' or '.join(dates)} as text: {dates[0]}::text"
            raise InputError(f"--query: {first_line(error)}{what}") from error
