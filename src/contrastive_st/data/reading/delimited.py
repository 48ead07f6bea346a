"""Tables of delimited text: the header line says which character separates the cells; else the user does."""

from __future__ import annotations

import contextlib
import csv
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from contrastive_st import text_format
from contrastive_st.data.profile import NUMBER, shown
from contrastive_st.data.roles import NAMES, has_role, role_of, suggested_columns
from contrastive_st.data.suggestions import BLANKS_AS_TABS, PYTHON_AS_JSON, WITHOUT_QUOTES, converted
from contrastive_st.errors import InputError, listed

if TYPE_CHECKING:
    import _csv

logger = logging.getLogger(__name__)
_CELL = 1 << 30  # characters in a cell at most; the limit of csv, 131,072, is too small for a book
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_RARE = "^~:\x01\x1f│"  # are asked for
_ONE_COLUMN = "\0"  # a delimiter that no text has
_ABOVE, _SHOWN = 5, 50  # lines in which the header is looked for, and lines from which a question gets its flags
NULL = r"\N"  # null in what \copy of PostgreSQL and SELECT INTO OUTFILE of MySQL write
_READ = r"\n, \t and \\ in a cell are escapes, because a cell is \N, as \copy of PostgreSQL writes null"
_CHARACTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OF_COPY = {"\\", "N", *_CHARACTERS}  # what comes after a backslash in what databases write
_OF_DUMPS = {"\\", "N", "n", "r", "t"}  # the same, where cells are not separated by tabs
_EXCEL = re.compile(r'="(.*)"', re.DOTALL)  # how Excel writes a text that is like a number
_AFTER_BACKSLASH = re.compile(r"\\(.|$)", re.DOTALL)
_QUOTE_IN_TEXT = re.compile(r'(?<=[^\t\\])"(?=[^\t\r\n])')
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+\s*")
MAYBE_A_TABLE = "the lines have tabs inside: each is read as one text; if the file is a table, give --delimiter '\\t'"
_SEP = re.compile(r"sep=(.)\r?\n?")  # the first line of a file for Excel
_IN_QUOTES = re.compile(r'"(?:[^"]|"")*"')
_IN_SPACES = re.compile(r'"[^" ]+"(?: "[^" ]+")+\s*')  # a header of write.table of R
_BARE_WORD = re.compile(r"[^\s.!?]{1,40}")
#: A cell of a header's second or third row: of Qualtrics, of SurveyMonkey
_SUBHEADER = re.compile(r'\s*(?:\{"ImportId".*|Open-Ended Response)\s*', re.DOTALL)
_TYPE = re.compile(
    r"#?(string|str|text|(n?var)?char|character|object|factor|category|(big)?int(eger|32|64)?|float(32|64)?|double|"
    r"real|num(ber|eric)|decimal|bool(ean)?|date(time)?|timestamp)( ?\([\d, ]+\))?", re.IGNORECASE
)  # fmt: skip
_FOOTER = re.compile(r"\(?(\d+) rows?\b.*")  # of psql, mysql, Oracle and SQL Server
_VERTICAL = re.compile(r"\*{5,} 1\. row \*{5,}|-\[ RECORD 1 \]-*")  # of mysql and psql: a line for each cell
_RUNS = re.compile(r"[-=─═]{3,}")
_RULE = re.compile(r"[-+=|:\s─-╿]*(?:---|===|──|══)[-+=|:\s─-╿]*")  # a line of a drawn table
AGGREGATE = re.compile(r"((grand|sub)[- ]?)?total|sum|average|mean|count", re.IGNORECASE)
#: The columns of the files of the STS benchmark, which have no header
STS_COLUMNS = ("genre", "file", "year", "id", "sts_score", "sentence1", "sentence2")


class Dialect(NamedTuple):
    """How a table of delimited text is written.

    Attributes:
        delimiter: one character; a null character if each line is one cell.
        names: the columns.
        header: how many rows hold their names.
        quote: the mark around cells; blank if quotes are text.
        skipped: lines before the table.
        spaced: whether blanks after a delimiter are not part of the cells.
        loose: whether cells beyond the columns are left out, which the files of QQP need.
        escapes: what a backslash is an escape before: `any` character, `quotes`, those of a database (`copy`), or none.
        decimal_commas: whether a comma in a number is its decimal mark.
        notes: what was detected, for messages.
        first: how many rows are above the first row of the table.
    """

    delimiter: str
    names: list[str]
    header: int
    quote: str = '"'
    skipped: int = 0
    spaced: bool = False
    loose: bool = False
    escapes: str = ""
    decimal_commas: bool = False
    notes: tuple[str, ...] = ()
    first: int = 1

    def rows(self, lines: Iterable[str]) -> _csv.Reader:
        """The cells of each row. Strict, because otherwise a quote that is never closed takes in the rest."""
        csv.field_size_limit(_CELL)
        if self.escapes == "quotes":
            lines = (line.replace('\\"', '""') for line in lines)
        return csv.reader(
            lines, delimiter=self.delimiter, quotechar=self.quote or None, strict=bool(self.quote),
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE, skipinitialspace=self.spaced,
            escapechar="\\" if self.escapes == "any" else None,
        )  # fmt: skip

    def cell(self, written: str) -> str | None:
        """What a cell holds; None for null."""
        if written == NULL:
            return None
        if written[:2] == '="' and (text := _EXCEL.fullmatch(written)):
            return text[1].replace('""', '"')
        if self.decimal_commas and _DECIMAL_COMMA.fullmatch(written):
            return written.replace(",", ".")
        if self.escapes != "copy" or "\\" not in written:
            return written
        return re.sub(r"\\(.)", lambda match: _CHARACTERS.get(match[1], match[1]), written)


def find_dialect(
    lines: Callable[[], Iterator[str]],
    source: str,
    usual: str,
    header: int | None,
    loose: bool,
    wanted: Sequence[str] = (),
) -> Dialect:
    """Find out how a table is written, from its header line.

    Args:
        lines: gives the lines, from the first, with their ends.
        source: name of the file in messages.
        usual: the delimiter that the name of the file says.
        header: how many rows hold the names of the columns, if that is known.
        loose: the file is a `.txt`, whose cells may have quotes and which may have cells beyond the header.
        wanted: names of columns that are asked for; a first line with all of them is the header.

    Raises:
        InputError: the header line does not say it; the message shows the flag to give.
    """
    first, notes, asked = list(islice(lines(), _SHOWN)), list[str](), text_format.asked
    header = asked.header if header is None else header
    header = True if wanted and header is None else header
    dialect = Dialect(_ONE_COLUMN, [], 1, decimal_commas=asked.decimal == "comma")
    if usual == "," and header == 1 and wanted and not asked.escapes:  # a first line with all needs no second look
        for delimiter in asked.delimiter or ",;|":
            cells, *below = csv.reader(first[:2], delimiter=delimiter)
            alike = (
                len(set(cells)) == len(cells) > 1 and "" not in cells and all(len(row) == len(cells) for row in below)
            )
            if alike and set(wanted) <= set(cells):
                return dialect._replace(delimiter=delimiter, names=cells)
    named = _SEP.fullmatch(first[0]) if first else None
    told = asked.delimiter or (named and named[1])
    skipped = 1 if named else _lines_above(first, told)
    if skipped and not named:
        notes.append(f"{skipped} lines above the names of the columns are skipped")
    below = "".join(first[skipped + 1 : skipped + 2]).strip()
    columns = len(_RUNS.findall(below)) > 1 and not set(below) - set("-= ")
    columns = columns or ("  " in first[skipped] and _are_names(re.split(" {2,}", first[skipped].strip())))
    if columns and not told:
        raise InputError(f"{source}: blanks separate its columns; {converted(BLANKS_AS_TABS, source, '.tsv')}")
    delimiter = told or _delimiter_of(first[skipped], source, usual)
    cells = first[skipped].rstrip("\r\n").split(delimiter)
    quote, escapes, note = _marks_of(cells, lines, delimiter, loose, source)
    spaced = len(cells) > 1 and all(cell[:1] == " " for cell in cells[1:])
    dialect = dialect._replace(delimiter=delimiter, quote=quote, skipped=skipped, escapes=escapes, spaced=spaced)
    try:
        rows = list(dialect.rows(first[skipped:]))
    except csv.Error:  # the error names the row when it is read
        rows = [line.rstrip("\r\n").split(delimiter) for line in first[skipped:]]
    rows = [[cell.strip() for cell in row] for row in rows if not is_rule(row)] or [[]]
    if len(rows[0]) == 1 and any(_are_names(rows[0][0].split(one)) for one in _DELIMITERS):
        raise InputError(f"{source}: each row is one cell in quotes; {converted(WITHOUT_QUOTES, source)}")
    sts = not header and _is_sts(rows[0])
    if header is None and (header := False if sts else _is_header(rows[0])) is None:
        raise _header_question(rows, source)
    if header:
        cells = max(rows[:header], key=lambda row: sum(map(has_role, row)))
        if not any(cells):
            raise InputError(f"{source}, row 1 is blank; it must hold the names of the columns")
        blank, names = (cells.index("") if "" in cells else -1), list[str]()
        for place, name in enumerate(cells):  # a blank name beyond the first, and a second of one name, have no role
            again = f" ({count + 1})" if (count := cells[:place].count(name)) else ""
            names.append(name + again if name or place == blank else f"unnamed {place}")
        names = distinct(names, source)
        more = [row for row in rows[header:] if len(row) == len(names) + 1]
        counted = any([row[0] for row in more] == [str(n + start) for n in range(len(more))] for start in (0, 1))
        all_more = more and len(more) == sum(map(bool, rows[header:]))
        if all_more and "" not in names and (counted or all(line.startswith('"') for line in first[skipped:])):
            names = ["", *names]
            notes.append("the first cells are row names, which are not used: the header has none for them")
    else:
        names = list(STS_COLUMNS) if sts else [str(place) for place in range(len(rows[0]))]
        notes.append(f"no header: columns {'as in the STS benchmark,' if sts else 'are numbered'} {', '.join(names)}")
    if spaced:
        notes.append("blanks after a delimiter are not part of the cells")
    if delimiter not in (usual, told, _ONE_COLUMN):
        notes.append(f"cells are separated by {_DELIMITERS[delimiter]}")
    if delimiter == _ONE_COLUMN and any("," in line for line in first):
        notes.append("one column: commas are text, because the first row has none")
    notes += [note] * bool(note)
    return dialect._replace(
        names=names, header=int(header), loose=loose or sts, notes=tuple(notes), first=skipped + header
    )


def _lines_above(lines: Sequence[str], asked: str | None) -> int:
    """How many lines are above a header: those that draw a table, or those with fewer cells than two known names."""
    drawn = next((number for number, line in enumerate(lines[:_ABOVE]) if not is_rule([line])), 0)
    for number, line in enumerate(lines[:_ABOVE]):
        for one in (asked,) if asked else (*_DELIMITERS, "│"):
            if sum(map(has_role, line.rstrip("\r\n").split(one))) > 1:
                alone = (len(above.rstrip("\r\n").split(one)) - above.count(one * 2) < 2 for above in lines[:number])
                return number if all(alone) else drawn
    return drawn


def _delimiter_of(line: str, source: str, usual: str) -> str:
    """The delimiter of a header line: the one that gives names of columns, else the only one in it."""
    bare = _IN_QUOTES.sub('""', line.rstrip("\r\n"))
    if "\t" in bare and (usual == "\t" or _is_sts(bare.split("\t"))):
        return "\t"
    names = {one: sum(map(has_role, bare.split(one))) for one in (*_DELIMITERS, *_RARE, " ")}
    there = [one for one in _DELIMITERS if one in bare] or [one for one in _RARE if names[one] > 1]
    there = there or [" "] * bool(_IN_SPACES.fullmatch(line))
    best = [one for one in there if names[one] == max(map(names.__getitem__, there))]
    if len(best) > 1 or set(best) & {*_RARE, " "}:
        what = " or ".join(_DELIMITERS.get(one, repr(one)) for one in best)
        shell = [f"'{one}'" if one.isprintable() else repr(one) for one in sorted(best, key=lambda one: one != usual)]
        flags = ", or ".join(f"--delimiter {one}" for one in shell)
        raise InputError(f"{source}: are its cells separated by {what}? Give {flags}; its first line is {line[:80]!r}")
    return best[0] if best else _ONE_COLUMN


def _marks_of(
    cells: Sequence[str], lines: Callable[[], Iterator[str]], delimiter: str, loose: bool, source: str
) -> tuple[str, str, str]:
    """The mark around cells and the escapes of a table with these cells above, as `Dialect` has them; and a note."""
    asked, tabs = text_format.asked.escapes, delimiter == "\t"
    around = {cell[0] if len(cell) > 1 and cell[0] == cell[-1] else "" for cell in cells if cell}
    mark = "'" if around == {"'"} and len(cells) > 1 else '"'
    if not tabs and not asked:
        return mark, "", ""
    after, null = set[str](), False
    for one in lines():
        if "\\" in one:
            after.update(_AFTER_BACKSLASH.findall(one))
            null = null or NULL in one.rstrip("\r\n").split("\t")
    of_copy, plain = bool(after - {"N"}) and after <= _OF_COPY, after <= {'"', "'", "\\", delimiter, "\r", "\n"}
    before_quotes = '"' in after and plain and not any(map(_QUOTE_IN_TEXT.search, lines()))
    if asked is None and (before_quotes or (of_copy and not null)):
        raise _escapes_question(source, '"' if before_quotes else min(after))
    if of_copy and (asked or (asked is None and null and around != {'"'})):
        return mark if around == {'"'} or not tabs else "", "copy", "" if asked else _READ
    if asked:
        return mark, "any" if plain else "quotes", ""
    quoted = around == {'"'} or (not loose and _needs_quotes(lines))
    note = "quotes around cells are not part of them" if quoted and around != {'"'} else ""
    return '"' * quoted, "", note


def _escapes_question(where: str, after: str = '"') -> InputError:
    """Ask whether a backslash is an escape, as `to_csv(escapechar=...)`, R, mysql and jq write it."""
    mend = "if it is an escape, give --escapes true; if it is text, give --escapes false"
    return InputError(f"{where}: a backslash stands before {after!r}; {mend}")


def _is_header(cells: Sequence[str]) -> bool | None:
    """Whether a row holds the names of the columns: it does if its cells are names; None if it is not known."""
    written = [cell for cell in cells if cell]
    if written == [str(place) for place in range(len(written))]:  # by pandas
        return True
    others = [cell for cell in written if role_of(cell) is None]
    names = sum(map(has_role, written))
    if names > 1 or (names and all(map(_BARE_WORD.fullmatch, others)) and not any(map(NUMBER.fullmatch, others))):
        return True
    return True if len(written) > 1 and not others else None


def _header_question(rows: Sequence[Sequence[str]], source: str) -> InputError:
    """Ask whether the first row holds names, with the flags for both answers, the likelier one first."""
    cells = list(rows[0])
    numbered = [str(place) for place in range(len(cells))]
    below = [dict(zip(numbered, row, strict=False)) for row in rows]
    is_header = lambda place: place == 0 or is_subheader(rows[place], cells) or _are_names(rows[place])
    count = max(filter(is_header, range(min(len(rows), 3)))) + 1
    columns = max(rows[:count], key=lambda row: sum(map(has_role, row)))
    named = [dict(zip(columns, row, strict=False)) for row in rows[count:]]
    flag = "--header true" if count == 1 else f"--header {count}"
    names = f"if it holds the names of the columns, give {suggested_columns(named, columns, flag)}"
    data = f"if it is a row like the others, give {suggested_columns(below, numbered, '--header false')}"
    text = any(NUMBER.fullmatch(cell) or len(cell.split()) > 3 or cell[-1:] in ".!?" for cell in cells)
    answers = [names] if count > 1 else [data, names] if text else [names, data]
    return InputError(f"{source}: is the first row, {listed(map(shown, cells))}, a header? {'; '.join(answers)}")


def is_subheader(cells: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a row below the names of the columns is a part of the header too: types, a comment, a line, other names.

    Example:
        >>> names = ["StartDate", "EndDate", "Q1"]
        >>> is_subheader(["Start Date", "End Date", "Why?"], names), is_subheader(["date", "date", "string"], names)
        (True, True)
        >>> is_subheader(["2026-11-28", "2026-11-29", "A string"], names)
        False
    """
    plain = [cell.strip() for cell in cells] or [""]
    squeezed = ([re.sub(r"[\W_]", "", cell).lower() for cell in row] for row in (plain, names))
    again = sum(cell == name and not cell.isdecimal() and cell != "" for cell, name in zip(*squeezed, strict=False))
    comment = plain[0].startswith("#") and (len(plain) != len(names) or plain[0][1:2] in " #")
    types = len(plain) > 1 and all(map(_TYPE.fullmatch, plain))
    line = _RULE.fullmatch("".join(plain)) is not None
    return line or comment or types or again > 1 or any(map(_SUBHEADER.fullmatch, plain))


def is_rule(cells: Sequence[str]) -> bool:
    """Whether a row is a line of a drawn table, as psql, mysql, sqlite and Markdown have them.

    Example:
        >>> is_rule(["----+----"]), is_rule(["", "---", "---", ""]), is_rule(["a", "---"])
        (True, True, False)
    """
    return bool(_RULE.fullmatch("".join(cells)))


def is_aggregate(cells: Sequence[str | None], above: Sequence[Sequence[str | None]]) -> bool:
    """Whether the last row is a total of the table: a word for it, and numbers that no row above has in their column.

    Example:
        >>> is_aggregate(["Total", "6"], [["why", "1"], ["who", "0"]]), is_aggregate(["sum", "1"], [["why", "1"]])
        (True, False)
    """
    filled = [(place, cell) for place, cell in enumerate(cells) if cell and cell.strip()]
    if len(filled) < 2 or not AGGREGATE.fullmatch(filled[0][1].strip()):
        return False
    return all(
        NUMBER.fullmatch(cell) and all(row[place : place + 1] != [cell] for row in above) for place, cell in filled[1:]
    )


def _are_names(cells: Sequence[str]) -> bool:
    """Whether all cells of a row are names of columns, two or more of which have a role."""
    return sum(map(has_role, cells)) > 1 and None not in map(role_of, cells)


def _is_sts(cells: Sequence[str]) -> bool:
    """Whether a row is one of the files of the STS benchmark."""
    numbers = len(cells) >= len(STS_COLUMNS) and all(NUMBER.fullmatch(cells[i]) for i in (3, 4))
    return numbers and not any(map(has_role, cells))


def _needs_quotes(lines: Callable[[], Iterator[str]]) -> bool:
    """Whether a table with tabs is well quoted, and has the quotes of a program: around each cell that needs them.

    Those are the cells with quotes or line ends and, as Excel quotes them, with commas; or all that are not numbers.
    """
    if not any('"' in line for line in lines()):
        return False
    needed, widths = False, set()
    try:
        for row in Dialect("\t", [], 0).rows(lines()):
            widths.add(len(row) or None)
            needed = needed or any('"' in cell or "\n" in cell for cell in row)
    except csv.Error:
        return False
    cells = (cell for line in islice(lines(), 1, None) for cell in line.rstrip("\r\n").split("\t") if cell)
    kinds = {(cell[0] == '"', "," in cell) for cell in ([] if needed else cells) if not NUMBER.fullmatch(cell)}
    quoted = {mark for mark, _ in kinds}
    needed = needed or quoted == {True} or (True in quoted and kinds <= {(True, True), (False, False)})
    return needed and len(widths - {None}) == 1


def is_table(lines: Sequence[str], source: str) -> bool:
    """Whether a `.txt` file with these first lines is a table: as SNLI, QQP and the STS benchmark are published.

    Raises:
        InputError: it has columns that blanks separate, or rows of JSON; the message shows a command.

    Example:
        >>> [is_table([one], "a.txt") for one in ("sentence1\\tsentence2\\tlabel", "A dog\\truns.", "query;answer")]
        [True, False, True]
    """
    first = lines[0] if lines else ""
    is_json = first in ("[", "{")
    with contextlib.suppress(ValueError, RecursionError):
        is_json = is_json or isinstance(json.loads(first), (dict, list))
    if is_json or first.startswith(("{'", '{"')):
        command = PYTHON_AS_JSON if first.startswith("{'") else "cat"
        raise InputError(f"{source}: its rows are objects or lists; {converted(command, source, '.json')}")
    if _VERTICAL.fullmatch(first):
        raise InputError(f"{source} has a line for each cell; export it again with psql --csv, or mysql --batch")
    drawn = any(is_rule([line]) and len(_RUNS.findall(line)) > 1 for line in lines)
    drawn = drawn or _are_names(re.split(" {2,}", first.strip()))
    cells = [cell.strip('"') for cell in first.split("\t")]
    others = any(_are_names([cell.strip('"') for cell in first.split(one)]) for one in _DELIMITERS)
    return sum(map(has_role, cells)) > 1 or _is_sts(cells) or others or drawn or bool(_IN_SPACES.fullmatch(first))


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


def numbered_rows(
    dialect: Dialect, lines: Iterable[str], source: str, left_out: set[int]
) -> Iterator[tuple[int, list[str]]]:
    """The rows below the header with their numbers, counted from 1, and as many cells as there are columns.

    Args:
        dialect: how the table is written.
        lines: its lines.
        source: its name in messages.
        left_out: gets the numbers of rows that are not of the table, such as a header that is repeated where files
            were joined; each is logged once.

    Raises:
        InputError: a row has more or fewer cells, a quote is not closed, or it is not clear whether a row is of the
            table or a backslash is an escape; the message names the row.
    """
    names, asked, count, number = dialect.names, text_format.asked, 0, 0
    cells, below, slashed, after = list[str](), list[list[str]](), list[str](), set[str]()
    several = dialect.header > 0 and len(names) > 1
    roles = [role_of(name) for name in names] if several and asked.header != 1 else []  # else no row may be a header
    known = {place: name for place, name in enumerate(names) if roles and has_role(name)}

    def noted() -> Iterator[str]:
        for line in islice(lines, dialect.skipped, None):
            if "\\" in line and asked.escapes is None:
                after.update(_AFTER_BACKSLASH.findall(line.rstrip("\r\n")))
                if '\\"' in line and dialect.quote:  # as its row is read, they are counted
                    slashed.append(line)
            yield line.lstrip("\ufeff") if line.startswith("\ufeff") else line  # of files that were joined

    reader = dialect.rows(noted())
    try:
        for number, cells in enumerate(reader, 1 + dialect.skipped):
            where = f"{source}, row {number}"
            if slashed:
                if sum(cell.count('\\"') for cell in cells) > sum(line.count('\\""') for line in slashed):
                    raise _escapes_question(where)
                slashed.clear()
            if number <= dialect.first:
                continue
            same = several and [cell.strip() for cell in cells] == names
            other = roles and not same and len(NAMES.intersection(map(str.lower, cells))) > 1 and _are_names(cells)
            footer = _FOOTER.fullmatch(cells[0]) if len(cells) == 1 else None
            why = "is a line of a drawn table" * is_rule(cells)
            if same or (other and [role_of(cell) for cell in cells] == roles):
                why = "repeats the header"
            elif footer and footer[1] == str(count):
                why = "is the number of rows"
            if why:
                if number not in left_out:
                    logger.warning(f"{where} {why} and is left out")
                left_out.add(number)
                continue
            if roles and number <= dialect.first + 2 and is_subheader(cells, names):
                raise _second_header(where, cells, number - dialect.skipped)
            if cells and (len(cells) < len(names) or (len(cells) > len(names) and not dialect.loose)):
                if len(cells) < len(names) or any(cell.strip() for cell in cells[len(names) :]):
                    without = converted(f"sed {reader.line_num + dialect.skipped}d", source)
                    raise InputError(f"{where}: {_wrong_count(cells, dialect, without)}")
                cells = cells[: len(names)]  # spreadsheets fill up rows
            if other:
                raise _second_header(where, cells, dialect.header + 1 if number == dialect.first + 1 else 0)
            own = next((name for place, name in known.items() if cells and cells[place].strip() == name), None)
            if own is not None:
                question = _header_question([names, *below], source)
                raise InputError(f"{where}: {own!r} is the name of its column too; {question}")
            if len(below) < _SHOWN:
                below.append(cells)
            count += len(cells) > 0
            yield number, cells or [""] * len(names)
    except csv.Error as error:
        if slashed:
            raise _escapes_question(f"{source}, row {number + 1}") from error
        mend = "close every quote, and double quotes inside a cell"
        raise InputError(f"{source}, row {number + 1}: {error}; {mend}") from error
    if roles and is_aggregate(cells, below[:-1]):
        without = converted(f"sed {reader.line_num + dialect.skipped}d", source)
        mend = f"{without}; if it is a row like the others, give --header true"
        raise InputError(f"{source}, row {number}: {listed(map(shown, cells))} is a total of the table; {mend}")
    # who escapes line ends writes no row on two lines
    on_one_line = reader.line_num == number - dialect.skipped
    if not dialect.escapes and on_one_line and after <= _OF_DUMPS and after & set("nrt"):
        raise _escapes_question(source, min(after & set("nrt")))


def _wrong_count(cells: Sequence[str], dialect: Dialect, without: str) -> str:
    """What is wrong with a row that has more or fewer cells than there are columns."""
    more, named = len(cells) > len(dialect.names), _DELIMITERS.get(dialect.delimiter, "the delimiter")
    mend = f"quote cells that hold {named}" if dialect.quote else "remove the tabs inside cells"
    if any(cell.endswith("\\") for cell in cells) and not dialect.escapes:
        mend = f"if a backslash stands before {named} or line ends inside cells, give --escapes true"
    elif not more:
        mend = f"add the missing cells, or if it is not a row of the table, {without}"
    first = "the header" if dialect.header else "the first row"
    return f"{len(cells)} cells where {first} has {len(dialect.names)}; {mend}"


def _second_header(where: str, cells: Sequence[str], rows: int) -> InputError:
    """Ask whether a row is a part of the header, which has so many rows then, or of a table that was joined."""
    what = f"{where}: {listed(map(shown, cells))} are as in a header"
    joined = "if another table begins there, save it as a file of its own and name both files"
    mend = f"if the header has {rows} rows, give --header {rows}" if rows else joined
    return InputError(f"{what}; {mend}; if it is a row like the others, give --header true")
