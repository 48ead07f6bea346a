"""--validation_file, --validation_split and --early_stopping_patience; options that a run would ignore."""

import json
import random

import pytest
from scripts import load

from contrastive_st import ContrastiveTrainingArguments, InputError, SentenceEncoder
from contrastive_st.scripts.parser import TrainingParser

WORDS = "the cat sat on a mat and dog ran far away today rain fell over old town she reads".split()  # noqa: SIM905
TINY = "--num_layers 1 --hidden_size 16 --per_device_train_batch_size 8 --max_steps 60 --learning_rate 1e-2"
TINY += " --disable_tqdm true --report_to none --seed 1"


def pairs(path, number, seed):
    """Pairs that have nothing in common: what is learned of some says nothing of others."""
    draw = random.Random(seed)
    lines = [" ".join(draw.sample(WORDS, 5)) + "," + " ".join(draw.sample(WORDS, 5)) for _ in range(number)]
    path.write_text("\n".join(["anchor,positive", *lines]), encoding="utf-8")
    return path


def train(folder, *args):
    given = ["--train_file", str(pairs(folder / "train.csv", 48, 1)), "--output_dir", str(folder / "out")]
    return load("train").main([*given, *TINY.split(), *map(str, args)])


def test_a_run_that_no_longer_gets_better_stops_and_keeps_the_best(tmp_path):
    held = ["--validation_file", pairs(tmp_path / "held.csv", 12, 2)]
    after = train(tmp_path, "--early_stopping_patience", 2, *held)
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    losses = {row["step"]: row["eval_loss"] for row in state["log_history"] if "eval_loss" in row and row["step"]}
    best = state["best_global_step"]
    assert state["global_step"] == best + 12 < 60  # two evaluations later
    assert losses[best] == min(losses[step] for step in losses if step <= state["global_step"])
    assert after["eval_loss"] == pytest.approx(losses[best], abs=1e-6)  # the weights are those of the best
    assert {"eval_mrr", "eval_accuracy"} <= set(after)
    assert (tmp_path / "out" / "training_curve.png").read_bytes()[:4] == b"\x89PNG"
    assert SentenceEncoder.from_pretrained(tmp_path / "out").encode("a cat").shape == (16,)


def test_the_classes_of_a_validation_file_are_those_of_training(tmp_path):
    def labelled(name, labels):
        lines = [f"{WORDS[i]} {WORDS[i + 1]},{WORDS[i + 2]},{labels[i % len(labels)]}" for i in range(12)]
        (tmp_path / name).write_text("\n".join(["sentence1,sentence2,label", *lines]))
        return str(tmp_path / name)

    given = ["--train_file", labelled("train.csv", ["almost", "different", "same"]), *TINY.split(), "--max_steps", "1"]
    given += ["--output_dir", str(tmp_path / "out"), "--overwrite_output_dir", "--validation_file"]
    with pytest.raises(InputError, match=r"held\.csv"):
        load("train").main([*given, labelled("held.csv", ["same", "equal"])])


@pytest.mark.parametrize(
    ("script", "flags", "words"),
    [
        ("run_simcse", ["--validation_split", "0.1"], "--validation_split goes with --train_file"),
        ("run_tsdae", ["--validation_file", "a.csv"], "--validation_file goes with --train_file"),
        ("run_cutoff", ["--columns", "text"], "--columns says how --train_file is read"),
        ("run_sbert", ["--score_range", "0", "5"], "--score_range says how --train_file is read"),
        ("run_distill", ["--strict", "true"], "--strict says how --train_file is read"),
        ("run_distill", ["--score_range", "0", "5"], "unknown argument --score_range"),
        ("run_tsdae", ["--new_head", "true"], "--new_head is a setting of an encoder to start from"),
        ("run_mlm", ["--train_file", "texts.txt", "--momentum_queue", "8"], "--momentum_queue has no use here"),
        ("run_static", ["--train_file", "texts.txt", "--weight_decay", "0.1"], "--weight_decay has no use here"),
        ("run_static", ["--train_file", "texts.txt", "--optim", "sgd"], "--optim has no use here"),
        ("run_simcse", ["--train_file", "texts.txt", "--score_range", "0", "5"], "single texts, without a score"),
    ],
)
def test_an_option_that_the_run_would_ignore_is_refused(
    script, flags, words, tmp_path, monkeypatch, small_documentation
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("a cat\na dog\na town\n")
    with pytest.raises(InputError, match=words):
        load(script).main([*flags, "--output_dir", "out"])


def test_epochs_that_are_asked_for_take_precedence_over_the_steps_of_a_script():
    defaults = {"output_dir": "out", "max_steps": 1000}
    parser = lambda: TrainingParser(ContrastiveTrainingArguments)
    flags = ["--report_to", "none", "--num_train_epochs"]
    (args,) = parser().parse([*flags, "2"], defaults)
    assert (args.num_train_epochs, args.max_steps) == (2, -1)
    (args,) = parser().parse([*flags, "2", "--max-steps=7"], defaults)
    assert args.max_steps == 7
    (args,) = parser().parse(["--report_to", "none"], defaults)
    assert args.max_steps == 1000
