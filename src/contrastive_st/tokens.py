"""Token rows of different lengths as tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def pad_rows(
    rows: Sequence[Sequence[int] | NDArray[np.integer] | Tensor], padding: int | None = 0, multiple_of: int = 1
) -> tuple[Tensor, Tensor]:
    """Rows of token ids as `[N, L]`, padded on the right whatever the tokenizer says, and their attention mask.

    Args:
        rows: token ids; a row may be empty.
        padding: the id of the padding token; 0 where a tokenizer has none, since padding is masked.
        multiple_of: L is the longest row's length rounded up to it.

    Returns:
        Ids and mask, int64; the mask is 1 on the tokens of a row, by its length: a padding token that stands in a
        text is a token of it.

    Example:
        >>> ids, mask = pad_rows([[2, 7, 3], [2]], padding=9)
        >>> ids.tolist(), mask.tolist()
        ([[2, 7, 3], [2, 9, 9]], [[1, 1, 1], [1, 0, 0]])
    """
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    width = -(-max(int(lengths.max(initial=0)), 1) // multiple_of) * multiple_of
    mask = np.arange(width) < lengths[:, None]
    ids = np.full(mask.shape, padding or 0, dtype=np.int64)
    if len(rows):
        ids[mask] = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
    return torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64))
