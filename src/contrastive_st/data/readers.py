"""Files and Hub data sets -> a `datasets.Dataset` of text columns; faults are named with their place.

Text formats go one way: a reader yields rows of cells and says where each came from, one function strips,
drops and counts. Parquet files and Hub data sets stay on disk: `datasets` maps them, Arrow strips the cells.
"""

from __future__ import annotations

import csv
import json
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from contrastive_st.errors import InputError

logger = logging.getLogger(__name__)

EXTENSIONS = (".txt", ".csv", ".tsv", ".json", ".jsonl", ".parquet")
HUB_NAME = re.compile(r"(?P<name>[\w-][\w.-]*(/[\w.-]+)?)(:(?P<config>[\w.-]+))?")
CHUNK = 65_536  # rows that are Python strings at any one time; the others are in Arrow already

Columns = Sequence[str | int] | None
Row = tuple[int, Sequence[Any]]  # the 1-based number of a line or row, and its cells


def read_texts(
    source: str, columns: Sequence[str | int] | None = None, *, strict: bool = False, split: str = "train"
) -> datasets.Dataset:
    """Read one or more columns of text, each cell stripped of the white space around it.

    | source           | what is in it                                                               |
    |------------------|-----------------------------------------------------------------------------|
    | `.txt`           | a sentence a line, in a column named `text`; commas and quotes mean nothing |
    | `.csv`           | a header, then rows; cells that hold commas, quotes or line ends are quoted |
    | `.tsv`           | a header, then rows; tabs part the cells, quotes mean nothing               |
    | `.json` `.jsonl` | an object a line, or one list of objects                                    |
    | `.parquet`       | memory-mapped: only the columns wanted, and never as a whole in memory      |
    | anything else    | a data set of the Hub, "owner/name" or "owner/name:config"; of it, `split`  |

    A row with a blank or null cell in one of the columns is dropped; one warning tells how many were.

    Args:
        source: a file or the name of a data set.
        columns: the columns wanted, in that order, by name or by position from 0. By default all columns that
            hold strings. A column of numbers is read as text where it is named.
        strict: raise for a blank cell instead.
        split: which part of a data set of the Hub; files have one part only.

    Raises:
        InputError: the source cannot be read as above, or nothing is left of it. Says what, where (the header
            of a table is row 1) and how to mend it.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "pairs.csv")
        ...     _ = path.write_text('id,question,answer\\n1,Why?,"Well, because."\\n')
        ...     read_texts(str(path), ["answer", 1])[0]
        {'answer': 'Well, because.', 'question': 'Why?'}
    """
    if isinstance(columns, (str, int)):
        columns = [columns]
    path = Path(source).expanduser()
    kind = path.suffix.lower()
    if path.is_dir():
        raise InputError(f"{source} is a folder; name one file in it ({', '.join(EXTENSIONS)})")
    if kind not in EXTENSIONS:
        if path.exists():
            raise InputError(
                f"{source}: no reader for {kind or 'no extension'}; rename it to one of {_any_of(EXTENSIONS)}"
            )
        return _tidy(_from_hub(source, columns, split), source, strict)
    try:
        if path.stat().st_size == 0:
            raise InputError(f"{source}: the file is empty; it needs at least one sentence")
        if kind == ".parquet":
            return _tidy(_from_parquet(path, columns, source), source, strict)
        read = {".txt": _txt, ".csv": _csv, ".tsv": _csv, ".json": _json, ".jsonl": _json}[kind]
        return _collect(*read(path, columns, source), source, strict)
    except FileNotFoundError:
        raise InputError(f"{source}: there is no such file; check the path (seen from {Path.cwd()})") from None
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror or error}; check its permissions") from error


def choose(columns: Columns, names: Sequence[str], texts: Sequence[str], source: str) -> list[str]:
    """The names of the wanted columns: those of `texts` by default, else by name, or by position in `names`.

    A string of digits is a position where no column has that name: a command line gives nothing but strings.

    Example:
        >>> choose(["text", 0, "2"], ["id", "text", "title"], ["text", "title"], "a.csv")
        ['text', 'id', 'title']
    """
    for name in names:
        if list(names).count(name) > 1:
            raise InputError(f"{source}: two columns are named {name!r}; rename one of them")
    if not (texts if columns is None else columns):
        raise InputError(f"{source}: no column of text; name one or more of {_any_of(names)}")
    chosen: list[str] = []
    for column in texts if columns is None else columns:
        if column not in names and str(column).isdecimal() and int(column) < len(names):
            column = names[int(column)]
        if column not in names:
            raise InputError(f"{source}: there is no column {column!r}; name one or more of {_any_of(names)}")
        if column in chosen:
            raise InputError(f"{source}: column {column!r} is asked for twice; name each column once")
        chosen.append(str(column))
    return chosen


# ---- readers of one format each: the columns, what a row is called there, and the rows


def _txt(path: Path, columns: Columns, source: str) -> tuple[list[str], str, Iterator[Row]]:
    names = choose(columns, ["text"], ["text"], source)
    return names, "line", ((number, [line]) for number, line in _lines(path, source))


def _csv(path: Path, columns: Columns, source: str) -> tuple[list[str], str, Iterator[Row]]:
    table = _table(path, source)
    header = [name.strip() for name in next(table)[1]]
    if not any(header):
        raise InputError(f"{source}, row 1: blank; it must hold the names of the columns")
    names = choose(columns, header, header, source)
    wanted = [header.index(name) for name in names]

    def rows() -> Iterator[Row]:
        for number, cells in table:
            if cells and len(cells) != len(header):
                mend = "quote cells that hold commas" if _is_csv(path) else "take the tabs out of cells"
                if len(cells) < len(header):
                    mend = "add those that are missing"
                count = f"{len(cells)} cells where the header has {len(header)}"
                raise InputError(f"{source}, row {number}: {count}; {mend}")
            yield number, [cells[i] for i in wanted] if cells else [""]

    return names, "row", rows()


def _table(path: Path, source: str) -> Iterator[tuple[int, list[str]]]:
    lines = (line for _, line in _lines(path, source))
    if _is_csv(path):
        reader = csv.reader(lines, strict=True)  # else a quote never closed swallows the rest in silence
    else:
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    number = 0
    try:
        for number, cells in enumerate(reader, 1):
            yield number, cells
    except csv.Error as error:
        mend = "close every quote, and double those inside of a cell"
        raise InputError(f"{source}, row {number + 1}: {error}; {mend}") from error


def _json(path: Path, columns: Columns, source: str) -> tuple[list[str], str, Iterator[Row]]:
    unit, numbered = _objects(path, source)
    for number, item in numbered:
        if not isinstance(item, dict):
            raise InputError(f"{source}, {unit} {number}: not an object; write one {{...}} per sentence")
    if not numbered:
        raise InputError(f"{source}: there are no objects; it needs at least one sentence")
    kinds: dict[str, set[type]] = {}
    for _, item in numbered:
        for key, cell in item.items():
            kinds.setdefault(key, set()).add(type(cell))
    texts = [key for key, found in kinds.items() if found - {type(None)} == {str}]
    names = choose(columns, list(kinds), texts, source)
    for name in names:
        if kinds[name] & {list, dict}:
            number = next(number for number, item in numbered if isinstance(item.get(name), (list, dict)))
            what = f"{name!r} holds a list or an object"
            raise InputError(f"{source}, {unit} {number}: {what}; name a column of text")

    def rows() -> Iterator[Row]:
        for number, item in numbered:
            yield number, [_as_text(item.get(name), f"{source}, {unit} {number}") for name in names]

    return names, unit, rows()


def _objects(path: Path, source: str) -> tuple[str, list[tuple[int, Any]]]:
    numbered = list(_lines(path, source))
    filled = [(number, line) for number, line in numbered if line.strip()]
    try:
        if filled and filled[0][1].lstrip().startswith("["):
            first = 0
            return "object", list(enumerate(json.loads("".join(line for _, line in numbered)), 1))
        objects = []
        for first, line in ((number - 1, line) for number, line in filled):
            objects.append((first + 1, json.loads(line.strip())))
        return "line", objects
    except json.JSONDecodeError as error:
        what = f"{source}, line {first + error.lineno}: broken JSON ({error.msg})"
        raise InputError(f"{what}; write one object a line, or a list of objects") from error


def _lines(path: Path, source: str) -> Iterator[tuple[int, str]]:
    with open(path, "rb") as file:  # bytes: only line feeds part lines, and a bad byte is known by its line
        for number, line in enumerate(file, 1):
            try:
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                bad = f"byte 0x{line[error.start]:02x} is not UTF-8"
                raise InputError(f"{source}, line {number}: {bad}; save the file in UTF-8") from error


def _as_text(cell: Any, where: str) -> str | None:
    if cell is None or not isinstance(cell, str):
        return None if cell is None else json.dumps(cell)
    try:
        cell.encode()
    except UnicodeEncodeError:  # JSON can spell half of a surrogate pair, which is no character
        raise InputError(f"{where}: {cell[:40]!a} holds half of a surrogate pair; take it out") from None
    return cell


# ---- rows -> a data set in memory


def _collect(names: list[str], unit: str, rows: Iterable[Row], source: str, strict: bool) -> datasets.Dataset:
    chunks: list[pa.Table] = []
    kept: list[list[str]] = [[] for _ in names]  # by column: the garbage collector would walk a list of rows
    total = dropped = first = 0
    for number, cells in rows:
        total += 1
        texts = [(cell or "").strip() for cell in cells]
        if all(texts):
            for column, text in zip(kept, texts, strict=True):
                column.append(text)
        else:
            dropped, first = dropped + 1, first or number
            if strict:
                break
        if len(kept[0]) == CHUNK:
            chunks.append(_arrow(names, kept))
            kept = [[] for _ in names]
    _report(total, dropped, first, unit, source, strict)
    return datasets.Dataset(datasets.table.InMemoryTable(pa.concat_tables([*chunks, _arrow(names, kept)])))


def _arrow(names: list[str], columns: list[list[str]]) -> pa.Table:
    return pa.table([pa.array(column, pa.string()) for column in columns], names=names)


def _report(total: int, dropped: int, first: int, unit: str, source: str, strict: bool) -> None:
    if total == 0:
        raise InputError(f"{source}: there are no rows; it needs at least one sentence")
    if dropped and strict:
        raise InputError(f"{source}, {unit} {first}: a cell is blank; fill it, or drop it by leaving `strict` out")
    if dropped == total:
        raise InputError(f"{source}: all {total} {unit}s have a blank cell; name other columns, or fill them")
    if dropped:
        what = f"dropped {dropped} of {total} {unit}s, as a cell is blank"
        logger.warning("%s: %s; the first is %s %d", source, what, unit, first)


# ---- what stays on disk


def _from_parquet(path: Path, columns: Columns, source: str) -> datasets.Dataset:
    try:
        with pq.ParquetFile(path) as file:
            schema, count = file.schema_arrow, file.metadata.num_rows
        texts = [field.name for field in schema if _is_text(field.type)]
        names = choose(columns, schema.names, texts, source)
        _report(count, 0, 0, "row", source, strict=False)  # `datasets` fails on a table without rows
        data = datasets.Dataset.from_parquet(str(path), columns=names, batch_size=CHUNK)
        return data.select_columns(names)
    except (pa.ArrowException, datasets.exceptions.DatasetGenerationError) as failure:
        error = failure.__cause__ or failure
        raise InputError(f"{source}: not a sound parquet file ({_first_line(error)}); write it anew") from failure


def _from_hub(source: str, columns: Columns, split: str) -> datasets.Dataset:
    match = HUB_NAME.fullmatch(source)
    if not match:
        raise InputError(f"{source}: there is no such file; check the path, of {_any_of(EXTENSIONS)}")
    try:
        data = datasets.load_dataset(match["name"], match["config"], split=split)
    except Exception as error:  # a dozen types, from not found to no network to no such split
        what = f"{source} is not a file, nor could split {split!r} of such a data set be had from the Hub"
        raise InputError(f"{what} ({type(error).__name__}: {_first_line(error)}); check the name") from error
    schema = data.features.arrow_schema
    texts = [name for name, feature in data.features.items() if _is_text(schema.field(name).type)]
    return data.select_columns(choose(columns, data.column_names, texts, source))


def _tidy(data: datasets.Dataset, source: str, strict: bool) -> datasets.Dataset:
    """Strip the cells and drop the rows that need it; a data set without such stays the file that it is."""
    for field in data.features.arrow_schema:
        if pa.types.is_nested(field.type) or field.type in (pa.binary(), pa.large_binary()):
            raise InputError(f"{source}: column {field.name!r} holds {field.type}, not text; name another")
    dropped = first = seen = 0
    clean = all(feature.dtype == "string" for feature in data.features.values())
    for table in data.with_format("arrow").iter(batch_size=CHUNK):
        stripped, whole = _stripped(table)
        clean = clean and stripped.equals(table)
        blanks = len(whole) - (pc.sum(whole).as_py() or 0)
        if blanks and not dropped:
            first = seen + whole.index(False).as_py() + 1
        dropped, seen = dropped + blanks, seen + len(whole)
    _report(seen, dropped, first, "row", source, strict)
    if clean and not dropped:
        return data
    features = datasets.Features({name: datasets.Value("string") for name in data.column_names})
    data = data.with_format("arrow").map(
        _tidied, batched=True, batch_size=CHUNK, features=features, desc=f"tidying {source}"
    )
    return data.with_format(None)


def _tidied(table: pa.Table) -> pa.Table:
    stripped, whole = _stripped(table)
    return stripped.filter(whole)


def _stripped(table: pa.Table) -> tuple[pa.Table, pa.ChunkedArray]:
    """A batch with its cells stripped, and which of its rows have no blank cell."""
    columns = [pc.utf8_trim_whitespace(column.cast(pa.string())) for column in table.columns]
    whole = pa.chunked_array([pa.repeat(True, len(table))])
    for column in columns:
        whole = pc.and_(whole, pc.fill_null(pc.greater(pc.utf8_length(column), 0), False))
    return pa.table(columns, names=table.column_names), whole


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_csv(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


def _any_of(names: Sequence[str]) -> str:
    return ", ".join(names) or "(there are none)"


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
