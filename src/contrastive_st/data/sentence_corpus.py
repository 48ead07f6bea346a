"""Sentences in the order of their documents, tokenized as they are read, from files of any size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from contrastive_st.data.block_sampler import BlockSampler
from contrastive_st.data.corpus_files import BLOCK, block_file
from contrastive_st.errors import InputError


def corpus_texts(
    paths: str | Path | Sequence[str | Path], text_column: str = "text", document_column: str | None = "doc"
) -> Iterator[str]:
    """The sentences of a corpus, one after the other; arguments and errors as of `SentenceCorpus`."""
    for path in _as_list(paths):
        file = block_file(path, text_column, document_column)
        with pa.OSFile(str(file)) as source, pa.ipc.open_file(source) as reader:
            for i in range(reader.num_record_batches):
                yield from reader.get_batch(i)["text"].to_pylist()


def _as_list(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    given = [paths] if isinstance(paths, (str, Path)) else paths
    if not given:
        raise InputError("no file of sentences is given; name one or more")
    return [Path(path).expanduser() for path in given]


class SentenceCorpus(Dataset[dict[str, Any]]):
    """Rows `{"input_ids": [...], "document": int, "position": int}` of a corpus that stays on disk.

    `document` is counted from 0 over all files, and a document ends with its file; `position` is the sentence's number
    in its document. Blank sentences are dropped, but counted: two rows are neighbours where their documents are equal
    and their positions differ by 1.

    `ContrastiveTrainer` reads it through `sampler`: contiguous batches, whose order changes each epoch. A resumed run
    reads nothing of what it had before, and each process nothing of the others' batches.

    Args:
        paths: `.txt` files (a sentence a line, a blank line ends a document), or `.parquet` files. They are copied
            once, a block at a time, to files in the cache of `datasets` from which any block can be read.
        tokenizer: any tokenizer of transformers; it is called on each batch as it is read.
        max_length: in tokens, special tokens included; longer sentences are cut.
        text_column: of parquet files.
        document_column: of parquet files; each value's rows stand together. None: a file is one document.
        shuffle_buffer: mix this many sentences before they are batched (at least 1,024), for objectives to which
            neighbours mean nothing. 0: batches are contiguous.

    Raises:
        InputError: a file cannot be read as above.

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
        document_column: str | None = "doc",
        shuffle_buffer: int = 0,
    ) -> None:
        self.files = [str(block_file(path, text_column, document_column)) for path in _as_list(paths)]
        self.tokenizer, self.max_length, self.pool = tokenizer, max_length, -(-shuffle_buffer // BLOCK)
        self._open()
        last = [self._block(i, reader.num_record_batches - 1) for i, reader in enumerate(self._readers)]
        rows = [BLOCK * (file.num_record_batches - 1) + len(end) for file, end in zip(self._readers, last, strict=True)]
        self._first_row = np.cumsum([0, *rows])
        self._first_document = np.cumsum([0, *(end["document"][-1].as_py() + 1 for end in last)])

    def __len__(self) -> int:
        return int(self._first_row[-1])

    @property
    def num_documents(self) -> int:
        """How many documents there are."""
        return int(self._first_document[-1])

    def sampler(self, batch_size: int, seed: int) -> BlockSampler:
        """The order for training with batches of `batch_size` a process."""
        if self.pool:
            return BlockSampler(len(self), BLOCK, seed, self.pool)
        return BlockSampler(len(self), batch_size, seed)

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """The rows of a batch, tokenized together; only the blocks that hold them are read."""
        places = [self._place(index) for index in indices]
        texts = [block["text"][row].as_py() for _, block, row in places]
        ids = self.tokenizer(texts, truncation=True, max_length=self.max_length)["input_ids"]
        return [
            {
                "input_ids": own,
                "document": int(self._first_document[file]) + block["document"][row].as_py(),
                "position": block["position"][row].as_py(),
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
        self._block = lru_cache(maxsize=2 * self.pool + 4)(read)  # what is mixed stays at hand

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_readers", "_block")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()
