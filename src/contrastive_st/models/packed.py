"""float32 products by oneDNN on CPUs: torch's own go to another library, half as fast on some of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

_ROWS = 1024  # tokens that the layout of the packed weights is chosen for; any other number works
_OPS = torch.ops.mkldnn


@contextlib.contextmanager
def packed_products(model: nn.Module) -> Iterator[None]:
    """Within, the `nn.Linear` layers of `model` that are in float32 on a CPU run on packed copies of their weights.

    For inference: values agree to rounding (both add up in float32), gradients are not kept, and weights must not
    change within. Does nothing where torch was built without oneDNN.

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
        return _OPS._linear_pointwise(x, weight, bias, "none", [], "")

    return product
