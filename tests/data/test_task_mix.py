"""Batches of one task at a time in a fixed proportion; InferSent's learning rate; both the same after a resume."""

from collections import Counter

import pytest
import torch
from datasets import Dataset
from transformers import TrainerCallback

from contrastive_st import ContrastiveTrainer, ContrastiveTrainingArguments
from contrastive_st.data import LabelledPairCollator, PairCollator, TaskCollator, TaskMix, word_tokenizer
from contrastive_st.errors import InputError
from contrastive_st.models import InferSentBiLSTM, InferSentConfig, UniversalConfig, UniversalSentenceEncoder
from contrastive_st.training.callbacks import DevDecay

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "dog", "ran", "far"]
TASKS = {"answers": {"loss": "info_nce"}, "nli": {"loss": "softmax"}}


def pairs(count, labels=False):
    rows = [{"input_ids": [[2 + i % 9, 2 + i // 9], [2 + (3 * i) % 10]]} for i in range(count)]
    return [{**row, "label": i % 3} for i, row in enumerate(rows)] if labels else rows


@pytest.mark.parametrize("world", [1, 2])
def test_batches_of_one_task_in_proportion(world):
    mix = TaskMix({"answers": pairs(40), "nli": pairs(20, True)}, {"answers": 3, "nli": 1})
    sampler = mix.sampler(4, seed=1)
    sampler.step = 4 * world
    order = list(sampler)
    assert len(order) == len(sampler)
    tasks = [mix[i]["task"] for i in order]
    batches = [tasks[start : start + 4 * world] for start in range(0, len(tasks), 4 * world)]
    assert all(len(set(batch)) == 1 for batch in batches)
    counts = Counter(batch[0] for batch in batches)
    for count, share in zip((counts[0], counts[1]), (0.75, 0.25), strict=True):
        assert abs(count - share * len(batches)) < 1
    first_pass = [i for i, task in zip(order, tasks, strict=True) if task == 0][: 40 // (4 * world) * 4 * world]
    assert len(set(first_pass)) == len(first_pass)  # nothing twice in a pass
    assert order == list(sampler)
    sampler.set_epoch(1)
    assert order != list(sampler)


def test_a_mix_that_cannot_be_read():
    with pytest.raises(InputError, match="the task b has fewer rows"):
        TaskMix({"a": pairs(9), "b": pairs(3)}).sampler(4, 0)
    with pytest.raises(InputError, match="positive weight"):
        TaskMix({"a": pairs(9)}, {"a": 0})


class Stop(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop |= state.global_step == self.step


def run(folder, model, rows, collator, stop=None, resume=None, callbacks=(), **settings):
    defaults = {"max_steps": 14, "save_steps": 7, "save_strategy": "steps", "logging_steps": 4}
    args = ContrastiveTrainingArguments(
        str(folder), per_device_train_batch_size=4, learning_rate=1e-2, bf16=False, disable_tqdm=True,
        report_to="none", **{**defaults, **settings},
    )  # fmt: skip
    figures = settings.get("eval_strategy") and iter([0.5, 0.4, 0.6, 0.6, 0.7])
    trainer = ContrastiveTrainer(
        model, args, train_dataset=rows, data_collator=collator, processing_class=word_tokenizer(WORDS),
        callbacks=[*callbacks, *([Stop(stop)] if stop else [])],
        evaluator=(lambda model: {"dev_accuracy": next(figures)}) if figures else None,
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def test_a_resumed_mix_is_the_whole_run_bit_for_bit(tmp_path):
    def model():
        torch.manual_seed(0)
        config = UniversalConfig(12, embedding_size=4, hidden_size=6, bigram_buckets=5)
        return UniversalSentenceEncoder(config, loss="multi_task", tasks=TASKS)

    mix = TaskMix({"answers": pairs(24), "nli": pairs(13, True)})
    tokenizer = word_tokenizer(WORDS)
    collator = TaskCollator([PairCollator(tokenizer), LabelledPairCollator(tokenizer)])
    whole = run(tmp_path / "whole", model(), mix, collator)
    run(tmp_path / "cut", model(), mix, collator, stop=8)
    resumed = run(tmp_path / "cut", model(), mix, collator, resume=str(tmp_path / "cut" / "checkpoint-7"))
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, resumed.model.state_dict()[name]), name
    names = {key.partition("_")[0] for log in whole.state.log_history for key in log if key.endswith("accuracy")}
    assert names == {"answers", "nli"}
    cached = run(tmp_path / "cached", model(), mix, collator, chunk_size=3)
    for name, weight in whole.model.state_dict().items():
        torch.testing.assert_close(cached.model.state_dict()[name], weight, rtol=1e-3, atol=1e-4)


def test_the_learning_rate_falls_as_in_infersent(tmp_path):
    """0.99 an epoch, a fifth of it where the dev figure did not rise, and an end below the lowest."""
    model = InferSentBiLSTM(InferSentConfig(12, 4, 3))
    rows, collator = pairs(12, True), LabelledPairCollator(word_tokenizer(WORDS))
    settings = {
        "optim": "sgd", "lr_scheduler_type": "constant", "max_steps": -1, "num_train_epochs": 5, "logging_steps": 3,
        "eval_strategy": "epoch", "save_strategy": "epoch",
    }  # fmt: skip
    whole = run(tmp_path, model, Dataset.from_list(rows), collator, callbacks=[DevDecay(lowest=3e-4)], **settings)
    rates = [log["learning_rate"] for log in whole.state.log_history if "learning_rate" in log]
    wanted = [1e-2, 1e-2 * 0.99, 1e-2 * 0.99**2 / 5, 1e-2 * 0.99**3 / 5, 1e-2 * 0.99**4 / 25]
    assert rates == pytest.approx(wanted)
    assert whole.state.global_step == 15
    assert whole.state.stateful_callbacks["DevDecay"]["attributes"]["best"] == 0.7
    model = InferSentBiLSTM(InferSentConfig(12, 4, 3))
    short = run(tmp_path / "b", model, Dataset.from_list(rows), collator, callbacks=[DevDecay(lowest=3e-3)], **settings)
    assert short.state.global_step == 6
