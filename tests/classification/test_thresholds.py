"""Thresholds, calibrated probabilities and reasons: each from examples that were held out, or from the texts."""

import json

import numpy as np
import pytest
from evaluation_files import write
from sklearn.metrics import f1_score

from contrastive_st import InputError, SentenceClassifier
from contrastive_st.classification.heads import fit_logistic
from contrastive_st.classification.held_out import best_thresholds, calibrated, held_out_logits
from contrastive_st.cli import main

pytestmark = pytest.mark.slow

TOPICS = {
    "garden": "soil roses seeds weeds lawn hedge tulips compost spade greenhouse",
    "kitchen": "oven bread flour recipe knife onion butter soup pepper spoon",
    "money": "bank loan interest tax budget salary pension invoice debt savings",
    "sea": "tide wave harbour sailor ship anchor storm gull sail current",
    "space": "planet orbit rocket comet telescope star galaxy lunar probe asteroid",
    "health": "doctor fever pill nurse surgery virus clinic wound vaccine symptom",
    "travel": "hotel flight passport luggage ticket airport tourist beach train map",
    "music": "guitar song piano choir melody drum concert violin opera tune",
    "law": "judge court lawyer trial verdict witness crime prison jury statute",
    "sport": "goal referee team match tennis runner coach medal stadium league",
}


def several(count, seed):
    """Texts about one topic or two, and their topics."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        own = rng.choice(list(TOPICS), rng.integers(1, 3), replace=False).tolist()
        words = [rng.choice(TOPICS[topic].split(), 2, replace=False) for topic in own]
        texts.append(" and ".join(f"the {a} and the {b}" for a, b in words))
        labels.append(own)
    return texts, labels


def test_texts_get_labels_though_the_examples_are_few():
    (texts, labels), (new, gold) = several(60, 0), several(200, 1)
    found = {}
    for thresholds in ("half", "f1"):
        classifier = SentenceClassifier("static-minilm", thresholds=thresholds).fit(texts, labels)
        predicted = classifier.predict(new)
        score = f1_score(classifier.as_predicted(gold), predicted, average="macro")
        found[thresholds] = (predicted.sum(1) == 0).mean(), score
    assert found["half"][0] > 0.5
    assert found["f1"][0] < 0.1
    assert found["f1"][1] > found["half"][1] + 0.3


def test_a_threshold_has_the_greatest_f1():
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(60, 3)), rng.integers(0, 2, size=(60, 3))
    found = best_thresholds(logits, y)
    for k, threshold in enumerate(found):
        every = [f1_score(y[:, k], logits[:, k] >= cut) for cut in logits[:, k]]
        assert f1_score(y[:, k], logits[:, k] >= threshold) == pytest.approx(max(every))
    assert best_thresholds(np.full((3, 1), np.nan), y[:3, :1]).tolist() == [0.0]


def test_each_text_is_held_out_from_the_head_that_gives_its_logits():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(30, 5)), np.arange(30) % 3
    logits = held_out_logits(x, y, 1.0, np.ones(30), seed=3)
    moved = x.copy()
    moved[7] = -5 * x[7]  # its own logits change with it; with them those of others, but not by its own head
    again = held_out_logits(moved, y, 1.0, np.ones(30), seed=3)
    fold = np.flatnonzero(np.isclose(logits, again).all(1))
    assert 4 <= len(fold) <= 6, "the head of the fold of text 7 has not seen it"
    assert 7 not in fold
    assert np.isnan(held_out_logits(x, np.eye(30, 1, dtype=int)[:, 0], 1.0, np.ones(30), 0)).all()


@pytest.mark.parametrize("labels", ["one", "several"])
def test_calibrated_probabilities_are_nearer_to_the_shares(labels):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 16))
    y = rng.integers(0, 3, 1500)
    x = centres[y] + 2.0 * rng.normal(size=(1500, 16))
    y = np.eye(3, dtype=int)[y] if labels == "several" else y
    head = fit_logistic(x[:300], y[:300], C=0.02)
    fixed, _ = calibrated(head, held_out_logits(x[:300], y[:300], 0.02, np.ones(y[:300].shape), 0), y[:300])

    def loss(own):
        shares = own.probabilities(own.logits(x[300:])).clip(1e-9, 1 - 1e-9)
        if labels == "one":
            return -np.log(shares[np.arange(1200), y[300:]]).mean()
        return -(y[300:] * np.log(shares) + (1 - y[300:]) * np.log(1 - shares)).mean()

    assert loss(fixed) < loss(head) - 0.03
    with pytest.raises(InputError, match="fewer than two texts have a class, or lack it"):
        SentenceClassifier("static-minilm", calibrate=True).fit(["a cat", "a dog", "rain"], ["x", "x", "y"])
    with pytest.raises(InputError, match="the head means supports neither calibrate nor lexical"):
        SentenceClassifier("static-minilm", head="means", calibrate=True).fit(["a cat", "a dog"], ["x", "y"])


def test_what_is_saved_has_its_thresholds_and_probabilities(tmp_path):
    texts, labels = several(40, 0)
    classifier = SentenceClassifier("static-minilm", C=3.0, calibrate=True).fit(texts, labels)
    classifier.save_pretrained(tmp_path / "saved")
    opened = SentenceClassifier.from_pretrained(tmp_path / "saved")
    np.testing.assert_array_equal(opened.head_.thresholds, classifier.head_.thresholds)
    np.testing.assert_array_equal(opened.predict(texts), classifier.predict(texts))
    np.testing.assert_array_equal(opened.predict_proba(texts), classifier.predict_proba(texts))
    assert (opened.C, opened.calibrate, opened.thresholds) == (3.0, True, "f1")


def test_explain_names_the_words_and_the_nearest_examples(tmp_path, capsys):
    rows = [f"the {word} is here,{topic}" for topic, words in TOPICS.items() for word in words.split()]
    write(tmp_path / "examples.csv", ["text,label", *rows])
    write(tmp_path / "new.csv", ["id,text", "7,there was some butter on the table", "8,yesterday the referee was late"])
    flags = [str(tmp_path / "new.csv"), "--output", str(tmp_path / "out")]
    learn = ["--train_file", str(tmp_path / "examples.csv")]
    assert main(["classify", *flags, *learn, "--C", "10", "--explain", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("kitchen\t")
    assert lines[1].startswith("    kitchen: butter +")
    assert lines[2].endswith("  the butter is here")
    assert lines[2].split()[1] == "kitchen"
    assert lines[4].startswith("sport\t")
    assert lines[5].startswith("    sport: referee +")
    assert main(["classify", *flags, "--explain"]) == 0
    out, err = capsys.readouterr()
    assert "give --train_file too for the nearest examples" in err
    assert len(out.splitlines()) == 4
    assert main(["classify", *flags, "--predictions", str(tmp_path / "labelled.csv")]) == 0
    assert (tmp_path / "labelled.csv").read_text().splitlines()[0] == "id,text,label,score"
    saved = json.loads((tmp_path / "out" / "classes.classifier.json").read_text())
    assert saved["parameters"]["C"] == 10.0
    assert main(["classify", *flags, *learn, "--C", "0"]) == 2
