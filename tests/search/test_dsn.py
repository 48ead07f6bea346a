"""Addresses of a database in their usual spellings, and databases whose settings are not the embedded server's."""

import threading
import time

import psycopg
import pytest
from refusals import error_of, refused
from store_places import new_store, unit_vectors

from contrastive_st import doctor
from contrastive_st.cli import main
from contrastive_st.search.index import Unreachable
from contrastive_st.search.postgres import database as module
from contrastive_st.search.postgres.database import Database
from contrastive_st.search.postgres.dsn import dsn_of, hide_password, split_schema
from contrastive_st.search.postgres.store import VectorStore

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("postgresql+psycopg://u:pw@h/d", "postgresql://u:pw@h/d"),
        ("PostgreSQL://u:pw@h/d", "postgresql://u:pw@h/d"),
        ("pgsql://u:pw@h/d", "postgresql://u:pw@h/d"),
        ("jdbc:postgresql://h/d?user=u&password=pw", "postgresql://h/d?user=u&password=pw"),
        ("'postgresql://u:pw@h/d'\n", "postgresql://u:pw@h/d"),
        (" postgres://u:pw@h/d", "postgresql://u:pw@h/d"),
        ("sslmode=prefer host=h dbname=d user=u password=pw", "sslmode=prefer host=h dbname=d user=u password=pw"),
        ("application_name=http://a host=h dbname=d user=u", "application_name=http://a host=h dbname=d user=u"),
        ("schema=s  host=h dbname=d user=u", "host=h dbname=d user=u"),
    ],
)
def test_a_dsn_in_any_spelling(given, wanted):
    dsn, schema = split_schema(given)
    assert dsn.strip() == wanted
    assert schema == ("s" if "schema" in given else "contrastive_st")
    assert hide_password(dsn) == "host=h dbname=d user=u"


@pytest.mark.parametrize("folder", ["store", "./host=x", "/a dbname=b", "lang=en", "my store", "~/x=y host=z"])
def test_a_folder(folder):
    assert dsn_of(folder) is None
    assert split_schema(folder) == (folder, "contrastive_st")


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("mysql://u:secret@h/d", "is a URL, but not of PostgreSQL"),
        ("postgresql://u:secret@h/d?pgbouncer=true&connection_limit=5", 'invalid URI query parameter: "pgbouncer"'),
        ("host=h pasword=secret", 'invalid connection option "pasword"'),
        ("postgresql://u:secret%zz@h/d", 'invalid percent-encoded token: "***"'),
        ("host=h password=my secret", 'missing "=" after "***"'),
    ],
)
def test_an_address_that_cannot_be_read(given, line, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONTRASTIVE_ST_STORE", given)
    assert main(["search", "a query"]) == 2
    assert main(["collections", "--store", f" {given}"]) == 2
    shown = capsys.readouterr().err
    for told, name in zip(shown.splitlines(), ("$CONTRASTIVE_ST_STORE", "the store"), strict=True):
        assert told.startswith(f"error: {name} is")
        assert line in told
    assert "secret" not in shown + dict(doctor.facts())["PostgreSQL"]
    assert not list(tmp_path.iterdir())


@pytest.fixture
def database(tcp):
    """The address of a new database, made with these options."""
    made = []

    def make(options=""):
        made.append(f"made_{len(made)}")
        owner = tcp[1].format("postgres")
        with psycopg.connect(owner, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {made[-1]}")
            connection.execute(f"CREATE DATABASE {made[-1]} TEMPLATE template0 {options}")
        return owner.removesuffix("postgres") + made[-1]

    return make


def test_texts_do_not_pass_through_the_encoding_of_the_client(database, monkeypatch):
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    texts = ["größe", "日本語"]
    with new_store(f"{database()}?client_encoding=WIN1252", "docs") as store:
        store.upsert([1, 2], texts, unit_vectors(2), [{"kind": text} for text in texts])
        assert [hit.text for hit in store.get([1, 2])] == texts
        assert store.search(unit_vectors(2)[1], 1, filter={"kind": "日本語"}, text="日本語")[0][0].text == "日本語"


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_does_not_hold_every_text(database, encoding, capsys):
    address = database(f"ENCODING '{encoding}' LOCALE_PROVIDER libc LOCALE 'C'")
    for command in (["index", "examples/data/documents.jsonl"], ["collections"], ["search", "a query"]):
        assert f"has the encoding {encoding}" in error_of(capsys, *command, "--store", address)


@pytest.mark.parametrize("path", ["", "?options=-csearch_path%3D", "?options=-csearch_path%3D%24user"])
def test_pgvector_in_another_schema(database, path):
    address = database()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "My extensions"')
        connection.execute('CREATE EXTENSION vector SCHEMA "My extensions"')
    with new_store(address + path, "docs") as store:
        store.upsert(range(9), ["a"] * 9, unit_vectors(9), [{}] * 9)
        for index in ("hnsw", "binary"):
            store.build_index(index)
            assert store.search(unit_vectors(9)[3], 1)[0][0].id == 3


def test_an_extension_out_of_reach_is_told_at_once(database):
    address, started = database(), time.monotonic()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA hidden")
        connection.execute("CREATE EXTENSION vector SCHEMA hidden")
        Database(address, setup=True).close()
        connection.execute("DROP ROLE IF EXISTS outsider")
        connection.execute("CREATE ROLE outsider LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA contrastive_st TO outsider")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA contrastive_st TO outsider")
        with pytest.raises(psycopg.ProgrammingError, match="vector"):
            Database(address.replace("postgres@", "outsider@"))
        connection.execute("DROP OWNED BY outsider")
        connection.execute("DROP ROLE outsider")
    assert time.monotonic() - started < 30


def test_an_error_of_postgresql_comes_with_its_hint(database, capsys):
    address = database()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE ROLE newcomer LOGIN")
    line = refused(capsys, "database", "--setup", "--store", address.replace("postgres@", "newcomer@"))
    assert 'permission denied to create extension "vector"; Must ' in line


def test_a_server_that_is_down_is_told_soon_and_found_again(tcp, monkeypatch):
    monkeypatch.setattr(module, "_SOON", 0.3)
    running, address = tcp[0], tcp[1].format("postgres")
    new_store(address, "docs").close()
    with VectorStore(address, "docs", patience=0.3) as store:
        store.upsert([1], ["a"], unit_vectors(1), [{}])
        running._run(running.pgdata, "pg_ctl", "-D", ".", "-m", "fast", "-w", "stop")
        started = time.monotonic()
        for _ in range(2):  # with a connection that broke, and with none
            with pytest.raises(Unreachable, match="answer"):
                store.count()
        assert time.monotonic() - started < 20
        running.ensure_running()
        assert store.count() == 1


def test_work_waits_for_a_server_that_is_restarted(tcp, monkeypatch):
    monkeypatch.setattr(module, "_SOON", 0.3)
    running, address = tcp[0], tcp[1].format("postgres")
    with new_store(address, "restarted") as store:
        running._run(running.pgdata, "pg_ctl", "-D", ".", "-m", "fast", "-w", "stop")
        later = threading.Timer(1, running.ensure_running)
        later.start()
        store.upsert([1], ["a"], unit_vectors(1), [{}])
        later.join()
        assert store.count() == 1
