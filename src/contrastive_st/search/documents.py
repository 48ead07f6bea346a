"""Corpora, read as a stream: files of any size, data sets of the Hub, the installed documentation."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from contrastive_st.data.readers import (
    FORMATS,
    Row,
    Rows,
    content_digest,
    estimated_rows,
    open_rows,
    path_of,
    reading,
)
from contrastive_st.data.reading import header_of, hub_commit, is_saved, stored
from contrastive_st.errors import InputError
from contrastive_st.search.values import as_id, as_metadata, plain, storable

# --- Splitting of documents into sentences or passages.

WHOLE, SENTENCES, PASSAGES = "whole", "sentences", "passages"
PARTS = (WHOLE, SENTENCES, PASSAGES)
PASSAGE_WORDS = (
    100  # about 130 tokens: the usual length in the training of sentence encoders, and well below their limit
)
_END = re.compile(
    r"(?<=[.!?。！？])[\"'”’)\]]*\s+(?=[\"'“‘(\[]*[^\Wa-z_])|(?<=[。！？])(?=\S)|\n\s*\n"
)  # a mark and a capital or digit, CJK full stops, and blank lines
_ABBREVIATION = re.compile(r"(?:\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Gen|Col|Lt|vs|cf|No|Fig|[ei]\.[ge]|al))\.$")


def sentences(text: str) -> list[str]:
    """The sentences of a text, by its punctuation; initials and common abbreviations do not end a sentence.

    Example:
        >>> sentences("Gen. Meade won. Lee, however, lost! 1863 was over.")
        ['Gen. Meade won.', 'Lee, however, lost!', '1863 was over.']
    """
    parts: list[str] = []
    for piece in _END.split(text):
        piece = " ".join(piece.split())
        if not piece:
            continue
        if parts and _ABBREVIATION.search(parts[-1]):
            parts[-1] += " " + piece
        else:
            parts.append(piece)
    return parts


def split(text: str, into: str, words: int = PASSAGE_WORDS) -> list[str]:
    """Split a text into sentences, or into passages of whole sentences with at most about `words` words.

    A longer sentence is split between words.

    Example:
        >>> split("One two. Three four. Five.", "passages", words=4)
        ['One two. Three four.', 'Five.']
    """
    if into not in PARTS:
        raise InputError(f"texts cannot be split into {into!r}; choose one of {', '.join(PARTS)}")
    if into == WHOLE:
        return [text]
    if into == SENTENCES:
        return sentences(text)
    passages: list[list[str]] = []
    for sentence in sentences(text):
        own = sentence.split()
        for start in range(0, len(own), words):
            chunk = own[start : start + words]
            if passages and len(passages[-1]) + len(chunk) <= words:
                passages[-1] += chunk
            else:
                passages.append(list(chunk))
    return [" ".join(passage) for passage in passages]


_SAMPLE = 1 << 20  # bytes at each end of a file that enter its former fingerprint
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]+)?")
_LONGEST_VALUE = 1000  # longest text, in characters, that is kept as metadata by default


@dataclass(frozen=True)
class Document:
    """A row of the index.

    Args:
        text: its text.
        metadata: by column.
        chunks: the texts that are encoded for it.
        row: its row in the corpus.
        id: its own id, if the corpus has ids.
    """

    text: str
    metadata: dict[str, Any]
    chunks: tuple[str, ...]
    row: int
    id: int | None = None


@dataclass(frozen=True)
class Corpus:
    """Documents in a fixed order, read as a stream, any number of times.

    Args:
        name: its name in the store, where a corpus is indexed once.
        fingerprint: changes with the content or the way of splitting, so that an interrupted run is not continued with
            other documents.
        read: yields the documents, from the first on.
        rows: about how many rows the source has; None if unknown.
        own_ids: the documents have the ids of a column of the corpus, not the numbers of their rows.
        former: the fingerprint of earlier releases, made from the ends of a file and without the commit of the Hub.
            Documents that were indexed under it count as unchanged and get the new fingerprint.
    """

    name: str
    fingerprint: str
    read: Callable[[], Iterator[Document]]
    rows: int | None = None
    former: str | None = None
    own_ids: bool = False


def open_corpus(
    source: str,
    *,
    column: str | None = None,
    metadata: Sequence[str] | None = None,
    hub_split: str = "train",
) -> Corpus:
    """Open a corpus with one document per row.

    Args:
        source: a `.txt` (a document a line), `.csv`, `.tsv`, `.jsonl`, `.json` or `.parquet` file, a `.md`, `.html` or
            `.pdf` document, a folder of such files, a folder of `save_to_disk`, or a data set of the Hub, "owner/name"
            or "owner/name:config", which is streamed.
        column: the column of the texts; by default the one named `text`, or the only one with text.
        metadata: columns to keep as metadata; by default all others with short texts, numbers or booleans.
        hub_split: the split of a data set of the Hub, or of a folder that has splits.

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
    files = _files(source)
    tables = all(path.suffix.lower() in (".csv", ".tsv") for path in files or [Path(source)])
    choice = _Choice(source, column, metadata, typed if tables else plain)
    asked = [str(column), str(metadata)]
    if files is None:
        if not is_saved(path_of(source)):
            commit = hub_commit(source, hub_split)
            rows = lambda: choice.documents([_stored_rows(source, hub_split, revision=commit)])
            return Corpus(f"hub:{source}:{hub_split}", _digest([*asked, commit]), rows, former=_digest(asked))
        asked.append(hub_split)
        files = sorted(path for path in path_of(source).rglob("*") if path.is_file())
        opened, count = [_stored_rows(source, hub_split)], None
    else:
        named = header_of(None if column is None else [column])
        opened = [open_rows(path, header=named) for path in files]
        count = sum(estimated_rows(path) for path in files)
    contents = [_contents(path) for path in files]
    now, former = (_digest(itertools.chain(asked, *(content[i] for content in contents))) for i in (0, 1))
    return Corpus(str(path_of(source).absolute()), now, lambda: choice.documents(opened), count, former)


def installed_docs_corpus() -> Corpus:
    """A corpus of explanations in the docstrings of the installed packages, with `title`, `source` and `package`."""
    from contrastive_st.data import installed_docs
    from contrastive_st.data.documentation import environment_fingerprint

    pairs = installed_docs()

    def read() -> Iterator[Document]:
        for row, pair in enumerate(pairs):
            metadata = {"title": pair.title, "source": pair.source, "package": pair.source.split(".")[0]}
            yield Document(pair.text, metadata, (pair.text,), row)

    return Corpus("installed-docs", environment_fingerprint(), read, len(pairs))


def texts_corpus(name: str, texts: Sequence[str], metadata: Sequence[Mapping[str, Any]] | None = None) -> Corpus:
    """A corpus of texts in memory."""
    kept = as_metadata(metadata, len(texts))
    documents = [Document(text, item, (text,), i) for i, (text, item) in enumerate(zip(texts, kept, strict=True))]
    return Corpus(name, _digest([json.dumps(kept, sort_keys=True), *texts]), lambda: iter(documents), len(texts))


def cut(corpus: Corpus, into: str, pool: bool = False) -> Corpus:
    """The corpus with its documents split into `sentences` or `passages`.

    Each chunk becomes a document with `document` (the row it comes from) and `part` in its metadata. With `pool` the
    documents stay whole, and the vector of a document is the mean of those of its chunks.
    """
    if into == WHOLE:
        return corpus
    split("", into)  # an unknown value is an error here, not at the first document

    def read() -> Iterator[Document]:
        for document in corpus.read():
            chunks = split(document.text, into) or [document.text]
            if pool:
                yield replace(document, chunks=tuple(chunks), id=None)
                continue
            for number, chunk in enumerate(chunks):
                place = {"document": document.row, "part": number}
                yield Document(chunk, {**document.metadata, **place}, (chunk,), document.row)

    digests = (former and _digest([former, into, str(pool)]) for former in (corpus.fingerprint, corpus.former))
    fingerprint, former = digests
    return replace(corpus, fingerprint=str(fingerprint), former=former, read=read, own_ids=False)


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

    def read() -> Iterator[Document]:
        rows: dict[int, int] = {}
        for document in corpus.read():
            where = f"{corpus.name}, row {document.row + 1}"
            if document.metadata.get(column) is None:
                there = ", ".join(document.metadata) or "nothing"
                raise InputError(f"{where}: there is no {column}; name another --id_column (its metadata has {there})")
            try:
                id = as_id(document.metadata[column])
            except InputError as error:
                raise InputError(f"{where}: {error}") from None
            if rows.setdefault(id, document.row) != document.row:
                raise InputError(f"{where} has the {column} of row {rows[id] + 1}; give each row its own, or name "
                                 "another --id_column ('' numbers the rows)")  # fmt: skip
            yield replace(document, id=id)

    digests = (former and _digest([former, "ids", column]) for former in (corpus.fingerprint, corpus.former))
    fingerprint, former = digests
    return replace(corpus, fingerprint=str(fingerprint), former=former, read=read, own_ids=True)


@dataclass(frozen=True)
class _Choice:
    """Chooses the cells of a row that are its text and its metadata."""

    source: str
    column: str | None
    metadata: Sequence[str] | None
    value: Callable[[Any], Any]

    def documents(self, files: Iterable[Rows]) -> Iterator[Document]:
        kept = blank = 0
        column = self.column
        rows = ((file.where(number), row) for file in files for number, row in file)
        for number, (where, row) in enumerate(rows):
            column = column or self._text_column(row, where)
            if column not in row:
                raise InputError(f"{where}: there is no column {column!r}; there is: {', '.join(row) or 'nothing'}")
            text = row[column]
            if text is not None and not isinstance(text, str):
                raise InputError(
                    f"{where}: column {column!r} holds {type(text).__name__}, not text; name another --column"
                )
            text = (text or "").strip()
            if not text:
                blank += 1
                continue
            kept += 1
            yield Document(text, self._kept(row, column, where), (text,), number)
        if not kept:
            what = f"all {blank} rows are blank" if blank else "there are no rows"
            raise InputError(f"{self.source}: {what}; it needs at least one text")

    def _text_column(self, row: Mapping[str, Any], where: str) -> str:
        texts = [name for name, cell in row.items() if isinstance(cell, str)]
        if "text" in row or len(texts) == 1:
            return "text" if "text" in row else texts[0]
        found = ", ".join(texts or row) or "nothing"
        raise InputError(f"{where}: it is not clear which column has the text; choose one with --column: {found}")

    def _kept(self, row: Mapping[str, Any], column: str, where: str) -> dict[str, Any]:
        if self.metadata is not None:
            if missing := [name for name in self.metadata if name not in row]:
                raise InputError(f"{where}: there is no column {missing[0]!r}; there is: {', '.join(row)}")
            return {name: self.value(row[name]) for name in self.metadata}
        return {
            name: self.value(cell)
            for name, cell in row.items()
            if name != column and (isinstance(cell, (bool, int)) or _is_short(cell) or _is_finite(cell))
        }


def typed(cell: str) -> Any:
    """A cell of metadata, as a number if it is one in JSON; `007` stays text."""
    if not _NUMBER.fullmatch(cell):
        return storable(cell)
    return float(cell) if "." in cell else int(cell)


def _is_short(cell: Any) -> bool:
    return isinstance(cell, str) and 0 < len(cell) <= _LONGEST_VALUE


def _is_finite(cell: Any) -> bool:
    return isinstance(cell, float) and abs(cell) < float("inf")


def _files(source: str) -> list[Path] | None:
    """The files of a source in the order of their names; None if it is not a file or folder."""
    with reading(source):
        path = path_of(source)
        if path.is_dir():
            if is_saved(path):
                return None
            files = sorted(file for file in path.rglob("*") if file.suffix.lower() in FORMATS and not file.is_dir())
            if not files:
                known = ", ".join(FORMATS)
                raise InputError(f"{source}: the folder has no {known} files; give a file or another folder")
            return files
        named = path.suffix.lower() in FORMATS or path.is_absolute() or source.startswith(".")
        return [path] if named or path.exists() else None


def _stored_rows(source: str, split: str, **options: str) -> Rows:
    options = options if is_saved(path_of(source)) else {"streaming": True, **options}
    return Rows(source, "row", lambda: itertools.starmap(Row, enumerate(stored(source, split, **options), 1)))


def _contents(path: Path) -> tuple[list[str], list[str]]:
    """The contents of a file for its fingerprint; and, for that of earlier releases, its name, size and both ends."""
    with reading(path):
        size = path.stat().st_size
        with open(path, "rb") as file:
            head = file.read(_SAMPLE)
            file.seek(max(size - _SAMPLE, 0))
            ends = hashlib.blake2b(head + file.read(_SAMPLE), digest_size=16).hexdigest()
    former = [path.name, str(size), ends]
    return [*former, content_digest(path)] if size > 2 * _SAMPLE else former, former


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part.encode("utf-8", "surrogatepass")
        digest.update(str(len(content)).encode() + b" " + content)
    return digest.hexdigest()
