"""ContrastiveTrainer: what it logs, how it stops, how it resumes; and the stock Trainer with the same parts."""

import dataclasses
import logging
import math
import multiprocessing
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from torch._dynamo.utils import counters
from transformers import BertModel, RobertaConfig, Trainer, TrainerCallback, TrainingArguments

from conftest import SENTENCES
from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DropoutPairCollator,
    InfoNCE,
    InputError,
    LabelledPairCollator,
    NLITripletCollator,
    PairCollator,
    QuickThoughtsConfig,
    QuickThoughtsGRU,
    RobertaForCL,
    SentenceEncoder,
    SoftmaxLoss,
    tokenize,
)
from contrastive_st.data import Mixture, SentenceCorpus
from contrastive_st.losses.base import require
from contrastive_st.training import TrainingDiverged

pytestmark = pytest.mark.slow

COLLATORS = {DropoutPairCollator: 1, PairCollator: 2, NLITripletCollator: 3}


def rows_for(tokenizer, num_texts, copies=4):
    columns = {f"text{i}": SENTENCES[i:] + SENTENCES[:i] for i in range(num_texts)}
    return tokenize(Dataset.from_dict({name: texts * copies for name, texts in columns.items()}), tokenizer, 16)


def arguments(folder, **changes):
    settings = {
        "per_device_train_batch_size": 4,
        "max_steps": 6,
        "logging_steps": 2,
        "learning_rate": 1e-3,
        "bf16": False,
    }
    return ContrastiveTrainingArguments(str(folder), disable_tqdm=True, **{**settings, **changes})


@pytest.fixture
def equal_views(monkeypatch):
    """Dropout pairs of a model without dropout, which the trainer refuses, are what a comparison of gradients needs."""
    monkeypatch.setattr("contrastive_st.training.trainer.check_views", lambda views, hashes: None)


def trainer_for(
    tokenizer, config, folder, collator=DropoutPairCollator, evaluator=None, callbacks=None, model=None, copies=4,
    **changes,
):  # fmt: skip
    torch.manual_seed(1)
    return ContrastiveTrainer(
        model or BertForCL(config), arguments(folder, **changes), data_collator=collator(tokenizer),
        train_dataset=rows_for(tokenizer, COLLATORS[collator], copies), processing_class=tokenizer,
        evaluator=evaluator, callbacks=callbacks,
    )  # fmt: skip


@pytest.mark.parametrize("collator", COLLATORS)
def test_the_stock_trainer_trains_with_each_collator(collator, tokenizer, bert_config, tmp_path):
    model = BertForCL(bert_config)
    before = model.bert.pooler.dense.weight.detach().clone()
    args = TrainingArguments(
        str(tmp_path), per_device_train_batch_size=4, max_steps=3, report_to="none", use_cpu=True, disable_tqdm=True
    )
    rows = rows_for(tokenizer, COLLATORS[collator])
    trainer = Trainer(model, args, train_dataset=rows, eval_dataset=rows, data_collator=collator(tokenizer))
    assert math.isfinite(trainer.train().training_loss)
    assert not torch.equal(model.bert.pooler.dense.weight, before)
    assert math.isfinite(trainer.evaluate()["eval_loss"])


class Gradients(TrainerCallback):
    """The gradients that the optimizer sees, of each step."""

    def __init__(self):
        self.seen = []

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        self.seen.append({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})


def test_accumulating_two_batches_gives_their_mean_gradient(tokenizer, bert_config, tmp_path, equal_views):
    bert_config.hidden_dropout_prob = bert_config.attention_probs_dropout_prob = 0.0
    watch, options = Gradients(), {"gradient_accumulation_steps": 2, "max_steps": 1, "max_grad_norm": 0}
    trainer = trainer_for(tokenizer, bert_config, tmp_path, callbacks=[watch], **options)
    model = BertForCL(bert_config)
    model.load_state_dict(trainer.model.state_dict())
    batches = list(trainer.get_train_dataloader())[:2]
    trainer.train()
    sum(model(**batch).loss for batch in batches).div(2).backward()
    wanted = model.bert.pooler.dense.weight.grad
    torch.testing.assert_close(watch.seen[0]["bert.pooler.dense.weight"], wanted, rtol=1e-4, atol=1e-6)


def test_clipping_sees_the_gradient_of_the_whole_batch(tokenizer, bert_config, tmp_path):
    bert_config.hidden_dropout_prob = bert_config.attention_probs_dropout_prob = 0.0
    bert_config.initializer_range = 0.3  # with the usual 0.02 all sentences are alike, and gradients rounding errors

    def gradients(**changes):
        torch.manual_seed(0)
        watch, model = Gradients(), BertForCL(bert_config).double()
        trainer_for(tokenizer, bert_config, tmp_path, PairCollator, model=model, callbacks=[watch], max_steps=1,
                    **changes).train()  # fmt: skip
        return watch.seen[0]

    raw = gradients(max_grad_norm=0.0)
    norm = torch.stack([gradient.norm() for gradient in raw.values()]).norm()
    for changes in ({}, {"chunk_size": 3}):
        for name, gradient in gradients(max_grad_norm=norm.item() / 4, **changes).items():
            torch.testing.assert_close(gradient, raw[name] / 4, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("kind", ["rows", "corpus", "mixture"])
def test_data_seed_alone_orders_the_rows(kind, tokenizer, bert_config, tmp_path):
    """The order is that of `data_seed`, whatever the `seed`; and `data_seed` is `seed` if it is left out."""
    texts = [" ".join(SENTENCES[i % 8].split()[: 2 + i % 3]) + f" {'cat ' * (i // 8)}" for i in range(64)]
    (tmp_path / "text.txt").write_text("\n".join(texts))
    rows = tokenize(Dataset.from_dict({"text0": texts}), tokenizer, 16)
    data = {
        "rows": rows,
        "corpus": SentenceCorpus(tmp_path / "text.txt", tokenizer, 16, run_length=2),
        "mixture": Mixture({"a": rows, "b": rows.select(range(32))}),
    }[kind]

    def order(**seeds):
        args = arguments(tmp_path / "out", **seeds)
        trainer = ContrastiveTrainer(BertForCL(bert_config), args, train_dataset=data, data_collator=_ids)
        return list(trainer.get_train_dataloader())

    first = order(seed=1, data_seed=7)
    assert first == order(seed=2, data_seed=7) == order(seed=7)
    assert first != order(seed=1, data_seed=8)


def test_what_follows_another_argument_follows_its_changes(tokenizer, bert_config, tmp_path):
    args = arguments(tmp_path, seed=1)
    other = dataclasses.replace(args, seed=7, per_device_train_batch_size=2)
    assert (other.order_seed, other.eval_batch_size) == (7, 2)
    assert dataclasses.replace(arguments(tmp_path, data_seed=3), seed=7).order_seed == 3
    rows = rows_for(tokenizer, 1)
    trainer = ContrastiveTrainer(BertForCL(bert_config), args, train_dataset=rows, data_collator=_ids)
    first = list(trainer.get_train_dataloader())
    args.seed = 7
    trainer.create_accelerator_and_postprocess()  # as for a trial of a search
    assert list(trainer.get_train_dataloader()) != first


def _ids(rows):
    return {"ids": [row["input_ids"] for row in rows]}


def test_the_private_methods_that_are_overridden_are_listed_with_a_reason():
    ours = [kind for kind in ContrastiveTrainer.__mro__ if kind.__module__.startswith("contrastive_st.")]
    found = {name for kind in ours for name in vars(kind) if name[0] == "_" != name[1] and hasattr(Trainer, name)}
    section = Path("docs/design.md").read_text().split("that are overridden\n")[1].partition("\n## ")[0]
    assert found == set(re.findall(r"`(_\w+)`", section))
    assert len(found) <= 4


def test_a_loss_that_chunks_do_not_call_is_refused(tokenizer, bert_config, tmp_path):
    class Tenfold(ContrastiveTrainer):
        def compute_loss(self, *args, **kwargs):
            return 10 * super().compute_loss(*args, **kwargs)

    rows = rows_for(tokenizer, 1)
    for kind, given, words in (
        (Tenfold, {}, "chunk_size does not call an overridden compute_loss"),
        (ContrastiveTrainer, {"compute_loss_func": lambda *args: None}, "chunk_size does not call compute_loss_func"),
    ):
        parts = {"train_dataset": rows, "data_collator": DropoutPairCollator(tokenizer), **given}
        kind(BertForCL(bert_config), arguments(tmp_path), **parts)
        with pytest.raises(InputError, match=words):
            kind(BertForCL(bert_config), arguments(tmp_path, chunk_size=2), **parts)


@pytest.mark.parametrize("changes", [{}, {"chunk_size": 3}])
def test_a_classifier_is_trained_on_a_frozen_encoder(tokenizer, bert_config, tmp_path, changes):
    model = BertForCL(bert_config, loss=SoftmaxLoss(num_labels=2))
    for name, weight in model.named_parameters():
        weight.requires_grad_("loss_head" in name)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    pairs = [{"sentence1": text, "sentence2": SENTENCES[0], "label": i % 2} for i, text in enumerate(SENTENCES)]
    args = arguments(tmp_path, **changes)
    data, collator = tokenize(pairs, tokenizer, 16), LabelledPairCollator(tokenizer)
    ContrastiveTrainer(model, args, train_dataset=data, data_collator=collator).train()
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name]) != ("loss_head" in name), name


@pytest.mark.parametrize(("reads_late", "stopped"), [(False, 5), (True, 8)])
def test_a_loss_that_is_not_finite_stops_the_run_at_its_step(reads_late, stopped, tokenizer, bert_config, tmp_path):
    """On a GPU the value is read late, before a log or a checkpoint; the step is named in which it was lost."""

    class Poison(TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **kwargs):
            if state.global_step == 5:
                with torch.no_grad():
                    model.bert.pooler.dense.bias[0] = float("nan")

    options = {"save_steps": 4, "logging_steps": 9, "max_steps": 9}
    trainer = trainer_for(tokenizer, bert_config, tmp_path, callbacks=[Poison()], **options)
    trainer.reads_late = reads_late
    with pytest.raises(TrainingDiverged, match="step 6") as caught:
        trainer.train()
    assert trainer.state.global_step == stopped
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("workers", [0, 1])
def test_sigterm_saves_a_checkpoint_from_which_the_run_goes_on_as_if_nothing_had_been(
    tokenizer, bert_config, tmp_path, workers
):
    class Kill(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == 2:  # all processes get it, from another one
                own = [process.pid for process in multiprocessing.active_children() if process.pid not in others]
                assert len(own) >= workers
                subprocess.run(["kill", "-TERM", *map(str, [os.getpid(), *own])], check=True)

    now = [threading.Event()]  # libraries start threads in a forked process at once
    os.register_at_fork(after_in_child=lambda: [threading.Thread(target=one.wait, daemon=True).start() for one in now])
    before = signal.getsignal(signal.SIGTERM)  # a library may have one of its own
    others = {process.pid for process in multiprocessing.active_children()}  # of a loader that an earlier test left
    options = {"dataloader_num_workers": workers}
    stopped = trainer_for(tokenizer, bert_config, tmp_path / "stopped", callbacks=[Kill()], **options)
    logging.getLogger("transformers").handlers[-1].setLevel(logging.ERROR)  # the farewell is a warning
    stopped.train()
    now.clear()
    assert stopped.state.global_step == 3
    again = trainer_for(tokenizer, bert_config, tmp_path / "again")
    again.train(resume_from_checkpoint=str(tmp_path / "stopped" / "checkpoint-3"))
    whole = trainer_for(tokenizer, bert_config, tmp_path / "whole")
    whole.train()
    for a, b in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.allow_warnings
@pytest.mark.parametrize("fault", ["collapse", "chance"])
def test_trouble_is_said_once_in_words(tokenizer, bert_config, tmp_path, fault, caplog):
    class Flat(BertForCL):
        def embed(self, *args, **kwargs):
            views = super().embed(*args, **kwargs)
            if fault == "collapse":
                return views * 1e-4 + 1
            return torch.eye(8, 16).view_as(views) + 1e-4 * views  # nearly orthogonal

    bert_config.hidden_size = 16
    logger = logging.getLogger("transformers")
    logger.addHandler(caplog.handler)
    trainer_for(
        tokenizer, bert_config, tmp_path, model=Flat(bert_config), max_steps=12, logging_steps=1, copies=1
    ).train()
    logger.removeHandler(caplog.handler)
    words = {"collapse": "the embedding collapses", "chance": "the loss stays at ln(candidates)"}
    assert sum(words[fault] in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize(("changes", "limit"), [
    ({}, {"chunk_tokens": 30}), ({"gradient_accumulation_steps": 2, "do_mlm": True}, {"chunk_size": 3}),
    ({"bf16": True, "unpadded": False}, {"chunk_size": 3}),
])  # fmt: skip
def test_the_gradcache_step_of_the_trainer_is_its_plain_step(tokenizer, bert_config, tmp_path, changes, limit):
    if "bf16" not in changes:
        bert_config.hidden_dropout_prob = bert_config.attention_probs_dropout_prob = 0.0
    do_mlm, losses = changes.pop("do_mlm", False), []
    for more in ({}, limit):
        torch.manual_seed(1)
        trainer = trainer_for(
            tokenizer, bert_config, tmp_path / str(len(losses)), PairCollator, max_steps=3, logging_steps=1,
            model=BertForCL(bert_config, do_mlm=do_mlm, mlm_weight=0.5), **changes, **more,
        )  # fmt: skip
        trainer.data_collator.do_mlm = do_mlm
        # the chunks, so that both draw the same dropout masks
        trainer.model.bucket_options = {"max_rows": 3} if "chunk_size" in limit else {"max_tokens": 30}
        trainer.train()
        losses.append(torch.tensor([row["loss"] for row in trainer.state.log_history if "loss" in row]))
    tolerance = 5e-2 if "bf16" in changes else 2e-4  # three steps of Adam on a tiny model, in float32
    torch.testing.assert_close(*losses, rtol=tolerance, atol=0)


def test_what_a_loss_requires_is_said_when_the_losses_are_read(tokenizer, bert_config, tmp_path):
    class Demanding(InfoNCE, register=False):
        def __call__(self, views, targets=None, **other):
            require(views.isnan().any(), lambda: "a view is a number")
            return super().__call__(views, targets, **other)

    trainer = trainer_for(tokenizer, bert_config, tmp_path, model=BertForCL(bert_config, loss=Demanding()))
    trainer.reads_late = True
    with pytest.raises(InputError, match="number"):
        trainer.train()
    assert trainer.state.global_step == 2


@pytest.mark.allow_warnings
def test_a_compiled_encoder_is_compiled_for_all_shapes_at_once(tokenizer, bert_config, tmp_path):
    """Batches of new lengths, cut into buckets of new shapes, compile nothing after the first steps."""
    graphs = []

    class Count(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            graphs.append(counters["stats"]["unique_graphs"])

    torch._dynamo.reset()
    counters.clear()
    bert_config.num_hidden_layers = 1
    model = BertForCL(bert_config, pooling="mean")
    model.bucket_options = {"max_rows": 4, "max_padding": 1.0}  # a bucket of one row is another graph
    trainer = trainer_for(
        tokenizer, bert_config, tmp_path, model=model, max_steps=6, callbacks=[Count()], per_device_train_batch_size=6,
        torch_compile=True, torch_compile_backend="eager", save_strategy="no", chunk_size=4,
    )  # fmt: skip
    trainer.train()
    assert 0 < graphs[2] == graphs[-1]
    assert math.isfinite(trainer.state.log_history[-1]["train_loss"])
    assert not any("_orig_mod" in name for name in trainer.model.state_dict())


@pytest.mark.parametrize("step", [{}, {"chunk_size": 3}, {"momentum_queue": 8}])
def test_a_run_without_padding_ends_with_the_same_weights(tokenizer, bert_config, tmp_path, step):
    bert_config.hidden_dropout_prob = bert_config.attention_probs_dropout_prob = 0.0
    weights, options = [], {"optim": "sgd", "learning_rate": 0.05, "save_strategy": "no", **step}
    for unpadded in (False, True):
        folder = tmp_path / str(unpadded)
        trainer = trainer_for(tokenizer, bert_config, folder, PairCollator, unpadded=unpadded, **options)
        trainer.train()
        weights.append(dict(trainer.model.named_parameters()))
    for name, weight in weights[0].items():
        torch.testing.assert_close(weights[1][name], weight, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("changes", [{}, {"chunk_size": 3}, {"unpadded": True}])
def test_noise_on_word_embeddings_is_that_of_the_padded_batch(tokenizer, bert_config, tmp_path, changes):
    """NEFTune: uniform up to alpha / sqrt(L d) for rows of L tokens of width d."""
    seen = []

    class Look(TrainerCallback):
        def on_train_begin(self, args, state, control, model=None, **kwargs):
            model.get_input_embeddings().register_forward_hook(lambda _, ids, out: seen.append((ids[0], out.detach())))

    options = {"neftune_noise_alpha": 5.0, "max_steps": 1, "save_strategy": "no", **changes}
    trainer = trainer_for(tokenizer, bert_config, tmp_path, callbacks=[Look()], **options)
    table = trainer.model.get_input_embeddings().weight.detach().clone()
    trainer.train()
    for ids, found in seen:
        bound = 5.0 / (ids.shape[1] * table.shape[1]) ** 0.5
        assert 0.9 * bound < (found - table[ids]).abs().max() <= bound + 1e-6
    assert sum(ids.shape[0] for ids, _ in seen) == 8 * (2 if "chunk_size" in changes else 1)


@pytest.mark.allow_warnings  # that compiling is for GPUs
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"unpadded": True}, "unpadded is not supported for QuickThoughtsGRU with"),
        ({"unpadded": True, "torch_compile": True}, "unpadded is not supported with torch_compile"),
        ({"torch_compile": True}, "torch_compile is for encoders of transformers"),
        ({"gradient_checkpointing": True}, "gradient_checkpointing is not supported for QuickThoughtsGRU"),
        ({"neftune_noise_alpha": 5.0}, "neftune_noise_alpha is for encoders of transformers"),
        ({"label_smoothing_factor": 0.1}, "label_smoothing_factor is not supported by these losses"),
        ({"use_liger_kernel": True}, "pip install liger-kernel"),
    ],
)
def test_arguments_that_do_not_fit_the_model_are_refused(tokenizer, bert_config, tmp_path, changes, words):
    shape = {"vocab_size": len(tokenizer), "embedding_size": 6, "hidden_size": 8}
    model = QuickThoughtsGRU(QuickThoughtsConfig(**shape), targets="next")
    with pytest.raises(InputError, match=words):
        trainer_for(tokenizer, bert_config, tmp_path, model=model, **changes)


def test_an_evaluator_alone_needs_no_collator(tokenizer, bert_config, tmp_path):
    trainer = ContrastiveTrainer(BertForCL(bert_config), arguments(tmp_path), evaluator=lambda model: {"figure": 1.0})
    assert trainer.evaluate()["eval_figure"] == 1.0


PARTS = {
    "the model is 'user/name'; open": {"model": "user/name"},
    "a BertModel of transformers does not record how it pools": {"model": lambda config: BertModel(config)},
    "args: TrainingArguments; give ContrastiveTrainingArguments": {"args": TrainingArguments("out", use_cpu=True)},
    "there is no data_collator; give": {"data_collator": None},
    "train_dataset is a dict of a, b; give one of its data sets, or a Mixture": {"train_dataset": {"a": [], "b": []}},
    "is a loss of sentence-transformers": {"loss": lambda sentence_features, labels: torch.zeros(())},
    "a row has text and no input_ids; train on tokenize": {"train_dataset": Dataset.from_dict({"text": SENTENCES})},
}


@pytest.mark.parametrize("message", PARTS)
def test_parts_that_cannot_train_are_named_in_a_line(tokenizer, bert_config, tmp_path, message):
    parts = {
        "model": BertForCL(bert_config), "args": arguments(tmp_path), "train_dataset": rows_for(tokenizer, 1),
        "data_collator": DropoutPairCollator(tokenizer),
    }  # fmt: skip
    parts |= {
        name: part(bert_config) if name == "model" and callable(part) else part for name, part in PARTS[message].items()
    }
    with pytest.raises(InputError, match=message):
        ContrastiveTrainer(**parts).train()


def test_a_mixture_keeps_no_last_batch(tokenizer, bert_config, tmp_path):
    data, args = Mixture({"a": rows_for(tokenizer, 1)}), arguments(tmp_path, dataloader_drop_last=False)
    with pytest.raises(InputError, match="a Mixture has whole batches alone"):
        ContrastiveTrainer(BertForCL(bert_config), args, DropoutPairCollator(tokenizer), data)


def test_a_config_keeps_the_padding_from_which_its_positions_are_counted(tokenizer, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    config = RobertaConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=40, pad_token_id=1, initializer_range=0.5,
    )  # fmt: skip
    assert tokenizer.pad_token_id == 0
    trainer = trainer_for(tokenizer, None, tmp_path, model=RobertaForCL(config), max_steps=1, save_steps=1)
    trainer.train()
    trainer.save_model()
    vectors = SentenceEncoder(trainer.model, tokenizer).encode(SENTENCES)
    for folder in (tmp_path, tmp_path / "checkpoint-1"):
        peer = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
        for opened in (SentenceEncoder(folder), peer):
            assert abs(opened.encode(SENTENCES) - vectors).max() < 1e-5


@pytest.mark.parametrize("changes", [{}, {"chunk_size": 2}])
def test_a_model_that_cannot_compute_in_bfloat16_is_told_how_it_can(changes, tokenizer, bert_config, tmp_path):
    model = BertForCL(bert_config)
    cast = lambda module, given, out: out.index_put((torch.tensor(0),), out[0].bfloat16())  # as X-MOD does
    model.backbone.embeddings.register_forward_hook(cast)
    with pytest.raises(InputError, match="--bf16 false"):
        trainer_for(tokenizer, None, tmp_path, model=model, bf16=True, **changes).train()
