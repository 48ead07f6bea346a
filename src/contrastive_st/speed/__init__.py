"""What replaces an operation of torch or transformers by a faster one, behind one switch.

`CONTRASTIVE_ST_SPEED=0` in the environment, or `use_speed(False)`, leaves every operation to torch. Results agree to
the rounding that each file names; docs/results.md has what each gains.
"""

from __future__ import annotations

import os

_on = os.environ.get("CONTRASTIVE_ST_SPEED", "1") != "0"


def use_speed(on: bool) -> None:
    """Switch all of this folder on or off, for the process.

    Example:
        >>> use_speed(False)
        >>> speed_is_on()
        False
        >>> use_speed(True)
    """
    global _on
    _on = on


def speed_is_on() -> bool:
    """Whether operations of torch are replaced by faster ones."""
    return _on
