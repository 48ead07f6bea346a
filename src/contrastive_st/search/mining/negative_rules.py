"""`NegativeRules`: which of the texts near to an anchor become its negatives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError

STRATEGIES = ("top", "random")


@dataclass(frozen=True)
class NegativeRules:
    """Rules that choose the negatives of an anchor; the names are those of sentence-transformers.

    Args:
        range_min: lowest rank of a negative, counted from 0 without the anchor's positives.
        range_max: highest rank of a negative, exclusive; by default `range_min + 10 * num_negatives`.
        num_negatives: negatives per anchor.
        max_score: highest score of a negative.
        min_score: lowest score of a negative.
        absolute_margin: a negative scores at least this much less than the positive.
        relative_margin: the same, as a share of the positive's score: 0.05 allows 95% of it.
        sampling_strategy: `top` takes those with the highest scores, `random` draws from all that the rules allow.
        seed: seed of `random`.

    Raises:
        InputError: a number is out of range.

    Example:
        >>> rules = NegativeRules(num_negatives=2, relative_margin=0.1)
        >>> rules.choose(np.array([[0.95, 0.8, 0.6, 0.5]]), np.array([0.9]), np.random.default_rng(0)).tolist()
        [[1, 2]]
    """

    range_min: int = 0
    range_max: int | None = None
    num_negatives: int = 3
    max_score: float | None = None
    min_score: float | None = None
    absolute_margin: float | None = None
    relative_margin: float | None = None
    sampling_strategy: str = "top"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("range_min", 0), ("num_negatives", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} {getattr(self, name)}: give {least} or more")
        for name in ("max_score", "min_score", "absolute_margin", "relative_margin"):
            if not math.isfinite(getattr(self, name) or 0.0):
                raise InputError(f"{name} {getattr(self, name)}: give a finite number")
        if self.range_min + self.num_negatives > self.candidates:
            room = f"ranks {self.range_min} to {self.range_max} have fewer than {self.num_negatives} negatives"
            raise InputError(f"range_max {self.range_max}: {room}; give {self.range_min + self.num_negatives} or more")
        if self.sampling_strategy not in STRATEGIES:
            raise InputError(f"sampling_strategy {self.sampling_strategy}: choose one of {', '.join(STRATEGIES)}")

    @property
    def candidates(self) -> int:
        """The number of nearest documents that are considered."""
        return self.range_min + 10 * self.num_negatives if self.range_max is None else self.range_max

    def choose(
        self, scores: NDArray[np.floating[Any]], positive: NDArray[np.floating[Any]], random: np.random.Generator
    ) -> NDArray[np.int64]:
        """Choose the negatives: positions among the candidates of each anchor, highest score first, padded with -1.

        Args:
            scores: scores `[Q, k]` of the candidates by rank; -inf if there is no candidate.
            positive: scores `[Q]` of the anchors' positives; the lowest one if there are several.
            random: the generator for `random`.

        Returns:
            `[Q, num_negatives]`.
        """
        highest = np.full(len(scores), np.inf if self.max_score is None else self.max_score)
        for margin, unit in ((self.absolute_margin, 1.0), (self.relative_margin, np.abs(positive))):
            if margin is not None:
                highest = np.minimum(highest, positive - margin * unit)
        may = (scores > -np.inf) & (scores <= highest[:, None])
        may[:, : self.range_min] = False
        if self.min_score is not None:
            may &= scores >= self.min_score
        key = -scores if self.sampling_strategy == "top" else random.random(scores.shape)
        order = np.argsort(np.where(may, key, np.inf), axis=1, kind="stable")[:, : self.num_negatives]
        taken = np.take_along_axis(np.where(may, scores, -np.inf), order, axis=1)
        falling = np.argsort(-taken, axis=1, kind="stable")
        places = np.full((len(scores), self.num_negatives), -1)
        found = np.take_along_axis(taken, falling, axis=1) > -np.inf
        places[:, : order.shape[1]] = np.where(found, np.take_along_axis(order, falling, axis=1), -1)
        return places
