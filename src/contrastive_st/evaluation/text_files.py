"""Lines and cells of evaluation sets: no quoting, any line end, UTF-8 or Latin-1, with a byte order mark or without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from contrastive_st.errors import InputError


class MissingData(InputError):
    """A file of evaluation data is not there: what needs it is reported as not run."""


def read_lines(path: str | Path) -> list[str]:
    r"""The lines of a text file, without line ends; only `\n` and `\r\n` end one.

    UTF-8, or Latin-1 where the bytes are not UTF-8 (TREC); a byte order mark is no text.

    Raises:
        MissingData: there is no such file.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "a.txt")
        ...     _ = path.write_bytes(b"caf\xe9 \x85 one\r\ntwo\n")
        ...     read_lines(path)
        ['café \x85 one', 'two']
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise MissingData(f"{path}: {error.strerror or error}; is the evaluation data complete?") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    lines = text.split("\n")  # str.splitlines would also cut at U+0085 and five other characters
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def read_cells(path: str | Path, wanted: Sequence[int], *, header: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the 1-based number of each line and its `wanted` cells; tabs part cells, quotes mean nothing.

    Further columns are allowed, blank lines are passed over.

    Raises:
        InputError: a line has too few columns; names the file and the line.
    """
    least = max(wanted) + 1
    for number, line in enumerate(read_lines(path), 1):
        if (header and number == 1) or not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) < least:
            raise InputError(
                f"{path}, line {number}: {_columns(len(cells))}, and at least {least} are needed; is it tab-separated?"
            )
        yield number, [cells[i] for i in wanted]


def number_in(cell: str, path: str | Path, line: int) -> float:
    """The finite number in a cell, or an error that names the place."""
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if value - value != 0:  # NaN and infinities
        raise InputError(f"{path}, line {line}: {cell!r} is no number; expected a score there")
    return value


def tidy(text: str) -> str:
    """Single spaces between words, none around: what SentEval makes of a line by splitting and joining it."""
    return " ".join(text.split())


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"
