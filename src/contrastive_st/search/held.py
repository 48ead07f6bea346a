"""Metadata as an index holds them, and as they were given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError
from contrastive_st.search.values import GIVEN, OWN, OWN_ID, as_ids, as_list, nfc, normal, own_id, plain, storable


def as_held(given: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata as an index holds them: in normal form, without `OWN` names; and as `GIVEN`, if that is another form.

    The normal form of a text is NFC, that of a date `moment`.

    Example:
        >>> as_held({"year": 1999}), as_held({"(part)": 7})
        ({'year': 1999}, {'(given)': {'(part)': 7}})
    """
    result = {name: value for name, value in _in_normal_form(given).items() if name not in OWN}
    return result if result == given else {**result, GIVEN: dict(given)}


def given_and_own(held: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The metadata as they were given, and what the store itself keeps of a document, by name without parentheses.

    Example:
        >>> given_and_own({"year": 1999, "(part)": 7})
        ({'year': 1999}, {'part': 7})
    """
    own = {name[1:-1]: held[name] for name in OWN if name in held and name != GIVEN}
    given = held[GIVEN] if GIVEN in held else {name: value for name, value in held.items() if name not in OWN}
    return dict(given), own


def with_own_id(held: dict[str, Any], number: int, id: Any) -> dict[str, Any]:
    """Metadata as an index holds them, with `OWN_ID` if the id is a text that they do not tell (`own_id`).

    Example:
        >>> with_own_id({"year": 1999}, 1433482642038159418, "talk-7")
        {'year': 1999, '(id)': 'talk-7'}
        >>> with_own_id({"sku": "talk-7"}, 1433482642038159418, "talk-7")
        {'sku': 'talk-7'}
    """
    if not isinstance(id, str) or id == str(number):
        return held
    text = storable(str.__str__(id))
    return held if own_id(number, given_and_own(held)[0]) == text else {**held, OWN_ID: text}


def _in_normal_form(value: Any) -> Any:
    if isinstance(value, str):
        return normal(value)
    if isinstance(value, Mapping):
        return {nfc(name): _in_normal_form(item) for name, item in value.items()}
    return [_in_normal_form(item) for item in value] if isinstance(value, list) else value


def as_metadata(given: Any, count: int) -> list[dict[str, Any]]:
    """The metadata of `count` documents as an index holds them (`plain`, `as_held`); None gives empty ones.

    Raises:
        InputError: there is not one mapping for each document, or a value has no form in JSON.

    Example:
        >>> from datetime import date
        >>> from decimal import Decimal
        >>> as_metadata([{"day": date(2024, 5, 1), "price": Decimal("1.5")}], 1)
        [{'day': '2024-05-01', 'price': 1.5}]
    """
    if given is None:
        return [{} for _ in range(count)]
    items = as_list("metadata", given, Mapping)
    _check_lengths(documents=count, metadata=len(items))
    return [as_held(plain(item)) for item in items]


def _check_lengths(**lengths: int) -> None:
    if len({*lengths.values()}) > 1:
        given = ", ".join(f"{length} {name}" for name, length in lengths.items())
        raise InputError(f"{given}: give one of each for every document")


def same(one: Any, other: Any) -> bool:
    """Whether two values of JSON are equal. In Python true equals 1 too, in JSON it does not.

    Example:
        >>> same({"a": [1, "b"]}, {"a": [1.0, "b"]}), same({"draft": True}, {"draft": 1})
        (True, False)
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def as_documents(
    ids: Any, texts: Any, metadata: Any, vectors: int
) -> tuple[NDArray[np.int64], list[str], list[dict[str, Any]]]:
    """Ids, texts and metadata of documents as an index holds them, one for each of so many vectors.

    An id that is text is kept next to the metadata, as by `with_own_id`.

    Raises:
        InputError: one of them is at fault, their numbers differ, or an id is given twice.

    Example:
        >>> as_documents(["talk-7"], ["On tides"], None, 1)[2]
        [{'(id)': 'talk-7'}]
    """
    given = ids if isinstance(ids, np.ndarray) else as_list("ids", ids)
    numbers, kept = as_ids(given), as_list("texts", texts, str)
    _check_lengths(ids=len(numbers), texts=len(kept), vectors=vectors)
    if len(np.unique(numbers)) < len(numbers):
        raise InputError("an id is given twice; give each document once")
    items = as_metadata(metadata, len(numbers))
    return numbers, kept, list(map(with_own_id, items, numbers.tolist(), given))
