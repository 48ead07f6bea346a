"""A resumed run computes what the first one did: whatever changes that is refused by name, and a finished run ends."""

import functools
import json
import logging
import os
import shutil

import pytest
import torch
import transformers
from datasets import Dataset
from refusals import refusal
from safetensors.torch import load_file, save_file
from small_checkpoints import tiny_bert
from transformers import TrainerCallback

from conftest import SENTENCES
from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DropoutPairCollator,
    InputError,
    tokenize,
)
from contrastive_st.losses import InfoNCE, TripletLoss
from contrastive_st.training.checkpoints import RUN

pytestmark = pytest.mark.slow

SIZE = {
    "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "max_steps": 4, "report_to": "none",
    "disable_tqdm": True, "bf16": False, "save_strategy": "steps", "save_steps": 2, "learning_rate": 1e-3,
}  # fmt: skip


@pytest.fixture(scope="module")
def in_folder(tokenizer):
    """What makes a trainer of the same run, but for changes of its arguments, its config or its model."""
    rows = tokenize(Dataset.from_dict({"text": SENTENCES * 8}), tokenizer, 16)

    def made(folder, config=None, model=None, **changes):
        bert = tiny_bert(tokenizer, **config or {})
        torch.manual_seed(0)
        return ContrastiveTrainer(
            BertForCL(bert, **(model or {})), ContrastiveTrainingArguments(str(folder), **{**SIZE, **changes}),
            train_dataset=rows, data_collator=DropoutPairCollator(tokenizer),
        )  # fmt: skip

    return made


@pytest.fixture
def make(in_folder, tmp_path):
    return functools.partial(in_folder, tmp_path / "out")


@pytest.fixture(scope="module")
def stopped(in_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped") / "out"
    in_folder(folder).train()
    shutil.rmtree(folder / "checkpoint-4")
    return folder


@pytest.fixture
def begun(make, stopped, tmp_path):
    """A run that was stopped after two of its four steps."""
    shutil.copytree(stopped, tmp_path / "out")
    return make


def weights_of(trainer):
    return {name: weight.clone() for name, weight in trainer.model.state_dict().items()}


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    assert not [name for name in ours if not torch.equal(ours[name], theirs[name])]


EPOCH = {"save_strategy": "epoch"}


@pytest.mark.parametrize(
    ("ends", "steps"),
    [({}, 4), ({**EPOCH, "max_steps": 8}, 8), ({**EPOCH, "max_steps": -1, "num_train_epochs": 1}, 8)],
)
def test_a_finished_run_takes_no_further_step_and_says_so(make, ends, steps, caplog):
    first = make(**ends)
    first.train()
    torch.manual_seed(9)
    again = make(**ends)
    caplog.clear()  # of the first run, which other tests may have set to be logged
    with caplog.at_level(logging.INFO):
        assert again.train(resume_from_checkpoint=True).global_step == steps
    assert f"the run is finished (step {steps} of {steps})" in caplog.text
    assert "mean loss" not in caplog.text  # of no steps
    assert_same(weights_of(again), weights_of(first))
    assert not any("loss" in row and row["step"] > steps for row in again.state.log_history)


CHANGES = [
    ({"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}, {}, {}, "per_device_train_batch_size was 4"),
    ({"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}, {}, {}, "accumulation_steps was 2 and is 4"),
    ({"learning_rate": 3e-5}, {}, {}, "learning_rate was 0.001 and is 3e-05"),
    ({"weight_decay": 0.1}, {}, {}, "weight_decay was 0.0 and is 0.1"),
    ({"adam_beta2": 0.9}, {}, {}, "adam_beta2 was 0.999 and is 0.9"),
    ({"max_grad_norm": 0.5}, {}, {}, "max_grad_norm was 1.0 and is 0.5"),
    ({"optim": "sgd"}, {}, {}, "optim was adamw_torch.* and is sgd"),
    ({"lr_scheduler_type": "cosine"}, {}, {}, "lr_scheduler_type was linear and is cosine"),
    ({"warmup_steps": 2}, {}, {}, "warmup_steps was 0.* and is 2"),
    ({"max_steps": 8}, {}, {}, "max_steps was 4 and is 8"),
    ({"bf16": True}, {}, {}, "bf16 was False and is True"),
    ({"seed": 7}, {}, {}, "seed was 42 and is 7"),
    ({"data_seed": 7}, {}, {}, "data_seed was 42 and is 7"),
    ({"neftune_noise_alpha": 5.0}, {}, {}, "neftune_noise_alpha was None and is 5.0"),
    ({"momentum_queue": 16}, {}, {}, "momentum_queue was 0 and is 16"),
    ({}, {"hidden_dropout_prob": 0.3}, {}, "hidden_dropout_prob was 0.1 and is 0.3"),
    ({}, {}, {"loss": InfoNCE(temperature=0.1)}, "temperature was 0.05 and is 0.1"),
    ({}, {}, {"loss": InfoNCE(symmetric=True)}, "symmetric was False and is True"),
    ({}, {}, {"loss": TripletLoss()}, "loss was info_nce and is triplet"),
    ({}, {}, {"pooling": "mean"}, "pooling was cls and is mean"),
    ({}, {}, {"cutoff": "token"}, "cutoff was None and is token"),
]


@pytest.mark.parametrize(("arguments", "config", "model", "words"), CHANGES, ids=[row[3] for row in CHANGES])
def test_what_changes_the_mathematics_is_refused_by_name(begun, arguments, config, model, words):
    with refusal(f"{words}.*allow_changed_resume"):
        begun(config, model, **arguments).train(resume_from_checkpoint=True)


@pytest.mark.allow_warnings  # transformers tells of other steps for logs
@pytest.mark.parametrize(
    "changes", [{"chunk_size": 3}, {"chunk_tokens": 64}, {"logging_steps": 1, "save_steps": 1, "save_total_limit": 3}]
)
def test_what_does_not_is_free(begun, changes):
    assert begun(**changes).train(resume_from_checkpoint=True).global_step == 4


@pytest.mark.parametrize("kind", ["constant", "constant_with_warmup"])
def test_a_constant_schedule_may_be_prolonged(make, kind):
    make(lr_scheduler_type=kind).train()
    prolonged = make(lr_scheduler_type=kind, max_steps=6)
    assert prolonged.train(resume_from_checkpoint=True).global_step == 6


def test_the_way_around_takes_the_new_learning_rate(begun):
    rates = []

    class Rate(TrainerCallback):
        def on_optimizer_step(self, args, state, control, optimizer=None, **kwargs):
            rates.append(optimizer.param_groups[0]["lr"])

    trainer = begun(learning_rate=5e-4, weight_decay=0.1, allow_changed_resume=True)
    trainer.add_callback(Rate())
    trainer.train(resume_from_checkpoint=True)
    assert rates == pytest.approx([5e-4 / 2, 5e-4 / 4])  # linear, of steps 2 and 3 of 4
    assert {group["weight_decay"] for group in trainer.optimizer.param_groups} == {0.1, 0.0}


@pytest.mark.allow_warnings  # transformers names the batch
def test_the_record_has_the_batch_of_the_resumed_run(begun, tmp_path):
    trainer = begun(per_device_train_batch_size=3, allow_changed_resume=True)
    trainer.train(resume_from_checkpoint=True)
    record = json.loads((tmp_path / "out" / "checkpoint-4" / "training_metadata.json").read_text())
    assert record["hyper_parameters"]["per_device_train_batch_size"] == 3


def test_the_state_of_another_optimizer_is_never_loaded(begun):
    with pytest.raises(InputError, match="weights"):
        begun(optim="sgd", allow_changed_resume=True).train(resume_from_checkpoint=True)


def test_a_checkpoint_without_its_record_is_refused(begun, tmp_path):
    record = tmp_path / "out" / "checkpoint-2" / RUN
    whole = json.loads(record.read_text())
    record.write_text(json.dumps({name: value for name, value in whole.items() if name != "learning_rate"}))
    with pytest.raises(InputError, match="learning_rate"):
        begun().train(resume_from_checkpoint=True)
    record.unlink()
    with pytest.raises(InputError, match=f"{RUN} is missing.*allow_changed_resume"):
        begun().train(resume_from_checkpoint=True)
    assert begun(allow_changed_resume=True).train(resume_from_checkpoint=True).global_step == 4


@pytest.mark.parametrize("kept", ["attention", "one more"])
def test_a_checkpoint_of_other_weights_is_refused(begun, tmp_path, kept):
    path = tmp_path / "out" / "checkpoint-2" / "model.safetensors"
    weights, words = load_file(path), "lacks weights of the model: .*attention.* and 9 more"
    if kept == "attention":
        weights = {name: weight for name, weight in weights.items() if "attention" not in name}
    else:
        weights["strange.weight"], words = torch.ones(2), "has weights that the model lacks: strange.weight"
    save_file(weights, path, metadata={"format": "pt"})
    path.with_name("checksums.json").unlink()
    with pytest.raises(InputError, match=words):
        begun(allow_changed_resume=True).train(resume_from_checkpoint=True)


OPTIMIZERS = {
    "sgd": "momentum=0.9", "adafactor": None, "adamw_torch_fused": None, "rmsprop": None,
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_resumed_is_uninterrupted_with_each_optimizer_that_runs_here(make, name):
    options = {"optim": name, "optim_args": OPTIMIZERS[name]}
    whole = make(**options)
    start = weights_of(whole)
    whole.train()
    shutil.rmtree(os.path.join(whole.args.output_dir, "checkpoint-4"))
    resumed = make(**options)
    torch.manual_seed(77)
    resumed.train(resume_from_checkpoint=True)
    assert_same(weights_of(resumed), weights_of(whole))
    assert any(not torch.equal(start[key], weight) for key, weight in weights_of(whole).items())


@pytest.mark.parametrize("changes", [{}, {"dataloader_num_workers": 1, "dataloader_persistent_workers": True}])
def test_resumed_is_uninterrupted_over_epochs_whatever_the_workers(make, tmp_path, changes):
    size = {"per_device_train_batch_size": 32, "gradient_accumulation_steps": 1, "max_steps": 7, "save_steps": 3}
    plain = make(**size)
    plain.train()
    whole = make(**size, **changes, overwrite_output_dir=True)
    whole.train()
    assert_same(weights_of(whole), weights_of(plain))
    resumed = make(**size, **changes)
    resumed.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-3"))
    assert_same(weights_of(resumed), weights_of(plain))


def test_old_checkpoints_are_deleted_by_their_step_not_by_their_clock(make, tmp_path):
    """Seen before: with a clock that was set back, every new checkpoint was deleted as the oldest."""
    make(max_steps=2, lr_scheduler_type="constant", save_total_limit=2, save_steps=1).train()
    for number in (1, 2):
        os.utime(tmp_path / "out" / f"checkpoint-{number}", (4e9, 4e9 + 10 * number))
    later = make(max_steps=4, lr_scheduler_type="constant", save_total_limit=2, save_steps=1)
    later.train(resume_from_checkpoint=True)
    assert sorted(path.name for path in (tmp_path / "out").glob("checkpoint-*")) == ["checkpoint-3", "checkpoint-4"]


def test_another_number_of_processes_is_refused(begun, monkeypatch):
    monkeypatch.setattr(transformers.TrainingArguments, "world_size", property(lambda self: 2))
    trainer = begun()
    monkeypatch.setattr("contrastive_st.training.trainer.fit_batch", lambda *args: None)
    with pytest.raises(InputError, match="processes"):
        trainer.train(resume_from_checkpoint=True)
