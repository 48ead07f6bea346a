"""Write a table of texts block by block: .jsonl, .csv or .parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Columns = dict[str, list[str]]  # some rows of a table, by column
Write = Callable[[Columns], object]


def table_writer(path: Path, names: Sequence[str]) -> AbstractContextManager[Write]:
    """A context with a function that adds rows to the table; the suffix of the path is one of `FORMATS`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "table.csv")
        ...     with table_writer(path, ["anchor", "positive"]) as write:
        ...         _ = write({"anchor": ["a cat"], "positive": ["a pet"]})
        ...     path.read_text()
        'anchor,positive\\na cat,a pet\\n'
    """
    return _WRITERS[path.suffix](path, names)


@contextmanager
def _parquet(path: Path, names: Sequence[str]) -> Iterator[Write]:
    with pq.ParquetWriter(path, pa.schema([(name, pa.string()) for name in names])) as writer:
        yield lambda columns: writer.write_table(pa.table(columns))


@contextmanager
def _jsonl(path: Path, names: Sequence[str]) -> Iterator[Write]:
    with open(path, "w", encoding="utf-8") as file:
        yield lambda columns: file.writelines(
            json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n"
            for row in zip(*columns.values(), strict=True)
        )


@contextmanager
def _csv(path: Path, names: Sequence[str]) -> Iterator[Write]:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        yield lambda columns: writer.writerows(zip(*columns.values(), strict=True))


_WRITERS = {".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet}
FORMATS = tuple(_WRITERS)
