"""One reader of tables: `open_table` gives the rows of any source, each with its number and all of its cells."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive_st.data.reading.content import check_file, encoding_of, format_of, open_bytes, reading, text_lines
from contrastive_st.data.reading.delimited import (
    MAYBE_A_TABLE,
    distinct,
    find_layout,
    is_table,
    looks_like_table,
    numbered_rows,
)
from contrastive_st.data.reading.layouts import plain_rows
from contrastive_st.data.reading.memory import in_memory, stored_classes
from contrastive_st.data.reading.objects import json_rows
from contrastive_st.data.reading.relevance import entries, is_beir, judgements, relevant_pairs
from contrastive_st.data.reading.rows import BATCH, Row, Table, arrow_rows, of_class
from contrastive_st.data.reading.sources import files_of, is_saved, names_in, path_of, splits_of, stored
from contrastive_st.errors import InputError

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa


def open_table(
    source: Any,
    *,
    split: str | None = None,
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
        source: as above; or rows in memory, as for `contrastive_st.data.reading.memory.in_memory`.
        split: which split to read; by default `train`, and a note names the others in a folder.
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
    names, asked, split = names_in(source), split, split or "train"
    if names is None:
        return plain_rows(_held(source, name or "the data", split)).said()
    source = names[0] if len(names) == 1 else names
    shown = name or " ".join(map(str, names))
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
    others = [own for own in splits_of(path_of(names[0])) if own != split] if len(names) == 1 else []
    if others and asked is None:
        table = replace(table, notes=(*table.notes, f"only split {split} is read, not {', '.join(others)}"))
    return plain_rows(table).said()


def _held(source: Any, name: str, split: str) -> Table:
    table = in_memory(source, name, split)
    if isinstance(source, (list, tuple)) and source and isinstance(source[0], str):
        return replace(table, notes=("read as a list of texts, because they are not names of files",))
    return table


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
    notes = (
        ()
        if encoding.startswith("utf-8")
        else (f"not UTF-8: read as {encoding}; if its texts look wrong, save it in UTF-8",)
    )
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

    schemas = [pq.read_schema(path) for path in files]
    if any(stored_classes(schema) != table.classes for schema in schemas):
        return table  # the numbers of its classes are those of one file alone
    with contextlib.suppress(ValueError):
        schema = pa.unify_schemas(schemas, promote_options="permissive")
        datasets.Features.from_arrow_schema(schema)
        return replace(table, mapped=partial(_mapped, files), schema=schema)
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
            yield Row(number, dict(zip(layout.names, map(layout.cell, written), strict=False)))

    return Table(source, "row", read, layout.names, notes + layout.notes, delimited=True)


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
        schema = pq.read_schema(path)
    else:
        with pa.memory_map(str(path)) as mapped:
            schema = next(iter(_ipc(mapped))).schema
    names, classes = distinct(schema.names, source), stored_classes(schema)
    return Table(source, "row", lambda: arrow_rows(batches(), source), names, classes=classes)


def _ipc(mapped: Any) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    try:
        reader = pa.ipc.open_file(mapped)
        return (reader.get_batch(i) for i in range(reader.num_record_batches))
    except pa.ArrowInvalid:
        mapped.seek(0)
        return iter(pa.ipc.open_stream(mapped))


def _stored(source: str, shown: str, split: str, streaming: bool) -> Table:
    """The rows of what `stored` opens."""
    streamed = {"streaming": True} if streaming and not is_saved(path_of(source)) else {}
    return in_memory(stored(source, split, **streamed), shown)


def _mapped(files: Sequence[Path], names: list[str]) -> datasets.Dataset:
    import datasets

    return datasets.Dataset.from_parquet([str(path) for path in files], columns=names).select_columns(names)


def _beir(folder: Path, source: str, split: str) -> Table:
    def part(name: str) -> Table:
        path = next(path for path in files_of(str(folder / f"{name}.*")) or () if path.is_file())
        return open_file(path, str(path))

    judged = part(f"qrels/{split}")
    relevant: dict[str, list[str]] = {}
    for query, document, grade, _ in judgements(judged):
        if grade > 0:
            relevant.setdefault(query, []).append(document)
    pairs = lambda: relevant_pairs(entries(part("corpus")), entries(part("queries")), relevant)
    read = lambda: (Row(*row) for row in enumerate(pairs(), 1))
    return Table(
        source, "pair", read, ["query", "positive"], ("read as a folder of BEIR: queries and what is relevant",)
    )


def _joined(parts: Sequence[Table], source: str) -> Table:
    """Tables one after the other; a column that one of them lacks is missing in its rows.

    The classes of a column of `datasets.ClassLabel` are those of all tables; if a table has other cells there, the
    cells are their names.
    """
    files: list[tuple[int, str]] = []
    named = dict.fromkeys(name for part in parts for name in part.classes)
    shared = [name for name in named if all(name in part.classes for part in parts)]
    classes = {name: list(dict.fromkeys(chain(*(part.classes[name] for part in parts)))) for name in shared}

    def read() -> Iterator[Row]:
        before, number = 0, 0
        files.clear()
        for part in parts:
            files.append((before, part.source))
            values = {name: list(map(classes[name].index, own)) if name in classes else own
                      for name, own in part.classes.items()}  # fmt: skip
            for row in part:
                number = before + row.number
                labels = {name: of_class(row.cells[name], own) for name, own in values.items()}
                if bare := [name for name in named if name not in values and isinstance(row.cells.get(name), int)]:
                    raise InputError(
                        f"{part.where(row.number)}: column {bare[0]!r} has numbers, and other files have names for "
                        "their classes there; write the names in this file too"
                    )
                yield Row(number, {**row.cells, **labels})
            before = number

    names = None
    if all(part.columns is not None for part in parts):
        names = list(dict.fromkeys(name for part in parts for name in part.columns or ()))
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    return Table(source, parts[0].unit, read, names, notes, files, classes=classes)
