"""Watching a folder: when files in it have changed, and are no longer being written."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from contrastive_st.search.folder import files_in

PAUSE = 2.0  # seconds between two looks; looking takes at most a twentieth of the time
_MOST_PAUSES = 15  # after which files that are written all the time are indexed as they are


def state_of(folder: Path) -> dict[str, Any]:
    """The state of a folder: of each file its size, time and inode, or why it is left out.

    Polling sees changes on network drives and in containers too, which system calls do not report.
    """
    result: dict[str, Any] = {}
    for entry in files_in(folder):
        try:
            facts = os.stat(entry.path)
            result[entry.name] = entry.reason or (facts.st_size, facts.st_mtime_ns, facts.st_ino)
        except OSError:
            result[entry.name] = entry.reason
    return result


def settled_changes(
    look: Callable[[], Any], before: Any, sleep: Callable[[float], None] = time.sleep
) -> Iterator[None]:
    """Yield whenever what `look` returns has changed from `before`, and then stays as it is; without end.

    Args:
        look: returns a state.
        before: the state that is known.
        sleep: waits for some seconds.

    Example:
        >>> states = iter(["a", "a", "ab", "abc", "abc", "abc", "d", "d"])
        >>> changes = settled_changes(lambda: next(states), "a", lambda seconds: None)
        >>> next(changes), next(changes), list(states)
        (None, None, [])
    """
    seen, pauses = before, 0
    while True:
        started = time.perf_counter()
        now = look()
        took = time.perf_counter() - started
        if now != before and (now == seen or pauses == _MOST_PAUSES):
            before, pauses = now, 0
            yield
        pauses = pauses + 1 if now != before else 0
        seen = now
        sleep(max(PAUSE, 20 * took))
