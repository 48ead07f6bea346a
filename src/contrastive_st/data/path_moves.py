"""2-opt and Or-opt: what shortens a path through unit vectors, looked for between near neighbours alone.

All moves of a sweep are found at once, in arrays; those that gain most are made first, and none touches a vector that
another has touched in this sweep. The next sweep looks at what was touched. -1 stands for what is before the first and
after the last, at distance 0 from everything: a path is a tour through it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_LONGEST = 3  # vectors that an Or-opt move takes along
_CHUNK = 1 << 16  # distances computed at a time


class Moves(NamedTuple):
    """Moves `[m]`: by how much each shortens the path, and the vectors whose edges it changes `[m, 6]`."""

    gain: NDArray[np.float32]
    touched: Ints  # 2-opt: a, b, c, d, -1, kind; Or-opt: before, first, last, after, c, x
    segment: Ints  # vectors moved by Or-opt; 0 is 2-opt


def improve(unit: NDArray[np.float32], path: Ints, near: Ints, deadline: float, least: float = 1e-6) -> Ints:
    """Shorten `path` `[n]` until no move gains more than `least`, or the time is up.

    Args:
        unit: unit vectors `[n, d]`.
        path: a permutation.
        near: `[n, k]` the neighbours of each, nearest first, that moves may join it to.
        deadline: of `time.monotonic`.
        least: gain of a move worth making.
    """
    state, everyone = _Path(unit, path.copy(), near), np.arange(len(path))
    active = everyone
    while time.monotonic() < deadline:
        found = [state.two_opt(active, least), *(state.or_opt(active, n, least) for n in range(1, _LONGEST + 1))]
        touched = state.make(Moves(*(np.concatenate(columns) for columns in zip(*found, strict=True))))
        if not len(touched) and len(active) == len(everyone):
            break
        active = touched if len(touched) else everyone  # one that stood still may have gained by others' moves
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
        """The vectors at some places; -1 outside of the path."""
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
        """Edges a-b and c-d become a-c and b-d, c near a: what lies between is turned round."""
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
        """A segment of `count` vectors from an active one on goes between c and x, c near the end it is joined to."""
        found = []
        for side in (1, -1):  # the segment reaches from `active` to that side, and `active` is joined to c
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
        """Make the moves that gain most and do not touch each other; returns what is to be looked at next."""
        dirty = np.zeros(len(self.path) + 1, dtype=bool)  # the last stands for -1
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
        """Neighbours c nearer to a than `most`, as row numbers of a, c and the difference."""
        rows = np.repeat(np.arange(len(a)), self.near.shape[1])
        c = self.near[a].ravel()
        gain = most[rows] - self.distance(a[rows], c)
        good = gain > 0
        return rows[good], c[good], gain[good]

    def _turn(self, touched: Ints) -> bool:
        """A 2-opt move, unless an earlier one has turned a-b, and not c-d, round."""
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
        """An Or-opt move: the segment goes between c and x, its `end` beside c."""
        _, end, far, _, c, x = touched.tolist()
        first, last = sorted((int(self.place[end]), int(self.place[far])))
        segment = self.path[first : last + 1].copy()
        at = int(self.place[c])
        gap = max(at, int(self.place[x])) if x >= 0 else (0 if at == 0 else at + 1)  # what is there comes after
        segment = segment if (segment[0] == end) == (gap > at) else segment[::-1]
        low, high = min(first, gap), max(last + 1, gap)
        rest = np.concatenate([self.path[low:first], self.path[last + 1 : high]])
        self.path[low:high] = np.concatenate([segment, rest] if gap <= first else [rest, segment])
        self.place[self.path[low:high]] = np.arange(low, high)
