"""Text files -> rows of cells, each with the number of its line or row -> a data set in memory."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa

from contrastive_st.data.columns import Columns, choose, report
from contrastive_st.errors import InputError

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
