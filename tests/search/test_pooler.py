"""Behind pgbouncer in transaction mode, which gives each transaction another session: all but indexing works."""

import contextlib
import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from ports import free_port
from refusals import refused, told
from store_places import new_store, unit_vectors

from contrastive_st.errors import InputError
from contrastive_st.search.opening import open_index

pytestmark = pytest.mark.slow

COUNT = 200
VECTORS = unit_vectors(COUNT)
CONFIG = """
[databases]
postgres = host=127.0.0.1 port={port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
"""


@contextlib.contextmanager
def pooler(tcp, folder):
    """pgbouncer before the server, with two sessions for all clients; its address."""
    if shutil.which("pgbouncer") is None:
        pytest.skip("pgbouncer is not installed (Debian: apt install pgbouncer)")
    own = free_port()
    port = psycopg.conninfo.conninfo_to_dict(tcp[1].format("x"))["port"]
    (folder / "pgbouncer.ini").write_text(CONFIG.format(port=port, own=own))
    account = ["-u", "nobody"] if os.geteuid() == 0 else []  # it does not run as root
    folder.parent.chmod(0o755), folder.chmod(0o755)
    process = subprocess.Popen(["pgbouncer", "-q", *account, "pgbouncer.ini"], cwd=folder, stderr=subprocess.DEVNULL)
    try:
        address, deadline = f"postgresql://postgres@127.0.0.1:{own}/postgres", time.monotonic() + 20
        while True:
            try:
                psycopg.connect(address, connect_timeout=2).close()
                break
            except psycopg.OperationalError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield address
    finally:
        process.terminate()
        process.wait()


def test_a_pooler_in_transaction_mode(tcp, tmp_path, capsys):
    with pooler(tcp, tmp_path) as address:
        direct, pooled = (f"{one}?schema=other" for one in (tcp[1].format("postgres"), address))
        with new_store(direct) as store:
            store.upsert(range(COUNT), [f"text {i}" for i in range(COUNT)], VECTORS, [{"n": i} for i in range(COUNT)])
            store.build_index("hnsw")
        with open_index(pooled) as index, ThreadPoolExecutor(6) as threads:

            def ask(i):
                if i % 5 == 0:
                    index.upsert([i], [f"text {i}"], VECTORS[[i]], [{"n": i, "again": True}])
                if i % 7 == 0:
                    index.delete([i])
                options = {"filter": {"n": [i, i + 1]}} if i % 2 else {"text": f"text {i}"} if i % 3 else {}
                return [hit.id for hit in index.search(VECTORS[i], 3, ef_search=100 + i, **options)[0]]

            found = list(threads.map(ask, range(COUNT)))
            assert all(i in found[i] for i in range(COUNT) if i % 7)
            assert len(index) == COUNT - len(range(0, COUNT, 7))
            assert len(list(index.scan(50))) == 4
            with pytest.raises(InputError, match="pgbouncer"):
                index.build_index("binary")
        with psycopg.connect(tcp[1].format("postgres")) as connection:  # nothing was left in the sessions of others
            assert connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,)
        with psycopg.connect(address, autocommit=True, prepare_threshold=None) as connection:
            for _ in range(4):
                assert connection.execute("SHOW search_path").fetchone() == ('"$user", public',)
                assert connection.execute("SHOW plan_cache_mode").fetchone() == ("auto",)
        corpus = tmp_path / "corpus.txt"
        corpus.write_text("one line\nanother line\n")
        capsys.readouterr()
        assert "is a pooler" in refused(capsys, "index", str(corpus), "--store", pooled, "--collection", "lines")
        assert "lines" not in told(capsys, "collections", "--store", pooled).out
