"""Retrieval sets: documents and queries with ids, and which document is relevant to which query.

Thakur et al. 2021, https://arxiv.org/abs/2104.08663, for BEIR's layout.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from contrastive_st.data.profile import NUMBERS, is_blank
from contrastive_st.data.reading.cells import score_in
from contrastive_st.data.reading.content import numbered_lines
from contrastive_st.data.reading.rows import Row, Table
from contrastive_st.data.roles import UNUSED, plain_name, role_of
from contrastive_st.errors import InputError, about

logger = logging.getLogger(__name__)
#: Extensions of judgements in trec_eval's format
TREC = (".txt", ".trec", ".qrels")
_TREC_COLUMNS = ("query", "iteration", "document", "grade")
_NUMBERED = ("0", "1", "2", "3")  # of a file without a header
_IDS = ("_id", "id", "docid", "doc_id", "qid", "query_id", "pid")
_TEXTS = ("text", "contents", "content", "passage", "query")
_QUERY = ("query_id", "qid", "query", "question_id", "question")
_DOCUMENT = ("corpus_id", "docid", "doc_id", "document_id", "pid", "document", "passage_id", "passage")
_GRADE = (
    "score", "relevance", "rel", "grade", "label", "relevant", "is_relevant", "relevancy", "judgment", "judgement",
    "qrel", "gain",
)  # fmt: skip


class Entry(NamedTuple):
    """A document or a query: its id, its title and its text, which are blank if it has none; and the file and line."""

    id: str
    title: str
    text: str
    where: str

    @property
    def whole(self) -> str:
        """The text with its title before it."""
        return f"{self.title} {self.text}".strip()


def entries(table: Table) -> Iterator[Entry]:
    """The documents or queries of a table.

    Raises:
        InputError: a row has no id, or the table no text.

    Example:
        >>> rows = [Row(1, {"_id": 7, "title": "Tides", "text": "The moon."}), Row(2, {"_id": 8, "text": "NA"})]
        >>> [(entry.id, entry.whole) for entry in entries(Table("a.csv", "row", lambda: iter(rows)))]
        [('7', 'Tides The moon.'), ('8', '')]
    """
    for number, cells in table:
        plain = {plain_name(name): cell for name, cell in cells.items()}
        id = next((plain[name] for name in _IDS if plain.get(name) is not None), None)
        held = next((name for name in _TEXTS if name in plain), None)
        where = table.where(number)
        if id is None or held is None:
            raise InputError(f"{where}: no _id and text; BEIR's files have both")
        title, text = ("" if is_blank(cell := plain.get(name)) else str(cell) for name in ("title", held))
        yield Entry(str(id), title, text, where)


# --- Judgements.


class Judgement(NamedTuple):
    """How relevant a document is to a query: above 0 if it is, NaN if this is missing; and the file and line."""

    query: str
    document: str
    grade: float
    where: str


def trec_table(path: Path) -> Table:
    """The judgements of a file as trec_eval reads it: lines `query iteration document grade`."""

    def read() -> Iterator[Row]:
        for number, line in numbered_lines(path):
            if line.strip():
                with about(f"{path}, line {number}: {', '.join(_TREC_COLUMNS)}"):
                    query, iteration, document, grade = line.split()
                cells = (query, iteration, document, grade)
                yield Row(number, dict(zip(_TREC_COLUMNS, cells, strict=True)))

    return Table(str(path), "line", read, list(_TREC_COLUMNS))


def judgements(table: Table) -> Iterator[Judgement]:
    """The judgements of a table.

    The columns of query, document and grade are known by their names; without a grade all are relevant. Where no name
    is known they are in BEIR's order, or in trec_eval's if there are four without a header; and the only other column
    of numbers is the grade. What was not known by its name is logged, and so are the columns that are not used.

    Raises:
        InputError: a column is missing, or a cell.

    Example:
        >>> rows = [Row(1, {"corpus-id": "d1", "query-id": "q1", "score": "2"})]
        >>> list(judgements(Table("qrels.tsv", "row", lambda: iter(rows))))
        [Judgement(query='q1', document='d1', grade=2.0, where='qrels.tsv, row 1')]
    """
    query, document, grade = _columns(table)
    return _judged(table, query, document, grade)


def _judged(table: Table, query: str, document: str, grade: str | None) -> Iterator[Judgement]:
    for number, cells in table:
        where = table.where(number)
        if cells.get(query) is None or cells.get(document) is None:
            raise InputError(f"{where}: no query-id and corpus-id; BEIR's judgements have both")
        score = score_in(cells.get(grade), where) if grade else 1.0
        yield Judgement(str(cells[query]), str(cells[document]), score, where)


def _columns(table: Table) -> tuple[str, str, str | None]:
    """The columns of query, document and grade; None if there is no grade."""
    if table.names in (list(_TREC_COLUMNS), list(_NUMBERED)):
        query, iteration, document, grade = table.names
        if iteration in _NUMBERED:
            logger.warning(f"{table.source}: read as trec_eval does: {', '.join(_TREC_COLUMNS)}")
        return query, document, grade
    plain = {plain_name(name): name for name in reversed(table.names)}
    by_name = [next((plain[known] for known in names if known in plain), None) for names in (_QUERY, _DOCUMENT, _GRADE)]
    unused = [name for name in table.names if role_of(name) == UNUSED]
    rest = [name for name in table.names
            if name not in by_name and (name not in unused or plain_name(name).endswith("id"))]  # fmt: skip
    if len(rest) < by_name[:2].count(None):
        raise InputError(f"{table.source}: no query-id and corpus-id; BEIR's judgements have both")
    query, document = (name or rest.pop(0) for name in by_name[:2])
    by_order = rest if by_name[:2] == [None, None] else []
    numbers = [name for name in rest if name not in unused and table.profile[name].held == NUMBERS]
    if by_name[2] is None and not by_order and len(numbers) > 1:
        maybe = " and ".join(numbers)
        raise InputError(f"{table.source}: {maybe} could be the grades; rename the column of grades to score")
    grade = by_name[2] or next(iter(by_order or numbers), None)
    if [query, document, grade] != by_name:
        taken = f"the query is {query!r}, the document {document!r}" + (f", the grade {grade!r}" if grade else "")
        logger.warning(f"{table.source}: some names of columns are unknown; {taken}")
    if left := [name for name in table.names if name not in (query, document, grade)]:
        without = "" if grade else "; every judgement counts as relevant"
        logger.warning(f"{table.source}: not used: {', '.join(map(repr, left))}{without}")
    return query, document, grade


# --- A folder in BEIR's layout, to train on.


def is_beir(folder: Path) -> bool:
    """Whether a folder has the layout of BEIR: a corpus, queries, and judgements in `qrels`."""
    return folder.joinpath("qrels").is_dir() and all(any(folder.glob(f"{name}.*")) for name in ("corpus", "queries"))


def relevant_pairs(
    corpus: Iterable[Entry], queries: Iterable[Entry], relevant: Mapping[str, list[str]]
) -> Iterator[dict[str, Any]]:
    """Queries and their relevant documents, a row for each.

    Args:
        corpus: the documents.
        queries: the queries.
        relevant: the ids of the documents that are relevant to each query, by its id.
    """
    wanted = {document for documents in relevant.values() for document in documents}
    kept = {entry.id: entry.whole for entry in corpus if entry.id in wanted}
    for query in queries:
        for document in relevant.get(query.id, ()):
            yield {"query": query.whole, "positive": kept.get(document)}
