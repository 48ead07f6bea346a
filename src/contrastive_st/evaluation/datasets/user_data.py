"""Readers of users' evaluation data: pairs with a score or a label, and retrieval sets. Nothing is downloaded."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from contrastive_st.data.reading import TABLES, MissingData, numbered_lines, open_table
from contrastive_st.data.roles import ANCHOR, POSITIVE, column_roles, plain_name
from contrastive_st.errors import InputError, about
from contrastive_st.evaluation.datasets.cells import number_in, tidy
from contrastive_st.evaluation.datasets.senteval import Document, Query, Rows, Splits, pair_rows

logger = logging.getLogger(__name__)
Judgement = tuple[str, str, float, str]  # query, document, grade, file and line

# --- Pairs.


def read_scored_pairs(path: str | Path) -> Rows:
    """Pairs of texts with a score or a label each, from a `.csv`, `.tsv`, `.txt`, `.json`, `.jsonl` or `.parquet` file.

    The columns are chosen as for training: by their names (`sentence1`, `sentence2`, `score`, ...), else by what they
    hold. Scores may have any range, since only their order or their linear relation is compared.

    Raises:
        InputError: the file cannot be read, has no two columns of text and one of numbers, or a cell is not a number.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "pairs.csv")
        ...     _ = path.write_text("sentence1,sentence2,score\\nA cat.,A feline.,4.5\\nA cat.,A bus.,0\\n")
        ...     rows = read_scored_pairs(path)
        >>> rows.columns[1], rows.labels.tolist()
        (['A feline.', 'A bus.'], [4.5, 0.0])
    """
    rows, pairs, labels = open_table(path), [], []
    roles = column_roles(rows.profile, source=str(path))
    if len(roles.texts) != 2 or roles.target is None:
        raise InputError(
            f"{path}: an evaluation of pairs needs two columns of text and one of scores or labels, not "
            f"{', '.join(f'{name} ({role})' for name, role in roles.columns.items())}; name them sentence1, sentence2, "
            "score"
        )
    for number, cells in rows:
        first, second, score = (cells.get(name) for name in (*roles.texts, roles.target))
        if not (str(first or "").strip() and str(second or "").strip()):
            raise InputError(f"{rows.where(number)}: a text is blank; remove the row or fill it")
        pairs.append((tidy(str(first)), tidy(str(second))))
        missing = str("" if score is None else score).strip().lower() in ("", "nan")
        labels.append(math.nan if missing else number_in(str(score), path, number))
    return scored(pair_rows(pairs, labels), str(path))


def scored(rows: Rows, source: str) -> Rows:
    """The rows that have a score; how many have none, NaN or an infinite one is logged.

    Raises:
        InputError: none has.
    """
    kept = np.flatnonzero(np.isfinite(rows.labels))
    if len(kept) < len(rows):
        logger.warning(f"{source}: {len(rows) - len(kept):,} of {len(rows):,} rows have no score and are left out")
    if not len(kept):
        raise InputError(f"{source}: no row has a score")
    return rows.take(kept)


def read_relevant_pairs(path: str | Path) -> list[tuple[str, str]]:
    """(query, relevant document) pairs of a file, in its columns of these roles or its first two.

    Raises:
        InputError: the file cannot be read, or has fewer than two columns of text.
    """
    table = open_table(path)
    roles = column_roles(table.profile, source=str(path))
    if len(roles.texts) < 2:
        raise InputError(f"{path}: an evaluation of retrieval needs two columns of text, query and document")
    by_role = {role: name for name, role in reversed(roles.columns.items())}
    names = by_role.get(ANCHOR, roles.texts[0]), by_role.get(POSITIVE, roles.texts[1])
    rows = list(table)
    if roles.target is not None:
        rows = [row for row in rows if number_in(str(row.cells[roles.target]), path, row.number) > 0]
        logger.warning(f"{path}: {len(rows):,} pairs are relevant, as their {roles.target!r} is above 0")
    return [(tidy(str(cells[names[0]])), tidy(str(cells[names[1]]))) for _, cells in rows]


# --- Retrieval: BEIR (Thakur et al. 2021, https://arxiv.org/abs/2104.08663): corpus, queries, judgements.

_IDS = ("_id", "id", "docid", "doc_id", "qid", "query_id", "pid")
_QUERY, _DOCUMENT = ("query_id", "qid", "query"), ("corpus_id", "docid", "doc_id", "document_id", "pid", "document")
_GRADE = ("score", "relevance", "rel", "grade", "label")


def read_retrieval(folder: str | Path, split: str = "test", itself: bool = False) -> Splits:
    """A retrieval set in a folder, as `Splits` with "queries", "corpus" and "test"; read from these files alone.

    | part | files |
    |---|---|
    | documents | `corpus.jsonl`, or `.json`, `.csv`, `.tsv`, `.parquet`, or Parquet files in a folder `corpus/` |
    | queries | `queries`, in the same way |
    | judgements | `qrels/test.tsv`, or `qrels` in the same way, or in trec's format: `.trec`, `.qrels` or `.txt` |

    Documents and queries have an id (`_id`, `id`) and `text`; a `title` goes before the text. Judgements have
    `query-id`, `corpus-id` and `score`; without a column of scores all are relevant.

    "test" has no texts; its labels `[J, 3]` are the numbers of query and document, and the grade. Only queries
    with a relevant document (a grade above 0) are kept; all documents are kept. As in BEIR, a document with the id of a
    query is not a hit for it (in ArguAna and Quora queries are documents); its grade is NaN.

    Args:
        folder: the folder.
        split: which judgements, `qrels/SPLIT.tsv`.
        itself: rank such documents too, as the evaluator of NanoBEIR does.

    Raises:
        MissingData: a file is missing.
        InputError: a row is damaged, or names a query or document that does not exist.
    """
    folder = Path(folder)
    corpus, queries = (_files(folder, name) for name in ("corpus", "queries"))
    relevance = _files(folder, f"qrels/{split}", (".trec", ".qrels")) or _files(folder, "qrels", (".trec", ".qrels"))
    wanted = {"corpus.jsonl": corpus, "queries.jsonl": queries, f"qrels/{split}.tsv": relevance}
    if absent := [name for name, result in wanted.items() if not result]:
        raise MissingData(f"{folder}: no {', '.join(absent)}; a folder in BEIR's layout has {', '.join(wanted)}")
    judgements = (one for path in relevance for one in _judgements(path))
    return retrieval_splits(_texts_of(corpus), _texts_of(queries), judgements, str(folder), itself)


def _files(folder: Path, name: str, others: tuple[str, ...] = ()) -> list[Path]:
    """The file `name` with a known extension, or the files of the folder `name`."""
    item = [folder / f"{name}{suffix}" for suffix in (*TABLES, *others)]
    result = [path for path in item if path.is_file()][:1]
    inside = (folder / name).iterdir() if not result and (folder / name).is_dir() else ()
    return result or sorted(path for path in inside if path.suffix in (".parquet", ".jsonl"))


def _texts_of(paths: Iterable[Path]) -> dict[str, str]:
    """Texts by id, each with its title before it."""
    result: dict[str, str] = {}
    for path in paths:
        rows = open_table(path)
        for number, cells in rows:
            key = _cell(cells, _IDS)
            if key is None or "text" not in cells:
                raise InputError(f"{rows.where(number)}: no _id and text; BEIR's files have both")
            if str(key) in result:
                raise InputError(f"{rows.where(number)}: the id {key} occurs twice; make the ids unique")
            result[str(key)] = tidy(" ".join(str(cells[name]) for name in ("title", "text") if cells.get(name)))
    return result


def _cell(cells: Mapping[str, Any], names: Iterable[str]) -> Any:
    plain = {plain_name(name): cell for name, cell in cells.items()}
    return next((plain[name] for name in names if plain.get(name) is not None), None)


def _judgements(path: Path) -> Iterator[Judgement]:
    if path.suffix in (".txt", ".trec", ".qrels"):
        yield from _trec(path)
        return
    rows = open_table(path)
    for number, cells in rows:
        query, document, grade = (_cell(cells, names) for names in (_QUERY, _DOCUMENT, _GRADE))
        if query is None or document is None:  # names that are not known: BEIR's order
            query, document, grade = [*cells.values(), None, None, None][:3]
        if query is None or document is None:
            raise InputError(f"{rows.where(number)}: no query-id and corpus-id; BEIR's judgements have both")
        value = 1.0 if grade is None else number_in(str(grade), path, number)
        yield str(query), str(document), value, rows.where(number)


def _trec(path: Path) -> Iterator[Judgement]:
    """Lines `query iteration document grade`, as trec_eval reads them."""
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        with about(f"{path}, line {number}: query, iteration, document, grade"):
            query, _, document, grade = line.split()
        yield query, document, number_in(grade, path, number), f"{path}, line {number}"


def retrieval_splits(
    corpus: Mapping[str, str],
    queries: Mapping[str, str],
    judgements: Iterable[Judgement],
    source: str,
    itself: bool = True,
) -> Splits:
    """`Splits` of a retrieval set from its texts by id, and its judgements; `itself` as for `read_retrieval`.

    Raises:
        InputError: a judgement names a text that does not exist, or no query has a relevant document.
    """
    relevance = list(judgements)
    for query, document, _, where in relevance:
        for key, known, kind in ((query, queries, "query"), (document, corpus, "document")):
            if key not in known:
                raise InputError(f"{where}: there is no {kind} {key}")
    for kind, texts in (("query", queries), ("document", corpus)):
        if wrong := [key for key, text in texts.items() if not isinstance(text, str)]:
            raise InputError(f"{source}, {kind} {wrong[0]}: {texts[wrong[0]]!r} is not a text")
    asked = dict.fromkeys(query for query, _, grade, _ in relevance if grade > 0)
    if not asked:
        raise InputError(f"{source}: no query has a relevant document, so there is nothing to evaluate")
    query_of, document_of = ({key: place for place, key in enumerate(keys)} for keys in (asked, corpus))
    labels: list[Any] = [
        (query_of[query], document_of[document], grade) for query, document, grade, _ in relevance if query in asked
    ]
    if not itself:
        relevant = {(query, document) for query, document, grade, _ in relevance if grade > 0}
        same = (key for key in asked if key in corpus and (key, key) not in relevant)
        labels += [(query_of[key], document_of[key], np.nan) for key in same]
    rows = {
        "queries": Rows(([Query(queries[key]) for key in asked],), np.arange(len(asked))),
        "corpus": Rows((list(map(Document, corpus.values())),), np.arange(len(corpus))),
        "test": Rows((), np.array(labels, np.float64)),
    }
    return Splits(rows, {})
