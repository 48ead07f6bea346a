"""Leave the random states as they were, so that looking at a model changes nothing of its training."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import torch


@contextlib.contextmanager
def preserved_random_state() -> Iterator[None]:
    """Restore the random states of Python, NumPy and torch (all devices) on leaving.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> with preserved_random_state():
        ...     _ = torch.rand(3)
        >>> torch.initial_seed(), round(torch.rand(1).item(), 4)
        (0, 0.4963)
    """
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if devices is not None:
            torch.cuda.set_rng_state_all(devices)
