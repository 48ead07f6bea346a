"""Attention in training as an attention function of transformers: packed rows, faster kernels, known padding.

transformers asks a config for the name of its attention function. Within `training_attention` the config of a model
that attends by torch's `sdpa` names the function registered here, which chooses a kernel and passes the rest to `sdpa`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from contrastive_st.forks import undone
from contrastive_st.speed import switch
from contrastive_st.speed.dropout import integer_dropout
from contrastive_st.speed.packing import PackedRows

NAME = "contrastive_st"
_SHORT = 128  # up to this many tokens plain attention is faster in bfloat16 without dropout too
_OTHERS = ("position_bias", "cache", "softcap")  # what else an attention function may be given
_NEVER = torch.finfo(torch.bfloat16).min


@dataclass(frozen=True)
class _Choice:
    """How a model attends: to which packed rows, whether other rows have padding, and whether kernels are chosen."""

    rows: PackedRows | None = None
    padded: bool | None = None
    kernels: bool = False


class _Chosen(threading.local):
    choice = _Choice()


_CHOSEN = _Chosen()


@contextlib.contextmanager
def training_attention(
    config: PreTrainedConfig, rows: PackedRows | None = None, padded: bool | None = None, kernels: bool = False
) -> Iterator[None]:
    """A context in which the model of this config attends by the function of this file, if it attends by `sdpa`.

    Args:
        config: of the model; its attention function is exchanged for the time of the context.
        rows: the rows that are packed; by default they are not.
        padded: whether a row is shorter than the others; if None, transformers looks at the mask, for which the host
            waits on a GPU.
        kernels: take `plain_attention` where it is faster: on a CPU in bfloat16, for up to 128 tokens, where torch's
            fused kernel takes 4 to 14 times as long, and with dropout, for which torch has no fused kernel on a CPU and
            its products take 1.9 to 3.4 times as long (docs/results.md).
    """
    choice = _Choice(rows, padded, kernels)
    if config._attn_implementation != "sdpa" or not switch.on or choice == _Choice():
        yield
        return
    before = _CHOSEN.choice
    with undone(partial(setattr, config, "_attn_implementation", "sdpa")):
        _CHOSEN.choice, config._attn_implementation = choice, NAME
        try:
            yield
        finally:
            _CHOSEN.choice = before


def is_plain_sdpa(config: PreTrainedConfig) -> bool:
    """Whether rows without a mask attend as torch's `scaled_dot_product_attention` does, and no rows are packed."""
    name = config._attn_implementation
    return name == "sdpa" or (name == NAME and _CHOSEN.choice.rows is None and not _CHOSEN.choice.kernels)


def _attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """An attention function of transformers: tensors `[N, heads, L, d]` to `[N, L, heads, d]`."""
    choice = _CHOSEN.choice
    arguments: dict[str, Any] = {"dropout_p": dropout, "scale": scaling}
    if choice.rows is not None:
        kernel = _kernel if choice.kernels else scaled_dot_product_attention
        return choice.rows.attend(kernel, query, key, value, **arguments).transpose(1, 2).contiguous(), None
    causal = options.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    # whether the mask says all of which tokens attend to which: no causality, no bias, no cache
    masked = (attention_mask is not None or not causal) and all(options.get(name) is None for name in _OTHERS)
    if choice.kernels and masked and _is_plain(query, dropout):
        groups = getattr(module, "num_key_value_groups", 1)
        key, value = repeat_kv(key, groups), repeat_kv(value, groups)
        return plain_attention(query, key, value, attention_mask, **arguments).transpose(1, 2).contiguous(), None
    return sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, **options)


def _is_plain(query: Tensor, dropout: float) -> bool:
    """Whether `plain_attention` is the faster kernel."""
    here = query.device.type == "cpu" and torch.is_autocast_enabled("cpu")
    return here and (query.shape[-2] <= _SHORT or bool(dropout))


def _kernel(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    kernel = plain_attention if _is_plain(query, options["dropout_p"]) else scaled_dot_product_attention
    return kernel(query, key, value, **options)


def _mask(*args: Any, **options: Any) -> Tensor | None:
    """A mask function of transformers: none for packed rows, and no look at the values where padding is known."""
    choice = _CHOSEN.choice
    if choice.rows is not None:
        return None
    if choice.padded:
        options |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    elif choice.padded is not None:
        options["attention_mask"] = None
    return sdpa_mask(*args, **options)


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, _mask)


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

    torch's products compute in float32 throughout. The scores here are rounded to bfloat16, as in the eager
    attention of transformers.

    Args:
        query: `[N, heads, L, d]`.
        key: `[N, heads, L, d]`.
        value: `[N, heads, L, d]`.
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
