"""Read texts with their classes, as they are written: one label a text, or several."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from contrastive_st.data.profile import items_of
from contrastive_st.data.reading import Table, header_of, open_table
from contrastive_st.data.roles import column_roles
from contrastive_st.errors import InputError

logger = logging.getLogger(__name__)


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

    Labels stay as they are written; a number becomes its text, and null or NaN is no label. A list of labels in JSON or
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
    roles = column_roles(table.profile, columns, source=table.source)
    if roles.kind != "labelled_texts":
        raise InputError(
            f"{table.source} has {roles.words}; name one column of texts and one of labels: --columns TEXT L=label"
        )
    (text,), gold = roles.texts, str(roles.gold)
    found = list(_labelled(table, text, gold, separator, gold in roles.lists))
    kept = [(one, label) for one, label in found if one and label != ""]
    if not kept:
        raise InputError(f"{table.source}: no row has a text and a label; give labelled rows")
    if dropped := len(found) - len(kept):
        logger.warning(f"{table.source}: left out {dropped} of {len(found)} rows, without a text or a label")
    return LabelledTexts([one for one, _ in kept], [label for _, label in kept])


def _labelled(
    rows: Table, text: str, gold: str, separator: str | None, lists: bool
) -> Iterator[tuple[str, str | list[str]]]:
    """The text and the label or labels of each row; what is missing is blank."""
    several = None
    for number, cells in rows:
        cell = items_of(cells.get(gold)) if lists else None
        one, label = cells.get(text), _labels(cells.get(gold) if cell is None else cell, separator)
        if label is None:
            held = f"{gold!r} holds {str(cells[gold])[:40]}"
            raise InputError(f"{rows.where(number)}: {held}; write a text, a number, or a list of them")
        if one is not None and not isinstance(one, str):
            raise InputError(f"{rows.where(number)}: {text!r} is no text; name a column of text")
        if label != "":
            several = isinstance(label, list) if several is None else several
            if isinstance(label, list) != several:
                raise InputError(f"{rows.where(number)}: {gold!r} has a list in some rows only; write one in every row")
        yield (one or "").strip(), label


def _labels(cell: Any, separator: str | None) -> str | list[str] | None:
    """The label or labels of a cell; None if it holds something else."""
    if any(isinstance(item, (dict, list, tuple)) for item in (cell if isinstance(cell, (list, tuple)) else [cell])):
        return None
    if isinstance(cell, (list, tuple)):
        return [label for label in map(_one, cell) if label]
    label = _one(cell)
    return label if separator is None else [part.strip() for part in label.split(separator) if part.strip()]


def _one(cell: Any) -> str:
    """A label as text, blank for null and NaN."""
    if cell is None or cell != cell:
        return ""
    return cell.strip() if isinstance(cell, str) else json.dumps(cell, default=str)
