"""The move of an index from one model to another: look, bridge, encode, switch; each step can be stopped and resumed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError
from contrastive_st.search.index import Ids, MovableIndex, Space, Vectors
from contrastive_st.search.migration.look import LEAST, Answers, Look, look
from contrastive_st.models.linear_map import LinearMap

BATCH = 2_048  # documents encoded and committed together: a kill loses at most one batch
_LIFTED = 8_192
Encode = Callable[[list[str]], Vectors]
Tell = Callable[[str], object]


@dataclass
class Move:
    """The move of an index to another model.

    Args:
        index: the index.
        encoder: the new model.
        model: the name or folder that the index records of it.
        share: of the time that this process works while it encodes the documents.
        tell: called with a line for each step.
        advance: called with the number of documents that have been encoded, and how many are missing.
    """

    index: MovableIndex
    encoder: Any
    model: str
    share: float = 1.0
    tell: Tell = field(default=lambda line: None)
    advance: Callable[[int, int], object] = field(default=lambda done, missing: None)

    def __post_init__(self) -> None:
        self.target = Space(-1, self.model, str(self.encoder.fingerprint), int(self.encoder.dimension))

    @property
    def begun(self) -> bool:
        """Whether a move to this model has begun before."""
        return any(space.fingerprint == self.target.fingerprint for space in self.index.spaces())

    def look(self, *, seconds: float = 60.0, answers: Answers | None = None, old_encoder: Any = None) -> Look | None:
        """Measure a sample; None if the index has so few documents that all are encoded at once."""
        if len(self.index) < LEAST:
            return None
        return look(self.index, self.encoder, seconds=seconds, answers=answers, old_encoder=old_encoder)

    def run(self, found: Look | None) -> None:
        """Bridge if the look says so, encode what is missing, and switch.

        Args:
            found: what the look said; None to resume, or without a bridge.
        """
        live, *others = self.index.spaces()
        if live.fingerprint == self.target.fingerprint and live.source is None:
            raise InputError(f"{live.model} answers already; --finish removes the former vectors, --rollback this one's")
        if foreign := [one for one in others if self.target.fingerprint not in (one.fingerprint, live.fingerprint)]:
            raise InputError(f"a move to {foreign[0].model} has begun; finish it, or give --rollback first")
        self._check_disk(bridged=found is not None and found.bridge)
        if found is not None and found.bridge:
            lifted = replace(self.target, source=live.number)
            self.bridge(self.index.add_space(lifted, found.lift.to_bytes()))
        else:
            for space in others:
                if space.source is not None:
                    self.bridge(space)
        target = self.index.add_space(self.target)
        self._fill(target, self._encoded, BATCH, self.share)
        self._switch(target, self._encoded)
        for space in self.index.spaces():
            if space.source is not None:
                self.index.drop_space(space)
        self.tell(f"{self.model} answers, with all documents encoded; --finish removes the former vectors")

    def bridge(self, space: Space) -> None:
        """Fill a space with lifted vectors, and let it answer."""
        started, lift = time.perf_counter(), LinearMap.from_bytes(self.index.lift_of(space))
        source = self.index.at(next(one for one in self.index.spaces() if one.number == space.source))
        lifted = lambda ids, texts: lift(source.vectors(ids.tolist()))
        self._fill(space, lifted, _LIFTED)
        self._switch(space, lifted)
        self.tell(f"lifted vectors answer for {self.model}, after {time.perf_counter() - started:.0f} s")

    # ------------------------------------------------------------------ inside

    def _encoded(self, ids: Ids, texts: list[str]) -> Vectors:
        """Vectors of documents; zeros, which no search finds, for a text of which the model knows no token."""
        ((_, vectors),) = self.encoder.encode_stream([texts])
        return np.asarray(vectors, np.float32)

    def _fill(
        self, space: Space, vectors: Callable[[Ids, list[str]], Vectors], size: int, share: float = 1.0
    ) -> None:
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
