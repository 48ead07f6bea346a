"""Collators: make the tensors `[B, V, L]` of one batch from rows of token ids.

They work with `transformers.Trainer`, with `ContrastiveTrainer` and in a plain accelerate loop.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Gt, Le
from numpy.typing import NDArray
from torch import Tensor
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerBase

from contrastive_st.data.profile import Record
from contrastive_st.errors import InputError, choice
from contrastive_st.options import Options, Share
from contrastive_st.tokens import pad_rows, token_types

# --- Collators of single sentences whose positives are other sentences of the batch: neighbours, or those that share
# --- words.

WEIGHTINGS = ("counts", "tfidf", "tfidf_bin")
_Part = Annotated[float, Gt(0), Le(1)]
_EXACT = 1 << 24  # integers below it are exact in float32


@dataclass
class ContextWindowCollator:
    """Collate consecutive sentences with their positions, for the context windows of the loss (QuickThoughts).

    Rows are `{"input_ids", "document", "position"}`, and a batch has consecutive sentences of the corpus.

    Args:
        tokenizer: gives the padding token; a batch is padded on the right to its longest sentence.

    Example:
        Two sentences of document 0 and the first of document 1::

            [{"input_ids": [7, 8], "document": 0, "position": 4},       input_ids  [[[7, 8]], [[9, 0]], [[5, 6]]]
             {"input_ids": [9],    "document": 0, "position": 5},   ->  targets    [[0, 4], [0, 5], [1, 0]]
             {"input_ids": [5, 6], "document": 1, "position": 0}]
    """

    tokenizer: PreTrainedTokenizerBase

    def __call__(self, rows: Sequence[Record]) -> dict[str, Tensor]:
        """Make one batch.

        Args:
            rows: the rows of the batch.

        Returns:
            `input_ids` and `attention_mask` `[B, 1, L]`, padded on the right; the targets `[B, 2]`: document and
            position.
        """
        batch = pad_sentences(self.tokenizer, rows)
        batch["targets"] = torch.tensor([[row["document"], row["position"]] for row in rows])
        return batch


@dataclass
class CooccurrenceCollator:
    """Collate sentences with their bags of words, from which the loss builds co-occurrence or TF-IDF targets.

    A bag is a list of (token id, weight) without special tokens, padded with weight 0 to the largest bag of the batch.
    The place of the sentence is before it: (document, position), or (-1, -1) if the rows have no such columns.

    Args:
        tokenizer: its tokens are the words of the bags. Batches are padded on the right.
        weighting: `counts` (a binary bag of words: each word has weight 1), `tfidf` or `tfidf_bin`. The last two give
            the same bags, counts times IDF scaled to unit length; with `tfidf_bin` the loss binarizes the similarities.
        idf: `[vocabulary]`, fitted on the corpus by `fit_idf`; None for `counts`.

    Example:
        ::

            [{"input_ids": [7, 8, 7], "document": 0, "position": 4},      input_ids  [[[7, 8, 7]], [[8, 9, 0]]]
             {"input_ids": [8, 9],    "document": 1, "position": 0}]  ->  targets    [[[0, 4], [7, 1], [8, 1]],
                                                                                      [[1, 0], [8, 1], [9, 1]]]
    """

    tokenizer: PreTrainedTokenizerBase
    weighting: str = "counts"
    idf: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        choice("weighting", self.weighting, WEIGHTINGS)
        if (self.idf is None) != (self.weighting == "counts"):
            fix = "tfidf and tfidf_bin need idf (from fit_idf), counts takes none"
            raise InputError(f"weighting {self.weighting!r}: {fix}")
        self._left_out = np.array(sorted(self.tokenizer.all_special_ids), dtype=np.int64)

    def __call__(self, rows: Sequence[Record]) -> dict[str, Tensor]:
        """Make one batch.

        Args:
            rows: the rows of the batch.

        Returns:
            `input_ids` and `attention_mask` `[B, 1, L]`, padded on the right; the targets
            `[B, 1 + K, 2]`: the place, then K words with their weights.
        """
        batch = pad_sentences(self.tokenizer, rows)
        bags = [self._bag(token_ids_of(row)) for row in rows]
        targets = torch.zeros(len(bags), 1 + max(max(map(len, bags)), 1), 2)
        for i, (row, bag) in enumerate(zip(rows, bags, strict=True)):
            where = row.get("document", -1), row.get("position", -1)
            targets[i, 0] = torch.tensor(where) % _EXACT if min(where) >= 0 else -1
            targets[i, 1 : 1 + len(bag)] = torch.from_numpy(bag)
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


def token_ids_of(row: Record) -> Any:
    """The `input_ids` of a row: the ids of one text, or a list of ids for each text.

    Raises:
        InputError: the row is not tokenized.
    """
    return _plain(_column([row], "input_ids", "train on tokenize(dataset, tokenizer, max_length)")[0])


def _plain(cell: Any) -> Any:
    """A cell as numbers and lists of them, whatever the format of its `Dataset`: arrays or tensors, also in a list."""
    if hasattr(cell, "tolist"):
        cell = cell.tolist()
    if isinstance(cell, (list, tuple)) and cell and not isinstance(cell[0], (int, float)):
        cell = [_plain(item) for item in cell]
    return cell


def texts_of(row: Record, least: int, most: float = math.inf) -> Sequence[Sequence[int]]:
    """The ids of each text of a row.

    Args:
        row: with `input_ids`.
        least: how many texts it must have at least.
        most: and at most.

    Raises:
        InputError: the row is not tokenized, or has fewer or more texts.

    Example:
        >>> texts_of({"input_ids": [5, 6]}, 1), texts_of({"input_ids": [[5, 6], [7]]}, 2)
        ([[5, 6]], [[5, 6], [7]])
    """
    ids = token_ids_of(row)
    texts: Sequence[Sequence[int]] = [ids] if not ids or isinstance(ids[0], int) else ids
    if not least <= len(texts) <= most:
        accepted = "one" if most == 1 else f"{least} or more"
        raise InputError(
            f"a row has {len(texts)} texts, and this collator takes {accepted}; PairCollator takes two or more, "
            "NLITripletCollator also a hard negative, and DropoutPairCollator one"
        )
    return texts


def _column(rows: Sequence[Record], name: str, fix: str) -> list[object]:
    """The cells of a column that all rows must have."""
    if name not in rows[0]:
        raise InputError(f"a row has {', '.join(rows[0])} and no {name}; {fix}")
    return [row[name] for row in rows]


def pad_sentences(tokenizer: PreTrainedTokenizerBase, rows: Sequence[Record]) -> dict[str, Tensor]:
    """Pad rows with one text each to `input_ids` and `attention_mask` `[B, 1, L]`; an empty text is all padding.

    Rows with a `prompt_length` also give a `text_mask`.
    """
    padded, mask = pad_rows([texts_of(row, 1, 1)[0] for row in rows], tokenizer.pad_token_id)
    types = token_types(tokenizer, mask)
    typed = {} if types is None else {"token_type_ids": types[:, None]}
    return {"input_ids": padded[:, None], "attention_mask": mask[:, None], **typed, **text_mask(rows, mask[:, None])}


def text_mask(rows: Sequence[Record], attention_mask: Tensor) -> dict[str, Tensor]:
    """The `text_mask` `[B, V, L]` of rows that have a `prompt_length`: 1 on tokens of a text, 0 on prompt and padding.

    Args:
        rows: B rows; a row has one length for each of its texts, or one for all.
        attention_mask: `[B, V, L]`.

    Returns:
        The mask by its name; {} if the rows were tokenized without prompts.
    """
    if "prompt_length" not in rows[0]:
        return {}
    before = torch.tensor([_plain(row["prompt_length"]) for row in rows]).view(len(rows), -1, 1)
    return {"text_mask": attention_mask * (torch.arange(attention_mask.shape[-1]) >= before)}


@dataclass
class TeacherCollator:
    """Collate sentences with the teacher's embeddings of them as targets.

    Args:
        tokenizer: that of the student; a batch is padded on the right to its longest sentence.

    Example:
        ::

            [{"input_ids": [7, 8], "teacher": [0.6, 0.8]},      input_ids  [[[7, 8]], [[9, 0]]]
             {"input_ids": [9],    "teacher": [1.0, 0.0]}]  ->  targets    [[0.6, 0.8], [1.0, 0.0]]
    """

    tokenizer: PreTrainedTokenizerBase

    def __call__(self, rows: Sequence[Record]) -> dict[str, Tensor]:
        """Make one batch.

        Args:
            rows: the rows of the batch.

        Returns:
            `input_ids` and `attention_mask` `[B, 1, L]`, padded on the right; the targets `[B, D]`, float32; for rows
            with a prompt also the `text_mask` `[B, 1, L]`.
        """
        teacher = _column(rows, "teacher", "join sentences with the teacher's embeddings by TeacherRows")
        batch = pad_sentences(self.tokenizer, rows)
        batch["targets"] = torch.from_numpy(np.stack([np.asarray(vector, np.float32) for vector in teacher]))
        return batch


def fit_idf(sentences: Iterable[Sequence[int]], vocabulary: int) -> NDArray[np.float32]:
    """Inverse document frequency of each token id in a corpus, `ln((1 + n) / (1 + df)) + 1` as in scikit-learn.

    Args:
        sentences: token ids of each of the n sentences.
        vocabulary: number of token ids.

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
    """Collate rows with V >= 2 texts each: `[[anchor ids, positive ids, ...], ...]` becomes `[B, V, L]`.

    Two optional columns of a row are used. `guide`, the vectors of its texts from another encoder (`GuidedRows`),
    becomes its targets `[V, D]`. `prompt_length`, the number of tokens before each text (`tokenize(..., prompts=...)`),
    becomes a `text_mask` `[B, V, L]`: 1 on the tokens of a text, 0 on its prompt and on padding. The model uses this
    mask to pool (see `include_prompt`) and to find equal texts.

    Args:
        tokenizer: gives the padding token; a batch is padded on the right to the length of its longest row.
        do_mlm: add `mlm_input_ids` and `mlm_targets`, masked copies for the auxiliary loss; the contrastive
            inputs are never masked.
        mlm_probability: share of the tokens to predict; of those 80% are masked, 10% replaced, 10% kept.
        pad_to_multiple_of: round the length up to a multiple of this, for kernels that are faster with multiples of 8.

    Example:
        Two pairs, where ids 2 and 3 are [CLS] and [SEP], and 0 is the padding::

            [{"input_ids": [[2, 7, 8, 3], [2, 9, 3]]},       input_ids       [[[2, 7, 8, 3], [2, 9, 3, 0]],
             {"input_ids": [[2, 5, 3],    [2, 6, 3]]}]   ->                   [[2, 5, 3, 0], [2, 6, 3, 0]]]
                                                             attention_mask  [[[1, 1, 1, 1], [1, 1, 1, 0]],
                                                                              [[1, 1, 1, 0], [1, 1, 1, 0]]]
    """

    tokenizer: PreTrainedTokenizerBase
    do_mlm: bool = False
    mlm_probability: float = 0.15
    pad_to_multiple_of: int | None = None

    def views(self, row: Record) -> Sequence[Sequence[int]]:
        """The V lists of ids of one row."""
        return texts_of(row, 2)

    def __call__(self, rows: Sequence[Record]) -> dict[str, Tensor]:
        """Make one batch.

        Args:
            rows: the rows of the batch.

        Returns:
            `input_ids` and `attention_mask` `[B, V, L]`, padded on the right, and what the
            optional columns and `do_mlm` add.
        """
        views = [self.views(row) for row in rows]
        counts = {len(row) for row in views}
        if len(counts) != 1:
            raise InputError(f"rows of one batch have {sorted(counts)} texts each; give each row the same number")
        flat = [ids for row in views for ids in row]
        ids, mask = pad_rows(flat, self.tokenizer.pad_token_id, self.pad_to_multiple_of or 1)
        shape = (len(views), counts.pop(), -1)
        batch = {"input_ids": ids, "attention_mask": mask}
        if "token_type_ids" in self.tokenizer.model_input_names:
            types = token_types(self.tokenizer, mask)
            batch["token_type_ids"] = torch.zeros_like(ids) if types is None else types
        if self.do_mlm:
            batch["mlm_input_ids"], batch["mlm_targets"] = self._mask(batch["input_ids"])
        batch = {name: tensor.view(shape) for name, tensor in batch.items()}
        batch |= text_mask(rows, batch["attention_mask"])
        if "guide" in rows[0]:
            guide = torch.from_numpy(np.stack([np.asarray(row["guide"], np.float32) for row in rows]))
            batch["targets"] = guide.expand(-1, len(views[0]), -1)  # a dropout pair has one text
        return batch

    def _mask(self, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        collator = DataCollatorForLanguageModeling(self.tokenizer, mlm_probability=self.mlm_probability)
        # The seed is a hash of the batch. Batches are prepared ahead of the steps, so after a resume the default
        # generator would not be in the state that it had here in the uninterrupted run.
        collator.generator = torch.Generator().manual_seed(zlib.crc32(input_ids.numpy().tobytes()))
        inputs, labels = collator.torch_mask_tokens(input_ids.clone())
        return inputs, labels


@dataclass
class DropoutPairCollator(PairCollator):
    """Collate rows with one text, repeated V times; dropout makes the views differ (unsupervised SimCSE).

    Example:
        ::

            [{"input_ids": [2, 7, 8, 3]},       input_ids  [[[2, 7, 8, 3], [2, 7, 8, 3]],
             {"input_ids": [2, 5, 3]}]     ->               [[2, 5, 3, 0], [2, 5, 3, 0]]]
    """

    num_views: int = 2

    def views(self, row: Record) -> Sequence[Sequence[int]]:
        """The ids of the one text, `num_views` times."""
        return [*texts_of(row, 1, 1)] * self.num_views


@dataclass
class CropPairCollator(PairCollator, Options):
    """Collate rows with one text, whose two views are random crops of it: stretches of its tokens.

    Special tokens at the ends of a text, such as [CLS] and [SEP], and the prompt before it are kept. The random seed is
    a hash of the batch, so that a resumed run draws the same crops.

    Args:
        shares: the least and the greatest share of the tokens in a crop, drawn uniformly; at least one token.

    Example:
        ::

            [{"input_ids": [2, 7, 8, 9, 6, 3]}]  ->  input_ids  [[[2, 7, 8, 3], [2, 8, 9, 6, 3]]]
    """

    shares: tuple[_Part, _Part] = field(default=(0.4, 0.8), kw_only=True)

    def __call__(self, rows: Sequence[Record]) -> dict[str, Tensor]:
        """Make one batch.

        Args:
            rows: the rows of the batch.

        Returns:
            `input_ids` and `attention_mask` `[B, 2, L]`, padded on the right: two crops of
            each text.
        """
        texts = [texts_of(row, 1, 1)[0] for row in rows]
        random = np.random.default_rng(zlib.crc32(repr([list(ids) for ids in texts]).encode()))
        one = self.tokenizer  # an unknown word is one of the text; of GPT-2, its token is the end of a text too
        ends = {one.bos_token_id, one.eos_token_id, one.cls_token_id, one.sep_token_id, one.pad_token_id}
        special = set(one.all_special_ids) - ({one.unk_token_id, one.mask_token_id} - ends)
        crops = [{**row, "input_ids": [self._crop(ids, row.get("prompt_length", 0), special, random) for _ in range(2)]}
                 for row, ids in zip(rows, texts, strict=True)]  # fmt: skip
        return super().__call__(crops)

    def _crop(self, ids: Sequence[int], before: int, special: set[int], random: np.random.Generator) -> Sequence[int]:
        inner = [i for i, token in enumerate(ids) if i >= before and token not in special]
        if not inner:
            return ids
        first, end = inner[0], inner[-1] + 1
        size = max(round((end - first) * random.uniform(*self.shares)), 1)
        start = first + int(random.integers(end - first - size + 1))
        return [*ids[:first], *ids[start : start + size], *ids[end:]]


@dataclass
class DeletionCollator(Options):
    """Collate rows with one text and delete tokens at random; the whole text is the target (TSDAE).

    [CLS], [SEP] and at least one other token are kept. The random seed is a hash of the batch, so that a resumed run
    deletes the same tokens.

    Args:
        tokenizer: gives the padding token; batches are padded on the right.
        deletion_ratio: the probability that a token is deleted.

    Example:
        ::

            [{"input_ids": [2, 7, 8, 9, 3]},       input_ids  [[[2, 8, 3]], [[2, 5, 3]]]
             {"input_ids": [2, 5, 3]}]         ->  targets    [[2, 7, 8, 9, 3], [2, 5, 3, -100, -100]]
    """

    tokenizer: PreTrainedTokenizerBase
    deletion_ratio: Share = 0.6

    def __call__(self, rows: Sequence[Record]) -> dict[str, Tensor]:
        """Make one batch.

        Args:
            rows: the rows of the batch.

        Returns:
            `input_ids` and `attention_mask` `[B, 1, L]`, padded on the right (what is left of
            each text); the targets `[B, L']`: the ids of the whole text, -100 on padding.
        """
        batch = pad_sentences(self.tokenizer, rows)
        ids, mask = batch["input_ids"][:, 0], batch["attention_mask"][:, 0]
        generator = torch.Generator().manual_seed(zlib.crc32(ids.numpy().tobytes()))
        ends = torch.tensor([self.tokenizer.cls_token_id, self.tokenizer.sep_token_id])
        words = (mask == 1) & ~torch.isin(ids, ends)
        draws = torch.rand(ids.shape, generator=generator).masked_fill(~words, -1)
        one = torch.arange(ids.shape[1]) == draws.argmax(1, keepdim=True)  # the greatest draw: never deleted
        kept = (mask == 1) & (~words | (draws >= self.deletion_ratio) | one)
        parts = [{"input_ids": row[keep].tolist()} for row, keep in zip(ids, kept, strict=True)]
        return {**pad_sentences(self.tokenizer, parts), "targets": ids.masked_fill(mask == 0, -100)}


@dataclass
class NLITripletCollator(PairCollator):
    """Collate rows of an anchor, a positive and one or more hard negatives.

    In supervised SimCSE these are a premise, an entailed sentence and a contradictory one. Where a row has fewer
    negatives than the others, an empty list of ids takes the place of one.

    Example:
        ::

            [{"input_ids": [[2, 7, 3], [2, 8, 3], [2, 9, 3]]}]  ->  input_ids  [[[2, 7, 3], [2, 8, 3], [2, 9, 3]]]
    """

    def views(self, row: Record) -> Sequence[Sequence[int]]:
        """The ids of the anchor, the positive and each negative."""
        return texts_of(row, 3)


# --- Collators of labelled rows.


@dataclass
class LabelledPairCollator(PairCollator):
    """Collate rows of two texts and a `label` (a class number) or a `score` (0 to 1), which become the targets `[B]`.

    A row may also have one text and its class, for a classifier.

    Example:
        ::

            [{"input_ids": [[2, 7, 3], [2, 8, 3]], "label": 1},   input_ids  [[[2, 7, 3], [2, 8, 3]],
             {"input_ids": [[2, 5, 3], [2, 6, 3]], "label": 0}] ->            [[2, 5, 3], [2, 6, 3]]]
                                                                  targets    [1, 0]
    """

    def views(self, row: Record) -> Sequence[Sequence[int]]:
        """The ids of the two texts, or of one."""
        return texts_of(row, 1)

    def __call__(self, rows: Sequence[Record]) -> dict[str, Tensor]:
        """Make one batch.

        Args:
            rows: the rows of the batch.

        Returns:
            `input_ids` and `attention_mask` `[B, V, L]`, padded on the right; the targets `[B]`:
            int64 for classes, float32 for scores.
        """
        name = next((name for name in ("label", "score") if name in rows[0]), None)
        values = _column(rows, name or "label or score", "read labelled pairs with read_examples")
        batch = super().__call__(rows)
        batch["targets"] = torch.tensor(_plain(values), dtype=torch.long if name == "label" else torch.float32)
        return batch


@dataclass
class CandidatesCollator(NLITripletCollator):
    """Collate rows of an anchor and its candidates with `scores`, a teacher's, which become the targets `[B, C]`.

    The first candidate is the positive. Where a row has fewer candidates than the others, it has an empty list of ids
    and NaN.

    Example:
        ::

            [{"input_ids": [[2, 7, 3], [2, 8, 3], [2, 9, 3]], "scores": [8.5, 2.0]},
             {"input_ids": [[2, 5, 3], [2, 6, 3], []], "scores": [7.0, nan]}]

            ->  input_ids  [[[2, 7, 3], [2, 8, 3], [2, 9, 3]],   targets  [[8.5, 2.0],
                            [[2, 5, 3], [2, 6, 3], [0, 0, 0]]]             [7.0, nan]]
    """

    def __call__(self, rows: Sequence[Record]) -> dict[str, Tensor]:
        """Make one batch.

        Args:
            rows: the rows of the batch.

        Returns:
            `input_ids` and `attention_mask` `[B, 1 + C, L]`, padded on the right; the targets
            `[B, C]`: the scores in float32, NaN where a row has fewer candidates.
        """
        scores = _column(rows, "scores", "read candidates and their scores with read_examples")
        batch = super().__call__(rows)
        batch["targets"] = torch.tensor(_plain(scores), dtype=torch.float32)
        return batch
