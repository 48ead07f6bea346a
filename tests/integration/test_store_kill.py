"""kill -9 of the indexer, of the database and of both: every row is there once, and search answers as if nothing was.

`CONTRASTIVE_ST_KILLS=100 pytest -s tests/integration/test_store_kill.py` kills a hundred times instead of three, and
prints each kill.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from store_places import postmaster, store_place

WORKER = Path(__file__).parents[1] / "helpers" / "index_worker.py"
KILLS = int(os.environ.get("CONTRASTIVE_ST_KILLS", "3"))
COUNT = 2000 + 500 * KILLS  # a shard has 50


def rows_there(folder):
    import psycopg

    with (
        contextlib.suppress(psycopg.Error),
        psycopg.connect(f"postgresql://postgres@/postgres?host={folder}/pgdata") as c,
    ):
        return c.execute("SELECT count(*), coalesce(max(source), 0) FROM contrastive_st.shards").fetchone()[0]
    return 0


def wait_for(folder, worker, shards):
    deadline = time.monotonic() + 300
    while worker.poll() is None and rows_there(folder) < shards and time.monotonic() < deadline:
        time.sleep(0.01)
    assert worker.poll() is None, worker.communicate()


@pytest.mark.slow
def test_no_row_is_lost_or_there_twice():
    sys.path.insert(0, str(WORKER.parent))
    from index_worker import SHARD_ROWS, HashEncoder, create, texts

    from contrastive_st.search.exact import ExactIndex

    moments = random.Random(4)
    killed = []
    with store_place() as folder:
        command = [sys.executable, str(WORKER), str(folder), str(COUNT), "0.06"]
        there = 0
        for number in range(KILLS):
            worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            wait_for(folder, worker, there + moments.randint(0, 8))  # a moment within the work, not within the start
            time.sleep(moments.random() * 0.1)
            what = ("indexer", "database", "both")[number % 3]
            if what != "indexer":
                there = rows_there(folder)
                os.kill(postmaster(folder), signal.SIGKILL)
            if what == "database":  # the indexer brings it up again and goes on
                wait_for(folder, worker, there + 2)
            worker.kill()
            worker.communicate()
            there = max(there, rows_there(folder))
            killed.append((what, there))
            print(f"kill {number + 1} of {KILLS}: {what}, {there} shards there", flush=True)
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        assert f"rows={COUNT}, complete=True" in done.stdout
        print(f"{KILLS} kills survived: {done.stdout}")
        assert killed[-1][1] < COUNT // SHARD_ROWS, "the last kill came too late to tell anything"
        with create(folder) as store:
            batches = list(store.scan())
            assert np.concatenate([batch[0] for batch in batches]).tolist() == list(range(COUNT))
            assert [text for batch in batches for text in batch[1]] == texts(COUNT)
            count = store.database.run(
                lambda c: c.execute("SELECT sum(rows), count(*) FROM contrastive_st.shards").fetchone()
            )
            assert count == (COUNT, COUNT // SHARD_ROWS)
            vectors = HashEncoder().encode(texts(COUNT))
            queries = vectors[::100] + 0.1
            undisturbed = ExactIndex(np.arange(COUNT), texts(COUNT), vectors).search(queries, 10)
            wanted = [[hit.id for hit in hits] for hits in undisturbed]
            for exact in (True, None):
                found = store.search(queries, 10, exact=exact, ef_search=1000)
                assert [[hit.id for hit in hits] for hits in found] == wanted
