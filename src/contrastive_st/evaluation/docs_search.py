"""Tasks on the installed Python documentation, which need no download: search, and the package of a paragraph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastive_st.data import DocPair, installed_docs, split_pairs
from contrastive_st.data.docs_sets import package_of
from contrastive_st.evaluation.datasets.senteval import Rows, Splits
from contrastive_st.evaluation.scorers.probes import score_split
from contrastive_st.evaluation.scorers.retrieval import (
    lexical_scores,
    mean_interval,
    ranks_of_own,
    reciprocal_ranks,
    retrieval_metrics,
)
from contrastive_st.evaluation.suite import retrieval_evaluator
from contrastive_st.evaluation.tasks import Task
from contrastive_st.models import SentenceEncoder

_CLASSES = 4


def package_task(heldout: Sequence[DocPair]) -> Task:
    """A task: predict from which of the four most documented packages a held-out paragraph comes."""
    names = [name for name, _ in Counter(package_of(pair) for pair in heldout).most_common(_CLASSES)]
    chosen = [pair for pair in heldout if package_of(pair) in names]  # in the order of their hashes, which is random
    labels = np.array([names.index(package_of(pair)) for pair in chosen])
    rows = Rows(([pair.text for pair in chosen],), labels)
    half, end = len(chosen) // 2, len(chosen) * 3 // 4
    cuts = {"train": range(half), "dev": range(half, end), "test": range(end, len(chosen))}
    parts = Splits({name: rows.take(np.array(cut)) for name, cut in cuts.items()}, {}, names)
    return Task(
        "package", "docs", lambda _: parts, partial(score_split, task="package"), ("test", "accuracy", "all"),
        "docs", hub=lambda: parts,
    )  # fmt: skip


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

    def evaluator(self, tokenizer: Any) -> Callable[[Any], dict[str, float]]:
        """MRR@10 and recall@10 of the held-out pairs, for the trainer."""
        titles, texts = ([pair[i] for pair in self.heldout] for i in (0, 1))
        return retrieval_evaluator(tokenizer, titles, texts)

    def lexical_ranks(self) -> tuple[str, NDArray[np.int64]]:
        """The best of four lexical baselines on the held-out pairs, by MRR@10, and its ranks `[N]`.

        They are fitted on the training text. The best one is chosen on the held-out pairs, which favours the baseline.
        """
        corpus = [text for pair in self.training for text in (pair.title, pair.text)]
        titles, texts = ([pair[i] for pair in self.heldout] for i in (0, 1))
        scores = lexical_scores(titles, texts, corpus)
        ranks = {name: (item >= item.diagonal()[:, None]).sum(1) for name, item in scores.items()}
        best = max(ranks, key=lambda name: retrieval_metrics(ranks[name])["mrr@10"])
        return best, ranks[best]

    def report(self, before: dict[str, float], encoder: SentenceEncoder) -> str:
        """The table of metrics, with bootstrap intervals, and the answers to three queries, as text.

        Args:
            before: the metrics of the evaluator before training.
            encoder: the trained model.
        """
        result = encoder.encode_query([pair.title for pair in self.heldout], normalize_embeddings=True)
        sought = encoder.encode_document([pair.text for pair in self.heldout], normalize_embeddings=True)
        trained = ranks_of_own(result, sought)
        name, lexical = self.lexical_ranks()
        gain = reciprocal_ranks(trained) - reciprocal_ranks(lexical)
        lines = [
            f"Find the paragraph among {len(self.heldout):,} from its first line; {len(self.training):,} pairs to "
            "train on, of which none is a near copy of those",
            f"{'':22}{'MRR@10':>8}{'recall@10':>11}   95% interval of MRR@10",
            f"{'before training':22}{before['eval_mrr@10']:8.3f}{before['eval_recall@10']:11.3f}",
        ]
        for title, ranks in ((name, lexical), ("trained", trained)):
            mean, low, high = mean_interval(reciprocal_ranks(ranks))
            recall = retrieval_metrics(ranks)["recall@10"]
            lines.append(f"{title:22}{mean:8.3f}{recall:11.3f}   {low:.3f} to {high:.3f}")
        mean, low, high = mean_interval(gain)
        lines.append(f"{'trained - ' + name:22}{mean:+8.3f}{'':11}   {low:+.3f} to {high:+.3f}")
        return "\n".join([*lines, *self.answers(encoder)])

    def answers(self, encoder: SentenceEncoder, each: int = 3) -> list[str]:
        """Lines with the paragraphs nearest to three queries, among all documentation, held out or not."""
        pairs = [*self.training, *self.heldout]
        vectors = encoder.encode_document([pair.text for pair in pairs], normalize_embeddings=True)
        scores = encoder.encode_query(QUERIES, normalize_embeddings=True) @ vectors.T
        lines = []
        for query, row in zip(QUERIES, scores, strict=True):
            lines.append(f"\n{query}")
            lines += [f"  {row[i]:.2f}  {pairs[i].source}: {pairs[i].title}"[:110] for i in np.argsort(-row)[:each]]
        return lines
