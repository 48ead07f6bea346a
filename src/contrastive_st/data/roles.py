"""Which column of a table is what in training: one row for each role, and one for each kind of data that they make.

`column_roles` finds the role of each column from its name and from what all of its cells hold.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from contrastive_st.data.profile import NOTHING, NUMBERS, OTHER, TEXTS, Column, is_blank, profile, simple
from contrastive_st.errors import InputError, choice

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
    Role(NEGATIVE, (TEXTS,), True, (), r"((hard_?)?neg(ative)?s?|hard)(_?\d+)?"),
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
        "non_english", "target", "tgt", "positives", "context",
    )),
    Role(SCORES, (NUMBERS,), True, ("scores", "teacher_scores")),
    Role(SCORE, (NUMBERS,), True, ("score", "similarity", "similarity_score", "sim", "relatedness_score", "sts_score")),
    Role(LABEL, (TEXTS, NUMBERS), True, (
        "label", "labels", "class", "category", "sentiment", "intent", "gold_label", "entailment_judgment",
        "entailment_label", "is_duplicate", "quality", "label_text", "label_name",
    )),
    Role(TEXT, (TEXTS,), False, ("text", "sentence")),
    Role(UNUSED, (), True, (
        "idx", "index", "split", "subset", "fold", "source", "source1", "source2", "src", "lang", "language", "locale",
        "domain", "genre", "topic", "date", "datetime", "time", "timestamp", "year", "created_at", "updated_at", "url",
        "uri", "link", "file", "filename", "path", "author", "user", "username", "dataset", "license", "semeval_set",
        "entailment_ab", "entailment_ba", "annotator_labels", "task_name", "status", "annotator", "lead_time",
        "tags", "keywords", "authors", "meta", "metadata", "entities", "tokens",
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
_NAMED = tuple(name for name in _ROLE if name != UNUSED)
_TEXTS = (TEXT, ANCHOR, POSITIVE, NEGATIVE)
_PARTNERS = {"source": ("target",), "src": ("tgt", "target")}  # a source with a target is a text
_NUMBERED = re.compile(r"((?:text|sentence|sent|passage|t|s)_?)(\d)")  # from 0: anchor, positive, negatives
_REFERS = re.compile(r"(hard_?)?((posi|nega)tives?_\w+|(pos|neg)_(p?ids?|ctxs?|docs?|passages?|documents?)\w*)")
_FLAG_EMBEDDING = ("query", "pos")  # columns with which FlagEmbedding has an instruction and a kind of task
#: Lowest and highest value in a score column, by its name, if a value is above 1; else scores are from 0 to 1
SCALES = {"relatedness_score": (1.0, 5.0), "sts_score": (0.0, 5.0)}
#: Scores and names of classes that data sets give besides a label: taken only when they are named
SECOND_TARGET = {
    "relatedness_score": ("entailment_judgment", "entailment_label"), "label_text": ("label",), "label_name": ("label",)
}  # fmt: skip
_SMALL = (-1.0, 10.0)  # values between which unknown numbers of pairs may be their scores
_FEW = 11  # whole numbers of a scale


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
    if plain in ("prompt", "type") and set(_FLAG_EMBEDDING) <= others:
        return UNUSED
    if (plain == "title" and {"question", "query"} & others) or (plain == "answers" and "positive" in others):
        return UNUSED  # of the passage, as in SQuAD and DPR
    if set(_PARTNERS.get(plain, ())) & others:
        return ANCHOR
    if (numbered := _NUMBERED.fullmatch(plain)) and f"{numbered[1]}0" in others:
        return (ANCHOR, POSITIVE, NEGATIVE)[min(int(numbered[2]), 2)]
    return _ROLE_OF.get(plain) or next((role.name for role in ROLES if re.fullmatch(role.pattern, plain)), None)


@dataclass(frozen=True)
class ColumnRoles:
    """The role of each column of a source.

    Args:
        source: name of the source in messages.
        columns: the role of each column, in the order that collators expect: anchor, positive, negatives, and last the
            score, the label or a teacher's scores.
        left_out: the columns that training does not use, each with the reason.
        example: the cells of one row, unchanged.
        notes: what was decided from the cells and not from a name, a line each.
        lists: columns whose cells are lists: of texts, or of scores; of labels, also columns with some lists.
        views: what training makes of single texts.
        classes: the number of each class, by the cells that name it, where `read_examples` has numbered them.

    Example:
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
    example: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    views: str = "two crops of each are a pair"
    classes: Mapping[str, int] = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        """The text columns, in order."""
        return [name for name, role in self.columns.items() if role in _TEXTS]

    @property
    def target(self) -> str | None:
        """The column of the score or the label, or None."""
        return next((name for name, role in self.columns.items() if role in (SCORE, LABEL)), None)

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

    def with_example(self, rows: Iterable[Mapping[str, Any]]) -> ColumnRoles:
        """The same with the first row that has all columns as its example."""
        whole = (dict(row) for row in rows if not any(is_blank(row.get(name)) for name in self.columns))
        return replace(self, example=next(whole, {}))

    def __str__(self) -> str:
        lines = [(role, name, _shown(self.example.get(name))) for name, role in self.columns.items()]
        for name, why in self.left_out.items():
            lines.append(("not used", name, f"{_shown(self.example.get(name))} ({why})"))
        roles, names = (max(len(line[i]) for line in lines) for i in (0, 1))
        shown = (f"  {role:<{max(8, roles)}}  {name:<{names}}  {cell}" for role, name, cell in lines)
        notes = (f"  {note}" for note in self.notes)
        words = f"{self.words}: {self.views}" if self.kind == "texts" else self.words
        return "\n".join([f"{self.source}: {words} ({self.kind})", *shown, *notes])


def column_roles(
    rows: Sequence[Mapping[str, Any]] | Mapping[str, Column],
    columns: Sequence[str | int] | None = None,
    *,
    source: str = "the data",
    target: str | None = None,
    kinds: Sequence[str] = (),
    scaled: bool = True,
) -> ColumnRoles:
    """Find the role of each column from its name and its cells.

    A column whose name is known (`ROLES`; for negatives `negative_1`, `hard_neg`, ...) has the role of that name, and
    it must hold what that role needs. If no column of text has a known name, the roles go by position: a single column
    holds sentences; of several, the first two are anchor and positive, the others hard negatives; but not where the
    cells contradict it (few values in many rows). A column of text with an unknown name among known ones is an error.
    Columns like `id`, `split`, `lang` or `url`, and unknown columns of numbers, dates or addresses are not used.
    Unknown numbers from 0 to 1 that vary are the scores of pairs; those of another small scale are an error.

    Positives and negatives may be lists. A teacher's scores have columns named after them (`pos_scores`, `neg_scores`;
    `positive_score`, `negative_1_score`, ...), or one of lists, `scores`: of the positive and then the negatives.

    Args:
        rows: the rows of the table as cells by column, or what its columns hold (`Table.profile`).
        columns: the columns wanted, by name or by position from 0, or as `name=role`. By default all columns with a
            known name, and if none of these is a text column, all columns of text.
        source: name of the source in messages.
        target: the column of the score or the label, if several could be.
        kinds: the kinds of rows that are wanted, keys of `KINDS`; by default any.
        scaled: whether scores need a known scale, as in training. Without one, scores and labels must be numbers, and
            classes of another kind are not used.

    Raises:
        InputError: the roles cannot be found, or do not fit together; the message shows how to name them.

    Example:
        >>> column_roles([{"text": "a cat", "category": "animals"}]).kind
        'labelled_texts'
        >>> column_roles([{"a": "one", "b": "two", "n": 3}], ["b=anchor", "a=positive"]).columns
        {'b': 'anchor', 'a': 'positive'}
    """
    held = rows if isinstance(rows, Mapping) else profile(rows)
    finder = _Finder(held, dict(named_columns(columns, list(held), source)), source, target, kinds, scaled)
    roles = finder.roles()
    if kinds and roles.kind not in kinds:
        wanted = " or ".join(KINDS[kind].words for kind in kinds)
        mend = f"if a column has another role, give --columns NAME=ROLE; the columns are {', '.join(finder.names)}"
        raise finder.fault(f"it holds {roles.words}, not {wanted}", "" if finder.classify else mend)
    return roles if isinstance(rows, Mapping) else roles.with_example(rows)


def named_columns(columns: Any, names: Sequence[str], source: str) -> dict[str, str | None]:
    """The columns asked for by name, by position in `names` or as `name=role`, each with that role or None.

    Raises:
        InputError: there is no such column or role, or a column is asked for twice.

    Example:
        >>> named_columns(["text", 0, "2=label"], ["id", "text", "topic"], "a.csv")
        {'text': None, 'id': None, 'topic': 'label'}
    """
    given: dict[str, str | None] = {}
    for column in [columns] if isinstance(columns, (str, int)) else columns or []:
        name, role = str(column), None
        if name not in names and "=" in name:
            name, _, role = name.rpartition("=")
            choice("role", role, _NAMED, source)
        if name not in names and name.isdecimal() and int(name) < len(names):
            name = names[int(name)]
        if choice("column", name, names, source) in given:
            raise InputError(f"{source}: column {name!r} is asked for twice; name each column once")
        given[name] = role
    return given


_FILL = "fill it, or name the columns to use, such as --columns ANCHOR POSITIVE"

_WHY_UNUSED = {
    NUMBERS: "numbers, and its name says nothing of them",
    NOTHING: "every cell is blank",
    TEXTS: "dates, addresses or numbers",
}


class _Finder:
    """Finds the roles of the columns of one table."""

    def __init__(
        self,
        held: Mapping[str, Column],
        given: Mapping[str, str | None],
        source: str,
        target: str | None,
        kinds: Sequence[str],
        scaled: bool,
    ) -> None:
        self.given, self.source, self.target, self.names = given, source, target, list(held)
        self.scaled, self.classify = scaled, set(kinds) == {"labelled_texts"}
        if target is not None:
            choice("column", target, held, source)
        self.role = {name: given.get(name) or role_of(name, self.names) for name in held}
        wanted = given or held
        self.lists = [
            name
            for name, column in held.items()
            if name in wanted and self.role[name] in _ROLE and _ROLE[str(self.role[name])].lists
            and (column.all_lists or (column.lists and self.role[name] == LABEL))  # some texts may have one label
        ]  # fmt: skip
        self.held = {name: (column.items or column) if name in self.lists else column for name, column in held.items()}
        self.left_out: dict[str, str] = {}
        self.notes: list[str] = []

    def roles(self) -> ColumnRoles:
        """The roles of all columns."""
        if not any(column.rows for column in self.held.values()):
            self._refuse([("it is empty", "it needs at least one row")])
        named: dict[str, str | None] = {}
        for name in self.names:
            if self.given and name not in self.given:
                self.left_out[name] = "not asked for"
        for name in self.given or self.names:
            role, why = self._role(name)
            if why:
                self.left_out[name] = why
            else:
                self._refuse(self._faults_of_cells(name, role))
                named[name] = role
        if not self.given:
            plain = {plain_name(name): name for name in named}
            for second, firsts in SECOND_TARGET.items():
                if second in plain and set(firsts) & set(plain):
                    del named[plain[second]]
                    self.left_out[plain[second]] = "there is a label too"
            self._refuse(self._unknown_scores(named))
            self._refuse(self._references(named) if self.scaled else ())
            self._take_marks(named)
        roles = self._placed(named)
        texts = [name for name, role in roles.items() if role in _TEXTS]
        if len(texts) > 1 and not any(named[name] for name in texts):
            if not self.given:
                self._refuse(self._few_values(texts, list(roles)))
            self.notes.append("roles taken by position: no column of text has a known name")
        for name in texts if len(texts) > 1 else ():
            if (column := self.held[name]).category:
                few = f"{len(column.distinct)} values in {column.count} rows"
                self.notes.append(
                    f"{name} has only {few}: if it is a class, name it, --columns ... {shlex.quote(f'{name}=label')}"
                )
        self.left_out.update({name: "no role is left for it" for name in named if name not in roles})
        lists = tuple(name for name in self.lists if name in roles)
        return ColumnRoles(self.source, roles, self.left_out, {}, tuple(self.notes), lists)

    def _role(self, name: str) -> tuple[str | None, str]:
        """The role that a column's name or the user says, or None; and why it is not used, if it is not."""
        role, column, asked = self.role[name], self.held[name], name in self.given
        if self.target is not None and (name == self.target or role in (SCORE, LABEL)):
            role = (role if role in (SCORE, LABEL) else LABEL) if name == self.target else UNUSED
        is_label = role == LABEL and (self.classify or self.given.get(name) == LABEL)
        if role in (SCORE, LABEL, SCORES) and not is_label:
            scores = name in self.lists and (role != LABEL or column.held == NUMBERS)
            role = SCORES if scores else SCORE if role == SCORES else role
        if role in CANDIDATE_SCORES and column.held == NOTHING:
            return role, "every cell is blank"  # of a teacher that was not asked
        if role == LABEL and column.graded_numbers and not is_label:
            role = SCORE  # a graded "label", as in GLUE's STS-B
        if role == LABEL and not (self.scaled or asked or column.numbers):
            return role, "its classes are not numbers"
        if role == UNUSED and (not asked or name == self.target):
            return role, "its name says that it is not a text"
        role = None if role == UNUSED else role
        if role is None and not asked and column.objects:
            return role, "it holds objects"
        if role is None and not asked and (column.held != TEXTS or column.aside):
            return role, _WHY_UNUSED.get(column.held, f"it holds {column.held}")
        return role, ""

    def _refuse(self, faults: Iterable[tuple[str, str]]) -> None:
        """Raise for the first fault: what is wrong, and what to do about it."""
        for what, mend in faults:
            raise self.fault(what, mend)

    def _faults_of_cells(self, name: str, role: str | None) -> Iterator[tuple[str, str]]:
        """A column that has a role must hold what the role needs."""
        column, needed = self.held[name], _ROLE[role].holds if role else (TEXTS,)
        if column.held == NOTHING:
            yield f"column {name!r} is empty: every cell is blank", _FILL
        single = not (column.lists or column.objects)  # such as a date, which is a label like any other
        if column.held == NUMBERS and self.given.get(name) in _TEXTS:
            return  # such as the answers to sums
        if column.held in needed or (NUMBERS in needed and column.numbers) or (role == LABEL and single):
            return
        if NUMBERS in needed and TEXTS not in needed and column.measured and column.texts:
            written = f"column {name!r} holds {column.example!r}, but scores must be numbers"
            yield written, "write them with a point and without a unit, such as 0.5"
        wanted = "scores" if needed == (NUMBERS,) else "labels" if NUMBERS in needed else "sentences"
        yield f"column {name!r} holds {column.held}, not {wanted}", ""

    def _unknown_scores(self, named: dict[str, str | None]) -> Iterator[tuple[str, str]]:
        """Numbers that may be scores of pairs are never left out silently: the pairs of score 0 would be positives."""
        texts = [name for name, role in named.items() if role in (None, *_TEXTS)]
        if len(texts) != 2 or len(texts) < len(named) or NEGATIVE in named.values() or set(texts) & set(self.lists):
            return
        unknown = [name for name in self.left_out if self.role[name] is None and self.held[name].held == NUMBERS]
        maybe = [name for name in unknown if self._like_scores(self.held[name])]
        for name in self.left_out:
            column = self.held[name]
            if self.role[name] is None and column.held == TEXTS and column.measured and len(column.distinct) > 1:
                mend = f"write them as numbers, such as 0.5, or leave the column out: {_flag(*texts)}"
                yield f"the values of column {name!r} ({column.example!r}) may be scores", mend
        for name in maybe:
            column = self.held[name]
            low, high = f"{column.low:g}", f"{column.high:g}"
            if len(maybe) > 1 or (self.scaled and not 0 <= column.low <= column.high <= 1):
                scale = f" --score_scale {low} {high}" if self.scaled else ""
                mend = f"name it, {_flag(*texts, f'{name}=score')}{scale}, or leave it out, {_flag(*texts)}"
                yield f"the numbers in column {name!r} ({low} to {high}) may be scores", mend
            named[name] = SCORE
            del self.left_out[name]
            self.notes.append(f"{name} is taken as the score of each pair: its values are {low} to {high}")

    def _take_marks(self, named: dict[str, str | None]) -> None:
        """Where labels are wanted, and no column is named so, several unknown columns of 0 and 1 are labels."""
        marks = [name for name in self.left_out if self.role[name] is None and self.held[name].all_marks]
        if self.classify and LABEL not in named.values() and len(marks) > 1:
            named.update(dict.fromkeys(marks, LABEL))
            self.left_out = {name: why for name, why in self.left_out.items() if name not in marks}
            self.notes.append(f"the columns of 0 and 1 are read as labels: {', '.join(marks)}")

    def _references(self, named: dict[str, str | None]) -> Iterator[tuple[str, str]]:
        """A single text, with ids or lists of what belongs to it, is not a text to crop."""
        texts = [name for name, role in named.items() if role in (None, *_TEXTS)]
        if len(texts) != 1 or len(named) != 1:
            return
        for name in self.left_out:
            held, refers = self.held[name].held, _REFERS.fullmatch(plain_name(name))
            if refers or (named[texts[0]] == ANCHOR and held == OTHER and self.role[name] != UNUSED):
                what = f"{texts[0]!r} is the only text; {name!r} ({_shown(self.held[name].example)}) is not read"
                yield what, f"replace it by the texts that it refers to, or train on crops: {_flag(texts[0])}"

    @staticmethod
    def _like_scores(column: Column) -> bool:
        low, high = _SMALL
        varied = len(column.distinct) > 1 and low <= column.low <= column.high <= high
        return varied and (column.graded or len(column.distinct) <= _FEW)

    def _few_values(self, texts: Sequence[str], used: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Columns that have their roles by position must hold many texts."""
        for name in texts:
            column = self.held[name]
            others = _flag(*(other for other in used if other != name))
            if column.count >= 5 and len(column.distinct) == 1:
                yield f"every cell of column {name!r} is {_shown(column.example)}", f"leave it out: {others}"
            if column.category:
                what = f"column {name!r} has {len(column.distinct)} values in {column.count} rows, so it is not a text"
                yield what, f"leave it out, {others}, or name its role, such as {shlex.quote(f'{name}=label')}"

    def _placed(self, named: dict[str, str | None]) -> dict[str, str]:
        """The roles of all columns that training uses, in the order that collators expect."""
        by_role: dict[str, list[str]] = {role: [] for role in _NAMED}
        unknown = []
        for name, role in named.items():
            by_role[role].append(name) if role else unknown.append(name)
        target = [*by_role[SCORE], *by_role[LABEL], *by_role[SCORES]]
        marks = by_role[LABEL] if self.classify and all(self.held[name].all_marks for name in by_role[LABEL]) else []
        rivals = [name for name in target if name not in marks[1:]]  # several columns of 0 and 1 are one target
        scores = [*by_role[POSITIVE_SCORE], *by_role[NEGATIVE_SCORE]]
        anchors, positives, negatives, texts = (by_role[role] for role in (ANCHOR, POSITIVE, NEGATIVE, TEXT))
        one = ((ANCHOR, anchors), (POSITIVE, positives), (TEXT, texts), (POSITIVE_SCORE, by_role[POSITIVE_SCORE]))
        self._refuse((f"columns {' and '.join(map(repr, several))} would each be the {role}", "")
                     for role, several in (*one, ("score or label", rivals)) if len(several) > 1)  # fmt: skip
        kept = [name for name, role in named.items() if role in KEPT]
        known, target = anchors or positives or negatives or texts, [*target, *scores, *kept]
        if len(named) - len(target) == 1 or not known or (self.given and not (anchors or positives or negatives)):
            ordered = [name for name in named if name not in target]  # by position
            anchors, positives, negatives = ordered[:1], ordered[1:2], ordered[2:]
        else:
            self._refuse(self._faults_of_names(by_role, unknown, target))
            if not (anchors and positives):
                anchors, positives = anchors or texts + unknown, positives or texts + unknown
        self._refuse(self._faults_of_places(by_role, anchors, positives, negatives))
        roles = {anchors[0]: ANCHOR if positives else TEXT, **dict.fromkeys(positives, POSITIVE)}
        return {**roles, **dict.fromkeys(negatives, NEGATIVE), **{name: str(named[name]) for name in target}}

    def _faults_of_names(
        self, by_role: Mapping[str, list[str]], unknown: list[str], target: list[str]
    ) -> Iterator[tuple[str, str]]:
        """Where the name of one text is known, those of the others must be too, but for an anchor or a positive."""
        anchors, positives, negatives, texts = (by_role[role] for role in (ANCHOR, POSITIVE, NEGATIVE, TEXT))
        spare = texts + unknown
        if texts and not (anchors or positives or negatives):
            yield f"besides {texts[0]!r} there is text in {', '.join(map(repr, unknown))}", ""
        if anchors and positives and spare:
            used = [*anchors, *positives, *negatives, *target]
            mend = f"leave it out, {_flag(*used)}, or name its role: {_flag(*used, f'{spare[0]}={NEGATIVE}')}"
            if self.held[spare[0]].like_classes and not target:
                mend = f"name it, {_flag(*used, f'{spare[0]}={LABEL}')}, or leave it out, {_flag(*used)}"
            yield f"the role of column {spare[0]!r} is unknown: it holds text, and its name is not that of a role", mend
        pair = anchors and positives
        if not pair and (len(spare) != 1 or not (anchors or positives) or (unknown and not self.given)):
            could = f" ({', '.join(spare)} could be)" if spare else ""
            yield f"no column is the {POSITIVE if anchors else ANCHOR}{could}", ""

    def _faults_of_places(
        self, by_role: Mapping[str, list[str]], anchors: list[str], positives: list[str], negatives: list[str]
    ) -> Iterator[tuple[str, str]]:
        """A score or a label needs its texts; scores of candidates need each text, and each text its score."""
        first, others = by_role[POSITIVE_SCORE], by_role[NEGATIVE_SCORE]
        if not anchors:
            yield "no column holds text", ""
        if by_role[SCORES] or first or others:
            if not (positives and negatives):
                yield "scores of candidates need a positive and negatives", ""
            rivals = [*by_role[SCORES], *by_role[SCORE], *by_role[LABEL], *[*first, *others][:1]]
            if len(rivals) > 1:
                yield f"columns {rivals[0]!r} and {rivals[1]!r} would both be the scores", ""
            if not by_role[SCORES] and (not first or len(others) != len(negatives)):
                there = f"{len(first)} for the positive and {len(others)} for the negatives"
                yield f"the columns of scores are {there}, but there are {len(negatives)} columns of negatives", ""
        elif by_role[SCORE] and (negatives or not positives):
            yield f"a {SCORE} needs two text columns", ""
        elif by_role[LABEL] and negatives:
            yield f"a {LABEL} needs one or two text columns", ""

    def fault(self, what: str, mend: str = "") -> InputError:
        """An error that shows how to name the columns."""
        scores = (UNUSED, SCORE, LABEL, *CANDIDATE_SCORES)
        texts = [name for name in self.names if self.held[name].held == TEXTS or self.role[name] in _TEXTS]
        texts = [name for name in texts if self.role[name] not in scores]
        first, second = (TEXT, LABEL) if self.classify else (ANCHOR, POSITIVE)
        texts.sort(key=lambda name: self.role[name] != first)
        if self.classify:
            varied = {name: len(self.held[name].distinct) not in (1, self.held[name].count) for name in self.names}
            labels = sorted(self.names, key=lambda name: (self.role[name] != LABEL, not varied[name]))
            texts = [*texts[:1], *(name for name in labels if name not in texts[:1])]
        elif len(texts) == 2 and (last := self.held[texts[1]]).held == NUMBERS and (last.like_classes or last.category):
            first, second = TEXT, LABEL  # such as `target`
        nested = [name for name in self.names if self.held[name].held == OTHER and self.role[name] != UNUSED]
        if nested and not texts:
            mend = f"give each text a column; {nested[0]!r} holds {_shown(self.held[nested[0]].example)}"
        shown = [f"{name}={role}" for name, role in zip(texts, (first, second), strict=False)]
        example = f"{_flag(*shown or (f'NAME={first}', f'NAME={second}'))} (of {', '.join(self.names)})"
        return InputError(f"{self.source}: {what}; {mend or f'name their roles, such as {example}'}")


def _flag(*columns: str) -> str:
    """The flag that names some columns, as a shell takes it."""
    return f"--columns {shlex.join(columns)}"


def _shown(cell: Any) -> str:
    cell = simple(cell)
    text = " ".join(cell.split()) if isinstance(cell, str) else cell
    if isinstance(text, str):
        return repr(text[:67] + "..." if len(text) > 70 else text)
    return shown if len(shown := repr(text)) <= 100 else f"{shown[:97]}..."
