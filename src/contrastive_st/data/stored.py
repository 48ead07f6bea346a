"""Parquet files and Hub data sets: they stay on disk, `datasets` maps them and Arrow strips the cells."""

from __future__ import annotations

import re
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from contrastive_st.data.columns import Columns, choose, report
from contrastive_st.errors import InputError

HUB_NAME = re.compile(r"(?P<name>[\w-][\w.-]*(/[\w.-]+)?)(:(?P<config>[\w.-]+))?")
CHUNK = 65_536  # rows a batch


def from_parquet(path: Path, columns: Columns, source: str) -> datasets.Dataset:
    """The wanted columns of a parquet file."""
    try:
        with pq.ParquetFile(path) as file:
            schema, count = file.schema_arrow, file.metadata.num_rows
        texts = [field.name for field in schema if _is_text(field.type)]
        names = choose(columns, schema.names, texts, source)
        report(count, 0, 0, "row", source, strict=False)  # `datasets` fails on a table without rows
        data = datasets.Dataset.from_parquet(str(path), columns=names, batch_size=CHUNK)
        return data.select_columns(names)
    except (pa.ArrowException, datasets.exceptions.DatasetGenerationError) as failure:
        error = failure.__cause__ or failure
        raise InputError(f"{source}: not a sound parquet file ({_first_line(error)}); write it anew") from failure


def from_hub(source: str, columns: Columns, split: str) -> datasets.Dataset:
    """The wanted columns of a data set of the Hub."""
    match = HUB_NAME.fullmatch(source)
    if not match:
        raise InputError(f"{source}: there is no such file; check the path")
    try:
        data = datasets.load_dataset(match["name"], match["config"], split=split)
    except Exception as error:  # a dozen types, from not found to no network to no such split
        what = f"{source} is not a file, nor could split {split!r} of such a data set be had from the Hub"
        raise InputError(f"{what} ({type(error).__name__}: {_first_line(error)}); check the name") from error
    schema = data.features.arrow_schema
    texts = [name for name, feature in data.features.items() if _is_text(schema.field(name).type)]
    return data.select_columns(choose(columns, data.column_names, texts, source))


def tidy(data: datasets.Dataset, source: str, strict: bool) -> datasets.Dataset:
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
    report(seen, dropped, first, "row", source, strict)
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


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
