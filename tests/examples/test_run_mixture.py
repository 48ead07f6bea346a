"""Several data sets of a YAML file from the command line to a checkpoint, and what bad files get."""

import json
from collections import Counter

import pytest
import torch
from refusals import error_of, refusal
from scripts import load

from conftest import SENTENCES
from contrastive_st import SentenceEncoder
from contrastive_st.cli import main
from contrastive_st.losses import CoSENTLoss, InfoNCE, SoftmaxLoss

mixture_file = load("mixture_file")
read_mixture = mixture_file.read_mixture
TINY = ["--num_layers", "1", "--hidden_size", "16", "--vocab_size", "100", "--per_device_train_batch_size", "4",
        "--disable_tqdm", "true", "--learning_rate", "1e-3", "--logging_steps", "1", "--report_to", "none",
        "--bf16", "false"]  # fmt: skip
PAIRS = [(a, f"{b} {i}") for i in range(2) for a in SENTENCES for b in SENTENCES[:3]]
MIX = """
datasets:
  - name: nli
    train_file: nli.csv
    columns: {anchor: sentence1, positive: sentence2, negative: hard}
    loss: {name: info_nce, temperature: 0.1}
    weight: 2
  - name: scores
    train_file: sts.tsv
    loss: cosent
    score_range: [0, 4]
    weight: 1
"""
STREAMED = """
  - name: text
    train_file: text.txt
    streaming: true
    weight: 1
"""


@pytest.fixture
def folder(tmp_path):
    tables = {
        "nli.csv": ["sentence1,sentence2,hard,id", *(f"{a},{b},the rain,{i}" for i, (a, b) in enumerate(PAIRS))],
        "sts.tsv": ["sentence1\tsentence2\tscore", *(f"{a}\t{b}\t{i % 5}" for i, (a, b) in enumerate(PAIRS))],
        "labels.csv": ["premise,hypothesis,label", *(f"{a},{b},{i % 2}" for i, (a, b) in enumerate(PAIRS))],
        "topics.csv": ["text,label", *(f"{a},{i % 2}" for i, (a, _) in enumerate(PAIRS))],
        "text.txt": [" ".join(pair) for pair in PAIRS],
        "mix.yaml": [MIX],
    }
    for name, lines in tables.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path


def logs(folder):
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    return [log for log in history if "loss" in log]


def test_a_mixture_becomes_a_checkpoint(folder):
    assert main(["train", "--mixture", str(folder / "mix.yaml"), "--output_dir", str(folder / "out"), *TINY]) == 0
    encoder = SentenceEncoder.from_pretrained(folder / "out")
    assert encoder.encode(SENTENCES).shape == (8, 16)
    tasks = encoder.model.settings.loss.tasks
    assert tasks == {"nli": InfoNCE(0.1), "scores": CoSENTLoss()}
    seen = Counter(name for log in logs(folder / "out") for name in log if name.startswith("loss_"))
    assert seen == {"loss_nli": 16, "loss_scores": 8}  # an epoch of 12 batches each, in shares of 2 and 1
    found = json.loads((folder / "out" / "training_metadata.json").read_text())
    assert found["data"]["name"] == "nli.csv, sts.tsv"
    assert str(folder) not in json.dumps(found)


def test_streams_heads_and_matryoshka_resume_as_the_whole_run(folder, monkeypatch):
    more = STREAMED + "  - {name: labels, train_file: labels.csv, weight: 1}\n"
    (folder / "mix.yaml").write_text(MIX + more)
    monkeypatch.setattr(mixture_file, "_BUFFER", 7)
    flags = ["--mixture", str(folder / "mix.yaml"), *TINY, "--matryoshka_dims", "16", "4", "--save_steps", "7"]

    def run(name, *others):
        assert main(["train", "mixture", *flags, "--output_dir", str(folder / name), *others]) == 0
        return SentenceEncoder.from_pretrained(folder / name).model.state_dict()

    whole = run("whole", "--max_steps", "13", "--lr_scheduler_type", "constant")
    run("cut", "--max_steps", "9", "--lr_scheduler_type", "constant")
    resumed = run(
        "cut", "--max_steps", "13", "--lr_scheduler_type", "constant", "--resume_from_checkpoint",
        str(folder / "cut" / "checkpoint-7"),
    )  # fmt: skip
    assert all(torch.equal(weight, resumed[name]) for name, weight in whole.items())
    seen = {name for log in logs(folder / "whole") for name in log if name.startswith("loss_")}
    assert seen == {"loss_nli", "loss_scores", "loss_text", "loss_labels"}


def test_a_stream_of_several_columns_has_all_of_them_in_each_row(tmp_path, tokenizer):
    lines = ["question,answer", *(f"{a},{b}" for a, b in PAIRS)]
    (tmp_path / "pairs.csv").write_text("\n".join(lines))
    rows = mixture_file.streamed(str(tmp_path / "pairs.csv"), {"question": "", "answer": ""}, tokenizer, 16, seed=0)
    assert sorted(row["input_ids"] for row in rows) == sorted(
        [tokenizer(a).input_ids, tokenizer(b).input_ids] for a, b in PAIRS
    )


def test_each_data_set_is_read_as_it_is_asked_for(folder):
    entries = """
  - {name: topics, train_file: topics.csv, weight: 1}
  - {name: labels, train_file: labels.csv, weight: 0.5}
  - {name: pairs, train_file: nli.csv, columns: [sentence1, 1], weight: 1}
"""
    (folder / "mix.yaml").write_text(MIX + entries)
    parts = {part.name: part for part in read_mixture(str(folder / "mix.yaml"))}
    assert [part.roles.kind for part in parts.values()] == [
        "triplets", "scored_pairs", "labelled_texts", "labelled_pairs", "pairs"
    ]  # fmt: skip
    assert parts["nli"].rows.column_names == ["sentence1", "sentence2", "hard"]
    assert sorted(set(parts["scores"].rows["score"])) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert parts["labels"].loss == SoftmaxLoss(num_labels=2)
    assert set(parts["topics"].rows["score"]) == {0.0, 1.0}
    assert parts["pairs"].rows.column_names == ["sentence1", "sentence2"]
    assert [part.weight for part in parts.values()] == [2.0, 1.0, 1.0, 0.5, 1.0]


ONE = "datasets:\n  - {name: nli, train_file: nli.csv}\n"
WRONG = {
    "": "takes datasets",
    "datasets: []": "no data sets",
    "datasets: [a]": "data set 1: 'a' has no keys",
    "data: [a]": "unknown key 'data'; did you mean datasets",
    "datasets: [": "line 2: not YAML",
    "datasets: [{name: nli, train_file: 3}]": "nli: train_file 3: give text",
    "datasets: [{name: nli, train_file: nli.csv, wieght: 2}]": "unknown key 'wieght'; did you mean weight",
    ONE + "  - {name: nli, train_file: nli.csv}": "two data sets are named 'nli'",
    ONE + "  - {name: b, train_file: nli.csv, weight: 2}": "b has a weight and nli has none",
    ONE.replace("}", ", weight: 0}"): "nli: weight 0: give a number above 0",
    ONE.replace("}", ", streaming: maybe}"): "nli: streaming 'maybe': give true or false",
    ONE.replace("}", ", streaming: true}"): "nli: a streamed data set has no size",
    ONE.replace("}", ", columns: {anchor: sentence1, positiv: sentence2}}"): "nli: .*unknown role 'positiv'",
    ONE.replace("}", ", columns: {anchor: nothing}}"): "nli: .*unknown column 'nothing",
    ONE.replace("}", ", loss: cosent}"): "nli: loss: 'cosent' does not train anchors, positives and hard",
    ONE.replace("}", ", loss: {name: info_nce, temperatur: 1}}"): "nli: loss: .*unknown setting temperatur",
    ONE.replace("}", ", loss: {name: info_nce, temperature: 0}}"): "nli: loss: .*above 0",
    ONE.replace("}", ", prompts: cat}"): "nli: .*give texts by name",
    ONE.replace("}", ", prompts: {query: 1}}"): "nli: .*give texts by name",
    ONE.replace("}", ", prompts: {anchor: a}}"): "nli: .*for no column of sentence1",
    ONE.replace("nli.csv", "none.csv"): "nli: none.csv",
    ONE.replace("nli.csv", "sts.tsv"): "nli: .*sts.tsv, row 4: '2' in column 'score' .*give the scale",
    ONE.replace("nli.csv", "sts.tsv, score_range: [5, 0]"): r"nli: score_range \[5, 0\]: give the lowest",
    ONE.replace("nli.csv", "sts.tsv, streaming: true, weight: 1"): "nli: .*may have only texts",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: WRONG[text])
def test_what_is_wrong_with_a_file_is_one_line(folder, text):
    (folder / "mix.yaml").write_text(text + "\n")
    with refusal(rf"^{folder / 'mix.yaml'}.*{WRONG[text]}"):
        read_mixture(str(folder / "mix.yaml"))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--mixture", "none.yaml"], "none.yaml"),
        (["mixture"], "give --mixture"),
        (["--mixture", "long.yaml"], "give --max_steps"),
        (["--mixture", "mix.yaml", "--per_device_train_batch_size", "64"], "has fewer rows (48) than a batch of 64"),
        (["--mixture", "mix.yaml", "--train_file", "nli.csv"], "unknown argument --train_file"),
    ],
)
def test_bad_calls_are_one_line(folder, monkeypatch, capsys, flags, words):
    monkeypatch.chdir(folder)
    (folder / "long.yaml").write_text(MIX + STREAMED)
    assert words in error_of(capsys, "train", *flags[:2], *TINY, "--output_dir", "out", *flags[2:])


def test_a_data_set_has_prompts_of_its_own_and_the_encoder_those_of_all(folder, prompts_read):
    own = (
        MIX.replace("    weight: 2", '    prompts: {query: "the cat ", document: "old town "}\n    weight: 2')
        + STREAMED
    )
    (folder / "mix.yaml").write_text(own)
    flags = ["--prompts", "query=a dog ", "document=quiet ", "topic=rain ", "--default_prompt_name", "topic",
             "--include_prompt", "false", "--max_steps", "8", "--output_dir", str(folder / "out")]  # fmt: skip
    assert main(["train", "--mixture", str(folder / "mix.yaml"), *flags, *TINY]) == 0
    wanted = {("the cat", "old town", "old town"), ("a dog", "quiet"), ("rain", "rain")}
    assert set(map(tuple, prompts_read)) == wanted
    encoder = SentenceEncoder(folder / "out")
    assert encoder.prompts == {"query": "a dog ", "document": "quiet ", "topic": "rain "}
    assert not encoder.checkpoint.include_prompt
