"""The memory that a process needed."""

from __future__ import annotations

import os
import sys


def peak_resident(process: int | str = "self") -> int:
    """Peak resident memory so far, in bytes, of this process or of another on this machine.

    It is 0 where the system does not report it: on Windows, and for another process outside Linux.

    Example:
        >>> peak_resident() > 10 * 2**20
        True
    """
    if sys.platform == "win32":
        return 0
    status = f"/proc/{process}/status"
    if os.path.exists(status):  # getrusage also counts the parent before the fork
        with open(status, encoding="ascii", errors="replace") as lines:
            return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
    if process != "self":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
