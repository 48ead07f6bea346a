"""Labelled pairs with columns of the same names, whatever the file: `read_examples` for InferSent and USE."""

from __future__ import annotations

from pathlib import Path

import datasets

from contrastive_st.data.roles import read_examples
from contrastive_st.errors import InputError


def read_pairs(
    source: str | Path, gold: str | None = None, *, scale: tuple[float, float] | None = None, split: str = "train"
) -> datasets.Dataset:
    """Read labelled pairs by `read_examples`: columns `first`, `second`, and `label` (0, 1, ...) or `score` (0 to 1).

    Args:
        source: a file as published (SNLI, MultiNLI, QQP, MRPC, SICK, STS benchmark), a name of `PAIR_SETS`, or what
            else `read_examples` takes.
        gold: the column of labels or scores, if there are several (SICK: entailment_judgment, relatedness_score).
        scale: the lowest and highest score; by default that of SICK or the STS benchmark, or else 0 to 1.
        split: the split of a data set of the Hub: train, dev or test.

    Raises:
        InputError: the source cannot be read, or has no labelled pairs; the message says where.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "pairs.tsv")
        ...     _ = path.write_text("premise\\thypothesis\\tlabel\\nA cat sat.\\tAn animal sat.\\tentailment\\n")
        ...     read_pairs(path)[0]
        {'first': 'A cat sat.', 'second': 'An animal sat.', 'label': 0}
    """
    rows, roles = read_examples(str(source), scale=scale, split=split, gold=gold)
    if roles.gold is None or len(roles.texts) != 2:
        raise InputError(f"{source} has {roles.words}, not two columns of text and one of labels or scores")
    return rows.rename_columns(dict(zip(roles.texts, ("first", "second"), strict=True)))
