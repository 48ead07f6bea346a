"""Read anchors with candidates: lists of positives and negatives, or columns of them, and a teacher's scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import datasets
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contrastive_st.data.columns import (
    ANCHOR,
    CANDIDATE_SCORES,
    NEGATIVE,
    NUMBER,
    POSITIVE,
    SCORES,
    items_of,
)
from contrastive_st.data.readers import Rows
from contrastive_st.data.tables import CHUNK, report, rows_of
from contrastive_st.errors import InputError


def read_candidates(
    source: str,
    columns: Mapping[str, str],
    lists: Sequence[str] = (),
    *,
    strict: bool = False,
    split: str = "train",
    header: bool | None = None,
) -> datasets.Dataset:
    """Read rows of an anchor with any number of positives and negatives, and their scores if there are any.

    A row with several positives becomes a row for each of them. A blank candidate is left out with its score; a row
    without an anchor, a positive or a negative is dropped, and a warning says how many were.

    Args:
        source: as for `read_texts`.
        columns: the role of each column, as `column_roles` finds them.
        lists: the columns whose cells are lists.
        strict: raise an error for a row that would be dropped.
        split: as for `read_texts`.
        header: as for `read_texts`.

    Returns:
        Columns of text for anchor, positive and each negative, null where a row has fewer than others; with scores, a
        column `scores` of lists: those of the positive and the negatives, NaN where there is none.

    Raises:
        InputError: a candidate is not a text, has no score, or a score is no number; the message names the row.

    Example:
        >>> import json, pathlib, tempfile
        >>> rows = [{"query": "Why?", "pos": ["So."], "neg": ["No.", "Yes."], "pos_scores": [9], "neg_scores": [2, 1]},
        ...         {"query": "Who?", "pos": ["I."], "neg": ["It."], "pos_scores": [8], "neg_scores": [3]}]
        >>> roles = {"query": "anchor", "pos": "positive", "neg": "negative", "pos_scores": "positive_score",
        ...          "neg_scores": "negative_score"}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "scored.jsonl")
        ...     _ = path.write_text("\\n".join(map(json.dumps, rows)))
        ...     read_candidates(str(path), roles, list(roles)[1:])[1]
        {'query': 'Who?', 'pos': 'I.', 'neg_1': 'It.', 'neg_2': None, 'scores': [8.0, 3.0, nan]}
    """
    rows = rows_of(source, split=split, header=header, columns=list(columns))
    reader = _Reader(rows, columns, lists)
    chunks, chunk = [], _Chunk()
    total = dropped = first = 0
    for number, cells in rows:
        total += 1
        found = list(reader.read(cells, number))
        if not found:
            dropped, first = dropped + 1, first or number
        for row in found:
            chunk.add(row)
        if len(chunk) >= CHUNK:
            chunks.append(chunk.packed())
            chunk = _Chunk()
    report(total, dropped, first, rows.unit, rows.source, strict)
    chunks.append(chunk.packed())
    names = reader.names(max(int(chunk.lengths.max(initial=0)) for chunk in chunks))
    tables = [chunk.table(names, reader.scored) for chunk in chunks]
    return datasets.Dataset(datasets.table.InMemoryTable(pa.concat_tables(tables)))


class Candidates(NamedTuple):
    """An anchor, a positive, its negatives, and the scores of positive and negatives if there are any."""

    anchor: str
    positive: str
    negatives: list[str]
    scores: list[float]


class _Reader:
    """Makes `Candidates` of the cells of a row."""

    def __init__(self, rows: Rows, columns: Mapping[str, str], lists: Sequence[str]) -> None:
        self.rows, self.lists = rows, lists
        self.by_role = {role: [name for name, own in columns.items() if own == role] for role in columns.values()}
        self.scored = bool(set(columns.values()) & set(CANDIDATE_SCORES))

    def names(self, negatives: int) -> list[str]:
        """The names of the columns of text, for so many negatives at most."""
        own = self.by_role.get(NEGATIVE, [])
        if len(own) != negatives or set(own) & set(self.lists):
            own = [f"{own[0] if len(own) == 1 else NEGATIVE}_{number}" for number in range(1, negatives + 1)]
        return [*self.by_role[ANCHOR], *self.by_role[POSITIVE], *own]

    def read(self, cells: Mapping[str, Any], number: int) -> Iterator[Candidates]:
        """A row for each positive; none if there is no anchor, or there are negatives in the file and none here."""
        anchors, positives, negatives = (self._texts(cells, role, number) for role in (ANCHOR, POSITIVE, NEGATIVE))
        scores = self._scores(cells, len(positives), len(negatives), number)
        kept = [i for i, text in enumerate(negatives) if text]
        if not anchors[0] or (NEGATIVE in self.by_role and not kept):
            return
        for place, positive in enumerate(positives):
            if positive:
                found = [scores[place], *(scores[len(positives) + i] for i in kept)] if scores else []
                own = [score for score in found if isinstance(score, float)]
                if len(own) < len(found):
                    wrong = next(score for score in found if not isinstance(score, float))
                    raise InputError(f"{self.rows.where(number)}: {wrong}; write a number, or remove the row")
                yield Candidates(anchors[0], positive, [negatives[i] for i in kept], own)

    def _texts(self, cells: Mapping[str, Any], role: str, number: int) -> list[str]:
        """The texts of the columns of a role, one after the other; blank for null."""
        found = []
        for name in self.by_role.get(role, []):
            for text in self._items(cells, name):
                if text is not None and not isinstance(text, str):
                    what = f"{name!r} holds {str(text)[:40]}, not a text"
                    raise InputError(f"{self.rows.where(number)}: {what}; put quotes around it, or remove it")
                found.append("" if text is None else text.strip())
        return found

    def _items(self, cells: Mapping[str, Any], name: str) -> Sequence[Any]:
        """The items of a cell with a list, else the cell itself."""
        items = items_of(cells.get(name)) if name in self.lists else None
        return [cells.get(name)] if items is None else items

    def _scores(self, cells: Mapping[str, Any], positives: int, negatives: int, number: int) -> list[float | str]:
        """The scores of positives and negatives, or what is wrong with one; an empty list without scores."""
        if not self.scored:
            return []
        names = [name for role in CANDIDATE_SCORES for name in self.by_role.get(role, [])]
        groups = [[_score(item, name) for item in self._items(cells, name)] for name in names]
        found = [score for group in groups for score in group]
        if SCORES in self.by_role and positives == 1 and len(found) == negatives:
            margins = [-score if isinstance(score, float) else score for score in found]
            return [0.0, *margins]  # the positive's score less that of each negative
        if len(found) != positives + negatives or (SCORES not in self.by_role and len(groups[0]) != positives):
            texts = f"{positives} positive{'s' * (positives != 1)} and {negatives} negative{'s' * (negatives != 1)}"
            what = f"{len(found)} scores for {texts}"
            raise InputError(f"{self.rows.where(number)}: {what}; give a score for each")
        return found


def _score(item: Any, name: str) -> float | str:
    """A finite number, or else what is wrong."""
    if isinstance(item, str) and NUMBER.fullmatch(item):
        return float(item)
    if isinstance(item, (int, float)) and not isinstance(item, bool) and item - item == 0:
        return float(item)
    return f"column {name!r} holds scores, and {str(item)[:40]!r} is not a number"


class _Chunk:
    """Some rows, by column; the negatives of all rows one after the other, and how many each row has."""

    def __init__(self) -> None:
        self.anchors: list[str] = []
        self.positives: list[str] = []
        self.negatives: list[str] = []
        self.lengths: list[int] = []
        self.scores: list[float] = []

    def __len__(self) -> int:
        return len(self.lengths)

    def add(self, row: Candidates) -> None:
        self.anchors.append(row.anchor)
        self.positives.append(row.positive)
        self.negatives += row.negatives
        self.lengths.append(len(row.negatives))
        self.scores += row.scores

    def packed(self) -> _Packed:
        anchors, positives, negatives = (
            pa.array(column, pa.string()) for column in (self.anchors, self.positives, self.negatives)
        )
        lengths, scores = np.array(self.lengths, dtype=np.int64), np.array(self.scores)
        return _Packed(anchors, positives, negatives, lengths, scores)


class _Packed(NamedTuple):
    """The rows of a `_Chunk` as arrays, which take less memory than Python's objects."""

    anchors: pa.Array
    positives: pa.Array
    negatives: pa.Array
    lengths: NDArray[np.int64]
    scores: NDArray[np.float64]

    def table(self, names: Sequence[str], scored: bool) -> pa.Table:
        """The rows with a column for each name, and the column `scores`."""
        most = len(names) - 2
        there = np.arange(most) < self.lengths[:, None]
        place = (np.cumsum(self.lengths) - self.lengths)[:, None] + np.arange(most)
        taken = [self.negatives.take(pa.array(place[:, i], mask=~there[:, i])) for i in range(most)]
        columns = [self.anchors, self.positives, *taken]
        if not scored:
            return pa.table(columns, names=list(names))
        scores = np.full((len(there), most + 1), np.nan)
        scores[np.arange(most + 1) <= self.lengths[:, None]] = self.scores
        offsets = pa.array(np.arange(len(scores) + 1) * (most + 1), pa.int32())
        lists = pa.ListArray.from_arrays(offsets, pa.array(scores.ravel()))
        return pa.table([*columns, lists], names=[*names, SCORES])
