"""Thresholds from examples that were held out."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from contrastive_st import SentenceClassifier
from contrastive_st.classification.held_out import best_thresholds, held_out_logits

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
