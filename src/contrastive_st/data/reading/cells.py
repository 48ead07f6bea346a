"""The text or the number in a cell, and how many rows have none."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from contrastive_st.data.profile import MISSING, is_blank, is_missing, simple, value_of
from contrastive_st.data.reading.rows import Table
from contrastive_st.errors import InputError

logger = logging.getLogger(__name__)
_SURROGATE = re.compile("[\ud800-\udfff]")  # JSON can have one alone


class Dropped:
    """The rows of a table that are left out because of a blank cell: how many, the first, and why.

    Args:
        table: where they come from.
        names: the columns that must not be blank.
        what: what these rows have or lack, for the message.

    Example:
        >>> from contrastive_st.data.profile import is_blank
        >>> dropped = Dropped(Table("a.csv", "row", lambda: iter(())), ["text"])
        >>> for number, cells in enumerate([{"text": "Hi."}, {"text": "NA"}, {"text": ""}], 1):
        ...     if is_blank(cells["text"]):
        ...         dropped.add(number, cells)
        >>> dropped.count, dropped.first, list(dropped.why)
        (2, 2, ["'NA' counts as blank"])
    """

    def __init__(self, table: Table, names: Sequence[str] = (), what: str = "have a blank cell") -> None:
        self.table, self.names, self.what = table, names, what
        self.count = self.first = 0
        self.why: dict[str, None] = {}

    def add(self, number: int, cells: Mapping[str, Any]) -> None:
        """Count a row."""
        self.first = self.first or number
        self.count += 1
        for name in self.names:
            if name not in cells:
                self.why[f"there is no column {name!r}"] = None
            elif isinstance(cell := cells[name], str) and cell.strip() in MISSING:
                self.why[f"{cell.strip()!r} counts as blank"] = None

    def report(self, total: int, strict: bool = False) -> None:
        """Log how many of so many rows were dropped.

        Args:
            total: how many rows there are.
            strict: no row may be dropped.

        Raises:
            InputError: no row is left, or one was dropped and `strict`.
        """
        table = self.table
        why = f" ({', '.join(self.why)})" if self.why else ""
        if self.count and strict:
            mend = "fill it, or leave `strict` out to drop the row"
            raise InputError(f"{table.where(self.first)}: a cell is blank{why}; {mend}")
        if self.count == total:
            none = f"there are no {'row' if table.unit == 'line' else table.unit}s"
            what = f"all {total} {table.unit}s {self.what}{why}" if total else none
            raise InputError(f"{table.source}: {what}; name other columns, or give at least one whole row")
        if self.count:
            logger.warning(
                f"{table.source}: dropped {self.count} of {total} {table.unit}s, which {self.what}; "
                f"the first is {table.where(self.first)}{why}"
            )


def check_rows(table: Table) -> None:
    """Raise `InputError` if a table has no rows."""
    Dropped(table).report(len(list(islice(table, 1))))


def as_text(cell: Any, name: str, where: str, only_strings: bool = False) -> str:
    """A cell as text, blank for null, NaN and an empty list; an object as its text, if it is clear which one that is.

    Raises:
        InputError: it is something else, or with `only_strings` a number; names the row.
    """
    cell = simple(cell)
    if is_missing(cell) or cell == []:
        return ""
    if isinstance(cell, str) and (cell.isascii() or not _SURROGATE.search(cell)):
        return cell
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
        fault = f"is {cell}, neither a text nor a number; write null in its place, or leave the row out"
    if fault:
        raise InputError(f"{where}: {name!r} {fault}")
    return cell.isoformat() if hasattr(cell, "isoformat") else json.dumps(cell, default=str)


def number_in(cell: Any, where: str) -> float:
    """The finite number in a cell, which may be written as text; true is 1, false 0.

    Raises:
        InputError: the cell is not a number; names `where` it is.

    Example:
        >>> number_in(" 4.5", "a.csv, row 2"), number_in("True", "a.csv, row 3"), number_in(0, "a.csv, row 4")
        (4.5, 1.0, 0.0)
    """
    value = value_of(cell)
    if value is None or not math.isfinite(value):
        raise InputError(f"{where}: {str(cell)[:40]!r} is not a number; a score is expected there")
    return value


def score_in(cell: Any, where: str) -> float:
    """The number in a cell as `number_in` reads it, or NaN if the cell is blank or NaN: the row has no score."""
    return math.nan if is_blank(cell) else number_in(cell, where)
