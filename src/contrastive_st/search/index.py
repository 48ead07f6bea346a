"""`VectorIndex`, the interface of every index, which the command line, the page and the adapters use."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError
from contrastive_st.vectors import unit_vectors

RRF_CONSTANT = 60  # constant of reciprocal rank fusion (Cormack, Clarke and Buettcher 2009)
MOST_HITS = 100_000  # most hits of one search; use `scan` for all documents
_FILTER = re.compile(r"(?P<key>[^<>=!]+)(?P<compare>>=|<=|!=|==|=|<|>)(?P<value>.*)", re.DOTALL)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
Condition = tuple[str, list[tuple[str, Any]]]  # a key, and comparisons of which at least one must hold
Ids = NDArray[np.int64]  # [n]
Vectors = NDArray[np.float32]  # [n, d]
Metadata = Sequence[Mapping[str, Any]]
Filter = Mapping[str, Any] | None
Batch = tuple[Ids, list[str], list[dict[str, Any]], Vectors]


@dataclass(frozen=True)
class Hit:
    """A document that was found: its id, the cosine to the query, its text and its metadata.

    `score` is NaN if nothing was compared (`VectorIndex.get`).
    """

    id: int
    score: float
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)


class VectorIndex(Protocol):
    """Documents with their vectors: `ExactIndex` over files, `VectorStore` in PostgreSQL.

    `dimension` is the number d of the vectors' elements, `fingerprint` a hash of the model that made them.

    A filter is a mapping from metadata keys to conditions, all of which must hold:

    * `{"source": "x"}`: equal to the value; if the metadata is a list, one of its elements is equal;
    * `{"year": {">=": 2020, "<": 2030}}`: comparisons, of `<`, `<=`, `>`, `>=`, `==` and `!=`;
    * `{"source": ["x", "y"]}`: any of these.
    """

    dimension: int
    fingerprint: str

    def __len__(self) -> int:
        """How many documents there are."""
        ...

    def search(
        self, vectors: Vectors, k: int = 10, *, filter: Filter = None, text: str | None = None, **options: Any
    ) -> list[list[Hit]]:
        """The k nearest documents by cosine, best first; one list per query.

        Args:
            vectors: one query `[d]` or several `[Q, d]`; they need not be unit vectors.
            k: number of hits; there are fewer if fewer documents match.
            filter: conditions on the metadata, as above.
            text: words of the query, for a hybrid ranking: the reciprocal rank fusion (Cormack et al. 2009) of the
                rankings by cosine and by full text. `score` is still the cosine. For one query only.
            options: options of the implementation, such as `ef_search` or `exact`.
        """
        ...

    def similar(self, id: int, k: int = 10, *, filter: Filter = None) -> list[Hit]:
        """The k documents nearest to document `id`, without itself."""
        ...

    def get(self, ids: Sequence[int]) -> list[Hit]:
        """The documents of these ids, in that order; their score is NaN."""
        ...

    def scan(self, batch_size: int = 10_000) -> Iterator[Batch]:
        """All documents in batches: ids int64 `[n]`, texts, metadata, unit vectors float32 `[n, d]`; ordered by id."""
        ...

    def columns(self) -> list[str]:
        """The names of the metadata of all documents, sorted: the keys that a filter may use."""
        ...

    def close(self) -> None:
        """Release connections and files."""
        ...


class Sink(Protocol):
    """Takes a corpus shard by shard: a folder of shards, or one source of a writable index."""

    def claim(self, shard: int) -> bool:
        """Whether this process should encode the shard."""
        ...

    def unchanged(self, ids: Ids, texts: Sequence[str], metadata: Metadata) -> NDArray[np.bool_]:
        """Which of these documents are there as they are here."""
        ...

    def add(
        self, shard: int, ids: Ids, texts: Sequence[str], metadata: Metadata, vectors: Vectors, rows: int | None = None
    ) -> None:
        """Write a shard of `rows` rows, of which these are new."""
        ...

    def finish(self, shards: int, rows: int) -> bool:
        """Whether all shards are there; called when the corpus has been read to its end."""
        ...

    def close(self) -> None:
        """Release what the sink holds."""
        ...


class WritableIndex(VectorIndex, Protocol):
    """An index whose documents can be loaded, updated and deleted: `VectorStore`."""

    def upsert(self, ids: Sequence[int], texts: Sequence[str], vectors: Any, metadata: Metadata | None = None) -> None:
        """Insert documents, or replace those with the same ids, all or none."""
        ...

    def set_metadata(self, id: int, metadata: Mapping[str, Any]) -> None:
        """Replace a document's metadata."""
        ...

    def delete(self, ids: Sequence[int]) -> int:
        """Delete documents; return how many there were."""
        ...

    def delete_matching(self, filter: Filter) -> int:
        """Delete the documents that meet a filter; return how many there were."""
        ...

    def loader(
        self, source: str, fingerprint: str, *, replace: bool = False, former: str | None = None, own_ids: bool = False
    ) -> Sink:
        """A sink for the shards of one corpus."""
        ...

    def build_index(self, kind: str = "hnsw", *, memory: str | None = None) -> int:
        """Build the index of all vectors; return the peak memory in bytes, 0 if unknown."""
        ...


def as_queries(vectors: Any, dimension: int) -> Vectors:
    """One vector `[d]` or several `[Q, d]` as unit vectors `[Q, d]`.

    Raises:
        InputError: the shape or dimension is wrong, or a vector is NaN, infinite or zero.

    Example:
        >>> as_queries([0.0, 4.0], 2)
        array([[0., 1.]], dtype=float32)
    """
    array = np.asarray(vectors, dtype=np.float32)
    array = array[None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] != dimension:
        shape = " x ".join(map(str, array.shape))
        raise InputError(f"the index needs vectors of {dimension} dimensions, not {shape}; use the model that made it")
    return unit_vectors(array, np.float64, of="the vectors given").astype(np.float32)


def check_k(k: int) -> int:
    """Check the number of hits and return it.

    Example:
        >>> check_k(0)
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: k 0: give a number from 1 to 100,000
    """
    if not 1 <= k <= MOST_HITS:
        raise InputError(f"k {k}: give a number from 1 to {MOST_HITS:,}")
    return k


def check_columns(index: VectorIndex, filter: Mapping[str, Any]) -> None:
    """Check, after a search without hits, that every column of the filter exists.

    Raises:
        InputError: no document has the column; the message lists the existing columns.
    """
    known = index.columns()
    if missing := [key for key in filter if key not in known]:
        there = one_line(", ".join(known), 300) or "none"
        raise InputError(f"no document has the column {one_line(missing[0], 60)!r} to filter by; there is: {there}")


def reciprocal_rank_fusion(rankings: Sequence[Sequence[int]], constant: int = RRF_CONSTANT) -> list[int]:
    """Ids by the sum of `1 / (constant + rank)` over the rankings that contain them, best first; ties by id.

    Example:
        >>> reciprocal_rank_fusion([[1, 2, 3], [3, 4]])
        [3, 1, 2, 4]
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, id in enumerate(ranking, 1):
            scores[id] = scores.get(id, 0.0) + 1 / (constant + rank)
    return sorted(scores, key=lambda id: (-scores[id], id))


def parse_filter(conditions: Sequence[str]) -> dict[str, Any]:
    """Parse conditions (`key=value`, `key>=value`, ...) into a filter; numbers also match the same digits as text.

    Example:
        >>> parse_filter(["source=torch", "year>=2020", "year<2030"])
        {'source': ['torch'], 'year': {'>=': 2020, '<': 2030}}
    """
    found: dict[str, Any] = {}
    for condition in conditions:
        match = _FILTER.fullmatch(condition)
        if match is None:
            raise InputError(f"--filter {condition}: write key=value, key>=number or similar")
        key, compare, value = match["key"].strip(), match["compare"], match["value"].strip()
        parsed = _parsed(value)
        if compare in ("=", "=="):
            alternatives = [parsed] if parsed == value else [parsed, value]
            if not isinstance(found.setdefault(key, []), list):
                raise InputError(f"--filter {condition}: {key} is compared already; give one kind of condition a key")
            found[key] += alternatives
        else:
            if not isinstance(found.setdefault(key, {}), dict):
                raise InputError(f"--filter {condition}: {key} is compared already; give one kind of condition a key")
            found[key][compare] = parsed
    return found


def _parsed(value: str) -> Any:
    """The value of a JSON number, boolean, null or quoted string; else the text itself."""
    try:
        parsed = json.loads(value)
        return parsed if _scalar("", parsed) == parsed else value
    except (ValueError, RecursionError):
        return value


def conditions(filter: Mapping[str, Any]) -> list[Condition]:
    """The conditions of a filter (see `VectorIndex`), all of which must hold.

    Raises:
        InputError: a comparison or a value has an unknown type; names the key.

    Example:
        >>> conditions({"year": {">=": 2020, "<": 2030}, "source": ["x", "y"]})
        [('year', [('>=', 2020)]), ('year', [('<', 2030)]), ('source', [('==', 'x'), ('==', 'y')])]
    """
    if not isinstance(filter, Mapping):
        raise InputError(f"a filter is a mapping such as {{'source': 'x'}}, not {filter!r}")
    found: list[Condition] = []
    for key, wanted in filter.items():
        if isinstance(wanted, Mapping):
            for symbol, value in wanted.items():
                if symbol not in _COMPARE:
                    raise InputError(f"filter on {key!r}: unknown comparison {symbol!r}; use {', '.join(_COMPARE)}")
                found.append((str(key), [(symbol, _scalar(key, value))]))
        elif isinstance(wanted, Sequence) and not isinstance(wanted, str):
            if not wanted:
                raise InputError(f"filter on {key!r}: an empty list matches nothing; remove the key, or give values")
            found.append((str(key), [("==", _scalar(key, value)) for value in wanted]))
        else:
            found.append((str(key), [("==", _scalar(key, wanted))]))
    return found


def as_jsonpath(filter: Mapping[str, Any]) -> str:
    """The filter as a jsonpath predicate, to be passed as a parameter of `metadata @@ $1::jsonpath`.

    Example:
        >>> as_jsonpath({"year": {">=": 2020}, "source": ["x", 'a"b']})
        '($."year" >= 2020) && ($."source" == "x" || $."source" == "a\\\\"b")'
    """
    parts = []
    for key, alternatives in conditions(filter):
        path = f"$.{_quoted(key)}"
        parts.append("(" + " || ".join(f"{path} {symbol} {_quoted(value)}" for symbol, value in alternatives) + ")")
    return " && ".join(parts) or "1 == 1"


def matches(metadata: Mapping[str, Any], filter: Mapping[str, Any]) -> bool:
    """Whether a document's metadata meets the filter, by the rules of jsonpath: values of different types never match.

    Example:
        >>> matches({"year": 2021, "tags": ["a", "b"]}, {"year": {">": 2020}, "tags": "b"})
        True
        >>> matches({"year": "2021"}, {"year": {">": 2020}})
        False
    """
    return all(_one_holds(metadata, key, alternatives) for key, alternatives in conditions(filter))


def _one_holds(metadata: Mapping[str, Any], key: str, alternatives: list[tuple[str, Any]]) -> bool:
    if key not in metadata:
        return False
    found = metadata[key]
    values = found if isinstance(found, list) else [found]
    return any(_holds(value, symbol, wanted) for symbol, wanted in alternatives for value in values)


def _holds(value: Any, symbol: str, wanted: Any) -> bool:
    if value is None or wanted is None:
        return (value is wanted and symbol in ("==", "<=", ">=")) or (value is not wanted and symbol == "!=")
    numbers = [isinstance(x, (int, float)) and not isinstance(x, bool) for x in (value, wanted)]
    return (all(numbers) or type(value) is type(wanted)) and _COMPARE[symbol](value, wanted)


def _scalar(key: object, value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and abs(value) < float("inf")):
        return value
    raise InputError(f"filter on {key!r}: {value!r} is neither text nor a finite number, true, false or null")


def _quoted(value: Any) -> str:
    """The value as JSON; characters that PostgreSQL cannot store are replaced, as in stored metadata."""
    if isinstance(value, str):
        value = storable(value)
    return json.dumps(value, ensure_ascii=False)


def storable(text: str) -> str:
    """The text with NUL characters and lone surrogates replaced by U+FFFD, because PostgreSQL cannot store them.

    Example:
        >>> storable("a\\x00b")
        'a\\ufffdb'
    """
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def storable_json(value: Any) -> Any:
    """As `storable`, for every string inside a JSON value."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable(str(key)): storable_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [storable_json(item) for item in value]
    return value


def one_line(text: str, width: int = 110) -> str:
    """The text on one line, cut to `width` characters.

    Example:
        >>> one_line("ab\\n cd ef", 6)
        'ab cd…'
    """
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


@dataclass(frozen=True)
class Sample:
    """A sample of the documents of an index, ordered by id.

    Args:
        ids: int64 `[n]`.
        texts: their texts.
        metadata: their metadata.
        vectors: unit vectors, float32 `[n, d]`.
        total: documents in the index.
    """

    ids: NDArray[np.int64]
    texts: list[str]
    metadata: list[dict[str, Any]]
    vectors: NDArray[np.float32]
    total: int


def sample(index: VectorIndex, size: int, seed: int = 0) -> Sample:
    """At most `size` documents, chosen by a hash of their ids, so that the choice does not depend on the batches.

    Raises:
        InputError: the index is empty.
    """
    rows: list[tuple[int, str, dict[str, Any]]] = []
    keys, vectors = np.empty(0, dtype=np.uint64), np.empty((0, index.dimension), dtype=np.float32)
    total = 0
    for ids, texts, metadata, batch in index.scan():
        total += len(ids)
        keys = np.concatenate([keys, mix(ids, seed)])
        rows += zip(ids.tolist(), texts, metadata, strict=True)
        vectors = np.concatenate([vectors, batch])
        if len(rows) > size:
            kept = np.argpartition(keys, size)[:size]
            keys, vectors, rows = keys[kept], vectors[kept], [rows[i] for i in kept]
    if not rows:
        raise InputError("the index has no documents; fill it first (contrastive-st index CORPUS)")
    order = np.argsort([row[0] for row in rows], kind="stable")
    ids, texts, metadata = zip(*(rows[i] for i in order), strict=True)
    return Sample(np.array(ids, dtype=np.int64), list(texts), list(metadata), unit_vectors(vectors[order]), total)


def mix(ids: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele et al. 2014): a pseudo-random number for each id and seed."""
    x = ids.astype(np.uint64) + np.uint64((0x9E3779B97F4A7C15 * (seed + 1)) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(x ^ (x >> np.uint64(31)))
