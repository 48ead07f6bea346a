"""Read texts with their classes, as they are written: one label per text, or several."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from contrastive_st.data.profile import as_text, is_blank, items_of, simple, value_of
from contrastive_st.data.reading import open_table
from contrastive_st.data.reading.rows import Dropped, of_class
from contrastive_st.data.roles import table_roles
from contrastive_st.errors import InputError

logger = logging.getLogger(__name__)


class LabelledTexts(NamedTuple):
    """N texts, and the label of each: a string, or a list of strings if texts may have several labels."""

    texts: list[str]
    labels: list[Any]


def read_labels(
    source: object,
    columns: Sequence[str | int] | None = None,
    *,
    separator: str | None = None,
    split: str | None = None,
) -> LabelledTexts:
    """Read a column of texts and one of labels, by names (`contrastive_st.data.roles.ROLES`) or as `columns` say.

    Labels stay as they are written; a number becomes its text, and null or NaN is not one. A `datasets.ClassLabel` has
    the name of its class, or with -1 none. A list of labels, or with a `separator` any cell, gives a text several
    labels, or none; if some cells of a column are lists, all are, and a single label is a list of one. Several
    columns of 0 and 1 give a text the names of those that are 1. Rows with a blank text are left out, and rows without
    their one label too; a warning says how many.

    Args:
        source: a file (csv, tsv, jsonl, json, parquet), the name of a data set of the Hub, or rows in memory, as for
            `contrastive_st.data.reading.open_table`.
        columns: as for `column_roles`, such as `["review", "stars=label"]`.
        separator: what separates the labels of a cell, such as "|".
        split: as for `contrastive_st.data.read_texts`.

    Raises:
        InputError: the source cannot be read, does not have one column of texts and one of labels, or a label is
            an object or a list in a list; the message says where.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "talks.csv")
        ...     _ = path.write_text("text,label\\nOn tides,sea|moon\\nOn bread,kitchen\\n")
        ...     read_labels(path).labels, read_labels(path, separator="|").labels
        (['sea|moon', 'kitchen'], [['sea', 'moon'], ['kitchen']])
    """
    table = open_table(source, split=split, columns=columns)
    roles = table_roles(table, columns, ["labelled_texts"])
    (text,), (target, *others) = roles.texts, roles.labels
    names = table.classes.get(target)
    label = lambda cell: simple(cell) if names is None else of_class(simple(cell), names)
    texts, labels = list[str](), list[str | list[str]]()
    dropped = Dropped(table, [text, *roles.labels], "lack a text or a label")
    for number, cells in table:
        where = table.where(number)
        one = as_text(cells.get(text), text, where, only_strings=True).strip()
        cell = _marked(cells, roles.labels, where) if others else label(cells.get(target))
        listed = items_of(cell)
        several, items = listed is not None or separator is not None, [cell] if listed is None else listed
        written = [as_text(item, target, where) for item in items if not is_blank(item)]
        parts = [part.strip() for entry in written for part in (entry.split(separator) if separator else [entry])]
        filled = [part for part in parts if part]
        if is_blank(one) or cell is None or not (filled or several):
            dropped.add(number, cells)
        else:
            texts.append(one)
            labels.append(filled if several else filled[0])
    dropped.report(len(texts) + dropped.count)
    return joined([LabelledTexts(texts, labels)])  # if some have lists, all have


def joined(parts: Sequence[LabelledTexts]) -> LabelledTexts:
    """Several such texts as one: if some have lists of labels, all have; and 1.0, as pandas writes 1, is 1.

    Example:
        >>> joined([LabelledTexts(["a", "b"], ["1", "2"]), LabelledTexts(["c"], [["1.0", "3.0"]])]).labels
        [['1'], ['2'], ['1', '3.0']]
    """
    texts, labels = ([cell for part in parts for cell in part[field]] for field in (0, 1))
    lists = [row if isinstance(row, list) else [row] for row in labels]
    distinct = {label for row in lists for label in row}
    integers = {label: label[:-2] for label in distinct if label.endswith(".0") and label[:-2] in distinct}
    if integers:
        logger.warning("; ".join(f"the label {label} is read as {same}" for label, same in sorted(integers.items())))
    lists = [[integers.get(label, label) for label in row] for row in lists]
    several = any(isinstance(row, list) for row in labels)
    return LabelledTexts(texts, lists if several else [label for (label,) in lists])


def _marked(cells: Mapping[str, object], names: Sequence[str], where: str) -> list[object] | None:
    """Those of the columns that are 1 in a row, None where one of them is blank."""
    marks = {name: cells.get(name) for name in names}
    if any(map(is_blank, marks.values())):
        return None
    if other := next((name for name, mark in marks.items() if value_of(mark) not in (0, 1)), None):
        raise InputError(f"{where}: {marks[other]!r} in column {other!r} is neither 0 nor 1")
    return [name for name, mark in marks.items() if value_of(mark)]
