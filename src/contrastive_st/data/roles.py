"""Find the role of each column of a table in training (anchor, positive, score, ...) from its name and its cells."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contrastive_st.data.tables import preview, read_texts
from contrastive_st.errors import InputError

logger = logging.getLogger(__name__)

TEXT, ANCHOR, POSITIVE, NEGATIVE, SCORE, LABEL = "text", "anchor", "positive", "negative", "score", "label"
NUMBERS, OTHER = "numbers", "neither text nor numbers"
ROLES = (TEXT, ANCHOR, POSITIVE, NEGATIVE, SCORE, LABEL)

#: Column names of each role, in lower case, from the data sets of sentence-transformers, SentEval, GLUE and SimCSE.
NAMES: dict[str, tuple[str, ...]] = {
    ANCHOR: (
        "anchor", "query", "question", "sentence1", "sentence_1", "sent0", "premise", "text1", "text_1", "sentence_a",
        "question1", "first", "#1_string", "title1", "body1", "caption1",
    ),
    POSITIVE: (
        "positive", "answer", "sentence2", "sentence_2", "sent1", "hypothesis", "text2", "text_2", "sentence_b",
        "question2", "second", "#2_string", "title2", "body2", "caption2", "pos", "back",
    ),
    SCORE: ("score", "similarity", "similarity_score", "sim", "relatedness_score", "sts_score"),
    LABEL: (
        "label", "labels", "class", "category", "sentiment", "intent", "gold_label", "entailment_judgment",
        "is_duplicate", "quality",
    ),
    TEXT: ("text", "sentence"),
}  # fmt: skip
_ROLE_OF = {name: role for role, names in NAMES.items() for name in names}
_NEGATIVE = re.compile(r"(hard_?)?neg(ative)?s?(_?\d+)?")
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
#: Lowest and highest value in a score column, by its name; in other columns scores are from 0 to 1
SCALES = {"relatedness_score": (1.0, 5.0), "sts_score": (0.0, 5.0)}
NLI_LABELS = ("entailment", "neutral", "contradiction")


class Kind(NamedTuple):
    """A kind of training data: its description, and the names of the collator and the loss that suit it."""

    words: str
    collator: str
    loss: str


KINDS = {
    "texts": Kind("each sentence is its own positive, by dropout", "DropoutPairCollator", "info_nce"),
    "pairs": Kind("anchors and positives", "PairCollator", "info_nce"),
    "triplets": Kind("anchors, positives and hard negatives", "NLITripletCollator", "info_nce"),
    "scored_pairs": Kind("pairs with a score of their similarity", "LabelledPairCollator", "cosine_similarity"),
    "labelled_pairs": Kind("pairs with a class", "LabelledPairCollator", "softmax"),
    "labelled_texts": Kind(
        "sentences with a class, paired by `pairs_of_labels`", "LabelledPairCollator", "cosine_similarity"
    ),
}


@dataclass(frozen=True)
class ColumnRoles:
    """The role of each column of a source.

    Args:
        source: name of the source in messages.
        columns: the role of each column, in the order that collators expect: anchor, positive, negatives, and last the
            score or the label.
        left_out: columns that training does not use.
        example: the cells of one row, unchanged.

    Example:
        >>> roles = column_roles([{"id": "7", "question": "Why?", "answer": "So.", "score": "0.5"}], source="qa.csv")
        >>> roles.columns, roles.left_out
        ({'question': 'anchor', 'answer': 'positive', 'score': 'score'}, ('id',))
        >>> print(roles)
        qa.csv: pairs with a score of their similarity (scored_pairs)
          anchor    question  'Why?'
          positive  answer    'So.'
          score     score     '0.5'
          left out: id
    """

    source: str
    columns: dict[str, str]
    left_out: tuple[str, ...]
    example: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        """The text columns, in order."""
        return [name for name, role in self.columns.items() if role not in (SCORE, LABEL)]

    @property
    def gold(self) -> str | None:
        """The column of the score or the label, or None."""
        return next((name for name, role in self.columns.items() if role in (SCORE, LABEL)), None)

    @property
    def kind(self) -> str:
        """The kind of the rows: a key of `KINDS`."""
        if self.gold is None:
            return ("texts", "pairs", "triplets")[min(len(self.texts), 3) - 1]
        return {(1, LABEL): "labelled_texts", (2, LABEL): "labelled_pairs", (2, SCORE): "scored_pairs"}[
            len(self.texts), self.columns[self.gold]
        ]

    @property
    def words(self) -> str:
        """The description of the kind of the rows."""
        return KINDS[self.kind].words

    @property
    def collator(self) -> str:
        """The name of the collator in `contrastive_st.data` that suits the rows."""
        return KINDS[self.kind].collator

    @property
    def loss(self) -> str:
        """The name of the loss that suits the rows."""
        return KINDS[self.kind].loss

    def __str__(self) -> str:
        wide = max(map(len, self.columns))
        lines = [f"{self.source}: {KINDS[self.kind].words} ({self.kind})"]
        for name, role in self.columns.items():
            lines.append(f"  {role:<8}  {name:<{wide}}  {_shown(self.example.get(name))}")
        if self.left_out:
            lines.append(f"  left out: {', '.join(self.left_out)}")
        return "\n".join(lines)


def column_roles(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str | int] | None = None, *, source: str = "the data"
) -> ColumnRoles:
    """Find the role of each column from its name and from the first rows.

    A column whose name is known has the role of that name (`NAMES`; for negatives `negative_1`, `hard_neg`, ...). If no
    text column has a known name, text columns get their roles by position: a single one holds sentences; of several,
    the first two are anchor and positive, the others hard negatives. Numbers are only ever scores or labels, by name.

    Args:
        rows: the first rows of the table, as cells by column.
        columns: the columns wanted, by name or by position from 0, or as `name=role`. By default all columns with a
            known name, and if none of these is a text column, all columns of text.
        source: name of the source in messages.

    Raises:
        InputError: the roles cannot be found, or do not fit together; the message shows how to name them.

    Example:
        >>> column_roles([{"text": "a cat", "category": "animals"}]).kind
        'labelled_texts'
        >>> column_roles([{"a": "one", "b": "two", "n": 3}], ["b=anchor", "a=positive"]).columns
        {'b': 'anchor', 'a': 'positive'}
    """
    if not rows:
        raise InputError(f"{source} is empty; it needs at least one row")
    names = list(dict.fromkeys(name for row in rows for name in row))
    held = {name: _held(row.get(name) for row in rows) for name in names}
    given = _given(columns, names, source)
    told: dict[str, str | None] = {}

    def fault(what: str) -> InputError:
        return InputError(f"{source}: {what}; {_how(names, held)}")

    for name in given or names:
        role = given.get(name) or _told(name)
        if role == LABEL and held[name] == NUMBERS and any(float(row[name]) % 1 for row in rows if row.get(name)):
            role = SCORE  # a graded "label", as in GLUE's STS-B
        if given.get(name) == SCORE and held[name] != NUMBERS:
            raise fault(f"column {name!r} holds {held[name]}, not scores")
        if name in given and role not in (SCORE, LABEL) and held[name] != TEXT:
            raise fault(f"column {name!r} holds {held[name]}, not sentences")
        if held[name] == {SCORE: NUMBERS, LABEL: held[name] if held[name] != OTHER else None}.get(role or "", TEXT):
            told[name] = role
    roles = _placed(told, bool(given), fault)
    example = next((dict(row) for row in rows if not any(_is_blank(row.get(name)) for name in roles)), {})
    return ColumnRoles(source, roles, tuple(name for name in names if name not in roles), example)


def read_examples(
    source: str,
    columns: Sequence[str | int] | None = None,
    *,
    strict: bool = False,
    split: str = "train",
    scale: tuple[float, float] | None = None,
) -> tuple[datasets.Dataset, ColumnRoles]:
    """Read rows for training and find the role of each of their columns.

    Args:
        source: as for `read_texts`.
        columns: as for `column_roles`.
        strict: as for `read_texts`.
        split: as for `read_texts`.
        scale: the lowest and highest score; by default that of the column's name in `SCALES`, else 0 and 1.

    Returns:
        A data set with the text columns in the order of their roles, then `score` (float, 0 to 1) or `label` (int, 0,
        1, ...); and the roles.

    Raises:
        InputError: the source cannot be read, the roles cannot be found, or a score or label is not valid.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "pairs.csv")
        ...     _ = path.write_text("score,answer,question\\n0.5,So.,Why?\\n")
        ...     read_examples(str(path))[0][0]
        {'question': 'Why?', 'answer': 'So.', 'score': 0.5}
    """
    roles = column_roles(preview(source, split), columns, source=source)
    data = read_texts(source, list(roles.columns), strict=strict, split=split)
    if roles.gold is None:
        return data, roles
    cells, role = data[roles.gold][:], roles.columns[roles.gold]
    if role == SCORE:
        values: Any = _scores(cells, roles, scale or SCALES.get(roles.gold.strip().lower(), (0.0, 1.0)))
    else:
        values = _labels(cells, roles)
    data = data.remove_columns(roles.gold).add_column(role, values)
    if role == LABEL and (unlabelled := int((values < 0).sum())):
        logger.warning(f"{source}: left out {unlabelled} rows without a label")
        data = data.select(np.flatnonzero(values >= 0))
    return data, roles


def pairs_of_labels(rows: datasets.Dataset, seed: int = 0) -> datasets.Dataset:
    """Make scored pairs of labelled sentences.

    Each sentence is paired with a random one of its class (score 1) and with one of another class (score 0).

    Args:
        rows: a column of sentences and a column `label`, as `read_examples` returns them.
        seed: seed of the random choice.

    Raises:
        InputError: there is only one class.

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
        raise InputError("the labels have only one class, and pairs need two; give rows of other classes")
    own = np.searchsorted(classes, labels[order])
    place = np.arange(len(order)) - starts[own]
    same = order[starts[own] + (place + 1) % counts[own]]
    away = random.integers(0, len(order) - counts[own])  # a place among the rows of the other classes
    other = order[np.where(away < starts[own], away, away + counts[own])]
    single = same == order
    texts = np.asarray(next(rows[name][:] for name in rows.column_names if name != "label"), dtype=object)
    first, second = np.concatenate([order[~single], order]), np.concatenate([same[~single], other])
    score = np.repeat([1.0, 0.0], [int((~single).sum()), len(order)])
    return datasets.Dataset.from_dict({"anchor": texts[first], "positive": texts[second], "score": score})


def _given(columns: Sequence[str | int] | None, names: list[str], source: str) -> dict[str, str | None]:
    """The columns asked for, each with the role given for it or None."""
    given: dict[str, str | None] = {}
    for column in [columns] if isinstance(columns, (str, int)) else columns or []:
        name, role = str(column), None
        if name not in names and "=" in name:
            name, _, role = name.rpartition("=")
            if role not in ROLES:
                raise InputError(f"{source}: {role!r} is not a role; give {name}=ROLE with one of {', '.join(ROLES)}")
        if name not in names and name.isdecimal() and int(name) < len(names):
            name = names[int(name)]
        if name not in names:
            raise InputError(f"{source}: there is no column {name!r}; name one or more of {', '.join(names)}")
        if name in given:
            raise InputError(f"{source}: column {name!r} is asked for twice; name each column once")
        given[name] = role
    return given


def _told(name: str) -> str | None:
    """The role of a known column name, else None."""
    plain = re.sub(r"[\s-]+", "_", name.strip().lower())
    return NEGATIVE if _NEGATIVE.fullmatch(plain) else _ROLE_OF.get(plain)


def _placed(told: dict[str, str | None], asked: bool, fault: Any) -> dict[str, str]:
    """The roles of all columns that training uses, in the order that collators expect."""
    by_role: dict[str, list[str]] = {role: [] for role in ROLES}
    unknown = []
    for name, role in told.items():
        by_role[role].append(name) if role else unknown.append(name)
    gold = [*by_role[SCORE], *by_role[LABEL]]
    anchors, positives, negatives, texts = (by_role[role] for role in (ANCHOR, POSITIVE, NEGATIVE, TEXT))
    for role, found in ((ANCHOR, anchors), (POSITIVE, positives), (TEXT, texts), ("score or label", gold)):
        if len(found) > 1:
            raise fault(f"columns {' and '.join(map(repr, found))} would each be the {role}")
    if not (anchors or positives or negatives) or len(told) - len(gold) == 1:  # columns in their order
        ordered = [name for name in told if name not in gold]
        if texts and len(ordered) > (2 if not gold else 1) and not asked:
            raise fault(f"besides {texts[0]!r} there is text in {', '.join(map(repr, unknown))}")
        anchors, positives, negatives = ordered[:1], ordered[1:2], ordered[2:]
    elif not (anchors and positives):
        spare = [name for name in told if name in texts + unknown]
        missing = ANCHOR if not anchors else POSITIVE
        if len(spare) != 1 or not (anchors or positives):
            raise fault(f"no column is the {missing}" + (f" ({', '.join(spare)} could be)" if spare else ""))
        anchors, positives = anchors or spare, positives or spare
    elif asked and (texts or unknown):
        raise fault(f"column {(texts + unknown)[0]!r} has no role")
    if not anchors:
        raise fault("no column holds text")
    if gold and (negatives or (not positives and by_role[SCORE])):
        raise fault(f"a {told[gold[0]]} needs {'two text columns' if by_role[SCORE] else 'one or two text columns'}")
    single = not positives
    roles = {anchors[0]: TEXT if single else ANCHOR, **dict.fromkeys(positives, POSITIVE)}
    return {**roles, **dict.fromkeys(negatives, NEGATIVE), **{name: str(told[name]) for name in gold}}


def _how(names: Iterable[str], held: Mapping[str, str]) -> str:
    texts = [name for name in names if held[name] == TEXT]
    shown = " ".join(f"{name}={role}" for name, role in zip(texts, (ANCHOR, POSITIVE), strict=False))
    return f"name their roles, such as --columns {shown or 'NAME=anchor NAME=positive'} (of {', '.join(names)})"


def _scores(cells: list[str], roles: ColumnRoles, scale: tuple[float, float]) -> Any:
    values = pc.cast(pa.array(cells), pa.float64(), safe=True) if all(map(_NUMBER.fullmatch, cells)) else None
    low, high = scale
    if values is None:
        bad = next(cell for cell in cells if not _NUMBER.fullmatch(cell))
        raise InputError(f"{roles.source}: {bad[:40]!r} in column {roles.gold!r} is not a number; mend the row")
    scores = values.to_numpy()
    if len(outside := scores[(scores < low) | (scores > high)]):
        what = f"the score {outside[0]:g} in column {roles.gold!r} is not in {low:g} to {high:g}"
        raise InputError(f"{roles.source}: {what}; give the scale of the scores, the lowest and the highest")
    return (scores - low) / (high - low)


def _labels(cells: list[str], roles: ColumnRoles) -> Any:
    if all(map(_NUMBER.fullmatch, cells)):
        labels = np.array([float(cell) for cell in cells])
        if not ((labels >= -1) & (labels < 1 << 31) & (labels == np.floor(labels))).all():
            raise InputError(f"{roles.source}: column {roles.gold!r} has numbers that are not classes; give 0, 1, ...")
        return labels.astype(np.int64)
    classes = sorted(set(cells) - {"-"})
    if {name.lower() for name in classes} <= set(NLI_LABELS):
        classes = list(NLI_LABELS)
        cells = [cell.lower() for cell in cells]
    number = {name: i for i, name in enumerate(classes)}
    return np.array([number.get(cell, -1) for cell in cells])  # "-": annotators did not agree, as in SNLI


def _held(cells: Iterable[Any]) -> str:
    """What the cells of a column are: text, numbers (also numbers written as text), or neither."""
    some = [cell for cell in cells if not _is_blank(cell)]
    if some and all(_NUMBER.fullmatch(cell) if isinstance(cell, str) else _is_number(cell) for cell in some):
        return NUMBERS
    return TEXT if any(isinstance(cell, str) for cell in some) else OTHER


def _is_number(cell: Any) -> bool:
    return isinstance(cell, float) or (isinstance(cell, int) and abs(cell) < 1 << 63)


def _is_blank(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _shown(cell: Any) -> str:
    text = " ".join(cell.split()) if isinstance(cell, str) else cell
    return repr(text[:67] + "..." if isinstance(text, str) and len(text) > 70 else text)
