"""Generated requests: the API answers by what was asked for, or by one line; filters of a store find what a plain check
finds."""

import functools
import json

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the API needs the extra api")
pytest.importorskip("prometheus_client", reason="the API needs the extra api")
pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, seed, settings, strategies as st
from search_fakes import topic_index
from starlette.testclient import TestClient

from contrastive_st.errors import InputError
from contrastive_st.models.protocol import open_encoder
from contrastive_st.search.filters import as_filter
from contrastive_st.search.postgres.predicates import as_jsonpath
from contrastive_st.serve.api import IndexServed, Served, make_api

pytestmark = pytest.mark.slow
BOUNDED = settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
TEXT = st.text(st.characters(codec="utf-8"), max_size=60)
IDS = st.lists(st.integers(-3, 40_000), max_size=8)
INPUTS = TEXT | st.lists(TEXT, max_size=5) | IDS | st.lists(IDS, max_size=4) | JSON
FIELDS = st.fixed_dictionaries({}, optional={
    "input": INPUTS, "inputs": INPUTS | st.fixed_dictionaries({"source_sentence": TEXT, "sentences": INPUTS}),
    "model": st.sampled_from(["static-minilm", "other", None, 5]), "dimensions": st.integers(-1, 300) | JSON,
    "encoding_format": st.sampled_from(["float", "base64", "x", 1]), "normalize": st.booleans() | JSON,
    "truncate": st.booleans() | st.none() | JSON, "prompt_name": st.none() | st.text(max_size=5), "query": TEXT | JSON,
    "k": st.integers(-1, 2_000) | JSON, "filter": st.lists(st.text(max_size=15), max_size=4) | JSON, "hybrid": JSON,
})  # fmt: skip
ROUTES = ("/v1/embeddings", "/embed", "/similarity", "/search", "/")


encoder = functools.cache(open_encoder)
topics = functools.cache(lambda: topic_index(encoder=encoder()))


@pytest.fixture(scope="module")
def http():
    served = Served(encoder())
    app = make_api({encoder().name: served}, {"topics": IndexServed(topics(), served)})
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


def checked(answer):
    """The content of a good answer; of another one, that it is one line."""
    assert answer.status_code in (200, 400, 404, 413, 422), (answer.status_code, answer.text[:300])
    content = answer.json()
    if answer.status_code == 200:
        return content
    error = content["error"]
    words = error["message"] if isinstance(error, dict) else error
    assert words.strip()
    assert "\n" not in words
    assert len(words) < 1_000
    return None


@seed(35)
@BOUNDED
@given(route=st.sampled_from(ROUTES), body=FIELDS | JSON)
def test_generated_json(http, route, body):
    checked(http.post(route, json=body))


@seed(35)
@BOUNDED
@given(route=st.sampled_from(ROUTES), body=FIELDS, cut=st.integers(0, 60), noise=st.binary(max_size=12))
def test_broken_json(http, route, body, cut, noise):
    content = json.dumps(body).encode()
    content = content[: max(len(content) - cut, 0)] + noise + content[len(content) - cut // 2 :]
    checked(http.post(route, content=content, headers={"content-type": "application/json"}))


@seed(35)
@BOUNDED
@given(texts=st.lists(TEXT, min_size=1, max_size=20), encoding=st.sampled_from(["float", "base64"]))
def test_texts_of_any_characters_have_their_own_vectors(http, texts, encoding):
    import base64

    content = checked(http.post("/v1/embeddings", json={"input": texts, "encoding_format": encoding}))
    values = [item["embedding"] for item in content["data"]]
    found = [np.frombuffer(base64.b64decode(x), "<f4") if isinstance(x, str) else x for x in values]
    np.testing.assert_allclose(found, encoder().encode(texts, normalize_embeddings=True), atol=1e-6)


@seed(35)
@BOUNDED
@given(
    written=st.lists(
        st.builds(
            "{}{}{}".format, st.text(max_size=6), st.sampled_from(["=", ">=", "<", "!=", "", "=="]), st.text(max_size=8)
        )
        | st.sampled_from(["topic=sea", "year>=2000", "year<2001", 'topic="sea"', "year!=null"]),
        max_size=3,
    )
)
def test_generated_filters(http, written):
    """A filter is refused in a line, or the search finds what matches it."""
    content = checked(http.post("/search", json={"query": "tides", "k": 1000, "filter": written}))
    try:
        conditions = as_filter(written)
        as_jsonpath(conditions)
    except InputError:
        assert content is None
        return
    wanted = {id for ids, _, metadata, _ in topics().scan() for id, item in zip(ids.tolist(), metadata, strict=True)
              if conditions.holds(item)}  # fmt: skip
    if content is not None:
        assert {hit["id"] for hit in content["hits"]} == wanted
