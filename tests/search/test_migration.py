"""Another model for a live collection: what is written, what answers, and what a kill leaves."""

import json
import re
import threading
import time

import numpy as np
import pytest
from refusals import refused, told
from search_fakes import WordEncoder
from store_places import store_of

from contrastive_st.errors import InputError
from contrastive_st.search.migration.moving import Move, finish, roll_back
from contrastive_st.search.migration.sample import interval, ndcg, sample
from contrastive_st.search.postgres.store import VectorStore

pytestmark = pytest.mark.slow

COUNT = 400
TOPICS = 40


class Words(WordEncoder):
    """An encoder by words that counts its batches, and knows no token of some texts."""

    calls = 0

    def encode(self, texts):
        vectors = super().encode(texts)
        vectors[["unknown" in text for text in texts]] = 0
        return vectors

    def encode_stream(self, items, texts_of=lambda item: item):
        for item in items:
            self.calls += 1
            yield item, self.encode(texts_of(item))


def text_of(i):
    return f"topic{i % TOPICS} word{i % 7} line{i}"


OLD, NEW, OTHER = Words(20, "old", "old"), Words(24, "new", "new"), Words(4, "other", "other")


def made(place, name, encoder=OLD, index="hnsw", count=COUNT, **options):
    store = store_of(encoder, place, name, pool=3, **options)
    texts = [text_of(i) for i in range(count)]
    store.upsert(range(count), texts, encoder.encode(texts), [{"i": i} for i in range(count)])
    store.build_index(index)
    return store


def opened(place, name, encoder=None):
    return VectorStore(place, name, fingerprint=encoder and encoder.fingerprint, pool=3)


def holds(store, encoder, documents):
    """Every document is there with the vector of its text, and is found by it."""
    ids, texts, _, vectors = (np.concatenate(part) for part in zip(*store.scan(), strict=True))
    assert dict(zip(ids.tolist(), texts.tolist(), strict=True)) == documents
    assert np.allclose(vectors, encoder.encode(texts.tolist()), atol=2e-3)
    some = ids[:: max(len(ids) // 40, 1)].tolist()
    for hits, id in zip(store.search(encoder.encode([documents[id] for id in some]), 5), some, strict=True):
        assert documents[id] in [hit.text for hit in hits]


def documents(count=COUNT):
    return {i: text_of(i) for i in range(count)}


def moving(store, encoder=NEW, **options):
    return Move(store, encoder, encoder.name, **options)


@pytest.mark.parametrize(("index", "storage", "partitions"), [("hnsw", "halfvec", 1), ("binary", "halfvec", 2),
                                                               ("none", "vector", 1)])  # fmt: skip
def test_a_move_ends_as_a_fresh_index(place, index, storage, partitions):
    with made(place, f"{index}_moves", index=index, storage=storage, partitions=partitions) as store:
        moving(store).run()
        with opened(place, f"{index}_moves", NEW) as after:
            holds(after, NEW, documents())
            assert (after.model, after.dimension, after.index) == ("new", 24, index)
        holds(store, OLD, documents())  # whoever has it open goes on with the vectors of its own model
        assert store.moved
        with pytest.raises(InputError, match="open it again"):
            store.upsert([1], ["a new text"], OLD.encode(["a new text"]))
        with opened(place, f"{index}_moves") as after:
            finish(after)
            assert len(after.spaces()) == 1
            assert "space 0" not in after.describe()
            rows = after.database.rows(
                "SELECT count(*) FROM pg_class WHERE relname LIKE %s", (f"{index}_moves_vectors",)
            )
            assert rows == [(0,)]
        with pytest.raises(InputError, match="has moved to new"):
            store.search(OLD.encode(["topic1"])[0])


class Killed(Exception):
    pass


def test_the_old_model_answers_until_all_is_encoded_and_a_killed_move_goes_on(place):
    with made(place, "killed") as store:

        def die(done, missing):
            raise Killed

        stopped = moving(store, advance=die)
        stopped._fill_batch = 100
        with pytest.raises(Killed):
            stopped.run()
        with opened(place, "killed") as after:
            assert after.model == "old"
            holds(after, OLD, documents())
            assert "100 of 400 documents encoded" in after.describe()["space 1"]
            calls = NEW.calls
            moving(after).run()  # as the command does when it is called again: nothing is encoded twice
            assert NEW.calls == calls + 1
        with opened(place, "killed", NEW) as after:
            holds(after, NEW, documents())


def test_texts_that_the_new_model_does_not_know_stay_and_are_not_found(place):
    with made(place, "silent", count=50) as store:
        store.upsert([60], ["unknown"], OLD.encode(["topic1"]))
        moving(store).run()
        with opened(place, "silent", NEW) as after:
            assert after.get([60])[0].text == "unknown"
            assert 60 not in [hit.id for hit in after.search(NEW.encode(["topic1"])[0], 60)[0]]


def test_a_search_in_between_never_fails_and_always_finds(place):
    with made(place, "asked") as store:
        stop, faults, seen = threading.Event(), [], set()

        def ask():
            while not stop.is_set():
                try:
                    with opened(place, "asked") as index:
                        own = {one.fingerprint: one for one in (OLD, NEW)}[index.fingerprint]
                        for _ in range(5):
                            hits = index.search(own.encode(["topic1 word1"])[0], 3)[0]
                            seen.add(own.name)
                            assert len(hits) == 3
                except Exception as error:
                    faults.append(error)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        moving(store).run()
        with opened(place, "asked") as new:
            finish(new)
        stop.set()
        for thread in threads:
            thread.join()
        assert not faults
        assert seen == {"old", "new"}


def test_servers_follow(place, monkeypatch):
    from contrastive_st.serve import session as serving
    from contrastive_st.serve.session import SearchSession, Source

    monkeypatch.setattr(serving, "open_encoder_for", lambda index: {"old": OLD, "new": NEW}[index.model])
    with made(place, "served") as store:
        session = SearchSession([Source("served", store, OLD)])
        assert session.answer("served", text_of(9), 1).hits[0].id == 9
        with opened(place, "served") as other:
            moving(other).run()
            assert session.answer("served", text_of(9), 1).hits[0].id == 9  # by the old vectors
            for _ in range(100):
                if session.sources["served"].encoder is NEW:
                    break
                time.sleep(0.05)
            answer = session.answer("served", text_of(9), 1)
            assert answer.hits[0].id == 9
            finish(other)
            assert session.answer("served", text_of(9), 1).hits[0].id == 9


def test_what_is_asked_of_an_index_waits_until_it_stays_with_a_model(place, monkeypatch):
    """It moves back while a server opens the model to which it has moved; a model that cannot be opened is said."""
    from starlette.testclient import TestClient

    from contrastive_st.files.folders import SHIPPED
    from contrastive_st.models.protocol import open_encoder
    from contrastive_st.serve import api, session as serving

    by, to = open_encoder(), open_encoder(str(SHIPPED.parents[2] / "model_cards" / "minilm-1-layer"))
    models, back = {by.name: by, to.name: to}, []

    def move(encoder):
        with opened(place, "restless") as store:
            Move(store, encoder, encoder.name).run()
            finish(store)

    def opening(index, **options):
        encoder = models[index.model]
        if back:
            move(back.pop())
        return encoder

    monkeypatch.setattr(api, "open_encoder_for", opening)
    monkeypatch.setattr(serving, "open_encoder_for", opening)
    with made(place, "restless", by, count=5) as store:
        served = api.Served(by)
        app = api.make_api({by.name: served}, {"docs": api.IndexServed(store, served)}, writer="writer's")
        client = TestClient(app, base_url="http://localhost", headers={"Authorization": "Bearer writer's"})
        page = serving.SearchSession([serving.Source("docs", store.live(), by)])
        upsert = lambda: client.post("/upsert", json={"documents": [{"id": 9, "text": text_of(9)}]})
        move(to)
        back.append(by)
        assert upsert().json() == {"index": "docs", "new": 1, "changed": 0, "unchanged": 0}
        move(to)
        back.append(by)
        assert page.answer("docs", text_of(9), 1).hits[0].id == 9
        monkeypatch.setattr(api, "_served", lambda models, fingerprint: None)
        monkeypatch.setattr(api, "open_encoder_for", lambda index, **options: open_encoder("no/model"))
        move(to)
        refused = upsert()
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        assert "has moved to a model that cannot be opened" in refused.json()["error"]


def test_the_api_goes_on_with_the_options_that_it_was_given(place, monkeypatch):
    """And names the model where it names the others, once for two indexes; a model that is served is not opened."""
    from starlette.testclient import TestClient

    from contrastive_st.files.folders import SHIPPED
    from contrastive_st.models.protocol import open_encoder
    from contrastive_st.serve import api

    other = SHIPPED.parents[2] / "model_cards" / "minilm-1-layer"
    by, to = open_encoder(), open_encoder(str(other))
    opening = lambda index, **options: asked.append((index.model, options)) or open_encoder(str(other), **options)
    asked = []
    monkeypatch.setattr(api, "open_encoder_for", opening)
    with made(place, "api_one", by, count=5) as one, made(place, "api_two", by, count=5) as two:
        served = api.Served(by, False, api.Batcher(by.encode_buckets, by.bucket_limits, 1000, 50), "bf16")
        indexes = {"one": api.IndexServed(one, served), "two": api.IndexServed(two, served)}
        client = TestClient(api.make_api({by.name: served}, indexes), base_url="http://localhost")
        for name in "api_one", "api_two":
            with opened(place, name) as store:
                Move(store, to, to.name).run()
                finish(store)
        for name in indexes:
            assert client.post("/search", json={"index": name, "query": text_of(3)}).status_code == 200
        assert asked == [(to.name, {"precision": "bf16"})]
        assert client.get("/health").json()["models"] == [by.name, to.name]
        assert f'waiting_tokens{{model="{to.name}"}}' in client.get("/metrics").text
        answer = client.post("/v1/embeddings", json={"model": to.name, "input": ["topic"] * 60})
        assert "at most 50 are accepted" in answer.json()["error"]["message"]


def test_one_move_at_a_time(place):
    with made(place, "single", count=50) as store:
        moving(store).run()
        with opened(place, "single") as after:
            with pytest.raises(InputError, match="searches already use"):
                moving(after).run()
            with pytest.raises(InputError, match="has begun"):
                moving(after, OTHER).run()
        with opened(place, "single") as after:  # what is said after a move back leads to its end
            said = []
            moving(after, OLD, log=said.append).run()
            assert said == ["all documents are encoded, and searches use old; --rollback removes the vectors of new"]
        with opened(place, "single") as after:
            with pytest.raises(InputError, match="already use old; --rollback removes the vectors of new"):
                moving(after, OLD).run()
            with pytest.raises(InputError, match=r"do not use new yet: .*--rollback"):
                finish(after)
            assert roll_back(after, lambda model: OLD).model == "old"
            assert [space.model for space in after.spaces()] == ["old"]
            with pytest.raises(InputError, match=r"already use old$"):
                moving(after, OLD).run()


def test_the_sample_has_ndcg_of_both_models(place):
    with made(place, "labelled") as store:
        answers = {text_of(i): [i] for i in range(100)}
        found = sample(store, OTHER, answers, OLD)
        assert (found.documents, found.sampled) == (COUNT, COUNT)
        assert [len(values) for values in found.ndcg] == [100, 100]
        for encoder, values in zip((OLD, OTHER), found.ndcg, strict=True):
            hits = np.argsort(-encoder.encode(list(answers)) @ encoder.encode(list(documents().values())).T)[:, :10]
            assert np.allclose(values, ndcg(hits, list(answers.values())), atol=0.02)
        assert "nDCG@10 of 100 queries" in found.lines()[1]
        assert sample(store, NEW).ndcg == ()
        with pytest.raises(InputError, match="no document 1000000"):
            sample(store, NEW, {"topic1": [10**6]}, OLD)


def test_the_interval_is_that_of_the_mean():
    values = np.random.default_rng(1).standard_normal(400)
    mean, low, high = map(float, re.findall(r"-?\d\.\d+", interval(values)))
    assert mean == pytest.approx(values.mean(), abs=1e-3)
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)
    assert ndcg(np.array([[1, 2, 3]]), [[3, 1]])[0] == pytest.approx((1 + 0.5) / (1 + 1 / np.log2(3)))


def test_the_command_estimates_moves_and_goes_back(place, tmp_path, capsys):
    from contrastive_st.cli import main
    from contrastive_st.files.folders import SHIPPED
    from contrastive_st.models.protocol import open_encoder

    one_layer = str(SHIPPED.parents[2] / "model_cards" / "minilm-1-layer")
    (tmp_path / "texts.jsonl").write_text("\n".join(json.dumps({"id": i, "text": text_of(i)}) for i in range(250)))
    (tmp_path / "queries.csv").write_text("query,id\n" + "\n".join(f"{text_of(i)},{i}" for i in range(0, 250, 5)))
    store = ["--store", place]
    assert main(["index", str(tmp_path / "texts.jsonl"), "--collection", "command", *store]) == 0
    move = ["migrate", "command", "--model", one_layer, *store]
    out = told(capsys, *move, "--dry_run", "--queries", tmp_path / "queries.csv").out
    assert "nDCG@10 of 50 queries in the sample" in out
    assert "all 250 documents are encoded in about" in out
    with opened(place, "command") as untouched:
        assert len(untouched.spaces()) == 1
    assert main([*move, "--queries", str(tmp_path / "queries.csv")]) == 2  # without --dry_run
    assert main(move) == 0
    with opened(place, "command") as moved:
        assert moved.model == one_layer
    assert main(["migrate", "command", "--rollback", *store]) == 0
    assert "there is no migration" in refused(capsys, "migrate", "command", "--finish", *store)
    assert main([*move, "--rollback", "--finish"]) == 2

    encoder, texts = open_encoder(), [text_of(i) for i in range(60)]
    with store_of(encoder, place, "rolled") as rolled:  # with vectors that are not those of its texts
        rolled.upsert(range(60), texts, np.roll(encoder.encode(texts), 7, axis=0))
    code = main(["migrate", "rolled", "--model", one_layer, *store])
    assert (code, "are not those of the texts" in capsys.readouterr().err) == (2, True)


def test_queries_of_a_folder_as_beir_has_them(tmp_path):
    from contrastive_st.search.migration.sample import read_answers, read_retrieval

    (tmp_path / "qrels").mkdir()
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "one"}\n{"_id": "q2", "text": "two"}\n')
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\nq2\td3\t2\n")
    assert read_retrieval(tmp_path) == {"one": ["d1"], "two": ["d3"]}
    (tmp_path / "qrels" / "test.tsv").write_text("q1\td1\t1\nq1\td2\t0\nq2\td3\t2\n")  # without a header
    assert read_retrieval(tmp_path) == {"one": ["d1"], "two": ["d3"]}
    (tmp_path / "bad.csv").write_text("query,document\none,3\n")
    with pytest.raises(InputError, match="columns"):
        read_answers(tmp_path / "bad.csv")
