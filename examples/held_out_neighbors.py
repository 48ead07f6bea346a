"""Whether an encoder finds the neighbour of a sentence in documents that it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from contrastive_st.evaluation.scorers.retrieval import mean_interval, ranks_of_own
from contrastive_st.models import SentenceEncoder
from contrastive_st.tokens import token_ids


class HeldOutNeighbors:
    """An evaluator for `ContrastiveTrainer`: MRR of the next sentence among the next sentences of all pairs.

    It remembers the reciprocal ranks of each query at its first and its last call, for `report`.

    Args:
        tokenizer: that of the encoder.
        pairs: N pairs of a sentence and the next one, of held-out documents.
        frequencies: `[V]`, in how many of the training sentences each token occurs, for TF-IDF.
        sentences: number of training sentences.
    """

    def __init__(
        self, tokenizer: Any, pairs: Sequence[tuple[str, str]], frequencies: NDArray[np.integer], sentences: int
    ) -> None:
        self.tokenizer, self.pairs = tokenizer, pairs
        self.idf = (np.log((1 + sentences) / (1 + frequencies)) + 1).astype(np.float32)  # as in scikit-learn
        self.found: list[NDArray[np.float64]] = []

    def __call__(self, model: Any) -> dict[str, float]:
        encoder = SentenceEncoder(model, self.tokenizer)
        first, second = (encoder.encode([pair[i] for pair in self.pairs], normalize_embeddings=True) for i in (0, 1))
        self.found = [*self.found[:1], 1 / ranks_of_own(first, second)]
        return {"neighbors_mrr": float(self.found[-1].mean())}

    def tfidf(self) -> NDArray[np.float64]:
        """The reciprocal rank of each query by the cosine of TF-IDF vectors, of all tokens of the vocabulary."""
        sides = [tfidf_vectors(token_ids(self.tokenizer, [pair[i] for pair in self.pairs]), self.idf) for i in (0, 1)]
        scores = (sides[0] @ sides[1].T).toarray()
        ranks: NDArray[np.float64] = (scores >= scores.diagonal()[:, None]).sum(1)  # as `ranks_of_own`
        return 1 / ranks

    def report(self) -> str:
        """A table of TF-IDF, the encoder before and after training, with 95% intervals; then the two differences."""
        before, after, lexical = self.found[0], self.found[-1], self.tfidf()
        named = {"TF-IDF": lexical, "before training": before, "trained": after,
                 "trained - TF-IDF": after - lexical, "trained - before": after - before}  # fmt: skip
        lines = [f"MRR of the next sentence among {len(self.pairs):,}, in documents held out (95% interval)"]
        for name, values in named.items():
            mean, low, high = mean_interval(values, draws=2000)
            lines.append(f"  {name:18}{mean:8.3f}  [{low:.3f}, {high:.3f}]")
        return "\n".join(lines)


def tfidf_vectors(rows: Sequence[Sequence[int]], idf: NDArray[np.floating]) -> Any:
    """Unit TF-IDF vectors of texts as token ids, a sparse matrix `[n, V]`.

    Example:
        >>> tfidf_vectors([[0, 0, 1], []], np.array([2.0, 3.0])).toarray().round(3).tolist()
        [[0.8, 0.6], [0.0, 0.0]]
    """
    lengths = np.array([len(row) for row in rows], np.int64)
    ids = np.array([token for row in rows for token in row], np.int64)
    counts = sparse.csr_matrix((idf[ids], ids, np.concatenate([[0], np.cumsum(lengths)])), (len(rows), len(idf)))
    counts.sum_duplicates()
    norms = np.sqrt(np.asarray(counts.multiply(counts).sum(1)).ravel())
    return sparse.diags(1 / np.maximum(norms, 1e-12)) @ counts
