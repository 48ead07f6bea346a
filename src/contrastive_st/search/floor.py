"""What a score means in an index: the cosines of random documents, of nearest ones, and of sentences from elsewhere."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import about
from contrastive_st.search.index import Hit, VectorIndex
from contrastive_st.vectors import unit_vectors

AUTO = 0.95  # of the foreign sentences have no document that is nearer than `auto`
QUANTILES = (0.05, 0.5, 0.95)
MinScore = float | str  # a cosine, also as text, or `auto`
_DRAWN, _NEAREST = 1_000, 100


def foreign_sentences() -> list[str]:
    """A hundred questions and statements on a hundred matters, most of which an index knows nothing of."""
    return (files("contrastive_st.search") / "foreign_sentences.txt").read_text(encoding="utf-8").splitlines()


def foreign_scores(index: VectorIndex, encoder: Any) -> NDArray[np.float64]:
    """The cosine of each foreign sentence, as a query, to the document nearest to it."""
    texts = foreign_sentences()
    texts = [text for text, known in zip(texts, encoder.knows(texts), strict=True) if known]
    return _best(index.search(unit_vectors(encoder.encode_query(texts)), 1)) if texts else np.empty(0)


def floor(index: VectorIndex, encoder: Any, asked: MinScore | None) -> float | None:
    """The lowest score of a hit: a number as it is, and `auto` as the index and the model of its queries have it.

    95% of the foreign sentences have no document above it. An index without documents has no lowest score.

    Raises:
        ValueError: it is another text.
    """
    if asked is None:
        return None
    if asked != "auto":
        with about("min_score, a cosine such as 0.4, or auto"):
            return float(asked)
    scores = foreign_scores(index, encoder)
    return float(np.quantile(scores, AUTO)) if len(scores) else None


class Floors:
    """`floor` for a server, which finds `auto` once for each index and model."""

    def __init__(self) -> None:
        self._auto: dict[tuple[str, str | None], float | None] = {}

    def __call__(self, name: str, index: VectorIndex, encoder: Any, asked: MinScore | None) -> float | None:
        """As `floor`, of the index with this name."""
        if asked != "auto":
            return floor(index, encoder, asked)
        key = name, encoder.fingerprint
        if key not in self._auto:
            self._auto[key] = floor(index, encoder, asked)
        return self._auto[key]


def above(hits: list[Hit], lowest: float | None) -> list[Hit]:
    """The hits with a score of `lowest` or more, or all of them if that is None."""
    return hits if lowest is None else [hit for hit in hits if hit.score >= lowest]


def below(hits: list[Hit], lowest: float | None) -> list[str]:
    """A note on the hits that `above` leaves out, if there are any."""
    weak = len(hits) - len(above(hits, lowest))
    return [f"left out: {weak} of {len(hits)} hits, with a score below {lowest:.2f}"] if weak else []


def describe_scores(index: VectorIndex, encoder: Any) -> dict[str, str]:
    """The quantiles as text, by what was compared."""
    ids = index.draw(_DRAWN)
    if len(ids) < 2:
        return {}
    vectors = unit_vectors(index.vectors(ids.tolist()))
    cosines = (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]
    near = np.array([hits[1].score for hits in index.search(vectors[:_NEAREST], 2) if len(hits) > 1])
    foreign = foreign_scores(index, encoder)
    shown = {"random documents": cosines, "nearest document": near, "foreign sentences": foreign}
    return {
        what: ", ".join(f"{q:.0%} {np.quantile(scores, q):.2f}" for q in QUANTILES)
        for what, scores in shown.items()
        if len(scores)
    }


def _best(hits: list[list[Hit]]) -> NDArray[np.float64]:
    return np.array([result[0].score for result in hits if result])
