"""The metrics of the log are those of a plain count."""

import time

import pytest
import torch
from datasets import Dataset

from conftest import SENTENCES
from contrastive_st import BertForCL, ContrastiveTrainer, ContrastiveTrainingArguments, DropoutPairCollator, tokenize
from contrastive_st.training.callbacks import Throughput
from contrastive_st.training.gradcache import Chunks


class Model:
    length_bucketing = True
    bucket_options = {"max_rows": 2, "min_tokens": 1, "max_padding": 0.5}
    positions = None


MASK = (torch.arange(9) < torch.tensor([2, 9, 3, 8])[:, None]).long().view(2, 2, 9)


@pytest.mark.parametrize(
    ("bucketing", "chunk", "encoded"),
    [
        (True, (None, None), 9 + 9 + 3 + 3),
        (False, (None, None), 4 * 9),
        (True, (3, None), 3 * 9 + 2),
        (True, (None, 9), 9 + 8 + 2 * 3),
    ],
)
def test_tokens_and_padding_are_counted(bucketing, chunk, encoded):
    model, account = Model(), Throughput()
    model.length_bucketing = bucketing
    account.count({"input_ids": MASK, "attention_mask": MASK}, model, Chunks(*chunk))
    assert (account.anchors, account.tokens, account.encoded) == (2, 22, encoded)
    assert account.metrics(1) == {}  # no step was timed yet
    account.seconds = 2.0
    metrics = account.metrics(processes=3)
    assert metrics["anchors_per_second"] == 3
    assert metrics["tokens_per_second"] == 33
    assert metrics["padding_share"] == round(1 - 22 / encoded, 4)
    assert metrics["peak_memory_gib"] > 0.01
    assert account.metrics(3) == {}


def test_without_a_mask_every_token_counts():
    account = Throughput()
    account.count({"input_ids": MASK}, Model(), Chunks())
    assert account.tokens == account.encoded == 36


def test_evaluation_and_saving_are_not_timed(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    account = Throughput()
    account.on_train_begin(None, None, None)
    for event, after in (("step_end", 2.0), ("evaluate", 7.0), ("step_end", 8.0), ("save", 20.0), ("step_end", 21.5)):
        now[0] = after
        getattr(account, f"on_{event}")(None, None, None)
    assert account.seconds == 2.0 + 1.0 + 1.5


def test_the_log_holds_the_figures(tokenizer, bert_config, tmp_path, capsys):
    rows = tokenize(Dataset.from_dict({"text": SENTENCES * 4}), tokenizer, 16)
    args = ContrastiveTrainingArguments(
        str(tmp_path), per_device_train_batch_size=4, max_steps=4, logging_steps=2, bf16=False, disable_tqdm=True,
        report_to="none",
    )  # fmt: skip
    trainer = ContrastiveTrainer(
        BertForCL(bert_config), args, train_dataset=rows, data_collator=DropoutPairCollator(tokenizer)
    )
    trainer.train()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["step 2/4", "step 4/4", "step 4/4"]
    assert all("  loss " in line and len(line) <= 100 for line in lines[:2])
    logged = [row for row in trainer.state.log_history if "loss" in row]
    assert len(logged) == 2
    for row in logged:
        assert 0 < row["padding_share"] < 1
        assert 4 < row["tokens_per_second"] / row["anchors_per_second"] < 32
        assert row["peak_memory_gib"] > 0.05
