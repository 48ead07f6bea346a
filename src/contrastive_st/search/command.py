"""`contrastive-st index`, `search` and `similar`."""

from __future__ import annotations

from typing import Any


def add_commands(commands: Any) -> None:
    """Add the commands to the subparsers of the command line."""
