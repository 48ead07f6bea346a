"""The values of a metadata column, put into few groups: years, months, ranges of numbers, or the commonest values."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST = 24  # groups; more cannot be read in a table or a picture
MISSING, OTHERS = "(none)", "(others)"
_DATE = re.compile(r"\d{4}-\d\d(-\d\d.*)?")


@dataclass(frozen=True)
class Groups:
    """Groups of values.

    Args:
        names: what the groups are called, in order.
        of: the place in `names` of each value.
        ordered: whether their order means something, as that of years does.
    """

    names: list[str]
    of: Mapping[Any, int]
    ordered: bool

    def count(self, values: Mapping[Any, int]) -> list[int]:
        """How many of the counted values are in each group."""
        counts = [0] * len(self.names)
        for value, n in values.items():
            counts[self.of[value]] += n
        return counts


def group_values(counted: Mapping[Any, int]) -> Groups:
    """Put the values, given with how often they occur, into at most 24 groups.

    Numbers (also as texts) and ISO dates keep their order: numbers in ranges of a round width, dates in days, months,
    years or decades. Of other values the commonest have a group each. A missing value makes the groups have no order.

    Example:
        >>> group_values({2019: 4, 2021: 1}).names
        ['2019', '2020', '2021']
        >>> group_values({"b": 1, "a": 3}).names
        ['a', 'b']
    """
    values = [value for value in counted if value is not None]
    numbers = {value: _number(value) for value in values}
    if all(map(math.isfinite, numbers.values())):
        groups = _of_numbers(numbers)
    elif all(isinstance(value, str) and _DATE.match(value) for value in values):
        groups = _of_dates(values)
    else:
        groups = _of_names(counted)
    if None not in counted:
        return groups
    return Groups([*groups.names, MISSING], {**groups.of, None: len(groups.names)}, False)


def _number(value: Any) -> float:
    """The number that a value is or, in a table of texts, says; NaN where it does not."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return math.nan


def _of_numbers(numbers: Mapping[Any, float]) -> Groups:
    low, high = min(numbers.values()), max(numbers.values())
    whole = all(number.is_integer() for number in numbers.values())
    width = 1.0 if whole and high - low < MOST else _round_width((high - low) / (MOST - 2) or 1.0)
    first = math.floor(low / width)
    number = math.floor(high / width) - first + 1
    if whole and width == 1:
        names = [f"{first + i}" for i in range(number)]
    else:
        names = [f"{(first + i) * width:g} to {(first + i + 1) * width:g}" for i in range(number)]
    return Groups(names, {value: math.floor(n / width) - first for value, n in numbers.items()}, number > 1)


def _round_width(width: float) -> float:
    """The next larger of 1, 2, 5, 10, 20, ... times a power of ten."""
    power = 10.0 ** math.floor(math.log10(width))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= width)


def _of_dates(values: list[str]) -> Groups:
    for length, rest in ((10, ""), (7, ""), (4, ""), (3, "0s"), (2, "00s")):
        names = sorted({value[:length] + rest for value in values})
        if len(names) <= MOST:
            break
    return Groups(names, {value: names.index(value[:length] + rest) for value in values}, len(names) > 1)


def _of_names(counted: Mapping[Any, int]) -> Groups:
    texts: Counter[str] = Counter()
    for value, n in counted.items():
        if value is not None:
            texts[str(value)] += n
    names = sorted(texts, key=lambda name: (-texts[name], name))
    kept = names if len(names) <= MOST else [*names[: MOST - 1], OTHERS]
    place = {name: min(i, len(kept) - 1) for i, name in enumerate(names)}
    return Groups(kept, {value: place[str(value)] for value in counted if value is not None}, False)
