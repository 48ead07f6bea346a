"""Float32 products by oneDNN with packed weights, for inference on a CPU."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

_ROWS = 1024  # number of tokens for which the layout of packed weights is chosen; others work too
_OPS = torch.ops.mkldnn


Product = Callable[[Tensor], Tensor]
#: Products of models that are kept, and the state of the weights from which they were made
_KEPT: weakref.WeakKeyDictionary[nn.Module, tuple[list[object], list[Product]]] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def packed_products(model: nn.Module, keep: bool = False) -> Iterator[None]:
    """A context in which the float32 `nn.Linear` layers of a `model` on a CPU use packed copies of their weights.

    For inference: values are equal up to rounding (both sum in float32), there are no gradients, and weights must not
    change inside the context. The bits of a row do not depend on the number of rows or threads, as they do in other
    products of torch. Without oneDNN in torch it does nothing.

    The copies need as much memory as the weights of the layers. Those that are kept go with the model.

    Args:
        model: the model.
        keep: keep the copies for the next call. It makes new ones if a weight has another place, another version (as
            after a step of an optimizer or `load_state_dict`) or another sample of numbers, of every row: changes of
            `weight.data` have no version. So a change of single numbers of `weight.data` may not be seen.

    Example:
        >>> layer, x = nn.Linear(8, 4), torch.ones(2, 8)
        >>> with torch.inference_mode(), packed_products(layer):
        ...     packed = layer(x)
        >>> torch.allclose(packed, layer(x))
        True
    """
    sharded = hasattr(model, "unshard")  # by FSDP 2: a layer has its whole weight only while it computes
    packs = not sharded and torch.backends.mkldnn.is_available() and hasattr(_OPS, "_reorder_linear_weight")
    layers = [one for one in model.modules() if type(one) is nn.Linear] if packs else []
    layers = [one for one in layers if one.weight.is_cpu and one.weight.dtype == torch.float32 and one.weight.numel()]
    state: list[object] = [_state(layer) for layer in layers] if keep else []
    before, products = _KEPT.get(model, ([], []))
    if not keep or state != before:
        _KEPT.pop(model, None)
        with torch.no_grad():
            products = [_product(layer) for layer in layers]
    if keep:
        _KEPT[model] = state, products
    for layer, product in zip(layers, products, strict=True):
        layer.forward = product  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _state(layer: nn.Linear) -> tuple[object, ...]:
    """What changes with the weights of a layer: their places and versions, and a number or two of each row."""
    places = [(x.data_ptr(), 0 if x.is_inference() else x._version) for x in layer.parameters()]
    sample = layer.weight.detach().reshape(-1)[:: max(layer.in_features - 1, 1)].numpy().tobytes()
    return id(layer), layer.weight.shape, places, sample


def _product(layer: nn.Linear) -> Product:
    own, given = layer.weight, layer.bias  # not the layer, which may be the key of `_KEPT`
    weight = _OPS._reorder_linear_weight(own.detach(), _ROWS)
    # without a bias the bits of a row would depend on the number of rows
    bias = own.new_zeros(layer.out_features) if given is None else given.detach()

    def product(x: Tensor) -> Tensor:
        if x.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):  # a model in training brings its own autocast
            return nn.functional.linear(x, own, given)
        packed: Tensor = _OPS._linear_pointwise(x, weight, bias, "none", [], "")
        return packed

    return product
