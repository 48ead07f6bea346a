"""The losses of Arora et al. (2019, CURL) on labelled embeddings, and the bound between them.

Labels stand for the paper's latent classes. Class c's distribution is uniform over its n_c of the N sentences, drawn
with replacement; rho, the chance of a class, is its share n_c / N. With l the logistic or the hinge loss:

    L_un         mean of l(f(x).(f(x+) - f(x-)));  x, x+ of a class drawn from rho, x- of one drawn independently
    L_un^block   the same with the means of b positives, of x's class, and of b negatives, of one class
    L_sup        mean over two distinct classes c, c' from rho, and x of c, of l(f(x).(mu_c - mu_c')), mu class means
    tau          how often the two classes that L_un draws are the same: the sum of squares of rho

By Jensen's inequality (their Lemma 4.3, where l(0) = 1)

    L_sup  <=  (L_un - tau l(0)) / (1 - tau)  <=  alpha L_un,    alpha = 1 / (1 - tau),

and the same holds with L_un^block, which is at most L_un, in place of L_un. These are theorems that cover these
distributions, so they hold for every encoder; encoders differ in how far apart the two sides are. The losses depend on
the length of the embeddings.

    python benchmarks/curl_bounds.py --task CR,TREC --data senteval [--model MODEL]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError

Loss = Callable[[NDArray[np.floating]], NDArray[np.floating]]
LOSSES: dict[str, Loss] = {
    "logistic": lambda margin: np.logaddexp(0, -margin),
    "hinge": lambda margin: np.maximum(0, 1 - margin),
}
BLOCKS = (1, 2, 5, 10)
_EXACT, _AT_ONCE = (
    200_000_000,
    4_000_000,
)  # up to so many triples L_un is summed exactly, else drawn; triples of one step
_DRAW = 1024  # anchors of one step


@dataclass(frozen=True)
class Estimate:
    """An expectation: `value` and its standard error, which is 0 if the value is exact."""

    value: float
    error: float = 0.0


@dataclass(frozen=True)
class Curl:
    """The losses of one encoder on one labelled set, for one `loss`.

    Args:
        loss: "logistic" or "hinge".
        n: sentences.
        classes: how many.
        tau: probability that positive and negative have the same class.
        un: L_un.
        blocks: L_un^block by block size.
        sup: L_sup of the mean classifier; exact.
        accuracy: accuracy of the mean classifier, averaged over the same binary tasks.
    """

    loss: str
    n: int
    classes: int
    tau: float
    un: Estimate
    blocks: dict[int, Estimate]
    sup: float
    accuracy: float

    @property
    def alpha(self) -> float:
        """1 / (1 - tau)."""
        return 1 / (1 - self.tau)

    def bound(self, estimate: Estimate) -> Estimate:
        """The upper bound of L_sup from an estimate of L_un or L_un^block: alpha (L - tau l(0))."""
        zero = float(LOSSES[self.loss](np.zeros(())))
        return Estimate(self.alpha * (estimate.value - self.tau * zero), self.alpha * estimate.error)

    def holds(self, estimate: Estimate) -> bool:
        """Whether L_sup is below that bound, up to three standard errors and the rounding of float64."""
        bound = self.bound(estimate)
        return self.sup <= bound.value + 3 * bound.error + 1e-9


def curl(
    x: NDArray[np.floating],
    labels: Sequence[object] | NDArray[Any],
    loss: str = "logistic",
    blocks: Sequence[int] = BLOCKS,
    draws: int = 100_000,
    seed: int = 0,
) -> Curl:
    """Measure all of them. L_sup is exact, L_un too up to 200 million triples; the others are drawn.

    Args:
        x: embeddings `[N, d]`.
        labels: `[N]`, of any kind.
        loss: "logistic" or "hinge".
        blocks: block sizes; every size is estimated from the same draws.
        draws: how many anchors are drawn, each with `max(blocks)` positives and negatives.
        seed: seed of the draws.

    Raises:
        InputError: there are fewer than two classes.

    Example:
        >>> x = np.array([[1.0, 0.0], [1.0, 0.2], [-1.0, 0.0], [-1.0, 0.1]])
        >>> found = curl(x, ["a", "a", "b", "b"], "hinge", blocks=(1, 2), draws=1000)
        >>> found.tau, found.sup, found.accuracy, found.holds(found.un)
        (0.5, 0.0, 1.0, True)
    """
    names, y = np.unique(np.asarray(labels), return_inverse=True)
    if len(names) < 2:
        raise InputError("one class only; the losses compare sentences of different classes, so give two or more")
    x, function = np.asarray(x, dtype=np.float64), LOSSES[loss]
    margins = draw_margins(x, y, draws, max(blocks), seed)
    exact = int((np.bincount(y)[y]).sum()) * len(x) <= _EXACT
    un = Estimate(unsupervised_loss(x, y, function)) if exact else block_loss(margins, 1, function)
    estimates = {size: block_loss(margins, size, function) for size in blocks}
    accuracy = 1 - supervised_loss(x, y, lambda margin: (margin <= 0).astype(np.float64))
    return Curl(loss, len(x), len(names), collision(y), un, estimates, supervised_loss(x, y, function), accuracy)


def collision(y: NDArray[np.integer]) -> float:
    """Probability tau that two classes drawn by their shares are the same, from class numbers `[N]`.

    Example:
        >>> collision(np.array([0, 0, 0, 1]))
        0.625
    """
    return float(np.square(np.bincount(y) / len(y)).sum())


def class_means(x: NDArray[np.floating], y: NDArray[np.integer]) -> NDArray[np.float64]:
    """The mean classifier: mean embedding of each class, `[N, d], [N] -> [K, d]`, of embeddings as they are.

    Example:
        >>> class_means(np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 5.0]]), np.array([0, 0, 1])).tolist()
        [[2.0, 0.0], [0.0, 5.0]]
    """
    return np.stack([x[y == label].mean(0, dtype=np.float64) for label in range(int(y.max()) + 1)])


def supervised_loss(x: NDArray[np.floating], y: NDArray[np.integer], loss: Loss) -> float:
    """L_sup of the mean classifier, exactly; see the top of this file."""
    scores = x @ class_means(x, y).T
    share = np.bincount(y) / len(y)
    own = np.arange(len(y)), y
    losses = loss(scores[own][:, None] - scores) * share
    losses[own] = 0
    return float(losses.sum() / len(y) / (1 - np.square(share).sum()))


def unsupervised_loss(x: NDArray[np.floating], y: NDArray[np.integer], loss: Loss) -> float:
    """L_un, exactly: the sum over all anchors, positives of their class and negatives of any, N sum_c n_c^2 triples."""
    total = 0.0
    step = max(_AT_ONCE // len(x), 1)
    for label in range(int(y.max()) + 1):
        members = np.flatnonzero(y == label)
        for anchor in members:
            scores = x @ x[anchor]
            positives = scores[members]
            for start in range(0, len(members), step):
                total += loss(positives[start : start + step, None] - scores).sum() / len(members)
    return float(total / len(x) ** 2)


def draw_margins(
    x: NDArray[np.floating], y: NDArray[np.integer], draws: int, size: int, seed: int
) -> NDArray[np.float64]:
    """f(x).(f(x_i+) - f(x_i-)) of drawn anchors and of `size` positives and negatives each, `[draws, size]`.

    An anchor's positives are of its class; its negatives are all of one class, drawn independently.
    """
    random = np.random.default_rng(seed)
    members, counts = np.argsort(y, kind="stable"), np.bincount(y)
    first = np.cumsum(counts) - counts

    def of_class(labels: NDArray[np.integer]) -> NDArray[np.int64]:
        places = random.random((len(labels), size)) * counts[labels, None]
        drawn: NDArray[np.int64] = members[first[labels, None] + places.astype(np.int64)]
        return drawn

    margins = np.empty((draws, size))
    for start in range(0, draws, _DRAW):
        anchors, others = random.integers(len(x), size=(2, min(_DRAW, draws - start)))
        difference = x[of_class(y[anchors])] - x[of_class(y[others])]
        margins[start : start + len(anchors)] = np.einsum("nd,nbd->nb", x[anchors], difference)
    return margins


def block_loss(margins: NDArray[np.floating], size: int, loss: Loss) -> Estimate:
    """L_un^block with blocks of `size` out of an anchor's margins `[draws, B]`; L_un for size 1.

    The loss sees f(x).(mean of positives - mean of negatives), which is the mean of the margins. All of an anchor's
    margins are used, in B // size blocks side by side, so that Jensen's inequality holds of the very estimates of two
    sizes where one divides the other and both divide B.

    Example:
        >>> margins = np.array([[2.0, 0.0], [0.0, 0.0]])
        >>> block_loss(margins, 1, LOSSES["hinge"]).value, block_loss(margins, 2, LOSSES["hinge"]).value
        (0.75, 0.5)
    """
    count = margins.shape[1] // size
    means = margins[:, : count * size].reshape(len(margins), count, size).mean(2)
    losses = loss(means).mean(1)
    return Estimate(float(losses.mean()), float(losses.std(ddof=1) / np.sqrt(len(losses))))


def table(found: Sequence[Curl]) -> str:
    """A Markdown table: a row for each loss, and for each `l` two columns, its value and the bound of L_sup.

    Example:
        >>> one = Curl("hinge", 4, 2, 0.5, Estimate(0.8), {5: Estimate(0.7, 0.01)}, 0.39, 0.75)
        >>> print(table([one]))
        4 sentences, 2 classes, tau = 0.500, alpha = 1 / (1 - tau) = 2.000, accuracy of the mean classifier 75.00%
        <BLANKLINE>
        | | hinge | L_sup <= |
        |---|--:|--:|
        | L_sup | 0.3900 | |
        | L_un | 0.8000 | 0.6000 holds |
        | alpha L_un | | 1.6000 holds |
        | L_un^block, b = 5 | 0.7000 ± 0.0100 | 0.4000 ± 0.0200 holds |
    """
    first = found[0]
    counts = f"{first.n:,} sentences, {first.classes} classes, tau = {first.tau:.3f}"
    head = f"{counts}, alpha = 1 / (1 - tau) = {first.alpha:.3f}, accuracy of the mean classifier {first.accuracy:.2%}"
    lines = [head, "", "| " + "".join(f"| {one.loss} | L_sup <= " for one in found) + "|"]
    lines += ["|---" + "|--:|--:" * len(found) + "|"]
    lines += ["| L_sup " + "".join(f"| {one.sup:.4f} | " for one in found) + "|"]
    lines += ["| L_un " + "".join(_cells(one, one.un) for one in found) + "|"]
    lines += ["| alpha L_un " + "".join(_crude(one) for one in found) + "|"]
    for size in first.blocks:
        lines += [f"| L_un^block, b = {size} " + "".join(_cells(one, one.blocks[size]) for one in found) + "|"]
    return "\n".join(lines)


def _cells(one: Curl, estimate: Estimate) -> str:
    verdict = "holds" if one.holds(estimate) else "does not hold"
    return f"| {_shown(estimate)} | {_shown(one.bound(estimate))} {verdict} "


def _crude(one: Curl) -> str:
    value = Estimate(one.alpha * one.un.value, one.alpha * one.un.error)
    verdict = "holds" if one.sup <= value.value + 3 * value.error else "does not hold"
    return f"| | {_shown(value)} {verdict} "


def _shown(estimate: Estimate) -> str:
    return f"{estimate.value:.4f}" + (f" ± {estimate.error:.4f}" if estimate.error else "")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the losses and the bound for a model and some tasks."""
    from contrastive_st.evaluation.embedding_store import EmbeddingStore
    from contrastive_st.evaluation.tasks import choose
    from contrastive_st.models.encoder import SentenceEncoder

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="by default that of the package")
    parser.add_argument(
        "--task", required=True, help="MR, CR, SUBJ, MPQA, SST2 or TREC; several are separated by commas"
    )
    parser.add_argument("--data", default="hub", help="the folder of SentEval's files, or hub")
    parser.add_argument("--draws", type=int, default=100_000, help="anchors drawn for the blocks")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    args = parser.parse_args(arguments)
    encoder = SentenceEncoder(args.model)
    for task in choose(args.task):
        parts = task.load(args.data)
        texts, labels = list(parts.texts()), [int(label) for rows in parts.values() for label in rows.labels]
        embeddings = EmbeddingStore(encoder, texts)(texts)
        found = [curl(embeddings, labels, loss, draws=args.draws, seed=args.seed) for loss in LOSSES]
        print(f"{encoder.name}, {task.name}: {table(found)}\n")


if __name__ == "__main__":
    main()
