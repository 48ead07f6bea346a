"""Lines and cells of files of evaluation data, which are UTF-8 or Latin-1 and have no quotes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from contrastive_st.data.profile import is_blank, value_of
from contrastive_st.data.reading import check_file, numbered_lines
from contrastive_st.errors import InputError


def read_lines(path: str | Path) -> list[str]:
    """The lines of a file of evaluation data, in UTF-8 or Latin-1.

    Raises:
        MissingData: the file does not exist.
        InputError: it is empty.
    """
    check_file(Path(path), path)
    return [line for _, line in numbered_lines(path, latin1=True)]


def read_cells(path: str | Path, wanted: Sequence[int], *, header: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line, counted from 1, and its `wanted` cells.

    Tabs separate cells, and quotes mean nothing. Other columns are ignored, and blank lines are skipped.

    Raises:
        InputError: a line has too few columns; the message names the file and the line.
    """
    least = max(wanted) + 1
    for number, line in numbered_lines(path, latin1=True):
        if (header and number == 1) or not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) < least:
            count = f"{len(cells)} column{'s' * (len(cells) > 1)}, but at least {least} are needed"
            raise InputError(f"{path}, line {number}: {count}; is it tab-separated?")
        yield number, [cells[i] for i in wanted]


def number_in(cell: Any, where: str) -> float:
    """The finite number in a cell, which may be written as text; true is 1, false 0.

    Raises:
        InputError: the cell is not a number; names `where` it is.

    Example:
        >>> number_in(" 4.5", "a.csv, row 2"), number_in("True", "a.csv, row 3"), number_in(0, "a.csv, row 4")
        (4.5, 1.0, 0.0)
    """
    value = value_of(cell)
    if value is None or not math.isfinite(value):
        raise InputError(f"{where}: {str(cell)[:40]!r} is not a number; a score is expected there")
    return value


def score_in(cell: Any, where: str) -> float:
    """The number in a cell as `number_in` reads it, or NaN if the cell is blank or NaN: the row has no score."""
    return math.nan if is_blank(cell) else number_in(cell, where)


def tidy(text: str) -> str:
    """Put single spaces between words and none around the text, as SentEval does by splitting and joining lines."""
    return " ".join(text.split())
