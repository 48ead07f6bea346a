"""Lines and cells of files of evaluation data, which are UTF-8 or Latin-1 and have no quotes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from contrastive_st.data.reading import numbered_lines
from contrastive_st.errors import InputError


def read_lines(path: str | Path) -> list[str]:
    """The lines of a file of evaluation data, in UTF-8 or Latin-1.

    Raises:
        MissingData: the file does not exist.
    """
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


def number_in(cell: str, path: str | Path, line: int) -> float:
    """The finite number in a cell; raises `InputError` with the file and the line if it is none."""
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if value - value != 0:  # NaN and infinities
        raise InputError(f"{path}, line {line}: {cell[:40]!r} is not a number; a score is expected there")
    return value


def tidy(text: str) -> str:
    """Put single spaces between words and none around the text, as SentEval does by splitting and joining lines."""
    return " ".join(text.split())
