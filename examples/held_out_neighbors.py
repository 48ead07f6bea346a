"""Whether an encoder finds the neighbour of a sentence in documents that it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer

from contrastive_st.evaluation.scorers.retrieval import mean_interval
from contrastive_st.models import SentenceEncoder

#: Baselines without training, and how scikit-learn cuts a text for them
TFIDF: dict[str, dict[str, Any]] = {
    "TF-IDF of words": {"token_pattern": r"(?u)\w+"},
    "TF-IDF of characters": {"analyzer": "char_wb", "ngram_range": (3, 5)},
}


def reciprocal_ranks(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Of each query, with the scores of all documents, that of its own, which is in its place; NaN is worst.

    Args:
        scores: `[N, N]`.

    Returns:
        `[N]`.
    """
    ranks: NDArray[np.float64] = (~(scores < scores.diagonal()[:, None])).sum(1)
    return 1 / ranks


class HeldOutNeighbors:
    """An evaluator for `ContrastiveTrainer`: MRR of the next sentence among the next sentences of all pairs.

    It remembers the reciprocal ranks of each query at its first and its last call, for `report`.

    Args:
        tokenizer: that of the encoder.
        pairs: N pairs of a sentence and the next one, of held-out documents.
        texts: training sentences, to which the IDF of the baselines is fitted.
    """

    def __init__(self, tokenizer: Any, pairs: Sequence[tuple[str, str]], texts: Sequence[str]) -> None:
        self.tokenizer, self.pairs, self.texts = tokenizer, pairs, texts
        self.found: list[NDArray[np.float64]] = []

    def __call__(self, model: Any) -> dict[str, float]:
        """The metric `neighbors_mrr` of a model."""
        encoder = SentenceEncoder(model, self.tokenizer)
        first, second = (encoder.encode([pair[i] for pair in self.pairs], normalize_embeddings=True) for i in (0, 1))
        self.found = [*self.found[:1], reciprocal_ranks(first @ second.T)]
        return {"neighbors_mrr": float(self.found[-1].mean())}

    def tfidf(self, name: str) -> NDArray[np.float64]:
        """The reciprocal rank of each query by the cosine of TF-IDF vectors, of all terms of the pairs."""
        model = TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **TFIDF[name])
        model.set_params(vocabulary=model.fit([text for pair in self.pairs for text in pair]).vocabulary_)
        model.fit(self.texts)
        first, second = (model.transform([pair[i] for pair in self.pairs]) for i in (0, 1))
        return reciprocal_ranks((first @ second.T).toarray())

    def report(self) -> str:
        """A table of the baselines and of the encoder before and after training, with 95% intervals; the verdict."""
        lexical = {name: self.tfidf(name) for name in TFIDF}
        before, after = self.found[0], self.found[-1]
        named = {**lexical, "before training": before, "trained": after}
        best = max(lexical, key=lambda name: float(lexical[name].mean()))
        named |= {f"trained - {best}": after - lexical[best], "trained - before": after - before}
        width = max(map(len, named)) + 2
        lines = [f"MRR of the next sentence among {len(self.pairs):,}, in documents held out (95% interval)"]
        intervals = {name: mean_interval(values, draws=2000) for name, values in named.items()}
        lines += [f"  {name:{width}}{mean:8.3f}  [{low:.3f}, {high:.3f}]"
                  for name, (mean, low, high) in intervals.items()]  # fmt: skip
        _, low, high = intervals[f"trained - {best}"]
        if low <= 0:
            how = "is below" if high < 0 else "is not above"
            lines.append(f"The encoder {how} {best}, which needs no training: search with that, or train on more text.")
        return "\n".join(lines)
