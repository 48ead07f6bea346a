"""The documented uses of transformers' Trainer, and evaluators of sentence-transformers, with `ContrastiveTrainer`."""

import math
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from refusals import error_of
from transformers import TrainerCallback

from conftest import SENTENCES, save_both
from contrastive_st import (
    AutoModelForCL,
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    CoSENTLoss,
    InfoNCE,
    InputError,
    MatryoshkaLoss,
    PairCollator,
    tokenize,
)
from contrastive_st.cli import main
from contrastive_st.data import LabelledPairCollator
from contrastive_st.models import add_lora

pytestmark = pytest.mark.slow

EVERY = {"eval_strategy": "steps", "eval_steps": 3, "save_steps": 3}


@pytest.fixture
def rows(tokenizer):
    def made(copies=4, positives=None):
        anchors = [f"{text} {i}" for i in range(copies) for text in SENTENCES] if positives else SENTENCES * copies
        texts = {"anchor": anchors, "positive": positives or (SENTENCES[1:] + SENTENCES[:1]) * copies}
        return tokenize(Dataset.from_dict(texts), tokenizer, 16)

    return made


@pytest.fixture
def make(tokenizer, bert_config, tmp_path, rows):
    """A trainer of pairs; names of the trainer's own arguments go there, all others into the training arguments."""

    def made(data=None, collator=PairCollator, **given):
        names = ("eval_dataset", "evaluator", "callbacks", "compute_metrics", "model_init", "loss", "eval_collator",
                 "model")  # fmt: skip
        own = {name: given.pop(name) for name in names if name in given}
        settings = {"per_device_train_batch_size": 4, "max_steps": 6, "logging_steps": 2, "learning_rate": 1e-3}
        settings |= {"bf16": False, "disable_tqdm": True, "report_to": "none", **given}
        if not own.keys() & {"model_init", "model"}:
            torch.manual_seed(1)
            own["model"] = BertForCL(bert_config)
        return ContrastiveTrainer(
            args=ContrastiveTrainingArguments(str(tmp_path / "out"), **settings),
            train_dataset=rows() if data is None else data, data_collator=collator(tokenizer),
            processing_class=tokenizer, **own,
        )  # fmt: skip

    return made


# --- Searches.


def test_a_search_has_as_many_trials_as_asked(make, rows, bert_config):
    pytest.importorskip("optuna")
    best = {"load_best_model_at_end": True, "metric_for_best_model": "mrr"}
    seen = []

    class Seen(TrainerCallback):
        def on_train_begin(self, args, state, control, model=None, **kwargs):
            seen.append((args.per_device_train_batch_size, args.eval_steps, model.unpadded, state.max_steps))

    trainer = make(
        eval_dataset=rows(), model_init=lambda: BertForCL(bert_config), callbacks=[Seen], unpadded=False, max_steps=-1,
        eval_strategy="steps", save_steps=0.5, eval_steps=0.5, **best,
    )  # fmt: skip
    found = trainer.hyperparameter_search(
        lambda trial: {
            "learning_rate": trial.suggest_float("learning_rate", 1e-5, 1e-2, log=True),
            "num_train_epochs": trial.number + 1,
            "per_device_train_batch_size": [4, 8, 100][trial.number],  # the last is more than there are rows
        },
        compute_objective=lambda metrics: metrics["eval_mrr"], n_trials=3, direction="maximize", backend="optuna",
    )  # fmt: skip
    assert 0 < found.objective <= 1
    assert seen == [(4, 4, False, 8), (8, 4, False, 8), (32, 2, False, 3)]


# --- The metric of the best checkpoint.


@pytest.mark.parametrize(
    ("best", "given", "wanted", "named"),
    [
        ({"load_best_model_at_end": True}, {}, "ndcg", "accuracy, loss, mrr"),
        ({"load_best_model_at_end": True}, {"dict": True}, "loss", "a_accuracy, a_loss, a_mrr, b_accuracy"),
        ({"save_strategy": "best"}, {"evaluator": lambda model: {"score": 1.0}}, "ndcg", "score"),
        ({}, {"compute_metrics": lambda output: {"ndgc": 1.0}}, "ndcg", "loss, mrr, ndgc"),
    ],
)
def test_an_unknown_metric_is_said_before_the_first_step(best, given, wanted, named, make, rows):
    given = dict(given)
    parts = {"a": rows(1), "b": rows(2)} if given.pop("dict", False) else rows()
    given |= {} if "evaluator" in given else {"eval_dataset": parts}
    trainer = make(metric_for_best_model=wanted, **EVERY, **best, **given)
    with pytest.raises(InputError, match=f"metric_for_best_model {wanted}: an evaluation has .*{named}"):
        trainer.train()
    assert trainer.state.global_step == 0


def test_of_several_sets_of_rows_the_metric_is_asked_for(make, rows):
    words = "metric_for_best_model is not given: an evaluation has a_accuracy, a_loss, a_mrr, b_accuracy, b_loss, b_mrr"
    with pytest.raises(InputError, match=words):
        make(early_stopping_patience=2, eval_dataset={"a": rows(1), "b": rows(2)})


@pytest.mark.parametrize(
    "best",
    [
        {"load_best_model_at_end": True},
        {"save_strategy": "best"},
        {"early_stopping_patience": 2, "metric_for_best_model": "score"},
    ],
)
@pytest.mark.allow_warnings  # early stopping does not find the metric among those of the rows
def test_for_several_sets_of_rows_the_evaluator_is_called_once_and_may_choose(best, make, rows):
    calls = []
    score = lambda model: calls.append(1) or {"score": len(calls)}
    score.primary_metric = "score"
    sets = {"a": rows(1), "b": rows(2)}
    trainer = make(eval_dataset=sets, evaluator=score, **{**EVERY, **best})
    trainer.train()
    logged = [(row["step"], row["eval_score"]) for row in trainer.state.log_history if "eval_score" in row]
    assert logged == [(3, 1.0), (6, 2.0)]
    assert (len(calls), trainer.state.best_metric, trainer.state.best_global_step) == (2, 2.0, 6)
    assert not any(name.endswith("_score") for row in trainer.state.log_history for name in row if name != "eval_score")
    metrics = trainer.evaluate(sets, metric_key_prefix="test")
    assert metrics["test_score"] == trainer.predict(rows(1)).metrics["test_score"] - 1 == 3
    assert {"test_a_mrr", "test_b_mrr"} <= metrics.keys()
    assert trainer.evaluate(rows(1))["eval_score"] == 5


@pytest.mark.parametrize("wanted", ["eval_accuracy", "score"])
def test_a_known_metric_costs_no_evaluation(wanted, make, rows):
    calls = []
    score = lambda model: calls.append(1) or {"score": len(calls)}
    score.primary_metric = "score"
    trainer = make(
        metric_for_best_model=wanted, eval_dataset=rows(), evaluator=score, load_best_model_at_end=True, **EVERY
    )
    trainer.train()
    assert len(calls) == 2
    assert trainer.state.best_global_step


def test_the_best_of_nothing_is_refused_in_one_line(make, capsys, tmp_path):
    with pytest.raises(InputError, match="load_best_model_at_end"):
        make(load_best_model_at_end=True, save_steps=3)
    file = tmp_path / "pairs.csv"
    file.write_text("anchor,positive\n" + "".join(f"{a},{a} too\n" for a in SENTENCES))
    flags = ["--train_file", str(file), "--output_dir", str(tmp_path / "run"), "--load_best_model_at_end", "true"]
    error = error_of(capsys, "train", *flags, "--hidden_size", "16", "--num_layers", "1")
    assert error.endswith("--validation_split, or in Python eval_dataset=...")


def test_metrics_that_are_all_nan_are_said(make, caplog):
    trainer = make(
        evaluator=lambda model: math.nan, metric_for_best_model="evaluator", load_best_model_at_end=True, **EVERY
    )
    trainer.train()
    assert "there is no best checkpoint: eval_evaluator was NaN in all 2 evaluations" in caplog.text


# --- Evaluators.


@pytest.mark.parametrize(
    ("result", "metrics"),
    [
        (0.5, {"eval_evaluator": 0.5}),
        (None, {}),
        (torch.tensor(0.25), {"eval_evaluator": 0.25}),
        ({"a": {"b": 0.5, "c": {"d": 1}}, "e": None}, {"eval_a_b": 0.5, "eval_a_c_d": 1.0}),
        ({"a": "no number", "b": 1}, {"eval_b": 1.0}),
    ],
)
def test_an_evaluator_may_return_anything_that_holds_numbers(result, metrics, make, caplog):
    assert make(evaluator=lambda model: result).evaluate() == metrics
    assert ("a: a str is not a metric" in caplog.text) == ("eval_b" in metrics)


def their_evaluators():
    theirs = pytest.importorskip("sentence_transformers.sentence_transformer.evaluation")
    sequential = pytest.importorskip("sentence_transformers.base.evaluation")
    ids = {str(i): text for i, text in enumerate(SENTENCES)}
    own = {name: {name} for name in ids}
    first, second, third = SENTENCES[:4], SENTENCES[1:5], SENTENCES[2:6]
    return [
        theirs.EmbeddingSimilarityEvaluator(first, second, [0.1, 0.4, 0.2, 0.9], name="dev"),
        theirs.TripletEvaluator(first, second, third),
        theirs.BinaryClassificationEvaluator(first, second, [0, 1, 0, 1], name="same"),
        theirs.InformationRetrievalEvaluator(ids, ids, own, truncate_dim=8),
        theirs.InformationRetrievalEvaluator(
            ids, ids, own, name="by_name", query_prompt_name="query", corpus_prompt="a "
        ),
        theirs.ParaphraseMiningEvaluator(ids, duplicates_list=[("0", "1")]),
        theirs.TranslationEvaluator(first, first),
        theirs.RerankingEvaluator([{"query": "a cat", "positive": first[:1], "negative": first[1:]}]),
        sequential.SequentialEvaluator([theirs.TripletEvaluator(first, third, second, name="other")], min),
    ]


@pytest.mark.allow_warnings
def test_evaluators_of_sentence_transformers_are_taken_as_they_are(make, bert_config, tmp_path):
    """The results are those of the saved model as a `SentenceTransformer`, with its similarity and prompts."""
    peers = pytest.importorskip("sentence_transformers")
    model = BertForCL(bert_config, pooling="mean", similarity="manhattan", prompts={"query": "the cat "})
    trainer = make(
        model=model, evaluator=their_evaluators(), eval_strategy="steps", eval_steps=3,
        metric_for_best_model="dev_spearman_manhattan",
    )  # fmt: skip
    trainer.train()
    trainer.save_model(str(tmp_path / "saved"))
    found = trainer.evaluate()
    theirs = peers.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    for evaluator in their_evaluators():
        for name, value in evaluator(theirs).items():
            assert found[f"eval_{name}"] == pytest.approx(value, abs=1e-5), name
    assert len(found) > 25
    written = (tmp_path / "out" / "eval" / "similarity_evaluation_dev_results.csv").read_text().splitlines()
    assert [line.split(",")[1] for line in written] == ["steps", "0", "3", "6", "6"]


def test_a_metric_that_two_evaluators_give_is_reported(make, caplog):
    evaluators = [lambda model: {"a": 1, "b": 1}, lambda model: {"a": 2}]
    assert make(evaluator=evaluators).evaluate() == {"eval_a": 2.0, "eval_b": 1.0}
    assert "two evaluators give a" in caplog.text


class AnyArguments:
    greater_is_better, primary_metric = False, "distance"

    def __call__(self, model, *args, **kwargs):
        assert kwargs.keys() == {"output_path", "epoch", "steps"}
        return {"distance": float(abs(model.encode(["a cat"])).sum())}


def test_an_evaluator_says_whether_less_is_better(make):
    trainer = make(evaluator=AnyArguments(), load_best_model_at_end=True, **EVERY)
    trainer.train()
    results = [row["eval_distance"] for row in trainer.state.log_history if "eval_distance" in row]
    assert trainer.state.best_metric == min(results) < max(results)


def test_compute_metrics_gets_the_losses_that_it_asks_for(make, rows):
    seen = []
    trainer = make(eval_dataset=rows(1), per_device_eval_batch_size=3, include_for_metrics=["loss"],
                   compute_metrics=lambda given: seen.append(given.losses) or {})  # fmt: skip
    found = trainer.evaluate()["eval_loss"]
    assert seen[0].shape == (8,)
    assert seen[0].mean() == pytest.approx(found, rel=1e-5)


@pytest.mark.parametrize("similarity", ["dot", "euclidean"])
def test_validation_rows_are_compared_as_the_model_records(similarity, make, bert_config, rows):
    model = BertForCL(bert_config, pooling="mean", similarity=similarity)
    trainer = make(model=model, eval_dataset=rows(1))
    first, second = torch.from_numpy(trainer.predict(rows(1)).predictions[0]).double().unbind(1)
    scores = first @ second.T if similarity == "dot" else -torch.cdist(first, second)
    wrong = (scores > scores.diag()[:, None]) & ~torch.eye(8).roll(-1, 1).bool()  # which have the anchor's text
    ranks = wrong.sum(1) + 1
    assert trainer.evaluate()["eval_mrr"] == pytest.approx((1 / ranks).mean().item())


@pytest.mark.allow_warnings
def test_a_sentence_transformer_in_training_is_evaluated_itself(make, tmp_path, tokenizer, rows):
    peers = pytest.importorskip("sentence_transformers")
    seen = []
    make().save_model(str(tmp_path / "saved"))
    inner = peers.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    args = ContrastiveTrainingArguments(str(tmp_path / "b"), report_to="none", bf16=False, max_steps=1)
    trainer = ContrastiveTrainer(inner, args, PairCollator(tokenizer), rows(), processing_class=tokenizer,
                                 evaluator=lambda model, epoch, steps: seen.append(model))  # fmt: skip
    trainer.evaluate()
    assert seen == [inner]


# --- Batches with nothing to learn from.


@pytest.mark.parametrize(
    ("loss", "limits", "late"),
    [(InfoNCE(), {}, False), (InfoNCE(symmetric=True), {"chunk_size": 2}, False),
     (MatryoshkaLoss(InfoNCE(), (16, 8)), {"chunk_size": 2}, True)],
)  # fmt: skip
def test_a_batch_without_negatives_is_left_out(loss, limits, late, make, rows, caplog):
    positives = ["the cat", "a dog"] * 4 + ["the cat"] * 16 + ["a dog"] * 8
    trainer = make(rows(4, positives), loss=loss, train_sampling_strategy="sequential", max_steps=8, **limits)
    trainer.reads_late = late
    trainer.train()
    assert trainer.state.global_step == 8
    assert caplog.text.count("this batch has no negatives") == 2
    assert "6 of 8 batches were skipped" in caplog.text


def test_a_run_without_any_negative_is_an_error(make, rows):
    trainer = make(rows(2, ["a dog"] * 16), max_steps=-1, num_train_epochs=3)
    with pytest.raises(InputError, match="negatives"):
        trainer.train()  # after the first epoch, which had all the rows


def test_an_evaluation_leaves_out_such_a_batch(make, rows):
    both, one = rows(2, ["the cat", "a dog"] * 8), rows(2, ["the cat", "a dog"] * 4 + ["the cat"] * 8)
    found = [make(eval_dataset=data, per_device_eval_batch_size=4).evaluate()["eval_loss"] for data in (both, one)]
    assert found[1] == pytest.approx(make().evaluate(both.select(range(8)))["eval_loss"], rel=1e-5)
    assert math.isnan(make().evaluate(rows(1, ["a dog"] * 8))["eval_loss"])


def test_one_pair_cannot_be_ranked(make, rows, caplog):
    data = rows(1).add_column("score", [0.1 * i for i in range(8)])
    trainer = make(data, LabelledPairCollator, loss=CoSENTLoss(), per_device_train_batch_size=3,
                   dataloader_drop_last=False, max_steps=3, train_sampling_strategy="sequential")  # fmt: skip
    trainer.train()
    assert trainer.state.global_step == 3


# --- Other arguments.


def test_other_data_is_evaluated_under_its_prefix(make, rows):
    trainer = make(eval_dataset=rows())
    trainer.train()
    assert {"test_loss", "test_mrr"} <= trainer.evaluate(rows(2), metric_key_prefix="test").keys()
    assert {"eval_x_mrr", "eval_y_mrr"} <= trainer.evaluate({"x": rows(1), "y": rows(2)}).keys()
    assert trainer.predict(rows(2)).predictions[0].shape == (16, 2, 16)
    assert trainer.predict(rows(2).select(range(6))).predictions[0].shape == (6, 2, 16)  # the last batch is not full
    metrics = trainer.evaluate(rows(2).select(range(6)), ignore_keys=["text_hashes"])
    trainer.compute_metrics = lambda output: {"rows": len(output.predictions), "mrr": 2.0}
    seen = trainer.evaluate(rows(2).select(range(6)), ignore_keys=["text_hashes"])
    assert (seen["eval_rows"], seen["eval_mrr"], seen["eval_loss"]) == (6, 2.0, metrics["eval_loss"])


@pytest.mark.parametrize("lora", [False, True])
def test_a_card_before_the_model_is_saved(lora, make, bert_config, tokenizer, tmp_path):
    base = save_both(BertForCL(bert_config), tokenizer, tmp_path / "base")
    model = AutoModelForCL.from_pretrained(base)
    trainer = make(model=add_lora(model, r=2) if lora else model)
    trainer.train()
    trainer.create_model_card(license="mit")
    card = Path(trainer.args.output_dir, "README.md").read_text()
    assert "license: mit" in card
    trainer.save_model()
    trainer.create_model_card()
    assert Path(trainer.args.output_dir, "config.json").exists() != lora  # or transformers looks for a whole model


def test_curves_are_whole_where_a_run_is_evaluated_before_and_after_it(make, rows, tmp_path, monkeypatch):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    monkeypatch.chdir(tmp_path)
    trainer = make(eval_dataset=rows(), report_to="tensorboard", eval_strategy="steps", eval_steps=2)
    trainer.evaluate()
    trainer.train()
    trainer.evaluate()
    (folder,) = (tmp_path / "out" / "runs").iterdir()
    events = accumulator.EventAccumulator(str(folder)).Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [2, 4, 6]
    assert [event.step for event in events.Scalars("eval/mrr")] == [0, 2, 4, 6, 6]
    assert not (tmp_path / "runs").exists()
    assert len(list(folder.iterdir())) == 1
    assert not [name for row in trainer.state.log_history for name in row if name.endswith("preparation_time")]


# --- The command.


@pytest.fixture
def pairs(tmp_path):
    file = tmp_path / "pairs.csv"
    file.write_text("anchor,positive\n" + "".join(f"{a} {i},{a} too\n" for i in range(5) for a in SENTENCES))
    return ["train", "--train_file", str(file), "--output_dir", str(tmp_path / "run"), "--hidden_size", "16",
            "--num_layers", "1", "--max_steps", "4", "--per_device_train_batch_size", "8"]  # fmt: skip


def test_a_quiet_run_says_nothing(pairs, capfd):
    assert main([*pairs, "--quiet", "--validation_split", "0.2", "--report_to", "none"]) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert "loss" not in err


@pytest.mark.parametrize("option", ["load_best_model_at_end: false", "save_strategy: 'no'", "save_strategy: no"])
def test_a_run_that_keeps_no_best_checkpoint_needs_no_loss(pairs, option, tmp_path, caplog):
    (tmp_path / "dev.csv").write_text("sentence1,sentence2,score\na cat,a dog,0\na cat,the cat,1\na cow,a cow,1\n")
    (tmp_path / "options.yaml").write_text(option)
    files = ["--validation_file", str(tmp_path / "dev.csv"), "--config", str(tmp_path / "options.yaml")]
    with caplog.at_level("INFO", "contrastive_st"):
        assert main([*pairs, *files, "--report_to", "none"]) == 0
    assert "kept the checkpoint" not in caplog.text


def test_a_command_runs_where_it_is_told(pairs, capsys):
    asked = ["similarity", "a cat", "a dog", "--device"]
    assert "device cuda:99" in error_of(capsys, *asked, "cuda:99", "--model", "model_cards/minilm-1-layer")
    assert main([*asked, "cpu"]) == 0
    assert main([*pairs, "--device", "cpu"]) == 0
