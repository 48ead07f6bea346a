"""Tasks on the installed Python documentation, which need no download: search, and the package of a paragraph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch import nn
from transformers import PreTrainedTokenizerBase

from contrastive_st.data import DocPair, installed_docs, split_pairs
from contrastive_st.data.docs_sets import package_of
from contrastive_st.evaluation.datasets.senteval import Rows, Splits
from contrastive_st.evaluation.scorers.probes import score_split
from contrastive_st.evaluation.suite import retrieval_evaluator
from contrastive_st.evaluation.tasks import Task, own_task

_CLASSES = 4


def package_task(heldout: Sequence[DocPair]) -> Task:
    """A task: predict from which of the four most documented packages a held-out paragraph comes."""
    names = [name for name, _ in Counter(package_of(pair) for pair in heldout).most_common(_CLASSES)]
    chosen = [pair for pair in heldout if package_of(pair) in names]  # in the order of their hashes, which is random
    labels = np.array([names.index(package_of(pair)) for pair in chosen])
    rows = Rows(([pair.text for pair in chosen],), labels)
    half, end = len(chosen) // 2, len(chosen) * 3 // 4
    cuts = {"train": range(half), "dev": range(half, end), "test": range(end, len(chosen))}
    parts = Splits({name: rows.take(np.array(cut)) for name, cut in cuts.items()})
    return own_task("package", "docs", lambda: parts, score_split, "accuracy")


@dataclass
class DocsSearch:
    """Find a docstring's paragraph from its first line: pairs to train on, and a thousand held out."""

    training: Sequence[DocPair]
    heldout: Sequence[DocPair]

    @classmethod
    def load(cls, heldout: int = 1000) -> DocsSearch:
        """Read the docstrings of this environment (cached) and split them by a hash of the text."""
        return cls(*split_pairs(installed_docs(), heldout))

    def evaluator(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[nn.Module], dict[str, float]]:
        """MRR@10 and recall@10 of the held-out pairs, for the trainer."""
        titles, texts = ([pair[i] for pair in self.heldout] for i in (0, 1))
        return retrieval_evaluator(tokenizer, titles, texts)
