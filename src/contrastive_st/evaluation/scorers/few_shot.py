"""Few-shot classifiers: the mean classifier, with logistic regression and keywords as baselines.

Arora et al. (2019) prove bounds for the mean classifier: if the contrastive loss is small, class means separate the
classes well, even those of few examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from contrastive_st.errors import InputError
from contrastive_st.evaluation.datasets.senteval import Embed, Rows, Splits
from contrastive_st.evaluation.scorers import Score
from contrastive_st.evaluation.scorers.probes import fit_path
from contrastive_st.vectors import unit_vectors

SIZES = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
QUOTED = 100  # the size of the main score of the tasks
DRAWS = 5
SEED = 1111
_C, _TEST_ROWS, _KEYWORDS = 1.0, 2000, 5
_Vectors = NDArray[np.floating]
_Labels = NDArray[np.integer]
Predict = Callable[[_Vectors, _Labels, Sequence[str], _Vectors, Sequence[str]], NDArray[np.int64]]


def centroids(
    x: NDArray[np.floating], y: NDArray[np.integer], weights: NDArray[np.floating] | None = None
) -> NDArray[np.float64]:
    """Unit mean of the unit vectors of each class, `[N, d], [N] -> [K, d]`, with `weights [N]` if they are given.

    Args:
        x: `[N, d]`.
        y: class numbers `[N]`.
        weights: of the rows, `[N]`.

    Returns:
        `[K, d]`, float64, each of length 1.

    Example:
        >>> centroids(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]]), np.array([0, 0, 1])).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    x = unit_vectors(x, np.float64) * (1.0 if weights is None else weights[:, None])
    return unit_vectors(np.stack([x[y == label].mean(0) for label in range(int(y.max()) + 1)]))


def nearest(centres: NDArray[np.floating], x: NDArray[np.floating]) -> NDArray[np.int64]:
    """The class whose centroid has the greatest cosine with each row, `[K, d], [N, d] -> [N]`.

    Args:
        centres: `[K, d]`, each of length 1.
        x: `[N, d]`.

    Returns:
        Class numbers `[N]`, int64.
    """
    return np.asarray((unit_vectors(x, np.float64) @ centres.T).argmax(1))


def by_means(x: _Vectors, y: _Labels, texts: Sequence[str], test: _Vectors, tests: Sequence[str]) -> NDArray[np.int64]:
    """Predict by the nearest centroid."""
    return nearest(centroids(x, y), test)


def by_logistic(
    x: _Vectors, y: _Labels, texts: Sequence[str], test: _Vectors, tests: Sequence[str]
) -> NDArray[np.int64]:
    """Predict by logistic regression on unit vectors, `C = 1`."""
    both = np.concatenate([unit_vectors(x, np.float64), unit_vectors(test, np.float64)]).astype(np.float32)
    seen = np.arange(len(both)) < len(x)
    (solution,) = fit_path(both, np.concatenate([y, np.zeros(len(test), y.dtype)]), seen[None], [_C], 1e-5)
    return solution.classes()[len(x) :, 0]


def by_keywords(
    x: _Vectors, y: _Labels, texts: Sequence[str], test: _Vectors, tests: Sequence[str]
) -> NDArray[np.int64]:
    """Predict by keywords: for each class the five words that are most overrepresented in its texts.

    A text gets the class whose keywords in it have the largest weight; a text without keywords gets the most frequent
    class.
    """
    words = CountVectorizer(binary=True, token_pattern=r"(?u)\b\w+\b")
    counts = words.fit([*texts, "none"]).transform(texts)  # texts without a word have no keywords
    sizes = np.bincount(y)
    inside = np.stack([np.asarray(counts[y == label].sum(0))[0] for label in range(len(sizes))])
    outside = inside.sum(0) - inside
    weight = inside / sizes[:, None] - outside / np.maximum(len(y) - sizes, 1)[:, None]
    least = np.sort(weight, axis=1)[:, -min(_KEYWORDS, weight.shape[1])][:, None]
    result = words.transform(tests) @ np.where((weight >= least) & (weight > 0), weight, 0).T
    return np.where(result.max(1) > 0, result.argmax(1), int(sizes.argmax()))


METHODS: dict[str, Predict] = {"mean classifier": by_means, "logistic regression": by_logistic, "keywords": by_keywords}


def score_few_shot(splits: Splits, embed: Embed, task: str = "", sizes: Sequence[int] = SIZES) -> list[Score]:
    """Accuracy by the number of examples per class: mean and deviation over draws, the same draws for every method.

    A class with fewer examples gives all of them; the curve ends where no class has enough. The test split is that of
    the task; if it has none, a quarter of the rows, at most 2,000, is held out once.

    Args:
        splits: the splits of the task.
        embed: texts to vectors, `[N] -> [N, d]`.
        task: its name in the scores.
        sizes: numbers of examples per class, rising.

    Returns:
        The accuracy of each method and size, with its deviation over the draws.

    Raises:
        InputError: the rows are too few for a test split, or all texts are empty.
    """
    pool, test = pool_and_test(splits)
    task_name = task or "few-shot"
    if not len(test):
        raise InputError(f"{task_name}: {len(pool)} rows are too few to hold out a test split; give four or more")
    if not any(map(str.strip, pool.columns[0])):
        raise InputError(f"{task_name}: all texts are empty")
    classes, labels = np.unique(pool.labels, return_inverse=True)  # a split may lack some of them
    x, held = embed(pool.columns[0]), embed(test.columns[0])
    scores, most = [], int(np.bincount(labels).max())
    for size in (size for size in sizes if size <= most):
        draws = [draw_examples(labels, size, draw) for draw in range(DRAWS)]
        for name, predict in METHODS.items():
            drawn = [(x[i], labels[i], [pool.columns[0][j] for j in i]) for i in draws]
            accuracy = [np.mean(classes[predict(*one, held, test.columns[0])] == test.labels) for one in drawn]
            aggregation = f"{name}, {size} a class, {DRAWS} draws"
            mean, deviation = float(np.mean(accuracy)), float(np.std(accuracy))
            scores.append(Score(task, "test", "accuracy", mean, aggregation, len(test), deviation))
    if most < QUOTED in sizes:
        aggregation, note = f"mean classifier, {QUOTED} a class, {DRAWS} draws", f"no class has {QUOTED} examples"
        scores.append(Score(task, "test", "accuracy", None, aggregation, note=note))
    return scores


def pool_and_test(splits: Splits) -> tuple[Rows, Rows]:
    """The rows to draw from and the test rows: a quarter of the rows, at most 2,000, if there is no test split."""
    if "train" in splits and "test" in splits:
        return splits["train"], splits["test"]
    rows = next(iter(splits.values()))
    order = np.random.default_rng(SEED).permutation(len(rows))
    size = min(len(rows) // 4, _TEST_ROWS)
    return rows.take(np.sort(order[size:])), rows.take(np.sort(order[:size]))


def draw_examples(labels: NDArray[np.integer], size: int, draw: int) -> NDArray[np.int64]:
    """At most `size` rows of each class, drawn without replacement; the smaller draws are part of the larger ones.

    Args:
        labels: class numbers `[N]`.
        size: number of rows per class.
        draw: the number of the draw, which seeds it.

    Returns:
        Row numbers, class by class.
    """
    random = np.random.default_rng([SEED, draw])
    chosen = [random.permutation(np.flatnonzero(labels == label))[:size] for label in np.unique(labels)]
    return np.concatenate(chosen)
