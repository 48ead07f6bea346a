"""`SearchSession`: what the page does, apart from its widgets."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from contrastive_st.errors import InputError
from contrastive_st.models.protocol import Encoder
from contrastive_st.search.analysis.projection import Map, lay_out
from contrastive_st.search.analysis.topics import find_trends
from contrastive_st.search.filters import Condition, Filterable, as_filter
from contrastive_st.search.index import Hit, Moved, VectorIndex, unmet
from contrastive_st.search.opening import MOVING_SECONDS, Follower, open_encoder_for, query_vector
from contrastive_st.search.reranking import TOP, CrossEncoder, rerank, unscored
from contrastive_st.search.splitting import sentences
from contrastive_st.search.values import Row, one_line, storable
from contrastive_st.vectors import unit_vectors

LONGEST_QUERY = 20_000  # characters; models read far less
MOST_HITS = 50
REST = 10  # a map is made again after so many times what it took, however often its documents are written
WORD = re.compile(r"\w+")
_Options = ParamSpec("_Options")
_Result = TypeVar("_Result")
_Method = Callable[Concatenate["SearchSession", str, _Options], _Result]


@dataclass(frozen=True)
class Source:
    """An index, the encoder that made it, and what the page calls them."""

    name: str
    index: VectorIndex
    encoder: Encoder


@dataclass(frozen=True)
class _Made:
    """A map, the index and the state that it is of, when it was made (`time.monotonic`), and what that took."""

    layout: Map
    index: VectorIndex
    state: Hashable
    ended: float
    seconds: float


@dataclass(frozen=True)
class Answer:
    """The hits of one source.

    Args:
        source: its name.
        query: as it was searched for.
        hits: best first.
        seconds: that the model took for the query (`encode`), and the index (`query`).
        notes: changes of the query, as text.
        similar: the query is the text of a document, and the hits are those similar to it.
    """

    source: str
    query: str
    hits: list[Hit]
    seconds: Mapping[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    similar: bool = False


def _follows(method: _Method[_Options, _Result]) -> _Method[_Options, _Result]:
    """A method of a session and a source; called again, after `Moved`, with the model that the source has then."""

    @wraps(method)
    def called(self: SearchSession, source: str, *args: _Options.args, **options: _Options.kwargs) -> _Result:
        until = 0.0
        while True:
            try:
                return method(self, source, *args, **options)
            except Moved:
                until = until or time.monotonic() + MOVING_SECONDS
                self._follow.wait(source, self._source(source).index, until)

    return called


class SearchSession:
    """Search in one or several sources; safe to use from several threads.

    Args:
        sources: at least one; their names differ.
        cross_encoder: reorders the first 50 hits of a query (`search.reranking.CrossEncoder`).

    Raises:
        InputError: no source, or two of one name.
    """

    def __init__(self, sources: Sequence[Source], cross_encoder: CrossEncoder | None = None) -> None:
        self.cross_encoder = cross_encoder
        self.sources = {source.name: source for source in sources}
        if not sources or len(self.sources) < len(sources):
            raise InputError(f"{len(sources)} indices with {len(self.sources)} names; name each of them differently")
        self._encoding, self._mapping = threading.Lock(), threading.Lock()
        self._maps: dict[str, _Made] = {}
        self._follow = Follower(self._take)

    @property
    def names(self) -> list[str]:
        """The names of the sources."""
        return list(self.sources)

    @property
    def sizes(self) -> dict[str, int]:
        """How many documents each source has now."""
        return {name: len(source.index) for name, source in self.sources.items()}

    @_follows
    def answer(self, source: str, query: str, k: int = 10, filter: Filterable = None, hybrid: bool = False) -> Answer:
        """Search one source.

        Args:
            source: its name.
            query: any text.
            k: hits, 1 to 50.
            filter: conditions on metadata, such as "package=torch,numpy; year>=2020" or a mapping (`as_filter`).
            hybrid: rank by nearness and by full text, fused.

        Returns:
            The hits of the source, with notes on the query.

        Raises:
            InputError: the query is empty, or the filter cannot be read or names a column that no document has.
        """
        chosen = self._source(source)
        notes = []
        if len(query) > LONGEST_QUERY:
            notes.append(f"The query has {len(query):,} characters; its first {LONGEST_QUERY:,} were read.")
            query = query[:LONGEST_QUERY]
        if (clean := storable(query)) != query:
            notes.append("Characters that no text can hold (NUL, half a character) were replaced.")
            query = clean
        if not query.strip("\ufffd \t\r\n\v\f\u00a0\u200b"):
            raise InputError("The query is empty: say what to look for.")
        conditions = as_filter(filter)
        started = time.perf_counter()
        with self._encoding:  # a tokenizer serves one thread at a time
            vector = unit_vectors([query_vector(chosen.encoder, query)], of=chosen.encoder.name)[0]
        encoded = time.perf_counter()
        k = int(np.clip(k, 1, MOST_HITS))
        most = max(k, TOP) if self.cross_encoder else k
        hits = chosen.index.search(vector, most, filter=conditions, text=query if hybrid else None)[0]
        self._follow(source, chosen.index)
        if self.cross_encoder:
            with self._encoding:
                hits = rerank(query, hits, self.cross_encoder)[:k]
        notes += unscored(hits) if hits else unmet(chosen.index, conditions)
        seconds = {"encode": encoded - started, "query": time.perf_counter() - encoded}
        return Answer(source, query, hits, seconds, notes)

    @_follows
    def similar(self, source: str, id: int, k: int = 10, filter: Filterable = None) -> Answer:
        """The documents of one source that are nearest to its document `id`, without itself.

        Args:
            source: its name.
            id: of a document.
            k: hits, 1 to 50.
            filter: as for `answer`.

        Returns:
            The hits of the source.

        Raises:
            InputError: there is no such document, or the filter is at fault.
        """
        chosen = self._source(source)
        conditions = as_filter(filter)
        text = chosen.index.get([id])[0].text
        started = time.perf_counter()
        hits = chosen.index.similar(id, int(np.clip(k, 1, MOST_HITS)), filter=conditions)
        notes = [] if hits else unmet(chosen.index, conditions)
        return Answer(source, text, hits, {"query": time.perf_counter() - started}, notes, similar=True)

    @_follows
    def filters(self, source: str, rows: int = 10_000) -> dict[str, list[str]]:
        """Conditions to filter by, such as "topic=sea", for each metadata column of the first documents.

        They are those of a column's most frequent values; a column whose values do not recur has none.

        Args:
            source: its name.
            rows: number of documents that are read.

        Returns:
            The conditions of each column.
        """
        _, metadata = self._first(source, rows)
        keys = dict.fromkeys(key for entry in metadata for key in entry)
        return {key: _conditions(key, [entry.get(key) for entry in metadata]) for key in keys}

    @_follows
    def examples(self, source: str, count: int = 4, rows: int = 1_000) -> list[str]:
        """Queries to try: titles or first sentences of documents, evenly spaced among the first ones.

        Args:
            source: its name.
            count: number of queries.
            rows: number of documents that are read.

        Returns:
            At most `count` queries.
        """
        pairs = zip(*self._first(source, rows), strict=True)
        result = list(dict.fromkeys(short for text, entry in pairs if (short := _short(text, entry))))
        return [result[i * len(result) // count] for i in range(count)] if len(result) >= count else result

    @_follows
    def map(self, source: str, progress: Callable[[int, int], object] = lambda done, total: None) -> Map:
        """The map of a source; made when first asked for, and when it has changed, by a scan or three in some seconds.

        Where documents are written all the time, it rests for ten times as long as making it took (`REST`).

        Args:
            source: its name.
            progress: is called with the number of documents that are read, and that of all.

        Returns:
            The map.
        """
        with self._mapping:
            index = self._source(source).index
            made, state, started = self._maps.get(source), index.state(), time.monotonic()
            rests = made is not None and (made.state == state or started < made.ended + REST * made.seconds)
            if made is not None and rests and made.index is index:  # another object has another model
                return made.layout
            layout = lay_out(index, find_trends(index, progress=progress))
            ended = time.monotonic()
            self._maps[source] = _Made(layout, index, state, ended, ended - started)
            return layout

    def places(self, answer: Answer, layout: Map) -> NDArray[np.float32]:
        """Where the hits of an answer are on a map of its source, `[hits, 2]`."""
        encoder = self._source(answer.source).encoder
        with self._encoding:
            vectors = unit_vectors(encoder.encode_document([hit.text for hit in answer.hits]), of=encoder.name)
        return layout.place(vectors)

    def _take(self, name: str, index: VectorIndex) -> None:
        """Go on with another model of an index."""
        self.sources[name] = Source(name, index, open_encoder_for(index))

    def _first(self, source: str, rows: int) -> tuple[list[str], list[Row]]:
        """The texts and the metadata of the first documents of a source."""
        return next(((texts, rows) for _, texts, rows, _ in self._source(source).index.scan(rows)), ([], []))

    def _source(self, name: str) -> Source:
        if name not in self.sources:
            raise InputError(f"there is no index {one_line(str(name), 60)!r}; there is: {', '.join(self.sources)}")
        return self.sources[name]


def _conditions(key: str, values: Sequence[object], most: int = 20) -> list[str]:
    """`key=value` for the most frequent values, ordered; none where most occur once."""
    flat = [one for value in values for one in (value if isinstance(value, list) else [value]) if one is not None]
    counts = Counter(str(Condition(key, "=", (one,))) for one in flat if isinstance(one, (str, int, float)))
    if 2 * len(counts) > len(flat) > 1:
        return []
    return sorted(condition for condition, _ in counts.most_common(most) if len(condition) <= len(key) + 41)


def _short(text: str, metadata: Mapping[str, object]) -> str:
    """The title of a document, or its first sentence, where it is as long as a query is."""
    title = metadata.get("title")
    candidates = [title if isinstance(title, str) else "", *sentences(text[:200])[:1]]
    lines = (" ".join(storable(candidate).split()) for candidate in candidates)
    return next((line for line in lines if 10 <= len(line) <= 80), "")


def shared_words(query: str, text: str) -> set[str]:
    """Words of the text, in small letters, that are in the query too; stop words are not counted.

    Args:
        query: any text.
        text: any text.

    Returns:
        The words.

    Example:
        >>> sorted(shared_words("The tides of the sea", "Tides rise: the sea is up"))
        ['sea', 'tides']
    """
    words: set[str] = {word.casefold() for word in WORD.findall(query)} - ENGLISH_STOP_WORDS
    return words & {word.casefold() for word in WORD.findall(text)}
