"""Cells of a table as the values of metadata: what the text in a delimited table stands for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from contrastive_st.data.profile import is_blank, items_of
from contrastive_st.data.reading import Table
from contrastive_st.search.report import Report
from contrastive_st.search.values import plain

CellReader = Callable[[str, Any], Any]
_INTEGER_OR_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{0,13}[1-9])?")


def cell_reader(table: Table, text: str, metadata: Collection[str] | None, report: Report) -> CellReader:
    """What makes a value of a cell, from the name of its column and the cell.

    Args:
        table: the table.
        text: the column of its texts.
        metadata: the columns that are read; None if all others are.
        report: gets a line for the columns of lists.
    """
    if not table.delimited:
        return lambda name, cell: plain(cell)
    lists = _columns_of_lists(table, {*(table.names if metadata is None else metadata)} - {text})
    for name in sorted(lists):
        report.say("each cell is read as a list or an object", f"column {name}")
    return lambda name, cell: listed(cell) if name in lists else typed(cell)


def typed(cell: Any) -> Any:
    """A cell of a delimited table, as a number where that is written in the same way; `007` and `1.10` stay text.

    A blank cell is None, and so is what programs write for a missing value, such as `NA`.
    """
    if is_blank(cell):
        return None
    if not isinstance(cell, str) or not _INTEGER_OR_DECIMAL.fullmatch(cell.strip()):
        return plain(cell)
    return float(cell) if "." in cell else int(cell)


def listed(cell: Any) -> list[Any] | dict[str, Any] | None:
    """A cell of a delimited table as the list or object that it writes; None if it writes neither, or is blank.

    Example:
        >>> listed('{a,"b, c",NULL}'), listed('{"k": [1]}'), listed("['a', 'b']"), listed("[1")
        (['a', 'b, c', None], {'k': [1]}, ['a', 'b'], None)
    """
    if (items := items_of(cell)) is not None:
        return [typed(item) for item in items]
    with suppress(ValueError, TypeError, RecursionError):
        written = json.loads(cell)
        return plain(written) if isinstance(written, dict) else None
    return None


def _columns_of_lists(table: Table, names: set[str]) -> set[str]:
    """The columns of which every cell that is not blank is a list or an object."""
    left, seen = names, set[str]()
    for row in table:
        given = {name for name in left if not is_blank(row.cells.get(name))}
        seen |= given
        left = left - {name for name in given if listed(row.cells[name]) is None}
        if not left:
            break
    return left & seen
