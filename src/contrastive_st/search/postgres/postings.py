"""The words of a collection: segments of postings in its table `words`, which searches rank by BM25.

Whoever writes a text adds a segment with its postings in the same transaction. It replaces the postings that the
document has in earlier segments. Whoever deletes a document adds a segment that only names it. Segments never change,
so that searches keep what they have read. They are numbered, and a number is never given again. When there are many,
they are joined.

A writer locks its documents first, then the table of words, and then takes a number. So if two writers change the same
document, the later change has the higher number; and while segments are joined, which takes a stronger lock, no writer
has a number and is not done.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contrastive_st.forks import Lock
from contrastive_st.search.bm25 import Ids, Postings, Segment, norms_of, postings_on, read_page
from contrastive_st.search.lexemes import UNKNOWN_LANGUAGE
from contrastive_st.search.postgres.copying import END, SIGNATURE
from contrastive_st.search.postgres.database import StoreConnection
from contrastive_st.search.postgres.schema import Tables

_MOST = 1 << 18  # documents of a segment that was joined from others
_SMALL = 1 << 17  # documents of a segment that is joined with others
_MANY = 32  # small segments, from which on they are joined
_GROWTH = 4  # an older segment is joined with the later ones if it is at most so many times as large
_BATCH = 1 << 14  # texts that are read at a time
_TAIL = 1 << 16  # ids of segments that are added to a view without sorting the others again
_CACHE = 1 << 26  # bytes of pages that searches keep
_HEAD = struct.Struct("<qqq")
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Header:
    """What a segment says of itself: the ids and lengths of its documents, the first lexeme of each page.

    `gone` has the ids of documents that were deleted; their postings in earlier segments do not count.
    """

    number: int
    ids: Ids
    lengths: NDArray[np.uint32]
    firsts: NDArray[np.int64]
    gone: Ids

    @classmethod
    def read(cls, number: int, data: bytes) -> Header:
        """The header of a page of bytes."""
        n, pages, gone = _HEAD.unpack_from(data)
        offset, parts = _HEAD.size, []
        for kind, count in (("<i8", n), ("<u4", n), ("<i8", pages), ("<i8", gone)):
            parts.append(np.frombuffer(data, kind, count, offset))
            offset += parts[-1].nbytes
        return cls(number, *parts)


class View:
    """The documents of some segments, of which some are alive.

    A document is alive in its latest segment, unless a later one says that it is gone. Documents are numbered through
    all segments.

    Args:
        headers: of the segments.
        base: a view of all earlier segments, which saves sorting their ids again.
        oid: of their table. A collection may be deleted and made again under the same name.
    """

    def __init__(self, headers: Sequence[Header], base: View | None = None, oid: int = 0) -> None:
        self.oid = oid
        headers = sorted(headers, key=lambda one: one.number)
        self._parts = (base, View(headers)) if base else ()
        self.headers: list[Header] = [*(base.headers if base else ()), *headers]
        self.firsts = np.cumsum([0, *(len(one.ids) for one in self.headers)])
        self.ids = np.concatenate([_NONE, *(one.ids for one in self.headers)])
        self.lengths = np.concatenate([np.empty(0, np.uint32), *(one.lengths for one in self.headers)])
        if base:
            self.alive: NDArray[np.bool_] = np.concatenate([part.alive for part in self._parts])
            for one in headers:
                for ids in (one.ids, one.gone):
                    self.alive[base.places(ids)[0]] = False
        else:
            # the numbers of the documents that are alive, in the order of their ids
            ids = np.concatenate([_NONE, *(one.ids for one in headers), *(one.gone for one in headers)])
            sizes = [len(one.ids) for one in headers] + [len(one.gone) for one in headers]
            numbers, count = np.repeat([one.number for one in headers] * 2, sizes), len(self.ids)
            # of the same segment, what is gone was there before
            order = np.lexsort((np.arange(len(ids)) < count, numbers, ids))
            last = np.ones(len(order), np.bool_)
            last[:-1] = ids[order][1:] != ids[order][:-1]
            kept = order[last]
            self._latest: Ids = kept[kept < count]
            self.alive = np.zeros(len(self.ids), np.bool_)
            self.alive[self._latest] = True
            self._known = self.ids[self._latest]
        self.key = tuple(one.number for one in self.headers)
        self.total = int(self.alive.sum())
        self.all_alive = self.total == len(self.ids)
        self.length = float(self.lengths[self.alive].mean()) if self.total else 0.0  # mean of the documents
        self.norms = norms_of(self.lengths, self.length)

    def places(self, ids: Ids) -> tuple[Ids, NDArray[np.bool_]]:
        """The numbers of those of the documents that are alive; and which of them are, `[n]`."""
        if not self._parts:
            at = np.minimum(np.searchsorted(self._known, ids), max(len(self._known) - 1, 0))
            present = self._known[at] == ids if len(self._known) else np.zeros(len(ids), np.bool_)
            return self._latest[at[present]], present
        numbers = np.full(len(ids), -1)
        for part, first in zip(self._parts, (0, len(self._parts[0].ids)), strict=True):
            places, present = part.places(ids)
            places, present = places + first, np.flatnonzero(present)
            alive = self.alive[places]
            numbers[present[alive]] = places[alive]
        return numbers[numbers >= 0], numbers >= 0


def segments_of(connection: StoreConnection, tables: Tables) -> tuple[int, tuple[int, ...]]:
    """The oid of the table of words, 0 if it is empty, and the numbers of its segments: whoever writes changes them."""
    rows = connection.execute(tables.statement(_SEGMENTS)).fetchall()
    return (rows[0][0] if rows else 0), tuple(row[1] for row in rows)


class Words:
    """Reads postings for searches. Objects for one collection share it, so that they read each page once."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._pages: OrderedDict[tuple[int, int, int], bytes] = OrderedDict()
        self._size = 0
        self._view = self._base = View([])

    def view(self, connection: StoreConnection, tables: Tables) -> View:
        """The documents that there are now."""
        while True:  # again if a segment was joined with others meanwhile
            oid, numbers = segments_of(connection, tables)
            view = self._view
            if (view.oid, view.key) == (oid, numbers):
                return view
            there = {one.number: one for one in view.headers} if view.oid == oid else {}
            new = read_headers(connection, tables, [number for number in numbers if number not in there])
            there |= {one.number: one for one in new}
            if any(number not in there for number in numbers):
                continue
            base = self._base
            later = [there[number] for number in numbers[len(base.key) :]]
            size = sum(len(one.ids) + len(one.gone) for one in later)
            if base.oid == oid and base.key and numbers[: len(base.key)] == base.key and size < _TAIL:
                view = View(later, base, oid)
            else:
                view = self._base = View([there[number] for number in numbers], oid=oid)
            self._view = view
            return view

    def postings(
        self, connection: StoreConnection, tables: Tables, view: View, keys: Sequence[int]
    ) -> list[Postings] | None:
        """The postings of each lexeme that a document of the view has; None if a segment was joined with others."""
        needed = []  # the pages of the lexemes, by segment and number
        for one in view.headers:
            if len(one.firsts):
                places = np.searchsorted(one.firsts, keys, side="right") - 1
                needed += [(one.number, page) for page in dict.fromkeys(places.tolist()) if page >= 0]
        result: dict[tuple[int, int], bytes] = {}
        with self._mutex.held():
            for key in needed:
                if (page := self._pages.get((view.oid, *key))) is not None:
                    self._pages.move_to_end((view.oid, *key))
                    result[key] = page
        if missing := [key for key in needed if key not in result]:
            segments, numbers = (list(column) for column in zip(*missing, strict=True))
            rows = connection.execute(tables.statement(_PAGES), (segments, numbers), binary=True).fetchall()
            if len(rows) < len(missing):
                return None
            with self._mutex.held():
                for segment, number, page in rows:
                    result[segment, number] = page
                    if self._pages.setdefault((view.oid, segment, number), page) is page:
                        self._size += len(page)
                while self._size > _CACHE:
                    self._size -= len(self._pages.popitem(last=False)[1])
        return list(_postings(view, keys, result))


def _postings(view: View, keys: Sequence[int], pages: dict[tuple[int, int], bytes]) -> Iterator[Postings]:
    decoded = {at: read_page(page) for at, page in pages.items()}
    for key in keys:
        lists = []
        for one, first in zip(view.headers, view.firsts, strict=False):
            page = int(np.searchsorted(one.firsts, key, side="right")) - 1
            if page >= 0 and (entry := postings_on(decoded[one.number, page], key)):
                lists.append((entry[0] + np.uint32(first), entry[1]))
        if not lists:
            continue
        documents, times = (np.concatenate(column) for column in zip(*lists, strict=True)) if lists[1:] else lists[0]
        if not view.all_alive:
            keep = view.alive[documents]
            documents, times = documents[keep], times[keep]
        if len(documents):
            yield documents, times


# ---------------------------------------------------------------------- statements

_SEGMENTS = "SELECT tableoid::bigint, segment FROM {words} WHERE page = -1 ORDER BY segment"
_HEADERS = "SELECT segment, data FROM {words} WHERE page = -1 AND segment = ANY(%s)"
_PAGES = """SELECT w.segment, w.page, w.data FROM unnest(%s::bigint[], %s::int[]) AS n (segment, page)
    JOIN {words} AS w ON w.page = n.page AND w.segment = n.segment"""
_EMPTY = bytes(4)  # a page without lexemes
_NOTHING = Segment(_NONE, np.empty(0, np.uint32), *read_page(_EMPTY))
_SIZES = "SELECT segment, octet_length(data) FROM {words} WHERE page = -1 ORDER BY segment DESC"
_ADD = "INSERT INTO {words} (page, data) VALUES (-1, %s) RETURNING segment"
_LANGUAGE = "SELECT language FROM collections WHERE tables = %s"
_SEGMENT = "SELECT data FROM {words} WHERE segment = %s AND page >= 0 ORDER BY page"


def read_headers(connection: StoreConnection, tables: Tables, numbers: Sequence[int]) -> list[Header]:
    """The headers of segments, as far as they are there."""
    if not numbers:
        return []
    rows = connection.execute(tables.statement(_HEADERS), (list(numbers),), binary=True).fetchall()
    return [Header.read(number, data) for number, data in rows]


def add_words(connection: StoreConnection, tables: Tables, ids: Ids, texts: Sequence[str]) -> None:
    """Add the postings of texts that were written in the open transaction."""
    connection.execute(tables.statement("LOCK TABLE {words} IN ROW EXCLUSIVE MODE"))
    # asked after the lock, which waits for a change of language
    if len(ids) and (row := connection.execute(_LANGUAGE, (tables.prefix,)).fetchone()):
        _add(connection, tables, Segment.of(ids, texts, row[0] or UNKNOWN_LANGUAGE))


def remove_words(connection: StoreConnection, tables: Tables, ids: list[int]) -> None:
    """Remove the postings of documents that were deleted in the open transaction."""
    connection.execute(tables.statement("LOCK TABLE {words} IN ROW EXCLUSIVE MODE"))
    if ids:
        _add(connection, tables, _NOTHING, np.array(ids, np.int64))


def fill_words(connection: StoreConnection, tables: Tables, language: str) -> None:
    """Make the words of all documents again, in the open transaction, in which nobody else writes texts."""
    connection.execute(tables.statement("LOCK TABLE {words} IN SHARE ROW EXCLUSIVE MODE"))
    connection.execute(tables.statement("DELETE FROM {words}"))
    parts: list[Segment] = []
    with connection.cursor("all_texts") as cursor:
        cursor.execute(tables.statement("SELECT id, text FROM {texts} ORDER BY id"))
        while rows := cursor.fetchmany(_BATCH):
            ids, texts = zip(*rows, strict=True)
            parts.append(Segment.of(np.array(ids, np.int64), texts, language))
            if len(parts) * _BATCH >= _MOST:
                _add(connection, tables, _joined(parts))
                parts = []
    if parts:
        _add(connection, tables, _joined(parts))


def join_words(connection: StoreConnection, tables: Tables, *, all_of_them: bool = False) -> None:
    """Join segments, in the open transaction: the latest ones if there are many, or all but large ones that are whole.

    Joining the latest ones, each posting is written again as many times as the logarithm of the number of documents.
    """
    sizes = connection.execute(tables.statement(_SIZES)).fetchall()
    small = sum(size < _SMALL * 12 for _, size in sizes)
    if not all_of_them and small <= _MANY:
        return
    connection.execute(tables.statement("LOCK TABLE {words} IN SHARE ROW EXCLUSIVE MODE"))
    sizes = connection.execute(tables.statement(_SIZES)).fetchall()
    numbers, total = list[int](), 0
    for number, size in sizes:
        if not all_of_them and (total + size > _MOST * 12 or (len(numbers) > 1 and size > _GROWTH * total)):
            break
        numbers.append(number)
        total += size
    view = View(read_headers(connection, tables, numbers))
    alive = [view.alive[start:end] for start, end in zip(view.firsts, view.firsts[1:], strict=False)]
    parts, masks = list[Segment](), list[NDArray[np.bool_]]()
    gone = [] if len(numbers) == len(sizes) else [one.gone for one in view.headers if len(one.gone)]
    for header, mask in zip(view.headers, alive, strict=True):
        if all_of_them and len(mask) >= _SMALL and mask.all():
            continue
        pages = connection.execute(tables.statement(_SEGMENT), (header.number,), binary=True).fetchall()
        columns = zip(*(read_page(page) for (page,) in pages or [(_EMPTY,)]), strict=True)
        parts.append(Segment(header.ids, header.lengths, *map(np.concatenate, columns)))
        masks.append(mask)
        connection.execute(tables.statement("DELETE FROM {words} WHERE segment = %s"), (header.number,))
        if all_of_them and sum(map(np.count_nonzero, masks)) >= _MOST - _BATCH:
            _add(connection, tables, Segment.joined(parts, masks))
            parts, masks = [], []
    if parts and (any(map(np.any, masks)) or gone):
        _add(connection, tables, Segment.joined(parts, masks), np.unique(np.concatenate([_NONE, *gone])))


def _joined(parts: Sequence[Segment]) -> Segment:
    return parts[0] if len(parts) == 1 else Segment.joined(parts, [np.ones(len(one.ids), np.bool_) for one in parts])


def _add(connection: StoreConnection, tables: Tables, segment: Segment, gone: Ids = _NONE) -> None:
    pages = list(segment.pages())
    firsts = np.array([first for first, _ in pages], np.int64)
    head = _HEAD.pack(len(segment.ids), len(pages), len(gone))
    parts = (part.tobytes() for part in (segment.ids, segment.lengths, firsts, gone))
    number = connection.value(tables.statement(_ADD), (b"".join((head, *parts)),))
    row = struct.Struct(">hiiiqi")
    with connection.cursor() as cursor:
        copy_in = tables.statement("COPY {words} (page, segment, data) FROM STDIN (FORMAT BINARY)")
        with cursor.copy(copy_in) as copy:
            copy.write(SIGNATURE)
            for index, (_, page) in enumerate(pages):
                copy.write(row.pack(3, 4, index, 8, number, len(page)) + page)
            copy.write(END)
