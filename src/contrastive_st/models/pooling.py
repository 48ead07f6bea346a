"""From token states to one vector a sentence."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from contrastive_st.errors import InputError

POOLINGS = ("cls", "cls_before_pooler", "mean", "max", "avg_first_last", "avg_top2", "last")
_TWO_LAYERS = {"avg_first_last": (1, -1), "avg_top2": (-2, -1)}


def check_pooling(pooling: str) -> str:
    """Return `pooling` if it is one of `POOLINGS`, else raise `InputError` with the list."""
    if pooling not in POOLINGS:
        raise InputError(f"unknown pooling {pooling!r}; choose one of {', '.join(POOLINGS)}")
    return pooling


def needs_all_layers(pooling: str) -> bool:
    """Whether the pooling reads more than the last layer."""
    return pooling in _TWO_LAYERS


def pool(hidden_states: Sequence[Tensor], attention_mask: Tensor, pooling: str) -> Tensor:
    """Pool the states of all layers, each `[N, L, d]`, to `[N, d]`.

    `hidden_states[0]` is the embedding layer, `hidden_states[-1]` the last one; only that is read unless
    `needs_all_layers(pooling)`. `attention_mask` `[N, L]` is 1 on real tokens. `cls` means the first token here:
    the projection head on top of it is the backbone's own pooler. `avg_first_last` averages the first and the
    last *transformer* layer (not the static embeddings, a known fault of early SimCSE figures).

    Example:
        >>> states = torch.tensor([[[1.0], [3.0], [9.0]]])
        >>> pool([states], torch.tensor([[1, 1, 0]]), "mean")
        tensor([[2.]])
    """
    check_pooling(pooling)
    last = hidden_states[-1]
    if pooling in ("cls", "cls_before_pooler"):
        return last[:, 0]
    if pooling == "last":
        places = torch.arange(last.shape[1], device=last.device)
        return last[torch.arange(len(last), device=last.device), (places * (attention_mask != 0)).amax(1)]
    mask = attention_mask.unsqueeze(-1).to(last.dtype)
    if pooling == "max":
        return last.masked_fill(mask == 0, float("-inf")).amax(1)
    if needs_all_layers(pooling):
        first, second = _TWO_LAYERS[pooling]
        last = (hidden_states[first] + hidden_states[second]) / 2
    return (last * mask).sum(1) / mask.sum(1).clamp(min=1)
