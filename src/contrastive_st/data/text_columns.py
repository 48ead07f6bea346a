"""Which column of a table has the texts of a corpus: one rule for every command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from contrastive_st.data.profile import held_by, shown
from contrastive_st.data.roles import ANCHOR, NEGATIVE, POSITIVE, TEXT, TEXTS, named_columns, plain_name, role_of
from contrastive_st.errors import InputError, listed

if TYPE_CHECKING:
    from contrastive_st.data.reading.rows import Table

_CODE = re.compile(r"[A-Za-z0-9._:/-]*[0-9][A-Za-z0-9._:/-]*")


def text_column(table: Table, column: Sequence[str | int] | str | int | None = None) -> str:
    """The column of the texts of a corpus: the one asked for, else `text`, else the only one with the name of a text.

    Args:
        table: as `contrastive_st.data.reading.open_table` gives it.
        column: the column asked for, by name or position (from 0), or a list of this one; None if none is.

    Returns:
        The name of the column.

    Raises:
        InputError: there is no such column, or it is not clear which one is meant; names the columns.

    Example:
        >>> from contrastive_st.data.reading import Row, Table
        >>> rows = [Row(1, {"id": "a1", "question": "Why is it so?", "label": "x"})]
        >>> text_column(Table("t.csv", "row", lambda: iter(rows)))
        'question'
    """
    names: list[str] = table.names
    asked = list(named_columns(column, names, table.source))
    chosen = asked or [name for name in names if plain_name(name) == TEXT][:1] or text_columns(names)
    rows = [] if len(chosen) == 1 and (asked or role_of(chosen[0])) else [row.cells for row in islice(table, 100)]
    cells = {name: [row.get(name) for row in rows] for name in names}
    could = [name for name in chosen or names if held_by(cells[name]) == TEXTS and not isinstance(cells[name][0], dict)]
    could = [name for name in could if not _are_identifiers(list(filter(None, cells[name])))] or could
    if len(chosen) == 1 and (could or not rows):
        return chosen[0]
    what = "it is not clear which column has the text" if could else "no column of text"
    longest = max(could, key=lambda name: sum(len(str(cell)) for cell in cells[name]), default=None)
    fix = f"give --columns {shlex.quote(longest)}; " if longest is not None else ""
    columns = listed(f"{name} ({shown(values[0]) if values else 'blank'})" for name, values in cells.items())
    raise InputError(f"{table.source}: {what}; {fix}the columns are {columns or '(there are none)'}")


def _are_identifiers(cells: Sequence[object]) -> bool:
    """Whether cells are different codes, such as `AB-17`: each a word with a digit."""
    codes = {str(cell) for cell in cells}
    return len(codes) == len(cells) > 1 and all(_CODE.fullmatch(code) for code in codes)


def text_columns(names: Sequence[str]) -> list[str]:
    """The columns whose names are those of texts, in order; else the only one that has no known name."""
    roles = {name: role_of(name, names) for name in names}
    single = [name for name, role in roles.items() if role == TEXT]
    unknown = [name for name, role in roles.items() if role is None]
    texts = single or [name for name, role in roles.items() if role in (ANCHOR, POSITIVE, NEGATIVE)]
    return texts or (unknown if len(unknown) == 1 else [] if unknown else list(names)[: len(names) == 1])
