"""The store in PostgreSQL against exact search: one embedded server for all tests here."""

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor, TimeoutError as NotYet
from contextlib import closing

import numpy as np
import pytest
import torch
from refusals import refusal
from store_places import new_store, unit_vectors

from contrastive_st.errors import InputError, one_line
from contrastive_st.search.exact import ExactIndex
from contrastive_st.search.filters import as_filter
from contrastive_st.search.index import Unreachable
from contrastive_st.search.opening import open_index
from contrastive_st.search.postgres.database import Database
from contrastive_st.search.postgres.loader import StoreLoader
from contrastive_st.search.postgres.schema import VERSION
from contrastive_st.search.postgres.store import VectorStore

pytestmark = pytest.mark.slow

COUNT = 400
VECTORS = unit_vectors(COUNT)
TEXTS = [f"document {i} of the {'old' if i % 3 else 'new'} town" for i in range(COUNT)]
METADATA = [{"parity": i % 2, "n": i, "tags": ["a", f"t{i % 7}"], "name": f'it\'s "{i}"'} for i in range(COUNT)]
EXACT = ExactIndex(np.arange(COUNT), TEXTS, VECTORS, METADATA, "f")
QUERIES = unit_vectors(5, seed=9)


@pytest.fixture(scope="module")
def stores(place):
    """The same documents in both storages, with each kind of index, and with three partitions."""
    made = {}
    for name, storage, partitions, index in (
        ("plain", "vector", 1, "none"),
        ("half", "halfvec", 1, "hnsw"),
        ("parts", "vector", 3, "hnsw"),
        ("bits", "halfvec", 2, "binary"),
    ):
        store = new_store(place, name, storage=storage, partitions=partitions, pool=2)
        store.upsert(range(COUNT), TEXTS, VECTORS, METADATA)
        store.build_index(index)
        made[name] = store
    yield made
    for store in made.values():
        store.close()


@pytest.fixture(params=["plain", "half", "parts", "bits"])
def store(stores, request):
    return stores[request.param]


def ids(hits):
    return [hit.id for hit in hits]


@pytest.mark.parametrize(
    "filter",
    [None, {"parity": 1}, {"n": {">=": 100, "<": 120}}, {"tags": ["t1", "t2"]}, {"name": 'it\'s "7"'}, {"n": -1}],
)
def test_search_is_exact_search(store, filter):
    for exact in (None, True):
        found = store.search(QUERIES, 5, filter=filter, exact=exact, ef_search=400)
        for hits, wanted in zip(found, EXACT.search(QUERIES, 5, filter=filter), strict=True):
            assert ids(hits) == ids(wanted)
            np.testing.assert_allclose([hit.score for hit in hits], [hit.score for hit in wanted], atol=2e-3)
            assert [(hit.text, hit.metadata) for hit in hits] == [(hit.text, hit.metadata) for hit in wanted]


def test_an_index_is_used_and_may_be_passed_by(stores):
    half, plain = stores["half"], stores["plain"]
    explain = "EXPLAIN SELECT text FROM contrastive_st.half ORDER BY embedding <=> %s::halfvec LIMIT 3"
    vector = str(QUERIES[0].tolist())

    def plan(connection):
        connection.execute("SET enable_seqscan = off")  # the table is tiny; a large one needs no word
        rows = connection.execute(explain, (vector,)).fetchall()
        connection.execute("RESET enable_seqscan")
        return "\n".join(row[0] for row in rows)

    assert "half_vectors_0_embedding_idx" in half.database.run(plan) or "Index Scan" in half.database.run(plan)
    assert half.database.run(lambda c: half._plan(c, as_filter(None), None, 50)) == ("hnsw", 50)
    assert half.database.run(lambda c: half._plan(c, as_filter(None), True, 50))[0] == "none"
    assert half.database.run(lambda c: half._plan(c, as_filter({"parity": 1}), None, 50))[0] == "none"  # few match
    assert plain.database.run(lambda c: plain._plan(c, as_filter(None), None, 50))[0] == "none"


@pytest.mark.parametrize(("name", "kind"), [("half", "hnsw"), ("bits", "binary")])
def test_a_filter_that_leaves_many_scans_the_index(stores, monkeypatch, name, kind):
    from contrastive_st.search.postgres import store as module

    monkeypatch.setattr(module, "EXACT_ROWS", 10)
    store = stores[name]
    index, ef = store.database.run(lambda c: store._plan(c, as_filter({"parity": 1}), None, 50))
    assert index == kind
    assert 100 <= ef <= 400
    found = store.search(QUERIES, 5, filter={"parity": 1})
    assert [ids(hits) for hits in found] == [ids(hits) for hits in EXACT.search(QUERIES, 5, filter={"parity": 1})]


def test_plain_sql_stays_plain(stores):
    statement = "SELECT id FROM contrastive_st.plain ORDER BY embedding <=> %s::vector LIMIT 4"
    rows = stores["plain"].database.run(lambda c: c.execute(statement, (str(QUERIES[0].tolist()),)).fetchall())
    assert [id for (id,) in rows] == ids(EXACT.search(QUERIES[0], 4)[0])


def test_similar_get_scan(store):
    assert ids(store.similar(7, 100_000))[:5] == ids(EXACT.similar(7, 5))
    assert ids(store.similar(7, 5, filter={"parity": 0})) == ids(EXACT.similar(7, 5, filter={"parity": 0}))
    assert [hit.text for hit in store.get([9, 3])] == [TEXTS[9], TEXTS[3]]
    assert math.isnan(store.get([3])[0].score)
    batches = list(store.scan(150))
    assert [len(batch[0]) for batch in batches] == [150, 150, 100]
    assert np.concatenate([batch[0] for batch in batches]).tolist() == list(range(COUNT))
    np.testing.assert_allclose(np.concatenate([batch[3] for batch in batches]), VECTORS, atol=1e-3)
    assert len(store) == COUNT


def test_an_upsert_leaves_equal_vectors_alone(stores):
    half = stores["half"]
    place = "SELECT ctid::text FROM contrastive_st.half_vectors WHERE id = 5"
    before = half.database.rows(place)
    half.upsert([5], ["new text"], VECTORS[5:6], [{"new": True}])
    assert half.database.rows(place) == before
    half.upsert([5], [TEXTS[5]], VECTORS[5:6], [METADATA[5]])


def test_a_graph_gets_the_memory_that_it_takes_and_one_that_has_too_little_is_warned_of(place, caplog):
    count = 3000
    vectors = np.random.default_rng(0).normal(size=(count, 8))
    with new_store(place, "grown") as store:
        store.upsert(range(count), ["a"] * count, vectors)
        assert store.build_index("hnsw") > 2**20
        assert not caplog.records
        store.build_index("none")
        store.build_index("hnsw", memory="1MB", workers=0)  # 3,000 rows take 2.4 MB
        [record] = caplog.records
        assert "no longer fits into maintenance_work_mem after" in record.message
        assert "give more (--build_memory)" in record.message
        store.drop()


@pytest.mark.parametrize("kind", ["store", "exact"])
def test_a_query_may_be_a_tensor_of_any_type(stores, kind):
    index = stores["plain"] if kind == "store" else EXACT
    tensor = torch.tensor(QUERIES[0])
    for query in (tensor.clone().requires_grad_(), tensor.bfloat16(), [tensor, tensor]):
        assert index.search(query)[0][0].id == index.search(QUERIES[0])[0][0].id


@pytest.mark.parametrize("kind", ["store", "exact"])
def test_wrong_questions_are_named(stores, kind):
    index = stores["plain"] if kind == "store" else EXACT
    for call, message in (
        (lambda: index.search(QUERIES[0][:7]), "8 dimensions"),
        (lambda: index.search(np.zeros(8)), "zero"),
        (lambda: index.search(np.full(8, np.nan)), "NaN"),
        (lambda: index.search(QUERIES, text="x"), "one query"),
        (lambda: index.similar(0, 0), "k 0"),
        (lambda: index.similar(12345), "no document 12345"),
        (lambda: index.get([0, "talk-7"]), "no document talk-7"),
        (lambda: index.get([1 << 70]), "64 bits"),
    ):
        with refusal(message):
            call()


def test_wrong_input_is_named(stores, place):
    plain = stores["plain"]
    for call, message in (
        (lambda: plain.upsert([1, 1], ["a", "b"], VECTORS[:2]), "twice"),
        (lambda: plain.upsert([1], ["a", "b"], VECTORS[:2]), "1 ids, 2 texts"),
        (lambda: plain.upsert([1], ["a"], [[math.inf] * 8]), "infinite"),
        (lambda: plain.build_index("ivf"), "unknown index"),
        (lambda: plain.set_metadata(12345, {}), "no document"),
        (lambda: VectorStore(place, "absent"), "there is: bits, half, parts, plain"),
        (lambda: VectorStore(place, "x; --"), "is not a valid name of a collection"),
        (lambda: VectorStore(place, "plain", fingerprint="other"), "fingerprint f, not other"),
        (lambda: new_store(place, "n", storage="int8"), "int8"),
        (lambda: open_index(f"{place}/nothing"), "no store in"),
    ):
        with refusal(message):
            call()
    with pytest.raises(Unreachable) as refused:
        VectorStore("postgresql://nobody:secret@127.0.0.1:1/x")
    assert "host=127.0.0.1" in one_line(refused.value)
    assert "secret" not in one_line(refused.value)


def test_too_many_dimensions_are_named(place):
    with new_store(place, "wide", dimension=4001) as wide:
        with pytest.raises(InputError, match="dimensions"):
            wide.build_index("hnsw")
        wide.upsert([1], ["x"], [np.ones(4001)])
        assert ids(wide.search(np.ones(4001))[0]) == [1]
        wide.drop()


@pytest.mark.parametrize(("by", "fix"), [(1, "update"), (-1, "index again")])
def test_a_schema_of_another_version_is_refused(place, by, fix):
    move = "UPDATE contrastive_st.migrations SET version = version + %s"
    with new_store(place, "m1", dimension=2) as store:
        store.database.run(lambda c: c.execute(move, (by,)))
        with pytest.raises(InputError, match=f"version {VERSION + by}, .* needs version {VERSION}; .*{fix}"):
            VectorStore(place, "m1")
        store.database.run(lambda c: c.execute(move, (-by,)))
        store.drop()


def check_codes(store, count):
    """The store has the code of so many documents, as the vector of each gives it."""
    from contrastive_st.search.postgres.copying import signs_of

    statement = f"SELECT id, code::text FROM contrastive_st.{store.collection}_codes ORDER BY id"
    had = store.database.run(lambda c: c.execute(statement).fetchall())
    wanted = []
    for numbers, _, _, vectors in store.scan():
        rows = ("".join("01"[int(bit)] for bit in row) for row in signs_of(vectors))
        wanted += zip(numbers.tolist(), rows, strict=True)
    assert had == wanted
    assert len(had) == count


def test_a_binary_graph_has_the_code_of_every_document_after_any_write(place):
    def add(shard, rows):
        loader = StoreLoader(store, "more", "1", own_ids=True)
        assert loader.claim(shard)
        loader.add(shard, (np.arange(rows.start, rows.stop), TEXTS[rows], METADATA[rows], VECTORS[rows]))
        loader.close()

    with new_store(Database(place), "coded", storage="vector", partitions=3) as store:
        store.upsert(range(100), TEXTS[:100], VECTORS[:100])
        store.build_index("binary")
        add(0, slice(100, 150))
        store.upsert([3, 200], TEXTS[3:5], -VECTORS[3:5])
        store.delete([4, 101])
        check_codes(store, 149)
        assert ids(store.search(-VECTORS[3], 1)[0]) == [3]
        assert "on disk" in store.describe()["collection"]
        store.build_index("hnsw")
        add(1, slice(150, 160))
        assert store.database.rows("SELECT to_regclass('contrastive_st.coded_codes')") == [(None,)]
        store.build_index("binary")
        check_codes(store, 159)
        store.drop()


@pytest.mark.parametrize("first", ["writer", "builder"])
def test_rows_written_while_a_binary_graph_is_built_are_in_it(place, monkeypatch, first):
    from contrastive_st.search.postgres.copying import copy_rows

    with (
        new_store(place, "raced") as store,
        VectorStore(place, "raced") as other,
        ThreadPoolExecutor() as threads,
    ):
        store.upsert(range(100), TEXTS[:100], VECTORS[:100])
        row = (np.array([100]), TEXTS[100:101], METADATA[100:101], VECTORS[100:101])
        if first == "writer":
            connection = other.database.connect()
            with connection.transaction():
                other.write(connection, row, copy_rows)
                building = threads.submit(store.build_index, "binary")
                with pytest.raises(NotYet):
                    building.result(0.5)
            connection.close()
        else:
            locked, go = threading.Event(), threading.Event()
            make = store._make_codes
            monkeypatch.setattr(store, "_make_codes", lambda c: (make(c), locked.set(), go.wait(30)))
            building = threads.submit(store.build_index, "binary")
            assert locked.wait(30)
            writing = threads.submit(other.upsert, [100], row[1], row[3], row[2])
            with pytest.raises(NotYet):
                writing.result(0.5)
            go.set()
            writing.result(30)
        building.result(30)
        check_codes(store, 101)
        store.drop()


@pytest.mark.parametrize("write", ["delete", "remove", "relabel"])
def test_documents_are_locked_in_the_order_of_their_ids(place, write):
    with (
        new_store(place, "ordered") as store,
        closing(store.loader("corpus", "f", own_ids=True)) as loader,
        closing(store.database.connect()) as other,
        ThreadPoolExecutor() as threads,
    ):
        for id in (2, 1):
            store.upsert([id], TEXTS[:1], VECTORS[:1])
        lock = f"SELECT FROM {store.tables.prefix}_texts WHERE id = %s FOR UPDATE NOWAIT"
        works = {
            "delete": lambda: store.delete([2, 1]),
            "remove": lambda: store.database.transact(lambda connection: store.remove(connection, [2, 1])),
            "relabel": lambda: loader.relabel(np.array([2, 1]), [{"n": 2}, {"n": 1}]),
        }
        with other.transaction():
            other.execute(lock, (1,))
            writing = threads.submit(works[write])
            while not other.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount:
                time.sleep(0.01)
            other.execute(lock, (2,))  # the writer has not locked it, or each would wait for the other
        writing.result(30)
        kept = {document.id: document.metadata for document in store.get([1, 2])} if write == "relabel" else len(store)
        assert kept == ({1: {"n": 1}, 2: {"n": 2}} if write == "relabel" else 0)
        store.drop()


@pytest.mark.parametrize("index", ["none", "binary"])
def test_of_equal_hits_the_lowest_ids_come_first_for_every_k(place, index):
    """Also where their rows lie behind the others; the candidates of a binary graph are all here."""
    with new_store(place, f"{index}_of_equals") as store:
        write = lambda ids: store.upsert(ids, ["a cat"] * len(ids), VECTORS[[0] * len(ids)])
        write([*range(100, 40, -1)])
        write([*range(40)])
        store.build_index(index)
        wanted = [*range(40), *range(41, 101)]
        for k in (1, 10, 60, 90):
            assert ids(store.search(VECTORS[0], k, ef_search=400)[0]) == wanted[:k]
            assert ids(store.search(VECTORS[0], k, exact=True)[0]) == wanted[:k]
            assert ids(store.search(VECTORS[0], k, text="cat", ef_search=400)[0])[:40] == wanted[: min(k, 40)]
