"""Tables of delimited text: the header line says which character separates the cells; else the user does."""

from __future__ import annotations

import contextlib
import csv
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from contrastive_st import text_format
from contrastive_st.data import suggestions
from contrastive_st.data.profile import NUMBER, number_of, shown
from contrastive_st.data.roles import NAMES, has_role, role_of, suggested_columns
from contrastive_st.data.suggestions import converted
from contrastive_st.errors import InputError, listed

if TYPE_CHECKING:
    import _csv

    import pyarrow as pa

logger = logging.getLogger(__name__)
_CELL = 1 << 30  # characters in a cell at most; the limit of csv, 131,072, is too small for a book
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_RARE = "^~:\x01\x1f"  # are asked for
_ONE_COLUMN = "\0"  # a delimiter that no text has
_ABOVE, _SHOWN = 5, 50  # lines in which the header is looked for, and lines from which a question gets its flags
NULL = r"\N"  # null in what \copy of PostgreSQL and SELECT INTO OUTFILE of MySQL write
_CHARACTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OF_COPY = {"\\", "N", *_CHARACTERS}  # what comes after a backslash in what databases write
_AFTER_BACKSLASH = re.compile(r"\\(.|$)", re.DOTALL)
_ESCAPED_QUOTE = re.compile(r'\\("[^",;\t|\r\n])')
_EXCEL = re.compile(r'="(.*)"', re.DOTALL)  # how Excel writes a text that is like a number
MAYBE_A_TABLE = "the lines have tabs inside: each is read as one text; if the file is a table, give --delimiter '\\t'"
_IN_QUOTES = re.compile(r'"(?:[^"]|"")*"')
#: Columns of QQP, SNLI and MRPC, as `.txt`: quotes around their cells are text
_PUBLISHED = {"is_duplicate", "gold_label", "#1 String"}
_IN_SPACES = re.compile(r'"[^" ]+"(?: "[^" ]+")+\s*')  # a header of write.table of R
_BARE_WORD = re.compile(r"[^\s.!?]{1,40}")
#: First lines of files that are not tables of delimited text, what such a file is, and the command that makes one of it
_OTHERS = (
    (r"\{'", "its rows are objects of Python", suggestions.PYTHON_AS_JSON, ".jsonl"),
    (r'\{"|[\[{]\s*\n|\[["\[{].*[\]},]\s*\n', "its rows are objects or lists of JSON", "cat", ".json"),
    (r"\*{5,} 1\. row|-\[ RECORD 1", "it has a line for each cell; use psql --csv or mysql --batch", "", ""),
    (
        r"(.*\n){0,2}(?=.*[-=─═]{3}.*[^-=─═\n].*[-=─═]{3})[-+=|:\s─-╿]+\n",
        "it is drawn",
        suggestions.DRAWN_AS_TABS,
        ".tsv",
    ),
)
#: A cell of a row below the names: what Qualtrics or SurveyMonkey writes there, a type, or nothing
_BELOW_NAMES = re.compile(
    r'\{"ImportId".*|(open-ended )?response|#?(string|str|text|(n?var)?char|character|object|factor|category|'
    r"(big)?int(eger|32|64)?|float(32|64)?|double|real|num(ber|eric)|decimal|bool(ean)?|date(time)?|timestamp)"
    r"( ?\([\d, ]+\))?|", re.IGNORECASE | re.DOTALL
)  # fmt: skip
_COUNT = re.compile(r"\(?\d+ rows?( affected| selected| in set.*)?\.?\)?")
_AGGREGATE = re.compile(r"((grand|sub)[- ]?)?total|sum|average|mean|count", re.IGNORECASE)
_BLOCK = 1 << 17  # larger ones leave the cache of the processor
_QUOTE, _RETURN, _NEWLINE, _BACKSLASH = b'"\r\n\\'
#: The columns of the files of the STS benchmark, which have no header
STS_COLUMNS = ("genre", "file", "year", "id", "sts_score", "sentence1", "sentence2")

Lines = Callable[[], Iterator[str]]  # gives the lines of a file, from the first, with their ends


class Dialect(NamedTuple):
    """How a table of delimited text is written.

    Attributes:
        delimiter: one character; a null character if each line is one cell.
        names: the columns.
        header: whether a row holds their names.
        quote: the mark around cells; blank if quotes are text.
        spaced: whether blanks after a delimiter are not part of the cells.
        loose: whether cells beyond the columns are left out, which the files of QQP need.
        escapes: what a backslash is an escape before: `any` mark, `quotes`, what databases escape (`copy`), or nothing;
            None if that is asked about.
        notes: what was detected, for messages.
        checked: whether a row that is like a header, or like what programs write around a table, is refused.
    """

    delimiter: str
    names: list[str]
    header: bool
    quote: str = '"'
    spaced: bool = False
    loose: bool = False
    escapes: str | None = None
    notes: tuple[str, ...] = ()
    checked: bool = True

    def rows(self, lines: Iterable[str]) -> _csv.Reader:
        """The cells of each row. Strict, because otherwise a quote that is never closed takes in the rest."""
        csv.field_size_limit(_CELL)
        # the reader drops each backslash that is not doubled; `cell` reads those of databases, apart from marks
        of_copy = rf'\\\\|\\(?![{re.escape(self.delimiter)}"\r\n])'
        if text := {"quotes": r'\\(?!")', "copy": of_copy}.get(self.escapes or ""):
            lines = (re.sub(text, lambda match: 2 * match[0], line) for line in lines)
        return csv.reader(
            lines, delimiter=self.delimiter, quotechar=self.quote or None, strict=bool(self.quote),
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE, skipinitialspace=self.spaced,
            escapechar="\\" if self.escapes else None,
        )  # fmt: skip

    def cell(self, written: str) -> str | None:
        """What a cell holds; None for null."""
        if written == NULL:
            return None
        if written[:2] == '="' and (text := _EXCEL.fullmatch(written)):
            return text[1].replace('""', '"')
        if self.escapes != "copy" or "\\" not in written:
            return written
        return re.sub(r"\\(.)", lambda match: _CHARACTERS.get(match[1], match[1]), written)


def find_dialect(lines: Lines, source: str, usual: str, txt: bool, requested: Sequence[str] = ()) -> Dialect:
    """Find out how a table is written, from its header line.

    Args:
        lines: gives the lines, from the first, with their ends.
        source: name of the file in messages.
        usual: the delimiter that the name of the file says.
        txt: the file is a `.txt`, as published sets are.
        requested: names of columns that are asked for; a first line with all of them is the header.

    Raises:
        InputError: the header line does not say it; the message shows the flag to give.
    """
    first, asked = list(islice(lines(), _SHOWN)), text_format.asked
    if not first:  # of a compressed file
        raise InputError(f"{source}: the file is empty; it needs at least one sentence")
    if "\r" in first[0].rstrip("\r\n"):
        what = "its rows end with a carriage return, and cells have other line ends inside"
        raise InputError(f"{source}: {what}; {converted(suggestions.CR_AS_LF, source)}")
    escapes = ("any" if asked.escapes else "") if isinstance(asked.escapes, bool) else asked.escapes
    dialect = Dialect(",", [], True, escapes=escapes, checked=asked.header is not True)
    if usual == "," and requested and asked.header is not False and not escapes:
        csv.field_size_limit(_CELL)
        for delimiter in asked.delimiter or ",;|":
            rows = list[list[str]]()
            with contextlib.suppress(csv.Error):  # the error names the row when it is read
                rows += islice(csv.reader(first, delimiter=delimiter), 3)
            names, *below = rows or [[]]
            alike = len(set(names)) == len(names) > 1 and "" not in names and {*map(len, below)} <= {len(names)}
            aside = dialect.checked and any(is_aside(row, names) for row in below)
            if alike and set(requested) <= set(names) and not aside:
                return dialect._replace(delimiter=delimiter, names=names)
    if asked.header is None:
        _ask_above(first, source, requested)
    if not asked.delimiter:
        ask_other(first, source)
    delimiter = asked.delimiter or _delimiter_of(first[0], source, usual)
    cells = first[0].rstrip("\r\n").split(delimiter)
    published = txt and not _PUBLISHED.isdisjoint(cells)
    spaced = len(cells) > 1 and all(cell[:1] == " " for cell in cells[1:])
    around = {cell[0] if len(cell) > 1 and cell[0] == cell[-1] else "" for cell in cells if cell}
    quote = "'" if around == {"'"} and len(cells) > 1 else '"'
    if delimiter == "\t" and around != {quote} and escapes not in ("any", "quotes"):
        asking = lines() if escapes is None and not (published or _is_sts(cells)) else ()
        others = (cell for line in asking if '"' in line for cell in line.rstrip("\r\n").split("\t"))
        in_quotes = next(filter(_IN_QUOTES.fullmatch, others), "")
        if in_quotes and '""' not in in_quotes[1:-1]:
            raise _escapes_question(source, f"quotes are around {shown(in_quotes)}")
        quote = quote if in_quotes else ""
    dialect = dialect._replace(delimiter=delimiter, quote=quote, spaced=spaced, loose=published)
    header = True if requested and asked.header is None else asked.header
    return _with_names(dialect, first, header, source, usual)


def _with_names(dialect: Dialect, first: list[str], header: bool | None, source: str, usual: str) -> Dialect:
    """The dialect with the names of the columns and with notes, from the first lines; None asks for a header there."""
    rows, ends, reader = list[list[str]](), list[int](), dialect.rows(first)
    with contextlib.suppress(csv.Error):  # as above
        for row in reader:
            rows.append([cell.strip() for cell in row])
            ends.append(reader.line_num)
    if not rows:
        cells = first[0].rstrip("\r\n").split(dialect.delimiter)
        rows, ends = [[cell.strip(f" {dialect.quote}") for cell in cells]], [1]
    if len(rows[0]) == 1 and any(_are_names(rows[0][0].split(one)) for one in _DELIMITERS):
        raise InputError(f"{source}: each row is one cell in quotes; {converted(suggestions.WITHOUT_QUOTES, source)}")
    sts = not header and _is_sts(rows[0])
    for index, row in enumerate(rows[1:3] if dialect.checked and header is not False and not sts else [], 1):
        if is_aside(row, rows[0]):
            start = ends[0 if "ImportId" in row[0] else index - 1] + 1  # Qualtrics has two such rows
            raise _aside_question(f"{source}, row {index + 1}", row, (start, ends[index]), source)
    if header is None and (header := False if sts else _is_header(rows[0])) is None:
        raise _header_question(rows, source, ends[0])
    names = list(STS_COLUMNS) if sts else [str(index) for index in range(len(rows[0]))]
    if header:
        names = _names_in(rows[0], source)
    separated = dialect.delimiter not in (usual, text_format.asked.delimiter, _ONE_COLUMN)
    possible = (
        (f"no header: columns {'as in the STS benchmark,' if sts else 'are numbered'} {', '.join(names)}", not header),
        ("blanks after a delimiter are not part of the cells", dialect.spaced),
        (f"cells are separated by {_DELIMITERS.get(dialect.delimiter)}", separated),
        ("one column: commas are text, because the first row has none",
         dialect.delimiter == _ONE_COLUMN and any("," in line for line in first)),
    )  # fmt: skip
    notes = tuple(note for note, holds in possible if holds)
    return dialect._replace(names=names, header=header, loose=dialect.loose or sts, notes=notes)


def ask_other(top: Sequence[str], source: str) -> None:
    """Raise `InputError` if a file with these first lines is not a table, with a command that makes a table of it."""
    text = "".join(top[:3]) + "\n"
    for pattern, what, command, end in _OTHERS:
        if re.match(pattern, text) or (end == ".tsv" and _are_names(re.split(" {2,}", top[0].strip()) if top else [])):
            raise InputError(f"{source}: {what}" + f"; {converted(command, source, end)}" * bool(command))


def _ask_above(lines: Sequence[str], source: str, requested: Sequence[str]) -> None:
    """Raise `InputError` if a line below the first is the header, with the command that leaves out those above."""
    enough = len(requested) or 2
    for number, line in enumerate(lines[:_ABOVE]):
        rows = [[cell.strip(' "') for cell in line.rstrip("\r\n").split(one)] for one in _DELIMITERS]
        if any(sum(cell in requested if requested else has_role(cell) for cell in row) >= enough for row in rows):
            if number:
                command = converted(f"sed 1,{number}d", source)
                raise InputError(f"{source}: line {number + 1} may be the header; {command}, or give --header true")
            return


def _delimiter_of(line: str, source: str, usual: str) -> str:
    """The delimiter of a header line: the one that gives names of columns, else the only one in it."""
    bare = _IN_QUOTES.sub('""', line.rstrip("\r\n"))
    if "\t" in bare and (usual == "\t" or _is_sts(bare.split("\t"))):
        return "\t"
    names = {one: sum(map(has_role, bare.split(one))) for one in (*_DELIMITERS, *_RARE)}
    there = [one for one in _DELIMITERS if one in bare] or [one for one in _RARE if names[one] > 1]
    best = [one for one in there if names[one] == max(map(names.__getitem__, there))]
    best = best or [" "] * bool(_IN_SPACES.fullmatch(line))
    if len(best) > 1 or set(best) & {*_RARE, " "}:
        what = " or ".join(_DELIMITERS.get(one, repr(one)) for one in best)
        shell = [f"'{one}'" if one.isprintable() else repr(one) for one in sorted(best, key=lambda one: one != usual)]
        flags = ", or ".join(f"--delimiter {one}" for one in shell)
        raise InputError(f"{source}: are its cells separated by {what}? Give {flags}; its first line is {line[:80]!r}")
    return best[0] if best else _ONE_COLUMN


def _escapes_question(where: str, what: str) -> InputError:
    """Ask whether marks are text, or are written as by `to_csv(escapechar=...)`, Excel, R, mysql and jq."""
    fix = r"if \n is a line end or \N null, --escapes copy; if backslashes and quotes are text, --escapes false"
    fix = f"if a backslash escapes quotes alone, --escapes quotes; {fix}"
    return InputError(f"{where}: {what}; if it is a mark or an escape, give --escapes true; {fix}")


def _is_header(cells: Sequence[str]) -> bool | None:
    """Whether a row holds the names of the columns: it does if its cells are names; None if it is not known."""
    written = [cell for cell in cells if cell]
    others = [cell for cell in written if role_of(cell) is None]
    names, numbered = sum(map(has_role, written)), written == [str(index) for index in range(len(written))]  # by pandas
    bare = all(map(_BARE_WORD.fullmatch, others)) and not any(map(NUMBER.fullmatch, others))
    return numbered or names > 1 or (names == 1 and bare) or (len(written) > 1 and not others) or None


def _names_in(cells: Sequence[str], source: str) -> list[str]:
    """The names in a header; a blank one beyond the first, and a second of one name, have no role."""
    if not any(cells):
        raise InputError(f"{source}, row 1 is blank; it must hold the names of the columns")
    blank, names = (cells.index("") if "" in cells else -1), list[str]()
    for index, name in enumerate(cells):
        again = f" ({count + 1})" if (count := cells[:index].count(name)) else ""
        names.append(name + again if name or index == blank else f"unnamed {index}")
    return names


def _header_question(rows: Sequence[Sequence[str]], source: str, line: int) -> InputError:
    """Ask whether the first row, which ends in this line, holds names, with the flags for both answers."""
    numbered = [str(index) for index in range(len(rows[0]))]
    named = [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]
    below = [dict(zip(numbered, row, strict=False)) for row in rows]
    names = suggested_columns(named, rows[0], "--header true")
    data = suggested_columns(below, numbered, "--header false")
    answers = f"if it holds the names of the columns, give {names}; if it is a row like the others, give {data}"
    neither = f"if neither, {converted(f'sed 1,{line}d', source)}"
    return InputError(f"{source}: is the first row, {listed(map(shown, rows[0]))}, a header? {answers}; {neither}")


def is_aside(cells: Sequence[str], names: Sequence[str] = ()) -> bool:
    """Whether a row may be what programs write around a table, and no row of it.

    Below the names, that is types, a comment, or the names in other words; at the end, a total or the number of rows.

    Args:
        cells: the row.
        names: the names above it; none for the last row.

    Example:
        >>> names = ["StartDate", "EndDate", "Q1"]
        >>> is_aside(["Start Date", "End Date", "Why?"], names), is_aside(["date", "date", "str"], names)
        (True, True)
        >>> is_aside(["# in May"], names), is_aside(["2026-11-28", "2026-11-29", "A string"], names)
        (True, False)
        >>> is_aside(["(6 rows)"]), is_aside(["Total", "6"]), is_aside(["Total", "why"])
        (True, True, False)
    """
    first, *others = plain = [cell.strip() for cell in cells] or [""]
    if not names:
        numbers = list(filter(None, others))
        return bool((_AGGREGATE if numbers else _COUNT).fullmatch(first)) and None not in map(number_of, numbers)
    if len(names) < 2 or not any(plain):
        return False
    squeezed = ([re.sub(r"[\W_]", "", cell).lower() for cell in row] for row in (plain, names))
    again = sum(cell == name and not cell.isdecimal() and cell != "" for cell, name in zip(*squeezed, strict=False))
    comment = first.startswith("#") and (len(plain) != len(names) or first[1:2] in " #")
    return comment or again > 1 or (len(plain) > 1 and all(map(_BELOW_NAMES.fullmatch, plain)))


def _are_names(cells: Sequence[str]) -> bool:
    """Whether all cells of a row are names of columns, two or more of which have a role."""
    return sum(map(has_role, cells)) > 1 and None not in map(role_of, cells)


def _is_sts(cells: Sequence[str]) -> bool:
    """Whether a row is one of the files of the STS benchmark."""
    numbers = len(cells) >= len(STS_COLUMNS) and all(NUMBER.fullmatch(cells[i]) for i in (3, 4))
    return numbers and not any(map(has_role, cells))


def is_table(lines: Lines, source: str) -> bool:
    """Whether a `.txt` file with these lines is a table: as SNLI, QQP and the STS benchmark are published.

    Raises:
        InputError: it is a table of another kind.

    Example:
        >>> tops = ("sentence1\\tsentence2\\tlabel", "A dog\\truns.", "query;answer")
        >>> [is_table(lambda: iter([top]), "a.txt") for top in tops]
        [True, False, True]
    """
    top = list(islice(lines(), 3))
    ask_other(top, source)
    line = "".join(top[:1]).rstrip("\r\n")
    split = {one: [cell.strip('"') for cell in line.split(one)] for one in _DELIMITERS}
    names = sum(map(has_role, split["\t"])) > 1 or any(map(_are_names, split.values()))
    return names or _is_sts(split["\t"]) or bool(_IN_SPACES.fullmatch(line))


def has_tabs(lines: Iterable[str]) -> bool:
    """Whether most lines of a `.txt` file that is read line by line have tabs inside, as the tables of Excel do.

    Example:
        >>> has_tabs(["One dog\\truns.", "A cat.\\tIt sleeps."]), has_tabs(["\\tOne dog runs."])
        (True, False)
    """
    first = list(islice(lines, 50))
    return sum("\t" in line.strip() for line in first) * 2 >= len(first)


def distinct(names: Sequence[str], source: str) -> list[str]:
    """The names of the columns of a table; an `InputError` if two columns have the same name."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{source}: two columns are named {twice!r}; rename one of them")
    return list(names)


def numbered_rows(dialect: Dialect, lines: Iterable[str], source: str) -> Iterator[tuple[int, list[str]]]:
    """The rows below the header with their numbers, counted from 1, and as many cells as there are columns.

    Args:
        dialect: how the table is written.
        lines: its lines.
        source: its name in messages.

    Raises:
        InputError: a row has more or fewer cells, a quote is not closed, or it is not clear whether a row is of the
            table or a backslash is an escape; the message names the row.
    """
    names, escapes, number, cells, after = dialect.names, dialect.escapes, 0, list[str](), set[str]()
    checked = dialect.header and dialect.checked
    several = checked and len(names) > 1
    with_role = [name if several and has_role(name) else None for name in names]

    def noted() -> Iterator[str]:
        for line in lines:
            if "\\" in line and escapes in (None, "any"):
                after.update(_AFTER_BACKSLASH.findall(line.rstrip("\r\n")))
                others = after - {dialect.delimiter, *"\"'\\", ""} if escapes else _ESCAPED_QUOTE.findall(line)
                if others:
                    raise _escapes_question(f"{source}, row {number + 1}", f"a backslash stands before {min(others)!r}")
            yield line

    reader, end = dialect.rows(noted()), 0
    try:
        for number, cells in enumerate(reader, 1):
            start, end = end + 1, reader.line_num
            if number <= dialect.header:
                continue
            where = f"{source}, row {number}"
            again = cells == names or any(cell.strip() == name for cell, name in zip(cells, with_role, strict=False))
            if several and (again or (len(NAMES.intersection(map(str.lower, cells))) > 1 and _are_names(cells))):
                raise _aside_question(where, cells, (start, end), source)
            if cells and len(cells) != len(names):
                first = number == dialect.header + 1  # with a cell for its name, as R writes it, or all have one more
                spare = dialect.loose and not (first and dialect.header)
                if len(cells) < len(names) or (not spare and any(map(str.strip, cells[len(names) :]))):
                    raise InputError(f"{where}: {_wrong_count(cells, dialect, source, first, (start, end))}")
                cells = cells[: len(names)]  # spreadsheets fill up rows
            yield number, cells or [""] * len(names)
    except csv.Error as error:
        fix = "close every quote, and double quotes inside a cell"
        fix += ", or if quotes are text, give --escapes false" * (dialect.delimiter == "\t")
        fix = converted(suggestions.CR_AS_BLANK, source) if "new-line" in str(error) else fix
        raise InputError(f"{source}, row {number + 1}: {error}; {fix}") from error
    if checked and number > 1 and is_aside(cells):
        raise _aside_question(f"{source}, row {number}", cells, (start, end), source)
    # who escapes line ends writes no row on two lines
    dumped = after <= _OF_COPY and after & set("nrt\\" if dialect.delimiter == "\t" else "nrt")
    if dumped and end == number and escapes is None:
        raise _escapes_question(source, f"a backslash stands before {min(dumped)!r}")


def _aside_question(where: str, cells: Sequence[str], lines: tuple[int, int], source: str) -> InputError:
    """Ask whether a row, which is on these lines, is of the table."""
    what = f"{where}: {listed(map(shown, cells))} may not be a row of the table"
    fix = "if it is a row like the others, give --header true, or --header false if there is no header"
    return InputError(f"{what}; {converted('sed {},{}d'.format(*lines), source)}; {fix}")


def _wrong_count(cells: Sequence[str], dialect: Dialect, source: str, first: bool, lines: tuple[int, int]) -> str:
    """What is wrong with a row, the `first` or another, that has more or fewer cells than there are columns."""
    named = _DELIMITERS.get(dialect.delimiter, "the delimiter")
    fix = "add the missing cells" if len(cells) < len(dialect.names) else f"quote cells that hold {named}"
    if not dialect.escapes and (not dialect.quote or any(cell.endswith("\\") for cell in cells)):
        fix += f"; if quotes or backslashes mark {named} and line ends inside cells, give --escapes true"
        fix += r", or if \N is null, --escapes copy"
    if first and len(cells) == len(dialect.names) + 1:  # as R writes row names
        name = f"{dialect.quote}id{dialect.quote}{dialect.delimiter}".replace("\t", "\\t")
        command = f"sed '1s/^/{name}/'"
        fix += f", or if the first cells are names of the rows, {converted(command, source)}"
    what = "the header" if dialect.header else "the first row"
    without = converted("sed {},{}d".format(*lines), source)
    return f"{len(cells)} cells where {what} has {len(dialect.names)}; {fix}, or if it is not a row of it, {without}"


# --- Columns that Arrow reads at once, if the quotes are sound.


def columns_of_csv(path: Path, dialect: Dialect, held: dict[str, pa.Table], names: Sequence[str]) -> pa.Table | None:
    """Some columns of a table of UTF-8, as text; None if it must be read row by row.

    That is so if Arrow reads it in another way, or leaves out what is wrong with it: quotes that are not sound, a row
    of another length, a cell with the name of its column, as in a header that is repeated.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv

    if "" in held and set(names) <= set(held[""].column_names):
        return held[""].select(list(names))
    otherwise = dialect.escapes or dialect.spaced or dialect.loose
    if otherwise or dialect.quote == "'" or dialect.delimiter not in ",;|\t" or "\n" in "".join(dialect.names):
        return None
    options = pyarrow.csv.ReadOptions(column_names=dialect.names, skip_rows=int(dialect.header))
    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), include_columns=names, null_values=[NULL],
        strings_can_be_null=True,
    )  # fmt: skip
    with ThreadPoolExecutor(1) as pool:
        counting = pool.submit(_quotes_and_lines, path, ord(dialect.delimiter), bool(dialect.quote))
        for line_ends in (False, True):  # without them in cells it is twice as fast
            parse = pyarrow.csv.ParseOptions(
                delimiter=dialect.delimiter, quote_char=dialect.quote or False, ignore_empty_lines=False,
                newlines_in_values=line_ends,
            )  # fmt: skip
            table = None
            with contextlib.suppress(pa.ArrowInvalid):
                table = pyarrow.csv.read_csv(path, options, parse, convert)
            if (counted := counting.result()) is None:
                return None
            quotes, lines, slashes = counted
            each_line = table is not None and len(table) + dialect.header == lines
            if each_line or not quotes:
                break
    if table is None or not (each_line or quotes):
        return None
    last = table.slice(max(len(table) - 1, 0)).to_pylist()
    if any(is_aside([cell or "" for cell in row.values()]) for row in last):
        return None
    if dialect.header and len(dialect.names) > 1:  # a part of a header goes the slow way
        short = table.column(0).filter(pc.less(pc.binary_length(table.column(0)), 25))
        named = pc.is_in(pc.utf8_lower(pc.utf8_trim_whitespace(short)), pa.array(NAMES))
        if pc.any(named).as_py() or any(pc.any(pc.equal(table[name], name)).as_py() for name in names):
            return None
    if any(pc.any(pc.starts_with(column, "\ufeff")).as_py() for column in table.columns):  # of files that were joined
        return None
    odd = r'^="|\\[nrt"]' if quotes or slashes else ""  # a text as Excel writes it, an escape
    odd = odd if dialect.quote else r'^="|\\[nrt"\\]'
    if odd and any(pc.any(pc.match_substring_regex(column, odd)).as_py() for column in table.columns):
        return None
    held[""] = table
    return table


def _quotes_and_lines(path: Path, delimiter: int, quoted: bool) -> tuple[int, int, bool] | None:
    """How many quotes and lines a file has, and whether backslashes; None if quotes are not sound, or for a CR alone.

    The quotes of a sound table take turns: one that opens a cell is after a delimiter or a line, one that closes it is
    before one; a doubled quote closes and opens again.
    """
    before, after = np.zeros(256, bool), np.zeros(256, bool)
    before[[delimiter, _NEWLINE, _QUOTE]] = after[[delimiter, _NEWLINE, _RETURN, _QUOTE]] = True
    content = np.memmap(path, np.uint8, "r")
    last = len(content) - 1
    count, lines, slashes = 0, int(content[last] != _NEWLINE), False
    for start in range(0, len(content), _BLOCK):
        block = content[start : start + _BLOCK]
        lines += int(np.count_nonzero(block == _NEWLINE))
        slashes = slashes or bool((block == _BACKSLASH).any())
        returns = np.flatnonzero(block == _RETURN) + start
        if (content[np.minimum(returns + 1, last)] != _NEWLINE).any():
            return None
        if quoted:
            places = np.flatnonzero(block == _QUOTE) + start
            opening, closing = places[count % 2 :: 2], places[1 - count % 2 :: 2]
            # beyond both ends of the file, a quote is compared with itself, which may be there
            if not before[content[np.maximum(opening - 1, 0)]].all():
                return None
            if not after[content[np.minimum(closing + 1, last)]].all():
                return None
            count += len(places)
    return None if count % 2 or lines == 1 else (count, lines, slashes)
