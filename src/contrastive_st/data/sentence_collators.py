"""Collators of single sentences whose positives are other sentences of the batch: neighbours, or sharers of words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from contrastive_st.errors import InputError

WEIGHTINGS = ("counts", "tfidf", "binarized")


@dataclass
class ContextWindowCollator:
    """Sentences in order, with their places, from which the objective builds its context windows (QuickThoughts).

    Rows are `{"input_ids", "document", "position"}`; the batch is a stretch of the corpus.

    Args:
        tokenizer: pads on the right, to the longest sentence of the batch.

    Example:
        Two sentences of document 0 and the first of document 1::

            [{"input_ids": [7, 8], "document": 0, "position": 4},       input_ids  [[[7, 8]], [[9, 0]], [[5, 6]]]
             {"input_ids": [9],    "document": 0, "position": 5},   ->  targets    [[0, 4], [0, 5], [1, 0]]
             {"input_ids": [5, 6], "document": 1, "position": 0}]
    """

    tokenizer: PreTrainedTokenizerBase

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        if missing := {"document", "position"} - set(rows[0]):
            raise InputError(
                f"rows have no {' and no '.join(sorted(missing))}; a context window needs sentences in order, "
                "with the document that each is in and its position there"
            )
        batch = pad_sentences(self.tokenizer, rows)
        batch["targets"] = torch.tensor([[row["document"], row["position"]] for row in rows])
        return batch


@dataclass
class CooccurrenceCollator:
    """Sentences with their bags of words, from which the objective builds co-occurrence or TF-IDF targets.

    A bag is a list of (token id, weight), without special tokens, padded with weight 0 to the largest of the batch.

    Args:
        tokenizer: any; its tokens are the words. It pads on the right.
        weighting: `counts` (each word once, as the binary bag of words), `tfidf` or `binarized`: counts times IDF, of
            unit length (what is binarized is the similarity, by the objective).
        idf: `[vocabulary]`, fitted on the corpus by `fit_idf`; not for `counts`.

    Example:
        ::

            [{"input_ids": [7, 8, 7]},      input_ids  [[[7, 8, 7]], [[8, 9, 0]]]
             {"input_ids": [8, 9]}]     ->  targets    [[[7, 1], [8, 1]],
                                                        [[8, 1], [9, 1]]]
    """

    tokenizer: PreTrainedTokenizerBase
    weighting: str = "counts"
    idf: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        if self.weighting not in WEIGHTINGS:
            raise InputError(f"unknown weighting {self.weighting!r}; choose one of {', '.join(WEIGHTINGS)}")
        if (self.idf is None) != (self.weighting == "counts"):
            raise InputError(f"weighting {self.weighting!r}: IDF is for tfidf and binarized; fit it with fit_idf")
        if len(self.tokenizer) > 1 << 24:
            raise InputError("a vocabulary of more than 16,777,216 words does not fit the bags' float32 ids")
        self._left_out = np.array(sorted(self.tokenizer.all_special_ids), dtype=np.int64)

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        batch = pad_sentences(self.tokenizer, rows)
        bags = [self._bag(row["input_ids"]) for row in rows]
        targets = torch.zeros(len(bags), max(max(map(len, bags)), 1), 2)
        for i, bag in enumerate(bags):
            targets[i, : len(bag)] = torch.from_numpy(bag)
        batch["targets"] = targets
        return batch

    def _bag(self, ids: Sequence[int]) -> NDArray[np.float32]:
        words, counts = np.unique(np.asarray(ids, dtype=np.int64), return_counts=True)
        kept = ~np.isin(words, self._left_out)
        words, weights = words[kept], counts[kept].astype(np.float32)
        if self.idf is None:
            weights = np.ones_like(weights)
        else:
            weights = weights * self.idf[words]
            weights /= max(float(np.linalg.norm(weights)), 1e-12)
        return np.stack([words.astype(np.float32), weights], axis=1)


def pad_sentences(tokenizer: PreTrainedTokenizerBase, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    """Rows with one text each to `input_ids` and `attention_mask` `[B, 1, L]`; an empty text is all padding."""
    ids = [row["input_ids"] for row in rows]
    if any(len(row) and not isinstance(row[0], (int, np.integer)) for row in ids):
        raise InputError("a row holds several texts, and this objective takes one sentence a row")
    lengths = torch.tensor([len(row) for row in ids])
    width = max(int(lengths.max()), 1)
    padded = torch.full((len(ids), width), tokenizer.pad_token_id or 0)
    for i, row in enumerate(ids):
        padded[i, : len(row)] = torch.as_tensor(row)
    mask = (torch.arange(width) < lengths[:, None]).long()
    return {"input_ids": padded[:, None], "attention_mask": mask[:, None]}


def fit_idf(sentences: Iterable[Sequence[int]], vocabulary: int) -> NDArray[np.float32]:
    """Inverse document frequency of each token id over a corpus, `ln((1 + n) / (1 + df)) + 1` as scikit-learn has it.

    Args:
        sentences: token ids of each of the n sentences.
        vocabulary: number of ids.

    Example:
        >>> [round(float(value), 3) for value in fit_idf([[0, 1, 1], [1]], 3)]
        [1.405, 1.0, 2.099]
    """
    frequency = np.zeros(vocabulary, dtype=np.int64)
    total = 0
    for ids in sentences:
        total += 1
        frequency[np.unique(np.asarray(ids, dtype=np.int64))] += 1
    return (np.log((1 + total) / (1 + frequency)) + 1).astype(np.float32)
