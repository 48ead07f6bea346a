"""Accuracy and macro-F1 of predicted labels, with intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from contrastive_st.classification.labels import Labels

_DRAWS, _SEED = 1000, 1111


class Measure(NamedTuple):
    """A number from 0 to 1 and its 95% interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} ({100 * self.low:.1f} to {100 * self.high:.1f})"


def measures(true: Labels, predicted: Labels) -> dict[str, Measure]:
    """Accuracy and macro-F1, each with the 95% interval of a bootstrap over the rows (1,000 draws, a fixed seed).

    The interval is that of the test rows for this classifier; it does not say how others of other examples would do.
    Accuracy is the share of rows that are right as a whole. Macro-F1 is the mean over the classes that occur.

    Args:
        true: labels `[N]`, or `[N, K]` of 0 and 1.
        predicted: the same for the predicted labels.

    Example:
        >>> true = np.array(["a", "a", "b", "b"] * 25)
        >>> found = measures(true, np.array(["a", "a", "b", "a"] * 25))
        >>> print(found["accuracy"], round(found["macro_f1"].value, 3))
        75.0 (67.0 to 82.0) 0.733
    """
    if true.ndim == 1:
        classes = np.unique(np.concatenate([true, predicted]))
        true, predicted = (labels[:, None] == classes for labels in (true, predicted))
    true, predicted = true.astype(bool), predicted.astype(bool)
    right = (true == predicted).all(1)
    counts = np.concatenate([true & predicted, true | predicted, true & ~predicted | ~true & predicted], 1)
    rows = len(true)
    draws = np.random.default_rng(_SEED).multinomial(rows, np.full(rows, 1 / rows), _DRAWS)
    weights = np.concatenate([np.ones((1, rows), dtype=np.int64), draws])
    # The rows of each class and draw that are in both, in either, and in only one of true and predicted, `[R, K]` each
    both, either, one = np.split(weights @ counts, 3, axis=1)
    score = np.divide(2 * both, 2 * both + one, out=np.zeros(both.shape), where=either > 0)
    macro_f1 = score.sum(1) / np.maximum((either > 0).sum(1), 1)
    return {
        name: Measure(float(values[0]), *map(float, np.quantile(values[1:], (0.025, 0.975))))
        for name, values in {"accuracy": weights @ right / rows, "macro_f1": macro_f1}.items()
    }
