"""Markdown, HTML and PDF files as rows of plain text; their readers come with the extra `documents`."""

from __future__ import annotations

import importlib
import logging
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from contrastive_st.data.readers import Row, read_lines
from contrastive_st.errors import InputError, first_line

_LEFT_OUT = ("script", "style", "noscript", "template", "svg", "nav")
_BLOCK = re.compile(
    "address|article|aside|blockquote|br|caption|dd|details|div|dl|dt|figcaption|figure|footer|h[1-6]|header|hr|li|main|ol"
    "|p|pre|section|summary|table|td|th|title|tr|ul"
)
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


def read_document(path: Path, source: str) -> Iterator[Row]:
    """A file as `text`, `title` and `file`: a row a document, or with its number in `page` a row a page of a PDF.

    Raises:
        InputError: the file is damaged or encrypted, or its reader is not installed.
    """
    try:
        for number, cells in enumerate(_READERS[path.suffix.lower()](path, source), 1):
            yield Row(number, {**cells, "file": path.name})
    except (InputError, OSError):
        raise
    except Exception as error:  # parsers fail in a dozen ways on damaged files
        what = first_line(error) if not isinstance(error, RecursionError) else "it is nested too deeply"
        raise InputError(f"{source}: not a sound {path.suffix[1:]} file ({what}); write it anew") from error


def _html(path: Path, source: str) -> Iterator[dict[str, Any]]:
    yield _of_html("\n".join(read_lines(path)))


def _markdown(path: Path, source: str) -> Iterator[dict[str, Any]]:
    text = _FRONT_MATTER.sub("", "\n".join(read_lines(path)) + "\n")
    yield _of_html(_needed("markdown_it", source).MarkdownIt("commonmark").render(text))


def _of_html(markup: str) -> dict[str, Any]:
    """The paragraphs of a page with a blank line between, and its title or first heading."""
    page = _Paragraphs()
    page.feed(markup)
    page.close()
    title = page.words("title") or page.words("h1")
    return {"text": page.words("text"), **({"title": title} if title else {})}


class _Paragraphs(HTMLParser):
    """Text by what it stands in: the `title`, the first heading `h1`, and all the `text`."""

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
        """Its paragraphs, with single spaces between words."""
        paragraphs = (" ".join(paragraph.split()) for paragraph in "".join(self.found[of]).split("\n\n"))
        return "\n\n".join(filter(None, paragraphs))

    def _part(self, tag: str) -> None:
        if _BLOCK.fullmatch(tag):
            self.found["text"].append("\n\n")


def _pdf(path: Path, source: str) -> Iterator[dict[str, Any]]:
    pypdf = _needed("pypdf", source)
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of every oddity of a file that it reads all the same
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
