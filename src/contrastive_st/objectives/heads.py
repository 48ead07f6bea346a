"""Modules that an objective trains beside the encoder: a finished encoder is saved without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from contrastive_st.errors import InputError

#: What a classifier may read of the embeddings u and v of a pair
PARTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "u": lambda u, v: u,
    "v": lambda u, v: v,
    "abs(u-v)": lambda u, v: (u - v).abs(),
    "u*v": lambda u, v: u * v,
}


def pair_features(u: Tensor, v: Tensor, parts: Sequence[str]) -> Tensor:
    """The parts side by side, `[B, d], [B, d] -> [B, len(parts) * d]`.

    Example:
        >>> pair_features(torch.tensor([[3.0]]), torch.tensor([[5.0]]), ["u", "v", "abs(u-v)", "u*v"])
        tensor([[ 3.,  5.,  2., 15.]])
    """
    if not parts or (unknown := [part for part in parts if part not in PARTS]):
        raise InputError(f"a classifier cannot read {', '.join(unknown) if parts else 'nothing'}; choose from "
                         f"{', '.join(PARTS)}")  # fmt: skip
    return torch.cat([PARTS[part](u, v) for part in parts], dim=-1)


class PairHead(nn.Module):
    """Scores `[B, num_labels]` of the labels of pairs: a linear layer, or with `hidden` two tanh layers below it.

    (InferSent's classifier without a non-linearity between its three layers is one linear layer that trains slowly.)

    Example:
        >>> PairHead(4, ("u", "v", "abs(u-v)"), num_labels=3)(torch.ones(2, 4), torch.ones(2, 4)).shape
        torch.Size([2, 3])
    """

    def __init__(self, width: int, parts: Sequence[str], num_labels: int, hidden: int = 0) -> None:
        super().__init__()
        self.parts = tuple(parts)
        wide = width * len(self.parts)
        if hidden:
            layers = [nn.Linear(wide, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh()]
            self.layers = nn.Sequential(*layers, nn.Linear(hidden, num_labels))
        else:
            self.layers = nn.Sequential(nn.Linear(wide, num_labels))

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        return self.layers(pair_features(u, v, self.parts))
