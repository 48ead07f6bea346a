"""Read ahead: the next item is made in a thread while the present one is in use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")


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
