"""Readers of users' evaluation data: pairs with a score or a label, and retrieval sets. Nothing is downloaded."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from contrastive_st.data.profile import is_blank, score_in, simple
from contrastive_st.data.reading import TABLES, MissingData, Table, is_saved, open_table, splits_of
from contrastive_st.data.reading.content import COMPRESSED
from contrastive_st.data.reading.relevance import TREC, Entry, Judgement, entries, judgements
from contrastive_st.data.reading.sources import files_by_split, split_key
from contrastive_st.data.reading.table import open_entries, open_judgements
from contrastive_st.data.roles import NEGATIVE, SCORE, ColumnRoles, leave_out, role_of, table_roles
from contrastive_st.errors import InputError, listed
from contrastive_st.evaluation.datasets.senteval import Document, Query, Rows, Splits, pair_rows, tidy

logger = logging.getLogger(__name__)
_SHARDS = (".parquet", ".jsonl")  # the files of a part that has a folder of its own
_NOTHING_RELEVANT = "{}: no query has a relevant document, so there is nothing to evaluate"

# --- Pairs.


def read_scored_pairs(path: str | Path, columns: Sequence[str] | None = None) -> Rows:
    """Pairs of texts with a score or a label each, from a `.csv`, `.tsv`, `.txt`, `.json`, `.jsonl` or `.parquet` file.

    The columns are chosen as for training, by their names (`sentence1`, `sentence2`, `score`, ...). Scores may have any
    range, since only their order or their linear relation is compared.

    Args:
        path: the file.
        columns: the columns by name or position (from 0), or as `name=role`, as for `column_roles`.

    Returns:
        Two columns of N texts, and labels `[N]`, float64.

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
    table, roles = _opened(path, columns)
    if len(roles.texts) != 2 or roles.target is None:
        raise InputError(
            f"{path}: an evaluation of pairs needs two columns of text and one of scores or labels, not "
            f"{_described(roles)}; name them sentence1, sentence2, score, or give --columns TEXT TEXT SCORE=score"
        )
    rows = [(first, second, score) for ([first], others), score in _pairs(table, roles) for second in others]
    return scored(pair_rows([row[:2] for row in rows], [row[2] for row in rows]), str(path))


def _opened(path: str | Path, columns: Sequence[str] | None) -> tuple[Table, ColumnRoles]:
    """A file of pairs and the roles of its columns; of a label and a score, the score is what is compared."""
    try:
        table = open_table(path, columns=columns)
        roles = table_roles(table, columns)
        scores = [name for name in roles.left_out if role_of(name) == SCORE and not columns]
        return table, table_roles(table, [*roles.texts, *scores]) if scores else roles
    except InputError as error:  # of scores that are only compared, the range does not matter
        raise InputError(re.sub(r" --score_range \S+ \S+", "", str(error))) from None


def _described(roles: ColumnRoles) -> str:
    used = [f"{name} ({role})" for name, role in roles.columns.items()]
    return ", ".join([*used, *(f"{name} (not used: {why})" for name, why in roles.left_out.items())])


def _pairs(table: Table, roles: ColumnRoles) -> Iterator[tuple[list[list[str]], float]]:
    """The texts of each row, column by column (several in a column of lists), and its score: NaN if it is blank."""
    if roles.notes or roles.left_out:
        logger.warning("; ".join([f"{table.source}: {_described(roles)}", *roles.notes]))
    for number, cells in table:
        where = table.where(number)
        texts: list[list[str]] = []
        for name in roles.texts:
            items = roles.items(name, cells.get(name))
            texts.append([tidy(str(simple(cell))) for cell in items if not is_blank(cell)])
            if not texts[-1] and roles.columns[name] != NEGATIVE:
                raise InputError(f"{where}: a text is blank; remove the row or fill it")
        cell = None if roles.target is None else cells.get(roles.target)
        cell = None if roles.target in table.classes and cell == -1 else cell  # of `ClassLabel`: none
        try:
            yield texts, 1.0 if roles.target is None else score_in(cell, where)
        except InputError as error:
            raise InputError(f"{error}; to leave that column out, give {leave_out(roles)}") from None


def scored(rows: Rows, source: str) -> Rows:
    """The rows that have a score; how many have none, NaN or an infinite one is logged.

    Args:
        rows: labels `[N]` with NaN where there is no score.
        source: name of the data in messages.

    Returns:
        The rows that have a score.

    Raises:
        InputError: none has.
    """
    kept = np.flatnonzero(np.isfinite(rows.labels))
    _warn_of_blank(len(rows) - len(kept), len(rows), source)
    if not len(kept):
        raise InputError(f"{source}: no row has a score")
    return rows.take(kept)


def _warn_of_blank(blank: int, rows: int, source: str) -> None:
    if blank:
        logger.warning(f"{source}: {blank:,} of {rows:,} rows have no score and are left out")


class RelevantPairs(NamedTuple):
    """(query, relevant document) pairs, and the other documents among which they are searched."""

    pairs: list[tuple[str, str]]
    others: list[str]


def read_relevant_pairs(path: str | Path, columns: Sequence[str] | None = None) -> RelevantPairs:
    """(query, relevant document) pairs of a file, in its columns of these roles.

    All documents of the file are searched: the others are those of rows with a label of 0, and negatives.

    Args:
        path: the file.
        columns: as for `read_scored_pairs`.

    Returns:
        The pairs, and the documents that are relevant to no query.

    Raises:
        InputError: the file cannot be read, has fewer than two columns of text, or a text is blank.
    """
    table, roles = _opened(path, columns)
    if len(roles.texts) < 2:
        raise InputError(f"{path}: an evaluation of retrieval needs two columns of text, query and document")
    rows = list(_pairs(table, roles))
    judged = [(texts, score) for texts, score in rows if not math.isnan(score)]
    pairs = [(query, document) for ([query], documents, *_), score in judged if score > 0 for document in documents]
    searched = (
        text for (_, documents, *negatives), _ in judged for column in (documents, *negatives) for text in column
    )
    relevant = {document for _, document in pairs}
    others = [text for text in dict.fromkeys(searched) if text not in relevant]
    _warn_of_blank(len(rows) - len(judged), len(rows), str(path))
    if not pairs:
        raise InputError(_NOTHING_RELEVANT.format(path))
    if roles.target is not None:
        logger.warning(f"{path}: {len(pairs):,} pairs are relevant, as their {roles.target!r} is above 0")
    if others:
        logger.warning(f"{path}: {len(others):,} documents that are relevant to no query are searched too")
    return RelevantPairs(pairs, others)


# --- Retrieval: BEIR (Thakur et al. 2021, https://arxiv.org/abs/2104.08663): corpus, queries, judgements.


def read_retrieval(folder: str | Path, split: str = "test", itself: bool = False) -> Splits:
    """A retrieval set in a folder, as `Splits` with "queries", "corpus" and "test"; read from these files alone.

    | part | files |
    |---|---|
    | documents | `corpus.jsonl`, or `.json`, `.csv`, `.tsv`, `.parquet`, or Parquet files in a folder `corpus/` |
    | queries | `queries`, in the same way |
    | judgements | `qrels/test.tsv`, or `qrels` in the same way, or in trec's format: `.trec`, `.qrels` or `.txt` |

    Files may be compressed. Each part may also be a data set that `save_to_disk` wrote, or a split of the folder. Of
    a folder whose files are named after splits (`test-00000-of-00001.parquet`), those of the split are read. A single
    split is read under any name, but judgements only if documents and queries have it too. Of folders inside it, those
    named after splits are read.
    Documents and queries have an id (`_id`, `id`) and `text` (or `contents`); a `title` goes before the text.
    Judgements have `query-id`, `corpus-id` and `score`; without a column of scores all are relevant.

    "test" has no texts; its labels `[J, 3]` are the numbers of query and document, and the grade. Only queries
    with a relevant document (a grade above 0) are kept; all documents are kept. As in BEIR, a document with the id and
    the text of a query is not a hit for it (in ArguAna and Quora queries are documents); its grade is NaN.

    Args:
        folder: the folder.
        split: which judgements, `qrels/SPLIT.tsv`.
        itself: rank such documents too, as the evaluator of NanoBEIR does.

    Returns:
        `Splits` with "queries", "corpus" and "test".

    Raises:
        MissingData: a file is missing.
        InputError: a row is damaged, or names a query or document that does not exist.
    """
    folder = Path(folder)
    only = {name: _only_split(folder / name) for name in ("corpus", "queries", "qrels", f"qrels/{split}")}
    corpus, queries = (_part(folder, name, (name, split, *only[name])) for name in ("corpus", "queries"))
    of_all = only["qrels"] & only["corpus"] & only["queries"]  # NanoBEIR calls the one split of its three parts train
    relevance = _part(folder, f"qrels/{split}", (split, *only[f"qrels/{split}"]), judged=True)
    relevance = relevance or _part(folder, "qrels", (split, *of_all), judged=True)
    if corpus is None or queries is None or relevance is None:
        parts = {"corpus.jsonl": corpus, "queries.jsonl": queries, f"qrels/{split}.tsv": relevance}
        absent = ", ".join(name for name, part in parts.items() if part is None)
        for name, part in (("queries", queries), ("corpus", corpus), ("qrels", relevance)):
            if part is None and (others := sorted(set(_by_split(folder / name)) - {""})):
                raise MissingData(f"{folder / name} has the splits {listed(others)}, and not {split}")
        raise MissingData(f"{folder}: no {absent}; a folder in BEIR's layout has {', '.join(parts)}")
    documents, asked = _texts_of(corpus), _texts_of(queries)
    shared = [] if itself else [key for key in asked if key in documents]
    same = [key for key in shared if asked[key].titled in (documents[key].text, documents[key].titled)]
    if other := len(shared) - len(same):
        logger.warning(f"{folder}: documents with the id of a query and another text, ranked for it: {other:,}")
    texts, asked_texts = ({key: text.titled for key, text in part.items()} for part in (documents, asked))
    return retrieval_splits(texts, asked_texts, judgements(relevance), str(folder), same)


def _part(folder: Path, name: str, splits: Sequence[str], judged: bool = False) -> Table | None:
    """The table `name` of a folder: a file with a known extension, a folder of files, or what `save_to_disk` wrote.

    Of a folder whose files are named after splits, the first of these splits that it has; None if it has none of them.
    """
    if is_saved(folder):
        return open_table(folder, split=name) if name in splits_of(folder) else None
    kinds = (*TABLES, *TREC) if judged else TABLES
    files = [path for kind in kinds for end in ("", *COMPRESSED) if (path := folder / f"{name}{kind}{end}").is_file()]
    if files:
        return open_judgements(files[0]) if judged else open_entries(files[0])
    held = _by_split(folder / name)
    opener = next((held[key] for split in (*splits, "") if (key := split_key(split)) in held), None)
    return None if opener is None else opener()


def _by_split(inside: Path) -> dict[str, Callable[[], Table]]:
    """What opens each split of a part in a folder of its own, by the key of the split, or by "" without splits."""
    if is_saved(inside):
        splits = splits_of(inside)
        return {split_key(name): partial(open_table, inside, split=name) for name in splits or [""]}
    return {split: partial(open_table, files) for split, files in files_by_split(inside, _SHARDS, deep=False).items()}


def _only_split(inside: Path) -> set[str]:
    """The one split of a part in a folder of its own; empty if it has several or none."""
    held = set(_by_split(inside)) - {""}
    return held if len(held) == 1 else set()


def _texts_of(table: Table) -> dict[str, Entry]:
    """Documents or queries by id, with single spaces."""
    result: dict[str, Entry] = {}
    for entry in entries(table):
        if entry.id in result:
            raise InputError(f"{entry.where}: the id {entry.id} occurs twice; make the ids unique")
        result[entry.id] = entry._replace(title=tidy(entry.title), text=tidy(entry.text))
    return result


def retrieval_splits(
    corpus: Mapping[str, str],
    queries: Mapping[str, str],
    relevances: Iterable[Judgement],
    source: str,
    same: Iterable[str] = (),
) -> Splits:
    """`Splits` of a retrieval set from its texts by id, and its judgements. One whose grade is NaN is left out.

    Args:
        corpus: the documents.
        queries: the queries.
        relevances: which document is how relevant to which query.
        source: name of the set in messages.
        same: ids of queries that are documents, which are not ranked for themselves.

    Returns:
        `Splits` with "queries", "corpus" and "test".

    Raises:
        InputError: a judgement names a text that does not exist, or no query has a relevant document.
    """
    every = list(relevances)
    relevance = [one for one in every if not math.isnan(one[2])]
    _warn_of_blank(len(every) - len(relevance), len(every), source)
    for query, document, _, where in relevance:
        for key, texts, kind in ((query, queries, "query"), (document, corpus, "document")):
            if key not in texts:
                raise InputError(f"{where}: there is no {kind} {key}")
    for kind, texts in (("query", queries), ("document", corpus)):
        if wrong := [key for key, text in texts.items() if not isinstance(text, str)]:
            raise InputError(f"{source}, {kind} {wrong[0]}: {texts[wrong[0]]!r} is not a text")
    grades = {(query, document): grade for query, document, grade, _ in relevance}
    if changed := sum(grades[query, document] != grade for query, document, grade, _ in relevance):
        what = f"{changed:,} of {len(relevance):,} judgements"
        logger.warning(f"{source}: left out {what}, as a later one of the same pair has another grade")
    asked = dict.fromkeys(query for (query, _), grade in grades.items() if grade > 0)
    if not asked:
        raise InputError(_NOTHING_RELEVANT.format(source))
    query_of, document_of = ({key: index for index, key in enumerate(keys)} for keys in (asked, corpus))
    labels: list[tuple[int, int, float]] = [
        (query_of[query], document_of[document], grade) for (query, document), grade in grades.items() if query in asked
    ]
    barred = (key for key in same if key in asked and not grades.get((key, key), 0) > 0)
    labels += [(query_of[key], document_of[key], np.nan) for key in barred]
    rows = {
        "queries": Rows(([Query(queries[key]) for key in asked],), np.arange(len(asked))),
        "corpus": Rows((list(map(Document, corpus.values())),), np.arange(len(corpus))),
        "test": Rows((), np.array(labels, np.float64)),
    }
    return Splits(rows)
