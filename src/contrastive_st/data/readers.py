"""Files and Hub data sets -> a `datasets.Dataset` of text columns; faults are named with their place."""

from __future__ import annotations

import csv
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from contrastive_st.errors import InputError, first_line

# --- Lines and cells of evaluation sets: no quoting, any line end, UTF-8 or Latin-1, with a byte order mark or without.


class MissingData(InputError):
    """A file of evaluation data is not there: what needs it is reported as not run."""


def read_lines(path: str | Path) -> list[str]:
    r"""The lines of a text file, without line ends; only `\n` and `\r\n` end one.

    UTF-8, or Latin-1 where the bytes are not UTF-8 (TREC); a byte order mark is no text.

    Raises:
        MissingData: there is no such file.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "a.txt")
        ...     _ = path.write_bytes(b"caf\xe9 \x85 one\r\ntwo\n")
        ...     read_lines(path)
        ['café \x85 one', 'two']
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise MissingData(f"{path}: {error.strerror or error}; is the evaluation data complete?") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    lines = text.split("\n")  # str.splitlines would also cut at U+0085 and five other characters
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def read_cells(path: str | Path, wanted: Sequence[int], *, header: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the 1-based number of each line and its `wanted` cells; tabs part cells, quotes mean nothing.

    Further columns are allowed, blank lines are passed over.

    Raises:
        InputError: a line has too few columns; names the file and the line.
    """
    least = max(wanted) + 1
    for number, line in enumerate(read_lines(path), 1):
        if (header and number == 1) or not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) < least:
            raise InputError(
                f"{path}, line {number}: {_columns(len(cells))}, and at least {least} are needed; is it tab-separated?"
            )
        yield number, [cells[i] for i in wanted]


def number_in(cell: str, path: str | Path, line: int) -> float:
    """The finite number in a cell, or an error that names the place."""
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if value - value != 0:  # NaN and infinities
        raise InputError(f"{path}, line {line}: {cell!r} is no number; expected a score there")
    return value


def tidy(text: str) -> str:
    """Single spaces between words, none around: what SentEval makes of a line by splitting and joining it."""
    return " ".join(text.split())


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


# --- Rows of text, table and parquet files, one at a time, each with the place it stands at.

TableRow = tuple[str, dict[str, Any]]  # "file, line 3", and the cells by column
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]+)?")
_BATCH = 4096
_SAMPLE = 4 << 20


def lines(path: Path) -> Iterator[TableRow]:
    """A text file: one column, `text`."""
    for where, line in _numbered(path, "line"):
        yield where, {"text": line}


def objects(path: Path) -> Iterator[TableRow]:
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


def comma_separated(path: Path) -> Iterator[TableRow]:
    """CSV with a header; cells that hold commas, quotes or line ends are quoted."""
    return _table(path, delimiter=",", strict=True)


def tab_separated(path: Path) -> Iterator[TableRow]:
    """Tab-separated with a header; quotes mean nothing."""
    return _table(path, delimiter="\t", quoting=csv.QUOTE_NONE)


def parquet_rows(path: Path) -> Iterator[TableRow]:
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
        raise InputError(f"{path}: not a sound parquet file ({first_line(error)}); write it anew") from error


READERS: dict[str, Callable[[Path], Iterator[TableRow]]] = {
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


def _table(path: Path, **dialect: Any) -> Iterator[TableRow]:
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


# --- Which columns of a source are wanted, and what is said of the rows that had to go.

logger = logging.getLogger(__name__)

Columns = Sequence[str | int] | None


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
        raise InputError(f"{source}: no column of text; name one or more of {any_of(names)}")
    chosen: list[str] = []
    for column in texts if columns is None else columns:
        if column not in names and str(column).isdecimal() and int(column) < len(names):
            column = names[int(column)]
        if column not in names:
            raise InputError(f"{source}: there is no column {column!r}; name one or more of {any_of(names)}")
        if column in chosen:
            raise InputError(f"{source}: column {column!r} is asked for twice; name each column once")
        chosen.append(str(column))
    return chosen


def report(total: int, dropped: int, first: int, unit: str, source: str, strict: bool) -> None:
    """Raise where nothing is left, or for the first blank cell if `strict`; else tell how many rows were dropped."""
    if total == 0:
        raise InputError(f"{source}: there are no rows; it needs at least one sentence")
    if dropped and strict:
        raise InputError(f"{source}, {unit} {first}: a cell is blank; fill it, or drop it by leaving `strict` out")
    if dropped == total:
        raise InputError(f"{source}: all {total} {unit}s have a blank cell; name other columns, or fill them")
    if dropped:
        what = f"dropped {dropped} of {total} {unit}s, as a cell is blank"
        logger.warning("%s: %s; the first is %s %d", source, what, unit, first)


def any_of(names: Sequence[str]) -> str:
    """The names, to show in a message."""
    return ", ".join(names) or "(there are none)"


# --- Text files -> rows of cells, each with the number of its line or row -> a data set in memory.

CHUNK = 65_536  # rows that are Python strings at any one time; the others are in Arrow already

Row = tuple[int, Sequence[Any]]  # the 1-based number of a line or row, and its cells


def read_text_file(path: Path, columns: Columns, source: str, strict: bool) -> datasets.Dataset:
    """Read a .txt, .csv, .tsv, .json or .jsonl file; see `contrastive_st.data.read_texts`."""
    read = {".txt": _txt, ".csv": _csv, ".tsv": _csv, ".json": _json, ".jsonl": _json}[path.suffix.lower()]
    return _collect(*read(path, columns, source), source, strict)


# ---- one format each: the columns, what a row is called there, and the rows


def _txt(path: Path, columns: Columns, source: str) -> tuple[list[str], str, Iterator[Row]]:
    names = choose(columns, ["text"], ["text"], source)
    return names, "line", ((number, [line]) for number, line in numbered_lines(path, source))


def _csv(path: Path, columns: Columns, source: str) -> tuple[list[str], str, Iterator[Row]]:
    table = _texts_table(path, source)
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


def _texts_table(path: Path, source: str) -> Iterator[tuple[int, list[str]]]:
    lines = (line for _, line in numbered_lines(path, source))
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
    numbered = list(numbered_lines(path, source))
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


def numbered_lines(path: Path, source: str) -> Iterator[tuple[int, str]]:
    """The lines of a file in UTF-8, counted from 1; a byte that is none is named with its line."""
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


def _is_csv(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


# ---- rows -> a data set


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
    report(total, dropped, first, unit, source, strict)
    return datasets.Dataset(datasets.table.InMemoryTable(pa.concat_tables([*chunks, _arrow(names, kept)])))


def _arrow(names: list[str], columns: list[list[str]]) -> pa.Table:
    return pa.table([pa.array(column, pa.string()) for column in columns], names=names)


# --- Parquet files and Hub data sets: they stay on disk, `datasets` maps them and Arrow strips the cells.

HUB_NAME = re.compile(r"(?P<name>[\w-][\w.-]*(/[\w.-]+)?)(:(?P<config>[\w.-]+))?")
STORED_CHUNK = 65_536  # rows a batch


def from_parquet(path: Path, columns: Columns, source: str) -> datasets.Dataset:
    """The wanted columns of a parquet file."""
    try:
        with pq.ParquetFile(path) as file:
            schema, count = file.schema_arrow, file.metadata.num_rows
        texts = [field.name for field in schema if _is_text(field.type)]
        names = choose(columns, schema.names, texts, source)
        report(count, 0, 0, "row", source, strict=False)  # `datasets` fails on a table without rows
        data = datasets.Dataset.from_parquet(str(path), columns=names, batch_size=STORED_CHUNK)
        return data.select_columns(names)
    except (pa.ArrowException, datasets.exceptions.DatasetGenerationError) as failure:
        error = failure.__cause__ or failure
        raise InputError(f"{source}: not a sound parquet file ({first_line(error)}); write it anew") from failure


def hub_data(source: str, split: str) -> datasets.Dataset:
    """A data set of the Hub, all its columns."""
    match = HUB_NAME.fullmatch(source)
    if not match:
        raise InputError(f"{source}: there is no such file; check the path")
    try:
        return datasets.load_dataset(match["name"], match["config"], split=split)
    except Exception as error:  # a dozen types, from not found to no network to no such split
        what = f"{source} is not a file, nor could split {split!r} of such a data set be had from the Hub"
        raise InputError(f"{what} ({type(error).__name__}: {first_line(error)}); check the name") from error


def from_hub(source: str, columns: Columns, split: str) -> datasets.Dataset:
    """The wanted columns of a data set of the Hub."""
    data = hub_data(source, split)
    schema = data.features.arrow_schema
    texts = [name for name, feature in data.features.items() if _is_text(schema.field(name).type)]
    return data.select_columns(choose(columns, data.column_names, texts, source))


def tidy_stored(data: datasets.Dataset, source: str, strict: bool) -> datasets.Dataset:
    """Strip the cells and drop the rows that need it; a data set without such stays the file that it is."""
    for field in data.features.arrow_schema:
        if pa.types.is_nested(field.type) or field.type in (pa.binary(), pa.large_binary()):
            raise InputError(f"{source}: column {field.name!r} holds {field.type}, not text; name another")
    dropped = first = seen = 0
    clean = all(feature.dtype == "string" for feature in data.features.values())
    for table in data.with_format("arrow").iter(batch_size=STORED_CHUNK):
        stripped, whole = _stripped(table)
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
        _tidied, batched=True, batch_size=STORED_CHUNK, features=features, desc=f"tidying {source}"
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


PREVIEWED = 1000  # rows that tell what a column holds


def preview(source: str, split: str = "train") -> list[dict[str, Any]]:
    """The first rows of a source, all its columns, as they are stored."""
    path = Path(source).expanduser()
    kind = path.suffix.lower()
    try:
        if path.is_file() and (kind in READERS or kind == ".parquet"):
            rows = parquet_rows(path) if kind == ".parquet" else READERS[kind](path)
            return [cells for _, cells in islice(rows, PREVIEWED)]
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror or error}; check its permissions") from error
    if path.exists() or kind in EXTENSIONS:
        return [read_texts(source, split=split)[0]]  # it says what is wrong
    data = hub_data(source, split)
    return list(data.select(range(min(PREVIEWED, len(data)))))


EXTENSIONS = (".txt", ".csv", ".tsv", ".json", ".jsonl", ".parquet")


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
                f"{source}: no reader for {kind or 'no extension'}; rename it to one of {any_of(EXTENSIONS)}"
            )
        return tidy_stored(from_hub(source, columns, split), source, strict)
    try:
        if path.stat().st_size == 0:
            raise InputError(f"{source}: the file is empty; it needs at least one sentence")
        if kind == ".parquet":
            return tidy_stored(from_parquet(path, columns, source), source, strict)
        return read_text_file(path, columns, source, strict)
    except FileNotFoundError:
        raise InputError(f"{source}: there is no such file; check the path (seen from {Path.cwd()})") from None
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror or error}; check its permissions") from error
