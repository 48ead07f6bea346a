"""Ordering a corpus: paths are permutations near the shortest, bounds are bounds, clusters are joined."""

import itertools

import numpy as np
import pytest
from scripts import load

from contrastive_st.data import TeacherCollator, TeacherRows
from contrastive_st.errors import InputError
from contrastive_st.vectors import unit_vectors

ordering = load("ordering")
lower_bound, order_corpus = ordering.lower_bound, ordering.order_corpus
path_length, path_lengths = ordering.path_length, ordering.path_lengths


def points(count, width=3, seed=0):
    return unit_vectors(np.random.default_rng(seed).standard_normal((count, width), dtype=np.float32))


def plain_length(unit, order):
    return sum(float(np.linalg.norm(unit[a] - unit[b])) for a, b in itertools.pairwise(order))


def test_near_the_shortest_path_where_it_can_be_known():
    ratios = []
    for seed in range(8):
        unit = points(6, seed=seed)
        best = min(plain_length(unit, order) for order in itertools.permutations(range(6)))
        assert lower_bound(unit) <= best + 1e-5
        ratios.append(plain_length(unit, order_corpus(unit)) / best)
    assert min(ratios) > 1 - 1e-6
    assert np.mean(ratios) < 1.05


def test_sentences_on_a_line_are_put_in_line():
    angle = np.random.default_rng(0).permutation(500) / 500
    order = order_corpus(np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32))
    assert abs(np.diff(angle[order])).max() < 1.5 / 500


@pytest.mark.parametrize("most", [10_000, 300])
def test_in_one_piece_and_in_clusters(most):
    """Ten topics, given in turn: the path leaves each once, or nearly so."""
    random = np.random.default_rng(0)
    topic = np.arange(1500) % 10
    vectors = (random.standard_normal((10, 24))[topic] + 0.3 * random.standard_normal((1500, 24))).astype(np.float32)
    order = order_corpus(vectors, most=most, seconds=20)
    assert sorted(order) == list(range(1500))
    assert (np.diff(topic[order]) != 0).sum() <= (9 if most == 10_000 else 20)
    found = path_lengths(vectors, order)
    assert found.bound <= found.length < 0.6 * found.given
    assert found.length == pytest.approx(plain_length(unit_vectors(vectors), order), rel=1e-5)
    again = order_corpus(vectors, most=most, seconds=20)
    np.testing.assert_array_equal(order, again)
    assert "lower bound" in str(found)


def test_few_and_equal_sentences():
    """All in one point: more than fit at once, and nothing to cluster by."""
    for count in (1, 2, 3):
        assert sorted(order_corpus(points(count))) == list(range(count))
        assert lower_bound(points(count)) <= path_length(points(count)) + 1e-6
    same = np.ones((50, 4), np.float32)
    assert sorted(order_corpus(same, most=20)) == list(range(50))
    assert path_length(same) == 0


def test_bad_embeddings():
    with pytest.raises(InputError, match="give a matrix"):
        order_corpus(np.zeros((0, 3), np.float32))
    broken = points(30)
    broken[3] = np.nan
    with pytest.raises(InputError, match="check the teacher"):
        order_corpus(broken)


def test_rows_and_batches_of_a_teacher(tokenizer):
    vectors = points(40, 6)
    ids = tokenizer([f"a cat {'and a dog ' * (i % 3)}" for i in range(40)])["input_ids"]
    order = order_corpus(vectors)
    rows = TeacherRows(ids, vectors, order)
    read = list(rows.sampler(8, seed=3))
    assert all(np.diff(read[i : i + 8]).tolist() == [1] * 7 for i in range(0, 40, 8))
    batch = TeacherCollator(tokenizer)([rows[i] for i in read[:8]])
    assert batch["input_ids"].shape[:2] == (8, 1)
    np.testing.assert_array_equal(batch["targets"].numpy(), vectors[order[read[:8]]])
    shuffled = list(TeacherRows(ids, vectors).sampler(8, seed=3))
    assert sorted(shuffled) == list(range(40))
    assert (np.diff(shuffled) == 1).sum() < 8
    with pytest.raises(InputError, match="one for each"):
        TeacherRows(ids, vectors[:-1])
    with pytest.raises(InputError, match="TeacherRows"):
        TeacherCollator(tokenizer)([{"input_ids": [1]}])
