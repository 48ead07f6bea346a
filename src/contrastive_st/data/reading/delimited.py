"""Tables of delimited text: the header line says which character separates the cells; else the user does."""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from contrastive_st import text_format
from contrastive_st.data.profile import NUMBER, shown
from contrastive_st.data.roles import UNUSED, role_of, suggested_columns
from contrastive_st.errors import InputError, listed

logger = logging.getLogger(__name__)
_CELL = 1 << 30  # characters in a cell at most; the limit of csv, 131,072, is too small for a book
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_RARE = "^~\x01\x1f"  # are asked for
_ONE_COLUMN = "\0"  # a delimiter that no text has
_ABOVE, _SHOWN = 5, 50  # lines in which the header is looked for, and lines from which a question gets its flags
NULL = r"\N"  # null in what \copy of PostgreSQL and SELECT INTO OUTFILE of MySQL write
#: A line of a file whose text has no backslash but those of PostgreSQL's and MySQL's escapes
_ESCAPED = re.compile(r"(?:[^\\]|\\[\\bfnrtvN])*")
_STAY = r"\n, \t or \\ in a cell, as \copy of PostgreSQL writes them, stay as they are; export with (format csv)"
_READ = r"\n, \t and \\ in a cell are escapes, because a cell is \N, as \copy of PostgreSQL writes null"
_CHARACTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
MAYBE_A_TABLE = "the lines have tabs inside: each is read as one text; if the file is a table, name it .tsv"
_SEP = re.compile(r"sep=(.)\r?\n?")  # the first line of a file for Excel
_IN_QUOTES = re.compile(r'"(?:[^"]|"")*"')
_BARE_WORD = re.compile(r"[^\s.!?]{1,40}")
#: The columns of the files of the STS benchmark, which have no header
STS_COLUMNS = ("genre", "file", "year", "id", "sts_score", "sentence1", "sentence2")


class Dialect(NamedTuple):
    """How a table of delimited text is written.

    Attributes:
        delimiter: one character; a null character if each line is one cell.
        names: the columns.
        header: whether a row holds their names.
        quoted: whether quotes around a cell are its mark, or text.
        skipped: lines before the table.
        spaced: whether blanks after a delimiter are not part of the cells.
        loose: whether cells beyond the columns are left out, which the files of QQP need.
        escaped: whether backslashes begin an escape.
        notes: what was detected, for messages.
        first: how many rows are above the first row of the table.
    """

    delimiter: str
    names: list[str]
    header: bool
    quoted: bool = True
    skipped: int = 0
    spaced: bool = False
    loose: bool = False
    escaped: bool = False
    notes: tuple[str, ...] = ()
    first: int = 0

    def cell(self, written: str) -> str | None:
        """What a cell holds; None for null."""
        if written == NULL:
            return None
        if not self.escaped or "\\" not in written:
            return written
        return re.sub(r"\\(.)", lambda match: _CHARACTERS.get(match[1], match[1]), written)


def split_rows_of(lines: Iterable[str], delimiter: str, quoted: bool, spaced: bool = False) -> Iterator[list[str]]:
    """The cells of each row. Strict, because otherwise a quote that is never closed takes in the rest."""
    csv.field_size_limit(_CELL)
    if not quoted:
        return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE, skipinitialspace=spaced)
    return csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=spaced)


def find_dialect(
    lines: Callable[[], Iterator[str]],
    source: str,
    usual: str,
    header: bool | None,
    loose: bool,
    wanted: Sequence[str] = (),
) -> Dialect:
    """Find out how a table is written, from its header line.

    Args:
        lines: gives the lines, from the first, with their ends.
        source: name of the file in messages.
        usual: the delimiter that the name of the file says.
        header: whether the first row holds the names of the columns, if that is known.
        loose: the file is a `.txt`, whose cells may have quotes and which may have cells beyond the header.
        wanted: names of columns that are asked for; a first line with all of them is the header.

    Raises:
        InputError: the header line does not say it; the message shows the flag to give.
    """
    first, notes = list(islice(lines(), _SHOWN)), list[str]()
    asked, header = text_format.asked.delimiter, text_format.asked.header if header is None else header
    header = True if wanted and header is None else header
    if usual == "," and header and wanted:  # a first line with all of them needs no second look
        for delimiter in asked or ",;|":
            cells = next(csv.reader(first[:1], delimiter=delimiter))
            if len(cells) > 1 and set(wanted) <= set(cells) and len(set(cells)) == len(cells) and "" not in cells:
                return Dialect(delimiter, cells, True, first=1)
    named = _SEP.fullmatch(first[0]) if first else None
    asked = asked or (named and named[1])
    skipped = 1 if named else _lines_above(first, asked)
    delimiter = asked or _delimiter_of(first[skipped], source, usual)
    if skipped and not named:
        notes.append(f"{skipped} lines above the names of the columns are skipped")
    escapes, nulls = _escapes_and_nulls(lines()) if delimiter == "\t" else (False, False)
    escaped = escapes and nulls
    quoted = delimiter != "\t" or (not (escaped or loose) and _needs_quotes(lines()))
    try:
        rows = list(split_rows_of(first[skipped:], delimiter, quoted))
    except csv.Error:  # the error names the row when it is read
        rows = [line.rstrip("\r\n").split(delimiter) for line in first[skipped:]]
    spaced = bool(rows) and len(rows[0]) > 1 and all(cell[:1] == " " for cell in rows[0][1:])
    cells = [cell.strip() for cell in rows[0]] if rows else []
    sts = not header and _is_sts(cells)
    if header is None:
        header = False if sts else _is_header(cells)
    if header is None:
        raise _header_question(rows, source)
    if header:
        cells = _named(cells, source)
    else:
        cells = list(STS_COLUMNS) if sts else [str(place) for place in range(len(cells))]
        notes.append(f"no header: columns {'as in the STS benchmark,' if sts else 'are numbered'} {', '.join(cells)}")
    if spaced:
        notes.append("blanks after a delimiter are not part of the cells")
    if delimiter not in (usual, asked, _ONE_COLUMN):
        notes.append(f"cells are separated by {_DELIMITERS[delimiter]}")
    if delimiter == _ONE_COLUMN and any("," in line for line in first):
        notes.append("one column: commas are text, because the first row has none")
    if escapes and not quoted:
        notes.append(_READ if escaped else _STAY)
    above = skipped + header
    return Dialect(delimiter, cells, header, quoted, skipped, spaced, loose or sts, escaped, tuple(notes), above)


def _delimiter_of(line: str, source: str, usual: str) -> str:
    """The delimiter of a header line: the one that gives names of columns, else the only one in it."""
    bare = _IN_QUOTES.sub('""', line.rstrip("\r\n"))
    if "\t" in bare and (usual == "\t" or _is_sts(bare.split("\t"))):
        return "\t"
    there = [one for one in _DELIMITERS if one in bare] or [one for one in _RARE if _text_names(bare.split(one)) > 1]
    known = {one: _text_names(bare.split(one)) for one in there}
    best = [one for one in there if known[one] == max(known.values())]
    if len(best) > 1 or set(best) & set(_RARE):
        named = " or ".join(_DELIMITERS.get(one, repr(one)) for one in best)
        shell = [f"'{one}'" if one.isprintable() else repr(one) for one in sorted(best, key=lambda one: one != usual)]
        flags = ", or ".join(f"--delimiter {one}" for one in shell)
        raise InputError(f"{source}: are its cells separated by {named}? Give {flags}; its first line is {line[:80]!r}")
    return best[0] if best else _ONE_COLUMN


def _text_names(cells: Iterable[str]) -> int:
    """How many cells are names of columns that have a role."""
    return sum(role_of(cell) not in (None, UNUSED) for cell in cells)


def _lines_above(lines: Sequence[str], asked: str | None) -> int:
    """How many lines are above a header: it has two names of columns or more, and they have fewer cells than it."""
    for number, line in enumerate(lines[:_ABOVE]):
        for one in (asked,) if asked else _DELIMITERS:
            cells = line.rstrip("\r\n").split(one)
            if _text_names(cells) > 1:
                filled = [len([cell for cell in above.rstrip("\r\n").split(one) if cell]) for above in lines[:number]]
                return number if all(count < 2 for count in filled) else 0
    return 0


def _is_header(cells: Sequence[str]) -> bool | None:
    """Whether a row holds the names of the columns: it does if its cells are names; None if it is not known."""
    written = [cell for cell in cells if cell]
    if written == [str(place) for place in range(len(written))]:  # by pandas
        return True
    others = [cell for cell in written if role_of(cell) is None]
    names = _text_names(written)
    if names > 1 or (names and all(map(_BARE_WORD.fullmatch, others)) and not any(map(NUMBER.fullmatch, others))):
        return True
    return True if len(written) > 1 and not others else None


def _header_question(rows: Sequence[Sequence[str]], source: str) -> InputError:
    """Ask whether the first row holds names, with the flags for both answers, the likelier one first."""
    cells = [cell.strip() for cell in rows[0]]
    numbered = [str(place) for place in range(len(cells))]
    below = [dict(zip(numbered, row, strict=False)) for row in rows]
    named = [dict(zip(cells, row, strict=False)) for row in rows[1:]]
    names = f"if it holds the names of the columns, give {suggested_columns(named, cells, '--header true')}"
    data = f"if it is a row like the others, give {suggested_columns(below, numbered, '--header false')}"
    text = any(NUMBER.fullmatch(cell) or len(cell.split()) > 3 or cell[-1:] in ".!?" for cell in cells)
    first, second = (data, names) if text else (names, data)
    return InputError(f"{source}: is the first row, {listed(map(shown, cells))}, a header? {first}; {second}")


def _is_sts(cells: Sequence[str]) -> bool:
    """Whether a row is one of the files of the STS benchmark."""
    return len(cells) >= len(STS_COLUMNS) and not _text_names(cells) and all(NUMBER.fullmatch(cells[i]) for i in (3, 4))


def _needs_quotes(lines: Iterable[str]) -> bool:
    """Whether all of a table with tabs is well quoted, and a cell has a doubled quote or the end of a line."""
    needed, widths = False, set()
    try:
        for row in split_rows_of(lines, "\t", True):
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
    return _text_names(cells) > 1 or _is_sts(cells)


def has_tabs(lines: Iterable[str]) -> bool:
    """Whether most lines of a `.txt` file that is read line by line have tabs inside, as the tables of Excel do.

    Example:
        >>> has_tabs(["One dog\\truns.", "A cat.\\tIt sleeps."]), has_tabs(["\\tOne dog runs."])
        (True, False)
    """
    first = list(islice(lines, 50))
    return sum("\t" in line.strip() for line in first) * 2 >= len(first)


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


def _named(names: Sequence[str], source: str) -> list[str]:
    """The names in a header; a blank one beyond the first, as spreadsheets write them, is `unnamed` with its number."""
    if not any(names):
        raise InputError(f"{source}, row 1 is blank; it must hold the names of the columns")
    blank = names.index("") if "" in names else -1
    return distinct([name if name or i == blank else f"unnamed {i}" for i, name in enumerate(names)], source)


def distinct(names: Sequence[str], source: str) -> list[str]:
    """The names of the columns of a table; an `InputError` if two columns have the same name."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{source}: two columns are named {twice!r}; rename one of them")
    return list(names)


def numbered_rows(
    dialect: Dialect, lines: Iterable[str], source: str, repeated: set[int]
) -> Iterator[tuple[int, list[str]]]:
    """The rows below the header with their numbers, counted from 1, and as many cells as there are columns.

    Args:
        dialect: how the table is written.
        lines: its lines.
        source: its name in messages.
        repeated: gets the numbers of rows that repeat the header, as where files were joined; they are left out.

    Raises:
        InputError: a row has more or fewer cells, a quote is not closed, or a cell repeats the name of its column; the
            message names the row.
    """
    names, number, below = dialect.names, 0, list[list[str]]()
    several = dialect.header and len(names) > 1
    asked = text_format.asked.header is not None or not several
    known = {} if asked else {place: name for place, name in enumerate(names) if role_of(name) not in (None, UNUSED)}
    rows = split_rows_of(islice(lines, dialect.skipped, None), dialect.delimiter, dialect.quoted, dialect.spaced)
    try:
        for number, cells in enumerate(rows, 1 + dialect.skipped):
            if number <= dialect.first:
                continue
            if cells and (len(cells) < len(names) or (len(cells) > len(names) and not dialect.loose)):
                more = len(cells) > len(names)
                if more and not any(cell.strip() for cell in cells[len(names) :]):  # as spreadsheets fill up rows
                    cells = cells[: len(names)]
                else:
                    mend = f"quote cells that hold {_DELIMITERS.get(dialect.delimiter, 'the delimiter')}"
                    mend = mend if dialect.quoted else "remove the tabs inside cells"
                    first = "the header" if dialect.header else "the first row"
                    what = f"{len(cells)} cells where {first} has {len(names)}"
                    raise InputError(f"{source}, row {number}: {what}; {mend if more else 'add the missing cells'}")
            if several and cells and cells[0].strip() == names[0] and [cell.strip() for cell in cells] == names:
                if number not in repeated:
                    logger.warning(f"{source}, row {number} repeats the header and is left out")
                repeated.add(number)
                continue
            same = next((name for place, name in known.items() if cells and cells[place].strip() == name), None)
            if same is not None:
                question = _header_question([names, *below], source)
                raise InputError(f"{source}, row {number}: {same!r} is the name of its column too; {question}")
            if len(below) < _SHOWN:
                below.append(cells)
            yield number, cells or [""] * len(names)
    except csv.Error as error:
        mend = "close every quote, and double quotes inside a cell"
        raise InputError(f"{source}, row {number + 1}: {error}; {mend}") from error
