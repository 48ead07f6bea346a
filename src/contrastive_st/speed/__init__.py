"""What replaces an operation of torch or transformers by a faster one, behind one switch.

`CONTRASTIVE_ST_SPEED=0` in the environment, or `use_speed(False)`, leaves every operation to torch. Results agree to
the rounding that each file names; docs/results.md has what each gains.
"""

from __future__ import annotations

import os


class Switch:
    """Whether operations of torch are replaced by faster ones."""

    on = os.environ.get("CONTRASTIVE_ST_SPEED", "1") != "0"


switch = Switch()


def use_speed(on: bool) -> None:
    """Switch all of this folder on or off, for the process.

    Example:
        >>> use_speed(False)
        >>> switch.on
        False
        >>> use_speed(True)
    """
    switch.on = on
