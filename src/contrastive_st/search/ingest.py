"""Indexing of a corpus: read, encode and write one shard after the other."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from contrastive_st.errors import InputError
from contrastive_st.search.column_types import joined_types, types_of
from contrastive_st.search.documents import Corpus, Document
from contrastive_st.search.index import Ids, Members, Sink, State
from contrastive_st.search.report import TOO_LONG, UNKNOWN, Report
from contrastive_st.search.shards import ShardFolder
from contrastive_st.search.values import nfc
from contrastive_st.vectors import unit_vectors

if TYPE_CHECKING:
    from contrastive_st.models.encoder import SentenceEncoder

SHARD_ROWS = 16_384  # rows that are sorted by length and committed together: a kill loses at most one such shard
SHARD_CHARACTERS = 1 << 24
_ENCODED = "new", "changed"  # the states of the documents that are encoded; they are counted when they are written


class _Shard(NamedTuple):
    """A shard to be written: its number, the files and ids of its documents, and those that are to be encoded.

    `new` has the places of these in the shard, and `states` says which are new and which have changed.
    """

    number: int
    files: list[str]
    ids: Ids
    new: Ids
    states: list[State]
    documents: list[Document]


@dataclass
class Outcome:
    """Result of a run: rows it encoded, rows of the corpus, and whether all of them are in the index now.

    `loading` is the number of seconds spent on writing, as opposed to reading and encoding. `states` counts the
    documents that are new, changed, relabelled, unchanged and deleted; the last are left out. `removed` is the number
    of documents that have left the corpus and the index, `kept` that of the documents of files that can no longer be
    read.
    """

    encoded: int = 0
    rows: int = 0
    complete: bool = False
    loading: float = 0.0
    states: Counter[str] = field(default_factory=Counter)
    removed: int = 0
    kept: int = 0


def index_corpus(
    corpus: Corpus,
    encoder: SentenceEncoder,
    sink: Sink,
    *,
    shard_rows: int = SHARD_ROWS,
    progress: bool = False,
    report: Report | None = None,
) -> Outcome:
    """Encode and write the missing shards. It can be called again after a kill, and by many processes at once.

    Args:
        corpus: the corpus, read as a stream.
        encoder: the model.
        sink: receives the shards and knows which of them exist.
        shard_rows: rows per shard; must be the same in all runs over a corpus.
        progress: show a bar with the rate and the time left.
        report: counts what is left out, and what is longer than the model reads.

    Returns:
        What was encoded, and whether all documents are in the index now.
    """
    outcome, report, shards = Outcome(), Report() if report is None else report, 0
    unchanged, outcome.states = sink.known_files()
    outcome.rows, corpus = outcome.states.total(), corpus.without(unchanged)
    with tqdm(total=corpus.rows, disable=not progress, unit=" rows", desc="index") as bar:

        def pending() -> Iterator[_Shard]:
            nonlocal shards
            for shard, documents in _shards(corpus, shard_rows, report):
                shards, outcome.rows = shards + 1, outcome.rows + len(documents)
                first = shard * shard_rows
                numbers = [one.id for one in documents] if corpus.own_ids else range(first, first + len(documents))
                ids = np.array(numbers, dtype=np.int64)
                if sink.claim(shard):
                    states = sink.compare(ids, [one.text for one in documents], [one.metadata for one in documents])
                    moved = [i for i, state in enumerate(states) if state == "relabelled"]
                    sink.relabel(ids[moved], [documents[i].metadata for i in moved])
                    new = [i for i, state in enumerate(states) if state in _ENCODED]
                    outcome.states.update(state for state in states if state not in _ENCODED)
                    chosen = [states[i] for i in new], [documents[i] for i in new]
                    yield _Shard(shard, [one.file for one in documents], ids, np.array(new, dtype=np.int64), *chosen)
                else:  # existing shards count as done from the start, or the rate and the time left would be wrong
                    bar.initial = getattr(bar, "initial", 0) + _source_rows(documents)
                    bar.update(_source_rows(documents))
                    outcome.states.update(_there(sink, ids))

        def longer(shard: _Shard, positions: Sequence[int]) -> None:
            for i in positions:
                report.leave_out(TOO_LONG, _where(shard.documents[i]))

        options = {"longer": longer} if getattr(encoder, "max_length", None) is not None else {}
        texts_of = lambda shard: [document.text for document in shard.documents]
        for shard, vectors in encoder.encode_stream(pending(), texts_of, **options):
            known = vectors.any(axis=1)
            for i in np.flatnonzero(~known).tolist():
                report.leave_out(UNKNOWN, _where(shard.documents[i]))
            kept = [shard.documents[i] for i in np.flatnonzero(known)]
            rows = [document.text for document in kept], [document.metadata for document in kept]
            units = unit_vectors(vectors[known], of=f"{corpus.name}, shard {shard.number}")
            left_out = shard.new[~known]
            there = np.delete(np.arange(len(shard.ids)), left_out)
            members = Members([shard.files[i] for i in there], shard.ids[there], shard.ids[left_out])
            started = time.perf_counter()
            sink.add(shard.number, (shard.ids[shard.new[known]], *rows, units), members)
            outcome.states.update(shard.states[i] for i in np.flatnonzero(known))
            outcome.loading += time.perf_counter() - started
            outcome.encoded += len(kept)
            bar.update(_source_rows(shard.documents))
    outcome.complete = sink.finish(shards, report.unread)
    outcome.removed, outcome.kept = sink.removed, sink.kept
    return outcome


def load_shards(folder: ShardFolder, sink: Sink, *, progress: bool = False) -> Outcome:
    """Load shards that were encoded before, without a model.

    Raises:
        InputError: shards of the corpus are missing.
    """
    if missing := folder.missing():
        raise InputError(missing)
    outcome, shards = Outcome(), 0
    with tqdm(total=len(folder.paths()), disable=not progress, unit=" shards", desc="load") as bar:
        for shard, (ids, texts, metadata, vectors), members in folder.batches():
            shards += 1
            outcome.rows += len(ids)
            if sink.claim(shard):
                states = sink.compare(ids, texts, metadata)
                outcome.states.update(states)
                vectors = unit_vectors(vectors, of=f"{folder.folder}, shard {shard}")
                sink.add(shard, (ids, texts, metadata, vectors), members)
                outcome.encoded += sum(state in _ENCODED for state in states)
            else:
                outcome.states.update(_there(sink, ids))
            bar.update(1)
    outcome.complete, outcome.removed = sink.finish(shards), sink.removed
    return outcome


def _there(sink: Sink, ids: Ids) -> Counter[str]:
    """The states of the documents of a shard that exists, or that another process encodes."""
    gone = int(sink.deleted(ids).sum())
    return Counter({"deleted": gone, "unchanged": len(ids) - gone})


def _where(document: Document) -> str:
    return document.where or f"row {document.row + 1}"


def _shards(corpus: Corpus, shard_rows: int, report: Report) -> Iterator[tuple[int, list[Document]]]:
    """Shards of so many rows, or of documents with ids also fewer, so that long ones do not fill the memory."""
    documents = corpus.read(report)
    for shard in itertools.count():
        rows: list[Document] = []
        characters = 0
        for document in itertools.islice(documents, shard_rows):
            rows.append(document)
            characters += len(document.text)
            if corpus.own_ids and characters >= SHARD_CHARACTERS:
                break
        if not rows:
            return
        decided = {nfc(name): kind for name, kind in corpus.types.items()}
        report.types = joined_types(report.types, types_of((document.metadata for document in rows), decided))
        yield shard, rows


def _source_rows(documents: Sequence[Document]) -> int:
    return len({document.row for document in documents})
