"""Thresholds of a classifier, by texts that are held out from it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from contrastive_st.classification.heads import Features, fit_logistic

_FOLDS = 5


def held_out_logits(
    x: Features, y: NDArray[np.int64], C: float, weights: NDArray[np.float64], seed: int
) -> NDArray[np.float64]:
    """Logits `[N, K]` of `fit_logistic`, of each text by a head that was fitted without it.

    NaN for a class of one text or none, or where several classes are possible of all texts or all but one: none can be
    held out.

    Args:
        x: vectors `[N, d]`, or a sparse matrix.
        y: class numbers `[N]`, or `[N, K]` of 0 and 1.
        C: inverse strength of the penalty.
        weights: of the labels, shaped as `y`.
        seed: of the folds, of which there are five, or as many as the rarest class has texts.
    """
    if y.ndim > 1:
        columns = [held_out_logits(x, y[:, k], C, weights[:, k], seed) for k in range(y.shape[1])]
        return np.stack([logits[:, 1] - logits[:, 0] for logits in columns], axis=1)
    counts = np.bincount(y, minlength=2)
    least = int(counts.min())
    logits = np.full((len(y), len(counts)), np.nan)
    if least < 2:
        return logits
    for fit, held in StratifiedKFold(min(_FOLDS, least), shuffle=True, random_state=seed).split(y, y):
        logits[held] = fit_logistic(x[fit], y[fit], C, weights[fit]).logits(x[held])
    return logits


def best_thresholds(logits: NDArray[np.float64], y: NDArray[np.int64]) -> NDArray[np.float64]:
    """For each class the logit from which on its F1 is greatest, `[K]`; 0 where no text was held out.

    Args:
        logits: of held-out texts, `[N, K]`.
        y: their classes, `[N, K]` of 0 and 1.

    Example:
        >>> best_thresholds(np.array([[-1.0], [-2.0], [-3.0], [-4.0]]), np.array([[1], [1], [0], [0]])).tolist()
        [-2.5]
    """
    result = []
    for column, positive in zip(logits.T, y.T, strict=True):
        order = np.argsort(-column, kind="stable")
        hits = np.cumsum(positive[order])
        f1 = 2 * hits / (np.arange(1, len(column) + 1) + positive.sum())
        last = int(f1.argmax())
        result.append(column[order][last : last + 2].mean())
    return np.asarray(np.nan_to_num(np.array(result), nan=0.0))
