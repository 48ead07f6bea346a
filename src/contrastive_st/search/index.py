"""What every index of vectors can do: the interface that the command line, the page and the adapters build on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Batch = tuple[NDArray[np.int64], list[str], list[dict[str, Any]], NDArray[np.float32]]


@dataclass(frozen=True)
class Hit:
    """A document that was found: its id, the cosine to the query, its text and its metadata.

    `score` is NaN where nothing was compared (`VectorIndex.get`).
    """

    id: int
    score: float
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)


class VectorIndex(Protocol):
    """Documents with their vectors: `ExactIndex` over files, `VectorStore` in PostgreSQL.

    `dimension` is the width d of the vectors, `fingerprint` a hash of the model that made them.

    A filter is a mapping from metadata keys to what is wanted, all of which must hold:

    * `{"source": "x"}`: equal to it; where the metadata holds a list, one of its elements is;
    * `{"year": {">=": 2020, "<": 2030}}`: comparisons, of `<`, `<=`, `>`, `>=`, `==` and `!=`;
    * `{"source": ["x", "y"]}`: any of these.
    """

    dimension: int
    fingerprint: str

    def __len__(self) -> int:
        """How many documents there are."""
        ...

    def search(
        self,
        vectors: NDArray[np.float32],
        k: int = 10,
        *,
        filter: Mapping[str, Any] | None = None,
        text: str | None = None,
        **options: Any,
    ) -> list[list[Hit]]:
        """The k nearest documents by cosine, best first; one list a query.

        Args:
            vectors: one query `[d]` or several `[Q, d]`; they need not be unit vectors.
            k: how many hits; fewer come back where fewer documents match.
            filter: conditions on the metadata, as above.
            text: words of the query: the ranking becomes hybrid, the reciprocal rank fusion (Cormack et al. 2009) of
                nearness and full text. `score` stays the cosine. For one query only.
            options: what an implementation takes besides, such as `ef_search` or `exact`.
        """
        ...

    def similar(self, id: int, k: int = 10, *, filter: Mapping[str, Any] | None = None) -> list[Hit]:
        """The k documents nearest to document `id`, without itself."""
        ...

    def get(self, ids: Sequence[int]) -> list[Hit]:
        """The documents of these ids, in that order; their score is NaN."""
        ...

    def scan(self, batch_size: int = 10_000) -> Iterator[Batch]:
        """All documents in batches: ids int64 `[n]`, texts, metadata, unit vectors float32 `[n, d]`; ordered by id."""
        ...

    def close(self) -> None:
        """Let go of what is held open."""
        ...
