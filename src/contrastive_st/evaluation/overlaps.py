"""Copies of one collection of texts in another: which texts of an evaluation set occur in the training text.

The texts of B are held and indexed, those of A are streamed, so memory grows with B alone.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from contrastive_st.data.profile import is_blank, items_of, simple
from contrastive_st.data.reading import TABLES, Table, header_of, open_table
from contrastive_st.data.reading.content import format_of
from contrastive_st.data.roles import NEGATIVE, POSITIVE, named_columns, role_of
from contrastive_st.data.text_columns import text_column, text_columns
from contrastive_st.evaluation.suite import load
from contrastive_st.evaluation.tasks import choose

logger = logging.getLogger(__name__)
_WORD = re.compile(r"\w+")


class Copy(NamedTuple):
    """A text of B, the text of A that is most like it, and the Jaccard index of their words; 1 for the same words."""

    text: str
    of: str
    similarity: float


@dataclass
class Overlaps:
    """The texts of B that are in A.

    Args:
        first: number of texts of A, repetitions included.
        second: number of distinct texts of B; texts that differ in case or punctuation alone are one.
        exact: texts of B that A has word for word, in any case and with any punctuation.
        near: other texts of B with a near copy in A, the nearest first.
    """

    first: int
    second: int
    exact: list[Copy] = field(default_factory=list)
    near: list[Copy] = field(default_factory=list)

    def report(self, threshold: float, examples: int = 3) -> str:
        """The counts and some examples, as text."""
        lines = [f"{self.first:,} texts of A compared with {self.second:,} distinct texts of B"]
        what = (
            "exact copies, in any case and punctuation",
            f"near copies, Jaccard index of words at least {threshold:g}",
        )
        for name, result in zip(what, (self.exact, self.near), strict=True):
            lines.append(f"{len(result):,} of B ({len(result) / max(self.second, 1):.1%}) have {name}")
            for copy in result[:examples]:
                lines += [f"  {copy.similarity:.2f}  B: {copy.text}", f"        A: {copy.of}"]
        return "\n".join(lines)


def overlaps(first: Iterable[str], second: Iterable[str], threshold: float = 0.8, least: int = 3) -> Overlaps:
    """Find the texts of `second` (B) of which `first` (A) has copies.

    Near copies are detected by prefix filtering (Bayardo, Ma and Srikant 2007, https://doi.org/10.1145/1242572.1242591):
    two sets of words with a Jaccard index of at least t share one of their rarest words, so only the texts that do are
    compared. No pair above the threshold is missed.

    Args:
        first: texts, which are read once and not kept.
        second: texts, which are kept.
        threshold: least Jaccard index of the words of a near copy, above 0 and at most 1.
        least: near copies have at least so many different words.

    Returns:
        The exact and the near copies, and how many texts B has.

    Example:
        >>> copies = overlaps(["A cat sat on the mat.", "dogs"], ["a cat sat on the mat", "a cat sat on a mat", "x"])
        >>> [copy.text for copy in copies.exact], [(copy.text, round(copy.similarity, 2)) for copy in copies.near]
        (['a cat sat on the mat'], [('a cat sat on a mat', 0.83)])
    """
    texts = {words: text for text in second if (words := _words(text))}
    rarity = Counter(word for words in texts for word in set(words))
    keys = list(texts)
    sets = [frozenset(words) for words in keys]
    held: dict[str, list[int]] = {}
    for number, word_set in enumerate(sets):
        for word in _prefix(word_set, rarity, threshold) if len(word_set) >= least else ():
            held.setdefault(word, []).append(number)
    exact: dict[tuple[str, ...], str] = {}
    near: dict[int, tuple[str, float]] = {}
    count = 0
    for text in first:
        count += 1
        words = _words(text)
        if words in texts:
            exact.setdefault(words, text)
        word_set = frozenset(words)
        if len(word_set) < least:
            continue
        for number in {number for word in _prefix(word_set, rarity, threshold) for number in held.get(word, ())}:
            shared = len(word_set & sets[number])
            similarity = shared / (len(word_set) + len(sets[number]) - shared)
            if similarity >= max(threshold, near.get(number, ("", 0.0))[1] + 1e-12):
                near[number] = text, similarity
    copies = [Copy(texts[keys[number]], *result) for number, result in near.items() if keys[number] not in exact]
    same = [Copy(texts[words], text, 1.0) for words, text in exact.items()]
    return Overlaps(count, len(texts), same, sorted(copies, key=lambda copy: -copy.similarity))


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.lower()))


def _prefix(words: frozenset[str], rarity: Counter[str], threshold: float) -> list[str]:
    """The rarest words, as many as two sets above the threshold must share one of."""
    ordered = sorted(words, key=lambda word: (rarity[word], word))
    return ordered[: len(words) - math.ceil(threshold * len(words) - 1e-9) + 1]


def texts_of(source: str, data: str | Path = "hub", columns: Sequence[str | int] | None = None) -> Iterator[str]:
    """The texts of a file, or of the scored split of tasks of the evaluation, such as `STSB` or `sts7`.

    What is left out (columns of a file, tasks or parts of tasks without data) is logged.

    Args:
        source: a file, as for `read_texts`; or names of tasks.
        data: for tasks, the folder of SentEval's files, or "hub".
        columns: the columns of a file, by name or position (from 0); by default all columns of sentences.

    Raises:
        InputError: there is neither such a file nor such a task, or it cannot be read.
    """
    if Path(source).exists() or format_of(source) in TABLES:
        yield from _texts_of_file(open_table(source, header=header_of(columns)), columns)
        return
    tasks = choose(source)
    for task, splits in zip(tasks, load(tasks, data).values(), strict=True):
        missing = {"": splits} if isinstance(splits, str) else splits.missing
        for part, why in missing.items():
            logger.warning(f"{task.name}{part and ' '}{part} is not compared: {why}")
        if not isinstance(splits, str):
            scored = splits.get(task.main[0])
            parts = splits.values() if scored is None else [scored]
            yield from (text for rows in parts for column in rows.columns for text in column)


def _texts_of_file(table: Table, columns: Sequence[str | int] | None) -> Iterator[str]:
    lists = [name for name, column in table.profile.items()
             if column.all_lists and role_of(name, table.names) in (POSITIVE, NEGATIVE)]  # fmt: skip
    asked = named_columns(columns, table.names, table.source)
    names = [*(asked or [*text_columns(table), *lists] or [text_column(table)])]
    if left := [name for name in table.names if name not in names]:
        logger.warning(f"{table.source}: compares {', '.join(names)}, and not {', '.join(left)}")
    for _, cells in table:
        for name in names:
            found = items_of(cells.get(name)) if name in lists else [cells.get(name)]
            yield from (str(simple(cell)) for cell in found or () if not is_blank(cell))
