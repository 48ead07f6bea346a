"""What a pooling has before and after it: cutoff, dense layers and `Normalize`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from contrastive_st.errors import choice
from contrastive_st.losses.functional import normalize
from contrastive_st.models.checkpoint import ACTIVATIONS
from contrastive_st.options import Count, Options, from_keys

# --- Cutoff (Shen et al. 2020, https://arxiv.org/abs/2009.13818): set parts of a sentence's embedding matrix to zero.


def draw_cutoff(attention_mask: Tensor, width: int, kind: str, ratio: float) -> tuple[Tensor, Tensor]:
    """Draw a random cutoff: factors `[N, L, 1]` or `[N, 1, width]` of the embeddings, and the new attention mask.

    In a row of n tokens, `int(n * ratio)` different tokens are cut, never the first ([CLS]). With the kind `feature`,
    `int(width * ratio)` features are cut, the same for all tokens. Cut tokens are not attended to; cut features do not
    change the mask. The numbers come from torch's default generator: the same state gives the same cutoff.

    Args:
        attention_mask: `[N, L]`, padded on the right.
        width: number of features of the embeddings.
        kind: `token`, `span` or `feature`.
        ratio: share of the tokens or features to cut.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> factors, mask = draw_cutoff(torch.tensor([[1, 1, 1, 1, 1, 0]]), 8, "span", 0.4)
        >>> factors[0, :, 0].tolist(), mask.tolist()
        ([1.0, 1.0, 0.0, 0.0, 1.0, 0.0], [[1, 1, 0, 0, 1, 0]])
    """
    rows, length = attention_mask.shape
    device = attention_mask.device
    if kind == "feature":
        ranks = torch.rand(rows, width, device=device).argsort(1).argsort(1)
        return (ranks >= int(width * ratio))[:, None].float(), attention_mask
    tokens = attention_mask.sum(1, keepdim=True)
    count = (tokens * ratio + 1e-6).long()  # 30 * 0.1 is 3, in float32 too
    places = torch.arange(length, device=device)
    if kind == "span":
        start = 1 + (torch.rand(rows, 1, device=device) * (tokens - count)).long()
        cut = (places >= start) & (places < start + count)
    else:
        free = (attention_mask != 0) & (places > 0)
        draws = torch.rand(rows, length, device=device).masked_fill(~free, 2.0)
        cut = draws.argsort(1).argsort(1) < count
    mask = attention_mask * ~cut
    return mask[..., None].float(), mask


@contextlib.contextmanager
def scaled_output(module: nn.Module, factors: Tensor) -> Iterator[None]:
    """A context in which the output of `module` is multiplied by `factors`."""
    handle = module.register_forward_hook(lambda _, inputs, output: output * factors.to(output.dtype))
    try:
        yield
    finally:
        handle.remove()


# --- Layers after the pooling: dense layers with their activations, and `Normalize`.


class Normalize(nn.Module):
    """Divides vectors by their lengths, in float32 or wider."""

    def forward(self, x: Tensor) -> Tensor:
        """`[N, d] -> [N, d]`."""
        return normalize(x)


def dense_settings(given: Any) -> dict[str, Any]:
    """The settings of a dense layer, complete; by default it has a bias and Tanh, as in sentence-transformers.

    Args:
        given: `out_features`, and perhaps `bias` and `activation`, one of `ACTIVATIONS`.

    Raises:
        InputError: they are not such settings.

    Example:
        >>> dense_settings({"out_features": 64})
        {'out_features': 64, 'bias': True, 'activation': 'Tanh'}
    """
    layer = asdict(from_keys(_Dense, given))
    choice("activation of a dense layer:", layer["activation"], ACTIVATIONS)
    return layer


@dataclass
class _Dense(Options):
    out_features: Count
    bias: bool = True
    activation: str = "Tanh"


def final_layers(dim: int, dense: Sequence[Mapping[str, Any]], normalized: bool) -> nn.Sequential:
    """The layers from the pooled vector to the embedding: `Linear` and activation for each dense layer, `Normalize`.

    Args:
        dim: dimension of the pooled vector.
        dense: the settings of the dense layers.
        normalized: whether `Normalize` is last.

    Example:
        >>> vectors = final_layers(16, [dense_settings({"out_features": 4})], True)(torch.ones(2, 16))
        >>> [round(length, 4) for length in vectors.norm(dim=1).tolist()]
        [1.0, 1.0]
    """
    layers = nn.Sequential()
    for layer in dense:
        linear = nn.Linear(dim, layer["out_features"], bias=layer["bias"])
        layers.extend([linear, getattr(nn, layer["activation"])()])
        dim = layer["out_features"]
    if normalized:
        layers.append(Normalize())
    return layers
