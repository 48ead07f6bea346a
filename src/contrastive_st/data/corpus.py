"""Corpora of consecutive sentences in files of any size, tokenized when they are read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from datasets import config
from datasets.fingerprint import Hasher
from filelock import FileLock
from torch.utils.data import Dataset, Sampler
from transformers import PreTrainedTokenizerBase

from contrastive_st.data.reading import check_file, check_utf8, numbered_lines, parse_json, path_of, reading
from contrastive_st.errors import InputError
from contrastive_st.files.writing import atomic_write
from contrastive_st.tokens import prompt_length, token_ids

# --- The order in which a corpus is read: blocks of neighbouring rows, in another order each epoch.


class BlockSampler(Sampler[int]):
    """Yield the row numbers `0 .. rows-1`, each once, in contiguous blocks; `(seed, epoch)` alone decides the order.

    If a block is as long as a batch or a multiple of it, every batch has neighbouring rows; with shorter blocks, it has
    several from anywhere in the corpus. Fewer than `block` rows are
    left over, at the start and the end of the corpus, and they differ from epoch to epoch. They come last, so that
    `drop_last` of the batch sampler drops or keeps them without a change to the other batches. Memory: one number per
    block.

    Args:
        rows: number of rows of the corpus.
        block: number of rows in a block.
        seed: seed of the order.
        pool: number of blocks whose rows are shuffled together, as in a shuffle buffer, for data whose order means
            nothing. 1 keeps the rows of a block together and in order.

    Example:
        >>> sampler = BlockSampler(rows=10, block=3, seed=0)
        >>> list(sampler)
        [7, 8, 9, 1, 2, 3, 4, 5, 6, 0]
        >>> sampler.set_epoch(1)
        >>> list(sampler)
        [4, 5, 6, 1, 2, 3, 7, 8, 9, 0]
    """

    def __init__(self, rows: int, block: int, seed: int = 0, pool: int = 1) -> None:
        self.rows, self.block, self.seed, self.pool = rows, block, seed, pool
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order: an epoch has the same order whatever was read before it."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.rows

    def __iter__(self) -> Iterator[int]:
        random = np.random.default_rng((self.seed, self.epoch))
        blocks, over = divmod(self.rows, self.block)
        start = int(random.integers(over + 1))
        order = random.permutation(blocks)
        for first in range(0, blocks, self.pool):
            rows = start + self.block * order[first : first + self.pool, None] + np.arange(self.block)
            rows = rows.ravel()
            if self.pool > 1:
                random.shuffle(rows)
            yield from rows.tolist()
        yield from range(start)
        yield from range(start + blocks * self.block, self.rows)


# --- Convert a corpus into a file of blocks, each of which can be read without the others.

BLOCK = 1024  # sentences read at a time
_CHUNK = 16_384  # sentences converted at a time
_DOCUMENT = "doc"  # the usual name of the column that names a sentence's document
_SCHEMA = pa.schema([("text", pa.string()), ("document", pa.int64()), ("position", pa.int64())])

Chunk = tuple[pa.Array, np.ndarray]  # texts, and which of them start a document


def block_file(path: Path, text_column: str, document_column: str | None) -> Path:
    """The file of blocks of a corpus, written now if it is not in the cache; for the arguments see `SentenceCorpus`."""
    read = {".txt": _text_chunks, ".parquet": _parquet_chunks, ".jsonl": _json_chunks}.get(path.suffix.lower())
    if read is None:
        raise InputError(f"{path}: a corpus of documents must be a .txt, .parquet or .jsonl file; convert it to one")
    facts = check_file(path, path)
    with reading(path):
        given = [str(path.resolve()), facts.st_size, facts.st_mtime_ns, text_column, document_column, _DOCUMENT]
        folder = Path(config.HF_DATASETS_CACHE, "contrastive_st")
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"corpus-{Hasher.hash(given)}.arrow"
        with FileLock(f"{target}.lock"):  # one process converts, the others wait for it
            if not target.exists():
                _write(_read_with(read(path, text_column, document_column), path), target, str(path))
    return target


def _read_with(chunks: Iterator[Chunk], path: Path) -> Iterator[Chunk]:
    """The chunks; what goes wrong in reading them is not told as an error of writing."""
    with reading(path):
        yield from chunks


def _write(chunks: Iterator[Chunk], target: Path, source: str) -> None:
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    rest, written = _SCHEMA.empty_table(), 0
    with atomic_write(target, overwrite=True) as new:
        with pa.OSFile(str(new), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA, options=options) as writer:
            for table in _numbered(chunks):
                rest = pa.concat_tables([rest, table]).combine_chunks()
                full = len(rest) // BLOCK * BLOCK
                writer.write_table(rest.slice(0, full), max_chunksize=BLOCK)
                rest, written = rest.slice(full), written + full
            if len(rest):
                writer.write_table(rest)
        if not written + len(rest):
            raise InputError(f"{source}: every line is blank; give at least one sentence")


def _numbered(chunks: Iterator[Chunk]) -> Iterator[pa.Table]:
    """Sentences with their document and their position in it, as numbers; blank ones are counted, then dropped."""
    seen, document, start = 0, -1, 0  # sentences so far, the current document and its first sentence
    for texts, starts in chunks:
        places = seen + np.arange(len(texts))
        firsts = np.maximum.accumulate(np.where(starts, places, start))
        documents = document + np.cumsum(starts)
        table = pa.table([pc.utf8_trim_whitespace(texts), documents, places - firsts], schema=_SCHEMA)
        if len(texts):
            seen, document, start = seen + len(texts), int(documents[-1]), int(firsts[-1])
        yield table.filter(pc.greater(pc.utf8_length(table["text"]), 0))


def _text_chunks(path: Path, text_column: str, document_column: str | None) -> Iterator[Chunk]:
    """Chunks of a text file with one sentence per line; a blank line ends a document."""
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
    """Chunks of a Parquet file with one sentence per row.

    A document is a run of equal values in `document_column`, or the whole file.
    """
    # mapped, since pyarrow 17 and 18 give wrong bytes from a file that they read through a buffer
    with pq.ParquetFile(path, memory_map=True) as file:
        there = file.schema_arrow.names
        if document_column is None and _DOCUMENT in there:
            document_column = _DOCUMENT
        names = [text_column, *([document_column] if document_column else [])]
        for name in names:
            if name not in there:
                end = "" if name == text_column else "; without a document column, the file is one document"
                raise InputError(f"{path}: there is no column {name!r}; name one of {', '.join(there)}{end}")
        kind = file.schema_arrow.field(text_column).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise InputError(f"{path}: column {text_column!r} holds {kind}, not text; name another column")
        runs, rows = _Runs(str(path), document_column or None), 0
        for batch in file.iter_batches(_CHUNK, columns=names, use_threads=False):
            check_utf8(batch, str(path), rows)
            rows += len(batch)
            yield pc.fill_null(batch[text_column].cast(pa.string()), ""), runs.starts(batch)


def _json_chunks(path: Path, text_column: str, document_column: str | None) -> Iterator[Chunk]:
    """Chunks of a file with one JSON object per line, as of a Parquet file with its columns."""
    rows = numbered_lines(path, str(path))
    objects = (_object(str(path), number, line) for number, line in rows if line.strip())
    runs: _Runs | None = None
    while some := list(islice(objects, _CHUNK)):
        if runs is None:
            named = _DOCUMENT if document_column is None and _DOCUMENT in some[0] else document_column
            runs = _Runs(str(path), named or None)
        texts = [row.get(text_column) for row in some]
        if wrong := next((text for text in texts if not isinstance(text, str | None)), None):
            raise InputError(f"{path}: {text_column!r} is {json.dumps(wrong)[:40]}, not text; name another column")
        if not any(texts):
            raise InputError(f"{path}: there is no {text_column!r} in its rows; name one of {', '.join(some[0])}")
        columns = {text_column: pa.array([text or "" for text in texts], pa.string())}
        if runs.column is not None:
            columns[runs.column] = pa.array([row.get(runs.column) for row in some])
        yield columns[text_column], runs.starts(pa.RecordBatch.from_pydict(columns))


def _object(source: str, number: int, line: str) -> dict[str, Any]:
    row = parse_json(line, source, number)
    if not isinstance(row, dict):
        raise InputError(f"{source}, line {number} is not an object; write one {{...}} per line")
    return row


def in_documents(path: str | Path) -> bool:
    """Whether a file is text in documents: a .txt with blank lines between sentences, or rows with `text` and `doc`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.txt")
        ...     _ = path.write_text("one\\ntwo\\n\\nthree\\n")
        ...     in_documents(path), in_documents(Path(folder, "b.txt"))
        (True, False)
    """
    path = path_of(path)
    if not path.is_file():
        return False
    if path.suffix.lower() == ".txt":
        blank = [not line.strip() for _, line in islice(numbered_lines(path), _CHUNK)]
        blank = blank[blank.index(False) :] if False in blank else []  # from the first sentence
        return True in blank and False in blank[blank.index(True) :]
    if path.suffix.lower() == ".parquet":
        with reading(path):
            return {"text", _DOCUMENT} <= set(pq.read_schema(path).names)
    if path.suffix.lower() == ".jsonl":
        first = next((line for _, line in numbered_lines(path) if line.strip()), "0")
        row = parse_json(first, str(path))
        return isinstance(row, dict) and {"text", _DOCUMENT} <= set(row)
    return False


class _Runs:
    """Finds where documents start in the batches of one file; a document that comes twice is an error."""

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
                raise InputError(f"{self.source}, row {row}: column {self.column!r} is empty; name the document there")
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
            what = f"document {document!r} continues after another one"
            raise InputError(f"{self.source}, row {row}: {what}; sort the rows by {self.column!r}")
        self.seen.add(document)


def corpus_texts(
    paths: str | Path | Sequence[str | Path], text_column: str = "text", document_column: str | None = None
) -> Iterator[str]:
    """Yield the sentences of a corpus in order; arguments and errors are those of `SentenceCorpus`."""
    for path in _as_list(paths):
        file = block_file(path, text_column, document_column)
        with pa.OSFile(str(file)) as source, pa.ipc.open_file(source) as reader:
            for i in range(reader.num_record_batches):
                yield from reader.get_batch(i)["text"].to_pylist()


def _as_list(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    given = [paths] if isinstance(paths, (str, Path)) else paths
    if not given:
        raise InputError("no file of sentences is given; give at least one")
    return [path_of(path) for path in given]


class SentenceCorpus(Dataset[dict[str, Any]]):
    """Rows `{"input_ids": [...], "document": int, "position": int}` of a corpus that stays on disk.

    `document` is the document's number, counted from 0 over all files; a document ends with its file. `position` is the
    number of the sentence in its document. Blank sentences are dropped but counted, so two rows are neighbours if their
    documents are equal and their positions differ by 1.

    `ContrastiveTrainer` reads the rows in the order of `sampler`: runs of consecutive sentences, in another order each
    epoch; a run is a batch by default. A resumed run does not read the batches before it again, and a process reads
    only its own batches.

    Args:
        paths: `.txt` files (one sentence per line, a blank line ends a document), `.parquet` or `.jsonl` files. They
            are copied once to files in the cache of `datasets`, from which any block of sentences can be read.
        tokenizer: any tokenizer of transformers; it is called on each batch when the batch is read.
        max_length: maximum number of tokens, special tokens included; longer sentences are cut.
        text_column: column of the sentences in Parquet and JSON files.
        document_column: their column that names the document of each sentence; rows with the same value must
            be consecutive. By default `doc` in files that have it, and other files are one document each. "": each file
            is one document.
        shuffle_buffer: shuffle this many sentences (at least 1,024) before they are batched, for losses that do not use
            neighbours. 0: batches have consecutive sentences.
        prompt: put before every sentence; rows then have its `prompt_length`, as with `tokenize`.
        run_length: number of consecutive sentences in a run; shorter runs give a batch from more documents. By default
            the batch of a process. A run that does not fit into a batch continues in the next one.

    Raises:
        InputError: `run_length` is below 1, or given with a shuffle buffer; a file cannot be read, or has another form
            than described here.

    Example:
        >>> import pathlib, tempfile
        >>> from contrastive_st.data import train_wordpiece
        >>> tokenizer = train_wordpiece(["a b", "a c"] * 5, vocab_size=30)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "story.txt")
        ...     _ = path.write_text("a b\\na c\\n\\na\\n")
        ...     corpus = SentenceCorpus(path, tokenizer, max_length=8)
        >>> [(row["document"], row["position"]) for row in corpus]
        [(0, 0), (0, 1), (1, 0)]
    """

    def __init__(
        self,
        paths: str | Path | Sequence[str | Path],
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        text_column: str = "text",
        document_column: str | None = None,
        shuffle_buffer: int = 0,
        prompt: str = "",
        run_length: int | None = None,
    ) -> None:
        if run_length is not None and (run_length < 1 or shuffle_buffer):
            raise InputError(f"run_length is {run_length}; give 1 or more consecutive sentences, and no shuffle buffer")
        self.run_length = run_length
        self.files = [str(block_file(path, text_column, document_column)) for path in _as_list(paths)]
        self.tokenizer, self.max_length, self.pool = tokenizer, max_length, -(-shuffle_buffer // BLOCK)
        length = prompt_length(tokenizer, prompt, max_length)
        self.prompt, self._of_prompt = prompt, {"prompt_length": length} if length else {}
        self._open()
        last = [self._block(i, reader.num_record_batches - 1) for i, reader in enumerate(self._readers)]
        rows = [BLOCK * (file.num_record_batches - 1) + len(end) for file, end in zip(self._readers, last, strict=True)]
        self._first_row = np.cumsum([0, *rows])
        self._first_document = np.cumsum([0, *(end["document"][-1].as_py() + 1 for end in last)])

    def __len__(self) -> int:
        return int(self._first_row[-1])

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return int(self._first_document[-1])

    def sampler(self, batch_size: int, seed: int) -> BlockSampler:
        """The order for training with batches of `batch_size` per process."""
        if self.pool:
            return BlockSampler(len(self), BLOCK, seed, self.pool)
        return BlockSampler(len(self), self.run_length or batch_size, seed)

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """The rows of a batch, tokenized together; only the blocks that hold them are read."""
        places = [self._place(index) for index in indices]
        texts = [self.prompt + block["text"][row].as_py() for _, block, row in places]
        ids = token_ids(self.tokenizer, texts, self.max_length)
        return [
            {
                "input_ids": own,
                "document": int(self._first_document[file]) + block["document"][row].as_py(),
                "position": block["position"][row].as_py(),
                **self._of_prompt,
            }
            for own, (file, block, row) in zip(ids, places, strict=True)
        ]

    def _place(self, index: int) -> tuple[int, pa.RecordBatch, int]:
        file = int(np.searchsorted(self._first_row, index, side="right")) - 1
        block, row = divmod(index - int(self._first_row[file]), BLOCK)
        return file, self._block(file, block), row

    def _open(self) -> None:
        options = pa.ipc.IpcReadOptions(use_threads=False)  # it may run in a forked worker
        self._readers = [pa.ipc.open_file(pa.OSFile(path), options=options) for path in self.files]
        read = lambda file, block: self._readers[file].get_batch(block)
        self._block = lru_cache(maxsize=2 * self.pool + 4)(read)  # keeps the blocks that are shuffled together

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_readers", "_block")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()
