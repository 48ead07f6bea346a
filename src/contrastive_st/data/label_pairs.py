"""Scored pairs of labelled sentences, and the check that scores and labels tell texts apart."""

from __future__ import annotations

import datasets
import numpy as np
import pyarrow.compute as pc

from contrastive_st.data.roles import LABEL, SCORE, ColumnRoles
from contrastive_st.errors import InputError


def pairs_of_labels(rows: datasets.Dataset, seed: int = 0, source: str = "the data") -> datasets.Dataset:
    """Make scored pairs of labelled sentences.

    Each sentence is paired with a random one of its class (score 1) and with one of another class (score 0).

    Args:
        rows: a column of sentences and a column `label`, as `read_examples` returns them.
        seed: seed of the random choice.
        source: where they come from, for messages.

    Raises:
        InputError: there is only one class, or each row has another.

    Example:
        >>> rows = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [0, 0, 1]})
        >>> pairs_of_labels(rows)[:]["score"]
        [1.0, 1.0, 0.0, 0.0, 0.0]
    """
    labels, random = np.asarray(rows["label"][:]), np.random.default_rng(seed)
    order = random.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]  # sorted by class, in random order within a class
    classes, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    if len(classes) < 2:
        raise InputError(f"{source}: all rows have the same label, but pairs need two; add rows with another label")
    if len(classes) == len(labels):
        what = f"{source}: no two rows have the same label, so no pair would be similar"
        raise InputError(f"{what}; give several rows per label")
    group = np.searchsorted(classes, labels[order])
    rank = np.arange(len(order)) - starts[group]
    same = order[starts[group] + (rank + 1) % counts[group]]
    away = random.integers(0, len(order) - counts[group])  # a place among the rows of the other classes
    other = order[np.where(away < starts[group], away, away + counts[group])]
    single = same == order
    texts = np.asarray(next(rows[name][:] for name in rows.column_names if name != "label"), dtype=object)
    first, second = np.concatenate([order[~single], order]), np.concatenate([same[~single], other])
    score = np.repeat([1.0, 0.0], [int((~single).sum()), len(order)])
    return datasets.Dataset.from_dict({"anchor": texts[first], "positive": texts[second], "score": score})


def check_targets(rows: datasets.Dataset, roles: ColumnRoles) -> None:
    """Refuse rows to train on that all have the same score or label: every text would get the same vector.

    Args:
        rows: as `read_examples` returns them.
        roles: the roles of their columns.

    Raises:
        InputError: all scores or labels are equal.
    """
    for name in {SCORE, LABEL} & set(rows.column_names):
        if pc.count_distinct(rows.with_format("arrow")[name][:]).as_py() < 2:
            written = f"all rows have the same {name}, {roles.example.get(str(roles.target), rows[0][name])}"
            fix = "give rows with another, or train on the texts alone: name only their columns with --columns"
            raise InputError(f"{roles.source}: {written}, so nothing says which texts differ; {fix}")
