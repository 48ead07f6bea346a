"""BM25, TF-IDF and the bootstrap interval against their definitions, in plain loops."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from contrastive_st.evaluation.scorers.retrieval import bm25_weights, lexical_scores, mean_interval

CORPUS = [
    "the tide rises twice a day", "tides follow the moon", "a river runs to the sea", "the moon pulls the sea",
    "a gauge reads the level of the river", "levels of tide gauges", "day and night",
]  # fmt: skip
QUERIES = ["tide gauge level", "moon and sea", "nothing of this"]


def bm25(query, document, corpus, k1=1.2, b=0.75):
    rows = [text.split() for text in corpus]
    mean = sum(map(len, rows)) / len(rows)
    held, score = Counter(document.split()), 0.0
    for term in query.split():
        frequency = sum(term in row for row in rows)
        rarity = math.log(1 + (len(rows) - frequency + 0.5) / (frequency + 0.5))
        length = sum(held.values()) / mean
        score += rarity * held[term] * (k1 + 1) / (held[term] + k1 * (1 - b + b * length)) if frequency else 0.0
    return score


def test_bm25_is_its_formula():
    words = sorted({word for text in CORPUS for word in text.split()})
    count = lambda texts: sparse.csr_matrix(np.array([[text.split().count(word) for word in words] for text in texts]))
    asked, held = count(QUERIES), count(CORPUS[:4])
    found = (asked @ bm25_weights(held, count(CORPUS)).T).toarray()
    wanted = [[bm25(query, document, CORPUS) for document in CORPUS[:4]] for query in QUERIES]
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert found[2].tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("name", "options"),
    [("words", {"stop_words": "english"}), ("characters", {"analyzer": "char_wb", "ngram_range": (3, 5)})],
)
def test_tf_idf_is_scikit_learns(name, options):
    vectorizer = TfidfVectorizer(sublinear_tf=True, **options).fit(CORPUS)
    wanted = (vectorizer.transform(QUERIES) @ vectorizer.transform(CORPUS[2:]).T).toarray()
    found = lexical_scores(QUERIES, CORPUS[2:], CORPUS)
    assert len(found) == 4
    np.testing.assert_allclose(found[f"TF-IDF, {name}"], wanted, atol=1e-6)


def test_the_interval_is_that_of_a_mean():
    """Against the normal approximation, on as many values as it is good for."""
    values = np.random.default_rng(1).exponential(size=2000)
    mean, low, high = mean_interval(values)
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert mean == pytest.approx(values.mean())
    assert (low, high) == pytest.approx((mean - half, mean + half), abs=0.1 * half)
    assert mean_interval(values) == (mean, low, high)
    assert mean_interval(np.ones(5)) == (1.0, 1.0, 1.0)
