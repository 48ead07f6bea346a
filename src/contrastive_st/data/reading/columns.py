"""Columns of a table as a data set of texts: in memory, or where they are on disk as text already, mapped."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import datasets
import pyarrow as pa
import pyarrow.compute as pc
from datasets.fingerprint import generate_random_fingerprint as new_fingerprint

from contrastive_st.data.profile import MISSING, as_text
from contrastive_st.data.reading.rows import Dropped, Row, Table, check_rows, check_utf8
from contrastive_st.prefetch import in_chunks

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
    stored = table.delimited or all(table.is_stored(name, name in texts) for name in names)
    whole = table.whole(list(names)) if table.whole is not None and stored else None
    dropped, total = Dropped(table, [name for name in names if name != target]), 0
    if isinstance(whole, datasets.Dataset):
        check_rows(table)  # `datasets` fails on a table without rows
        return _tidied(whole, table, strict, target, dropped)
    chunks = []
    for some in in_chunks(table, CHUNK) if whole is None or not len(whole) else [whole]:
        if isinstance(some, pa.Table) and not table.delimited:
            check_utf8(some, table.source, 0)
        cells = some if isinstance(some, pa.Table) else pa.table(
            {name: _as_strings(some, name, table, name in texts) for name in names}
        )  # fmt: skip
        chunk, kept = _stripped(cells, target)
        total += len(kept)
        if not pc.all(kept).as_py():
            blank = pc.indices_nonzero(pc.invert(kept))
            for place, row in zip(blank.to_pylist(), chunk.take(blank).to_pylist(), strict=True):
                dropped.add(*((table.first + place, row) if some is cells else some[place]))
            chunk = chunk.filter(kept)
        chunks.append(chunk)
        if dropped.count and strict:
            break
    if dropped.count or not total:
        dropped.report(total, strict)
    result = datasets.table.InMemoryTable(pa.concat_tables(chunks))
    return datasets.Dataset(result, fingerprint=new_fingerprint())  # by default that is a hash of all cells


def _as_strings(rows: Sequence[Row], name: str, table: Table, only_strings: bool) -> pa.Array:
    cells = [row.cells.get(name) for row in rows]
    try:
        return pa.array(cells, pa.string())
    except (pa.ArrowException, TypeError, ValueError):  # some are not strings: these are converted, or named
        numbered = zip(rows, cells, strict=True)
        texts = (as_text(cell, name, table.where(row.number), only_strings) for row, cell in numbered)
        return pa.array(list(texts), pa.string())


def _tidied(
    data: datasets.Dataset, table: Table, strict: bool, target: str | None, dropped: Dropped
) -> datasets.Dataset:
    """Strip the cells and drop rows with blank ones; a data set that needs neither is returned as it is."""
    seen, clean = 0, all(feature.dtype == "string" for feature in data.features.values())
    for batch in data.with_format("arrow").iter(batch_size=CHUNK):
        check_utf8(batch, table.source, seen)
        stripped, kept = _stripped(batch, target)
        clean = clean and stripped.equals(batch)
        blanks = pc.indices_nonzero(pc.invert(kept))
        for place, cells in zip(blanks.to_pylist(), stripped.take(blanks).to_pylist(), strict=True):
            dropped.add(seen + place + 1, cells)
        seen += len(kept)
    dropped.report(seen, strict)
    if clean and not dropped.count:
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
