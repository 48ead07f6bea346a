"""Conditions on metadata: checked once, then as a jsonpath for PostgreSQL or on dictionaries in Python."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from contrastive_st.errors import InputError

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
Condition = tuple[str, list[tuple[str, Any]]]  # a key, and comparisons of which one must hold


def conditions(filter: Mapping[str, Any]) -> list[Condition]:
    """The conditions of a filter (see `VectorIndex`), all of which must hold.

    Raises:
        InputError: a comparison or a value of unknown kind; names the key.

    Example:
        >>> conditions({"year": {">=": 2020, "<": 2030}, "source": ["x", "y"]})
        [('year', [('>=', 2020)]), ('year', [('<', 2030)]), ('source', [('==', 'x'), ('==', 'y')])]
    """
    if not isinstance(filter, Mapping):
        raise InputError(f"a filter is a mapping such as {{'source': 'x'}}, not {filter!r}")
    found: list[Condition] = []
    for key, wanted in filter.items():
        if isinstance(wanted, Mapping):
            for symbol, value in wanted.items():
                if symbol not in _COMPARE:
                    raise InputError(f"filter on {key!r}: unknown comparison {symbol!r}; use {', '.join(_COMPARE)}")
                found.append((str(key), [(symbol, _scalar(key, value))]))
        elif isinstance(wanted, Sequence) and not isinstance(wanted, str):
            if not wanted:
                raise InputError(f"filter on {key!r}: an empty list matches nothing; leave the key out, or fill it")
            found.append((str(key), [("==", _scalar(key, value)) for value in wanted]))
        else:
            found.append((str(key), [("==", _scalar(key, wanted))]))
    return found


def as_jsonpath(filter: Mapping[str, Any]) -> str:
    """The filter as a jsonpath predicate, to be passed as a parameter of `metadata @@ $1::jsonpath`.

    Example:
        >>> as_jsonpath({"year": {">=": 2020}, "source": ["x", 'a"b']})
        '($."year" >= 2020) && ($."source" == "x" || $."source" == "a\\\\"b")'
    """
    parts = []
    for key, alternatives in conditions(filter):
        path = f"$.{_quoted(key)}"
        parts.append("(" + " || ".join(f"{path} {symbol} {_quoted(value)}" for symbol, value in alternatives) + ")")
    return " && ".join(parts) or "1 == 1"


def matches(metadata: Mapping[str, Any], filter: Mapping[str, Any]) -> bool:
    """Whether a document's metadata meets the filter, by the rules of jsonpath: values of other kinds do not compare.

    Example:
        >>> matches({"year": 2021, "tags": ["a", "b"]}, {"year": {">": 2020}, "tags": "b"})
        True
        >>> matches({"year": "2021"}, {"year": {">": 2020}})
        False
    """
    return all(_one_holds(metadata, key, alternatives) for key, alternatives in conditions(filter))


def _one_holds(metadata: Mapping[str, Any], key: str, alternatives: list[tuple[str, Any]]) -> bool:
    if key not in metadata:
        return False
    found = metadata[key]
    values = found if isinstance(found, list) else [found]
    return any(_holds(value, symbol, wanted) for symbol, wanted in alternatives for value in values)


def _holds(value: Any, symbol: str, wanted: Any) -> bool:
    if value is None or wanted is None:
        return (value is wanted and symbol in ("==", "<=", ">=")) or (value is not wanted and symbol == "!=")
    numbers = [isinstance(x, (int, float)) and not isinstance(x, bool) for x in (value, wanted)]
    return (all(numbers) or type(value) is type(wanted)) and _COMPARE[symbol](value, wanted)


def _scalar(key: object, value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and abs(value) < float("inf")):
        return value
    raise InputError(f"filter on {key!r}: {value!r} is neither text nor a finite number, true, false or null")


def _quoted(value: Any) -> str:
    """As JSON; what neither JSON in PostgreSQL nor UTF-8 can hold is replaced, as it is in stored metadata."""
    if isinstance(value, str):
        value = storable(value)
    return json.dumps(value, ensure_ascii=False)


def storable(text: str) -> str:
    """The text with NUL characters and half surrogate pairs replaced by U+FFFD: PostgreSQL can hold neither.

    Example:
        >>> storable("a\\x00b")
        'a\\ufffdb'
    """
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def storable_json(value: Any) -> Any:
    """The same for every string inside of a JSON value."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable(str(key)): storable_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [storable_json(item) for item in value]
    return value
