"""Finding the family of a sequence among held-out ones: by an encoder of k-mers, or by counting them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer

from contrastive_st.data.sequences import reading_frames
from contrastive_st.evaluation.scorers.retrieval import ranking_metrics, relevant_rows
from contrastive_st.models import SentenceEncoder

Embed = Callable[[Sequence[str]], NDArray[np.floating]]


def find_families(embed: Embed, families: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Metrics of finding the rest of each family among all sequences, with its first member as the query.

    Args:
        embed: vectors `[N, d]` of N sequences.
        families: sequences by family, two or more each.

    Returns:
        MRR, recall and nDCG at 10, as `ranking_metrics`.
    """
    queries = [members[0] for members in families.values()]
    documents = [sequence for members in families.values() for sequence in members[1:]]
    sizes = np.cumsum([0, *(len(members) - 1 for members in families.values())])
    judged = relevant_rows(range(start, end) for start, end in itertools.pairwise(sizes))
    return ranking_metrics(embed(queries), embed(documents), judged)


def mean_over_frames(encoder: SentenceEncoder, sequences: Sequence[str], k: int) -> NDArray[np.floating]:
    """The mean of the unit embeddings of the k reading frames, `[N, d]`."""
    frames = [reading_frames(sequence, k) for sequence in sequences]
    mean: NDArray[np.floating] = np.mean(
        [encoder.encode(list(texts), normalize_embeddings=True) for texts in zip(*frames, strict=True)], axis=0
    )
    return mean


def kmer_counting(sequences: Sequence[str], k: int) -> Embed:
    """The baseline: TF-IDF of overlapping k-mers, fitted on `sequences`; returns a function that embeds others."""
    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(k, k), lowercase=False, max_features=20_000)
    vectorizer.fit(sequences)
    return lambda given: vectorizer.transform(given).toarray().astype(np.float32)
