"""Speed on this hardware: whether bfloat16 is fast, memory, attention kernels, float32 products by oneDNN, dropout."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
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


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's numbers of these parameters


def keep_freed_memory() -> None:
    """Let this process keep freed memory for its next tensors, up to the process's end.

    A training step allocates and frees the same gigabytes again and again. By default glibc returns free memory to the
    kernel, which fills its pages with zeros at the next use; without that, training was 4 to 6% faster on two cores,
    with the same peak of memory. Tensors of more than 32 MiB are returned as before: reused, they leave gaps. With
    another C library than glibc nothing changes.
    """
    change = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if change:
        change(_TRIM_THRESHOLD, (1 << 31) - 1)
        change(_MMAP_THRESHOLD, 1 << 25)


Item = TypeVar("Item")
Result = TypeVar("Result")


def on_cores(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """`map(work, items)` for inference on a CPU: each core computes an item of its own.

    Threads that share a product wait for each other after each product. On two cores all-MiniLM-L6-v2 in bfloat16
    encoded 1.04 to 1.22 times as fast as with `map` (rounds in turns), in float32 0.93 to 1.05 times. Items that are
    fewer than half of torch's threads are computed one after the other, each with all threads.

    Args:
        work: is run in several threads at once, without gradients and with the caller's autocast.
        items: should take about equally long; a stream is read two items ahead of the cores.

    Example:
        >>> list(on_cores(torch.exp, [torch.zeros(1), torch.zeros(2)]))
        [tensor([1.]), tensor([1., 1.])]
    """
    threads, items = torch.get_num_threads(), iter(items)
    first = [] if threads == 1 else list(islice(items, threads // 2 + 1))
    if len(first) <= threads // 2:
        yield from map(work, chain(first, items))
        return
    half, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    @torch.inference_mode()
    def computed(item: Item) -> Result:
        torch.set_autocast_dtype("cpu", dtype)
        torch.set_autocast_enabled("cpu", half)  # leaving torch.autocast would drop the weights that were cast
        return work(item)

    started: deque[Future[Result]] = deque()
    try:
        for item in chain(first, items):
            started.append(_cores(threads).submit(computed, item))
            if len(started) > threads + 2:
                yield started.popleft().result()
        while started:
            yield started.popleft().result()
    finally:  # after a fault
        for future in started:
            future.cancel()


@functools.cache
def _cores(threads: int) -> ThreadPoolExecutor:
    """So many threads that each compute on one core; kept, as each new one would have memory of its own."""
    libraries = ThreadpoolController()

    def alone() -> None:
        torch.get_num_threads()  # sets OpenMP's number at a thread's first call
        libraries.limit(limits=1, user_api="openmp")  # torch.set_num_threads would set it for other threads too

    return ThreadPoolExecutor(threads, thread_name_prefix="core", initializer=alone)


if hasattr(os, "register_at_fork"):  # a process that was forked has none of these threads
    os.register_at_fork(after_in_child=_cores.cache_clear)

_SHORT = 128  # up to this many tokens plain attention is faster in bfloat16 without dropout too
_MASKS = threading.RLock()  # the table of mask functions is one for all threads


@contextlib.contextmanager
def known_padding(padded: bool | None) -> Iterator[None]:
    """A context in which transformers need not check on the device whether a mask has padding, for which it would wait.

    Args:
        padded: whether a row is shorter than the others; if None, transformers checks.
    """
    with _masks_by(None if padded is None else _mask_with_padding if padded else _mask_without_padding):
        yield


@contextlib.contextmanager
def _masks_by(function: Callable[..., Any] | None) -> Iterator[None]:
    """A context in which transformers makes masks for `sdpa` by this function; None leaves its own."""
    masks = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS
    with contextlib.nullcontext() if function is None else _MASKS:
        if function is None or masks["sdpa"] is not masking_utils.sdpa_mask:
            yield
            return
        masks["sdpa"] = function  # of this interface alone
        try:
            yield
        finally:
            del masks["sdpa"]


def _mask_with_padding(*args: Any, **options: Any) -> Any:
    options |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    return masking_utils.sdpa_mask(*args, **options)


def _mask_without_padding(*args: Any, **options: Any) -> Any:
    return masking_utils.sdpa_mask(*args, **{**options, "attention_mask": None})


def training_attention(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """A context that chooses the kernel of `scaled_dot_product_attention` for a training step on a device.

    On a CPU in bfloat16 it is `plain_attention` for up to 128 tokens, where torch's fused kernel takes 4 to 14 times as
    long, and with dropout, for which torch has no fused kernel on a CPU and its products take 1.9 to 3.4 times as long
    (`benchmarks/attention.py`).
    """
    plain = device.type == "cpu" and torch.is_autocast_enabled("cpu")
    return _PlainAttention() if plain else contextlib.nullcontext()


class _PlainAttention(TorchFunctionMode):
    """`scaled_dot_product_attention` inside is `plain_attention`, where that is faster and knows the arguments."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        known = len(args) <= 3 and not (kwargs.get("is_causal") or kwargs.get("enable_gqa"))  # the others by name
        if func is scaled_dot_product_attention and known:
            tokens = (args[0] if args else kwargs["query"]).shape[-2]
            if tokens <= _SHORT or kwargs.get("dropout_p"):
                return plain_attention(*args, **{name: kwargs[name] for name in kwargs if name in _KNOWN})
        return func(*args, **kwargs)


class PackedRows:
    """Rows of different lengths in one row of all their tokens: nothing is computed for padding.

    Everything in an encoder but attention treats each token alone. `attention` is a context in which
    `scaled_dot_product_attention` keeps the rows apart, by torch's jagged tensors: on a GPU in half precision that is
    one call of flash attention.

    Args:
        lengths: number of tokens of each row, `[N]`, known on the host; none is 0.
        width: L, that of the padded rows.
        device: of the tensors.

    Example:
        >>> packed = PackedRows(np.array([2, 1]), 3, torch.device("cpu"))
        >>> tokens = packed.pack(torch.tensor([[5, 6, 0], [7, 0, 0]]))
        >>> tokens.tolist(), packed.unpack(tokens).tolist()
        ([[5, 6, 7]], [[5, 6, 0], [7, 0, 0]])
    """

    def __init__(self, lengths: NDArray[np.int64], width: int, device: torch.device) -> None:
        self.shape = len(lengths), width
        self.shortest, self.longest = int(lengths.min()), int(lengths.max())
        places = np.flatnonzero(np.arange(width) < lengths[:, None])
        starts = np.concatenate([[0], lengths.cumsum()])
        self.places, self.starts = (torch.from_numpy(x).to(device, non_blocking=True) for x in (places, starts))

    def pack(self, x: Tensor) -> Tensor:
        """The real tokens of `[N, L, ...]`, as `[1, T, ...]`."""
        return x.flatten(0, 1)[self.places][None]

    def unpack(self, x: Tensor) -> Tensor:
        """`[1, T, ...]` as `[N, L, ...]`, with zeros for padding."""
        rows, width = self.shape
        padded = x.new_zeros(rows * width, *x.shape[2:]).index_copy(0, self.places, x[0])
        return padded.view(rows, width, *x.shape[2:])

    @contextlib.contextmanager
    def attention(self) -> Iterator[None]:
        """A context in which `scaled_dot_product_attention` of `[1, heads, T, d]` attends within each row."""
        with _masks_by(lambda *args, **options: None), _PackedAttention(self):
            yield

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """`scaled_dot_product_attention` within each row; tensors `[1, heads, T, d]`."""
        if attn_mask is not None or is_causal or enable_gqa:
            raise NotImplementedError("packed rows have no mask but their bounds")

        def jagged(x: Tensor) -> Tensor:
            tokens = x[0].transpose(0, 1).contiguous()
            known: dict[str, Any] = {"min_seqlen": self.shortest, "max_seqlen": self.longest}  # else the host waits
            return torch.nested.nested_tensor_from_jagged(tokens, self.starts, **known).transpose(1, 2)

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The PyTorch API of nested tensors")  # which torch itself uses on a CPU
            found = scaled_dot_product_attention(
                jagged(query), jagged(key), jagged(value), dropout_p=dropout_p, scale=scale
            )
        return found.transpose(1, 2).values().transpose(0, 1)[None]


class _PackedAttention(TorchFunctionMode):
    """`scaled_dot_product_attention` inside is that within each row."""

    def __init__(self, rows: PackedRows) -> None:
        super().__init__()
        self.rows = rows

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = self.rows.attend if func is scaled_dot_product_attention else func
        return call(*args, **(kwargs or {}))


_NEVER = torch.finfo(torch.bfloat16).min
_KNOWN = ("query", "key", "value", "attn_mask", "dropout_p", "scale")


def plain_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    *,
    scale: float | None = None,
) -> Tensor:
    """`scaled_dot_product_attention` as products in bfloat16 and a softmax in float32, with the dropout of this file.

    torch's own products compute in float32 throughout. The scores here are rounded to bfloat16, as in the eager
    attention of transformers.

    Args:
        query, key, value: `[N, heads, L, d]`.
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
        return integer_dropout(input, self.p) if self.training else input


def integer_dropout(x: Tensor, p: float) -> Tensor:
    """`x` with the dropout of `IntegerDropout`."""
    steps = round(p * _STEPS)
    if steps == 0:
        return x
    if x.device.type != "cpu" or steps == _STEPS or torch.compiler.is_compiling():  # which has its own way
        return nn.functional.dropout(x, p)
    dropped: Tensor = _Drop.apply(x, steps)
    return dropped


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, steps: int) -> Tensor:
        words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
        draws = words.view(torch.int16)[: x.numel()].view(x.shape)
        # as bytes: products with them are several times as fast as filling by a mask of booleans
        kept = torch.ge(draws, steps - _STEPS // 2, out=torch.empty(x.shape, dtype=torch.uint8))
        ctx.save_for_backward(kept)
        ctx.scale = _STEPS / (_STEPS - steps)
        return kept.to(x.dtype).mul_(x).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return kept.to(grad.dtype).mul_(grad).mul_(ctx.scale), None


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
