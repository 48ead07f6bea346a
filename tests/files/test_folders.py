"""What a checkpoint folder may hold: no way out of it, no pickle; and texts that may leave the machine."""

import contextlib
import json
import os
import pickle
import re
import shutil
from functools import partial

import pytest
import torch
from refusals import error_of, refusal
from safetensors.torch import load_file, save_file

from conftest import save_both
from contrastive_st import AutoModelForCL, BertForCL, InputError, SentenceEncoder
from contrastive_st.errors import one_line
from contrastive_st.files.redact import publishable, publishable_arguments, without_paths, without_secrets
from contrastive_st.hub.cards import write_card
from contrastive_st.hub.convert import convert
from contrastive_st.hub.push import publishable_files, push


@pytest.fixture
def checkpoint(bert_config, tokenizer, tmp_path):
    return save_both(BertForCL(bert_config), tokenizer, tmp_path / "model")


ENTRIES = {
    "auto": AutoModelForCL.from_pretrained,
    "class": BertForCL.from_pretrained,
    "encoder": SentenceEncoder.from_pretrained,
    "push": lambda folder: push(folder, "alice/model"),
    "convert": lambda folder: convert(folder, folder.parent / "new", "backbone"),
    "card": write_card,
}


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES.keys())
def test_a_folder_that_reaches_outside_of_itself_is_refused(checkpoint, tmp_path, entry):
    (tmp_path / "secret.json").write_text("{}")

    def refused(words):
        with refusal(words):
            entry(checkpoint)

    link = checkpoint / "extra.json"
    link.symlink_to(tmp_path / "secret.json")
    refused("extra.json is a link to a place outside")
    link.unlink()
    link = checkpoint / "2_Other"
    link.symlink_to(tmp_path)
    refused("2_Other is a link")
    link.unlink()
    (checkpoint / "same.json").symlink_to("config.json")  # inside: nothing is wrong with that
    modules = (checkpoint / "modules.json").read_text()
    for path in ("../secret", "/etc", "C:\\secret", "a/../../b"):
        (checkpoint / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": path, "type": "x"}]))
        refused("modules.json names")
    (checkpoint / "modules.json").write_text(modules)
    for path in ("../model.safetensors", str(tmp_path / "model.safetensors")):
        index = {"metadata": {}, "weight_map": {"bert.pooler.dense.weight": path}}
        (checkpoint / "model.safetensors.index.json").write_text(json.dumps(index))
        refused("index.json names")
    (checkpoint / "model.safetensors.index.json").write_text("{")
    refused("index.json is damaged")


def test_the_links_of_a_hub_cache_are_no_way_out(checkpoint, tmp_path):
    repo = tmp_path / "cache" / "models--alice--model"
    snapshot, blobs, shared = repo / "snapshots" / "abc", repo / "blobs", repo.parent / "blobs" / "ff"
    shutil.copytree(checkpoint, snapshot)
    blobs.mkdir()
    shared.mkdir(parents=True)
    (snapshot / "model.safetensors").rename(shared / "xet")
    (blobs / "weights").symlink_to(shared / "xet")
    (snapshot / "model.safetensors").symlink_to("../../blobs/weights")
    assert SentenceEncoder.from_pretrained(snapshot).encode(["a cat"]).shape == (1, 16)
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").symlink_to(checkpoint / "model.safetensors")
    with pytest.raises(InputError, match="outside"):
        SentenceEncoder.from_pretrained(snapshot)


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("entry", [ENTRIES[name] for name in ("auto", "class", "encoder", "push")])
def test_a_pickle_is_refused_with_the_command_that_converts_it(checkpoint, tmp_path, entry):
    (checkpoint / "model.safetensors").unlink()
    (checkpoint / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb(tmp_path / "boom"), protocol=2))
    with pytest.raises(InputError, match="--to"):
        entry(checkpoint)
    assert not (tmp_path / "boom").exists()


def test_conversion_runs_no_code_of_a_pickle(checkpoint, tmp_path):
    (checkpoint / "model.safetensors").unlink()
    weights, bomb = checkpoint / "pytorch_model.bin", Bomb(tmp_path / "boom")
    for write in (
        *(partial(weights.write_bytes, content) for content in (pickle.dumps(bomb, protocol=2), b"", b"no pickle")),
        *(partial(torch.save, content, weights) for content in ({"a": bomb}, [torch.ones(1)])),
    ):
        write()
        with pytest.raises(InputError, match="was not opened"):
            convert(checkpoint, tmp_path / "new", "package")
    assert not (tmp_path / "boom").exists()
    assert not (tmp_path / "new").exists()


def test_only_what_opens_and_explains_a_model_is_pushed(checkpoint):
    left_out = "training_args.bin optimizer.pt rng_state.pth trainer_state.json .env corpus.txt a.csv train.json a.py"
    for name in [*left_out.split(), "checkpoint-3/model.safetensors", "runs/log.json", "evaluation/cache.npy"]:
        (checkpoint / name).parent.mkdir(exist_ok=True)
        (checkpoint / name).write_text("x")
    kept = ["README.md", "training_metadata.json", "training_curve.png", "static.py", "vocab.txt", "bpe.codes"]
    kept += ["evaluation/report.json", "evaluation/scores.png", ".eval_results/STS12.yaml"]
    (checkpoint / ".eval_results").mkdir()
    for name in kept:
        (checkpoint / name).write_text("x")
    own = {"config.json", "model.safetensors", "modules.json", "sentence_bert_config.json", "tokenizer.json"}
    own |= {"config_sentence_transformers.json", "tokenizer_config.json", "1_Pooling/config.json"}
    own |= {"2_Dense/config.json", "2_Dense/model.safetensors"}
    assert set(publishable_files(checkpoint)) == own | {*kept}


def test_secrets_and_paths_stay_here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", "an-odd-token")
    assert without_secrets("bad token an-odd-token") == "bad token ***"
    assert (
        without_paths(f"--file {tmp_path}/data/x.txt --out=/home/me/out '~/a b'") == "--file data/x.txt --out=out 'a b'"
    )
    assert without_paths("exp(a/T) and 3/4, https://hub.example/a/b") == "exp(a/T) and 3/4, https://hub.example/a/b"
    assert without_paths("file:///home/me/x.csv") == "file://x.csv"
    given = {"chunk_tokens": 4096, "tokenizers": "0.23", "hub_token": "x", "nested": [{"wandb_api_key": "y"}]}
    shown = {"chunk_tokens": 4096, "tokenizers": "0.23", "hub_token": "***", "nested": [{"wandb_api_key": "***"}]}
    assert publishable(given) == shown
    argv = ["/opt/bin/contrastive-st", "train", "--hub_token=hf_0123456789", "--chunk_tokens", "96", "/home/me/x.txt"]
    shown = ["contrastive-st", "train", "--hub_token=***", "--chunk_tokens", "96", "x.txt"]
    assert publishable_arguments(argv) == shown


BROKEN = {
    "config of another type": (lambda f: (f / "config.json").write_text("[1]"), "must hold an object"),
    "config of wrong values": (lambda f: edit(f / "config.json", hidden_size="wide"), "expected int"),
    "config nested deep": (
        lambda f: (f / "config.json").write_text('{"a":' * 200_000),
        "config.json.*recursion",
    ),
    "settings of another type": (lambda f: edit(f / "config.json", contrastive=[1]), "contrastive"),
    "tokenizer of another type": (lambda f: (f / "tokenizer.json").write_text("[[1]]"), "tokenizer"),
    "tokenizer nested deep": (lambda f: (f / "tokenizer.json").write_text("[" * 200_000), "tokenizer"),
    "modules of another type": (lambda f: (f / "modules.json").write_text('{"a": 1}'), "must hold a list"),
    "modules of numbers": (lambda f: (f / "modules.json").write_text('[{"path": 1}]'), "modules.json: .*not int"),
    "modules nested deep": (
        lambda f: (f / "modules.json").write_text("[" * 200_000),
        "modules.json.*recursion",
    ),
    "modules of its own code": (
        lambda f: (f / "modules.json").write_text('[{"idx": 0, "name": "0", "path": "", "type": "own.Module"}]'),
        "runs no remote code",
    ),
    "weights cut short": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-100]),
        "safetensors.*header",
    ),
    "weights of another shape": (lambda f: reweigh(f, lambda t: torch.cat([t, t])), "shape|mismatched"),
    "weights of NaN": (lambda f: reweigh(f, lambda t: t * float("nan")), "NaN or infinite"),
    "weights of another model": (lambda f: other_weights(f), "lacks weights|the weights have only 1 tensors"),
    "an index of another type": (lambda f: without_weights(f, "[1]"), "must hold an object"),
    "an index of numbers": (lambda f: without_weights(f, '{"weight_map": {"a": 1}}'), "index.json: .*not int"),
}


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def reweigh(folder, change):
    tensors = load_file(folder / "model.safetensors")
    name = "bert.embeddings.word_embeddings.weight"
    tensors[name] = change(tensors[name])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def other_weights(folder):
    edit(folder / "config.json", contrastive={"pooling": "mean"})
    (folder / "modules.json").unlink()
    save_file({"other.weight": torch.ones(3)}, folder / "model.safetensors", metadata={"format": "pt"})


def without_weights(folder, index):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(index)


@pytest.mark.allow_warnings
@pytest.mark.parametrize("fault", BROKEN, ids=str)
def test_a_broken_folder_is_told_in_one_line_by_every_command(checkpoint, tmp_path, capsys, fault):
    breaks, words = BROKEN[fault]
    breaks(checkpoint)
    (tmp_path / "texts.txt").write_text("a cat\na dog\n")
    texts = str(tmp_path / "texts.txt")
    for command in (
        ["similarity", "a", "b", "-m", str(checkpoint)],
        ["encode", texts, "-m", str(checkpoint), "-o", str(tmp_path / "v.npy")],
        ["index", texts, "-m", str(checkpoint), "--output", str(tmp_path / "index")],
        ["convert", str(checkpoint), str(tmp_path / "new"), "--to", "package"],
    ):
        assert re.search(words, error_of(capsys, *command)), command
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "texts.txt"]


def test_nothing_of_a_folder_is_run_or_unpickled(checkpoint, tmp_path, monkeypatch):
    """Neither a tokenizer's code, nor at the terminal's word, nor weights that an index names beside a decoy."""
    monkeypatch.setattr("builtins.input", lambda *a: pytest.fail("asked at the terminal"))
    mark = tmp_path / "ran"
    code = f"import pathlib; pathlib.Path({str(mark)!r}).touch()\nfrom transformers import BertTokenizer as Own\n"
    (checkpoint / "own.py").write_text(code)
    (checkpoint / "tokenizer.json").rename(checkpoint / "kept.json")
    edit(
        checkpoint / "tokenizer_config.json", auto_map={"AutoTokenizer": ["own.Own", "own.Own"]}, tokenizer_class="Own"
    )
    with pytest.raises(Exception) as caught:  # noqa: PT011 - transformers says what is missing
        SentenceEncoder(checkpoint)
    assert "\n" not in one_line(caught.value)
    (checkpoint / "kept.json").rename(checkpoint / "tokenizer.json")
    with contextlib.suppress(InputError):  # transformers may have a class of its own for the file
        SentenceEncoder(checkpoint)
    edit(checkpoint / "tokenizer_config.json", auto_map=None, tokenizer_class="BertTokenizer")

    class Bomb:
        def __reduce__(self):
            return (mark.touch, ())

    torch.save({"bert.pooler.dense.bias": Bomb()}, checkpoint / "weights.bin")
    (checkpoint / "model.safetensors").rename(checkpoint / "decoy.safetensors")
    index = {"metadata": {}, "weight_map": {"bert.pooler.dense.bias": "weights.bin"}}
    for name in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        (checkpoint / name).write_text(json.dumps(index))
        for opens in (SentenceEncoder, AutoModelForCL.from_pretrained, BertForCL.from_pretrained):
            with pytest.raises(InputError, match=r"not safetensors|no safetensors weights"):
                opens(checkpoint)
        (checkpoint / name).unlink()
    assert not mark.exists()


def test_secrets_in_values_and_under_other_names_stay_here(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    secrets = [
        "hf_abcdefghijklmnop", "ghp_abcdefghijklmnopqrstuvwx", "sk-abcdefghijklmnopqrst", "AKIAABCDEFGHIJKLMNOP",
        "glpat-abcdefghijklmnopqrst", "0123456789abcdef",
    ]  # fmt: skip
    for secret in secrets:
        given = {"data": {"licence": f"mit, see {secret}"}, "optim_args": f"lr=1,key={secret}", "list": [{"x": secret}]}
        assert secret not in json.dumps(publishable(given)), secret
        argv = ["train", "--optim_args", f"a={secret},b=2", f"--data_license={secret}", "--other", f"x {secret} y"]
        assert secret not in " ".join(publishable_arguments(argv)), secret
    words = 'token=s3cr3t,lr=3e-5 password: \'s3cr3t s3cr3t\' {"api_key": "s3cr3t"} AWS_SECRET_ACCESS_KEY=s3cr3t'
    assert "s3cr3t" not in without_secrets(words)
    assert "lr=3e-5" in without_secrets(words)
    kept = "chunk_tokens=96 tokenizer=bert keyboard=1 the secret is out"
    assert without_secrets(kept) == kept
