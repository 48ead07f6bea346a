"""What the names of columns mean, whether a table has a row of names, and the layouts of published files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

TEXT, ANCHOR, POSITIVE, NEGATIVE, SCORE, LABEL = "text", "anchor", "positive", "negative", "score", "label"
#: A teacher's scores: of the positive, of the negatives, or of the positive and then the negatives in one list
POSITIVE_SCORE, NEGATIVE_SCORE, SCORES = "positive_score", "negative_score", "scores"
CANDIDATE_SCORES = (SCORES, POSITIVE_SCORE, NEGATIVE_SCORE)
ROLES = (TEXT, ANCHOR, POSITIVE, NEGATIVE, SCORE, LABEL, *CANDIDATE_SCORES)
#: Names of the columns of a data set to train on that are not text
TARGETS = (LABEL, SCORE, SCORES)
#: The role of columns that training does not use, by name: numbers of rows, splits, dates, parse trees, ...
BESIDE = "beside"

#: Column names of each role, in lower case, from the data sets of sentence-transformers, SentEval, GLUE and SimCSE.
NAMES: dict[str, tuple[str, ...]] = {
    ANCHOR: (
        "anchor", "query", "question", "sentence1", "sentence_1", "sent0", "premise", "text1", "text_1", "sentence_a",
        "question1", "first", "#1_string", "title1", "body1", "caption1", "title", "prompt", "instruction", "claim",
        "english",
    ),
    POSITIVE: (
        "positive", "answer", "sentence2", "sentence_2", "sent1", "hypothesis", "text2", "text_2", "sentence_b",
        "question2", "second", "#2_string", "title2", "body2", "caption2", "pos", "back", "passage", "document",
        "response", "abstract", "body", "summary", "simplified", "compressed", "paraphrase", "evidence", "non_english",
        "target", "tgt", "positives",
    ),
    SCORES: ("scores", "teacher_scores"),
    SCORE: ("score", "similarity", "similarity_score", "sim", "relatedness_score", "sts_score"),
    LABEL: (
        "label", "labels", "class", "category", "sentiment", "intent", "gold_label", "entailment_judgment",
        "entailment_label", "is_duplicate", "quality",
    ),
    TEXT: ("text", "sentence"),
    BESIDE: (
        "idx", "index", "split", "subset", "fold", "source", "source1", "source2", "src", "lang", "language", "locale",
        "domain", "genre", "topic", "date", "datetime", "time", "timestamp", "year", "created_at", "updated_at", "url",
        "uri", "link", "file", "filename", "path", "author", "user", "username", "dataset", "license", "semeval_set",
        "entailment_ab", "entailment_ba", "annotator_labels",
    ),
}  # fmt: skip
_ROLE_OF = {name: role for role, names in NAMES.items() for name in names}
_NEGATIVE = re.compile(r"((hard_?)?neg(ative)?s?|hard)(_?\d+)?")
_OF_SCORES = re.compile(r"(pos(itive)?s?|(hard_?)?neg(ative)?s?(_?\d+)?)_?scores?(_?\d+)?")
_BESIDE = re.compile(
    r"(.*_)?(q|gu|uu|u)?id\d*|(pair|caption|prompt)id|label_?\d|sentence_?\w_\w*(parse|original|dataset)"
)
_PARTNERS = {"source": ("target",), "src": ("tgt", "target")}  # a source beside a target is a text
_FLAG_EMBEDDING = ("query", "pos")  # columns beside which FlagEmbedding has an instruction and a kind of task
#: Lowest and highest value in a score column, by its name; in other columns scores are from 0 to 1
SCALES = {"relatedness_score": (1.0, 5.0), "sts_score": (0.0, 5.0)}
#: Scores that data sets give beside a label of the same pairs: taken only when they are named
SECOND_GOLD = {"relatedness_score": ("entailment_judgment", "entailment_label")}
NLI_LABELS = ("entailment", "neutral", "contradiction")
NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
_LIKE_A_NUMBER = re.compile(NUMBER.pattern + r"|\s*([-+]?(nan|inf|infinity)|n/a|na|null|none)\s*", re.IGNORECASE)

#: The columns of the files of the STS benchmark, which have no header
STS_COLUMNS = ("genre", "file", "year", "id", "sts_score", "sentence1", "sentence2")
COMPARED = 50  # rows with which the first row is compared
_WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|[^\s\u3040-\u30ff\u4e00-\u9fff]+")  # Han and kana have no spaces
_ENDS = re.compile(r".*\w\W*[.!?。！？…][\"')\]]*", re.DOTALL)


def role_of(name: str, names: Sequence[str] = ()) -> str | None:
    """The role of a known column name, `BESIDE` for one that training does not use, and None for others.

    Args:
        name: the column.
        names: the columns of the table: `source` is a text beside `target`, and else says where a row comes from.

    Example:
        >>> role_of("Hard-Neg 2"), role_of("pairID"), role_of("source"), role_of("source", ["source", "target"])
        ('negative', 'beside', 'beside', 'anchor')
        >>> role_of("neg_scores"), role_of("negative_2_score"), role_of("positive_score")
        ('negative_score', 'negative_score', 'positive_score')
    """
    plain = plain_name(name)
    if _NEGATIVE.fullmatch(plain):
        return NEGATIVE
    if _OF_SCORES.fullmatch(plain):
        return POSITIVE_SCORE if plain.startswith("pos") else NEGATIVE_SCORE
    if plain in ("prompt", "type") and set(_FLAG_EMBEDDING) <= set(map(plain_name, names)):
        return BESIDE
    if set(_PARTNERS.get(plain, ())) & set(map(plain_name, names)):
        return ANCHOR
    return _ROLE_OF.get(plain) or (BESIDE if _BESIDE.fullmatch(plain) else None)


def plain_name(name: str) -> str:
    """A column name as `NAMES` has it: in lower case, with one underscore for spaces and hyphens."""
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def items_of(cell: Any) -> list[Any] | None:
    """The items of a list, which a table may hold as JSON; None for a cell that is no list.

    Example:
        >>> items_of(["a", "b"]), items_of("[0.9, 0.2]"), items_of("a")
        (['a', 'b'], [0.9, 0.2], None)
    """
    if isinstance(cell, str) and cell.strip()[:1] == "[":
        try:
            cell = json.loads(cell)
        except ValueError:
            return None
    return cell if isinstance(cell, list) else None


@dataclass(frozen=True)
class Header:
    """What the first row of a table is.

    Args:
        there: whether the first row holds the names of the columns.
        known: whether one of the names is known.
        names: the names of the columns: those of the first row, or `0`, `1`, ... or those of a known layout.
    """

    there: bool
    known: bool
    names: tuple[str, ...]

    @property
    def note(self) -> str:
        """A line that says what was guessed; blank if nothing was."""
        if self.there:
            unsure = not self.known and any(" " in name for name in self.names)
            return f"the first row is read as the names of the columns: {', '.join(self.names)}" if unsure else ""
        if self.names == STS_COLUMNS:
            return f"no header: columns as in the STS benchmark, {', '.join(self.names)}"
        return f"no header: columns are numbered {', '.join(self.names)}"


def find_header(rows: Sequence[Sequence[str]], given: bool | None = None) -> Header:
    """Find out whether the first row of a table holds the names of its columns.

    It does if it holds a known name that no other row has in that column. Else its cells are compared with those
    below: a word above sentences is a name; a number above numbers, a sentence above sentences, or a cell that occurs
    again is not.

    Args:
        rows: the first rows of the table.
        given: whether there is a header, if that is known.

    Example:
        >>> find_header([["a", "b"], ["Two cats sleep.", "The cats are asleep."]]).there
        True
        >>> find_header([["One dog runs.", "0.5"], ["Two cats sleep.", "0.25"]])
        Header(there=False, known=False, names=('0', '1'))
    """
    first = [cell.strip() for cell in rows[0]] if rows else []
    below = [row for row in rows[1:] if any(row) and list(row) != list(rows[0])]
    columns = [[row[i].strip() for row in below if i < len(row) and row[i].strip()] for i in range(len(first))]
    known = any(role_of(cell) and cell not in column for cell, column in zip(first, columns, strict=True))
    sts = len(first) >= len(STS_COLUMNS) and not known and all(NUMBER.fullmatch(first[i]) for i in (3, 4))
    if sts and given is not True:
        return Header(False, False, STS_COLUMNS)
    numbered = tuple(str(i) for i in range(len(first)))
    there = given
    if there is None:
        written = [cell for cell in first if cell] == list(numbered[: len(first) - first.count("")])  # by pandas
        there = known or not any(first) or written or _is_name_row(first, columns)
    return Header(there, known, tuple(first) if there else numbered)


def _is_name_row(first: Sequence[str], columns: Sequence[Sequence[str]]) -> bool:
    return sum(_vote(cell, column) for cell, column in zip(first, columns, strict=True) if cell) >= 0


def _vote(cell: str, below: Sequence[str]) -> int:
    """Above 0 if a cell looks like the name of the cells below it, below 0 if it looks like one of them."""
    words = len(_WORD.findall(cell))
    sentence = words >= 4 or bool(words > 1 and _ENDS.fullmatch(cell))
    if not below:
        return -2 if sentence else 0
    if sum(bool(_LIKE_A_NUMBER.fullmatch(other)) for other in below) >= 0.8 * len(below):
        return -3 if _LIKE_A_NUMBER.fullmatch(cell) else 3
    if cell in below:
        return -2
    usual = median(len(_WORD.findall(other)) for other in below)
    if sentence:
        return -2 if usual >= 3 and words * 4 >= usual else 1
    if words == 3:
        return -1 if usual <= 6 else 0
    return 1 if usual >= 3 else 0
