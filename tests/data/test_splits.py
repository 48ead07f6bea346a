"""Rows for validation are a fixed random share, and share no anchor with those for training."""

import datasets
import pytest

from contrastive_st.data import split_rows
from contrastive_st.errors import InputError


def rows_of(count, anchors):
    table = {"anchor": [f"a {i * 7 % anchors}" for i in range(count)], "positive": [f"p {i}" for i in range(count)]}
    return datasets.Dataset.from_dict(table)


@pytest.mark.parametrize(
    ("count", "anchors", "share"), [(1000, 1000, 0.05), (1000, 100, 0.2), (4, 4, 0.5), (60, 20, 0.9)]
)
def test_no_anchor_is_on_both_sides_and_no_row_is_lost(count, anchors, share):
    rows = rows_of(count, anchors)
    train, validation = split_rows(rows, share, seed=3)
    assert not set(train["anchor"]) & set(validation["anchor"])
    assert sorted([*train["positive"], *validation["positive"]]) == sorted(rows["positive"])
    assert abs(len(validation) - share * count) <= count / anchors
    places = [int(text[2:]) for text in validation["positive"]]
    assert places == sorted(places)


def test_the_seed_decides():
    rows = rows_of(300, 100)
    assert split_rows(rows, 0.3, 1)[1][:] == split_rows(rows, 0.3, 1)[1][:]
    assert split_rows(rows, 0.3, 1)[1][:] != split_rows(rows, 0.3, 2)[1][:]


@pytest.mark.parametrize(
    ("count", "anchors", "share", "message"),
    [
        (10, 10, 0.0, "above 0 and below 1"),
        (10, 10, 1.0, "above 0 and below 1"),
        (10, 10, float("nan"), "above 0 and below 1"),
        (10, 10, 0.01, "no rows for validation"),
        (10, 10, 0.99, "no rows for training"),
        (10, 1, 0.5, "no rows for"),
        (1, 1, 0.5, "no rows for"),
    ],
)
def test_a_side_without_rows_is_refused(count, anchors, share, message):
    with pytest.raises(InputError, match=message):
        split_rows(rows_of(count, anchors), share)
