"""Read texts with their classes, as they are written: one label per text, or several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from contrastive_st.data.profile import items_of
from contrastive_st.data.reading import header_of, open_table
from contrastive_st.data.reading.cells import as_text, report
from contrastive_st.data.roles import column_roles


class LabelledTexts(NamedTuple):
    """N texts, and the label of each: a string, or a list of strings if texts may have several labels."""

    texts: list[str]
    labels: list[Any]


def read_labels(
    source: str | Path,
    columns: Sequence[str | int] | None = None,
    *,
    separator: str | None = None,
    split: str = "train",
) -> LabelledTexts:
    """Read a column of texts and one of labels, by names (`contrastive_st.data.roles.ROLES`) or as `columns` say.

    Labels stay as they are written; a number becomes its text, and null or NaN is not one. A list of labels in JSON or
    Parquet, or with a `separator` any cell, gives a text several labels, or none. Rows with a blank text are left out,
    and rows without their one label too; a warning says how many.

    Args:
        source: a file (csv, tsv, jsonl, json, parquet) or the name of a data set of the Hub.
        columns: as for `column_roles`, such as `["review", "stars=label"]`.
        separator: what separates the labels of a cell, such as "|".
        split: which split of a data set of the Hub.

    Raises:
        InputError: the source cannot be read, does not have one column of texts and one of labels, or mixes lists and
            single labels; the message says where.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "talks.csv")
        ...     _ = path.write_text("text,label\\nOn tides,sea|moon\\nOn bread,kitchen\\n")
        ...     read_labels(path).labels, read_labels(path, separator="|").labels
        (['sea|moon', 'kitchen'], [['sea', 'moon'], ['kitchen']])
    """
    table = open_table(source, split=split, header=header_of(columns))
    roles = column_roles(table.profile, columns, source=table.source, kinds=["labelled_texts"])
    (text,), target = roles.texts, str(roles.target)
    several, texts, labels, rows, first = separator is not None or target in roles.lists, [], [], 0, 0
    for number, cells in table:
        rows += 1
        one = as_text(cells.get(text), text, table.where(number), only_strings=True).strip()
        given = _labels(cells.get(target), target, table.where(number), separator, target in roles.lists)
        if one and given is not None and (given or several):
            texts.append(one)
            labels.append(given if several else given[0])
        else:
            first = first or number
    report(rows, rows - len(texts), first, table, what="lack a text or a label")
    return LabelledTexts(texts, labels)


def _labels(cell: Any, name: str, where: str, separator: str | None, is_list: bool) -> list[str] | None:
    """The labels of a cell; None if it is null."""
    items = items_of(cell) if is_list else [cell]
    if cell is None or items is None:
        return None
    labels = [as_text(item, name, where) for item in items if item == item]  # NaN is not a label
    parts = [part for label in labels for part in (label.split(separator) if separator else [label])]
    return [part.strip() for part in parts if part.strip()]
