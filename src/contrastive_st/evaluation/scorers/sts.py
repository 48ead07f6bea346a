"""Scores of similarity and metrics of the embedding space.

Correlation with human scores (STS), labelled pairs against a threshold; alignment, uniformity, anisotropy, effective
rank."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import average_precision_score, f1_score

from contrastive_st.evaluation.datasets.senteval import Embed, Rows, Splits
from contrastive_st.evaluation.scorers import Score
from contrastive_st.losses.geometry import alignment, anisotropy, effective_rank, uniformity
from contrastive_st.vectors import PAIRWISE, rounded

CORRELATIONS: Mapping[str, Callable[..., Any]] = {
    "pearson": pearsonr,
    "spearman": lambda a, b: spearmanr(rounded(a), b),
}


def similarities(a: NDArray[np.floating], b: NDArray[np.floating], similarity: str = "cosine") -> NDArray[np.float64]:
    """Cosines of pairs, or another of `contrastive_st.vectors.PAIRWISE`, `[N, d], [N, d] -> [N]`.

    Args:
        a: `[N, d]`.
        b: `[N, d]`.
        similarity: its name.

    Returns:
        `[N]`, float64.
    """
    return np.asarray(PAIRWISE[similarity](a, b), np.float64)


def score_subsets(splits: Splits, embed: Embed, task: str = "", split: str = "test") -> list[Score]:
    """The scores of STS12 to STS16: those of each subset, and their three aggregates.

    "all" is the correlation over the pairs of all subsets (SBERT, SimCSE); "mean" and "wmean" average the correlations
    of the subsets (SentEval; BERT-flow and whitening report "wmean"). They differ by up to 4 points, so do not mix
    them.

    Args:
        splits: the splits of the task.
        embed: texts to vectors, `[N] -> [N, d]`.
        task: its name in the scores.
        split: its name in the scores.

    Returns:
        The scores of each subset, then the aggregates, by metric.
    """
    cosines = {name: _similarities(rows, embed) for name, rows in splits.items()}
    labels = {name: np.asarray(rows.labels, dtype=np.float64) for name, rows in splits.items()}
    missing = ", ".join(splits.missing)
    note = f"incomplete: without {missing}" if missing else ""
    everything = [np.concatenate(list(arrays.values())) for arrays in (cosines, labels)]
    scores = []
    for metric in CORRELATIONS:
        by_split = {name: correlate(metric, cosines[name], labels[name], task, split, name) for name in splits}
        total = correlate(metric, everything[0], everything[1], task, split, "all", note)
        if list(splits) == ["all"]:  # the Hub's data set is one list without subsets
            unknown = "the data set has no subsets"
            scores += [total, *(replace(total, aggregation=a, value=None, note=unknown) for a in ("mean", "wmean"))]
            continue
        scores += [total, *_means(list(by_split.values()), total, note), *by_split.values()]
        scores += [Score(task, split, metric, None, name, note=why) for name, why in splits.missing.items()]
    return scores


def _means(scores: Sequence[Score], total: Score, note: str) -> list[Score]:
    undefined = [score.aggregation for score in scores if score.value is None]
    if undefined:
        note = f"undefined for {', '.join(undefined)}"
    means = []
    for aggregation, weights in (("mean", [1] * len(scores)), ("wmean", [score.n for score in scores])):
        value = None if undefined else float(np.average([score.value for score in scores], weights=weights))
        means.append(Score(total.task, total.split, total.metric, value, aggregation, total.n, note=note))
    return means


def score_splits(
    splits: Splits, embed: Embed, task: str = "", names: Sequence[str] = ("test", "dev"), similarity: str = "cosine"
) -> list[Score]:
    """The scores of STS-B and SICK-R by cosine similarity for each split, as SimCSE reports them.

    Args:
        splits: the splits of the task.
        embed: texts to vectors, `[N] -> [N, d]`.
        task: its name in the scores.
        names: the splits to score.
        similarity: how vectors are compared, by name.

    Returns:
        One score per metric and split; one that cannot be computed has no value and a note.
    """
    scores = []
    for split in names:
        for metric in CORRELATIONS:
            if split in splits:
                rows = splits[split]
                scores.append(correlate(metric, _similarities(rows, embed, similarity), rows.labels, task, split))
            else:
                scores.append(Score(task, split, metric, None, note=splits.why_missing(split)))
    return scores


def correlate(
    metric: str,
    predicted: NDArray[np.floating],
    labels: NDArray[np.floating],
    task: str,
    split: str,
    aggregation: str = "all",
    note: str = "",
) -> Score:
    """One correlation as scipy computes it; if it is undefined, a note instead of a value."""
    n = len(labels)
    if n < 2 or np.ptp(rounded(predicted) if metric == "spearman" else predicted) == 0 or np.ptp(labels) == 0:
        why = (
            "fewer than two pairs" if n < 2 else f"all {'scores' if np.ptp(labels) == 0 else 'similarities'} are equal"
        )
        return Score(task, split, metric, None, aggregation, n, note=f"undefined: {why}")
    value = float(CORRELATIONS[metric](predicted, labels).statistic)
    return Score(task, split, metric, value, aggregation, n, note=note)


def _similarities(rows: Rows, embed: Embed, similarity: str = "cosine") -> NDArray[np.float64]:
    return similarities(embed(rows.columns[0]), embed(rows.columns[1]), similarity)


def score_triplets(
    splits: Splits, embed: Embed, task: str = "", similarity: str = "cosine", margin: float | Mapping[str, float] = 0.0
) -> list[Score]:
    """The share of triplets (anchor, positive, negative) whose positive is nearer than the negative by the margin.

    The margin may depend on the similarity.

    Args:
        splits: the splits of the task.
        embed: texts to vectors, `[N] -> [N, d]`.
        task: its name in the scores.
        similarity: how vectors are compared, by name.
        margin: the positive must be more similar by this much; or this for each name of a similarity.

    Returns:
        The accuracy, from 0 to 1.
    """
    margin = margin.get(similarity, 0.0) if isinstance(margin, Mapping) else margin
    anchors, positives, negatives = map(embed, splits["test"].columns)
    near, far = (similarities(anchors, other, similarity) for other in (positives, negatives))
    return [Score(task, "test", "accuracy", float(np.mean(near > far + margin)), n=len(near))]


def score_pairs(splits: Splits, embed: Embed, task: str = "", similarity: str = "cosine") -> list[Score]:
    """QQP and other files of pairs labelled 0 or 1.

    `best_accuracy` and `best_f1` are at the threshold that is best on the split itself (as sentence-transformers
    reports them; an upper bound), `average_precision` is over all thresholds, and `accuracy` and `f1` are at the
    thresholds that are best on the train split, if there is one. Similarities are rounded as for Spearman, so that
    pairs of equal sentences tie.

    Args:
        splits: the splits of the task.
        embed: texts to vectors, `[N] -> [N, d]`.
        task: its name in the scores.
        similarity: how vectors are compared, by name.

    Returns:
        One score per metric and split; one that cannot be computed has no value and a note.
    """
    (test,) = splits.needed("test")
    scores, labels = rounded(_similarities(test, embed, similarity)), test.labels.astype(bool)
    if labels.all() or not labels.any():
        why = "undefined: all pairs have one label"
        return [Score(task, "test", "average_precision", None, n=len(labels), note=why)]
    best = best_thresholds(scores, labels)
    values = {"average_precision": float(average_precision_score(labels, scores))}
    values |= {f"best_{name}": value for name, (value, _) in best.items()}
    if "train" in splits:
        train = splits["train"]
        chosen = best_thresholds(rounded(_similarities(train, embed, similarity)), train.labels.astype(bool))
        values["accuracy"] = float(np.mean((scores >= chosen["accuracy"][1]) == labels))
        values["f1"] = float(f1_score(labels, scores >= chosen["f1"][1]))
    return [Score(task, "test", name, value, n=len(labels)) for name, value in values.items()]


def best_thresholds(scores: NDArray[np.floating], labels: NDArray[np.bool_]) -> dict[str, tuple[float, float]]:
    """The best accuracy and the best F1 of the rule "same if score >= threshold", each with its threshold.

    Thresholds are half way between two scores, so equal scores are always on the same side.

    Args:
        scores: similarities `[N]`.
        labels: `[N]` of 0 and 1.

    Returns:
        For each metric its best value, and the threshold that has it.

    Example:
        >>> best_thresholds(np.array([0.9, 0.8, 0.4]), np.array([True, True, False]))["accuracy"]
        (1.0, 0.6...)
    """
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.concatenate([[0], np.cumsum(labels[order])])
    taken = np.arange(len(scores) + 1)
    possible = np.concatenate([[True], ranked[1:] != ranked[:-1], [True]])
    edges = np.concatenate([[ranked[0] + 1], (ranked[1:] + ranked[:-1]) / 2, [ranked[-1] - 1]])
    accuracy = (hits + (len(labels) - hits[-1]) - (taken - hits)) / len(labels)
    f1 = 2 * hits / np.maximum(taken + hits[-1], 1)
    result = {}
    for name, values in (("accuracy", accuracy), ("f1", f1)):
        i = int(np.where(possible, values, -1).argmax())
        result[name] = float(values[i]), float(edges[i])
    return result


# --- Metrics of a model's embedding space on STS-B.

SPLIT = "dev"
_POSITIVE = 4.0  # pairs scored above this mean the same, as in the SimCSE paper


def score_space(splits: Splits, embed: Embed, task: str = "") -> list[Score]:
    """Alignment of the pairs scored above 4; uniformity, anisotropy and effective rank of all distinct sentences.

    Args:
        splits: the splits of the task.
        embed: texts to vectors, `[N] -> [N, d]`.
        task: its name in the scores.

    Returns:
        Alignment, uniformity, anisotropy and effective rank.
    """
    (rows,) = splits.needed(SPLIT)
    alike = rows.take(np.flatnonzero(rows.labels > _POSITIVE))
    every = list(dict.fromkeys(rows.columns[0] + rows.columns[1]))
    x = torch.from_numpy(np.asarray(embed(every), dtype=np.float64))
    which = f"pairs scored above {_POSITIVE:g}"
    if len(alike):
        a, b = (torch.from_numpy(np.asarray(embed(column), dtype=np.float64)) for column in alike.columns)
        result = [Score(task, SPLIT, "alignment", alignment(a, b).item(), which, len(alike))]
    else:
        result = [Score(task, SPLIT, "alignment", None, which, note=f"undefined: no {which}")]
    for metric in (uniformity, anisotropy, effective_rank):
        value = metric(x).item()
        known = (None, "undefined: fewer than two sentences") if math.isnan(value) else (value, "")
        result.append(Score(task, SPLIT, metric.__name__, known[0], "distinct sentences", len(every), note=known[1]))
    return result
