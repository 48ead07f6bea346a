"""Rows of text, table and parquet files, one at a time, each with the place it stands at."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from contrastive_st.errors import InputError

Row = tuple[str, dict[str, Any]]  # "file, line 3", and the cells by column
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]+)?")
_BATCH = 4096
_SAMPLE = 4 << 20


def lines(path: Path) -> Iterator[Row]:
    """A text file: one column, `text`."""
    for where, line in _numbered(path, "line"):
        yield where, {"text": line}


def objects(path: Path) -> Iterator[Row]:
    """JSON: an object a line, read line by line, or a list of objects, which is read as a whole."""
    with open(path, "rb") as file:
        is_list = file.read(1 << 16).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    if is_list:
        try:
            items = json.loads(path.read_bytes())
        except ValueError as error:
            raise InputError(f"{path}: broken JSON ({error}); mend it, or write one object a line") from error
        found: Iterator[tuple[str, Any]] = ((f"{path}, object {number}", item) for number, item in enumerate(items, 1))
    else:
        found = ((where, _object(where, line)) for where, line in _numbered(path, "line") if line.strip())
    for where, item in found:
        if not isinstance(item, dict):
            raise InputError(f"{where}: not an object; write one {{...}} a document")
        yield where, item


def comma_separated(path: Path) -> Iterator[Row]:
    """CSV with a header; cells that hold commas, quotes or line ends are quoted."""
    return _table(path, delimiter=",", strict=True)


def tab_separated(path: Path) -> Iterator[Row]:
    """Tab-separated with a header; quotes mean nothing."""
    return _table(path, delimiter="\t", quoting=csv.QUOTE_NONE)


def parquet_rows(path: Path) -> Iterator[Row]:
    """A parquet file, a few thousand rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path, memory_map=True) as file:
            flat = [field.name for field in file.schema_arrow if not pa.types.is_nested(field.type)]
            for batch in file.iter_batches(_BATCH, columns=flat):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}, row {number}", row
    except pa.ArrowException as error:
        raise InputError(f"{path}: not a sound parquet file ({str(error).splitlines()[0]}); write it anew") from error


READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".txt": lines,
    ".csv": comma_separated,
    ".tsv": tab_separated,
    ".json": objects,
    ".jsonl": objects,
}


def estimated_rows(path: Path) -> int:
    """The number of rows: exact for parquet and small files, else by the lines of the first megabytes."""
    if path.suffix.lower() == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.read_metadata(path).num_rows
        except pa.ArrowException:
            return 0  # the reader will say what is wrong with it
    size = path.stat().st_size
    with open(path, "rb") as file:
        sample = file.read(_SAMPLE)
    return round(sample.count(b"\n") * size / max(len(sample), 1)) + (not sample.endswith(b"\n"))


def _numbered(path: Path, unit: str) -> Iterator[tuple[str, str]]:
    with open(path, "rb") as file:  # bytes: only line feeds part lines, and a bad byte is known by its line
        for number, line in enumerate(file, 1):
            where = f"{path}, {unit} {number}"
            try:
                yield where, line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                bad = f"byte 0x{line[error.start]:02x} is not UTF-8"
                raise InputError(f"{where}: {bad}; save the file in UTF-8") from error


def _object(where: str, line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise InputError(f"{where}: broken JSON ({error}); write one object a line, or a list of objects") from error


def typed(cell: str) -> Any:
    """A cell of metadata as a number where it is written as JSON writes one; `007` stays text."""
    if not _NUMBER.fullmatch(cell):
        return cell
    return float(cell) if "." in cell else int(cell)


def _table(path: Path, **dialect: Any) -> Iterator[Row]:
    reader = csv.reader((line for _, line in _numbered(path, "line")), **dialect)
    header: list[str] = []
    number = 0
    try:
        for number, cells in enumerate(reader, 1):
            if number == 1:
                header = [cell.strip() for cell in cells]
                if not any(header) or len(set(header)) < len(header):
                    raise InputError(f"{path}, row 1: it must hold the names of the columns, each once")
            elif cells:
                if len(cells) != len(header):
                    counts = f"{len(cells)} cells where the header has {len(header)}"
                    raise InputError(f"{path}, row {number}: {counts}; quote cells that hold the separator")
                yield f"{path}, row {number}", dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise InputError(f"{path}, row {number + 1}: {error}; close every quote, and double those inside") from error
