"""Lines and cells of files of evaluation data, which are UTF-8 or Latin-1 and have no quotes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

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

    Args:
        path: the file.
        wanted: column numbers, from 0.
        header: skip the first line.

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


def tidy(text: str) -> str:
    """Put single spaces between words and none around the text, as SentEval does by splitting and joining lines."""
    return " ".join(text.split())
