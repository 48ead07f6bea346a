"""The device on which a command runs models: `--device`, else `$CONTRASTIVE_ST_DEVICE`, else what torch offers."""

from __future__ import annotations

import os

_given: str | None = None


def set_device(name: str | None) -> None:
    """Set the device of the models that this process opens; None forgets it."""
    global _given
    _given = name


def asked_device() -> str | None:
    """The device that was asked for, or None.

    Example:
        >>> set_device("cpu")
        >>> asked_device()
        'cpu'
        >>> set_device(None)
    """
    return _given or os.environ.get("CONTRASTIVE_ST_DEVICE") or None
