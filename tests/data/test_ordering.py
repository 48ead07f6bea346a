"""Ordering a corpus: moves gain what they claim, paths are permutations, bounds are bounds, clusters are joined."""

import itertools
import time

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


@pytest.mark.parametrize("count", [4, 5, 9, 60])
def test_every_move_gains_what_it_claims(count):
    """Moves at the ends of the path are among them, and segments turned and not turned."""
    random, kinds = np.random.default_rng(count), set()
    for seed in range(6):
        unit = points(count, seed=seed)
        near = ordering.nearest_neighbors(unit, min(6, count - 1))[0]
        state = ordering._Path(unit, random.permutation(count), near)
        for _ in range(12):
            everyone = np.arange(count)
            found = [state.two_opt(everyone, 1e-6), *(state.or_opt(everyone, n, 1e-6) for n in (1, 2, 3))]
            moves = ordering.Moves(*(np.concatenate(columns) for columns in zip(*found, strict=True)))
            if not len(moves.gain):
                break
            chosen = random.integers(len(moves.gain))
            one = ordering.Moves(*(column[chosen : chosen + 1] for column in moves))
            before = plain_length(unit, state.path)
            state.make(one)
            assert sorted(state.path) == list(range(count))
            assert (state.path[state.place] == np.arange(count)).all()
            assert before - plain_length(unit, state.path) == pytest.approx(float(one.gain[0]), abs=1e-5)
            kinds.add(int(one.segment[0]))
    assert kinds == {0, 1, 2, 3} or count < 60


def test_a_whole_sweep_never_lengthens_the_path():
    unit = points(400, 5)
    near = ordering.nearest_neighbors(unit, 6)[0]
    state = ordering._Path(unit, np.random.default_rng(1).permutation(400), near)
    active, length = np.arange(400), plain_length(unit, state.path)
    while len(active):
        moves = state.two_opt(active, 1e-6)
        active = state.make(moves)
        shorter = plain_length(unit, state.path)
        assert shorter <= length + 1e-4
        length = shorter


def test_near_the_shortest_path_where_it_can_be_known():
    ratios = []
    for seed in range(8):
        unit = points(7, seed=seed)
        best = min(plain_length(unit, order) for order in itertools.permutations(range(7)))
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


def test_the_moves_shorten_the_nearest_neighbour_path_until_none_is_left():
    unit = points(600)
    near = ordering.nearest_neighbors(unit, 8)[0]
    start = ordering.nearest_neighbor_path(unit, near, 0)
    ended = ordering.improve(unit, start, near, time.monotonic() + 20)
    assert path_length(unit, ended) < 0.9 * path_length(unit, start)
    state = ordering._Path(unit, ended, near)
    left = [state.two_opt(ended, 1e-5), *(state.or_opt(ended, count, 1e-5) for count in (1, 2, 3))]
    assert not sum(len(moves.gain) for moves in left)
    same = ordering.improve(unit, start, near, time.monotonic() - 1)
    np.testing.assert_array_equal(same, start)  # no time, no moves


def test_blocks_do_not_change_the_neighbours(monkeypatch):
    unit = points(300, 8)
    whole = ordering.nearest_neighbors(unit, 5)
    monkeypatch.setattr(ordering, "_SCORES", 300 * 7)
    for ours, theirs in zip(ordering.nearest_neighbors(unit, 5), whole, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    distances = np.linalg.norm(unit[:, None] - unit, axis=2) + 9 * np.eye(300)
    np.testing.assert_array_equal(whole[0], np.argsort(distances, 1, kind="stable")[:, :5])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_sentences(count):
    assert sorted(order_corpus(points(count))) == list(range(count))
    assert lower_bound(points(count)) <= path_length(points(count)) + 1e-6


def test_equal_sentences():
    """All in one point: more than fit at once, and nothing to cluster by."""
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
