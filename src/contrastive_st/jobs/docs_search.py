"""The embedded default: search the documentation of the installed Python packages."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from sklearn.feature_extraction.text import TfidfVectorizer

from contrastive_st.data import DocPair, installed_docs, split_pairs
from contrastive_st.evaluation import retrieval_evaluator
from contrastive_st.evaluation.datasets.senteval import Rows, Splits
from contrastive_st.evaluation.scorers.probes import score_split
from contrastive_st.evaluation.scorers.retrieval import ranks_of_own, retrieval_metrics
from contrastive_st.evaluation.tasks import Task
from contrastive_st.models import SentenceEncoder

# --- The embedded corpus in order: sentences of the installed Python documentation, module by module.

HELDOUT, CLASSES = 4000, 4
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


def write_docs_corpus(path: str | Path) -> list[DocPair]:
    """Write the corpus, a sentence a line and a blank line after each module or class; returns the held-out pairs.

    The docstrings of one module or class are one document, in the order of its source.
    """
    pairs, heldout = split_pairs(installed_docs(), HELDOUT)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    with open(unfinished, "w", encoding="utf-8") as file:
        for _, documents in groupby(pairs, key=lambda pair: pair.source.rpartition(".")[0]):
            for pair in documents:
                for sentence in (pair.title, *_SENTENCE_END.split(pair.text)):
                    file.write(" ".join(sentence.split()) + "\n")
            file.write("\n")
    unfinished.replace(path)
    return heldout


def package_task(heldout: Sequence[DocPair]) -> Task:
    """Tell from a held-out paragraph which of the four most documented packages it comes from."""
    names = [name for name, _ in Counter(_package(pair) for pair in heldout).most_common(CLASSES)]
    chosen = [pair for pair in heldout if _package(pair) in names]  # in the order of their hashes: at random
    gold = np.array([names.index(_package(pair)) for pair in chosen])
    rows = Rows(([pair.text for pair in chosen],), gold)
    half, end = len(chosen) // 2, len(chosen) * 3 // 4
    cuts = {"train": range(half), "dev": range(half, end), "test": range(end, len(chosen))}
    parts = Splits({name: rows.take(np.array(cut)) for name, cut in cuts.items()}, {}, names)
    return Task(
        "package", "docs", lambda _: parts, partial(score_split, task="package"), ("test", "accuracy", "all"),
        "docs", hub=lambda: parts,
    )  # fmt: skip


def _package(pair: DocPair) -> str:
    return pair.source.partition(".")[0]


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
        return retrieval_evaluator(
            tokenizer, [pair.title for pair in self.heldout], [pair.text for pair in self.heldout]
        )

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
        scores = encoder.encode(QUERIES, normalize_embeddings=True) @ self._documents(encoder).T
        for query, row in zip(QUERIES, scores, strict=True):
            lines.append(f"\n{query}")
            for i in np.argsort(-row)[:3]:
                lines.append(f"  {row[i]:.2f}  {self.heldout[i].source}: {self.heldout[i].title}"[:110])
        return "\n".join(lines)

    def _documents(self, encoder: SentenceEncoder) -> Any:
        return encoder.encode([pair.text for pair in self.heldout], normalize_embeddings=True)
