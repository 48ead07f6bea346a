"""Order a corpus along a short path through the embeddings of its sentences.

Neighbours on the path are similar, so a contiguous batch has sentences that are hard to tell apart. The shortest path
is a metric travelling-salesman problem; the functions here find a short one. Distances are those of the unit vectors.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans

from contrastive_st.errors import InputError
from contrastive_st.vectors import unit_vectors

# --- 2-opt and Or-opt: moves that shorten a path through unit vectors, searched only between near neighbours.

Ints = NDArray[np.int64]
_LONGEST = 3  # most vectors that an Or-opt move takes along
_CHUNK = 1 << 16  # distances computed at a time


class Moves(NamedTuple):
    """m moves: by how much each shortens the path, `[m]`, and the vectors whose edges it changes, `[m, 6]`."""

    gain: NDArray[np.float32]
    touched: Ints  # 2-opt: a, b, c, d, -1, kind; Or-opt: before, first, last, after, c, x
    segment: Ints  # number of vectors that Or-opt moves; 0 for 2-opt


def improve(unit: NDArray[np.float32], path: Ints, near: Ints, deadline: float, least: float = 1e-6) -> Ints:
    """Shorten `path` `[n]` until no move gains more than `least`, or the time is up.

    Args:
        unit: unit vectors `[n, d]`.
        path: a permutation of `range(n)`.
        near: `[n, k]`, the neighbours that moves may join each vector to, nearest first.
        deadline: when to stop, on the clock of `time.monotonic`.
        least: smallest gain for which a move is made.
    """
    state, everyone = _Path(unit, path.copy(), near), np.arange(len(path))
    active = everyone
    while time.monotonic() < deadline:
        found = [state.two_opt(active, least), *(state.or_opt(active, n, least) for n in range(1, _LONGEST + 1))]
        touched = state.make(Moves(*(np.concatenate(columns) for columns in zip(*found, strict=True))))
        if not len(touched) and len(active) == len(everyone):
            break
        active = touched if len(touched) else everyone  # the others may have new moves by now
    return state.path


@dataclass
class _Path:
    unit: NDArray[np.float32]
    path: Ints
    near: Ints

    def __post_init__(self) -> None:
        self.place = np.empty_like(self.path)
        self.place[self.path] = np.arange(len(self.path))

    def at(self, places: Ints) -> Ints:
        """The vectors at these places of the path; -1 outside the path."""
        inside = (places >= 0) & (places < len(self.path))
        return np.where(inside, self.path[np.where(inside, places, 0)], -1)

    def distance(self, a: Ints, b: Ints) -> NDArray[np.float32]:
        found = np.empty(len(a), np.float32)
        for start in range(0, len(a), _CHUNK):
            part = slice(start, start + _CHUNK)
            found[part] = np.linalg.norm(self.unit[a[part]] - self.unit[b[part]], axis=1)
        found[(a < 0) | (b < 0)] = 0
        return found

    def two_opt(self, active: Ints, least: float) -> Moves:
        """Moves that replace edges a-b and c-d by a-c and b-d, with c near a, and reverse the path between them."""
        found = []
        for side in (1, -1):
            b = self.at(self.place[active] + side)
            rows, c, gain = self._pairs(active, self.distance(active, b))
            a, b = active[rows], b[rows]
            d = self.at(self.place[c] + side)
            gain = gain + self.distance(c, d) - self.distance(b, d)
            good = (gain > least) & (c != b)
            kind = np.full(len(a), side)
            touched = np.stack([a, b, c, d, np.full(len(a), -1), kind], 1)
            found.append(Moves(gain[good], touched[good], np.zeros(good.sum(), np.int64)))
        return Moves(*(np.concatenate(columns) for columns in zip(*found, strict=True)))

    def or_opt(self, active: Ints, count: int, least: float) -> Moves:
        """Moves that put a segment of `count` vectors between c and x; its end next to c is active, and near c."""
        found = []
        for side in (1, -1):  # the segment extends from `active` to that side, and `active` is joined to c
            far_place = self.place[active] + side * (count - 1)
            inside = (far_place >= 0) & (far_place < len(self.path))
            end, far = active[inside], self.path[far_place[inside]]
            before, after = self.at(self.place[end] - side), self.at(self.place[far] + side)
            saved = self.distance(before, end) + self.distance(far, after) - self.distance(before, after)
            rows, c, gain = self._pairs(end, saved)
            for step in (1, -1):
                x = self.at(self.place[c] + step)
                offset = side * (self.place[c] - self.place[end][rows])
                beyond = side * (self.place[c] + step - self.place[end][rows])
                good = ((offset < 0) | (offset >= count)) & ((beyond < 0) | (beyond >= count))
                which, to, beside = rows[good], c[good], x[good]
                total = gain[good] + self.distance(to, beside) - self.distance(far[which], beside)
                touched = np.stack([before[which], end[which], far[which], after[which], to, beside], 1)
                better = total > least
                found.append(Moves(total[better], touched[better], np.full(better.sum(), count)))
        return Moves(*(np.concatenate(columns) for columns in zip(*found, strict=True)))

    def make(self, moves: Moves) -> Ints:
        """Make the moves with the greatest gain that share no vectors; returns the vectors to look at next."""
        dirty = np.zeros(len(self.path) + 1, dtype=bool)  # the last is for -1
        later = np.zeros(len(self.path), dtype=bool)
        for i in np.argsort(-moves.gain, kind="stable"):
            touched, count = moves.touched[i], moves.segment[i]
            nodes = touched if count else touched[:4]
            ends = nodes[nodes >= 0]
            later[ends] = True
            if dirty[ends].any() or (len(ends) < len(nodes) and dirty[-1]):
                continue
            if count:
                self._move(touched, int(count))
            elif not self._turn(touched):
                continue
            dirty[ends] = True
            dirty[-1] |= len(ends) < len(nodes)
        return np.flatnonzero(later)

    def _pairs(self, a: Ints, most: NDArray[np.float32]) -> tuple[Ints, Ints, NDArray[np.float32]]:
        """Neighbours c nearer to a than `most`: the row numbers of a, the neighbours c, and the differences."""
        rows = np.repeat(np.arange(len(a)), self.near.shape[1])
        c = self.near[a].ravel()
        gain = most[rows] - self.distance(a[rows], c)
        good = gain > 0
        return rows[good], c[good], gain[good]

    def _turn(self, touched: Ints) -> bool:
        """Make a 2-opt move; False if an earlier move has reversed only one of its edges a-b and c-d."""
        a, b, c, d, _, side = touched.tolist()
        i, j = self.place[a], self.place[c]
        step = side if self.at(np.array([i + side]))[0] == b else -side
        if self.at(np.array([i + step, j + step])).tolist() != [b, d]:
            return False
        first, last = min(i, j), max(i, j)
        first, last = (first + 1, last) if step == 1 else (first, last - 1)
        self.path[first : last + 1] = self.path[first : last + 1][::-1].copy()
        self.place[self.path[first : last + 1]] = np.arange(first, last + 1)
        return True

    def _move(self, touched: Ints, count: int) -> None:
        """Make an Or-opt move: put the segment between c and x, with its `end` next to c."""
        _, end, far, _, c, x = touched.tolist()
        first, last = sorted((int(self.place[end]), int(self.place[far])))
        segment = self.path[first : last + 1].copy()
        at = int(self.place[c])
        gap = max(at, int(self.place[x])) if x >= 0 else (0 if at == 0 else at + 1)  # the segment goes before it
        segment = segment if (segment[0] == end) == (gap > at) else segment[::-1]
        low, high = min(first, gap), max(last + 1, gap)
        rest = np.concatenate([self.path[low:first], self.path[last + 1 : high]])
        self.path[low:high] = np.concatenate([segment, rest] if gap <= first else [rest, segment])
        self.place[self.path[low:high]] = np.arange(low, high)


Vectors = NDArray[np.float32]
Order = NDArray[np.int64]
_SCORES = 1 << 25  # similarities held at a time, 128 MiB
_SAMPLE = 50_000  # vectors from which cluster centres are computed


@dataclass(frozen=True)
class PathLengths:
    """The `length` of a path, that of the order in which the data was `given`, and a lower `bound` for any path."""

    length: float
    given: float
    bound: float

    def __str__(self) -> str:
        percent = 100 * (self.length / max(self.bound, 1e-12) - 1)
        return f"path {self.length:,.1f}, as given {self.given:,.1f}, lower bound {self.bound:,.1f} (+{percent:.1f}%)"


def order_corpus(
    embeddings: Vectors, neighbors: int = 8, seconds: float = 60.0, most: int = 20_000, seed: int = 0
) -> Order:
    """A permutation of the sentences that is a short path: neighbours on it have similar embeddings.

    Up to `most` sentences are ordered at once: first along nearest neighbours, then improved by 2-opt and Or-opt moves
    between near neighbours. More sentences are split into clusters. The clusters are ordered by their centres, and
    each is ordered by itself and reversed if that brings its start nearer to the end of the one before. Memory holds
    one cluster and the embeddings, which may be a memory map.

    Args:
        embeddings: `[N, d]`; zero vectors are allowed.
        neighbors: number of nearest neighbours of each sentence that the moves consider.
        seconds: time for the moves, divided among the clusters in proportion to their size.
        most: most sentences that are ordered at once.
        seed: seed of the clusters and of the start of the path.

    Raises:
        InputError: the embeddings are not a matrix, or not finite.

    Example:
        >>> angle = np.array([0.5, 0.1, 0.9, 0.3, 0.7])
        >>> order = order_corpus(np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32))
        >>> sorted([order.tolist(), order.tolist()[::-1]])[0]
        [1, 3, 0, 4, 2]
    """
    if embeddings.ndim != 2 or not len(embeddings):
        raise InputError(f"embeddings of shape {list(embeddings.shape)} cannot be ordered; give a matrix [N, d]")
    if not all(np.isfinite(embeddings[i : i + 65_536]).all() for i in range(0, len(embeddings), 65_536)):
        raise InputError("embeddings have NaN or infinite values and cannot be ordered; check the teacher")
    count, random = len(embeddings), np.random.default_rng(seed)
    parts: list[Order] = []
    last: Vectors | None = None
    for rows in _clusters(embeddings, np.arange(count), most, neighbors, random):
        unit = unit_vectors(embeddings[rows], np.float32)
        path = shortest(unit, neighbors, seconds * len(rows) / count, random)
        if last is not None and last @ unit[path[-1]] > last @ unit[path[0]]:
            path = path[::-1]
        last = unit[path[-1]]
        parts.append(rows[path])
    return np.concatenate(parts)


def shortest(unit: Vectors, neighbors: int, seconds: float, random: np.random.Generator) -> Order:
    """A short path through unit vectors `[n, d]`, found without clusters."""
    if len(unit) <= 2:
        return np.arange(len(unit))
    near = nearest_neighbors(unit, min(neighbors, len(unit) - 1))[0]
    start = nearest_neighbor_path(unit, near, int(random.integers(len(unit))))
    return improve(unit, start, near, time.monotonic() + seconds)


def nearest_neighbors(unit: Vectors, k: int) -> tuple[NDArray[np.int64], Vectors]:
    """The k nearest others of each unit vector, nearest first, and their distances `[n, k]`; exact, in blocks."""
    rows = torch.from_numpy(unit)
    found = np.empty((len(unit), k), np.int64)
    for start in range(0, len(unit), size := max(_SCORES // len(unit), 1)):
        scores = rows[start : start + size] @ rows.T
        own = torch.arange(start, start + len(scores))
        scores.scatter_(1, own[:, None], -2.0)
        found[start : start + size] = scores.topk(k, dim=1).indices.numpy()
    # from differences: for two close vectors, 2 - 2 cos is rounded to 0 or even below
    distances = np.stack([np.linalg.norm(unit - unit[column], axis=1) for column in found.T], 1)
    return found, distances


def nearest_neighbor_path(unit: Vectors, near: NDArray[np.int64], first: int) -> Order:
    """A path that starts at `first` and always goes to the nearest sentence left: of its neighbours, else of all."""
    left = np.ones(len(unit), dtype=bool)
    rest, vectors = np.arange(len(unit)), unit  # a list of those left, shortened whenever half of them are gone
    path = np.empty(len(unit), np.int64)
    at = first
    for step in range(len(path)):
        path[step] = at
        left[at] = False
        if step + 1 == len(path):
            break
        free = near[at][left[near[at]]]
        if len(free):
            at = int(free[0])
            continue
        if 2 * (len(path) - step - 1) < len(rest):
            kept = left[rest]
            rest, vectors = rest[kept], vectors[kept]
        at = int(rest[np.where(left[rest], vectors @ unit[at], -np.inf).argmax()])
    return path


def path_length(embeddings: Vectors, order: Order | None = None) -> float:
    """The length of a path through the unit vectors, in the given `order`; by default in that of the rows.

    Example:
        >>> square = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]], dtype=np.float32)
        >>> round(path_length(square), 3), round(path_length(square, np.array([0, 2, 1, 3])), 3)  # 3 sides: 4.243
        (5.414, 4.243)
    """
    order = np.arange(len(embeddings)) if order is None else order
    total = 0.0
    for start in range(0, len(order) - 1, 4096):
        unit = unit_vectors(embeddings[order[start : start + 4097]], np.float32)
        total += float(np.linalg.norm(np.diff(unit, axis=0), axis=1).sum())
    return total


def lower_bound(embeddings: Vectors) -> float:
    """A length that no path can be below: half the sum of each sentence's distances to its two nearest others.

    On a path each sentence has two edges, and each edge is counted at both of its sentences. The two ends of the path
    have one edge; they are assumed to be where this reduces the sum most. All pairs are compared, in time N^2 d.

    Example:
        >>> round(lower_bound(np.array([[1, 0], [-1, 0], [0, 1], [0, -1]], dtype=np.float32)), 3)
        4.243
    """
    if len(embeddings) < 3:
        return path_length(embeddings)
    distances = nearest_neighbors(unit_vectors(embeddings, np.float32), 2)[1].astype(np.float64)
    return float(distances.sum() - np.sort(distances[:, 1])[-2:].sum()) / 2


def path_lengths(embeddings: Vectors, order: Order) -> PathLengths:
    """The length of the path `order`, the length of the order of the rows, and the lower bound."""
    return PathLengths(path_length(embeddings, order), path_length(embeddings), lower_bound(embeddings))


def _clusters(
    embeddings: Vectors, rows: Order, most: int, neighbors: int, random: np.random.Generator
) -> Iterator[Order]:
    """Yield the rows in clusters of at most `most`; similar clusters follow each other."""
    if len(rows) <= most:
        yield rows
        return
    parts = -(-2 * len(rows) // most)  # so that clusters have most / 2 rows on average: k-means clusters differ in size
    sample = unit_vectors(embeddings[np.sort(random.choice(rows, min(_SAMPLE, len(rows)), replace=False))], np.float32)
    means = MiniBatchKMeans(parts, n_init=1, batch_size=4096, random_state=int(random.integers(1 << 31))).fit(sample)
    centres = means.cluster_centers_.astype(np.float32)
    label = np.concatenate(
        [means.predict(unit_vectors(embeddings[rows[i : i + 65_536]], np.float32)) for i in range(0, len(rows), 65_536)]
    )
    groups = [
        rows[label == centre]
        for centre in shortest(unit_vectors(centres, np.float32), min(neighbors, parts - 1), 10.0, random)
    ]
    if max(map(len, groups)) == len(rows):  # all vectors are equal
        groups = [rows[i : i + most] for i in range(0, len(rows), most)]
    for group in groups:
        if len(group):
            yield from _clusters(embeddings, group, most, neighbors, random)
