"""Work shared out over the processes of `accelerate launch`; every one ends with all results, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch.distributed as dist

Item = TypeVar("Item")
Result = TypeVar("Result")


def processes() -> tuple[int, int]:
    """This process's number and how many there are; `(0, 1)` where nothing is distributed."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def deal(costs: Sequence[float], hands: int) -> list[list[int]]:
    """Deal items to `hands`: each in turn, dearest first, to the hand that has least so far.

    Example:
        >>> deal([5, 1, 4, 2], 2)
        [[0, 1], [2, 3]]
    """
    dealt: list[list[int]] = [[] for _ in range(hands)]
    load = [0.0] * hands
    for i in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        least = load.index(min(load))
        dealt[least].append(i)
        load[least] += costs[i]
    return dealt


def shared(
    work: Callable[[Item], Result], items: Sequence[Item], costs: Sequence[float], *, distributed: bool = True
) -> list[Result]:
    """`[work(item) for item in items]`, each item worked on by one process; a collective call.

    An error on one process is raised on all, so that none waits for one that stopped.

    Args:
        work: gives the same result on whichever process it runs; the result must pickle.
        items: the same on all processes.
        costs: how long each may take, in any unit.
        distributed: False works on all items here, and may be called on one process alone.

    Example:
        >>> shared(len, ["a", "bcd"], [1, 3])
        [1, 3]
    """
    rank, count = processes() if distributed else (0, 1)
    if count == 1:
        return [work(item) for item in items]
    own: dict[int, Any] = {}
    failure: Exception | None = None
    try:
        for i in deal(costs, count)[rank]:
            own[i] = work(items[i])
    except Exception as error:  # raised below, on every process
        failure = error
    outcomes: list[Any] = [None] * count
    dist.all_gather_object(outcomes, (own, failure))
    for _, failed in outcomes:
        if failed is not None:
            raise failed
    merged = {i: result for done, _ in outcomes for i, result in done.items()}
    return [merged[i] for i in range(len(items))]


def from_first(compute: Callable[[], Result], *, distributed: bool = True) -> Result:
    """What `compute` gives on the first process, on all; a collective call."""
    return shared(lambda _: compute(), [None], [1.0], distributed=distributed)[0]
