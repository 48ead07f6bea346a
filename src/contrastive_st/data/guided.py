"""Rows with the vectors of their texts from another encoder, by which a guided loss masks false negatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import datasets
import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from contrastive_st.errors import InputError


class GuidedRows(Dataset[dict[str, Any]]):
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
        self, rows: Any, texts: datasets.Dataset, guide: Callable[[list[str]], NDArray[np.floating[Any]]]
    ) -> None:
        if len(rows) != len(texts):
            raise InputError(f"{len(rows)} tokenized rows and {len(texts)} rows of text; give the texts of these rows")
        self.rows, self.texts, self.guide = rows, texts, guide

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        texts = list(self.texts[index].values())
        there = [text is not None for text in texts]  # null: no text, where a row has fewer negatives than others
        vectors = self.guide([text for text in texts if text is not None])
        if not all(there):
            found = np.zeros((len(texts), vectors.shape[1]), dtype=vectors.dtype)
            found[there] = vectors
            vectors = found
        return {**self.rows[index], "guide": vectors}
