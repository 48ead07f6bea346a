"""Corpora, read as a stream: files and folders, data sets of the Hub, the installed documentation."""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from contrastive_st import text_format
from contrastive_st.data.profile import is_blank
from contrastive_st.data.reading import TABLES, Row, Table, hub_commit, is_saved, open_table, splits_of, stored
from contrastive_st.data.reading.content import check_file, decode, format_of, open_bytes, path_of, reading
from contrastive_st.data.reading.sources import partition_of
from contrastive_st.data.reading.table import open_file, with_cells
from contrastive_st.data.roles import named_columns
from contrastive_st.data.text_columns import text_column
from contrastive_st.errors import InputError, listed, one_line
from contrastive_st.search import values
from contrastive_st.search.column_types import MIXED, Column, as_recorded, as_type, value_in
from contrastive_st.search.document_readers import NOTES, READERS, Encrypted, front_matter, read_document
from contrastive_st.search.folder import MISSING, UNREADABLE, Entry, content_digests, digest_of, files_in, files_like
from contrastive_st.search.index import Files
from contrastive_st.search.report import AS_DOCUMENT, AS_LIST, LeftOut, Report
from contrastive_st.search.splitting import FILES, LINES, WHOLE, is_list, split

_LONGEST_VALUE = 1000  # characters: longer texts (and lists, as JSON) are not kept as metadata by default
_LONGEST_DOCUMENT = 1 << 24  # bytes; a larger text file is a list, unless `lines` is False
_SAMPLE = 4 << 20  # bytes in which lines are counted to estimate their number in a file
_FIRST = 200  # lines by which a text file is a list or a document
_DOCUMENT, _PAGE = "document", "page"  # what a row of a document is called in messages
_RECORDED = "the collection"  # why a column has another type than its cells are written as
BLANK, ENCRYPTED = "blank", "encrypted"
SCANNED = "pages without text, as of a scan (recognize their text first)"


@dataclass(frozen=True)
class Document:
    """A row of the index.

    Args:
        text: its text.
        metadata: by column.
        row: its row in the corpus.
        id: its id in the corpus, if the corpus has ids.
        where: its file and row, for messages.
        file: the name of its file in a folder.
        number: its row in that file.
        entire: it is all of that file.
        ids: the cell of the column of ids, by its name, also if that is not among the metadata; empty if there is none.
    """

    text: str
    metadata: dict[str, Any]
    row: int
    id: int | None = None
    where: str = ""
    file: str = ""
    number: int = 0
    entire: bool = False
    ids: Mapping[str, object] = field(default_factory=dict)


Read = Callable[["Report"], Iterator[Document]]


@dataclass(frozen=True)
class Corpus:
    """Documents in a fixed order, read as a stream, any number of times.

    Args:
        name: its name in the store, where a corpus is indexed once.
        state: changes with the content or the way of splitting, or returns what does: a large file is read for it.
        documents: yields the documents, from the first on, and counts in a report what is left out.
        rows: about how many rows the source has; None if unknown.
        own_ids: the documents have ids, so that they are not numbered by their rows.
        mixed: it has documents, or files of several formats, whose rows have different columns.
        files: of a folder, what is known of its files.
        rest: the corpus without the files of some names.
        types: of the columns of its tables, from the first time on that it is read.
    """

    name: str
    state: str | Callable[[], str]
    documents: Read
    rows: int | None = None
    own_ids: bool = False
    mixed: bool = False
    files: Files = field(default_factory=Files)
    rest: Callable[[Collection[str]], Corpus] | None = None
    types: Mapping[str, str] = field(default_factory=dict)

    @functools.cached_property
    def fingerprint(self) -> str:
        """The state; an interrupted run is not continued with documents of another one."""
        return self.state if isinstance(self.state, str) else self.state()

    def without(self, files: Collection[str]) -> Corpus:
        """The corpus without the files of these names."""
        return self.rest(files) if self.rest and files else self

    def read(self, report: Report | None = None) -> Iterator[Document]:
        """Yield the documents, from the first on."""
        return self.documents(Report() if report is None else report)


def open_corpus(
    source: str,
    *,
    column: str | Sequence[str] | None = None,
    metadata: Sequence[str] | None = None,
    hub_split: str = "train",
    lines: bool | None = None,
    types: Mapping[str, str] | None = None,
    former_types: Mapping[str, str] | None = None,
    where: str | None = None,
    id_column: str = "id",
) -> Corpus:
    """Open a corpus: a document for each row of a table, each line of a list of sentences, and each other text.

    Args:
        source: a table, text file or document (`TABLES` of `data.reading`, `READERS` of `document_readers`), a folder
            of such files, of which it leaves out what it cannot read, a pattern such as `part-*.jsonl`, a folder of
            `save_to_disk`, or a data set of the Hub, "owner/name" or "owner/name:config", which is streamed. Of a
            folder all files are documents, also where their names are those of splits.
        column: the column of the texts of tables. Several are one text, with the name of each before its cell. By
            default, and where a table of a folder has none of these, the one named `text`, or the only one with the
            name of a text.
        metadata: columns to keep as metadata; by default all others, but for texts of more than 1,000 characters.
        hub_split: the split of a data set of the Hub, or of a folder that has splits.
        lines: whether each line of a text file is a document; by default `is_list` decides for each. If it
            is False, a file of pages is one document too.
        types: the types of columns (`column_types.TYPES`), in place of those that all their cells in the tables have.
        former_types: of an index that has documents already; values that can be of them are of them.
        where: a DSN, for the rows of a SELECT on that server, which is the source then.
        id_column: a column whose cells `identified` finds, whatever metadata are kept.

    Returns:
        The corpus; its documents are read when `read` is called.

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
    columns = [column] if isinstance(column, str) else list(column or ())
    source = str(source)
    shown = source if where is None else "--query"
    lines = lines if where is None else None
    former = {name: kind for name, kind in (former_types or {}).items() if MIXED not in kind}
    choice = _Choice(shown, columns, metadata, lines, dict(types or {}), former, id_column)
    if where is not None:
        from contrastive_st.search.postgres.query import query_rows

        selected = lambda: query_rows(where, source)
        state = lambda: digest_of([*choice.asked, *map(repr, selected())])
        return choice.stream(f"query:{' '.join(source.split())}", state, selected)
    with reading(source):
        path = path_of(source)
        folder, saved = path.is_dir(), path.is_dir() and is_saved(path)
        named = format_of(path) in (*TABLES, *READERS) or path.is_absolute() or source.startswith(".") or path.exists()
    name = os.path.realpath(path)  # however the path is written, through links too
    if saved:
        files = sorted(file for file in path.rglob("*") if file.is_file())
        digests = content_digests(name, {str(file.relative_to(path)): str(file) for file in files})
        parts = [*choice.asked, hub_split, *(part for pair in digests.items() for part in pair)]

        def opened(report: Report) -> Table:
            table, others = open_table(source, split=hub_split), [part for part in splits_of(path) if part != hub_split]
            note = f"split {hub_split} alone is read (--hub_split reads another: {', '.join(others)})"
            return replace(table, notes=(*table.notes, note)) if others else table

        read_saved = functools.partial(choice.documents, [_File(opened)])
        return Corpus(name, digest_of(parts), read_saved, types=choice.decided)
    if not named:
        commit = hub_commit(source, hub_split)
        rows = lambda: stored(source, hub_split, streaming=True, revision=commit)
        return choice.stream(f"hub:{source}:{hub_split}", digest_of([*choice.asked, commit]), rows)
    if hub_split != "train":
        what = f"--hub_split {hub_split} is for a data set of the Hub, or a folder of save_to_disk"
        raise InputError(f"{source}: {what}; name the files of the split, such as '{hub_split}-*.parquet'")
    pattern = next((n for n, part in enumerate(path.parts) if set("*?[") & set(part)), None)
    if pattern is not None and not path.exists():
        return _folder_corpus(name, files_like(path, Path(*path.parts[:pattern])), choice)
    if folder:
        return _folder_corpus(name, files_in(path), choice)
    check_file(path, source)
    if format_of(path) not in (suffixes := (*TABLES, *READERS)):
        extension, formats = path.suffix or "no extension", ", ".join(suffixes)
        raise InputError(f"{source}: no reader for {extension}; save or name it as one of {formats}")
    state = lambda: digest_of([*choice.asked, Path(name).name, content_digests(name, {"": str(path)})[""]])
    read_file = functools.partial(choice.of_files, [Entry(str(path), path.name)], False, False)
    mixed = format_of(path) in READERS
    return Corpus(name, state, read_file, _estimated_rows(path), mixed=mixed, types=choice.decided)


def _folder_corpus(name: str, entries: Sequence[Entry], choice: _Choice) -> Corpus:
    """The corpus of the files of a folder or pattern."""
    unreadable = {entry.name for entry in entries if entry.reason in (UNREADABLE, MISSING)}
    read, way = {entry.name: entry.path for entry in entries if not entry.reason}, digest_of(choice.asked)
    result = content_digests(name, read, unreadable)
    folders = lambda file: " folders" * bool(partition_of(Path(file), ["."]))  # was not read before
    digests = {file: f"{digest} {way}{folders(file)}" for file, digest in result.items()}
    entries = [one if one.reason or one.name in digests else one._replace(reason=UNREADABLE) for one in entries]
    kinds = {format_of(entry.path) for entry in entries if not entry.reason}

    def without(names: Collection[str]) -> Corpus:
        left = [entry for entry in entries if entry.name not in names]
        rows = sum(_estimated_rows(entry.path) for entry in left if not entry.reason)
        read = functools.partial(choice.of_files, left, True, bool(names))
        return Corpus(name, digest_of(part for pair in digests.items() for part in pair), read, rows,
                      mixed=len(kinds) > 1 or not kinds.isdisjoint(READERS), files=Files(digests, unreadable),
                      rest=without, types=choice.decided)  # fmt: skip

    return without(())


def installed_docs_corpus() -> Corpus:
    """A corpus of explanations in the docstrings of the installed packages, with `title`, `source` and `package`."""
    from contrastive_st.data import installed_docs
    from contrastive_st.data.documentation import environment_fingerprint

    pairs = installed_docs()

    def read(report: Report) -> Iterator[Document]:
        for row, pair in enumerate(pairs):
            metadata = {"title": pair.title, "source": pair.source, "package": pair.source.split(".")[0]}
            yield Document(pair.text, metadata, row)

    return Corpus("installed-docs", environment_fingerprint(), read, len(pairs))


def texts_corpus(name: str, texts: Sequence[str], metadata: Sequence[Mapping[str, object]] | None = None) -> Corpus:
    """A corpus of texts in memory."""
    kept = values.as_metadata(metadata, len(texts))
    documents = [Document(text, item, i) for i, (text, item) in enumerate(zip(texts, kept, strict=True))]
    digest = digest_of([json.dumps(kept, sort_keys=True), *texts])
    return Corpus(name, digest, lambda report: iter(documents), len(texts))


def cut(corpus: Corpus, into: str) -> Corpus:
    """The corpus with its documents split into `lines`, `sentences` or `passages`.

    Each chunk becomes a document with the number of its row (of its file in a folder) and its own number next to its
    metadata; its id is that of the row, until `by_file`.
    """
    if into in (WHOLE, FILES):
        return corpus
    split("", into)  # an unknown value is an error here, not at the first document

    def read(report: Report) -> Iterator[Document]:
        for document in corpus.read(report):
            chunks = split(document.text, into) or [document.text]
            if into == LINES and len(chunks) == 1:
                yield document
                continue
            for number, chunk in enumerate(chunks):
                of_part = {values.OF_DOCUMENT: document.number if document.file else document.row, values.PART: number}
                metadata = {**document.metadata, **of_part}
                yield replace(document, text=chunk, metadata=metadata, entire=False)

    return _as(corpus, read, [into], lambda rest: cut(rest, into))


def identified(corpus: Corpus, column: str = "id") -> Corpus:
    """The corpus with ids from a column of its metadata, or from its `id_column` (see `as_id`).

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
            where = document.where or f"{corpus.name}, row {document.row + 1}"
            cells = {**values.given_and_own(document.metadata)[0], **document.ids}
            cell = next((cell for name, cell in cells.items() if values.nfc(name) == values.nfc(column)), None)
            try:
                cell = values.plain(cell)
                id = values.as_id(cell)
            except InputError as error:
                there = ", ".join(cells) or "none"
                fault = f"there is no {column}" if cell is None else error
                advice = f"give another --id_column (of {there}), or '' for ids of rows or paths"
                raise InputError(f"{where}: {fault}; {advice}") from error
            if (former := rows.setdefault(id, document.row)) != document.row:
                first = next((one.where for one in corpus.read() if one.row == former), "") or f"row {former + 1}"
                raise InputError(f"{where} has the {column} {str(cell)[:60]} of {first}; make them different, or give "
                                 "another --id_column ('' makes ids of rows or paths)")  # fmt: skip
            yield replace(document, id=id, metadata=values.with_own_id(document.metadata, id, cell))

    return _as(corpus, read, ["ids", column], lambda rest: identified(rest, column), own_ids=True)


def without_ids(corpus: Corpus) -> Corpus:
    """The corpus, whose documents have no ids of their own, because the first row of its table has none.

    Raises:
        InputError: when it is read: a later row of a table has an id.
    """

    def read(report: Report) -> Iterator[Document]:
        without: dict[str, str] = {}  # by file, where its first row is, if that has no id
        for document in corpus.read(report):
            first = without.setdefault(document.file, "" if document.ids else document.where)
            for column, cell in document.ids.items() if first else ():
                if cell is not None:
                    raise InputError(f"{document.where} has the {column} {str(cell)[:60]}, and {first} has none; give "
                                     "each row one, or --id_column '' for ids of rows or paths")  # fmt: skip
            yield document

    return replace(corpus, documents=read, rest=lambda files: without_ids(corpus.without(files)))


def by_file(corpus: Corpus) -> Corpus:
    """The documents of a folder, or parts of the rows of a table, with ids that do not depend on what else is in it.

    The id of a document that is a file depends on the name of the file, and that of a part of a file also on its text
    (and on the id of its row, if the corpus is `identified`): a part keeps it, and stays deleted, where it moves in the
    file. A file that has changed replaces its former documents; a table is the only file of its corpus.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ids = []
        ...     for text in ("On tides. They rise.", "New. On tides. They rise."):
        ...         _ = Path(folder, "a.txt").write_text(text + "\\n\\n")
        ...         corpus = cut(open_corpus(folder, lines=False), "sentences")
        ...         ids.append({document.text: document.id for document in by_file(corpus).read()})
        >>> ids[0].items() <= ids[1].items()
        True
    """

    if not corpus.files.digests:
        nothing = replace(corpus, documents=lambda report: iter(()))
        corpus = replace(corpus, files=Files({"": corpus.fingerprint}), rest=lambda files: nothing)

    def read(report: Report) -> Iterator[Document]:
        previous, seen = "", Counter[str]()
        for document in corpus.read(report):
            key = f"{corpus.name}/{document.file}" + ("" if document.id is None else f"/{document.id}")
            if key != previous:
                previous, seen = key, Counter()
            if not document.entire:
                content = digest_of([document.text])
                key += f"#{content}" + (f"-{seen[content]}" if seen[content] else "")
                seen[content] += 1
            metadata = {name: cell for name, cell in document.metadata.items() if name != values.OWN_ID}  # of its row
            yield replace(document, id=values.hashed(key.strip()), metadata=metadata)

    result = _as(corpus, read, ["by file"], by_file, own_ids=True)
    return replace(result, files=replace(result.files, hashed=True))


def with_ids(
    corpus: Corpus, first: Document | None, id_column: str | None, columns: Sequence[str], into: str
) -> Corpus:
    """The corpus split as by `cut`, with ids of a column if it has one, or else of its files, if it is a folder.

    Args:
        corpus: as `open_corpus` gives it.
        first: its first document.
        id_column: the column that is asked for; by default that named `id`, "" for ids of rows or paths.
        columns: of the texts.
        into: what becomes a document.

    Returns:
        The corpus; without ids, its documents are numbered by their rows.
    """
    folder = bool(corpus.files.digests)
    of_rows = not corpus.mixed and (into in (WHOLE, FILES) or not folder)  # parts have a file there
    by_name = id_column is None and of_rows and "id" not in columns
    column = id_column or ("id" if by_name and first is not None and first.ids else "")
    if by_name and not column:
        corpus = without_ids(corpus)
    corpus = cut(identified(corpus, column) if column else corpus, into)
    return by_file(corpus) if (column or folder) and not corpus.own_ids else corpus


def _as(
    corpus: Corpus, read: Read, how: Sequence[str], again: Callable[[Corpus], Corpus], own_ids: bool = False
) -> Corpus:
    """The corpus read in another way, with other fingerprints of it and of its files."""
    way = digest_of(how)
    digests = {name: f"{digest} {way}" for name, digest in corpus.files.digests.items()}
    return replace(
        corpus, state=lambda: digest_of([corpus.fingerprint, *how]), documents=read, own_ids=own_ids,
        files=replace(corpus.files, digests=digests), rest=lambda files: again(corpus.without(files)),
    )  # fmt: skip


# --- Rows to documents.


class _File(NamedTuple):
    """A file of a corpus that is to be opened, with its name in a folder."""

    open: Callable[[Report], Table]
    name: str = ""


@dataclass(frozen=True)
class _Choice:
    """Chooses the cells of a row that are its text and its metadata."""

    source: str
    columns: Sequence[str]
    metadata: Sequence[str] | None
    lines: bool | None
    types: Mapping[str, str]
    former: Mapping[str, str]
    id_column: str
    decided: dict[str, str] = field(default_factory=dict)  # the types of columns, when the tables have been read for it
    why: dict[str, str] = field(default_factory=dict)  # the cell or the collection for which they have not another

    @property
    def asked(self) -> list[str]:
        """The options as texts: with others, a corpus is another one."""
        lines = [] if self.lines is None else [f"lines={self.lines}"]
        types = [f"{name}={kind}" for name, kind in sorted(self.types.items())]
        read = [f"{name}={value}" for name, value in asdict(text_format.asked).items() if value is not None]
        return [*(self.columns or ["None"]), str(self.metadata), *lines, *types, *read]

    def of_files(self, entries: Sequence[Entry], folder: bool, some: bool, report: Report) -> Iterator[Document]:
        """The documents of the files of a folder, or of one file; `some`: others are in the index already."""
        for entry in entries:
            if entry.reason:
                report.leave_out(entry.reason, entry.name)
        files = [
            _File(functools.partial(self._opened, entry, folder), entry.name if folder else "")
            for entry in entries
            if not entry.reason
        ]
        yield from self.documents(files, report, some)

    def stream(
        self, name: str, state: str | Callable[[], str], rows: Callable[[], Iterable[dict[str, object]]]
    ) -> Corpus:
        """The corpus of rows from elsewhere, which are asked for again each time that it is read."""
        file = _File(lambda report: Table(self.source, "row", lambda: _rows(rows()), sampled=1000))
        return Corpus(name, state, functools.partial(self.documents, [file]), types=self.decided)

    def documents(self, files: Sequence[_File], report: Report, some: bool = False) -> Iterator[Document]:
        """The documents of files; one of a folder that is at fault is left out from there on."""
        self.decide(files)
        row, kept, named = 0, some, set[str]()
        report.types = {values.nfc(name): kind for name, kind in self.decided.items()}
        report.why = {values.nfc(name): why for name, why in self.why.items()}
        for file in files:
            try:
                for document in self._of_table(file.open(report), row, report, file.name, named):
                    row = document.row + 1
                    if document.text:
                        kept = True
                        yield document
            except Exception as error:  # parsers raise a dozen kinds of errors for damaged files
                if isinstance(error, LeftOut) or not file.name:
                    raise
                report.unread.add(file.name)
                reason = ENCRYPTED if isinstance(error, Encrypted) else UNREADABLE
                report.leave_out(reason, one_line(error) or repr(error))
        if not kept:
            raise InputError("; ".join([f"{self.source}: there is nothing to index", *report.lines()]))
        for name in [] if some else sorted({*self.columns, *(self.metadata or ()), *self.types} - named):
            report.say("in none of the files", f"column {name}")

    def decide(self, files: Sequence[_File]) -> None:
        """Decide the types of the columns of text of these files, which are read for it, unless that is done.

        A file that cannot be read to its end is left out here as where its documents are read.
        """
        if self.decided:
            return
        columns: dict[str, Column] = {}
        for file in files:
            try:
                table, texts = file.open(Report()), list[str]()
                # the cells of other tables have types, but for those of a path, which are the same in each row
                for row in table if table.delimited else itertools.islice(table, bool(table.of_path)):
                    texts = texts or self._columns(table, row.cells, bool(file.name))
                    for name, cell in row.cells.items():
                        chosen = table.is_written(name) and (self.metadata is None or name in self.metadata)
                        if chosen and name not in (*texts, *values.OWN, *self.types):
                            columns.setdefault(name, Column(recorded=self.former.get(name))).see(cell)
            except Exception:  # parsers raise a dozen kinds of errors for damaged files
                if not file.name:
                    raise
        for name, seen in columns.items():
            if seen.type:
                self.decided[values.storable(name)] = seen.type
                self.why[name] = _RECORDED if seen.type != seen.written else seen.why and repr(seen.why)
        self.decided.update({name: kind for name, kind in self.types.items() if kind != "list"})  # its values tell

    def _of_table(self, table: Table, first: int, report: Report, file: str, named: set[str]) -> Iterator[Document]:
        """The documents of a table, the blank ones too; their rows are numbered from `first`."""
        columns, entire = list[str](), table.unit == _DOCUMENT
        for note in table.notes:
            report.say(note, table.source)
        for index, (number, cells) in enumerate(table):
            for note in cells.get(NOTES, ()):
                report.say(note, table.source)
            if not columns:
                columns = self._columns(table, cells, bool(file))
                named.update(() if file else self.columns)  # by position or NAME=ROLE too; one not there was refused
            named.update(cells)
            texts = {name: cells[name] for name in columns if not is_blank(cells.get(name))}
            for name, cell in texts.items():
                if not isinstance(cell, str):
                    held = type(cell).__name__
                    raise InputError(f"{table.where(number)}: column {name!r} holds {held}, not text; give --columns")
            text = "\n".join(f"{name}: {cell.strip()}" if columns[1:] else cell.strip() for name, cell in texts.items())
            if not text:
                report.leave_out(SCANNED if table.unit == _PAGE else BLANK, table.where(number))
            kept = self._kept(table, number, cells, columns, report) if text else {}
            if file:
                kept.setdefault("file", file)
            where, ids = table.where(number), self._ids(table, cells)
            yield Document(text, values.as_held(kept), first + index, None, where, file, index, entire, ids)

    def _ids(self, table: Table, cells: Mapping[str, object]) -> dict[str, object]:
        """The cell of the column of ids of a row, by its name, as it is written unless `types` has its type."""
        name = next((name for name in cells if values.nfc(name) == values.nfc(self.id_column)), None)
        if name is None:
            return {}
        cell = None if table.is_written(name) and is_blank(cells[name]) else cells[name]
        return {name: as_type(values.plain(cell), self.types[name]) if cell and name in self.types else cell}

    def _columns(self, table: Table, cells: Mapping[str, object], folder: bool) -> list[str]:
        """The columns of the texts of a table, of which this is the first row."""
        if table.columns == ["text"] and (folder or not self.columns):
            return ["text"]
        for name in () if folder else self.metadata or ():
            if name not in cells and name not in table.names:
                raise InputError(f"{table.source}: there is no column {name!r}; there is: {listed(table.names)}")
        there = [name for name in self.columns if name in cells]
        if there and (folder or len(there) == len(self.columns)):
            return there
        if "text" in cells and (folder or not self.columns):
            return ["text"]
        if self.columns and not folder:
            return list(named_columns(self.columns, table.names, table.source))
        return [text_column(table)]

    def _kept(
        self, table: Table, number: int, cells: Mapping[str, object], texts: Collection[str], report: Report
    ) -> dict[str, object]:
        """The metadata of a row."""

        def value(name: str, cell: object) -> object:
            if (table.is_written(name) or name in self.types) and is_blank(cell):
                return None
            if name in self.types:
                return as_type(values.plain(cell), self.types[name])
            written = table.is_written(name) and self.why.get(name) != _RECORDED
            typed = value_in(cell, self.decided.get(values.storable(name)), written)
            held = typed if written else as_recorded(typed, self.former.get(name, ""))
            if held != typed:
                report.say("values get the type of the collection (--types sets another)", f"column {name}")
            return held

        kept: dict[str, object] = {}
        for name in cells if self.metadata is None else self.metadata:
            if name not in cells or name == NOTES or (name in texts and self.metadata is None):
                continue
            cell = cells[name]
            if table.is_written(name) and cell and is_blank(cell):
                report.say(f"{cell!r} counts as null; JSON and Parquet can hold it as text", f"column {name}")
            elif isinstance(cell, float) and math.isinf(cell):
                report.say("an infinite number counts as null", f"column {name}")
            length = 0 if isinstance(cell, bytes) else len(cell if isinstance(cell, str) else str(cell))
            if self.metadata is None and length > _LONGEST_VALUE:
                report.long[name] += 1
                continue
            try:
                kept[values.storable(name)] = value(name, cell)
            except InputError as error:
                if self.metadata is None and name not in self.types:
                    report.foreign[name] += 1
                    continue
                leave = "" if self.metadata is None else "; or leave the column out of --metadata"
                raise InputError(f"{table.where(number)}: column {name!r}: {error}{leave}") from error
        return kept if self.metadata is not None else {name: held for name, held in kept.items() if held is not None}

    def _opened(self, entry: Entry, folder: bool, report: Report) -> Table:
        """The rows of a file: of a table, or of a text or document, which know the name of the file."""
        path, suffix = Path(entry.path), format_of(entry.path)
        source = entry.name if folder else self.source
        if suffix in READERS:
            parts = lambda: ({"file": entry.name, **part} for part in read_document(path, source))
            pages = suffix == ".pdf" and self.lines is not False
            joined = _joined if suffix == ".pdf" and not pages else iter
            return Table(source, "page" if pages else _DOCUMENT, lambda: _rows(joined(parts())), ["text"])
        table = open_file(path, source, columns=self.columns)
        if table.unit != "line" or table.columns != ["text"]:
            of_folders = partition_of(Path(entry.name), ["."])
            return with_cells(table, {name: of_folders[name] for name in of_folders.keys() - {*(table.columns or ())}})
        lines = self.lines
        if lines is None:
            first = [row.cells["text"] for row in itertools.islice(table, _FIRST)]
            one = folder and sum(not text.isspace() for text in filter(None, first)) < 2
            lines = (is_list(first) and not one) or path.stat().st_size > _LONGEST_DOCUMENT
            report.count(AS_LIST if lines else AS_DOCUMENT, source)
        if lines:
            return table

        def read_file() -> Iterator[Row]:
            with reading(source), open_bytes(path) as file:
                text, front = front_matter(decode(file.read(), source)[0])
            return _rows([{"file": entry.name, **front, "text": text}])

        return replace(table, unit=_DOCUMENT, read=read_file)


def _rows(cells: Iterable[dict[str, object]]) -> Iterator[Row]:
    return itertools.starmap(Row, enumerate(cells, 1))


def _joined(pages: Iterable[dict[str, Any]]) -> Iterator[dict[str, object]]:
    """The pages of a document as one."""
    kept = list(pages)
    if kept:
        texts = [page["text"].strip() for page in kept]
        notes = [*kept[0].get(NOTES, ()), *([SCANNED] if not all(texts) else [])]
        yield {**kept[0], "page": None, "text": "\n\n".join(filter(None, texts)), NOTES: notes}


def _estimated_rows(path: str | Path) -> int:
    """The number of rows: exact for small files and Parquet, else estimated from the lines of the first 4 MiB."""
    if format_of(path) in READERS:
        return 1
    if format_of(path) == ".parquet":
        import pyarrow.parquet as pq

        with reading(path):
            return int(pq.read_metadata(path).num_rows)
    with reading(path), open(path, "rb") as file:
        sample = file.read(_SAMPLE)
    return round(sample.count(b"\n") * os.stat(path).st_size / max(len(sample), 1)) + (not sample.endswith(b"\n"))
