"""Read rows to train on: texts in the order of their roles, then the score, the class or a teacher's scores."""

from __future__ import annotations

import logging
import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contrastive_st.data.pair_sets import pair_set
from contrastive_st.data.profile import BOOLEANS, MISSING, NUMBER, as_text, is_blank, items_of, number_of, simple
from contrastive_st.data.reading.columns import CHUNK, columns_of, held_in_memory
from contrastive_st.data.reading.rows import Dropped, Table
from contrastive_st.data.reading.table import open_table
from contrastive_st.data.roles import (
    ANCHOR,
    CANDIDATE_SCORES,
    KEPT,
    LABEL,
    NEGATIVE,
    POSITIVE,
    SCALES,
    SCORE,
    SCORES,
    ColumnRoles,
    leave_out,
    plain_name,
    role_of,
    score_range,
)  # fmt: skip
from contrastive_st.errors import InputError
from contrastive_st.prefetch import in_chunks
from contrastive_st.text_format import reading_as

logger = logging.getLogger(__name__)
NLI_LABELS = ("entailment", "neutral", "contradiction")
_SIGNS = {-1.0, 0.0, 1.0}  # of which -1 is a class


def read_examples(
    source: Any,
    columns: Sequence[str | int] | None = None,
    *,
    strict: bool = False,
    split: str | None = None,
    scale: tuple[float, float] | None = None,
    header: bool | None = None,
    kinds: Sequence[str] = (),
    classes: Mapping[str, int] | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
) -> tuple[datasets.Dataset, ColumnRoles]:
    """Read rows for training and find the role of each of their columns.

    Rows with a blank text are left out, and rows without a score or a label too; warnings say how many.

    Args:
        source: a file, several, or the name of a data set, as for `contrastive_st.data.reading.open_table`; or rows in
            memory, as for `contrastive_st.data.reading.in_memory`.
        columns: as for `column_roles`.
        strict: as for `read_texts`.
        split: as for `read_texts`.
        scale: the lowest and highest score; by default that of the column's name in `SCALES`, else 0 and 1. With a
            scale, numbers in a column of labels are scores.
        header: as for `read_texts`.
        kinds: the kinds of rows that are wanted, keys of `KINDS`; by default any.
        classes: the number of each class, as the roles of other rows have it; another class is an error.
        encoding: as for `read_texts`.
        delimiter: as for `read_texts`.

    Returns:
        A data set with the text columns in the order of their roles, then `score` (float, 0 to 1), `label` (int, 0, 1,
        ...) or `scores` (of candidates, as `read_candidates` gives them); and the roles. The labels of NLI are
        entailment 0, neutral 1, contradiction 2; other classes are numbered in the order of their names.

    Raises:
        InputError: the source cannot be read, the roles cannot be found, the rows are of another kind, or a score or
            label is not valid; the message says in which row.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "pairs.csv")
        ...     _ = path.write_text("score,answer,question\\n0.5,So.,Why?\\n")
        ...     read_examples(str(path))[0][0]
        {'question': 'Why?', 'answer': 'So.', 'score': 0.5}
    """
    if columns is None and isinstance(source, (str, Path)) and (known := pair_set(str(source))):
        columns = known.columns
    columns = [columns] if isinstance(columns, str) else columns
    with reading_as(encoding, delimiter) if encoding or delimiter else nullcontext():
        table = open_table(source, split=split, header=header, columns=columns)
        roles = table.roles(columns, kinds)
        by_role = {
            role: [name for name in roles.columns if roles.columns[name] == role] for role in roles.columns.values()
        }
        target = next((by_role[role][0] for role in (SCORE, LABEL) if role in by_role), None)
        if target in roles.lists:
            raise InputError(f"{table.source}: {target!r} holds lists of labels; training takes one label per row")
        negatives = by_role.get(NEGATIVE, [])
        fewer = len(negatives) > 1 and any(is_blank(cells.get(name)) for _, cells in table for name in negatives)
        if roles.lists or fewer or not {*CANDIDATE_SCORES}.isdisjoint(by_role):
            return read_candidates(table, roles, strict), roles
        texts = [name for name in roles.columns if isinstance(roles.example.get(name), str) and name != target]
        rows = columns_of(table, list(roles.columns), strict, target, texts)
        if target is not None:
            rows, roles = _with_targets(rows, table, roles, target, strict, scale, classes)
        for name, role in roles.columns.items():
            if role in KEPT:
                rows = rows.remove_columns(name).add_column(role, [number_of(cell) for cell in rows[name]])
        return _renamed(rows, roles) if any("=" in str(column) for column in columns or ()) else (rows, roles)


def _with_targets(
    rows: datasets.Dataset,
    table: Table,
    roles: ColumnRoles,
    target: str,
    strict: bool,
    scale: tuple[float, float] | None,
    classes: Mapping[str, int] | None,
) -> tuple[datasets.Dataset, ColumnRoles]:
    """The rows with a column `score` or `label` of numbers, and the roles with the number of each class."""
    by_name = SCALES.get(plain_name(target)) if scale is None else None
    if scale:
        roles = replace(roles, columns={**roles.columns, target: SCORE})
    low, high = by_name or scale or (0.0, 1.0)
    if by_name is not None:
        note = f"{target} is {low:g} to {high:g}, which becomes 0 to 1; --score_range gives another scale"
        roles = replace(roles, notes=(*roles.notes, note))
    rows, numbers = _with_target(rows, table, roles, strict, (low, high), classes)
    if by_name is not None and low + max(rows[SCORE]) * (high - low) <= 1:
        mend = f"give their scale, --score_range 0 1, or --score_range {low:g} {high:g}"
        raise InputError(f"{table.source}: no score in {target!r} is above 1; {mend}")
    return rows, replace(roles, classes=numbers)


def _renamed(rows: datasets.Dataset, roles: ColumnRoles) -> tuple[datasets.Dataset, ColumnRoles]:
    """Columns whose names say another role than the user does are named after the role: `tokenize` goes by names."""
    new = {name: role for name, role in roles.columns.items() if role in (ANCHOR, POSITIVE)}
    known = {name: role_of(name, list(roles.columns)) for name in new}
    if all(role in (None, new[name]) for name, role in known.items()) or set(new.values()) & set(rows.column_names):
        return rows, roles
    columns, example = ({new.get(name, name): own for name, own in of.items()} for of in (roles.columns, roles.example))
    return rows.rename_columns(new), replace(roles, columns=columns, example=example)


# --- Scores and labels.


def _with_target(
    data: datasets.Dataset,
    table: Table,
    roles: ColumnRoles,
    strict: bool,
    scale: tuple[float, float] | None,
    classes: Mapping[str, int] | None,
) -> tuple[datasets.Dataset, Mapping[str, int]]:
    """The rows with numbers in a column `score` or `label`, last, in place of the column they come from; the classes.

    Rows without a score or a label are left out.
    """
    name, role = str(roles.target), roles.columns[str(roles.target)]
    names = table.classes.get(name, ()) if role != SCORE else ()
    named = {"-1": ""} if name in table.classes else {}
    named |= {str(number): own for number, own in enumerate(names)}

    def plain(cell: Any) -> str:
        text = "" if cell is None else str(cell).strip()
        return named.get(text, text)

    cells = [plain(cell) for cell in data[name][:]]

    def check(valid: Callable[[str], bool], what: str) -> None:
        """Raise an error with the first row of the source whose cell is not valid."""
        if (bad := next((cell for cell in cells if not valid(cell)), None)) is not None:
            written = ((row.number, row.cells.get(name)) for row in table)
            where = (table.where(number) for number, cell in written if plain(cell).lower() == bad.lower())
            raise InputError(f"{next(where, table.source)}: {bad[:40]!r} in column {name!r} {what}")

    if strict:
        check(lambda cell: not is_blank(cell), "counts as blank; fill it, or leave `strict` out to drop the row")
    numbers: NDArray[Any]
    none, classes = {"", *MISSING}, classes or {}
    if role == SCORE:
        numbers = _scores(cells, none, scale or (0.0, 1.0), check)
    else:
        check(lambda cell: items_of(cell) is None, "is a list of labels; training takes one label per row")
        if names:  # any name is one, such as "NA"
            none = {""}
            classes = classes or {own: number for number, own in enumerate(names)}
        elif not classes:
            none |= _unlabelled(Counter(cells), name)
            as_score = f", or if it is a score, {leave_out(roles)} {shlex.quote(f'{name}={SCORE}')}{score_range(cells)}"
            classes = _classes([cell for cell in cells if cell not in none], none, check, as_score)
        numbers, none = _labels(cells, none, classes, check)
    kept = np.flatnonzero(numbers >= 0)
    if not len(kept):
        raise InputError(f"{table.source}: no row has a {role}; give rows that have one")
    if without := len(numbers) - len(kept):
        marks = sorted(set(cells) & none - {""})
        shown = f" ({', '.join(marks)})" if marks else ""
        logger.warning(f"{table.source}: left out {without} rows without a {role}{shown}")
    feature = _feature(classes) if role != SCORE else None
    rows = data.remove_columns(name).add_column(role, numbers, feature=feature)
    return rows.select(kept) if without else rows, classes


_Check = Callable[[Callable[[str], bool], str], None]


def _scores(cells: list[str], none: set[str], scale: tuple[float, float], check: _Check) -> NDArray[np.float64]:
    """The scores, scaled to 0 to 1; NaN where a cell is one of `none`."""
    answers = {cell.lower() for cell in set(cells) - none} <= BOOLEANS.keys()
    number = lambda cell: math.nan if cell in none else BOOLEANS[cell.lower()] if answers else float(cell)
    valid = lambda cell: cell in none or answers or bool(NUMBER.fullmatch(cell))
    check(valid, "is not a score; write a number, or leave the cell blank")
    scores, (low, high) = np.array([number(cell) for cell in cells], dtype=np.float64), scale
    given = scores[~np.isnan(scores)]
    if len(given) and (min(given) < low or max(given) > high):
        mend = f"give the scale of the scores, such as --score_range {min(given):g} {max(given):g}"
        inside = lambda cell: cell in none or low <= number(cell) <= high
        check(inside, f"is not in {low:g} to {high:g}; {mend}")
    return (scores - low) / (high - low)


def _classes(given: list[str], none: set[str], check: _Check, graded: str) -> dict[str, int]:
    """The number of each class, by the cells that name it."""
    written, lower = {cell for cell in given if NUMBER.fullmatch(cell)}, {cell.lower() for cell in set(given)}
    numeric, numbers = sum(cell in written for cell in given) * 2 >= len(given), {float(cell) for cell in written}
    signs = numeric and -1.0 in numbers and numbers <= _SIGNS
    valid: Callable[[str], bool]
    if numeric:
        valid, what = (lambda cell: cell in written) if signs else _is_class, f"is not a class; give 0, 1, ...{graded}"
    elif lower <= set(NLI_LABELS) or lower & {"entailment", "contradiction"}:
        valid, what = (lambda cell: cell.lower() in NLI_LABELS), f"is none of {', '.join(NLI_LABELS)}"
    else:
        return {label: number for number, label in enumerate(sorted(set(given)))}
    check(lambda cell: cell in none or valid(cell), f"{what}, or leave the cell blank")
    order = sorted(numbers)
    return {cell: order.index(float(cell)) if signs else int(_value(cell)) for cell in sorted(set(given))}


def _labels(
    cells: list[str], none: set[str], classes: Mapping[str, int], check: _Check
) -> tuple[NDArray[np.int64], set[str]]:
    """The number of the class of each cell, -1 where it has none; and the cells that mean that there is none."""
    known = {_value(cell): number for cell, number in classes.items()} | dict(classes)  # "1.0" is the class 1 too
    number = {cell: known.get(cell, known.get(_value(cell), -1)) for cell in set(cells)}
    none = {cell for cell, own in number.items() if own < 0 and (cell in none or cell == "-" or _value(cell) == -1)}
    names = dict(sorted((own, cell) for cell, own in classes.items()))
    what = f"is not a class of the rows to train on, which are {', '.join(names.values())}"
    check(lambda cell: number[cell] >= 0 or cell in none, what)
    return np.array([number[cell] for cell in cells]), none


def _feature(classes: Mapping[str, int]) -> datasets.ClassLabel | None:
    """The names of classes in the order of their numbers; None where each class is the number that it has."""
    if all(_is_class(cell) and int(float(cell)) == number for cell, number in classes.items()):
        return None
    if {cell.lower() for cell in classes} <= set(NLI_LABELS):
        return datasets.ClassLabel(names=list(NLI_LABELS))
    names = {number: cell for cell, number in sorted(classes.items(), reverse=True)}
    return datasets.ClassLabel(names=[names[number] for number in sorted(names)])


def _value(cell: str) -> float | str:
    """What a class is as a number: as it is written, or as NLI's classes are numbered; else the cell itself."""
    if cell.lower() in NLI_LABELS:
        return float(NLI_LABELS.index(cell.lower()))
    return float(cell) if NUMBER.fullmatch(cell) else cell


def _unlabelled(values: Counter[str], name: str) -> set[str]:
    """The values that mean that there is no label: blank or missing, -1 among 0, 1, 2, ..., and `-`, as in SNLI."""
    none = {"", *MISSING} if "+" in values else {"", "-", *MISSING}
    written = [value for value in values if NUMBER.fullmatch(value)]
    numbers = {float(value) for value in written}
    share = sum(values[value] for value in written if float(value) == -1) / max(values.total(), 1)
    opposite = numbers == {-1.0, 1.0} and values.total() >= 10 and 0.1 < share < 0.9
    if (numbers == _SIGNS or opposite) and values.keys() <= none | set(written):
        shown = ", ".join(f"{one:g}" for one in sorted(numbers))
        logger.warning(f"-1 in column {name!r} is read as a class, because the values of the column are {shown}")
        return none
    return none | {value for value in written if float(value) == -1}


def _is_class(cell: str) -> bool:
    return bool(NUMBER.fullmatch(cell)) and 0 <= float(cell) < 1 << 31 and float(cell) % 1 == 0


# --- Lists of candidates, and their scores.


def read_candidates(table: Table, roles: ColumnRoles, strict: bool = False) -> datasets.Dataset:
    """Read rows of an anchor with any number of positives and negatives, and their scores if there are any.

    A row with several positives becomes a row for each of them. A blank candidate is left out with its score; a row
    without an anchor, a positive or a negative is dropped, and a warning says how many were.

    Args:
        table: the rows.
        roles: the role of each column, and which of them are lists.
        strict: raise an error for a row that would be dropped.

    Returns:
        Columns of text for anchor, positive and each negative, null where a row has fewer than others; with scores, a
        column `scores` of lists: those of the positive and the negatives, NaN where there is none.

    Raises:
        InputError: a candidate is not a text, has no score, or a score is not a number; the message names the row.

    Example:
        >>> rows = [{"query": "Why?", "pos": ["So."], "neg": ["No.", "Yes."], "pos_scores": [9], "neg_scores": [2, 1]},
        ...         {"query": "Who?", "pos": ["I."], "neg": ["It."], "pos_scores": [8], "neg_scores": [3]}]
        >>> table = open_table(rows)
        >>> read_candidates(table, table.roles())[1]
        {'query': 'Who?', 'pos': 'I.', 'neg_1': 'It.', 'neg_2': None, 'scores': [8.0, 3.0, nan]}
    """
    reader, chunks, total = _Reader(table, roles.columns, roles.lists), [], 0
    dropped = Dropped(table, list(roles.columns), "lack an anchor, a positive or a negative")
    for some in in_chunks(table, CHUNK):
        result = [list(reader.read(cells, number)) for number, cells in some]
        for row, own in zip(some, result, strict=True):
            if not own:
                dropped.add(*row)
        total += len(some)
        chunks.append(_table([row for own in result for row in own]))
    dropped.report(total, strict)
    whole = pa.concat_tables(chunks, promote_options="default")  # null where a chunk has fewer negatives
    most = max(int(name) for name in whole.column_names if name.isdecimal())
    texts = whole.select([str(place) for place in range(most + 1)]).rename_columns(reader.names(most - 1))
    if reader.scored:
        scores = np.column_stack([whole[f"score {place}"].to_numpy() for place in range(most)])
        offsets = pa.array(np.arange(len(scores) + 1) * most, pa.int32())
        texts = texts.append_column(SCORES, pa.ListArray.from_arrays(offsets, pa.array(scores.ravel())))
    return held_in_memory(texts)


def _table(rows: Sequence[Candidates]) -> pa.Table:
    """Some rows by column, null where a row has fewer texts than others: `0`, `1`, ... and `score 0`, `score 1`, ..."""
    texts = list(zip_longest(*([row.anchor, row.positive, *row.negatives] for row in rows)))
    scores = list(zip_longest(*(row.scores for row in rows), fillvalue=math.nan))
    columns = {str(place): pa.array(column, pa.string()) for place, column in enumerate(texts)}
    columns |= {f"score {place}": pa.array(column, pa.float64()) for place, column in enumerate(scores)}
    return pa.table(columns)


class Candidates(NamedTuple):
    """An anchor, a positive, its negatives, and the scores of positive and negatives if there are any."""

    anchor: str
    positive: str
    negatives: list[str]
    scores: list[float]


class _Reader:
    """Makes `Candidates` of the cells of a row."""

    def __init__(self, table: Table, columns: Mapping[str, str], lists: Sequence[str]) -> None:
        self.table, self.lists = table, lists
        self.by_role = {role: [name for name, own in columns.items() if own == role] for role in columns.values()}
        self.scored = bool(set(columns.values()) & set(CANDIDATE_SCORES))

    def names(self, negatives: int) -> list[str]:
        """The names of the columns of text, given the greatest number of negatives."""
        own = self.by_role.get(NEGATIVE, [])
        if len(own) != negatives or set(own) & set(self.lists):
            own = [f"{own[0] if len(own) == 1 else NEGATIVE}_{number}" for number in range(1, negatives + 1)]
        return [*self.by_role[ANCHOR], *self.by_role[POSITIVE], *own]

    def read(self, cells: Mapping[str, Any], number: int) -> Iterator[Candidates]:
        """Yield a row for each positive; no row without an anchor, or without negatives where the file has them."""
        anchors, positives, negatives = (self._texts(cells, role, number) for role in (ANCHOR, POSITIVE, NEGATIVE))
        scores = self._scores(cells, len(positives), len(negatives), number)
        kept = [i for i, text in enumerate(negatives) if not is_blank(text)]
        if is_blank(anchors[0]) or (NEGATIVE in self.by_role and not kept):
            return
        for place, positive in enumerate(positives):
            if not is_blank(positive):
                result = [scores[place], *(scores[len(positives) + i] for i in kept)] if scores else []
                own = [score for score in result if isinstance(score, float)]
                if len(own) < len(result):
                    wrong = next(score for score in result if not isinstance(score, float))
                    raise InputError(f"{self.table.where(number)}: {wrong}; write a number, or remove the row")
                yield Candidates(anchors[0], positive, [negatives[i] for i in kept], own)

    def _texts(self, cells: Mapping[str, Any], role: str, number: int) -> list[str]:
        """The texts of the columns of a role, one after the other; blank for null."""
        return [as_text(text, name, self.table.where(number), only_strings=True).strip()
                for name in self.by_role.get(role, []) for text in self._items(cells, name)]  # fmt: skip

    def _items(self, cells: Mapping[str, Any], name: str) -> Sequence[Any]:
        """The items of a cell with a list, else the cell itself."""
        cell = simple(cells.get(name))
        items = items_of(cell) if name in self.lists else None
        return [cell] if items is None else items

    def _scores(self, cells: Mapping[str, Any], positives: int, negatives: int, number: int) -> list[float | str]:
        """The scores of positives and negatives, or what is wrong with one; an empty list without scores."""
        if not self.scored:
            return []
        names = [name for role in CANDIDATE_SCORES for name in self.by_role.get(role, [])]
        groups = [[_score(item, name) for item in self._items(cells, name)] for name in names]
        result = [score for group in groups for score in group]
        if SCORES in self.by_role and positives == 1 and len(result) == negatives:
            margins = [-score if isinstance(score, float) else score for score in result]
            return [0.0, *margins]  # the positive's score less that of each negative
        if len(result) != positives + negatives or (SCORES not in self.by_role and len(groups[0]) != positives):
            texts = f"{positives} positive{'s' * (positives != 1)} and {negatives} negative{'s' * (negatives != 1)}"
            what = f"{len(result)} scores for {texts}"
            raise InputError(f"{self.table.where(number)}: {what}; give a score for each")
        return result


def _score(item: Any, name: str) -> float | str:
    """A finite number, or else what is wrong."""
    if isinstance(item, str) and NUMBER.fullmatch(item):
        return float(item)
    if isinstance(item, (int, float)) and not isinstance(item, bool) and item - item == 0:
        return float(item)
    return f"column {name!r} holds scores, and {str(item)[:40]!r} is not a number"
