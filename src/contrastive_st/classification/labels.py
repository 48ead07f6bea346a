"""What a label is: in which forms labels are given, which class each means, and how classes are saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from contrastive_st.data.profile import is_missing, value_of
from contrastive_st.errors import InputError
from contrastive_st.files.reading import JsonObject

#: Labels in an array, of whatever type they are
Labels: TypeAlias = np.ndarray


class Indicator(NamedTuple):
    """Which classes each text has.

    Args:
        rows: `[N, K]` of 0 and 1.
        names: of the columns of a data frame; None if the columns have none.
    """

    rows: NDArray[np.int64]
    names: list[object] | None = None


def plain_labels(labels: Any) -> Indicator | list[Any]:
    """Labels in one of two forms: rows of 0 and 1; or for each text its label, or a list of its labels.

    Args:
        labels: a list or a column of labels or of lists of labels; or `[N, K]` of 0 and 1, with a column for each
            class, as a data frame, an array, a sparse matrix or nested lists.

    Raises:
        InputError: a label is missing, some texts have one label and others a list, or there are several columns of
            something else than 0 and 1.

    Example:
        >>> plain_labels(np.array(["a", "b"], dtype=object)), plain_labels([["a", "b"], []])
        (['a', 'b'], [['a', 'b'], []])
        >>> plain_labels([[1, 0], [1, 1]]).rows.tolist()
        [[1, 0], [1, 1]]
    """
    names = list(getattr(labels, "columns", ()))
    labels = labels.toarray() if hasattr(labels, "nnz") else labels
    array = np.asarray(labels) if hasattr(labels, "__array__") else None
    if array is not None and array.ndim == 2 and array.shape[1] == 1:
        from sklearn.utils.validation import column_or_1d

        array = column_or_1d(array, warn=True)
    rows = list(labels if array is None else array)
    several = [_is_list(row) for row in rows]
    cells = [cell for row in rows for cell in (row if _is_list(row) else [row])]
    if any(map(is_missing, cells)):
        raise InputError("a label is missing (None or NaN); leave its text out")
    if len(set(several)) > 1:
        raise InputError("some texts have a list of labels and others a single one; give each text a list")
    widths = {len(row) if isinstance(row, (list, tuple, np.ndarray)) else 0 for row in rows}
    if len(widths) == 1 and max(widths) > 1 and all(cell in (0, 1) for cell in cells):
        named = names and names != list(range(len(names)))
        return Indicator(np.array([list(row) for row in rows], dtype=np.int64), names if named else None)
    if array is not None and array.ndim > 1:
        raise InputError("labels in two dimensions must be 0 and 1, a column for each class")
    return rows


class Numbered(NamedTuple):
    """Labels as numbers.

    Args:
        classes: the K classes in order.
        numbers: the number of each label `[N]`, or `[N, K]` of 0 and 1 for several labels per text.
        listed: whether each text had a list of labels.
    """

    classes: Labels
    numbers: NDArray[np.int64]
    listed: bool = False


def numbered(labels: object) -> Numbered:
    """Labels as numbers.

    Args:
        labels: as for `plain_labels`.

    Raises:
        InputError: as for `plain_labels`, or some labels are strings and others numbers.
        ValueError: labels that are not classes, such as 0.37; from scikit-learn.
    """
    from sklearn.utils.multiclass import check_classification_targets

    if labels is None:
        raise InputError("SentenceClassifier requires y to be passed, but the target y is None")
    plain = plain_labels(labels)
    if isinstance(plain, Indicator):
        return Numbered(np.asarray(plain.names or range(plain.rows.shape[1])), plain.rows)
    single = [label for row in plain for label in (row if _is_list(row) else [row])]
    if len({isinstance(label, str) for label in single}) > 1:
        raise InputError("some labels are strings and others numbers; give one kind")
    classes, numbers = np.unique(np.asarray(single), return_inverse=True)
    check_classification_targets(np.asarray(single))
    if not any(map(_is_list, plain)):
        return Numbered(classes, numbers.astype(np.int64))
    return Numbered(classes, indicators(classes, plain), listed=True)


def as_classes(labels: object, classes: Labels, several: bool, listed: bool = False) -> Labels:
    """Labels as the classes that they mean: `[N]`, or with several labels per text `[N, K]` of 0 and 1.

    Args:
        labels: as for `plain_labels`.
        classes: the K classes.
        several: whether a text may have several.
        listed: whether it was fitted with lists of labels: then `[0, 1]` are the classes 0 and 1, if there are these.

    Raises:
        InputError: as for `plain_labels`, a label that means none of the classes and is of another kind or in a list,
            or lists where each text has one label, or the other way around.
    """
    plain, find = plain_labels(labels), class_finder(classes)
    if isinstance(plain, Indicator):
        rows, width = plain.rows, plain.rows.shape[1]
        both = listed and classes.tolist() == [0, 1] and bool((rows.sum(1) == 1).all())
        if isinstance(labels, (list, tuple)) and (both or width != len(classes)):
            plain = rows.tolist()  # as many labels for each text, all of them 0 or 1
        elif plain.names is None and several:
            return rows
        else:
            names = plain.names or range(width)
            plain = [[name for name, on in zip(names, row, strict=True) if on] for row in rows]
    if any(_is_list(row) != several for row in plain):
        expected = "several labels per text; give each a list" if several else "one label per text, not lists"
        raise InputError(f"the classifier was fitted with {expected}")
    meant = {label: find(label) for row in plain for label in (row if several else [row])}
    text = classes.dtype.kind == "U"
    unknown = [label for label, one in meant.items() if one is None and (several or isinstance(label, str) != text)]
    if unknown:
        without, there = (", ".join(map(str, some)) for some in (sorted(unknown, key=str), classes))
        raise InputError(f"no examples of {without}; the labels are {there}")
    if several:
        return indicators(classes, [[meant[label] for label in row] for row in plain])
    return np.asarray([label if meant[label] is None else meant[label] for label in plain])


def class_finder(classes: Sequence[object] | Labels) -> Callable[[object], object]:
    """A function that returns the class that a label means, or None.

    That is the equal one, or the one with the same text, or else the only one that is the same number: labels of files
    are text, and 3 and True are written in more than one way.

    Example:
        >>> find = class_finder([False, True])
        >>> find("True"), find("false"), find("1"), find("2")
        (True, False, True, None)
        >>> class_finder(["1", "3"])(3.0)
        '3'
    """
    equal = {name: name for name in classes}
    of_text = {str(name): name for name in classes}
    numbers = [value_of(name) for name in classes]
    of_number = {number: name for number, name in zip(numbers, classes, strict=True) if numbers.count(number) == 1}
    of_number.pop(None, None)
    return lambda label: equal.get(label, of_text.get(str(label), of_number.get(value_of(label))))


def indicators(classes: Labels, labels: Sequence[Iterable[object]]) -> NDArray[np.int64]:
    """Which classes each text has, `[N, K]` of 0 and 1."""
    return np.array([[name in chosen for name in classes] for chosen in map(set, labels)], dtype=np.int64)


def saved_classes(classes: Labels) -> JsonObject:
    """Classes as JSON has them, with their type where JSON has none, for `opened_classes`.

    Example:
        >>> saved_classes(np.array(["2026-01-02"], dtype="datetime64[D]"))
        {'classes': ['2026-01-02'], 'dtype': 'datetime64[D]'}
    """
    plain = classes.astype({"M": str, "m": np.int64}.get(classes.dtype.kind, classes.dtype))
    return {"classes": plain.tolist(), **({} if classes.dtype.kind == "U" else {"dtype": classes.dtype.name})}


def opened_classes(saved: JsonObject) -> Labels:
    """The classes that `saved_classes` wrote.

    Example:
        >>> opened_classes(saved_classes(np.array([3], dtype="timedelta64[D]")))
        array([3], dtype='timedelta64[D]')
    """
    classes = np.array(saved["classes"])
    return classes.astype(saved.get("dtype", classes.dtype))


def _is_list(label: object) -> bool:
    """Whether these are the labels of a text that may have several."""
    return isinstance(label, (list, tuple, set, frozenset, np.ndarray))
