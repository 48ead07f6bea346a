"""The move of an index to another model: look, bridge, encode, switch; each step can be stopped and resumed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from contrastive_st.errors import InputError
from contrastive_st.models.linear_map import LinearMap
from contrastive_st.search.index import Ids, MovableIndex, Space, Vectors, check_model
from contrastive_st.search.migration.look import LEAST, Answers, Look, look

BATCH = 2_048  # documents encoded and committed together: a kill loses at most one batch
_LIFTED = 8_192
Encode = Callable[[list[str]], Vectors]
Log = Callable[[str], object]


@dataclass
class Move:
    """The move of an index to another model.

    Args:
        index: the index.
        encoder: the new model.
        model: the name or folder that the index records of it.
        share: of the time that this process works while it encodes the documents.
        log: called with a line for each step.
        advance: called with the number of documents that have been encoded, and how many are missing.
    """

    index: MovableIndex
    encoder: Any
    model: str
    share: float = 1.0
    log: Log = field(default=lambda line: None)
    advance: Callable[[int, int], object] = field(default=lambda done, missing: None)
    _fill_batch: int = BATCH

    def __post_init__(self) -> None:
        self.target = Space(-1, self.model, str(self.encoder.fingerprint), int(self.encoder.dimension))

    @property
    def begun(self) -> bool:
        """Whether a move to this model has begun before."""
        return any(space.fingerprint == self.target.fingerprint for space in self.index.spaces())

    def look(self, *, seconds: float = 60.0, answers: Answers | None = None, old_encoder: Any = None) -> Look | None:
        """Test a sample; None if the index has so few documents that all are encoded at once."""
        if len(self.index) < LEAST:
            return None
        return look(self.index, self.encoder, seconds=seconds, answers=answers, old_encoder=old_encoder)

    def run(self, look: Look | None) -> None:
        """Bridge if the look chose it, encode what is missing, and switch.

        Args:
            look: the result of `look`; None to resume, or without a bridge.
        """
        live, *others = self.index.spaces()
        if live.fingerprint == self.target.fingerprint and live.source is None:
            raise InputError(
                f"searches already use {live.model}; --finish removes the old vectors, --rollback the new ones"
            )
        if foreign := [one for one in others if self.target.fingerprint not in (one.fingerprint, live.fingerprint)]:
            raise InputError(f"a migration to {foreign[0].model} has begun; complete it, or give --rollback first")
        self._check_disk(bridged=look is not None and look.bridge)
        if look is not None and look.bridge:
            lifted = replace(self.target, source=live.number)
            self.bridge(self.index.add_space(lifted, look.lift.to_bytes()))
        else:
            for space in others:
                if space.source is not None:
                    self.bridge(space)
        target = self.index.add_space(self.target)
        self._fill(target, self._encoded, self._fill_batch, self.share)
        self._switch(target, self._encoded)
        for space in self.index.spaces():
            if space.source is not None:
                self.index.drop_space(space)
        self.log(f"all documents are encoded, and searches use {self.model}; --finish removes the old vectors")

    def bridge(self, space: Space) -> None:
        """Fill a space with lifted vectors, and let it answer."""
        started, lift = time.perf_counter(), LinearMap.from_bytes(self.index.lift_of(space))
        source = self.index.within(next(one for one in self.index.spaces() if one.number == space.source))
        lifted = lambda ids, texts: lift(source.vectors(ids.tolist()))
        self._fill(space, lifted, _LIFTED)
        self._switch(space, lifted)
        self.log(f"searches use {self.model} with lifted vectors, after {time.perf_counter() - started:.0f} s")

    def bytes_needed(self, bridged: bool) -> tuple[int, int | None]:
        """About how many bytes the move takes on the disk until it is finished, and how many are free."""
        needed, free = self.index.space_bytes(self.target, len(self.index))
        return needed * (1 + bridged), free

    # ------------------------------------------------------------------ inside

    def _check_disk(self, bridged: bool) -> None:
        needed, free = self.bytes_needed(bridged)
        if free is not None and needed > free:
            raise InputError(
                f"the migration needs about {needed / 2**30:.1f} GiB, but only {free / 2**30:.1f} GiB are free"
            )

    def _encoded(self, ids: Ids, texts: list[str]) -> Vectors:
        """Vectors of documents; zeros, which no search finds, for a text of which the model knows no token."""
        ((_, vectors),) = self.encoder.encode_stream([texts])
        return np.asarray(vectors, np.float32)

    def _fill(self, space: Space, vectors: Callable[[Ids, list[str]], Vectors], size: int, share: float = 1.0) -> None:
        """Write the vectors that are missing, in the order of ids; begins again until a pass finds none."""
        missing = self.index.lacking(space)
        while missing:
            after: int | None = None
            while (batch := self.index.missing(space, after, size)) and len(batch[0]):
                started, (ids, texts) = time.perf_counter(), batch
                self.index.put(space, ids, texts, vectors(ids, texts))
                after, missing = int(ids[-1]), max(missing - len(ids), 0)
                self.advance(len(ids), missing)
                time.sleep((time.perf_counter() - started) * (1 / share - 1))
            missing = self.index.lacking(space)

    def _switch(self, space: Space, vectors: Callable[[Ids, list[str]], Vectors]) -> None:
        """Build the index of a space and let it answer; what was added meanwhile is written first."""
        self.index.build_like(space)
        while self.index.activate(space):
            self._fill(space, vectors, BATCH)


def _spaces_of_move(index: MovableIndex) -> list[Space]:
    """The spaces of an index that has more than one."""
    spaces = index.spaces()
    if len(spaces) < 2:
        raise InputError(f"there is no migration: all vectors are of {spaces[0].model}")
    return spaces


def finish(index: MovableIndex) -> list[Space]:
    """Remove the vectors that a move has replaced; return the spaces that are gone.

    Raises:
        InputError: there is no move, or it has not ended.
    """
    live, *others = _spaces_of_move(index)
    if live.source is not None or live.number < max(one.number for one in others):
        raise InputError("the migration is not complete: run it again with the same model, or give --rollback")
    for space in others:
        index.drop_space(space)
    return others


def roll_back(index: MovableIndex, open_model: Callable[[str], Any]) -> Space:
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
            back._fill(former, back._encoded, BATCH)
    for space in index.spaces()[1:]:
        index.drop_space(space)
    return former
