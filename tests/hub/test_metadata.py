"""The training recipe: recorded where the training happens, and nothing but what happened."""

import json
import sys

import pytest
from datasets import Dataset
from scripts import load

from conftest import SENTENCES
from contrastive_st import (
    AutoModelForCL,
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DropoutPairCollator,
    SentenceEncoder,
    tokenize,
)
from contrastive_st.hub import cards
from contrastive_st.training import publishing

TOKEN = "hf_abcdefghijklmnop"


@pytest.fixture
def make(bert_config, tokenizer, tmp_path):
    def make(model=None, **options):
        rows = tokenize(Dataset.from_dict({"text": SENTENCES}), tokenizer, 16)
        options = {"max_steps": 3, "save_steps": 2, "logging_steps": 1, "report_to": [], "disable_tqdm": True} | options
        args = ContrastiveTrainingArguments(str(tmp_path / "out"), per_device_train_batch_size=4, **options)
        return ContrastiveTrainer(
            model or BertForCL(bert_config), args, train_dataset=rows, data_collator=DropoutPairCollator(tokenizer),
            processing_class=tokenizer,
        )  # fmt: skip

    return make


def recorded(folder):
    return json.loads((folder / "training_metadata.json").read_text())


def test_it_holds_what_was_run_and_no_secret_or_path(make, tmp_path, monkeypatch):
    argv = ["--train_file", str(tmp_path / "x.txt"), "--hub_token", TOKEN, "--max_steps", "3"]
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "train.py"), *argv])
    trainer = make(hub_token=TOKEN, learning_rate=3e-4, weight_decay=0.1, seed=7)
    trainer.metadata = {"data": {"name": str(tmp_path / "x.txt"), "licence": "mit", "note": f"with {TOKEN}"}}
    trainer.train()
    trainer.save_model()
    training = recorded(tmp_path / "out")
    assert training["loss"]["class"] == "InfoNCE"
    assert training["loss"]["settings"]["temperature"] == 0.05
    assert training["base_model"] == {"from": "scratch"}
    assert training["data"] == {"rows": 8, "name": "x.txt", "licence": "mit", "note": "with ***"}
    assert training["launch"]["argv"] == ["train.py", "--train_file", "x.txt", "--hub_token", "***", "--max_steps", "3"]
    given = {"learning_rate": 3e-4, "weight_decay": 0.1, "max_steps": 3, "per_device_train_batch_size": 4}
    assert training["hyper_parameters"].items() >= given.items()
    assert "logging_first_step" not in training["hyper_parameters"]
    assert (training["seed"], training["max_length"]) == (7, 16)
    run = training["run"]
    assert (run["steps"], run["of_steps"], run["texts_encoded"]) == (3, 3, 3 * 4 * 2)
    for path in (tmp_path / "out").rglob("*"):
        if path.is_file():
            assert TOKEN.encode() not in path.read_bytes(), path
            not_pushed = path.name in ("trainer_state.json", "training_args.bin")
            assert not_pushed or str(tmp_path).encode() not in path.read_bytes(), path
    assert trainer.args.hub_token == TOKEN


def test_each_checkpoint_has_its_own_and_saving_again_changes_nothing(make, tmp_path):
    trainer = make(max_steps=5)
    trainer.train()
    trainer.save_model()
    folder = tmp_path / "out"
    steps = [recorded(folder / f"checkpoint-{n}")["run"]["steps"] for n in (2, 4)]
    assert steps == [2, 4]
    first = (folder / "training_metadata.json").read_bytes()
    trainer.save_model()
    assert (folder / "training_metadata.json").read_bytes() == first
    resumed = make(max_steps=5)
    resumed.train(resume_from_checkpoint=str(folder / "checkpoint-2"))
    resumed.save_model()
    run = recorded(folder)["run"]
    assert (run["steps"], run["resumed_from_step"], run["texts_encoded"]) == (5, 2, 3 * 4 * 2)


def test_the_base_model_is_named_without_its_path(make, bert_config, tokenizer, tmp_path):
    BertForCL(bert_config).save_pretrained(tmp_path / "base")
    trainer = make(AutoModelForCL.from_pretrained(tmp_path / "base"))
    trainer.save_model()
    assert recorded(tmp_path / "out")["base_model"] == {"from": "folder", "name": "base"}


def test_a_failure_in_recipe_or_card_loses_no_checkpoint(make, tmp_path, monkeypatch, caplog):
    def broken(*args, **kwargs):
        raise RuntimeError(f"broken, and says {TOKEN}")

    monkeypatch.setattr(publishing, "training_metadata", broken)
    monkeypatch.setattr(cards, "write_card", broken)
    trainer = make()
    trainer.train()
    trainer.save_model()
    trainer.create_model_card()
    for name in ("out", "out/checkpoint-2"):
        assert SentenceEncoder.from_pretrained(tmp_path / name).encode(SENTENCES).shape == (8, 16)
        assert not (tmp_path / name / "training_metadata.json").exists()
    assert "no training_metadata.json" in caplog.text
    assert "no model card" in caplog.text
    assert TOKEN not in caplog.text


@pytest.mark.parametrize("name", ["text.txt", "te?t.txt"])
def test_the_job_tells_its_data_and_arguments(name, tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES))
    tiny = ["--num_layers", "1", "--hidden_size", "16", "--per_device_train_batch_size", "4", "--max_steps", "2"]
    tiny += ["--disable_tqdm", "true", "--pooling", "mean", "--data_license", "cc0-1.0"]
    load("run_simcse").main(["--train_file", str(tmp_path / name), *tiny, "--output_dir", str(tmp_path / "out")])
    training = recorded(tmp_path / "out")
    assert training["data"] == {"rows": 8, "name": name, "from": "files", "licence": "cc0-1.0"}
    assert training["arguments"] == {"pooling": "mean", "num_layers": 1, "hidden_size": 16}
    assert training["loss"]["settings"]["pooling"] == "mean"
