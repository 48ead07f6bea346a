"""The embedded default: search the documentation of the installed Python packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset
from sklearn.feature_extraction.text import TfidfVectorizer

from contrastive_st.data import DocPair, installed_docs, split_pairs
from contrastive_st.evaluation.retrieval import ranks_of_own, retrieval_metrics
from contrastive_st.models import SentenceEncoder

QUERIES = ("pad a batch of sequences to the same length", "read a csv file into a table", "multiply two matrices")


@dataclass
class DocsSearch:
    """Find a docstring's paragraph from its first line: pairs to train on, and a thousand held out."""

    training: Sequence[DocPair]
    heldout: Sequence[DocPair]

    @classmethod
    def load(cls, heldout: int = 1000) -> DocsSearch:
        """Read the docstrings of this environment (cached) and split them by a hash of the text."""
        return cls(*split_pairs(installed_docs(), heldout))

    def training_texts(self) -> Dataset:
        """Two columns: first line, paragraph."""
        return Dataset.from_dict(
            {"title": [pair.title for pair in self.training], "text": [pair.text for pair in self.training]}
        )

    def evaluator(self, tokenizer: Any) -> Callable[[Any], dict[str, float]]:
        """MRR@10 and recall@10 of the held-out pairs, for the trainer."""

        def evaluate(model: Any) -> dict[str, float]:
            encoder = SentenceEncoder(model, tokenizer)
            queries = encoder.encode([pair.title for pair in self.heldout], normalize=True)
            return retrieval_metrics(ranks_of_own(queries, self._documents(encoder)))

        return evaluate

    def tfidf(self) -> dict[str, float]:
        """The same figures for TF-IDF fitted on the training text."""
        vectorizer = TfidfVectorizer(sublinear_tf=True, stop_words="english")
        vectorizer.fit(text for pair in self.training for text in (pair.title, pair.text))
        queries, documents = (vectorizer.transform([pair[i] for pair in self.heldout]).toarray() for i in (0, 1))
        return retrieval_metrics(ranks_of_own(queries, documents))

    def report(self, before: dict[str, float], after: dict[str, float], encoder: SentenceEncoder) -> str:
        """The table of figures and the answers to three queries, as text."""
        lines = [
            f"Find the paragraph among {len(self.heldout):,} from its first line; {len(self.training):,} trained on"
        ]
        lines.append(f"{'':12}{'MRR@10':>10}{'recall@10':>12}")
        for name, figures, prefix in (
            ("untrained", before, "eval_"),
            ("TF-IDF", self.tfidf(), ""),
            ("trained", after, "eval_"),
        ):
            lines.append(f"{name:12}{figures[prefix + 'mrr@10']:>10.3f}{figures[prefix + 'recall@10']:>12.3f}")
        scores = encoder.encode(QUERIES, normalize=True) @ self._documents(encoder).T
        for query, row in zip(QUERIES, scores, strict=True):
            lines.append(f"\n{query}")
            for i in np.argsort(-row)[:3]:
                lines.append(f"  {row[i]:.2f}  {self.heldout[i].source}: {self.heldout[i].title}"[:110])
        return "\n".join(lines)

    def _documents(self, encoder: SentenceEncoder) -> Any:
        return encoder.encode([pair.text for pair in self.heldout], normalize=True)
