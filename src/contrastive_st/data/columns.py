"""Which columns of a source are wanted, and what is said of the rows that had to go."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from contrastive_st.errors import InputError

logger = logging.getLogger(__name__)

Columns = Sequence[str | int] | None


def choose(columns: Columns, names: Sequence[str], texts: Sequence[str], source: str) -> list[str]:
    """The names of the wanted columns: those of `texts` by default, else by name, or by position in `names`.

    A string of digits is a position where no column has that name: a command line gives nothing but strings.

    Example:
        >>> choose(["text", 0, "2"], ["id", "text", "title"], ["text", "title"], "a.csv")
        ['text', 'id', 'title']
    """
    for name in names:
        if list(names).count(name) > 1:
            raise InputError(f"{source}: two columns are named {name!r}; rename one of them")
    if not (texts if columns is None else columns):
        raise InputError(f"{source}: no column of text; name one or more of {any_of(names)}")
    chosen: list[str] = []
    for column in texts if columns is None else columns:
        if column not in names and str(column).isdecimal() and int(column) < len(names):
            column = names[int(column)]
        if column not in names:
            raise InputError(f"{source}: there is no column {column!r}; name one or more of {any_of(names)}")
        if column in chosen:
            raise InputError(f"{source}: column {column!r} is asked for twice; name each column once")
        chosen.append(str(column))
    return chosen


def report(total: int, dropped: int, first: int, unit: str, source: str, strict: bool) -> None:
    """Raise where nothing is left, or for the first blank cell if `strict`; else tell how many rows were dropped."""
    if total == 0:
        raise InputError(f"{source}: there are no rows; it needs at least one sentence")
    if dropped and strict:
        raise InputError(f"{source}, {unit} {first}: a cell is blank; fill it, or drop it by leaving `strict` out")
    if dropped == total:
        raise InputError(f"{source}: all {total} {unit}s have a blank cell; name other columns, or fill them")
    if dropped:
        what = f"dropped {dropped} of {total} {unit}s, as a cell is blank"
        logger.warning("%s: %s; the first is %s %d", source, what, unit, first)


def any_of(names: Sequence[str]) -> str:
    """The names, to show in a message."""
    return ", ".join(names) or "(there are none)"
