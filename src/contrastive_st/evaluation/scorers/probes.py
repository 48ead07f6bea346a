"""Linear probes on frozen embeddings, by SentEval's protocols: logistic regression, `C` chosen without the test split.

The grids of `C` and the seed of the folds, 1111, are SentEval's. Every fit is exact (`fit_path`), so a score depends on
no optimizer, batch size or early stopping, and on no random state except that of the folds.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold
from torch import Tensor
from torch.nn import functional

from contrastive_st.data.reading import MissingData
from contrastive_st.errors import InputError
from contrastive_st.evaluation.datasets.senteval import Embed, Rows, Splits, read_labelled
from contrastive_st.evaluation.scorers import Score
from contrastive_st.losses.labelled_pairs import pair_features

# --- L2 logistic regression for many folds and a whole grid of penalties at once, exact to the optimum.

_MOST_STEPS, _MOST_DIRECTIONS, _REDUCTION = 50, 30, 0.2
_FEW_COLUMNS = 6  # a product with this many columns costs little more than one with a single column
_PILOT_ROWS = 8192


@dataclass(frozen=True)
class Solution:
    """The fits for one `C`: `weights [P, K, d]`, `bias [P, K]`, and `logits [N, P, K]` of all rows, seen and unseen.

    `K` is 1 for two classes (positive logit: class 1), otherwise the number of classes.
    """

    c: float
    weights: NDArray[np.float64]
    bias: NDArray[np.float64]
    logits: NDArray[np.float64]
    gradient: float

    def classes(self) -> NDArray[np.int64]:
        """The class of every row by every fit, `[N, P]`."""
        return (self.logits[..., 0] > 0).astype(np.int64) if self.logits.shape[2] == 1 else self.logits.argmax(2)


def fit_path(
    x: ArrayLike,
    targets: ArrayLike,
    seen: ArrayLike,
    grid: Sequence[float],
    tolerance: float = 1e-6,
    dtype: torch.dtype = torch.float32,
) -> Iterator[Solution]:
    """Minimise `|w|^2 / 2 + C * sum of cross-entropies` for each `C` of the grid; the bias has no penalty.

    The objective is that of `sklearn.linear_model.LogisticRegression`, for two classes (one weight vector) and for
    more (one each).

    Args:
        x: embeddings `[N, d]`.
        targets: class numbers `[N]`, or distributions over classes `[N, K]`.
        seen: which rows each of P problems is fitted to, `[P, N]` of 0 and 1.
        grid: values of `C` in rising order, from the strongest penalty to the weakest.
        tolerance: largest entry of the mean gradient at which a problem counts as solved (scikit-learn's is 1e-4).
        dtype: float32 reaches 1e-6; for less, take float64.

    Yields:
        The fits for each `C`, in the order of the grid.

    Example:
        >>> x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
        >>> last = list(fit_path(x, np.array([0, 0, 1, 1]), np.ones((1, 4)), [0.1, 1.0]))[-1]
        >>> last.classes()[:, 0].tolist(), round(float(last.weights[0, 0, 0]), 4)
        ([0, 0, 1, 1], 1.0066)
    """
    raw = torch.as_tensor(np.asarray(x)).to(dtype)
    mean = raw.mean(0)
    rows = torch.empty(len(raw), raw.shape[1] + 1, dtype=dtype)
    rows[:, -1] = 1  # for the bias
    torch.sub(raw, mean, out=rows[:, :-1])
    y = _columns(np.asarray(targets)).to(dtype)
    mask = torch.as_tensor(np.asarray(seen).T.astype(np.float32)).to(dtype).unsqueeze(2)
    at_once = max(_FEW_COLUMNS // (mask.shape[1] * y.shape[2]), 1)
    now, preconditioner = _pilot(rows, y, mask[:, 0, 0].nonzero()[:, 0], grid[len(grid) // 2])
    before = now
    for group in (grid[i : i + at_once] for i in range(0, len(grid), at_once)):
        problem = _Problem(rows, y, mask.repeat(1, len(group), 1), preconditioner)
        ridge = torch.tensor([1 / c for c in group], dtype=dtype).repeat_interleave(mask.shape[1]).view(1, -1, 1)
        start = 2 * now - before  # extrapolation of the path
        start = start if start.shape[1] == ridge.shape[1] else start[:, -1:].expand(-1, ridge.shape[1], -1)
        theta, logits, gradient = problem.solve(start, ridge, tolerance)
        before, now = now if now.shape == theta.shape else theta, theta
        for i, c in enumerate(group):
            columns = slice(i * mask.shape[1], (i + 1) * mask.shape[1])
            weights = theta[:-1, columns].permute(1, 2, 0).double()
            bias = theta[-1, columns].double() - weights @ mean.double()
            yield Solution(c, weights.numpy(), bias.numpy(), logits[:, columns].numpy(), gradient)


def _pilot(rows: Tensor, targets: Tensor, index: Tensor, c: float) -> tuple[Tensor, _Preconditioner]:
    """The starting point and the curvature for all problems, from a fit to a sample of the rows of one problem."""
    every = -(-len(index) // _PILOT_ROWS)
    rows, targets = rows[index[::every]], targets[index[::every]]
    width = targets.shape[2]
    share = 1 / max(width, 2)
    flat = _Preconditioner(rows, torch.full_like(targets[:, 0, :1], share - share**2), width)
    problem = _Problem(rows, targets, torch.ones_like(targets[:, :, :1]), flat)
    ridge = torch.full((1, 1, 1), 1 / (c * every), dtype=rows.dtype)
    zeros = torch.zeros(rows.shape[1], 1, width, dtype=rows.dtype)
    theta, logits, _ = problem.solve(zeros, ridge, 1e-4)
    shares = problem.shares(logits)[:, 0]
    return theta, _Preconditioner(rows, shares * (1 - shares), width)


class _Preconditioner:
    """The Hessian `X^T diag(curvature) X` of each class by its eigenvectors: solved at once for any scale and ridge."""

    def __init__(self, x: Tensor, curvature: Tensor, width: int) -> None:
        hessians = torch.stack([(x.T * one) @ x for one in curvature.T]).double()
        values, axes = torch.linalg.eigh(hessians)
        self.axes: Tensor = axes.to(x.dtype).expand(width, -1, -1)
        shares = values.clamp(min=0) / curvature.double().sum(0)[:, None]
        self.values: Tensor = shares.to(x.dtype).expand(width, -1)

    def scale(self, curvature: Tensor, ridge: Tensor) -> Tensor:
        """The divisors along the axes, `[K, d, P]`, for problems of total curvature `[1, P, K]`."""
        return self.values[:, :, None] * curvature.permute(2, 0, 1) + ridge.view(1, 1, -1)

    def __call__(self, residual: Tensor, scale: Tensor) -> Tensor:
        """`[d, P, K] -> [d, P, K]`."""
        turned = self.axes.mT @ residual.permute(2, 0, 1)
        solved = (self.axes @ (turned / scale)).permute(1, 2, 0)
        return solved if solved.shape[2] == 1 else solved - solved.mean(2, keepdim=True)


class _Problem:
    """P fits to the rows `x [N, d + 1]` (the last column is 1, for the bias), each with the rows it has `seen`."""

    def __init__(self, x: Tensor, targets: Tensor, seen: Tensor, preconditioner: _Preconditioner) -> None:
        self.x, self.targets, self.seen, self.precondition = x, targets, seen, preconditioner
        self.count, self.width = seen.shape[1], targets.shape[2]
        self.rows = seen.sum(0).squeeze(1)
        self.penalised = torch.ones(x.shape[1], 1, 1, dtype=x.dtype)
        self.penalised[-1] = 0

    def solve(self, theta: Tensor, ridge: Tensor, tolerance: float) -> tuple[Tensor, Tensor, float]:
        """From a start `theta [d + 1, P, K]` to the optimum: solution, logits `[N, P, K]`, largest mean gradient."""
        logits = self._apply(theta)
        value = self._value(theta, logits, ridge)
        for _ in range(_MOST_STEPS):
            shares = self.shares(logits)
            gradient = self._back(self.seen * (shares - self.targets)) + self.penalised * ridge * theta
            size = gradient.abs().amax((0, 2)) / self.rows
            if (size <= tolerance).all():
                break
            step, change = self._direction(gradient, shares, ridge)
            theta, logits, value = self._move(theta, logits, value, step, change, ridge)
        return theta, logits, float(size.max())

    def shares(self, logits: Tensor) -> Tensor:
        """Probabilities of the classes."""
        return logits.sigmoid() if self.width == 1 else logits.softmax(2)

    def _direction(self, gradient: Tensor, shares: Tensor, ridge: Tensor) -> tuple[Tensor, Tensor]:
        """The Newton step of every problem to within `_REDUCTION`, and the change of the logits."""
        curvature = self.seen * shares * (1 - shares)
        scale = self.precondition.scale(curvature.sum(0, keepdim=True), ridge)
        step, residual, change = torch.zeros_like(gradient), -gradient, torch.zeros_like(shares)
        direction = ready = self.precondition(residual, scale)
        energy = first = _dot(residual, ready)
        for _ in range(_MOST_DIRECTIONS):
            moved = self._apply(direction)
            if self.width == 1:
                curved = curvature * moved
            else:
                curved = self.seen * shares * (moved - (shares * moved).sum(2, keepdim=True))
            product = self._back(curved) + self.penalised * ridge * direction
            length = energy / _dot(direction, product).clamp(min=1e-30)
            step, change = step + length * direction, change + length * moved
            residual = residual - length * product
            ready = self.precondition(residual, scale)
            energy, last = _dot(residual, ready), energy
            if (energy <= _REDUCTION**2 * first).all():
                break
            direction = ready + energy / last.clamp(min=1e-30) * direction
        return step, change

    def _move(
        self, theta: Tensor, logits: Tensor, value: Tensor, step: Tensor, change: Tensor, ridge: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Take the step, halved for the problems whose objective it would raise by more than rounding."""
        length = torch.ones(1, self.count, 1, dtype=theta.dtype)
        slack = 100 * torch.finfo(theta.dtype).eps * value.abs()
        for _ in range(30):
            moved = theta + length * step, logits + length * change
            new = self._value(*moved, ridge)
            worse = new > value + slack
            if not worse.any():
                break
            length = torch.where(worse.view(1, -1, 1), length / 2, length)
        return *moved, new

    def _value(self, theta: Tensor, logits: Tensor, ridge: Tensor) -> Tensor:
        if self.width == 1:
            losses = functional.softplus(logits) - self.targets * logits
        else:
            losses = logits.logsumexp(2, keepdim=True) - (self.targets * logits).sum(2, keepdim=True)
        return (self.seen * losses).sum((0, 2)) + (self.penalised * ridge * theta.square()).sum((0, 2)) / 2

    def _apply(self, theta: Tensor) -> Tensor:
        columns = theta.flatten(1).T.contiguous()  # this order of the product is faster for few columns
        return functional.linear(self.x, columns).view(-1, self.count, self.width)

    def _back(self, residual: Tensor) -> Tensor:
        return (residual.flatten(1).T @ self.x).T.reshape(-1, self.count, self.width)


def _columns(targets: NDArray[np.number]) -> Tensor:
    """Targets `[N, 1, K]`; for two classes only the share of the second."""
    if targets.ndim == 1:
        targets = np.eye(max(int(targets.max()) + 1, 2))[targets.astype(np.int64)]
    kept = targets[:, 1:] if targets.shape[1] == 2 else targets
    return torch.as_tensor(np.asarray(kept, dtype=np.float64)).unsqueeze(1)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum((0, 2), keepdim=True)


Features = Callable[[Rows, Embed], NDArray[np.floating]]
SEED = 1111
GRID = tuple(2.0**power for power in range(-2, 4))  # MR, CR, SUBJ, MPQA, SST-2, SICK-E
WIDE_GRID = tuple(2.0**power for power in range(-1, 6))  # TREC, MRPC
TOLERANCE = 1e-5  # of the mean gradient; scikit-learn stops at 1e-4


def features(rows: Rows, embed: Embed) -> NDArray[np.floating]:
    """Embeddings `[N, d]` of single sentences; of pairs `[N, 2d]` absolute difference and product, as in SentEval.

    Args:
        rows: sentences, or pairs of them.
        embed: texts to vectors, `[N] -> [N, d]`.

    Returns:
        The features `[N, d]`, or `[N, 2d]` of pairs.
    """
    vectors = [embed(column) for column in rows.columns]
    if len(vectors) == 1:
        return vectors[0]
    first, second = map(torch.from_numpy, vectors)
    return np.asarray(pair_features(first, second, ("abs(u-v)", "u*v")).numpy())


def folds(y: NDArray[np.integer], count: int, task: str = "this task") -> list[NDArray[np.bool_]]:
    """The rows that each fold is fitted to: `StratifiedKFold(count, shuffle=True, random_state=1111)`.

    Args:
        y: class numbers `[N]`.
        count: number of folds.
        task: the name of the task in an error.

    Returns:
        One mask `[N]` for each fold.
    """
    fewest = int(np.bincount(y)[np.unique(y)].min())
    if fewest < count:
        raise InputError(f"{task}: a class has {fewest} examples only, too few for {count} folds; use fewer folds")
    splitter = StratifiedKFold(count, shuffle=True, random_state=SEED)
    return [np.isin(np.arange(len(y)), fitted) for fitted, _ in splitter.split(np.zeros(len(y)), y)]


def score_nested(splits: Splits, embed: Embed, task: str, count: int = 10) -> list[Score]:
    """Nested cross-validation (MR, CR, SUBJ, MPQA): accuracy over outer folds, each with the `C` of its inner folds.

    The score named "dev" is the accuracy over the inner folds.

    Args:
        splits: the splits of the task.
        embed: texts to vectors, `[N] -> [N, d]`.
        task: its name in the scores.
        count: number of outer and of inner folds.

    Returns:
        The accuracies of the outer folds and of the inner ones.
    """
    rows = splits["all"]
    test, dev = nested_accuracy(features(rows, embed), rows.labels, count, task=task)
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
    """Nested cross-validation: accuracy of each outer fold `[count]`, and the best inner accuracy of each.

    Args:
        x: embeddings `[N, d]`.
        y: class numbers `[N]`.
        count: number of outer and of inner folds.
        grid: values of `C`, rising.
        task: the name of the task in an error.

    Returns:
        The accuracy of each outer fold `[count]`, and the best mean accuracy of its inner folds `[count]`, from 0 to 1.
    """
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


def score_kfold(splits: Splits, embed: Embed, task: str, count: int = 10, f1: bool = False) -> list[Score]:
    """TREC, MRPC: `C` chosen by folds of the training split, accuracy (and F1) on the test split.

    Args:
        splits: the splits of the task.
        embed: texts to vectors, `[N] -> [N, d]`.
        task: its name in the scores.
        count: number of folds.
        f1: also report F1.

    Returns:
        One score per metric and split; one that cannot be computed has no value and a note.
    """
    train, test = splits.needed("train", "test")
    x = np.concatenate([features(train, embed), features(test, embed)])
    y = np.concatenate([train.labels, test.labels])
    masks = [*folds(train.labels, count, task), np.ones(len(train), dtype=bool)]
    seen = np.concatenate([np.array(masks), np.zeros((count + 1, len(test)), dtype=bool)], 1)
    held = ~seen[:count].T
    held[len(train) :] = False
    predicted = [solution.classes() for solution in fit_path(x, y, seen, WIDE_GRID, TOLERANCE)]
    inner = [((p[:, :count] == y[:, None]) & held).sum(0) / held.sum(0) for p in predicted]
    best = int(np.mean(inner, axis=1).argmax())
    right = predicted[best][len(train) :, count]
    return [
        _accuracy(task, "test", np.array([np.mean(right == test.labels)]), len(test), "all"),
        *([Score(task, "test", "f1", float(f1_score(test.labels, right)), n=len(test))] if f1 else []),
        _accuracy(task, "dev", inner[best], len(train), f"{count} folds"),
    ]


def score_split(
    splits: Splits, embed: Embed, task: str = "", features: Features = features, aggregation: str = "all"
) -> list[Score]:
    """SST-2, SICK-E: fitted on train, `C` chosen on dev, accuracy on test.

    Args:
        splits: the splits of the task.
        embed: texts to vectors, `[N] -> [N, d]`.
        task: its name in the scores.
        features: splits to the features of the classifier.
        aggregation: that of the scores.

    Returns:
        The accuracy on test and dev; one that cannot be computed has no value and a note.
    """
    x, part, y = _stacked(splits, embed, features)
    rights = [s.classes()[:, 0] == y for s in fit_path(x, y, np.array([part == "train"]), GRID, TOLERANCE)]
    right = max(rights, key=lambda hits: hits[part == "dev"].mean())
    return [
        Score(task, name, "accuracy", float(right[part == name].mean()), aggregation, len(splits[name]))
        if name in splits
        else Score(task, name, "accuracy", None, note=splits.why_missing(name))
        for name in ("test", "dev")
    ]


def _stacked(
    splits: Splits, embed: Embed, features: Features = features
) -> tuple[NDArray[np.floating], NDArray[np.str_], NDArray[np.number]]:
    """The features of train, dev and test, as far as they exist, as one array; the split and the label of each row."""
    splits.needed("train", "dev")
    names = [name for name in ("train", "dev", "test") if name in splits]
    x = np.concatenate([features(splits[name], embed) for name in names])
    part = np.repeat(names, [len(splits[name]) for name in names])
    return x, part, np.concatenate([splits[name].labels for name in names])


def score_relatedness(splits: Splits, embed: Embed, task: str = "", levels: Sequence[float] = range(6)) -> list[Score]:
    """STS-B and SICK-R supervised: a distribution over score levels is fitted, its mean is the prediction.

    The target of a score between two levels divides its mass between them, and the loss is the KL divergence (Tai,
    Socher and Manning, 2015); `C` is chosen by Pearson's r on dev. SentEval minimises the squared error instead, and
    puts the scores 0 to 5 of STS-B on the levels 1 to 5, which loses those below 1; here the levels are 0 to 5.

    Args:
        splits: the splits of the task.
        embed: texts to vectors, `[N] -> [N, d]`.
        task: its name in the scores.
        levels: the levels of the scores, rising.

    Returns:
        Pearson, Spearman and the mean squared error on test and dev.
    """
    metrics = ("pearson", "spearman", "mse")
    x, part, labels = _stacked(splits, embed)
    labels = labels.astype(np.float64)
    predicted = []
    path = fit_path(x, tai_targets(labels, levels), np.array([part == "train"]), GRID, 1e-9, torch.float64)
    for solution in path:
        means = softmax(solution.logits[:, 0], axis=1) @ np.asarray(levels, dtype=np.float64)
        predicted.append(means.round(6))  # the last digits depend on the number of threads and must decide no rank
    best = int(np.argmax([pearsonr(p[part == "dev"], labels[part == "dev"]).statistic for p in predicted]))
    scores = []
    for split in ("test", "dev"):
        a, b = predicted[best][part == split], labels[part == split]
        if not len(a):
            scores += [Score(task, split, m, None, note=splits.why_missing(split)) for m in metrics]
            continue
        values = (pearsonr(a, b).statistic, spearmanr(a, b).statistic, np.mean((a - b) ** 2))
        scores += [Score(task, split, m, float(v), n=len(a)) for m, v in zip(metrics, values, strict=True)]
    return scores


def tai_targets(scores: NDArray[np.floating], levels: Sequence[float]) -> NDArray[np.float64]:
    """Distributions over rising `levels` whose means are the scores, `[N] -> [N, len(levels)]`.

    Args:
        scores: `[N]`.
        levels: rising.

    Returns:
        The distributions `[N, len(levels)]`, float64; each row sums to 1.

    Example:
        >>> tai_targets(np.array([1.25, 3.0]), (1, 2, 3)).tolist()
        [[0.75, 0.25, 0.0], [0.0, 0.0, 1.0]]
    """
    return np.stack([np.interp(scores, levels, one) for one in np.eye(len(levels))], axis=1)


def _accuracy(task: str, split: str, shares: NDArray[np.floating], n: int, aggregation: str) -> Score:
    deviation = float(shares.std()) if len(shares) > 1 else None
    return Score(task, split, "accuracy", float(shares.mean()), aggregation, n, deviation)


# --- The NLI probe.

NLI_CLASSES = ("entailment", "neutral", "contradiction")
NLI_TRAINING = 10_000  # pairs that a probe is fitted to: more pairs change only the third digit, and take minutes


def read_nli(path: Path) -> Splits:
    """Read a tab-separated file with a header: premise, hypothesis, label.

    A tenth of the premises is dev, another tenth test. A checksum of the premise decides the split, so all hypotheses
    of a premise are in the same split.
    """
    if not path.is_file():
        raise MissingData(f"{path.name} is missing; an NLI probe reads premise, hypothesis and label from it")
    rows = read_labelled(path, (2, 0, 1), NLI_CLASSES)
    bucket = np.array([zlib.crc32(premise.encode()) % 10 for premise in rows.columns[0]])
    train = np.flatnonzero(bucket > 1)
    train = train[:: max(-(-len(train) // NLI_TRAINING), 1)]
    index = {"train": train, "dev": np.flatnonzero(bucket == 1), "test": np.flatnonzero(bucket == 0)}
    index["dev"] = index["dev"][: NLI_TRAINING // 4]
    return Splits({name: rows.take(i) for name, i in index.items()})


def score_nli(splits: Splits, embed: Embed, task: str = "") -> list[Score]:
    """Accuracy of logistic regression over three classes on InferSent's features [u, v, |u - v|, u * v].

    Args:
        splits: the splits of the task.
        embed: texts to vectors, `[N] -> [N, d]`.
        task: its name in the scores.

    Returns:
        The accuracy on test and on dev.
    """

    def nli_features(rows: Rows, embed: Embed) -> NDArray[np.floating]:
        u, v = map(embed, rows.columns)
        return np.concatenate([u, v, np.abs(u - v), u * v], axis=1)

    (train,) = splits.needed("train")
    return score_split(splits, embed, task, nli_features, f"fitted to {len(train)} pairs")
