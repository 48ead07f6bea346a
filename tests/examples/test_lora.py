"""`contrastive-st train ... --lora_r`: from the command line to an adapter, its card, a resumed run and a merge."""

import json

import numpy as np
import pytest
import torch
from datasets import Dataset
from refusals import told
from safetensors.torch import load_file
from transformers import AutoModel

from conftest import SENTENCES, save_both
from contrastive_st import (
    AutoModelForCL,
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DropoutPairCollator,
    SentenceEncoder,
    tokenize,
)
from contrastive_st.cli import main
from contrastive_st.files.folders import ADAPTER, ADAPTER_WEIGHTS, TRAINED
from contrastive_st.models import Qwen3ForCL, add_lora

TRAIN = ["--per_device_train_batch_size", "4", "--disable_tqdm", "true", "--learning_rate", "1e-2", "--bf16", "false",
         "--report_to", "none", "--max_length", "16"]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch, bert_config, tokenizer):
    """A working folder with an encoder, texts and labelled pairs."""
    monkeypatch.chdir(tmp_path)
    save_both(BertForCL(bert_config, pooling="mean"), tokenizer, "base")
    (tmp_path / "text.txt").write_text("\n".join(f"{a} and {b}" for a in SENTENCES for b in SENTENCES[:2]))
    rows = [f"{a},{b},{i % 2}" for i, (a, b) in enumerate((a, b) for a in SENTENCES for b in SENTENCES[:3])]
    (tmp_path / "nli.csv").write_text("\n".join(["sentence1,sentence2,label", *rows]))
    return tmp_path


def train(*args, base="base", output="out"):
    given = ["--train_file", "text.txt", "--model_name_or_path", base, "--output_dir", output, *TRAIN, *args]
    return main(["train", *given])


@pytest.mark.allow_warnings
def test_from_the_command_line_to_an_adapter_and_back(folder, capsys):
    lora = ["--lora_r", "2", "--lora_alpha", "6", "--lora_dropout", "0.1", "--lora_target_modules", "query", "value"]
    assert train(*lora, "--max_steps", "4", "--save_steps", "2", "--temperature", "0.1") == 0, capsys.readouterr().err
    about = json.loads((folder / "out" / ADAPTER).read_text())
    assert (about["r"], about["lora_alpha"], about["target_modules"]) == (2, 6.0, ["query", "value"])
    assert about["base_model_name_or_path"] == str(folder / "base")
    assert not (folder / "out" / "config.json").exists()
    metadata = json.loads((folder / "out" / "training_metadata.json").read_text())
    assert metadata["adapter"] == {"kind": "LoRA", "r": 2, "alpha": 6.0, "dropout": 0.1,
                                   "target_modules": ["query", "value"], "parameters": 2 * 2 * 2 * 32}  # fmt: skip
    assert str(folder) not in json.dumps(metadata)
    before, after = (SentenceEncoder(name).encode(SENTENCES) for name in ("base", "out"))
    assert np.abs(before - after).max() > 1e-3

    assert main(["card", "out"]) == 0
    card = (folder / "out" / "README.md").read_text()
    assert "| adapter | LoRA, rank 2, alpha 6.0, dropout 0.1, on query, value; 256 weights trained |" in card
    assert "Hu, Edward J." in card
    assert "(bert, mean pooling)" in card

    assert main(["merge", "out", "-o", "merged"]) == 0
    np.testing.assert_allclose(SentenceEncoder("merged").encode(SENTENCES), after, rtol=0, atol=1e-6)
    held = json.loads((folder / "merged" / "config.json").read_text())["contrastive"]
    assert (held["loss"], held["temperature"], held["pooling"]) == ("info_nce", 0.1, "mean")
    assert main(["card", "merged"]) == 0
    told(capsys, "push", "merged", "alice/merged", "--dry_run")
    resumed = ["--max_steps", "4", "--temperature", "0.1", "--resume_from_checkpoint", "out/checkpoint-2"]
    assert train(*lora, *resumed, output="again") == 0, capsys.readouterr().err
    whole, again = (load_file(folder / name / ADAPTER_WEIGHTS) for name in ("out", "again"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    assert train("--lora_r", "2", "--lora_target_modules", "query", *resumed, output="third") == 2
    assert "256 weights were trained and 128 are" in capsys.readouterr().err
    assert train("--max_steps", "2", base="out", output="further") == 0  # without --lora_r the adapter is trained on
    about = json.loads((folder / "further" / ADAPTER).read_text())
    assert about["base_model_name_or_path"] == str(folder / "base")
    further = load_file(folder / "further" / ADAPTER_WEIGHTS)
    assert any(not torch.equal(whole[name], weight) for name, weight in further.items())


@pytest.mark.allow_warnings
def test_a_decoder_that_reads_in_both_directions(folder, tokenizer, capsys):
    shape = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 32}
    config = Qwen3ForCL.config_class(**shape, vocab_size=len(tokenizer), hidden_size=16, head_dim=8, pad_token_id=0)
    AutoModel.from_config(config).save_pretrained("decoder")  # as published: nothing says how it pools
    tokenizer.save_pretrained("decoder")
    assert train("--max_steps", "2", base="decoder") == 2
    assert "give --pooling" in capsys.readouterr().err
    given = ["--max_steps", "2", "--pooling", "mean", "--dropout", "0.1", "--bidirectional", "true"]
    assert train(*given, base="decoder") == 0, capsys.readouterr().err
    assert json.loads((folder / "out" / "config.json").read_text())["is_causal"] is False
    assert SentenceEncoder("out").pooling == "mean"
    assert train(*given, "--lora_r", "2", base="decoder", output="adapter") == 2
    assert "save the model with bidirectional first" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--lora_alpha", "3"], "give its rank with --lora_r"),
        (["--lora_r", "0"], "lora_r 0: give a whole number of 1 or more"),
        (["--lora_r", "2", "--lora_dropout", "1"], "lora_dropout 1.0: give a number of 0 or more and below 1"),
        (["--lora_r", "2", "--lora_target_modules", "nothing"], "lora_target_modules nothing"),
        (["--lora_r", "2", "--model_name_or_path", "static-minilm"], "LoRA needs an encoder of transformers"),
        (["--bidirectional", "true"], "bidirectional is for qwen2, "),
        (["--lora_r", "2", "--push_to_hub", "true"], "the base of the adapter is a folder, "),
    ],
)
def test_bad_input_is_one_line(folder, capsys, flags, words):
    assert train("--max_steps", "1", *flags) == 2
    error = capsys.readouterr().err
    assert words in error.splitlines()[-1]
    assert error.splitlines()[-1].startswith("error: ")


@pytest.mark.allow_warnings
def test_the_best_checkpoint_is_loaded_at_the_end(folder, tokenizer):
    scores = iter([0.5, 0.0, 1.0, 0.5])  # the first before training, to know the names
    args = ContrastiveTrainingArguments(
        "out", per_device_train_batch_size=4, max_steps=3, learning_rate=1e-2, bf16=False, disable_tqdm=True,
        report_to="none", save_strategy="steps", save_steps=1, eval_strategy="steps", eval_steps=1,
        load_best_model_at_end=True, metric_for_best_model="score", greater_is_better=True,
    )  # fmt: skip
    model = add_lora(AutoModelForCL.from_pretrained("base", pooling="cls"), r=2)
    rows = tokenize(Dataset.from_dict({"text": SENTENCES}), tokenizer, 16)
    trainer = ContrastiveTrainer(
        model, args, train_dataset=rows, data_collator=DropoutPairCollator(tokenizer),
        evaluator=lambda model: {"score": next(scores)}, processing_class=tokenizer,
    )  # fmt: skip
    trainer.train()
    best = load_file(folder / "out" / "checkpoint-2" / TRAINED)
    assert any(name.startswith("bert.pooler.dense.") for name in best)
    weights = trainer.model.state_dict()
    assert all(torch.equal(weights[name], tensor) for name, tensor in best.items())
