"""How much memory this process has taken."""

from __future__ import annotations

import sys


def peak_resident() -> int:
    """Most bytes of this process that were in memory at once, so far; 0 where the system does not tell (Windows).

    Example:
        >>> peak_resident() > 10 * 2**20
        True
    """
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
