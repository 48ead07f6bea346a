"""Checkpoints appear whole, a run goes on from the newest whole one, and what cannot be resumed is told in a line."""

import itertools
import json
import logging
import math
import os
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch
from datasets import Dataset
from safetensors import SafetensorError
from small_checkpoints import tiny_bert
from transformers import TrainerCallback

from conftest import SENTENCES
from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DropoutPairCollator,
    InputError,
    PairCollator,
    SentenceEncoder,
)
from contrastive_st.data import tokenize
from contrastive_st.errors import one_line
from contrastive_st.training import TrainingDiverged
from contrastive_st.training.checkpoints import check_checkpoint, newest_checkpoint
from contrastive_st.training.resumable import fingerprint

pytestmark = pytest.mark.slow

SIZE = {"per_device_train_batch_size": 4, "max_steps": 4, "report_to": "none", "disable_tqdm": True, "bf16": False}


def trainer_for(tokenizer, config, folder, texts=SENTENCES * 4, callbacks=(), data=None, **changes):
    args = ContrastiveTrainingArguments(str(folder), **{**SIZE, "save_strategy": "steps", "save_steps": 2, **changes})
    rows = tokenize(Dataset.from_dict({"text": texts}), tokenizer, 16) if data is None else data
    judged = tokenize(Dataset.from_dict({"a": texts, "b": texts[::-1]}), tokenizer, 16)
    torch.manual_seed(0)
    return ContrastiveTrainer(
        BertForCL(config), args, train_dataset=rows, eval_dataset=judged if args.eval_strategy != "no" else None,
        eval_collator=PairCollator(tokenizer), data_collator=DropoutPairCollator(tokenizer), callbacks=list(callbacks),
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "out"
    trainer_for(tokenizer, tiny_bert(tokenizer, num_hidden_layers=2), folder).train()
    return folder


@pytest.fixture
def run(finished, tokenizer, bert_config, tmp_path):
    """A finished run with two checkpoints, and what makes another like it."""
    shutil.copytree(finished, tmp_path / "out")
    return tmp_path / "out", lambda **changes: trainer_for(tokenizer, bert_config, tmp_path / "out", **changes)


def damage(path, how):
    if how == "missing":
        path.unlink()
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:-40])
    elif how == "garbage":
        path.write_bytes(b"\x00garbage" * 9)
    else:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 255
        path.write_bytes(bytes(content))


def test_a_checkpoint_killed_as_it_was_saved_is_never_there(run, monkeypatch):
    folder, make = run
    shutil.rmtree(folder)
    monkeypatch.setattr(ContrastiveTrainer, "_save_rng_state", lambda self, output_dir: os._exit(9))
    if not (child := os.fork()):
        make().train()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert not list(folder.glob("checkpoint-*"))
    monkeypatch.undo()
    make().train()  # what the killed run left behind is not in the way
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["checkpoint-2", "checkpoint-4"]


STATE = ("trainer_state.json", "model.safetensors", "optimizer.pt", "rng_state.pth")


@pytest.mark.parametrize(("name", "how"), [
    *itertools.product(STATE, ("cut", "missing")), ("trainer_state.json", "garbage"),
])  # fmt: skip
def test_resume_takes_the_newest_whole_one_and_says_so(run, name, how, caplog):
    folder, make = run
    damage(folder / "checkpoint-4" / name, how)
    if how == "missing" and name in ("optimizer.pt", "rng_state.pth"):
        with pytest.raises(InputError, match=f"{name} is missing.*allow_changed_resume"):
            make().train(resume_from_checkpoint=True)
        assert make(allow_changed_resume=True, max_steps=6).train(resume_from_checkpoint=True).global_step == 6
        return
    with pytest.raises((InputError, zipfile.BadZipFile, SafetensorError, ValueError)) as error:
        make().train(resume_from_checkpoint=str(folder / "checkpoint-4"))
    assert "checkpoint-4" in one_line(error.value)
    with caplog.at_level(logging.WARNING):
        assert make().train(resume_from_checkpoint=True).global_step == 4
    assert "checkpoint-2, the newest complete checkpoint" in caplog.text
    damage(folder / "checkpoint-2" / "trainer_state.json", "garbage")
    shutil.rmtree(folder / "checkpoint-4")
    with pytest.raises(InputError, match="no complete checkpoint"):
        newest_checkpoint(folder)


@pytest.mark.parametrize("name", ["optimizer.pt", "model.safetensors"])
def test_one_flipped_bit_is_seen(run, name):
    folder, _ = run
    damage(folder / "checkpoint-4" / name, "flipped")
    with pytest.raises(InputError, match=name):
        check_checkpoint(folder / "checkpoint-4")


def test_a_trainer_state_of_other_values_is_told_in_a_line(run):
    """By its checksum, and without one where it has no step."""
    path = run[0] / "checkpoint-4" / "trainer_state.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps({**state, "best_metric": 0.5}))
    with pytest.raises(InputError, match="trainer_state"):
        check_checkpoint(path.parent)
    path.with_name("checksums.json").unlink()
    check_checkpoint(path.parent)
    path.write_text(json.dumps({**state, "global_step": "4"}))
    with pytest.raises(InputError, match="global_step"):
        check_checkpoint(path.parent)


def test_a_state_of_other_content_is_told_in_a_line(run):
    folder, make = run
    torch.save({"no": "optimizer"}, folder / "checkpoint-4" / "optimizer.pt")
    with pytest.raises(Exception) as caught:  # noqa: PT011
        make().train(resume_from_checkpoint=True)
    assert "checkpoint-4: " in one_line(caught.value)


def test_a_pickle_of_weights_is_not_opened(run, tmp_path):
    folder, make = run
    checkpoint = folder / "checkpoint-4"
    (checkpoint / "model.safetensors").unlink()
    (checkpoint / "pytorch_model.bin").write_bytes(
        b"cos\nsystem\n(S'touch " + str(tmp_path / "ran").encode() + b"'\ntR."
    )
    with pytest.raises(InputError, match="pytorch_model"):
        make().train(resume_from_checkpoint=str(checkpoint))
    (checkpoint / "decoy.safetensors").write_bytes((folder / "checkpoint-2" / "model.safetensors").read_bytes())
    index = {"weight_map": {"a": "weights.bin"}}
    for name in ("pytorch_model.bin.index.json", "model.safetensors.index.json"):
        (checkpoint / name).write_text(json.dumps(index))
        with pytest.raises(InputError, match="no safetensors weights"):
            make().train(resume_from_checkpoint=str(checkpoint))
    assert not (tmp_path / "ran").exists()


def test_a_run_of_other_data_is_not_resumed_unless_asked(run):
    """Of other arguments: `test_resuming.py`."""
    _, make = run
    other = {"texts": [*SENTENCES[1:], "other"] * 4}
    with pytest.raises(InputError, match="other data"):
        make(**other).train(resume_from_checkpoint=True)
    make(**other, allow_changed_resume=True).train(resume_from_checkpoint=True)


def test_a_change_anywhere_in_the_data_is_seen(tokenizer):
    texts = [f"sentence {i}" for i in range(2000)]
    prints = []
    for changed in (None, 0, 777, 1999):
        own = [text if i != changed else "another" for i, text in enumerate(texts)]
        prints.append(fingerprint(Dataset.from_dict({"text": own})))
    assert len(set(prints)) == 4
    assert fingerprint(Dataset.from_dict({"text": texts})) == prints[0]
    assert fingerprint(iter(texts)) is None


OTHER = """
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(60)
"""


def test_the_word_true_means_the_newest_checkpoint(run):
    folder, make = run
    shutil.rmtree(folder / "checkpoint-4")
    trainer = make()
    trainer.train("true")
    assert trainer.resumed_from == str(folder / "checkpoint-2")


def test_a_run_that_overwrites_another_says_so(run, caplog):
    folder, make = run
    line = f"{folder} holds another run, which this one overwrites"
    assert line not in caplog.text
    trainer = make()
    trainer.train()
    trainer.train()  # its own run before
    make(overwrite_output_dir=True).train()
    make().train(True)
    assert caplog.text.count(line) == 1


@pytest.mark.parametrize("overwrite", [False, True])
def test_checkpoints_of_another_run_are_not_taken_for_its_own(run, overwrite, caplog):
    folder, make = run
    names = lambda place: sorted(path.name for path in place.glob("checkpoint-*"))
    former = (folder / "checkpoint-4" / "model.safetensors").read_bytes()
    changes = {"learning_rate": 1e-3, "save_total_limit": 1, "overwrite_output_dir": overwrite}
    make(**changes, max_steps=2).train()  # the checkpoints that were there have more steps
    assert names(folder) == ["checkpoint-2"]
    assert names(folder / "checkpoints.old") == ["checkpoint-2", "checkpoint-4"]
    assert (folder / "checkpoints.old" / "checkpoint-4" / "model.safetensors").read_bytes() == former
    assert f"does not go on from: checkpoint-2, checkpoint-4 moved to {folder / 'checkpoints.old'}" in caplog.text
    again = make(**changes, max_steps=4, allow_changed_resume=True)
    again.train(resume_from_checkpoint=True)
    assert (again.resumed_from, names(folder)) == (str(folder / "checkpoint-2"), ["checkpoint-4"])
    assert (folder / "checkpoints.old" / "checkpoint-4" / "model.safetensors").read_bytes() == former


def test_a_model_has_the_log_of_its_own_run(run):
    folder, make = run
    for changes in ({}, {"learning_rate": 1e-3}):
        trainer = make(**changes, logging_steps=1)
        trainer.train()
        trainer.save_state()
        (folder / "training_curve.png").write_bytes(b"of the run before")
        trainer.save_model()
        assert json.loads((folder / "trainer_state.json").read_text())["log_history"] == trainer.state.log_history
    assert not (folder / "training_curve.png").exists()
    assert not (folder / "trainer_state.json.old").exists()


def test_a_run_keeps_the_checkpoints_up_to_the_one_that_it_resumes_from(run):
    folder, make = run
    make(max_steps=3, allow_changed_resume=True, overwrite_output_dir=True).train(str(folder / "checkpoint-2"))
    assert newest_checkpoint(folder) == folder / "checkpoint-3"
    with pytest.raises(InputError, match=r"needs .*checkpoint-4, which it would put aside"):
        make().train(str(folder / "checkpoints.old" / "checkpoint-4"))
    assert newest_checkpoint(folder) == folder / "checkpoint-3"


def test_an_output_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "out").write_text("")
    for folder in (tmp_path / "out", tmp_path / "out" / "run"):
        with pytest.raises(InputError, match="folder"):
            ContrastiveTrainingArguments(str(folder))


def test_two_trainings_do_not_share_a_folder(run):
    folder, make = run
    command = [sys.executable, "-c", OTHER, str(folder / ".training.lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(InputError, match="training"):
            make().train()
        other.kill()
    make().train()  # the lock went with its process
    assert not (folder / ".training.lock").exists()


class Spoil(TrainerCallback):
    """A weight becomes NaN after the last step, whose loss was fine."""

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if state.global_step == state.max_steps:
            with torch.no_grad():
                model.bert.pooler.dense.weight[0, 0] = math.nan


def test_weights_that_are_no_numbers_are_not_saved(tokenizer, bert_config, tmp_path):
    trainer = trainer_for(tokenizer, bert_config, tmp_path / "out", callbacks=[Spoil()])
    with pytest.raises(TrainingDiverged, match="checkpoint"):
        trainer.train()
    assert not (tmp_path / "out" / "checkpoint-4").exists()
    with pytest.raises(TrainingDiverged, match="nothing was saved"):
        trainer.save_model(str(tmp_path / "final"))
    assert not (tmp_path / "final").exists()


@pytest.mark.parametrize("fault", [
    RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 76864 vs 76752"),  # torch 2.13
    Exception("No space left on device (os error 28)"),  # tokenizers 0.23
])  # fmt: skip
def test_a_full_disk_is_a_line_whatever_raises(fault, tokenizer, bert_config, tmp_path, monkeypatch):
    trainer = trainer_for(tokenizer, bert_config, tmp_path / "out")

    def full(*parts):
        raise fault

    monkeypatch.setattr(trainer, "_save_optimizer_and_scheduler", full)
    with pytest.raises(InputError, match="out/checkpoint-2 cannot be written: the disk is full"):
        trainer.train()


def test_what_will_happen_is_told_before_the_first_step_and_the_loss_in_the_end(
    tokenizer, bert_config, tmp_path, caplog
):
    with caplog.at_level(logging.INFO, logger="contrastive_st"):
        trainer_for(tokenizer, bert_config, tmp_path, save_strategy="no", learning_rate=3e-4).train()
    told = "\n".join(record.getMessage() for record in caplog.records)
    for words in (
        "from scratch (BertForCL)", "cls", "16 tokens", "anchor:", "positive:", "info_nce temperature=0.05",
        "4 anchors per step, each against 3 in-batch negatives", "4 rows of 2 texts", "0.0003, linear, 4 steps",
        "float32",
    ):  # fmt: skip
        assert words in told, told
    assert "mean loss" in caplog.records[-1].getMessage()


def test_a_save_clears_what_a_killed_one_left_behind(tokenizer, bert_config, tmp_path):
    (tmp_path / ".0123.tmp" / "checkpoint-2").mkdir(parents=True)
    (tmp_path / ".saving" / "checkpoint-2").mkdir(parents=True)
    (tmp_path / ".4567.tmp").mkdir()
    (tmp_path / ".mine.tmp" / "a.npy").mkdir(parents=True)  # of something else
    trainer_for(tokenizer, bert_config, tmp_path).train()
    assert [path.name for path in tmp_path.glob(".*")] == [".mine.tmp"]


NONSENSE = {
    "learning_rate": (math.nan, 0.0), "weight_decay": (math.inf,), "per_device_train_batch_size": (0,), "seed": (-1,),
    "data_seed": (-1,), "chunk_size": (-1,), "chunk_tokens": (0,), "dataloader_num_workers": (-1,), "max_steps": (0,),
    "warmup_steps": (-1,), "logging_steps": (0,), "num_train_epochs": (math.nan, -1.0, 0.0, math.inf),
    "gradient_accumulation_steps": (-1,), "momentum": (2.0,), "momentum_queue": (-1,), "max_grad_norm": (math.nan,),
    "save_steps": (0,), "save_total_limit": (0,), "adam_beta1": (1.0,), "eval_strategy": ("sometimes",),
    "neftune_noise_alpha": (math.nan,),
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in NONSENSE.items() for value in values])
def test_arguments_that_no_training_can_have(tmp_path, name, value):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - of this package or of transformers
        ContrastiveTrainingArguments(str(tmp_path), **{name: value})
    assert name in one_line(error.value) or "training arguments: transformers: sometimes" in one_line(error.value)
    if name == "num_train_epochs":  # which have no say then
        ContrastiveTrainingArguments(str(tmp_path), num_train_epochs=value, max_steps=3)


def test_a_model_trained_in_bf16_encodes_as_its_folder_does(tokenizer, bert_config, tmp_path):
    """accelerate leaves its autocast around the forward of a model that it trained."""
    trainer = trainer_for(tokenizer, bert_config, tmp_path / "run", bf16=True, save_strategy="no", max_steps=1)
    trainer.train()
    assert hasattr(trainer.model, "_original_forward")
    encoder = SentenceEncoder(trainer.model, tokenizer)
    vectors = encoder.encode(SENTENCES)
    encoder.save_pretrained(tmp_path / "saved")
    np.testing.assert_allclose(SentenceEncoder(str(tmp_path / "saved")).encode(SENTENCES), vectors, atol=1e-6)
    forward = vars(trainer.model)["forward"]  # with which the run goes on
    encoder.encode(SENTENCES)
    assert vars(trainer.model)["forward"] is forward
