"""Queries with the documents that answer them, by the ids of an index."""

from __future__ import annotations

from pathlib import Path

from contrastive_st.data.reading import open_table
from contrastive_st.data.reading.relevance import entries, judgements
from contrastive_st.errors import InputError
from contrastive_st.search.index import Id


def read_answers(file: str | Path) -> dict[str, list[Id]]:
    """The queries of a table with columns `query` and `id`, a row for each answer."""
    result: dict[str, list[Id]] = {}
    source = open_table(str(file))
    for number, row in source:
        query, id = row.get("query"), row.get("id")
        if not isinstance(query, str) or not query.strip() or id is None:
            raise InputError(f"{source.where(number)}: give the columns query and id, of a document that answers it")
        result.setdefault(query, []).append(str(id))
    return result


def read_retrieval(folder: Path) -> dict[str, list[Id]]:
    """The queries of a folder as BEIR has them: `queries.jsonl` and `qrels/test.tsv`; grades above 0 are answers."""
    texts = {query.id: query.whole for query in entries(open_table(str(folder / "queries.jsonl")))}
    result: dict[str, list[Id]] = {}
    for query, document, grade, _ in judgements(open_table(str(folder / "qrels" / "test.tsv"))):
        if grade > 0 and query in texts:
            result.setdefault(texts[query], []).append(document)
    return result
