"""A store is where its address says: nothing in the environment, no other schema and no fork makes it another one."""

import json
import multiprocessing
import os
import random
import subprocess
import sys

import psycopg
import pytest
from refusals import refused
from store_places import new_store, store_place, tcp_server, unit_vectors
from warm_python import python_with_package

from contrastive_st.errors import InputError
from contrastive_st.search.postgres.dsn import _WITHOUT_PARAMETER, complete
from contrastive_st.search.postgres.server import EmbeddedServer
from contrastive_st.search.postgres.store import VectorStore

pytestmark = pytest.mark.slow
VARIABLES = sorted(
    {option.envvar.decode() for option in psycopg.pq.Conninfo.get_defaults() if option.envvar}
    | {*_WITHOUT_PARAMETER, "PGSERVICEFILE", "PGSYSCONFDIR", "PGLOCALEDIR", "PGREQUIRESSL", "PGDATA"}
)
SESSION = """
import json, sys
from contrastive_st.cli import main
folder, corpus = sys.argv[1:]
at = ["--store", folder]
assert main(["index", corpus, *at, "--quiet", "--sync", "--split_into", "files"]) == 0
for query in ("tide", "rain"):
    assert main(["search", query, *at, "--json", "--quiet"]) == 0
assert main(["delete", "documents", "--filter", "n=2", "--yes", *at]) == 0
assert main(["search", "tide", "--hybrid", *at, "--json", "--quiet"]) == 0
assert main(["index", corpus, *at, "--quiet", "--restore"]) == 0
assert main(["collections", *at]) == 0
"""


@pytest.fixture
def place():
    with store_place() as folder:
        yield folder


@pytest.fixture(scope="module")
def other():
    """Another server, in which nothing must ever be written, and its environment."""
    with tcp_server() as (_, address):
        port = psycopg.conninfo.conninfo_to_dict(address.format("x"))["port"]
        yield address.format("postgres"), {"PGHOST": "localhost", "PGHOSTADDR": "127.0.0.1", "PGPORT": port}


def _answers(place, environment, executable=sys.executable):
    code = [executable, "-c", SESSION, str(place), str(place / "rows.jsonl")]
    done = subprocess.run(code, env={**os.environ, **environment}, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stdout


def test_no_environment_moves_a_store_or_changes_its_answers(place, other, tmp_path):
    rows = [{"id": i, "text": f"the {word} of day {i}", "n": i} for i, word in enumerate(["tide", "rain", "sun"])]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = _answers(place, {}, python_with_package())
    assert expected.count(b'"score"') == 8
    drawn = random.Random(7)
    strange = ["nowhere", "", "0", "-c statement_timeout=1", "require", str(tmp_path), "Mars/Crater", "LATIN1"]
    for _ in range(int(os.environ.get("CONTRASTIVE_ST_DRAWS", "1"))):
        environment = dict.fromkeys(VARIABLES, "nowhere")
        environment |= {name: drawn.choice(strange) for name in drawn.sample(VARIABLES, len(VARIABLES) // 2)}
        environment |= {name: value for name, value in other[1].items() if drawn.random() < 0.7}
        environment |= {"TMPDIR": drawn.choice([str(tmp_path), "/nowhere"]), "LC_ALL": drawn.choice(["C", "POSIX"])}
        environment["PYTHONIOENCODING"] = drawn.choice(["ascii", "cp1252", "utf-8"])
        with EmbeddedServer(place):
            assert _answers(place, environment) == expected, environment
    with psycopg.connect(other[0]) as connection:
        assert connection.execute("SELECT to_regnamespace('contrastive_st')").fetchone() == (None,)


def test_every_parameter_of_libpq_has_a_value_that_it_takes(place):
    """Also those of a newer libpq: with a name that is not known here, a connection fails."""
    with EmbeddedServer(place) as server:
        psycopg.connect(complete(server.dsn)).close()


def test_another_folder_for_temporary_files_finds_the_server_that_runs(place, tmp_path, monkeypatch):
    deep = place / ("d" * 90)
    with EmbeddedServer(deep) as first:
        assert len(os.fsencode(first.socket)) < 85, "a long path gets a short socket"
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        with EmbeddedServer(deep) as second:
            assert second.socket == first.socket
    first.socket.rmdir()


def test_a_server_of_an_earlier_version_is_found_where_it_listens(place):
    """Its socket was in $TMPDIR; it may listen on another port, too."""
    with EmbeddedServer(place) as server:
        new_store(place, "docs").close()
    elsewhere = server.pgdata / "base"  # a folder that its account may write to
    options = f"-k {elsewhere} -p 5499"
    server._run(server.pgdata, "pg_ctl", "-D", ".", "-l", "log", "-o", options, "-w", "start")
    with VectorStore(place, "docs") as store:
        assert store.database.server.socket == elsewhere
        assert store.count() == 0


def test_a_server_of_another_folder_is_not_taken_for_it(place):
    with EmbeddedServer(place / "one") as one, EmbeddedServer(place / "two") as two:
        lines = (two.pgdata / "postmaster.pid").read_text().split("\n")
        lines[4] = str(one.socket)
        (two.pgdata / "postmaster.pid").write_text("\n".join(lines))
        try:
            with pytest.raises(InputError, match=str(one.pgdata)):
                two.ensure_running()
        finally:
            lines[4] = str(two.pgdata)
            (two.pgdata / "postmaster.pid").write_text("\n".join(lines))


def test_two_schemas_of_a_database_do_not_share_locks(other):
    address = other[0]
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE DATABASE tenants")
    tenants = [f"{address.removesuffix('postgres')}tenants?schema={name}" for name in ("tenant_a", "tenant_b")]
    stores = [new_store(tenant, "docs") for tenant in tenants]
    loaders = [store.loader("rows", "f") for store in stores]
    assert [loader.claim(0) for loader in loaders] == [True, True]
    again = stores[0].loader("rows", "f")
    assert not again.claim(0)
    stores[1].drop(only_unused=True)  # its loader holds the lock
    assert "docs" in VectorStore.names(stores[1].database)
    loaders[1].close()
    stores[1].drop(only_unused=True)
    assert "docs" not in VectorStore.names(stores[1].database)
    for one in (*loaders, again, *stores):
        one.close()


def _search(store, queue):
    queue.put([hit.id for hit in store.search(unit_vectors(5)[3], 1)[0]])


def test_a_forked_process_has_connections_of_its_own(place):
    context = multiprocessing.get_context("fork")
    with new_store(place, "docs") as store:
        store.upsert(range(5), ["a"] * 5, unit_vectors(5), None)
        queue = context.Queue()
        children = [context.Process(target=_search, args=(store, queue)) for _ in range(3)]
        for child in children:
            child.start()
        for _ in range(20):
            _search(store, queue)
        assert [queue.get(timeout=60) for _ in range(23)] == [[3]] * 23
        for child in children:
            child.join(30)
            assert child.exitcode == 0
        assert store.count() == 5
    assert not (place / "pgdata" / "postmaster.pid").exists()


def test_a_forked_process_that_lives_on_does_not_keep_others_out(place):
    server = EmbeddedServer(place)
    child = multiprocessing.get_context("fork").Process(target=lambda: __import__("time").sleep(60))
    child.start()
    server.close()
    with EmbeddedServer(place):
        pass
    child.kill()
    child.join()


def test_the_address_in_messages_is_complete(other, capsys, monkeypatch):
    monkeypatch.setenv("PGUSER", "postgres")
    address = f"host=127.0.0.1 port={other[1]['PGPORT']} dbname=postgres"
    assert f"{address} user=postgres" in refused(capsys, "search", "tide", "--store", address)
