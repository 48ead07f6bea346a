"""Batches of one data set at a time, in proportion, each by its own loss; the same after a resume, streams too."""

import itertools
import math
from collections import Counter

import datasets
import numpy as np
import pytest
import torch
from scripts import load
from sentence_transformers.base.sampler import ProportionalBatchSampler
from torch.utils.data import BatchSampler, ConcatDataset, DataLoader, IterableDataset, RandomSampler

from contrastive_st import BertForCL, ContrastiveTrainer, ContrastiveTrainingArguments
from contrastive_st.data import LabelledPairCollator, Mixture, MixtureCollator, PairCollator, word_tokenizer
from contrastive_st.data.mixture import MixtureSampler
from contrastive_st.errors import InputError
from contrastive_st.losses import (
    CoSENTLoss,
    EmbeddingDistillationLoss,
    GuidedInfoNCE,
    InfoNCE,
    MatryoshkaLoss,
    MixtureLoss,
    SoftmaxLoss,
)
from contrastive_st.models import InferSentBiLSTM, InferSentConfig
from contrastive_st.tokens import name_number
from contrastive_st.training.checkpoints import fingerprint

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "dog", "ran", "far"]


def pairs(count, gold=None):
    rows = [{"input_ids": [[2 + i % 9, 2 + i // 9], [2 + (3 * i) % 10]]} for i in range(count)]
    values = {"label": lambda i: i % 3, "score": lambda i: i % 5 / 4}
    return [{**row, gold: values[gold](i)} for i, row in enumerate(rows)] if gold else rows


def stream(count, shards=1):
    data = datasets.Dataset.from_list(pairs(count)).to_iterable_dataset(num_shards=shards)
    return data.shuffle(seed=3, buffer_size=5)


class Rows(IterableDataset):
    """A stream of torch."""

    def __iter__(self):
        return iter(pairs(7))


def batches_of(mixture, size, world=1, epoch=0, seed=1):
    """The row numbers of each batch of all processes."""
    sampler = MixtureSampler(mixture, size, world, seed)
    sampler.set_epoch(epoch)
    order = iter(sampler)
    return list(iter(lambda: list(itertools.islice(order, sampler.step)), []))


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("weights", [None, {"a": 3, "b": 1, "c": 0.5}], ids=["by size", "weights"])
def test_batches_of_one_data_set_in_proportion(world, weights):
    sizes = {"a": 164, "b": 84, "c": 24}
    mixture = Mixture({name: pairs(size) for name, size in sizes.items()}, weights)
    found = batches_of(mixture, 4, world=world)
    whole = {name: size // (4 * world) for name, size in sizes.items()}
    assert len(found) == sum(whole.values())
    assert all(len(batch) == 4 * world for batch in found)
    names = [{mixture[i]["dataset"] for i in batch} for batch in found]
    assert all(len(own) == 1 for own in names)
    names = [own.pop() for own in names]
    shares = weights or whole
    for name, share in shares.items():
        due = np.arange(len(names) + 1) * share / sum(shares.values())
        held = np.cumsum([0, *(own == name for own in names)])
        assert np.abs(held - due).max() < 1 + share / sum(shares.values()) * len(shares)  # after any number of batches
        first = [i for batch, own in zip(found, names, strict=True) if own == name for i in batch]
        once = first[: whole[name] * 4 * world]
        assert len(set(once)) == len(once)  # nothing twice in a pass
    if weights is None:
        assert Counter(names) == whole
    assert found == batches_of(mixture, 4, world=world)
    assert found != batches_of(mixture, 4, world=world, epoch=1)
    assert found != batches_of(mixture, 4, world=world, seed=2)


def test_turns_are_drawn():
    """By turns a log every ten steps would always see the same data set."""
    mixture = Mixture({"a": pairs(400), "b": pairs(400)}, {"a": 1, "b": 1})
    names = [mixture[batch[0]]["dataset"] for batch in batches_of(mixture, 2)]
    assert 70 < Counter(names[::2])["a"] < 130
    assert names[:100] != names[100:200]


def test_an_epoch_is_that_of_proportional_batches_in_sentence_transformers():
    sizes = {"a": 41, "b": 21, "c": 6}
    rows = {name: [(name, i) for i in range(size)] for name, size in sizes.items()}
    samplers = [BatchSampler(RandomSampler(own), 4, drop_last=True) for own in rows.values()]
    theirs = ProportionalBatchSampler(ConcatDataset(list(rows.values())), samplers, torch.Generator(), seed=0)
    ours = Mixture({name: [{"n": i} for i in range(size)] for name, size in sizes.items()})
    starts = np.cumsum([0, *sizes.values()])
    kinds = lambda batches: Counter(tuple(set(np.searchsorted(starts, batch, "right").tolist())) for batch in batches)
    found = batches_of(ours, 4)
    assert kinds(found) == kinds(theirs) == {(1,): 10, (2,): 5, (3,): 1}
    assert len({i for batch in found for i in batch}) == 64 == len({i for batch in theirs for i in batch})


def test_a_mixture_that_cannot_be_read():
    with pytest.raises(InputError, match="fewer"):
        Mixture({"a": pairs(9), "b": pairs(3)}).sampler(4, 0)
    for weight in (0, -1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="weight of a"):
            Mixture({"a": pairs(9)}, {"a": weight})
    with pytest.raises(InputError, match="weight"):
        Mixture({"a": pairs(9), "b": pairs(9)}, {"a": 1})
    with pytest.raises(InputError, match="stream"):
        Mixture({"a": pairs(9), "b": stream(9)})
    empty = Mixture({"a": datasets.IterableDataset.from_generator(lambda: iter(()))}, {"a": 1})
    with pytest.raises(InputError, match="has no rows"):
        empty[0]


def test_rows_and_weights_are_what_a_resumed_run_must_share():
    one = lambda **weights: fingerprint(Mixture({"a": pairs(9), "b": pairs(5)}, weights or None))
    assert one() == one()
    assert len({one(), one(a=1, b=1), one(a=2, b=1), fingerprint(Mixture({"a": pairs(9), "c": pairs(5)}))}) == 4


# --- Streams.


@pytest.mark.allow_warnings  # more workers than cores
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_in_a_mixture_gives_each_row_once_a_pass(workers):
    mixture = Mixture({"table": pairs(10), "stream": stream(8, shards=3)}, {"table": 1, "stream": 2})
    loader = DataLoader(mixture, 4, sampler=mixture.sampler(4, 0), collate_fn=list, num_workers=workers)
    batches = list(itertools.islice(loader, 12))
    names = [{row["dataset"] for row in batch} for batch in batches]
    assert all(len(own) == 1 for own in names)
    seen = [str(row["input_ids"]) for batch in batches for row in batch if row["dataset"] == "stream"]
    wanted = Counter(str(row["input_ids"]) for row in pairs(8))
    assert Counter(seen[:8]) == Counter(seen[8:16]) == wanted
    assert seen[:8] != seen[8:16]  # each pass in another order
    assert batches == list(itertools.islice(loader, 12))  # begun anew


def test_processes_read_their_rows_of_a_stream():
    mixture = lambda: Mixture({"stream": stream(11)}, {"stream": 1})
    order = list(itertools.islice(mixture().sampler(3, 0), 24))
    whole, ranks = mixture(), [mixture(), mixture()]
    parts = [order[i : i + 3] for i in range(0, 24, 3)]
    wanted = [whole.__getitems__(part) for part in parts]
    found = [ranks[i % 2].__getitems__(part) for i, part in enumerate(parts)]
    assert found == wanted
    assert mixture().__getitems__(parts[5]) == wanted[5]  # as a resumed run asks


@pytest.mark.allow_warnings
def test_a_stream_of_torch_is_read_without_workers():
    mixture = Mixture({"stream": Rows()}, {"stream": 1})
    assert [row["input_ids"] for row in mixture.__getitems__([6, 7])] == [pairs(7)[i]["input_ids"] for i in (6, 0)]
    loader = DataLoader(mixture, 2, sampler=mixture.sampler(2, 0), collate_fn=list, num_workers=1)
    with pytest.raises(InputError, match="dataloader_num_workers=0"):
        next(iter(loader))


# --- Batches and their losses.


def test_a_batch_names_its_data_set_and_keeps_its_targets():
    tokenizer = word_tokenizer(WORDS)
    collate = MixtureCollator({"nli": LabelledPairCollator(tokenizer), "answers": PairCollator(tokenizer)})
    of = lambda name, rows: [{**row, "dataset": name} for row in rows]
    nli, answers = name_number("nli"), name_number("answers")
    assert collate(of("nli", pairs(2, "label")))["targets"].tolist() == [[nli, 0], [nli, 1]]
    assert collate(of("answers", pairs(2)))["targets"].tolist() == [[answers], [answers]]
    guided = [{**row, "guide": np.eye(2)} for row in pairs(2)]
    targets = collate(of("answers", guided))["targets"]
    assert targets.shape == (2, 3, 2)
    assert targets[:, 0].eq(answers).all()
    assert targets[:, 1:].tolist() == [np.eye(2).tolist()] * 2
    for wrong in (of("nli", pairs(1, "label")) + of("answers", pairs(1)), pairs(1), of("other", pairs(1))):
        with pytest.raises(InputError, match="answers"):
            collate(wrong)


LOSSES = {"nli": SoftmaxLoss(), "answers": InfoNCE(0.5), "scores": CoSENTLoss(), "guided": GuidedInfoNCE(0.5)}
TARGETS = {
    "nli": torch.tensor([0, 2, 1, 1]), "answers": torch.zeros(4, 0), "scores": torch.tensor([0.1, 0.9, 0.4, 0.4]),
    "guided": torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0)),
}  # fmt: skip


def numbered(name):
    own = TARGETS[name]
    own = own[:, None] if own.dim() == 1 else own
    return torch.cat([own.new_full((4, 1, *own.shape[2:]), name_number(name)), own], 1)


@pytest.mark.parametrize("name", LOSSES)
def test_a_batch_has_the_loss_of_its_data_set_whatever_the_order(name):
    x = torch.randn(4, 2, 6, dtype=torch.float64, requires_grad=True)
    own = LOSSES[name].with_head(LOSSES[name].make_head(6).double()) if name == "nli" else LOSSES[name]
    wanted = own(x, None if name == "answers" else TARGETS[name])
    for losses in (LOSSES, dict(sorted(LOSSES.items()))):
        loss_fn = MixtureLoss(losses)
        head = loss_fn.make_head(6).double()
        if name == "nli":
            head["nli"].load_state_dict(own.head.state_dict())
        loss = loss_fn.with_head(head)(x, numbered(name))
        torch.testing.assert_close(loss, wanted, rtol=0, atol=0)
        found = torch.autograd.grad(loss, [x, *head.parameters()])
        torch.testing.assert_close(found[0], torch.autograd.grad(wanted, x, retain_graph=True)[0], rtol=0, atol=0)
    assert set(head) == {"nli"}
    assert MixtureLoss({"a": InfoNCE()}).make_head(6) is None


def test_embeddings_of_a_teacher_are_cut_along():
    x, teacher = torch.randn(4, 1, 6), torch.randn(4, 6)
    targets = torch.cat([torch.full((4, 1), float(name_number("t"))), teacher], 1)
    mixture = MixtureLoss({"t": EmbeddingDistillationLoss(), "a": InfoNCE()})
    wanted = MatryoshkaLoss(EmbeddingDistillationLoss(), (6, 2))(x, teacher)
    torch.testing.assert_close(MatryoshkaLoss(mixture, (6, 2))(x, targets), wanted)


@pytest.mark.parametrize("name", ["a.b", "", "keys", "training", 3])
def test_names_that_no_head_can_have(name):
    with pytest.raises(InputError, match="cannot"):
        MixtureLoss({name: InfoNCE()})


# --- Training.


def run(folder, model, rows, collator, callbacks=(), **settings):
    args = ContrastiveTrainingArguments(
        str(folder), per_device_train_batch_size=4, learning_rate=1e-2, bf16=False, disable_tqdm=True,
        report_to="none", **{"save_strategy": "no", **settings},
    )  # fmt: skip
    figures = settings.get("eval_strategy") and iter([0.5, 0.4, 0.6, 0.6, 0.7])
    trainer = ContrastiveTrainer(
        model, args, train_dataset=rows, data_collator=collator, processing_class=word_tokenizer(WORDS),
        callbacks=[*callbacks],
        evaluator=(lambda model: {"dev_accuracy": next(figures)}) if figures else None,
    )  # fmt: skip
    trainer.train()
    return trainer


def test_each_loss_has_its_own_value_in_the_log(tmp_path, bert_config):
    tokenizer = word_tokenizer(WORDS)
    collator = MixtureCollator({"answers": PairCollator(tokenizer), "nli": LabelledPairCollator(tokenizer)})
    rows = {"answers": pairs(24), "nli": pairs(12, "label")}
    losses = {"answers": InfoNCE(0.1), "nli": SoftmaxLoss(), "scores": CoSENTLoss()}
    model = BertForCL(bert_config, pooling="mean", loss=MixtureLoss(losses))
    evaluation = {name: Mixture({name: own}) for name, own in rows.items()}
    trainer = run(tmp_path, model, Mixture(rows), collator, logging_steps=1, max_steps=9, gradient_accumulation_steps=2)
    logs = [log for log in trainer.state.log_history if "loss" in log]
    for log in logs:
        parts = [log[name] for name in ("loss_answers", "loss_nli") if name in log]
        assert min(parts) - 1e-3 <= log["loss"] <= max(parts) + 1e-3
        assert len(parts) == 2 or abs(parts[0] - log["loss"]) < 1e-3
    assert {name for log in logs for name in log if name.startswith("loss_")} == {"loss_answers", "loss_nli"}
    assert {name.partition("_")[0] for log in logs for name in log if name.endswith("accuracy")} == {"answers", "nli"}
    found = trainer.evaluate(evaluation)
    assert {"eval_answers_loss", "eval_nli_loss"} <= set(found)


@pytest.mark.allow_warnings  # the classifier of the former losses is not used
def test_a_reopened_mixture_keeps_the_loss_of_each_name(tmp_path, bert_config):
    """The config is saved with its keys sorted: seen before, the number of a task was its place among them."""
    losses = {"scores": CoSENTLoss(), "nli": SoftmaxLoss(), "answers": InfoNCE(0.1)}
    model = BertForCL(bert_config, pooling="mean", loss=MixtureLoss(losses)).eval()
    model.save_pretrained(tmp_path)
    again = BertForCL.from_pretrained(tmp_path).eval()
    assert list(again.loss_fn.tasks) != list(losses)
    x = torch.randn(4, 2, 16)
    for name in losses:
        assert torch.equal(model.compute_loss(x, numbered(name)), again.compute_loss(x, numbered(name)))
    given = BertForCL.from_pretrained(tmp_path, loss=MixtureLoss({"one": InfoNCE(0.2)}), with_head=True)
    assert given.settings.loss == MixtureLoss({"one": InfoNCE(0.2)})


def test_the_learning_rate_falls_as_in_infersent(tmp_path):
    """0.99 an epoch, a fifth of it where the dev figure did not rise, and an end below the lowest."""
    DevDecay, model = load("run_infersent").DevDecay, InferSentBiLSTM(InferSentConfig(12, 4, 3))
    rows, collator = datasets.Dataset.from_list(pairs(12, "label")), LabelledPairCollator(word_tokenizer(WORDS))
    settings = {
        "optim": "sgd", "lr_scheduler_type": "constant", "max_steps": -1, "num_train_epochs": 5, "logging_steps": 3,
        "eval_strategy": "epoch", "save_strategy": "epoch",
    }  # fmt: skip
    whole = run(tmp_path, model, rows, collator, callbacks=[DevDecay(lowest=3e-4)], **settings)
    rates = [log["learning_rate"] for log in whole.state.log_history if "learning_rate" in log]
    wanted = [1e-2, 1e-2 * 0.99, 1e-2 * 0.99**2 / 5, 1e-2 * 0.99**3 / 5, 1e-2 * 0.99**4 / 25]
    assert rates == pytest.approx(wanted)
    assert whole.state.global_step == 15
    assert whole.state.stateful_callbacks["DevDecay"]["attributes"]["best"] == 0.7
    model = InferSentBiLSTM(InferSentConfig(12, 4, 3))
    short = run(tmp_path / "b", model, rows, collator, callbacks=[DevDecay(lowest=3e-3)], **settings)
    assert short.state.global_step == 6
