"""Retrieval sets: documents and queries with ids, and which document is relevant to which query.

Thakur et al. 2021, https://arxiv.org/abs/2104.08663, for BEIR's layout.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from contrastive_st.data.profile import is_blank, score_in
from contrastive_st.data.reading.content import numbered_lines
from contrastive_st.data.reading.rows import Row, Table
from contrastive_st.data.roles import plain_name, role_of
from contrastive_st.errors import InputError, about, listed

logger = logging.getLogger(__name__)
#: Extensions of judgements in trec_eval's format
TREC = (".txt", ".trec", ".qrels")
_TREC_COLUMNS = ("query", "iteration", "document", "grade")
#: The columns of query, document and grade in a file without a header, by their number
_WITHOUT_HEADER = {2: ("0", "1", None), 3: ("0", "1", "2"), 4: ("0", "2", "3")}
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
    def titled(self) -> str:
        """The text with its title before it."""
        return f"{self.title} {self.text}".strip()


def entries(table: Table) -> Iterator[Entry]:
    """The documents or queries of a table; two columns without a header are id and text, as MS MARCO's are.

    Raises:
        InputError: a row has no id, or the table no text.

    Example:
        >>> rows = [Row(1, {"_id": 7, "title": "Tides", "text": "The moon."}), Row(2, {"_id": 8, "text": "NA"})]
        >>> [(entry.id, entry.titled) for entry in entries(Table("a.csv", "row", lambda: iter(rows)))]
        [('7', 'Tides The moon.'), ('8', '')]
    """
    names = {"0": "id", "1": "text"} if table.columns == ["0", "1"] else {}
    for number, cells in table:
        plain = {names.get(name) or plain_name(name): cell for name, cell in cells.items()}
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


def names_of_judgements(line: str) -> bool:
    """Whether the first line of a file of judgements holds the names of its columns.

    Example:
        >>> names_of_judgements("query-id,corpus-id,score"), names_of_judgements("q1,d1,1")
        (True, False)
    """
    return not {*_QUERY, *_DOCUMENT, *_GRADE}.isdisjoint(map(plain_name, re.split(r"[,;|\t]", line.replace('"', ""))))


def judgements(table: Table) -> Iterator[Judgement]:
    """The judgements of a table, in columns with the names of query, document and grade; without a grade all count.

    A table without a header is in the order of BEIR, or of trec_eval if it has four columns. This is logged, and so
    are columns that are not used.

    Raises:
        InputError: a column is missing, two could be the same, or a cell is missing or not a number.

    Example:
        >>> rows = [Row(1, {"corpus-id": "d1", "query-id": "q1", "score": "2"})]
        >>> list(judgements(Table("qrels.tsv", "row", lambda: iter(rows))))
        [Judgement(query='q1', document='d1', grade=2.0, where='qrels.tsv, row 1')]
    """
    count = len(table.names)
    query, document, grade = _WITHOUT_HEADER.get(count, ("", "", None))
    if table.names == [str(index) for index in range(count)] and query:
        columns = ", ".join(_TREC_COLUMNS if count == 4 else ("query", "document", "grade")[:count])
        logger.warning(f"{table.source}: no header: read as {'trec_eval' if count == 4 else 'BEIR'} does: {columns}")
    else:
        query, document, grade = _named(table)
    for number, cells in table:
        where = table.where(number)
        if cells.get(query) is None or cells.get(document) is None:
            raise InputError(f"{where}: no query-id and corpus-id; BEIR's judgements have both")
        score = score_in(cells.get(grade), where) if grade else 1.0
        yield Judgement(str(cells[query]), str(cells[document]), score, where)


def _named(table: Table) -> tuple[str, str, str | None]:
    """The columns of query, document and grade by their names."""
    plain = {plain_name(name): name for name in reversed(table.names)}
    query, document, grade = (next((plain[name] for name in names if name in plain), None)
                              for names in (_QUERY, _DOCUMENT, _GRADE))  # fmt: skip
    left = [name for name in table.names if name not in (query, document, grade)]
    if query is None or document is None or (grade is None and any(role_of(name) is None for name in left)):
        missing = "query-id and corpus-id" if query is None or document is None else "score"
        fix = "name its columns query-id, corpus-id and score, or leave out what is none of these"
        raise InputError(f"{table.source}: no {missing} among its columns {listed(table.names)}; {fix}")
    if left:
        without = "" if grade else "; every judgement counts as relevant"
        logger.warning(f"{table.source}: not used: {', '.join(map(repr, left))}{without}")
    return query, document, grade


# --- A folder in BEIR's layout, to train on.


def is_beir(folder: Path) -> bool:
    """Whether a folder has the layout of BEIR: a corpus, queries, and judgements in `qrels`."""
    return folder.joinpath("qrels").is_dir() and all(any(folder.glob(f"{name}.*")) for name in ("corpus", "queries"))
