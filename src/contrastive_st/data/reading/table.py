"""One reader of tables: `open_table` gives the rows of any source, each with its number and all of its cells."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from contrastive_st import text_format
from contrastive_st.data.profile import number_of
from contrastive_st.data.reading import content, delimited, memory, relevance, sources
from contrastive_st.data.reading.exports import plain_rows
from contrastive_st.data.reading.objects import json_table
from contrastive_st.data.reading.rows import BATCH, Row, Table, arrow_rows, numbered, of_class, other_positions
from contrastive_st.data.roles import Columns
from contrastive_st.data.suggestions import Part
from contrastive_st.errors import InputError

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa

IN_MEMORY = 1 << 30  # bytes of Parquet files whose columns are read into memory; those of larger ones stay on disk


def open_table(
    source: object,
    *,
    split: str | None = None,
    columns: Columns = None,
    name: str | None = None,
    streaming: bool = False,
) -> Table:
    """Open a source as rows of cells by column.

    | source                        | what is in it                                                             |
    |-------------------------------|---------------------------------------------------------------------------|
    | `.txt`                        | one sentence per line, in a column `text`; or a table, as SNLI comes      |
    | `.csv` `.tsv`                 | rows of cells; the header line says the delimiter (`,` `;` `|` or a tab)  |
    | `.json` `.jsonl` `.ndjson`    | one object, list of cells or text per line, or one list of them           |
    | `.parquet`, `.arrow`          | any columns                                                               |
    | a pattern, a list, a folder   | such files, one after the other; a folder `label=yes` in them is a column |
    | a folder of `save_to_disk`    | its `split` if it has splits                                              |
    | anything else                 | the `split` of a data set of the Hub, "owner/name" or "owner/name:config" |

    Files may be compressed (`.gz`, `.bz2`, `.xz`, `.zst`). Text is UTF-8 or what a byte order mark says; another
    encoding is detected. Cells of delimited text stay strings. Files of other tools are recognized (`exports`).

    Args:
        source: as above; or rows in memory, as for `contrastive_st.data.reading.memory.in_memory`.
        split: which split to read; by default `train`, and a note names the others in a folder.
        columns: the columns that are asked for, as for `column_roles`.
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
    names, asked, split = sources.names_in(source), split, split or "train"
    if names is None:
        table = memory.in_memory(source, name or "the data", split)
        if isinstance(source, (list, tuple)) and source and isinstance(source[0], str):
            table = replace(table, notes=("read as a list of texts, because they are not names of files",))
        return plain_rows(table).logged()
    source = names[0] if len(names) == 1 else names
    shown = name or " ".join(map(str, names))
    folders = [path for path in map(content.path_of, names) if os.path.isdir(path)]
    if folders and len(names) == 1 and relevance.is_beir(folders[0]):
        return _beir(folders[0], shown, split)
    files = sources.files_of(source, split)
    if files is None:
        streamed = {"streaming": True} if streaming else {}  # of the Hub; a saved folder is opened as it is
        table = memory.in_memory(sources.stored(str(source), split, **streamed), shown)
    else:
        named = dict(zip(map(content.path_of, names), [shown] if len(names) == 1 else map(str, names), strict=True))
        parts = [open_file(path, named.get(path) or Part(path), columns) for path in files]
        partitions = [sources.partition_of(path, names) if "=" in str(path) else {} for path in files]
        if any(partitions):
            parts = list(map(with_cells, parts, partitions))
        table = parts[0] if len(parts) == 1 else _joined(parts, shown)
        if all(path.suffix == ".parquet" for path in files) and not any(partitions):
            table = _with_read_columns(table, files)
    if asked is None and folders and (note := sources.splits_note(folders)):
        table = replace(table, notes=(*table.notes, note))
    table = table if table.delimited and columns else plain_rows(table)
    return table.logged() if table.notes else table


def open_file(path: Path, source: str, columns: Columns = None) -> Table:
    """Open one file, whose extension says the format."""
    content.check_file(path, source)
    kind, asked = content.format_of(path), text_format.asked
    with content.reading(source):
        if kind in (".parquet", ".arrow"):
            return _arrow(path, source)
        with content.open_bytes(path) as file:
            encoding = content.encoding_of(file, source)
        lines = partial(content.text_lines, path, source, encoding)
        notes = () if encoding == "utf-8" else tuple(filter(None, [content.encoding_note(encoding)]))
        if kind not in (".txt", ".csv", ".tsv"):
            return json_table(path, source, lines, notes)
        if kind == ".txt" and asked.delimiter is None and not delimited.is_table(lines, source):
            notes += (delimited.MAYBE_A_TABLE,) * delimited.has_tabs(lines())
            texts = lambda: (Row(number, {"text": line.rstrip("\r\n")}) for number, line in enumerate(lines(), 1))
            return Table(source, "line", texts, ["text"], notes)
        named = [columns] if isinstance(columns, (str, int)) else columns or ()
        requested = [name for one in named if not (name := str(one).partition("=")[0]).isdecimal()]
        dialect = delimited.find_dialect(lines, source, "," if kind == ".csv" else "\t", kind == ".txt", requested)

    def read() -> Iterator[Row]:
        for number, written in delimited.numbered_rows(dialect, lines(), source):
            yield Row(number, dict(zip(dialect.names, map(dialect.cell, written), strict=False)))

    plain = encoding.startswith("utf-8") and path.suffix.lower() not in content.COMPRESSED
    return Table(
        source, "row", read, dialect.names, notes + dialect.notes, delimited=True, first=1 + dialect.header,
        read_columns=partial(delimited.columns_of_csv, path, dialect, {}) if plain else None,
    )  # fmt: skip


def with_cells(table: Table, cells: Mapping[str, str | None]) -> Table:
    """A table with columns of a path, new ones or in place of its own, which have the same cells in each row."""
    if not cells:
        return table
    names = None if table.columns is None else list(dict.fromkeys([*table.columns, *cells]))
    read = lambda: (row._replace(cells={**row.cells, **cells}) for row in table)
    schema = table.schema
    if schema is not None:
        import pyarrow as pa

        schema = pa.schema({**dict(zip(schema.names, schema.types, strict=True)), **dict.fromkeys(cells, pa.string())})
    return replace(table, read=read, columns=names, schema=schema, read_columns=None, of_path=frozenset(cells))


def open_judgements(path: Path) -> Table:
    """Open a file of judgements, which has no header unless its cells are names of the columns of judgements."""
    if content.format_of(path) in relevance.TREC:
        return relevance.trec_table(path)
    first = next(content.numbered_lines(path), (1, ""))[1] if content.format_of(path) in (".csv", ".tsv") else ""
    with text_format.reading_as(header=relevance.names_of_judgements(first)):
        return open_file(path, str(path))


def open_entries(path: Path) -> Table:
    """Open a file of documents or queries, whose columns have known names: which are meant is not asked."""
    try:
        return open_table(path)
    except InputError as error:
        raise InputError(re.sub(r" --columns .+?(?=; if )", "", str(error))) from None


def _with_read_columns(table: Table, files: Sequence[Path]) -> Table:
    """The table of Parquet files, to be read at once if `datasets` has the types of its columns, as it has no map."""
    import datasets
    import pyarrow.parquet as pq

    if table.schema is None or any(memory.stored_classes(pq.read_schema(path)) != table.classes for path in files):
        return table  # the numbers of its classes are those of one file alone
    with contextlib.suppress(ValueError):
        datasets.Features.from_arrow_schema(table.schema)
        return replace(table, read_columns=partial(_columns_of_parquet, files))
    return table


def _columns_of_parquet(files: Sequence[Path], names: Sequence[str]) -> datasets.Dataset | pa.Table:
    """Some columns of Parquet files, in memory if they are small, else mapped from disk."""
    import datasets
    import pyarrow as pa
    import pyarrow.parquet as pq

    if sum(path.stat().st_size for path in files) > IN_MEMORY:
        return datasets.Dataset.from_parquet([str(path) for path in files], columns=names).select_columns(list(names))
    read = partial(pq.read_table, columns=list(names), memory_map=True)
    return pa.concat_tables(map(read, files), promote_options="permissive")


def _arrow(path: Path, source: str) -> Table:
    """A Parquet or Arrow file, read a few thousand rows at a time; a compressed one is unpacked into memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def opened() -> pa.NativeFile:
        if path.suffix.lower() not in content.COMPRESSED:
            return pa.memory_map(str(path))
        with content.open_bytes(path) as file:
            return pa.BufferReader(file.read())

    if content.format_of(path) == ".parquet":
        batches = lambda: pq.ParquetFile(opened()).iter_batches(BATCH)
        schema = pq.read_schema(opened())
        names, classes = delimited.distinct(schema.names, source), memory.stored_classes(schema)
        return Table(source, "row", lambda: arrow_rows(batches()), names, schema=schema, classes=classes)
    mapped = opened()
    try:
        reader = pa.ipc.open_file(mapped)
    except pa.ArrowInvalid:  # a stream in a file, as `datasets` writes it
        mapped.seek(0)
        reader = pa.ipc.open_stream(mapped)
    return memory.of_arrow(reader.read_all(), source)


def _beir(folder: Path, source: str, split: str) -> Table:
    def part(name: str, opened: Callable[[Path], Table] = open_entries) -> Table:
        return opened(next(path for path in sources.files_of(str(folder / f"{name}.*")) or () if path.is_file()))

    relevant: dict[str, list[str]] = {}
    for query, document, grade, _ in relevance.judgements(part(f"qrels/{split}", open_judgements)):
        if grade > 0:
            relevant.setdefault(query, []).append(document)

    def read() -> Iterator[Row]:
        judged = set(chain(*relevant.values()))
        text_of = {entry.id: entry.titled for entry in relevance.entries(part("corpus")) if entry.id in judged}
        pairs = ((one.titled, key) for one in relevance.entries(part("queries")) for key in relevant.get(one.id, ()))
        return numbered({"query": query, "positive": text_of.get(document)} for query, document in pairs)

    notes = ("read as a folder of BEIR: queries and what is relevant",)
    return Table(source, "pair", read, ["query", "positive"], notes)


def _joined(parts: Sequence[Table], source: str) -> Table:
    """Tables one after the other; a column that one of them lacks is missing in its rows.

    The classes of a column of `datasets.ClassLabel` are those of all tables; if a table has other cells there, the
    cells are their names; numbers that may be places in the `ClassLabel` are refused.
    """
    files: list[tuple[int, str]] = []
    named = dict.fromkeys(name for part in parts for name in part.classes)
    shared = [name for name in named if all(name in part.classes for part in parts)]
    classes = {name: list(dict.fromkeys(chain(*(part.classes[name] for part in parts)))) for name in shared}
    order = {name: list(map(number_of, part.classes[name])) for part in reversed(parts) for name in part.classes}

    def refuse(part: Table, name: str, number: int) -> None:
        what = f"column {name!r} has numbers, and other files have names for their classes there"
        raise InputError(f"{part.where(number)}: {what}; in all files, write names that are not numbers")

    def read() -> Iterator[Row]:
        before, number = 0, 0
        files.clear()
        for part in parts:
            files.append((before, part.source))
            values = {name: list(map(classes[name].index, class_names)) if name in classes else class_names
                      for name, class_names in part.classes.items()}  # fmt: skip
            bare: dict[str, dict[float, int]] = {name: {} for name in named if name not in values}
            for row in part:
                number = before + row.number
                labels = {name: of_class(row.cells[name], class_names) for name, class_names in values.items()}
                for name, numbers in bare.items():
                    if (value := number_of(cell := row.cells.get(name))) is not None:
                        numbers.setdefault(value, row.number)
                    if isinstance(cell, int):
                        refuse(part, name, row.number)
                yield Row(number, {**row.cells, **labels})
            for name, numbers in bare.items():  # of delimited text, whose cells may be names such as "2020"
                if wrong := [*other_positions(order[name], numbers)]:
                    refuse(part, name, numbers[wrong[0]])
            before = number

    several = [part.columns for part in parts if part.columns is not None]
    names = list(dict.fromkeys(chain(*several))) if len(several) == len(parts) else None
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    return Table(source, parts[0].unit, read, names, notes, files, schema=_joined_schema(parts), classes=classes)


def _joined_schema(parts: Sequence[Table]) -> pa.Schema | None:
    """The types of the columns of tables one after the other, if all have types, which go together."""
    schemas = [part.schema for part in parts if part.schema is not None]
    if len(schemas) == len(parts):
        import pyarrow as pa

        with contextlib.suppress(pa.ArrowInvalid, pa.ArrowTypeError):  # a column has different types
            return pa.unify_schemas(schemas, promote_options="permissive")
    return None
