"""Columns of a table as a data set of texts: in memory, or where they are on disk as text already, mapped."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import datasets
import pyarrow as pa
import pyarrow.compute as pc

from contrastive_st.data.reading.cells import as_text, report
from contrastive_st.data.reading.table import Row, Table, check_utf8

CHUNK = 65_536  # most rows held at a time as Python strings or as an Arrow batch


def columns_of(
    table: Table, names: Sequence[str], strict: bool = False, target: str | None = None, texts: Sequence[str] = ()
) -> datasets.Dataset:
    """Some columns as text.

    Args:
        table: the rows.
        names: the columns.
        strict: raise an error for a blank cell.
        target: a column of them that may be blank.
        texts: those of them in which numbers are refused.
    """
    if table.mapped is not None and all(table.is_stored(name, name in texts) for name in names):
        report(len(list(islice(table, 1))), 0, 0, table)  # `datasets` fails on a table without rows
        return _tidied(table.mapped(list(names)), table, strict, target)
    chunks, total, dropped, first = [], 0, 0, 0
    rows = iter(table)
    while some := list(islice(rows, CHUNK)):
        cells = {name: _texts(some, name, table, name in texts) for name in names}
        chunk, whole = _stripped(pa.table(cells), target)
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


def _tidied(data: datasets.Dataset, table: Table, strict: bool, target: str | None) -> datasets.Dataset:
    """Strip the cells and drop rows with blank ones; a data set that needs neither is returned as it is."""
    dropped = first = seen = 0
    clean = all(feature.dtype == "string" for feature in data.features.values())
    for batch in data.with_format("arrow").iter(batch_size=CHUNK):
        check_utf8(batch, table.source, seen)
        stripped, whole = _stripped(batch, target)
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
        fn_kwargs={"target": target},
        desc=f"tidying {table.source}",
    )
    return data.with_format(None)


def _without_blanks(table: pa.Table, target: str | None) -> pa.Table:
    stripped, whole = _stripped(table, target)
    return stripped.filter(whole)


def _stripped(table: pa.Table, target: str | None) -> tuple[pa.Table, pa.ChunkedArray]:
    """A batch with stripped cells, and for each row whether it has no blank cell apart from that of `target`."""
    columns = [pc.utf8_trim_whitespace(column.cast(pa.string())) for column in table.columns]
    whole = pa.chunked_array([pa.repeat(True, len(table))])
    for name, column in zip(table.column_names, columns, strict=True):
        if name != target:
            whole = pc.and_(whole, pc.fill_null(pc.greater(pc.utf8_length(column), 0), False))
    return pa.table(columns, names=table.column_names), whole
