"""What a database does not do is one line at the command and a JSON error with its status over HTTP."""

import json
import os
import subprocess
import sys
from contextlib import closing

import psycopg
import pytest
from search_fakes import client_of
from store_places import new_store, unit_vectors

from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.models.protocol import open_encoder
from contrastive_st.search.index import Refused, Unreachable
from contrastive_st.search.opening import open_index
from contrastive_st.search.postgres.database import Database, Facts, refusal
from contrastive_st.search.postgres.store import VectorStore
from contrastive_st.serve.page import find
from contrastive_st.serve.session import SearchSession, Source

ERRORS = {
    psycopg.errors.QueryCanceled: 503, psycopg.errors.ReadOnlySqlTransaction: 409, psycopg.errors.DiskFull: 507,
    psycopg.errors.InsufficientPrivilege: 403, psycopg.errors.DeadlockDetected: 503, psycopg.errors.OutOfMemory: 503,
    psycopg.errors.LockNotAvailable: 503, psycopg.errors.UniqueViolation: 409, psycopg.errors.AdminShutdown: 503,
    psycopg.errors.ProgramLimitExceeded: 400, psycopg.OperationalError: 503, psycopg.errors.SyntaxError: 500,
}  # fmt: skip


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_of_the_database_has_a_status(kind, monkeypatch):
    """And a line on the page; neither says where the database is."""
    pytest.importorskip("fastapi")

    from contrastive_st.search.exact import ExactIndex

    encoder = open_encoder()
    index = ExactIndex([1], ["a b"], encoder.encode(["a b"]), fingerprint=encoder.fingerprint)
    error = refusal(kind("host db1, port 5432"), "host=db1")
    monkeypatch.setattr(index, "search", lambda *args, **options: (_ for _ in ()).throw(error))
    with client_of(index, encoder) as client:
        answer = client.post("/search", json={"query": "a"})
    assert answer.status_code == ERRORS[kind]
    assert set(answer.json()) == {"error", "error_type"}
    assert "db1" not in answer.text
    assert ("retry-after" in answer.headers) == (answer.status_code == 503)
    assert isinstance(error, Refused) or kind is psycopg.errors.SyntaxError
    assert (type(error) is Unreachable) == (kind is psycopg.OperationalError)
    if isinstance(error, Refused):
        _, (shown,) = find(SearchSession([Source("docs", index, encoder)]), "a", [], 3, ["docs"], [])
        assert 'role="alert"' in shown
        assert "db1" not in shown


@pytest.mark.parametrize(
    ("vector", "available", "named"),
    [("0.6.2", "0.6.2", "0.6.2"), ("0.7.4", "0.8.1", "ALTER EXTENSION"), (None, "0.5.1", "0.5.1"), (None, None, "no")],
)
def test_an_older_pgvector_is_named(vector, available, named):
    with pytest.raises(InputError, match=f"^here.*{named}.*") as caught:
        Facts("15.1", vector, available, "UTF8", "C", False, "0").check("here")
    assert "0.8" in str(caught.value)
    Facts("15.1", "0.10.0", None, "UTF8", "C", False, "0").check("here")


@pytest.mark.slow
def test_a_build_lifts_the_time_limit_of_a_role(tcp, monkeypatch):
    address = tcp[1].format("postgres")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE ROLE hasty SUPERUSER LOGIN")
        connection.execute("ALTER ROLE hasty SET statement_timeout = '300ms'")
    build = VectorStore._build
    slow = lambda self, connection, *rest: (connection.execute("SELECT pg_sleep(0.4)"), build(self, connection, *rest))
    monkeypatch.setattr(VectorStore, "_build", slow)
    with new_store(tcp[1].format("hasty"), "hasty") as store:
        store.upsert(range(9), ["a"] * 9, unit_vectors(9), None)
        store.build_index("hnsw")
        assert store.index == "hnsw"
        assert "statement_timeout 300ms" in store.database.describe()["server"]
        with pytest.raises(Refused, match="statement_timeout") as caught:
            store.database.rows("SELECT pg_sleep(0.4)")
        assert caught.value.status == 503


@pytest.mark.slow
def test_a_server_that_takes_no_changes(tcp, tmp_path, capsys):
    """As after a failover: searches are answered, and the command says before it encodes that it cannot write."""
    address = tcp[1].format("postgres")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE DATABASE standby")
    standby = address.removesuffix("postgres") + "standby"
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": 1, "text": "the tide rises"}\n')
    assert main(["index", str(rows), "--store", standby]) == 0
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("ALTER DATABASE standby SET default_transaction_read_only = on")
    rows.write_text('{"id": 1, "text": "the tide falls"}\n')
    capsys.readouterr()
    assert main(["search", "tide", "--store", standby]) == 0
    for command in (["index", str(rows)], ["delete", "documents", "--filter", "(id)=1", "--yes"]):
        assert main([*command, "--store", standby]) == 2
        shown = capsys.readouterr().err
        assert "read-only" in shown.splitlines()[-1]
        assert "added" not in shown
    with open_index(standby) as index, pytest.raises(Refused) as caught:
        index.set_metadata(1, {})
    assert caught.value.status == 409
    with closing(Database(standby)) as database:
        assert "read-only" in database.describe()["server"]


def test_hits_are_printed_in_the_encoding_of_the_terminal(tmp_path):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"text": "Ebbe für 5 €, 日本語", "place": "Łódź"}) + "\n")
    assert main(["index", str(tmp_path / "rows.jsonl"), "-o", str(tmp_path / "shards"), "--columns", "text"]) == 0
    code = (
        "import sys; from contrastive_st.cli import main; main(sys.argv[1:]); sys.exit(main([*sys.argv[1:], '--json']))"
    )
    command = [sys.executable, "-c", code, "search", "ebbe", "--store", str(tmp_path / "shards")]
    done = subprocess.run(command, env={**os.environ, "PYTHONIOENCODING": "cp1252"}, capture_output=True, timeout=100)
    assert done.returncode == 0, done.stderr
    for part in (b"Ebbe f", b"\\u65e5", b"d\\u017a"):
        assert done.stdout.count(part) == 2
