"""Classifiers of vectors: each is a linear layer over unit vectors, whichever way it was fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from contrastive_st.errors import InputError
from contrastive_st.evaluation.scorers.few_shot import centroids
from contrastive_st.vectors import unit_vectors


@dataclass(frozen=True)
class LinearHead:
    """A linear layer over unit vectors.

    Args:
        weights: `[K, d]`, a row for each class.
        bias: `[K]`.
        multi_label: a text may have several classes or none, each with a probability of its own.

    Example:
        >>> head = LinearHead(np.eye(2), np.zeros(2))
        >>> logits = head.logits(np.array([[3.0, 4.0]]))
        >>> logits.round(3).tolist(), head.probabilities(logits).round(3).tolist()
        ([[0.6, 0.8]], [[0.45, 0.55]])
    """

    weights: NDArray[np.floating[Any]]
    bias: NDArray[np.floating[Any]]
    multi_label: bool = False

    def logits(self, x: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Logits of vectors, `[N, d] -> [N, K]`."""
        logits: NDArray[np.float64] = unit_vectors(x, np.float64) @ self.weights.T + self.bias
        return logits

    def probabilities(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of the classes, `[N, K] -> [N, K]`."""
        found: NDArray[np.float64] = expit(logits) if self.multi_label else softmax(logits, axis=1)
        return found


def fit_logistic(x: NDArray[np.floating[Any]], y: NDArray[np.int64], C: float = 1.0) -> LinearHead:
    """Logistic regression of scikit-learn on unit vectors; one for each class if a text may have several.

    Args:
        x: vectors `[N, d]`.
        y: class numbers `[N]`, or `[N, K]` of 0 and 1.
        C: inverse strength of the penalty.

    Example:
        >>> x = np.array([[1.0, 0.1], [1.0, 0.0], [0.0, 1.0], [0.1, 1.0]])
        >>> fit_logistic(x, np.array([0, 0, 1, 1])).logits(x).argmax(1).tolist()
        [0, 0, 1, 1]
        >>> fit_logistic(x, np.array([[1, 0], [1, 1], [0, 1], [0, 1]])).weights.shape
        (2, 2)
    """
    x = unit_vectors(x, np.float64)
    if y.ndim == 1:
        fitted = LogisticRegression(C=C, max_iter=1000).fit(x, y)
        if len(fitted.classes_) > 2:
            return LinearHead(fitted.coef_, fitted.intercept_)
        none = np.zeros_like(fitted.coef_)  # of two classes the first has logit 0
        return LinearHead(np.concatenate([none, fitted.coef_]), np.concatenate([[0.0], fitted.intercept_]))
    each = [LogisticRegression(C=C, max_iter=1000).fit(x, column) for column in y.T]
    weights, bias = (np.concatenate([getattr(one, name) for one in each]) for name in ("coef_", "intercept_"))
    return LinearHead(weights, bias, multi_label=True)


def fit_means(x: NDArray[np.floating[Any]], y: NDArray[np.int64]) -> LinearHead:
    """The mean of each class, whose logits are cosines (Arora et al. 2019, https://arxiv.org/abs/1902.09229).

    Args:
        x: vectors `[N, d]`.
        y: class numbers `[N]`.

    Raises:
        InputError: several labels a text: a cosine with a mean has no threshold.

    Example:
        >>> fit_means(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]]), np.array([0, 0, 1])).weights.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    if y.ndim > 1:
        raise InputError("class means tell which class is nearest, not how many a text has; use head logistic")
    means = centroids(x, y)
    return LinearHead(means, np.zeros(len(means)))
