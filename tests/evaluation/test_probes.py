"""Logistic regression is exact, and the protocols are those that scikit-learn would run."""

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression as AnySolver
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from contrastive_st import InputError
from contrastive_st.data.reading import MissingData
from contrastive_st.evaluation.datasets.senteval import Rows, Splits
from contrastive_st.evaluation.scorers import probes as logistic
from contrastive_st.evaluation.scorers.probes import (
    GRID,
    SEED,
    WIDE_GRID,
    fit_path,
    nested_accuracy,
    score_kfold,
    score_relatedness,
    score_split,
    tai_targets,
)
from contrastive_st.evaluation.scorers.sts import score_pairs

LogisticRegression = partial(AnySolver, solver="newton-cholesky", tol=1e-10)  # exact in a few steps


def blobs(classes, n=240, d=12, seed=0):
    random = np.random.default_rng(seed)
    scale = np.geomspace(5, 0.05, d)  # badly conditioned, and off centre
    y = random.integers(classes, size=n)
    centres = random.normal(size=(classes, d))
    return ((centres[y] + 1.5 * random.normal(size=(n, d))) * scale + 3).astype(np.float64), y


@pytest.mark.parametrize("classes", [2, 4])
def test_every_fold_and_penalty_is_scikit_learns_optimum(classes):
    x, y = blobs(classes)
    seen = np.random.default_rng(1).random((3, len(y))) < 0.8
    for solution in fit_path(x, y, seen, (0.01, 1.0, 100.0), tolerance=1e-9, dtype=torch.float64):
        assert solution.gradient <= 1e-9
        for p, rows in enumerate(seen):
            peer = LogisticRegression(C=solution.c).fit(x[rows], y[rows])
            scores = peer.decision_function(x)
            ours = solution.logits[:, p]
            if classes == 2:
                ours = ours[:, 0]
            else:  # what all classes have in common decides nothing
                ours, scores = ours - ours.mean(1, keepdims=True), scores - scores.mean(1, keepdims=True)
            np.testing.assert_allclose(ours, scores, atol=2e-4 * max(1, np.abs(scores).max()))
            np.testing.assert_allclose(x @ solution.weights[p].T + solution.bias[p], solution.logits[:, p], atol=1e-8)


def test_float32_reaches_its_tolerance_and_the_same_classes():
    x, y = blobs(3)
    exact = list(fit_path(x, y, np.ones((1, len(y))), GRID, 1e-9, torch.float64))
    quick = list(fit_path(x, y, np.ones((1, len(y))), GRID))
    for a, b in zip(exact, quick, strict=True):
        assert b.gradient <= 1e-6
        assert np.mean(a.classes() != b.classes()) < 0.01


def test_unseen_rows_and_a_sampled_pilot_change_nothing(monkeypatch):
    x, y = blobs(2)
    seen = np.arange(len(y)) < 200
    whole = list(fit_path(x[:200], y[:200], np.ones((1, 200)), GRID, 1e-9, torch.float64))
    monkeypatch.setattr(logistic, "_PILOT_ROWS", 50)
    for a, b in zip(whole, fit_path(x, y, seen[None], GRID, 1e-9, torch.float64), strict=True):
        np.testing.assert_allclose(a.logits[:, 0], b.logits[:200, 0], atol=1e-4)


def test_soft_targets_are_fitted_to_their_mean():
    targets = np.tile([[0.2, 0.3, 0.5]], (40, 1))
    (solution,) = fit_path(np.random.default_rng(0).normal(size=(40, 3)), targets, np.ones((1, 40)), [1e-6])
    odds = np.exp(solution.logits[:, 0])
    np.testing.assert_allclose(odds / odds.sum(1, keepdims=True), targets, atol=1e-3)


def test_nested_cross_validation_is_scikit_learns():
    x, y = blobs(2, n=200)
    test, dev = nested_accuracy(x, y, 4)
    splits = StratifiedKFold(4, shuffle=True, random_state=SEED)
    outer, inner = [], []
    for fitted, held in splits.split(x, y):
        search = GridSearchCV(LogisticRegression(), {"C": list(GRID)}, cv=splits)
        search.fit(x[fitted], y[fitted])
        outer.append(search.score(x[held], y[held]))
        inner.append(search.best_score_)
    np.testing.assert_allclose(test, outer, atol=1e-12)
    np.testing.assert_allclose(dev, inner, atol=0.003)  # scikit-learn averages shares of folds of unequal size too


def as_parts(splits):
    """Splits whose sentences are numbers, and an embedding that looks them up."""
    every = np.concatenate([x for x, _ in splits.values()])
    names, start = {}, 0
    for name, (x, y) in splits.items():
        names[name] = Rows(([str(start + i) for i in range(len(x))],), y)
        start += len(x)
    return Splits(names, {}), lambda texts: every[[int(text) for text in texts]]


def test_kfold_and_split_protocols_are_scikit_learns():
    x, y = blobs(3, n=300)
    parts, embed = as_parts({"train": (x[:150], y[:150]), "dev": (x[150:220], y[150:220]), "test": (x[220:], y[220:])})
    peer = LogisticRegression()
    search = GridSearchCV(peer, {"C": list(WIDE_GRID)}, cv=StratifiedKFold(4, shuffle=True, random_state=SEED))
    search.fit(x[:150], y[:150])
    figure = score_kfold(parts, embed, "T", count=4)[0]
    assert (figure.split, figure.metric, figure.n) == ("test", "accuracy", 80)
    assert figure.value == pytest.approx(search.score(x[220:], y[220:]))

    dev, test = [], []
    for c in GRID:
        fit = LogisticRegression(C=c).fit(x[:150], y[:150])
        dev.append(fit.score(x[150:220], y[150:220]))
        test.append(fit.score(x[220:], y[220:]))
    figures = {figure.split: figure.value for figure in score_split(parts, embed, "T")}
    assert figures == {"test": pytest.approx(test[int(np.argmax(dev))]), "dev": pytest.approx(max(dev))}


def test_a_missing_test_split_is_not_run_and_too_few_examples_say_so():
    x, y = blobs(2, n=100)
    parts, embed = as_parts({"train": (x[:60], y[:60]), "dev": (x[60:], y[60:])})
    parts = Splits(parts, {"test": "SICK_test_annotated.txt is missing"})
    test, dev = score_split(parts, embed, "SICKE")
    assert (test.text, test.note) == ("not run", "SICK_test_annotated.txt is missing")
    assert dev.value is not None
    with pytest.raises(MissingData, match="is missing"):
        score_kfold(parts, embed, "TREC")
    with pytest.raises(InputError, match="examples"):
        nested_accuracy(x[:20], np.array([0] * 18 + [1] * 2), 10, task="CR")


def test_graded_scores_are_predicted_from_their_distributions():
    scores = np.array([0.0, 0.4, 2.5, 5.0])
    targets = tai_targets(scores, range(6))
    np.testing.assert_allclose(targets.sum(1), 1)  # SentEval's levels 1 to 5 lose the scores below 1
    np.testing.assert_allclose(targets @ np.arange(6), scores)

    random = np.random.default_rng(0)
    u, noise = random.normal(size=(400, 6)), random.normal(size=(400, 6))
    share = random.random(400)[:, None]
    v = share * u + (1 - share) * noise
    every = np.concatenate([u, v])
    rows = {name: Rows(([str(i) for i in index], [str(400 + i) for i in index]), 5 * share[index, 0]) for name, index in
            (("train", range(250)), ("dev", range(250, 320)), ("test", range(320, 400)))}  # fmt: skip
    figures = score_relatedness(Splits(rows, {}), lambda texts: every[[int(t) for t in texts]], "STSB", range(6))
    found = {(figure.split, figure.metric): figure.value for figure in figures}
    assert found["test", "pearson"] > 0.5
    assert found["test", "mse"] < np.var(5 * share[320:])


def two_parts(scorer, sign, noise=3.0):
    """Splits with a test part whose labels are right (1) or all wrong (-1)."""
    random = np.random.default_rng(5)
    y = random.integers(2, size=270)
    x = np.stack([y[:, None] * 0.5 + noise * random.normal(size=(270, 40)) for _ in range(2)])
    x = np.concatenate(list(x))  # vectors of 540 sentences, two for each row
    parts, start = {}, 0
    for name, size in (("train", 90), ("dev", 90), ("test", 90)):
        own = y[start : start + size]
        own = own if name != "test" or sign > 0 else 1 - own
        columns = [[str(i + 270 * side) for i in range(start, start + size)] for side in (0, 1)]
        parts[name] = Rows(tuple(columns if scorer in PAIRED else columns[:1]), own)
        start += size
    return Splits(parts), lambda texts: x[[int(text) for text in texts]]


PAIRED = ("score_nli", "score_pairs", "score_relatedness")
BLIND = {
    "score_split": lambda splits, embed: score_split(splits, embed, "SST2"),
    "score_nli": lambda splits, embed: logistic.score_nli(splits, embed, "NLI"),
    "score_kfold": lambda splits, embed: score_kfold(splits, embed, "MRPC", 4),
    "score_pairs": lambda splits, embed: score_pairs(splits, embed, "QQP"),
    "score_relatedness": lambda splits, embed: score_relatedness(splits, embed, "SICKR", (0, 1, 2)),
}


@pytest.mark.parametrize("scorer", BLIND)
def test_nothing_is_chosen_by_the_labels_of_the_test_part(scorer):
    """Of C and of thresholds: where all labels of the test part are wrong, what was right is wrong."""
    figures = []
    for sign in (1, -1):
        scores = BLIND[scorer](*two_parts(scorer, sign))
        metric = "pearson" if scorer == "score_relatedness" else "accuracy"
        figures.append({score.split: score.value for score in scores if score.metric == metric})
    right, wrong = figures
    assert wrong["test"] == pytest.approx(-right["test"] if scorer == "score_relatedness" else 1 - right["test"])
    assert right.get("dev") == wrong.get("dev")
    assert right["test"] not in (0, 0.5, 1)
