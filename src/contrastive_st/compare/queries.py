"""Documents without labels as a test of search: queries made of them, the documents to find, and pairs to tune on."""

from __future__ import annotations

import glob
import hashlib
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from contrastive_st.data import DocPair, installed_docs
from contrastive_st.data.documentation import near_copies, near_pairs, unique_pairs
from contrastive_st.data.profile import is_blank, items_of, number_of, simple
from contrastive_st.data.reading import TABLES, is_saved, open_table
from contrastive_st.data.reading.content import decode, format_of, open_bytes, path_of
from contrastive_st.data.roles import ANCHOR, LABEL, POSITIVE, TEXT, leave_out, table_roles
from contrastive_st.errors import InputError
from contrastive_st.evaluation.scorers.retrieval import graded_metrics
from contrastive_st.search.document_readers import READERS
from contrastive_st.search.documents import open_corpus
from contrastive_st.search.index import VectorIndex
from contrastive_st.search.lexemes import lexemes_of
from contrastive_st.search.migration.sample import read_answers
from contrastive_st.search.report import Report
from contrastive_st.search.splitting import sentences

LEAST, MOST = 100, 50_000  # queries that choose, queries that confirm, and pairs to tune on; documents that are read
_SEARCHED = 1000  # documents that are searched, at most
_WORDS, _TITLE, _REST = 4, 2, 30  # distinct words of a first line and of a title; characters of the text after it
_QUERY, _TEXT = 300, 2000  # characters of a query and of a document, at most
_TITLES = ("title", "subject")
_OF_DOCUMENT = "doc"  # the column that names the document of a sentence, as in a corpus to train on
_LINE = re.compile(r"[^\n]+")


class _Read(NamedTuple):
    """A document: the query that its source gives, or ""; its text; its id or the name of its file."""

    title: str
    text: str
    id: str
    asked: str = ""  # the column of the title, which is a query as it is
    column: str = ""  # the column of the text


@dataclass
class Search:
    """A test of search: each query has documents among all that answer it.

    Args:
        queries: Q texts; the first half chooses a system, the other half confirms it.
        documents: D texts.
        relevant: for each query the numbers of its documents.
        training: pairs of the other documents, of which none is a near copy of those.
        made: how the queries were made.
        column: the column of a table that has the texts, or "".
        left_out: what was left out, and how often.
    """

    queries: list[str]
    documents: list[str]
    relevant: list[list[int]]
    training: list[DocPair]
    made: str
    column: str = ""
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def half(self) -> int:
        """The number of queries that choose."""
        return len(self.queries) // 2

    def ranks(self, scores: NDArray[np.floating], first: int = 0) -> NDArray[np.int64]:
        """The rank, from 1, of the best document of each query by scores `[n, D]`, those of the queries from `first`.

        Among equal scores, the other documents come first. NaN ranks last.

        Example:
            >>> search = Search(["a", "b"], ["x", "y", "z"], [[0], [1, 2]], [], "")
            >>> search.ranks(np.array([[0.5, 0.5, 0.1], [0.9, 0.2, 0.3]])).tolist()
            [2, 2]
        """
        ranks = []
        for row, relevant in zip(scores, self.relevant[first:], strict=False):
            before = ~(row < np.nan_to_num(row[relevant], nan=-np.inf).max())
            before[relevant] = False
            ranks.append(1 + int(before.sum()))
        return np.array(ranks, np.int64)

    def recalls(self, scores: NDArray[np.floating], first: int = 0, k: int = 10) -> NDArray[np.float64]:
        """The share of the documents of each query that are among the first k, by scores as for `ranks`; `[n]`.

        Example:
            >>> search = Search(["a", "b"], ["x", "y", "z"], [[0], [1, 2]], [], "")
            >>> search.recalls(np.array([[0.5, 0.5, 0.1], [0.9, 0.2, 0.3]]), k=2).tolist()
            [1.0, 0.5]
        """
        ranked = np.nan_to_num(scores, nan=-np.inf)
        recalls = [
            graded_metrics(row, np.array(relevant), np.ones(len(relevant)), metrics=[("recall", k)])[f"recall@{k}"]
            for row, relevant in zip(ranked, self.relevant[first:], strict=False)
        ]
        return np.array(recalls, np.float64)


def made_pair(title: str, text: str) -> tuple[str, str] | None:
    """A query and the text that it should find: the title, or else the first line or sentence, and what follows.

    Returns:
        The pair, or None for a text that is too short for both.

    Example:
        >>> made_pair("", "LS(1)  Commands\\nls - list directory contents\\nLists files, or folders by name.")
        ('ls - list directory contents', 'Lists files, or folders by name.')
        >>> made_pair("", "Tides rise twice a day. The moon pulls the sea towards it. So it rises.")
        ('Tides rise twice a day.', 'The moon pulls the sea towards it. So it rises.')
        >>> made_pair("", "Only one sentence is here.")
    """
    title = " ".join(title.split())
    if len(_words(title)) >= _TITLE:
        query, rest = title, text.strip().removeprefix(title)
    else:
        lines = (line for line in _LINE.finditer(text) if len(_words(line[0][:_QUERY])) >= _WORDS)
        if (first := next(lines, None)) is None:
            return None
        query, rest = first[0].strip(), text[first.end() :]
        if len(query) > _QUERY or not rest.strip():
            query, *others = sentences(query)
            rest = " ".join(others) + rest
    query, rest = query[:_QUERY], " ".join(rest[: 2 * _TEXT].split())[:_TEXT]
    return (query, rest) if len(rest) >= _REST else None


def read_search(
    source: str, columns: Sequence[str] | None = None, queries: str | None = None, *, index: VectorIndex | None = None
) -> Search:
    """Read documents, and split them into those to find and those to tune on, by a hash of their texts.

    Args:
        source: a table, a text file (documents are its lines, or what blank lines part), a document, a folder, or a
            data set of the Hub; "" for the documentation of the installed packages, or for `index`.
        columns: of a table the column of the queries and that of the texts, or that of the texts alone.
        queries: a table with the columns `query` and `id`, of documents that answer the query.
        index: a collection, whose documents are read.

    Raises:
        InputError: the source cannot be read, or it has too few documents.
    """
    report, read = Report(), itertools.starmap(_Read, installed_docs() if index is None and not source else ())
    if index is not None:
        read = (
            _Read(_title(hit.metadata), hit.text, str(hit.metadata.get("id", hit.own_id)))
            for ids, *_ in index.scan()
            for hit in index.get(ids.tolist())
        )
    elif source:
        read = _documents(source, columns, report)
    documents = list(itertools.islice(read, MOST))
    left_out = Counter({f"and more documents after the first {MOST:,}": 1} if next(read, None) else {})
    left_out += report.counts
    made = [((one.title, one.text) if one.asked else made_pair(one.title, one.text), one.id) for one in documents]
    pairs = [DocPair(*pair, id) for pair, id in made if pair and all(pair)]
    left_out["texts too short for a query and a text"] = len(made) - len(pairs)
    unique = unique_pairs(pairs)
    left_out["documents that have the query or the text of another"] = len(pairs) - len(unique)
    ranked = sorted(unique, key=lambda pair: (hashlib.sha256(pair.text.encode("utf-8", "replace")).digest(), pair))
    size = min(_SEARCHED, max(2 * LEAST, len(ranked) // 3))
    if queries is None:
        held, rest = ranked[:size], ranked[size:]
        column = next((one.asked for one in documents), "")
        how = f"the column {column} of each" if column else "the title or the first line of each"
        near, kept = near_pairs(held, held), list[int]()
        for i in range(len(held)):  # near copies of each other make a query ambiguous
            if not near[i, kept].any():
                kept.append(i)
        left_out["documents to find that are near copies of others"] = len(held) - len(kept)
        held = [held[i] for i in kept]
        asked, relevant = [pair.title for pair in held], [[i] for i in range(len(held))]
    else:
        answers, by_id = read_answers(queries), {one.id: one for one in documents}
        answered = {query: [str(id) for id in ids if str(id) in by_id] for query, ids in answers.items()}
        answered = dict([pair for pair in answered.items() if pair[1]][:_SEARCHED])
        left_out["queries without a document that is read"] = len(answers) - len(answered)
        needed = dict.fromkeys(id for ids in answered.values() for id in ids)
        others = [pair for pair in ranked if pair.source not in needed]
        held = [DocPair(by_id[id].title, by_id[id].text[:_TEXT], id) for id in needed]
        held, rest = [*held, *others[: max(0, size - len(held))]], others[max(0, size - len(held)) :]
        number, how = {id: i for i, id in enumerate(needed)}, queries
        order = sorted(answered, key=lambda query: hashlib.sha256(query.encode("utf-8", "replace")).digest())
        asked, relevant = order, [[number[id] for id in answered[query]] for query in order]
    titles, copies = {pair.title.casefold() for pair in held}, near_copies(rest, held)
    training = [p for p, copy in zip(rest, copies, strict=True) if not copy and p.title.casefold() not in titles]
    left_out["near copies of documents to find, not tuned on"] = len(rest) - len(training)
    if min(len(asked) / 2, len(training)) < LEAST - LEAST // 5:
        short, copied = left_out["texts too short for a query and a text"], len(pairs) - len(held) - len(training)
        advice = (
            f"about {max(3 * LEAST, _needed(documents, asked, training)):,} such documents would do: {LEAST} queries "
            f"to choose a model, {LEAST} to confirm it, and {LEAST} texts to tune on"
        )
        if short > len(documents) // 2:
            advice = f"{short:,} of them are too short for a query and a text; give longer ones"
        if copied > len(documents) // 2:
            advice = f"{copied:,} of them are copies of others, or nearly; give different ones"
        raise InputError(
            f"{source or 'the source'}: {len(documents):,} documents are too few, since they give {len(asked):,} "
            f"queries and {len(training):,} other texts; {advice}"
        )
    texts = [pair.text for pair in held]
    return Search(asked, texts, relevant, training, how, documents[0].column, left_out)


def _needed(documents: Sized, asked: Sized, training: Sized) -> int:
    """How many such documents would do, in hundreds."""
    share = (len(asked) + len(training)) / max(len(documents), 1)
    return 0 if share < 0.01 else 100 * math.ceil(3 * LEAST / share / 100)


def _words(text: str) -> set[str]:
    """The distinct words of a text that have more than one character and are not numbers."""
    return {lexeme for lexeme in lexemes_of(text) if len(lexeme) > 1 and not lexeme.isdecimal()}


def _title(cells: Mapping[str, object]) -> str:
    return next((str(cells[name]) for name in _TITLES if isinstance(cells.get(name), str)), "")


def _documents(source: str, columns: Sequence[str] | None, report: Report) -> Iterator[_Read]:
    """The documents of a source, each with the query that it gives."""
    path = path_of(source)
    several = (path.is_dir() and not is_saved(path)) or bool({*"*?["} & {*path.name})
    if format_of(path) in READERS or (several and not _are_tables(path)):
        for document in open_corpus(source, lines=False).read(report):
            name = document.file or str(document.metadata.get("id", document.row))
            yield _Read(_title(document.metadata), document.text, name)
        return
    table = open_table(source, columns=columns)
    if table.is_lines and path.is_file():
        with open_bytes(path) as file:
            text = decode(file.read(), source)[0].replace("\r\n", "\n").strip()
        for number, part in enumerate(re.split(r"\n\s*\n" if re.search(r"\n\s*\n", text) else "\n", text)):
            yield _Read("", part, str(number))
        return
    if columns is None and {TEXT, _OF_DOCUMENT} <= set(table.names):  # sentences in the order of their documents
        for id, rows in itertools.groupby(table, lambda row: row.cells.get(_OF_DOCUMENT)):
            yield _Read("", "\n".join(_text(cells.get(TEXT)) for _, cells in rows), str(id))
        return
    roles = table_roles(table, columns)
    names = {role: name for name, role in reversed(roles.columns.items())}
    alike = names.get(LABEL) if roles.kind == "labelled_pairs" else None
    if roles.kind not in ("texts", "labelled_texts", "pairs", "triplets") and alike is None:
        raise InputError(f"{source}: it holds {roles.words}; {leave_out(roles)} takes each as a query and its text")
    column = names.get(POSITIVE, roles.texts[0])
    for number, cells in table:
        query, text = (_text(cells.get(names.get(role, ""))) for role in (ANCHOR, POSITIVE))
        text = text or _text(cells.get(roles.texts[0]))
        mark = None if alike is None else number_of(cells.get(alike))
        if alike is not None and mark not in (0, 1):
            raise InputError(f"{table.where(number)}: {alike!r} is not 0 or 1; {leave_out(roles)} takes every pair")
        if mark == 0:
            report.counts[f"pairs whose {alike} is 0"] += 1
        elif text:
            asked = names[ANCHOR] if POSITIVE in names else ""
            yield _Read(query if asked else "", text, str(cells.get("id", number)), asked, column)


def _are_tables(path: Path) -> bool:
    """Whether a folder or a pattern is of tables of one format, which are read as one, apart from a README."""
    files = path.rglob("*") if path.is_dir() else map(Path, glob.glob(str(path), recursive=True))
    inside = lambda file: file.relative_to(path).parts if path.is_dir() else [file.name]
    shown = (file for file in files if file.is_file() and not any(part[0] in "._" for part in inside(file)))
    formats = {format_of(file) for file in shown if file.stem.upper() not in ("README", "LICENSE")}
    return len(formats) == 1 and formats <= {*TABLES} - {".txt"}


def _text(cell: object) -> str:
    """The text of a cell, or the first one of a list."""
    first = next(iter(items_of(simple(cell)) or [""]), "") if isinstance(cell, (list, tuple)) else cell
    return "" if is_blank(first) else str(first).strip()
