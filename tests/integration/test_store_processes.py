"""Several at once: searchers beside a writer, and indexers of one corpus."""

import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from refusals import told
from store_places import store_place, unit_vectors
from warm_python import python_with_package

WORKER = Path(__file__).parents[1] / "helpers" / "index_worker.py"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place():
    with store_place() as folder:
        yield folder


def test_sixteen_searchers_beside_a_writer(place):
    """No error, no wrong row, and no more connections than the pool has."""
    from contrastive_st.search.postgres.store import VectorStore

    count, clients, pool = 2000, 16, 5
    vectors = unit_vectors(count, 16)
    faults, most, stop = [], [0], threading.Event()
    made = {"model": "m", "fingerprint": "f", "dimension": 16, "storage": "vector"}
    connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'contrastive-st'"
    with VectorStore.create(place, "busy", **made, pool=pool) as store:
        store.upsert(range(count), [f"text {i}" for i in range(count)], vectors, [{"i": i} for i in range(count)])
        store.build_index("hnsw")

        def search(number):
            rng = np.random.default_rng(number)
            while not stop.is_set():
                i = int(rng.integers(count))
                try:
                    for hit in store.search(vectors[i], 5, filter={"i": i} if i % 3 == 0 else None)[0]:
                        right = hit.text in (f"text {hit.id}", f"again {hit.id}") and hit.metadata.get("i") == hit.id
                        near = abs(float(vectors[hit.id % count] @ vectors[i]) - hit.score) < 1e-4
                        if not (right and near):
                            faults.append(hit)
                except Exception as error:
                    faults.append(error)

        def write():
            for round in range(12):
                new = np.arange(count + 20 * round, count + 20 * round + 20)
                items = [{"i": int(i)} for i in new]
                store.upsert(new, [f"text {i}" for i in new], vectors[new % count], items)
                old = range(20 * round, 20 * round + 20)
                store.upsert(old, [f"again {i}" for i in old], vectors[list(old)], [{"i": i} for i in old])
                store.delete(new.tolist()[::2])
                most[0] = max(most[0], store.database.run(lambda c: c.execute(connections).fetchone()[0]))

        threads = [threading.Thread(target=search, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        try:
            write()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert not faults, faults[:3]
        assert 1 < most[0] <= pool
        assert len(store) == count + 120


def test_two_indexers_share_one_corpus(place):
    """Neither knows of the other: each row is there once, and both did some."""
    command = [python_with_package(), str(WORKER), str(place / "two"), "1500", "0.1"]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [worker.communicate(timeout=600) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], outputs
    encoded = [int(output.split("encoded=")[1].split(",")[0]) for output, _ in outputs]
    assert sum(encoded) == 1500
    assert min(encoded) > 0
    from contrastive_st.search.postgres.store import VectorStore

    with VectorStore(place / "two", fingerprint="hash") as store:
        assert np.concatenate([batch[0] for batch in store.scan()]).tolist() == list(range(1500))
        assert store.index == "hnsw"


def test_two_processes_share_the_shards_of_a_folder(tmp_path, monkeypatch, capsys):
    from contrastive_st.cli import main

    (tmp_path / "corpus.txt").write_text("".join(f"line {i} of {i % 7}\n" for i in range(64)))
    command = ["index", str(tmp_path / "corpus.txt"), "-m", "static-minilm", "--shard-rows", "16", "-o"]
    answers = []
    for folder, world, ranks in (("two", "2", "10"), ("one", "1", "0")):
        monkeypatch.setenv("WORLD_SIZE", world)
        for rank in ranks:
            monkeypatch.setenv("RANK", rank)
            assert main([*command, str(tmp_path / folder)]) == 0
        capsys.readouterr()
        answers.append(told(capsys, "similar", "3", "-k", "60", "--store", tmp_path / folder).out)
    assert answers[0] == answers[1]
