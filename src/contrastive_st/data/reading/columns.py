"""Columns of a table as a data set of texts: in memory, or where they are on disk as text already, mapped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import datasets
import pyarrow as pa
import pyarrow.compute as pc
from datasets.fingerprint import generate_random_fingerprint as new_fingerprint

from contrastive_st.data.profile import MISSING, as_text, with_point
from contrastive_st.data.reading.rows import Dropped, Row, Table, check_rows
from contrastive_st.prefetch import in_chunks

CHUNK = 65_536  # most rows held at a time as Python strings or as an Arrow batch


def columns_of(
    table: Table,
    names: Sequence[str],
    strict: bool = False,
    target: str | None = None,
    texts: Sequence[str] = (),
    numbers: Collection[str] = (),
) -> datasets.Dataset:
    """Some columns as text.

    Args:
        table: the rows.
        names: the columns.
        strict: raise an error for a blank cell.
        target: a column of them that may be blank.
        texts: those of them in which numbers are refused.
        numbers: those of them whose numbers get the decimal mark that is asked for, as in the cells that are text.
    """
    stored = table.delimited or all(table.is_stored(name, name in texts) for name in names)
    data = table.read_columns(list(names)) if table.read_columns is not None and stored else None
    batches: Iterable[pa.Table | Sequence[Row]]
    if isinstance(data, datasets.Dataset):  # stays on disk
        check_rows(table)  # `datasets` fails on a table without rows
        batches = data.with_format("arrow").iter(batch_size=CHUNK)
    elif data is not None and len(data):
        batches = [data]
    else:
        batches = in_chunks(table, CHUNK)
    dropped, total, chunks = Dropped(table, [name for name in names if name != target]), 0, list[pa.Table]()
    clean = isinstance(data, datasets.Dataset) and {kind.dtype for kind in data.features.values()} == {"string"}
    for some in batches:
        if isinstance(some, pa.Table):
            cells = some
        else:
            cells = pa.table({name: _as_strings(some, name, table, name in texts, name in numbers) for name in names})
        chunk, kept = _stripped(cells, target)
        blank = pc.indices_nonzero(pc.invert(kept))
        for index, row in zip(blank.to_pylist(), chunk.take(blank).to_pylist(), strict=True):
            dropped.add(*((table.first + total + index, row) if some is cells else some[index]))
        total += len(kept)
        clean = clean and chunk.equals(some)
        if not isinstance(data, datasets.Dataset):
            chunks.append(chunk.filter(kept) if len(blank) else chunk)
        if dropped.count and strict:
            break
    if dropped.count or not total:
        dropped.report(total, strict)
    if not isinstance(data, datasets.Dataset):
        result = datasets.table.InMemoryTable(pa.concat_tables(chunks))
        return datasets.Dataset(result, fingerprint=new_fingerprint())  # by default that is a hash of all cells
    if clean and not dropped.count:
        return data
    return data.with_format("arrow").map(
        _without_blanks, batched=True, batch_size=CHUNK, fn_kwargs={"target": target},
        features=datasets.Features({name: datasets.Value("string") for name in data.column_names}),
        desc=f"tidying {table.source}",
    ).with_format(None)  # fmt: skip


def _as_strings(rows: Sequence[Row], name: str, table: Table, only_strings: bool, marked: bool) -> pa.Array:
    cells = [row.cells.get(name) for row in rows]
    try:
        return pa.array(cells, pa.string())
    except (pa.ArrowException, TypeError, ValueError):  # some are not strings: these are converted, or named
        numbered = zip(rows, cells, strict=True)
        texts = [as_text(cell, name, table.where(row.number), only_strings) for row, cell in numbered]
        if marked:
            pairs = zip(texts, cells, strict=True)
            texts = [text if isinstance(cell, str) else with_point(text) for text, cell in pairs]  # the marks change
        return pa.array(texts, pa.string())


def _without_blanks(table: pa.Table, target: str | None) -> pa.Table:
    stripped, kept = _stripped(table, target)
    return stripped.filter(kept)


def _stripped(table: pa.Table, target: str | None) -> tuple[pa.Table, pa.ChunkedArray]:
    """A batch with stripped cells, and for each row whether it has no blank cell apart from that of `target`.

    What is blank is as for `contrastive_st.data.profile.is_blank`.
    """
    blank = pa.array(["", *MISSING])
    with ThreadPoolExecutor(2) as pool:
        columns = list(pool.map(lambda column: pc.utf8_trim_whitespace(column.cast(pa.string())), table.columns))
    kept = pa.chunked_array([pa.repeat(True, len(table))])
    for name, column in zip(table.column_names, columns, strict=True):
        if name != target:
            kept = pc.and_(kept, pc.and_(pc.is_valid(column), pc.invert(pc.is_in(column, blank))))
    return pa.table(columns, names=table.column_names), kept
