"""Filters as jsonpath predicates, which are passed as a parameter of `metadata @@ $1::jsonpath`."""

from __future__ import annotations

import json
from decimal import Decimal

from contrastive_st.search.filters import DOCUMENT_ID, DOCUMENT_TEXT, RANGES, Condition, Filter
from contrastive_st.search.values import DATE

_NOT_NULL = '@.type() != "null"'
_FLAT = 100  # parts


def as_jsonpath(filter: Filter) -> str:
    """The filter as a predicate; `search/filters.py` says what it means.

    Example:
        >>> as_jsonpath(Filter((Condition("topic", "=", ("x", 'a"b')),)))
        '(($."topic" == "x" || $."topic" == "a\\\\"b"))'
    """
    parts = [_condition(part) if isinstance(part, Condition) else as_jsonpath(part) for part in filter.parts]
    return _not(_all(parts)) if filter.join == "not" else _any(parts) if filter.join == "or" else _all(parts)


def subject_of(filter: Filter) -> str:
    """The SQL of what a filter is about in a row `t` of the texts: its metadata, and what else the filter names.

    Example:
        >>> subject_of(Filter((Condition("(id)", "=", (7,)),)))
        "(t.metadata || jsonb_build_object('(id)', t.id))"
    """
    named = {condition.column for condition in filter.conditions()}
    columns = {DOCUMENT_ID: "t.id", DOCUMENT_TEXT: "normalize(t.text, NFC)"}
    parts = [f"'{name}', {column}" for name, column in columns.items() if name in named]
    return f"(t.metadata || jsonb_build_object({', '.join(parts)}))" if parts else "t.metadata"


def paths_of(column: str) -> list[str]:
    """Where the values of a column are: under its name, and for `a.b` inside an object too.

    Example:
        >>> paths_of("author.name")
        ['$."author.name"', '$."author"."name"']
    """
    names = [[column], column.split(".")] if "." in column else [[column]]
    return ["$." + ".".join(map(_json, name)) for name in names]


def _condition(condition: Condition) -> str:
    paths = paths_of(condition.column)
    if condition.operator in RANGES:
        return _any([one for path in paths for one in _in_range(path, condition)])
    there = _any([f"exists({path} ? ({_NOT_NULL}))" for path in paths])
    meets = [f"{path} == {_json(value)}" for path in paths for value in condition.accepted.values()]
    if condition.operator == "=":
        return _any(meets + ([_not(there)] if None in condition.values else []))
    return _all([there, _not(_any(meets))]) if meets else there


def _in_range(path: str, condition: Condition) -> list[str]:
    compare, parts = condition.operator, []
    if condition.number is not None:
        parts.append(f"{path} {compare} {_json(condition.number)}")
    for mark in "T " if condition.date else "":  # before the time
        pattern, end = DATE.replace("[T ]", mark), condition.date.replace("T", mark)
        # `Z` sorts after all else that may follow: beginnings of the end with it are compared as they are without it
        equal, join = ("==", _any) if "<" in compare else ("!=", _all)
        zoned = [f"@ {equal} {_json(end[:size] + 'Z')}" for size in range(16, len(end))]
        test = f"@ like_regex {_json(f'^({pattern})$')} && {join([f'@ {compare} {_json(end)}', *zoned])}"
        parts.append(f'exists({path} ? (@.type() == "string" && {test}))')
    return parts


def _all(parts: list[str]) -> str:
    return "(" + (" && ".join(parts) or "1 == 1") + ")"  # all of no parts hold, and none of them does


def _any(parts: list[str]) -> str:
    if len(parts) > _FLAT:  # halves, because PostgreSQL's stack is as deep as a chain is long
        parts = [_any(parts[: len(parts) // 2]), _any(parts[len(parts) // 2 :])]
    return "(" + (" || ".join(parts) or "1 == 0") + ")"


def _not(part: str) -> str:
    return f"(!({part}) || ({part}) is unknown)"  # unknown: values of different types were compared


def _json(value: object) -> str:
    return f"{value:f}" if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)
