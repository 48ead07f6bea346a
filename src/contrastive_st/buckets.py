"""Run a model over rows of different lengths in buckets of similar length, with the values of the padded batch.

Rows are ordered by length and encoded in buckets, each padded to its longest row. Nearly all encoders mask padding, so
the embedding of a row does not depend on how much it is padded: values and gradients are those of the padded batch.
(Others, see `mixes_padding` of `models/checkpoint.py`, encode rows of one length together; training pads them.)
Short rows are just no longer padded to the length of the longest. Buckets have few different shapes, because on a CPU
oneDNN compiles code for each shape of a product: the first product of a shape takes several times as long as the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def padded_widths(lengths: NDArray[np.int64], most: int | None = None) -> NDArray[np.int64]:
    """The length that each row is padded to: its own up to 8 tokens, then one of four widths for each power of two.

    Args:
        lengths: number of tokens of each row.
        most: greatest width, such as the number of positions of a model.

    Example:
        >>> padded_widths(np.array([0, 7, 9, 17, 33, 40, 100])).tolist()
        [1, 7, 10, 20, 40, 40, 112]
    """
    least = np.maximum(lengths, 1)
    widths = round_up(least, 3)
    return widths if most is None else np.maximum(np.minimum(widths, most), least)


def round_up(numbers: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """The next number of at most `bits` significant bits, or the next power of two; at most 1 / 2^(bits - 1) more.

    Example:
        >>> round_up(np.array([7, 9, 15, 33, 1000]), 3).tolist()
        [7, 10, 16, 40, 1024]
    """
    steps = 1 << np.maximum(np.ceil(np.log2(numbers)).astype(np.int64) - bits, 0)
    rounded: NDArray[np.int64] = -(-numbers // steps) * steps
    return rounded


class Pass(NamedTuple):
    """How a model runs over rows.

    Args:
        limits: options of `bucket_rows` in place of those of the device.
        dtype: half precision for the products, by autocast.
        done: called with the number of rows of each bucket.
    """

    limits: Mapping[str, float] = {}
    dtype: torch.dtype | None = None
    done: Callable[[int], object] = lambda count: None


def few_lengths(tokens: int) -> int:
    """The next of few numbers of tokens, at most 3% more; not 1, for which torch has kernels that round otherwise.

    Example:
        >>> few_lengths(30), few_lengths(65), few_lengths(1)
        (30, 66, 2)
    """
    return max(int(round_up(np.array([tokens]), 6)[0]), 2)


def bucket_rows(
    lengths: np.ndarray,
    max_padding: float = 0.08,
    min_tokens: int = 2048,
    max_tokens: int = 1 << 62,
    max_rows: int = 1 << 62,
    widths: NDArray[np.int64] | None = None,
) -> list[np.ndarray]:
    """Split rows into buckets of similar length, longest first.

    A bucket that ends because of a limit on its tokens or its padding has at most 8 rows, or a multiple of 8.

    Args:
        lengths: `[N]`, tokens per row.
        max_padding: greatest share of padding among the tokens of a bucket, without that of single rows to `widths`.
        min_tokens: buckets of up to this many tokens may exceed `max_padding`, since tiny matrix products are slow.
        max_tokens: most tokens in a bucket, padding included; a bucket has at least one row.
        max_rows: most rows in a bucket.
        widths: `[N]`, the length that each row is padded to at least; by default `padded_widths`.

    Returns:
        Row indices, one array per bucket; together a permutation of `range(N)`.

    Example:
        >>> [rows.tolist() for rows in bucket_rows(np.array([2, 9, 2, 9]), min_tokens=1)]
        [[1, 3], [0, 2]]
    """
    order = np.argsort(-lengths, kind="stable")
    least = (padded_widths(lengths) if widths is None else widths)[order]
    buckets = []
    start = 0
    while start < len(order):
        rest = least[start : start + max_rows]
        padded = np.arange(1, len(rest) + 1) * int(rest[0])
        wasteful = np.cumsum(rest) < (1 - max_padding) * padded
        fits = (padded <= max_tokens) & (~wasteful | (padded <= min_tokens))
        size = len(rest)
        if not fits.all():
            size = max(int(np.argmin(fits)), 1)
            size -= size % 8 if size > 8 else 0
        buckets.append(order[start : start + size])
        start += size
    return buckets


def rows_of_one_length(
    lengths: NDArray[np.int64], max_tokens: int = 1 << 62, max_rows: int = 1 << 62
) -> list[NDArray[np.int64]]:
    """Split rows into buckets without padding: the rows of a bucket have the same length, longest first.

    Args:
        lengths: `[N]`, tokens per row.
        max_tokens: most tokens in a bucket, which has at least one row.
        max_rows: most rows in a bucket.

    Returns:
        Row indices, one array per bucket; together a permutation of `range(N)`.

    Example:
        >>> [rows.tolist() for rows in rows_of_one_length(np.array([2, 9, 2, 9, 9]), max_tokens=18)]
        [[1, 3], [4], [0, 2]]
    """
    order = np.argsort(-lengths, kind="stable")
    buckets = []
    for rows in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1) if len(order) else ():
        size = max(min(max_tokens // max(int(lengths[rows[0]]), 1), max_rows), 1)
        buckets += [rows[start : start + size] for start in range(0, len(rows), size)]
    return buckets


def padded_tokens(buckets: Sequence[NDArray[np.int64]], lengths: NDArray[np.int64], most: int) -> int:
    """Number of tokens in all buckets, padding included, if no row is padded to more than `most`."""
    widths = padded_widths(lengths, most)
    return sum(len(rows) * int(widths[rows[0]]) for rows in buckets)


#: Options of `bucket_rows` for a training step. A GPU computes many tokens at once, and each bucket starts hundreds of
#: kernels, so there the buckets are few and large enough to keep it busy
_TRAINING: dict[str, dict[str, float]] = {"cpu": {}, "cuda": {"min_tokens": 32_768}}


def training_buckets(device: torch.device, changes: Mapping[str, float]) -> dict[str, Any]:
    """Options of `bucket_rows` for a training step: the defaults of the device, replaced by `changes`.

    Example:
        >>> import torch
        >>> training_buckets(torch.device("cuda"), {"max_rows": 64})
        {'min_tokens': 32768, 'max_rows': 64}
    """
    return {**_TRAINING["cpu" if device.type == "cpu" else "cuda"], **changes}


def row_lengths(attention_mask: Tensor, lengths: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Number of tokens in each row of a mask `[..., L]`.

    Returns `lengths`, from the host, if their shape fits: to sum the mask, the host must wait for the device.

    Example:
        >>> import torch
        >>> row_lengths(torch.tensor([[1, 1, 0], [1, 0, 0]])).tolist()
        [2, 1]
    """
    if lengths is not None and lengths.shape == attention_mask.shape[:-1]:  # not so if the mask is a part of the batch
        return lengths
    return attention_mask.sum(-1).cpu().numpy()


def take_rows(
    batch: dict[str, Any], buckets: list[NDArray[np.int64]], lengths: NDArray[np.int64], most: int | None = None
) -> list[dict[str, Any]]:
    """The rows of each bucket: of tensors `[N, L]`, cut or padded to the width of the bucket, and of arrays `[N]`.

    Args:
        batch: tensors and arrays; the tensors are 0 on padding.
        buckets: row numbers of each bucket, longest row first.
        lengths: `[N]`, tokens per row.
        most: greatest width; by default L.
    """
    import torch

    mask = batch["attention_mask"]
    order = on_device(np.concatenate(buckets), mask.device)
    widths = padded_widths(lengths, most or mask.shape[1])

    def taken(x: Tensor, index: Tensor, width: int) -> Tensor:
        result = x[index, :width]
        return result if result.shape[1] == width else torch.nn.functional.pad(result, (0, width - result.shape[1]))

    parts = []
    for rows, index in zip(buckets, order.split([len(rows) for rows in buckets]), strict=True):
        width = int(widths[rows[0]])
        parts.append({k: taken(x, index, width) if isinstance(x, torch.Tensor) else x[rows] for k, x in batch.items()})
    return parts


def in_order(outputs: Sequence[Tensor], buckets: list[NDArray[np.int64]]) -> Tensor:
    """Join the outputs of the buckets and put their rows back into the original order."""
    import torch

    return torch.cat(list(outputs))[on_device(np.argsort(np.concatenate(buckets)), outputs[0].device)]


def on_device(values: np.ndarray | Tensor, device: torch.device) -> Tensor:
    """Copy from the host, which does not wait: a GPU copies more than 64 KiB at once from pinned memory alone.

    Args:
        values: an array or a tensor, in the host's memory.
        device: where to.

    Returns:
        The tensor there; it may share memory with `values` on a CPU.

    Example:
        >>> import torch
        >>> on_device(np.array([1, 2]), torch.device("cpu"))
        tensor([1, 2])
    """
    import torch

    tensor = torch.as_tensor(values)
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)


def in_buckets(
    encode: Callable[..., Tensor],
    embed_tokens: Callable[[Tensor], Tensor],
    batch: dict[str, Any],
    most: int | None = None,
    **options: float,
) -> Tensor:
    """Run `encode` over buckets of `batch` and put the rows back in order: `[N, d]`.

    Args:
        encode: called with `inputs_embeds [n, l, width]` and the other tensors of the batch cut to `[n, l]`.
        embed_tokens: maps token ids to word embeddings. It is called once for all buckets: the gradient of its table is
            as large as the vocabulary, and would otherwise be computed and added once per bucket.
        batch: tensors `[N, L]`, padded on the right: `input_ids`, `attention_mask` and any others; also the array
            `lengths` `[N]` if the host knows it, which is then passed on to `encode`.
        most: most tokens that rows may be padded to; by default L.
        options: for `bucket_rows`.
    """
    import torch

    lengths = row_lengths(batch["attention_mask"], batch.get("lengths"))
    buckets = bucket_rows(lengths, **options)  # type: ignore[arg-type]
    cut = take_rows(batch, buckets, lengths, most)
    ids = [part.pop("input_ids") for part in cut]
    embedded = embed_tokens(torch.cat([part.flatten() for part in ids])).split([part.numel() for part in ids])
    outputs = [
        encode(inputs_embeds=vectors.view(*part.shape, -1), **rest)
        for vectors, part, rest in zip(embedded, ids, cut, strict=True)
    ]
    return in_order(outputs, buckets)


def flat_indices(mask: Tensor, count: int | None = None) -> Tensor:
    """Positions in the flattened mask at which it is true, `[count]`.

    If `count` is given, the host need not wait for the device to count them.

    Example:
        >>> import torch
        >>> flat_indices(torch.tensor([[True, False], [False, True]]), 2).tolist()
        [0, 3]
    """
    flat = mask.flatten()
    return (flat.nonzero() if count is None else flat.nonzero_static(size=count))[:, 0]
