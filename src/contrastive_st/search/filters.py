"""Filters on metadata: one grammar (`grammar`), one form in Python, and what they mean.

A document's values of a column are the elements of a list, or else the one value; a missing column, null and an empty
list mean no value. `authors.name` is the column of that name or the value inside an object. What a condition means:

* `column=a,b`: one of the values is a or b; `column!=a,b`: there are values, and none of them is a or b.
* `column<x` and the other ranges: one of the values is in the range. x is a number or an ISO date (`2024`, `2024-05`,
  `2024-05-01`, `2024-05-01T09:30`). A date is compared in the precision of x: `day<=2024` holds all through 2024. Where
  x is more precise than a value, the value is its first moment: `2024-05-01` is midnight. Time zones do not count.
* `column=null`: there is no value; `column!=null`: there is one.

A column has the type that it got when it was indexed (`column_types.py`), and `Filter.of_types` refuses a value that is
not of that type. Where an index has no type of a column, text in a filter is compared with each value by what that is:
`year=1999` finds 1999 and "1999", `draft=true` finds true and "true". `Condition.accepted` lists all that a value
equals, here and in PostgreSQL, so that both agree and an index serves it.

The columns `(id)` and `(text)` are the id and the text of a document, not metadata; an id is compared as `as_id` reads
it. `(document)` and `(part)` are the numbers of the row and of the part where documents are split. Texts and names of
columns are compared in Unicode's normal form NFC.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from operator import ge, gt, le, lt
from typing import Any, Literal

from contrastive_st.errors import InputError, choice
from contrastive_st.search.column_types import LIST, TYPES
from contrastive_st.search.values import DATE, OWN_ID, as_id, moment, nfc, one_line, plain, storable

RANGES: dict[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
OPERATORS = ("=", "!=", *RANGES)
_SAME = {"==": "="}
#: The texts that a condition reads as numbers
NUMBER = r" *[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,3})? *"
DOCUMENT_ID, DOCUMENT_TEXT = OWN_ID, "(text)"  # columns that are not metadata
_ZONE = re.compile("(:.*?)([Z+-].*)")  # after a time
_START, _PRECISIONS = "0000-01-01T00:00:00", (4, 7, 10, 16, 19)  # the start of a year, and how long texts of dates are
_COLUMN_ENDS, _VALUE_ENDS = "<>=!;", ",;"  # the characters that end a column or a value that is not quoted
QUOTED, OF_SQL = r'"(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"', "'(?:[^']|'')*'"  # strings of JSON and of SQL
_ENDED, _JOINED = re.compile(r"'[^']*'\s"), re.compile(r"\s(?:and|or|&&|\|\|)\s", re.IGNORECASE)
# Tokens: a text that is quoted as in JSON, or in a value as in SQL (a lone apostrophe is text), or a bare one
_COLUMN = re.compile(rf'\s*(?:(?P<json>{QUOTED})|(?P<bare>[^\s"{_COLUMN_ENDS}][^{_COLUMN_ENDS}]*))')
_SQL = rf"(?P<sql>{OF_SQL})(?=\s*(?:[{_VALUE_ENDS}]|\Z))"
_VALUE = re.compile(rf'\s*(?:(?P<json>{QUOTED})|{_SQL}|(?P<bare>(?:[^\s"{_VALUE_ENDS}][^{_VALUE_ENDS}]*)?))')
_OPERATOR = re.compile(rf"\s*(?P<bare>{'|'.join(sorted((*OPERATORS, *_SAME), key=len, reverse=True))})")
_NEXT, _BLANK = re.compile(r"\s*(?P<bare>,|;[\s;]*|\Z)"), re.compile(r"\A[\s;]+")
Scalar = str | int | float | bool | None
Join = Literal["and", "or", "not"]


@dataclass(frozen=True)
class Condition:
    """One condition on a column.

    Args:
        column: its name.
        operator: one of `OPERATORS`.
        values: alternatives; a range has one.
        type: of the column, blank if it is not known (`Filter.of_types`).

    Raises:
        InputError: the operator is unknown, or a value cannot be compared by it, or is not of the type.

    Example:
        >>> condition = Condition("topic", "=", ("sea", "a, b"))
        >>> str(condition), condition.holds({"topic": ["sea", "sky"]})
        ('topic=sea,"a, b"', True)
    """

    column: str
    operator: str
    values: tuple[Scalar, ...]
    type: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", nfc(self.column))
        object.__setattr__(self, "values", tuple(nfc(one) if isinstance(one, str) else one for one in self.values))
        choice(f"operator of the filter on {self.column!r}:", self.operator, OPERATORS)
        if not self.values:
            raise InputError(f"filter on {self.column!r}: an empty list of values; give one or more")
        bounds = self.type or self.number is not None or self.date  # with a type, `of_type` says what is wrong
        if self.operator in RANGES and (len(self.values) > 1 or not bounds):
            raise InputError(
                f"filter {self}: a range takes one number or date, such as 2020 or 2024-05-01; for text use = or !="
            )

    @cached_property
    def number(self) -> Decimal | None:
        """The end of a range as a number, if it is one."""
        return _as_number(self.values[0]) if self.type in ("", "number") else None

    @cached_property
    def date(self) -> str:
        """The end of a range as a text with which those of dates are compared; blank if it is not a date.

        A text sorts after each of its beginnings, so a date sorts as its first moment if the end has no zeros that it
        lacks; and all in the precision of the end sorts before the end with one more character.
        """
        text = str(self.values[0])
        if self.type not in ("", "date") or isinstance(self.values[0], bool) or not re.fullmatch(DATE, text):
            return ""
        text = _ZONE.sub(r"\1", text.replace(" ", "T"))
        if self.operator in ("<=", ">"):
            return text + "~"  # sorts after every character of a date
        # without the months, days and times that are the first ones, and without zeros at its end
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return next((text[:size] for size in _PRECISIONS if text[size:] == _START[size : len(text)]), text)

    @cached_property
    def accepted(self) -> dict[object, str | bool | Decimal]:
        """The values that are equal to one of the alternatives, by `_key`: each as a number, a boolean or text."""
        return {_key(one): one for value in self.values if value is not None for one in self._readings(value)}

    def _readings(self, value: Scalar) -> list[str | bool | Decimal]:
        """What equals a value, by the type of the column; of each type if that is not known."""
        if self.column == DOCUMENT_ID:
            return [Decimal(as_id(value))]
        if self.column == DOCUMENT_TEXT:
            return [str(value)]
        read = [as_read(value) for kind, as_read in _READINGS.items() if self.type in ("", kind)]
        if self.type == "text" and isinstance(value, str):
            read.append(moment(value))  # also where not all of the column are dates
        return [one for one in read if one is not None]

    def of_type(self, held: str) -> Condition:
        """The condition on a column of this type.

        Raises:
            InputError: a value is not of that type.

        Example:
            >>> size = parse("size=1.10").parts[0]
            >>> [*size.of_type("text").accepted.values(), *size.of_type("number").accepted.values()]
            ['1.10', Decimal('1.10')]
        """
        kind = held.removeprefix(LIST)
        if kind not in _READINGS or self.column in (DOCUMENT_ID, DOCUMENT_TEXT):
            return self
        result, fault = replace(self, type=kind), ""
        if self.operator not in RANGES:
            for value in self.values:
                if value is not None and not result._readings(value):
                    fix = f'; write "{value}", as text' if kind == "text" else ""
                    fault = f"and {value!r} is not one of them{fix}"
        elif result.number is None and not result.date:
            hint = "; use = or !=, or index again with --types COLUMN=number (or =date)" * (kind != "number")
            fault = f"which a range with {self.values[0]!r} does not compare{hint}"
        if fault:
            raise InputError(f"filter {self}: the column {self.column!r} holds {TYPES[kind]}, {fault}")
        return result

    def holds(self, metadata: Mapping[str, object]) -> bool:
        """Whether a document with this metadata meets the condition."""
        there = (value for value in values_of(metadata, self.column) if value is not None)
        values = [nfc(value) if isinstance(value, str) else value for value in there]
        if self.operator not in RANGES:
            meets = (None in self.values and not values) or any(_key(value) in self.accepted for value in values)
            return meets if self.operator == "=" else bool(values) and not meets
        return any(map(self._reaches, values))

    def _reaches(self, value: object) -> bool:
        """Whether a value is in the range."""
        compare = RANGES[self.operator]
        if isinstance(value, str):
            there = _ZONE.sub(r"\1", value.replace(" ", "T"))
            return bool(self.date and re.fullmatch(DATE, value) and compare(there, self.date))
        held = _as_number(value)
        return held is not None and self.number is not None and compare(held, self.number)

    def __str__(self) -> str:
        column = _written(self.column, _COLUMN_ENDS) or '""'
        return column + self.operator + ",".join(_written(value, _VALUE_ENDS) for value in self.values)


@dataclass(frozen=True)
class Filter:
    """Conditions of which all must hold (`and`), at least one (`or`), or not all (`not`).

    All of no conditions hold, so `Filter()`, which alone is false, is met by every document; `or` and `not` of none by
    no document.

    Example:
        >>> chosen = parse("topic=sea,sky; year>=2000")
        >>> chosen.holds({"topic": "sea", "year": "2004"}), str(chosen)
        (True, 'topic=sea,sky; year>=2000')
    """

    parts: tuple[Condition | Filter, ...] = ()
    join: Join = "and"

    def __bool__(self) -> bool:
        return bool(self.parts) or self.join != "and"

    @cached_property
    def of_document(self) -> bool:
        """Whether a column is the id or the text of a document."""
        return any(one.column in (DOCUMENT_ID, DOCUMENT_TEXT) for one in self.conditions())

    def holds(self, metadata: Mapping[str, object]) -> bool:
        """Whether a document meets the filter, with this metadata and with `(id)` and `(text)` if it asks for them."""
        held = (part.holds(metadata) for part in self.parts)
        return any(held) if self.join == "or" else all(held) is (self.join == "and")

    def of_types(self, types: Mapping[str, str]) -> Filter:
        """The filter on columns of these types; a column that has none there is compared by what each value is.

        Raises:
            InputError: a value is not of the type of its column.
        """
        typed: list[Condition | Filter] = []
        for part in self.parts:
            if isinstance(part, Filter):
                part = part.of_types(types)
            elif "." not in part.column or part.column.split(".")[0] not in types:  # else of objects, in part
                part = part.of_type(types.get(part.column, ""))
            typed.append(part)
        return replace(self, parts=tuple(typed))

    def conditions(self) -> Iterator[Condition]:
        """All conditions, those of inner filters too."""
        for part in self.parts:
            yield from [part] if isinstance(part, Condition) else part.conditions()

    def filters(self) -> Iterator[Filter]:
        """This filter and all inner ones."""
        yield self
        for part in self.parts:
            yield from part.filters() if isinstance(part, Filter) else ()

    def __str__(self) -> str:
        inner = [str(part) if isinstance(part, Condition) else f"({part})" for part in self.parts]
        joined = (" or " if self.join == "or" else "; ").join(inner)
        return f"not ({joined})" if self.join == "not" else joined


Filterable = Filter | Condition | Mapping[str, object] | str | Sequence["Filterable"] | None


def as_filter(asked: Filterable) -> Filter:
    """A filter of what a caller gives.

    Args:
        asked: text (see `grammar`); a mapping of columns to a value, to a list of alternatives, or to values by
            operator (`{"year": {">=": 2020, "<": 2030}}`); a list of these, all of which must hold; or None.

    Raises:
        InputError: it is none of these, or a value cannot be compared; the message names the column.

    Example:
        >>> str(as_filter({"year": {">=": 2020, "<": 2030}, "topic": ["x", "y"]}))
        'year>=2020; year<2030; topic=x,y'
    """
    if asked is None or isinstance(asked, Filter):
        return asked or Filter()
    if isinstance(asked, Condition):
        return Filter((asked,))
    if isinstance(asked, str):
        return parse(asked)
    if not isinstance(asked, Iterable):
        raise InputError(f"a filter is a text, conditions by column, or a list of these, not {type(asked).__name__}")
    if not isinstance(asked, Mapping):
        return Filter(tuple(part for one in map(as_filter, asked) for part in ([one], one.parts)[one.join == "and"]))
    conditions = []
    for column, operand in asked.items():
        for symbol, value in (operand if isinstance(operand, Mapping) else {"=": operand}).items():
            values = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
            scalars = tuple(_scalar(column, one) for one in values)
            conditions.append(Condition(storable(str(column)), str(_SAME.get(symbol, symbol)), scalars))
    return Filter(tuple(conditions))


def grammar() -> str:
    """The grammar of filters as text, one rule per line, from the tokens of the parser.

    Example:
        >>> print(grammar())
        filter     = condition (";" condition)*           all conditions must hold
        condition  = column operator value ("," value)*   one of the values
        operator   = "=" | "!=" | "<" | "<=" | ">" | ">=" | "=="      == is the same as =
        column     = a quoted text, or a text that has none of   < > = ! ;
        value      = null, or a quoted text, or a text that has none of   , ;
        quoted     = a string of JSON, such as "Hello, world" or "a \\"b\\""; or, as a value, 'Hello, world'
    """
    operators, bare = " | ".join(f'"{one}"' for one in (*OPERATORS, *_SAME)), "or a text that has none of"
    return rf"""filter     = condition (";" condition)*           all conditions must hold
condition  = column operator value ("," value)*   one of the values
operator   = {operators}      == is the same as =
column     = a quoted text, {bare}   {" ".join(_COLUMN_ENDS)}
value      = null, or a quoted text, {bare}   {" ".join(_VALUE_ENDS)}
quoted     = a string of JSON, such as "Hello, world" or "a \"b\""; or, as a value, 'Hello, world'"""


def parse(text: str) -> Filter:
    """The filter that a text says (`grammar`).

    Raises:
        InputError: a condition cannot be read; the message shows it.

    Example:
        >>> parse('title="Hello, world"; tags!=sea').parts[0]
        Condition(column='title', operator='=', values=('Hello, world',))
    """
    parts: list[Condition] = []
    position = len(text) - len(_BLANK.sub("", text))
    while position < len(text):
        column, position = _token(_COLUMN, text, position)
        operator, position = _token(_OPERATOR, text, position)
        values, mark = [], ","
        while mark == ",":
            value, position = _token(_VALUE, text, position)
            mark, position = _token(_NEXT, text, position)
            values.append(value)
        parts.append(Condition(str(column), _SAME.get(str(operator), str(operator)), tuple(values)))
    return Filter(tuple(parts))


def _token(pattern: re.Pattern[str], text: str, position: int) -> tuple[str | None, int]:
    """The next token of a filter, None for null, and where it ends."""
    match = pattern.match(text, position)
    kind = match.lastgroup if match else None
    if pattern is _VALUE and match and kind == "bare" and _is_of_sql(match["bare"]):
        raise InputError(
            f"filter {one_line(text, 80)!r}: instead of AND and OR write topic=sea; year>=2000 (both) or topic=sea,sky "
            "(either). If AND or OR is part of a value, put the whole value in double quotes"
        )
    if match is None:
        raise InputError(
            f"filter {one_line(text, 80)!r}: write column=value, column>=number or similar, and quote a text that "
            'holds a comma or a semicolon: title="Hello, world"'
        )
    token = match[str(kind)].strip()
    if kind == "sql":
        token = token[1:-1].replace("''", "'")
    elif kind == "json":
        token = json.loads(token, strict=False)
    elif pattern is _VALUE and token == "null":
        return None, match.end()
    return storable(token), match.end()


def _is_of_sql(text: str) -> bool:
    """Whether a text goes on with a condition as SQL writes it, or ends a quote before its end.

    Example:
        >>> [_is_of_sql(text) for text in ("a AND year>=2000", "'a' AND b IS NULL", "war and peace", "'tis Tom's")]
        [True, True, False, False]
    """
    joined = _JOINED.search(text)
    return bool(_ENDED.match(text)) or (joined is not None and any(mark in text[joined.end() :] for mark in "<>="))


def cells_of(metadata: Mapping[str, object], column: str) -> list[object]:
    """What there is under the name of a column: a value, null or a list; also inside objects, `a.b`.

    Example:
        >>> cells_of({"a": None}, "a"), cells_of({"a": [{"b": 1}, {"b": []}]}, "a.b"), cells_of({"a": 1}, "b")
        ([None], [1, []], [])
    """
    result: list[object] = []
    for path in [[column], column.split(".")] if "." in column else [[column]]:
        cells: list[object] = [metadata]
        for name in path:
            cells = [item[name] for item in _elements(cells) if isinstance(item, Mapping) and name in item]
        result += cells
    return result


def values_of(metadata: Mapping[str, object], column: str) -> list[object]:
    """The values of a column: the elements of a list, or else the one value; also those inside objects, `a.b`."""
    return _elements(cells_of(metadata, column))


def _elements(cells: list[object]) -> list[object]:
    return [value for one in cells for value in (one if isinstance(one, list) else [one])]


def _scalar(column: str, cell: object) -> Scalar:
    if cell is None:
        return None
    value: object = None
    with suppress(InputError):
        value = plain(cell)
    if not isinstance(value, (str, int, float)):
        raise InputError(f"filter on {column!r}: {cell!r} is not text, a finite number, a date, true, false or null")
    if isinstance(cell, datetime):
        return str(cell.isoformat())  # midnight is a moment here, not a whole day
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53 else value


def _as_number(value: object) -> Decimal | None:
    """A number as its JSON says it, 0.1 as 0.1, which may be written as text; None for what is not a number."""
    if isinstance(value, str):
        return Decimal(value.strip()) if re.fullmatch(NUMBER, value) else None
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    return Decimal(repr(value) if isinstance(value, float) else value)


#: What a value of a filter is in a column of each type
_READINGS: dict[str, Callable[[Scalar], str | bool | Decimal | None]] = {
    "number": _as_number,
    "boolean": lambda value: {"true": True, "false": False}.get(str(value).lower()),
    "text": lambda value: value if isinstance(value, str) else None,
    "date": lambda value: moment(value) if isinstance(value, str) else None,
}


def _key(value: object) -> object:
    """Equal for equal values of one type; a number never equals a boolean."""
    return (type(value).__name__, value) if isinstance(value, (str, bool)) else _as_number(value)


def _written(value: Scalar, special: str) -> str:
    """A column or a value as the grammar writes it."""
    if not isinstance(value, str):
        return json.dumps(value)
    printable = value == value.strip() and value.isprintable() and not any(mark in value for mark in special)
    bare = printable and value != "null" and not value.startswith(('"', "'", "=")) and not _is_of_sql(value)
    return value if bare else json.dumps(value, ensure_ascii=False)
