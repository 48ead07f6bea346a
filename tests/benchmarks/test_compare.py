"""The comparison of methods: every script trained on its budget, beside published figures, nothing trained twice."""

import json

import numpy as np
import pytest
from scripts import load_comparison

from contrastive_st.errors import InputError

pytestmark = pytest.mark.slow

compare, methods = load_comparison()
EVERY, SYSTEMS, TEXTS, flags_of = methods.EVERY, methods.SYSTEMS, methods.TEXTS, methods.flags_of
NOUNS, VERBS = ["cat", "dog", "town", "rain", "book", "road", "lamp"], ["saw", "left", "met", "found"]
SENTENCES = [f"the {noun} {verb} the {other}" for noun in NOUNS for verb in VERBS for other in NOUNS]
LABELS = ["entailment", "neutral", "contradiction"]


@pytest.fixture
def data(tmp_path, monkeypatch, small_documentation):
    """A data folder with every training file, and one task to measure."""
    monkeypatch.delenv("CONTRASTIVE_ST_DATA", raising=False)
    root = tmp_path / "data"
    (root / "nli").mkdir(parents=True)
    pairs = list(zip(SENTENCES, SENTENCES[7:] + SENTENCES[:7], strict=True))
    rows = ["premise\thypothesis\tlabel", *(f"{a}\t{b}\t{LABELS[i % 3]}" for i, (a, b) in enumerate(pairs))]
    (root / "nli" / "pairs.tsv").write_text("\n".join(rows) + "\n")
    rows = ["sent0,sent1,hard_neg", *(f"{a},{b},rain" for a, b in pairs)]
    (root / "nli" / "triplets.csv").write_text("\n".join(rows) + "\n")
    (root / "senteval" / "STS" / "STSBenchmark").mkdir(parents=True)
    rows = [f"main\tx\t2026\t{i}\t{i % 6}.0\t{a}\t{b}" for i, (a, b) in enumerate(pairs)]
    (root / "senteval" / "STS" / "STSBenchmark" / "sts-train.csv").write_text("\n".join(rows) + "\n")
    for name, mark in (("pos", "good"), ("neg", "bad")):
        (root / "CR").mkdir(exist_ok=True)
        (root / "CR" / f"custrev.{name}").write_text("".join(f"the {mark} {noun}\n" for noun in NOUNS * 4))
    (tmp_path / "corpus.txt").write_text("\n".join(SENTENCES))
    return root


def command(data, *flags):
    corpus, out = data.parent / "corpus.txt", data.parent / "out"
    return ["--scale", "tiny", "--data", str(data), "--train_file", str(corpus), "--output_dir", str(out),
            "--per_device_train_batch_size", "16", "--disable_tqdm", "true", "--bf16", "false", *flags]  # fmt: skip


def test_measured_lies_beside_published_and_nothing_is_trained_twice(data, caplog):
    asked = command(data, "--only", "next", "tfidf_bin")
    text = compare.main(asked)
    assert "| *next sentence, published* | *68.18* |" in text
    figures = json.loads((data.parent / "out" / "next" / "seed-42" / "figures.json").read_text())
    accuracy = next(f["value"] for f in figures["figures"] if f["task"] == "CR")
    assert text.count(f"{100 * accuracy:.2f}") >= 2  # in the table of its kind, and in that of all
    assert "| binarized TF-IDF | " in text.split("| Method |")[1]
    assert f"| {5 * 16} | " in text  # texts that were encoded
    assert "next,published,,,,,MR,,,,0.6818" in (data.parent / "out" / "table.csv").read_text().replace("\r", "")
    assert compare.main(asked) == text
    assert caplog.text.count("measured before") == 2


@pytest.mark.parametrize("name", ["window_1", "simcse"])
def test_seeds_have_a_deviation_and_the_learning_rate_is_the_best_on_dev(name, data, caplog):
    """By the training loss for QuickThoughts, by STS-B dev for the others."""
    caplog.set_level("INFO", "contrastive_st")
    sts = data / "senteval" / "STS" / "STSBenchmark"
    (data / "STS").mkdir()
    (data / "STS" / "STSBenchmark").symlink_to(sts)
    rows = (sts / "sts-train.csv").read_text()
    for split in ("dev", "test"):
        (sts / f"sts-{split}.csv").write_text(rows)
    rates = ["1e-12", "1e-2"]
    text = compare.main(command(data, "--only", name, "--seeds", "1", "2", "--learning_rates", *rates,
                                "--max_steps", "30"))  # fmt: skip
    out, [method] = data.parent / "out" / name, compare.chosen([name])
    found = {path.parent.name: json.loads(path.read_text()) for path in out.glob("*/figures.json")}
    assert set(found) == {"seed-1", "seed-2", "rate-1e-12", "rate-0.01"}
    assert found["rate-0.01"]["run"]["steps"] == 3
    dev = {rate: compare.dev_of(method, out / f"rate-{rate}", found[f"rate-{rate}"]) for rate in ("1e-12", "0.01")}
    best = max(dev, key=dev.get)
    assert best == "0.01" or name != "window_1"  # three steps lower the loss
    assert {found[f"seed-{seed}"]["learning_rate"] for seed in (1, 2)} == {float(best)}
    assert f"learning rate {best}; on dev at a tenth of the steps: 1e-12 " in caplog.text
    values = [compare.values_of([found[f"seed-{seed}"]], "CR")[0] for seed in (1, 2)]
    assert f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}" in text
    lines = (data.parent / "out" / "table.csv").read_text().splitlines()
    assert {line.split(",")[2] for line in lines if line.startswith(f"{name},measured")} == {"1", "2"}


@pytest.mark.parametrize("method", SYSTEMS, ids=lambda method: method.name)
def test_each_system_is_trained_by_its_script_and_measured(data, method):
    text = compare.main(command(data, "--only", method.name))
    assert f"| {method.label} | " in text
    found = json.loads((data.parent / "out" / method.name / "seed-42" / "figures.json").read_text())
    assert found["run"]["steps"] == (1 if method.name == "start" else 5)
    assert found["run"]["texts_encoded"] > 0


def test_methods_of_a_scale_encode_the_same_number_of_texts():
    for method in EVERY:
        flags = flags_of(method, "small", None)
        batch, steps = (int(flags[flags.index(name) + 1]) for name in ("--per_device_train_batch_size", "--max_steps"))
        assert batch * steps * method.texts == pytest.approx(TEXTS, rel=0.002)


def test_an_unknown_method_is_refused(data):
    with pytest.raises(InputError, match="untrained"):
        compare.main(command(data, "--only", "nothing"))


def test_bad_input_is_told_before_anything_is_trained(data, tmp_path):
    with pytest.raises(InputError, match="evaluate"):
        compare.main(["--only", "next", "--data", str(tmp_path / "nowhere"), "--output_dir", str(tmp_path / "out")])
    compare.main(command(data, "--only", "next"))
    kept = (data.parent / "out" / "next" / "seed-42" / "model.safetensors").read_bytes()
    with pytest.raises(InputError, match="--output_dir"):
        compare.main(command(data, "--only", "next", "--weight_decay", "0.5"))
    with pytest.raises(InputError, match="--seed"):
        compare.main(command(data, "--only", "next", "--seed", "7"))
    with pytest.raises(InputError, match="trained"):
        compare.main(command(data, "--only", "tfidf", "--sede", "7"))
    assert (data.parent / "out" / "next" / "seed-42" / "model.safetensors").read_bytes() == kept
