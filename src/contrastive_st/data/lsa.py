"""Word vectors of a corpus itself, by latent semantic analysis."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from scipy.sparse import csr_matrix
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
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
    rows = [ids for start in range(0, len(texts), 10_000) for ids in _ids(texts[start : start + 10_000], tokenizer)]
    lengths = [len(ids) for ids in rows]
    counts = csr_matrix(
        (np.ones(sum(lengths)), list(itertools.chain.from_iterable(rows)), np.cumsum([0, *lengths])),
        shape=(len(rows), len(tokenizer)),
    )
    rank = min(size, *counts.shape)
    svd = TruncatedSVD(rank, random_state=0).fit(TfidfTransformer(sublinear_tf=True).fit_transform(counts))
    seen = counts.getnnz(0)[:, None] > 0
    vectors = np.where(seen, svd.components_.T * svd.singular_values_, 0.0)
    return functional.pad(functional.normalize(torch.from_numpy(vectors), dim=1).float(), (0, size - rank))


def _ids(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    return tokenizer(list(texts), truncation=True, add_special_tokens=False)["input_ids"]
