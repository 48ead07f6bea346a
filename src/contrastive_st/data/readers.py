"""Read files as streams of rows: tables, lines of text, and documents (Markdown, HTML, PDF).

All files that this package reads are read here. An error names the file and the line or row. The readers of documents
come with the extra `documents`.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import importlib
import json
import logging
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html.parser import HTMLParser
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import config

from contrastive_st.data.columns import BESIDE, COMPARED, STS_COLUMNS, find_header, role_of
from contrastive_st.errors import InputError, first_line
from contrastive_st.files.writing import atomic_write

_BATCH = 4096  # rows of a Parquet file that are Python objects at a time
_SAMPLE = 4 << 20  # bytes in which rows are counted to estimate their number in a file
_FRESH = 2_000_000_000  # nanoseconds: a file written more recently may change again within the same time stamp
csv.field_size_limit(1 << 30)  # characters in a cell; the default of 131,072 is too small for a book
LONGEST_LINE = 64 << 20  # bytes; a book has a few MB, and a file of zeros is one line of whatever size
LARGEST_WHOLE = 1 << 30  # bytes of what is read as a whole: a list of JSON, a document


class MissingData(InputError):
    """A file or data set does not exist; tasks that need it are reported as not run."""


class Row(NamedTuple):
    """A row: its number in the file, counted from 1, and its cells by column."""

    number: int
    cells: dict[str, Any]


@dataclass(frozen=True)
class Rows:
    """The rows of a file as a stream, which can be read more than once.

    Args:
        source: name of the file in messages.
        unit: what a row is called in messages: line, row, object or page.
        read: returns the rows, starting with the first.
        same_columns: whether every row has the columns of the first row.
        note: what was guessed about the file, for a message; blank if nothing was.
    """

    source: str
    unit: str
    read: Callable[[], Iterator[Row]]
    same_columns: bool = True
    note: str = ""

    def __iter__(self) -> Iterator[Row]:
        with reading(self.source):
            yield from self.read()

    def where(self, number: int) -> str:
        """The file and the number of a row, for messages."""
        return f"{self.source}, {self.unit} {number}"


def open_rows(
    path: str | Path, source: str | None = None, header: bool | None = None, columns: Sequence[str] | None = None
) -> Rows:
    """Open a file as rows of cells by column; the extension of its name decides the format (`FORMATS`).

    Args:
        path: the file.
        source: name of the file in messages.
        header: whether the first row of a table holds the names of its columns; by default it is found out.
        columns: of a Parquet file, the columns to read; by default all but those of lists and structures.

    Raises:
        InputError: the file does not exist, or there is no reader for its extension.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "talks.tsv")
        ...     _ = path.write_text("text\\tyear\\nOn tides\\t1999\\n")
        ...     list(open_rows(path))
        [Row(number=2, cells={'text': 'On tides', 'year': '1999'})]
    """
    path, source = Path(path), str(path) if source is None else source
    opener = FORMATS.get(path.suffix.lower())
    if opener is None:
        known = ", ".join(FORMATS)
        raise InputError(f"{source}: no reader for {path.suffix or 'no extension'}; rename it to one of {known}")
    with reading(source):
        check_file(path, source)
        if opener is _parquet:
            return _parquet(path, source, columns)
        return table(path, source, header) if opener is table else opener(path, source)


def check_file(path: Path, source: str | Path) -> os.stat_result:
    """The `stat` of a file; raises `InputError` if it is not a regular file, or empty."""
    with reading(source):
        facts = path.stat()
    if not stat.S_ISREG(facts.st_mode):
        raise InputError(f"{source} is not a regular file, and it must be read twice; save it as a file first")
    if facts.st_size == 0:
        raise InputError(f"{source}: the file is empty; it needs at least one sentence")
    return facts


def path_of(source: str | Path) -> Path:
    """A path, with `~` or `~user` expanded to the home folder if there is such a user."""
    try:
        return Path(source).expanduser()
    except RuntimeError:
        return Path(source)


def content_digest(path: Path) -> str:
    """A digest of the content of a file; it is cached until the size, the time or the inode of the file changes."""
    with reading(path):
        facts = path.stat()
        known = [facts.st_size, facts.st_mtime_ns, facts.st_ino]
        place = hashlib.blake2b(str(path.resolve()).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
        kept = Path(config.HF_DATASETS_CACHE, "contrastive_st", f"digest-{place}.json")
        with contextlib.suppress(OSError, ValueError, TypeError):
            *then, digest = json.loads(kept.read_bytes())
            if then == known:
                return str(digest)
        content = hashlib.blake2b(digest_size=16)
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                content.update(block)
    if time.time_ns() - facts.st_mtime_ns > _FRESH:
        with (
            contextlib.suppress(InputError),  # without a writable cache, the digest is computed each time
            atomic_write(kept, overwrite=True, parents=True) as new,
        ):
            new.write_text(json.dumps([*known, content.hexdigest()]), encoding="utf-8")
    return content.hexdigest()


@contextlib.contextmanager
def reading(source: str | Path) -> Iterator[None]:
    """Turn errors of reading a file into an `InputError` of one line that names the file."""
    if "\0" in str(source):
        raise MissingData(f"{str(source)!r}: there is no such file; remove the null character")
    try:
        yield
    except FileNotFoundError:
        raise MissingData(f"{source}: there is no such file; check the path (seen from {Path.cwd()})") from None
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise InputError(f"{source} cannot be read: {error.strerror}; check path and permissions") from error
        raise InputError(f"{source} is not a valid Parquet file ({first_line(error)}); write it again") from error


# --- Lines of text.


def numbered_lines(path: str | Path, source: str | None = None, *, latin1: bool = False) -> Iterator[tuple[int, str]]:
    r"""Yield the lines of a text file with their numbers, without line ends.

    Only `\n` and `\r\n` end a line. A byte order mark at the start is left out.

    Args:
        path: the file.
        source: name of the file in messages.
        latin1: read lines that are not UTF-8 as Latin-1, which some files of SentEval need; else they are an error.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.txt")
        ...     _ = path.write_bytes(b"caf\xe9 \x85 one\r\ntwo\n")
        ...     list(numbered_lines(path, latin1=True))
        [(1, 'café \x85 one'), (2, 'two')]
    """
    source = str(path) if source is None else source
    for number, line in _raw_lines(path, source, latin1):
        yield number, line.removesuffix("\n").removesuffix("\r")


def _raw_lines(path: str | Path, source: str, latin1: bool = False) -> Iterator[tuple[int, str]]:
    with reading(source), open(path, "rb") as file:  # as bytes, only line feeds end lines
        for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE), b""), 1):
            if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
                raise InputError(f"{source}, line {number} has {LONGEST_LINE:,} bytes or more; is this a text file?")
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            try:
                yield number, utf8(line, f"{source}, line {number}")
            except InputError:
                if not latin1:
                    raise
                yield number, line.decode("latin-1")


def utf8(text: bytes, where: str, mend: str = "save the file in UTF-8") -> str:
    """Decode UTF-8; raises `InputError` with the first byte that is not UTF-8.

    Example:
        >>> utf8("é".encode(), "a.txt, line 1")
        'é'
    """
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: byte 0x{text[error.start]:02x} is not UTF-8; {mend}") from None


def read_lines(path: str | Path) -> list[str]:
    """The lines of a file of evaluation data, in UTF-8 or Latin-1.

    Raises:
        MissingData: the file does not exist.
    """
    return [line for _, line in numbered_lines(path, latin1=True)]


def read_cells(path: str | Path, wanted: Sequence[int], *, header: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line, counted from 1, and its `wanted` cells.

    Tabs separate cells, and quotes mean nothing. Other columns are ignored, and blank lines are skipped.

    Raises:
        InputError: a line has too few columns; the message names the file and the line.
    """
    least = max(wanted) + 1
    for number, line in numbered_lines(path, latin1=True):
        if (header and number == 1) or not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) < least:
            count = f"{len(cells)} column{'s' * (len(cells) > 1)}, but at least {least} are needed"
            raise InputError(f"{path}, line {number}: {count}; is it tab-separated?")
        yield number, [cells[i] for i in wanted]


def number_in(cell: str, path: str | Path, line: int) -> float:
    """The finite number in a cell; raises `InputError` with the file and the line if it is none."""
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if value - value != 0:  # NaN and infinities
        raise InputError(f"{path}, line {line}: {cell[:40]!r} is not a number; a score is expected there")
    return value


def tidy(text: str) -> str:
    """Put single spaces between words and none around the text, as SentEval does by splitting and joining lines."""
    return " ".join(text.split())


# --- A function for each format.


def _text(path: Path, source: str) -> Rows:
    """A text file: one row per line, with the column `text`; or a table, as SNLI and QQP are published.

    It is a table if tabs separate the names of two known columns in its first line, or if it is of the STS benchmark.
    """
    _, line = next(numbered_lines(path, source, latin1=True), (1, ""))
    cells = line.split("\t")
    if sum(role_of(cell) not in (None, BESIDE) for cell in cells) > 1 or find_header([cells]).names == STS_COLUMNS:
        return table(path, source, loose=True)
    return Rows(source, "line", lambda: (Row(number, {"text": line}) for number, line in numbered_lines(path, source)))


def table(path: Path, source: str, header: bool | None = None, *, loose: bool = False) -> Rows:
    """A table: the names of its columns, then rows of cells; without names, its columns are `0`, `1`, ...

    Tabs separate the cells, and quotes mean nothing; in a `.csv` file, commas separate cells that may be quoted, unless
    there are more tabs than commas in its first line.

    Args:
        path: the file.
        source: name of the file in messages.
        header: whether the first row holds the names of the columns; by default `find_header` says it.
        loose: ignore cells beyond those of the first row, which the files of QQP need; else they are an error.
    """
    _, line = next(numbered_lines(path, source, latin1=True), (1, ""))
    tabs = path.suffix.lower() != ".csv" or line.count("\t") > line.count(",")
    # strict: otherwise a quote that is never closed takes in the rest of the file without an error
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {"strict": True}
    mend = "remove the tabs inside cells" if tabs else "quote cells that hold commas"

    def numbered() -> Iterator[tuple[int, list[str]]]:
        return _numbered_cells(csv.reader((line for _, line in _raw_lines(path, source)), **dialect), source)

    found = find_header([cells for _, cells in islice(numbered(), 1 + COMPARED)], header)
    names = _checked_header(found.names, source) if found.there else list(found.names)
    extra = loose or found.names == STS_COLUMNS
    first = "the header" if found.there else "the first row"

    def read() -> Iterator[Row]:
        for number, cells in islice(numbered(), int(found.there), None):
            if cells and (len(cells) < len(names) or (len(cells) > len(names) and not extra)):
                how = mend if len(cells) > len(names) else "add the missing cells"
                raise InputError(f"{rows.where(number)}: {len(cells)} cells where {first} has {len(names)}; {how}")
            yield Row(number, dict(zip(names, cells or [""] * len(names), strict=False)))

    rows = Rows(source, "row", read, note=found.note)
    return rows


def _numbered_cells(reader: Iterable[list[str]], source: str) -> Iterator[tuple[int, list[str]]]:
    number = 0
    try:
        for number, cells in enumerate(reader, 1):
            yield number, cells
    except csv.Error as error:
        mend = "close every quote, and double quotes inside a cell"
        raise InputError(f"{source}, row {number + 1}: {error}; {mend}") from error


def _checked_header(cells: Sequence[str], source: str) -> list[str]:
    names = [cell.strip() for cell in cells]
    if not any(names):
        raise InputError(f"{source}, row 1 is blank; it must hold the names of the columns")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{source}: two columns are named {twice!r}; rename one of them")
    return names


def _objects(path: Path, source: str) -> Rows:
    """JSON: one object per line, read line by line, or a list of objects, which is read as a whole."""
    with open(path, "rb") as file:
        is_list = file.read(1 << 16).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    if is_list:
        _check_whole(path, source, "a list of JSON", "write one object per line")

    def of_lines() -> Iterator[Row]:
        for number, line in numbered_lines(path, source):
            if line.strip():
                yield checked(number, parse_json(line, source, number))

    def of_list() -> Iterator[Row]:
        text = "".join(line for _, line in _raw_lines(path, source))
        for number, item in enumerate(parse_json(text, source), 1):
            yield checked(number, item)

    def checked(number: int, item: Any) -> Row:
        if not isinstance(item, dict):
            raise InputError(f"{rows.where(number)} is not an object; write one {{...}} per row")
        return Row(number, item)

    rows = Rows(source, *(("object", of_list) if is_list else ("line", of_lines)), same_columns=False)
    return rows


def parse_json(text: str, source: str, line: int = 1) -> Any:
    """Parse JSON; an `InputError` names the line, where `line` is the number of the first line of `text`.

    Example:
        >>> parse_json("[" * 200_000, "a.json")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: a.json, line 1: lists or objects are nested too deeply; flatten them
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        what = f"invalid JSON ({error.msg}); write one object per line, or a list of objects"
        raise InputError(f"{source}, line {line + error.lineno - 1}: {what}") from error
    except RecursionError:
        raise InputError(f"{source}, line {line}: lists or objects are nested too deeply; flatten them") from None
    except ValueError as error:  # a number of more than 4,300 digits
        what = first_line(error).partition(";")[0]
        raise InputError(f"{source}, line {line}: {what}; write shorter numbers") from None


def _parquet(path: Path, source: str, columns: Sequence[str] | None = None) -> Rows:
    """A Parquet file, read a few thousand rows at a time; by default without columns of lists and structures."""

    def read() -> Iterator[Row]:
        number = 0
        with pq.ParquetFile(path, memory_map=True) as file:
            flat = [field.name for field in file.schema_arrow if not pa.types.is_nested(field.type)]
            for batch in file.iter_batches(_BATCH, columns=flat if columns is None else columns):
                check_utf8(batch, source, number)
                for number, cells in enumerate(batch.to_pylist(), number + 1):  # noqa: B020 - it goes on counting
                    yield Row(number, cells)

    return Rows(source, "row", read)


def check_utf8(batch: pa.RecordBatch | pa.Table, source: str, first: int) -> None:
    """Raise `InputError` with the row of text that is not UTF-8, which Parquet files and Arrow tables can have."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        for name in batch.schema.names:
            kind = batch.schema.field(name).type
            if pa.types.is_string(kind) or pa.types.is_large_string(kind):
                cells = batch.column(name).cast(pa.large_binary()).to_pylist()
                for row, cell in enumerate(cells, first + 1):
                    utf8(cell or b"", f"{source}, row {row}, column {name!r}", "write the file again")
        raise


# --- Documents as plain text.

_LEFT_OUT = ("script", "style", "noscript", "template", "svg", "nav")
_BLOCK = re.compile(
    "address|article|aside|blockquote|br|caption|dd|details|div|dl|dt|figcaption|figure|footer|h[1-6]|header|hr|li|main|ol"
    "|p|pre|section|summary|table|td|th|title|tr|ul"
)
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


def _check_whole(path: Path, source: str, what: str, mend: str) -> None:
    """Raise `InputError` if a file that is read as a whole is too large for that."""
    if (size := path.stat().st_size) > LARGEST_WHOLE:
        raise InputError(f"{source} has {size:,} bytes, and {what} is read as a whole, up to {LARGEST_WHOLE:,}; {mend}")


def _document(path: Path, source: str) -> Rows:
    _check_whole(path, source, "a document", "split it")
    return Rows(source, "page" if path.suffix.lower() == ".pdf" else "document", lambda: read_document(path, source))


def read_document(path: Path, source: str) -> Iterator[Row]:
    """Yield the rows of a document, with the columns `text`, `title` and `file`.

    A Markdown or HTML file is one row. A PDF file has a row for each page, with its number in the column `page`.

    Raises:
        InputError: the file is damaged or encrypted, or its reader is not installed.
    """
    try:
        for number, cells in enumerate(_READERS[path.suffix.lower()](path, source), 1):
            yield Row(number, {**cells, "file": path.name})
    except (InputError, OSError):
        raise
    except Exception as error:  # parsers raise a dozen kinds of errors for damaged files
        what = first_line(error) if not isinstance(error, RecursionError) else "it is nested too deeply"
        raise InputError(f"{source} is not a valid {path.suffix[1:]} file ({what}); save it again") from error


def _html(path: Path, source: str) -> Iterator[dict[str, Any]]:
    yield _of_html("\n".join(read_lines(path)))


def _markdown(path: Path, source: str) -> Iterator[dict[str, Any]]:
    text = _FRONT_MATTER.sub("", "\n".join(read_lines(path)) + "\n")
    yield _of_html(_needed("markdown_it", source).MarkdownIt("commonmark").render(text))


def _of_html(markup: str) -> dict[str, Any]:
    """The text of a page, with a blank line between paragraphs, and its title or first heading."""
    page = _Paragraphs()
    page.feed(markup)
    page.close()
    title = page.words("title") or page.words("h1")
    return {"text": page.words("text"), **({"title": title} if title else {})}


class _Paragraphs(HTMLParser):
    """Collects the `title` of a page, its first heading `h1`, and its `text`."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[str]] = {"title": [], "h1": [], "text": []}
        self.inside: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.inside[tag] += 1
        self._part(tag)

    def handle_endtag(self, tag: str) -> None:
        self.inside[tag] = max(self.inside[tag] - 1, 0)
        self._part(tag)
        if tag == "h1":
            self.inside["h1 is over"] = 1

    def handle_data(self, data: str) -> None:
        if any(self.inside[tag] for tag in _LEFT_OUT):
            return
        if self.inside["h1"] and not self.inside["h1 is over"]:
            self.found["h1"].append(data)
        self.found["title" if self.inside["title"] else "text"].append(data)

    def words(self, of: str) -> str:
        """The paragraphs of what was collected as `of`, with single spaces between words."""
        paragraphs = (" ".join(paragraph.split()) for paragraph in "".join(self.found[of]).split("\n\n"))
        return "\n\n".join(filter(None, paragraphs))

    def _part(self, tag: str) -> None:
        if _BLOCK.fullmatch(tag):
            self.found["text"].append("\n\n")


def _pdf(path: Path, source: str) -> Iterator[dict[str, Any]]:
    pypdf = _needed("pypdf", source)
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns about files that it can read
    with pypdf.PdfReader(path) as reader:
        if reader.is_encrypted and not reader.decrypt(""):
            raise InputError(f"{source}: the file is encrypted; save it without a password")
        title = reader.metadata.title if reader.metadata else None
        named = {"title": " ".join(str(title).split())} if title else {}
        for number, page in enumerate(reader.pages, 1):
            yield {"text": page.extract_text(), **named, "page": number}


def _needed(module: str, source: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(f"{source}: its reader is not installed; pip install 'contrastive-st[documents]'") from None


_READERS = {".md": _markdown, ".html": _html, ".htm": _html, ".pdf": _pdf}


TABLES: dict[str, Callable[[Path, str], Rows]] = {
    ".txt": _text,
    ".csv": table,
    ".tsv": table,
    ".json": _objects,
    ".jsonl": _objects,
    ".parquet": _parquet,
}
#: The reader of each extension; the last four are documents, with one row per document or page
FORMATS = {**TABLES, ".md": _document, ".html": _document, ".htm": _document, ".pdf": _document}


def estimated_rows(path: Path) -> int:
    """The number of rows: exact for Parquet and small files, else estimated from the lines of the first 4 MiB."""
    suffix = path.suffix.lower()
    with reading(path):
        if suffix == ".parquet":
            return int(pq.read_metadata(path).num_rows)
        if suffix not in TABLES:
            return 1
        with open(path, "rb") as file:
            sample = file.read(_SAMPLE)
        return round(sample.count(b"\n") * path.stat().st_size / max(len(sample), 1)) + (not sample.endswith(b"\n"))
