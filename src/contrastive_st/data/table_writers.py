"""Write a table: block by block or as a whole, as .jsonl, .csv or .parquet."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Mapping[str, Sequence[object]]  # some rows of a table, by column
Write = Callable[[Columns], object]


def table_writer(
    path: Path, names: Sequence[str], types: Mapping[str, pa.DataType] | None = None
) -> AbstractContextManager[Write]:
    """A context with a function that adds rows to the table.

    Args:
        path: its suffix is one of `FORMATS`.
        names: the columns.
        types: of the columns of a .parquet file that are not texts, such as numbers and lists.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "table.csv")
        ...     with table_writer(path, ["anchor", "positive"]) as write:
        ...         _ = write({"anchor": ["a cat"], "positive": ["a pet"]})
        ...     path.read_text()
        'anchor,positive\\na cat,a pet\\n'
    """
    return _WRITERS[path.suffix](path, names, types or {})


def write_table(
    path: Path, rows: Sequence[Mapping[str, object]], names: Sequence[str] = (), schema: pa.Schema | None = None
) -> None:
    """Write rows to a table, with their types where the format has any; a cell that a row does not have is missing.

    Args:
        path: as for `table_writer`.
        rows: their cells by column.
        names: the columns; by default those of the rows, in the order in which they come.
        schema: the types of columns that come from another table; in a .parquet file these keep them.

    Example:
        >>> import datetime, tempfile, pyarrow.parquet as pq
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "table.parquet")
        ...     write_table(path, [{"seen": datetime.date(2026, 1, 2)}, {"seen": "never"}, {"seen": [1]}])
        ...     pq.read_table(path)["seen"].to_pylist()
        ['2026-01-02', 'never', '[1]']
    """
    names = names or list(dict.fromkeys(name for row in rows for name in row))
    columns: Columns = {name: [row.get(name) for row in rows] for name in names}
    types: dict[str, pa.DataType] = {}
    if path.suffix == ".parquet":
        columns, types = _typed(columns, {} if schema is None else dict(zip(schema.names, schema.types, strict=True)))
    with table_writer(path, names, types) as write:
        write(columns)


def _typed(columns: Columns, stored: Mapping[str, pa.DataType]) -> tuple[Columns, dict[str, pa.DataType]]:
    """The columns with their types: `stored`, or those of the cells; of cells of several types it is text."""
    import pyarrow as pa

    types, written = {}, dict(columns)
    for name, cells in columns.items():
        for kind in (stored.get(name), None):
            with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
                types[name] = pa.array(cells, kind).type
                break
        else:
            written[name] = [None if cell is None else str(_plain(cell)) for cell in cells]
    return written, types


def _plain(cell: object) -> object:
    """A cell whose `str` is what is written where there are only texts."""
    return _json(cell) if isinstance(cell, (list, tuple, dict, bool)) else cell


def _json(content: object) -> str:
    return json.dumps(_in_json(content), ensure_ascii=False, default=str)


def _in_json(cell: object) -> object:
    """A cell with decimals as numbers, and null for NaN and infinity, which JSON does not have."""
    if isinstance(cell, Mapping):
        return {name: _in_json(item) for name, item in cell.items()}
    if isinstance(cell, (list, tuple)):
        return [_in_json(item) for item in cell]
    if isinstance(cell, Decimal):
        cell = int(cell) if cell.is_finite() and cell == cell.to_integral_value() else float(cell)
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


@contextmanager
def _parquet(path: Path, names: Sequence[str], types: Mapping[str, pa.DataType]) -> Iterator[Write]:
    import pyarrow as pa  # here, because texts are written without it
    import pyarrow.parquet as pq

    schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
    with pq.ParquetWriter(path, schema) as writer:
        yield lambda columns: writer.write_table(pa.table(columns, schema=schema))


@contextmanager
def _jsonl(path: Path, names: Sequence[str], types: Mapping[str, pa.DataType]) -> Iterator[Write]:
    with open(path, "w", encoding="utf-8") as file:
        yield lambda columns: file.writelines(
            _json(dict(zip(names, row, strict=True))) + "\n" for row in zip(*columns.values(), strict=True)
        )


@contextmanager
def _csv(path: Path, names: Sequence[str], types: Mapping[str, pa.DataType]) -> Iterator[Write]:
    with open(path, "w", encoding="utf-8", newline="") as file:
        plain = csv.writer(file, lineterminator="\n")
        quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)

        def write(row: Iterable[object]) -> None:
            cells = [*map(_plain, row)]
            # before Python 3.13, csv leaves a cell with a line end of another kind without quotes
            (quoted if any("\r" in cell for cell in cells if isinstance(cell, str)) else plain).writerow(cells)

        def write_rows(columns: Columns) -> None:
            for row in zip(*columns.values(), strict=True):
                write(row)

        write(names)
        yield write_rows


_WRITERS = {".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet}
FORMATS = tuple(_WRITERS)
