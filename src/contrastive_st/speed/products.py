"""Products by oneDNN with packed weights, in float32 and bfloat16, for inference on a CPU."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from functools import partial
from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from contrastive_st.device import has_amx

_ROWS = 1024  # number of tokens for which the layout of packed weights is chosen; others work too
#: With AMX, oneDNN cuts the sum over an inner dimension of 512 or more in other places for other numbers of rows. It
#: sums in one piece over up to 448, in products of up to 32 rows, and in convolutions, whose fastest images have 128.
_IN_ONE_PIECE, _FEW, _IMAGE = 448, 32, 128
_OPS = torch.ops.mkldnn
_EACH_PIXEL = ([0, 0], [1, 1], [1, 1], 1)  # padding, stride, dilation and groups of such a convolution
_INTEGERS = {torch.float32: torch.int32, torch.bfloat16: torch.int16}  # of the same size as each type that is packed


class _Kept:
    """Packed weights of the layers of a model, until it changes.

    A change is another module, and a weight with another place, another version or another sample of its numbers, of
    every row. It is looked for whenever texts are encoded, so it has to be quick.
    """

    def __init__(self, modules: list[nn.Module]) -> None:
        self.modules = [id(module) for module in modules]
        layers = {module: place for place, module in enumerate(modules) if _packs(module)}
        self.products = [(place, _Product(layer)) for layer, place in layers.items()]
        self.tensors = [_tensors(layer) for layer in layers]
        # views of the weights, as integers, since numpy has no bfloat16
        self.samples = [
            x.weight.detach().view(_INTEGERS[x.weight.dtype]).reshape(-1)[:: max(x.in_features - 1, 1)].numpy()
            for x in layers
        ]
        self.numbers = [sample.tobytes() for sample in self.samples]

    def holds(self, modules: list[nn.Module]) -> bool:
        """Whether a model with these modules is as it was."""
        return (
            self.modules == [id(module) for module in modules]
            and self.tensors == [_tensors(modules[place]) for place, _ in self.products]
            and self.numbers == [sample.tobytes() for sample in self.samples]
        )


_KEPT: weakref.WeakKeyDictionary[nn.Module, _Kept] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def packed_products(model: nn.Module, keep: bool = False) -> Iterator[None]:
    """A context in which the `nn.Linear` layers of a `model` on a CPU use packed copies of their weights.

    For inference: values are equal up to rounding (both sum in float32), there are no gradients, and weights must not
    change inside the context. The bits of a row do not depend on the number of rows or threads, as they do in other
    products of torch. Layers in other types stay as they are, and without oneDNN in torch so do all, without its
    bfloat16 those in bfloat16.

    The copies need as much memory as the weights of the layers, and up to twice as much in bfloat16 on a processor with
    AMX. Those that are kept go with the model.

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
    modules = all_modules(model) if packs else []
    kept = _KEPT.get(model)
    if not keep or kept is None or not kept.holds(modules):
        _KEPT.pop(model, None)
        with torch.no_grad():
            kept = _Kept(modules)
    if keep:
        _KEPT[model] = kept
    layers = [(x, product) for place, product in kept.products if isinstance(x := modules[place], nn.Linear)]
    for layer, product in layers:
        layer.forward = partial(product, layer)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer, _ in layers:
            del layer.forward


def all_modules(model: nn.Module) -> list[nn.Module]:
    """A module and all of its parts, those in two places twice: for every text, `Module.modules` takes too long.

    Example:
        >>> [type(module).__name__ for module in all_modules(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))]
        ['Sequential', 'Linear', 'Tanh']
    """
    modules: list[nn.Module] = [model]
    for module in modules:
        modules.extend(filter(None, module._modules.values()))
    return modules


def _packs(module: nn.Module) -> TypeGuard[nn.Linear]:
    if type(module) is not nn.Linear:
        return False
    weight = module.weight
    fast = weight.dtype == torch.float32 or (weight.dtype == torch.bfloat16 and _OPS._is_mkldnn_bf16_supported())
    return fast and weight.is_cpu and weight.numel() > 0 and weight.is_contiguous()


def _tensors(layer: nn.Module) -> list[tuple[int, int]]:
    """Where the weight and bias of a layer are, and how often they were written."""
    return [
        (x.data_ptr(), 0 if x.is_inference() else x._version)
        for x in (layer.weight, layer.bias)
        if isinstance(x, Tensor)
    ]


class _Product:
    """The product of a layer with its packed weight."""

    def __init__(self, layer: nn.Linear) -> None:
        weight = layer.weight.detach()
        self.weight = _OPS._reorder_linear_weight(weight, _ROWS)
        # without a bias the bits of a row would depend on the number of rows
        bias: Tensor | None = layer.bias
        self.bias = layer.weight.new_zeros(layer.out_features) if bias is None else bias.detach()
        self.kernel: Tensor | None = None
        if weight.dtype == torch.bfloat16 and layer.in_features > _IN_ONE_PIECE and has_amx():
            shape = [1, layer.in_features, _IMAGE, 1]
            self.kernel = _OPS._reorder_convolution_weight(weight[..., None, None], *_EACH_PIXEL, shape)

    def __call__(self, layer: nn.Linear, x: Tensor) -> Tensor:
        # a model in training brings its own autocast
        if x.dtype != self.bias.dtype or torch.is_autocast_enabled("cpu"):
            return linear(x, layer.weight, layer.bias)
        if self.kernel is None or x.numel() <= _FEW * layer.in_features:
            return self._linear(x)
        rows = x.reshape(-1, layer.in_features)
        rest = len(rows) % _IMAGE
        if not rest:
            product = self._convolution(rows)
        elif rest > 2 * _FEW or (len(rows) > _IMAGE and layer.out_features >= layer.in_features):
            filled = torch.cat([rows, rows.new_zeros(_IMAGE - rest, layer.in_features)])
            product = self._convolution(filled)[: len(rows)]
        else:
            images = [self._convolution(rows[:-rest])] if len(rows) > _IMAGE else []
            product = torch.cat([*images, *map(self._linear, rows[-rest:].split(_FEW))])
        return product.view(*x.shape[:-1], layer.out_features)

    def _linear(self, x: Tensor) -> Tensor:
        product: Tensor = _OPS._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return product

    def _convolution(self, rows: Tensor) -> Tensor:
        """The product as one of every pixel of images; `rows` fill them."""
        images = rows.view(-1, _IMAGE, 1, rows.shape[1]).permute(0, 3, 1, 2)
        found = _OPS._convolution_pointwise(images, self.kernel, self.bias, *_EACH_PIXEL, "none", [], "")
        product: Tensor = found.permute(0, 2, 3, 1).reshape(len(rows), -1)
        return product
