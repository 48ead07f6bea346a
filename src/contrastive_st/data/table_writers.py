"""Write a table: block by block or as a whole, as .jsonl, .csv or .parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Columns = dict[str, list[Any]]  # some rows of a table, by column
Write = Callable[[Columns], object]


def table_writer(
    path: Path, names: Sequence[str], types: Mapping[str, pa.DataType] | None = None
) -> AbstractContextManager[Write]:
    """A context with a function that adds rows to the table.

    Args:
        path: its suffix is one of `FORMATS`.
        names: the columns.
        types: of the columns that are not texts, such as numbers, and lists, which .csv has as JSON.

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


def write_table(path: Path, rows: Sequence[Mapping[str, Any]], names: Sequence[str] = ()) -> None:
    """Write rows to a table; a cell that a row does not have is empty.

    Args:
        path: as for `table_writer`.
        rows: their cells by column.
        names: the columns; by default those of the rows, in the order in which they come.
    """
    names = names or list(dict.fromkeys(name for row in rows for name in row))
    with table_writer(path, names) as write:
        write({name: [row.get(name, "") for row in rows] for name in names})


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
            json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n"
            for row in zip(*columns.values(), strict=True)
        )


@contextmanager
def _csv(path: Path, names: Sequence[str], types: Mapping[str, pa.DataType]) -> Iterator[Write]:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)

        def write(columns: Columns) -> None:
            cells = (map(json.dumps, column) if name in types else column for name, column in columns.items())
            writer.writerows(zip(*cells, strict=True))

        yield write


_WRITERS = {".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet}
FORMATS = tuple(_WRITERS)
