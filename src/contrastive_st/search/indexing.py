"""From a corpus to an index: read, encode, write, one shard after the other."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from contrastive_st.errors import InputError
from contrastive_st.search.corpus import Corpus, Document
from contrastive_st.search.shards import FIRST, ShardFolder

if TYPE_CHECKING:
    from contrastive_st.search.bulk_encoder import BulkEncoder  # it imports torch, which loading does without

SHARD_ROWS = 16_384  # rows that are sorted by length and committed together: a kill costs the time of one such shard
Shard = tuple[int, int, list[Document]]  # its number, the place of its first row, its rows


class Sink(Protocol):
    """Where shards go: a `ShardFolder` or a `StoreLoader`."""

    def claim(self, shard: int) -> bool: ...

    def add(
        self,
        shard: int,
        ids: NDArray[np.int64],
        texts: Sequence[str],
        metadata: Sequence[Mapping[str, Any]],
        vectors: NDArray[np.float32],
    ) -> None: ...

    def finish(self, shards: int, rows: int) -> bool: ...


@dataclass
class Outcome:
    """What a run did: rows it encoded, rows the corpus has, and whether all of them are in the index now."""

    encoded: int = 0
    rows: int = 0
    complete: bool = False


def index_corpus(
    corpus: Corpus, encoder: BulkEncoder, sink: Sink, *, shard_rows: int = SHARD_ROWS, progress: bool = False
) -> Outcome:
    """Encode what is not yet there, and write it; to be called again after a kill, or by many processes at once.

    Args:
        corpus: read as a stream.
        encoder: the model.
        sink: takes the shards, and knows which are there.
        shard_rows: rows a shard. The same for all runs over a corpus: it is part of what a shard is.
        progress: show a bar with the rate and the time left.
    """
    if shard_rows < 1:
        raise InputError(f"{shard_rows} rows a shard: give 1 or more")
    outcome = Outcome()
    with tqdm(total=corpus.rows, disable=not progress, unit=" rows", desc="index", file=sys.stderr) as bar:

        def wanted() -> Iterator[Shard]:
            for shard, first, documents in _shards(corpus, shard_rows):
                outcome.rows = first + len(documents)
                if sink.claim(shard):
                    yield shard, first, documents
                else:  # counted as there from the first, or the rate and the time left would be wrong
                    bar.initial = getattr(bar, "initial", 0) + _source_rows(documents)
                    bar.update(_source_rows(documents))

        def texts(shard: Shard) -> list[str]:
            return [part for document in shard[2] for part in document.parts]

        for (shard, first, documents), vectors in encoder.encode_each(wanted(), texts):
            ids = np.arange(first, first + len(documents), dtype=np.int64)
            rows = ([document.text for document in documents], [document.metadata for document in documents])
            sink.add(shard, ids, *rows, _pooled(documents, vectors))
            outcome.encoded += len(documents)
            bar.update(_source_rows(documents))
    outcome.complete = sink.finish(-(-outcome.rows // shard_rows), outcome.rows)
    return outcome


def load_shards(folder: ShardFolder, sink: Sink, *, progress: bool = False) -> Outcome:
    """Load what was encoded before, without a model."""
    outcome = Outcome()
    numbers = []
    with tqdm(total=len(folder.paths()), disable=not progress, unit=" shards", desc="load", file=sys.stderr) as bar:
        for shard, (ids, texts, metadata, vectors) in folder.batches():
            numbers.append(shard)
            outcome.rows += len(ids)
            if sink.claim(shard):
                sink.add(shard, ids, texts, metadata, vectors)
                outcome.encoded += len(ids)
            bar.update(1)
    if numbers != list(range(len(numbers))):
        raise InputError(f"{folder.folder} lacks shards; encode the corpus to its end first")
    outcome.complete = sink.finish(len(numbers), outcome.rows)
    return outcome


def _shards(corpus: Corpus, shard_rows: int) -> Iterator[Shard]:
    documents = corpus.read()
    for shard in itertools.count():
        chunk = list(itertools.islice(documents, shard_rows))
        if not chunk:
            return
        if shard * shard_rows >= FIRST:
            raise InputError(f"{corpus.name}: more than {FIRST} rows; index it in parts")
        yield shard, shard * shard_rows, chunk


def _source_rows(documents: Sequence[Document]) -> int:
    return len({document.row for document in documents})


def _pooled(documents: Sequence[Document], vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """One unit vector a document: the mean of those of its parts."""
    counts = np.array([len(document.parts) for document in documents])
    if len(vectors) == len(documents):
        return vectors
    sums = np.add.reduceat(vectors, np.concatenate([[0], np.cumsum(counts)[:-1]]), axis=0)
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.where(norms > 1e-6, sums / np.maximum(norms, 1e-6), vectors[np.cumsum(counts) - 1]).astype(np.float32)
