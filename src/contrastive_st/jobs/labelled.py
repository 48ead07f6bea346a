"""Labelled rows of the installed documentation, held-out parts of labelled data, and what is measured on them."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset

from contrastive_st.data import DocPair, LabelledPairCollator
from contrastive_st.evaluation import retrieval_evaluator, sts_evaluator

NEAR, FAR = 1, 2  # labels of a paragraph from the same module, and from another package; 0 is an object's own


def labelled_docs(pairs: Sequence[DocPair], seed: int = 0) -> Dataset:
    """Three rows for each object: its summary with its own paragraph, one of the same module, one of another package.

    `label` is 0 as for entailment, 1 as for neutral, 2 as for contradiction; `score` is 1, 0.5 and 0. Objects alone in
    their module have no second row.
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
    """Anchor, positive, negative of `labelled_docs`: the nearest negative that there is."""
    found: dict[str, list[str]] = {"anchor": [], "positive": [], "negative": []}
    first, second, label = rows["first"][:], rows["second"][:], rows["label"][:]
    for i in range(len(label) - 1):
        if label[i] == 0:
            for name, value in zip(found, (first[i], second[i], second[i + 1]), strict=True):
                found[name].append(value)
    return Dataset.from_dict(found)


def sample(rows: Dataset, count: int | None, seed: int = 0) -> Dataset:
    """So many rows, drawn by the seed; all for None."""
    if count is None or count >= len(rows):
        return rows
    return rows.select(np.random.default_rng(seed).permutation(len(rows))[:count])


def split_by_first(pairs: Dataset) -> tuple[Dataset, Dataset, Dataset]:
    """Train, dev and test: eight tenths, one, one; a first text and all its seconds fall on one side, by its checksum.

    The same rule as that of the NLI task of `contrastive-st evaluate`, whose test pairs are never trained on so.
    """
    tenth = np.array([zlib.crc32(text.encode()) % 10 for text in pairs["first"][:]])
    return tuple(pairs.select(np.flatnonzero(part)) for part in (tenth > 1, tenth == 1, tenth == 0))


@torch.no_grad()
def label_accuracy(model: Any, tokenizer: Any, rows: Dataset, batch_size: int = 256) -> float:
    """Share of the rows (of `tokenize_pairs`) whose label the model's classifier tells."""
    collate, was_training, right = LabelledPairCollator(tokenizer), model.training, 0.0
    model.eval()
    for start in range(0, len(rows), batch_size):
        some = rows.select(range(start, min(start + batch_size, len(rows))))
        batch = {name: tensor.to(model.device) for name, tensor in collate(list(some)).items()}
        views = model.embed(batch["input_ids"], batch["attention_mask"])
        right += model.loss_fn.metrics(views, batch["targets"])["accuracy"] * len(some)
    model.train(was_training)
    return right / len(rows)


def measures(tokenizer: Any, **others: Callable[[Any], float]) -> Callable[[Any], dict[str, float]]:
    """An evaluator for the trainer: `others`, and STS-B dev Spearman where CONTRASTIVE_ST_DATA has it."""
    sts = sts_evaluator(tokenizer)

    def evaluate(model: Any) -> dict[str, float]:
        return {**{name: measure(model) for name, measure in others.items()}, **(sts(model) if sts else {})}

    return evaluate


def docs_mrr(tokenizer: Any, heldout: Sequence[DocPair]) -> Callable[[Any], float]:
    """Find a held-out paragraph of the documentation among all of them by its summary: MRR@10."""
    search = retrieval_evaluator(tokenizer, [pair.title for pair in heldout], [pair.text for pair in heldout])
    return lambda model: search(model)["mrr@10"]


def _package(pair: DocPair) -> str:
    return pair.source.partition(".")[0]
