"""Tables of delimited text: which character separates the cells, and whether quotes and a header are used."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from contrastive_st.data.reading.header import COMPARED, STS_COLUMNS, find_header
from contrastive_st.data.roles import UNUSED, role_of
from contrastive_st.errors import InputError

_CELL = 1 << 30  # characters in a cell at most; the limit of csv, 131,072, is too small for a book
DELIMITERS = ",;\t|^~\x01\x1f"
_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_SAMPLE = 1 << 20  # characters of the first rows
NULL = r"\N"  # null in what \copy of PostgreSQL and SELECT INTO OUTFILE of MySQL write
#: A line of a file whose text has no backslash but those of PostgreSQL's and MySQL's escapes
_ESCAPED = re.compile(r"(?:[^\\]|\\[\\bfnrtvN])*")
_STAY = r"\n, \t or \\ in a cell, as \copy of PostgreSQL writes them, stay as they are; export with (format csv)"
_READ = r"\n, \t and \\ in a cell are escapes, because a cell is \N, as \copy of PostgreSQL writes null"
_CHARACTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
MAYBE_A_TABLE = "the lines have tabs inside: each is read as one text; if the file is a table, name it .tsv"
_SEP = re.compile(r"sep=(.)\r?\n?")  # the first line of a file for Excel


class Dialect(NamedTuple):
    """How the cells of a table are separated.

    Attributes:
        delimiter: one character; a null character if each line is one cell.
        quoted: whether quotes around a cell are its mark, or text.
        skipped: lines before the table.
        spaced: whether a blank after the delimiter belongs to it.
    """

    delimiter: str
    quoted: bool = True
    skipped: int = 0
    spaced: bool = False

    def rows(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """The cells of each row. Strict, because otherwise a quote that is never closed takes in the rest."""
        lines = islice(lines, self.skipped, None)
        csv.field_size_limit(_CELL)
        if self.quoted:
            return csv.reader(lines, delimiter=self.delimiter, strict=True, skipinitialspace=self.spaced)
        return csv.reader(lines, delimiter=self.delimiter, quoting=csv.QUOTE_NONE, skipinitialspace=self.spaced)


def find_dialect(lines: Sequence[str], usual: str) -> Dialect:
    r"""How the cells of a table are separated, from its first lines.

    The delimiter is the one by which most rows have as many cells as the first, which are two or more; then the one
    that gives more known names of columns; then the usual one. Quotes are marks in a table that is separated by tabs
    only if some cell needs them, because they are text in most of these.

    Args:
        lines: the first lines, with their ends.
        usual: the delimiter that the name of the file says.

    Example:
        >>> find_dialect(["a;b\n", "1,5;2,0\n"], ",").delimiter
        ';'
        >>> find_dialect(["text\n", "Well, so.\n"], ",").delimiter
        '\x00'
    """
    if lines and (named := _SEP.fullmatch(lines[0])):
        return Dialect(named[1], True, 1)
    known = [max(sum(role_of(cell) not in (None, UNUSED) for cell in line.split(one)) for one in DELIMITERS)
             for line in lines[:5]]  # fmt: skip
    above = next((number for number, names in enumerate(known) if names > 1), 0)
    if above and not any(known[:above]):
        return find_dialect(lines[above:], usual)._replace(skipped=above)
    best = max((usual, *DELIMITERS.replace(usual, "")), key=lambda one: _fit(lines, one, usual))
    if not _fit(lines, best, usual)[1]:  # one column
        quoted = any(line.startswith('"') for line in lines)
        single = bool(lines) and len(next(csv.reader(lines[:1]))) == 1 and not quoted and usual == ","
        return Dialect("\0" if single else usual, usual != "\t" or quoted)
    return Dialect(best, best != "\t" or _needs_quotes(lines))


def _fit(lines: Sequence[str], delimiter: str, usual: str) -> tuple[bool, float, int, bool]:
    quoted = delimiter != "\t" or _needs_quotes(lines)
    try:
        rows = [row for row in Dialect(delimiter, quoted).rows(lines) if row]
    except csv.Error:
        rows = [line.split(delimiter) for line in lines]
    if not rows or len(rows[0]) < 2:
        return False, 0.0, 0, delimiter == usual
    width = len(rows[0])
    known = sum(role_of(cell) not in (None, UNUSED) for cell in rows[0])
    known = 9 if delimiter == "\t" and find_header(rows[:1]).names == STS_COLUMNS else known
    same = sum(len(row) == width for row in rows) / len(rows)
    return known > 1, same, known, delimiter == usual


def _needs_quotes(lines: Iterable[str]) -> bool:
    """Whether all of a table with tabs is well quoted, and a cell has a doubled quote or the end of a line."""
    needed, widths = False, set()
    try:
        for row in Dialect("\t").rows(lines):
            widths.add(len(row) or None)
            needed = needed or any('"' in cell or "\n" in cell for cell in row)
    except csv.Error:
        return False
    return needed and len(widths - {None}) == 1


def is_table(line: str) -> bool:
    """Whether a `.txt` file with this first line is a table: as SNLI, QQP and the STS benchmark are published.

    Example:
        >>> is_table("sentence1\\tsentence2\\tgold_label"), is_table("One dog\\truns.")
        (True, False)
    """
    cells = line.split("\t")
    return sum(role_of(cell) not in (None, UNUSED) for cell in cells) > 1 or find_header([cells]).names == STS_COLUMNS


def looks_like_table(lines: Iterable[str]) -> bool:
    """Whether most lines of a `.txt` file that is read line by line have tabs inside, as the tables of Excel do.

    Example:
        >>> looks_like_table(["One dog\\truns.", "A cat.\\tIt sleeps."]), looks_like_table(["\\tOne dog runs."])
        (True, False)
    """
    first = list(islice(lines, COMPARED))
    return sum("\t" in line.strip() for line in first) * 2 >= len(first)


class Layout(NamedTuple):
    """The columns of a table of delimited text, and how to read its rows."""

    names: list[str]
    header: bool
    loose: bool
    dialect: Dialect
    notes: tuple[str, ...]
    escaped: bool

    def cell(self, written: str) -> str | None:
        """What a cell holds; None for null."""
        if written == NULL:
            return None
        if not self.escaped or "\\" not in written:
            return written
        return re.sub(r"\\(.)", lambda match: _CHARACTERS.get(match[1], match[1]), written)


def find_layout(
    lines: Callable[[], Iterator[str]], source: str, usual: str, header: bool | None, loose: bool
) -> Layout:
    """Find out how a table is laid out.

    Args:
        lines: gives the lines, from the first.
        source: name of the file in messages.
        usual: the delimiter that the name of the file says.
        header: whether the first row holds the names of the columns; by default `find_header` says it.
        loose: ignore cells beyond those of the first row, which the files of QQP need; else they are an error.
    """
    first: list[str] = []
    for line in islice(lines(), 1 + 2 * COMPARED):
        first.append(line)
        if sum(map(len, first)) > _SAMPLE:
            break
    dialect = find_dialect(first, usual)
    marked = dialect.delimiter == "\t" and any("\\" in line for line in first)
    escapes, nulls = _escapes_and_nulls(lines()) if marked else (False, False)
    escaped = escapes and nulls
    if dialect.delimiter == "\t" and dialect.quoted:
        dialect = dialect._replace(quoted=not (escaped or loose) and _needs_quotes(lines()))
    rows = _first_rows(dialect, first)
    if rows and len(rows[0]) > 1 and all(cell[:1] == " " for cell in rows[0][1:]):
        dialect = dialect._replace(spaced=True)
        rows = _first_rows(dialect, first)
    result = find_header(rows, header)
    names = _named(result.names, source) if result.there else list(result.names)
    notes = [result.note] if result.note else []
    if dialect.skipped and not _SEP.fullmatch(first[0]):
        notes.append(f"{dialect.skipped} lines above the names of the columns are skipped")
    if dialect.spaced:
        notes.append("blanks after a delimiter are not part of the cells")
    if dialect.delimiter not in (usual, "\0"):
        notes.append(f"cells are separated by {_NAMES.get(dialect.delimiter, repr(dialect.delimiter))}")
    elif dialect.delimiter == "\0" and any("," in line for line in first):
        notes.append("one column: commas are text, because the first row has none")
    if escapes and not dialect.quoted:
        notes.append(_READ if escaped else _STAY)
    return Layout(names, result.there, loose or result.names == STS_COLUMNS, dialect, tuple(notes), escaped)


def _escapes_and_nulls(lines: Iterable[str]) -> tuple[bool, bool]:
    """Whether cells have backslashes that all begin an escape, and whether a cell is null; neither if some do not."""
    escapes = nulls = False
    for line in lines:
        if "\\" in line:
            if not _ESCAPED.fullmatch(line):
                return False, False
            escapes = escapes or "\\" in line.replace(NULL, "")
            nulls = nulls or NULL in line.rstrip("\r\n").split("\t")
    return escapes, nulls


def _first_rows(dialect: Dialect, lines: Sequence[str]) -> list[list[str]]:
    try:
        return list(islice(dialect.rows(iter(lines)), 1 + COMPARED))
    except csv.Error:  # the error names the row when it is read
        return [line.rstrip("\r\n").split(dialect.delimiter) for line in lines[dialect.skipped :]][: 1 + COMPARED]


def _named(cells: Sequence[str], source: str) -> list[str]:
    """The names in a header; a blank one beyond the first, as spreadsheets write them, is the column's number."""
    names = [cell.strip() for cell in cells]
    if not any(names):
        raise InputError(f"{source}, row 1 is blank; it must hold the names of the columns")
    blank = names.index("") if "" in names else -1
    names = [name if name or i == blank else str(i) for i, name in enumerate(names)]
    return distinct(names, source)


def distinct(names: Sequence[str], source: str) -> list[str]:
    """The names of the columns of a table; an `InputError` if two columns have the same name."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{source}: two columns are named {twice!r}; rename one of them")
    return list(names)


def numbered_rows(layout: Layout, lines: Iterable[str], source: str) -> Iterator[tuple[int, list[str]]]:
    """The rows below the header with their numbers, counted from 1, and as many cells as there are columns.

    Raises:
        InputError: a row has more or fewer cells, or a quote is not closed; the message names the row.
    """
    names, number = layout.names, 0
    first = "the header" if layout.header else "the first row"
    try:
        for number, cells in enumerate(layout.dialect.rows(lines), 1 + layout.dialect.skipped):
            if layout.header and number == 1 + layout.dialect.skipped:
                continue
            if cells and (len(cells) < len(names) or (len(cells) > len(names) and not layout.loose)):
                more = len(cells) > len(names)
                if more and not any(cell.strip() for cell in cells[len(names) :]):  # as spreadsheets fill up rows
                    cells = cells[: len(names)]
                else:
                    mend = f"quote cells that hold {_NAMES.get(layout.dialect.delimiter, 'the delimiter')}"
                    mend = mend if layout.dialect.quoted else "remove the tabs inside cells"
                    what = f"{len(cells)} cells where {first} has {len(names)}"
                    raise InputError(f"{source}, row {number}: {what}; {mend if more else 'add the missing cells'}")
            yield number, cells or [""] * len(names)
    except csv.Error as error:
        mend = "close every quote, and double quotes inside a cell"
        raise InputError(f"{source}, row {number + 1}: {error}; {mend}") from error
