"""SQL for the administrator of a database: the store, and a role for each of reading, writing and setting it up."""

from __future__ import annotations

from textwrap import dedent

from contrastive_st.search.postgres.schema import TABLES, VERSION

_HEAD = """\
-- {what}
-- Run by a superuser:  contrastive-st database --sql {role} | psql --set ON_ERROR_STOP=1 --single-transaction DSN
DO $$ BEGIN IF to_regrole('{schema}_{role}') IS NULL THEN CREATE ROLE {schema}_{role} NOLOGIN; END IF; END $$;
"""
_OWNER = """\
CREATE EXTENSION IF NOT EXISTS vector;
CREATE SCHEMA IF NOT EXISTS {schema} AUTHORIZATION {schema}_owner;
SET LOCAL ROLE {schema}_owner;
SET LOCAL search_path = {schema};
{tables}
INSERT INTO migrations (version) VALUES ({version});
RESET ROLE;
-- A login of it:
--   CREATE ROLE keeper LOGIN PASSWORD '...' IN ROLE {schema}_owner;  ALTER ROLE keeper SET role = {schema}_owner;
"""
_WRITER = """\
GRANT {schema}_writer TO {schema}_owner;  -- so that the owner can change the tables that writers make
GRANT USAGE, CREATE ON SCHEMA {schema} TO {schema}_writer;  -- each collection has its tables and its view
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {schema}_writer;
REVOKE INSERT, UPDATE, DELETE ON {schema}.migrations FROM {schema}_writer;
ALTER DEFAULT PRIVILEGES FOR ROLE {schema}_owner IN SCHEMA {schema}
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {schema}_writer;
DO $$ BEGIN EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO {schema}_writer', current_database()); END $$;
-- A login of it, whose collections every writer may change:
--   CREATE ROLE indexer LOGIN PASSWORD '...' IN ROLE {schema}_writer;  ALTER ROLE indexer SET role = {schema}_writer;
"""
_READER = """\
GRANT USAGE ON SCHEMA {schema} TO {schema}_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {schema}_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE {schema}_owner, {schema}_writer IN SCHEMA {schema}
    GRANT SELECT ON TABLES TO {schema}_reader;
-- A login of it:  CREATE ROLE searcher LOGIN PASSWORD '...' IN ROLE {schema}_reader;
"""
_SCRIPTS = {
    "owner": ("The store, version {version}, in schema {schema}, and its role.", _OWNER),
    "writer": ("Who fills collections. After the script of the owner.", _WRITER),
    "reader": ("Who searches, with SELECT alone. After the script of the writer.", _READER),
}


def script(role: str, schema: str) -> str:
    """The SQL that makes a role, and for the owner the store.

    Args:
        role: `owner`, `writer` or `reader`.
        schema: the schema of the store, which is the beginning of the names of the roles.

    Returns:
        Statements, with comments.
    """
    what, body = _SCRIPTS[role]
    names = {"role": role, "schema": schema, "version": VERSION, "tables": dedent(TABLES).strip()}
    return _HEAD.format(what=what.format(**names), **names) + body.format(**names)
