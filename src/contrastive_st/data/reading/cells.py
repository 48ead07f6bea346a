"""The text of a cell, and how many rows have none."""

from __future__ import annotations

import json
import logging
import math
import re
from typing import Any

from contrastive_st.data.profile import simple
from contrastive_st.data.reading.table import Table
from contrastive_st.errors import InputError

logger = logging.getLogger(__name__)
_SURROGATE = re.compile("[\ud800-\udfff]")  # JSON can have one alone


def report(
    total: int, dropped: int, first: int, table: Table, strict: bool = False, what: str = "have a blank cell"
) -> None:
    """Log how many rows were dropped.

    Args:
        total: how many rows there are.
        dropped: how many of them were dropped.
        first: the number of the first of these.
        table: where they come from.
        strict: no row may be dropped.
        what: why they were.

    Raises:
        InputError: no row is left, or one was dropped and `strict`.
    """
    unit, source = table.unit, table.source
    if dropped and strict:
        raise InputError(f"{table.where(first)}: a cell is blank; fill it, or leave `strict` out to drop the row")
    if dropped == total:
        why = f"all {total} {unit}s {what}" if total else f"there are no {'row' if unit == 'line' else unit}s"
        raise InputError(f"{source}: {why}; name other columns, or give at least one whole row")
    if dropped:
        logger.warning(
            f"{source}: dropped {dropped} of {total} {unit}s, which {what}; the first is {table.where(first)}"
        )


def as_text(cell: Any, name: str, where: str, only_strings: bool = False) -> str:
    """A cell as text, blank for null; an object as its text, if it is clear which one that is.

    Raises:
        InputError: it is something else, or with `only_strings` a number; names the row.
    """
    cell = simple(cell)
    if cell is None or (isinstance(cell, str) and (cell.isascii() or not _SURROGATE.search(cell))):
        return cell or ""
    fault = ""
    if isinstance(cell, str):
        fault = f"{cell[:40]!a} has a lone surrogate, which is not a character; remove it"
    elif only_strings:
        fault = f"is {json.dumps(cell, default=str)[:40]}, not a text; put quotes around it, or write null for none"
    elif isinstance(cell, (list, dict, tuple, bytes)):
        fault = (
            f"holds {str(cell)[:40]}, a list, an object or bytes; write a text or a number, or name a column of text"
        )
    elif isinstance(cell, float) and not math.isfinite(cell):
        fault = f"is {cell}, neither a text nor a number; write null for a missing text, or leave the row out"
    if fault:
        raise InputError(f"{where}: {name!r} {fault}")
    return cell.isoformat() if hasattr(cell, "isoformat") else json.dumps(cell, default=str)
