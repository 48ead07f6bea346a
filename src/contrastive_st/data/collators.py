"""Collators: token ids of a few rows to the tensors of one batch, `[B, V, L]`.

They work under the stock `transformers.Trainer`, under `ContrastiveTrainer` and in a bare accelerate loop.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerBase

from contrastive_st.data.tokenizers import Template
from contrastive_st.errors import InputError
from contrastive_st.tokens import pad_rows

# --- Collators of single sentences whose positives are other sentences of the batch: neighbours, or sharers of words.

WEIGHTINGS = ("counts", "tfidf", "tfidf_bin")


@dataclass
class ContextWindowCollator:
    """Sentences in order, with their places, from which the loss builds its context windows (QuickThoughts).

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
    """Sentences with their bags of words, from which the loss builds co-occurrence or TF-IDF targets.

    A bag is a list of (token id, weight), without special tokens, padded with weight 0 to the largest of the batch.

    Args:
        tokenizer: any; its tokens are the words. It pads on the right.
        weighting: `counts` (each word once, as the binary bag of words), `tfidf` or `tfidf_bin`: counts times IDF, of
            unit length (what is binarized is the similarity, by the loss).
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
            raise InputError(f"weighting {self.weighting!r}: IDF is for tfidf and tfidf_bin; fit it with fit_idf")
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
        raise InputError("a row holds several texts, and this loss takes one sentence a row")
    padded, mask = pad_rows(ids, tokenizer.pad_token_id)
    return {"input_ids": padded[:, None], "attention_mask": mask[:, None]}


@dataclass
class TeacherCollator:
    """Sentences and, as their targets, the teacher's embeddings of them.

    Args:
        tokenizer: the student's; pads on the right, to the longest sentence of the batch.

    Example:
        ::

            [{"input_ids": [7, 8], "teacher": [0.6, 0.8]},      input_ids  [[[7, 8]], [[9, 0]]]
             {"input_ids": [9],    "teacher": [1.0, 0.0]}]  ->  targets    [[0.6, 0.8], [1.0, 0.0]]
    """

    tokenizer: PreTrainedTokenizerBase

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        if "teacher" not in rows[0]:
            raise InputError("rows have no teacher; pair sentences with a teacher's embeddings by TeacherRows")
        batch = pad_sentences(self.tokenizer, rows)
        batch["targets"] = torch.from_numpy(np.stack([np.asarray(row["teacher"], np.float32) for row in rows]))
        return batch


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


@dataclass
class PairCollator:
    """Rows with V >= 2 texts each: `[[anchor ids, positive ids, ...], ...]` to `[B, V, L]`.

    A row's `guide`, another encoder's vector of each of its texts (`GuidedRows`), becomes its targets `[V, D]`. Its
    `prompt_length`, the tokens before each of its texts (`tokenize(..., prompts=...)`), becomes a `text_mask`
    `[B, V, L]`: 1 on the tokens of a text, 0 on its prompt and on padding. A model takes from it what to pool
    (`include_prompt`), and which texts are equal.

    Args:
        tokenizer: pads on the right, to the longest row of the batch.
        do_mlm: add `mlm_input_ids` and `mlm_targets`, masked copies for the auxiliary loss; the contrastive
            inputs are never masked.
        mlm_probability: share of the tokens to predict; of those 80% are masked, 10% replaced, 10% kept.
        pad_to_multiple_of: round the length up, for kernels that like multiples of 8.

    Example:
        Two pairs, ids 2 and 3 being [CLS] and [SEP], 0 the padding::

            [{"input_ids": [[2, 7, 8, 3], [2, 9, 3]]},       input_ids       [[[2, 7, 8, 3], [2, 9, 3, 0]],
             {"input_ids": [[2, 5, 3],    [2, 6, 3]]}]   ->                   [[2, 5, 3, 0], [2, 6, 3, 0]]]
                                                             attention_mask  [[[1, 1, 1, 1], [1, 1, 1, 0]],
                                                                              [[1, 1, 1, 0], [1, 1, 1, 0]]]
    """

    tokenizer: PreTrainedTokenizerBase
    do_mlm: bool = False
    mlm_probability: float = 0.15
    pad_to_multiple_of: int | None = None

    def views(self, row: dict[str, Any]) -> Sequence[Sequence[int]]:
        """The V lists of ids of one row."""
        views: Sequence[Sequence[int]] = row["input_ids"]
        if not views or isinstance(views[0], int):
            raise InputError(
                "a row holds one text, and pairs need two or more: give a file with two columns, or train on "
                "dropout pairs with DropoutPairCollator"
            )
        return views

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        views = [self.views(row) for row in rows]
        counts = {len(row) for row in views}
        if len(counts) != 1:
            raise InputError(f"rows of one batch hold {sorted(counts)} texts each; every row needs the same number")
        flat = [ids for row in views for ids in row]
        ids, mask = pad_rows(flat, self.tokenizer.pad_token_id, self.pad_to_multiple_of or 1)
        shape = (len(views), counts.pop(), -1)
        batch = {"input_ids": ids, "attention_mask": mask}
        if "token_type_ids" in self.tokenizer.model_input_names:
            batch["token_type_ids"] = torch.zeros_like(batch["input_ids"])
        if self.do_mlm:
            batch["mlm_input_ids"], batch["mlm_targets"] = self._mask(batch["input_ids"])
        batch = {name: tensor.view(shape) for name, tensor in batch.items()}
        if "prompt_length" in rows[0]:
            before = torch.tensor([row["prompt_length"] for row in rows]).view(len(rows), -1, 1)  # a dropout pair has 1
            batch["text_mask"] = batch["attention_mask"] * (torch.arange(batch["input_ids"].shape[-1]) >= before)
        if "guide" in rows[0]:
            guide = torch.from_numpy(np.stack([np.asarray(row["guide"], np.float32) for row in rows]))
            batch["targets"] = guide.expand(-1, len(views[0]), -1)  # a dropout pair has one text
        return batch

    def _mask(self, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        collator = DataCollatorForLanguageModeling(self.tokenizer, mlm_probability=self.mlm_probability)
        # drawn from what is in the batch: batches are made ahead of the steps, so that after a resume the state of the
        # default generator is not the one that the uninterrupted run had here
        collator.generator = torch.Generator().manual_seed(zlib.crc32(input_ids.numpy().tobytes()))
        inputs, labels = collator.torch_mask_tokens(input_ids.clone())
        return inputs, labels


@dataclass
class DropoutPairCollator(PairCollator):
    """Rows with one text: tokenized once, repeated V times; dropout makes the views differ (unsupervised SimCSE).

    Example:
        ::

            [{"input_ids": [2, 7, 8, 3]},       input_ids  [[[2, 7, 8, 3], [2, 7, 8, 3]],
             {"input_ids": [2, 5, 3]}]     ->               [[2, 5, 3, 0], [2, 5, 3, 0]]]
    """

    num_views: int = 2

    def views(self, row: dict[str, Any]) -> Sequence[Sequence[int]]:
        ids = row["input_ids"]
        if ids and not isinstance(ids[0], int):
            raise InputError("a row holds several texts, and a dropout pair is made of one; use PairCollator")
        return [ids] * self.num_views


@dataclass
class TemplatePairCollator(PairCollator):
    """Rows with one text, tokenized within a template; the second view has the text within another (PromptBERT).

    Args:
        templates: the one that the rows are tokenized with, and another, with as many tokens before the text and after
            it, and [MASK] in the same place.

    Example:
        The templates `4 [X] 5 [MASK]` and `6 [X] 7 [MASK]`, 9 being [MASK]::

            [{"input_ids": [2, 4, 8, 5, 9, 3]}]  ->  input_ids  [[[2, 4, 8, 5, 9, 3],
                                                                  [2, 6, 8, 7, 9, 3]]]
    """

    templates: tuple[Template, Template] = field(kw_only=True)

    def __post_init__(self) -> None:
        first, second = (", ".join(map(str, template.shape)) for template in self.templates)
        if first != second:
            raise InputError(
                f"the two templates have {first} and {second} tokens before the sentence, after it and behind [MASK]; "
                "they need the same numbers"
            )

    def views(self, row: dict[str, Any]) -> Sequence[Sequence[int]]:
        ids = list(row["input_ids"])
        if ids and not isinstance(ids[0], int):
            raise InputError("a row holds several texts, and two templates make two views of one; give one template")
        first, second = self.templates
        return [ids, [*second.before, *ids[len(first.before) : len(ids) - len(first.after)], *second.after]]


@dataclass
class DeletionCollator:
    """Rows with one text, of whose tokens a share is deleted; the whole text is the target (TSDAE).

    [CLS] and [SEP] stay, and one token at least. What is deleted is drawn from what is in the batch, as in masking.

    Args:
        tokenizer: pads on the right.
        deletion_ratio: the probability with which each token is deleted.

    Example:
        ::

            [{"input_ids": [2, 7, 8, 9, 3]},       input_ids  [[[2, 8, 3]], [[2, 5, 3]]]
             {"input_ids": [2, 5, 3]}]         ->  targets    [[2, 7, 8, 9, 3], [2, 5, 3, -100, -100]]
    """

    tokenizer: PreTrainedTokenizerBase
    deletion_ratio: float = 0.6

    def __post_init__(self) -> None:
        if not 0 <= self.deletion_ratio < 1:
            raise InputError(f"deletion_ratio {self.deletion_ratio} must be in [0, 1)")

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        whole = pad_sentences(self.tokenizer, rows)
        ids, mask = whole["input_ids"][:, 0], whole["attention_mask"][:, 0]
        generator = torch.Generator().manual_seed(zlib.crc32(ids.numpy().tobytes()))
        ends = torch.tensor([self.tokenizer.cls_token_id, self.tokenizer.sep_token_id])
        words = (mask == 1) & ~torch.isin(ids, ends)
        draws = torch.rand(ids.shape, generator=generator).masked_fill(~words, -1)
        one = torch.arange(ids.shape[1]) == draws.argmax(1, keepdim=True)  # the least likely to go
        kept = (mask == 1) & (~words | (draws >= self.deletion_ratio) | one)
        parts = [{"input_ids": row[keep].tolist()} for row, keep in zip(ids, kept, strict=True)]
        return {**pad_sentences(self.tokenizer, parts), "targets": ids.masked_fill(mask == 0, -100)}


@dataclass
class NLITripletCollator(PairCollator):
    """Rows with anchor, positive and one or more hard negatives (supervised SimCSE: entailment, contradiction).

    Example:
        ::

            [{"input_ids": [[2, 7, 3], [2, 8, 3], [2, 9, 3]]}]  ->  input_ids  [[[2, 7, 3], [2, 8, 3], [2, 9, 3]]]
    """

    def views(self, row: dict[str, Any]) -> Sequence[Sequence[int]]:
        views = super().views(row)
        if len(views) < 3:
            raise InputError("a row holds two texts, and a triplet needs a hard negative as third; use PairCollator")
        return views


# --- Collators of labelled rows.


@dataclass
class LabelledPairCollator(PairCollator):
    """Rows of two texts and a `label` (a class number) or a `score` (0 to 1), which become the targets `[B]`.

    Example:
        ::

            [{"input_ids": [[2, 7, 3], [2, 8, 3]], "label": 1},   input_ids  [[[2, 7, 3], [2, 8, 3]],
             {"input_ids": [[2, 5, 3], [2, 6, 3]], "label": 0}] ->            [[2, 5, 3], [2, 6, 3]]]
                                                                  targets    [1, 0]
    """

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        name = next((name for name in ("label", "score") if name in rows[0]), None)
        if name is None:
            raise InputError("rows have no label and no score; read labelled pairs with read_pairs")
        batch = super().__call__(rows)
        values = [row[name] for row in rows]
        batch["targets"] = torch.tensor(values, dtype=torch.long if name == "label" else torch.float32)
        return batch
