"""One reader of tables: `open_table` gives the rows of any source, each with its number and all of its cells."""

from __future__ import annotations

import bisect
import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from contrastive_st.data.profile import Column, is_missing, profile
from contrastive_st.data.reading.content import (
    check_file,
    encoding_of,
    format_of,
    open_bytes,
    reading,
    text_lines,
    utf8,
)
from contrastive_st.data.reading.delimited import (
    MAYBE_A_TABLE,
    NULL,
    find_layout,
    is_table,
    looks_like_table,
    numbered_rows,
)
from contrastive_st.data.reading.layouts import beir_rows, is_beir, plain_rows
from contrastive_st.data.reading.objects import json_rows
from contrastive_st.data.reading.sources import files_of, is_saved, path_of, stored

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa

logger = logging.getLogger(__name__)
BATCH = 4096  # rows of Parquet that are Python objects at a time
_STREAMED = 1000  # rows of a stream of the Hub from which its columns are known


class Row(NamedTuple):
    """A row: its number in the file, counted from 1, and its cells by column."""

    number: int
    cells: dict[str, Any]


@dataclass
class Table:
    """The rows of a source as a stream, which can be read more than once.

    Args:
        source: its name in messages.
        unit: what a row is called in messages: line, row, object or page.
        read: returns the rows, starting with the first.
        columns: the names of the columns in order, where they are known before the rows are read.
        notes: what was detected about it (encoding, delimiter, no header), for messages.
        files: of several files, the number of rows before each and its name.
        sampled: rows from which the columns are known, if not all; of a stream.
        schema: the types of its columns, if they are stored.
        mapped: returns some columns as a data set that stays on disk, if they are stored.
        classes: for each column of `datasets.ClassLabel`, or of lists of it, the names of its numbers; -1 is none.
    """

    source: str
    unit: str
    read: Callable[[], Iterator[Row]]
    columns: list[str] | None = None
    notes: tuple[str, ...] = ()
    files: list[tuple[int, str]] = field(default_factory=list)
    sampled: int | None = None
    schema: pa.Schema | None = None
    mapped: Callable[[list[str]], datasets.Dataset] | None = None
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Row]:
        with reading(self.source):
            yield from self.read()

    @cached_property
    def names(self) -> list[str]:
        """Every column of every row, in the order of the file."""
        if self.columns is not None:
            return self.columns
        return list(dict.fromkeys(name for row in self for name in row.cells))

    @cached_property
    def profile(self) -> dict[str, Column]:
        """What the cells of each column hold, from all rows."""
        result = profile((row.cells for row in self), self.sampled)
        return {name: result[name] if name in result else Column() for name in self.columns or result}

    @property
    def is_lines(self) -> bool:
        """Whether it is one text per line, without columns to name."""
        return self.unit == "line" and self.columns == ["text"]

    def is_stored(self, name: str, as_text: bool = True) -> bool:
        """Whether the type of a column is known, and text; without `as_text`, also numbers."""
        kind = None if self.schema is None else self.schema.field(name).type
        if kind is None:
            return False
        import pyarrow as pa

        return _is_text(kind) or (not as_text and bool(pa.types.is_primitive(kind)))

    def only_texts(self, name: str) -> bool:
        """Whether each cell of a column is text or blank, and one is text."""
        if self.schema is not None:
            return self.is_stored(name)
        return 0 < self.profile[name].count == self.profile[name].texts

    def where(self, number: int) -> str:
        """The file and the number of a row, for messages."""
        if self.files:
            before, name = self.files[bisect.bisect_right(self.files, number - 1, key=lambda one: one[0]) - 1]
            return f"{name}, {self.unit} {number - before}"
        return f"{self.source}, {self.unit} {number}"

    def said(self) -> Table:
        """The table, after what was detected about its source is logged."""
        for note in self.notes:
            logger.warning(f"{self.source}: {note}")
        return self


def open_table(
    source: Any,
    *,
    split: str = "train",
    header: bool | None = None,
    name: str | None = None,
    streaming: bool = False,
) -> Table:
    """Open a source as rows of cells by column.

    | source                        | what is in it                                                             |
    |-------------------------------|---------------------------------------------------------------------------|
    | `.txt`                        | one sentence per line, in a column `text`; or a table, as SNLI comes      |
    | `.csv` `.tsv`                 | rows of cells; the delimiter (`,` `;` `|` or a tab) is detected           |
    | `.json` `.jsonl` `.ndjson`    | one object, list of cells or text per line, or one list of them           |
    | `.parquet`, `.arrow`          | any columns                                                               |
    | a pattern, a list, a folder   | such files, one after the other                                           |
    | a folder of `save_to_disk`    | its `split` if it has splits                                              |
    | anything else                 | the `split` of a data set of the Hub, "owner/name" or "owner/name:config" |

    Files may be compressed (`.gz`, `.bz2`, `.xz`, `.zst`). Text is UTF-8 or what a byte order mark says; another
    encoding is detected. Cells of delimited text stay strings. Exports of Label Studio, Argilla and Prodigy, and the
    files of fastText, tevatron and MEDI, are recognized (`layouts`).

    Args:
        source: as above; or rows in memory, a `Dataset`, an `IterableDataset`, a DataFrame or a list of dictionaries.
        split: which split to read.
        header: whether the first row of a table holds the names of its columns; by default it is found out.
        name: name of the source in messages.
        streaming: read a data set of the Hub as a stream, and not download it first.

    Raises:
        InputError: it does not exist, or there is no reader for its extension.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "talks.csv")
        ...     _ = path.write_text("text;year\\nOn tides, and more;1999\\n")
        ...     table = open_table(path)
        ...     table.names, list(table)[0].cells, table.notes
        (['text', 'year'], {'text': 'On tides, and more', 'year': '1999'}, ('cells are separated by semicolons',))
    """
    if isinstance(source, (list, tuple)) and len(source) == 1 and isinstance(source[0], (str, Path)):
        source = source[0]
    memory = in_memory(source, name or "the data")
    if memory is not None:
        return plain_rows(memory).said()
    shown = name or (str(source) if isinstance(source, (str, Path)) else " ".join(map(str, source)))
    if isinstance(source, (str, Path)) and is_beir(path_of(source)):
        return _beir(path_of(source), shown, split)
    files = files_of(source, split)
    if files is None:
        table = _stored(str(source), shown, split, streaming)
    elif len(files) == 1:
        table = open_file(files[0], shown, header)
    else:
        table = _joined([open_file(path, str(path), header) for path in files], shown)
    if files and {format_of(path) for path in files} == {".parquet"}:
        table = _with_schema(table, files)
    return plain_rows(table).said()


def open_file(path: Path, source: str, header: bool | None = None) -> Table:
    """Open one file, whose extension says the format."""
    check_file(path, source)
    kind = format_of(path)
    with reading(source):
        if kind in (".parquet", ".arrow"):
            return _arrow(path, source)
        with open_bytes(path) as file:
            encoding = encoding_of(file, source)
    lines = partial(text_lines, path, source, encoding)
    notes = () if encoding.startswith("utf-8") else (f"not UTF-8: read as {encoding}",)
    if kind in (".csv", ".tsv") or (kind == ".txt" and is_table(next(lines(), "").rstrip("\r\n"))):
        return _delimited(lines, source, "," if kind == ".csv" else "\t", header, kind == ".txt", notes)
    if kind == ".txt":
        notes += (MAYBE_A_TABLE,) if looks_like_table(lines()) else ()
        return Table(source, "line", lambda: _text(lines()), ["text"], notes)
    unit, rows = json_rows(path, source, lines)
    return Table(source, unit, lambda: (Row(*row) for row in rows()), None, notes)


def _with_schema(table: Table, files: Sequence[Path]) -> Table:
    """The table of Parquet files, with the types of its columns if `datasets` has them all, as it has no map."""
    import datasets
    import pyarrow as pa
    import pyarrow.parquet as pq

    with contextlib.suppress(ValueError):
        schema = pa.unify_schemas([pq.read_schema(path) for path in files], promote_options="permissive")
        features = datasets.Features.from_arrow_schema(schema)
        return replace(table, mapped=partial(_mapped, files), schema=schema, classes=_classes(features))
    return table


def _text(lines: Iterator[str]) -> Iterator[Row]:
    return (Row(number, {"text": line.rstrip("\r\n")}) for number, line in enumerate(lines, 1))


def _delimited(
    lines: Callable[[], Iterator[str]],
    source: str,
    usual: str,
    header: bool | None,
    loose: bool,
    notes: tuple[str, ...],
) -> Table:
    layout = find_layout(lines, source, usual, header, loose)

    def read() -> Iterator[Row]:
        for number, written in numbered_rows(layout, lines(), source):
            cells = (None if cell == NULL else cell for cell in written)
            yield Row(number, dict(zip(layout.names, cells, strict=False)))

    return Table(source, "row", read, layout.names, notes + layout.notes)


def _arrow(path: Path, source: str) -> Table:
    """A Parquet or Arrow file, read a few thousand rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def batches() -> Iterator[pa.RecordBatch]:
        if format_of(path) == ".parquet":
            with pq.ParquetFile(path, memory_map=True) as file:
                yield from file.iter_batches(BATCH)
            return
        with pa.memory_map(str(path)) as mapped:
            yield from _ipc(mapped)

    if format_of(path) == ".parquet":
        names = pq.read_schema(path).names
    else:
        with pa.memory_map(str(path)) as mapped:
            names = next(iter(_ipc(mapped))).schema.names
    return Table(source, "row", lambda: _rows_of(batches(), source), list(names))


def _ipc(mapped: Any) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    try:
        reader = pa.ipc.open_file(mapped)
        return (reader.get_batch(i) for i in range(reader.num_record_batches))
    except pa.ArrowInvalid:
        mapped.seek(0)
        return iter(pa.ipc.open_stream(mapped))


def _rows_of(batches: Iterator[Any], source: str) -> Iterator[Row]:
    number = 0
    for batch in batches:
        check_utf8(batch, source, number)
        for number, cells in enumerate(batch.to_pylist(), number + 1):  # noqa: B020 - it goes on counting
            yield Row(number, cells)


def _stored(source: str, shown: str, split: str, streaming: bool) -> Table:
    """The rows of what `stored` opens."""
    streamed = {"streaming": True} if streaming and not is_saved(path_of(source)) else {}
    return cast(Table, in_memory(stored(source, split, **streamed), shown))


def of_dataset(data: datasets.Dataset, source: str) -> Table:
    """The rows of a data set."""

    plain = data.with_format("arrow")
    return Table(
        source, "row", lambda: _rows_of(plain.iter(batch_size=BATCH), source), list(data.column_names),
        schema=data.features.arrow_schema, mapped=data.with_format(None).select_columns,
        classes=_classes(data.features),
    )  # fmt: skip


def _classes(features: Mapping[str, Any]) -> dict[str, list[str]]:
    """The names of the classes of each column of them."""
    import datasets

    kinds = {name: getattr(kind, "feature", kind) for name, kind in features.items()}  # of a list, its items
    return {name: kind.names for name, kind in kinds.items() if isinstance(kind, datasets.ClassLabel)}


def in_memory(source: Any, name: str) -> Table | None:
    """The rows of a `Dataset`, a stream, a DataFrame or a list of dictionaries; None for the name of a source."""
    datasets = sys.modules.get("datasets")  # who has one of its objects has imported it
    if datasets and isinstance(source, datasets.Dataset):
        return of_dataset(source, name)
    if datasets and isinstance(source, datasets.IterableDataset):
        read = lambda: (Row(number, dict(cells)) for number, cells in enumerate(source, 1))
        classes = _classes(source.features or {})
        return Table(name, "row", read, source.column_names, sampled=_STREAMED, classes=classes)
    if hasattr(source, "columns") and hasattr(source, "notna"):
        source = source.astype(object).where(source.notna(), None).to_dict("records")
    if isinstance(source, (list, tuple)) and all(isinstance(row, Mapping) for row in source):
        rows = [
            Row(number, {str(key): _python(cell) for key, cell in row.items()}) for number, row in enumerate(source, 1)
        ]
        return Table(name, "row", lambda: iter(rows))
    return None


def _python(cell: Any) -> Any:
    """A cell without the types of numpy; what pandas means by a missing value is null."""
    cell = cell.tolist() if hasattr(cell, "tolist") else cell
    return None if is_missing(cell) else cell


def _mapped(files: Sequence[Path], names: list[str]) -> datasets.Dataset:
    import datasets

    return datasets.Dataset.from_parquet([str(path) for path in files], columns=names).select_columns(names)


def _beir(folder: Path, source: str, split: str) -> Table:
    def rows(name: str) -> Iterator[dict[str, Any]]:
        parts = [path for path in files_of(str(folder / f"{name}.*")) or [] if path.is_file()]
        return (row.cells for part in parts[:1] for row in open_file(part, str(part)))

    read = lambda: (Row(*row) for row in enumerate(beir_rows(rows, rows(f"qrels/{split}")), 1))
    return Table(
        source, "pair", read, ["query", "positive"], ("read as a folder of BEIR: queries and what is relevant",)
    )


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _joined(parts: Sequence[Table], source: str) -> Table:
    """Tables one after the other; a column that one of them lacks is missing in its rows."""
    files: list[tuple[int, str]] = []

    def read() -> Iterator[Row]:
        before, number = 0, 0
        files.clear()
        for part in parts:
            files.append((before, part.source))
            for row in part:
                number = before + row.number
                yield Row(number, row.cells)
            before = number

    names = None
    if all(part.columns is not None for part in parts):
        names = list(dict.fromkeys(name for part in parts for name in part.columns or ()))
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    return Table(source, parts[0].unit, read, names, notes, files)


def check_utf8(batch: pa.RecordBatch | pa.Table, source: str, first: int) -> None:
    """Raise `InputError` with the row of text that is not UTF-8, which Parquet files and Arrow tables can have."""
    import pyarrow as pa

    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        for name in batch.schema.names:
            kind = batch.schema.field(name).type
            if pa.types.is_string(kind) or pa.types.is_large_string(kind):
                cells = batch.column(name).cast(pa.large_binary()).to_pylist()
                for row, cell in enumerate(cells, first + 1):
                    utf8(cell or b"", f"{source}, row {row}, column {name!r}", "write the file again")
        raise
