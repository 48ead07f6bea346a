"""The text of a cell, and how many rows have none."""

from __future__ import annotations

import json
import logging
import math
from typing import Any

from contrastive_st.data.profile import simple
from contrastive_st.data.reading.table import Table
from contrastive_st.errors import InputError

logger = logging.getLogger(__name__)


def report(total: int, dropped: int, first: int, table: Table, strict: bool, what: str = "have a blank cell") -> None:
    """Raise if no row is left, or for the first blank cell if `strict`; else log how many rows were dropped."""
    unit, source = table.unit, table.source
    if total == 0:
        raise InputError(f"{source}: there are no {'row' if unit == 'line' else unit}s; it needs at least one sentence")
    if dropped and strict:
        raise InputError(f"{table.where(first)}: a cell is blank; fill it, or leave `strict` out to drop the row")
    if dropped == total:
        raise InputError(f"{source}: all {total} {unit}s have a blank cell; name other columns, or fill them")
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
    if isinstance(cell, str):
        try:
            cell.encode()
        except UnicodeEncodeError:  # JSON can have a lone surrogate, which is not a character
            what = f"{cell[:40]!a} has a lone surrogate, which is not a character"
            raise InputError(f"{where}: {name!r} {what}; remove it") from None
        return cell
    if cell is None:
        return ""
    if only_strings:
        what = f"{name!r} is {json.dumps(cell, default=str)[:40]}, not a text"
        raise InputError(f"{where}: {what}; put quotes around it, or write null for a missing text")
    if isinstance(cell, (list, dict, tuple, bytes)):
        what = f"{name!r} holds {str(cell)[:40]}, a list, an object or bytes"
        raise InputError(f"{where}: {what}; write a text or a number in every row, or name a column of text")
    if isinstance(cell, float) and not math.isfinite(cell):
        what = f"{name!r} is {cell}, neither a text nor a number"
        raise InputError(f"{where}: {what}; write null for a missing text, or leave the row out")
    return cell.isoformat() if hasattr(cell, "isoformat") else json.dumps(cell, default=str)
