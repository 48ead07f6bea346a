"""Word vectors of a corpus itself, by latent semantic analysis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from torch.nn import functional
from transformers import PreTrainedTokenizerBase


def lsa_word_vectors(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, size: int) -> torch.Tensor:
    """Vectors of a tokenizer's words from the texts that they stand in: words of the same texts are near each other.

    The right singular vectors of the TF-IDF matrix, times the singular values (latent semantic analysis, Deerwester et
    al. 1990), each row then of length one. Words that are in no text have zeros.

    Args:
        texts: N of them; hundreds at least.
        tokenizer: whose ids are the rows.
        size: the width of a vector; where there are fewer texts or words, the rest of it is zeros.

    Returns:
        `[len(tokenizer), size]`, float32.
    """
    tfidf = TfidfVectorizer(analyzer=tokenizer.tokenize, vocabulary=tokenizer.get_vocab(), sublinear_tf=True)
    weights = tfidf.fit_transform(texts)
    rank = min(size, *weights.shape)
    svd = TruncatedSVD(rank, random_state=0).fit(weights)
    seen = weights.getnnz(0)[:, None] > 0
    vectors = np.where(seen, svd.components_.T * svd.singular_values_, 0.0)
    return functional.pad(functional.normalize(torch.from_numpy(vectors), dim=1).float(), (0, size - rank))
