"""Rows of JSON: one per line, a list of them, one after the other, or one object with all; objects, lists or texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from contrastive_st.data.profile import Record
from contrastive_st.data.reading import content
from contrastive_st.data.reading.rows import Row, Table
from contrastive_st.data.roles import has_role
from contrastive_st.data.suggestions import PYTHON_AS_JSON, converted, paths_of_rows, rows_at
from contrastive_st.errors import InputError, first_line, listed

_SPACE = re.compile(r"\s*")


def parse_json(text: str, source: str, line: int = 1) -> Any:
    """Parse JSON; an `InputError` names the line, where `line` is the number of the first line of `text`.

    Example:
        >>> parse_json("[1, 2", "a.json")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: a.json, line 1: invalid JSON (Expecting ',' delimiter); write one object per line, or a list of objects
    """  # noqa: E501
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        what = getattr(error, "msg", first_line(error).partition(";")[0])
        fix = "write one object per line, or a list of objects"
        if text.startswith("{'"):
            fix = f"it is written as by Python; {converted(PYTHON_AS_JSON, source, '.jsonl')}"
        where = f"{source}, line {line + getattr(error, 'lineno', 1) - 1}"
        raise InputError(f"{where}: invalid JSON ({what}); {fix}") from error


def json_table(path: Path, source: str, lines: Callable[[], Iterator[str]], notes: tuple[str, ...]) -> Table:
    """The rows of a file of JSON.

    Args:
        path: the file.
        source: its name in messages.
        lines: gives its lines.
        notes: what was detected about it, for messages.
    """
    top = list(islice((line for line in lines() if line.strip()), 2))
    by_line = len(top) > 1 or content.format_of(path) != ".json"
    try:
        json.loads(top[0] if top else "")
    except (RecursionError, ValueError):
        by_line = False
    size, most = path.stat().st_size, content.LARGEST_WHOLE
    if not by_line and size > most:
        what = f"has {size:,} bytes, and what is not an object per line is read as a whole, up to {most:,}"
        raise InputError(f"{source} {what}; write one object per line")

    def items() -> Iterator[tuple[int, Any]]:
        if not by_line:
            return enumerate(_objects_in("".join(lines()), source), 1)
        written = ((number, line.rstrip()) for number, line in enumerate(lines(), 1) if line.strip())
        return ((number, parse_json(line, source, number)) for number, line in written)

    unit = "line" if by_line else "object"
    return Table(source, unit, lambda: rows_of(items(), f"{source}, {unit}"), None, notes)


def rows_of(items: Iterable[tuple[int, Any]], where: str) -> Iterator[Row]:
    """Numbered items as rows: objects, texts or null, or lists of cells, which are named by their positions.

    Args:
        items: all of one type.
        where: what is before the number of a row in messages.

    Raises:
        InputError: an item is of another type than the first one, or is not a row.
    """
    kind = None
    for number, item in items:
        item_type = str if item is None else type(item)
        kind = kind or item_type
        cells: Record | None = item if item_type is dict else {"text": item} if item_type is str else None
        if item_type is list and item and not any(isinstance(cell, (dict, list)) for cell in item):
            cells = {str(index): cell for index, cell in enumerate(item)}
        if item_type is not kind or cells is None:
            expected = "a list of cells" if kind is list else "a text" if kind is str else "an object"
            raise InputError(f"{where} {number} is not {expected}; write one {{...}} per row")
        yield Row(number, cells)


def _objects_in(text: str, source: str) -> Sequence[object]:
    if text.lstrip().startswith("["):
        return list(parse_json(text, source))
    objects, decoder, position = [], json.JSONDecoder(), 0
    while (position := _SPACE.match(text, position).end()) < len(text):  # type: ignore[union-attr]
        try:
            item, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            parse_json(text[position:], source, text.count("\n", 0, position) + 1)
            raise
        objects.append(item)
    if len(objects) != 1 or not isinstance(objects[0], dict) or not objects[0]:
        return objects
    has_text = any(isinstance(value, str) and " " in value for value in objects[0].values())  # then it is a row
    rows = _columns(objects[0], has_text)
    if rows is None and not has_text and (paths := list(paths_of_rows(objects[0]))):
        raise InputError(f"{source} has the tables {listed(paths)}; to read {paths[0]}, {rows_at(paths[0], source)}")
    return objects if rows is None else rows


def _columns(item: Record, has_text: bool) -> list[Record] | None:
    """The rows of one object: a list of them under a name, or as pandas writes them; None if it is a row."""
    columns, data = item.get("columns", ""), item.get("data", "")  # `orient="split"` of pandas
    split = isinstance(columns, list) and isinstance(data, list)
    if split and all(isinstance(row, list) and len(row) == len(columns) for row in data):
        return [dict(zip(map(str, columns), row, strict=True)) for row in data]
    lists = [value for value in item.values() if isinstance(value, list)]
    objects = [value for value in lists if value and all(isinstance(one, dict) for one in value)]
    if len(lists) == len(objects) == 1 and not has_text:
        return list(objects[0])
    inner = next(iter(item.values())).keys() if all(isinstance(value, dict) for value in item.values()) else ()
    if inner and all(value.keys() == inner for value in item.values()):
        if all(map(str.isdecimal, inner)):
            return [{name: cells[number] for name, cells in item.items()} for number in inner]
        if all(map(str.isdecimal, item)) or (any(map(has_role, inner)) and not any(map(has_role, item))):
            return list(item.values())
    if len(lists) == len(item) and len(objects) < 2 and len({len(value) for value in lists}) == 1 and len(lists[0]) > 1:
        return [dict(zip(item, cells, strict=True)) for cells in zip(*lists, strict=True)]
    return None
