"""Read rows to train on: texts in the order of their roles, then the score, the class or a teacher's scores."""

from __future__ import annotations

import logging
import math
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import count, zip_longest
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from contrastive_st.data import profile
from contrastive_st.data.pair_sets import BY_NAME
from contrastive_st.data.reading.columns import CHUNK, columns_of, new_fingerprint
from contrastive_st.data.reading.rows import Dropped, Table, other_positions
from contrastive_st.data.reading.table import open_table
from contrastive_st.data.roles import (
    ANCHOR,
    CANDIDATE_SCORES,
    KEPT,
    LABEL,
    NEGATIVE,
    POSITIVE,
    POSITIVE_SCORE,
    SCALES,
    SCORE,
    SCORES,
    ColumnRoles,
    leave_out,
    names_in_order,
    plain_name,
    score_range,
    table_roles,
)  # fmt: skip
from contrastive_st.data.suggestions import converted, row_for_each
from contrastive_st.errors import InputError, listed
from contrastive_st.prefetch import in_chunks
from contrastive_st.text_format import reading_as

logger = logging.getLogger(__name__)
NLI_LABELS = ("entailment", "neutral", "contradiction")
_Scale = tuple[float, float]
_Classes = Mapping[str, int] | None
_SIGNS = {-1.0, 0.0, 1.0}  # of which -1 is a class
_NOT_ENTAILED = re.compile(r"no[tn]?[\W_]*entail").match  # of GLUE's tasks and HANS, which have two classes


class StoredClasses(dict[str, int]):
    """The number of each class of a `datasets.ClassLabel`, in the order of their positions in it."""


def read_examples(
    source: object,
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
    escapes: bool | str | None = None,
    decimal: str | None = None,
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
        escapes: as for `read_texts`.
        decimal: as for `read_texts`.

    Returns:
        A data set with the text columns in the order of their roles (`anchor`, `positive`, `negative_1`, ... or `text`
        if their own names say other roles: see `names_in_order`), then `score` (float, 0 to 1), `label` (int, 0, 1,
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
    if columns is None and isinstance(source, (str, Path)) and (pair_set := BY_NAME.get(str(source).lower())):
        columns = pair_set.columns
    columns = [columns] if isinstance(columns, str) else columns
    options = {"header": header, "encoding": encoding, "delimiter": delimiter, "escapes": escapes, "decimal": decimal}
    with reading_as(**options) if any(one is not None for one in options.values()) else nullcontext():
        table = open_table(source, split=split, columns=columns)
        roles = table_roles(table, columns, kinds)
        target = next((name for name, role in roles.columns.items() if role in (SCORE, LABEL)), None)
        if target in roles.lists:
            fix = row_for_each(str(target), table.source, items=True) or "write a row for each label"
            raise InputError(f"{table.source}: {target!r} holds lists of labels; training takes one per row; {fix}")
        negatives = [name for name, role in roles.columns.items() if role == NEGATIVE]
        fewer = len(negatives) > 1 and any(
            profile.is_blank(cells.get(name)) for _, cells in table for name in negatives
        )
        if roles.lists or fewer or not set(CANDIDATE_SCORES).isdisjoint(roles.columns.values()):
            return read_candidates(table, roles, strict), roles
        numbers = {name: role for name, role in roles.columns.items() if name == target or role in KEPT}
        texts = [name for name in roles.columns if isinstance(roles.example.get(name), str) and name != target]
        written = table.delimited or any(isinstance(roles.example.get(name), str) for name in numbers)
        # a column of numbers becomes text with points; next to texts, a number gets their decimal mark
        mark = "point" if table.read_columns and not written else None
        with reading_as(decimal=mark) if numbers else nullcontext():
            rows = columns_of(table, list(roles.columns), strict, target, texts, numbers)
        named = {name: name for name in roles.columns if name not in numbers}
        if any(name != roles.columns[name] for name in named):  # which may say another role
            named = dict(zip(named, names_in_order(list(named)), strict=True))
        named |= numbers
        if list(named) != list(named.values()):
            rows = rows.rename_columns(named)
        if not numbers:
            return rows, roles
        with reading_as(decimal=mark):
            if target is not None:
                rows, roles = _with_target(rows, table, roles, strict, scale, classes)
            for role in [role for role in numbers.values() if role in KEPT]:
                rows = rows.remove_columns(role).add_column(role, [profile.number_of(cell) for cell in rows[role]])
        return rows, roles


# --- Scores and labels.


def _with_target(
    rows: datasets.Dataset, table: Table, roles: ColumnRoles, strict: bool, scale: _Scale | None, classes: _Classes
) -> tuple[datasets.Dataset, ColumnRoles]:
    """The rows with numbers in a column `score` or `label`, last, in place of the column of their cells.

    Rows without a score or a label are left out. The roles have the number of each class.
    """
    name = str(roles.target)
    column = roles.columns[name]
    role = SCORE if scale and len(roles.texts) > 1 else roles.columns[name]
    names = table.classes.get(name, ()) if role != SCORE else ()
    named = {"-1": "", **{str(number): label for number, label in enumerate(names)}} if name in table.classes else {}

    def plain(cell: object) -> str:
        text = "" if cell is None else cell.strip() if isinstance(cell, str) else profile.with_point(str(cell))
        return named.get(text, text)

    cells = [plain(cell) for cell in rows[column][:]]

    def check(valid: Callable[[str], bool], what: str) -> None:
        """Raise an error with the first row of the source whose cell is not valid."""
        if (bad := next((cell for cell in cells if not valid(cell)), None)) is not None:
            written = ((row.number, row.cells.get(name)) for row in table)
            number = next((number for number, cell in written if plain(cell).lower() == bad.lower()), 0)
            if table.delimited and number == table.first:
                what += f"; if it is not a row of the table, {converted(f'sed {number}d', table.source)}"
            raise InputError(f"{table.where(number)}: {bad[:40]!r} in column {name!r} {what}")

    if strict:
        fix = "fill it, or leave `strict` out to drop the row"
        check(lambda cell: not profile.is_blank(cell), f"counts as blank; {fix}")
    feature, classes, notes = None, classes or {}, tuple[str, ...]()
    numbers: NDArray[np.float64] | NDArray[np.int64]
    if role == SCORE:
        numbers, notes = _scores(cells, name, scale, table.source, check)
    else:
        check(lambda cell: profile.items_of(cell) is None, "is a list of labels; training takes one label per row")
        none = {"", *profile.MISSING}
        if names:  # any name is one, such as "NA"
            none = {""}
            classes = classes or StoredClasses(zip(names, _nli_numbers(names) or count(), strict=False))
        elif not classes:
            as_score = f", or if it is a score, {leave_out(roles)} {shlex.quote(f'{name}={SCORE}')}{score_range(cells)}"
            as_score *= len(roles.texts) == 2
            classes, none = _classes(cells, name, check, as_score)
        numbers, feature = _labels(cells, none, classes, check), _feature(classes)
        _check_positions(cells, names, classes, check)
    kept = np.flatnonzero(numbers >= 0)
    if not len(kept):
        raise InputError(f"{table.source}: no row has a {role}; give rows that have one")
    rows = rows.remove_columns(column).add_column(role, numbers, feature=feature)
    if without := len(numbers) - len(kept):
        marks = sorted({cell for cell, number in zip(cells, numbers, strict=True) if not number >= 0} - {""})
        shown = f" ({', '.join(marks)})" if marks else ""
        logger.warning(f"{table.source}: left out {without} rows without a {role}{shown}")
        rows = rows.select(kept)
    columns, notes = {**roles.columns, name: role}, roles.notes + notes
    return rows, replace(roles, columns=columns, notes=notes, classes=classes)


_Check = Callable[[Callable[[str], bool], str], None]


def _scores(
    cells: list[str], name: str, scale: _Scale | None, source: str, check: _Check
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """The scores, scaled to 0 to 1, NaN where a cell is blank; and a note on the scale, if it is that of the name."""
    by_name = SCALES.get(plain_name(name)) if scale is None else None
    low, high = by_name or scale or (0.0, 1.0)
    none = {"", ".", *profile.MISSING}  # the second as Stata and SAS write a missing number
    answers = {cell.lower() for cell in set(cells) - none} <= profile.BOOLEANS.keys()
    sign = "%" if all(cell.endswith("%") for cell in set(cells) - none) else ""
    valid = lambda cell: cell in none or answers or profile.number_of(cell.removesuffix(sign)) is not None
    wrong = next((cell for cell in cells if not valid(cell)), "")
    check(valid, f"is not a score; {profile.as_number(wrong)}, or leave the cell blank")
    number = lambda cell: math.nan if cell in none else profile.value_of(cell.removesuffix(sign)) or 0.0
    scores = np.array(list(map(number, cells)), dtype=np.float64)
    lowest, highest = np.fmin.reduce(scores), np.fmax.reduce(scores)
    if low >= high:
        raise InputError(f"--score_range {low:g} {high:g}: give the lowest score and then the highest")
    if lowest < low or highest > high:
        fix = f"give the scale of the scores, such as{score_range(cells)}"
        check(lambda cell: cell in none or low <= number(cell) <= high, f"is not in {low:g} to {high:g}; {fix}")
    if by_name and highest <= 1:
        fix = f"give their scale, --score_range 0 1, or --score_range {low:g} {high:g}"
        raise InputError(f"{source}: no score in {name!r} is above 1; {fix}")
    note = f"{name} is {low:g} to {high:g}, which becomes 0 to 1; --score_range gives another scale"
    return (scores - low) / (high - low), (note,) * bool(by_name)


def _classes(cells: list[str], name: str, check: _Check, graded: str) -> tuple[dict[str, int], set[str]]:
    """The number of each class, by the cells that name it; and the cells that mean that there is no label.

    These are blank or missing ones, -1 among 0, 1, 2, ..., and `-`, as in SNLI.
    """
    values = set(cells)
    none = {"", *profile.MISSING} if "+" in values else {"", "-", *profile.MISSING}
    numbers = {value: one for value in values if (one := profile.number_of(value)) is not None}
    order = sorted(set(numbers.values()))
    signs = {-1.0, 1.0} <= set(order) <= _SIGNS and values <= none | numbers.keys()
    if signs:
        shown = ", ".join(f"{one:g}" for one in order)
        logger.warning(f"-1 in column {name!r} is read as a class, because the values of the column are {shown}")
    else:
        none |= {value for value, number in numbers.items() if number == -1}
    filled = [cell for cell in cells if cell not in none]
    lower = {cell.lower() for cell in set(filled)}
    valid: Callable[[str], bool]
    if sum(cell in numbers for cell in filled) * 2 >= len(filled):
        valid, what = numbers.__contains__ if signs else _is_class, f"is not a class; give 0, 1, ...{graded}"
    elif _nli_numbers(lower) or (lower & {"entailment", "contradiction"} and not any(map(_NOT_ENTAILED, lower))):
        valid, what = (lambda cell: cell.lower() in NLI_LABELS), f"is none of {', '.join(NLI_LABELS)}"
    else:
        number: dict[float | str, int] = {}
        spellings = {cell: number.setdefault(_spelled(cell), len(number)) for cell in sorted(set(filled))}
        if len({str(one).lower() for one in number}) < len(number):
            logger.warning(f"classes in column {name!r} differ in capitals alone: {listed(sorted(spellings))}")
        return spellings, none
    check(lambda cell: cell in none or valid(cell), f"{what}, or leave the cell blank")
    return {cell: order.index(numbers[cell]) if signs else int(_value(cell)) for cell in sorted(set(filled))}, none


def _labels(cells: list[str], none: set[str], classes: Mapping[str, int], check: _Check) -> NDArray[np.int64]:
    """The number of the class of each cell, -1 where it has none: where the cell is one of `none`, `-` or -1."""
    by_cell = {_value(cell): number for cell, number in classes.items()} | dict(classes)  # "1.0" is the class 1 too
    number = {cell: by_cell.get(cell, by_cell.get(_value(cell), -1)) for cell in set(cells)}
    names = dict(sorted((index, cell) for cell, index in classes.items()))
    what = f"is not a class of the rows to train on, which are {listed(names.values())}"
    check(lambda cell: number[cell] >= 0 or cell in none or cell == "-" or _value(cell) == -1, what)
    return np.array([number[cell] for cell in cells])


def _check_positions(cells: list[str], names: Sequence[str], classes: Mapping[str, int], check: _Check) -> None:
    """Refuse numbers where these rows or others have names of a `ClassLabel`, if they would be read as names.

    Such numbers may be positions, as `datasets` writes classes to a file of text, and then they mean other classes.
    """
    if bool(names) == isinstance(classes, StoredClasses):
        return
    order, plain, value = (names, list(classes), _value) if names else (list(classes), cells, _spelled)
    wrong = set(other_positions(list(map(_value, order)), map(_spelled, plain)))
    what = f"is one class by its name and another by its place in {listed(order)}"
    check(lambda cell: value(cell) not in wrong, f"{what}; in both files, write names that are not numbers")


def _feature(classes: Mapping[str, int]) -> datasets.ClassLabel | None:
    """The names of classes in the order of their numbers; None where each class is the number that it has."""
    if all(_is_class(cell) and _spelled(cell) == number for cell, number in classes.items()):
        return None
    if _nli_numbers(classes):
        return datasets.ClassLabel(names=list(NLI_LABELS))
    names = {number: cell for cell, number in sorted(classes.items(), reverse=True)}
    return datasets.ClassLabel(names=[names[number] for number in sorted(names)])


def _nli_numbers(names: Iterable[str]) -> list[int] | None:
    """The numbers of NLI's classes, whatever their order is; None if one of the names is another."""
    lower = [name.lower() for name in names]
    return [NLI_LABELS.index(name) for name in lower] if set(lower) <= set(NLI_LABELS) else None


def _value(cell: str) -> float | str:
    """What a class is as a number: as it is written, or as NLI's classes are numbered; else its spelling."""
    numbers = _nli_numbers([cell])
    return float(numbers[0]) if numbers else _spelled(cell)


def _spelled(cell: str) -> float | str:
    """One spelling of a class: 1.0 is 1, True is TRUE, and a letter is one whether its accent is apart or not."""
    number = profile.number_of(cell)
    if number is not None and abs(number) < 1 << 31 and number % 1 == 0:  # 1.10 is not 1.1
        return number
    return cell.lower() if cell.lower() in profile.BOOLEANS else unicodedata.normalize("NFC", cell)


def _is_class(cell: str) -> bool:
    return isinstance(number := _spelled(cell), float) and number >= 0


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
        >>> read_candidates(table, table_roles(table))[1]
        {'query': 'Who?', 'pos': 'I.', 'neg_1': 'It.', 'neg_2': None, 'scores': [8.0, 3.0, nan]}
    """
    by_role = {role: [name for name, one in roles.columns.items() if one == role] for role in roles.columns.values()}
    dropped = Dropped(table, list(roles.columns), "lack an anchor, a positive or a negative")
    chunks, total = [], 0
    for some in in_chunks(table, CHUNK):
        rows: list[tuple[list[str], list[float]]] = []
        for number, cells in some:
            before = len(rows)
            rows += _candidates(cells, by_role, roles, table.where(number))
            if len(rows) == before:
                dropped.add(number, cells)
        total += len(some)
        texts = zip_longest(*(row for row, _ in rows))
        scores = zip_longest(*(numbers for _, numbers in rows), fillvalue=math.nan)
        columns = {str(index): pa.array(column, pa.string()) for index, column in enumerate(texts)}
        columns |= {f"score {index}": pa.array(column, pa.float64()) for index, column in enumerate(scores)}
        chunks.append(pa.table(columns))
    dropped.report(total, strict)
    combined = pa.concat_tables(chunks, promote_options="default")  # null where a chunk has fewer negatives
    most = max(int(name) for name in combined.column_names if name.isdecimal())
    negatives = by_role.get(NEGATIVE, [])
    if len(negatives) != most - 1 or set(negatives) & set(roles.lists):
        negatives = [f"{negatives[0] if len(negatives) == 1 else NEGATIVE}_{number}" for number in range(1, most)]
    result = combined.select([str(index) for index in range(most + 1)])
    result = result.rename_columns(names_in_order([*by_role[ANCHOR], *by_role[POSITIVE], *negatives]))
    if roles.kind == "scored_candidates":
        matrix = np.column_stack([combined[f"score {index}"].to_numpy() for index in range(most)])
        offsets = pa.array(np.arange(len(matrix) + 1) * most, pa.int32())
        result = result.append_column(SCORES, pa.ListArray.from_arrays(offsets, pa.array(matrix.ravel())))
    return datasets.Dataset(datasets.table.InMemoryTable(result), fingerprint=new_fingerprint())


def _candidates(
    cells: Mapping[str, object], by_role: Mapping[str, Sequence[str]], roles: ColumnRoles, where: str
) -> Iterator[tuple[list[str], list[float]]]:
    """For each positive of a row its texts, which are anchor, positive and negatives, and the scores of the last two.

    There is none without an anchor, or without negatives where the file has them.
    """

    def items_in(role: str) -> list[tuple[object, str]]:
        """The items of all columns of a role, each with the name of its column."""
        return [(item, name) for name in by_role.get(role, ()) for item in roles.items(name, cells.get(name))]

    def score(item: object, name: str) -> float:
        number = None if isinstance(item, bool) else profile.number_of(item)
        if number is None:
            what = f"column {name!r} holds scores, and {str(item)[:40]!r} is not a number; {profile.as_number(item)}"
            raise InputError(f"{where}: {what}, or remove the row")
        return number

    anchors, positives, negatives = (
        [profile.as_text(item, name, where, only_strings=True).strip() for item, name in items_in(role)]
        for role in (ANCHOR, POSITIVE, NEGATIVE)
    )
    scores = [item for role in CANDIDATE_SCORES for item in items_in(role)]
    sign = 1
    if SCORES in by_role and len(positives) == 1 and len(scores) == len(negatives):
        sign, scores = -1, [(0.0, ""), *scores]  # margins: the positive's score less that of each negative
    elif not by_role.keys().isdisjoint(CANDIDATE_SCORES) and (
        len(scores) != len(positives) + len(negatives)
        or (SCORES not in by_role and len(items_in(POSITIVE_SCORE)) != len(positives))
    ):
        texts = f"{len(positives)} positive{'s' * (len(positives) != 1)} and {len(negatives)} negative"
        what = f"{len(scores)} scores for {texts}{'s' * (len(negatives) != 1)}"
        raise InputError(f"{where}: {what}; give a score for each")
    kept = [index for index, text in enumerate(negatives) if not profile.is_blank(text)]
    if profile.is_blank(anchors[0]) or (NEGATIVE in by_role and not kept):
        return
    for index, positive in enumerate(positives):
        if not profile.is_blank(positive):
            scored = [scores[index], *(scores[len(positives) + i] for i in kept)] if scores else []
            numbers = [0.0 + sign * score(item, name) for item, name in scored]  # 0.0 and not -0.0
            yield [anchors[0], positive, *(negatives[i] for i in kept)], numbers
