"""Folders that ask for what no model has, or hold what no model reads: one line, before anything is built."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from warm_python import python_with_package

sys.path.insert(0, str(Path(__file__).parent))

import mutants

from contrastive_st import AutoModelForCL, BertForCL, SentenceEncoder
from contrastive_st.errors import InputError, one_line
from contrastive_st.files.folders import check_folder, check_sizes
from contrastive_st.models.auto import load_config
from contrastive_st.models.protocol import open_encoder
from contrastive_st.static_vectors import StaticVectors

MADE = mutants.MADE


@pytest.fixture
def folder(tmp_path):
    """A function that copies a sample, and writes values into one of its JSON files."""

    def copy(kind="bert", file="config.json", **values):
        shutil.copytree(MADE / kind, tmp_path / kind)
        path = tmp_path / kind / file
        content = {**json.loads(path.read_text()), **values}
        path.write_text(json.dumps(content))
        return tmp_path / kind

    return copy


def refused(folder, words, opened=open_encoder):
    with pytest.raises(Exception) as found:  # noqa: PT011 - also errors of libraries, as they are
        opened(folder)
    assert re.search(words, one_line(found.value))
    assert len(one_line(found.value).splitlines()) == 1


@pytest.mark.parametrize(("kind", "file", "values", "words"), [
    ("bert", "config.json", {"num_hidden_layers": 10_000_000}, "num_hidden_layers is 10000000, but the weights have"),
    ("bert", "config.json", {"num_attention_heads": 0}, "by zero"),
    ("bert", "config.json", {"hidden_act": "no_such_activation"}, "no_such_activation"),
    ("bert", "config.json", {"vocab_size": 10_000_000}, "80,001,024 weights, but its files have"),
    ("bert", "config.json", {"vocab_size": 10**12}, "8,000,000,001,024 weights"),
    ("bert", "config.json", {"intermediate_size": 10**9}, "17,000,001,480 weights"),
    ("bert", "config.json", {"max_position_embeddings": -5}, "negative dimension -5"),
    ("bert", "config.json", {"quantization_config": {"quant_method": "gptq"}}, "quantized by a library"),
    ("bert", "tokenizer_config.json", {"cls_token": "../../etc/passwd"}, "they do not belong together"),
    ("bert", "tokenizer_config.json", {"sep_token": "../../etc/passwd"}, "they do not belong together"),
    pytest.param("quickthoughts", "config.json", {"pad_token_id": 10_000_000}, "Padding_idx must be within",
                 marks=pytest.mark.allow_warnings),
    ("static", "tokenizer_config.json", {"model_max_length": -5}, "model_max_length -5"),
    ("static", "tokenizer_config.json", {"model_max_length": 0}, "model_max_length 0"),
])  # fmt: skip
def test_a_size_that_no_model_has(kind, file, values, words, folder):
    refused(folder(kind, file, **values), words, SentenceEncoder if kind == "static" else open_encoder)


def test_a_token_id_of_four_thousand_million(folder, tmp_path):
    path = folder() / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["vocab"]["huge"] = 4_000_000_000
    path.write_text(json.dumps(content))
    refused(path.parent, "a token with id 4000000000, but ids must be below")
    content["model"]["vocab"]["huge"] = 7
    content["added_tokens"].append({"id": 99_999_999, "content": "x"})
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="id 99999999"):
        check_sizes(path.parent)
    path.write_text(json.dumps({"model": {"vocab": {"12345678": 1}}}))  # digits in a token are no id
    check_sizes(path.parent)


def test_a_tokenizer_of_another_model(folder):
    """Ids for which there is no vector: refused when it is opened, and not for the first text that has one."""
    path = folder(vocab_size=len(json.loads((MADE / "bert" / "tokenizer.json").read_text())["model"]["vocab"]))
    content = json.loads((path / "tokenizer.json").read_text())
    content["model"]["vocab"]["another"] = max(content["model"]["vocab"].values()) + 1
    (path / "tokenizer.json").write_text(json.dumps(content))
    refused(path, "they do not belong together")


def test_an_added_token_without_a_vector(folder):
    """It may stand in a tokenizer, and is refused in a text that has it; in the API too, whose clients send ids."""
    path = folder("bert", "tokenizer_config.json", extra_special_tokens={"extra": "<extra>"})
    encoder = open_encoder(path)
    assert (
        len(encoder.tokenizer) > encoder.vocabulary_size == json.loads((path / "config.json").read_text())["vocab_size"]
    )
    assert encoder.encode("a cat").shape == (encoder.dimension,)
    with pytest.raises(InputError, match="'<extra>'"):
        encoder.encode("a cat <extra>")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
@pytest.mark.parametrize("name", ["config.json", "modules.json", "tokenizer.json", "model.safetensors"])
def test_a_pipe_is_not_waited_for(name, folder):
    path = folder() / name
    path.unlink()
    os.mkfifo(path)
    refused(path.parent, "is not a regular file")


@pytest.mark.parametrize("name", ["config.json", "modules.json", "tokenizer_config.json"])
def test_a_sparse_file_is_not_read(name, folder):
    path = folder() / name
    with path.open("wb") as file:
        file.truncate(10 << 30)
    refused(path.parent, "is not a regular file, or")
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(InputError, match="regular"):
        check_folder(path.parent)


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.int64, torch.bool])
def test_integers_are_no_weights(kind, folder):
    path = folder() / "model.safetensors"
    tensors = load_file(path)
    name = next(name for name in tensors if name.endswith("word_embeddings.weight"))
    save_file({**tensors, name: tensors[name].to(kind)}, path, metadata={"format": "pt"})
    refused(path.parent, "word_embeddings.weight are of the type")
    refused(path.parent, "are of the type", AutoModelForCL.from_pretrained)


def test_integers_are_no_table():
    table = np.zeros((2, 2), np.int64)
    with pytest.raises(InputError, match="int64"):
        StaticVectors(table, None)


def test_an_implementation_of_a_config_is_dropped(folder, monkeypatch):
    """transformers would load it from the Hub, as a kernel; one's own choice is an argument and stays."""
    path = folder(_attn_implementation="kernels-community/evil", attn_implementation="kernels-community/evil")
    asked = []
    monkeypatch.setattr("transformers.modeling_utils.lazy_import_flash_attention", lambda *a, **k: asked.append(a))
    assert load_config(path)._attn_implementation is None
    for opened in (SentenceEncoder(path).model, AutoModelForCL.from_pretrained(path), BertForCL.from_pretrained(path)):
        assert opened.config._attn_implementation in ("sdpa", "eager")
    assert BertForCL.from_pretrained(path, attn_implementation="eager").config._attn_implementation == "eager"
    assert not asked


def test_names_of_ten_thousand_characters_and_a_vocabulary_without_unknown_words(folder):
    path = folder()
    modules = json.loads((path / "modules.json").read_text())
    modules[1]["path"] = "a" * 10_000
    (path / "modules.json").write_text(json.dumps(modules))
    refused(path, "File name too long")
    shutil.rmtree(path)
    path = folder("quickthoughts")
    content = json.loads((path / "tokenizer.json").read_text())
    content["model"]["unk_token"] = "[no such token]"
    (path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(Exception, match=r"unk|UNK"):  # as tokenizers says it
        open_encoder(path).encode(["a word that is not there"])


@pytest.mark.slow
def test_a_share_of_the_mutants(tmp_path):
    """Each is opened in a child of one process; more of them by hand."""
    command = [python_with_package(), mutants.__file__, "--count", "20", "--resume", "5", "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "20 + 5 mutants of seed 7" in done.stdout
