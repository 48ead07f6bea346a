"""Erasing from the disk what was deleted from a collection, or replaced in it: tables, indices, statistics, logs."""

from __future__ import annotations

import os
import re
import time
from contextlib import closing

import psycopg
from psycopg import sql

from contrastive_st.errors import InputError
from contrastive_st.search.postgres.database import StoreConnection
from contrastive_st.search.postgres.store import VectorStore

_OTHERS = "SELECT count(*) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$' AND name <> pg_walfile_name(%s)"
_ROUNDS = 600  # segments of 16 MB that may have been kept for further use; checkpoints keep fewer than `max_wal_size`


def purge(store: VectorStore) -> None:
    """Rewrite the tables and indices of a collection, without the remains of what was deleted or replaced.

    PostgreSQL only marks such rows, and keeps their pages, samples of columns in its statistics, and its write-ahead
    log. Searches of the collection wait until it is done; a graph is built again, which takes as long as before.

    Args:
        store: the collection.

    Raises:
        InputError: an open transaction still sees rows that were deleted, or the account may not do all of it; names
            what is left.

    Example:
        >>> purge(store)  # doctest: +SKIP
    """
    now, details, left = store.now(), list[str](), list[str]()

    def read_notice(notice: psycopg.errors.Diagnostic) -> None:  # which is empty afterwards
        details.append(notice.message_detail or "")
        if notice.severity_nonlocalized == "WARNING" and not left:
            left.append(f"tables: {notice.message_primary}")

    with closing(store.database.connect(maintenance_work_mem=f"{now.graph_kilobytes(now.index)}kB")) as connection:
        connection.add_notice_handler(read_notice)
        connection.execute("SELECT pg_advisory_lock(hashtext(%s))", (f"index of {now.tables.prefix}",))
        for table in (*now.all_tables(connection), sql.Identifier(now.tables.schema, "_files")):
            if connection.value("SELECT to_regclass(%s)", (table.as_string(connection),)) is not None:
                connection.execute(sql.SQL("VACUUM (FULL, VERBOSE, ANALYZE) {}").format(table))
        if any(map(int, re.findall(r"(\d+) dead row versions cannot", " ".join(details)))):
            left.append("tables: an open transaction still sees what was deleted; end it, and purge again")
        for what, work in (("statistics of columns", _erase_statistics), ("write-ahead log", _erase_log)):
            try:
                fault = work(connection)
            except psycopg.errors.InsufficientPrivilege as error:
                fault = f"{error.diag.message_primary} (a superuser may do it)"
            left += [f"{what}: {fault}"] if fault else []
    if left:
        raise InputError(f"{store.database.shown}: purged, except for: {'; '.join(left)}")
    if store.database.server:
        os.truncate(store.database.server.pgdata / "log", 0)


def _erase_statistics(connection: StoreConnection) -> str:
    """ANALYZE has replaced the samples; this erases the former ones."""
    connection.execute("VACUUM FULL pg_catalog.pg_statistic")
    return ""


def _erase_log(connection: StoreConnection) -> str:
    """Remove the segments of the write-ahead log, also those that were kept to be written again; why it failed."""
    connection.execute("ALTER SYSTEM SET wal_recycle = off")
    try:
        connection.execute("SELECT pg_reload_conf()")
        for _ in range(_ROUNDS):
            connection.execute("SELECT pg_logical_emit_message(false, '', ''), pg_switch_wal()")
            connection.execute("CHECKPOINT")
            if connection.value(_OTHERS, (connection.value("SELECT pg_current_wal_lsn()"),)) == 0:
                return ""
            time.sleep(0.02)  # the process that removes them has not seen the setting yet
    finally:
        connection.execute("ALTER SYSTEM RESET wal_recycle")
        connection.execute("SELECT pg_reload_conf()")
    return "it is kept by a replication slot or an archive; purge it there"
