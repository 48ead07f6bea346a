"""The built-in data: the documentation of the installed Python packages, for search and for labelled jobs."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray

from contrastive_st.data import DocPair, installed_docs, split_pairs
from contrastive_st.evaluation import retrieval_evaluator
from contrastive_st.evaluation.datasets.senteval import Rows, Splits
from contrastive_st.evaluation.scorers.probes import score_split
from contrastive_st.evaluation.scorers.retrieval import (
    lexical_scores,
    mean_interval,
    ranks_of_own,
    reciprocal_ranks,
    retrieval_metrics,
)
from contrastive_st.evaluation.tasks import Task
from contrastive_st.models import SentenceEncoder

# --- The built-in ordered corpus: sentences of the installed Python documentation, module by module.

HELDOUT, CLASSES = 4000, 4
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


def write_docs_corpus(path: str | Path) -> list[DocPair]:
    """Write the corpus, one sentence per line and a blank line after each module or class; return the held-out pairs.

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
    """A task: predict from which of the four most documented packages a held-out paragraph comes."""
    names = [name for name, _ in Counter(_package(pair) for pair in heldout).most_common(CLASSES)]
    chosen = [pair for pair in heldout if _package(pair) in names]  # in the order of their hashes, which is random
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

    def training_pairs(self) -> Dataset:
        """Two columns of positive pairs: first line and paragraph, and the first sentence of a paragraph with
        the rest of it and with the first line."""
        found = [(pair.title, pair.text) for pair in self.training]
        for pair in self.training:
            first, *rest = _SENTENCE_END.split(pair.text, maxsplit=1)
            found += [(pair.title, first), (first, rest[0])] if rest else []
        return Dataset.from_dict({"anchor": [pair[0] for pair in found], "positive": [pair[1] for pair in found]})

    def evaluator(self, tokenizer: Any) -> Callable[[Any], dict[str, float]]:
        """MRR@10 and recall@10 of the held-out pairs, for the trainer."""
        return retrieval_evaluator(
            tokenizer, [pair.title for pair in self.heldout], [pair.text for pair in self.heldout]
        )

    def lexical_ranks(self) -> tuple[str, NDArray[np.int64]]:
        """The best of four lexical baselines on the held-out pairs, by MRR@10, and its ranks `[N]`.

        They are fitted on the training text. The best one is chosen on the held-out pairs, which favours the baseline.
        """
        corpus = [text for pair in self.training for text in (pair.title, pair.text)]
        titles, texts = ([pair[i] for pair in self.heldout] for i in (0, 1))
        scores = lexical_scores(titles, texts, corpus)
        ranks = {name: (own >= own.diagonal()[:, None]).sum(1) for name, own in scores.items()}
        best = max(ranks, key=lambda name: retrieval_metrics(ranks[name])["mrr@10"])
        return best, ranks[best]

    def report(self, before: dict[str, float], encoder: SentenceEncoder) -> str:
        """The table of figures, with bootstrap intervals, and the answers to three queries, as text.

        Args:
            before: the evaluator's figures before training.
            encoder: the trained model.
        """
        found = encoder.encode_query([pair.title for pair in self.heldout], normalize_embeddings=True)
        sought = encoder.encode_document([pair.text for pair in self.heldout], normalize_embeddings=True)
        trained = ranks_of_own(found, sought)
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


# --- The same documentation as labelled rows, for the jobs that train on labels.

NEAR, FAR = 1, 2  # labels of a paragraph from the same module, and from another package; 0 is an object's own


def labelled_docs(pairs: Sequence[DocPair], seed: int = 0) -> Dataset:
    """Pairs of a summary and a paragraph, three for each object: its own, one of its module, one of another package.

    `label` is 0, 1 and 2 (as entailment, neutral, contradiction), `score` is 1, 0.5 and 0. An object that is alone in
    its module has no second row.
    """
    random = np.random.default_rng(seed)
    modules: dict[str, list[int]] = defaultdict(list)
    for i, pair in enumerate(pairs):
        modules[pair.source.rpartition(".")[0]].append(i)
    rows: dict[str, list[Any]] = {"first": [], "second": [], "label": [], "score": []}
    for i, pair in enumerate(pairs):
        near = [j for j in modules[pair.source.rpartition(".")[0]] if j != i]
        far = int(random.integers(len(pairs)))
        while _package(pairs[far]) == _package(pair) and len({_package(p) for p in (pairs[0], pairs[-1])}) > 1:
            far = int(random.integers(len(pairs)))
        chosen = [(i, 0), *([(near[int(random.integers(len(near)))], NEAR)] if near else []), (far, FAR)]
        for j, label in chosen:
            for name, value in zip(rows, (pair.title, pairs[j].text, label, 1 - label / 2), strict=True):
                rows[name].append(value)
    return Dataset.from_dict(rows)


def triplets_of(rows: Dataset) -> Dataset:
    """Anchor, positive, negative from `labelled_docs`: the nearest available negative."""
    found: dict[str, list[str]] = {"anchor": [], "positive": [], "negative": []}
    first, second, label = rows["first"][:], rows["second"][:], rows["label"][:]
    for i in range(len(label) - 1):
        if label[i] == 0:
            for name, value in zip(found, (first[i], second[i], second[i + 1]), strict=True):
                found[name].append(value)
    return Dataset.from_dict(found)


def docs_mrr(tokenizer: Any, heldout: Sequence[DocPair]) -> Callable[[Any], float]:
    """MRR@10 of finding held-out paragraphs of the documentation by their summaries."""
    search = retrieval_evaluator(tokenizer, [pair.title for pair in heldout], [pair.text for pair in heldout])
    return lambda model: search(model)["mrr@10"]
