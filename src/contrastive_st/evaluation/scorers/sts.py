"""Semantic textual similarity: correlation of cosine similarities with human scores."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr

from contrastive_st.errors import InputError
from contrastive_st.evaluation.datasets.senteval import Embed, Parts, Rows, read_stsb_file
from contrastive_st.evaluation.score import Figure
from contrastive_st.vectors import cosine

DATA_VARIABLE = "CONTRASTIVE_ST_DATA"
CORRELATIONS: Mapping[str, Callable] = {"pearson": pearsonr, "spearman": spearmanr}


class ScoredPair(NamedTuple):
    """Two sentences and how similar people find them, 0 to 5."""

    first: str
    second: str
    score: float


def find_stsb(split: str = "dev") -> Path | None:
    """SentEval's STS-B file below `$CONTRASTIVE_ST_DATA`, or None where it is not at hand."""
    root = os.environ.get(DATA_VARIABLE)
    path = Path(root or "", "senteval", "STS", "STSBenchmark", f"sts-{split}.csv")
    return path if root and path.is_file() else None


def read_stsb(path: str | Path) -> list[ScoredPair]:
    """Read SentEval's `sts-*.csv`: tab-separated, no header, no quoting; score and texts in columns 5 to 7."""
    rows = read_stsb_file(Path(path))
    return [ScoredPair(*row) for row in zip(*rows.columns, rows.gold.tolist(), strict=True)]


def sts_spearman(encode: Embed, pairs: Sequence[ScoredPair]) -> float:
    """Spearman's rho, -1 to 1, between cosine similarities and scores; each distinct sentence is encoded once.

    Raises:
        InputError: the model returns NaN or infinite embeddings.
    """
    texts = list(dict.fromkeys(text for pair in pairs for text in pair[:2]))
    place = {text: i for i, text in enumerate(texts)}
    vectors = np.asarray(encode(texts))
    columns = [pair.first for pair in pairs], [pair.second for pair in pairs]
    if not np.isfinite(vectors).all():
        raise InputError("the model returns NaN or infinite embeddings, so there is nothing to correlate")
    first, second = (vectors[[place[text] for text in column]] for column in columns)
    return float(spearmanr(cosine(first, second), [pair.score for pair in pairs]).statistic)


def score_subsets(parts: Parts, embed: Embed, task: str, split: str = "test") -> list[Figure]:
    """The figures of STS12 to STS16: each subset's, and all three ways to put them together.

    "all" correlates the pairs of all subsets at once (SBERT, SimCSE), "mean" and "wmean" average the subsets' own
    correlations (SentEval; BERT-flow and whitening report "wmean"). They differ by up to 4 points: never mix them.
    """
    similarities = {name: _similarities(rows, embed) for name, rows in parts.items()}
    gold = {name: np.asarray(rows.gold, dtype=np.float64) for name, rows in parts.items()}
    missing = ", ".join(parts.missing)
    note = f"incomplete: without {missing}" if missing else ""
    everything = [np.concatenate(list(arrays.values())) for arrays in (similarities, gold)]
    figures = []
    for metric in CORRELATIONS:
        own = {name: correlate(metric, similarities[name], gold[name], task, split, name) for name in parts}
        total = correlate(metric, everything[0], everything[1], task, split, "all", note)
        if list(parts) == ["all"]:  # from the Hub: one list, whose subsets are not known
            unknown = "the data set does not tell its subsets apart"
            figures += [total, *(replace(total, aggregation=a, value=None, note=unknown) for a in ("mean", "wmean"))]
            continue
        figures += [total, *_means(list(own.values()), total, note), *own.values()]
        figures += [Figure(task, split, metric, None, name, note=why) for name, why in parts.missing.items()]
    return figures


def _means(own: Sequence[Figure], total: Figure, note: str) -> list[Figure]:
    undefined = [figure.aggregation for figure in own if figure.value is None]
    if undefined:
        note = f"undefined for {', '.join(undefined)}"
    means = []
    for aggregation, weights in (("mean", [1] * len(own)), ("wmean", [figure.n for figure in own])):
        value = None if undefined else float(np.average([figure.value for figure in own], weights=weights))
        means.append(Figure(total.task, total.split, total.metric, value, aggregation, total.n, note=note))
    return means


def score_splits(parts: Parts, embed: Embed, task: str, splits: Sequence[str] = ("test", "dev")) -> list[Figure]:
    """The figures of STS-B and SICK-R by cosine similarity, split by split, as SimCSE reports them."""
    figures = []
    for split in splits:
        for metric in CORRELATIONS:
            if split in parts:
                rows = parts[split]
                figures.append(correlate(metric, _similarities(rows, embed), rows.gold, task, split))
            else:
                figures.append(Figure(task, split, metric, None, note=parts.missing.get(split, "no such split")))
    return figures


def correlate(
    metric: str,
    predicted: NDArray[np.floating],
    gold: NDArray[np.floating],
    task: str,
    split: str,
    aggregation: str = "all",
    note: str = "",
) -> Figure:
    """One correlation as scipy computes it; no value, and a note, where it is undefined."""
    n = len(gold)
    if n < 2 or np.ptp(predicted) == 0 or np.ptp(gold) == 0:
        why = "fewer than two pairs" if n < 2 else f"all {'scores' if np.ptp(gold) == 0 else 'similarities'} are equal"
        return Figure(task, split, metric, None, aggregation, n, note=f"undefined: {why}")
    value = float(CORRELATIONS[metric](predicted, gold).statistic)
    return Figure(task, split, metric, value, aggregation, n, note=note)


def _similarities(rows: Rows, embed: Embed) -> NDArray[np.float64]:
    return cosine(embed(rows.columns[0]), embed(rows.columns[1]))
