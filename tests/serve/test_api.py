"""The API within one process: its routes, its refusals, and what is encoded together."""

import asyncio
import base64
import gzip
import json
import re
import time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from search_fakes import topic_index

pytest.importorskip("fastapi", reason="the API needs the extra api")
pytest.importorskip("prometheus_client", reason="the API needs the extra api")

from pydantic import TypeAdapter
from starlette.testclient import TestClient

from conftest import SENTENCES
from contrastive_st import BertForCL, SentenceEncoder
from contrastive_st.cli import main
from contrastive_st.models.protocol import open_encoder
from contrastive_st.search.filters import parse
from contrastive_st.search.index import Hit
from contrastive_st.serve import api
from contrastive_st.serve.api import ApiError, Batcher, IndexServed, Served, make_api
from contrastive_st.serve.schemas import Conditions

PATTERN = TypeAdapter(Conditions).json_schema()["pattern"]


@pytest.fixture
def encoder(bert_config, tokenizer):
    return SentenceEncoder(BertForCL(bert_config, pooling="mean"), tokenizer, name="tiny")


def client(*encoders, indices=None, base_url="http://localhost", truncate=True, **options):
    models = {encoder.name: Served(encoder, truncate) for encoder in encoders}
    return TestClient(make_api(models, indices, **options), base_url=base_url, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def topics():
    """The API with an index, as a client asks it."""
    encoder = open_encoder()
    index = topic_index(encoder=encoder)
    with client(encoder, indices={"topics": IndexServed(index, Served(encoder))}) as http:
        http.index = index
        yield http


def units(encoder, texts):
    return encoder.encode(list(texts), normalize_embeddings=True)


def test_the_routes_of_openai(encoder):
    with client(encoder, open_encoder()) as http:
        for name, own in (("tiny", encoder), ("static-minilm", open_encoder())):
            answer = http.post("/v1/embeddings", json={"input": SENTENCES, "model": name}).json()
            assert [item["index"] for item in answer["data"]] == list(range(len(SENTENCES)))
            found = np.array([item["embedding"] for item in answer["data"]], np.float32)
            np.testing.assert_allclose(found, units(own, SENTENCES), atol=1e-6)
            rows = own.token_rows(SENTENCES)
            assert answer["usage"] == {"prompt_tokens": sum(map(len, rows)), "total_tokens": sum(map(len, rows))}
            same = http.post("/v1/embeddings", json={"input": rows, "model": name, "encoding_format": "base64"}).json()
            packed = [base64.b64decode(item["embedding"]) for item in same["data"]]
            np.testing.assert_allclose([np.frombuffer(row, "<f4") for row in packed], found, atol=1e-6)
        short = http.post("/v1/embeddings", json={"input": SENTENCES[0], "dimensions": 3}).json()
        cut = encoder.encode(SENTENCES[0])[:3]
        np.testing.assert_allclose(short["data"][0]["embedding"], cut / np.linalg.norm(cut), atol=1e-6)
        assert [model["id"] for model in http.get("/v1/models").json()["data"]] == ["tiny", "static-minilm"]


def test_the_routes_of_text_embeddings_inference(encoder):
    with client(encoder) as http:
        np.testing.assert_allclose(http.post("/embed", json={"inputs": "the cat"}).json(), units(encoder, ["the cat"]),
                                   atol=1e-6)  # fmt: skip
        plain = http.post("/embed", json={"inputs": SENTENCES, "normalize": False}).json()
        np.testing.assert_allclose(plain, encoder.encode(SENTENCES), atol=1e-6)
        inputs = {"source_sentence": SENTENCES[0], "sentences": SENTENCES[1:]}
        first, *others = units(encoder, SENTENCES)
        for route in ("/similarity", "/"):
            for asked in ({"inputs": inputs}, {"inputs": inputs, "parameters": {}},
                          {"inputs": inputs, "parameters": {"truncate": True, "prompt_name": None}}):  # fmt: skip
                np.testing.assert_allclose(http.post(route, json=asked).json(), others @ first, atol=1e-6)


def test_prompts(bert_config, tokenizer):
    """A prompt that is not pooled goes with its own rows, beside requests that have another one."""
    settings = {"prompts": {"query": "the cat", "other": "a dog ran"}, "include_prompt": False}
    encoder = SentenceEncoder(BertForCL(bert_config, pooling="mean", **settings), tokenizer, name="tiny")

    async def many(model):
        prompts = [encoder.prompt_text(name) for name in ("query", "other", "query")] + [""]
        return await asyncio.gather(
            *(model.vectors(SENTENCES[:2], prompt=prompt, normalize=False) for prompt in prompts)
        )

    found = [encoded.vectors for encoded in asyncio.run(many(Served(encoder)))]
    for vectors, name in zip(found, ("query", "other", "query", None), strict=True):
        wanted = encoder.encode(SENTENCES[:2], **({"prompt": ""} if name is None else {"prompt_name": name}))
        np.testing.assert_allclose(vectors, wanted, atol=1e-6)
    assert np.abs(found[0] - found[1]).max() > 1e-3
    with client(encoder) as http:
        asked = {"inputs": SENTENCES[0], "prompt_name": "other", "normalize": False}
        np.testing.assert_allclose(http.post("/embed", json=asked).json(), found[1][:1], atol=1e-6)


@pytest.mark.parametrize("include_prompt", [False, True])
def test_token_ids_have_the_prompt_or_not(include_prompt, bert_config, tokenizer):
    """A prompt that is not pooled is left out of the ids that begin with it, and of no others of the same request."""
    settings = {"prompts": {"query": "town: ", "other": "a mat "}, "include_prompt": include_prompt}
    model = BertForCL(bert_config, pooling="mean", default_prompt_name="query", **settings)
    encoder = SentenceEncoder(model, tokenizer, name="tiny")
    texts = [*SENTENCES[:3], "sat"]
    bare, others = encoder.token_rows(texts), encoder.token_rows(texts, "a mat ")
    rows = [*bare, *encoder.token_rows(texts, "town: "), *others]
    wanted = [encoder.encode(texts, prompt=""), encoder.encode(texts), encoder.encode_rows(others)]
    with client(encoder) as http:
        found = http.post("/embed", json={"inputs": rows, "normalize": False}).json()
        np.testing.assert_allclose(found, np.concatenate(wanted), atol=1e-6)
        single = http.post("/v1/embeddings", json={"input": bare[3]}).json()["data"][0]["embedding"]
        np.testing.assert_allclose(single, wanted[0][3] / np.linalg.norm(wanted[0][3]), atol=1e-6)
        named = http.post("/embed", json={"inputs": others, "prompt_name": "other", "normalize": False}).json()
        np.testing.assert_allclose(named, encoder.encode(texts, prompt_name="other"), atol=1e-6)
        nothing_else = http.post("/embed", json={"inputs": [bare[0], encoder.token_rows([""], "town: ")[0]]})
        assert nothing_else.headers.get("x-unknown-inputs") == (None if include_prompt else "1")


def test_a_header_names_the_inputs_of_which_the_model_knows_no_token(bert_config, tokenizer):
    prompted = BertForCL(bert_config, pooling="mean", prompts={"query": "the cat"})
    encoder = SentenceEncoder(prompted, tokenizer, name="tiny")
    unknown = lambda route, **asked: http.post(route, json=asked).headers.get("x-unknown-inputs")
    with client(encoder, open_encoder()) as http:
        for model in ("tiny", "static-minilm"):
            assert unknown("/v1/embeddings", input=["", "the cat", "\U0001f600"], model=model) == "0, 2"
            assert unknown("/embed", inputs=["the cat"], model=model) is None
            assert unknown("/embed", inputs=[""] * 30, model=model) == ", ".join(map(str, range(20))) + ", ..."
            inputs = {"source_sentence": "the cat", "sentences": ["the cat", ""]}
            assert unknown("/similarity", inputs=inputs, model=model) == "2"
        assert unknown("/embed", inputs=["", "the cat"], prompt_name="query") == "0"
        assert unknown("/embed", inputs=encoder.token_rows(["the cat", ""])) == "1"


def test_a_search_is_that_of_the_index(topics):
    search = lambda **asked: topics.post("/search", json=asked)
    hits = search(query="tide at the harbour", k=4, filter=["topic=sea", "year>=2000"]).json()["hits"]
    vector = open_encoder().encode("tide at the harbour", normalize_embeddings=True)
    wanted = topics.index.search(vector, 4, filter={"topic": ["sea"], "year": {">=": 2000}})[0]
    assert [(hit["id"], hit["text"], hit["metadata"]) for hit in hits] == [(h.id, h.text, h.metadata) for h in wanted]
    assert "there is topics" in search(query="x", index="y").json()["error"]
    assert "topicx" in search(query="x", filter=["topicx"]).json()["error"]
    for wrong in ({"year": {">": "abc"}}, {"topic": []}, 3, {"year": {"like": 3}}):
        refused = search(query="x", filter=wrong)
        assert refused.status_code == 422
        assert "filter: give conditions such as" in refused.json()["error"]
    same = search(query="tide at the harbour", k=4, filter=["topic=sea", {"year": {">=": "2000"}}]).json()["hits"]
    assert same == hits


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.from_regex(PATTERN, fullmatch=True))
def test_what_the_document_says_of_filters_is_read(text):
    assert parse(str(parse(text))) == parse(text)


@pytest.mark.parametrize(
    "text", ["at>=2022-03-05T10:00", "(id)=w-5", " y >= 2000 ; a=", 'title="a\\"b", x', "a='b; c'", 'y>="5"'],
)  # fmt: skip
def test_the_document_has_the_filters_that_are_read(text):
    assert parse(text)
    assert re.search(PATTERN, text)


def test_the_document_means_the_same_in_each_dialect_of_regular_expressions(topics):
    # white space has U+001F in Python, not in Rust and JavaScript, whose has U+FEFF
    patterns = re.findall(r'"pattern":\s*("(?:[^"\\]|\\.)*")', topics.get("/openapi.json").text)
    shorthands = [re.findall(r"(?<!\\)(?:\\\\)*(\\[sSdDwWbB])", json.loads(one)) for one in patterns]
    assert shorthands == [[]] * len(shorthands) != []
    spaces = [chr(code) for code in range(0x3001) if chr(code).isspace()]
    assert [re.search(PATTERN, f"{space}==a") for space in spaces] == [None] * len(spaces)
    assert all(re.search(PATTERN, f"{space}a =={space}b") for space in spaces)


def test_notes_say_why_there_are_no_hits_or_fewer(topics):
    for min_score, conditions, note in (
        (0.99, [], "left out: 4 of 4 hits, with a score below 0.99"),
        (0.99, ["topic=sea", "year>=2000"], "left out: 4 of 4 hits, with a score below 0.99"),
        (0.99, ["topic=sea", "topic=space"], "each condition is met by some document, but no document meets all"),
    ):
        asked = {"query": "tide", "k": 4, "filter": conditions, "min_score": min_score}
        answer = topics.post("/search", json=asked).json()
        assert answer["hits"] == []
        assert [one.startswith(note) for one in answer["notes"]] == [True]
    for query, conditions in (("\U0001f600", ["topic=sea", "year>=2000"]), ("", [])):
        answer = topics.post("/search", json={"query": query, "filter": conditions}).json()
        assert (answer["hits"], answer["notes"]) == ([], ["the model knows no token of the query"])


def test_ids_and_numbers_beyond_those_of_javascript_are_strings():
    encoder = open_encoder()
    hits = [Hit(2**53 - 1, 1.0, "a", {"n": 2**53, "m": [1, -(2**60)]}), Hit(2**53, float("nan"), "b", {"n": 2**70})]
    index = SimpleNamespace(search=lambda *args, **options: [hits])
    with client(encoder, indices={"topics": IndexServed(index, Served(encoder))}) as http:
        found = http.post("/search", json={"query": "tide"}).json()["hits"]
    assert [hit["id"] for hit in found] == [2**53 - 1, str(2**53)]
    assert [hit["metadata"] for hit in found] == [{"n": str(2**53), "m": [1, str(-(2**60))]}, {"n": str(2**70)}]
    assert found[1]["score"] is None


def test_models_as_clients_of_openai_ask_for_them(encoder):
    with client(encoder, open_encoder()) as http:
        listed = http.get("/v1/models").json()["data"]
        assert all(abs(model["created"] - time.time()) < 600 for model in listed)
        assert [http.get(f"/v1/models/{model['id']}").json() for model in listed] == listed
        for answer in (http.get("/v1/models/gpt"), http.post("/v1/embeddings", json={"input": "a", "model": "gpt"})):
            error = answer.json()["error"]
            assert (answer.status_code, error["code"], error["param"]) == (404, "model_not_found", "model")
        info = http.get("/info").json()
        assert (info["model_id"], info["max_input_length"], info["dimension"]) == ("tiny", 16, 16)


@pytest.mark.parametrize("path", ["/health", "/metrics", "/v1/models", "/v1/models/tiny", "/info"])
def test_head_is_get_without_a_body(encoder, path):
    with client(encoder) as http:
        answer = http.head(path)
        assert (answer.status_code, answer.content) == (200, b"")
        assert http.put(path).status_code == 405


@pytest.mark.parametrize(("route", "body"), [
    ("/v1/embeddings", {"input": "a", "encoding_format": None}), ("/v1/embeddings", {"input": "a", "dimensions": None}),
    ("/v1/embeddings", {"input": "a", "dimensions": 4.0, "user": "me"}), ("/embed", {"inputs": [5.0, 6]}),
    ("/embed", {"inputs": "a", "truncation_direction": "right", "prompt_name": None}),
])  # fmt: skip
def test_what_clients_send_without_meaning_it_is_taken(encoder, route, body):
    with client(encoder) as http:
        assert http.post(route, json=body).status_code == 200


def test_a_body_is_json_whether_it_says_so_or_not(encoder):
    body = b'{"inputs": "the cat"}'
    with client(encoder) as http:
        for headers in ({}, {"content-type": "application/json; charset=utf-8"}, {"content-encoding": "identity"}):
            assert http.post("/embed", content=body, headers=headers).status_code == 200
        for headers, content in (
            ({"content-encoding": "gzip"}, gzip.compress(body)), ({"content-type": "text/plain"}, body),
            ({"content-type": "application/x-www-form-urlencoded"}, body),
        ):  # fmt: skip
            refused = http.post("/embed", content=content, headers=headers)
            assert refused.status_code == 415
            assert "send" in refused.json()["error"]


def test_the_document_has_the_headers_of_the_answers(encoder):
    with client(encoder, token="secret") as http:
        paths = http.get("/openapi.json", headers={"Authorization": "Bearer secret"}).json()["paths"]
        refused = http.post("/embed", json={"inputs": ""}).headers
    headers = {path: {status: [*answer.get("headers", ())] for status, answer in one["post"]["responses"].items()}
               for path, one in paths.items() if "post" in one}  # fmt: skip
    told = {path for path, one in headers.items() if one["200"]}
    assert told == {"/v1/embeddings", "/embed", "/similarity", "/", "/classify"}
    by_status = {status: names for status, names in headers["/embed"].items() if names}
    assert by_status == {"200": ["X-Unknown-Inputs"], "401": ["WWW-Authenticate"], "415": ["Accept-Encoding"],
                         "429": ["Retry-After"], "503": ["Retry-After"]}  # fmt: skip
    assert "www-authenticate" in refused


def test_pages_of_other_origins_where_they_are_let_in(encoder):
    asked = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST",
             "Access-Control-Request-Headers": "authorization, content-type, x-stainless-lang"}  # fmt: skip
    with client(encoder, token="secret", origins=["https://page.example"]) as http:
        allowed = http.options("/embed", headers=asked)
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == "https://page.example"
        headers = {"Origin": "https://page.example", "Authorization": "Bearer secret"}
        answer = http.post("/embed", json={"inputs": "a"}, headers=headers)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "https://page.example")
        assert answer.headers["access-control-expose-headers"] == "Retry-After, X-Unknown-Inputs"
        assert http.options("/embed", headers={**asked, "Origin": "https://other.example"}).status_code == 400
    with client(encoder) as http:
        assert "access-control-allow-origin" not in http.get("/health", headers={"Origin": "https://a.b"}).headers


LONG = "the cat sat on the mat and a dog ran far away today in the old town where rain fell"


REFUSED = [
    ("/v1/embeddings", {"input": []}, 400, "empty list"),
    ("/v1/embeddings", {"input": 5}, 422, "input: give a text"),
    ("/v1/embeddings", {"input": ["a", 5]}, 422, "element 1 of the input is 5; give texts alone, or token ids alone"),
    ("/embed", {"inputs": ["a", None, 5, None]}, 422, "element 1 of the input is null"),
    ("/embed", {"inputs": [[5], ["a"]]}, 422, "element 1 of the input is "),
    ("/embed", {"inputs": [None]}, 422, "element 0 of the input is "),
    ("/embed", {"inputs": ["a", 1 << 70]}, 422, "element 1 of the input is 118059162071741"),
    ("/embed", {"inputs": [[5], [1 << 70]]}, 400, "token ids must be from 0"),
    ("/embed", {"inputs": ["a", []]}, 422, "element 1 of the input is []"),
    ("/embed", {"inputs": [[5], [True]]}, 422, "element 1 of the input is [true]"),
    ("/embed", {"inputs": 5}, 422, "inputs: give a text, a list of texts, or token ids"),
    ("/similarity", {"inputs": ["a", "b"]}, 422, "inputs: Input should be a valid dictionary"),
    ("/classify", {"inputs": [None]}, 422, "inputs: Input should be a valid string"),
    ("/", {"inputs": {"source_sentence": "a", "sentences": [None]}}, 422, "sentences: Input should be a valid string"),
    ("/v1/embeddings", {}, 422, "input"),
    ("/v1/embeddings", {"input": "a", "model": "gpt"}, 404, "there is tiny"),
    ("/v1/embeddings", {"input": "a", "dimensions": 99}, 400, "the model has 16"),
    ("/v1/embeddings", {"input": [[1, 10**6]]}, 400, "token ids must be from 0"),
    ("/v1/embeddings", {"input": [[]]}, 400, "token ids must be from 0"),
    ("/v1/embeddings", {"input": LONG}, 413, "more than 16 tokens"),
    ("/v1/embeddings", {"input": [[5] * 17]}, 413, "more than 16 tokens"),
    ("/embed", {"inputs": "a", "prompt_name": "query"}, 400, "unknown prompt 'query'"),
    ("/similarity", {"inputs": {"source_sentence": "a", "sentences": []}}, 422, "at least 1 item"),
    ("/search", {"query": "a"}, 404, "--index"),
    ("/search", {"query": "a", "min_score": 2}, 422, "min_score: Input should be less than or equal to 1"),
    ("/search", {}, 422, "query: Field required"),
    ("/similarity", {"inputs": {"source_sentence": "a"}}, 422, "sentences: Field required"),
    ("/nowhere", {}, 404, "Not Found"),
    # no field is taken and ignored
    ("/v1/embeddings", {"input": "a", "dimension": 4}, 422, "dimension"),
    ("/v1/embeddings", {"input": "a", "dimensions": "4"}, 422, "dimensions"),
    ("/v1/embeddings", {"input": "a", "dimensions": 0}, 422, "dimensions"),
    ("/v1/embeddings", {"input": "a", "encoding_format": "hex"}, 422, "encoding_format"),
    ("/embed", {"inputs": "a", "norm": True}, 422, "norm"), ("/embed", {"inputs": "a", "x": 1}, 422, "x"),
    ("/embed", {"inputs": "a", "normalize": "yes"}, 422, "normalize"),
    ("/embed", {"inputs": "a", "truncation_direction": "left"}, 422, "truncation_direction"),
    ("/", {"inputs": "a", "x": 1}, 422, "x"),
    ("/similarity", {"inputs": {"source_sentence": "a", "sentences": ["b"], "x": 1}}, 422, "x"),
    ("/search", {"query": "a", "top": 3}, 422, "top"), ("/search", {"query": "a", "k": 0}, 422, "k"),
    ("/search", {"query": "a", "k": 1001}, 422, "k"),
]  # fmt: skip


def test_what_cannot_be_answered_is_one_line(encoder):
    with client(encoder, truncate=False) as http:
        for route, body, status, words in REFUSED:
            answer = http.post(route, json=body)
            error = answer.json()["error"]
            error = error["message"] if route.startswith("/v1/") else error
            assert (answer.status_code, words in error, "\n" in error) == (status, True, False), (route, body, error)
            assert len(error) < (100 if "element" in words else 1000)


def test_long_texts_are_cut_or_refused_as_asked(encoder):
    with client(encoder) as cutting, client(encoder, truncate=False) as refusing:
        for http, asked in ((cutting, {}), (refusing, {"truncate": True})):
            found = http.post("/embed", json={"inputs": LONG, **asked}).json()
            np.testing.assert_allclose(found, units(encoder, [LONG]), atol=1e-6)
        assert cutting.post("/embed", json={"inputs": LONG, "truncate": False}).status_code == 413
        exact = encoder.tokenizer.decode(encoder.token_rows([LONG])[0], skip_special_tokens=True)
        assert refusing.post("/embed", json={"inputs": exact}).status_code == 200


@pytest.mark.parametrize(("flags", "truncate"), [([], True), (["--no_truncate"], False), (["--no-truncate"], False)])
def test_the_command_truncates_unless_it_is_told_otherwise(flags, truncate, monkeypatch):
    seen = []
    monkeypatch.setattr(api, "run", seen.append)
    assert main(["api", *flags]) == 0
    assert seen[0].truncate is truncate


def test_bodies_tokens_and_hosts(encoder, monkeypatch):
    monkeypatch.setattr(api.ApiGate, "most_bytes", 100)
    with client(encoder, token="secret") as http:
        assert http.get("/health").json()["models"] == ["tiny"]
        for given in ({}, {"Authorization": "Bearer other"}, {"Authorization": "secret"}):
            refused = http.post("/embed", json={"inputs": "a"}, headers=given)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        headers = {"Authorization": "Bearer secret"}
        assert http.post("/embed", json={"inputs": "a"}, headers=headers).status_code == 200
        assert http.post("/embed", json={"inputs": "a" * 200}, headers=headers).status_code == 413
        chunked = http.post("/embed", content=iter([b'{"inputs": "', b"a" * 200, b'"}']), headers=headers)
        assert (chunked.status_code, chunked.json()["error_type"]) == (413, "too_large")
        assert http.post("/embed", content=b"{", headers=headers).status_code in (415, 422)
        text = http.get("/metrics", headers=headers).text
        assert 'contrastive_st_requests_total{route="/embed",status="401"} 3.0' in text
        assert 'contrastive_st_tokens_total{model="tiny"} 3.0' in text
        assert "paths" in http.get("/openapi.json", headers=headers).json()
    with client(encoder, base_url="http://evil.example") as http:
        assert http.get("/health").status_code == 421
    with client(encoder, base_url="http://my.host", host="0.0.0.0") as http:
        assert http.get("/health").status_code == 200


# --- What is encoded together.


class Slow:
    """Sums of rows, in 20 ms a pass; a row with a 99 fails."""

    def __init__(self):
        self.passes = []

    def __call__(self, buckets):
        for rows, _ in buckets:
            time.sleep(0.02)
            self.passes.append([list(row) for row in rows])
            if any(99 in row for row in rows):
                raise ValueError("ninety-nine")
            yield np.array([[sum(row), len(row)] for row in rows], np.float32)


def test_requests_are_encoded_together_and_each_gets_its_own():
    slow = Slow()

    async def many():
        batcher = Batcher(slow, {"max_tokens": 30})
        return await asyncio.gather(*(batcher.submit([[i], [i, i]][: 1 + i % 2]) for i in range(40)))

    answers = asyncio.run(many())
    for i, vectors in enumerate(answers):
        assert vectors.tolist() == [[i, 1], [2 * i, 2]][: 1 + i % 2]
    assert sum(map(len, slow.passes)) == 60
    assert len(slow.passes) <= 6
    assert all(sum(map(len, rows)) <= 30 for rows in slow.passes)


def test_only_a_client_among_others_waits_for_them():
    async def turns():
        batcher = Batcher(Slow(), gather=0.3)
        seconds = []
        for clients in (1, 2, 1, 1):
            started = time.monotonic()
            await asyncio.gather(*(batcher.submit([[number]]) for number in range(clients)))
            seconds.append(time.monotonic() - started)
            await asyncio.sleep(0.1)  # until the thread has ended its turn
        return seconds

    alone, _, after_others, again = asyncio.run(turns())
    assert after_others > 0.3
    assert max(alone, again) < 0.3


def test_rows_that_come_while_others_are_computed_are_taken_at_once():
    """A model that is two buckets ahead: whoever gets the first vectors is not kept waiting for the second ones."""
    seen, events = [], []

    def ahead(buckets):
        started = []
        for bucket in buckets:
            if bucket is not None:
                started.append(bucket[0])
                seen.append(len(bucket[0]))
            else:
                events.append("nothing waits")
                time.sleep(0.05)
            while started and (bucket is None or len(started) > 2):
                yield np.array([[sum(row)] for row in started.pop(0)], np.float32)
                break
        for rows in started:
            yield np.array([[sum(row)] for row in rows], np.float32)

    async def client(batcher, number):
        for turn in range(3):
            assert (await batcher.submit([[number, turn]])).tolist() == [[number + turn]]

    async def many():
        batcher = Batcher(ahead, {"max_rows": 1})
        await asyncio.gather(*(client(batcher, number) for number in range(4)))
        return batcher.waiting

    assert asyncio.run(many()) == 0
    assert seen == [1] * 12
    assert events


def test_what_waits_is_bounded_and_a_pass_that_fails_is_the_answer_to_its_own_requests():
    slow = Slow()

    async def crowd():
        batcher = Batcher(slow, {"max_rows": 1}, most_waiting=5)  # so 16 is one too many
        first = await asyncio.gather(*(batcher.submit([[i]]) for i in (11, 12, 99, 14, 15, 16)), return_exceptions=True)
        with pytest.raises(ApiError, match="at most 5"):
            await batcher.submit([[1] * 6])
        return first, (await batcher.submit([[7, 8]])).tolist(), batcher.waiting

    (a, b, failed, c, d, refused), later, waiting = asyncio.run(crowd())
    assert [own.tolist() for own in (a, b, c, d)] == [[[11, 1]], [[12, 1]], [[14, 1]], [[15, 1]]]
    assert str(failed) == "ninety-nine"
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    assert (later, waiting) == ([[15, 2]], 0)


def test_the_oldest_row_does_not_wait_for_ever():
    """A long row beside short ones that always fill a bucket better."""
    slow = Slow()

    async def crowd():
        batcher = Batcher(slow, {"max_tokens": 8, "min_tokens": 1, "max_padding": 0.0})
        first = asyncio.ensure_future(batcher.submit([[1] * 5]))
        short = [asyncio.ensure_future(batcher.submit([[2], [3], [4], [5], [6], [7], [8], [9]])) for _ in range(20)]
        await first
        return sum(future.done() for future in short)

    assert asyncio.run(crowd()) <= 3


def test_what_nobody_waits_for_is_not_computed():
    slow = Slow()

    async def crowd():
        batcher = Batcher(slow, {"max_rows": 1})
        gone = [asyncio.ensure_future(batcher.submit([[i]])) for i in range(20)]
        stays = asyncio.ensure_future(batcher.submit([[50]]))
        await asyncio.sleep(0.01)
        for future in gone:
            future.cancel()
        return (await stays).tolist(), batcher.waiting

    assert asyncio.run(crowd()) == ([[50, 1]], 0)
    assert len(slow.passes) < 8


def test_a_fault_before_the_first_bucket_is_an_answer_too():
    def broken(buckets):
        raise MemoryError("no room")
        yield

    async def ask():
        await Batcher(broken).submit([[1]])

    with pytest.raises(MemoryError, match="no room"):
        asyncio.run(ask())


# --- What a request may ask for.


@pytest.mark.parametrize(("body", "words"), [
    (b'{"input":[' + b'"",' * 5000 + b'""]}', "4,096 inputs"),
    (b'{"input":[' + b'"a \\" b",' * 5000 + b'""]}', "4,096 inputs"),
    (b'{"input":[' + b'"\\\\",' * 9000 + b'""]}', "4,096 inputs"),
    (b'{"input":[' + b"[5]," * 5000 + b"[5]]}", "4,096 inputs"),
    (b'{"input":[' + b"null," * 400_000 + b"null]}", "4,096 inputs"),
    (b'{"input":[5' + b",[5]" * 5000 + b"]}", "4,096 inputs"),
    (b'{"input":"a"' + b"".join(b',"%d":0' % number for number in range(5000)) + b"}", "4,096 inputs"),
    (b'{"input":"' + b"a" * (1 << 21) + b'"}', "bytes"),
], ids=["empty", "quotes", "backslashes", "rows", "nulls", "mixed", "keys", "long"])  # fmt: skip
def test_what_is_too_much_is_refused(encoder, body, words):
    headers = {"content-type": "application/json"}
    with client(encoder) as http:
        for route in ("/v1/embeddings", "/"):
            sent = body if route == "/v1/embeddings" else body.replace(b'"input"', b'"inputs"')
            answer = http.post(route, content=sent, headers=headers)
            assert (answer.status_code, words in str(answer.json()["error"])) == (413, True), route
        assert http.post("/embed", json={"inputs": "a"}).status_code == 200


def test_a_limit_is_what_it_says(encoder):
    """4,096 inputs with every mark that is counted, in texts and between them."""
    texts = ['["a, \\" b"], [', "\\\\", "{[,\\"] * 1365 + ["\u00fc"]
    with client(encoder) as http:
        found = http.post("/embed", json={"inputs": texts}).json()
        assert len(found) == 4096
        np.testing.assert_allclose(found[:6], units(encoder, texts[:6]), atol=1e-6)


def test_what_all_requests_hold_is_bounded(encoder, monkeypatch):
    monkeypatch.setattr(api.limits, "ALL_FLOATS", 16 * 3)
    with client(encoder) as http:
        assert http.post("/embed", json={"inputs": ["a"] * 3}).status_code == 200
        refused = http.post("/embed", json={"inputs": ["a"] * 4})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert http.post("/embed", json={"inputs": ["a"] * 3}).status_code == 200  # nothing is held any more
    monkeypatch.setattr(api.limits, "ALL_BYTES", 100)
    with client(encoder) as http:
        assert http.post("/embed", json={"inputs": "a" * 100}).status_code == 429
        assert http.post("/embed", json={"inputs": "a" * 50}).status_code == 200
    monkeypatch.setattr(api.limits, "MOST_UNDER_WAY", 0)
    with client(encoder) as http:
        assert http.post("/embed", json={"inputs": "a"}).status_code == 429
        assert http.get("/health").status_code == 200


def test_large_answers_come_in_parts_that_make_one(encoder, monkeypatch):
    monkeypatch.setattr("contrastive_st.serve.answers._FLOATS", 32)
    monkeypatch.setattr("contrastive_st.serve.answers.FEW", 100)
    with client(encoder) as http:
        answer = http.post("/v1/embeddings", json={"input": SENTENCES})
        assert "content-length" not in answer.headers
        found = np.array([item["embedding"] for item in answer.json()["data"]])
        np.testing.assert_array_equal(found.astype(np.float32), units(encoder, SENTENCES))
        np.testing.assert_array_equal(
            np.float32(http.post("/embed", json={"inputs": SENTENCES}).json()), np.float32(found)
        )
