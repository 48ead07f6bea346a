"""Pairs of the classes: the strategies are those of setfit, by a plain loop."""

from collections import Counter

import numpy as np
import pytest

from contrastive_st.classification.class_pairs import PairRows, class_pairs
from contrastive_st.errors import InputError

LABELS = np.array([0, 2, 1, 0, 0, 2])


def plain(labels, alike):
    """All pairs i <= j, as two lists: of a common class, and of different ones."""
    same, different = [], []
    for i in range(len(labels)):
        for j in range(i, len(labels)):
            (same if i == j or alike(labels[i], labels[j]) else different).append((i, j))
    return same, different


@pytest.mark.parametrize("strategy", ["oversampling", "undersampling", "unique"])
@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
def test_every_strategy_is_the_plain_loop(strategy, several):
    labels = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 0, 0]]) if several else LABELS
    alike = (lambda a, b: any(x and y for x, y in zip(a, b, strict=True))) if several else (lambda a, b: a == b)
    same, different = plain(labels, alike)
    pairs, scores = class_pairs(labels, strategy, seed=3)
    found = [Counter(map(tuple, pairs[scores == score].tolist())) for score in (1, 0)]
    sizes = {"unique": (len(same), len(different))}
    most, least = max(len(same), len(different)), min(len(same), len(different))
    expected = sizes.get(strategy, (most, most) if strategy == "oversampling" else (least, least))
    assert tuple(sum(kind.values()) for kind in found) == expected
    for kind, every in zip(found, (same, different), strict=True):
        assert set(kind) <= set(every)
        assert max(kind.values()) - min(kind.values()) <= 1
        if strategy != "undersampling":
            assert set(kind) == set(every)


def test_the_order_is_that_of_the_seed():
    first, again, other = (class_pairs(LABELS, "unique", seed)[0].tolist() for seed in (1, 1, 2))
    assert first == again != other
    assert sorted(first) == sorted(other)


def test_what_has_no_pairs_is_an_error():
    with pytest.raises(InputError, match="common"):
        class_pairs(np.zeros(3, dtype=np.int64))
    with pytest.raises(InputError, match="texts"):
        class_pairs(np.arange(6001))


def test_rows_are_read_from_texts_that_are_tokenized_once():
    rows = PairRows([[2, 5, 3], [2, 6, 7, 3]], np.array([[0, 1], [1, 1]]), np.array([0.0, 1.0]), prompt_length=1)
    assert len(rows) == 2
    assert rows[0] == {"input_ids": [[2, 5, 3], [2, 6, 7, 3]], "prompt_length": [1, 1], "score": 0.0}
