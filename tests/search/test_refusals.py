"""What a database does not do is one line at the command and a JSON error with its status over HTTP."""

import json
import os
import subprocess
import sys
from contextlib import closing

import psycopg
import pytest
from starlette.testclient import TestClient
from store_places import tcp_server, unit_vectors

from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.models.protocol import open_encoder
from contrastive_st.search.index import Refused, Unreachable
from contrastive_st.search.opening import open_index
from contrastive_st.search.postgres.database import Database, Facts, refusal
from contrastive_st.search.postgres.store import VectorStore
from contrastive_st.serve.api import IndexServed, Served, make_api

MADE = {"model": "m", "fingerprint": "f", "dimension": 8}
ERRORS = {
    psycopg.errors.QueryCanceled: 503, psycopg.errors.ReadOnlySqlTransaction: 409, psycopg.errors.DiskFull: 507,
    psycopg.errors.InsufficientPrivilege: 403, psycopg.errors.DeadlockDetected: 503, psycopg.errors.OutOfMemory: 503,
    psycopg.errors.LockNotAvailable: 503, psycopg.errors.UniqueViolation: 409, psycopg.errors.AdminShutdown: 503,
    psycopg.errors.ProgramLimitExceeded: 400, psycopg.OperationalError: 503, psycopg.errors.SyntaxError: 500,
}  # fmt: skip


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_of_the_database_has_a_status(kind, monkeypatch):
    pytest.importorskip("fastapi")

    from contrastive_st.search.exact import ExactIndex

    encoder = open_encoder()
    index = ExactIndex([1], ["a b"], encoder.encode(["a b"]), fingerprint=encoder.fingerprint)
    error = refusal(kind("host db1, port 5432"), "host=db1")
    monkeypatch.setattr(index, "search", lambda *args, **options: (_ for _ in ()).throw(error))
    model = Served(encoder)
    app = make_api({"m": model}, {"docs": IndexServed(index, model)})
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        answer = client.post("/search", json={"query": "a"})
    assert answer.status_code == ERRORS[kind]
    assert set(answer.json()) == {"error", "error_type"}
    assert "db1" not in answer.text
    assert ("retry-after" in answer.headers) == (answer.status_code == 503)
    assert isinstance(error, Refused) or kind is psycopg.errors.SyntaxError
    assert (type(error) is Unreachable) == (kind is psycopg.OperationalError)


@pytest.mark.parametrize(
    ("vector", "available", "named"),
    [("0.6.2", "0.6.2", "0.6.2"), ("0.7.4", "0.8.1", "ALTER EXTENSION"), (None, "0.5.1", "0.5.1"), (None, None, "no")],
)
def test_an_older_pgvector_is_named(vector, available, named):
    with pytest.raises(InputError, match=f"^here.*{named}.*") as caught:
        Facts("15.1", vector, available, "UTF8", "C", False, "0").check("here")
    assert "0.8" in str(caught.value)
    Facts("15.1", "0.10.0", None, "UTF8", "C", False, "0").check("here")


@pytest.fixture(scope="module")
def server():
    with tcp_server() as (_, address):
        yield address


@pytest.mark.slow
def test_a_build_lifts_the_time_limit_of_a_role(server, monkeypatch):
    address = server.format("postgres")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE ROLE hasty SUPERUSER LOGIN")
        connection.execute("ALTER ROLE hasty SET statement_timeout = '700ms'")
    build = VectorStore._build
    slow = lambda self, connection, *rest: (connection.execute("SELECT pg_sleep(1)"), build(self, connection, *rest))
    monkeypatch.setattr(VectorStore, "_build", slow)
    with VectorStore.create(server.format("hasty"), "hasty", **MADE) as store:
        store.upsert(range(9), ["a"] * 9, unit_vectors(9), None)
        store.build_index("hnsw")
        assert store.index == "hnsw"
        assert "statement_timeout 700ms" in store.database.describe()["server"]
        with pytest.raises(Refused, match="statement_timeout") as caught:
            store.database.rows("SELECT pg_sleep(1)")
        assert caught.value.status == 503


@pytest.mark.slow
def test_a_server_that_takes_no_changes(server, tmp_path, capsys):
    """As after a failover: searches are answered, and the command says before it encodes that it cannot write."""
    address = server.format("postgres")
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


@pytest.mark.slow
def test_refusals_of_a_real_server_over_http_and_on_the_page(server, tmp_path):
    """A role with a time limit that no search keeps, and one that may not write."""
    pytest.importorskip("fastapi")
    pytest.importorskip("gradio")

    from contrastive_st.serve.page import find
    from contrastive_st.serve.session import SearchSession, Source

    address = server.format("postgres")
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in (
            "CREATE DATABASE refusing",
            "CREATE ROLE impatient SUPERUSER LOGIN",
            "ALTER ROLE impatient SET statement_timeout = '400ms'",
            "CREATE ROLE visitor LOGIN",
        ):
            connection.execute(statement)
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "text": "the tide rises"}\n')
    owner, visitor, impatient = (
        server.format(role).removesuffix("postgres") + "refusing" for role in ("postgres", "visitor", "impatient")
    )
    assert main(["index", str(tmp_path / "rows.jsonl"), "--store", owner]) == 0
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute("GRANT USAGE ON SCHEMA contrastive_st TO visitor")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA contrastive_st TO visitor")
    model, body = Served(open_encoder()), {"documents": [{"id": 2, "text": "the tide falls"}]}
    headers = [{"Authorization": f"Bearer {token}"} for token in ("r", "w")]
    with open_index(visitor) as index:
        app = make_api({"m": model}, {"documents": IndexServed(index, model)}, token="r", writer="w")
        with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
            assert client.post("/search", json={"query": "tide"}, headers=headers[0]).status_code == 200
            answer = client.post("/upsert", json=body, headers=headers[1])
        assert answer.status_code == 403
        assert set(answer.json()) == {"error", "error_type"}
    with open_index(owner) as index:
        query = "SELECT pg_sleep(1)"
        index.search = lambda *args, **options: slow.rows(query)  # type: ignore[method-assign]
        with closing(Database(impatient)) as slow:
            session = SearchSession([Source("documents", index, model.encoder)])
            _, (last,) = find(session, "tide", [], 3, ["documents"], [])
    assert "cancelled the statement" in last
    assert "127.0.0.1" not in last


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_hits_are_printed_in_the_encoding_of_the_terminal(encoding, tmp_path):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"text": "Ebbe für 5 €, 日本語", "place": "Łódź"}) + "\n")
    assert main(["index", str(tmp_path / "rows.jsonl"), "-o", str(tmp_path / "shards"), "--columns", "text"]) == 0
    code = (
        "import sys; from contrastive_st.cli import main; main(sys.argv[1:]); sys.exit(main([*sys.argv[1:], '--json']))"
    )
    command = [sys.executable, "-c", code, "search", "ebbe", "--store", str(tmp_path / "shards")]
    done = subprocess.run(command, env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True, timeout=100)
    assert done.returncode == 0, done.stderr
    for part in (b"Ebbe f", b"\\u65e5", b"d\\u017a"):
        assert done.stdout.count(part) == 2
