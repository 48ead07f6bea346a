"""What the cells of a column hold: text, numbers or lists; how many values they have. All rows decide."""

from __future__ import annotations

import ast
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any

import numpy as np

from contrastive_st.prefetch import in_chunks

NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
#: Cells that nobody would embed: addresses, dates, digests
_MACHINE = re.compile(r"\w+://\S+|\d{4}-\d\d?-\d\d?([T ]\S*)?|\d\d?[./]\d\d?[./]\d{2,4}|[0-9a-fA-F-]{16,}")
#: Numbers as people write them: with a comma, a percent sign, a currency, or of so many
_MEASURE = re.compile(r"\s*[$€£<>~]?\s*[-+]?\d[\d.,]*\s*(%|[$€£]|/\s*\d+|stars?|points?)?\s*", re.IGNORECASE)
BOOLEANS = {"false": 0.0, "true": 1.0}
#: What R, pandas, spreadsheets and databases write into a file of text for a cell without a value
MISSING = frozenset({"NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null"})
TEXTS, NUMBERS, OTHER, NOTHING = "text", "numbers", "neither text nor numbers", "nothing"
_ID = re.compile(r"(.*_)?(id|docid|url|uri|lang|language|source)|.*Id", re.IGNORECASE)
_CHUNK = 8192
_MANY = 1000  # distinct values that are remembered
_FEW, _ROWS_OF_EACH = 50, 20  # a category has at most so many values, each in so many rows


def number_of(cell: Any) -> float | None:
    """The finite number in a cell, which may be written as text; None if there is none.

    Example:
        >>> number_of(" .5 "), number_of(True), number_of("n/a")
        (0.5, 1.0, None)
    """
    if isinstance(cell, str):
        return float(cell) if NUMBER.fullmatch(cell) else None
    valid = isinstance(cell, (int, float)) and abs(cell) < 1 << 1000 and math.isfinite(cell)
    return float(cell) if valid else None


def value_of(cell: Any) -> float | None:
    """The number in a cell as for `number_of`; true is 1 and false 0, also where they are written as text.

    Example:
        >>> value_of(" True"), value_of("2.0"), value_of("no")
        (1.0, 2.0, None)
    """
    text = str(cell).strip()
    return BOOLEANS.get(text.lower(), number_of(text))


def is_blank(cell: Any) -> bool:
    """Whether there is nothing in a cell: null, white space, what is written for a missing value, or an empty list.

    Example:
        >>> is_blank(" "), is_blank("NA"), is_blank([]), is_blank("Na"), is_blank(0)
        (True, True, True, False, False)
    """
    if isinstance(cell, str):
        return not (text := cell.strip()) or text in MISSING
    return is_missing(cell) or (isinstance(cell, list) and not cell)


def is_missing(cell: Any) -> bool:
    """Whether there is no value: None, NaN, NaT, or the NA of pandas.

    Example:
        >>> [is_missing(cell) for cell in (None, float("nan"), np.datetime64("NaT"), 0, "")]
        [True, True, True, False, False]
    """
    differs = cell != cell  # NA, which differs from nothing, says neither
    return cell is None or not isinstance(differs, (bool, np.bool_)) or bool(differs)


def items_of(cell: Any) -> list[Any] | None:
    """The items of a list, which may be written as by JSON, Python, numpy or PostgreSQL; None for another cell.

    Example:
        >>> items_of(["a", "b"]), items_of("[0.9, 0.2]"), items_of("['a', \\"it's\\"]"), items_of("a")
        (['a', 'b'], [0.9, 0.2], ['a', "it's"], None)
        >>> items_of("['a' 'b c']"), items_of("[1 3]"), items_of('{a,"b c"}'), items_of("('a', 'b')")
        (['a', 'b c'], [1, 3], ['a', 'b c'], ['a', 'b'])
    """
    if isinstance(cell, str):
        cell = cell.strip()
        if cell[:1] + cell[-1:] not in ("[]", "()", "{}"):
            return None
        return next((items for read in _WRITTEN if (items := read(cell)) is not None), None)
    return cell if isinstance(cell, list) else None


def _of_json(text: str) -> list[Any] | None:
    try:
        result = json.loads(text) if text[0] == "[" else None
    except (ValueError, RecursionError):
        return None
    return result if isinstance(result, list) else None


def _of_braces(text: str) -> list[Any] | None:
    """An array of PostgreSQL or a set of Python, in which only quoted items have white space."""
    if not _BRACES.fullmatch(text):
        return None
    items = _IN_BRACES.findall(text[1:-1])
    return [re.sub(r"\\(.)", r"\1", item[1:-1]) if item[0] in "'\"" else item for item in items]


def _of_numpy(text: str) -> list[Any] | None:
    """An array of texts or numbers as numpy writes it, without commas."""
    if _TEXTS_OF_NUMPY.fullmatch(text):
        return [ast.literal_eval(item) for item in _QUOTED.findall(text)]
    items = text[1:-1].split()
    if text[0] == "[" and items and all(map(NUMBER.fullmatch, items)):
        return [int(item) if item.lstrip("+-").isdigit() else float(item) for item in items]
    return None


def _of_python(text: str) -> list[Any] | None:
    """A list or a tuple of Python; `np.str_('a')` in it is its argument."""
    try:
        written = ast.parse(text, mode="eval").body
        if not isinstance(written, (ast.List, ast.Tuple)):
            return None
        items = [item.args[0] if isinstance(item, ast.Call) and item.args else item for item in written.elts]
        return [ast.literal_eval(item) for item in items]
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


_STRING = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_ITEM = rf"""(?:{_STRING}|[^\s"'{{}},\\][^\s"{{}},\\]*)"""
_QUOTED, _IN_BRACES = re.compile(_STRING, re.DOTALL), re.compile(_ITEM, re.DOTALL)
_BRACES = re.compile(rf"\{{(?:{_ITEM}(?:, ?{_ITEM})*)?\}}", re.DOTALL)
_TEXTS_OF_NUMPY = re.compile(rf"\[\s*{_STRING}(?:\s+{_STRING})*\s*\]", re.DOTALL)
_WRITTEN = (_of_json, _of_braces, _of_numpy, _of_python)  # Python, the last, would join numpy's texts


def simple(cell: Any) -> Any:
    """A cell, with the text of an object in its place if it is clear which one that is; of a list, of each item.

    That is `text` (with a `title` before it), or the only text that is not an id, an address or a language; of an
    object with nothing but `choices`, as Label Studio writes several labels, these.

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
    if cell.keys() == {"choices"}:
        return cell["choices"]
    texts = {name: value for name, value in cell.items() if isinstance(value, str) and not _ID.fullmatch(name)}
    if isinstance(cell.get("text"), (str, list)):
        title = texts.get("title", "")
        return f"{title} {cell['text']}" if title and isinstance(cell["text"], str) else cell["text"]
    return next(iter(texts.values())) if len(texts) == 1 else cell


class Column:
    """What the cells of a column hold, blank ones left out.

    Attributes:
        rows: how many rows were looked at.
        count: how many cells there are.
        example: the first of them.
        distinct: how often each value occurs, of the first 1,000 values.
        lists: how many cells are lists, also those written as text.
        objects: whether cells are objects, or lists of them.
        measured: whether each text is a number with a comma, a percent sign or a unit.
        items: what the items of the lists hold.
    """

    def __init__(self) -> None:
        self.rows = self.count = self.numbers = self.texts = self.lists = 0
        self.graded, self.machine, self.measured, self.objects = False, True, True, False
        self.low, self.high = math.inf, -math.inf
        self.example: Any = None
        self.distinct: Counter[Any] = Counter()
        self.items: Column | None = None

    def add(self, cells: Sequence[Any]) -> None:
        """Take in some cells."""
        self.rows += len(cells)
        given = [cell for cell in cells if not is_blank(cell)]
        if not given:
            return
        cells = [simple(cell) for cell in given]
        first = given[0][0] if type(given[0]) is list else given[0]
        self.objects = self.objects or type(first) is dict
        self.example = cells[0] if not self.count else self.example
        self.count += len(cells)
        lists = [items for cell in cells if type(cell) in (list, str) and (items := items_of(cell)) is not None]
        if lists:
            self.lists += len(lists)
            self.items = self.items or Column()
            self.items.add([item for items in lists for item in items])
        strings = [cell.strip() for cell in cells if type(cell) is str]
        self.texts += len(strings)
        self.machine = self.machine and all(map(_MACHINE.fullmatch, strings))
        self.measured = self.measured and all(map(_MEASURE.fullmatch, strings))
        numbers = [float(cell) for cell in strings if NUMBER.fullmatch(cell)]
        numbers += [BOOLEANS[cell.lower()] for cell in strings if cell.lower() in BOOLEANS]
        plain = [cell for cell in cells if isinstance(cell, (int, float)) and abs(cell) < 1 << 63]
        plain = [cell for cell in plain if math.isfinite(cell)]
        self._add_numbers([*numbers, *plain])
        if len(self.distinct) < _MANY:
            self.distinct.update(cell for cell in cells if isinstance(cell, (str, int, float)))

    def _add_numbers(self, numbers: list[float]) -> None:
        self.numbers += len(numbers)
        if numbers:
            self.low, self.high = min(self.low, *numbers), max(self.high, *numbers)
            self.graded = self.graded or any(number % 1 for number in numbers)

    @property
    def held(self) -> str:
        """What the cells are: text, numbers (also numbers written as text), neither, or nothing."""
        if not self.count:
            return NOTHING
        if self.numbers == self.count:
            return NUMBERS
        return TEXTS if self.texts else OTHER

    @property
    def all_lists(self) -> bool:
        """Whether each cell is a list."""
        return 0 < self.count == self.lists

    @property
    def all_marks(self) -> bool:
        """Whether each cell is 0 or 1."""
        return self.held == NUMBERS and 0 <= self.low <= self.high <= 1 and not self.graded

    @property
    def aside(self) -> bool:
        """Whether it holds what nobody would embed: addresses, dates, or mostly numbers."""
        return self.numbers * 2 >= self.count or ((self.machine or self.measured) and self.texts > 0)

    @property
    def graded_numbers(self) -> bool:
        """Whether half of the cells or more are numbers, and some of them are not whole."""
        return self.graded and self.numbers * 2 >= self.count

    @property
    def like_classes(self) -> bool:
        """Whether it has two to four values, most of which occur again, as the classes of pairs do."""
        return 2 <= len(self.distinct) <= 4 and self.count >= 2 * len(self.distinct)

    @property
    def category(self) -> bool:
        """Whether it has few values, each of which occurs in many rows."""
        few = 0 < len(self.distinct) <= _FEW
        return few and self.count >= max(_ROWS_OF_EACH * len(self.distinct), 2 * _ROWS_OF_EACH)


def profile(rows: Iterable[Mapping[str, Any]], limit: int | None = None) -> dict[str, Column]:
    """What the columns of some rows hold, by name, in the order in which they occur.

    Args:
        rows: cells by column.
        limit: how many rows to look at; by default all.

    Example:
        >>> found = profile([{"a": "x", "n": "1"}, {"a": None, "n": 2.5, "pos": ["p", "q"]}])
        >>> [(name, column.held, column.count) for name, column in found.items()]
        [('a', 'text', 1), ('n', 'numbers', 2), ('pos', 'neither text nor numbers', 1)]
        >>> found["n"].low, found["n"].high, found["pos"].items.held
        (1.0, 2.5, 'text')
    """
    columns: dict[str, Column] = {}
    for chunk in in_chunks(islice(rows, limit), _CHUNK):
        for name in dict.fromkeys(name for row in chunk for name in row):
            columns.setdefault(name, Column()).add([row.get(name) for row in chunk])
    return columns
