"""Read files of rows and documents (Markdown, HTML, PDF). The readers of documents come with the extra `documents`."""

from __future__ import annotations

import importlib
import logging
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from contrastive_st.data.reading import TABLES, Row, Table
from contrastive_st.data.reading.content import (
    MissingData as MissingData,
    check_file as check_file,
    content_digest as content_digest,
    decode,
    format_of,
    numbered_lines as numbered_lines,
    open_bytes,
    path_of as path_of,
    reading as reading,
    utf8 as utf8,
)
from contrastive_st.data.reading.objects import check_whole, parse_json as parse_json
from contrastive_st.data.reading.table import check_utf8 as check_utf8, open_file
from contrastive_st.errors import InputError, first_line, install

Rows = Table
_SAMPLE = 4 << 20  # bytes in which rows are counted to estimate their number in a file


def open_rows(path: str | Path, source: str | None = None, header: bool | None = None) -> Table:
    """Open a table (`open_table`) or a document.

    Args:
        path: the file.
        source: name of the file in messages.
        header: whether the first row of a table holds the names of its columns; by default it is found out.

    Raises:
        InputError: the file does not exist, or there is no reader for its extension.
    """
    path, source = Path(path), str(path) if source is None else source
    if format_of(path) in TABLES:
        return open_file(path, source, header)
    if path.suffix.lower() in _READERS or not path.exists():
        check_file(path, source)
        return _document(path, source)
    raise InputError(
        f"{source}: no reader for {path.suffix or 'no extension'}; rename it to one of {', '.join(FORMATS)}"
    )


# --- Documents as plain text.

_LEFT_OUT = ("script", "style", "noscript", "template", "svg", "nav")
_BLOCK = re.compile(
    "address|article|aside|blockquote|br|caption|dd|details|div|dl|dt|figcaption|figure|footer|h[1-6]|header|hr|li|main|ol"
    "|p|pre|section|summary|table|td|th|title|tr|ul"
)
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


def _document(path: Path, source: str) -> Table:
    check_whole(path, source, "a document", "split it")
    return Table(source, "page" if path.suffix.lower() == ".pdf" else "document", lambda: read_document(path, source))


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


def _read(path: Path, source: str) -> str:
    return decode(path.read_bytes(), source)[0].replace("\r\n", "\n")


def _html(path: Path, source: str) -> Iterator[dict[str, Any]]:
    yield _of_html(_read(path, source))


def _markdown(path: Path, source: str) -> Iterator[dict[str, Any]]:
    text = _FRONT_MATTER.sub("", _read(path, source) + "\n")
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
        raise InputError(f"{source}: its reader is not installed; {install('documents')}") from None


_READERS = {".md": _markdown, ".html": _html, ".htm": _html, ".pdf": _pdf}


#: The extensions of tables, then those of documents, with one row per document or page
FORMATS = (*TABLES, *_READERS)


def estimated_rows(path: Path) -> int:
    """The number of rows: exact for Parquet and small files, else estimated from the lines of the first 4 MiB."""
    suffix = format_of(path)
    with reading(path):
        if suffix == ".parquet":
            return int(pq.read_metadata(path).num_rows)
        if suffix not in TABLES:
            return 1
        with open_bytes(path) as file:
            sample = file.read(_SAMPLE)
        return round(sample.count(b"\n") * path.stat().st_size / max(len(sample), 1)) + (not sample.endswith(b"\n"))
