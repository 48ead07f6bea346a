"""Iterate: several items together, the next one made ahead in a thread, or products of several items at a time."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of `size` items; the last may be shorter.

    Example:
        >>> list(in_chunks("abc", 2))
        [['a', 'b'], ['c']]
    """
    left = iter(items)
    while chunk := list(islice(left, size)):
        yield chunk


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items in their order; a thread makes each one while the one before it is in use.

    At most one item is made ahead. An exception that an item raises is raised in its place.

    Example:
        >>> list(prefetch(number * number for number in range(4)))
        [0, 1, 4, 9]
    """
    source, end = iter(items), object()
    with ThreadPoolExecutor(1) as pool:
        coming: Future[Any] = pool.submit(next, source, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, source, end)
            yield item


def on_threads(call: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield the result of each item, in their order; each thread computes numpy's products alone.

    Threads that share a product wait for each other after it, and the rest of the work has one thread. If there are
    fewer items than threads, they share the products. Few results are made ahead.

    Example:
        >>> list(on_threads(lambda number: number * number, range(4)))
        [0, 1, 4, 9]
    """
    threads = product_threads()
    if len(items) < threads or threads == 1:
        yield from map(call, items)
        return
    waiting: deque[Future[Result]] = deque()
    with _products().alone(), ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(call, item))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # after a fault
            for future in waiting:
                future.cancel()


def product_threads() -> int:
    """How many threads numpy's products have (OMP_NUM_THREADS).

    Example:
        >>> product_threads() >= 1
        True
    """
    return _products().threads()


class _Products:
    """The libraries that compute numpy's products. Their number of threads is the process's, so callers are counted."""

    def __init__(self) -> None:
        from threadpoolctl import ThreadpoolController  # here, because static models encode without it

        self._libraries = ThreadpoolController().select(user_api="blas")
        self._lock, self._callers = threading.Lock(), 0
        self._limits: Any = None
        self._threads = 1  # before the first caller

    def threads(self) -> int:
        with self._lock:
            return self._threads if self._callers else self._now()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A context in which a product has one thread, that which asks for it."""
        with self._lock:
            if not self._callers:
                self._threads, self._limits = self._now(), self._libraries.limit(limits=1)
            self._callers += 1
        try:
            yield
        finally:
            with self._lock:
                self._callers -= 1
                if not self._callers:
                    self._limits.restore_original_limits()

    def _now(self) -> int:
        return max((library.num_threads for library in self._libraries.lib_controllers), default=1)


@cache
def _products() -> _Products:
    return _Products()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_products.cache_clear)  # the threads of a process stay behind
