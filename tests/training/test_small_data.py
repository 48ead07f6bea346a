"""No run ends well without having trained: on any number of rows the weights change, or a line says why not."""

import functools
import logging

import pytest
import small_worker
import torch
from datasets import IterableDataset
from ranks import together
from small_checkpoints import tiny_bert
from small_worker import FAMILIES

from contrastive_st import BertForCL, ContrastiveTrainer, ContrastiveTrainingArguments, InputError
from contrastive_st.data import DropoutPairCollator, LabelledPairCollator, PairCollator
from contrastive_st.losses import CoSENTLoss

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_so_do_two_processes(tmp_path):
    outcomes, _ = together(2, small_worker.main, tmp_path)
    assert set(outcomes) == {f"{family} {rows}" for family in FAMILIES for rows in (1, 60)}
    for name, outcome in outcomes.items():
        assert outcome == "trained" or outcome.startswith("InputError: "), (name, outcome)
        assert outcome == "trained" or not name.endswith(" 60"), (name, outcome)
        assert "too few" in outcome or not name.endswith(" 1") or name.startswith("mixture"), (name, outcome)


def tiny(tokenizer, dropout=0.1, **settings):
    torch.manual_seed(0)
    config = tiny_bert(tokenizer, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    return BertForCL(config, **settings)


@pytest.fixture
def make(tokenizer, tmp_path):
    def made(rows, collator=DropoutPairCollator, dropout=0.1, model=None, **changes):
        options = {"per_device_train_batch_size": 4, "max_steps": 1, "bf16": False, "disable_tqdm": True}
        args = ContrastiveTrainingArguments(str(tmp_path / "out"), report_to="none", **{**options, **changes})
        model = tiny(tokenizer, dropout, **(model or {}))
        return ContrastiveTrainer(model, args, train_dataset=rows, data_collator=collator(tokenizer))

    return made


def texts(count):
    return [{"input_ids": [2, 5 + i % 40, 6 + i % 7, 3]} for i in range(count)]


def pairs(count, equal=0):
    """Rows of two texts, of which the first `equal` are twice the same."""
    return [{"input_ids": [[2, 5 + i, 3], [2, 5 + i if i < equal else 30 + i, 3]]} for i in range(count)]


def changed(trainer):
    """Train; whether a weight is another than before."""
    before = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    trainer.train()
    return any(not torch.equal(before[name], weight) for name, weight in trainer.model.state_dict().items())


def test_the_batch_fits_the_rows_and_a_warning_says_so(make, caplog):
    trainer = make(texts(60), per_device_train_batch_size=2048)
    with caplog.at_level(logging.WARNING):
        assert changed(trainer)
    assert "only 60 rows: the batch size is 60, not 2048" in caplog.text


def test_more_accumulation_than_batches_still_steps(make):
    assert changed(make(texts(12), gradient_accumulation_steps=50))


@pytest.mark.parametrize(("warmup", "steps"), [(0.1, 1), (1, 1), (1000, 2)])
def test_a_warm_up_leaves_a_step_its_rate(make, warmup, steps):
    assert changed(make(texts(12), warmup_steps=warmup, max_steps=steps))


def test_a_gradient_that_is_always_zero_is_told_in_the_end(make):
    rows = [{**row, "score": 0.5} for row in pairs(4)]  # no pair is to be nearer than another
    with pytest.raises(InputError, match="gradient"):
        make(rows, LabelledPairCollator, model={"loss": CoSENTLoss()}, max_steps=3).train()


@pytest.mark.parametrize("limits", [{}, {"chunk_size": 2}])
def test_nothing_to_train_is_told_in_a_line(make, limits):
    frozen = make(texts(8), **limits)
    frozen.model.requires_grad_(False)
    with pytest.raises(InputError, match="unfreeze"):
        frozen.train()
    constant = make(texts(8), model={"loss": lambda views: views.detach().sum()}, **limits)
    with pytest.raises(InputError, match="gradient"):
        constant.train()


def test_one_text_has_no_negatives(make):
    with pytest.raises(InputError, match="no negatives"):
        make(texts(1), max_steps=3).train()


@pytest.mark.allow_warnings  # transformers says that there is no sample
def test_an_empty_stream_is_refused(make, tmp_path):
    empty = IterableDataset.from_generator(functools.partial(iter, ()))
    with pytest.raises(InputError):
        make(empty, max_steps=2, save_strategy="epoch").train()
    assert not list((tmp_path / "out").glob("checkpoint-*"))


@pytest.mark.parametrize("limits", [{}, {"chunk_size": 2}])
def test_dropout_pairs_need_dropout(make, limits):
    trainer = make(texts(12), dropout=0.0, **limits)
    with pytest.raises(InputError, match="--dropout"):
        changed(trainer)
    assert changed(make(texts(12), dropout=0.1, **limits))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_pairs_may_have_duplicates(make, dropout):
    assert changed(make(pairs(12, equal=6), PairCollator, dropout, per_device_train_batch_size=12))


def test_scored_pairs_may_be_of_equal_texts(make):
    rows = [{**row, "score": i / 4} for i, row in enumerate(pairs(4, equal=4))]
    make(rows, LabelledPairCollator, 0.0, model={"loss": CoSENTLoss()}).train()
