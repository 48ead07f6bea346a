"""How well a map to another model works, on a sample of an index, before anything is changed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError
from contrastive_st.models.linear_map import LinearMap, Vectors
from contrastive_st.search.index import Id, VectorIndex
from contrastive_st.search.values import as_id
from contrastive_st.vectors import top_k_in_blocks, unit_vectors

K = 10  # hits that are compared
MOST = 5_000  # documents of a sample: with 10,000 the map is a tenth of a point better
FAITHFUL = 0.5  # of the new model's nearest documents that lifted vectors find, or the map says too little
RICHER = 0.01  # by how much the old ranking must follow better from the new model than the other way round
LEAST = 200  # below this there is nothing to bridge: all is encoded at once
_DRAWS, _BATCH, _BLOCK = 2_000, 256, 32_768
Values = NDArray[np.float64]
#: Queries with the ids of the documents that answer them
Answers = Mapping[str, Sequence[Id]]


class Interval(NamedTuple):
    """A mean with its 95% interval by bootstrap over the queries."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Values, seed: int = 0) -> Interval:
        """The interval of the mean of values `[n]`; of differences, it is that of paired queries."""
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(len(values), np.full(len(values), 1 / len(values)), _DRAWS)
        low, high = np.percentile(counts @ values / len(values), [2.5, 97.5])
        return cls(float(values.mean()), float(low), float(high))

    def __str__(self) -> str:
        return f"{self.mean:.3f} ({self.low:.3f} to {self.high:.3f})"


class PerQuery(NamedTuple):
    """A metric of the old vectors, the lifted ones and those of the new model, for each query, `[Q]`."""

    old: Values
    lifted: Values
    new: Values

    @property
    def gain(self) -> Interval:
        """What lifting gains over the old vectors."""
        return Interval.of(self.lifted - self.old)


@dataclass(frozen=True)
class Look:
    """What a sample says of a change of the model.

    Args:
        documents: how many the index has.
        sampled: how many were encoded with the new model.
        rate: documents that the new model encodes in a second.
        recall: share of the new model's ten nearest documents of the sample that each kind of vectors finds, of the
            documents that the map was not fitted on.
        backward: share of the old vectors' ten nearest that those of the new model find, mapped to the old ones.
        labelled: nDCG@10 in the sample, if answers were given.
        lift: the map, fitted on the whole sample.
    """

    documents: int
    sampled: int
    rate: float
    recall: PerQuery
    backward: Values
    labelled: PerQuery | None
    lift: LinearMap

    @property
    def richer(self) -> Interval:
        """How much better the old ranking follows from the new model than the new one from the old vectors.

        Of two models, the one from which the other follows knows more. So below 0 the new model is the poorer one, and
        to be near to it is not a gain; answers to queries are the only other way to see that.
        """
        return Interval.of(self.backward - self.recall.lifted)

    @property
    def bridge(self) -> bool:
        """Whether lifted vectors are better than the old ones by the whole interval: of the answers, if there are.

        Without answers they are if they find half of what the new model finds, and more of it than the old ones, and
        the new model is the richer one.
        """
        if self.labelled is not None:
            return self.labelled.gain.low > 0
        faithful = float(self.recall.lifted.mean()) >= FAITHFUL
        return faithful and self.recall.gain.low > 0 and self.richer.low > RICHER

    def lines(self) -> list[str]:
        """The results as lines of text."""
        held = len(self.recall.old)
        lines = [
            f"sample: {self.sampled:,} of {self.documents:,} documents encoded, {self.rate:,.0f} a second; "
            f"the map to the new model is fitted on half of them and tested on the others ({held:,})",
            _line(f"share of the new model's {K} nearest documents there that are found by", self.recall),
            f"share of the old vectors' {K} nearest documents that are found by new vectors mapped to the old model: "
            f"{Interval.of(self.backward)}",
        ]
        if self.labelled is not None:
            lines.append(
                _line(f"nDCG@{K} of {len(self.labelled.old):,} queries in the sample", self.labelled, new=True)
            )
        return [
            *lines,
            f"{self._reason()}: until all is encoded, searches use the {'new' if self.bridge else 'old'} model",
        ]

    def _reason(self) -> str:
        gain = (self.recall if self.labelled is None else self.labelled).gain
        if gain.low <= 0:
            return f"lifted vectors are not clearly better than the old ones ({gain.low:+.3f} to {gain.high:+.3f})"
        if self.labelled is None and float(self.recall.lifted.mean()) < FAITHFUL:
            return f"lifted vectors find less than {FAITHFUL:.0%} of what the new model finds"
        if self.labelled is None and self.richer.low <= RICHER:
            return "it is not clear that the new model is the better one (--queries or --retrieval would measure it)"
        return f"lifted vectors are better than the old ones ({gain.low:+.3f} to {gain.high:+.3f})"


def _line(what: str, metrics: PerQuery, new: bool = False) -> str:
    shown = f"{what}: old vectors {Interval.of(metrics.old)}, lifted (mapped) {Interval.of(metrics.lifted)}"
    return shown + (f", new {Interval.of(metrics.new)}" if new else "")


def look(
    index: VectorIndex,
    encoder: Any,
    *,
    seconds: float = 60.0,
    answers: Answers | None = None,
    old_encoder: Any = None,
    most: int = MOST,
    seed: int = 0,
) -> Look:
    """Encode a sample with a new model, fit the map on half of it and test it on the other half.

    Args:
        index: the index.
        encoder: the new model.
        seconds: how long to encode; at most `most` documents.
        answers: queries with the ids of documents that answer them, for metrics that do not depend on the new model.
        old_encoder: the model of the index, for the queries of `answers`.
        most: most documents.
        seed: of the sample.

    Returns:
        The map, and how well lifted vectors work.

    Raises:
        InputError: the new model knows no token of the documents, or the index does not have the answers.
    """
    relevant = [sorted({as_id(id) for id in ids}) for ids in (answers or {}).values()]
    wanted = sorted({id for ids in relevant for id in ids})
    drawn = index.draw(most, seed)
    order = np.concatenate([np.array(wanted, np.int64), drawn[~np.isin(drawn, wanted)]])[: max(most, len(wanted))]
    new, took = _encoded(index, encoder, order, seconds, len(wanted))
    known = np.asarray(new.any(axis=1))
    if not known.any():
        raise InputError(f"{encoder.name} knows none of the tokens of the documents; choose another model")
    ids, new = order[: len(new)][known], new[known]
    old = unit_vectors(index.vectors(ids.tolist()))
    half = np.random.default_rng(seed).permutation(len(ids))
    fitted, held = half[: len(ids) // 2], half[len(ids) // 2 :]
    part = LinearMap.fit(old[fitted], new[fitted])
    labelled = None
    if answers:
        queries = [unit_vectors(np.asarray(model.encode_query(list(answers)))) for model in (old_encoder, encoder)]
        labelled = _labelled(queries, (old, part(old), new), ids, relevant)
    recall = _recall(old[held], part(old[held]), new[held])
    back = LinearMap.fit(new[fitted], old[fitted])
    backward = _recall(new[held], back(new[held]), old[held]).lifted
    return Look(len(index), len(ids), len(known) / took, recall, backward, labelled, LinearMap.fit(old, new))


def _encoded(
    index: VectorIndex, encoder: Any, ids: NDArray[np.int64], seconds: float, least: int
) -> tuple[Vectors, float]:
    """Vectors of the first documents, as many as there is time for, and the seconds that it took."""
    started, done = time.perf_counter(), 0
    vectors: list[Vectors] = []
    while done < len(ids) and (done < max(least, LEAST) or time.perf_counter() - started < seconds):
        texts = [hit.text for hit in index.get(ids[done : done + _BATCH].tolist())]
        ((_, batch),) = encoder.encode_stream([texts])
        vectors.append(batch)
        done += len(texts)
    return np.concatenate(vectors), time.perf_counter() - started


def nearest(queries: Vectors, documents: Vectors, k: int = K, themselves: bool = False) -> NDArray[np.int64]:
    """The k nearest documents of each query `[Q, k]`; with `themselves`, query i is document i, and left out."""

    def compare(rows: slice, part: slice) -> Any:
        scores = queries[rows] @ documents[part].T
        if themselves:
            same = np.arange(len(queries))[rows][:, None] == np.arange(len(documents))[part]
            scores[same] = -2
        return scores

    return top_k_in_blocks(compare, len(queries), len(documents), k, _BLOCK)[1]


def _recall(old: Vectors, lifted: Vectors, new: Vectors) -> PerQuery:
    """How many of the new model's nearest each kind of vectors finds; queries are the documents themselves."""
    true = nearest(new, new, themselves=True)
    result = (nearest(queries, documents, themselves=True) for queries, documents in ((old, old), (new, lifted)))
    shares = [np.array([np.isin(top, real).mean() for top, real in zip(one, true, strict=True)]) for one in result]
    return PerQuery(shares[0], shares[1], np.ones(len(true)))


def _labelled(
    queries: Sequence[Vectors], documents: Sequence[Vectors], ids: NDArray[np.int64], relevant: Sequence[Sequence[int]]
) -> PerQuery:
    old, new = queries
    result = [nearest(vectors, there) for vectors, there in zip((old, new, new), documents, strict=True)]
    return PerQuery(*(ndcg(ids[one], relevant) for one in result))


def ndcg(ranked: NDArray[np.int64], relevant: Sequence[Sequence[int]]) -> Values:
    """nDCG of each query `[Q]`, of the ids that it finds `[Q, k]`, where an answer is relevant or not.

    Example:
        >>> ndcg(np.array([[7, 8], [7, 8]]), [[7], [8]]).round(2).tolist()
        [1.0, 0.63]
    """
    discounts = 1 / np.log2(np.arange(2, ranked.shape[1] + 2))
    return np.array(
        [
            float(np.isin(top, list(true)) @ discounts / discounts[: len(true)].sum())
            for top, true in zip(ranked, relevant, strict=True)
        ]
    )
