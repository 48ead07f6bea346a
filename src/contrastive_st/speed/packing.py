"""Rows packed without padding: one row of all their tokens, in which attention keeps them apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrastive_st.buckets import bucket_rows, few_lengths, on_device, rows_of_one_length

Kernel = Callable[..., Tensor]
_HALF = (torch.float16, torch.bfloat16)
_GROUP = 256  # so many tokens attend together on a CPU, even if the rows have more padding than others


class PackedRows:
    """Rows of different lengths in one row of all their tokens: next to nothing is computed for padding.

    Everything in an encoder but attention treats each token alone; `attend` keeps the rows apart. On a GPU in half
    precision that is one call of flash attention, which takes the places where rows start; in other precisions the rows
    are padded for attention alone. On a CPU, where calls are cheap, the kernel is called for groups of rows of similar
    length. They are padded to the longest of the group, and the row of all tokens to one of few lengths, since oneDNN
    compiles code for each.

    Args:
        lengths: number of tokens of each row, `[N]`, known on the host; none is 0.
        width: L, that of the padded rows.
        device: of the tensors.
        exact: let rows attend together only if they have the same length, so that the bits of a row do not depend on
            the others.

    Example:
        >>> packed = PackedRows(np.array([2, 1]), 3, torch.device("cpu"))
        >>> tokens = packed.pack(torch.tensor([[5, 6, 0], [7, 0, 0]]))
        >>> tokens.tolist(), packed.unpack(tokens).tolist()
        ([[5, 6, 7, 0]], [[5, 6, 0], [7, 0, 0]])
    """

    def __init__(self, lengths: NDArray[np.int64], width: int, device: torch.device, exact: bool = False) -> None:
        self.shape = len(lengths), width
        self.longest, self.exact = int(lengths.max()), exact
        of_length = [(rows, int(lengths[rows[0]])) for rows in rows_of_one_length(lengths)] if exact else []
        self.groups = of_length or _groups(lengths, device)
        places = np.flatnonzero(np.arange(width) < lengths[:, None])
        if self.groups:
            places = np.concatenate([(rows[:, None] * width + np.arange(most)).ravel() for rows, most in self.groups])
        self.spare = few_lengths(len(places)) - len(places) if self.groups else 0
        self.masks = [_mask(lengths[rows]) for rows, _ in self.groups]
        starts = np.concatenate([[0], lengths.cumsum()]).astype(np.int32)
        self.places, self.starts = (on_device(x, device) for x in (places, starts))

    def pack(self, x: Tensor) -> Tensor:
        """The tokens of `[N, L, ...]`, as `[1, T, ...]`."""
        places = torch.cat([self.places, self.places[:1].expand(self.spare)]) if self.spare else self.places
        return x.flatten(0, 1)[places][None]

    def unpack(self, x: Tensor) -> Tensor:
        """`[1, T, ...]` as `[N, L, ...]`; padding has zeros, or anything that is finite."""
        rows, width = self.shape
        padded = x.new_zeros(rows * width, *x.shape[2:]).index_copy(0, self.places, x[0, : len(self.places)])
        return padded.view(rows, width, *x.shape[2:])

    def attend(self, kernel: Kernel, query: Tensor, key: Tensor, value: Tensor, **options: float | None) -> Tensor:
        """Attention within each row.

        Args:
            kernel: `scaled_dot_product_attention`, or what computes the same.
            query: `[1, heads, T, d]`.
            key: `[1, heads, T, d]`.
            value: `[1, heads, T, d]`.
            options: `dropout_p` and `scale`.
        """
        tokens = [x[0].transpose(0, 1) for x in (query, key, value)]  # [T, heads, d]
        if self.groups:
            shapes = [(len(rows), most) for rows, most in self.groups]
            parts = zip(*(x.split([rows * most for rows, most in shapes] + [self.spare]) for x in tokens), strict=True)
            result = []
            for part, shape, mask in zip(parts, shapes, self.masks, strict=False):  # the spare tokens are the last part
                rows = [x.unflatten(0, shape).transpose(1, 2) for x in part]
                result.append(kernel(*rows, attn_mask=mask, **options).transpose(1, 2).flatten(0, 1))
            attended = torch.cat([*result, tokens[2][len(self.places) :].to(result[0].dtype)])
        elif query.dtype in _HALF and query.shape[3] % 8 == 0 and has_flash_attention(query.device):
            # what torch's own jagged tensors call; torch's public function for it has no dropout
            starts, most = (self.starts, self.starts), (self.longest, self.longest)
            flash, drop = torch.ops.aten._flash_attention_forward, options.get("dropout_p", 0.0)
            contiguous = (x.contiguous() for x in tokens)
            attended = flash(*contiguous, *starts, *most, drop, False, False, scale=options.get("scale"))[0]
        else:
            seen = torch.arange(self.shape[1], device=self.starts.device) < self.starts.diff()[:, None]
            rows = [self.unpack(x[None]).transpose(1, 2) for x in tokens]
            padded = kernel(*rows, attn_mask=seen[:, None, None], **options)
            attended = padded.transpose(1, 2).flatten(0, 1)[self.places]
        return attended.transpose(0, 1)[None]


def has_flash_attention(device: torch.device) -> bool:
    """Whether this build of torch has flash attention for a GPU: one of NVIDIA's from Ampere on (A100, RTX 30).

    Example:
        >>> has_flash_attention(torch.device("cpu"))
        False
    """
    if device.type != "cuda" or torch.version.cuda is None or not torch.backends.cuda.is_flash_attention_available():
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0)


def packed_tokens(lengths: NDArray[np.int64], device: torch.device) -> int:
    """Number of tokens that `PackedRows` computes for rows of these lengths.

    Example:
        >>> packed_tokens(np.array([2, 1]), torch.device("cuda")), packed_tokens(np.full(9, 30), torch.device("cpu"))
        (3, 272)
    """
    groups = _groups(lengths, device)
    return few_lengths(sum(len(rows) * most for rows, most in groups)) if groups else int(lengths.sum())


def _groups(lengths: NDArray[np.int64], device: torch.device) -> list[tuple[NDArray[np.int64], int]]:
    """On a CPU: rows of similar length that attend together, and their greatest length; else none."""
    if device.type != "cpu":
        return []
    buckets = bucket_rows(lengths, max_padding=0.04, min_tokens=_GROUP, widths=lengths)
    return [(rows, int(lengths[rows[0]])) for rows in buckets]


def _mask(lengths: NDArray[np.int64]) -> Tensor | None:
    """Which tokens of rows, longest first, are attended to, `[n, 1, 1, L]`; None for all."""
    if lengths[0] == lengths[-1]:
        return None
    return torch.from_numpy(np.arange(lengths[0]) < lengths[:, None])[:, None, None]
