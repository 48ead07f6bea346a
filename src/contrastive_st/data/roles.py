"""Find the role of each column of a table in training (anchor, positive, score, ...) from its name and its cells."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import numpy as np

from contrastive_st.data.candidates import read_candidates
from contrastive_st.data.columns import (
    ANCHOR,
    BESIDE,
    CANDIDATE_SCORES,
    LABEL,
    NEGATIVE,
    NEGATIVE_SCORE,
    NLI_LABELS,
    NUMBER,
    POSITIVE,
    POSITIVE_SCORE,
    ROLES,
    SCALES,
    SCORE,
    SCORES,
    SECOND_GOLD,
    TEXT,
    items_of,
    plain_name,
    role_of,
)
from contrastive_st.data.pair_sets import pair_set
from contrastive_st.data.tables import first_row, header_of, preview, read_columns
from contrastive_st.errors import InputError

logger = logging.getLogger(__name__)

NUMBERS, OTHER, NOTHING = "numbers", "neither text nor numbers", "nothing"
_TEXTS = (TEXT, ANCHOR, POSITIVE, NEGATIVE)
_MAY_BE_LISTS = (POSITIVE, NEGATIVE, SCORE, LABEL, *CANDIDATE_SCORES)
#: Cells that nobody would embed: addresses, dates, digests
_MACHINE = re.compile(r"\w+://\S+|\d{4}-\d\d?-\d\d?([T ]\S*)?|\d\d?[./]\d\d?[./]\d{2,4}|[0-9a-fA-F-]{16,}")
_UNLABELLED = ("", "-", "-1")  # "-": annotators did not agree, as in SNLI


class Kind(NamedTuple):
    """A kind of training data: its description, and the names of the collator and the loss that suit it."""

    words: str
    collator: str
    loss: str


KINDS = {
    "texts": Kind("two crops of each text are a pair", "CropPairCollator", "info_nce"),
    "pairs": Kind("anchors and positives", "PairCollator", "info_nce"),
    "triplets": Kind("anchors, positives and hard negatives", "NLITripletCollator", "info_nce"),
    "scored_candidates": Kind(
        "anchors and candidates with a teacher's scores", "CandidatesCollator", "kl_distillation"
    ),
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
            score, the label or a teacher's scores.
        left_out: columns that training does not use.
        example: the cells of one row, unchanged.
        by_position: whether several columns of text have their roles by position, because no name is known.
        lists: columns whose cells are lists: of texts, or of scores.

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
    by_position: bool = False
    lists: tuple[str, ...] = ()

    @property
    def texts(self) -> list[str]:
        """The text columns, in order."""
        return [name for name, role in self.columns.items() if role in _TEXTS]

    @property
    def gold(self) -> str | None:
        """The column of the score or the label, or None."""
        return next((name for name, role in self.columns.items() if role in (SCORE, LABEL)), None)

    @property
    def kind(self) -> str:
        """The kind of the rows: a key of `KINDS`."""
        if set(self.columns.values()) & set(CANDIDATE_SCORES):
            return "scored_candidates"
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

    @property
    def _width(self) -> int:
        return max(8, *map(len, self.columns.values()))

    def __str__(self) -> str:
        wide = max(map(len, self.columns))
        lines = [f"{self.source}: {KINDS[self.kind].words} ({self.kind})"]
        for name, role in self.columns.items():
            lines.append(f"  {role:<{self._width}}  {name:<{wide}}  {_shown(self.example.get(name))}")
        if self.by_position:
            lines.append("  roles taken by position: no column of text has a known name")
        if self.left_out:
            lines.append(f"  left out: {', '.join(self.left_out)}")
        return "\n".join(lines)


def column_roles(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str | int] | None = None,
    *,
    source: str = "the data",
    gold: str | None = None,
) -> ColumnRoles:
    """Find the role of each column from its name and from the first rows.

    A column whose name is known (`contrastive_st.data.columns.NAMES`; for negatives `negative_1`, `hard_neg`, ...) has
    the role of that name, and it must hold what that role needs. If no column of text has a known name, the roles go by
    position: a single column holds sentences; of several, the first two are anchor and positive, the others hard
    negatives. A column of text with an unknown name beside known ones is an error. Left out are columns like `id`,
    `split`, `lang` or `url`, and unknown columns of numbers, dates or addresses. Numbers are only ever scores or
    labels, by name.

    Positives and negatives may be lists. A teacher's scores have columns named after them (`pos_scores`, `neg_scores`;
    `positive_score`, `negative_1_score`, ...), or one of lists, `scores`: of the positive and then the negatives.

    Args:
        rows: the first rows of the table, as cells by column.
        columns: the columns wanted, by name or by position from 0, or as `name=role`. By default all columns with a
            known name, and if none of these is a text column, all columns of text.
        source: name of the source in messages.
        gold: the column of the score or the label, if several could be.

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
    cells = {name: [cell for row in rows if not _is_blank(cell := row.get(name))] for name in names}
    given = _given(columns, names, source)
    lists = _lists(cells, given)
    cells |= {name: [item for cell in cells[name] for item in items_of(cell) or []] for name in lists}
    held = {name: _held(found) for name, found in cells.items()}
    if gold is not None and gold not in names:
        raise InputError(f"{source}: there is no column {gold!r}; name one of {', '.join(names)}")

    def fault(what: str, mend: str = "") -> InputError:
        return InputError(f"{source}: {what}; {mend or _how(names, held)}")

    named = _named(cells, held, given, gold, fault, lists)
    roles = _placed(named, bool(given), fault)
    texts = [name for name, role in roles.items() if role in _TEXTS]
    by_position = len(texts) > 1 and not any(named[name] for name in texts)
    if by_position and not given:
        _check_varied({name: cells[name] for name in texts}, list(roles), fault)
    example = next((dict(row) for row in rows if not any(_is_blank(row.get(name)) for name in roles)), {})
    left_out, lists = tuple(name for name in names if name not in roles), [name for name in lists if name in roles]
    return ColumnRoles(source, roles, left_out, example, by_position, tuple(lists))


def _check_varied(cells: Mapping[str, Sequence[Any]], names: Sequence[str], fault: Any) -> None:
    """Columns that have their roles by position must hold more than one text."""
    for name, own in cells.items():
        if len(own) >= 5 and len(set(own)) == 1:
            others = " ".join(other for other in names if other != name)
            raise fault(f"every cell of column {name!r} is {_shown(own[0])}", f"leave it out: --columns {others}")


def read_examples(
    source: str | Path,
    columns: Sequence[str | int] | None = None,
    *,
    strict: bool = False,
    split: str = "train",
    scale: tuple[float, float] | None = None,
    gold: str | None = None,
    header: bool | None = None,
    kinds: Sequence[str] = (),
) -> tuple[datasets.Dataset, ColumnRoles]:
    """Read rows for training and find the role of each of their columns.

    Rows with a blank text are left out, and rows without a label too (blank, `-` or -1); warnings say how many.

    Args:
        source, strict, split, header: as for `read_texts`.
        columns, gold: as for `column_roles`.
        scale: the lowest and highest score; by default that of the column's name in `SCALES`, else 0 and 1. With a
            scale, numbers in a column of labels are scores.
        kinds: the kinds of rows that are wanted, keys of `KINDS`; by default any.

    Returns:
        A data set with the text columns in the order of their roles, then `score` (float, 0 to 1), `label` (int, 0, 1,
        ...) or `scores` (of candidates, as `read_candidates` gives them); and the roles. The labels of NLI are
        entailment 0, neutral 1, contradiction 2; other classes are numbered in the order of their names.

    Raises:
        InputError: the source cannot be read, the roles cannot be found, the rows are of another kind, or a score or
            label is not valid; the message says in which row.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "pairs.csv")
        ...     _ = path.write_text("score,answer,question\\n0.5,So.,Why?\\n")
        ...     read_examples(str(path))[0][0]
        {'question': 'Why?', 'answer': 'So.', 'score': 0.5}
    """
    source = str(source)  # a path, perhaps
    if columns is None and (known := pair_set(source)):
        columns = known.columns
    columns = [columns] if isinstance(columns, (str, int)) else columns
    header = header_of(columns, header)
    roles = column_roles(preview(source, split, header=header), columns, source=source, gold=gold)
    if kinds and roles.kind not in kinds:
        raise InputError(f"{source} holds {roles.words}, not {' or '.join(KINDS[kind].words for kind in kinds)}")
    if roles.lists or roles.kind == "scored_candidates":
        return read_candidates(source, roles.columns, roles.lists, strict=strict, split=split, header=header), roles
    if scale and roles.gold is not None:
        roles = replace(roles, columns={**roles.columns, roles.gold: SCORE})
    own = roles.gold
    data = read_columns(source, list(roles.columns), strict, split, header, own, only_strings=True)
    if own is None:
        return data, roles

    def place(wrong: Callable[[str], bool]) -> str:
        return first_row(source, lambda cells: wrong(_written(cells.get(own))), split, header)

    return _with_gold(data, roles, own, scale, place), roles


def _with_gold(
    data: datasets.Dataset, roles: ColumnRoles, own: str, scale: tuple[float, float] | None, place: Callable[..., str]
) -> datasets.Dataset:
    """The rows with numbers in a column `score` or `label`, last, in place of the cells of the column `own`."""
    if roles.columns[own] == SCORE:
        scores = _scores(data[own][:], own, scale or SCALES.get(plain_name(own), (0.0, 1.0)), place)
        return data.remove_columns(own).add_column(SCORE, scores)
    labels = _labels(data[own][:], own, place)
    return _labelled(data.remove_columns(own).add_column(LABEL, labels), roles.source)


def _labelled(data: datasets.Dataset, source: str) -> datasets.Dataset:
    """The rows with a label."""
    kept = np.flatnonzero(np.asarray(data[LABEL][:]) >= 0)
    if not len(kept):
        raise InputError(f"{source}: no row has a label; give labelled rows")
    if unlabelled := len(data) - len(kept):
        logger.warning(f"{source}: left out {unlabelled} rows without a label")
        data = data.select(kept)
    return data


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


def _lists(cells: Mapping[str, Sequence[Any]], given: Mapping[str, str | None]) -> list[str]:
    """The columns that have a role in which a cell may be a list, and whose cells are lists."""
    found = []
    for name in given or cells:
        role = given.get(name) or role_of(name, list(cells))
        if role in _MAY_BE_LISTS and cells[name] and all(items_of(cell) is not None for cell in cells[name]):
            found.append(name)
    return found


def _named(
    cells: Mapping[str, Sequence[Any]],
    held: Mapping[str, str],
    given: Mapping[str, str | None],
    gold: str | None,
    fault: Any,
    lists: Sequence[str] = (),
) -> dict[str, str | None]:
    """The columns that training may use, each with the role that its name or the user tells, or None."""
    named: dict[str, str | None] = {}
    for name in given or cells:
        role = given.get(name) or role_of(name, list(cells))
        if gold is not None and (name == gold or role in (SCORE, LABEL)):
            role = (role if role in (SCORE, LABEL) else LABEL) if name == gold else BESIDE
        if role in (SCORE, LABEL, SCORES):
            role = SCORES if name in lists else SCORE if role == SCORES else role
        if role in CANDIDATE_SCORES and held[name] == NOTHING:
            continue  # of a teacher that was not asked
        if role == LABEL and _graded(cells[name]):
            role = SCORE  # a graded "label", as in GLUE's STS-B
        if role == BESIDE and name in given and name != gold:
            role = None
        if role == BESIDE or (role is None and name not in given and (held[name] != TEXT or _aside(cells[name]))):
            continue
        _check_held(name, role, cells[name], held[name], fault)
        named[name] = role
    for second, firsts in SECOND_GOLD.items():
        if not given and any(plain_name(name) in firsts for name in named):
            named = {name: role for name, role in named.items() if plain_name(name) != second}
    return named


def _check_held(name: str, role: str | None, cells: Sequence[Any], held: str, fault: Any) -> None:
    """A column that has a role must hold what the role needs."""
    if held == NOTHING:
        raise fault(f"column {name!r} holds nothing: every cell of the first rows is blank", _FILL)
    scores = role == SCORE or role in CANDIDATE_SCORES
    if scores and held != NUMBERS and all(_as_number(cell) is None for cell in cells):
        raise fault(f"column {name!r} holds {held}, not scores")
    if role == LABEL and held == OTHER:
        raise fault(f"column {name!r} holds {held}, not labels")
    if not scores and role != LABEL and held != TEXT:
        raise fault(f"column {name!r} holds {held}, not sentences")


_FILL = "fill it, or name the columns to train on, such as --columns ANCHOR POSITIVE"


def _placed(named: dict[str, str | None], asked: bool, fault: Any) -> dict[str, str]:
    """The roles of all columns that training uses, in the order that collators expect."""
    by_role: dict[str, list[str]] = {role: [] for role in ROLES}
    unknown = []
    for name, role in named.items():
        by_role[role].append(name) if role else unknown.append(name)
    gold = [*by_role[SCORE], *by_role[LABEL], *by_role[SCORES]]
    scores = [*by_role[POSITIVE_SCORE], *by_role[NEGATIVE_SCORE]]
    anchors, positives, negatives, texts = (by_role[role] for role in (ANCHOR, POSITIVE, NEGATIVE, TEXT))
    one = ((ANCHOR, anchors), (POSITIVE, positives), (TEXT, texts), (POSITIVE_SCORE, by_role[POSITIVE_SCORE]))
    for role, found in (*one, ("score or label", gold)):
        if len(found) > 1:
            raise fault(f"columns {' and '.join(map(repr, found))} would each be the {role}")
    known, gold = anchors or positives or negatives or texts, [*gold, *scores]
    if len(named) - len(gold) == 1 or not known or (asked and not (anchors or positives or negatives)):
        ordered = [name for name in named if name not in gold]  # by position
        anchors, positives, negatives = ordered[:1], ordered[1:2], ordered[2:]
    elif texts and not (anchors or positives or negatives):
        raise fault(f"besides {texts[0]!r} there is text in {', '.join(map(repr, unknown))}")
    else:
        if not (anchors and positives):
            spare = texts + unknown
            missing = ANCHOR if not anchors else POSITIVE
            if len(spare) != 1 or not (anchors or positives) or (unknown and not asked):
                raise fault(f"no column is the {missing}" + (f" ({', '.join(spare)} could be)" if spare else ""))
            anchors, positives, texts, unknown = anchors or spare, positives or spare, [], []
        if texts or unknown:
            other, own = (texts + unknown)[0], " ".join([*anchors, *positives, *negatives, *gold])
            mend = f"leave it out, --columns {own}, or name its role: --columns {own} {other}={NEGATIVE}"
            raise fault(f"column {other!r} has no role: it is text, and its name says nothing", mend)
    if not anchors:
        raise fault("no column holds text")
    if by_role[SCORES] or scores:
        _check_scores(by_role, positives, negatives, fault)
    elif gold and (negatives or (not positives and by_role[SCORE])):
        raise fault(f"a {named[gold[0]]} needs {'two text columns' if by_role[SCORE] else 'one or two text columns'}")
    single = not positives
    roles = {anchors[0]: TEXT if single else ANCHOR, **dict.fromkeys(positives, POSITIVE)}
    return {**roles, **dict.fromkeys(negatives, NEGATIVE), **{name: str(named[name]) for name in gold}}


def _check_scores(by_role: Mapping[str, list[str]], positives: list[str], negatives: list[str], fault: Any) -> None:
    """Scores of candidates need their texts, and each text its score."""
    if not (positives and negatives):
        raise fault("scores of candidates need a positive and negatives")
    if by_role[SCORES]:
        if others := [*by_role[SCORE], *by_role[LABEL], *by_role[POSITIVE_SCORE], *by_role[NEGATIVE_SCORE]]:
            raise fault(f"columns {by_role[SCORES][0]!r} and {others[0]!r} would both be the scores")
    elif by_role[SCORE] or by_role[LABEL]:
        raise fault(f"columns {(by_role[SCORE] + by_role[LABEL])[0]!r} and {by_role[NEGATIVE_SCORE][0]!r} are scores")
    elif not by_role[POSITIVE_SCORE] or len(by_role[NEGATIVE_SCORE]) != len(negatives):
        found = f"{len(by_role[POSITIVE_SCORE])} of the positive and {len(by_role[NEGATIVE_SCORE])} of the negatives"
        raise fault(f"there are columns of scores, {found}, for {len(negatives)} of negatives")


def _how(names: Iterable[str], held: Mapping[str, str]) -> str:
    scores = (BESIDE, SCORE, LABEL, *CANDIDATE_SCORES)
    texts = [name for name in names if held[name] == TEXT and role_of(name) not in scores]
    shown = " ".join(f"{name}={role}" for name, role in zip(texts, (ANCHOR, POSITIVE), strict=False))
    return f"name their roles, such as --columns {shown or 'NAME=anchor NAME=positive'} (of {', '.join(names)})"


def _scores(cells: list[str | None], gold: str, scale: tuple[float, float], place: Callable[..., str]) -> Any:
    """The scores, scaled to 0 to 1; `place` finds the row of a wrong one."""
    wrong = next((cell or "" for cell in cells if not NUMBER.fullmatch(cell or "")), None)
    if wrong is not None:
        what = f"{wrong[:40]!r} is not a number" if wrong else "it is blank"
        where = place(lambda cell: not NUMBER.fullmatch(cell))
        raise InputError(f"{where}: column {gold!r} holds scores, and {what}; write a number, or remove the row")
    scores, (low, high) = np.array([float(cell or "") for cell in cells]), scale
    if len(outside := scores[(scores < low) | (scores > high)]):
        where = place(lambda cell: bool(NUMBER.fullmatch(cell)) and not low <= float(cell) <= high)
        what = f"the score {outside[0]:g} in column {gold!r} is not in {low:g} to {high:g}"
        raise InputError(f"{where}: {what}; give the scale of the scores, the lowest and the highest")
    return (scores - low) / (high - low)


def _labels(cells: list[str | None], gold: str, place: Callable[..., str]) -> Any:
    """The number of each class, -1 where there is none; `place` finds the row of a wrong one."""
    labels = ["" if cell is None or cell in _UNLABELLED else cell for cell in cells]
    given = [cell for cell in labels if cell]
    if sum(bool(NUMBER.fullmatch(cell)) for cell in given) * 2 >= len(given):
        valid, what = _is_class, "is not a class; give 0, 1, ..."
    elif (found := {cell.lower() for cell in given}) <= set(NLI_LABELS) or found & {"entailment", "contradiction"}:
        valid, what = lambda cell: cell.lower() in NLI_LABELS, f"is none of {', '.join(NLI_LABELS)}"
    else:
        names = {name: number for number, name in enumerate(sorted(set(given)))}
        return np.array([names.get(cell, -1) for cell in labels])
    if bad := next((cell for cell in given if not valid(cell)), None):
        where = place(lambda cell: cell not in _UNLABELLED and not valid(cell))
        raise InputError(f"{where}: {bad[:40]!r} in column {gold!r} {what}, or leave the cell blank")
    number = {
        cell: NLI_LABELS.index(cell.lower()) if cell.lower() in NLI_LABELS else int(float(cell)) for cell in given
    }
    return np.array([number.get(cell, -1) for cell in labels])


def _is_class(cell: str) -> bool:
    return bool(NUMBER.fullmatch(cell)) and 0 <= float(cell) < 1 << 31 and float(cell) % 1 == 0


def _written(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()


def _held(some: Sequence[Any]) -> str:
    """What the cells of a column are: text, numbers (also numbers written as text), neither, or nothing."""
    if not some:
        return NOTHING
    if all(NUMBER.fullmatch(cell) if isinstance(cell, str) else _is_number(cell) for cell in some):
        return NUMBERS
    return TEXT if any(isinstance(cell, str) for cell in some) else OTHER


def _aside(cells: Sequence[Any]) -> bool:
    """Whether a column of text holds what nobody would embed: addresses, dates, or mostly numbers."""
    strings = [cell.strip() for cell in cells if isinstance(cell, str)]
    numbers = sum(_as_number(cell) is not None for cell in cells)
    return numbers * 2 >= len(cells) or all(map(_MACHINE.fullmatch, strings))


def _graded(cells: Sequence[Any]) -> bool:
    """Whether half of the cells or more are numbers, and some of them are not whole."""
    numbers = [number for cell in cells if (number := _as_number(cell)) is not None]
    return len(numbers) * 2 >= len(cells) and any(number % 1 for number in numbers)


def _as_number(cell: Any) -> float | None:
    if isinstance(cell, str):
        return float(cell) if NUMBER.fullmatch(cell) else None
    return float(cell) if _is_number(cell) and math.isfinite(cell) else None


def _is_number(cell: Any) -> bool:
    return isinstance(cell, float) or (isinstance(cell, int) and abs(cell) < 1 << 63)


def _is_blank(cell: Any) -> bool:
    return cell is None or cell == [] or (isinstance(cell, str) and not cell.strip())


def _shown(cell: Any) -> str:
    text = " ".join(cell.split()) if isinstance(cell, str) else cell
    return repr(text[:67] + "..." if isinstance(text, str) and len(text) > 70 else text)


def text_column(table: Any, columns: Sequence[str | int] | str | None = None) -> str:
    """The column of the texts of a corpus: the one asked for, else `text`, else the only column of sentences.

    Args:
        table: as `contrastive_st.data.reading.open_table` gives it.
        columns: the column asked for, by name or position; None if none is.

    Raises:
        InputError: there is no such column, or it is not clear which one is meant; names the columns.

    Example:
        >>> from contrastive_st.data.reading import Row, Table
        >>> rows = [Row(1, {"id": "a1", "question": "Why is it so?", "label": "x"})]
        >>> text_column(Table("t.csv", "row", lambda: iter(rows)))
        'question'
    """
    asked = [columns] if isinstance(columns, (str, int)) else list(columns or [])
    found = table.profile
    names = list(found)
    there = ", ".join(names) or "(there are none)"
    if len(asked) > 1:
        raise InputError(
            f"{table.source}: {len(asked)} columns are named, and one holds the texts; name one of {there}"
        )
    if asked:
        if asked[0] not in names and str(asked[0]).isdecimal() and int(asked[0]) < len(names):
            asked = [names[int(asked[0])]]
        if asked[0] not in names:
            raise InputError(f"{table.source}: there is no column {asked[0]!r}; name one of {there}")
        return str(asked[0])
    if exact := [name for name in names if plain_name(name) == TEXT]:
        return str(exact[0])
    aside = (BESIDE, LABEL, SCORE, *CANDIDATE_SCORES)
    texts = [name for name in names if found[name].held == TEXT and role_of(name, names) not in aside]
    sentences = [name for name in texts if not (found[name].aside or found[name].category)]
    if len(sentences or texts) != 1:
        what = "it is not clear which column has the text" if texts else "no column of text"
        raise InputError(f"{table.source}: {what}; name one of {', '.join(sentences or texts or names) or there}")
    return str((sentences or texts)[0])
