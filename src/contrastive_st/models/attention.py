"""Attention: kernels for training on a CPU, masks that wait for no device, rows packed without padding."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from transformers import masking_utils

from contrastive_st.models.dropout import integer_dropout
from contrastive_st.tokens import bucket_rows, round_up

_SHORT = 128  # up to this many tokens plain attention is faster in bfloat16 without dropout too
_GROUP = 256  # so many tokens attend together on a CPU, even if the rows have more padding than others
_MASKS = threading.RLock()  # the table of mask functions is one for all threads


@contextlib.contextmanager
def known_padding(padded: bool | None) -> Iterator[None]:
    """A context in which transformers need not check on the device whether a mask has padding, for which it would wait.

    Args:
        padded: whether a row is shorter than the others; if None, transformers checks.
    """
    with _masks_by(None if padded is None else _mask_with_padding if padded else _mask_without_padding):
        yield


@contextlib.contextmanager
def _masks_by(function: Callable[..., Any] | None) -> Iterator[None]:
    """A context in which transformers makes masks for `sdpa` by this function; None leaves its own."""
    masks = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS
    with contextlib.nullcontext() if function is None else _MASKS:
        if function is None or masks["sdpa"] is not masking_utils.sdpa_mask:
            yield
            return
        masks["sdpa"] = function  # of this interface alone
        try:
            yield
        finally:
            del masks["sdpa"]


def _mask_with_padding(*args: Any, **options: Any) -> Any:
    options |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    return masking_utils.sdpa_mask(*args, **options)


def _mask_without_padding(*args: Any, **options: Any) -> Any:
    return masking_utils.sdpa_mask(*args, **{**options, "attention_mask": None})


def training_attention(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """A context that chooses the kernel of `scaled_dot_product_attention` for a training step on a device.

    On a CPU in bfloat16 it is `plain_attention` for up to 128 tokens, where torch's fused kernel takes 4 to 14 times as
    long, and with dropout, for which torch has no fused kernel on a CPU and its products take 1.9 to 3.4 times as long
    (`benchmarks/attention.py`).
    """
    plain = device.type == "cpu" and torch.is_autocast_enabled("cpu")
    return _PlainAttention() if plain else contextlib.nullcontext()


class _PlainAttention(TorchFunctionMode):
    """`scaled_dot_product_attention` inside is `plain_attention`, where that is faster and knows the arguments."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        known = len(args) <= 3 and not (kwargs.get("is_causal") or kwargs.get("enable_gqa"))  # the others by name
        if func is scaled_dot_product_attention and known:
            tokens = (args[0] if args else kwargs["query"]).shape[-2]
            if tokens <= _SHORT or kwargs.get("dropout_p"):
                return plain_attention(*args, **{name: kwargs[name] for name in kwargs if name in _KNOWN})
        return func(*args, **kwargs)


class PackedRows:
    """Rows of different lengths in one row of all their tokens: next to nothing is computed for padding.

    Everything in an encoder but attention treats each token alone. `attention` is a context in which
    `scaled_dot_product_attention` keeps the rows apart. On a GPU it does so by torch's jagged tensors, which in half
    precision is one call of flash attention. On a CPU, where calls are cheap, it is called for groups of rows of
    similar length. They are padded to the longest of the group, and the row of all tokens to one of few lengths, since
    oneDNN compiles code for each.

    Args:
        lengths: number of tokens of each row, `[N]`, known on the host; none is 0.
        width: L, that of the padded rows.
        device: of the tensors.

    Example:
        >>> packed = PackedRows(np.array([2, 1]), 3, torch.device("cpu"))
        >>> tokens = packed.pack(torch.tensor([[5, 6, 0], [7, 0, 0]]))
        >>> tokens.tolist(), packed.unpack(tokens).tolist()
        ([[5, 6, 7, 0]], [[5, 6, 0], [7, 0, 0]])
    """

    def __init__(self, lengths: NDArray[np.int64], width: int, device: torch.device) -> None:
        self.shape = len(lengths), width
        self.shortest, self.longest = int(lengths.min()), int(lengths.max())
        self.groups = _groups(lengths, device)
        places = np.flatnonzero(np.arange(width) < lengths[:, None])
        if self.groups:
            places = np.concatenate([(rows[:, None] * width + np.arange(most)).ravel() for rows, most in self.groups])
        self.spare = _few(len(places)) - len(places) if self.groups else 0
        self.masks = [_mask(lengths[rows]) for rows, _ in self.groups]
        starts = np.concatenate([[0], lengths.cumsum()])
        self.places, self.starts = (torch.from_numpy(x).to(device, non_blocking=True) for x in (places, starts))

    def pack(self, x: Tensor) -> Tensor:
        """The tokens of `[N, L, ...]`, as `[1, T, ...]`."""
        places = torch.cat([self.places, self.places[:1].expand(self.spare)]) if self.spare else self.places
        return x.flatten(0, 1)[places][None]

    def unpack(self, x: Tensor) -> Tensor:
        """`[1, T, ...]` as `[N, L, ...]`; padding has zeros, or anything that is finite."""
        rows, width = self.shape
        padded = x.new_zeros(rows * width, *x.shape[2:]).index_copy(0, self.places, x[0, : len(self.places)])
        return padded.view(rows, width, *x.shape[2:])

    @contextlib.contextmanager
    def attention(self) -> Iterator[None]:
        """A context in which `scaled_dot_product_attention` of `[1, heads, T, d]` attends within each row."""
        with _masks_by(lambda *args, **options: None), _PackedAttention(self):
            yield

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """`scaled_dot_product_attention` within each row; tensors `[1, heads, T, d]`."""
        if attn_mask is not None or is_causal or enable_gqa:
            raise NotImplementedError("packed rows have no mask but their bounds")
        tokens = [x[0].transpose(0, 1) for x in (query, key, value)]  # [T, heads, d]
        options: dict[str, Any] = {"dropout_p": dropout_p, "scale": scale}
        attend = self._in_groups if self.groups else self._jagged
        return attend(*tokens, **options).transpose(0, 1)[None]

    def _in_groups(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        shapes = [(len(rows), most) for rows, most in self.groups]
        sizes = [rows * most for rows, most in shapes]
        parts = zip(*(x.split([*sizes, self.spare]) for x in (query, key, value)), strict=True)
        found = []
        for own, shape, mask in zip(parts, shapes, self.masks, strict=False):  # the spare tokens are the last part
            q, k, v = (x.unflatten(0, shape).transpose(1, 2) for x in own)
            found.append(scaled_dot_product_attention(q, k, v, attn_mask=mask, **options))
        tokens = [x.transpose(1, 2).flatten(0, 1) for x in found]
        return torch.cat([*tokens, value[len(self.places) :].to(tokens[0].dtype)])

    def _jagged(self, *tokens: Tensor, **options: Any) -> Tensor:
        known: dict[str, Any] = {"min_seqlen": self.shortest, "max_seqlen": self.longest}  # else the host waits

        def jagged(x: Tensor) -> Tensor:
            return torch.nested.nested_tensor_from_jagged(x.contiguous(), self.starts, **known).transpose(1, 2)

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The PyTorch API of nested tensors")  # which torch itself uses on a CPU
            q, k, v = map(jagged, tokens)
            found: Tensor = scaled_dot_product_attention(q, k, v, **options).transpose(1, 2).values()
        return found


def packed_tokens(lengths: NDArray[np.int64], device: torch.device) -> int:
    """Number of tokens that `PackedRows` computes for rows of these lengths.

    Example:
        >>> packed_tokens(np.array([2, 1]), torch.device("cuda")), packed_tokens(np.full(9, 30), torch.device("cpu"))
        (3, 272)
    """
    groups = _groups(lengths, device)
    return _few(sum(len(rows) * most for rows, most in groups)) if groups else int(lengths.sum())


def _few(tokens: int) -> int:
    """The next of few numbers of tokens, at most 3% more."""
    return int(round_up(np.array([tokens]), 6)[0])


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


class _PackedAttention(TorchFunctionMode):
    """`scaled_dot_product_attention` inside is that within each row."""

    def __init__(self, rows: PackedRows) -> None:
        super().__init__()
        self.rows = rows

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = self.rows.attend if func is scaled_dot_product_attention else func
        return call(*args, **(kwargs or {}))


_NEVER = torch.finfo(torch.bfloat16).min
_KNOWN = ("query", "key", "value", "attn_mask", "dropout_p", "scale")


def plain_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    *,
    scale: float | None = None,
) -> Tensor:
    """`scaled_dot_product_attention` as products in bfloat16 and a softmax in float32, with `integer_dropout`.

    torch's own products compute in float32 throughout. The scores here are rounded to bfloat16, as in the eager
    attention of transformers.

    Args:
        query, key, value: `[N, heads, L, d]`.
        attn_mask: broadcast to `[N, heads, L, L]`: true where a token is attended to, or numbers to add to the scores.
        dropout_p: probability that a weight is dropped.
        scale: of the scores; `d ** -0.5` by default.
    """
    query, key, value = (x.to(torch.bfloat16) for x in (query, key, value))
    with torch.autocast("cpu", enabled=False):
        scores = (query * (scale or query.shape[-1] ** -0.5)) @ key.transpose(-1, -2)
        if attn_mask is not None and attn_mask.dtype == torch.bool:  # as numbers, a twelfth of the scores with 12 heads
            attn_mask = torch.zeros_like(attn_mask, dtype=scores.dtype).masked_fill_(~attn_mask, _NEVER)
        if attn_mask is not None:
            scores += attn_mask
        weights = scores.softmax(-1, dtype=torch.float32).to(torch.bfloat16)
        return integer_dropout(weights, dropout_p) @ value
