"""Linear probes on frozen embeddings, by SentEval's protocols: logistic regression, `C` chosen without the test.

SentEval's own grids for `C` and its fold seed, 1111. Every fit is exact (`logistic.fit_path`), so a figure has no
optimizer, batch size or early stopping behind it, and no random state but that of the folds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold

from contrastive_st.errors import InputError
from contrastive_st.evaluation.figures import Figure
from contrastive_st.evaluation.logistic import fit_path
from contrastive_st.evaluation.rows import Embed, Parts, Rows

SEED = 1111
GRID = tuple(2.0**power for power in range(-2, 4))  # MR, CR, SUBJ, MPQA, SST-2, SICK-E
WIDE_GRID = tuple(2.0**power for power in range(-1, 6))  # TREC, MRPC
TOLERANCE = 1e-5  # of the mean gradient; scikit-learn stops at 1e-4


def pair_features(u: NDArray[np.floating], v: NDArray[np.floating]) -> NDArray[np.floating]:
    """`[N, d], [N, d] -> [N, 2d]`: absolute difference and product, SentEval's features of a pair.

    Example:
        >>> pair_features(np.array([[1.0, 2.0]]), np.array([[3.0, 1.0]])).tolist()
        [[2.0, 1.0, 3.0, 2.0]]
    """
    return np.concatenate([np.abs(u - v), u * v], axis=1)


def features(rows: Rows, embed: Embed) -> NDArray[np.floating]:
    """Embeddings of single sentences, `pair_features` of pairs."""
    vectors = [embed(column) for column in rows.columns]
    return vectors[0] if len(vectors) == 1 else pair_features(*vectors)


def folds(y: NDArray[np.integer], count: int, task: str = "this task") -> list[NDArray[np.bool_]]:
    """Which rows each fold is fitted to: `StratifiedKFold(count, shuffle=True, random_state=1111)`."""
    fewest = int(np.bincount(y)[np.unique(y)].min())
    if fewest < count:
        raise InputError(f"{task}: a class has {fewest} examples only, too few for {count} folds; ask for fewer folds")
    splitter = StratifiedKFold(count, shuffle=True, random_state=SEED)
    masks = []
    for fitted, _ in splitter.split(np.zeros(len(y)), y):
        masks.append(np.zeros(len(y), dtype=bool))
        masks[-1][fitted] = True
    return masks


def score_nested(parts: Parts, embed: Embed, task: str, count: int = 10) -> list[Figure]:
    """MR, CR, SUBJ, MPQA: accuracy over outer folds, `C` chosen by inner folds of each; "dev" is the inner accuracy."""
    rows = parts["all"]
    test, dev = nested_accuracy(features(rows, embed), rows.gold, count, task=task)
    return [
        _accuracy(task, "cross-validation", test, len(rows), f"{count} folds, nested"),
        _accuracy(task, "dev", dev, len(rows), f"{count} folds, nested"),
    ]


def nested_accuracy(
    x: NDArray[np.floating],
    y: NDArray[np.integer],
    count: int = 10,
    grid: Sequence[float] = GRID,
    task: str = "this task",
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nested cross-validation: accuracy of each outer fold `[count]`, and the best inner accuracy of each."""
    outer = folds(y, count, task)
    seen, held = [], []
    for mask in outer:
        index = np.flatnonzero(mask)
        for inner in folds(y[index], count, task):
            seen.append(np.zeros(len(y), dtype=bool))
            seen[-1][index[inner]] = True
            held.append(mask & ~seen[-1])
    seen += outer
    held += [~mask for mask in outer]
    held_out = np.array(held).T
    shares = np.array([
        ((solution.classes() == y[:, None]) & held_out).sum(0) / held_out.sum(0)
        for solution in fit_path(x, y, np.array(seen), grid, TOLERANCE)
    ])  # fmt: skip
    inner = shares[:, : count * count].reshape(len(grid), count, count).mean(2)
    best = inner.argmax(0)
    return shares[best, count * count + np.arange(count)], inner.max(0)


def score_kfold(parts: Parts, embed: Embed, task: str, count: int = 10, f1: bool = False) -> list[Figure]:
    """TREC, MRPC: `C` chosen by folds of the training split, accuracy (and F1) on the test split."""
    if missing := _absent(parts, task, ("train", "test"), f1):
        return missing
    train, test = parts["train"], parts["test"]
    x = np.concatenate([features(train, embed), features(test, embed)])
    y = np.concatenate([train.gold, test.gold])
    masks = [*folds(train.gold, count, task), np.ones(len(train), dtype=bool)]
    seen = np.concatenate([np.array(masks), np.zeros((count + 1, len(test)), dtype=bool)], 1)
    held = ~seen[:count].T
    held[len(train) :] = False
    predicted = [solution.classes() for solution in fit_path(x, y, seen, WIDE_GRID, TOLERANCE)]
    inner = [((p[:, :count] == y[:, None]) & held).sum(0) / held.sum(0) for p in predicted]
    best = int(np.mean(inner, axis=1).argmax())
    right = predicted[best][len(train) :, count]
    return [
        _accuracy(task, "test", np.array([np.mean(right == test.gold)]), len(test), "all"),
        *([Figure(task, "test", "f1", float(f1_score(test.gold, right)), n=len(test))] if f1 else []),
        _accuracy(task, "dev", inner[best], len(train), f"{count} folds"),
    ]


def score_split(parts: Parts, embed: Embed, task: str) -> list[Figure]:
    """SST-2, SICK-E: fitted on train, `C` chosen on dev, accuracy on test."""
    if "train" not in parts or "dev" not in parts:
        return _absent(parts, task, ("train", "dev"))
    names = [name for name in ("train", "dev", "test") if name in parts]
    x = np.concatenate([features(parts[name], embed) for name in names])
    part = np.repeat(names, [len(parts[name]) for name in names])
    y = np.concatenate([parts[name].gold for name in names])
    right = [s.classes()[:, 0] == y for s in fit_path(x, y, np.array([part == "train"]), GRID, TOLERANCE)]
    best = int(np.argmax([r[part == "dev"].mean() for r in right]))
    found = [
        _accuracy(task, name, np.array([right[best][part == name].mean()]), len(parts[name]), "all")
        for name in ("test", "dev")
        if name in parts
    ]
    return [*_absent(parts, task, ("test",)), *found]


def score_relatedness(parts: Parts, embed: Embed, task: str, levels: Sequence[float]) -> list[Figure]:
    """STS-B and SICK-R supervised: a distribution over score levels is fitted, its mean is the prediction.

    The target of a score between two levels shares its mass between them (Tai, Socher and Manning, 2015); the loss is
    the KL divergence of that paper; `C` is chosen by Pearson's r on dev. SentEval minimises squared error instead, and
    puts the scores 0 to 5 of STS-B on the levels 1 to 5, where those below 1 fall out: here its levels are 0 to 5.
    """
    metrics = ("pearson", "spearman", "mse")
    absent = [name for name in ("train", "dev") if name not in parts]
    if absent:
        return [Figure(task, "test", m, None, note=parts.missing.get(absent[0], "no such split")) for m in metrics]
    names = [name for name in ("train", "dev", "test") if name in parts]
    x = np.concatenate([features(parts[name], embed) for name in names])
    part = np.repeat(names, [len(parts[name]) for name in names])
    gold = np.concatenate([parts[name].gold for name in names]).astype(np.float64)
    predicted = []
    path = fit_path(x, tai_targets(gold, levels), np.array([part == "train"]), GRID, 1e-9, torch.float64)
    for solution in path:
        odds = np.exp(solution.logits[:, 0] - solution.logits[:, 0].max(1, keepdims=True))
        means = (odds / odds.sum(1, keepdims=True)) @ np.asarray(levels, dtype=np.float64)
        predicted.append(means.round(6))  # the fit is more exact: what differs by threads decides no rank
    best = int(np.argmax([pearsonr(p[part == "dev"], gold[part == "dev"]).statistic for p in predicted]))
    figures = []
    for split in ("test", "dev"):
        a, b = predicted[best][part == split], gold[part == split]
        if not len(a):
            figures += [Figure(task, split, m, None, note=parts.missing.get(split, "no such split")) for m in metrics]
            continue
        values = (pearsonr(a, b).statistic, spearmanr(a, b).statistic, np.mean((a - b) ** 2))
        figures += [Figure(task, split, m, float(v), n=len(a)) for m, v in zip(metrics, values, strict=True)]
    return figures


def tai_targets(scores: NDArray[np.floating], levels: Sequence[float]) -> NDArray[np.float64]:
    """Distributions over rising `levels` whose means are the scores, `[N] -> [N, len(levels)]`.

    Example:
        >>> tai_targets(np.array([1.25, 3.0]), (1, 2, 3)).tolist()
        [[0.75, 0.25, 0.0], [0.0, 0.0, 1.0]]
    """
    return np.stack([np.interp(scores, levels, one) for one in np.eye(len(levels))], axis=1)


def _accuracy(task: str, split: str, shares: NDArray[np.floating], n: int, aggregation: str) -> Figure:
    deviation = float(shares.std()) if len(shares) > 1 else None
    return Figure(task, split, "accuracy", float(shares.mean()), aggregation, n, deviation)


def _absent(parts: Mapping[str, Rows], task: str, needed: Sequence[str], f1: bool = False) -> list[Figure]:
    """The figures that cannot be had for want of a split; none where all are there."""
    reasons = getattr(parts, "missing", {})
    why = [reasons.get(name, f"no {name} split") for name in needed if name not in parts]
    metrics = ("accuracy", "f1") if f1 else ("accuracy",)
    return [Figure(task, "test", metric, None, note="; ".join(why)) for metric in metrics] if why else []
