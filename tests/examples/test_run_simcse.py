"""examples/run_simcse.py from the command line's arguments to the checkpoint, and what bad input gets."""

import json

import pytest
from refusals import refusal
from scripts import load, tiny

from conftest import SENTENCES
from contrastive_st import InputError, SentenceEncoder


def run(*args, text_file, output):
    return load("run_simcse").main(["--train_file", str(text_file), *tiny(*args), "--output_dir", str(output)])


def test_a_text_file_becomes_a_checkpoint_with_a_curve(text_file, tmp_path):
    run(text_file=text_file, output=tmp_path / "out")
    assert SentenceEncoder.from_pretrained(tmp_path / "out").encode(SENTENCES).shape == (8, 16)
    assert (tmp_path / "out" / "training_curve.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == {"before": {}, "after": {}}


def test_a_checkpoint_of_another_run_is_not_written_over(text_file, tmp_path):
    run("--save_steps", "2", text_file=text_file, output=tmp_path / "out")
    before = (tmp_path / "out" / "model.safetensors").read_bytes()
    with pytest.raises(InputError, match="holds another run"):
        run(text_file=text_file, output=tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == before
    run("--resume_from_checkpoint", "true", "--save_steps", "2", text_file=text_file, output=tmp_path / "out")
    run("--overwrite_output_dir", "true", text_file=text_file, output=tmp_path / "out")


@pytest.mark.parametrize(
    ("content", "args", "words"),
    [
        (None, [], "no such file"),
        ("", [], "empty"),
        ("one sentence\n", [], "no negatives"),
        ("same\nsame\n", [], "no negatives"),
        ("a\n\nb\n", ["--strict", "true"], "line 2"),
        ("a b\nc d\n", ["--max_length", "2"], "3 or more"),
        ("a b\nc d\n", ["--shuffle_buffer", "9", "--max_train_samples", "6"], "reads one column"),
        ("a b\nc d\n", ["--max_length", "5000"], "at most 512"),
        ("a b\nc d\n", ["--pooling", "median"], "avg_top2"),
        ("a b\nc d\n", ["--load_best_model_at_end", "true", "--save_strategy", "no"], "validation"),
        ("a b\nc d\n", ["--resume_from_checkpoint", "true"], "no checkpoint"),
        ("a b\nc d\n", ["--model_name_or_path", "no/such-model"], "no/such-model"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing_behind(content, args, words, tmp_path):
    if content is not None:
        (tmp_path / "t.txt").write_text(content)
    with refusal("", words):
        run(*args, text_file=tmp_path / "t.txt", output=tmp_path / "out")
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_the_best_checkpoint_on_sts_is_what_is_saved(text_file, tmp_path, data_root):
    best = ["--load_best_model_at_end", "true", "--metric_for_best_model", "stsb_spearman", "--eval_strategy", "steps",
            "--eval_steps", "1", "--save_steps", "1"]  # fmt: skip
    figures = run(*best, text_file=text_file, output=tmp_path / "out")
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    assert state["best_metric"] == figures["eval_stsb_spearman"]
    measured = [
        row["eval_stsb_spearman"] for row in state["log_history"] if row.get("eval_stsb_spearman") and row["step"]
    ]
    assert state["best_metric"] == max(measured)


def test_the_published_head_is_that_of_a_new_encoder_alone(text_file, tmp_path):
    run(text_file=text_file, output=tmp_path / "new")  # unsupervised: the head is for training only
    about = json.loads((tmp_path / "new" / "config.json").read_text())["contrastive"]
    assert (about["pooling"], about["mlp_only_train"]) == ("cls", True)
    run("--pooling", "mean", text_file=text_file, output=tmp_path / "mean")
    run("--model_name_or_path", str(tmp_path / "mean"), text_file=text_file, output=tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["contrastive"]["pooling"] == "mean"


def test_a_score_is_not_for_this_script(tmp_path):
    (tmp_path / "scored.csv").write_text("sentence1,sentence2,score\na,b,0.5\nc,d,1\n")
    with pytest.raises(InputError, match="this script trains"):
        run(text_file=tmp_path / "scored.csv", output=tmp_path / "out")
