"""What a cell holds: nothing, a text, a number, a list or an object."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from contrastive_st import text_format
from contrastive_st.errors import InputError

#: A row: cells by column
Record = dict[str, Any]
NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
_SWAPPED = str.maketrans(",.", ".,")
BOOLEANS = {"false": 0.0, "true": 1.0}
#: What R, pandas, spreadsheets and databases write into a file of text for a cell without a value
MISSING = frozenset({"NA", "N/A", "n/a", "<NA>", "NaN", "nan", "NULL", "null",
                     "#N/A", "#REF!", "#NAME?", "#VALUE!", "#DIV/0!", "#NUM!", "#NULL!"})  # fmt: skip
_ID = re.compile(r"(.*_)?(id|docid|url|uri|lang|language|source)|.*Id", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")  # JSON can have one alone
_STRING = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_ITEM = re.compile(rf"(?:np\.\w+\()?({_STRING}|[^\s\"'{{}}\[\](),]+)\)?", re.DOTALL)
_BOOLEANS = {"True": True, "False": False, "np.True_": True, "np.False_": False}
_NULLS = ("NULL", "null", "None", "nan")


def with_point(text: str) -> str:
    """A text that may be a number, with a point as its decimal mark; where `--decimal comma` is given, a comma is one.

    Example:
        >>> with text_format.reading_as(decimal="comma"):
        ...     with_point("0,5"), with_point("1.234")
        ('0.5', '1,234')
    """
    return other_marks(text) if text_format.asked.decimal == "comma" else text


def other_marks(text: str) -> str:
    """A text with points for its commas, and commas for its points.

    Example:
        >>> other_marks("1.234,5")
        '1,234.5'
    """
    return text.translate(_SWAPPED)


def number_of(cell: object) -> float | None:
    """The finite number in a cell, which may be written as text; None if there is none.

    Example:
        >>> number_of(" .5 "), number_of(True), number_of(Decimal("0.5")), number_of("n/a")
        (0.5, 1.0, 0.5, None)
    """
    if isinstance(cell, str):
        text = with_point(cell)
        return float(text) if NUMBER.fullmatch(text) else None
    if isinstance(cell, (Decimal, np.integer, np.floating)):  # in lists of Arrow, and in those of numpy
        cell = float(cell)
    if isinstance(cell, (int, float)) and abs(cell) < 1 << 1000 and math.isfinite(cell):
        return float(cell)
    return None


def value_of(cell: object) -> float | None:
    """The number in a cell as for `number_of`; true is 1 and false 0, also where they are written as text.

    Example:
        >>> value_of(" True"), value_of("2.0"), value_of("no")
        (1.0, 2.0, None)
    """
    text = str(cell).strip()
    return BOOLEANS.get(text.lower(), number_of(text if isinstance(cell, str) else cell))


def is_blank(cell: object) -> bool:
    """Whether there is nothing in a cell: null, white space, what is written for a missing value, or an empty list.

    Example:
        >>> is_blank(" "), is_blank("NA"), is_blank([]), is_blank("Na"), is_blank(0)
        (True, True, True, False, False)
    """
    if isinstance(cell, str):
        return not (text := cell.strip()) or text in MISSING
    return is_missing(cell) or (isinstance(cell, list) and not cell)


def is_missing(cell: object) -> bool:
    """Whether there is no value: None, NaN, NaT, or the NA of pandas.

    Example:
        >>> [is_missing(cell) for cell in (None, float("nan"), np.datetime64("NaT"), 0, "")]
        [True, True, True, False, False]
    """
    differs = cell != cell  # NA, which differs from nothing, says neither
    return cell is None or not isinstance(differs, (bool, np.bool_)) or bool(differs)


def items_of(cell: object) -> list[Any] | None:
    """The items of a list, which may be written as by JSON, Python, numpy or PostgreSQL; None for another cell.

    Example:
        >>> items_of(["a", "b"]), items_of("[0.9, 0.2]"), items_of("['a', \\"it's\\"]"), items_of("a")
        (['a', 'b'], [0.9, 0.2], ['a', "it's"], None)
        >>> items_of("['a' 'b c']"), items_of("[1 3]"), items_of('{a,"b c"}'), items_of("('a', 'b')"), items_of("[sic]")
        (['a', 'b c'], [1, 3], ['a', 'b c'], ['a', 'b'], None)
        >>> items_of("[np.int64(1), np.int64(3)]"), items_of("[True, False]"), items_of("set()"), items_of("[a, b]")
        ([1, 3], [True, False], [], None)
    """
    if not isinstance(cell, str):
        return cell if isinstance(cell, list) else None
    text = "[]" if cell.strip() == "set()" else cell.strip()
    if text[:1] + text[-1:] not in ("[]", "()", "{}"):
        return None
    if text[0] == "[" or text.startswith('{"choices"'):  # the latter by Label Studio
        try:
            written = json.loads(text)
            return list(written["choices"] if isinstance(written, dict) else written)
        except (ValueError, RecursionError):
            pass
    items, rest = _ITEM.findall(text[1:-1]), _ITEM.sub("", text[1:-1])
    # PostgreSQL quotes what has white space, and separates by commas alone
    bare = text[0] == "{" and rest == "," * (len(items) - 1)
    plain = all(item[0] in "'\"" or item in {*_NULLS, *_BOOLEANS} or NUMBER.fullmatch(item) for item in items)
    return [_item(item, bare) for item in items] if bare or (plain and not rest.strip(", \t\n")) else None


def _item(written: str, bare: bool) -> object:
    """An item of a list: a quoted text, a number or null; where texts may be `bare`, as in PostgreSQL, any text."""
    if written in _NULLS:
        return None
    if bare:
        return re.sub(r"\\(.)", r"\1", written[1:-1] if written[0] in "'\"" else written)
    if written[0] in "'\"":
        return ast.literal_eval(written)
    if written in _BOOLEANS:
        return _BOOLEANS[written]
    return int(written) if written.lstrip("+-").isdigit() else float(written)


def simple(cell: object) -> Any:
    """A cell, with the text of an object in its place if it is clear which one that is; of a list, of each item.

    That is `text` (with a `title` before it), or the only text that is not an id, an address or a language.

    Example:
        >>> simple({"docid": "7", "text": "So."}), simple({"text": ["I.", "We."], "answer_start": [0, 4]}), simple("a")
        ('So.', ['I.', 'We.'], 'a')
        >>> simple([{"id": "7", "passage": "So."}, {"id": "8", "passage": "Thus."}]), simple({"a": "x", "b": "y"})
        (['So.', 'Thus.'], {'a': 'x', 'b': 'y'})
    """
    if type(cell) is list and cell and type(cell[0]) is dict:
        return [simple(item) for item in cell]
    if type(cell) is not dict:
        return float(cell) if isinstance(cell, (Decimal, np.floating)) else cell
    if cell.keys() == {"choices"}:  # several labels, as Label Studio writes them
        return cell["choices"]
    texts = {name: value for name, value in cell.items() if isinstance(value, str) and not _ID.fullmatch(name)}
    if isinstance(cell.get("text"), (str, list)):
        title = texts.get("title", "")
        return f"{title} {cell['text']}" if title and isinstance(cell["text"], str) else cell["text"]
    return next(iter(texts.values())) if len(texts) == 1 else cell


def shown(cell: object) -> str:
    """A cell in a message, cut to about 70 characters.

    Example:
        >>> shown("a  b"), shown([1, 2])
        ("'a b'", '[1, 2]')
    """
    cell = simple(cell)
    text = " ".join(cell.split()) if isinstance(cell, str) else cell
    if isinstance(text, str):
        return repr(text[:67] + "..." if len(text) > 70 else text)
    return written if len(written := repr(text)) <= 100 else f"{written[:97]}..."


def as_text(cell: object, name: str, where: str, only_strings: bool = False) -> str:
    """A cell as text, blank for null, NaN and an empty list; an object as its text, if it is clear which one that is.

    Raises:
        InputError: it is something else, or with `only_strings` a number; names the row.
    """
    cell = simple(cell)
    if is_missing(cell) or cell == []:
        return ""
    if isinstance(cell, str) and (cell.isascii() or not _SURROGATE.search(cell)):
        return cell
    if isinstance(cell, str):
        raise InputError(f"{where}: {name!r} {cell[:40]!a} has a lone surrogate, which is not a character; remove it")
    if isinstance(cell, float) and not math.isfinite(cell):
        raise InputError(f"{where}: {name!r} is {json.dumps(cell)}; write a finite number, or null for none")
    if only_strings or isinstance(cell, (list, dict, tuple, bytes)):
        fix = "write a text in quotes, or null for none; a list or an object needs a column for each of its texts"
        raise InputError(f"{where}: {name!r} is {json.dumps(cell, default=str)[:40]}, not a text; {fix}")
    if isinstance(cell, (bool, int, float)):
        return json.dumps(cell)
    return cell.isoformat() if hasattr(cell, "isoformat") else str(cell)


def number_in(cell: object, where: str) -> float:
    """The finite number in a cell, which may be written as text; true is 1, false 0.

    Raises:
        InputError: the cell is not a number; names `where` it is.

    Example:
        >>> number_in(" 4.5", "a.csv, row 2"), number_in("True", "a.csv, row 3"), number_in(0, "a.csv, row 4")
        (4.5, 1.0, 0.0)
    """
    value = value_of(cell)
    if value is None or not math.isfinite(value):
        raise InputError(f"{where}: {str(cell)[:40]!r} is not a number; a score is expected there; {as_number(cell)}")
    return value


def as_number(cell: object) -> str:
    """How to make a number of a cell that is not one, for messages.

    Example:
        >>> as_number("0,5"), as_number("half")
        ('if the comma is its decimal mark, give --decimal comma', 'write a number')
    """
    mark = "point" if text_format.asked.decimal == "comma" else "comma"
    other = isinstance(cell, str) and number_of(other_marks(cell)) is not None
    return f"if the {mark} is its decimal mark, give --decimal {mark}" if other else "write a number"


def score_in(cell: object, where: str) -> float:
    """The number in a cell as `number_in` reads it, or NaN if the cell is blank or NaN: the row has no score."""
    return math.nan if is_blank(cell) else number_in(cell, where)


def held_by(cells: Sequence[object]) -> str:
    """What some cells hold, for messages and advice: nothing, numbers, text, or lists and objects.

    Example:
        >>> held_by(["", "1", 2]), held_by(["1", "a"]), held_by([["a"]]), held_by([None])
        ('numbers', 'text', 'lists or objects', 'nothing')
    """
    filled = [cell for cell in cells if not is_blank(cell)]
    if any(isinstance(cell, str) and cell[:1].isalpha() and cell.lower() not in BOOLEANS for cell in filled):
        return "text"
    filled = [simple(cell) for cell in filled]
    if not filled:
        return "nothing"
    if all(isinstance(cell, (list, dict)) for cell in filled):
        return "lists or objects"
    without = (cell.removesuffix("%") if isinstance(cell, str) else cell for cell in filled)
    return "text" if None in map(value_of, without) else "numbers"
