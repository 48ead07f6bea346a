"""What threads share, in a forked child: it has the thread that forked alone, and what the others began never ends.

A lock that another thread held would stay held there, and what that thread had changed for a while would stay changed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakSet

_BEGUN: dict[object, tuple[int, Callable[[], object]]] = {}  # the thread of each context, and what ends it
_LOCKS: WeakSet[Lock] = WeakSet()


class Lock:
    """A lock for threads of a process. A forked child has it free, unless the thread that forked holds it.

    Example:
        >>> lock = Lock()
        >>> with lock.held():
        ...     pass
    """

    def __init__(self) -> None:
        self._free()
        _LOCKS.add(self)

    @contextmanager
    def held(self) -> Iterator[None]:
        """A context that one thread at a time is in."""
        with (lock := self._lock):
            self._holder = threading.get_ident()
            try:
                yield
            finally:
                if lock is self._lock:  # else a generator of another thread ends in a child
                    self._holder = 0

    def _after_fork(self) -> None:
        if self._holder != threading.get_ident():  # a free one too: threads that waited for it are counted in it
            self._free()

    def _free(self) -> None:
        self._lock, self._holder = threading.Lock(), 0


@contextmanager
def undone(undo: Callable[[], object]) -> Iterator[None]:
    """A context that ends with a call, and in a child that another thread forks meanwhile has ended.

    Args:
        undo: puts back what is changed inside. If the fork comes while it runs, it runs again in the child.

    Example:
        >>> with undone(lambda: print("as before")):
        ...     print("changed")
        changed
        as before
    """
    _BEGUN[key := object()] = threading.get_ident(), undo
    try:
        yield
    finally:
        if key in _BEGUN:
            undo()
            del _BEGUN[key]


def _after_fork() -> None:
    for key, (thread, undo) in reversed(list(_BEGUN.items())):  # what is inside another context first
        if thread != threading.get_ident():
            undo()
            del _BEGUN[key]
    for lock in list(_LOCKS):
        lock._after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
