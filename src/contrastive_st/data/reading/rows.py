"""A table: its rows as a stream of numbered cells, which can be read more than once."""

from __future__ import annotations

import bisect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from contrastive_st.data.profile import MISSING, Record
from contrastive_st.data.reading.content import reading
from contrastive_st.errors import InputError

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa

logger = logging.getLogger(__name__)
_PART = 100  # rows of a batch that are Python objects at a time: often only the first of a file are read
BATCH = 4096  # rows of an Arrow table that are Python objects at a time


class Row(NamedTuple):
    """A row: its number in the file, counted from 1, and its cells by column."""

    number: int
    cells: Record


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
        read_columns: returns some columns as Arrow's table or a data set that stays on disk, all rows at once; None if
            they must be read row by row.
        delimited: whether it is delimited text, in which an empty cell is null and no cell has a type.
        first: the number of its first row, which comes after the header of delimited text.
        classes: for each column of `datasets.ClassLabel`, or of lists of it, the names of its numbers; -1 is none.
        of_path: the columns whose cells are in the names of folders, which have no types either.
    """

    source: str
    unit: str
    read: Callable[[], Iterator[Row]]
    columns: list[str] | None = None
    notes: tuple[str, ...] = ()
    files: list[tuple[int, str]] = field(default_factory=list)
    sampled: int | None = None
    schema: pa.Schema | None = None
    read_columns: Callable[[list[str]], datasets.Dataset | pa.Table | None] | None = None
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    delimited: bool = False
    first: int = 1
    of_path: frozenset[str] = frozenset()

    def __iter__(self) -> Iterator[Row]:
        with reading(self.source):
            yield from self.read()

    @cached_property
    def names(self) -> list[str]:
        """Every column of every row, in the order of the file."""
        if self.columns is None:
            rows = islice(self.read(), self.sampled)
            self.columns = list(dict.fromkeys(name for row in rows for name in row.cells))
        return self.columns

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

        inner, types = kind.value_type if pa.types.is_dictionary(kind) else kind, pa.types
        text = types.is_string(inner) or types.is_large_string(inner) or types.is_string_view(inner)
        return bool(text or (not as_text and types.is_primitive(kind)))

    def is_written(self, name: str) -> bool:
        """Whether the cells of a column are texts without types."""
        return self.delimited or name in self.of_path

    def where(self, number: int) -> str:
        """The file and the number of a row, for messages."""
        if self.files:
            before, name = self.files[bisect.bisect_right(self.files, number - 1, key=lambda one: one[0]) - 1]
            return f"{name}, {self.unit} {number - before}"
        return f"{self.source}, {self.unit} {number}"

    def logged(self) -> Table:
        """The table, after what was detected about its source is logged."""
        for note in self.notes:
            logger.warning(f"{self.source}: {note}")
        return self


def of_class(cell: Any, values: Sequence[object]) -> Any:
    """The value, such as the name, of the class in a cell of a `datasets.ClassLabel`, None for -1; a list for a list.

    Example:
        >>> of_class(1, ["no", "yes"]), of_class([0, 1], ["no", "yes"]), of_class(-1, ["no", "yes"])
        ('yes', ['no', 'yes'], None)
    """
    if isinstance(cell, list):
        return [value for item in cell if (value := of_class(item, values)) is not None]
    return None if cell is None or cell < 0 else values[cell]


def other_positions(names: Sequence[object], cells: Iterable[float | str]) -> Iterator[float]:
    """Numbers that are another class if they are positions in a `datasets.ClassLabel` than if they are names of it.

    There are none if one of the numbers is not a position, apart from -1, which may be a missing label: all are names.

    Args:
        names: the names of the classes in order, as numbers where they are numbers.
        cells: the numbers, and other cells.

    Example:
        >>> list(other_positions([1.0, 0.0, 2.0], [0.0, 2.0])), list(other_positions([1.0, 2.0], [1.0, 2.0]))
        ([0.0], [])
    """
    numbers = {cell for cell in cells if isinstance(cell, float) and (cell != -1 or -1 in names)}
    if all(0 <= number < len(names) and number % 1 == 0 for number in numbers):
        yield from (number for number in sorted(numbers) if names[int(number)] != number)


@dataclass
class Dropped:
    """The rows of a table that are left out because of a blank cell: how many, the first, and why.

    Args:
        table: where they come from.
        names: the columns that must not be blank.
        what: what these rows have or lack, for the message.

    Example:
        >>> from contrastive_st.data.profile import is_blank
        >>> dropped = Dropped(Table("a.csv", "row", lambda: iter(())), ["text"])
        >>> for number, cells in enumerate([{"text": "Hi."}, {"text": "NA"}, {"text": ""}], 1):
        ...     if is_blank(cells["text"]):
        ...         dropped.add(number, cells)
        >>> dropped.count, dropped.first, list(dropped.why)
        (2, 2, ["'NA' counts as blank"])
    """

    table: Table
    names: Sequence[str] = ()
    what: str = "have a blank cell"
    count: int = field(default=0, init=False)
    first: int = field(default=0, init=False)
    why: dict[str, None] = field(default_factory=dict, init=False)

    def add(self, number: int, cells: Mapping[str, object]) -> None:
        """Count a row."""
        self.first = self.first or number
        self.count += 1
        for name in self.names:
            if name not in cells:
                self.why[f"there is no column {name!r}"] = None
            elif isinstance(cell := cells[name], str) and cell.strip() in MISSING:
                self.why[f"{cell.strip()!r} counts as blank"] = None

    def report(self, total: int, strict: bool = False) -> None:
        """Log how many of so many rows were dropped.

        Args:
            total: how many rows there are.
            strict: no row may be dropped.

        Raises:
            InputError: no row is left, or one was dropped and `strict`.
        """
        table = self.table
        why = f" ({', '.join(self.why)})" if self.why else ""
        if self.count and strict:
            fix = "fill it, or leave `strict` out to drop the row"
            raise InputError(f"{table.where(self.first)}: a cell is blank{why}; {fix}")
        if self.count == total:
            none = f"there are no {'row' if table.unit == 'line' else table.unit}s"
            what = f"all {total} {table.unit}s {self.what}{why}" if total else none
            raise InputError(f"{table.source}: {what}; name other columns, or give at least one whole row")
        if self.count:
            what = f"dropped {self.count} of {total} {table.unit}s, which {self.what}"
            logger.warning(f"{table.source}: {what}; the first is {table.where(self.first)}{why}")


def check_rows(table: Table) -> None:
    """Raise `InputError` if a table has no rows."""
    Dropped(table).report(len(list(islice(table, 1))))


def arrow_rows(batches: Iterable[pa.RecordBatch | pa.Table]) -> Iterator[Row]:
    """The rows of Arrow batches, with numbers that go on from batch to batch."""
    parts = (batch.slice(start, _PART) for batch in batches for start in range(0, len(batch), _PART))
    return numbered(cells for part in parts for cells in _objects(part))


def _objects(part: pa.RecordBatch | pa.Table) -> list[Record]:
    """The rows of an Arrow table; a map is an object, not pairs, unless its keys are lists or objects."""
    from pyarrow.types import is_map, is_nested

    rows: list[Record] = part.to_pylist()
    for name in [one.name for one in part.schema if is_map(one.type) and not is_nested(one.type.key_type)]:
        for row in rows:
            row[name] = None if row[name] is None else dict(row[name])
    return rows


def numbered(rows: Iterable[Record]) -> Iterator[Row]:
    """Rows with their numbers, counted from 1."""
    return starmap(Row, enumerate(rows, 1))
