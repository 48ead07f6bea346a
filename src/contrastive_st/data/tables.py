"""Read files, folders and Hub data sets into a `datasets.Dataset` of text columns."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from contrastive_st.data.readers import check_file, check_utf8, open_rows, path_of, reading
from contrastive_st.data.reading import TABLES, Row, Table
from contrastive_st.data.reading.content import format_of
from contrastive_st.data.reading.sources import HUB_NAME as HUB_NAME, hub_commit as hub_commit, is_saved, stored
from contrastive_st.errors import InputError

logger = logging.getLogger(__name__)

CHUNK = 65_536  # most rows held at a time as Python strings or as an Arrow batch
PREVIEWED = 1000  # rows read to find out what a column holds

Columns = Sequence[str | int] | None


def read_texts(
    source: str,
    columns: Sequence[str | int] | None = None,
    *,
    strict: bool = False,
    split: str = "train",
    header: bool | None = None,
) -> datasets.Dataset:
    """Read one or more columns of text; white space around each cell is removed.

    | source           | what is in it                                                               |
    |------------------|-----------------------------------------------------------------------------|
    | `.txt`           | one sentence per line, in a column `text`; commas and quotes mean nothing.  |
    |                  | A file of SNLI, QQP, MRPC, SICK or the STS benchmark is read as a table     |
    | `.csv`           | rows; cells with commas, quotes or line ends are quoted                     |
    | `.tsv`           | rows; tabs separate the cells, quotes mean nothing                          |
    | `.json` `.jsonl` | one object per line, or one list of objects                                 |
    | `.parquet`       | only the columns wanted are read, memory-mapped                             |
    | a folder         | written by `save_to_disk` of `datasets`; its `split` if it has splits       |
    | anything else    | the `split` of a data set of the Hub, "owner/name" or "owner/name:config",  |
    |                  | or a name of `PAIR_SETS`                                                    |

    If the first row of a table does not look like names of columns, it is data, and the columns are `0`, `1`, ...; a
    line of the log says so. A row with a blank or null cell in one of the columns is dropped; one warning says how many
    were.

    Args:
        source: a file, a folder or the name of a data set.
        columns: the columns wanted, in that order, by name or by position from 0. By default all columns that
            hold strings. A column of numbers is read as text if you name it.
        strict: raise an error for a blank cell instead.
        split: which split to read, of a data set of the Hub or of a saved folder; files have no splits.
        header: whether the first row of a table holds the names of the columns; by default it does if you name a
            column, and else `contrastive_st.data.columns.find_header` finds out.

    Raises:
        InputError: the source cannot be read as described, or no rows are left. The message says what is wrong, where
            (the header of a table is row 1) and how to mend it.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "pairs.csv")
        ...     _ = path.write_text('id,question,answer\\n1,Why?,"Well, because."\\n')
        ...     read_texts(str(path), ["answer", 1])[0]
        {'answer': 'Well, because.', 'question': 'Why?'}
    """
    columns = [columns] if isinstance(columns, (str, int)) else columns
    return read_columns(source, columns, strict, split, header_of(columns, header))


def read_columns(
    source: str,
    columns: Columns,
    strict: bool = False,
    split: str = "train",
    header: bool | None = None,
    gold: str | None = None,
    only_strings: bool = False,
) -> datasets.Dataset:
    """`read_texts`, with a column `gold` that may be blank, and refusing numbers in the others if `only_strings`."""
    path = _file(source)
    if path is None:
        return _tidied(_text_columns(stored(source, split), columns, source), source, strict, gold)
    if path.suffix.lower() == ".parquet":
        return _tidied(_from_parquet(path, columns, source), source, strict, gold)
    return _from_rows(open_rows(path, source, header), columns, strict, gold, only_strings)


def header_of(columns: Columns, header: bool | None = None) -> bool | None:
    """Whether a table has a header, as far as it is said: whoever names a column says that there are names."""
    named = any(not str(column).partition("=")[0].isdecimal() for column in columns or [])
    return True if header is None and named else header


def stream_texts(source: str, column: str | int | None = None, name: str | None = None) -> Callable[[], Iterator[str]]:
    """A function that streams the texts of one column of a source of any size; each call starts from the first row.

    White space around texts is removed. No row is dropped: a blank or null cell is an empty text.

    Args:
        source: as for `read_texts`.
        column: the column, by name or position; by default the first that has strings in the first rows.
        name: name of the source in messages.

    Raises:
        InputError: as for `read_texts`; an error in a later row is raised when that row is read.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "lines.txt")
        ...     _ = path.write_text("one\\n\\n three\\n")
        ...     list(stream_texts(str(path))())
        ['one', '', 'three']
    """
    rows = rows_of(source, name, header=header_of(None if column is None else [column]))
    _say(rows)
    names, texts = _columns_of(rows)
    report(
        len(list(islice(rows, 1))), 0, 0, rows.unit, rows.source, strict=False
    )  # a file with only a header has no rows
    chosen = choose(None if column is None else [column], names, texts, rows.source)[0]
    return lambda: (_as_text(cells.get(chosen), chosen, rows, number).strip() for number, cells in rows)


def rows_of(
    source: str,
    name: str | None = None,
    split: str = "train",
    header: bool | None = None,
    columns: Sequence[str] | None = None,
) -> Table:
    """The rows of a source as a stream; of Parquet files and data sets `columns`, by default those without lists."""
    path = _file(source)
    return _stored_rows(source, split, columns) if path is None else open_rows(path, name or source, header)


def _say(rows: Table) -> None:
    rows.say()


def first_row(source: str, fits: Callable[[dict[str, Any]], bool], split: str, header: bool | None) -> str:
    """The place of the first row whose cells fit, for a message; the source if there is none."""
    rows = rows_of(source, split=split, header=header)
    return next((rows.where(number) for number, cells in rows if fits(cells)), rows.source)


def _stored_rows(source: str, split: str = "train", columns: Sequence[str] | None = None) -> Table:
    """The rows of what `stored` opens; by default without columns of lists and other nested types."""
    data = stored(source, split)
    flat = [field.name for field in data.features.arrow_schema if not pa.types.is_nested(field.type)]
    chosen = flat if columns is None else list(columns)

    def read() -> Iterator[Row]:
        batches = data.select_columns(chosen).with_format("arrow").iter(batch_size=CHUNK)
        return (Row(number, cells) for number, cells in enumerate((c for b in batches for c in b.to_pylist()), 1))

    return Table(source, "row", read)


def _columns_of(rows: Table) -> tuple[list[str], list[str]]:
    """The columns of the rows, and those of them that hold only strings."""
    found = rows.profile
    texts = [name for name, column in found.items() if 0 < column.count == column.texts]
    return list(found), texts or [name for name, column in found.items() if not column.count]


def preview(
    source: str, split: str = "train", columns: Columns = None, header: bool | None = None
) -> list[dict[str, Any]]:
    """The first rows of a source, with all columns and unchanged cells.

    Args:
        source: as for `read_texts`.
        split: as for `read_texts`.
        columns: the columns that will be wanted, which may say whether there is a header.
        header: as for `read_texts`.
    """
    path = _file(source)
    if path is None:
        data = stored(source, split)
        return list(data.select(range(min(PREVIEWED, len(data)))))
    return [row.cells for row in islice(open_rows(path, source, header_of(columns, header)), PREVIEWED)]


def _file(source: str) -> Path | None:
    """The path of a file of rows; None for a source that `stored` opens."""
    path, known = path_of(source), ", ".join(TABLES)
    with reading(source):
        if path.is_dir():
            if is_saved(path):
                return None
            raise InputError(f"{source} is a folder; name one file in it ({known})")
        if format_of(path) in TABLES:
            return path
        if path.exists() or path.is_symlink():
            kind = path.suffix or "no extension"
            raise InputError(f"{source}: no reader for {kind}; rename it to one of {known}")
    return None


# --- Choice of columns, and the report on dropped rows.


def choose(columns: Columns, names: Sequence[str], texts: Sequence[str], source: str) -> list[str]:
    """The names of the columns wanted, given by name or by position in `names`; by default `texts`.

    A string of digits is a position if no column has that name, because a command line only gives strings.

    Example:
        >>> choose(["text", 0, "2"], ["id", "text", "title"], ["text", "title"], "a.csv")
        ['text', 'id', 'title']
    """
    for name in names:
        if list(names).count(name) > 1:
            raise InputError(f"{source}: two columns are named {name!r}; rename one of them")
    there = ", ".join(names) or "(there are none)"
    if not (texts if columns is None else columns):
        raise InputError(f"{source}: no column of text; name one or more of {there}")
    chosen: list[str] = []
    for column in texts if columns is None else columns:
        if column not in names and str(column).isdecimal() and int(column) < len(names):
            column = names[int(column)]
        if column not in names:
            raise InputError(f"{source}: there is no column {column!r}; name one or more of {there}")
        if column in chosen:
            raise InputError(f"{source}: column {column!r} is named twice; name each column once")
        chosen.append(str(column))
    return chosen


def report(total: int, dropped: int, first: int, unit: str, source: str, strict: bool) -> None:
    """Raise if no row is left, or for the first blank cell if `strict`; else log how many rows were dropped."""
    if total == 0:
        raise InputError(f"{source}: there are no {'row' if unit == 'line' else unit}s; it needs at least one sentence")
    if dropped and strict:
        raise InputError(f"{source}, {unit} {first}: a cell is blank; fill it, or leave `strict` out to drop the row")
    if dropped == total:
        raise InputError(f"{source}: all {total} {unit}s have a blank cell; name other columns, or fill them")
    if dropped:
        what = f"dropped {dropped} of {total} {unit}s, which have a blank cell"
        logger.warning("%s: %s; the first is %s %d", source, what, unit, first)


# --- Table -> a data set in memory.


def _from_rows(
    rows: Table, columns: Columns, strict: bool, gold: str | None = None, only_strings: bool = False
) -> datasets.Dataset:
    _say(rows)
    there, texts = _columns_of(rows)
    names = choose(columns, there, texts, rows.source) if there else []
    chunks: list[pa.Table] = []
    kept: list[list[str]] = [[] for _ in names]  # by column: a list of rows would slow the garbage collector
    total = dropped = first = 0
    for number, cells in rows:
        total += 1
        if only_strings:
            _check_strings(cells, names, gold, rows, number)
        texts = [_as_text(cells.get(name), name, rows, number).strip() for name in names]
        if all(text or name == gold for name, text in zip(names, texts, strict=True)):
            for column, text in zip(kept, texts, strict=True):
                column.append(text)
        else:
            dropped, first = dropped + 1, first or number
            if strict:
                break
        if kept and len(kept[0]) == CHUNK:
            chunks.append(_arrow(names, kept))
            kept = [[] for _ in names]
    report(total, dropped, first, rows.unit, rows.source, strict)
    if not names:
        choose(columns, [], [], rows.source)
    return datasets.Dataset(datasets.table.InMemoryTable(pa.concat_tables([*chunks, _arrow(names, kept)])))


def _check_strings(cells: dict[str, Any], names: Sequence[str], gold: str | None, rows: Table, number: int) -> None:
    for name in names:
        cell = cells.get(name)
        if name != gold and cell is not None and not isinstance(cell, str):
            what = f"{name!r} is {json.dumps(cell, default=str)[:40]}, not a text"
            raise InputError(f"{rows.where(number)}: {what}; put quotes around it, or write null for a missing text")


def _as_text(cell: Any, name: str, rows: Table, number: int) -> str:
    if isinstance(cell, (list, dict, bytes)):
        raise InputError(f"{rows.where(number)}: {name!r} holds a list, an object or bytes; name a column of text")
    if not isinstance(cell, str):
        if isinstance(cell, float) and not math.isfinite(cell):
            what = f"{name!r} is {cell}, neither a text nor a number"
            raise InputError(f"{rows.where(number)}: {what}; write null for a missing text, or leave the row out")
        return "" if cell is None else json.dumps(cell, default=str)
    if not cell.isascii():
        try:
            cell.encode()
        except UnicodeEncodeError:  # JSON can have a lone surrogate, which is not a character
            what = f"{cell[:40]!a} has a lone surrogate, which is not a character"
            raise InputError(f"{rows.where(number)}: {what}; remove it") from None
    return cell


def _arrow(names: list[str], columns: list[list[str]]) -> pa.Table:
    return pa.table([pa.array(column, pa.string()) for column in columns], names=names)


# --- Parquet files, saved folders and Hub data sets stay on disk: `datasets` memory-maps them, Arrow strips the cells.


def _from_parquet(path: Path, columns: Columns, source: str) -> datasets.Dataset:
    check_file(path, source)
    with reading(source):
        with pq.ParquetFile(path) as file:
            schema, count = file.schema_arrow, file.metadata.num_rows
        texts = [field.name for field in schema if _is_text(field.type)]
        names = choose(columns, schema.names, texts, source)
        report(count, 0, 0, "row", source, strict=False)  # `datasets` fails on a table without rows
        try:
            return datasets.Dataset.from_parquet(str(path), columns=names, batch_size=CHUNK).select_columns(names)
        except datasets.exceptions.DatasetGenerationError as error:
            raise error.__cause__ or error from None


def _text_columns(data: datasets.Dataset, columns: Columns, source: str) -> datasets.Dataset:
    schema = data.features.arrow_schema
    texts = [name for name in data.column_names if _is_text(schema.field(name).type)]
    return data.select_columns(choose(columns, data.column_names, texts, source))


def _tidied(data: datasets.Dataset, source: str, strict: bool, gold: str | None = None) -> datasets.Dataset:
    """Strip the cells and drop rows with blank ones; a data set that needs neither is returned as it is."""
    for field in data.features.arrow_schema:
        if pa.types.is_nested(field.type) or field.type in (pa.binary(), pa.large_binary()):
            raise InputError(f"{source}: column {field.name!r} holds {field.type}, not text; name another column")
    dropped = first = seen = 0
    clean = all(feature.dtype == "string" for feature in data.features.values())
    for table in data.with_format("arrow").iter(batch_size=CHUNK):
        check_utf8(table, source, seen)
        stripped, whole = _stripped(table, gold)
        clean = clean and stripped.equals(table)
        blanks = len(whole) - (pc.sum(whole).as_py() or 0)
        if blanks and not dropped:
            first = seen + whole.index(False).as_py() + 1
        dropped, seen = dropped + blanks, seen + len(whole)
    report(seen, dropped, first, "row", source, strict)
    if clean and not dropped:
        return data
    features = datasets.Features({name: datasets.Value("string") for name in data.column_names})
    data = data.with_format("arrow").map(
        _without_blanks,
        batched=True,
        batch_size=CHUNK,
        features=features,
        fn_kwargs={"gold": gold},
        desc=f"tidying {source}",
    )
    return data.with_format(None)


def _without_blanks(table: pa.Table, gold: str | None) -> pa.Table:
    stripped, whole = _stripped(table, gold)
    return stripped.filter(whole)


def _stripped(table: pa.Table, gold: str | None) -> tuple[pa.Table, pa.ChunkedArray]:
    """A batch with stripped cells, and for each row whether it has no blank cell apart from that of `gold`."""
    columns = [pc.utf8_trim_whitespace(column.cast(pa.string())) for column in table.columns]
    whole = pa.chunked_array([pa.repeat(True, len(table))])
    for name, column in zip(table.column_names, columns, strict=True):
        if name != gold:
            whole = pc.and_(whole, pc.fill_null(pc.greater(pc.utf8_length(column), 0), False))
    return pa.table(columns, names=table.column_names), whole


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
