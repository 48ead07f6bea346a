"""Items are made one ahead, in their order, and a fault comes in its place."""

import threading

import pytest

from contrastive_st.prefetch import prefetch


def test_the_next_item_is_made_while_this_one_is_in_use():
    started = [threading.Event() for _ in range(4)]

    def items():
        for number in range(3):
            started[number].set()
            yield number
        started[3].set()
        raise ValueError("the fourth")

    found = prefetch(items())
    for number in range(3):
        assert next(found) == number
        assert started[number + 1].wait(10)
        assert not any(event.is_set() for event in started[number + 2 :])
    with pytest.raises(ValueError, match="the fourth"):
        next(found)
    assert list(prefetch([])) == []
