"""Items are made one ahead or on threads, in their order, and a fault comes in its place."""

import threading
import time

import pytest
from threadpoolctl import threadpool_limits

from contrastive_st import prefetch as module
from contrastive_st.prefetch import on_threads, prefetch, product_threads


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


@pytest.fixture
def three_threads(monkeypatch):
    """numpy's products have three threads, whatever this machine has."""
    monkeypatch.setattr(module, "product_threads", lambda: 3)


@pytest.mark.parametrize("count", [0, 2, 3, 40])
def test_results_of_threads_come_in_order(three_threads, count):
    used = set()

    def square(number):
        used.add(threading.get_ident())
        time.sleep(0.002 * (3 - number % 3))
        return number**2

    assert list(on_threads(square, range(count))) == [number**2 for number in range(count)]
    assert len(used) in {0: (0,), 2: (1,), 3: (2, 3), 40: (2, 3)}[count]  # two are made by the caller's thread


def test_few_results_are_made_ahead_and_a_fault_stops_the_rest(three_threads):
    begun = []

    def call(number):
        begun.append(number)
        if number == 4:
            raise ValueError("the fifth")
        return number

    found = on_threads(call, range(1000))
    assert next(found) == 0
    with pytest.raises(ValueError, match="the fifth"):
        list(found)
    assert len(begun) <= 12


def test_products_have_one_thread_until_the_last_search_ends():
    """Two searches at a time end in the order in which they began: the second must not keep the first's limit."""
    products = module._Products()
    with threadpool_limits(2, user_api="blas"):
        first, second = products.alone(), products.alone()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert products._now() == 1
        assert products.threads() == 2
        second.__exit__(None, None, None)
        assert products._now() == 2
        assert product_threads() == 2
