"""Layouts of contrastive checkpoints: converted back and forth, the embeddings stay."""

import copy
import json

import numpy as np
import pytest
import torch
from refusals import refused
from safetensors.torch import load_file, save_file
from small_checkpoints import sentence_transformers_folder
from transformers import BertModel, DistilBertConfig, RobertaConfig

from conftest import SENTENCES, save_both
from contrastive_st import AutoModelForCL, BertForCL, InputError, RobertaForCL, SentenceEncoder
from contrastive_st.hub.convert import convert


def embed(folder, **settings):
    return SentenceEncoder.from_pretrained(folder, **settings).encode(SENTENCES)


def published(model, tokenizer, folder, layout, binary):
    """A checkpoint as SimCSE's own tools write it: key names, architectures, a pickle or safetensors; no pooling."""
    prefix = model.base_model_prefix
    config = copy.deepcopy(model.config).to_dict()
    del config["contrastive"]
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    if layout == "simcse":
        state = {name.replace(f"{prefix}.pooler.dense", "mlp.dense"): t for name, t in state.items()}
        state["lm_head.bias"] = torch.zeros(3)
        config["architectures"] = [type(model).__name__]
    else:
        state = {name.removeprefix(f"{prefix}."): t for name, t in state.items()}
        config["architectures"] = [type(model.backbone).__name__]
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer.save_pretrained(folder)
    if binary:
        torch.save(state, folder / "pytorch_model.bin")
    else:
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize(
    ("layout", "binary", "pooling"),
    [("simcse", True, "cls"), ("backbone", False, "cls"), ("backbone", True, "cls_before_pooler")],
)
def test_published_layouts_become_every_other_with_the_same_embeddings(
    bert_config, tokenizer, tmp_path, layout, binary, pooling
):
    model = BertForCL(bert_config, pooling=pooling)
    with torch.no_grad():
        model.projection.dense.bias.normal_()
    expected = SentenceEncoder(model, tokenizer).encode(SENTENCES)
    source = published(model, tokenizer, tmp_path / "published", layout, binary)
    for to in ("package", "simcse", "backbone"):
        first = convert(source, tmp_path / to, to, pooling)
        again = convert(first, tmp_path / f"{to}-again", to)  # the pooling is recorded now
        files = {path.relative_to(first) for path in first.rglob("*") if path.is_file()}
        assert files == {path.relative_to(again) for path in again.rglob("*") if path.is_file()}
        for path in files:
            assert (first / path).read_bytes() == (again / path).read_bytes(), f"{to}: {path}"
        back = convert(again, tmp_path / f"{to}-back", "package")
        np.testing.assert_allclose(embed(back), expected, rtol=0, atol=1e-6)
        opened = {} if to == "package" else {"pooling": pooling}
        np.testing.assert_allclose(embed(again, **opened), expected, rtol=0, atol=1e-6)
        assert not list(again.glob("*.bin"))
    keys = load_file(tmp_path / "simcse" / "model.safetensors").keys()
    assert {"mlp.dense.weight", "bert.embeddings.LayerNorm.weight"} <= keys
    assert {"pooler.dense.weight"} <= load_file(tmp_path / "backbone" / "model.safetensors").keys()
    config = json.loads((tmp_path / "backbone" / "config.json").read_text())
    assert config["architectures"] == ["BertModel"]
    assert "contrastive" not in config
    plain = BertModel.from_pretrained(tmp_path / "backbone").eval()
    with torch.no_grad():
        output = plain(**tokenizer(SENTENCES, padding=True, return_tensors="pt"))
    vectors = output.pooler_output if pooling == "cls" else output.last_hidden_state[:, 0]
    np.testing.assert_allclose(vectors.numpy(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("settings", [
    {"pooling": "mean"}, {"pooling": "avg_top2"}, {"pooling": "cls", "mlp_only_train": True}, {"pooling": "cls"},
])  # fmt: skip
def test_every_recorded_pooling_survives_the_way_through_a_plain_backbone(bert_config, tokenizer, tmp_path, settings):
    model = BertForCL(bert_config, **settings)
    save_both(model, tokenizer, tmp_path / "own")
    plain = convert(tmp_path / "own", tmp_path / "plain", "backbone")
    back = convert(plain, tmp_path / "back", "package")
    np.testing.assert_allclose(embed(back), embed(tmp_path / "own"), rtol=0, atol=1e-6)


def test_roberta_too_and_families_that_simcse_has_not(tokenizer, tmp_path):
    shape = {"vocab_size": len(tokenizer), "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = RobertaConfig(**shape, intermediate_size=16, max_position_embeddings=40, type_vocab_size=1, pad_token_id=0)
    model = RobertaForCL(config)
    save_both(model, tokenizer, tmp_path / "own")
    simcse = convert(tmp_path / "own", tmp_path / "simcse", "simcse")
    assert "roberta.embeddings.LayerNorm.bias" in load_file(simcse / "model.safetensors")
    back = convert(simcse, tmp_path / "back", "package")
    np.testing.assert_allclose(embed(back), embed(tmp_path / "own"), rtol=0, atol=1e-6)
    other = DistilBertConfig(vocab_size=len(tokenizer), dim=16, n_layers=1, n_heads=2, hidden_dim=16)
    save_both(AutoModelForCL.from_config(other, pooling="mean"), tokenizer, tmp_path / "distil")
    with pytest.raises(InputError, match="not distilbert"):
        convert(tmp_path / "distil", tmp_path / "new", "simcse")


@pytest.mark.allow_warnings  # transformers reports the weight that is missing
def test_a_dense_layer_in_a_pickle_is_converted_too(bert_config, tokenizer, tmp_path):
    made = tmp_path / "old", BertModel(bert_config), tokenizer, ("mean_tokens",)
    source = sentence_transformers_folder(*made, dense=[(5, "Tanh")])
    expected = embed(source)
    for file in source.rglob("model.safetensors"):
        torch.save(load_file(file), file.with_name("pytorch_model.bin"))
        file.unlink()
    np.testing.assert_allclose(embed(convert(source, tmp_path / "new", "package")), expected, atol=1e-6)


def test_pooling_is_never_guessed(bert_config, tokenizer, tmp_path, capsys):
    untouched = copy.deepcopy(bert_config)
    source = published(BertForCL(bert_config), tokenizer, tmp_path / "unsup-simcse-bert", "backbone", False)
    new, own, headless = (tmp_path / name for name in ("new", "own", "headless"))
    error = lambda *words: refused(capsys, "convert", *words)
    assert "does not record how it pools" in error(source, new, "--to", "package")
    convert(source, own, "package", "cls")
    assert "would change its embeddings" in error(own, new, "--to", "backbone", "--pooling", "mean")
    assert "exists already" in error(own, source, "--to", "backbone")
    save_both(BertModel(untouched, add_pooling_layer=False), tokenizer, headless)
    assert "has no trained projection head" in error(headless, new, "--to", "package", "--pooling", "cls")
    state = load_file(source / "model.safetensors")
    del state["encoder.layer.0.output.dense.weight"]
    save_file(state, source / "model.safetensors", metadata={"format": "pt"})
    assert "lacks weights" in error(source, new, "--to", "package", "--pooling", "cls")
    assert not new.exists()
