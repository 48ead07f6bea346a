"""examples/run_simcse.py from the command line's arguments to the checkpoint, and what bad input gets."""

import json

import pytest
from scripts import TINY, load

from conftest import SENTENCES
from contrastive_st import InputError, SentenceEncoder


def run(*args, text_file, output):
    return load("run_simcse").main(["--train_file", str(text_file), *TINY, "--output_dir", str(output), *args])


def test_a_text_file_becomes_a_checkpoint_with_a_curve(text_file, tmp_path):
    run(text_file=text_file, output=tmp_path / "out")
    assert SentenceEncoder.from_pretrained(tmp_path / "out").encode(SENTENCES).shape == (8, 16)
    assert (tmp_path / "out" / "training_curve.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == {"before": {}, "after": {}}


@pytest.mark.parametrize("num_columns", [2, 3])
def test_a_table_trains_pairs_or_triplets(num_columns, tmp_path):
    columns = [SENTENCES[i:] + SENTENCES[:i] for i in range(num_columns)]
    rows = [
        ",".join(("anchor", "positive", "negative")[:num_columns]),
        *(",".join(row) for row in zip(*columns, strict=True)),
    ]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    run("--do_mlm", "true", text_file=tmp_path / "t.csv", output=tmp_path / "out")
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    assert state["log_history"][0]["candidates"] == 4 * (num_columns - 1)
    weights = SentenceEncoder.from_pretrained(tmp_path / "out").model.state_dict()
    assert not any(name.startswith("cls.") for name in weights)


def test_a_shuffle_buffer_reads_the_file_while_training(text_file, tmp_path):
    run("--shuffle_buffer", "100", text_file=text_file, output=tmp_path / "out")
    assert SentenceEncoder.from_pretrained(tmp_path / "out").encode(SENTENCES).shape == (8, 16)
    with pytest.raises(InputError, match="reads one column"):
        run("--shuffle_buffer", "100", "--max_train_samples", "6", text_file=text_file, output=tmp_path / "out2")


def test_a_run_that_did_not_begin_is_not_in_the_way_of_the_next(text_file, tmp_path):
    (tmp_path / "out" / "runs").mkdir(parents=True)
    (tmp_path / "out" / ".training.lock").touch()
    run("--save_steps", "2", text_file=text_file, output=tmp_path / "out")


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
    with pytest.raises(InputError) as caught:
        run(*args, text_file=tmp_path / "t.txt", output=tmp_path / "out")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_bytes_that_are_not_utf8_are_read_with_a_line(text_file, tmp_path, caplog):
    line = "Une tarte à la crème très légère, une idée naïve et gênante\n"
    (tmp_path / "t.txt").write_bytes(line.encode("cp1252") + text_file.read_bytes())
    run(text_file=tmp_path / "t.txt", output=tmp_path / "out")
    assert "not UTF-8: read as cp1252" in caplog.text


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


def test_the_defaults_are_the_published_ones():
    module = load("run_simcse")
    assert {name: module.DEFAULTS[name] for name in ("per_device_train_batch_size", "learning_rate")} == {
        "per_device_train_batch_size": 64, "learning_rate": 3e-5,
    }  # fmt: skip
    assert module.SimCSEArguments().temperature == 0.05
