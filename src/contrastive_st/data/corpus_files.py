"""A corpus as it is given -> a file that any stretch of sentences can be read from without the rest.

The file is Arrow's, in blocks of `BLOCK` sentences, with columns `text`, `document` (counted from 0) and `position`
(the sentence's number in its document; blank ones are counted, so that dropping them never makes neighbours of what is
none). It is written once, in passing, and kept in the cache folder of `datasets`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from datasets import config
from datasets.fingerprint import Hasher
from filelock import FileLock

from contrastive_st.data.columns import any_of
from contrastive_st.data.text_files import numbered_lines
from contrastive_st.errors import InputError

BLOCK = 1024  # sentences that are read at a time
_CHUNK = 16_384  # sentences that are converted at a time
_SCHEMA = pa.schema([("text", pa.string()), ("document", pa.int64()), ("position", pa.int64())])

Chunk = tuple[pa.Array, np.ndarray]  # texts, and which of them start a document


def block_file(path: Path, text_column: str, document_column: str | None) -> Path:
    """The file of blocks of a corpus, made now if it is not in the cache; for the arguments see `SentenceCorpus`."""
    read = {".txt": _text_chunks, ".parquet": _parquet_chunks}.get(path.suffix.lower())
    if read is None:
        raise InputError(f"{path}: a corpus in order is a .txt or a .parquet file; convert it to one of them")
    try:
        facts = path.stat()
        if facts.st_size == 0:
            raise InputError(f"{path}: the file is empty; it needs at least one sentence")
        given = [str(path.resolve()), facts.st_size, facts.st_mtime_ns, text_column, document_column]
        folder = Path(config.HF_DATASETS_CACHE, "contrastive_st")
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"corpus-{Hasher.hash(given)}.arrow"
        with FileLock(f"{target}.lock"):  # of several processes one converts, the others wait for it
            if not target.exists():
                _write(read(path, text_column, document_column), target, str(path))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; check the path (seen from {Path.cwd()})") from None
    except pa.ArrowException as failure:
        first = str(failure).splitlines()[0][:200]
        raise InputError(f"{path}: not a sound parquet file ({first}); write it anew") from failure
    return target


def _write(chunks: Iterator[Chunk], target: Path, source: str) -> None:
    unfinished = target.with_suffix(f".{os.getpid()}")
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    rest, written = _SCHEMA.empty_table(), 0
    try:
        with pa.OSFile(str(unfinished), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA, options=options) as writer:
            for table in _numbered(chunks):
                rest = pa.concat_tables([rest, table]).combine_chunks()
                full = len(rest) // BLOCK * BLOCK
                writer.write_table(rest.slice(0, full), max_chunksize=BLOCK)
                rest, written = rest.slice(full), written + full
            if len(rest):
                writer.write_table(rest)
        if not written + len(rest):
            raise InputError(f"{source}: every line is blank; it needs at least one sentence")
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _numbered(chunks: Iterator[Chunk]) -> Iterator[pa.Table]:
    """Sentences with their document and their position in it; blank ones are counted, then dropped."""
    seen, document, start = 0, -1, 0  # sentences, the present document and its first sentence
    for texts, starts in chunks:
        places = seen + np.arange(len(texts))
        firsts = np.maximum.accumulate(np.where(starts, places, start))
        documents = document + np.cumsum(starts)
        table = pa.table([pc.utf8_trim_whitespace(texts), documents, places - firsts], schema=_SCHEMA)
        if len(texts):
            seen, document, start = seen + len(texts), int(documents[-1]), int(firsts[-1])
        yield table.filter(pc.greater(pc.utf8_length(table["text"]), 0))


def _text_chunks(path: Path, text_column: str, document_column: str | None) -> Iterator[Chunk]:
    """A sentence a line; a blank line ends a document."""
    texts: list[str] = []
    starts: list[bool] = []
    new = True
    for _, line in numbered_lines(path, str(path)):
        line = line.strip()
        if line:
            texts.append(line)
            starts.append(new)
        new = not line
        if len(texts) == _CHUNK:
            yield pa.array(texts, pa.string()), np.array(starts)
            texts, starts = [], []
    yield pa.array(texts, pa.string()), np.array(starts, dtype=bool)


def _parquet_chunks(path: Path, text_column: str, document_column: str | None) -> Iterator[Chunk]:
    """A row a sentence; a document is a run of equal values in its column, or the whole file."""
    with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        names = [text_column, *([document_column] if document_column else [])]
        for name in names:
            if name not in file.schema_arrow.names:
                end = "" if name == text_column else ", or None where the file is one document"
                there = any_of(file.schema_arrow.names)
                raise InputError(f"{path}: there is no column {name!r}; name one of {there}{end}")
        kind = file.schema_arrow.field(text_column).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise InputError(f"{path}: column {text_column!r} holds {kind}, not text; name another")
        runs = _Runs(str(path), document_column)
        for batch in file.iter_batches(_CHUNK, columns=names, use_threads=False):
            yield pc.fill_null(batch[text_column].cast(pa.string()), ""), runs.starts(batch)


class _Runs:
    """Where documents start, over the batches of one file; each may come once."""

    def __init__(self, source: str, column: str | None) -> None:
        self.source, self.column = source, column
        self.seen: set[object] = set()
        self.last: object = None
        self.rows = 0

    def starts(self, batch: pa.RecordBatch) -> np.ndarray:
        starts = np.zeros(len(batch), dtype=bool)
        if self.column is None:
            starts[:1] = self.rows == 0
        else:
            ids = batch[self.column]
            ids = ids.dictionary_decode() if pa.types.is_dictionary(ids.type) else ids
            if ids.null_count:
                row = self.rows + pc.index(pc.is_null(ids), True).as_py() + 1
                raise InputError(f"{self.source}, row {row}: no document in column {self.column!r}; fill it")
            changes = pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
            starts[1:] = changes
            starts[:1] = self.rows == 0 or ids[0].as_py() != self.last
            for place in np.flatnonzero(starts):
                self._add(ids[int(place)].as_py(), self.rows + int(place) + 1)
            self.last = ids[-1].as_py()
        self.rows += len(batch)
        return starts

    def _add(self, document: object, row: int) -> None:
        if document in self.seen:
            what = f"document {document!r} goes on after another one"
            raise InputError(f"{self.source}, row {row}: {what}; sort the rows by {self.column!r}")
        self.seen.add(document)
