"""What a task reads: columns of sentences and what people say about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Embed = Callable[[Sequence[str]], NDArray[np.floating]]  # [N] texts -> [N, d]


@dataclass(frozen=True)
class Rows:
    """N examples: `columns` of N sentences each (one, or two for pairs), `gold` `[N]` scores or class numbers."""

    columns: tuple[list[str], ...]
    gold: NDArray[Any]

    def __post_init__(self) -> None:
        if any(len(column) != len(self.gold) for column in self.columns):
            raise ValueError(f"columns of {[len(c) for c in self.columns]} sentences, {len(self.gold)} gold values")

    def __len__(self) -> int:
        return len(self.gold)

    def take(self, index: NDArray[Any]) -> Rows:
        """The rows at `index`, in that order."""
        return Rows(tuple([column[i] for i in index] for column in self.columns), self.gold[index])


@dataclass(frozen=True)
class Parts(Mapping[str, Rows]):
    """The splits or subsets of a task by name, and why others are `missing`."""

    rows: Mapping[str, Rows]
    missing: Mapping[str, str]
    classes: Sequence[str] = ()

    def __getitem__(self, name: str) -> Rows:
        return self.rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def texts(self) -> Iterator[str]:
        """Every sentence, repeated ones too."""
        return (text for rows in self.rows.values() for column in rows.columns for text in column)


def pair_rows(pairs: Sequence[tuple[str, str]], gold: Sequence[float] | Sequence[int]) -> Rows:
    """Rows of two columns."""
    return Rows(([a for a, _ in pairs], [b for _, b in pairs]), np.asarray(gold))
