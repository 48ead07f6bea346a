"""The k best in blocks against a plain sort; a byte or a bit a number, as sentence-transformers has them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from contrastive_st import prefetch, vectors as module
from contrastive_st.errors import InputError
from contrastive_st.losses.functional import normalize
from contrastive_st.vectors import (
    dequantize,
    differing_bits,
    quantization_ranges,
    quantize,
    rotated,
    top_k,
    top_k_in_blocks,
    top_k_in_chunks,
)

SCORES = {
    "drawn": lambda random: random.standard_normal((50, 700)).astype(np.float32),
    "tied": lambda random: random.integers(0, 4, (50, 700)).astype(np.float32),
    "equal": lambda random: np.zeros((50, 700), np.float32),
    "rising": lambda random: np.arange(35_000, dtype=np.float64).reshape(50, 700),
    "barred": lambda random: np.where(random.random((50, 700)) < 0.9, -np.inf, random.integers(0, 9, (50, 700))),
}


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("k", [1, 90, 1000])
@pytest.mark.parametrize(("block", "threads"), [(3, 1), (64, 3), (1000, 1)])
def test_the_k_best_in_blocks_are_those_of_a_plain_sort(monkeypatch, kind, k, block, threads):
    """Of equal scores the first comes first; -inf comes last; and all are there if k is larger than their number."""
    for name, value in {"_SCORES": 1, "_NARROW": block, "_FEW": 8, "_MANY": 20}.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(prefetch, "product_threads", lambda: threads)
    scores = SCORES[kind](np.random.default_rng(0))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    wanted = np.take_along_axis(scores, order, axis=1)
    compare = lambda own, part: scores[own, part]
    for found in (top_k(scores, k), top_k_in_blocks(compare, 50, 700, k, 1000)):
        np.testing.assert_array_equal(found[1], order)
        np.testing.assert_array_equal(found[0], wanted)
        assert found[0].dtype == scores.dtype
    chunks = list(top_k_in_chunks(compare, 50, 700, k, (15, block)))
    assert [len(numbers) for _, numbers in chunks] == [15, 15, 15, 5]
    np.testing.assert_array_equal(np.concatenate([numbers for _, numbers in chunks]), order)


def test_the_k_best_of_nothing():
    compare = lambda own, part: np.zeros((own.stop - own.start, part.stop - part.start), np.float32)
    assert [found.shape for found in top_k_in_blocks(compare, 0, 5, 3, 10)] == [(0, 3), (0, 3)]
    assert [found.shape for found in top_k_in_blocks(compare, 2, 0, 3, 10)] == [(2, 0), (2, 0)]


@pytest.fixture
def rows():
    """Values beyond the ranges of the calibration set, zeros, and a dimension that does not vary."""
    found = np.random.default_rng(0).standard_normal((500, 37)).astype(np.float32)
    found[:, 5], found[3] = 0.25, 0.0
    return found


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("precision", ["float32", "int8", "uint8", "binary", "ubinary"])
@pytest.mark.parametrize("calibrated", [False, True])
def test_the_values_are_those_of_sentence_transformers(rows, dtype, precision, calibrated):
    theirs = pytest.importorskip("sentence_transformers.util.quantization").quantize_embeddings
    rows, sample = rows.astype(dtype), 0.5 * rows[:200]
    own = quantization_ranges(sample) if calibrated else None
    wanted = theirs(rows, precision, calibration_embeddings=sample if calibrated else None)
    found = quantize(rows, precision, own)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(
        quantize(rows[7], precision, quantization_ranges(sample)),
        quantize(rows[7:8], precision, quantization_ranges(sample))[0],
    )


def test_what_comes_back_is_the_middle_of_the_bucket(rows):
    ranges = quantization_ranges(rows)
    back = dequantize(quantize(rows, "int8", ranges), "int8", 37, ranges)
    widths = (ranges[1] - ranges[0]) / 255
    varies = widths > 0
    inside = (rows < ranges[1])[:, varies]  # the greatest value alone begins a bucket of its own
    assert (np.abs(back - rows)[:, varies] <= 0.501 * widths[varies])[inside].all()
    np.testing.assert_array_equal(dequantize(quantize(rows, "uint8", ranges), "uint8", 37, ranges), back)
    for signs in ("ubinary", "binary"):
        np.testing.assert_array_equal(dequantize(quantize(rows, signs), signs, 37), np.where(rows > 0, 1, -1))


_FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float32, st.tuples(st.integers(2, 6), st.integers(1, 8)), elements=_FLOATS), st.sets(st.integers(0, 7))
)
def test_codes_keep_every_angle_within_the_documented_bound(rows, constant):
    for column in constant:
        rows[:, column:][:, :1] = rows[:1, column:][:, :1]
    exact = rows.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1)
    rows, exact, lengths = rows[lengths > 0], exact[lengths > 0], lengths[lengths > 0]
    if len(rows) < 2:
        return
    dim, ranges = rows.shape[1], quantization_ranges(rows)
    widths = np.ptp(ranges.astype(np.float64), axis=0) / 255
    bounds = {
        "int8": np.arcsin((np.linalg.norm(widths) / 2 / lengths).clip(max=1)),
        "ubinary": np.arccos((np.abs(exact).sum(1) / np.sqrt(dim) / lengths).clip(max=1)),
    }
    for precision, bound in bounds.items():
        given_ranges = ranges if precision == "int8" else None
        back = dequantize(quantize(rows, precision, given_ranges), precision, dim, given_ranges).astype(np.float64)
        sure = (bound < np.pi / 2) & (np.linalg.norm(back, axis=1) > 0)
        moved, both = _angles(exact, back)[sure][:, sure], bound[sure]
        assert (np.diag(moved) <= both * 1.001 + 1e-5).all()
        change = np.abs(_angles(back, back)[sure][:, sure] - _angles(exact, exact)[sure][:, sure])
        assert (change <= (both[:, None] + both) * 1.001 + 2e-5).all()


def _angles(a, b):
    """Angles of all rows, without the rounding of an arc cosine."""
    a, b = (x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300) for x in (a, b))
    near, far = (np.linalg.norm(a[:, None] + sign * b, axis=2) for sign in (-1, 1))
    return 2 * np.arctan2(near, far)


@pytest.mark.parametrize("dead", [0, 16, 384])
def test_dimensions_that_do_not_vary_are_exact_in_int8(dead):
    """One step for such a dimension would be as wide as the whole vector: their cosine was 0.447."""
    rows = np.random.default_rng(0).standard_normal((50, 384)).astype(np.float32)
    rows[:, :dead] = rows[0, :dead]
    ranges = quantization_ranges(rows)
    back = dequantize(quantize(rows, "int8", ranges), "int8", 384, ranges)
    np.testing.assert_array_equal(back[:, :dead], rows[:, :dead])
    assert module.cosine(rows, back).min() > 0.9999


@pytest.mark.parametrize("numpy_1", [False, True])
def test_differing_bits_are_those_of_a_plain_loop(monkeypatch, numpy_1):
    if numpy_1:
        monkeypatch.delattr(np, "bitwise_count", raising=False)
    words = np.random.default_rng(1).integers(0, 2**64, (3, 50), dtype=np.uint64)
    query = np.random.default_rng(2).integers(0, 2**64, 3, dtype=np.uint64)
    wanted = [sum((int(a) ^ int(b)).bit_count() for a, b in zip(code, query, strict=True)) for code in words.T]
    assert differing_bits(words, query).tolist() == wanted
    assert module._ones(words[0]).dtype == np.uint8


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: quantize([[1, 2]], "int8"), "int64"),
        (lambda: quantize([[1.0, 2.0]], "int4"), "unknown precision 'int4'"),
        (lambda: quantize([[1.0, 2.0]], "int8"), "give ranges"),
        (lambda: quantize([[1.0, 2.0]], "int8", [[0.0], [1.0]]), r"give \(2, 2\)"),
        (lambda: dequantize(np.zeros((1, 2), np.int8), "int8", 2), r"give \(2, 2\)"),
    ],
)
def test_faults_are_named(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_rotations_are_what_they_say_and_stay_as_they_are():
    """Stored codes are signs after these: they may never change."""
    for dim, count in ((1, 2), (7, 1), (32, 4)):
        matrix = rotated(np.eye(dim), count).astype(np.float64)
        for side in np.split(matrix, count, axis=1):
            np.testing.assert_allclose(side @ side.T, np.eye(dim), atol=1e-6)
    signs = quantize(rotated(np.linspace(-1, 2, 16), 4), "ubinary")
    assert signs.tobytes().hex() == "d80c058d0ee00db9"


def test_half_precision_is_normalized_in_float32():
    """The squares of a float16 vector overflow above a length of 256, and eps is 0 in float16."""
    half = np.stack([np.full(768, 10, np.float16), np.zeros(768, np.float16)])
    np.testing.assert_allclose(module.unit_vectors(half), np.repeat([[768**-0.5], [0]], 768, 1), atol=1e-4)
    by_torch = normalize(torch.from_numpy(half))
    np.testing.assert_allclose(by_torch.float(), module.unit_vectors(half), atol=1e-4)


@pytest.mark.parametrize("kind", module.SIMILARITIES)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float16])
def test_codes_and_halves_are_compared_without_overflow(kind, dtype):
    """numpy multiplies and adds them in their own type."""
    rows = np.random.default_rng(0).integers(0, 128, (6, 500)).astype(dtype)
    compared, pairwise = (table[kind] for table in (module.SIMILARITIES, module.PAIRWISE))
    a, b = rows[:3], rows[3:]
    expected = compared(a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_allclose(compared(a, b), expected, rtol=1e-5)
    np.testing.assert_allclose(pairwise(a, b), np.diag(expected), rtol=1e-5)
