"""Read columns of a table as text, into a `datasets.Dataset` or as a stream."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.compute as pc

from contrastive_st.data.profile import simple
from contrastive_st.data.reading.sources import Source
from contrastive_st.data.reading.table import Row, Table, check_utf8, open_table
from contrastive_st.data.roles import named_columns, text_column
from contrastive_st.errors import InputError

logger = logging.getLogger(__name__)
CHUNK = 65_536  # most rows held at a time as Python strings or as an Arrow batch
Columns = Sequence[str | int] | None


def read_texts(
    source: Source,
    columns: Sequence[str | int] | None = None,
    *,
    strict: bool = False,
    split: str = "train",
    header: bool | None = None,
) -> datasets.Dataset:
    """Read one or more columns of text; white space around each cell is removed.

    If the first row of a table does not look like names of columns, it is data, and the columns are `0`, `1`, ...; a
    line of the log says so. A row with a blank or null cell in one of the columns is dropped; one warning says how many
    were.

    Args:
        source: a file, several, or the name of a data set, as for `contrastive_st.data.reading.open_table`.
        columns: the columns wanted, in that order, by name or by position from 0. By default all columns that
            hold strings. A column of numbers is read as text if you name it.
        strict: raise an error for a blank cell instead.
        split: which split to read, of a data set of the Hub, a saved folder, or files named after splits.
        header: whether the first row of a table holds the names of the columns; by default it does if you name a
            column, and else `contrastive_st.data.reading.header.find_header` finds out.

    Raises:
        InputError: the source cannot be read as described, or no rows are left. The message says what is wrong, where
            (the header of a table is row 1) and how to mend it.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "pairs.csv")
        ...     _ = path.write_text('id,question,answer\\n1,Why?,"Well, because."\\n')
        ...     read_texts(str(path), ["answer", 1])[0]
        {'answer': 'Well, because.', 'question': 'Why?'}
    """
    columns = [columns] if isinstance(columns, (str, int)) else columns
    table = open_table(source, split=split, header=header_of(columns, header))
    names = table.columns or list(table.profile)
    report(len(list(islice(table, 1))), 0, 0, table, strict)
    if columns is None:
        texts = [name for name in names if table.only_texts(name)]
        blank = [name for name in names if not table.profile[name].count]
        columns = texts or blank
    chosen = list(named_columns(columns, names, table.source))
    if not chosen:
        raise InputError(f"{table.source}: no column of text; name one or more of {', '.join(names)}")
    return columns_of(table, chosen, strict)


def header_of(columns: Columns, header: bool | None = None) -> bool | None:
    """Whether a table has a header, as far as it is said: whoever names a column says that there are names."""
    named = any(not str(column).partition("=")[0].isdecimal() for column in columns or [])
    return True if header is None and named else header


def stream_texts(
    source: Source, column: str | int | None = None, name: str | None = None
) -> Callable[[], Iterator[str]]:
    """A function that streams the texts of one column of a source of any size; each call starts from the first row.

    White space around texts is removed. No row is dropped: a blank or null cell is an empty text.

    Args:
        source: as for `read_texts`.
        column: the column, by name or position; by default the one that `text_column` finds.
        name: name of the source in messages.

    Raises:
        InputError: as for `read_texts`, or it is not clear which column has the text.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "lines.txt")
        ...     _ = path.write_text("one\\n\\n three\\n")
        ...     list(stream_texts(str(path))())
        ['one', '', 'three']
    """
    table = open_table(source, header=header_of(None if column is None else [column]), name=name)
    report(len(list(islice(table, 1))), 0, 0, table, strict=False)
    chosen = text_column(table, column)
    return lambda: (as_text(cells.get(chosen), chosen, table.where(number)).strip() for number, cells in table)


def read_corpus(source: Source, column: str | int | None = None) -> datasets.Dataset:
    """The texts of a corpus, in one column; rows with a blank text are dropped, and a line says how many.

    Args:
        source: as for `read_texts`.
        column: the column, by name or position; by default the one that `text_column` finds.

    Raises:
        InputError: as for `stream_texts`.
    """
    table = open_table(source, header=header_of(None if column is None else [column]))
    report(len(list(islice(table, 1))), 0, 0, table, strict=False)
    return columns_of(table, [text_column(table, column)])


def report(total: int, dropped: int, first: int, table: Table, strict: bool, what: str = "have a blank cell") -> None:
    """Raise if no row is left, or for the first blank cell if `strict`; else log how many rows were dropped."""
    unit, source = table.unit, table.source
    if total == 0:
        raise InputError(f"{source}: there are no {'row' if unit == 'line' else unit}s; it needs at least one sentence")
    if dropped and strict:
        raise InputError(f"{table.where(first)}: a cell is blank; fill it, or leave `strict` out to drop the row")
    if dropped == total:
        raise InputError(f"{source}: all {total} {unit}s have a blank cell; name other columns, or fill them")
    if dropped:
        logger.warning(
            f"{source}: dropped {dropped} of {total} {unit}s, which {what}; the first is {table.where(first)}"
        )


# --- Rows -> a data set: in memory, or where the columns are on disk as text already, mapped.


def columns_of(
    table: Table, names: Sequence[str], strict: bool = False, gold: str | None = None, only_strings: bool = False
) -> datasets.Dataset:
    """Some columns as text.

    Args:
        table: the rows.
        names: the columns.
        strict: raise an error for a blank cell.
        gold: a column of them that may be blank.
        only_strings: refuse numbers in the others.
    """
    if table.mapped is not None and all(table.is_stored(name, only_strings and name != gold) for name in names):
        report(len(list(islice(table, 1))), 0, 0, table, strict)  # `datasets` fails on a table without rows
        return _tidied(table.mapped(list(names)), table, strict, gold)
    chunks, total, dropped, first = [], 0, 0, 0
    rows = iter(table)
    while some := list(islice(rows, CHUNK)):
        texts = {name: _texts(some, name, table, only_strings and name != gold) for name in names}
        chunk, whole = _stripped(pa.table(texts), gold)
        if blank := len(whole) - (pc.sum(whole).as_py() or 0):
            first = first or some[pc.index(whole, False).as_py()].number
        chunks.append(chunk.filter(whole))
        total, dropped = total + len(some), dropped + blank
        if dropped and strict:
            break
    report(total, dropped, first, table, strict)
    return datasets.Dataset(datasets.table.InMemoryTable(pa.concat_tables(chunks)))


def _texts(rows: Sequence[Row], name: str, table: Table, only_strings: bool) -> pa.Array:
    cells = [row.cells.get(name) for row in rows]
    try:
        return pa.array(cells, pa.string())
    except (pa.ArrowException, TypeError, ValueError):  # some are not strings: these are converted, or named
        numbered = zip(rows, cells, strict=True)
        texts = (as_text(cell, name, table.where(row.number), only_strings) for row, cell in numbered)
        return pa.array(list(texts), pa.string())


def as_text(cell: Any, name: str, where: str, only_strings: bool = False) -> str:
    """A cell as text, blank for null; an object as its text, if it is clear which one that is.

    Raises:
        InputError: it is something else, or with `only_strings` a number; names the row.
    """
    cell = simple(cell)
    if isinstance(cell, str):
        try:
            cell.encode()
        except UnicodeEncodeError:  # JSON can have a lone surrogate, which is not a character
            what = f"{cell[:40]!a} has a lone surrogate, which is not a character"
            raise InputError(f"{where}: {name!r} {what}; remove it") from None
        return cell
    if cell is None:
        return ""
    if only_strings:
        what = f"{name!r} is {json.dumps(cell, default=str)[:40]}, not a text"
        raise InputError(f"{where}: {what}; put quotes around it, or write null for a missing text")
    if isinstance(cell, (list, dict, tuple, bytes)):
        what = f"{name!r} holds {str(cell)[:40]}, a list, an object or bytes"
        raise InputError(f"{where}: {what}; write a text or a number in every row, or name a column of text")
    if isinstance(cell, float) and not math.isfinite(cell):
        what = f"{name!r} is {cell}, neither a text nor a number"
        raise InputError(f"{where}: {what}; write null for a missing text, or leave the row out")
    return cell.isoformat() if hasattr(cell, "isoformat") else json.dumps(cell, default=str)


def _tidied(data: datasets.Dataset, table: Table, strict: bool, gold: str | None) -> datasets.Dataset:
    """Strip the cells and drop rows with blank ones; a data set that needs neither is returned as it is."""
    dropped = first = seen = 0
    clean = all(feature.dtype == "string" for feature in data.features.values())
    for batch in data.with_format("arrow").iter(batch_size=CHUNK):
        check_utf8(batch, table.source, seen)
        stripped, whole = _stripped(batch, gold)
        clean = clean and stripped.equals(batch)
        blanks = len(whole) - (pc.sum(whole).as_py() or 0)
        if blanks and not dropped:
            first = seen + pc.index(whole, False).as_py() + 1
        dropped, seen = dropped + blanks, seen + len(whole)
    report(seen, dropped, first, table, strict)
    if clean and not dropped:
        return data
    features = datasets.Features({name: datasets.Value("string") for name in data.column_names})
    data = data.with_format("arrow").map(
        _without_blanks,
        batched=True,
        batch_size=CHUNK,
        features=features,
        fn_kwargs={"gold": gold},
        desc=f"tidying {table.source}",
    )
    return data.with_format(None)


def _without_blanks(table: pa.Table, gold: str | None) -> pa.Table:
    stripped, whole = _stripped(table, gold)
    return stripped.filter(whole)


def _stripped(table: pa.Table, gold: str | None) -> tuple[pa.Table, pa.ChunkedArray]:
    """A batch with stripped cells, and for each row whether it has no blank cell apart from that of `gold`."""
    columns = [pc.utf8_trim_whitespace(column.cast(pa.string())) for column in table.columns]
    whole = pa.chunked_array([pa.repeat(True, len(table))])
    for name, column in zip(table.column_names, columns, strict=True):
        if name != gold:
            whole = pc.and_(whole, pc.fill_null(pc.greater(pc.utf8_length(column), 0), False))
    return pa.table(columns, names=table.column_names), whole
