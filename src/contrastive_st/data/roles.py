"""Which column of a table is what in training: one row for each role, and one for each kind of data that they make.

Names decide, and `--columns` overrides them (`table_roles`). Cells decide nothing: they only fill in the question.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from contrastive_st.data.profile import held_by, is_blank, items_of, other_marks, shown, simple, value_of
from contrastive_st.data.suggestions import row_for_each
from contrastive_st.errors import InputError, choice, listed

if TYPE_CHECKING:
    from contrastive_st.data.reading.rows import Table

#: Columns that are asked for, as `column_roles` takes them, or one of them
Columns = Sequence[str | int] | str | int | None
TEXTS, NUMBERS, LISTS, NOTHING = "text", "numbers", "lists or objects", "nothing"  # as by `held_by`
TEXT, ANCHOR, POSITIVE, NEGATIVE, SCORE, LABEL = "text", "anchor", "positive", "negative", "score", "label"
#: A teacher's scores: of the positive, of the negatives, or of the positive and then the negatives in one list
POSITIVE_SCORE, NEGATIVE_SCORE, SCORES = "positive_score", "negative_score", "scores"
CANDIDATE_SCORES = (SCORES, POSITIVE_SCORE, NEGATIVE_SCORE)
#: The role of columns that training does not use, by name: numbers of rows, splits, dates, parse trees, ...
UNUSED = "unused"


class Role(NamedTuple):
    """A role of a column.

    Attributes:
        name: as in `--columns COLUMN=ROLE`.
        holds: what its cells must hold: text, numbers, or text or numbers (classes).
        lists: whether a cell may be a list of them.
        names: names of columns that have it, in lower case, from the data sets of sentence-transformers, FlagEmbedding,
            SentEval, GLUE and SimCSE.
        pattern: a regular expression of further names.
    """

    name: str
    holds: tuple[str, ...]
    lists: bool
    names: tuple[str, ...]
    pattern: str = r"\b\B"


ROLES = (
    Role(NEGATIVE, (TEXTS,), True, (), r"((hard_?)?neg(ative)?s?|hard|negative_passages|hard_negative_ctxs)(_?\d+)?"),
    Role(POSITIVE_SCORE, (NUMBERS,), True, (), r"pos(itive)?s?_?scores?"),
    Role(NEGATIVE_SCORE, (NUMBERS,), True, (), r"(hard_?)?neg(ative)?s?(_?\d+)?_?scores?(_?\d+)?"),
    Role(ANCHOR, (TEXTS,), False, (
        "anchor", "query", "question", "sentence1", "sentence_1", "sent0", "premise", "text1", "text_1", "sentence_a",
        "question1", "first", "#1_string", "title1", "body1", "caption1", "title", "prompt", "instruction", "claim",
        "english", "query_text", "question_text",
    )),
    Role(POSITIVE, (TEXTS,), True, (
        "positive", "answer", "answers", "sentence2", "sentence_2", "sent1", "hypothesis", "text2", "text_2",
        "sentence_b", "question2", "second", "#2_string", "title2", "body2", "caption2", "pos", "back", "passage",
        "document", "response", "abstract", "body", "summary", "simplified", "compressed", "paraphrase", "evidence",
        "non_english", "target", "tgt", "positives", "context", "positive_passages", "positive_ctxs",
    )),
    Role(SCORES, (NUMBERS,), True, ("scores", "teacher_scores")),
    Role(SCORE, (NUMBERS,), True, ("score", "similarity", "similarity_score", "sim", "relatedness_score", "sts_score")),
    Role(LABEL, (TEXTS, NUMBERS), True, (
        "label", "labels", "class", "category", "sentiment", "intent", "gold_label", "entailment_judgment",
        "entailment_label", "is_duplicate", "quality", "label_text", "label_name",
    )),
    Role(TEXT, (TEXTS,), False, ("text", "sentence", "content", "contents", "review", "comment", "utterance")),
    Role(UNUSED, (), True, (
        "idx", "index", "split", "subset", "fold", "source", "source1", "source2", "src", "lang", "language", "locale",
        "domain", "genre", "topic", "date", "datetime", "time", "timestamp", "year", "created_at", "updated_at", "url",
        "uri", "link", "file", "filename", "path", "author", "user", "username", "dataset", "license", "semeval_set",
        "entailment_ab", "entailment_ba", "annotator_labels", "task_name", "status", "annotator", "lead_time",
        "tags", "keywords", "authors", "meta", "metadata", "entities", "tokens", "negative_ctxs",
    ), r"|unnamed.*|__index_level_\d+__|"
       r"((.*_)?(q|gu|uu|u)?|pair|caption|prompt|doc)ids?\d*|label_?\d|s\w*_?\w_\w*(parse|original|dataset)",
    ),
)  # fmt: skip
_ROLE = {role.name: role for role in ROLES}
#: Names of the columns of a data set to train on that are not text: numbers
TARGETS = tuple(
    role.name for role in ROLES if NUMBERS in role.holds and role.name not in (POSITIVE_SCORE, NEGATIVE_SCORE)
)
#: Those that stay in the rows, whatever their kind is, for a loss that reads them
KEPT = tuple(name for name in TARGETS if name not in (LABEL, SCORE, SCORES))
_ROLE_OF = {name: role.name for role in ROLES for name in role.names}
#: Names of columns, in lower case, apart from those that only a pattern knows
NAMES = frozenset({*_ROLE_OF, NEGATIVE})
_NAMED = tuple(name for name in _ROLE if name != UNUSED)
_TEXT_ROLES = (ANCHOR, POSITIVE, NEGATIVE, TEXT)
_PLACE = {ANCHOR: 0, TEXT: 0, POSITIVE: 1, NEGATIVE: 2}
#: Cells that nobody would embed: addresses, dates, digests
_MACHINE = re.compile(r"\w+://\S+|\d{4}-\d\d?-\d\d?([T ]\S*( UTC)?)?|\d\d?[./]\d\d?[./]\d{2,4}|[0-9a-fA-F-]{16,}")
_NUMBERED = re.compile(r"((?:text|sentence|sent|passage|t|s)_?)(\d)")  # from 0: anchor, positive, negatives
_REFERS = re.compile(r"(hard_?)?((posi|nega)tives?_\w+|(pos|neg)_(p?ids?|ctxs?|docs?|passages?|documents?)\w*)")
#: Lowest and highest value in a score column, by its name; that of others is 0 to 1
SCALES = {"relatedness_score": (1.0, 5.0), "sts_score": (0.0, 5.0)}
#: The role of a column where the table has one of these sets of others: of a passage in SQuAD and DPR, the instruction
#: and the kind of task in FlagEmbedding, what a label says in other words; a source with a target is a text
_BESIDES: dict[str, tuple[str, list[set[str]]]] = {
    "title": (UNUSED, [{"question"}, {"query"}]), "answers": (UNUSED, [{"positive"}, {"positive_ctxs"}]),
    "prompt": (UNUSED, [{"query", "pos"}]), "type": (UNUSED, [{"query", "pos"}]),
    "label_text": (UNUSED, [{"label"}]), "label_name": (UNUSED, [{"label"}]),
    "relatedness_score": (UNUSED, [{"entailment_judgment"}, {"entailment_label"}]),
    "source": (ANCHOR, [{"target"}]), "src": (ANCHOR, [{"target"}, {"tgt"}]),
}  # fmt: skip
_OPENS = ("[", "(", "{")  # a list that is written as text
#: A text in brackets or braces, as programs write lists and objects
_IN_BRACKETS = re.compile(r"\s*(\[([^][]|\[[^][]*\])*\]|\{([^{}]|\{[^{}]*\})*\}|set\(\))\s*")
_FIRST = 100  # rows whose cells must suit their roles; the others are refused where they are read
_COUNTED = 10  # rows from which numbers that follow each other are those of rows
_LOOKED_AT = 10_000  # rows from which a question gets its example and its flag


class Kind(NamedTuple):
    """A kind of training data: its description, and the names of the collator and the loss that suit it."""

    words: str
    collator: str
    loss: str


KINDS = {
    "texts": Kind("single texts", "CropPairCollator", "info_nce"),
    "pairs": Kind("anchors and positives", "PairCollator", "info_nce"),
    "triplets": Kind("anchors, positives and hard negatives", "NLITripletCollator", "info_nce"),
    "scored_candidates": Kind(
        "anchors and candidates with a teacher's scores", "CandidatesCollator", "kl_distillation"
    ),
    "scored_pairs": Kind("pairs with a score of their similarity", "LabelledPairCollator", "cosine_similarity"),
    "labelled_pairs": Kind("pairs with a class", "LabelledPairCollator", "softmax"),
    "labelled_texts": Kind("single texts with a class", "LabelledPairCollator", "cosine_similarity"),
}
_KIND_OF = {(1, LABEL): "labelled_texts", (2, LABEL): "labelled_pairs", (2, SCORE): "scored_pairs"}


def plain_name(name: str) -> str:
    """A column name in lower case, with one underscore for spaces and hyphens, as `ROLES` has it."""
    return re.sub(r"[\s-]+", "_", str(name).strip().lower())


def role_of(name: str, names: Sequence[str] = ()) -> str | None:
    """The role of a known column name, `UNUSED` for one that training does not use, and None for others.

    Args:
        name: the column.
        names: the columns of the table: with `target`, `source` is a text; without, it says where a row comes from.

    Example:
        >>> role_of("Hard-Neg 2"), role_of("pairID"), role_of("source"), role_of("source", ["source", "target"])
        ('negative', 'unused', 'unused', 'anchor')
        >>> role_of("neg_scores"), role_of("negative_2_score"), role_of("positive_score")
        ('negative_score', 'negative_score', 'positive_score')
    """
    plain, others = plain_name(name), set(map(plain_name, names))
    beside, sets = _BESIDES.get(plain, ("", []))
    if any(names <= others for names in sets):
        return beside
    if (numbered := _NUMBERED.fullmatch(plain)) and f"{numbered[1]}0" in others:
        return (ANCHOR, POSITIVE, NEGATIVE)[min(int(numbered[2]), 2)]
    return _ROLE_OF.get(plain) or next((role.name for role in ROLES if re.fullmatch(role.pattern, plain)), None)


def has_role(name: str) -> bool:
    """Whether training uses columns of this name.

    Example:
        >>> has_role("Question1"), has_role("id"), has_role("note")
        (True, False, False)
    """
    return role_of(name) not in (None, UNUSED)


def names_in_order(names: Sequence[str]) -> list[str]:
    """Names for columns of text in the order of their roles: as they are, unless they say other roles.

    What reads the columns again goes by their names.

    Example:
        >>> names_in_order(["question", "note"]), names_in_order(["positive", "anchor"]), names_in_order(["label"])
        (['question', 'note'], ['anchor', 'positive'], ['text'])
    """
    roles = [role_of(name, names) for name in names]
    if len(names) == 1:
        return list(names) if roles[0] in (None, *_TEXT_ROLES) else [TEXT]
    if roles[:2] == [ANCHOR, TEXT]:
        roles[1] = POSITIVE
    if all(role is None or _PLACE.get(role) == min(index, 2) for index, role in enumerate(roles)):
        return list(names)
    return [ANCHOR, POSITIVE, *(f"{NEGATIVE}_{number}" for number in range(1, len(names) - 1))]


@dataclass(frozen=True)
class ColumnRoles:
    """The role of each column of a source.

    Args:
        source: name of the source in messages.
        columns: the role of each column, in the order that collators expect: anchor, positive, negatives, and last the
            score, the label or a teacher's scores.
        left_out: the columns that training does not use, each with the reason.
        example: the cells of one row, unchanged.
        notes: lines to print below the roles.
        lists: columns whose cells are lists of texts, scores or labels.
        views: what training makes of single texts.
        classes: the number of each class, by the cells that name it, where `read_examples` has numbered them.

    Example:
        >>> from contrastive_st.data import column_roles
        >>> roles = column_roles([{"id": "7", "question": "Why?", "answer": "So.", "score": "0.5"}], source="qa.csv")
        >>> roles.columns, roles.left_out
        ({'question': 'anchor', 'answer': 'positive', 'score': 'score'}, {'id': 'its name says that it is not a text'})
        >>> print(roles)
        qa.csv: pairs with a score of their similarity (scored_pairs)
          anchor    question  'Why?'
          positive  answer    'So.'
          score     score     '0.5'
          not used  id        '7' (its name says that it is not a text)
    """

    source: str
    columns: dict[str, str]
    left_out: dict[str, str]
    example: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    views: str = "two crops of each are a pair"
    classes: Mapping[str, int] = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        """The text columns, in order."""
        return [name for name, role in self.columns.items() if role in _TEXT_ROLES]

    @property
    def target(self) -> str | None:
        """The column of the score or the label, or None."""
        return next((name for name, role in self.columns.items() if role in (SCORE, LABEL)), None)

    def items(self, name: str, cell: object) -> list[Any]:
        """The items of a cell: of a list in a column of lists; else the cell alone."""
        items = items_of(simple(cell)) if name in self.lists else None
        return [simple(cell)] if items is None else items

    @property
    def labels(self) -> list[str]:
        """The columns of labels: one, or several of 0 and 1."""
        return [name for name, role in self.columns.items() if role == LABEL]

    @property
    def kind(self) -> str:
        """The kind of the rows: a key of `KINDS`."""
        if set(self.columns.values()) & set(CANDIDATE_SCORES):
            return "scored_candidates"
        if self.target is None:
            return ("texts", "pairs", "triplets")[min(len(self.texts), 3) - 1]
        return _KIND_OF[len(self.texts), self.columns[self.target]]

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
        lines = [(role, name, shown(self.example.get(name))) for name, role in self.columns.items()]
        lines += [("not used", name, f"{shown(self.example.get(name))} ({why})") for name, why in self.left_out.items()]
        roles, names = (max(len(line[i]) for line in lines) for i in (0, 1))
        written = (f"  {role:<{max(8, roles)}}  {name:<{names}}  {cell}" for role, name, cell in lines)
        notes = (f"  {note}" for note in self.notes)
        words = f"{self.words}: {self.views}" if self.kind == "texts" else self.words
        return "\n".join([f"{self.source}: {words} ({self.kind})", *written, *notes])


class _Column(NamedTuple):
    """A column that training uses, as its first cells are.

    Attributes:
        role: by its name or as asked for, if there is one.
        held: what the cells hold, as by `held_by`; of lists, their items.
        listed: whether the cells are lists.
        marks: whether a label is 0 or 1 in all cells.
        unread: a cell that is written as a list or an object and cannot be read as one; None if there is none.
    """

    role: str | None
    held: str
    listed: bool
    marks: bool
    unread: object | None


def table_roles(table: Table, columns: Sequence[str | int] | None = None, kinds: Sequence[str] = ()) -> ColumnRoles:
    """Find the role of each column of a table from its name (`ROLES`), or from `columns`.

    If a name is not known, or two columns have one role, that is an error with the flag to give. Only where one column
    alone is not known, and no other is a text, it is the text. Columns like `id`, `split` or `url` are not used.

    Positives and negatives may be lists. A teacher's scores have columns named after them (`pos_scores`, `neg_scores`;
    `positive_score`, `negative_1_score`, ...), or one of lists, `scores`: of the positive and then the negatives.

    Args:
        table: the table.
        columns: the columns wanted, by name or by position from 0, or as `name=role`. Columns without a role of their
            own are anchor, positive and negatives in this order, or the only text. Of delimited text no others are
            read.
        kinds: the kinds of rows that are wanted, keys of `KINDS`; by default any.

    Raises:
        InputError: the roles are not clear, or do not fit together; the message shows how to name them.
    """
    names, read = table.columns, None
    if columns and names is not None and table.delimited and table.read_columns is not None:
        read = table.read_columns(list(named_columns(columns, names, table.source)))
    first = [row.cells for row in islice(table, _FIRST)] if read is None else read.slice(0, _FIRST).to_pylist()
    if not first:
        raise InputError(f"{table.source}: it is empty; it needs at least one row")
    if names is None:
        names = list(dict.fromkeys(name for row in first for name in row))
        asked = {str(column).partition("=")[0] for column in columns or ()}
        names = names if asked and asked <= set(names) else table.names
    requested, classify = named_columns(columns, names, table.source), set(kinds) == {"labelled_texts"}
    ask = partial(_question, table, names, classify)
    used, left_out = dict[str, _Column](), dict[str, str]()
    others = [name for name in names if not requested or name in requested or role_of(name) != LABEL]
    for name in requested or names:
        role = requested.get(name) or role_of(name, others)
        cells = [cell for row in first if not is_blank(cell := row.get(name))]
        if role == UNUSED and not requested:
            left_out[name] = "its name says that it is not a text"
        elif role in CANDIDATE_SCORES and not cells:  # of a teacher that was not asked
            left_out[name] = "every cell is blank"
        elif role is None and not requested and (why := _neither_text_nor_score(cells)):
            left_out[name] = why
        else:
            used[name] = _column(table, name, None if role == UNUSED else role, cells)
    left_out.update((name, "not asked for") for name in names if requested and name not in requested)
    roles = _placed(used, bool(requested), classify, ask)
    for name, role in roles.items():
        column, target = used[name], NUMBERS in _ROLE[role].holds
        if column.unread is not None:
            what = f"column {name!r} holds lists or objects that are not read there, such as {shown(column.unread)}"
            fix = "write JSON or Parquet, in which lists are lists and texts are texts"
            if items_of(column.unread) is not None:
                fix = f"give the column a role that takes lists, as in {name}=positive"
            raise InputError(f"{table.source}: {what}; {fix}")
        if column.held == NOTHING and len(first) < _FIRST:
            raise ask(f"column {name!r} is empty: every cell is blank")
        no_list = column.listed and not _ROLE[role].lists  # of a single text
        if no_list or (column.held == LISTS and (not target or role in (SCORE, LABEL))):
            raise ask(f"column {name!r} holds lists or objects, not texts")
        asked_for = name in requested and (requested[name] or role_of(name))  # numbers may be texts, as in sums
        if column.held == NUMBERS and not target and not asked_for:
            raise ask(f"column {name!r} holds numbers, not sentences")
    refers = next((name for name in left_out if _REFERS.fullmatch(plain_name(name))), None)
    if refers and len(roles) == 1 and not requested:
        what = f"{next(iter(roles))!r} is the only text; {refers!r} refers to others, which are not read"
        raise ask(f"{what}: replace it by their texts, or train on crops")
    example = next((row for row in first if not any(is_blank(row.get(name)) for name in roles)), {})
    lists = tuple(name for name, column in used.items() if column.listed)
    result = ColumnRoles(table.source, roles, left_out, dict(example), (), lists)
    if kinds and result.kind not in kinds:
        raise ask(f"it holds {result.words}, not {' or '.join(KINDS[kind].words for kind in kinds)}")
    return result


def named_columns(columns: Columns, names: Sequence[str], source: str) -> dict[str, str | None]:
    """The columns asked for by name, by position in `names` or as `name=role`, each with that role or None.

    Raises:
        InputError: there is no such column or role, or a column is asked for twice.

    Example:
        >>> named_columns(["text", 0, "2=label"], ["id", "text", "topic"], "a.csv")
        {'text': None, 'id': None, 'topic': 'label'}
    """
    asked: dict[str, str | None] = {}
    for column in [columns] if isinstance(columns, (str, int)) else columns or []:
        name, role = str(column), None
        if name not in names and "=" in name:
            name, _, role = name.rpartition("=")
            choice("role", role, _NAMED, source)
        if name not in names and name.isdecimal() and int(name) < len(names):
            name = names[int(name)]
        if name not in names:
            choice("column", name, names, source)
        if name in asked:
            raise InputError(f"{source}: column {name!r} is asked for twice; name each column once")
        asked[name] = role
    return asked


def _column(table: Table, name: str, role: str | None, cells: Sequence[object]) -> _Column:
    """A column with these cells, none of which is blank.

    Raises:
        InputError: some cells are written as lists, and another one is not.
    """
    takes = role is not None and _ROLE[role].lists
    written = bool(cells) and all(isinstance(cell, str) and _IN_BRACKETS.fullmatch(cell) for cell in cells)
    braces = role != POSITIVE or (written and table.delimited)  # else a positive in braces is a text
    maybe = takes and any(not isinstance(cell, str) or cell.strip()[:1] in _OPENS for cell in cells)
    texts, unread = [simple(cell) for cell in cells if maybe], None
    items = [items_of(cell) if braces or str(cell).strip()[:1] != "{" else None for cell in texts]
    if written and table.delimited and (None in items or not takes):  # where a list is written as a text
        unread = next((cell for cell in cells if items_of(cell) is None), cells[0])
    mixed = None in items and any(held_by(several) in _ROLE[str(role)].holds for several in items if several)
    if mixed and role != LABEL:
        odd = next(
            cell for cell, several in zip(cells, items, strict=True) if (several is None) is not (items[0] is None)
        )
        number = next(row.number for row in table if row.cells.get(name) == odd)
        fix = 'write both as lists, such as ["a text"], or both as texts, or leave the row out'
        what = f"{shown(odd)} in column {name!r}, and {shown(cells[0])} above: one is a list"
        raise InputError(f"{table.where(number)}: {what}; {fix}")
    listed = bool(items) and (mixed or None not in items)
    cells = [item for several in items for item in several or ()] if listed else cells
    return _Column(role, held_by(cells), listed, role == LABEL and {value_of(cell) for cell in cells} <= {0, 1}, unread)


def _neither_text_nor_score(cells: Sequence[object]) -> str:
    """Why a column without a known name need not be asked about: it can be neither a text nor the score of pairs."""
    if not cells:
        return "its cells are blank"
    if all(isinstance(cell, dict) for cell in cells):
        return "it holds objects"
    numbers = [number for cell in cells if (number := value_of(cell)) is not None]
    if 2 * len(numbers) >= len(cells) and not -1 <= min(numbers) <= max(numbers) <= 10:
        return "numbers, and its name says nothing of them"
    return "dates or addresses" if all(_MACHINE.fullmatch(str(cell).strip()) for cell in cells) else ""


def _placed(
    used: Mapping[str, _Column], asked: bool, classify: bool, ask: Callable[[str], InputError]
) -> dict[str, str]:
    """The roles of all columns that training uses, in the order that collators expect."""
    named = {name: column.role for name, column in used.items()}
    triplets = NEGATIVE in named.values()
    by_role: dict[str | None, list[str]] = {role: [] for role in (None, *_NAMED)}
    for name, role in named.items():
        listed = used[name].listed and (role == SCORE or (role == LABEL and triplets))  # of candidates, by a teacher
        by_role[SCORES if listed else role].append(name)
    unknown, (anchors, positives, negatives, texts) = by_role[None], (by_role[role] for role in _TEXT_ROLES)
    if unknown and not asked and (len(unknown) > 1 or anchors or positives or negatives or texts):
        raise ask(f"no role is known for column {unknown[0]!r}")
    several = classify and all(used[name].marks for name in by_role[LABEL])  # one label for each column
    labels = by_role[LABEL][: 1 if several else None]
    one = {ANCHOR: anchors, POSITIVE: positives, POSITIVE_SCORE: by_role[POSITIVE_SCORE], TEXT: [] if asked else texts,
           "score or label": [*by_role[SCORE], *labels, *by_role[SCORES]]}  # fmt: skip
    for role, rivals in one.items():
        if len(rivals) > 1:
            raise ask(f"columns {' and '.join(map(repr, rivals))} would each be the {role}")
    spare = [name for name in named if name in texts or name in unknown]
    if asked and not (anchors or positives or negatives):  # in the order in which they are asked for
        anchors, positives, negatives, spare = spare[:1], spare[1:2], spare[2:], []
    elif len(every := [*spare, *anchors, *positives, *negatives]) == 1:
        anchors, positives, negatives, spare = every, [], [], []
    anchors = anchors or [spare.pop(0) for _ in spare[:1]]
    positives = positives or [spare.pop(0) for _ in spare[:1]]
    targets = {name: role for role in (SCORE, LABEL, SCORES, POSITIVE_SCORE, NEGATIVE_SCORE) for name in by_role[role]}
    fits = {
        (): True, (SCORE,): bool(positives) and not negatives, (LABEL,): not negatives, (SCORES,): bool(negatives),
        (POSITIVE_SCORE, NEGATIVE_SCORE): len(by_role[NEGATIVE_SCORE]) == len(negatives),
    }.get(tuple(dict.fromkeys(targets.values())), False)  # fmt: skip
    if spare or not anchors or (negatives and not positives) or not fits:
        what = ", ".join(f"{name!r} ({role or 'no role'})" for name, role in named.items()) or "none"
        raise ask(f"there is no training with these columns: {what}")
    targets |= {name: role for name, role in named.items() if role in KEPT}
    roles = {anchors[0]: ANCHOR if positives else TEXT, **dict.fromkeys(positives, POSITIVE)}
    return {**roles, **dict.fromkeys(negatives, NEGATIVE), **targets}


# --- The question.


def _question(table: Table, names: Sequence[str], classify: bool, what: str) -> InputError:
    """One line: what is not clear, flags to paste, and the columns with the cells of a row."""
    rows = [row.cells for row in islice(table, _LOOKED_AT)]
    cells = _cells(rows, names)
    columns = listed(f"{name} ({shown(values[0]) if values else 'blank'})" for name, values in cells.items())
    answers = []
    ways = _could_be(cells, classify)
    for roles in ways:
        if not any(all(not is_blank(row.get(name)) for name in roles) for row in rows):
            continue
        *_, (last, role) = roles.items()
        answers.append(flags(roles) + (score_range(cells[last]) if role == SCORE else ""))
    fixes = [f"give {', or '.join(answers)}"] if answers else []
    if ways and not answers:
        fixes = ["no row has all of them: give the files the same columns, or train on a mixture of the files"]
    for name, cell in next(iter(table)).cells.items():
        inner = cell[0] if isinstance(cell, list) and cell else cell
        if not isinstance(inner, dict) or "role" in inner or not any(map(has_role, inner)):  # "role": of a chat
            continue
        deeper = any(isinstance(value, list) and value and isinstance(value[0], dict) for value in inner.values())
        if (deeper or isinstance(simple(inner), dict)) and (command := row_for_each(name, table.source)):
            fixes.insert(0, f"for the columns inside {name!r}, {command}")
    advice = ", or ".join(fixes) or "give each text a column of its own"
    return InputError(f"{table.source}: {what}; {advice}; the columns are {columns}")


def _could_be(cells: Mapping[str, Sequence[object]], classify: bool = False) -> list[dict[str, str]]:
    """The roles that columns with these cells could have: by their names, and the others each as all that it may be.

    The column that may have another role is the last of each.
    """
    held = {name: held_by(values) for name, values in cells.items()}
    role = {name: role_of(name, list(cells)) for name in cells}
    role = {name: one for name, one in role.items() if cells[name] and not _needs_no_question(name, cells[name], one)}
    by = lambda *roles: [name for name, one in role.items() if one in roles]
    few = [name for name in by(None) if _few(cells[name]) and held[name] != LISTS]
    texts = [name for name in by(None) if held[name] == TEXTS]
    texts = [name for name in texts if any(" " in str(cell).strip() for cell in cells[name])] or texts
    texts = [name for name in texts if name not in few] or texts
    positives = [name for name in by(POSITIVE) if held[name] != NUMBERS or not _few(cells[name])]
    firsts = [name for name in (*by(ANCHOR), *by(TEXT), *texts, *positives[1:]) if held[name] != LISTS]
    seconds = [name for name in (*positives, *by(TEXT), *texts) if name not in firsts[:1]]
    if classify or not (firsts and seconds):
        named = [name for name, one in role.items() if classify and one != UNUSED]  # labels may have names of texts
        marks = [name for name in named if {value_of(cell) for cell in cells[name]} == {0, 1}]
        single = [name for name in firsts or seconds if held[name] != LISTS and name not in marks][:1]
        others = [*by(LABEL), *by(SCORE), *few, *by(POSITIVE), *by(None), *by(UNUSED)]
        others = [name for name in others if name not in single and (classify or held[name] != LISTS)]
        labels = [others[:1]] * (bool(by(LABEL)) or len(marks) < 2)
        labels += [marks] * (len(marks) > 1)
        ways = [dict.fromkeys(several, LABEL) for several in labels if several] + [{}] * (not classify)
        return [{single[0]: TEXT, **way} for way in ways] if single else []
    roles = {firsts[0]: ANCHOR, seconds[0]: POSITIVE, **dict.fromkeys(by(NEGATIVE), NEGATIVE)}
    listed = LABEL if held[seconds[0]] == LISTS else None  # which may be lists: one for each positive
    of_pairs = [name for name in (*by(SCORE), *by(LABEL)) if held[name] != LISTS or role[name] == listed]
    of_negatives = dict.fromkeys([*by(SCORES), *by(SCORE), *by(LABEL)], SCORES)
    targets = of_negatives if by(NEGATIVE) else {name: str(role[name]) for name in of_pairs}
    alone = [{firsts[0]: TEXT}] * (firsts[0] in by(TEXT) and seconds[0] in by(None))
    if targets:
        target = dict(list(targets.items())[:1])
        classes = [{**text, **target} for text in alone if LABEL in target.values()]
        return [*classes, {**roles, **target}, roles]
    if by(POSITIVE_SCORE) and len(by(NEGATIVE_SCORE)) == len(by(NEGATIVE)) > 0:
        roles |= {name: str(role[name]) for name in by(POSITIVE_SCORE, NEGATIVE_SCORE)}
    rest = [name for name in by(None) if name not in roles and not by(NEGATIVE)]
    numbers = [name for name in rest if all(_number(cell) is not None for cell in cells[name])]
    ways = [{**roles, name: SCORE if name in numbers else LABEL} for name in rest if name in (*numbers, *few)]
    negatives = [name for name in rest if name in texts]
    each = [*([name] for name in negatives), negatives][: len(negatives) + (len(negatives) > 1)]
    return [*ways, roles, *alone, *({**roles, **dict.fromkeys(some, NEGATIVE)} for some in each)]


def _needs_no_question(name: str, cells: Sequence[object], role: str | None) -> bool:
    """Whether a question need not name a column: of objects, or without a role and no text, as numbers of rows."""
    written = all(isinstance(cell, str) and _IN_BRACKETS.fullmatch(cell) for cell in cells)
    if isinstance(cells[0], dict) or (written and None in map(items_of, cells)):
        return True
    numbers, long = [value_of(cell) for cell in cells], not name.strip("0123456789") or len(cells) >= _COUNTED
    first = numbers[0] if long else None
    rows = first is not None and numbers == [first + index for index in range(len(cells))]
    return role in (None, UNUSED) and (rows or _neither_text_nor_score(cells) != "")


def flags(roles: Mapping[str, str]) -> str:
    """The flag that gives columns their roles, as a shell takes it.

    Example:
        >>> flags({"x": "anchor", "the answer": "positive"})
        "--columns x=anchor 'the answer=positive'"
    """
    return f"--columns {shlex.join(name if name == role else f'{name}={role}' for name, role in roles.items())}"


def suggested_columns(rows: Iterable[Mapping[str, object]], names: Sequence[str], before: str = "") -> str:
    """Flags that name the columns of some rows, for a question.

    Args:
        rows: cells by column.
        names: the columns.
        before: other flags, which come first.

    Example:
        >>> suggested_columns([{"0": "Why?", "1": "So."}], ["0", "1"], "--header false")
        '--header false --columns 0=anchor 1=positive'
    """
    ways = _could_be(_cells(rows, names))
    return f"{before} {flags(max(ways, key=len))}" if ways else before


def leave_out(roles: ColumnRoles) -> str:
    """The flag that names the columns of text alone, without their score or label.

    Example:
        >>> leave_out(ColumnRoles("a.csv", {"x": "anchor", "positive": "positive", "label": "label"}, {}))
        '--columns x=anchor positive'
    """
    return flags({name: roles.columns[name] for name in roles.texts})


def _cells(rows: Iterable[Mapping[str, object]], names: Sequence[str]) -> dict[str, list[object]]:
    """The cells of each column in the first rows that are not blank."""
    first = list(islice(rows, _LOOKED_AT))
    return {name: [cell for row in first if not is_blank(cell := simple(row.get(name)))] for name in names}


def _few(cells: Sequence[object]) -> bool:
    """Whether cells are like classes: few values, each of which occurs again."""
    values = set(map(str, cells))
    most = len(cells) / 2 if any(" " in value for value in values) else len(cells) - 1
    return 2 <= len(values) <= min(20, most)


def _number(cell: object) -> float | None:
    """A number that may have a decimal comma or a percent sign."""
    text = str(cell).removesuffix("%")
    return value_of(other_marks(text)) if (number := value_of(text)) is None else number


def score_range(cells: Sequence[object]) -> str:
    """The flag for the scale of scores, blank if it is 0 to 1."""
    numbers = [number for cell in cells if (number := value_of(cell)) is not None]
    if any(str(cell).endswith("%") for cell in cells):
        numbers = [0, 100]
    low, high = min(numbers, default=0), max(numbers, default=0)
    if low == high:  # a scale has a width
        low, high = min(low, 0), max(high, 0)
    return "" if 0 <= low <= high <= 1 else f" --score_range {low:g} {high:g}"
