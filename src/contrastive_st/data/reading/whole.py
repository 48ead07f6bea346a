"""Columns of a file read at once by Arrow: a csv whose quotes are sound, and Parquet."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from contrastive_st.data.reading.delimited import NULL, Dialect, is_aside
from contrastive_st.data.roles import NAMES

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa

IN_MEMORY = 1 << 30  # bytes of columns of Parquet that are read into memory; larger ones stay on disk
_BLOCK = 1 << 17  # larger ones leave the cache of the processor
_QUOTE, _RETURN, _NEWLINE, _BACKSLASH = b'"\r\n\\'


def columns_of_csv(path: Path, dialect: Dialect, held: dict[str, pa.Table], names: Sequence[str]) -> pa.Table | None:
    """Some columns of a table of UTF-8, as text; None if it must be read row by row.

    That is so if Arrow reads it in another way, or leaves out what is wrong with it: quotes that are not sound, a row
    of another length, a cell with the name of its column, as in a header that is repeated.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv

    if "" in held and set(names) <= set(held[""].column_names):
        return held[""].select(list(names))
    otherwise = dialect.escapes or dialect.decimal_commas or dialect.spaced or dialect.loose
    if otherwise or dialect.quote == "'" or dialect.delimiter not in ",;|\t" or "\n" in "".join(dialect.names):
        return None
    numbers = {name: str(place) for place, name in enumerate(dialect.names)}
    wanted = [numbers[name] for name in names]
    options = pyarrow.csv.ReadOptions(column_names=list(numbers.values()), skip_rows=dialect.above)
    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted, null_values=[NULL],
        strings_can_be_null=True,
    )  # fmt: skip
    with ThreadPoolExecutor(1) as beside:
        counting = beside.submit(_quotes_and_lines, path, ord(dialect.delimiter), bool(dialect.quote))
        for line_ends in (False, True):  # without them in cells it is twice as fast
            parse = pyarrow.csv.ParseOptions(
                delimiter=dialect.delimiter, quote_char=dialect.quote or False, ignore_empty_lines=False,
                newlines_in_values=line_ends,
            )  # fmt: skip
            table = None
            with contextlib.suppress(pa.ArrowInvalid):
                table = pyarrow.csv.read_csv(path, options, parse, convert)
            counted = counting.result()
            if counted is None or not counted[0] or (table is not None and len(table) + dialect.above == counted[1]):
                break
    if counted is None or table is None or (not counted[0] and len(table) + dialect.above != counted[1]):
        return None
    table = table.rename_columns(list(names))
    last = table.slice(max(len(table) - 1, 0)).to_pylist()
    if any(is_aside([cell or "" for cell in row.values()], names) for row in last):
        return None
    if dialect.header and len(dialect.names) > 1:  # a part of a header goes the slow way
        short = table.column(0).filter(pc.less(pc.binary_length(table.column(0)), 25))
        known = pc.is_in(pc.utf8_lower(pc.utf8_trim_whitespace(short)), pa.array(NAMES))
        if pc.any(known).as_py() or any(pc.any(pc.equal(table[name], name)).as_py() for name in names):
            return None
    odd = r'^="|\\[nrt"]' if counted[0] or counted[2] else ""  # a text as Excel writes it, an escape
    if odd and any(pc.any(pc.match_substring_regex(column, odd)).as_py() for column in table.columns):
        return None
    held[""] = table
    return table


def _quotes_and_lines(path: Path, delimiter: int, quoted: bool) -> tuple[int, int, bool] | None:
    """How many quotes and lines a file has, and whether backslashes; None if quotes are not sound, or for a CR alone.

    The quotes of a sound table take turns: one that opens a cell is after a delimiter or a line, one that closes it is
    before one; a doubled quote closes and opens again.
    """
    before, after = np.zeros(256, bool), np.zeros(256, bool)
    before[[delimiter, _NEWLINE, _QUOTE]] = after[[delimiter, _NEWLINE, _RETURN, _QUOTE]] = True
    content = np.memmap(path, np.uint8, "r")
    last = len(content) - 1
    count, lines, slashes = 0, int(content[last] != _NEWLINE), False
    for start in range(0, len(content), _BLOCK):
        block = content[start : start + _BLOCK]
        lines += int(np.count_nonzero(block == _NEWLINE))
        slashes = slashes or bool((block == _BACKSLASH).any())
        returns = np.flatnonzero(block == _RETURN) + start
        if (content[np.minimum(returns + 1, last)] != _NEWLINE).any():
            return None
        if quoted:
            places = np.flatnonzero(block == _QUOTE) + start
            opening, closing = places[count % 2 :: 2], places[1 - count % 2 :: 2]
            # beyond both ends of the file, a quote is compared with itself, which may be there
            if not before[content[np.maximum(opening - 1, 0)]].all():
                return None
            if not after[content[np.minimum(closing + 1, last)]].all():
                return None
            count += len(places)
    return None if count % 2 or lines == 1 else (count, lines, slashes)


def columns_of_parquet(files: Sequence[Path], names: Sequence[str]) -> datasets.Dataset | pa.Table:
    """Some columns of Parquet files, in memory if they are small, else mapped from disk."""
    import datasets
    import pyarrow as pa
    import pyarrow.parquet as pq

    size = 0
    for path in files:
        meta = pq.read_metadata(path)
        for group in map(meta.row_group, range(meta.num_row_groups)):
            columns = map(group.column, range(group.num_columns))
            size += sum(own.total_uncompressed_size for own in columns if own.path_in_schema.split(".")[0] in names)
    if size > IN_MEMORY:
        return datasets.Dataset.from_parquet([str(path) for path in files], columns=names).select_columns(list(names))
    read = partial(pq.read_table, columns=list(names), memory_map=True)
    return pa.concat_tables(map(read, files), promote_options="permissive")
