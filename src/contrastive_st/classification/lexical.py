"""Words and pairs of words in addition to the vector of a text: what a small encoder does not tell apart."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contrastive_st.classification.heads import Features
from contrastive_st.vectors import unit_vectors

_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass
class Terms:
    """TF-IDF of words and pairs of words, `(1 + ln tf) (1 + ln((1 + N) / (1 + df)))`, scaled to unit length.

    Args:
        names: the W terms, those of two texts or more.
        idf: `[W]`.

    Example:
        >>> terms = Terms.of(["a good film", "a bad film", "a good day"])
        >>> terms.names
        ['a', 'a good', 'film', 'good']
        >>> [round(float(weight), 2) for weight in terms.weigh("a good day")[1]]
        [0.48, 0.62, 0.62]
    """

    names: list[str]
    idf: NDArray[np.float64]

    def __post_init__(self) -> None:
        self.places = {name: i for i, name in enumerate(self.names)}

    @classmethod
    def of(cls, texts: Sequence[str]) -> Terms:
        """The terms of texts."""
        result = Counter(term for text in texts for term in set(_terms(text)))
        names = sorted(term for term, count in result.items() if count > 1)
        counts = np.array([result[name] for name in names], np.float64)
        return cls(names, np.log((1 + len(texts)) / (1 + counts)) + 1)

    def weigh(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The numbers of the terms of a text, and their weights."""
        counts = Counter(self.places[term] for term in _terms(text) if term in self.places)
        columns = np.array(sorted(counts), np.int64)
        weights = (1 + np.log([float(counts[column]) for column in columns])) * self.idf[columns]
        return columns, weights / max(float(np.linalg.norm(weights)), 1e-12)

    def joined(self, x: NDArray[np.floating], texts: Sequence[str]) -> Features:
        """Unit vectors `[N, d]` and the weights of the terms, as one sparse matrix `[N, d + W]`."""
        from scipy.sparse import csr_array, hstack

        rows = [self.weigh(text) for text in texts]
        columns, weights = (np.concatenate([row[i] for row in rows]) for i in (0, 1))
        starts = np.cumsum([0, *(len(row[0]) for row in rows)])
        shape = len(texts), len(self.names)
        return hstack([csr_array(unit_vectors(x, np.float64)), csr_array((weights, columns, starts), shape)], "csr")


@dataclass(frozen=True)
class LexicalHead:
    """The part of the logits that terms have.

    Args:
        terms: the W terms.
        weights: `[K, W]`, a row for each class.
    """

    terms: Terms
    weights: NDArray[np.floating]

    def logits(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """`[N, K]`, to be added to those of the vectors."""
        rows = [self.terms.weigh(text) for text in texts]
        result = [self.weights[:, columns] @ weights for columns, weights in rows]
        return np.array(result, np.float64).reshape(len(texts), len(self.weights))


def _terms(text: str) -> list[str]:
    words = _WORD.findall(text.lower())
    return words + [f"{one} {other}" for one, other in itertools.pairwise(words)]
