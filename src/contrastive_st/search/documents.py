"""Corpora, read as a stream: files and folders, data sets of the Hub, the installed documentation."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from contrastive_st.data.reading import (
    TABLES,
    Row,
    Table,
    decode,
    files_of,
    header_of,
    hub_commit,
    is_saved,
    open_table,
    path_of,
    reading,
    stored,
)  # fmt: skip
from contrastive_st.data.reading.content import check_file, format_of, open_bytes
from contrastive_st.data.reading.table import open_file
from contrastive_st.data.roles import text_column
from contrastive_st.errors import InputError, install, one_line
from contrastive_st.files.caches import own_cache
from contrastive_st.files.writing import atomic_write
from contrastive_st.search.document_readers import NOTES, READERS, Encrypted, missing_reader, read_document
from contrastive_st.search.report import LeftOut, Report
from contrastive_st.search.splitting import FILES, LINES, WHOLE, is_list, split
from contrastive_st.search.values import as_id, as_metadata, plain

_INTEGER_OR_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{0,13}[1-9])?")
_LONGEST_VALUE = 1000  # longest text (or list, as JSON), in characters, that is kept as metadata by default
_LONGEST_DOCUMENT = 1 << 24  # bytes; a text file beyond this is a list unless it is said that it is not
_FRESH = 2_000_000_000  # nanoseconds: a file written more recently may change again within the same time stamp
_SAMPLE = 4 << 20  # bytes in which lines are counted to estimate their number in a file
_FIRST = 200  # lines by which a text file is a list or a document
BLANK, UNREADABLE, ENCRYPTED, HIDDEN, LINKED = "blank", "unreadable", "encrypted", "hidden", "linked folders"
SCANNED = "pages without text, as of a scan (recognize their text first)"
UNSUPPORTED = "of an unsupported type"
MISSING = f"without a reader ({install('documents')})"


@dataclass(frozen=True)
class Document:
    """A row of the index.

    Args:
        text: its text.
        metadata: by column.
        chunks: the texts that are encoded for it.
        row: its row in the corpus.
        id: its own id, if the corpus has ids.
        where: its file and row, for messages.
    """

    text: str
    metadata: dict[str, Any]
    chunks: tuple[str, ...]
    row: int
    id: int | None = None
    where: str = ""


@dataclass(frozen=True)
class Corpus:
    """Documents in a fixed order, read as a stream, any number of times.

    Args:
        name: its name in the store, where a corpus is indexed once.
        fingerprint: changes with the content or the way of splitting, so that an interrupted run is not continued with
            other documents.
        documents: yields the documents, from the first on, and counts in a report what is left out.
        rows: about how many rows the source has; None if unknown.
        own_ids: the documents have the ids of a column of the corpus, not the numbers of their rows.
        mixed: it is a folder of several formats, whose rows have different columns.
    """

    name: str
    fingerprint: str
    documents: Callable[[Report], Iterator[Document]]
    rows: int | None = None
    own_ids: bool = False
    mixed: bool = False

    def read(self, report: Report | None = None) -> Iterator[Document]:
        """Yield the documents, from the first on."""
        return self.documents(Report() if report is None else report)


def open_corpus(
    source: str,
    *,
    column: str | None = None,
    metadata: Sequence[str] | None = None,
    hub_split: str = "train",
    lines: bool | None = None,
) -> Corpus:
    """Open a corpus: a document for each row of a table, each line of a list of sentences, and each other text.

    Args:
        source: a table, text file or document (`TABLES` of `data.reading`, `READERS` of `document_readers`), a folder
            of such files, of which it leaves out what it cannot read, a pattern such as `part-*.jsonl`, a folder of
            `save_to_disk`, or a data set of the Hub, "owner/name" or "owner/name:config", which is streamed. Of a
            folder all files are documents, also where their names are those of splits.
        column: the column of the texts of tables; by default the one named `text`, or the only one of sentences.
        metadata: columns to keep as metadata; by default all others, but for texts of more than 1,000 characters.
        hub_split: the split of a data set of the Hub, or of a folder that has splits.
        lines: whether each line of a text file is a document; by default this is found out of each (`is_list`).

    Raises:
        InputError: the source does not exist or has another format than its name says; names file and row.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "talks.csv")
        ...     _ = path.write_text("text,year\\nOn tides,1999\\nOn rain,2004\\n")
        ...     [(document.text, document.metadata) for document in open_corpus(str(path)).read()]
        [('On tides', {'year': 1999}), ('On rain', {'year': 2004})]
    """
    asked = [str(column), str(metadata), *([] if lines is None else [f"lines={lines}"])]
    if not isinstance(source, (str, Path)):
        raise InputError("a corpus is one file, folder, pattern or data set; name a folder or a pattern of the files")
    source, choice = str(source), _Choice(str(source), column, metadata, lines)
    with reading(source):
        path = path_of(source)
        folder, saved = path.is_dir(), path.is_dir() and is_saved(path)
        named = format_of(path) in (*TABLES, *READERS) or path.is_absolute() or source.startswith(".") or path.exists()
    if saved:
        files = sorted(file for file in path.rglob("*") if file.is_file())
        parts = [*asked, hub_split, *itertools.chain.from_iterable(_content(file, file.name) for file in files)]
        opened = partial(open_table, source, split=hub_split)
        return Corpus(str(path.absolute()), _digest(parts), lambda report: choice.documents([opened], report))
    if not named:
        commit = hub_commit(source, hub_split)
        read = lambda: itertools.starmap(Row, enumerate(stored(source, hub_split, streaming=True, revision=commit), 1))
        table = Table(source, "row", read, sampled=1000)
        return Corpus(f"hub:{source}:{hub_split}", _digest([*asked, commit]),
                      lambda report: choice.documents([lambda: table], report))  # fmt: skip
    name = str(path.absolute())
    pattern = next((part for part in path.parts if set("*?[") & set(part)), None) if not path.exists() else None
    if pattern:
        listing = [(file, "") for file in files_of(source) or []]
        path, folder = Path(*path.parts[: path.parts.index(pattern)]), True
    if not folder and format_of(path) not in (*TABLES, *READERS):
        known = ", ".join((*TABLES, *READERS))
        raise InputError(f"{source}: no reader for {path.suffix or 'no extension'}; save or name it as one of {known}")
    if not folder:
        check_file(path, source)
    if not pattern:
        listing = _listing(path) if folder else [(path, "")]
    files = [file for file, reason in listing if not reason]
    contents = itertools.chain.from_iterable(_content(file, _name(file, path)) for file in files)
    return Corpus(
        name,
        _digest([*asked, *contents]),
        partial(choice.of_files, path, listing),
        sum(_estimated_rows(file) for file in files),
        mixed=len({format_of(file) for file in files}) > 1,
    )


def installed_docs_corpus() -> Corpus:
    """A corpus of explanations in the docstrings of the installed packages, with `title`, `source` and `package`."""
    from contrastive_st.data import installed_docs
    from contrastive_st.data.documentation import environment_fingerprint

    pairs = installed_docs()

    def read(report: Report) -> Iterator[Document]:
        for row, pair in enumerate(pairs):
            metadata = {"title": pair.title, "source": pair.source, "package": pair.source.split(".")[0]}
            yield Document(pair.text, metadata, (pair.text,), row)

    return Corpus("installed-docs", environment_fingerprint(), read, len(pairs))


def texts_corpus(name: str, texts: Sequence[str], metadata: Sequence[Mapping[str, Any]] | None = None) -> Corpus:
    """A corpus of texts in memory."""
    kept = as_metadata(metadata, len(texts))
    documents = [Document(text, item, (text,), i) for i, (text, item) in enumerate(zip(texts, kept, strict=True))]
    digest = _digest([json.dumps(kept, sort_keys=True), *texts])
    return Corpus(name, digest, lambda report: iter(documents), len(texts))


def cut(corpus: Corpus, into: str, pool: bool = False) -> Corpus:
    """The corpus with its documents split into `lines`, `sentences` or `passages`.

    Each chunk becomes a document with `document` (the row it comes from) and `part` in its metadata. With `pool` the
    documents stay whole, and the vector of a document is the mean of those of its chunks.
    """
    if into in (WHOLE, FILES):
        return corpus
    split("", into)  # an unknown value is an error here, not at the first document

    def read(report: Report) -> Iterator[Document]:
        for document in corpus.read(report):
            chunks = split(document.text, into) or [document.text]
            if pool or (into == LINES and len(chunks) == 1):
                yield replace(document, chunks=tuple(chunks), id=None)
                continue
            for number, chunk in enumerate(chunks):
                place = {"document": document.row, "part": number}
                yield Document(chunk, {**document.metadata, **place}, (chunk,), document.row, None, document.where)

    return replace(corpus, fingerprint=_digest([corpus.fingerprint, into, str(pool)]), documents=read, own_ids=False)


def identified(corpus: Corpus, column: str = "id") -> Corpus:
    """The corpus with its documents' own ids, in a column of their metadata (see `as_id`).

    So a row that has changed replaces the former one where it is indexed again, and one that has not is left alone.

    Raises:
        InputError: when it is read: a row has no id, or that of another row.

    Example:
        >>> talks = texts_corpus("talks", ["On tides", "On rain"], [{"id": 7}, {"id": "b"}])
        >>> [document.id for document in identified(talks).read()]
        [7, 4771952420932724666]
    """

    def read(report: Report) -> Iterator[Document]:
        rows: dict[int, int] = {}
        for document in corpus.read(report):
            where = f"{corpus.name}, row {document.row + 1}"
            cell = document.metadata.get(column)
            if cell is None or isinstance(cell, (bool, float, list, dict)):
                there = ", ".join(document.metadata) or "nothing"
                fault = f"there is no {column}" if cell is None else f"{cell!r} is not an id"
                raise InputError(f"{where}: {fault}; name another --id_column (its metadata has {there})")
            id = as_id(cell)
            if rows.setdefault(id, document.row) != document.row:
                raise InputError(f"{where} has the {column} of row {rows[id] + 1}; give each row its own, or name "
                                 "another --id_column ('' numbers the rows)")  # fmt: skip
            yield replace(document, id=id)

    return replace(corpus, fingerprint=_digest([corpus.fingerprint, "ids", column]), documents=read, own_ids=True)


# --- Folders.


def _listing(folder: Path) -> list[tuple[Path, str]]:
    """The files of a folder in the order of their names, each with the reason why it is left out, or a blank."""
    found: list[tuple[Path, str]] = []
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in list(folders):
            path = Path(place, name)
            reason = HIDDEN if name.startswith(".") else LINKED if path.is_symlink() else ""
            if reason:
                folders.remove(name)
                found.append((path, reason))
        found += [(path, _left_out(path)) for path in map(Path(place).joinpath, files)]
    return sorted(found)


def _left_out(path: Path) -> str:
    """Why a file is left out without being opened; blank if it is not."""
    if path.name.startswith((".", "~$")):
        return HIDDEN
    suffix = format_of(path)
    if suffix not in (*TABLES, *READERS):
        return UNSUPPORTED
    if suffix in READERS and missing_reader(suffix):
        return MISSING
    try:
        facts = path.stat()
    except OSError:
        return UNREADABLE
    return "" if stat.S_ISREG(facts.st_mode) and os.access(path, os.R_OK) else UNREADABLE


def _name(path: Path, corpus: Path) -> str:
    """The name of a file of a corpus, which may be that file alone."""
    return path.name if path == corpus else path.relative_to(corpus).as_posix()


# --- Rows to documents.


@dataclass(frozen=True)
class _Choice:
    """Chooses the cells of a row that are its text and its metadata."""

    source: str
    column: str | None
    metadata: Sequence[str] | None
    lines: bool | None

    def of_files(self, corpus: Path, listing: Sequence[tuple[Path, str]], report: Report) -> Iterator[Document]:
        """The documents of the files of a corpus."""
        for path, reason in listing:
            if reason:
                report.leave_out(reason, _name(path, corpus))
        opened = [partial(self._opened, path, corpus, report) for path, reason in listing if not reason]
        yield from self.documents(opened, report, skip=corpus.is_dir())

    def documents(
        self, tables: Iterable[Callable[[], Table]], report: Report, skip: bool = False
    ) -> Iterator[Document]:
        """The documents of tables; with `skip`, one that is at fault is left out from there on."""
        row, kept = 0, 0
        for opened in tables:
            try:
                for document in self._of_table(opened(), row, report):
                    row = document.row + 1
                    if document.text:
                        kept += 1
                        yield document
            except LeftOut:
                raise
            except Exception as error:  # parsers raise a dozen kinds of errors for damaged files
                if not skip:
                    raise
                report.leave_out(
                    ENCRYPTED if isinstance(error, Encrypted) else UNREADABLE, one_line(error) or repr(error)
                )
        if not kept:
            raise InputError("; ".join([f"{self.source}: there is nothing to index", *report.lines()]))

    def _of_table(self, table: Table, first: int, report: Report) -> Iterator[Document]:
        """The documents of a table, the blank ones too; their rows are numbered from `first`."""
        column = ""
        for note in table.notes:
            report.say(note, table.source)
        for row, (number, cells) in enumerate(table, first):
            for note in cells.get(NOTES, ()):
                report.say(note, table.source)
            column = column or self._column(table, cells)
            text = cells.get(column)
            if text is not None and not isinstance(text, str):
                held = type(text).__name__
                raise InputError(
                    f"{table.where(number)}: column {column!r} holds {held}, not text; name another --column"
                )
            text = (text or "").strip()
            if not text:
                report.leave_out(SCANNED if table.unit == "page" else BLANK, table.where(number))
            kept = self._kept(table, cells, column, report) if text else {}
            yield Document(text, kept, (text,), row, None, table.where(number))

    def _column(self, table: Table, cells: Mapping[str, Any]) -> str:
        """The column of the texts of a table, of which this is the first row."""
        if table.unit in ("document", "page"):
            return "text"
        for name in self.metadata or ():
            if name not in cells and name not in table.names:
                raise InputError(f"{table.source}: there is no column {name!r}; there is: {', '.join(table.names)}")
        if self.column is None and "text" in cells:
            return "text"
        return self.column if self.column and self.column in cells else text_column(table, self.column)

    def _kept(self, table: Table, cells: Mapping[str, Any], column: str, report: Report) -> dict[str, Any]:
        value = typed if format_of(Path(table.source)) in (".csv", ".tsv") else plain
        if self.metadata is not None:
            return {name: value(cells[name]) for name in self.metadata if name in cells}
        kept = {}
        for name, cell in cells.items():
            if name in (column, NOTES) or cell is None or cell == "":
                continue
            if isinstance(cell, bytes) or len(cell if isinstance(cell, str) else str(cell)) > _LONGEST_VALUE:
                report.columns.setdefault(name, None)
            elif (held := value(cell)) is not None:
                kept[name] = held
        return kept

    def _opened(self, path: Path, corpus: Path, report: Report) -> Table:
        """The rows of a file: of a table, or of a text or document, which know the name of the file."""
        name = _name(path, corpus)
        source = name if corpus != path else self.source
        if format_of(path) in READERS:
            unit = "page" if format_of(path) == ".pdf" else "document"
            return Table(source, unit, lambda: _rows({**part, "file": name} for part in read_document(path, source)))
        table = open_file(path, source, header_of(None if self.column is None else [self.column]))
        if table.unit != "line" or table.columns != ["text"]:
            return table
        lines = self.lines
        if lines is None:
            first = [row.cells["text"] for row in itertools.islice(table, _FIRST)]
            lines = is_list(first) or path.stat().st_size > _LONGEST_DOCUMENT
            report.text_files[lines] += 1
        if lines:
            known, rows = {} if path == corpus else {"file": name}, table.read
            return replace(table, read=lambda: (Row(number, {**cells, **known}) for number, cells in rows()))
        return replace(table, unit="document", read=lambda: _rows([{"text": _text(path, source), "file": name}]))


def content_digest(path: Path) -> str:
    """A digest of the content of a file; it is cached until the size, the time or the inode of the file changes."""
    with reading(path):
        facts = path.stat()
        known = [facts.st_size, facts.st_mtime_ns, facts.st_ino]
        place = hashlib.blake2b(str(path.resolve()).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
        kept = own_cache("digests") / f"digest-{place}.json"
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
            contextlib.suppress(OSError, InputError),  # without a writable cache, the digest is computed each time
            atomic_write(kept, overwrite=True, parents=True) as new,
        ):
            new.write_text(json.dumps([*known, content.hexdigest()]), encoding="utf-8")
    return content.hexdigest()


def _rows(cells: Iterable[dict[str, Any]]) -> Iterator[Row]:
    return itertools.starmap(Row, enumerate(cells, 1))


def _text(path: Path, source: str) -> str:
    with reading(source), open_bytes(path) as file:
        return decode(file.read(), source)[0]


def typed(cell: Any) -> Any:
    """A cell of a delimited table, as a number where that is written in the same way; `007` and `1.10` stay text."""
    if not isinstance(cell, str):
        return plain(cell)
    if not _INTEGER_OR_DECIMAL.fullmatch(cell):
        return plain(cell)
    return float(cell) if "." in cell else int(cell)


def _estimated_rows(path: Path) -> int:
    """The number of rows: exact for small files and Parquet, else estimated from the lines of the first 4 MiB."""
    if format_of(path) in READERS:
        return 1
    if format_of(path) == ".parquet":
        import pyarrow.parquet as pq

        with reading(path):
            return int(pq.read_metadata(path).num_rows)
    with reading(path), open(path, "rb") as file:
        sample = file.read(_SAMPLE)
    return round(sample.count(b"\n") * path.stat().st_size / max(len(sample), 1)) + (not sample.endswith(b"\n"))


def _content(path: Path, name: str) -> list[str]:
    """What a file adds to the fingerprint of a corpus."""
    with reading(path):
        size = path.stat().st_size
        digest = (
            content_digest(path) if size > 1 << 21 else hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
        )
    return [name, str(size), digest]


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part.encode("utf-8", "surrogatepass")
        digest.update(str(len(content)).encode() + b" " + content)
    return digest.hexdigest()
