"""A table: its rows as a stream of numbered cells, which can be read more than once."""

from __future__ import annotations

import bisect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from contrastive_st.data.profile import Column, profile
from contrastive_st.data.reading.content import reading, utf8

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa

logger = logging.getLogger(__name__)
BATCH = 4096  # rows of an Arrow table that are Python objects at a time


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
        delimited: whether it is delimited text, in which an empty cell is null and no cell has a type.
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
    delimited: bool = False

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

        return is_text(kind) or (not as_text and bool(pa.types.is_primitive(kind)))

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


def of_class(cell: Any, values: Sequence[Any]) -> Any:
    """The value, such as the name, of the class in a cell of a `datasets.ClassLabel`, None for -1; a list for a list.

    Example:
        >>> of_class(1, ["no", "yes"]), of_class([0, 1], ["no", "yes"]), of_class(-1, ["no", "yes"])
        ('yes', ['no', 'yes'], None)
    """
    if isinstance(cell, list):
        return [value for item in cell if (value := of_class(item, values)) is not None]
    return None if cell is None or cell < 0 else values[cell]


def arrow_rows(batches: Iterable[Any], source: str) -> Iterator[Row]:
    """The rows of Arrow batches, with numbers that go on from batch to batch."""
    number = 0
    for batch in batches:
        check_utf8(batch, source, number)
        for number, cells in enumerate(batch.to_pylist(), number + 1):  # noqa: B020 - it goes on counting
            yield Row(number, cells)


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


def is_text(kind: pa.DataType) -> bool:
    """Whether a type of Arrow is text, dictionaries of texts included."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
