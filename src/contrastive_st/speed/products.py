"""Float32 products by oneDNN with packed weights, for inference on a CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

_ROWS = 1024  # number of tokens for which the layout of packed weights is chosen; others work too
_OPS = torch.ops.mkldnn


@contextlib.contextmanager
def packed_products(model: nn.Module) -> Iterator[None]:
    """A context in which the float32 `nn.Linear` layers of a `model` on a CPU use packed copies of their weights.

    For inference: values are equal up to rounding (both sum in float32), there are no gradients, and weights must not
    change inside the context. Without oneDNN in torch it does nothing.

    Example:
        >>> layer, x = nn.Linear(8, 4), torch.ones(2, 8)
        >>> with torch.inference_mode(), packed_products(layer):
        ...     packed = layer(x)
        >>> torch.allclose(packed, layer(x))
        True
    """
    layers = [layer for layer in model.modules() if type(layer) is nn.Linear and _can_be_packed(layer)]
    with torch.no_grad():
        products = [_product(layer) for layer in layers]
    for layer, product in zip(layers, products, strict=True):
        layer.forward = product  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _can_be_packed(layer: nn.Linear) -> bool:
    here = layer.weight.device.type == "cpu" and layer.weight.dtype == torch.float32
    return here and torch.backends.mkldnn.is_available() and hasattr(_OPS, "_reorder_linear_weight")


def _product(layer: nn.Linear) -> Callable[[Tensor], Tensor]:
    weight = _OPS._reorder_linear_weight(layer.weight.detach(), _ROWS)
    bias = None if layer.bias is None else layer.bias.detach()

    def product(x: Tensor) -> Tensor:
        if x.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):  # a model in training brings its own autocast
            return nn.functional.linear(x, layer.weight, layer.bias)
        packed: Tensor = _OPS._linear_pointwise(x, weight, bias, "none", [], "")
        return packed

    return product
