"""The poolings, which make the vector of a text from the states of its tokens: one row of `POOLINGS` each.

torch is imported by none, so that what a folder records is read without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contrastive_st.errors import choice

if TYPE_CHECKING:
    from torch import Tensor


def _first(states: Tensor, mask: Tensor) -> Tensor:
    return states[_rows(states), (mask != 0).int().argmax(1)]


def _last(states: Tensor, mask: Tensor) -> Tensor:
    return states[_rows(states), (_places(states) * (mask != 0)).amax(1)]


def _max(states: Tensor, mask: Tensor) -> Tensor:
    real = mask.unsqueeze(-1)
    return states.masked_fill(real == 0, float("-inf")).amax(1).masked_fill(real.sum(1) == 0, 0.0)


def _mean(states: Tensor, mask: Tensor) -> Tensor:
    real = mask.unsqueeze(-1).to(states.dtype)
    return (states * real).sum(1) / real.sum(1).clamp(min=1)


def _mean_sqrt_len(states: Tensor, mask: Tensor) -> Tensor:
    real = mask.unsqueeze(-1).to(states.dtype)
    return (states * real).sum(1) / real.sum(1).clamp(min=1).sqrt()


def _weighted_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Token i of a row has the weight i (Muennighoff 2022, https://arxiv.org/abs/2202.08904)."""
    return _mean(states, mask * (_places(states) + 1))


def _rows(states: Tensor) -> Tensor:
    import torch

    return torch.arange(states.shape[0], device=states.device)  # not `len`, which is a constant in a graph


def _places(states: Tensor) -> Tensor:
    import torch

    return torch.arange(states.shape[1], device=states.device)


@dataclass(frozen=True)
class Pooling:
    """How states of tokens become a vector.

    Args:
        pool: makes vectors `[N, d]` of states `[N, L, d]` and a mask `[N, L]`, not zero on the tokens to pool.
        mode: its name in the `Pooling` of sentence-transformers; None if there is none, and then
            sentence-transformers refuses the saved folders.
        layers: the layers whose mean the states are, as indices of transformers' `hidden_states`.
    """

    pool: Callable[[Tensor, Tensor], Tensor]
    mode: str | None = None
    layers: tuple[int, ...] = (-1,)

    def of(self, hidden_states: Sequence[Tensor], attention_mask: Tensor) -> Tensor:
        """The vectors of texts; arguments as for `pool`."""
        states, *more = [hidden_states[layer] for layer in self.layers]
        return self.pool(sum(more, states) / len(self.layers) if more else states, attention_mask)


#: `cls` is the first token, with the projection head on top, which is the backbone's pooler. `avg_first_last` averages
#: the first and the last *transformer* layer, not the embedding layer (a known error in early SimCSE results)
POOLINGS = {
    "cls": Pooling(_first, "cls_token"),
    "cls_before_pooler": Pooling(_first, "cls_token"),
    "mean": Pooling(_mean, "mean_tokens"),
    "max": Pooling(_max, "max_tokens"),
    "avg_first_last": Pooling(_mean, "mean_tokens", layers=(1, -1)),
    "avg_top2": Pooling(_mean, "mean_tokens", layers=(-2, -1)),
    "last": Pooling(_last, "lasttoken"),
    "mean_sqrt_len": Pooling(_mean_sqrt_len, "mean_sqrt_len_tokens"),
    "weighted_mean": Pooling(_weighted_mean, "weightedmean_tokens"),
}
#: The names of those that need no head
WITHOUT_HEAD = ", ".join(name for name in POOLINGS if name != "cls")


def pool(hidden_states: Sequence[Tensor], attention_mask: Tensor, pooling: str) -> Tensor:
    """Pool token states `[N, L, d]` to sentence vectors `[N, d]`.

    Args:
        hidden_states: the states of all layers, from the embedding layer to the last. A
            pooling of one layer reads only the last.
        attention_mask: `[N, L]`, 1 on the tokens to pool: all real tokens, or those after a prompt.
        pooling: one of `POOLINGS`.

    Returns:
        Vectors `[N, d]`, in the type of the states.

    Raises:
        InputError: there is no such pooling.

    Example:
        >>> import torch
        >>> states = torch.tensor([[[1.0], [3.0], [9.0]]])
        >>> pool([states], torch.tensor([[1, 1, 0]]), "mean")
        tensor([[2.]])
    """
    return POOLINGS[choice("pooling", pooling, POOLINGS)].of(hidden_states, attention_mask)
