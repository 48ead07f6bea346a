"""Rows with the vectors of their texts from another encoder: a guide that masks false negatives, or a teacher."""

from __future__ import annotations

from collections.abc import Callable

import datasets
import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from contrastive_st.data.corpus import BlockSampler
from contrastive_st.data.profile import Record
from contrastive_st.errors import InputError


class GuidedRows(Dataset[Record]):
    """Tokenized rows, each with the guide's vectors `[T, D]` of its T texts, which pair collators use as targets.

    Args:
        rows: the result of `tokenize` for these texts.
        texts: a column for each of the T texts.
        guide: returns vectors `[n, D]` of a list of texts. It is called for each row each time that the row is read, so
            it should be fast or look the vectors up, as `EmbeddingStore` does.

    Raises:
        InputError: the numbers of rows and texts differ.

    Example:
        >>> texts = datasets.Dataset.from_dict({"anchor": ["a", "bcd"], "positive": ["ab", "e"]})
        >>> rows = [{"input_ids": [[5], [6]]}, {"input_ids": [[7], [8]]}]
        >>> lengths = lambda texts: np.array([[len(text), 1.0] for text in texts])
        >>> GuidedRows(rows, texts, lengths)[1]["guide"].tolist()
        [[3.0, 1.0], [1.0, 1.0]]
    """

    def __init__(
        self,
        rows: list[Record] | datasets.Dataset,
        texts: datasets.Dataset,
        guide: Callable[[list[str]], NDArray[np.floating]],
    ) -> None:
        if len(rows) != len(texts):
            raise InputError(f"{len(rows)} tokenized rows and {len(texts)} rows of text; give the texts of these rows")
        self.rows, self.texts, self.guide = rows, texts, guide

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Record:
        texts = list(self.texts[index].values())
        there = [text is not None for text in texts]  # null: no text, where a row has fewer negatives than others
        vectors = self.guide([text for text in texts if text is not None])
        result = np.zeros((len(texts), vectors.shape[1]), dtype=vectors.dtype)
        result[there] = vectors
        return {**self.rows[index], "guide": result}


class TeacherRows(Dataset[Record]):
    """Rows `{"input_ids", "teacher"}`, in the order given or in one in which neighbours are similar.

    Args:
        ids: `input_ids` of N sentences: a list of lists, or a tokenized data set, whose `prompt_length` the rows have
            too if it was tokenized with a prompt.
        embeddings: the teacher's embeddings `[N, D]`; an array or a memory map.
        order: a permutation, such as from `examples/ordering.py`. `ContrastiveTrainer` then reads
            contiguous batches of it, cut at other places each epoch. By default single sentences are shuffled.

    Raises:
        InputError: the numbers of sentences and embeddings differ.

    Example:
        >>> rows = TeacherRows([[5, 6], [7]], np.eye(2, dtype=np.float32), np.array([1, 0]))
        >>> rows[0]["input_ids"], rows[0]["teacher"].tolist()
        ([7], [0.0, 1.0])
    """

    def __init__(
        self,
        ids: list[list[int]] | datasets.Dataset,
        embeddings: NDArray[np.floating],
        order: NDArray[np.int64] | None = None,
    ) -> None:
        if len(ids) != len(embeddings):
            raise InputError(f"{len(ids)} sentences and {len(embeddings)} embeddings; give one for each sentence")
        self.ids = ids if isinstance(ids, list) else ids["input_ids"]
        self.prompt_lengths = None
        if not isinstance(ids, list) and "prompt_length" in ids.column_names:
            self.prompt_lengths = ids["prompt_length"]
        self.embeddings, self.order = embeddings, order

    def __len__(self) -> int:
        return len(self.embeddings)

    def __getitem__(self, index: int) -> Record:
        row = int(index if self.order is None else self.order[index])
        record = {"input_ids": self.ids[row], "teacher": self.embeddings[row]}
        return record if self.prompt_lengths is None else {**record, "prompt_length": self.prompt_lengths[row]}

    def sampler(self, batch_size: int, seed: int) -> BlockSampler:
        """The order for training with batches of `batch_size` per process."""
        return BlockSampler(len(self), 1 if self.order is None else batch_size, seed)
