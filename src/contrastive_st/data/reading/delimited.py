"""Tables of delimited text: the header line says which character separates the cells; else the user does."""

from __future__ import annotations

import contextlib
import csv
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from contrastive_st import text_format
from contrastive_st.data.profile import NUMBER, shown
from contrastive_st.data.roles import NAMES, has_role, role_of, suggested_columns
from contrastive_st.data.suggestions import DRAWN_AS_TABS, PYTHON_AS_JSON, WITHOUT_QUOTES, converted
from contrastive_st.errors import InputError, listed

if TYPE_CHECKING:
    import _csv

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
_ESCAPED_QUOTE = re.compile(r'\\"[^",;\t|\r\n]')
_EXCEL = re.compile(r'="(.*)"', re.DOTALL)  # how Excel writes a text that is like a number
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+\s*")
MAYBE_A_TABLE = "the lines have tabs inside: each is read as one text; if the file is a table, give --delimiter '\\t'"
_SEP = re.compile(r"sep=(.)\r?\n?")  # the first line of a file for Excel
_IN_QUOTES = re.compile(r'"(?:[^"]|"")*"')
_IN_SPACES = re.compile(r'"[^" ]+"(?: "[^" ]+")+\s*')  # a header of write.table of R
_BARE_WORD = re.compile(r"[^\s.!?]{1,40}")
#: First lines of files that are not tables of delimited text, what such a file is, and the command that makes one of it
_OTHERS = (
    (r"\{'", "its rows are objects of Python", PYTHON_AS_JSON, ".jsonl"),
    (r'\{"|[\[{]\s*\n|\[["\[{].*[\]},]\s*\n', "its rows are objects or lists of JSON", "cat", ".json"),
    (r"\*{5,} 1\. row|-\[ RECORD 1", "it has a line for each cell; use psql --csv or mysql --batch", "", ""),
    (
        r"(?!.*\|.*\n-+(\+-+)+\n)(.*\n){0,2}(?=.*[-=─═]{3}.*[^-=─═\n].*[-=─═]{3})[-+=|:\s─-╿]+\n",
        "it is drawn",
        DRAWN_AS_TABS,
        ".tsv",
    ),
)
#: A cell of a header's second or third row: of Qualtrics, of SurveyMonkey, or a type
_SUBHEADER = re.compile(r'\{"ImportId".*|Open-Ended Response', re.DOTALL)
_TYPE = re.compile(
    r"#?(string|str|text|(n?var)?char|character|object|factor|category|(big)?int(eger|32|64)?|float(32|64)?|double|"
    r"real|num(ber|eric)|decimal|bool(ean)?|date(time)?|timestamp)( ?\([\d, ]+\))?", re.IGNORECASE
)  # fmt: skip
#: Rows as programs write them around a table: a line, and the number of its rows
_LINE = re.compile(r"[-+=|:\s]*---[-+=|:\s-]*")
_COUNT = re.compile(r"\(?(\d+) rows?( affected| selected| in set.*)?\.?\)?")
_AGGREGATE = re.compile(r"((grand|sub)[- ]?)?total|sum|average|mean|count", re.IGNORECASE)
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
            top = list(csv.reader(first[:2], delimiter=delimiter))
            names = top[0]
            alike = len(set(names)) == len(names) > 1 and "" not in names and {*map(len, top)} == {len(names)}
            if alike and set(wanted) <= set(names):
                return dialect._replace(delimiter=delimiter, names=names)
    named = _SEP.fullmatch(first[0]) if first else None
    told = asked.delimiter or (named and named[1])
    if not told:
        ask_other(first, source)
    skipped = 1 if named else _lines_above(first, told)
    if skipped and not named:
        notes.append(f"{skipped} lines above the names of the columns are skipped")
    delimiter = told or _delimiter_of(first[skipped], source, usual)
    cells = first[skipped].rstrip("\r\n").split(delimiter)
    spaced = len(cells) > 1 and all(cell[:1] == " " for cell in cells[1:])
    around = {cell[0] if len(cell) > 1 and cell[0] == cell[-1] else "" for cell in cells if cell}
    quote, escapes = "'" if around == {"'"} and len(cells) > 1 else '"', ""
    if delimiter == "\t" or asked.escapes:
        quote, escapes = _marks_of(quote, around == {'"'}, lines, delimiter, loose, source)
    if escapes == "copy" and not asked.escapes:
        notes.append(r"\n, \t and \\ in a cell are escapes, because a cell is \N, as \copy of PostgreSQL writes null")
    dialect = dialect._replace(delimiter=delimiter, quote=quote, skipped=skipped, escapes=escapes, spaced=spaced)
    try:
        rows = list(dialect.rows(first[skipped:]))
    except csv.Error:  # the error names the row when it is read
        rows = [[cell.strip(quote) for cell in line.rstrip("\r\n").split(delimiter)] for line in first[skipped:]]
    rows = [[cell.strip() for cell in row] for row in rows]
    if len(rows[0]) == 1 and any(_are_names(rows[0][0].split(one)) for one in _DELIMITERS):
        raise InputError(f"{source}: each row is one cell in quotes; {converted(WITHOUT_QUOTES, source)}")
    sts = not header and _is_sts(rows[0])
    if header is None and (header := False if sts else _is_header(rows[0])) is None:
        raise _header_question(rows, source)
    if header:
        names = _names_in(rows[:header], source)
        more = [row for row in rows[header:] if row]
        counted = any([row[0] for row in more] == [str(n + start) for n in range(len(more))] for start in (0, 1))
        if (
            "" not in names
            and {*map(len, more)} == {len(names) + 1}
            and (counted or all(line[0] == '"' for line in first))
        ):
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
    return dialect._replace(
        names=names, header=int(header), loose=loose or sts, notes=tuple(notes), first=skipped + header
    )


def ask_other(top: Sequence[str], source: str) -> None:
    """Raise `InputError` if a file with these first lines is not a table, with a command that makes a table of it."""
    text = "".join(top[:3]) + "\n"
    for pattern, what, command, end in _OTHERS:
        if re.match(pattern, text) or (end == ".tsv" and _are_names(re.split(" {2,}", top[0].strip()) if top else [])):
            raise InputError(f"{source}: {what}" + f"; {converted(command, source, end)}" * bool(command))


def _lines_above(lines: Sequence[str], asked: str | None) -> int:
    """How many lines are above a header: those with one cell, above a line with two known names."""
    for number, line in enumerate(lines[:_ABOVE]):
        for one in asked or _DELIMITERS:
            if sum(map(has_role, line.rstrip("\r\n").split(one))) > 1:
                alone = (len(above.rstrip("\r\n").split(one)) - above.count(one * 2) < 2 for above in lines[:number])
                return number if all(alone) else 0
    return 0


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


def _marks_of(
    mark: str, quoted: bool, lines: Callable[[], Iterator[str]], delimiter: str, loose: bool, source: str
) -> tuple[str, str]:
    """The mark around cells and the escapes, as `Dialect` has them, of a table with tabs or with `--escapes true`.

    With tabs, quotes are marks if the names are `quoted` too, or if cells have doubled quotes or line ends in them.
    """
    asked, tabs = text_format.asked.escapes, delimiter == "\t"
    after, null = set[str](), False
    for line in lines():
        if "\\" in line:
            after.update(_AFTER_BACKSLASH.findall(line))
            null = null or NULL in line.rstrip("\r\n").split("\t")
    if after - {"N"} and after <= _OF_COPY and (asked or (asked is None and null and not quoted)):
        return mark if quoted or not tabs else "", "copy"
    if asked:
        return mark, "any" if after <= {'"', "'", "\\", delimiter, "\r", "\n"} else "quotes"
    in_quotes = (any(map(_IN_QUOTES.fullmatch, line.rstrip("\r\n").split("\t"))) for line in lines() if '"' in line)
    if asked is None and not (quoted or loose) and any(in_quotes):
        widths, needed = set[int](), False
        with contextlib.suppress(csv.Error):
            for row in filter(None, Dialect("\t", [], 0).rows(lines())):
                widths.add(len(row))
                needed = needed or any('"' in cell or "\n" in cell for cell in row)
            quoted = needed and len(widths) == 1
            if len(widths) == 1 and not needed:
                raise _escapes_question(source, "quotes are around cells")
    return mark * quoted, ""


def _escapes_question(where: str, what: str) -> InputError:
    """Ask whether marks are text, or are written as by `to_csv(escapechar=...)`, Excel, R, mysql and jq."""
    mend = "if it is a mark or an escape, give --escapes true; if it is text, give --escapes false"
    return InputError(f"{where}: {what}; {mend}")


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


def _names_in(rows: Sequence[Sequence[str]], source: str) -> list[str]:
    """The names in the rows of a header; a blank one beyond the first, and a second of one name, have no role."""
    cells = max(rows, key=lambda row: sum(map(has_role, row)))
    if not any(cells):
        raise InputError(f"{source}, row 1 is blank; it must hold the names of the columns")
    blank, names = (cells.index("") if "" in cells else -1), list[str]()
    for place, name in enumerate(cells):
        again = f" ({count + 1})" if (count := cells[:place].count(name)) else ""
        names.append(name + again if name or place == blank else f"unnamed {place}")
    return distinct(names, source)


def _header_question(rows: Sequence[Sequence[str]], source: str) -> InputError:
    """Ask whether the first row holds names, with the flags for both answers."""
    count = 1 + max(place for place in range(len(rows[:3])) if place == 0 or is_stray(rows[place], rows[0], True))
    columns = max(rows[:count], key=lambda row: sum(map(has_role, row)))
    numbered = [str(place) for place in range(len(rows[0]))]
    named = [dict(zip(columns, row, strict=False)) for row in rows[count:]]
    below = [dict(zip(numbered, row, strict=False)) for row in rows]
    names = suggested_columns(named, columns, "--header true" if count == 1 else f"--header {count}")
    data = suggested_columns(below, numbered, "--header false")
    answers = f"if it holds the names of the columns, give {names}; if it is a row like the others, give {data}"
    return InputError(f"{source}: is the first row, {listed(map(shown, rows[0]))}, a header? {answers}")


def is_stray(cells: Sequence[str], names: Sequence[str], top: bool = False, last: bool = False) -> bool:
    """Whether a row may be no row of the table: names of columns, or what programs write around a table.

    Args:
        cells: the row.
        names: the names of the columns.
        top: it is below the names, where types, a comment, or other names may be.
        last: it is the last row, where a total may be.

    Example:
        >>> names = ["StartDate", "EndDate", "Q1"]
        >>> is_stray(["Start Date", "End Date", "Why?"], names, True), is_stray(["date", "date", "str"], names, True)
        (True, True)
        >>> is_stray(["2026-11-28", "2026-11-29", "A string"], names, True), is_stray(["(6 rows)"], names)
        (False, True)
        >>> is_stray(["3 rows of seats", ""], names), is_stray(["---", ""], names)
        (False, True)
        >>> is_stray(["Total", "6"], names, last=True), is_stray(["Total", "why"], names, last=True)
        (True, False)
    """
    plain = [cell.strip() for cell in cells] or [""]
    if ((_LINE.fullmatch(plain[0]) or _COUNT.fullmatch(plain[0])) and set("".join(plain[1:])) <= set("-+=|: ")) or (
        len(names) > 1 and len(NAMES.intersection(map(str.lower, plain))) > 1 and _are_names(plain)
    ):
        return True
    if last and _AGGREGATE.fullmatch(plain[0]) and any(plain[1:]):
        return all(NUMBER.fullmatch(cell) for cell in plain[1:] if cell)
    if not top or len(names) < 2:
        return False
    squeezed = ([re.sub(r"[\W_]", "", cell).lower() for cell in row] for row in (plain, names))
    again = sum(cell == name and not cell.isdecimal() and cell != "" for cell, name in zip(*squeezed, strict=False))
    comment = plain[0].startswith("#") and (len(plain) != len(names) or plain[0][1:2] in " #")
    types = len(plain) > 1 and all(map(_TYPE.fullmatch, plain))
    return comment or types or again > 1 or any(map(_SUBHEADER.fullmatch, plain))


def _are_names(cells: Sequence[str]) -> bool:
    """Whether all cells of a row are names of columns, two or more of which have a role."""
    return sum(map(has_role, cells)) > 1 and None not in map(role_of, cells)


def _is_sts(cells: Sequence[str]) -> bool:
    """Whether a row is one of the files of the STS benchmark."""
    numbers = len(cells) >= len(STS_COLUMNS) and all(NUMBER.fullmatch(cells[i]) for i in (3, 4))
    return numbers and not any(map(has_role, cells))


def is_table(line: str) -> bool:
    """Whether a `.txt` file with this first line is a table: as SNLI, QQP and the STS benchmark are published.

    Example:
        >>> [is_table(one) for one in ("sentence1\\tsentence2\\tlabel", "A dog\\truns.", "query;answer")]
        [True, False, True]
    """
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


def numbered_rows(
    dialect: Dialect, lines: Iterable[str], source: str, left_out: set[int]
) -> Iterator[tuple[int, list[str]]]:
    """The rows below the header with their numbers, counted from 1, and as many cells as there are columns.

    Args:
        dialect: how the table is written.
        lines: its lines.
        source: its name in messages.
        left_out: gets the numbers of rows that repeat the header, where files were joined; each is logged once.

    Raises:
        InputError: a row has more or fewer cells, a quote is not closed, or it is not clear whether a row is of the
            table or a backslash is an escape; the message names the row.
    """
    names, asked, number, count, after = dialect.names, text_format.asked, 0, 0, set[str]()
    cells, below, several = list[str](), list[list[str]](), dialect.header > 0 and len(names) > 1
    roles = [role_of(name) for name in names]
    checked = dialect.header > 0 and asked.header != 1  # else no row may be a header
    known = {place: name for place, name in enumerate(names) if several and checked and has_role(name)}

    def noted() -> Iterator[str]:
        for line in islice(lines, dialect.skipped, None):
            if "\\" in line and asked.escapes is None and not dialect.escapes:
                after.update(_AFTER_BACKSLASH.findall(line.rstrip("\r\n")))
                if _ESCAPED_QUOTE.search(line):
                    raise _escapes_question(f"{source}, row {number + 1}", "a backslash stands before a quote")
            yield line.lstrip("\ufeff") if line.startswith("\ufeff") else line  # of files that were joined

    reader = dialect.rows(noted())
    without = lambda: converted(f"sed {reader.line_num + dialect.skipped}d", source)
    try:
        for number, cells in enumerate(reader, 1 + dialect.skipped):
            if number <= dialect.first:
                continue
            where, top = f"{source}, row {number}", number <= dialect.first + 2
            stray = checked and is_stray(cells, names, top)
            same = [cell.strip() for cell in cells] == names
            again = several and (same or (stray and _are_names(cells) and list(map(role_of, cells)) == roles))
            why = "repeats the header" if again else "is the number of rows" if stray and _counts(cells, count) else ""
            if why or (stray and _LINE.fullmatch("".join(cells))):
                if number not in left_out:
                    logger.warning(f"{where} {why or 'is a line'} and is left out")
                left_out.add(number)
                continue
            if stray:
                rows, advice = number - dialect.skipped, without()
                if top and not (below and is_stray(cells, names)):
                    advice = f"if the header has {rows} rows, give --header {rows}, or {advice}"
                raise _stray_question(where, cells, advice)
            if cells and (len(cells) < len(names) or (len(cells) > len(names) and not dialect.loose)):
                if len(cells) < len(names) or any(cell.strip() for cell in cells[len(names) :]):
                    raise InputError(
                        f"{where}: {_wrong_count(cells, dialect)}, or if it is not a row of the table, {without()}"
                    )
                cells = cells[: len(names)]  # spreadsheets fill up rows
            own = next((name for place, name in known.items() if cells and cells[place].strip() == name), None)
            if own is not None:
                question = _header_question([names, *below], source)
                raise InputError(f"{where}: {own!r} is the name of its column too; {question}")
            if len(below) < _SHOWN:
                below.append(cells)
            count += any(cells)
            yield number, cells or [""] * len(names)
    except csv.Error as error:
        mend = "close every quote, and double quotes inside a cell"
        raise InputError(f"{source}, row {number + 1}: {error}; {mend}") from error
    if below and checked and number not in left_out and is_stray(cells, names, last=True):
        raise _stray_question(f"{source}, row {number}", cells, without())
    # who escapes line ends writes no row on two lines
    dumped = after <= _OF_COPY and after & set("nrt\\" if dialect.delimiter == "\t" else "nrt")
    if dumped and reader.line_num == number - dialect.skipped:
        raise _escapes_question(source, f"a backslash stands before {min(dumped)!r}")


def _counts(cells: Sequence[str], count: int) -> bool:
    """Whether a row is what programs write below a table: the number of its rows."""
    said = _COUNT.fullmatch(cells[0]) if len(cells) == 1 else None
    return said is not None and said[1] == str(count)


def _stray_question(where: str, cells: Sequence[str], mend: str) -> InputError:
    what = f"{where}: {listed(map(shown, cells))} may not be a row of the table"
    return InputError(f"{what}; {mend}; if it is a row like the others, give --header true")


def _wrong_count(cells: Sequence[str], dialect: Dialect) -> str:
    """What is wrong with a row that has more or fewer cells than there are columns."""
    named = _DELIMITERS.get(dialect.delimiter, "the delimiter")
    mend = "add the missing cells" if len(cells) < len(dialect.names) else f"quote cells that hold {named}"
    if any(cell.endswith("\\") for cell in cells) and not dialect.escapes:
        mend = f"if a backslash stands before {named} or line ends inside cells, give --escapes true"
    elif not dialect.quote:
        mend += f"; if quotes are around cells that hold {named} or line ends, give --escapes true"
    first = "the header" if dialect.header else "the first row"
    return f"{len(cells)} cells where {first} has {len(dialect.names)}; {mend}"
