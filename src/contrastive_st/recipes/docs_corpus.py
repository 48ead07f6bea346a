"""The embedded corpus in order: sentences of the installed Python documentation, module by module."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np

from contrastive_st.data import DocPair, installed_docs, split_pairs
from contrastive_st.evaluation.probes import score_split
from contrastive_st.evaluation.rows import Parts, Rows
from contrastive_st.evaluation.tasks import Task

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
    parts = Parts({name: rows.take(np.array(cut)) for name, cut in cuts.items()}, {}, names)
    return Task(
        "package", "docs", lambda _: parts, partial(score_split, task="package"), ("test", "accuracy", "all"),
        "docs", hub=lambda: parts,
    )  # fmt: skip


def _package(pair: DocPair) -> str:
    return pair.source.partition(".")[0]
