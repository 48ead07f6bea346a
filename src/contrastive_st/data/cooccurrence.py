"""Word vectors and word weights of a corpus: PPMI with a truncated SVD, and SIF; both streamed, without labels."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from contrastive_st.data.tokenizers import PAD_ID, UNK_ID
from contrastive_st.errors import InputError
from contrastive_st.prefetch import in_chunks
from contrastive_st.vectors import unit_vectors

_CHUNK = 20_000  # sentences counted at a time


def word_counts(sentences: Iterable[Sequence[int]], vocabulary: int) -> NDArray[np.int64]:
    """How often each token id occurs in the sentences, `[vocabulary]`.

    Example:
        >>> word_counts([[2, 3, 3], [3]], 5).tolist()
        [0, 0, 1, 3, 0]
    """
    counts = np.zeros(vocabulary, np.int64)
    for ids, _ in _chunks(sentences):
        counts += np.bincount(ids, minlength=vocabulary)
    return counts


def sif_weights(counts: NDArray[np.int64], a: float = 1e-3) -> NDArray[np.float32]:
    """Smooth inverse frequency, `a / (a + p(w))` with `p` the word's share of all words (Arora et al. 2017).

    Frequent words have weights near 0, rare ones near 1. (https://openreview.net/forum?id=SyK00v5xx)

    Example:
        >>> sif_weights(np.array([1, 0, 999])).astype(float).round(4).tolist()
        [0.5, 1.0, 0.001]
    """
    weights: NDArray[np.float32] = (a / (a + counts / max(counts.sum(), 1))).astype(np.float32)
    return weights


def cooccurrences(sentences: Iterable[Sequence[int]], vocabulary: int, window: int = 5) -> csr_array:
    """How often two words are at most `window` words apart in a sentence, `[vocabulary, vocabulary]`, symmetric.

    Padding and the unknown word keep their place in the sentence, and are not counted. Memory is that of the pairs
    that occur, whatever the size of the corpus.

    Example:
        >>> cooccurrences([[2, 3, 4], [2, 3]], 5, window=1).toarray().astype(int).tolist()
        [[0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 2, 0], [0, 0, 2, 0, 1], [0, 0, 0, 1, 0]]
    """
    total = csr_array((vocabulary, vocabulary), dtype=np.float32)
    for ids, sentence in _chunks(sentences):
        pairs = []
        for distance in range(1, min(window, len(ids) - 1) + 1):
            a, b = ids[:-distance], ids[distance:]
            kept = (sentence[:-distance] == sentence[distance:]) & ~np.isin(a, _NO_WORDS) & ~np.isin(b, _NO_WORDS)
            pairs.append(a[kept] * vocabulary + b[kept])
        cells, counts = np.unique(np.concatenate([*pairs, np.zeros(0, np.int64)]), return_counts=True)
        where = np.divmod(cells, vocabulary)
        total = total + csr_array((counts.astype(np.float32), where), shape=total.shape)
    return total + total.T


def ppmi(counts: csr_array, smoothing: float = 0.75) -> csr_array:
    """Positive pointwise mutual information, `max(0, log(n_wc N / (n_w n_c)))`, with smoothed context frequencies.

    `n_c` is raised to the power `smoothing`, and N is the sum of these powers (Levy, Goldberg and Dagan 2015,
    https://aclanthology.org/Q15-1016): without that, rare contexts have the highest values.

    Args:
        counts: `[V, V]`, how often each two words occur together.
        smoothing: 1 for none.

    Example:
        >>> counts = csr_array(np.array([[0.0, 2.0], [2.0, 4.0]]))
        >>> ppmi(counts, smoothing=1.0).toarray().astype(float).round(3).tolist()  # log(2 * 8 / (2 * 6)), else 0
        [[0.0, 0.288], [0.288, 0.0]]
    """
    of_word, of_context = (np.asarray(counts.sum(axis), np.float64).ravel() for axis in (1, 0))
    of_context = of_context**smoothing
    cells = counts.tocoo()
    row, column = cells.row, cells.col
    result = np.log(cells.data * of_context.sum() / (of_word[row] * of_context[column]))
    positive = result > 0
    values = result[positive].astype(np.float32)
    return csr_array((values, (row[positive], column[positive])), shape=counts.shape)


def corpus_word_vectors(
    sentences: Iterable[Sequence[int]], vocabulary: int, size: int, window: int = 5, seed: int = 0
) -> Tensor:
    """Word vectors of a corpus: the PPMI of words in a window, reduced by a truncated SVD (Levy and Goldberg 2014).

    They are the left singular vectors times the roots of the singular values, with each row scaled to unit length, and
    can take the place of GloVe vectors where only the training text is there. Padding has a zero vector; the unknown
    word, and words without a neighbour in the corpus, have the mean of the others.

    Args:
        sentences: token ids of each sentence; read once.
        vocabulary: number of token ids.
        size: dimension of the vectors; dimensions beyond the number of words are zero.
        window: how far apart two words of a sentence may be.
        seed: of the randomized SVD.

    Returns:
        `[vocabulary, size]`, float32.

    Raises:
        InputError: no sentence has two words of the vocabulary.

    Example:
        >>> vectors = corpus_word_vectors([[2, 4], [3, 4], [2, 5], [3, 5]], 6, size=2)
        >>> bool(torch.allclose(vectors[2], vectors[3], atol=1e-5))  # the two occur in the same places
        True
    """
    matrix = ppmi(cooccurrences(sentences, vocabulary, window))
    if not matrix.nnz:
        raise InputError("no sentence of the corpus has two words of the vocabulary, so words have no vectors")
    rank = min(size, vocabulary)
    left, singular, _ = randomized_svd(matrix, rank, random_state=seed)
    vectors = unit_vectors(left * np.sqrt(singular))
    seen = np.diff(matrix.indptr) > 0
    vectors[~seen] = vectors[seen].mean(0)
    vectors[PAD_ID] = 0
    return torch.nn.functional.pad(torch.from_numpy(vectors).float(), (0, size - rank))


_NO_WORDS = (PAD_ID, UNK_ID)


def _chunks(sentences: Iterable[Sequence[int]]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The ids of some sentences at a time, one after the other, and the number of the sentence of each."""
    for some in in_chunks(sentences, _CHUNK):
        ids = np.fromiter(itertools.chain.from_iterable(some), np.int64)
        yield ids, np.repeat(np.arange(len(some)), [len(sentence) for sentence in some])
