"""What one process knows and all must agree on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")


def world_size() -> int:
    """Number of processes that train together; 1 where nothing is distributed."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def broadcast_result(compute: Callable[[], T]) -> T:
    """Run `compute` on the first process and return its result on all; an error there is raised on all."""
    if world_size() == 1:
        return compute()
    outcome: list[object] = [None, None]
    if dist.get_rank() == 0:
        try:
            outcome[0] = compute()
        except Exception as error:
            outcome[1] = error
    dist.broadcast_object_list(outcome, src=0)
    if isinstance(outcome[1], Exception):
        raise outcome[1]
    return outcome[0]  # type: ignore[return-value]


def any_process(flag: bool, device: torch.device | str = "cpu") -> bool:
    """Whether `flag` is set on any process; a collective call."""
    if world_size() == 1:
        return flag
    flags = [torch.empty(1, dtype=torch.int32, device=device) for _ in range(world_size())]
    dist.all_gather(flags, torch.tensor([int(flag)], dtype=torch.int32, device=device))
    return bool(torch.cat(flags).any())


def is_first_process() -> bool:
    """Whether this process is the one that prints and writes."""
    return world_size() == 1 or dist.get_rank() == 0
