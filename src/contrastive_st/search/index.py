"""`VectorIndex`, the interface of every index, which the command line, the page and the adapters use."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrastive_st.errors import InputError
from contrastive_st.search.filters import RANGES, Condition, Filter, Filterable, as_filter
from contrastive_st.search.report import UNKNOWN
from contrastive_st.search.values import Row, as_id, as_ids, given_and_own, one_line, own_id
from contrastive_st.vectors import float_array, unit_vectors

logger = logging.getLogger(__name__)

OVERSAMPLE = 40  # candidates of codes for each hit; benchmarks/quantized.py shows others
FUSED = 40  # hits of each half of a hybrid search that are fused
#: Of the softmaxes that are fused, the scale, and the number of words of documents for which both count the same;
#: docs/search.md has the measurement
_SCALE, _SHORT = 0.1, 10
#: What a document is to an index; of one that is relabelled, only the metadata have changed
State = Literal["new", "changed", "relabelled", "unchanged", "deleted"]
MOST_HITS = 100_000  # most hits of one search; use `scan` for all documents
_EXAMPLES = 20  # values of a column that a message shows
Ids = NDArray[np.int64]  # [n]
Id = int | str  # of a document; a text stands for an integer (`as_id`)
Vectors = NDArray[np.float32]  # [n, d]
Metadata = Sequence[Mapping[str, object]]
Batch = tuple[Ids, list[str], list[Row], Vectors]


@dataclass(frozen=True)
class Hit:
    """A hit of a search: its id, the cosine to the query, its text and its metadata.

    `id` is a number; `own_id` is the id that the source of the document has. `score` is NaN if nothing was compared
    (`VectorIndex.get`). `own` has what the index itself keeps of a document: of a part of a document (`--split_into`)
    its number `part` and the number `document` of its row.
    """

    id: int
    score: float
    text: str
    metadata: Row = field(default_factory=dict)
    own: Row = field(default_factory=dict)

    @classmethod
    def of(cls, id: int, score: float, text: str, held: Mapping[str, object]) -> Hit:
        """A hit with metadata as an index holds them."""
        return cls(id, score, text, *given_and_own(held))

    @property
    def own_id(self) -> int | str:
        """The id as the source of the document writes it."""
        return str(self.own["id"]) if "id" in self.own else own_id(self.id, self.metadata)

    @property
    def place(self) -> Row:
        """Of a part, its row and its number, by the columns of filters."""
        return {f"({name})": self.own[name] for name in ("document", "part") if name in self.own}


class Asked(NamedTuple):
    """What `VectorIndex.search` is asked for: unit vectors `[Q, d]`, and a filter by the types of the columns."""

    queries: Vectors
    k: int
    filter: Filter
    text: str | None
    exact: bool | None
    ef_search: int | None
    oversample: int

    @property
    def candidates(self) -> int:
        """How many hits of each half of a hybrid search are asked for."""
        return max(self.k, FUSED)


class VectorIndex(Protocol):
    """Documents with their vectors: `ExactIndex` over files, `VectorStore` in PostgreSQL.

    `dimension` is the number d of the vectors' elements, `fingerprint` a hash of the model that made them, `model` its
    name or folder, blank if unknown.

    A filter is text such as `"topic=sea,sky; year>=2020"` (`search/filters.py` has the grammar), or a mapping from
    columns to conditions, all of which must hold:

    * `{"source": "x"}`: equal to the value; if the metadata is a list, one of its elements is equal;
    * `{"source": ["x", "y"]}`: any of these;
    * `{"year": {">=": 2020, "<": 2030}}`: by operators, of `=`, `!=`, `<`, `<=`, `>` and `>=`;
    * `{"(id)": "talk-7"}`, `{"(text)": "On tides"}`: by the id or the text of the document itself;
    * `{"(part)": 0}`, `{"(document)": 7}`: by the number of a part in its row, or of that row (`--split_into`).

    A column that no document has is an error. A filter that no document meets gives nothing, with a warning that says
    which condition is not met.
    """

    dimension: int
    fingerprint: str
    model: str

    def __len__(self) -> int:
        """How many documents there are."""

    def state(self) -> Hashable:
        """What is equal as long as the documents, their texts and their model are the same, and costs little."""

    def search(
        self,
        vectors: ArrayLike,
        k: int = 10,
        *,
        filter: Filterable = None,
        text: str | None = None,
        exact: bool | None = None,
        ef_search: int | None = None,
        oversample: int = OVERSAMPLE,
    ) -> list[list[Hit]]:
        """The k nearest documents by cosine, best first; one list per query.

        Args:
            vectors: one query `[d]` or several `[Q, d]`; they need not be unit vectors.
            k: number of hits; there are fewer if fewer documents match.
            filter: conditions on the metadata, as above.
            text: the query as text, for a hybrid ranking by cosine and by words (`fuse`). `score` is still the cosine,
                by which such hits are not ordered. For one query only.
            exact: compare with every vector, even if there is a graph or there are codes.
            ef_search: candidates that a graph keeps, at least k and at most 1000; 200 by default. Other indexes ignore
                it.
            oversample: candidates per hit (at least 1) from the codes of an `ExactIndex`, which are compared again by
                their vectors. Other indexes ignore it.

        Returns:
            For each query its hits, best first.

        Raises:
            InputError: the vectors are not of the dimension of the index, `k` is out of range, the filter cannot be
                read or names a column that no document has, or a hybrid search has several queries.
        """
        queries = as_queries(vectors, self.dimension)
        check_k(k)
        if text is not None and len(queries) != 1:
            raise InputError(f"a hybrid search takes one query, not {len(queries)}; call it once for each")
        chosen = as_filter(filter).of_types(self.types() if filter else {})
        asked = Asked(queries, k, chosen, text, exact, ef_search, oversample)
        hits = self.nearest(asked) if len(queries) else []
        check_filter(self, chosen, any(hits))
        return hits

    def nearest(self, asked: Asked) -> list[list[Hit]]:
        """What `search` returns."""

    def similar(self, id: Id, k: int = 10, *, filter: Filterable = None) -> list[Hit]:
        """The k documents nearest to document `id`, without itself.

        Args:
            id: of a document; a text stands for an integer (`as_id`).
            k: at most so many documents; 100,000 hits are at most 99,999 others.
            filter: conditions on the metadata, as for `VectorIndex`.

        Returns:
            The hits, best first.

        Raises:
            InputError: as for `search`; or there is no such document, or the model knows no token of it.
        """
        vector = self.vectors([id])[0]
        if not vector.any():
            raise InputError(f"document {one_line(str(id), 60)} is {UNKNOWN}, so no other is near to it")
        hits = self.search(vector, min(check_k(k) + 1, MOST_HITS), filter=filter)[0]
        return [hit for hit in hits if hit.id != as_id(id)][:k]

    def get(self, ids: Sequence[Id]) -> list[Hit]:
        """The documents of these ids, in that order; their score is NaN."""

    def vectors(self, ids: Sequence[Id]) -> Vectors:
        """The vectors of these documents, `[n, d]`, in that order."""

    def draw(self, count: int, seed: int = 0) -> Batch:
        """So many documents at random, or all, ordered by id; the same ones for the same seed.

        Args:
            count: how many.
            seed: of the choice.

        Returns:
            As `scan`: ids int64 `[n]`, texts, metadata, unit vectors float32 `[n, d]`.
        """

    def scan(self, batch_size: int = 10_000) -> Iterator[Batch]:
        """All documents in batches: ids int64 `[n]`, texts, metadata, unit vectors float32 `[n, d]`; ordered by id."""

    def count(self, filter: Filterable = None) -> int:
        """How many documents meet a filter."""

    def values(self, column: str, most: int = 20) -> list[object]:
        """At most so many of the different values of a metadata column, in no order.

        Args:
            column: a name inside an object is written `a.b`.
            most: at most so many.

        Returns:
            Texts, numbers and booleans.
        """

    def columns(self) -> list[str]:
        """The names of the metadata of all documents, sorted: the keys that a filter may use."""

    def has_column(self, column: str) -> bool:
        """Whether a document has a metadata column, if only with null; a name inside an object is written `a.b`."""

    def types(self) -> Mapping[str, str]:
        """The types of these columns (`column_types.py`); a filter with a value of another type is refused."""

    def close(self) -> None:
        """Release connections and files."""


@dataclass(frozen=True)
class Members:
    """The documents of a shard.

    Args:
        files: of each document that the index has or gets, its file.
        ids: their ids.
        left_out: ids of those of which the model knows no token; their former versions go.
    """

    files: Sequence[str]
    ids: Ids
    left_out: Ids = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True)
class Files:
    """The files of a folder.

    Args:
        digests: of each file that can be read, a digest of its content and of the way in which it is read.
        unreadable: names of files and folders that exist and cannot be read, so that their content is unknown.
        hashed: the ids of the documents are hashes of names and texts, not numbers of rows or ids of a column.
    """

    digests: Mapping[str, str] = field(default_factory=dict)
    unreadable: Set[str] = frozenset()
    hashed: bool = False

    def are_without(self, name: str) -> bool:
        """Whether a file has left the folder."""
        parents = [str(parent) for parent in PurePosixPath(name).parents]
        return name not in self.digests and self.unreadable.isdisjoint([name, *parents])


class Sink(Protocol):
    """Takes a corpus shard by shard: a folder of shards, or one source of a writable index.

    What it inherits is that of a sink for one state of a corpus, of which all documents are new. `removed` is the
    number of documents that `finish` has removed, `kept` that of the documents of files that cannot be read any more.
    """

    removed: int = 0
    kept: int = 0

    def claim(self, shard: int) -> bool:
        """Whether this process should encode the shard."""

    def deleted(self, ids: Ids) -> NDArray[np.bool_]:
        """Which of these documents were deleted and are left out."""
        return np.zeros(len(ids), np.bool_)

    def known_files(self) -> tuple[set[str], Counter[str]]:
        """The files whose documents are all there as they are, and how many of these are unchanged or deleted."""
        return set(), Counter()

    def compare(self, ids: Ids, texts: Sequence[str], metadata: Metadata) -> list[State]:
        """What each of these documents is to the index: new, changed, relabelled, unchanged or deleted."""
        return ["new"] * len(ids)

    def relabel(self, ids: Ids, metadata: Metadata) -> None:
        """Replace the metadata of documents."""
        return

    def add(self, shard: int, batch: Batch, members: Members | None = None) -> None:
        """Write a shard; `members` are all of its documents, of which `batch` are new or changed (by default, all)."""

    def finish(self, shards: int, unread: Set[str] = frozenset()) -> bool:
        """Whether all shards are there; called when the corpus has been read to its end.

        Then the documents that have left it are removed, as far as that is asked for; those of `unread` files stay.
        """

    def close(self) -> None:
        """Release what the sink holds."""
        return


@dataclass(frozen=True)
class Space:
    """A set of vectors of the documents of an index, by one model. Searches go to one of them, the live one.

    Args:
        number: its number in the index.
        model: the name or folder of its model.
        fingerprint: of that model.
        dimension: d.
    """

    number: int
    model: str
    fingerprint: str
    dimension: int


def at_least(hits: list[Hit], min_score: float | None) -> tuple[list[Hit], list[str]]:
    """The hits with this score or more, all of them if it is None; and a note on the others, if there are any.

    Args:
        hits: of a search.
        min_score: the lowest cosine.

    Returns:
        The hits that are left, and at most one line of text.
    """
    strong = hits if min_score is None else [hit for hit in hits if hit.score >= min_score]
    weak = len(hits) - len(strong)
    return strong, [f"left out: {weak} of {len(hits)} hits, with a score below {min_score:.2f}"] if weak else []


def as_queries(vectors: ArrayLike, dimension: int, names: Sequence[object] = ()) -> Vectors:
    """One vector `[d]` or several `[Q, d]` as unit vectors `[Q, d]`; `names` are for the message of a fault.

    Raises:
        InputError: the shape or dimension is wrong, or a vector is NaN, infinite or zero.

    Example:
        >>> as_queries([0.0, 4.0], 2)
        array([[0., 1.]], dtype=float32)
    """
    array = float_array(vectors).astype(np.float32, copy=False)
    array = array[None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] != dimension:
        shape = " x ".join(map(str, array.shape))
        raise InputError(f"the index needs vectors of {dimension} dimensions, not {shape}; use the model that made it")
    return unit_vectors(array, np.float64, of="the vectors given", names=names).astype(np.float32)


def check_k(k: object) -> int:
    """Check the number of hits and return it.

    Example:
        >>> check_k(0)
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: k 0: give a number from 1 to 100,000
    """
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= MOST_HITS:
        raise InputError(f"k {k!r}: give a number from 1 to {MOST_HITS:,}")
    return int(k)


def all_known(ids: Sequence[Id], known: Collection[int]) -> list[int]:
    """The numbers of the ids of documents, which must be known.

    Args:
        ids: integers or texts.
        known: the numbers that there are.

    Returns:
        The number of each id.

    Raises:
        InputError: one is not; the message shows it as it was given.

    Example:
        >>> all_known([7, "talk-7"], [7])
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: there is no document talk-7
    """
    numbers: list[int] = as_ids(ids).tolist()
    if missing := [id for id, number in zip(ids, numbers, strict=True) if number not in known]:
        raise InputError(f"there is no document {one_line(str(missing[0]), 60)}")
    return numbers


class OtherModel(InputError):
    """The vectors of an index are of another model."""


class Moved(OtherModel):
    """An open index has moved to another model, and takes or has no vectors of the former one."""


class Refused(InputError):
    """The database of an index does not do what it is asked for.

    Args:
        message: the line, which may name the database.
        status: of HTTP; 503 if it may do it later.
        what: the same without the address of the database, for clients.
    """

    def __init__(
        self, message: str, status: int = 503, what: str = "the database of the index does not answer"
    ) -> None:
        super().__init__(message)
        self.status, self.what = status, what


class Unreachable(Refused):
    """The database of an index does not answer now."""


class DeletedCollection(InputError):
    """A collection has been deleted while it was open."""


def check_model(index: Any, fingerprint: str | None, what: str) -> None:
    """Check that vectors are of the model of an index.

    Args:
        index: the index, or a record with `model` and `fingerprint`.
        fingerprint: of the model of the vectors; None is not checked.
        what: the name of the index, with which the message begins.

    Raises:
        OtherModel: it is another model.
    """
    if fingerprint is not None and fingerprint != index.fingerprint:
        made_by = f"{index.model or 'another model'} (fingerprint {index.fingerprint[:8]}, not {fingerprint[:8]})"
        raise OtherModel(f"{what} has vectors of {made_by}; give that --model, or index again")


def fuse(
    ids: Ids,
    cosines: NDArray[np.floating],
    shares: NDArray[np.floating],
    length: float,
    halves: Sequence[Sequence[int] | Ids] = (),
) -> list[int]:
    """The places of the candidates of a hybrid search, best first.

    Their order is that of the sum of two softmaxes, of the cosines and of the words. If one half tells its best
    candidates clearly from the others, it decides; if its scores are nearly equal, the other half does. The longer the
    documents, the less a vector has of each of their words, so the more the words count.

    Args:
        ids: of the candidates; among equal ones the lowest is first.
        cosines: to the query.
        shares: of the words of the query (`bm25.shares`).
        length: mean number of words of a document of the collection.
        halves: the ids of each half, best first; by default all are fused. The softmaxes are over the `FUSED` best of
            either half, and the others stand behind them, in the order of the same sum: so the order of the first ones
            is the same for every k.

    Example:
        >>> fuse(np.array([7, 8, 9]), np.array([0.41, 0.40, 0.39]), np.array([0.1, 0.2, 0.9]), 12)
        [2, 0, 1]
    """

    first = np.isin(ids, np.concatenate([half[:FUSED] for half in halves])) if halves else np.ones(len(ids), np.bool_)

    def softmax(values: NDArray[np.floating]) -> NDArray[np.float64]:
        powers = np.exp((np.asarray(values, np.float64) - values.max(initial=-np.inf)) / _SCALE)
        return np.asarray(powers / powers.sum(where=first))

    scores = softmax(cosines) + math.sqrt(length / _SHORT) * softmax(shares)
    return [int(index) for index in np.lexsort((ids, -scores, ~first))]


class UnknownColumn(InputError):
    """A filter names a column that no document has."""


def unmet(index: VectorIndex, filter: Filter) -> list[str]:
    """Why no document meets a filter, one line for each reason; none if a document meets it.

    Args:
        index: the index.
        filter: the conditions.

    Returns:
        Lines of text.

    Raises:
        InputError: no document has a column of the filter; the message lists the existing columns.
    """
    if not len(index):
        return ["the index has no documents"]
    _check_columns(index, filter)
    if not filter or index.count(filter):
        return []
    empty = any(part and not part.parts for part in filter.filters())
    notes = ["a part of the filter has nothing to compare with, so no document meets it"] * empty
    for part in filter.conditions():
        if not index.count(Filter((part,))):
            values = sorted({str(value) for value in index.values(part.column, _EXAMPLES + 1)})
            there = one_line(", ".join(values[:_EXAMPLES]), 200) + (", ..." if len(values) > _EXAMPLES else "")
            why = f"; the column has: {there}" if there else ""
            if not there and not _has_value(index, part.column):
                why = "; no document has a value in that column"
            elif part.operator in RANGES:
                why = f" (it has no number or date in that range; it has: {there})"
            elif len(part.values) > 1:
                why += "; a comma separates alternatives, unless the value is quoted"
            notes.append(f"no document meets {one_line(str(part), 200)}{why}")
    if notes or filter.join != "and" or len(filter.parts) < 2:
        return notes
    return [f"each condition is met by some document, but no document meets all of them: {one_line(str(filter), 200)}; "
            "alternatives are written column=a,b"]  # fmt: skip


def check_filter(index: VectorIndex, filter: Filter, matched: bool) -> None:
    """After a search: an error for a column that no document has, and a warning for each reason why there are no hits.

    Args:
        index: the index.
        filter: the filter of the search.
        matched: whether the search had hits.

    Raises:
        InputError: no document has a column of the filter.
    """
    if filter and not matched:
        for line in unmet(index, filter):
            logger.warning(line)
    elif any(part.join != "and" for part in filter.filters()) or any(None in one.values for one in filter.conditions()):
        _check_columns(index, filter)  # documents without the column meet it too


def _has_value(index: VectorIndex, column: str) -> bool:
    return index.count(Filter((Condition(column, "!=", (None,)),))) > 0


def _check_columns(index: VectorIndex, filter: Filter) -> None:
    """An error for a column that no document has, not even with null, and of which the index has no type either."""
    for column in dict.fromkeys(condition.column for condition in filter.conditions()):
        if not (_has_value(index, column) or index.has_column(column) or column in index.types()):
            shown, there = one_line(column, 60), one_line(", ".join(index.columns()), 300) or "none"
            raise UnknownColumn(f"no document has a value in the column {shown!r}; the columns are: {there}")


@dataclass(frozen=True)
class Sample:
    """A sample of the documents of an index, ordered by id.

    Args:
        ids: int64 `[n]`.
        texts: their texts.
        vectors: unit vectors, float32 `[n, d]`.
        total: documents in the index.
    """

    ids: Ids
    texts: list[str]
    vectors: Vectors
    total: int


def known_of(batch: Batch) -> Batch:
    """The documents of a batch of which the model knows a token; after a move to another model, others have zeros."""
    ids, texts, metadata, vectors = batch
    rows = np.flatnonzero(vectors.any(axis=1))
    return ids[rows], [texts[i] for i in rows], [metadata[i] for i in rows], vectors[rows]


def sample(index: VectorIndex, size: int, seed: int = 0) -> Sample:
    """At most `size` documents of which the model knows a token, chosen at random.

    Args:
        index: the index.
        size: most documents.
        seed: of the choice.

    Returns:
        The documents, ordered by id.

    Raises:
        InputError: the index has no such documents.
    """
    drawn = index.draw(size, seed)
    ids, texts, _, vectors = known_of(drawn)
    if not len(ids):
        without = " with a token that the model knows" if len(drawn[0]) else ""
        raise InputError(f"the index has no documents{without}; fill it first (contrastive-st index CORPUS)")
    return Sample(ids, texts, unit_vectors(vectors), max(len(index), len(ids)))
