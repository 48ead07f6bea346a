"""The folders in `made/` open with the vectors and fingerprints of the day when they were written (November 2026)."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from contrastive_st import AutoModelForCL, SentenceEncoder
from contrastive_st.files.reading import read_json

MADE = Path(__file__).parent / "made"
EXPECTED = json.loads((MADE / "expected.json").read_text(encoding="utf-8"))


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
