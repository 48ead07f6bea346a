"""Exact length-bucketed forward: rows ordered by length, encoded in chunks padded to their own longest row.

Padding is masked in every encoder here, so a row's embedding does not depend on how far it is padded; values
and gradients are those of the padded batch. What changes is the work: short rows no longer pay for long ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor


def bucket_rows(
    lengths: np.ndarray,
    max_padding: float = 0.08,
    min_tokens: int = 2048,
    max_tokens: int = 1 << 62,
    max_rows: int = 1 << 62,
) -> list[np.ndarray]:
    """Split rows into buckets of similar length, longest first.

    Args:
        lengths: `[N]` tokens per row.
        max_padding: greatest share of padding in a bucket's tokens.
        min_tokens: a bucket may exceed `max_padding` up to this size, since tiny matrix products are slow.
        max_tokens: greatest size of a bucket, padding included (at least one row).
        max_rows: most rows in a bucket.

    Returns:
        Row indices, one array a bucket; together a permutation of `range(N)`.

    Example:
        >>> [rows.tolist() for rows in bucket_rows(np.array([2, 9, 2, 9]), min_tokens=1)]
        [[1, 3], [0, 2]]
    """
    order = np.argsort(-lengths, kind="stable")
    buckets = []
    start = 0
    while start < len(order):
        rest = lengths[order[start : start + max_rows]]
        padded = np.arange(1, len(rest) + 1) * max(int(rest[0]), 1)
        wasteful = np.cumsum(rest) < (1 - max_padding) * padded
        fits = (padded <= max_tokens) & (~wasteful | (padded <= min_tokens))
        size = len(rest) if fits.all() else max(int(np.argmin(fits)), 1)
        buckets.append(order[start : start + size])
        start += size
    return buckets


def in_buckets(
    encode: Callable[..., Tensor], embed_tokens: Callable[[Tensor], Tensor], batch: dict[str, Tensor], **options: float
) -> Tensor:
    """Run `encode` over buckets of `batch` and put the rows back in order: `[N, d]`.

    Args:
        encode: called with `inputs_embeds [n, l, width]` and the other tensors of the batch cut to `[n, l]`.
        embed_tokens: token ids to word embeddings. It runs once for all buckets: the gradient of its table is as
            large as the vocabulary, and would otherwise be filled and added once a bucket.
        batch: tensors `[N, L]`, padded on the right: `input_ids`, `attention_mask` and any other.
        options: for `bucket_rows`.
    """
    lengths = batch["attention_mask"].sum(1)
    widths = lengths.cpu().numpy()
    buckets = bucket_rows(widths, **options)  # type: ignore[arg-type]
    cut = []
    for rows in buckets:
        index, width = torch.from_numpy(rows).to(lengths.device), max(int(widths[rows[0]]), 1)
        cut.append({name: tensor[index, :width] for name, tensor in batch.items()})
    ids = [part.pop("input_ids") for part in cut]
    embedded = embed_tokens(torch.cat([part.flatten() for part in ids])).split([part.numel() for part in ids])
    outputs = [
        encode(inputs_embeds=vectors.view(*part.shape, -1), **rest)
        for vectors, part, rest in zip(embedded, ids, cut, strict=True)
    ]
    back = torch.from_numpy(np.argsort(np.concatenate(buckets))).to(lengths.device)
    return torch.cat(outputs)[back]
