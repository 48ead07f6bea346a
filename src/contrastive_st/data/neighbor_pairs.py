"""Pairs of a sentence and its neighbour in a document, read from token ids on disk, and documents that are held out."""

from __future__ import annotations

import itertools
import os
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from datasets.fingerprint import Hasher
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from contrastive_st.data.collators import PairCollator
from contrastive_st.data.corpus import BlockSampler, block_files, blocks, cache_file
from contrastive_st.data.profile import Record
from contrastive_st.data.reading.sources import Source
from contrastive_st.data.tokenization import id_reader
from contrastive_st.errors import InputError, listed
from contrastive_st.files.writing import atomic_write
from contrastive_st.prefetch import in_chunks

# --- Documents, and some of them that are held out.


@dataclass(frozen=True)
class Documents:
    """The documents of a corpus: sentences in order, some documents of which are held out.

    Args:
        files: files of blocks, from `block_files`.
        sizes: number of sentences of each document, over all files.
        held_out: for each document whether it is held out.
    """

    files: tuple[str, ...]
    sizes: NDArray[np.int64]
    held_out: NDArray[np.bool_]

    @classmethod
    def read(
        cls,
        paths: Source,
        text_column: str = "text",
        document_column: str | None = None,
        held_out: int = 2000,
        seed: int = 0,
    ) -> Documents:
        """Count the sentences of each document, and hold out random documents.

        Args:
            paths: as for `SentenceCorpus`.
            text_column: the column of the sentences.
            document_column: the column that names the document of each sentence; by default `doc`.
            held_out: documents are held out until they have this many sentences, or a tenth of all.
            seed: chooses them.

        Raises:
            InputError: a file cannot be read, or there are fewer than three documents of two sentences or more.
        """
        files = tuple(block_files(paths, text_column, document_column))
        every: list[int] = []
        for file in files:
            counts = Counter(number for block in blocks(file) for number in block["document"].to_pylist())
            every += [counts[number] for number in range(max(counts) + 1)]
        sizes = np.array(every)
        if (count := int((sizes > 1).sum())) < 3:
            names = listed([paths] if isinstance(paths, (str, Path)) else paths)
            why = "since a sentence is contrasted with those of other documents"
            fix = "put a blank line between documents, or name them in a column doc"
            raise InputError(f"{names}: {count} documents of two sentences or more are too few, {why}; {fix}")
        least = min(held_out, int(sizes.sum()) // 10)
        order = np.random.default_rng(seed).permutation(np.flatnonzero(sizes > 1))
        chosen = order[: min(int(np.searchsorted(np.cumsum(sizes[order]), least)) + 1, len(order) - 2)]
        mask = np.zeros(len(sizes), dtype=bool)
        mask[chosen] = held_out > 0
        return cls(files, sizes, mask)

    def sentences(self, held_out: bool = False) -> Iterator[tuple[list[str], NDArray[np.int64]]]:
        """Yield blocks of sentences with the numbers of their documents, those to train on or those held out.

        A document of one sentence has no neighbours, and is left out.
        """
        first = 0
        for file in self.files:
            last = 0
            for block in blocks(file):
                numbers = first + block["document"].to_numpy()
                last = int(numbers[-1])
                chosen = (self.held_out[numbers] == held_out) & (self.sizes[numbers] > 1)
                if chosen.any():
                    yield block["text"].filter(pa.array(chosen)).to_pylist(), numbers[chosen]
            first = last + 1

    def texts(self) -> Iterator[str]:
        """Yield the sentences to train on."""
        return (text for text, _ in self.numbered())

    def numbered(self, held_out: bool = False) -> Iterator[tuple[str, int]]:
        """Yield the sentences one by one with the numbers of their documents, as `sentences` has them."""
        for texts, numbers in self.sentences(held_out):
            yield from zip(texts, numbers.tolist(), strict=True)

    def sample(self, most: int) -> list[str]:
        """Sentences to train on, evenly from the whole text."""
        total = int(self.sizes[~self.held_out & (self.sizes > 1)].sum())
        return list(itertools.islice(self.texts(), 0, None, -(-total // most)))

    def neighbors(self, most: int = 2000, seed: int = 0) -> list[tuple[str, str]]:
        """Random pairs of consecutive held-out sentences, without those that are in the training text.

        The positives are distinct texts, none of which belongs to another anchor.
        """
        held = list(self.numbered(held_out=True))
        trained = {text for text, _ in held}.intersection(self.texts())
        pairs: dict[str, tuple[str, str]] = {}
        for i in np.random.default_rng(seed).permutation(max(len(held) - 1, 0)):
            (text, document), (after, other) = held[i : i + 2]
            pair = text, after
            if document == other and pair[0] != pair[1] and not trained.intersection(pair):
                pairs.setdefault(pair[1], pair)
            if len(pairs) == most:
                break
        return list(pairs.values())


# --- Their token ids on disk, from which any sentence is read without the others.

_CHUNK = 8192  # sentences tokenized at a time
_RECORD = np.dtype([("offset", "<i8"), ("document", "<i4"), ("length", "<i4")])


@dataclass(frozen=True)
class TokenFile:
    """Token ids of the training sentences of documents, in a file from which any sentence is read by itself.

    Memory does not grow with the text.

    Args:
        path: the ids, int32; another file has the offset, the document and the length of each sentence.
        counts: how often each token occurs, `[V]`.
        frequencies: in how many sentences each token occurs, `[V]`.
    """

    path: str
    counts: NDArray[np.int64]
    frequencies: NDArray[np.int64]

    @classmethod
    def write(cls, documents: Documents, tokenizer: PreTrainedTokenizerBase, max_length: int) -> TokenFile:
        """Tokenize the training sentences into a file in the cache of `datasets`, unless it is there already."""
        words = sorted(tokenizer.get_vocab().items())
        inputs = [documents.files, documents.held_out.tobytes(), words, repr(tokenizer), max_length]
        target = cache_file(f"pairs-{Hasher.hash(inputs)}.ids")
        with FileLock(f"{target}.lock"):  # one process tokenizes, the others wait for it
            if not target.with_suffix(".npz").exists():
                _write(documents, tokenizer, max_length, target)
        with np.load(target.with_suffix(".npz")) as result:
            return cls(str(target), result["counts"], result["frequencies"])

    def __len__(self) -> int:
        """Number of sentences."""
        return os.stat(Path(self.path).with_suffix(".rows")).st_size // _RECORD.itemsize


def _write(documents: Documents, tokenizer: PreTrainedTokenizerBase, max_length: int, target: Path) -> None:
    counts, frequencies = np.zeros((2, len(tokenizer)), np.int64)
    offset = 0
    with ExitStack() as files:  # they get their names in reverse order, so the .npz says that all are there
        names = (target.with_suffix(end) for end in (".npz", ".rows", ".ids"))
        counted, *others = (files.enter_context(atomic_write(name, overwrite=True)) for name in names)
        with open(others[0], "wb") as rows, open(others[1], "wb") as ids:
            read = id_reader(tokenizer, max_length)
            for some in in_chunks(documents.numbered(), _CHUNK):
                texts, numbers = [text for text, _ in some], [number for _, number in some]
                flat, lengths = read(texts)
                counts += np.bincount(flat, minlength=len(counts))
                distinct = np.unique(np.repeat(np.arange(len(texts)), lengths) * len(counts) + flat) % len(counts)
                frequencies += np.bincount(distinct, minlength=len(counts))
                records = np.zeros(len(texts), _RECORD)
                records["offset"] = offset + np.cumsum(lengths) - lengths
                records["length"], records["document"] = lengths, numbers
                offset += len(flat)
                flat.astype("<i4").tofile(ids)
                records.tofile(rows)
        np.savez(counted, counts=counts, frequencies=frequencies)


class NeighborPairs(Dataset[Record]):
    """Rows `{"input_ids": [ids, ids], "document": int}`: each sentence with the next one of its document.

    The last sentence of a document is paired with the one before it. `ContrastiveTrainer` draws the rows of a batch
    from everywhere in the corpus, in the order of `sampler`.

    Args:
        tokens: the sentences.

    Example:
        >>> import pathlib, tempfile
        >>> from contrastive_st.data import word_tokenizer
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "three.txt")
        ...     _ = path.write_text("a b\\nc\\nb\\n\\nb\\nc\\n\\na\\nc\\n")
        ...     documents = Documents.read([path], held_out=0)
        >>> pairs = NeighborPairs(TokenFile.write(documents, word_tokenizer(["a", "b", "c"]), 8))
        >>> [[ids.tolist() for ids in row["input_ids"]] for row in pairs][:4]
        [[[2, 3], [4]], [[4], [3]], [[3], [4]], [[3], [4]]]
    """

    def __init__(self, tokens: TokenFile) -> None:
        self.path, self.size = Path(tokens.path), len(tokens)
        self._open()

    def __len__(self) -> int:
        return self.size

    def sampler(self, batch_size: int, seed: int) -> BlockSampler:
        """A random order of all rows."""
        return BlockSampler(self.size, 1, seed)

    def __getitem__(self, index: int) -> Record:
        if not 0 <= index < self.size:
            raise IndexError(f"row {index} of {self.size}")
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Record]:
        """The rows of a batch; only their sentences are read."""
        # read, not mapped: mapped pages count as memory of the process
        item, rows, ids, result = _RECORD.itemsize, self._rows.fileno(), self._ids.fileno(), []
        for index in indices:
            start = min(max(index - 1, 0), self.size - 3)  # of three records around the sentence
            near = [*struct.iter_unpack("<qii", os.pread(rows, 3 * item, item * start))]  # as `_RECORD`
            here = index - start
            last = here == 2 or near[here + 1][1] != near[here][1]  # of its document
            (offset, document, size), (_, _, after) = near[here - last : here - last + 2]
            flat = np.frombuffer(os.pread(ids, 4 * (size + after), 4 * offset), "<i4")
            pair = [flat[:size], flat[size:]]
            result.append({"input_ids": pair[::-1] if last else pair, "document": document})
        return result

    def _open(self) -> None:
        self._rows, self._ids = (self.path.with_suffix(end).open("rb") for end in (".rows", ".ids"))

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_rows", "_ids")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._open()


@dataclass
class NeighborPairCollator(PairCollator):
    """Collate rows of `NeighborPairs`; the documents are the targets, for `DocumentInfoNCE`.

    Example:
        ::

            [{"input_ids": [[2, 7, 3], [2, 8, 3]], "document": 4},       input_ids  [[[2, 7, 3], [2, 8, 3]],
             {"input_ids": [[2, 5, 3], [2, 6, 3]], "document": 0}]  ->               [[2, 5, 3], [2, 6, 3]]]
                                                                         targets    [4, 0]
    """

    def __call__(self, rows: Sequence[Record]) -> dict[str, Tensor]:
        """Make one batch.

        Args:
            rows: the rows of the batch.

        Returns:
            `input_ids` and `attention_mask` `[B, 2, L]`, padded on the right; the targets `[B]`: the
            number of the document of each row.
        """
        batch = super().__call__(rows)
        batch["targets"] = torch.tensor([row["document"] for row in rows])
        return batch
