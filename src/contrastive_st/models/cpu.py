"""Speed on this hardware: whether bfloat16 is fast, attention kernels, float32 products by oneDNN, fast dropout."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import masking_utils


def bf16_is_fast(device: torch.device | str | None = None) -> bool:
    """Whether the hardware multiplies bfloat16 matrices faster than float32: recent CUDA, AMX or AVX-512 BF16.

    Args:
        device: device of the model; by default the GPU if there is one.
    """
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    capabilities = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))


_SHORT = 128  # up to this many tokens plain attention is faster in bfloat16, forward and backward together


@contextlib.contextmanager
def known_padding(padded: bool | None) -> Iterator[None]:
    """A context in which transformers need not check on the device whether a mask has padding, for which it would wait.

    Args:
        padded: whether a row is shorter than the others; if None, transformers checks.
    """
    masks = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS
    if padded is None or masks["sdpa"] is not masking_utils.sdpa_mask:
        yield
        return

    masks["sdpa"] = _mask_with_padding if padded else _mask_without_padding  # of this interface alone
    try:
        yield
    finally:
        del masks["sdpa"]


def _mask_with_padding(*args: Any, **options: Any) -> Any:
    options |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    return masking_utils.sdpa_mask(*args, **options)


def _mask_without_padding(*args: Any, **options: Any) -> Any:
    return masking_utils.sdpa_mask(*args, **{**options, "attention_mask": None})


def training_attention(rows: Tensor) -> contextlib.AbstractContextManager[Any]:
    """A context that chooses the kernel of `scaled_dot_product_attention` for a training step over `rows [N, L]`.

    On a CPU in bfloat16, with 8 to 128 tokens, the fused kernel takes 1.6 to 8.8 times as long as plain products for
    forward and backward (`benchmarks/attention.py`). (With attention dropout there is no fused kernel on a CPU.)
    """
    plain = rows.device.type == "cpu" and torch.is_autocast_enabled("cpu") and rows.shape[-1] <= _SHORT
    return sdpa_kernel(SDPBackend.MATH) if plain else contextlib.nullcontext()


# --- Dropout whose masks are cheap to draw on a CPU.

_STEPS = 1 << 16  # a mask compares 16 random bits with the probability


class IntegerDropout(nn.Dropout):
    """`nn.Dropout`, several times as fast on the CPU: four 16-bit draws come from each 64-bit random number.

    The probability is rounded to a multiple of 1/65536, and kept values are scaled by the exact inverse, so the
    expectation is exact. On other devices, and for probability 1, it is the same as `nn.Dropout`. It also draws from
    the default generator: the same state gives the same mask.

    Example:
        >>> dropped = IntegerDropout(0.25)(torch.ones(1000))
        >>> sorted(set(dropped.tolist())) == [0.0, torch.tensor(4 / 3).item()]
        True
    """

    def forward(self, input: Tensor) -> Tensor:
        steps = round(self.p * _STEPS)
        if not self.training or steps == 0:
            return input
        if input.device.type != "cpu" or steps == _STEPS:
            return super().forward(input)
        dropped: Tensor = _Drop.apply(input, steps)
        return dropped


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, steps: int) -> Tensor:
        words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
        draws = words.view(torch.int16)[: x.numel()].view(x.shape)
        dropped = draws < steps - _STEPS // 2
        ctx.save_for_backward(dropped)
        ctx.scale = _STEPS / (_STEPS - steps)
        kept: Tensor = (x * ctx.scale).masked_fill_(dropped, 0)
        return kept

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (dropped,) = ctx.saved_tensors
        return (grad * ctx.scale).masked_fill_(dropped, 0), None


def use_integer_dropout(module: nn.Module) -> None:
    """Replace every `nn.Dropout` inside `module` by an `IntegerDropout`, in place."""
    for name, child in module.named_children():
        if type(child) is nn.Dropout:
            setattr(module, name, IntegerDropout(child.p))
        else:
            use_integer_dropout(child)


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
