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


def given_labels(labels: Any) -> Indicator | list[Any]:
    """Labels in one of two forms: rows of 0 and 1; or for each text its label, or a list of its labels.

    Args:
        labels: a list or a column of labels or of lists of labels; or `[N, K]` of 0 and 1, with a column for each
            class, as a data frame, an array, a sparse matrix or nested lists.

    Raises:
        InputError: a label is missing, some texts have one label and others a list, or there are several columns of
            something else than 0 and 1.

    Example:
        >>> given_labels(np.array(["a", "b"], dtype=object)), given_labels([["a", "b"], []])
        (['a', 'b'], [['a', 'b'], []])
        >>> given_labels([[1, 0], [1, 1]]).rows.tolist()
        [[1, 0], [1, 1]]
    """
    names = list(getattr(labels, "columns", ()))
    labels = labels.toarray() if hasattr(labels, "nnz") else labels
    array = np.asarray(labels) if hasattr(labels, "__array__") else None
    if array is not None and array.ndim == 2 and array.shape[1] == 1:
        from sklearn.utils.validation import column_or_1d

        array = column_or_1d(array, warn=True)
    rows = list(labels if array is None else array)
    several = [_is_list(own) for own in rows]
    cells = [cell for own in rows for cell in (own if _is_list(own) else [own])]
    if any(map(is_missing, cells)):
        raise InputError("a label is missing (None or NaN); leave its text out")
    if len(set(several)) > 1:
        raise InputError("some texts have a list of labels and others a single one; give each text a list")
    widths = {len(own) if isinstance(own, (list, tuple, np.ndarray)) else 0 for own in rows}
    if len(widths) == 1 and max(widths) > 1 and all(cell in (0, 1) for cell in cells):
        named = names and names != list(range(len(names)))
        return Indicator(np.array([list(own) for own in rows], dtype=np.int64), names if named else None)
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
        labels: as for `given_labels`.

    Raises:
        InputError: as for `given_labels`, or some labels are strings and others numbers.
        ValueError: labels that are not classes, such as 0.37; from scikit-learn.
    """
    from sklearn.utils.multiclass import check_classification_targets

    if labels is None:
        raise InputError("SentenceClassifier requires y to be passed, but the target y is None")
    given = given_labels(labels)
    if isinstance(given, Indicator):
        return Numbered(np.asarray(given.names or range(given.rows.shape[1])), given.rows)
    single = [label for own in given for label in (own if _is_list(own) else [own])]
    if len({isinstance(label, str) for label in single}) > 1:
        raise InputError("some labels are strings and others numbers; give one kind")
    classes, numbers = np.unique(np.asarray(single), return_inverse=True)
    check_classification_targets(np.asarray(single))
    if not any(map(_is_list, given)):
        return Numbered(classes, numbers.astype(np.int64))
    return Numbered(classes, indicators(classes, given), listed=True)


def like(labels: object, classes: Labels, several: bool, listed: bool = False) -> Labels:
    """Labels as the classes that they mean: `[N]`, or with several labels per text `[N, K]` of 0 and 1.

    Args:
        labels: as for `given_labels`.
        classes: the K classes.
        several: whether a text may have several.
        listed: whether it was fitted with lists of labels: then `[0, 1]` are the classes 0 and 1, if there are these.

    Raises:
        InputError: as for `given_labels`, a label that means none of the classes and is of another kind or in a list,
            or lists where each text has one label, or the other way around.
    """
    given, find = given_labels(labels), class_finder(classes)
    if isinstance(given, Indicator):
        rows, width = given.rows, given.rows.shape[1]
        both = listed and classes.tolist() == [0, 1] and bool((rows.sum(1) == 1).all())
        if isinstance(labels, (list, tuple)) and (both or width != len(classes)):
            given = rows.tolist()  # as many labels for each text, all of them 0 or 1
        elif given.names is None and several:
            return rows
        else:
            names = given.names or range(width)
            given = [[name for name, on in zip(names, own, strict=True) if on] for own in rows]
    if any(_is_list(own) != several for own in given):
        wanted = "several labels per text; give each a list" if several else "one label per text, not lists"
        raise InputError(f"the classifier was fitted with {wanted}")
    found = {label: find(label) for own in given for label in (own if several else [own])}
    text = classes.dtype.kind == "U"
    unknown = [label for label, own in found.items() if own is None and (several or isinstance(label, str) != text)]
    if unknown:
        without, known = (", ".join(map(str, own)) for own in (sorted(unknown, key=str), classes))
        raise InputError(f"no examples of {without}; the labels are {known}")
    if several:
        return indicators(classes, [[found[label] for label in own] for own in given])
    return np.asarray([label if found[label] is None else found[label] for label in given])


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
    equal = {own: own for own in classes}
    of_text = {str(own): own for own in classes}
    numbers = [value_of(own) for own in classes]
    of_number = {number: own for number, own in zip(numbers, classes, strict=True) if numbers.count(number) == 1}
    of_number.pop(None, None)
    return lambda label: equal.get(label, of_text.get(str(label), of_number.get(value_of(label))))


def indicators(classes: Labels, labels: Sequence[Iterable[object]]) -> NDArray[np.int64]:
    """Which classes each text has, `[N, K]` of 0 and 1."""
    return np.array([[name in own for name in classes] for own in map(set, labels)], dtype=np.int64)


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
