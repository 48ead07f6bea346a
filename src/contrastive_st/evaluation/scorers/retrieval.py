"""Retrieval: ranks and metrics of relevant documents, and the baselines BM25 and TF-IDF."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import bootstrap
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

from contrastive_st.evaluation.datasets.senteval import Embed, Splits
from contrastive_st.evaluation.scorers import Score
from contrastive_st.vectors import SIMILARITIES, unit_vectors

_BLOCK = 1 << 26  # scores that are in memory at a time


def reciprocal_ranks(ranks: NDArray[np.int64], k: int = 10) -> NDArray[np.float64]:
    """1 / rank of each query's document, or 0 if it is not among the first k; their mean is `mrr@k`.

    Args:
        ranks: `[N]`, from 1.
        k: number of documents that are considered.

    Returns:
        `[N]`, from 0 to 1, float64.
    """
    return np.where(ranks <= k, 1 / ranks, 0.0)


def ranking_metrics(
    queries: NDArray[np.floating],
    documents: NDArray[np.floating],
    relevance: NDArray[np.floating],
    k: int = 10,
    similarity: str = "cosine",
    metrics: Sequence[Metric] | None = None,
) -> dict[str, float]:
    """`graded_metrics` of a ranking, averaged over queries.

    Args:
        queries: `[Q, d]`.
        documents: `[D, d]`.
        relevance: `[J, 3]`: number of a query, number of a document, its grade. Each query has a relevant document. The
            grade NaN is that of a document that is not ranked for the query.
        k: how many documents are considered.
        similarity: a name in `contrastive_st.vectors.SIMILARITIES`.
        metrics: as for `graded_metrics`.

    Returns:
        The metrics by name, each the mean over the queries.

    Example:
        >>> eye = np.eye(3)
        >>> metrics = ranking_metrics(np.array([[0.9, 0.5, 0.1]]), eye, relevant_rows([[0, 2]]), k=2)
        >>> {name: round(value, 3) for name, value in metrics.items()}
        {'mrr@2': 1.0, 'recall@2': 0.5, 'recall@100': 1.0, 'ndcg@2': 0.613}
    """
    asked, held = (np.asarray(x, np.float32) for x in (queries, documents))
    compare = SIMILARITIES[similarity]
    if similarity == "cosine":  # of unit vectors, which are computed once
        asked, held = (unit_vectors(x).astype(np.float32, copy=False) for x in (queries, documents))
        compare = SIMILARITIES["dot"]
    return _mean_metrics(lambda part: compare(asked[part], held), (len(asked), len(held)), relevance, k, metrics)


def relevant_rows(relevant: Iterable[Iterable[int]]) -> NDArray[np.float64]:
    """`relevance` for `ranking_metrics`, from the numbers of each query's relevant documents, all of grade 1.

    Example:
        >>> relevant_rows([[4], [0, 2]]).tolist()
        [[0.0, 4.0, 1.0], [1.0, 0.0, 1.0], [1.0, 2.0, 1.0]]
    """
    rows = [(query, document, 1) for query, documents in enumerate(relevant) for document in documents]
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def _mean_metrics(
    scores: Callable[[slice], NDArray[np.floating]],
    shape: tuple[int, int],
    relevance: NDArray[np.floating],
    k: int,
    metrics: Sequence[Metric] | None = None,
) -> dict[str, float]:
    """`graded_metrics`, averaged over Q queries; `scores` gives some rows of `[Q, D]`."""
    queries, documents = shape
    rows, result = max(_BLOCK // documents, 1), []
    order = np.argsort(relevance[:, 0], kind="stable")
    by_query = np.split(relevance[order], np.searchsorted(relevance[order, 0], np.arange(1, queries)))
    for start in range(0, queries, rows):
        for query, row in enumerate(scores(slice(start, start + rows)), start):
            result.append(
                graded_metrics(row, by_query[query][:, 1].astype(np.int64), by_query[query][:, 2], k, metrics)
            )
    return {name: float(np.mean([row[name] for row in result])) for name in result[0]}


def score_beir(
    splits: Splits,
    embed: Embed,
    task: str = "",
    k: int = 10,
    similarity: str = "cosine",
    metrics: Sequence[Metric] = (),
    lexical: bool = True,
) -> list[Score]:
    """Graded retrieval of `datasets.hub_sets`: nDCG@k, recall@k, recall@100, MRR@k, `metrics`, and nDCG@k of BM25.

    Args:
        splits: the splits of the task.
        embed: texts to vectors, `[N] -> [N, d]`.
        task: its name in the scores.
        k: number of documents that are considered.
        similarity: how vectors are compared, by name.
        metrics: further metrics, each with its number of documents.
        lexical: score BM25 too.

    Returns:
        One score per metric.
    """
    queries, corpus = splits["queries"].columns[0], splits["corpus"].columns[0]
    relevance = splits["test"].labels
    scores = ranking_metrics(embed(queries), embed(corpus), relevance, k, similarity, [*_usual(k), *metrics])
    barred = ", less the query itself" if np.isnan(relevance[:, 2]).any() else ""
    note = f"among {len(corpus)} documents{barred}"
    if lexical:
        scores[f"BM25 ndcg@{k}"] = _bm25_ndcg(queries, corpus, relevance, k)
    return [Score(task, "test", name, value, note, len(queries)) for name, value in scores.items()]


def _bm25_ndcg(queries: Sequence[str], corpus: Sequence[str], relevance: NDArray[np.floating], k: int) -> float:
    """The nDCG@k of BM25 over words."""
    counter = CountVectorizer(dtype=np.float32)
    try:
        held = counter.fit_transform(corpus)
    except ValueError:  # no text contains a word
        held, asked = sparse.csr_matrix((len(corpus), 1)), sparse.csr_matrix((len(queries), 1))
    else:
        asked = counter.transform(queries)
    weights = bm25_weights(held, held)
    result = _mean_metrics(lambda part: (asked[part] @ weights.T).toarray(), (len(queries), len(corpus)), relevance, k)
    return result[f"ndcg@{k}"]


def _average_precision(ranked: NDArray[np.floating], ideal: NDArray[np.floating], k: int) -> float:
    places = np.flatnonzero(ranked[:k] > 0)
    return float(((np.arange(len(places)) + 1) / (places + 1)).sum()) / min(k, len(ideal))


def _discounted(gains: NDArray[np.floating], k: int) -> float:
    return float((gains[:k] / np.log2(np.arange(2, len(gains[:k]) + 2))).sum())


#: Metrics by name, from the gains of the ranked documents, those of the relevant ones, highest first, and k
METRICS: dict[str, Callable[[NDArray[np.floating], NDArray[np.floating], int], float]] = {
    "accuracy": lambda ranked, ideal, k: float((ranked[:k] > 0).any()),
    "mrr": lambda ranked, ideal, k: next((1 / rank for rank, gain in enumerate(ranked[:k], 1) if gain > 0), 0.0),
    "precision": lambda ranked, ideal, k: int(np.count_nonzero(ranked[:k])) / k,
    "recall": lambda ranked, ideal, k: int(np.count_nonzero(ranked[:k])) / len(ideal),
    "map": _average_precision,
    "ndcg": lambda ranked, ideal, k: _discounted(ranked, k) / _discounted(ideal, k),
}
Metric = tuple[str, int]  # a name in `METRICS`, and how many documents are considered


def _usual(k: int) -> list[Metric]:
    return [("mrr", k), ("recall", k), ("recall", 100), ("ndcg", k)]


def graded_metrics(
    scores: NDArray[np.floating],
    documents: NDArray[np.int64],
    grades: NDArray[np.floating],
    k: int = 10,
    metrics: Sequence[Metric] | None = None,
) -> dict[str, float]:
    """Metrics, 0 to 1, of one query from the scores of all documents: `mrr@k`, `recall@k`, `recall@100` and `ndcg@k`.

    nDCG has linear gains and the discount log2, as in trec_eval and BEIR.

    Args:
        scores: scores `[D]` of the documents; among equal ones the irrelevant documents rank first.
        documents: numbers `[J]` of the documents with judgements.
        grades: their grades `[J]`, 0 for not relevant, NaN for a document that is not ranked.
        k: how many documents are considered.
        metrics: instead of these four, names in `METRICS`, each with a number of documents.

    Example:
        >>> metrics = graded_metrics(np.array([0.9, 0.8, 0.1, 0.5]), np.array([1, 3]), np.array([1.0, 2.0]), k=3)
        >>> {name: round(value, 3) for name, value in metrics.items()}
        {'mrr@3': 0.5, 'recall@3': 1.0, 'recall@100': 1.0, 'ndcg@3': 0.62}
    """
    metrics = _usual(k) if metrics is None else metrics
    gains = np.zeros(len(scores))
    gains[documents] = np.nan_to_num(np.maximum(grades, 0))
    if (barred := documents[np.isnan(grades)]).size:
        scores = scores.copy()
        scores[barred] = -np.inf
    most = min(max(100, *(k for _, k in metrics)), len(scores))
    near = np.flatnonzero(scores >= np.partition(scores, -most)[-most])  # the best ones, and those that tie with them
    order = near[np.lexsort((gains[near], -scores[near]))][:most]
    ranked, ideal = gains[order], np.sort(gains[gains > 0])[::-1]
    return {f"{name}@{k}": METRICS[name](ranked, ideal, k) for name, k in metrics}


_ANALYZERS: dict[str, dict[str, Any]] = {
    "words": {"stop_words": "english"}, "characters": {"analyzer": "char_wb", "ngram_range": (3, 5)},
}  # fmt: skip


def lexical_scores(
    queries: Sequence[str],
    documents: Sequence[str],
    corpus: Sequence[str],
    analyzers: Sequence[str] = tuple(_ANALYZERS),
) -> dict[str, NDArray[np.floating]]:
    """Scores `[Q, D]` of every document for every query, by the name of the baseline.

    Words are English without stop words, characters are 3- to 5-grams within words. TF-IDF is sublinear and compared
    by cosine; BM25 has Lucene's k1 = 1.2 and b = 0.75 (Robertson and Zaragoza 2009).

    Args:
        queries: Q texts.
        documents: D texts.
        corpus: the texts from which document frequencies and the mean length are computed, such as the training texts.
        analyzers: `words`, `characters`, or both.

    Returns:
        The scores of each baseline, `[Q, D]`.

    Example:
        >>> texts = ["the tide is high", "a river runs to the sea", "tides of the sea"]
        >>> scores = lexical_scores(["high tide"], texts, texts)
        >>> {name: int(row.argmax()) for name, row in scores.items()}  # doctest: +NORMALIZE_WHITESPACE
        {'TF-IDF, words': 0, 'BM25, words': 0, 'TF-IDF, characters': 0, 'BM25, characters': 0}
    """
    result = {}
    for name in analyzers:
        counter = CountVectorizer(dtype=np.float32, **_ANALYZERS[name])
        counts = counter.fit_transform(corpus)
        asked, held = counter.transform(queries), counter.transform(documents)
        weigh = TfidfTransformer(sublinear_tf=True).fit(counts)
        result[f"TF-IDF, {name}"] = np.asarray((weigh.transform(asked) @ weigh.transform(held).T).toarray())
        result[f"BM25, {name}"] = np.asarray((asked @ bm25_weights(held, counts).T).toarray())
    return result


def bm25_weights(
    documents: sparse.spmatrix, corpus: sparse.spmatrix, k1: float = 1.2, b: float = 0.75
) -> sparse.csr_matrix:
    """BM25's weight of each term in each document, sparse `[D, terms]`; a query's score is the sum over its terms.

    Args:
        documents: term counts `[D, terms]`.
        corpus: term counts `[N, terms]` that give the document frequencies and the mean length.
        k1: saturation of repeated terms.
        b: weight of the length normalisation, 0 to 1.

    Returns:
        The weights, sparse `[D, terms]`.

    Example:
        >>> counts = sparse.csr_matrix(np.array([[1.0, 0.0], [1.0, 2.0]]))
        >>> bm25_weights(counts, counts).toarray().round(3).tolist()
        [[0.229, 0.0], [0.151, 0.836]]
    """
    counts = sparse.coo_matrix(documents)
    rows = corpus.shape[0]
    frequency = np.bincount(sparse.coo_matrix(corpus).col, minlength=corpus.shape[1])
    rarity = np.log1p((rows - frequency + 0.5) / (frequency + 0.5))
    lengths = np.bincount(counts.row, counts.data, minlength=counts.shape[0])
    relative = lengths / max(corpus.sum() / rows, 1e-9)
    saturated = counts.data * (k1 + 1) / (counts.data + k1 * (1 - b + b * relative[counts.row]))
    return sparse.csr_matrix((saturated * rarity[counts.col], (counts.row, counts.col)), shape=counts.shape)


def mean_interval(values: NDArray[np.floating], draws: int = 10_000, seed: int = 0) -> tuple[float, float, float]:
    """The mean of `values [N]` and the ends of its 95% interval by bootstrap.

    If the values are differences of two systems by query, an interval above zero means that the first system is better
    on such queries.

    Args:
        values: `[N]`.
        draws: number of bootstrap samples.
        seed: of the samples.

    Returns:
        The mean, and the lower and the upper end of the interval.

    Example:
        >>> mean, low, high = mean_interval(np.array([0.0, 1.0] * 50))
        >>> mean, 0.39 < low < 0.43, 0.57 < high < 0.61
        (0.5, True, True)
        >>> mean_interval(np.array([0.5]))
        (0.5, 0.5, 0.5)
    """
    if len(values) == 1:  # which scipy refuses
        return float(values[0]), float(values[0]), float(values[0])
    options = {"n_resamples": draws, "batch": 1000, "method": "percentile"}
    low, high = bootstrap((values,), np.mean, random_state=np.random.default_rng(seed), **options).confidence_interval
    return float(values.mean()), float(low), float(high)
