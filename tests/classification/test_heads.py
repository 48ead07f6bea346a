"""Every head is a linear layer over unit vectors: it predicts what scikit-learn or a plain loop does."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score

from contrastive_st.classification.heads import fit_logistic, fit_means
from contrastive_st.classification.measures import measures
from contrastive_st.errors import InputError

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 8)) + np.repeat(np.eye(8)[:3], 20, 0)
UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)
Y = np.repeat(np.arange(3), 20)


@pytest.mark.parametrize("classes", [2, 3])
def test_logistic_regression_is_that_of_scikit_learn(classes):
    kept = classes > Y
    theirs = LogisticRegression(C=2.0, max_iter=1000).fit(UNIT[kept], Y[kept])
    ours = fit_logistic(X[kept], Y[kept], C=2.0)
    assert ours.weights.shape == (classes, 8)
    np.testing.assert_allclose(ours.probabilities(ours.logits(X)), theirs.predict_proba(UNIT), atol=1e-12)


def test_of_several_labels_each_has_a_regression():
    y = np.stack([X[:, 0] > 0, X[:, 1] > 0.5], 1).astype(np.int64)
    head = fit_logistic(X, y)
    ours = head.probabilities(head.logits(X))
    for k in range(2):
        theirs = LogisticRegression(max_iter=1000).fit(UNIT, y[:, k]).predict_proba(UNIT)[:, 1]
        np.testing.assert_allclose(ours[:, k], theirs, atol=1e-12)


def test_class_means_are_the_plain_loop():
    found = fit_means(X, Y).logits(X)
    for i, row in enumerate(UNIT):
        for k in range(3):
            mean = sum(UNIT[j] for j in range(60) if Y[j] == k) / 20
            assert found[i, k] == pytest.approx(row @ mean / np.linalg.norm(mean))
    with pytest.raises(InputError, match="logistic"):
        fit_means(X, np.eye(3, dtype=np.int64)[Y])


@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
def test_measures_are_those_of_scikit_learn_with_an_interval_around(several):
    gold, predicted = RANDOM.integers(0, 2, (2, 80, 4)) if several else RANDOM.integers(0, 4, (2, 80))
    found = measures(gold, predicted)
    assert found["accuracy"].value == pytest.approx(accuracy_score(gold, predicted))
    assert found["macro_f1"].value == pytest.approx(f1_score(gold, predicted, average="macro"))
    for value, low, high in found.values():
        assert 0 <= low < value < high <= 1
    accuracy = found["accuracy"]
    wide = 2 * 1.96 * (accuracy.value * (1 - accuracy.value) / 80) ** 0.5
    assert accuracy.high - accuracy.low == pytest.approx(wide, rel=0.2)


def test_a_class_that_is_only_predicted_counts_as_in_scikit_learn():
    gold, predicted = np.array(["a", "a", "b"]), np.array(["a", "c", "b"])
    assert measures(gold, predicted)["macro_f1"].value == pytest.approx(f1_score(gold, predicted, average="macro"))
