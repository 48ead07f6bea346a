"""Classifiers of vectors: each is a linear layer over unit vectors, whichever way it was fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from contrastive_st.classification.labels import Labels
from contrastive_st.errors import InputError, choice
from contrastive_st.vectors import unit_vectors

#: Vectors `[N, d]`, or a sparse matrix
Features: TypeAlias = Any


@dataclass(frozen=True)
class LinearHead:
    """A linear layer over unit vectors.

    Args:
        weights: `[K, d]`, a row for each class.
        bias: `[K]`.
        multi_label: a text may have several classes or none, each with its probability.
        thresholds: `[K]`, where a text may have several classes: the logit from which it has one (default: 0, that is a
            probability of 0.5).

    Example:
        >>> head = LinearHead(np.eye(2), np.zeros(2))
        >>> logits = head.logits(np.array([[3.0, 4.0]]))
        >>> logits.round(3).tolist(), head.probabilities(logits).round(3).tolist()
        ([[0.6, 0.8]], [[0.45, 0.55]])
    """

    weights: NDArray[np.floating]
    bias: NDArray[np.floating]
    multi_label: bool = False
    thresholds: NDArray[np.floating] | None = None

    def chosen(self, logits: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which classes a text has, `[N, K] -> [N, K]`: one, or those from their thresholds on."""
        if not self.multi_label:
            return np.asarray(logits.argmax(1)[:, None] == np.arange(logits.shape[1]))
        return np.asarray(logits >= (0.0 if self.thresholds is None else self.thresholds))

    def logits(self, x: Features) -> NDArray[np.float64]:
        """Logits of vectors, `[N, d] -> [N, K]`; a sparse matrix is taken as it is."""
        return np.asarray(_features(x) @ self.weights.T + self.bias)

    def probabilities(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of the classes, `[N, K] -> [N, K]`."""
        return np.asarray(np.exp(self.log_probabilities(logits)))

    def log_probabilities(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Their logarithms, `[N, K] -> [N, K]`."""
        total = np.logaddexp(0, logits) if self.multi_label else np.logaddexp.reduce(logits, axis=1, keepdims=True)
        return np.asarray(logits - total)


def label_weights(
    class_weight: object, classes: Labels, y: NDArray[np.int64], sample_weight: object = None
) -> NDArray[np.float64]:
    """The weight of each label, shaped as `y`: that of its class times that of its text.

    Args:
        class_weight: None, `balanced`, or a weight for each of some classes. `balanced` counts a text with its weight,
            as `LogisticRegression` does. Where a text may have several classes, it is about 1 and 0 in each column, and
            a given weight is that of the texts with the class.
        classes: the K classes.
        y: class numbers `[N]`, or `[N, K]` of 0 and 1.
        sample_weight: a weight for each text, `[N]`.

    Example:
        >>> label_weights({"a": 3.0}, np.array(["a", "b"]), np.array([0, 1, 1]), [1.0, 1.0, 2.0]).tolist()
        [3.0, 1.0, 2.0]
    """
    from sklearn.utils.validation import check_consistent_length  # here, because a saved classifier needs none of it

    weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    check_consistent_length(y, weights)
    result = np.ones(y.shape)
    if isinstance(class_weight, dict):
        for label in class_weight:
            choice("label of class_weight", label, classes.tolist())
        by_class = np.array([class_weight.get(label, 1.0) for label in classes.tolist()], np.float64)
        result = by_class[y] if y.ndim == 1 else np.where(y == 1, by_class, 1.0)
    elif choice("class_weight", class_weight, (None, "balanced")):
        columns = [_balanced(column, weights) for column in y.reshape(len(y), -1).T]
        result = np.stack(columns, axis=-1).reshape(y.shape)
    return np.asarray((result.T * weights).T)


def _balanced(column: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weight `[N]` of the class of each text, with which all classes have the same sum of weights."""
    _, number, rows = np.unique(column, return_inverse=True, return_counts=True)
    sums = np.bincount(number, weights)
    by_class = sums.sum() / len(sums) / np.where(sums == 0, rows, sums)  # of texts that weigh 0, any is right
    return np.asarray(by_class[number])


def _features(x: Features) -> Features:
    """Unit vectors, or a sparse matrix of features that have been scaled."""
    return x if hasattr(x, "toarray") else unit_vectors(x, np.float64)


def fit_logistic(
    x: Features, y: NDArray[np.int64], C: float = 1.0, weights: NDArray[np.float64] | None = None
) -> LinearHead:
    """Logistic regression of scikit-learn on unit vectors; one for each class if a text may have several.

    If all N texts have a class, its probability is (N + 1) / (N + 2) for any text; if none has it, 1 / (N + 2).

    Args:
        x: vectors `[N, d]`, or a sparse matrix, whose rows are not scaled.
        y: class numbers `[N]`, or `[N, K]` of 0 and 1.
        C: inverse strength of the penalty.
        weights: of the labels, as `label_weights` returns them.

    Example:
        >>> x = np.array([[1.0, 0.1], [1.0, 0.0], [0.0, 1.0], [0.1, 1.0]])
        >>> fit_logistic(x, np.array([0, 0, 1, 1])).logits(x).argmax(1).tolist()
        [0, 0, 1, 1]
        >>> fit_logistic(x, np.array([[1, 0], [1, 1], [0, 1], [0, 1]])).weights.shape
        (2, 2)
    """
    from sklearn.linear_model import LogisticRegression

    x, weights = _features(x), np.ones(y.shape) if weights is None else weights
    fit = LogisticRegression(C=C, max_iter=1000).fit
    if y.ndim == 1:
        fitted = fit(x, y, weights)
        if len(fitted.classes_) > 2:
            return LinearHead(fitted.coef_, fitted.intercept_)
        none = np.zeros_like(fitted.coef_)  # of two classes the first has logit 0
        return LinearHead(np.concatenate([none, fitted.coef_]), np.concatenate([[0.0], fitted.intercept_]))
    each = []
    for column, column_weights in zip(y.T, weights.T, strict=True):
        if column.min() == column.max():
            each.append((np.zeros((1, x.shape[1])), np.array([np.log1p(len(y)) * (1 if column[0] else -1)])))
        else:
            fitted = fit(x, column, column_weights)
            each.append((fitted.coef_.copy(), fitted.intercept_.copy()))
    coefficients, intercepts = map(np.concatenate, zip(*each, strict=True))
    return LinearHead(coefficients, intercepts, multi_label=True)


def fit_means(x: NDArray[np.floating], y: NDArray[np.int64], weights: NDArray[np.float64] | None = None) -> LinearHead:
    """The mean of each class, whose logits are cosines (Arora et al. 2019, https://arxiv.org/abs/1902.09229).

    Args:
        x: vectors `[N, d]`.
        y: class numbers `[N]`.
        weights: of the texts, `[N]`.

    Raises:
        InputError: several labels a text: a cosine with a mean has no threshold.

    Example:
        >>> fit_means(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]]), np.array([0, 0, 1])).weights.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    from contrastive_st.evaluation.scorers.few_shot import centroids

    if y.ndim > 1:
        raise InputError("the head means gives each text one label, not several; use the head logistic")
    means = centroids(x, y, weights)
    return LinearHead(means, np.zeros(len(means)))
