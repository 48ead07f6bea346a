"""Co-occurrences, PPMI and SIF against plain loops; vectors of a corpus against what they are for."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from contrastive_st.data import cooccurrence, corpus_word_vectors, sif_weights, word_counts
from contrastive_st.errors import InputError

VOCABULARY = 12


def sentences(count=40, seed=0):
    random = np.random.default_rng(seed)
    return [random.integers(0, VOCABULARY, random.integers(0, 9)).tolist() for _ in range(count)]


def loop_cooccurrences(rows, window):
    pairs = Counter()
    for row in rows:
        for i, a in enumerate(row):
            for j, b in enumerate(row):
                if i != j and abs(i - j) <= window and a > 1 and b > 1:
                    pairs[a, b] += 1
    return pairs


@pytest.mark.parametrize("window", [1, 3, 100])
@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_pairs_are_those_of_a_plain_loop(monkeypatch, window, chunk):
    monkeypatch.setattr(cooccurrence, "_CHUNK", chunk)
    rows = sentences()
    found, expected = cooccurrence.cooccurrences(iter(rows), VOCABULARY, window), loop_cooccurrences(rows, window)
    assert {(a, b): n for a, b, n in zip(*found.nonzero(), found.data, strict=True)} == expected


@pytest.mark.parametrize("smoothing", [1.0, 0.75])
def test_ppmi_is_its_formula(smoothing):
    pairs = loop_cooccurrences(sentences(), 2)
    dense = np.zeros((VOCABULARY, VOCABULARY))
    for (a, b), count in pairs.items():
        dense[a, b] = count
    of_context = dense.sum(0) ** smoothing
    expected = np.zeros_like(dense)
    for (a, b), count in pairs.items():
        expected[a, b] = max(0.0, math.log(count / dense[a].sum() / (of_context[b] / of_context.sum())))
    np.testing.assert_allclose(cooccurrence.ppmi(csr_array(dense), smoothing).toarray(), expected, atol=1e-6)


def test_sif_weights_are_of_normalized_frequencies():
    rows = sentences()
    counts = Counter(word for row in rows for word in row)
    total = sum(counts.values())
    found = word_counts(iter(rows), VOCABULARY)
    assert found.tolist() == [counts[word] for word in range(VOCABULARY)]
    expected = [0.01 / (0.01 + counts[word] / total) for word in range(VOCABULARY)]
    np.testing.assert_allclose(sif_weights(found, 0.01), expected, rtol=1e-6)
    np.testing.assert_allclose(sif_weights(1000 * found, 0.01), expected, rtol=1e-6)  # the corpus may be larger


def topics(seed=0):
    """Sentences about one of two topics: words 2-6 or 7-11, none of both."""
    random = np.random.default_rng(seed)
    return [(random.integers(2, 7, 6) + 5 * (i % 2)).tolist() for i in range(300)]


def test_words_of_the_same_sentences_are_near_each_other():
    vectors = corpus_word_vectors(topics(), VOCABULARY + 2, 4, seed=0)
    assert torch.equal(vectors, corpus_word_vectors(iter(topics()), VOCABULARY + 2, 4, seed=0))
    cosines = vectors[2:12] @ vectors[2:12].T
    same = torch.arange(10)[:, None] // 5 == torch.arange(10) // 5
    assert cosines[same].min() > cosines[~same].max()
    torch.testing.assert_close(vectors[2:12].norm(dim=1), torch.ones(10))
    assert not vectors[0].any()
    torch.testing.assert_close(vectors[[1, 12, 13]], vectors[2:12].mean(0).expand(3, -1))  # unknown, never seen


def test_more_dimensions_than_words_are_zero():
    vectors = corpus_word_vectors(topics(), VOCABULARY, 20)
    assert vectors.shape == (VOCABULARY, 20)
    assert not vectors[:, VOCABULARY:].any()


def test_a_corpus_of_single_words_has_no_vectors():
    with pytest.raises(InputError, match="two words"):
        corpus_word_vectors([[2], [3], [1, 4]], 5, 2)
