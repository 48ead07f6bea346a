"""What would be pushed is told without a word to the Hub; what is pulled or converted appears whole."""

import json
import shutil
import socket

import pytest
from refusals import refused, told
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from small_files import full_disk

from conftest import save_both
from contrastive_st import BertForCL
from contrastive_st.cli import main
from contrastive_st.errors import InputError
from contrastive_st.hub import push as pushing


@pytest.fixture
def checkpoint(bert_config, tokenizer, tmp_path):
    return save_both(BertForCL(bert_config), tokenizer, tmp_path / "model")


def content(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_dry_run_lists_files_and_sizes_shows_the_card_and_sends_nothing(checkpoint, capsys, monkeypatch):
    def connect(*args):
        raise AssertionError("a dry run talks to nobody")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(pushing, "HfApi", connect)
    (checkpoint / "optimizer.pt").write_bytes(b"state")
    before = content(checkpoint)
    printed = told(capsys, "push", checkpoint, "alice/model", "--dry-run", "--license", "mit").out
    size = (checkpoint / "model.safetensors").stat().st_size
    assert f"{size:,}  model.safetensors\n" in printed
    assert "would go to alice/model; nothing is sent" in printed
    assert "license: mit" in printed
    assert 'SentenceEncoder.from_pretrained("alice/model")' in printed
    assert "optimizer.pt" not in printed
    assert content(checkpoint) == before


@pytest.mark.parametrize("layout", ["static", "router", "0_Transformer", "0_Asym"])
def test_folders_of_sentence_transformers_are_pushed_whole(layout, checkpoint, tokenizer, tmp_path):
    parts = [modules.Transformer(str(checkpoint)), modules.Pooling(32)]
    if layout == "static":
        parts = [modules.StaticEmbedding(tokenizer, embedding_dim=8)]
    elif layout != "0_Transformer":
        parts = [modules.Router({"query": parts, "document": parts}, "document")]
    SentenceTransformer(modules=parts).save(str(folder := tmp_path / "theirs"))
    if layout.startswith("0"):  # as former versions wrote it
        inside = [
            path for path in folder.iterdir() if path.name.startswith(("model.", "sentence_", "token", "query", "r"))
        ]
        inside += [folder / "config.json"] if layout == "0_Transformer" else []
        (folder / layout).mkdir()
        for path in inside:
            shutil.move(path, folder / layout / path.name.replace("router_", ""))
        module_list = json.loads((folder / "modules.json").read_text())
        module_list[0]["path"] = layout
        (folder / "modules.json").write_text(json.dumps(module_list))
    assert set(pushing.dry_run(folder, "alice/model")) == {*content(folder)}
    shutil.copytree(folder, tmp_path / "there")
    (next(tmp_path.glob("there/**/model.safetensors"))).unlink()
    with pytest.raises(InputError, match="has no safetensors weights"):
        pushing.dry_run(tmp_path / "there", "alice/model")


def test_a_dry_run_refuses_what_a_push_refuses(checkpoint, capsys):
    (checkpoint / "model.safetensors").unlink()
    push = ["push", checkpoint, "alice/model", "--dry_run"]
    assert "has no safetensors weights" in refused(capsys, *push)
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps(config | {"exported": {"backend": "onnx"}}))
    assert "has no exported graph" in refused(capsys, *push)


OWN = ("README.md", "LICENSE", ".gitattributes", "image.png", "pairs.csv", "last-checkpoint/model.safetensors")
FORMER = ("config.json", "modules.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
NEW = ("config.json", "modules.json", "tokenizer.json", "tokenizer_config.json")


@pytest.mark.parametrize(
    ("there", "pushed", "former"),
    [
        ([], ["model-00001-of-00002.safetensors", "model.safetensors.index.json"], ["model.safetensors"]),
        (["model.safetensors.index.json", "model-00001-of-00001.safetensors"], ["model.safetensors"], "all"),
        (["adapter_config.json", "adapter_model.safetensors"], ["model.safetensors"], "all"),
        (["pytorch_model.bin", "tf_model.h5", "model.fp16.safetensors"], ["model.safetensors"], "all"),
        (["onnx/model.onnx", "openvino/openvino_model.xml", "openvino_model.xml"], ["model.safetensors"], "all"),
        (["animals.classifier.json", "animals.classifier.safetensors"], ["model.safetensors"], "all"),
        ([".eval_results/STSBenchmark.yaml", "evaluation/report.json"], ["model.safetensors"], "all"),
        (["training_metadata.json", "training_curve.png"], ["model.safetensors"], "all"),
        (["2_Dense/config.json", "2_Dense/model.safetensors"], ["model.safetensors"], "all"),
        (["vocab.txt", "special_tokens_map.json"], ["model.safetensors"], "all"),
        (["onnx/model.onnx"], ["openvino/openvino_model.bin"], []),
        ([], ["onnx/model.onnx", "2_Dense/model.safetensors"], []),
        ([], ["last-checkpoint/adapter_model.safetensors", "model.safetensors"], ["last-checkpoint/model.safetensors"]),
        ([], ["model.safetensors"], []),
    ],
)
def test_a_push_removes_the_former_model_and_nothing_else(there, pushed, former):
    before = dict.fromkeys((*OWN, *FORMER, *there), "before")
    whole = ["last-checkpoint"] if pushed[0].startswith("last") else []
    found = pushing.former_files(before, dict.fromkeys((*NEW, *pushed), "new"), whole)
    assert found == sorted(there if former == "all" else former)


def test_an_adapter_removes_the_whole_model_with_its_settings_and_its_tokenizer():
    adapter = dict.fromkeys(("adapter_config.json", "adapter_model.safetensors"), "new")
    assert pushing.former_files(dict.fromkeys((*OWN, *FORMER), "before"), adapter) == sorted(FORMER)


def test_files_made_of_the_weights_stay_while_these_are_the_same():
    made = ("onnx/model.onnx", "animals.classifier.json", "evaluation/report.json", "pytorch_model.bin")
    there, same = dict.fromkeys((*OWN, *FORMER, *made), "same"), dict.fromkeys(FORMER, "same")
    assert pushing.former_files(there, same | {"tokenizer.json": "new"}) == []
    there = {"adapter_config.json": "same", "adapter_model.safetensors": "same"} | there  # as former versions left it
    assert {"adapter_config.json", "adapter_model.safetensors"} <= set(pushing.former_files(there, same))


@pytest.mark.parametrize(
    "command",
    [["convert", "{model}", "{target}", "--to", "backbone"], ["card", "{model}", "--output", "{target}"]],
    ids=["convert", "card"],
)
def test_a_full_disk_or_a_name_that_is_too_long_leaves_nothing_behind(checkpoint, tmp_path, capsys, command):
    def run(target):
        code = main([word.format(model=checkpoint, target=target) for word in command])
        return code, capsys.readouterr().err

    with full_disk(200):
        code, err = run(tmp_path / "new")
    assert code == 2
    assert "cannot be written: " in err
    assert [path for path in tmp_path.rglob("*") if path.is_file() and checkpoint not in path.parents] == []
    code, err = run(tmp_path / ("a" * 300))
    assert code == 2
    assert "name too long" in err.lower()
    assert err.count("\n") == 1
    assert run(tmp_path / "new")[0] == 0
