"""Inference on all cores of a CPU: each computes an item."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

import torch
from threadpoolctl import ThreadpoolController

from contrastive_st.prefetch import in_forked_processes

Item = TypeVar("Item")
Result = TypeVar("Result")


def on_cores(work: Callable[[Item], Result], items: Iterable[Item | None]) -> Iterator[Result]:
    """`map(work, items)` for inference on a CPU: each core computes another item.

    Threads that share a product wait for each other after each product. On two cores all-MiniLM-L6-v2 in bfloat16
    encoded 1.04 to 1.22 times as fast as with `map` (alternating rounds), in float32 0.93 to 1.05 times. Items that are
    fewer than half of torch's threads are computed one after the other, each with all threads.

    Args:
        work: is run in several threads at once, without gradients and with the caller's autocast.
        items: should take about equally long; a stream is read two items ahead of the cores. None in a stream says
            that it has no item at this moment: the next result comes before it is asked again.

    Example:
        >>> list(on_cores(torch.exp, [torch.zeros(1), torch.zeros(2)]))
        [tensor([1.]), tensor([1., 1.])]
    """
    threads, items = torch.get_num_threads(), iter(items)
    half, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    @torch.inference_mode()
    def computed(item: Item) -> Result:
        torch.set_autocast_dtype("cpu", dtype)
        torch.set_autocast_enabled("cpu", half)  # leaving torch.autocast would drop the weights that were cast
        return work(item)

    started: deque[Future[Result]] = deque()
    try:
        while first := _ahead(items, threads // 2 + 1):  # no core computes anything
            if threads == 1 or len(first) <= threads // 2:
                yield from map(work, first)
                continue
            for item in chain(first, items):
                if item is not None:
                    started.append(_cores(threads).submit(computed, item))
                if started and (item is None or len(started) > threads + 2):
                    yield started.popleft().result()
                if not started:
                    break
            while started:
                yield started.popleft().result()
    finally:  # after a fault
        for future in started:
            future.cancel()


def _ahead(items: Iterator[Item | None], most: int) -> list[Item]:
    """The next items of a stream, up to its next None."""
    result: list[Item] = []
    for item in islice(items, most):
        if item is None:
            if result:
                break
            continue
        result.append(item)
    return result


@functools.cache
def _cores(threads: int) -> ThreadPoolExecutor:
    """So many threads that each compute on one core; kept, as each new one would take more memory."""
    libraries = ThreadpoolController()

    def alone() -> None:
        torch.get_num_threads()  # sets OpenMP's number at a thread's first call
        libraries.limit(limits=1, user_api="openmp")  # torch.set_num_threads would set it for other threads too

    return ThreadPoolExecutor(threads, thread_name_prefix="core", initializer=alone)


@in_forked_processes
def _one_thread() -> None:
    """A forked process has none of these threads, nor those of OpenMP, for which torch's next product would wait for
    ever: GNU's OpenMP does not see that they are gone. With one thread it asks for none."""
    _cores.cache_clear()
    torch.set_num_threads(1)
