"""The processors that this process may use: those of its affinity, and as many as the quota of its cgroup allows."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_CGROUPS, _OF_PROCESS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def affinity() -> int:
    """How many processors the scheduler may run this process on.

    Example:
        >>> affinity() >= 1
        True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quota(root: Path = _CGROUPS, of_process: Path = _OF_PROCESS) -> float | None:
    """How many processors' time the cgroups of this process (version 1 or 2) allow; None if they set no limit.

    Args:
        root: where the cgroups are mounted.
        of_process: the file that names those of this process.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "cgroup")
        ...     _ = path.write_text("0::/a/b")
        ...     Path(folder, "a/b").mkdir(parents=True)
        ...     _ = Path(folder, "a/cpu.max").write_text("150000 100000")
        ...     quota(Path(folder), path)
        1.5
    """
    try:
        lines = of_process.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return None
    limits = [limit for line in lines for limit in _limits(root, *line.split(":", 2)[1:])]
    return min(limits, default=None)


def _limits(root: Path, controllers: str, name: str) -> Iterator[float]:
    """The limits of a cgroup and of those that it is in; in a container its path may begin outside of what is there."""
    if controllers and "cpu" not in controllers.split(","):
        return
    base = (root / controllers if (root / controllers).is_dir() else root / "cpu") if controllers else root
    inside = Path(name.lstrip("/"))
    for folder in (base / inside, *((base / above) for above in inside.parents)):
        try:
            if controllers:
                granted, period = ((folder / f"cpu.cfs_{one}_us").read_text() for one in ("quota", "period"))
            else:
                granted, period = (folder / "cpu.max").read_text().split()
        except OSError:
            continue
        if granted.strip() not in ("max", "-1"):
            yield int(granted) / int(period)


def usable() -> int:
    """How many threads compute: the affinity, or a smaller quota, rounded; at least 1.

    Example:
        >>> 1 <= usable() <= affinity()
        True
    """
    allowed = quota()
    return affinity() if allowed is None else max(1, min(affinity(), round(allowed)))


def threads() -> int:
    """How many threads compute: OMP_NUM_THREADS, or else `usable`.

    Example:
        >>> threads() >= 1
        True
    """
    number = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return int(number) if number.isdecimal() and int(number) else usable()


def follow_quota() -> None:
    """Keep the threads of products to a quota below the affinity, which OpenMP and BLAS do not know of themselves.

    Libraries loaded later, and processes started later, follow OMP_NUM_THREADS, which is set here unless the
    user has set it; the change also applies to those that are loaded.
    """
    threads = usable()
    if "OMP_NUM_THREADS" in os.environ or threads == affinity():
        return
    os.environ["OMP_NUM_THREADS"] = str(threads)
    if "numpy" in sys.modules:
        from threadpoolctl import threadpool_limits

        threadpool_limits(threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


class Others:
    """How many of the processors of this process others use, between one look and the next.

    Processes of a low priority (`nice`), which yield to this one, do not count; outside Linux none do.

    Example:
        >>> 0 <= Others().taken() <= affinity()
        True
    """

    def __init__(self) -> None:
        self._at, self._worked = time.monotonic(), _worked()

    def taken(self) -> float:
        """How many they used since the last look."""
        before, worked = self._at, self._worked
        self._at, self._worked = time.monotonic(), _worked()
        share = (self._worked - worked) / max(self._at - before, 1e-3)
        return min(max(share, 0.0), float(affinity()))


def taken(seconds: float = 0.2) -> float:
    """How many of the processors of this process others use, measured for a moment."""
    others = Others()
    time.sleep(seconds)
    return others.taken()


def _worked() -> float:
    """Seconds in which the processors of this process worked for others, since the machine was started."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            lines = [line.split() for line in file if line.startswith("cpu") and line[3].isdigit()]
    except OSError:
        return 0.0
    names = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    user, nice, system = (sum(int(line[column]) for line in lines if line[0] in names) for column in (1, 2, 3))
    total = user + system + (nice if os.nice(0) > 0 else 0)
    return total / os.sysconf("SC_CLK_TCK") - time.process_time()
