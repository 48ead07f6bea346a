"""The move of an index to another model: encode, switch; each step can be stopped and resumed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from contrastive_st.errors import InputError
from contrastive_st.search.index import Space, check_model

if TYPE_CHECKING:
    from contrastive_st.models.encoder import SentenceEncoder
    from contrastive_st.search.postgres.store import VectorStore

BATCH = 2_048  # documents encoded and committed together: a kill loses at most one batch


@dataclass
class Move:
    """The move of an index to another model.

    Args:
        index: the index.
        encoder: the new model.
        model: the name or folder that the index records of it.
        share: of the time that this process works while it encodes the documents.
        log: called with a line at the end.
        advance: called with the number of documents that have been encoded, and how many are missing.
    """

    index: VectorStore
    encoder: SentenceEncoder
    model: str
    share: float = 1.0
    log: Callable[[str], object] = field(default=lambda line: None)
    advance: Callable[[int, int], object] = field(default=lambda done, missing: None)
    _fill_batch: int = BATCH

    def __post_init__(self) -> None:
        self.target = Space(-1, self.model, str(self.encoder.fingerprint), int(self.encoder.dimension))

    @property
    def begun(self) -> bool:
        """Whether a move to this model has begun before."""
        return any(space.fingerprint == self.target.fingerprint for space in self.index.spaces())

    def run(self) -> None:
        """Encode what is missing, and switch."""
        live, *others = self.index.spaces()
        if live.fingerprint == self.target.fingerprint:
            raise InputError(f"searches already use {live.model}{_removal(live, others)}")
        if any(one.fingerprint != self.target.fingerprint for one in others):
            newest = max([live, *others], key=lambda space: space.number)
            raise InputError(f"a migration to {newest.model} has begun; complete it, or give --rollback first")
        needed, free = self.bytes_needed()
        if free is not None and needed > free:
            raise InputError(f"the migration needs about {needed / 2**30:.1f} GiB, but {free / 2**30:.1f} GiB are free")
        target = self.index.add_space(self.target)
        self.fill(target, self.share)
        self.index.within(target).build_index(self.index.now().index)
        while self.index.activate(target):  # what was added meanwhile is written first
            self.fill(target)
        removal = _removal(target, [live, *others])
        self.log(f"all documents are encoded, and searches use {self.model}{removal}")

    def bytes_needed(self) -> tuple[int, int | None]:
        """About how many bytes the move takes on the disk until it is finished, and how many are free."""
        return self.index.space_bytes(self.target, len(self.index))

    def fill(self, space: Space, share: float = 1.0) -> None:
        """Write the vectors that a space lacks, in the order of ids; begins again until a pass finds none.

        A text of which the model knows no token gets a vector of zeros, which no search finds.
        """
        missing = self.index.count_missing(space)
        while missing:
            after: int | None = None
            while (batch := self.index.missing(space, after, self._fill_batch)) and len(batch[0]):
                started, (ids, texts) = time.perf_counter(), batch
                ((_, vectors),) = self.encoder.encode_stream([texts])
                self.index.put(space, ids, texts, np.asarray(vectors, np.float32))
                after, missing = int(ids[-1]), max(missing - len(ids), 0)
                self.advance(len(ids), missing)
                time.sleep((time.perf_counter() - started) * (1 / share - 1))
            missing = self.index.count_missing(space)


def _removal(live: Space, others: list[Space]) -> str:
    """Which flag removes the vectors that no search uses; those of a newer model are of a move, begun or taken back."""
    newest = max([live, *others], key=lambda space: space.number)
    if newest != live:
        return f"; --rollback removes the vectors of {newest.model}"
    return "; --finish removes the old vectors, --rollback the new" if others else ""


def _spaces_of_move(index: VectorStore) -> list[Space]:
    """The spaces of an index that has more than one."""
    spaces = index.spaces()
    if len(spaces) < 2:
        raise InputError(f"there is no migration: all vectors are of {spaces[0].model}")
    return spaces


def finish(index: VectorStore) -> list[Space]:
    """Remove the vectors that a move has replaced; return the spaces that are gone.

    Raises:
        InputError: there is no move, or it has not ended.
    """
    live, *others = _spaces_of_move(index)
    if (newest := max(others, key=lambda space: space.number)).number > live.number:
        raise InputError(f"searches do not use {newest.model} yet: migrate to it again, or give --rollback")
    for space in others:
        index.drop_space(space)
    return others


def roll_back(index: VectorStore, open_model: Callable[[str], SentenceEncoder]) -> Space:
    """Return to the vectors from before a move, and remove all others.

    Args:
        index: the index.
        open_model: opens the former model, if documents were written that it has to encode.

    Returns:
        The space that answers now.

    Raises:
        InputError: there is no move.
    """
    live, *others = _spaces_of_move(index)
    former = min([live, *others], key=lambda space: space.number)
    if former != live:
        while index.activate(former):
            back = Move(index, open_model(former.model), former.model)
            check_model(former, back.target.fingerprint, "the index of before")
            back.fill(former)
    for space in index.spaces()[1:]:
        index.drop_space(space)
    return former
