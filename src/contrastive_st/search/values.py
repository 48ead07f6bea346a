"""What enters an index is checked and converted here, once: ids, texts and metadata, as it holds them."""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError

_INTEGER = re.compile(r"(-?(?:0|[1-9][0-9]{0,18}))(?:[.]0+)?")  # an id; pandas writes 7.0 if another one is missing
#: What the store itself keeps of a document, next to the metadata of the user, which may have any names: an id that is
#: text, the row and the number of a part, and the metadata as they were given, if they are compared in another form
OWN_ID, OF_DOCUMENT, PART, GIVEN = OWN = ("(id)", "(document)", "(part)", "(given)")
#: What a range takes as a date: also a year, a month or a time without a `T`
DATE = r"[0-9]{4}(-[0-9]{2}(-[0-9]{2}([T ][0-9]{2}:[0-9]{2}[0-9:.,Z+-]*)?)?)?"
MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2})(-[0-9]{2})?(?:(?<=-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2})(:[0-9]{2})?([.,][0-9]{1,9})?"
    r" ?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
Row = dict[str, object]  # metadata of a document
_END = 1 << 63  # of integers of 64 bits
EXACT = 1 << 53  # JavaScript, and every parser that reads JSON numbers as doubles, rounds larger integers


def as_id(raw: object) -> int:
    """The 64-bit id of a document: an integer itself, also one written as text or as 7.0, or a hash of any other text.

    The text is hashed in normal form, as metadata are compared.

    Raises:
        InputError: it is neither an integer of 64 bits nor text.

    Example:
        >>> as_id(7), as_id(" 7"), as_id(7.0), as_id("7.0"), as_id("talk-7")
        (7, 7, 7, 7, 1433482642038159418)
    """
    value = storable(str.__str__(raw)).strip() if isinstance(raw, str) else raw
    if isinstance(value, str) and (match := _INTEGER.fullmatch(value)) and -_END <= int(match[1]) < _END:
        value = int(match[1])
    if isinstance(value, (float, np.floating)) and -EXACT < value < EXACT and value.is_integer():
        value = int(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and -_END <= value < _END:
        return int(value)
    if not isinstance(value, str) or not value:
        raise InputError(f"{raw!r} is not an id: give an integer of 64 bits, or text")
    return hashed(normal(value))


def hashed(text: str) -> int:
    """A number of 63 bits for a text, of which another spelling has another one."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 1


def digests(items: Iterable[bytes]) -> NDArray[np.int64]:
    """A number of 64 bits for each item, `[n]`, equal for equal items."""
    result = bytearray()
    for item in items:
        result += hashlib.blake2b(item, digest_size=8).digest()
    return np.frombuffer(result, np.int64)


def nfc(text: str) -> str:
    """The normal form in which texts are compared: composed letters, of which file names of macOS have none.

    Example:
        >>> nfc("e\u0301") == "\u00e9"
        True
    """
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def normal(text: str) -> str:
    """The form in which an index compares a text: a date or time as by `moment`, any other text as by `nfc`.

    Example:
        >>> normal("2024-05-01 00:00"), normal("e\u0301") == "\u00e9"
        ('2024-05-01', True)
    """
    return moment(text) or nfc(text)


def as_ids(ids: object) -> NDArray[np.int64]:
    """The 64-bit ids `[n]` of a list of ids, each as by `as_id`.

    Example:
        >>> as_ids([7, "talk-7"]).tolist()
        [7, 1433482642038159418]
        >>> as_ids("12")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: ids: give a list, such as ['12'], not '12'
    """
    if isinstance(ids, np.ndarray) and ids.dtype == np.int64 and ids.ndim == 1:
        return ids.copy()
    return np.array([as_id(one) for one in as_list("ids", ids)], dtype=np.int64)


def own_id(id: int, metadata: Mapping[str, object]) -> int | str:
    """The id of a document as its source writes it: the text of its metadata of which the number is the hash.

    If several are, which differ in blanks or in their normal form, it is the first in alphabetical order.

    Example:
        >>> own_id(1433482642038159418, {"sku": "talk-7", "year": 1999}), own_id(7, {"year": 1999})
        ('talk-7', 7)
    """
    texts = (text for text in metadata.values() if isinstance(text, str))
    return min((text for text in texts if hashed(normal(text.strip())) == id), default=id)


def json_id(id: int | str) -> int | str:
    """An id as JSON clients read it without loss: text where it exceeds 2^53.

    Example:
        >>> json_id(7), json_id(1 << 53)
        (7, '9007199254740992')
    """
    return str(id) if isinstance(id, str) or abs(id) >= EXACT else id


def as_list(name: str, value: object, kind: type = object) -> list[Any]:
    """The elements of a sequence, but not of a bare text or a mapping.

    Args:
        name: the name of the argument, for messages.
        value: what was given.
        kind: the type of the elements.

    Raises:
        InputError: it is not a sequence, or an element has another type.

    Example:
        >>> as_list("texts", ("a", None), str)
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: texts: element 1 is None; give a str
    """
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise InputError(f"{name}: give a list, such as [{value!r}], not {value!r}")
    items = list(value)
    if wrong := next((number for number, item in enumerate(items, 1) if not isinstance(item, kind)), 0):
        raise InputError(f"{name}: element {wrong - 1} is {items[wrong - 1]!r}; give a {kind.__name__}")
    return items


def moment(text: str) -> str | None:
    """A month, a day or a time of ISO 8601 as an index holds it, which is as by `isoformat`; None for another text.

    Example:
        >>> moment("2024-05-01 00:00:00"), moment("2024-05-01T09:30:00.500Z"), moment("2024-05"), moment("2024-13-01")
        ('2024-05-01', '2024-05-01T09:30:00.500000Z', '2024-05', None)
    """
    if (match := MOMENT.fullmatch(text)) is None:
        return None
    month, day, minute, second, fraction, zone = match.groups(default="")
    try:
        date.fromisoformat(month + (day or "-01"))
    except ValueError:
        return None
    fraction = fraction[1:].rstrip("0")
    time = f"{minute}{second or ':00'}" + (f".{fraction:0<6}" if fraction else "") + zone
    return month + day if not minute or time == "00:00:00" else f"{month}{day}T{time}"


def plain(value: object) -> object:
    """A value of metadata as JSON holds it.

    Dates and times become ISO 8601 text, durations seconds, decimals numbers, tuples, sets and arrays lists, UUIDs
    text; NaN, infinity and pandas' NaT become null. What PostgreSQL cannot store in a text is replaced (`storable`).

    Raises:
        InputError: the value is none of these.
        RecursionError: it is nested too deeply.

    Example:
        >>> plain({"at": date(2024, 5, 1), "score": float("nan"), "tags": {"a"}, "n": np.int64(3)})
        {'at': '2024-05-01', 'score': None, 'tags': ['a'], 'n': 3}
    """
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return storable(str.__str__(value))
    if isinstance(value, Mapping):
        return {storable(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(plain, value), key=lambda item: (str(type(item)), item))
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else moment(str(value)) or str(value)
    if isinstance(value, (np.timedelta64, timedelta)):
        return plain(value / np.timedelta64(1, "s"))
    if isinstance(value, np.ndarray):
        return plain(list(value)) if value.ndim else plain(value[()])
    if isinstance(value, np.generic) and value.dtype.kind in "biufSU":
        return plain(value.tolist())
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else plain(float(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (date, time)):  # a datetime is a date; only pandas' NaT differs from itself
        return (moment(value.isoformat()) or value.isoformat()) if value == value else None
    if isinstance(value, UUID):
        return str(value)
    raise InputError(f"metadata {value!r} of type {type(value).__name__}: give text, a number, true, false, null, "
                     "a date, a duration, a list or a mapping")  # fmt: skip


def storable(text: str) -> str:
    """The text with NUL characters and lone surrogates replaced by U+FFFD, because PostgreSQL cannot store them.

    Example:
        >>> storable("a\\x00b")
        'a\\ufffdb'
    """
    text = text.replace("\0", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def one_line(text: str, width: int = 110) -> str:
    """The text on one line, cut to `width` characters.

    Example:
        >>> one_line("ab\\n cd ef", 6)
        'ab cd…'
    """
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


# --- Metadata as an index holds them, and as they were given.


def as_held(metadata: Mapping[str, object]) -> Row:
    """Metadata as an index holds them: in normal form, without `OWN` names; and as `GIVEN`, if that is another form.

    The normal form of a text is NFC, that of a date `moment`.

    Example:
        >>> as_held({"year": 1999}), as_held({"(part)": 7})
        ({'year': 1999}, {'(given)': {'(part)': 7}})
    """

    def in_normal_form(value: object) -> object:
        if isinstance(value, str):
            return normal(value)
        if isinstance(value, Mapping):
            return {nfc(name): in_normal_form(item) for name, item in value.items()}
        return [in_normal_form(item) for item in value] if isinstance(value, list) else value

    names = [(nfc(name), value) for name, value in metadata.items()]
    result = {name: in_normal_form(value) for name, value in names if name not in OWN}
    return result if result == metadata else {**result, GIVEN: dict(metadata)}


def given_and_own(held: Mapping[str, object]) -> tuple[Row, Row]:
    """The metadata as they were given, and what the store itself keeps of a document, by name without parentheses.

    Example:
        >>> given_and_own({"year": 1999, "(part)": 7})
        ({'year': 1999}, {'part': 7})
    """
    own = {name[1:-1]: held[name] for name in OWN if name in held and name != GIVEN}
    given = held.get(GIVEN)
    return dict(given) if isinstance(given, Mapping) else {name: held[name] for name in held if name not in OWN}, own


def with_own_id(held: Row, number: int, id: object) -> Row:
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


def as_metadata(metadata: object, count: int) -> list[Row]:
    """The metadata of `count` documents as an index holds them (`plain`, `as_held`); None gives empty ones.

    Raises:
        InputError: there is not one mapping for each document, or a value has no form in JSON.

    Example:
        >>> from datetime import date
        >>> from decimal import Decimal
        >>> as_metadata([{"day": date(2024, 5, 1), "price": Decimal("1.5")}], 1)
        [{'day': '2024-05-01', 'price': 1.5}]
    """
    if metadata is None:
        return [{} for _ in range(count)]
    items = as_list("metadata", metadata, Mapping)
    check_lengths(documents=count, metadata=len(items))
    return [as_held({storable(str(key)): plain(value) for key, value in item.items()}) for item in items]


def check_lengths(**lengths: int) -> None:
    """Raise an `InputError` that tells these numbers of texts, ids and the like, if they differ."""
    if len({*lengths.values()}) > 1:
        counts = ", ".join(f"{length} {name}" for name, length in lengths.items())
        raise InputError(f"{counts}: give one of each for every document")


def same(one: object, other: object) -> bool:
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
    ids: object, texts: object, metadata: object, vectors: int
) -> tuple[NDArray[np.int64], list[str], list[Row]]:
    """Ids, texts and metadata of documents as an index holds them, one for each of so many vectors.

    An id that is text is kept next to the metadata, as by `with_own_id`.

    Raises:
        InputError: one of them is at fault, their numbers differ, or an id is given twice.

    Example:
        >>> as_documents(["talk-7"], ["On tides"], None, 1)[2]
        [{'(id)': 'talk-7'}]
    """
    raw_ids = ids if isinstance(ids, np.ndarray) else as_list("ids", ids)
    numbers, kept = as_ids(raw_ids), as_list("texts", texts, str)
    check_lengths(ids=len(numbers), texts=len(kept), vectors=vectors)
    if len(np.unique(numbers)) < len(numbers):
        raise InputError("an id is given twice; give each document once")
    return numbers, kept, list(map(with_own_id, as_metadata(metadata, len(numbers)), numbers.tolist(), raw_ids))
