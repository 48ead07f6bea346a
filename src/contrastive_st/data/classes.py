"""Classes go by their names: rows of two sources may number the same classes differently."""

from __future__ import annotations

from typing import Any

import numpy as np
from datasets import ClassLabel

from contrastive_st.data.mixture import Mixture
from contrastive_st.data.roles import LABEL
from contrastive_st.errors import InputError


def class_names(rows: object) -> list[str] | None:
    """The names of the classes in the column `label`, in the order of their numbers; None if it has no names."""
    feature = (getattr(rows, "features", None) or {}).get(LABEL)
    return list(feature.names) if isinstance(feature, ClassLabel) else None


def numbered_as(rows: Any, trained: Any) -> Any:
    """Rows with the class numbers of the rows to train on, by the names of the classes.

    Args:
        rows: tokenized rows; rows of which one of the two has no names are returned as they are.
        trained: the rows to train on. The data sets of a `Mixture` are compared by their names.

    Raises:
        InputError: a class is not one of those to train on.

    Example:
        >>> from datasets import Dataset
        >>> rows = Dataset.from_dict({"input_ids": [[2], [3]], "label": [0, 1]})
        >>> rows, trained = (rows.cast_column("label", ClassLabel(names=x.split())) for x in ("no yes", "yes maybe no"))
        >>> numbered_as(rows, trained)["label"][:]
        [2, 0]
    """
    if isinstance(rows, Mixture) and isinstance(trained, Mixture):
        others = dict(zip(trained.names, trained.parts, strict=True))
        parts = {name: numbered_as(part, others.get(name)) for name, part in zip(rows.names, rows.parts, strict=True)}
        weights = None if rows.weights is None else dict(zip(rows.names, rows.weights, strict=True))
        return Mixture(parts, weights)
    names, expected = class_names(rows), class_names(trained)
    if names is None or expected is None or names == expected:
        return rows
    labels = np.asarray(rows.with_format("numpy")[LABEL][:])
    if strange := [names[number] for number in np.unique(labels) if number >= 0 and names[number] not in expected]:
        what = f"the validation data have the class {strange[0]!r}, and the rows to train on have {', '.join(expected)}"
        raise InputError(f"{what}; leave its rows out, or train on them too")
    numbers = np.array([*(expected.index(name) if name in expected else -1 for name in names), -1])
    return rows.remove_columns(LABEL).add_column(LABEL, numbers[labels], feature=ClassLabel(names=expected))
