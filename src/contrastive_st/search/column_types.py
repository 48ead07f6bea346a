"""The types of metadata: decided for each column once, when documents enter an index; filters compare by them.

A column is of numbers, dates, text or booleans; where its values are lists, of lists of these. JSON has all but dates,
which are ISO 8601 text there, held in one form (`moment`). In a file of text every cell is text, so its columns are
decided over all their cells: a column is of numbers if each of its cells is written as that number is, so `007`, `1.10`
and phone numbers stay text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from contrastive_st.data.profile import is_blank, items_of, number_of, with_point
from contrastive_st.errors import InputError, choice
from contrastive_st.search.values import OWN, Row, moment, one_line, plain

#: The types that `--types` takes, each as messages name its values
TYPES = {"number": "numbers", "date": "dates", "text": "text", "boolean": "true and false", "list": "lists"}
MIXED, OBJECT = "mixed", "object"  # of values of several types, or of JSON objects: compared as each is held
LIST = "list of "  # before the type of the elements
_INTEGER, _DECIMAL = re.compile("-?(0|[1-9][0-9]{0,14})"), re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")
_CODE = re.compile(r"\s*[-+]?0[0-9]")  # begins with zeros, as 007 does
_BOOLEANS = {form: form.lower() == "true" for form in ("true", "false", "True", "False", "TRUE", "FALSE")}
#: What `--types x=boolean` reads too
_YES_NO = {"t": True, "yes": True, "y": True, "1": True, "f": False, "no": False, "n": False, "0": False}


def type_of(value: object, dates: bool = True) -> str | None:
    """The type of a value of JSON; None for null, a blank text and an empty list. Without `dates`, these are text.

    Example:
        >>> type_of(1.5), type_of("2024-05-01"), type_of("1.5"), type_of(["a", "b"]), type_of({"a": 1}), type_of([])
        ('number', 'date', 'text', 'list of text', 'object', None)
    """
    if isinstance(value, list):
        elements = joined(type_of(element, dates) for element in value)
        return elements and (LIST + elements if not elements.startswith(LIST) else LIST + OBJECT)
    if isinstance(value, str):
        return ("date" if dates and moment(value) else "text") if value else None
    if isinstance(value, dict):
        return OBJECT
    return None if value is None else "boolean" if isinstance(value, bool) else "number"


def joined(types: Iterable[str | None]) -> str | None:
    """The type of a column of which parts are of these types.

    Example:
        >>> joined(["number", None]), joined(["date", "text"]), joined(["text", "list of text"])
        ('number', 'mixed', 'list of text')
    """
    kinds = {one for one in types if one is not None}
    if any(one.startswith(LIST) for one in kinds):
        return LIST + str(joined(one.removeprefix(LIST) for one in kinds))
    return next(iter(kinds), None) if len(kinds) < 2 else MIXED


def joined_types(*types: Mapping[str, str]) -> dict[str, str]:
    """The types of columns of which each of these tells some.

    Example:
        >>> joined_types({"day": "date", "year": "number"}, {"day": "text"})
        {'day': 'mixed', 'year': 'number'}
    """
    result: dict[str, str] = {}
    for one in types:
        result |= {name: joined((result.get(name), kind)) or kind for name, kind in one.items()}
    return result


def types_of(items: Iterable[Mapping[str, object]], decided: Mapping[str, str]) -> dict[str, str]:
    """The types of the columns of metadata, and of columns that were decided; where that is text, dates are text.

    Example:
        >>> types_of([{"year": 1999, "day": "2024-05-01"}, {"day": "soon", "tags": ["a"]}], {"year": "number"})
        {'year': 'number', 'day': 'mixed', 'tags': 'list of text'}
    """
    result = dict(decided)
    for item in items:
        for name, value in item.items():
            kind = None if name in OWN else type_of(value, dates=decided.get(name) != "text")
            if kind and kind != (there := result.get(name)):
                result[name] = joined((there, kind)) or kind
    return result


def parse_types(options: Iterable[str]) -> dict[str, str]:
    """The types of `--types`, each `column=type`.

    Example:
        >>> parse_types(["price=number"])
        {'price': 'number'}
    """
    result = {}
    for one in options:
        name, mark, kind = one.rpartition("=")
        if not mark or not name:
            raise InputError(f"--types {one}: write COLUMN=TYPE, such as price=number")
        result[name] = choice(f"--types {name}=", kind, tuple(TYPES))
    return result


def as_type(value: object, kind: str) -> object:
    """A value as one of the type that its column has; of a list, each element.

    Raises:
        InputError: it is not of that type.

    Example:
        >>> as_type("1.10", "number"), as_type(7, "text"), as_type("yes", "boolean"), as_type('["a"]', "list")
        (1.1, '7', True, ['a'])
    """
    if kind == "list":
        result = value if isinstance(value, list) else _listed(value) if isinstance(value, str) else None
    elif isinstance(value, list):
        return [as_type(element, kind) for element in value]
    elif kind == "text":
        result = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    elif kind == "boolean":
        result = {**_YES_NO, "true": True, "false": False}.get(str(value).strip().lower())
    elif kind == "date":
        result = moment(str(value).strip())
    elif isinstance(value, str):
        text = value.strip()
        result = int(text) if text.isdecimal() else number_of(text)
    else:
        result = None if isinstance(value, (bool, dict)) else value
    if result is None:
        raise InputError(f"{one_line(str(value), 60)!r} is not {_A[kind]}, as --types says; leave it out of --types")
    return result


def as_recorded(value: object, recorded: str) -> object:
    """A value as one of the type that its column has in an index, if it can be that; else as it is.

    Text that begins with zeros is a code, which a number would not hold: it stays text.

    Example:
        >>> as_recorded("1.50", "number"), as_recorded("007", "number"), as_recorded(7, "text"), as_recorded(None, "text")
        (1.5, '007', '7', None)
    """  # noqa: E501
    there = type_of(value)
    kind = "list" if recorded.startswith(LIST) and not isinstance(value, list) else recorded.removeprefix(LIST)
    if there is None or there == recorded or there.endswith(OBJECT) or kind not in TYPES:
        return value
    if kind == "number" and any(_CODE.match(str(one)) for one in (value if isinstance(value, list) else [value])):
        return value
    with suppress(InputError):
        return as_type(value, kind)
    return value


_A = {"number": "a number", "date": "a date", "boolean": "true or false", "list": "a list", "text": "text"}


# --- Columns of a file of text.


def _number(cell: str) -> int | float | None:
    """The number of which this is the text."""
    cell = with_point(cell)
    if _INTEGER.fullmatch(cell) and cell != "-0":
        return int(cell)
    return float(cell) if _DECIMAL.fullmatch(cell) and repr(float(cell)) == cell else None


def _listed(cell: str) -> list[object] | Row | None:
    """The list or the object of which this is the text.

    Example:
        >>> _listed('{"k": [1]}'), _listed("['a', 'b']"), _listed("[1")
        ({'k': [1]}, ['a', 'b'], None)
    """
    if (items := items_of(cell)) is not None:
        return items
    with suppress(ValueError, TypeError, RecursionError):
        written = plain(json.loads(cell))
        return written if isinstance(written, dict) else None
    return None


_WRITTEN: dict[str, Callable[[str], object]] = {
    "number": _number, "date": moment, "boolean": _BOOLEANS.get, "list": _listed,
}  # fmt: skip


@dataclass
class Column:
    """The types that the cells of a column may have, as far as they were seen.

    Example:
        >>> column = Column()
        >>> for cell in ("1.2", " ", "1.10"):
        ...     column.see(cell)
        >>> column.type, column.why
        ('text', '1.10')
    """

    recorded: str | None = None  # its type in the index, which it keeps if each cell can be of it (`as_recorded`)
    left: list[str] = field(default_factory=lambda: list(_WRITTEN))
    why: str = ""  # the first cell that is not written as its number is, where all cells are numbers
    _integers: bool = False
    _zeros: bool = False
    _seen: bool = False
    _numeric: bool = True
    _items: str | None = None
    _texts: str | None = None

    def see(self, cell: object) -> None:
        """Look at one more cell."""
        if is_blank(cell):
            return
        text = str(cell).strip()
        self._texts = joined((self._texts, type_of(text)))
        self._integers |= text.lstrip("-").isdigit()
        self._zeros |= with_point(text).endswith(".0")
        left = [kind for kind in self.left if _WRITTEN[kind](text) is not None]
        if "list" in left:
            self._items = joined((self._items, type_of(_listed(text))))
        if "number" in left and self._integers and self._zeros:  # 1 and 1.0 are two texts
            left.remove("number")
        if self._numeric:
            self._numeric = number_of(text) is not None
            self.why = self.why or ("" if "number" in left else str(cell)) if self._numeric else ""
        self.left, self._seen = left, True
        if self.recorded and joined((self.recorded, type_of(as_recorded(text, self.recorded)))) != self.recorded:
            self.recorded = None

    @property
    def type(self) -> str | None:
        """The type of the column; None if it has no values."""
        return self.recorded if self.recorded and self._seen else self.written

    @property
    def written(self) -> str | None:
        """The type as which its cells are written; None if it has no values."""
        written = None if not self._seen else self.left[0] if self.left else self._texts
        return self._items or LIST + "text" if written == "list" else written


def value_in(cell: object, kind: str | None, written: bool) -> object:
    """A cell of a column of this type as a value of JSON, None if there is none.

    Args:
        cell: the cell.
        kind: the type, of a file in which every cell is text.
        written: it is of such a file.
    """
    if not written or not isinstance(cell, str):
        return plain(cell)
    if is_blank(cell):
        return None
    name = str(kind) if kind != OBJECT and not str(kind).startswith(LIST) else "list"
    return _WRITTEN[name](cell.strip()) if name in _WRITTEN else plain(cell)
