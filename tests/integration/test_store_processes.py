"""Several at once: searchers beside a writer, indexers of one corpus, and the commands as a user runs them."""

import json
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from store_places import store_place, unit_vectors
from warm_python import python_with_package

from conftest import SENTENCES, save_both

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


def test_the_commands_from_an_empty_folder(place, bert_config, tokenizer, tmp_path, monkeypatch, capsys):
    """index and search on the embedded default; then shards of two processes, searched and loaded."""
    from contrastive_st import BertForCL
    from contrastive_st.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONTRASTIVE_ST_STORE", str(place / "default"))
    save_both(BertForCL(bert_config, pooling="mean"), tokenizer, "out/demo")
    texts = [f"{SENTENCES[i % 8]} {'and then ' * (i // 8)}".strip() for i in range(64)]
    Path("corpus.jsonl").write_text(
        "".join(json.dumps({"text": text, "row": i}) + "\n" for i, text in enumerate(texts))
    )

    def run(*arguments):
        command = [python_with_package(), "-m", "contrastive_st.cli", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done

    assert "64 of 64 rows added" in run("index", "corpus.jsonl").stderr
    found = run("search", texts[3], "-k", "3", "--filter", "row<20", "--json").stdout
    hits = [json.loads(line) for line in found.splitlines()]
    assert (hits[0]["id"], hits[0]["metadata"]) == (3, {"row": 3})
    assert hits[0]["score"] > 0.99

    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("1", "0"):
        monkeypatch.setenv("RANK", rank)
        assert main(["index", "corpus.jsonl", "-o", "shards", "--shard-rows", "16"]) == 0
    monkeypatch.delenv("WORLD_SIZE")
    assert main(["index", "shards", "--collection", "loaded"]) == 0
    capsys.readouterr()
    answers = []
    for where in (["--store", "shards"], ["--collection", "loaded"], []):
        assert main(["similar", "3", "-k", "2", *where]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1] == answers[2]
    assert answers[0].count("\n") == 4
    assert main(["search", "  "]) == 2
    assert "knows none of the tokens of ''" in capsys.readouterr().err
