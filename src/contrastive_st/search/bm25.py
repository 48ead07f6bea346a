"""BM25 (Robertson and Zaragoza 2009) over lexemes: postings of a set of documents, and the best documents of a query.

A segment has the postings of some documents and never changes. A lexeme is its key (`keys_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from contrastive_st.search.lexemes import document_keys, ranges
from contrastive_st.search.values import storable

K1, B = 1.2, 0.75  # as in Lucene
Ids = NDArray[np.int64]
Floats = NDArray[np.float32]
Postings = tuple[NDArray[np.uint32], NDArray[np.uint8]]  # numbers of documents in order; how often each has the lexeme
#: Keys, how many documents have each, their numbers, and how often they have it
Page = tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint8]]
_PAGE, _BLOCK = 4_000, 1 << 21  # bytes of a page; postings that are moved at a time
_FEW = 8  # documents are looked up in a list that is so many times as long, instead of adding it up


@dataclass(frozen=True)
class Segment:
    """Postings of n documents, sorted by lexeme and then by document.

    Args:
        ids: of the documents, `[n]`.
        lengths: lexemes of each document, `[n]`.
        keys: of the K distinct lexemes, sorted.
        counts: documents that have the lexeme, `[K]`.
        documents: their numbers, from 0 to n - 1, one lexeme after the other.
        times: how often they have the lexeme, at most 255.
    """

    ids: Ids
    lengths: NDArray[np.uint32]
    keys: NDArray[np.int64]
    counts: NDArray[np.uint32]
    documents: NDArray[np.uint32]
    times: NDArray[np.uint8]

    @classmethod
    def of(cls, ids: Ids, texts: Iterable[str], language: str) -> Segment:
        """The postings of texts in a language (`lexemes_of`).

        Example:
            >>> segment = Segment.of(np.array([7, 8]), ["a cat", "a cat, another cat"], "simple")
            >>> segment.lengths.tolist(), sorted(segment.counts.tolist()), int(segment.times.max())
            ([2, 4], [1, 2, 2], 2)
        """
        keys, lexemes, lengths = document_keys(map(storable, texts), language)
        size = len(lengths)
        pairs = lexemes * size + np.repeat(np.arange(size), lengths)  # of a lexeme and a document
        distinct, times = np.unique(pairs, return_counts=True)
        return cls(
            np.asarray(ids, np.int64),
            lengths.astype(np.uint32),
            keys,
            np.bincount(distinct // max(size, 1), minlength=len(keys)).astype(np.uint32),
            (distinct % max(size, 1)).astype(np.uint32),
            np.minimum(times, 255).astype(np.uint8),
        )

    @classmethod
    def joined(cls, segments: Sequence[Segment], alive: Sequence[NDArray[np.bool_]]) -> Segment:
        """One segment of those documents of several that are alive."""
        firsts = np.cumsum([0, *(int(mask.sum()) for mask in alive)])
        documents, counts, times = [], [], []
        for segment, mask, first in zip(segments, alive, firsts, strict=False):
            keep = mask[segment.documents]
            lexeme = np.repeat(np.arange(len(segment.keys)), segment.counts)[keep]
            counts.append(np.bincount(lexeme, minlength=len(segment.keys)))
            documents.append((np.cumsum(mask) - 1 + first)[segment.documents[keep]].astype(np.uint32))
            times.append(segment.times[keep])
        all_keys, count = np.concatenate([one.keys for one in segments]), np.concatenate(counts)
        starts, order = np.cumsum(count) - count, np.argsort(all_keys, kind="stable")
        order = order[count[order] > 0]
        keys, places = np.unique(all_keys[order], return_index=True)
        moved = [np.concatenate(documents), np.concatenate(times)]
        result = [np.empty_like(column) for column in moved]
        ends, done = np.cumsum(count[order]), 0
        for part in np.split(order, np.searchsorted(ends, np.arange(_BLOCK, int(count.sum()), _BLOCK))):
            rows = ranges(starts[part], count[part])
            for column, target in zip(moved, result, strict=True):
                target[done : done + len(rows)] = column[rows]
            done += len(rows)
        total = np.add.reduceat(count[order], places) if len(places) else places
        ids, lengths = (
            np.concatenate([getattr(one, name)[mask] for one, mask in zip(segments, alive, strict=True)])
            for name in ("ids", "lengths")
        )
        return cls(ids, lengths, keys, total.astype(np.uint32), *result)

    def pages(self) -> Iterator[tuple[int, bytes]]:
        """The postings as blocks of bytes, each with its first key; a lexeme is in one block, long ones alone."""
        sizes = 12 + 5 * self.counts.astype(np.int64)
        long = sizes > _PAGE
        number = np.cumsum(np.where(long, 0, sizes)) // _PAGE
        new = np.ones(len(sizes), np.bool_)
        new[1:] = (np.diff(number) > 0) | long[1:] | long[:-1]
        ends = np.cumsum(self.counts, dtype=np.int64)
        cuts = [*np.flatnonzero(new).tolist(), len(sizes)]
        for start, end in pairwise(cuts):
            rows = slice(int(ends[start - 1]) if start else 0, int(ends[end - 1]))
            parts = (self.keys[start:end], self.counts[start:end], self.documents[rows], self.times[rows])
            head = np.array([end - start], np.uint32)
            yield int(self.keys[start]), b"".join(part.tobytes() for part in (head, *parts))

    def postings(self, keys: Iterable[int]) -> Iterator[Postings]:
        """The postings of those of the lexemes that a document has."""
        page = self.keys, self.counts, self.documents, self.times
        return filter(None, (postings_on(page, key) for key in keys))


def read_page(page: bytes) -> Page:
    """Keys, counts, documents and times of a page (`Segment.pages`)."""
    size = int.from_bytes(page[:4], "little")
    keys = np.frombuffer(page, "<i8", size, 4)
    counts = np.frombuffer(page, "<u4", size, 4 + 8 * size)
    total, start = (len(page) - 4 - 12 * size) // 5, 4 + 12 * size
    return keys, counts, np.frombuffer(page, "<u4", total, start), np.frombuffer(page, "u1", total, start + 4 * total)


def postings_on(page: Page, key: int) -> Postings | None:
    """The postings of a lexeme on a page; None if it is not there."""
    keys, counts, documents, times = page
    position = int(np.searchsorted(keys, key))
    if position == len(keys) or keys[position] != key:
        return None
    start = int(counts[:position].sum(dtype=np.int64))
    rows = slice(start, start + int(counts[position]))
    return documents[rows], times[rows]


def norms_of(lengths: NDArray[np.uint32], average: float) -> NDArray[np.float32]:
    """What BM25 adds to the number of occurrences of a lexeme in the denominator, for each document."""
    return (K1 * (1 - B + B * lengths / max(average, 1e-9))).astype(np.float32)


def best(
    postings: Sequence[Postings], norms: Floats, total: int, k: int, chosen: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], Floats]:
    """The numbers and scores of the k documents with the highest BM25, best first; of equal ones the lowest number.

    A lexeme weighs `log(1 + (N - n + 0.5) / (n + 0.5))` if n of N documents have it. The lists are added up beginning
    with the rarest lexeme. Documents that can no longer be among the best are left out of the long lists (the bounds of
    Turtle and Flood 1995, "Query evaluation: strategies and optimizations").

    Args:
        postings: of each lexeme of the query.
        norms: of each document (`norms_of`).
        total: N.
        k: at most so many documents.
        chosen: only these documents, `[n]`.

    Example:
        >>> segment = Segment.of(np.arange(3), ["a cat", "a dog", "a cat and a dog"], "simple")
        >>> from contrastive_st.search.lexemes import query_keys
        >>> norms = norms_of(segment.lengths, segment.lengths.mean())
        >>> postings = list(segment.postings(query_keys("a cat", "simple")))
        >>> best(postings, norms, 3, 10)[0].tolist()
        [0, 2, 1]
    """
    lists = sorted(postings, key=lambda one: len(one[0]))
    weights = _weights(lists, total)
    rest = np.append(np.cumsum(weights[::-1])[::-1], 0)  # no lexeme adds more than its weight
    scores = np.zeros(len(norms), np.float32)
    touched = np.empty(0, np.int64)
    for number, (documents, times) in enumerate(lists):
        if len(touched) >= k and len(documents) > _FEW * k:
            least = _kth(scores[touched], k)
            if least > rest[number]:
                touched = touched[scores[touched] >= least - rest[number] * (1 + 1e-5)]
                if _FEW * len(touched) < len(documents):
                    touched = np.sort(touched)
                    at = np.minimum(np.searchsorted(documents, touched.astype(np.uint32)), len(documents) - 1)
                    there = documents[at] == touched
                    documents, times = documents[at[there]], times[at[there]]
        if chosen is not None:
            keep = chosen[documents]
            documents, times = documents[keep], times[keep]
        before = scores[documents]
        often = times.astype(np.float32)
        scores[documents] = before + weights[number] * (often / (often + norms[documents]))
        touched = np.concatenate([touched, documents[before == 0]])
    values = scores[touched]
    if len(touched) > k:
        keep = values >= _kth(values, k)
        touched, values = touched[keep], values[keep]
    order = np.lexsort((touched, -values))[:k]
    return touched[order], values[order]


def shares(
    postings: Sequence[Postings], norms: NDArray[np.float32], total: int, numbers: NDArray[np.int64]
) -> NDArray[np.float64]:
    """BM25 of some documents as a share, 0 to 1, of the weights of all lexemes of the query, which no score reaches."""
    result, weights = np.zeros(len(numbers)), _weights(postings, total)
    for (documents, times), weight in zip(postings, weights.tolist(), strict=True):
        at = np.minimum(np.searchsorted(documents, numbers.astype(np.uint32)), len(documents) - 1)
        often = np.where(documents[at] == numbers, times[at], 0).astype(np.float64)
        result += weight * often / (often + norms[numbers])
    return np.asarray(result / max(float(weights.sum()), 1e-9))


def _weights(postings: Sequence[Postings], total: int) -> NDArray[np.float32]:
    return np.array([np.log1p((total - len(one) + 0.5) / (len(one) + 0.5)) for one, _ in postings], np.float32)


def _kth(values: NDArray[np.float32], k: int) -> float:
    return float(np.partition(values, len(values) - k)[len(values) - k])
