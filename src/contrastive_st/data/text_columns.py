"""Which column of a table has the texts of a corpus: one rule for every command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contrastive_st.data.profile import TEXTS
from contrastive_st.data.roles import (
    CANDIDATE_SCORES,
    LABEL,
    SCORE,
    TEXT,
    UNUSED,
    named_columns,
    plain_name,
    role_of,
)  # fmt: skip
from contrastive_st.errors import InputError


def text_column(table: Any, column: Sequence[str | int] | str | int | None = None) -> str:
    """The column of the texts of a corpus: the one asked for, else `text`, else the only column of sentences.

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
    names: list[str] = list(table.columns or table.profile)
    asked = list(named_columns(column, names, table.source))
    if exact := asked or [name for name in names if plain_name(name) == TEXT][:1]:
        return _only(exact, names, table.source)
    return _only(text_columns(table) or [name for name in names if len(names) == 1], names, table.source)


def text_columns(table: Any) -> list[str]:
    """The columns of sentences of a table, in order; those of few values, dates or addresses if there are no others."""
    held, aside = table.profile, (UNUSED, LABEL, SCORE, *CANDIDATE_SCORES)
    names: list[str] = list(table.columns or held)
    texts = [name for name in names
             if held[name].held == TEXTS and not held[name].objects and role_of(name, names) not in aside]  # fmt: skip
    return [name for name in texts if not (held[name].aside or held[name].category)] or texts


def _only(texts: Sequence[str], names: Sequence[str], source: str) -> str:
    if len(texts) != 1:
        what = "it is not clear which column has the text" if texts else "no column of text"
        raise InputError(f"{source}: {what}; name one of {', '.join(texts or names) or '(there are none)'}")
    return texts[0]
