"""What an earlier version of the package wrote opens, with the same vectors, fingerprints and hits; see `make.py`."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from store_places import store_place

from contrastive_st import AutoModelForCL, SentenceEncoder, open_index
from contrastive_st.files.reading import read_json

MADE = Path(__file__).parent / "made"
EXPECTED = json.loads((MADE / "expected.json").read_text(encoding="utf-8"))
STATIC = EXPECTED["folders"]["static"]["fingerprint"]


@pytest.mark.parametrize("name", ["bert", "quickthoughts", "static"])
def test_a_folder_gives_the_vectors_and_the_fingerprint_of_before(name):
    encoder, expected = SentenceEncoder(MADE / name), EXPECTED["folders"][name]
    np.testing.assert_allclose(encoder.encode(EXPECTED["sentences"]), expected["vectors"], rtol=0, atol=2e-6)
    assert encoder.fingerprint == expected["fingerprint"]
    assert (
        AutoModelForCL.from_pretrained(MADE / name).config.model_type
        == read_json(MADE / name / "config.json")["model_type"]
    )


def test_an_adapter_gives_the_vectors_of_before(tmp_path):
    shutil.copytree(MADE / "lora", tmp_path / "lora")
    about = tmp_path / "lora" / "adapter_config.json"
    about.write_text(json.dumps(read_json(about) | {"base_model_name_or_path": str(MADE / "bert")}))
    vectors = SentenceEncoder(tmp_path / "lora").encode(EXPECTED["sentences"])
    np.testing.assert_allclose(vectors, EXPECTED["folders"]["lora"]["vectors"], rtol=0, atol=2e-6)


def found(index):
    encoder = SentenceEncoder(MADE / "static")
    hits = index.search(encoder.encode("a cat and a dog")[None], k=3)[0]
    return [[hit.id, hit.text, hit.metadata, round(float(hit.score), 3)] for hit in hits]


def test_a_folder_of_shards_gives_the_hits_of_before(tmp_path):
    shards = shutil.copytree(MADE / "shards", tmp_path / "shards")  # a search writes into the folder
    assert found(open_index(shards, fingerprint=STATIC)) == EXPECTED["hits"]


@pytest.mark.slow
def test_a_store_gives_the_hits_of_before():
    with store_place() as place:
        from contrastive_st.search.postgres.server import EmbeddedServer, _binaries

        with EmbeddedServer(place) as server:
            psql = [str(_binaries() / "psql"), "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", server.dsn]
            subprocess.run([*psql, "--file", str(MADE / "store.sql")], check=True, stdout=subprocess.DEVNULL)
        with open_index(place, "docs", fingerprint=STATIC) as index:
            assert found(index) == EXPECTED["hits"]
