"""The handler of a Hub endpoint, called as the endpoint calls it."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from contrastive_st import SentenceEncoder
from contrastive_st.errors import InputError

ROOT = Path(__file__).parents[2]
MODEL = str(ROOT / "src/contrastive_st/static-minilm")
TEXTS = ["a cat sat on the mat", "a feline rested on a rug", "taxes rose again"]


@pytest.fixture(scope="module")
def handler():
    place = importlib.util.spec_from_file_location("handler", ROOT / "deploy/endpoint/handler.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module.EndpointHandler(MODEL)


def answered(handler, request):
    """The answer to a request as it arrives and leaves: as JSON."""
    return json.loads(json.dumps(handler(json.loads(json.dumps(request)))))


def test_vectors_are_those_of_the_encoder(handler):
    expected = SentenceEncoder(MODEL).encode(TEXTS, normalize_embeddings=True)
    found = answered(handler, {"inputs": TEXTS, "parameters": {"normalize_embeddings": True}})
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.shape(answered(handler, {"inputs": TEXTS[0], "parameters": {"truncate_dim": 64}})) == (64,)


def test_cosines_of_a_sentence_with_others(handler):
    found = answered(handler, {"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}})
    assert found[0] > found[1]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({}, "no inputs"),
        ({"inputs": {"texts": []}}, "source_sentence"),
        ({"inputs": "a", "parameters": {"temperature": 1}}, "unknown parameters temperature"),
        ({"inputs": 3}, "give a list of strings"),
    ],
)
def test_a_bad_request_says_what_is_wrong(handler, request_, words):
    with pytest.raises(InputError, match=words):
        handler(request_)


def test_the_requirements_take_this_version():
    from packaging.requirements import Requirement

    from contrastive_st import __version__

    (line,) = (ROOT / "deploy/endpoint/requirements.txt").read_text().splitlines()
    assert Requirement(line).name == "contrastive-st"
    assert __version__ in Requirement(line).specifier
