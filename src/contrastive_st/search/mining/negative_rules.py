"""`NegativeRules`: which of the texts near to an anchor become its negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError
from contrastive_st.options import Count, CountOrZero, Finite, Options


@dataclass(frozen=True)
class NegativeRules(Options):
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

    range_min: CountOrZero = 0
    range_max: int | None = None
    num_negatives: Count = 3
    max_score: Finite | None = None
    min_score: Finite | None = None
    absolute_margin: Finite | None = None
    relative_margin: Finite | None = None
    sampling_strategy: Literal["top", "random"] = "top"
    seed: CountOrZero = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.range_min + self.num_negatives > self.candidates:
            room = f"ranks {self.range_min} to {self.range_max} have fewer than {self.num_negatives} negatives"
            raise InputError(f"range_max {self.range_max}: {room}; give {self.range_min + self.num_negatives} or more")

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
