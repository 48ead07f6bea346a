"""Thresholds and calibration of a classifier, by texts that are held out from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from contrastive_st.classification.heads import LinearHead, fit_logistic
from contrastive_st.errors import InputError

_FOLDS = 5


def held_out_logits(
    x: Any, y: NDArray[np.int64], C: float, weights: NDArray[np.float64], seed: int
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


def calibrated(
    head: LinearHead, logits: NDArray[np.float64], y: NDArray[np.int64]
) -> tuple[LinearHead, NDArray[np.float64]]:
    """A head whose probabilities are the shares of texts with the class, and its logits of the held-out texts.

    One class a text: the logits are divided by a temperature (Guo et al. 2017, https://arxiv.org/abs/1706.04599).
    Several: each has a logistic regression over its logit (Platt 1999).

    Args:
        head: what was fitted to all texts.
        logits: of held-out texts, `[N, K]`.
        y: their classes, `[N]`, or `[N, K]` of 0 and 1.

    Raises:
        InputError: a class has one example.
    """
    if np.isnan(logits).any():
        what = "fewer than two texts have a class, or lack it, so its probability cannot be calibrated"
        raise InputError(f"{what}; give a second one")
    if y.ndim == 1:
        rows = np.arange(len(y))
        loss = lambda log: -float(log_softmax(logits * np.exp(log), axis=1)[rows, y].mean())
        scale, shift = np.full(logits.shape[1], np.exp(minimize_scalar(loss, bounds=(-4, 8), method="bounded").x)), 0.0
    else:
        each = [LogisticRegression(C=1e6).fit(logits[:, [k]], y[:, k]) for k in range(y.shape[1])]
        scale, shift = (np.array([getattr(own, name).item() for own in each]) for name in ("coef_", "intercept_"))
    result = replace(head, weights=head.weights * scale[:, None], bias=head.bias * scale + shift)
    return result, logits * scale + shift


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
    for own, positive in zip(logits.T, y.T, strict=True):
        order = np.argsort(-own, kind="stable")
        hits = np.cumsum(positive[order])
        f1 = 2 * hits / (np.arange(1, len(own) + 1) + positive.sum())
        last = int(f1.argmax())
        result.append(own[order][last : last + 2].mean())
    thresholds: NDArray[np.float64] = np.nan_to_num(np.array(result), nan=0.0)
    return thresholds
