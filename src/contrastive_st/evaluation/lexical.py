"""What an encoder has to beat: BM25 and TF-IDF, over words and over the characters of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

_ANALYZERS: dict[str, dict[str, Any]] = {
    "words": {"stop_words": "english"}, "characters": {"analyzer": "char_wb", "ngram_range": (3, 5)},
}  # fmt: skip


def lexical_scores(
    queries: Sequence[str], documents: Sequence[str], corpus: Sequence[str]
) -> dict[str, NDArray[np.floating]]:
    """Scores `[Q, D]` of every document for every query, by the name of the baseline.

    Words are English without stop words, characters are 3- to 5-grams within words. TF-IDF is sublinear and compared
    by cosine; BM25 has Lucene's k1 = 1.2 and b = 0.75 (Robertson and Zaragoza 2009).

    Args:
        queries: Q texts.
        documents: D texts.
        corpus: the texts that document frequencies and the mean length are of, such as the training texts.

    Example:
        >>> texts = ["the tide is high", "a river runs to the sea", "tides of the sea"]
        >>> scores = lexical_scores(["high tide"], texts, texts)
        >>> {name: int(own.argmax()) for name, own in scores.items()}  # doctest: +NORMALIZE_WHITESPACE
        {'TF-IDF, words': 0, 'BM25, words': 0, 'TF-IDF, characters': 0, 'BM25, characters': 0}
    """
    found = {}
    for name, analyzer in _ANALYZERS.items():
        counter = CountVectorizer(dtype=np.float32, **analyzer)
        counts = counter.fit_transform(corpus)
        asked, held = counter.transform(queries), counter.transform(documents)
        weigh = TfidfTransformer(sublinear_tf=True).fit(counts)
        found[f"TF-IDF, {name}"] = np.asarray((weigh.transform(asked) @ weigh.transform(held).T).toarray())
        found[f"BM25, {name}"] = np.asarray((asked @ bm25_weights(held, counts).T).toarray())
    return found


def bm25_weights(documents: Any, corpus: Any, k1: float = 1.2, b: float = 0.75) -> Any:
    """BM25's weight of each term in each document, sparse `[D, terms]`; a query's score is the sum over its terms.

    Args:
        documents: term counts `[D, terms]`.
        corpus: term counts `[N, terms]` that give the document frequencies and the mean length.
        k1: where repeated terms stop to count.
        b: how much length counts, 0 to 1.

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

    With differences of two systems, query by query, an interval above zero says that the first is better on
    such queries.

    Example:
        >>> mean, low, high = mean_interval(np.array([0.0, 1.0] * 50))
        >>> mean, 0.39 < low < 0.43, 0.57 < high < 0.61
        (0.5, True, True)
    """
    rng = np.random.default_rng(seed)
    means = [values[rng.integers(len(values), size=len(values))].mean() for _ in range(draws)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(values.mean()), float(low), float(high)
