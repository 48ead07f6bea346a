"""Functions of vectors `[N, d]`: normalization, cosine similarity, top k, quantization to a byte or bit per number."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from contrastive_st.device import ALL_CODES, OTHER_CODES
from contrastive_st.errors import InputError, choice
from contrastive_st.prefetch import on_threads, product_threads

_SCORES, _NARROW = 1 << 21, 1024  # scores of a block, which a processor's cache holds; no block has fewer candidates
_FEW, _MANY = 256, 2048  # queries of a thread: fewer share a product, more have blocks beyond the cache
_SMALL, _LARGE, _GREATEST = 1e-30, 1e38, np.finfo(np.float32).max  # beyond the first two, int8 counts in float64
Best = tuple[NDArray[np.floating], NDArray[np.int64]]  # scores [Q, k], descending, and the candidates' numbers
Compare = Callable[[slice, slice], NDArray[np.floating]]  # queries and candidates -> scores
_Passed = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.floating]]  # queries, numbers, scores


def unit_vectors(
    vectors: ArrayLike, dtype: DTypeLike | None = None, of: str | None = None, names: Sequence[object] = ()
) -> np.ndarray:
    """Divide each row of `[N, d]` by its length; a row of zeros stays zero.

    Args:
        vectors: `[N, d]`.
        dtype: type of the result; by default that of the vectors, but at least float32.
        of: what the vectors are, for the error message. If given, a row that is zero, NaN or infinite is an error.
        names: of the rows, for the error message; by default their numbers.

    Raises:
        InputError: `of` is given and a row is zero, NaN or infinite.

    Example:
        >>> unit_vectors([[3.0, 4.0], [0.0, 0.0]]).tolist()
        [[0.6, 0.8], [0.0, 0.0]]
    """
    rows = _at_least_float32(vectors, dtype)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if of is not None and not (sound := np.isfinite(lengths) & (lengths > 0)).all():
        row = int(np.argmin(sound))
        which = f"vector {row}" if len(names) <= row else f"the vector of {names[row]!r}"
        raise InputError(f"{of}: {which} is zero, NaN or infinite; leave it out")
    return np.asarray(rows / np.maximum(lengths, 1e-12))


def _at_least_float32(vectors: ArrayLike, dtype: DTypeLike | None = None) -> np.ndarray:
    """The vectors, in float32 if they are halves or codes: numpy adds these in their own type, where sums overflow."""
    rows = np.asarray(vectors)
    return np.asarray(rows, dtype=dtype or np.promote_types(rows.dtype, np.float32))


def float_array(rows: Any) -> NDArray[np.floating]:
    """Numbers in an array, a tensor of any type on any device, or a list of them, as an array of float32 or float64.

    Example:
        >>> float_array([[1, 2], [3, 4]])
        array([[1., 2.],
               [3., 4.]], dtype=float32)
    """
    if isinstance(rows, (list, tuple)):
        rows = [float_array(row) if hasattr(row, "detach") else row for row in rows]
    result = np.asarray(rows.detach().float().cpu().numpy() if hasattr(rows, "detach") else rows)
    is_converted = result.dtype.kind not in "biuf" or result.dtype == np.float64
    return result if is_converted else result.astype(np.float32, copy=False)


def check_widths(a: np.ndarray, b: np.ndarray) -> None:
    """Refuse embeddings `[N, d]` of different dimensions.

    Raises:
        InputError: they have, and neither is empty.
    """
    if len(a) and len(b) and a.shape[1] != b.shape[1]:
        raise InputError(f"the embeddings have different dimensions: {a.shape[1]} and {b.shape[1]}")


def check_finite(vectors: np.ndarray, of: str) -> np.ndarray:
    """The vectors `[N, d]`.

    Raises:
        InputError: a row is NaN or infinite; `of` names the vectors in the message.
    """
    if not (finite := np.isfinite(vectors).all(axis=1)).all():
        raise InputError(f"{of}: row {int(finite.argmin())} is NaN or infinite; did training diverge?")
    return vectors


def cosine(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Cosine of each row of `a` with the same row of `b`, `[N, d], [N, d] -> [N]`, in float64; 0 with a zero vector.

    Example:
        >>> cosine([[3.0, 4.0]], [[4.0, 3.0]]).tolist()
        [0.96]
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray((a * b).sum(1) / np.maximum(lengths, np.finfo(np.float64).tiny))


def _angular(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float64]:
    """`1 - arccos(cos(a, b)) / pi` in float64, as `contrastive_st.losses.angular_similarity`."""
    cosines = unit_vectors(a, np.float64) @ unit_vectors(b, np.float64).T
    return np.asarray(1 - np.arccos(cosines.clip(-1 + 1e-12, 1 - 1e-12)) / np.pi)


def _distances(a: NDArray[np.float32], b: NDArray[np.float32], metric: str) -> NDArray[np.float64]:
    from scipy.spatial.distance import cdist  # a cosine needs no scipy

    return np.asarray(cdist(a, b, metric))


#: How similar each vector of `[M, d]` is to each of `[N, d]`, by name: `[M, N]`
SIMILARITIES: dict[str, Callable[[NDArray[np.float32], NDArray[np.float32]], np.ndarray]] = {
    "cosine": lambda a, b: unit_vectors(a) @ unit_vectors(b).T,
    "dot": lambda a, b: _at_least_float32(a) @ _at_least_float32(b).T,
    "euclidean": lambda a, b: -_distances(a, b, "euclidean"),
    "manhattan": lambda a, b: -_distances(a, b, "cityblock"),
    "angular": _angular,
}

#: The same of each vector of `[N, d]` with that in its row: `[N]`
PAIRWISE: dict[str, Callable[[NDArray[np.float32], NDArray[np.float32]], np.ndarray]] = {
    "cosine": cosine,
    "dot": lambda a, b: (_at_least_float32(a) * _at_least_float32(b)).sum(1),
    "euclidean": lambda a, b: -np.linalg.norm(_at_least_float32(a) - _at_least_float32(b), axis=1),
    "manhattan": lambda a, b: -np.abs(_at_least_float32(a) - _at_least_float32(b)).sum(1),
    "angular": lambda a, b: 1 - np.arccos(cosine(a, b).clip(-1 + 1e-12, 1 - 1e-12)) / np.pi,
}


def rounded(similarities: ArrayLike) -> NDArray[np.floating]:
    """Similarities without the noise of float32, which breaks ties of ranks: of the greatest, six decimals of 0.2 to 2.

    These are the six decimals of cosines. Products and distances of vectors of any length are rounded in proportion.

    Example:
        >>> rounded([0.12345678, 1.0]).tolist(), rounded([1.2345678e-6, 1e-5]).tolist()
        ([0.123457, 1.0], [1.23457e-06, 1e-05])
    """
    values = np.asarray(similarities, np.float64)
    greatest = np.abs(values).max(initial=0.0)
    return values.round(6 - math.ceil(math.log10(greatest / 2))) if 0 < greatest < math.inf else values


def top_k(scores: NDArray[np.floating], k: int, before: Best | None = None, first: int = 0) -> Best:
    """The k greatest scores of each row, in descending order; among equal scores, the lower candidate number is first.

    Call it once per block of candidates to search a corpus in blocks, with the result so far as `before`.

    Args:
        scores: `[Q, N]`, the scores of candidates `first`, `first + 1`, ...
        k: how many to return; all candidates if there are fewer.
        before: the result for the candidates with smaller numbers, if there were any.
        first: number of the first candidate of this block.

    Returns:
        Scores `[Q, min(k, candidates)]` and the numbers of their candidates.

    Example:
        >>> best = top_k(np.array([[0.1, 0.9, 0.5]]), 2)
        >>> best[0].tolist(), best[1].tolist()
        ([[0.9, 0.5]], [[1, 2]])
        >>> top_k(np.array([[0.7, 0.5]]), 2, best, first=3)[1].tolist()
        [[1, 3]]
    """
    empty = (np.empty((len(scores), 0), scores.dtype), np.empty((len(scores), 0), np.int64))
    best = empty if before is None else before
    return _merged(best, [_passing(scores, best[0], k, first)], min(k, best[0].shape[1] + scores.shape[1]))


def top_k_in_blocks(compare: Compare, queries: int, count: int, k: int, block: int) -> Best:
    """`top_k` of all candidates, scored a block at a time, so that memory does not grow with their number.

    Args:
        compare: returns the scores `[q, n]` of a slice of the queries with a slice of the candidates; it is called in
            several threads.
        queries: Q.
        count: number of candidates.
        k: how many to return.
        block: most candidates at a time; fewer if there are many queries.

    Example:
        >>> scores = np.array([[0.1, 0.9, 0.5, 0.7]])
        >>> top_k_in_blocks(lambda own, part: scores[own, part], 1, 4, k=2, block=3)[1].tolist()
        [[1, 3]]
    """
    rows = _FEW if queries <= _FEW else min(max(-(-queries // product_threads()), _FEW), _MANY)
    result = list(top_k_in_chunks(compare, queries, count, k, (rows, block)))
    if len(result) == 1:
        return result[0]
    scores = [one[0] for one in result] or [np.empty((0, min(k, count)), np.float32)]
    numbers = [one[1] for one in result] or [np.empty((0, min(k, count)), np.int64)]
    return np.concatenate(scores), np.concatenate(numbers)


def top_k_in_chunks(compare: Compare, queries: int, count: int, k: int, chunks: tuple[int, int]) -> Iterator[Best]:
    """The `top_k` of all candidates for each chunk of queries in turn.

    Args:
        compare: as for `top_k_in_blocks`.
        queries: number of queries.
        count: number of candidates.
        k: how many to return.
        chunks: most queries and most candidates at a time.

    Example:
        >>> scores = np.array([[0.1, 0.9], [0.8, 0.2]])
        >>> [best[1].tolist() for best in top_k_in_chunks(lambda own, part: scores[own, part], 2, 2, 1, (1, 2))]
        [[[1]], [[0]]]
    """
    rows = chunks[0]
    columns = min(chunks[1], max(_SCORES // max(min(rows, queries), 1), _NARROW))

    def of_chunk(start: int) -> Best:
        chunk = slice(start, min(start + rows, queries))
        best: Best = np.empty((chunk.stop - start, 0), np.float32), np.empty((chunk.stop - start, 0), np.int64)
        waiting: list[_Passed] = []
        for first in range(0, count, columns):
            part = slice(first, min(first + columns, count))
            waiting.append(_passing(compare(chunk, part), best[0], k, first))
            # a merge costs more than the few that an old limit lets through
            if best[0].shape[1] < k or sum(len(passed[0]) for passed in waiting) > best[0].size:
                best, waiting = _merged(best, waiting, min(k, best[0].shape[1] + part.stop - first)), []
        return _merged(best, waiting, best[0].shape[1]) if waiting else best

    starts = range(0, queries, rows)
    return on_threads(of_chunk, starts) if len(starts) > 1 else map(of_chunk, starts)


def _passing(scores: NDArray[np.floating], best: NDArray[np.floating], k: int, first: int) -> _Passed:
    """The candidates that may be among the k best: their queries, ascending, their numbers and their scores."""
    if best.shape[1] == k:
        keep = scores > best[:, -1:]  # of equal scores, the earlier stays
        if np.count_nonzero(keep) > k * len(scores):
            keep &= scores >= np.partition(scores, -k, axis=1)[:, -k, None]
    elif scores.shape[1] > k:
        keep = scores >= np.partition(scores, -k, axis=1)[:, -k, None]
    else:
        keep = np.ones(scores.shape, bool)
    places = np.flatnonzero(keep)  # much faster than the nonzero of a matrix
    query, column = np.divmod(places, max(scores.shape[1], 1))
    return query, first + column, scores[query, column]


def _merged(best: Best, passed: list[_Passed], width: int) -> Best:
    """The `width` best of each query, among those so far and candidates in the order of their numbers."""
    scores, numbers = best
    query = np.concatenate([np.repeat(np.arange(len(scores)), scores.shape[1]), *(result[0] for result in passed)])
    labels = np.concatenate([numbers.ravel(), *(result[1] for result in passed)])
    values = np.concatenate([scores.ravel(), *(result[2] for result in passed)])
    order = np.lexsort((-values, query.astype(np.min_scalar_type(len(scores)))))  # a small type sorts faster
    counts = np.bincount(query, minlength=len(scores))
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    order = order[rank < width]
    return values[order].reshape(len(scores), width), labels[order].reshape(len(scores), width)


# --- Quantization to a byte or a bit per number.


def quantize(vectors: ArrayLike, precision: str, ranges: ArrayLike | None = None) -> np.ndarray:
    """Quantize vectors to a quarter (int8) or a thirty-second (ubinary) of the memory.

    `int8` divides the range of each dimension into 256 buckets; `ubinary` keeps only the sign, eight dimensions per
    byte. The values are the same as those of `sentence_transformers.util.quantize_embeddings`. `uint8` and `binary` are
    other encodings of the same codes: unsigned bytes, and bits as signed bytes.

    The angle between a vector x, inside the ranges, and what `dequantize` makes of it is at most `arcsin(|s| / 2|x|)`
    with int8, where s has the widths of the buckets, and exactly `arccos(|x|_1 / (sqrt(d) |x|))` with ubinary. An angle
    between two vectors changes by no more than the sum of these two.

    Args:
        vectors: floats `[N, d]` or `[d]`.
        precision: `float32`, `int8`, `uint8`, `ubinary` or `binary`.
        ranges: for `int8` and `uint8`, the least and the greatest value of each dimension, `[2, d]`: the
            `quantization_ranges` of representative vectors, by default of `vectors`. Values outside the range get the
            first or the last bucket.

    Returns:
        float32 `[N, d]`, bytes `[N, d]`, or bits in bytes `[N, ceil(d / 8)]`.

    Raises:
        InputError: an unknown precision, vectors that are not floats, or ranges of another shape.

    Example:
        >>> quantize([[0.0, 7.5], [300.0, 255.0]], "int8", ranges=[[0, 0], [255, 255]]).tolist()
        [[-128, -121], [127, 127]]
        >>> quantize([[0.1, -0.1, 0.2]], "ubinary").tolist()  # the bits 101, padded to a byte
        [[160]]
    """
    rows = np.asarray(vectors)
    if not np.issubdtype(rows.dtype, np.floating):
        raise InputError(f"vectors of type {rows.dtype} cannot be quantized; give floats")
    if choice("precision", precision, ALL_CODES) == "float32":
        return rows.astype(np.float32)
    if precision in OTHER_CODES:
        of, dtype = OTHER_CODES[precision]
        return np.asarray((quantize(rows, of, ranges).view(np.uint8) ^ 128).view(dtype))
    if precision == "ubinary":
        return np.packbits(rows > 0, axis=-1)
    starts, steps = buckets(quantization_ranges(rows) if ranges is None else ranges, rows.shape[-1])
    bucket = np.clip(np.floor((rows - starts) / np.where(steps == 0, 1, steps)), 0, 255)
    return np.asarray((bucket - 128).astype(np.int8))


def dequantize(codes: np.ndarray, precision: str, dim: int, ranges: ArrayLike | None = None) -> NDArray[np.float32]:
    """Approximate vectors from their codes: the middle of each int8 bucket, or 1 and -1 for the signs of ubinary.

    Args:
        codes: the result of `quantize`.
        precision: what `quantize` was given.
        dim: dimension of the vectors.
        ranges: the ranges that `quantize` used; needed for `int8`.

    Example:
        >>> dequantize(quantize([[0.3, -0.3]], "int8", [[-1, -1], [1, 1]]), "int8", 2, [[-1, -1], [1, 1]]).round(2)
        array([[ 0.3, -0.3]], dtype=float32)
        >>> dequantize(quantize([[0.3, -0.3]], "ubinary"), "ubinary", 2)
        array([[ 1., -1.]], dtype=float32)
    """
    if precision == "float32":
        return np.asarray(codes, dtype=np.float32)
    if precision in OTHER_CODES:
        of, _ = OTHER_CODES[precision]
        return dequantize((codes.view(np.uint8) ^ 128).view(np.int8 if of == "int8" else np.uint8), of, dim, ranges)
    if precision == "ubinary":
        return np.unpackbits(codes, axis=-1, count=dim).astype(np.float32) * 2 - 1
    starts, steps = buckets([] if ranges is None else ranges, dim)
    middles = (codes.astype(np.float32) + np.float32(128.5)) * steps + starts
    return np.asarray(np.clip(middles, -_GREATEST, _GREATEST) if middles.dtype != np.float32 else middles, np.float32)


def quantization_ranges(vectors: ArrayLike) -> NDArray[np.float32]:
    """The least and the greatest value of each dimension, `[N, d] -> [2, d]`; a few thousand vectors are enough.

    Raises:
        InputError: fewer than two vectors.

    Example:
        >>> quantization_ranges([[0.0, 5.0], [1.0, -5.0], [0.5, 0.0]]).tolist()
        [[0.0, -5.0], [1.0, 5.0]]
    """
    rows = np.asarray(vectors)
    if rows.ndim != 2 or len(rows) < 2:
        raise InputError(
            "int8 and uint8 need the range of each dimension, which takes two vectors or more; give ranges"
        )
    return np.stack([rows.min(axis=0), rows.max(axis=0)]).astype(np.float32)


def buckets(ranges: ArrayLike, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Start of the first of the 256 buckets of int8, and width of each bucket, both `[d]`.

    They are float32, but float64 if a width would be too large or too small for float32.

    Example:
        >>> buckets([[0.0, -1.0], [255.0, -1.0]], 2)[1].tolist()  # a dimension that does not vary has width 0
        [1.0, 0.0]
    """
    result = np.asarray(ranges, dtype=np.float32)
    if result.shape != (2, dim):
        raise InputError(f"ranges of shape {result.shape} for {dim} dimensions; give (2, {dim}): least and greatest")
    spans = np.ptp(result.astype(np.float64), axis=0)
    if (np.abs(result) > _LARGE).any() or ((spans < _SMALL) & (spans > 0)).any():
        result = result.astype(np.float64)
    return result[0], (result[1] - result[0]) / 255


def rotated(vectors: ArrayLike, count: int) -> NDArray[np.float32]:
    """Vectors after each of `count` fixed rotations, side by side, `[N, d] -> [N, count * d]`, to keep only the signs.

    The first dimensions of many embeddings vary most, but a sign counts as one bit in each. After a rotation by which
    every new dimension mixes all old ones, every sign carries about the same information (Gong and Lazebnik 2011,
    "Iterative Quantization"), and several rotations give several signs for each dimension. A rotation here is a cosine
    transform after random changes of sign, twice (Ailon and Chazelle 2009, "The Fast Johnson-Lindenstrauss Transform").
    The changes come from a hash, so the result is the same on every machine and in every release.

    Example:
        >>> rows = rotated([[0.6, 0.8, 0.0]], 2)
        >>> rows.shape, [round(float(np.linalg.norm(side)), 6) for side in np.split(rows[0], 2)]
        ((1, 6), [1.0, 1.0])
    """
    rows = np.asarray(vectors, dtype=np.float32)
    transform, sides = _cosine_transform(rows.shape[-1]), []
    for number in range(count):
        side = rows
        for step in range(2):
            random = hashlib.shake_128(f"{number} {step}".encode()).digest(rows.shape[-1])
            flips = np.where(np.frombuffer(random, np.uint8) & 1, np.float32(-1), np.float32(1))
            side = (side * flips) @ transform
        sides.append(side)
    return np.concatenate(sides, axis=-1)


@functools.cache
def _cosine_transform(d: int) -> NDArray[np.float32]:
    """The matrix `[d, d]` by which the product of a row is its orthonormal discrete cosine transform (DCT-II)."""
    waves = np.cos(np.pi / d * np.outer(np.arange(d) + 0.5, np.arange(d))) * np.sqrt(2 / d)
    waves[:, :1] *= np.sqrt(0.5)
    return np.asarray(waves, dtype=np.float32)


def differing_bits(words: NDArray[np.uint64], query: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Hamming distance of each of N codes to the code of a query, `[W, N], [W] -> [N]`.

    Args:
        words: the N codes in words of 64 bits; row w has word w of all codes, so that it is contiguous in memory.
        query: the W words of the query's code.

    Example:
        >>> differing_bits(np.array([[0b1100, 0b1111]], np.uint64), np.array([0b1010], np.uint64)).tolist()
        [2, 2]
    """
    total = np.zeros(words.shape[1], dtype=np.int32)
    for row, word in zip(words, query, strict=True):
        total += _ones(row ^ word)
    return total


def _ones(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """The number of bits that are set in each word."""
    if hasattr(np, "bitwise_count"):
        return np.asarray(np.bitwise_count(words))
    bits = np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1)  # before numpy 2
    return np.asarray(bits.sum(axis=1, dtype=np.uint8))
