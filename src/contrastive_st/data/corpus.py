"""Corpora of consecutive sentences in files of any size, tokenized when they are read."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
from datasets import config
from datasets.fingerprint import Hasher
from filelock import FileLock
from torch.utils.data import Dataset, Sampler
from transformers import PreTrainedTokenizerBase

from contrastive_st.data.profile import Record, as_text
from contrastive_st.data.reading import Table, files_of
from contrastive_st.data.reading.content import check_file, format_of, numbered_lines, path_of
from contrastive_st.data.reading.sources import Source, splits_note
from contrastive_st.data.reading.table import open_file
from contrastive_st.distributed import world_size
from contrastive_st.errors import InputError, choice
from contrastive_st.files.writing import atomic_write, write_errors
from contrastive_st.prefetch import in_chunks
from contrastive_st.tokens import prompt_length, token_ids

logger = logging.getLogger(__name__)

# --- The order in which a corpus is read: blocks of neighbouring rows, in another order each epoch.


class BlockSampler(Sampler[int]):
    """Yield the row numbers `0 .. rows-1`, each once, in contiguous blocks; `(seed, epoch)` alone decides the order.

    If a block is as long as a batch or a multiple of it, every batch has neighbouring rows; with shorter blocks, it has
    several from anywhere in the corpus. Fewer than `block` rows are left over, at the start and the end of the corpus,
    and they differ from epoch to epoch. They come last, so that `drop_last` of the batch sampler drops or keeps them
    without a change to the other batches; or they are shuffled with the last pool. Memory: one number per block.

    Args:
        rows: number of rows of the corpus.
        block: number of rows in a block.
        seed: seed of the order.
        pool: number of blocks whose rows are shuffled together, as in a shuffle buffer, for data whose order means
            nothing. 0 keeps the rows of a block together and in order.

    Example:
        >>> sampler = BlockSampler(rows=10, block=3, seed=0)
        >>> list(sampler)
        [7, 8, 9, 1, 2, 3, 4, 5, 6, 0]
        >>> sampler.set_epoch(1)
        >>> list(sampler)
        [4, 5, 6, 1, 2, 3, 7, 8, 9, 0]
    """

    def __init__(self, rows: int, block: int, seed: int = 0, pool: int = 0) -> None:
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
        left = np.concatenate([np.arange(start), np.arange(start + blocks * self.block, self.rows)])
        step = self.pool or 1
        for first in range(0, max(blocks, 1), step):
            rows = start + self.block * order[first : first + step, None] + np.arange(self.block)
            rows = np.append(rows, left if first + step >= blocks else left[:0])
            if self.pool:
                random.shuffle(rows)
            yield from rows.tolist()


# --- Convert a corpus into a file of blocks, each of which can be read without the others.

BLOCK = 1024  # sentences read at a time
_LOOKED_AT = 16_384  # lines that say whether a file has documents
_DOCUMENT = "doc"  # the usual name of the column that names a sentence's document
_SCHEMA = pa.schema([("text", pa.string()), ("document", pa.int64()), ("position", pa.int64())])

Sentence = tuple[str, bool]  # a text, and whether it starts a document


def cache_file(name: str) -> Path:
    """A file of this package in the cache of `datasets`, whose folder exists.

    Raises:
        InputError: the folder cannot be made.
    """
    folder = Path(config.HF_DATASETS_CACHE, "contrastive_st")
    with write_errors(folder, "HF_HOME names another folder for caches"):
        folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def block_files(paths: Source, text_column: str, document_column: str | None) -> Iterator[str]:
    """The files of blocks of a corpus, each written if it is not in the cache; arguments are as for `SentenceCorpus`.

    One is made of each file of `paths`.
    """
    names = [paths] if isinstance(paths, (str, Path)) else paths
    files = files_of(names) or []
    _log_splits(*map(path_of, names))
    for path in files:
        facts = check_file(path, path)
        inputs = [str(path.resolve()), facts.st_size, facts.st_mtime_ns, text_column, document_column, _DOCUMENT]
        target = cache_file(f"corpus-{Hasher.hash(inputs)}.arrow")
        with FileLock(f"{target}.lock"):  # one process converts, the others wait for it
            if not target.exists():
                _write(_sentences(path, text_column, document_column), target, str(path))
        yield str(target)


@lru_cache
def _log_splits(*paths: Path) -> None:
    """Log, once for a corpus that is read several times, which splits of its folders are not read."""
    if note := splits_note(filter(Path.is_dir, paths)):
        logger.warning(f"{' '.join(map(str, paths))}: {note}")


def blocks(file: str | Path) -> Iterator[pa.RecordBatch]:
    """Yield the blocks of a file of `block_files`, in order."""
    with pa.OSFile(str(file)) as source, pa.ipc.open_file(source) as reader:
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def _write(sentences: Iterator[Sentence], target: Path, source: str) -> None:
    options, some = pa.ipc.IpcWriteOptions(compression="lz4"), None
    with atomic_write(target, overwrite=True) as new:
        with pa.OSFile(str(new), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA, options=options) as writer:
            for some in in_chunks(_numbered(sentences), BLOCK):
                writer.write_table(pa.table(list(zip(*some, strict=True)), schema=_SCHEMA))
        if some is None:
            raise InputError(f"{source}: every line is blank; give at least one sentence")


def _numbered(sentences: Iterator[Sentence]) -> Iterator[tuple[str, int, int]]:
    """Sentences with their document and their position in it, as numbers; blank ones are counted, then dropped."""
    document, position = -1, 0
    for text, starts in sentences:
        document, position = (document + 1, 0) if starts else (document, position + 1)
        if text := text.strip():
            yield text, document, position


def _sentences(path: Path, text_column: str, document_column: str | None) -> Iterator[Sentence]:
    """The sentences of a file."""
    table = open_file(path, str(path)).logged()
    first = next(iter(table), None)
    names = table.columns or list(first.cells if first else ())
    if table.unit == "line" and names == ["text"]:
        yield from _of_lines(table)
    elif first:
        choice("column", text_column, names, path)
        document_column = _DOCUMENT if document_column is None and _DOCUMENT in names else document_column
        if document_column:
            choice("column", document_column, names, path)
        yield from _of_rows(table, text_column, document_column)


def _of_lines(table: Table) -> Iterator[Sentence]:
    """The lines with text, and which of them start a document: the first, and those after a blank line."""
    new = True
    for _, cells in table:
        blank = not cells["text"].strip()
        if not blank:
            yield cells["text"], new
        new = blank


def _of_rows(table: Table, text: str, column: str | None) -> Iterator[Sentence]:
    """The sentences of the rows, and which of them start a document: a run of equal cells in `column`, or the table."""
    seen: set[str] = set()
    last = None
    for number, cells in table:
        where = table.where(number)
        document = as_text(cells.get(column), column, where) if column else "the table"
        if column and not document:
            raise InputError(f"{where}: column {column!r} is empty; name the document there")
        if document != last and document in seen:
            what = f"document {document!r} continues after another one"
            raise InputError(f"{where}: {what}; sort the rows by {column!r}")
        yield as_text(cells.get(text), text, where, only_strings=True), document != last
        seen.add(document)
        last = document


def in_documents(source: Source) -> bool:
    """Whether each file is text in documents: a .txt with blank lines between sentences, or rows of `text` and `doc`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.txt")
        ...     _ = path.write_text("one\\ntwo\\n\\nthree\\n")
        ...     in_documents(path), in_documents(Path(folder, "b.txt"))
        (True, False)
    """
    try:
        files = files_of([source] if isinstance(source, (str, Path)) else source)
    except InputError:  # which is raised again where the rows are read
        return False
    return bool(files) and all(map(_has_documents, files or []))


def _has_documents(path: Path) -> bool:
    if not path.is_file():  # a pipe cannot be read again
        return False
    if format_of(path) == ".txt":
        blank = [not line.strip() for _, line in islice(numbered_lines(path), _LOOKED_AT)]
        blank = blank[blank.index(False) :] if False in blank else []  # from the first sentence
        return True in blank and False in blank[blank.index(True) :]
    first = next(iter(open_file(path, str(path))), None)
    return first is not None and {"text", _DOCUMENT} <= first.cells.keys()


def corpus_texts(paths: Source, text_column: str = "text", document_column: str | None = None) -> Iterator[str]:
    """Yield the sentences of a corpus in order; arguments and errors are those of `SentenceCorpus`."""
    for file in block_files(paths, text_column, document_column):
        for block in blocks(file):
            yield from block["text"].to_pylist()


class SentenceCorpus(Dataset[Record]):
    """Rows `{"input_ids": [...], "document": int, "position": int}` of a corpus that stays on disk.

    `document` is the document's number, counted from 0 over all files; a document ends with its file. `position` is the
    number of the sentence in its document. Blank sentences are dropped but counted, so two rows are neighbours if their
    documents are equal and their positions differ by 1.

    `ContrastiveTrainer` reads the rows in the order of `sampler`: runs of consecutive sentences, in another order each
    epoch; a run is a batch by default. A resumed run does not read the batches before it again, and a process reads
    only its own batches.

    Args:
        paths: `.txt` files (one sentence per line, a blank line ends a document), or tables such as `.parquet` and
            `.jsonl`; a pattern, a folder or a data set as for `open_table` stands for its files. They are copied once
            to files in the cache of `datasets`, from which any block of sentences can be read.
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
        paths: Source,
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
        self.files = list(block_files(paths, text_column, document_column))
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

    def sampler(self, batch_size: int, seed: int) -> BlockSampler:
        """The order for training with batches of `batch_size` per process; it is that of their batch as a whole."""
        block = BLOCK if self.pool else self.run_length or batch_size * world_size()
        return BlockSampler(len(self), block, seed, self.pool)

    def __getitem__(self, index: int) -> Record:
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Record]:
        """The rows of a batch, tokenized together; only the blocks that hold them are read."""
        rows = [self._sentence(index) for index in indices]
        ids = token_ids(self.tokenizer, [self.prompt + row.pop("text") for row in rows], self.max_length)
        return [{"input_ids": tokens, **row, **self._of_prompt} for tokens, row in zip(ids, rows, strict=True)]

    def _sentence(self, index: int) -> Record:
        """The text of a row, its document and its position."""
        file = int(np.searchsorted(self._first_row, index, side="right")) - 1
        number, offset = divmod(index - int(self._first_row[file]), BLOCK)
        block = self._block(file, number)
        row = {name: block[name][offset].as_py() for name in _SCHEMA.names}
        return {**row, "document": int(self._first_document[file]) + row["document"]}

    def _open(self) -> None:
        options = pa.ipc.IpcReadOptions(use_threads=False)  # it may run in a forked worker
        self._readers = [pa.ipc.open_file(pa.OSFile(path), options=options) for path in self.files]
        read = lambda file, block: self._readers[file].get_batch(block)
        self._block = lru_cache(maxsize=2 * self.pool + 4)(read)  # keeps the blocks that are shuffled together

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_readers", "_block")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._open()
