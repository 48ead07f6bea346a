"""Whether the first row of a table holds the names of its columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from contrastive_st.data.profile import NUMBER
from contrastive_st.data.roles import role_of

_LIKE_A_NUMBER = re.compile(NUMBER.pattern + r"|\s*([-+]?(nan|inf|infinity)|n/a|na|null|none|\\N)\s*", re.IGNORECASE)
#: The columns of the files of the STS benchmark, which have no header
STS_COLUMNS = ("genre", "file", "year", "id", "sts_score", "sentence1", "sentence2")
COMPARED = 50  # rows with which the first row is compared
_WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|[^\s\u3040-\u30ff\u4e00-\u9fff]+")  # Han and kana have no spaces
_ENDS = re.compile(r".*\w\W*[.!?。！？…][\"')\]]*", re.DOTALL)


@dataclass(frozen=True)
class Header:
    """What the first row of a table is.

    Args:
        there: whether the first row holds the names of the columns.
        known: whether one of the names is known.
        names: the names of the columns: those of the first row, or `0`, `1`, ... or those of a known layout.
    """

    there: bool
    known: bool
    names: tuple[str, ...]

    @property
    def note(self) -> str:
        """A line that says what was guessed; blank if nothing was."""
        if self.there:
            unsure = not self.known and any(" " in name for name in self.names)
            return f"the first row is read as the names of the columns: {', '.join(self.names)}" if unsure else ""
        if self.names == STS_COLUMNS:
            return f"no header: columns as in the STS benchmark, {', '.join(self.names)}"
        return f"no header: columns are numbered {', '.join(self.names)}"


def find_header(rows: Sequence[Sequence[str]], given: bool | None = None) -> Header:
    """Find out whether the first row of a table holds the names of its columns.

    It does if it holds a known name that no other row has in that column. Else its cells are compared with those
    below: a word above sentences is a name; a number above numbers, a sentence above sentences, or a cell that occurs
    again is not.

    Args:
        rows: the first rows of the table.
        given: whether there is a header, if that is known.

    Example:
        >>> find_header([["a", "b"], ["Two cats sleep.", "The cats are asleep."]]).there
        True
        >>> find_header([["One dog runs.", "0.5"], ["Two cats sleep.", "0.25"]])
        Header(there=False, known=False, names=('0', '1'))
    """
    first = [cell.strip() for cell in rows[0]] if rows else []
    below = [row for row in rows[1:] if any(row) and list(row) != list(rows[0])]
    columns = [[row[i].strip() for row in below if i < len(row) and row[i].strip()] for i in range(len(first))]
    known = any(role_of(cell) and cell not in column for cell, column in zip(first, columns, strict=True))
    sts = len(first) >= len(STS_COLUMNS) and not known and all(NUMBER.fullmatch(first[i]) for i in (3, 4))
    if sts and given is not True:
        return Header(False, False, STS_COLUMNS)
    numbered = tuple(str(i) for i in range(len(first)))
    there = given
    if there is None:
        written = [cell for cell in first if cell] == list(numbered[: len(first) - first.count("")])  # by pandas
        there = known or not any(first) or written or _is_name_row(first, columns)
    return Header(there, known, tuple(first) if there else numbered)


def _is_name_row(first: Sequence[str], columns: Sequence[Sequence[str]]) -> bool:
    return sum(_vote(cell, column) for cell, column in zip(first, columns, strict=True) if cell) >= 0


def _vote(cell: str, below: Sequence[str]) -> int:
    """Above 0 if a cell looks like the name of the cells below it, below 0 if it looks like one of them."""
    words = len(_WORD.findall(cell))
    sentence = words >= 4 or bool(words > 1 and _ENDS.fullmatch(cell))
    if not below:
        return -2 if sentence else 0
    if sum(bool(_LIKE_A_NUMBER.fullmatch(other)) for other in below) >= 0.8 * len(below):
        return -3 if _LIKE_A_NUMBER.fullmatch(cell) else 3
    if cell in below:
        return -2
    usual = median(len(_WORD.findall(other)) for other in below)
    if sentence:
        return -2 if usual >= 3 and words * 4 >= usual else 1
    if words == 3:
        return -1 if usual <= 6 else 0
    return 1 if usual >= 3 else 0
