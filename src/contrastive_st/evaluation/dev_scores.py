"""The dev score of an encoder, by which checkpoints are chosen; no test split is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from contrastive_st.errors import InputError
from contrastive_st.evaluation.suite import load, run
from contrastive_st.evaluation.tasks import choose, tasks
from contrastive_st.models.protocol import Encoder


def dev_score(names: str | Sequence[str] = "STSB", data: str | Path = "hub") -> Callable[[Encoder], float]:
    """A score for `model_soup`: the mean dev score over tasks. Test splits are not read.

    Args:
        names: tasks: "STSB", "SICKR" or both.
        data: the folder of SentEval's files, or "hub".

    Raises:
        InputError: a task has no dev split for similarity, or its data is missing.

    Example:
        >>> dev_score("CR")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: CR has no dev score to choose by; use STSB, SICKR
    """
    known = [task.name for task in tasks().values() if task.group == "sts" and "dev" in task.splits]
    asked = choose(names)
    if wrong := [task.name for task in asked if task.name not in known]:
        raise InputError(f"{wrong[0]} has no dev score to choose by; use {', '.join(known)}")
    asked = [replace(task, splits=("dev",)) for task in asked]
    loaded = load(asked, data)
    if missing := [why for why in loaded.values() if isinstance(why, str)]:
        raise InputError(f"nothing to choose by: {missing[0]}")

    def score(encoder: Encoder) -> float:
        scores, _ = run(encoder, asked, loaded, distributed=False)
        dev = [next(s for s in scores if (s.task, s.split, s.metric) == (t.name, "dev", t.main[1])) for t in asked]
        if undefined := next((own for own in dev if own.value is None), None):
            raise InputError(f"{encoder.name}: the dev score of {undefined.task} is {undefined.note}")
        return sum(own.value or 0.0 for own in dev) / len(dev)

    return score
