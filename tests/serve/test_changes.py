"""What clients change over HTTP: upserts and deletions with a token of their own, and labels of saved classifiers."""

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psycopg
import pytest
from refusals import refused
from search_fakes import client_of
from store_places import store_of

pytest.importorskip("fastapi", reason="the API needs the extra api")
pytest.importorskip("prometheus_client", reason="the API needs the extra api")

from starlette.testclient import TestClient

from contrastive_st import SentenceClassifier
from contrastive_st.cli import main
from contrastive_st.models.protocol import open_encoder
from contrastive_st.search.postgres import naming
from contrastive_st.search.postgres.store import VectorStore
from contrastive_st.serve import limits
from contrastive_st.serve.api import ClassifierServed, IndexServed, Served, make_api
from contrastive_st.serve.session import SearchSession, Source

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
READ, WRITE = ({"Authorization": f"Bearer {token}"} for token in ("reader's", "writer's"))
DOCUMENTS = [
    {"id": "talk-1", "text": "the tides rise at night", "metadata": {"year": 1999}},
    {"id": 2, "text": "a cat sat on the harbour wall", "metadata": {"year": 2004, "tags": ["a", "b"]}},
    {"id": "9007199254740993", "text": "taxes rose again"},
]


def deep(count):
    """As many objects and lists inside each other, the first an object."""
    value = {}
    for number in range(count - 1):
        value = {"in": value} if number % 2 == count % 2 else [value]
    return value


@pytest.fixture(scope="module")
def store(place):
    with store_of(open_encoder(), place, "talks") as store:
        yield store


@pytest.fixture(scope="module")
def classifiers():
    """Of the same texts: by vectors, by vectors and words, by means."""
    encoder, days = open_encoder(), (["a hot day", "the sun", "ice", "snow"], ["warm"] * 2 + ["cold"] * 2)
    settings = {"weather": {}, "words": {"lexical": True}, "means": {"head": "means"}}
    return {name: SentenceClassifier(encoder, **own).fit(*days) for name, own in settings.items()}


@pytest.fixture(scope="module")
def http(store, classifiers):
    model = Served(open_encoder())
    app = make_api(
        {"static-minilm": model}, {"talks": IndexServed(store, model)}, token="reader's", writer="writer's",
        classifiers={name: ClassifierServed(one, model) for name, one in classifiers.items()},
    )  # fmt: skip
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


def test_a_database_that_is_down_is_answered_soon_in_json(http, store, monkeypatch):
    """The answer does not say where the database is."""

    def down():
        raise psycopg.OperationalError("connection refused")

    def asked(path, **body):
        answer = http.post(path, json=body, headers=READ if path == "/search" else WRITE)
        return answer.status_code, answer.headers.get("retry-after"), answer.json().get("error")

    with monkeypatch.context() as broken:
        broken.setattr(store.database, "patience", 0.2)
        broken.setattr(store.database, "_once", lambda work, seconds: down())
        broken.setattr(store.database.server, "ensure_running", down)
        wanted = 503, "2", "the database of the index does not answer; try again in 2 s"
        assert asked("/search", query="whales") == asked("/upsert", documents=DOCUMENTS) == wanted
        assert http.get("/health").status_code == 200
    assert asked("/search", query="whales")[0] == 200


def test_a_collection_that_is_deleted_while_it_is_served(store):
    place, encoder = store.database.where, open_encoder()
    with (
        store_of(encoder, place, "gone") as gone,
        VectorStore(place, "gone") as other,
        client_of(gone, encoder) as client,
    ):
        other.drop()
        answer = client.post("/search", json={"query": "whales"})
    assert (answer.status_code, answer.json()["error"]) == (404, "collection 'gone' has been deleted")


def test_upserts_and_deletions_are_idempotent_by_id(http, store):
    upsert = lambda documents: http.post("/upsert", json={"documents": documents}, headers=WRITE).json()
    assert upsert(DOCUMENTS) == {"index": "talks", "new": 3, "changed": 0, "unchanged": 0}
    changed = [{**DOCUMENTS[0], "text": "whales sing"}, DOCUMENTS[1], {"id": "new", "text": "rain fell"}]
    assert upsert(changed) == {"index": "talks", "new": 1, "changed": 1, "unchanged": 1}
    hits = http.post("/search", json={"query": "whales", "k": 9}, headers=READ).json()["hits"]
    assert hits[0]["id"] == "talk-1"
    assert {hit["id"] for hit in hits} == {"talk-1", 2, "9007199254740993", "new"}
    delete = lambda **asked: http.post("/delete", json=asked, headers=WRITE).json()
    for deleted in (2, 0):
        assert delete(ids=["talk-1", "new", "unknown"]) == {"index": "talks", "deleted": deleted}
    assert delete(filter="year>2000") == {"index": "talks", "deleted": 1}
    assert delete(ids=["9007199254740993"])["deleted"] == 1
    assert len(store) == 0


def test_metadata_are_as_deep_as_a_request_may_be(http):
    document = {"id": 1, "text": "a cat", "metadata": deep(196)}  # beside the body, the list and the document
    assert http.post("/upsert", json={"documents": [document]}, headers=WRITE).json()["new"] == 1
    assert http.post("/search", json={"query": "cat"}, headers=READ).json()["hits"][0]["metadata"] == deep(196)
    assert http.post("/delete", json={"ids": [1]}, headers=WRITE).json()["deleted"] == 1


def test_integers_are_exact_however_long(http, store):
    """Also beyond the 64 bits in which a fast reader of JSON holds them."""
    numbers = [2**53 + 1, 2**63, 2**64 + 1, -(2**63) - 1, 10**30 + 7]
    documents = [{"id": id, "text": "a cat", "metadata": {"n": n, "all": [1.5, n]}} for id, n in enumerate(numbers, 1)]
    assert http.post("/upsert", json={"documents": documents}, headers=WRITE).json()["new"] == len(numbers)
    assert [hit.metadata["n"] for hit in store.get(range(1, 6))] == numbers
    for id, n in enumerate(numbers, 1):
        for asked in ({"n": n}, {"n": [0.5, n]}, {"all": n}, f"n={n}", {"n": {">=": n, "<=": n}}):
            hits = http.post("/search", json={"query": "cat", "filter": asked}, headers=READ).json()["hits"]
            assert [(hit["id"], hit["metadata"]["n"]) for hit in hits] == [(id, str(n))]
    assert http.post("/delete", json={"filter": {"n": numbers}}, headers=WRITE).json()["deleted"] == len(numbers)


def test_the_token_of_writers_is_theirs_alone(http):
    body = {"documents": DOCUMENTS}
    for route, asked in (("/upsert", body), ("/delete", {"ids": [1]})):
        for headers in ({}, READ):
            assert http.post(route, json=asked, headers=headers).status_code == 401
    assert http.post("/search", json={"query": "a cat"}, headers=WRITE).status_code == 401
    assert http.post("/search", json={"query": "a cat"}, headers=READ).status_code == 200
    reading = make_api({"static-minilm": Served(open_encoder())}, token="reader's")
    with TestClient(reading, base_url="http://localhost") as client:
        assert client.post("/upsert", json=body, headers=READ).status_code == 404
        assert "/upsert" not in client.get("/openapi.json", headers=READ).json()["paths"]
    assert {"/upsert", "/delete", "/classify"} <= http.get("/openapi.json", headers=READ).json()["paths"].keys()


@pytest.mark.parametrize(
    ("route", "body", "status", "words"),
    [
        ("/upsert", {"documents": []}, 422, "at least 1 item"),
        ("/upsert", {"documents": [{"id": 1}]}, 422, "text: Field required"),
        ("/upsert", {"documents": [{"id": "", "text": "x"}]}, 422, "an id is a whole number, beyond 2^53"),
        ("/upsert", {"documents": [{"id": 1.5, "text": "x"}]}, 422, "an id is a whole number, beyond 2^53"),
        ("/upsert", {"documents": [{"id": True, "text": "x"}]}, 422, "an id is a whole number, beyond 2^53"),
        ("/upsert", {"documents": [{"id": 1 << 70, "text": "x"}]}, 400, "is not an id"),
        ("/upsert", {"documents": [{"id": -(1 << 63) - 1, "text": "x"}]}, 400, "-9223372036854775809 is not an id"),
        ("/upsert", {"documents": [{"id": 2.0**53, "text": "x"}]}, 422, "beyond 2^53 without a fraction"),
        ("/upsert", {"documents": [{"id": 1, "text": "a cat"}] * 2}, 400, "an id is given twice"),
        ("/upsert", {"documents": [{"id": 1, "text": "a", "metadata": deep(400)}]}, 422, "more than 200 deep"),
        ("/delete", {"ids": [deep(400)]}, 422, "more than 200 deep"),
        ("/upsert", {"documents": [{"id": "x", "text": "\U0001f600"}]}, 422, "knows no token of document 'x'"),
        ("/upsert", {"documents": DOCUMENTS, "index": "other"}, 404, "there is no index 'other'; there is talks"),
        ("/upsert", {"documents": [{"id": i, "text": "a"} for i in range(4097)]}, 413, "send less"),
        ("/delete", {}, 422, "give ids or a filter"),
        ("/delete", {"ids": []}, 422, "ids: List should have at least 1 item"),
        ("/delete", {"ids": [1], "filter": "a=b"}, 422, "give ids or a filter"),
        ("/delete", {"filter": "year>"}, 400, "filter"),
        ("/delete", {"ids": [1, 2.0**53 + 2]}, 422, "beyond 2^53 without a fraction"),
        ("/classify", {"inputs": []}, 422, "inputs: "),
        ("/classify", {"inputs": "a", "classifier": "none"}, 404, "there is no classifier 'none'; there is weather"),
    ],
)
def test_what_is_refused_changes_nothing(http, store, route, body, status, words):
    answer = http.post(route, json=body, headers=READ if route == "/classify" else WRITE)
    assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.text
    assert len(store) == 0


def test_classify(http):
    answer = http.post("/classify", json={"inputs": ["frost and snow", "a sunny day"]}, headers=READ).json()
    assert answer["classifier"] == "weather"
    assert [one["labels"] for one in answer["predictions"]] == [["cold"], ["warm"]]
    for one in answer["predictions"]:
        assert sum(one["scores"].values()) == pytest.approx(1)
    assert http.post("/classify", json={"inputs": "ice"}, headers=READ).json()["predictions"][0]["labels"] == ["cold"]
    answer = http.post("/classify", json={"inputs": ["ice", ""]}, headers=READ)
    assert answer.headers["x-unknown-inputs"] == "1"
    assert http.get("/health").json()["classifiers"] == ["weather", "words", "means"]


@pytest.mark.parametrize(
    ("route", "body", "texts"),
    [
        ("/search", {"query": "the tides"}, ["the tides"]),
        ("/upsert", {"documents": [{"id": 1, "text": "a cat"}, {"id": 2, "text": "rain"}]}, ["a cat", "rain"]),
        ("/classify", {"inputs": ["snow", "a sunny day"]}, ["snow", "a sunny day"]),
        ("/embed", {"inputs": ["snow", "a sunny day"]}, ["snow", "a sunny day"]),
        ("/similarity", {"inputs": {"source_sentence": "snow", "sentences": ["ice"]}}, ["snow", "ice"]),
    ],
)
def test_what_each_route_encodes_is_counted_and_bounded(store, classifiers, monkeypatch, route, body, texts):
    encoder = open_encoder()
    monkeypatch.setattr(limits, "ALL_FLOATS", len(texts) * encoder.dimension)
    model = Served(encoder)
    of_all = {"classifiers": {"weather": ClassifierServed(classifiers["weather"], model)}, "writer": "writer's"}
    app = make_api({"static-minilm": model}, {"talks": IndexServed(store, model)}, **of_all)
    counted = f'contrastive_st_tokens_total{{model="static-minilm"}} {sum(map(len, encoder.token_rows(texts)))}.0'
    with TestClient(app, base_url="http://localhost") as client:
        assert client.post(route, json=body, headers=WRITE).status_code == 200
        assert counted in client.get("/metrics").text
        assert client.post(route, json=body, headers=WRITE).status_code == 200  # nothing is held any more
    monkeypatch.setattr(limits, "ALL_FLOATS", 0)
    app = make_api({"static-minilm": model}, {"talks": IndexServed(store, model)}, **of_all)
    with TestClient(app, base_url="http://localhost") as client:
        refused = client.post(route, json=body, headers=WRITE)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    store.delete([1, 2])


@pytest.mark.parametrize("name", ["weather", "words", "means"])
def test_a_classifier_is_the_same_over_http(http, classifiers, name):
    texts = ["frost and snow", "a hot sunny day", "snow in the sun"]
    body = {"inputs": texts, "classifier": name}
    answer = http.post("/classify", json=body, headers=READ).json()["predictions"]
    scores = [[one["scores"][label] for label in classifiers[name].classes_] for one in answer]
    wanted = classifiers[name].logits(texts) if name == "means" else classifiers[name].predict_proba(texts)
    np.testing.assert_allclose(scores, wanted, atol=1e-6)


def test_a_server_opens_the_model_of_the_collection_that_has_the_name_now(http, store):
    """Where nothing is left of the former model, the first request waits for the new one."""
    upsert = lambda text: http.post("/upsert", json={"documents": [{"id": 1, "text": text}]}, headers=WRITE)
    found = lambda: [hit["text"] for hit in http.post("/search", json={"query": "text"}, headers=READ).json()["hits"]]
    encoder = open_encoder(model := str(ROOT / "model_cards" / "minilm-1-layer"))
    upsert("the former text")
    session = SearchSession([Source("talks", store.live(), open_encoder())])
    with store_of(encoder, store.database.where, "richer", model=model) as richer:
        richer.upsert([1], ["the richer text"], encoder.encode_document(["the richer text"]))
        naming.swap(store.database, "talks", "richer")
        assert found() == ["the richer text"]
        assert session.answer("talks", "text").hits[0].text == "the richer text"
        naming.swap(store.database, "talks", "richer")
        assert upsert("the changed text").json()["changed"] == 1
        assert found() == ["the changed text"]
        assert session.examples("talks") == ["the changed text"]
        richer.drop()
    store.delete([1])


def test_the_map_is_of_the_collection_as_it_is(store, monkeypatch):
    monkeypatch.setattr("contrastive_st.serve.session.REST", 0)
    encoder = open_encoder()
    texts = {kind: [f"the {kind} {word}" for word in ("ship", "tide", "gull", "net")] for kind in ("sea", "kitchen")}
    with ExitStack() as opened:
        for name, kind in (("other", "kitchen"), ("drawn", "sea")):
            drawn = opened.enter_context(store_of(encoder, store.database.where, name))
            drawn.upsert(range(4), texts[kind], encoder.encode_document(texts[kind]))
        session = SearchSession([Source("drawn", drawn, encoder)])
        look = lambda: (session.map("drawn").sample.texts, session.sizes["drawn"])
        assert look() == (texts["sea"], 4)
        assert session.map("drawn") is session.map("drawn")
        naming.swap(store.database, "drawn", "other")
        assert look() == (texts["kitchen"], 4)
        drawn.delete([3])
        assert look() == (texts["kitchen"][:3], 3)
        drawn.upsert([0], ["the garden"], encoder.encode_document(["the garden"]))
        assert look() == (["the garden", *texts["kitchen"][1:3]], 3)
        layout = session.map("drawn")
        drawn.upsert([0], ["the garden"], encoder.encode_document(["the sea"]))
        moved = session.map("drawn")
        assert moved is not layout
        monkeypatch.setattr("contrastive_st.serve.session.REST", 1e9)
        drawn.upsert([1], ["a gull"], encoder.encode_document(["a gull"]))
        assert session.map("drawn") is moved  # it rests
        monkeypatch.setattr("contrastive_st.serve.session.REST", 0)
        assert session.map("drawn").sample.texts == ["the garden", "a gull", texts["kitchen"][2]]
        drawn.drop()
        again = opened.enter_context(store_of(encoder, store.database.where, "drawn"))
        again.upsert(range(3), texts["sea"][:3], encoder.encode_document(texts["sea"][:3]))
        assert look() == (texts["sea"][:3], 3)


def test_a_folder_of_shards_cannot_be_changed(tmp_path, capsys):
    (tmp_path / "corpus.txt").write_text("one line\nanother\n")
    (tmp_path / "token").write_text("secret\n")
    assert main(["index", str(tmp_path / "corpus.txt"), "--output", str(tmp_path / "shards")]) == 0
    flags = ["--index", str(tmp_path / "shards"), "--port", "0", "--write_token_file", str(tmp_path / "token")]
    assert "shards is a folder of shards, which cannot be changed" in refused(capsys, "api", *flags)
    assert "--write_token_file" in refused(capsys, "api", "--port", "0", "--write_token_file", str(tmp_path / "none"))
    for what, *command in (
        ("indices", "serve", "a/x", "x"),
        ("indices", "api", "--index", "a/x", "--index", "x"),
        ("classifiers", "api", "--classifier", "a/x", "--classifier", "b/x"),
    ):
        assert f"2 {what} are called x; rename a folder" in refused(capsys, *command)
    assert "its model as it was made" in refused(capsys, "api", "--index", "shards", "--pooling", "mean")
