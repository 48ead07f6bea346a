"""Validation: its figures are those of plain loops, the same for any number of processes; runs that stop in time."""

import json
import logging
import math

import numpy as np
import pytest
import torch
import validation_worker
from datasets import Dataset
from ranks import together
from scipy.stats import spearmanr
from transformers import EarlyStoppingCallback, TrainerCallback

from conftest import SENTENCES
from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DropoutPairCollator,
    InfoNCE,
    InputError,
    PairCollator,
    tokenize,
)
from contrastive_st.models.base import text_hashes
from contrastive_st.plots import training_curve_png
from contrastive_st.scripts.arguments import ValidationArguments
from contrastive_st.training import validation
from contrastive_st.training.validation import shares, validation_metrics

PLAIN = {
    "cosine": lambda a, b: float(a @ b / (a.norm() * b.norm())),
    "dot": lambda a, b: float(a @ b),
    "euclidean": lambda a, b: -float((a - b).norm()),
    "manhattan": lambda a, b: -float((a - b).abs().sum()),
    "angular": lambda a, b: 1 - math.acos(a @ b / (a.norm() * b.norm())) / math.pi,
}


def plain_ranks(views, hashes, similarity="cosine"):
    """One anchor and one candidate at a time, in float64."""
    views, compare = views.double(), PLAIN[similarity]
    ranks = []
    for i in range(len(views)):
        rank, own = 1, compare(views[i, 0], views[i, 1])
        for j in range(len(views)):
            for k in range(1, views.shape[1]):
                equal = hashes[j, k] in (hashes[i, 0], hashes[i, 1]) or (k == 1 and hashes[j, 0] == hashes[i, 0])
                rank += not equal and compare(views[i, 0], views[j, k]) >= own
        ranks.append(rank)
    return np.array(ranks)


@pytest.mark.parametrize(("num_views", "dim"), [(2, None), (3, None), (3, 2)])
def test_mrr_and_accuracy_are_those_of_a_plain_loop(num_views, dim, monkeypatch):
    monkeypatch.setattr(validation, "_SCORES", 100)  # several blocks
    views = torch.randn(30, num_views, 5)
    views[:, 1] = views[:, 0] + 0.8 * views[:, 1]
    hashes = torch.randint(15, (30, num_views))  # many equal texts
    ranks = plain_ranks(views[..., :dim], hashes)
    assert len(set(ranks.tolist())) > 1
    without = plain_ranks(views[..., :dim], torch.arange(30 * num_views).view(30, num_views))
    assert (ranks < without).any()  # equal texts do matter here
    found = validation_metrics(views, None, hashes, InfoNCE(), truncate_dim=dim)
    assert found == pytest.approx({"mrr": (1 / ranks).mean(), "accuracy": (ranks == 1).mean()})


@pytest.mark.parametrize("similarity", PLAIN)
@pytest.mark.parametrize("length", [1e-4, 1.0, 1e4])
def test_vectors_of_any_length_are_compared_as_in_a_plain_loop(similarity, length):
    views = torch.randn(40, 2, 8) * length
    views[:, 1] = views[:, 0] + 0.7 * views[:, 1]
    hashes, scores = torch.arange(80).view(40, 2), torch.rand(40)
    ranks = plain_ranks(views, hashes, similarity)
    assert 0.1 < (ranks == 1).mean() < 0.9
    found = validation_metrics(views, None, hashes, InfoNCE(), similarity=similarity)
    assert found == pytest.approx({"mrr": (1 / ranks).mean(), "accuracy": (ranks == 1).mean()})
    own = [PLAIN[similarity](a, b) for a, b in views.double()]
    found = validation_metrics(views, scores, hashes, InfoNCE(), similarity=similarity)
    assert found["spearman"] == pytest.approx(spearmanr(own, scores.double()).statistic)
    nearly = length * (1 + 1e-7 * torch.randn(40, 2, 8))  # all texts have one vector, but for rounding
    assert validation_metrics(nearly, None, hashes, InfoNCE(), similarity=similarity)["accuracy"] == 0.0


def test_a_collapsed_or_broken_embedding_finds_nothing():
    hashes = torch.arange(8).view(4, 2)
    for views in (torch.ones(4, 2, 3), torch.full((4, 2, 3), torch.nan)):
        assert validation_metrics(views, None, hashes, InfoNCE()) == {"mrr": 0.25, "accuracy": 0.0}
        assert validation_metrics(views, torch.rand(4), hashes, InfoNCE()) == {"spearman": 0.0}


def test_spearman_is_that_of_cosines_and_scores():
    views, scores = torch.randn(20, 2, 4), torch.rand(20)
    cosines = torch.cosine_similarity(views[:, 0].double(), views[:, 1].double(), dim=-1)
    found = validation_metrics(views, scores, torch.arange(40).view(20, 2), InfoNCE())
    assert found["spearman"] == pytest.approx(spearmanr(cosines, scores.double()).statistic)


def test_every_row_is_judged_once_whatever_the_number_of_processes():
    for world in (1, 2, 3, 5):
        every = [shares({"a": range(13), "b": range(13, 15)}, 4, rank, world) for rank in range(world)]
        assert len({len(own) for own in every}) == 1
        counted = [i for own in every for share in own if share.counts for i in share.rows]
        assert sorted(counted) == list(range(15))
    assert [len(share.rows) for share in shares({None: range(33)}, 32)] == [16, 17]
    assert [len(share.rows) for share in shares({None: range(3)}, 2)] == [3]  # one alone has no negatives


# --- Through the trainer.


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("validation")
    both = together(2, validation_worker.all_figures, str(folder / "both"))
    return validation_worker.all_figures(str(folder / "alone")), both


NAMES = {
    "pairs": {"eval_loss", "eval_mrr", "eval_accuracy"},
    "triplets": {"eval_loss", "eval_mrr", "eval_accuracy"},
    "matryoshka": {"eval_loss", "eval_mrr", "eval_accuracy"},
    "cached": {"eval_loss", "eval_mrr", "eval_accuracy"},
    "scores": {"eval_loss", "eval_spearman"},
    "labels": {"eval_loss", "eval_accuracy"},
    "only scores": {"eval_spearman"},
    "mixture": {
        "eval_loss", "eval_mrr", "eval_accuracy", "eval_spearman", "eval_pairs_loss", "eval_pairs_mrr",
        "eval_pairs_accuracy", "eval_scores_loss", "eval_scores_spearman", "eval_labels_loss", "eval_labels_accuracy",
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", NAMES)
def test_two_processes_find_what_one_does(found, case):
    alone, both = found
    assert set(alone[case]) == NAMES[case]
    assert both[0][case] == both[1][case]
    assert both[0][case] == pytest.approx(alone[case], abs=1e-6, rel=1e-6)
    assert len({round(x, 6) for x in alone[case].values()}) > 1 or len(alone[case]) == 1


@pytest.mark.slow
def test_the_log_has_the_means_of_all_processes_however_often_it_is_written(found):
    _, both = found
    assert both[0]["losses"] == both[1]["losses"]
    runs = both[0]["losses"]
    assert runs[1]["returned"] == runs[1]["metrics"] == runs[1]["log"][-1]["train_loss"]
    for steps in (2, 50):
        assert runs[steps]["returned"] == pytest.approx(runs[1]["returned"], abs=1e-6)
    assert {"accuracy", "uniformity"} <= runs[1]["log"][0].keys()


@pytest.mark.slow
@pytest.mark.parametrize("case", ["pairs", "scores", "mixture", "cached"])
def test_a_metric_of_the_user_sees_every_row_in_order_and_changes_no_other(found, case, tmp_path):
    alone, both = found
    trainer = validation_worker.trainer_for(case, str(tmp_path))
    batches = [trainer.data_collator([trainer.eval_dataset[i]]) for i in range(len(trainer.eval_dataset))]
    for own in (alone, *both):
        metrics, (views, hashes), targets = own["predictions"][case].values()
        assert metrics == {**own[case], "eval_rows": len(batches), "eval_loss": -1.0}  # what it calls the same stays
        assert views.shape == (len(batches), 2, 16)
        assert (hashes == torch.cat([text_hashes(x["input_ids"], x["attention_mask"]) for x in batches])).all()
        torch.testing.assert_close(views, alone["predictions"][case]["predictions"][0], atol=1e-6, rtol=0)
        wanted = [x["targets"] for x in batches if "targets" in x]
        wanted = [
            torch.nn.functional.pad(x.float(), (0, 2 - x.shape[1]), value=-100) if x.dim() > 1 else x for x in wanted
        ]
        assert torch.equal(targets, torch.cat(wanted) if wanted else torch.ones(0))


@pytest.mark.slow
def test_two_processes_share_the_texts_of_an_evaluator(found):
    """Each text is encoded once, by one of them."""
    alone, both = found[0]["own pairs"], [own["own pairs"] for own in found[1]]
    assert both[0]["texts"] + both[1]["texts"] == alone["texts"] == len(set(validation_worker.TEXTS))
    assert min(own["texts"] for own in both) > 0
    for own in both:
        assert own["eval_own_spearman"] == pytest.approx(alone["eval_own_spearman"], abs=1e-6)


@pytest.mark.slow
def test_gradcache_and_parts_of_a_mixture_find_what_plain_rows_do(found):
    alone, _ = found
    assert alone["cached"] == pytest.approx(alone["pairs"], abs=1e-6)
    mixture = alone["mixture"]
    assert mixture["eval_loss"] == pytest.approx(
        np.mean([mixture[f"eval_{name}_loss"] for name in ("pairs", "scores", "labels")])
    )
    assert mixture["eval_accuracy"] == pytest.approx(
        (mixture["eval_pairs_accuracy"] + mixture["eval_labels_accuracy"]) / 2
    )


def test_the_loss_is_that_of_a_plain_loop_over_the_batches(tmp_path):
    trainer = validation_worker.trainer_for("pairs", str(tmp_path))
    rows, model = trainer.eval_dataset, trainer.model.eval()
    total, views, hashes = 0.0, [], []
    for share in shares({None: range(len(rows))}, 4):
        batch = trainer.data_collator([rows[i] for i in share.rows])
        with torch.no_grad():
            output = model(**batch)
        total += output.loss.item() * len(share.rows)
        views.append(output.views)
        hashes.append(output.text_hashes)
    found = trainer.evaluate()
    ranks = plain_ranks(torch.cat(views), torch.cat(hashes))
    assert found["eval_loss"] == pytest.approx(total / len(rows), abs=1e-6)
    assert found["eval_mrr"] == pytest.approx((1 / ranks).mean(), abs=1e-6)
    assert found["eval_accuracy"] == pytest.approx((ranks == 1).mean(), abs=1e-6)


def test_single_texts_are_refused_in_a_line(tokenizer, bert_config, tmp_path):
    rows = tokenize(Dataset.from_dict({"text": SENTENCES}), tokenizer, 16)
    with pytest.raises(InputError, match="validation"):
        ContrastiveTrainer(
            BertForCL(bert_config), arguments(tmp_path), train_dataset=rows, eval_dataset=rows,
            data_collator=DropoutPairCollator(tokenizer),
        )  # fmt: skip


# --- Stopping in time.


def arguments(folder, **changes):
    given = {"per_device_train_batch_size": 4, "max_steps": 40, "learning_rate": 3e-3, "bf16": False, **changes}
    return ContrastiveTrainingArguments(str(folder), report_to="none", disable_tqdm=True, seed=3, **given)


def worse_and_worse(tokenizer, bert_config, folder, **changes):
    """A run that learns pairs by heart which contradict those that it is validated on."""
    bert_config.hidden_dropout_prob = bert_config.attention_probs_dropout_prob = 0.1
    turned = SENTENCES[1:] + SENTENCES[:1]
    torch.manual_seed(1)
    return ContrastiveTrainer(
        BertForCL(bert_config, pooling="mean"), arguments(folder, **changes), data_collator=PairCollator(tokenizer),
        train_dataset=tokenize(Dataset.from_dict({"a": SENTENCES * 4, "b": turned * 4}), tokenizer, 16),
        eval_dataset=tokenize(Dataset.from_dict({"a": SENTENCES, "b": SENTENCES[3:] + SENTENCES[:3]}), tokenizer, 16),
    )  # fmt: skip


@pytest.mark.allow_warnings  # of the resumed run
def test_a_run_that_gets_worse_stops_and_keeps_the_best(tokenizer, bert_config, tmp_path, caplog):
    trainer = worse_and_worse(tokenizer, bert_config, tmp_path / "out", early_stopping_patience=2)
    with caplog.at_level(logging.INFO, logger="contrastive_st"):
        trainer.train()
    state = trainer.state
    losses = {row["step"]: row["eval_loss"] for row in state.log_history if "eval_loss" in row}
    best = min(losses, key=losses.get)
    assert state.global_step == best + 2 * 4 < 40
    assert state.best_global_step == best
    kept = BertForCL.from_pretrained(tmp_path / "out" / f"checkpoint-{best}")
    for name, weight in kept.state_dict().items():
        assert torch.equal(weight, trainer.model.state_dict()[name]), name
    folders = {path.name for path in (tmp_path / "out").glob("checkpoint-*")}
    assert folders == {f"checkpoint-{best}", f"checkpoint-{state.global_step}"}
    words = f"kept the checkpoint of step {best}: eval_loss {losses[best]:.4f}, the best of {len(losses)} evaluations; "
    assert words + f"stopped early at step {state.global_step} of 40" in caplog.messages
    assert {row["step"] for row in state.log_history if "loss" in row} >= set(losses)
    assert training_curve_png(state.log_history)[:4] == b"\x89PNG"
    again = worse_and_worse(tokenizer, bert_config, tmp_path / "out", early_stopping_patience=2)
    again.train(resume_from_checkpoint=True)  # takes no further step
    assert again.state.global_step == state.global_step
    assert {path.name for path in (tmp_path / "out").glob("checkpoint-*")} == folders
    patient = worse_and_worse(tokenizer, bert_config, tmp_path / "out", early_stopping_patience=3)
    patient.train(resume_from_checkpoint=True)
    assert patient.state.global_step == state.global_step + 4
    patient = worse_and_worse(tokenizer, bert_config, tmp_path / "out", load_best_model_at_end=True)
    patient.add_callback(EarlyStoppingCallback(4))
    patient.train(resume_from_checkpoint=True)
    assert patient.state.global_step == state.global_step + 8


def test_the_last_checkpoint_of_a_run_that_is_stopped_stays_beside_the_best(tokenizer, bert_config, tmp_path):
    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 9:
                control.should_save = control.should_training_stop = True

    settings = {"save_total_limit": 1, "load_best_model_at_end": True, "eval_steps": 4, "max_steps": 12}
    trainer = worse_and_worse(tokenizer, bert_config, tmp_path, **settings)
    trainer.add_callback(Stop())
    trainer.train()
    kept = {f"checkpoint-{trainer.state.best_global_step}", "checkpoint-9"}
    assert len(kept) == 2
    assert {path.name for path in tmp_path.glob("checkpoint-*")} == kept
    assert trainer.args.save_total_limit == 1
    whole = worse_and_worse(tokenizer, bert_config, tmp_path, **settings)
    whole.train(resume_from_checkpoint=True)
    assert {path.name for path in tmp_path.glob("checkpoint-*")} == {f"checkpoint-{whole.state.best_global_step}"}
    early = worse_and_worse(tokenizer, bert_config, tmp_path / "early", early_stopping_patience=1, **settings)
    early.train()
    assert early.state.global_step < 12
    kept = {path.name for path in (tmp_path / "early").glob("checkpoint-*")}
    assert kept == {f"checkpoint-{early.state.best_global_step}"}


def test_resumed_in_the_middle_it_stops_where_it_would_have(tokenizer, bert_config, tmp_path):
    settings = {"early_stopping_patience": 3, "save_total_limit": 9}
    whole = worse_and_worse(tokenizer, bert_config, tmp_path / "whole", **settings)
    whole.train()
    step, best = whole.state.global_step, whole.state.best_global_step
    middle = tmp_path / "whole" / f"checkpoint-{step - 4}"  # two evaluations were not better
    counted = json.loads((middle / "trainer_state.json").read_text())["stateful_callbacks"]["EarlyStoppingCallback"]
    assert counted["attributes"]["early_stopping_patience_counter"] == 2
    again = worse_and_worse(tokenizer, bert_config, tmp_path / "whole", **settings)
    again.train(resume_from_checkpoint=str(middle))
    assert (again.state.global_step, again.state.best_global_step) == (step, best)
    for a, b in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)


REGULARLY = [
    ({}, ("steps", 0.1, "steps", 0.1, True, 2)),
    ({"eval_steps": 5}, ("steps", 5, "steps", 5, True, 2)),
    ({"save_steps": 7}, ("steps", 7, "steps", 7, True, 2)),
    ({"save_strategy": "epoch"}, ("epoch", None, "epoch", 500, True, 2)),
    ({"eval_strategy": "epoch"}, ("epoch", None, "epoch", 500, True, 2)),
    ({"eval_strategy": "steps", "eval_steps": 5, "save_steps": 10}, ("steps", 5, "steps", 10, True, 2)),
    ({"eval_strategy": "epoch", "save_strategy": "steps"}, ("epoch", None, "steps", 500, False, 2)),
    ({"save_strategy": "steps"}, ("steps", 0.1, "steps", 0.1, True, 2)),
    ({"save_strategy": "no"}, ("steps", 0.1, "no", 500, False, None)),
    ({"save_total_limit": 5}, ("steps", 0.1, "steps", 0.1, True, 5)),
    ({"save_steps": 500}, ("steps", 500, "steps", 500, True, 2)),
    ({"load_best_model_at_end": False}, ("steps", 0.1, "steps", 0.1, False, 2)),
]


@pytest.mark.parametrize(("given", "wanted"), REGULARLY)
@pytest.mark.parametrize("later", [False, True])
def test_what_is_left_open_follows_what_is_given(tmp_path, given, wanted, later):
    args = arguments(tmp_path, **given, **({} if later else {"early_stopping_patience": 2}))
    if later:
        args.evaluate_regularly()
    names = ("eval_strategy", "eval_steps", "save_strategy", "save_steps", "load_best_model_at_end", "save_total_limit")
    assert tuple(getattr(args, name) for name in names) == wanted
    assert args.eval_batch_size == 4


def test_no_evaluation_is_none(tmp_path):
    args = arguments(tmp_path, eval_strategy="no")
    args.evaluate_regularly()
    assert (args.eval_strategy, args.save_steps, args.load_best_model_at_end) == ("no", 500, False)
    for asked in ({"early_stopping_patience": 2}, {"load_best_model_at_end": True}):
        with pytest.raises(InputError, match="needs evaluations; leave out eval_strategy no"):
            arguments(tmp_path, eval_strategy="no", **asked)


def test_a_tiny_run_is_evaluated_at_every_step(tokenizer, bert_config, tmp_path):
    trainer = worse_and_worse(tokenizer, bert_config, tmp_path, max_steps=3, early_stopping_patience=9)
    trainer.train()
    assert [row["step"] for row in trainer.state.log_history if "eval_loss" in row] == [1, 2, 3]


def test_what_is_set_between_two_runs_holds(tokenizer, bert_config, tmp_path):
    trainer = worse_and_worse(tokenizer, bert_config, tmp_path, max_steps=4, eval_strategy="steps", eval_steps=0.5)
    for given, wanted in ((0.5, [2, 4]), (None, [2, 4]), (1, [1, 2, 3, 4])):
        trainer.args.eval_steps = given or trainer.args.eval_steps
        trainer.train()
        assert [row["step"] for row in trainer.state.log_history if "eval_loss" in row] == wanted


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_an_evaluation_in_half_precision_leaves_every_bit_of_the_weights(tokenizer, bert_config, tmp_path, kind):
    trainer = worse_and_worse(tokenizer, bert_config, tmp_path, **{f"{kind}_full_eval": True, "max_steps": 2})
    model = trainer.model
    model.register_buffer("own", torch.rand(3), persistent=False)
    held = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    before, asked = {name: x.clone() for name, x in held.items()}, []
    model.bert.register_forward_pre_hook(lambda module, args: asked.append(module.dtype))
    trainer.evaluate()
    trainer.predict(trainer.eval_dataset)
    assert set(asked) == {torch.bfloat16 if kind == "bf16" else torch.float16}
    after = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    assert [name for name, x in before.items() if not torch.equal(after[name], x) or after[name].dtype != x.dtype] == []
    assert all(after[name] is held[name] for name, _ in model.named_parameters())  # tied ones stay tied
    trainer.train()
    assert next(model.parameters()).dtype == torch.float32


def test_the_precision_is_that_of_the_launcher_where_no_flag_decides(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")  # as `accelerate launch` does
    assert arguments(tmp_path).bf16
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")
    with pytest.raises(InputError, match="fp16: on a CPU"):
        arguments(tmp_path, use_cpu=True)


def test_the_measure_chooses_where_there_is_no_loss(tmp_path):
    trainer = validation_worker.texts_judged_by_scores(str(tmp_path))
    args = arguments(tmp_path, early_stopping_patience=2)
    again = ContrastiveTrainer(
        trainer.model, args, train_dataset=trainer.train_dataset, eval_dataset=trainer.eval_dataset,
        data_collator=trainer.data_collator, eval_collator=trainer.eval_collator,
    )  # fmt: skip
    assert (again.args.metric_for_best_model, again.args.greater_is_better) == ("spearman", True)
    args = arguments(tmp_path, early_stopping_patience=2, metric_for_best_model="mrr")
    assert args.greater_is_better
    both = ContrastiveTrainer(
        trainer.model, arguments(tmp_path), train_dataset=trainer.train_dataset, eval_dataset=trainer.eval_dataset,
        data_collator=trainer.data_collator, eval_collator=trainer.eval_collator, evaluator=lambda model: {"own": 0.5},
    )  # fmt: skip
    assert {"eval_spearman", "eval_own"} <= set(both.evaluate())


@pytest.mark.parametrize(
    "asked", [{"early_stopping_patience": 2}, {"eval_strategy": "steps"}, {"load_best_model_at_end": True}]
)
def test_without_validation_data_a_line_says_how_to_give_some(tokenizer, bert_config, tmp_path, asked):
    rows = tokenize(Dataset.from_dict({"a": SENTENCES, "b": SENTENCES[::-1]}), tokenizer, 16)
    name, value = next(iter(asked.items()))
    words = f"{name} {str(value).lower()} needs validation data; give --validation_file or --validation_split"
    with pytest.raises(InputError, match=words):
        ContrastiveTrainer(
            BertForCL(bert_config), arguments(tmp_path, **asked), train_dataset=rows,
            data_collator=PairCollator(tokenizer),
        )  # fmt: skip


# --- Rows for scripts.


def test_two_sources_of_validation_rows_or_a_share_out_of_range_are_refused():
    for wrong in ({"validation_file": "f", "validation_split": 0.1}, {"validation_split": 0.6}):
        with pytest.raises(InputError, match="validation_split"):
            ValidationArguments(**wrong)
