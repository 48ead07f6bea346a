"""Documents as plain text: HTML, Markdown, PDF, office files, mail; with what they say of author, date, tags.

`READERS` has a function for each extension. Office files, PDF and most others are read by kreuzberg, HTML by the
standard library, whose parser goes on after a tag that is not closed, and Markdown as the HTML that markdown-it makes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import yaml

from contrastive_st.data.reading.content import check_file, decode, format_of, open_bytes, reading
from contrastive_st.errors import InputError, about, require

NOTES = "\0notes"  # the cell of a part with what there is to say of its reading, such as its encoding
LARGEST = 1 << 28  # bytes; a document is read as a whole
Cells = dict[str, Any]
_HIDDEN = re.compile(r"<!(--)|<(script|style|noscript|template|svg|nav)\b[^<>]*>", re.IGNORECASE)  # no text of a page
_BLOCK = re.compile(
    "address|article|aside|blockquote|br|button|caption|dd|details|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6]"
    "|header|hr|legend|li|main|ol|optgroup|option|p|pre|section|select|summary|table|td|textarea|th|title|tr|ul"
)
_FRONT_MATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.{,65536}?\n)(?:---|\.\.\.)[ \t]*\r?(?:\n|\Z)", re.DOTALL)
_OF_BROWSERS = re.compile(
    "viewport|robots|generator|referrer|theme-color|color-scheme|format-detection|(csrf-|twitter:|google|msapplication"
    "|apple-|og:).*"
)
_ENCRYPTED_OFFICE = "EncryptedPackage".encode("utf-16-le")
_FOOTNOTE = re.compile(r"^\.\. \[[^\]\n]+\]|\\footnote\b|^\[fn:", re.MULTILINE)  # of .rst, .tex, .org
#: What kreuzberg 4.10 drops from the parts of an archive, so that words are joined, and what to write for it
_DROPPED = {
    ".docx": (rb"<w:(tab|cr) ?/>", b'<w:t xml:space="preserve"> </w:t>'),
    ".odt": (rb"<text:(s|tab)\b[^>]*/>|(?=</text:p>)", b" "),
}


class Encrypted(InputError):
    """A document that only a password opens."""


def read_document(path: Path, source: str) -> Iterator[Cells]:
    """Yield the parts of a document: `text`, `title` if it has one, and what it says of author, date and tags.

    A PDF has a part for each page, with its number as `page`; any other document is one part.

    Args:
        path: the file; its extension is one of `READERS`.
        source: its name in messages.

    Raises:
        InputError: it is empty, too large, encrypted, or its reader is not installed. Errors of parsers pass.
    """
    check_file(path, source)
    with about(source):
        yield from READERS[format_of(path)](path, source)


def missing_reader(suffix: str) -> bool:
    """Whether documents with this extension need the extra `documents`, which is not installed."""
    needed = "markdown_it" if suffix in _MARKDOWN else "kreuzberg" if READERS[suffix] is _office else "html"
    return importlib.util.find_spec(needed) is None


# --- HTML and Markdown.


def _page(path: Path, source: str) -> Iterator[Cells]:
    text, read_as = _decoded(_content(path, source), source)
    text, front = front_matter(text)  # of a page for Jekyll, if it is HTML
    if format_of(path) in _MARKDOWN:
        markdown_it: Any = require(f"the reader of {source}", "documents", "markdown_it")
        parser = markdown_it.MarkdownIt("commonmark").enable("table")
        parser.block.ruler.before("reference", "footnote", _footnote)
        text = parser.render(text)
    page = of_html(text)
    yield {**page, **front, "text": page["text"], NOTES: read_as + front.get(NOTES, [])}


def _footnote(state: Any, first: int, last: int, silent: bool) -> bool:
    """Reads `[^1]: word` as text: the next rule of `markdown_it` would take it for the address of a link."""
    if not state.src.startswith("[^", state.bMarks[first] + state.tShift[first]):
        return False
    return bool(state.md.block.ruler.getRules("")[-1](state, first, last, silent))  # that of paragraphs


def front_matter(text: str) -> tuple[str, Cells]:
    """A text without the YAML at its start, and what that says.

    Scalars of YAML are what YAML 1.2 takes them for, and numbers that would not be written the same way again stay
    text: `no`, `12:30`, `007` and `1.10` are text.

    Example:
        >>> front_matter("---\\nauthor: Ann\\ntags: [sea]\\nversion: 1.10\\n---\\nOn tides\\n")
        ('On tides\\n', {'author': 'Ann', 'tags': ['sea'], 'version': '1.10'})
    """
    if not (match := _FRONT_MATTER.match(text)):
        return text, {}
    try:
        facts = yaml.load(match[1].replace("\r\n", "\n"), _Plain)
    except (yaml.YAMLError, RecursionError, ValueError):  # a rule, a dialogue
        return text, {NOTES: ["front matter that cannot be read is text"]}
    if not isinstance(facts, dict):
        return text, {}
    return text[match.end() :].removeprefix("\n"), {str(key): value for key, value in facts.items()}


class _Plain(yaml.SafeLoader):
    """The core schema of YAML 1.2, with dates, and without aliases, a few of which stand for gigabytes."""

    yaml_implicit_resolvers: Mapping[str, object] = {}

    def compose_node(self, parent: object, index: object) -> object:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it has an alias")
        return super().compose_node(parent, index)

    def date(self, node: yaml.ScalarNode) -> object:
        try:
            return self.construct_yaml_timestamp(node)
        except ValueError:  # such as 2024-02-30
            return node.value


_TIMESTAMP = next(kind for tag, kind in yaml.SafeLoader.yaml_implicit_resolvers["2"] if tag.endswith(":timestamp"))
for _tag, _pattern, _first in (
    ("null", re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")),
    ("int", re.compile(r"-?(?:0|[1-9][0-9]{0,14})\Z"), list("-0123456789")),
    ("float", re.compile(r"-?(?:0|[1-9][0-9]{0,14})\.[0-9]{0,13}[1-9]\Z"), list("-0123456789")),
    ("timestamp", _TIMESTAMP, list("0123456789")),
):
    _Plain.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)
_Plain.add_constructor("tag:yaml.org,2002:timestamp", _Plain.date)


def of_html(markup: str) -> Cells:
    """The text of a page with a blank line between paragraphs, its title or first heading, and what `<meta>` says.

    A tag that is never closed hides nothing.

    Example:
        >>> of_html("<title>Tides</title><meta name=author content=Ann><p>The <b>moon<p>pulls<nav>.")
        {'author': 'Ann', 'title': 'Tides', 'text': 'The moon\\n\\npulls .'}
    """
    page = _Page()
    page.feed(_visible(markup))
    rest, page.rawdata = page.rawdata, ""  # what follows a tag without its ">"
    page.handle_data(re.sub(r"<[^<>]*>", " ", rest))
    page.close()
    title = page.paragraphs("title") or page.paragraphs("h1")
    facts = {name: values[0] if len(values) == 1 else values for name, values in page.facts.items()}
    return {**facts, **({"title": title} if title else {}), "text": page.paragraphs("text")}


def _visible(markup: str) -> str:
    """A page without comments, scripts and the like; of one that is not closed, only its beginning is left out."""
    pieces, at, unclosed = [], 0, set[str]()
    while opening := _HIDDEN.search(markup, at):
        pieces += [markup[at : opening.start()], " " * (opening[2] is not None)]  # a comment may be inside a word
        at, closing = opening.end(), "-->" if opening[1] else rf"</{opening[2].lower()}\s*>"
        if closing not in unclosed:
            if end := re.compile(closing, re.IGNORECASE).search(markup, at):
                at = end.end()
            else:
                unclosed.add(closing)
    return "".join([*pieces, markup[at:]])


class _Page(HTMLParser):
    """Collects the `title` of a page, its first heading `h1`, its `text` and its `facts`."""

    CDATA_CONTENT_ELEMENTS = RCDATA_CONTENT_ELEMENTS = ()  # type: ignore[misc]

    def __init__(self) -> None:
        super().__init__()
        self.collected: dict[str, list[str]] = {"title": [], "h1": [], "text": []}
        self.facts: dict[str, list[str]] = {}
        self.open: dict[str, int] = {}  # where the text of an element begins, by its tag

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._break(tag)
        self.open.setdefault(tag, len(self.collected["text"]))
        if tag == "meta":
            attributes = dict(attrs)
            name = (attributes.get("name") or attributes.get("property") or "").lower()  # its case does not count
            value = attributes.get("content")
            if name and value and not _OF_BROWSERS.fullmatch(name):
                values = value.split(",") if name == "keywords" else [value]
                self.facts.setdefault(name, []).extend(filter(None, map(str.strip, values)))

    def handle_endtag(self, tag: str) -> None:
        start, text = self.open.pop(tag, None), self.collected["text"]
        if start is not None and tag in ("title", "h1"):
            self.collected[tag] = self.collected[tag] or text[start:]
            if tag == "title":
                del text[start:]
        self._break(tag)

    def handle_data(self, data: str) -> None:
        self.collected["text"].append(data)

    def paragraphs(self, of: str) -> str:
        """The paragraphs of what was collected as `of`, with single spaces between words."""
        parts = (" ".join(paragraph.split()) for paragraph in "".join(self.collected[of]).split("\n\n"))
        return "\n\n".join(filter(None, parts))

    def _break(self, tag: str) -> None:
        if _BLOCK.fullmatch(tag):
            self.collected["text"].append("\n\n")


# --- What kreuzberg reads.


def _with_blanks(content: bytes, dropped: bytes, written: bytes) -> tuple[bytes, bool]:
    """An archive with what is `written` for all that is `dropped`; and whether it is one of Word that has text boxes.

    What is not such an archive, or larger than `LARGEST` when it is unpacked, is left as it is.
    """
    made, boxes = io.BytesIO(), False
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as other:
            if sum(part.file_size for part in archive.infolist()) > LARGEST:
                return content, False
            for part in archive.infolist():
                held = archive.read(part)
                boxes = boxes or b"<w:txbxContent" in held
                other.writestr(part, re.sub(dropped, written, held) if part.filename.endswith(".xml") else held)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error):  # kreuzberg says what it is
        return content, False
    return made.getvalue(), boxes


def _office(path: Path, source: str) -> Iterator[Cells]:
    kreuzberg: Any = require(f"the reader of {source}", "documents", "kreuzberg")
    content, suffix = _content(path, source), format_of(path)
    if _ENCRYPTED_OFFICE in content:
        raise Encrypted(f"{source} is encrypted; save it without a password")
    read_as = list[str]()
    if suffix in _OF_TEXT:  # which kreuzberg reads as UTF-8, whatever they are
        text, read_as = _decoded(content, source)
        if suffix == ".ipynb" and '"worksheets"' in text:  # of nbformat 3, which kreuzberg takes to be blank
            notebook = json.loads(text)
            sheets = notebook.get("worksheets", [])
            cells = [{"source": cell.get("input", ""), **cell} for sheet in sheets for cell in sheet["cells"]]
            text = json.dumps({"cells": cells, "metadata": {}, **notebook, "nbformat": 4})
        content = text.encode()
        read_as += ["footnotes are not read"] if _FOOTNOTE.search(text) else []
    if suffix in _DROPPED:
        content, boxes = _with_blanks(content, *_DROPPED[suffix])
        read_as += ["of a paragraph with a text box, the text of the box alone is read"] if boxes else []
    if suffix in _SHEETS:
        read_as.append("spreadsheets are read as text, not as tables (save them as .csv to index their rows)")
    with tempfile.NamedTemporaryFile(suffix=suffix) as empty:  # of a compressed file, the extension before counts
        named = str(path) if path.suffix.lower() == suffix else empty.name
        kind = str(kreuzberg.detect_mime_type_from_path(named))
    options = {"use_cache": False, "disable_ocr": True, "enable_quality_processing": False, "output_format": "plain"}
    pages = kreuzberg.PageConfig(extract_pages=suffix == ".pdf")
    try:
        result = kreuzberg.extract_bytes_sync(content, kind, kreuzberg.ExtractionConfig(**options, pages=pages))
    except kreuzberg.ParsingError as error:
        if "password" in str(error):
            raise Encrypted(f"{source} is encrypted; save it without a password") from None
        raise
    metadata = result.metadata
    authors = metadata.get("authors") or metadata.get("created_by") or metadata.get("from_email") or []
    authors, date = [authors] if isinstance(authors, str) else authors, str(metadata.get("created_at") or "")
    with contextlib.suppress(ValueError, TypeError):  # a date of a mail; any other is as it is
        date = parsedate_to_datetime(date).isoformat()
    facts = {
        "title": " ".join(str(metadata.get("title") or metadata.get("subject") or "").split()),
        "author": authors[0] if len(authors) == 1 else authors,
        "date": date,
        "keywords": metadata.get("keywords"),
    }
    facts = {name: value for name, value in facts.items() if value}
    parts = [{"text": result.content}]
    if suffix == ".pdf":
        parts = [{"text": "\n".join(page["content"].splitlines()), "page": page["page_number"]}
                 for page in result.pages or []]  # fmt: skip
    for part in parts:
        if "\0" in part["text"]:  # the bytes of a file that its reader does not understand
            raise InputError(f"{source} is not a {suffix} file")
        yield {**facts, **part, NOTES: read_as}


def _content(path: Path, source: str) -> bytes:
    with reading(source), open_bytes(path) as file:
        content = b"" if path.stat().st_size > LARGEST else file.read(LARGEST + 1)
    if not 0 < len(content) <= LARGEST:
        raise InputError(f"{source} has more than {LARGEST:,} bytes, and is read as a whole; split it")
    return content


def _decoded(content: bytes, source: str) -> tuple[str, list[str]]:
    """The text of a document, and a note of its encoding if that is not UTF-8."""
    text, encoding = decode(content, source)
    plain = encoding.lower().startswith(("utf-8", "utf8", "ascii", "us-ascii"))
    return text, [] if plain else [f"not UTF-8: read as {encoding}"]


_OF_TEXT = (".rst", ".org", ".tex", ".ipynb", ".fb2")
_MARKDOWN = (".md", ".markdown")
_SHEETS = (".xlsx", ".xls", ".ods")
_OFFICE = ".docx .doc .odt .rtf .pptx .ppt .xlsx .xls .ods .epub .fb2 .rst .org .tex .ipynb .eml .msg .pdf".split()  # noqa: SIM905
#: The reader of each extension
READERS: dict[str, Callable[[Path, str], Iterator[Cells]]] = {
    **dict.fromkeys((".html", ".htm", ".xhtml", *_MARKDOWN), _page),
    **dict.fromkeys(_OFFICE, _office),
}
