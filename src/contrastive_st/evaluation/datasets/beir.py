"""Retrieval in BEIR's layout (Thakur et al. 2021, https://arxiv.org/abs/2104.08663): corpus, queries, judgements.

A folder holds `corpus.jsonl` (`_id`, `title`, `text`), `queries.jsonl` (`_id`, `text`) and `qrels/test.tsv` (query,
document, grade; with a header). The sets of NanoBEIR are read from the Hub by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from contrastive_st.data.readers import MissingData, number_in, open_rows, read_cells, tidy
from contrastive_st.errors import InputError, first_line
from contrastive_st.evaluation.datasets.senteval import Rows, Splits

NANO = (
    "ArguAna", "ClimateFEVER", "DBPedia", "FEVER", "FiQA2018", "HotpotQA", "MSMARCO", "NFCorpus", "NQ",
    "QuoraRetrieval", "SCIDOCS", "SciFact", "Touche2020",
)  # fmt: skip
Judgement = tuple[str, str, float, str]  # query, document, grade, where it stands


def is_nano(name: str) -> bool:
    """Whether a set of NanoBEIR has this name.

    Example:
        >>> is_nano("NanoSciFact"), is_nano("faq.tsv")
        (True, False)
    """
    return name.removeprefix("Nano") in NANO and name.startswith("Nano")


def read_beir(folder: str | Path, split: str = "test") -> Splits:
    """A folder in BEIR's layout, as `Splits` with "queries", "corpus" and "test".

    "test" has no texts; its gold values `[J, 3]` are the places of query and document, and the grade. Only queries that
    have a relevant document (a grade above 0) are kept; every document is.

    Raises:
        MissingData: a file is not there.
        InputError: a row is damaged, or judges what is not there.
    """
    folder = Path(folder)
    files = {name: folder / name for name in ("corpus.jsonl", "queries.jsonl", f"qrels/{split}.tsv")}
    if absent := [name for name, path in files.items() if not path.is_file()]:
        raise MissingData(f"{folder}: no {', '.join(absent)}; a folder in BEIR's layout has {', '.join(files)}")
    corpus, queries, judged = files.values()
    judgements = [
        (query, document, number_in(grade, judged, line), f"{judged}, line {line}")
        for line, (query, document, grade) in read_cells(judged, (0, 1, 2), header=True)
    ]
    return _splits(_texts_of(corpus), _texts_of(queries), judgements, str(folder))


def read_nano(name: str) -> Splits:
    """A set of NanoBEIR from the Hub, such as `NanoSciFact`.

    Raises:
        MissingData: it cannot be had.
    """
    import datasets

    try:
        parts = [datasets.load_dataset(f"zeta-alpha-ai/{name}", part, split="train") for part in _PARTS]
    except Exception as error:
        raise MissingData(f"the data set {name} cannot be had from the Hub: {first_line(error)}") from error
    corpus, queries = ({str(row["_id"]): tidy(str(row["text"])) for row in part} for part in parts[:2])
    judged = [(str(row["query-id"]), str(row["corpus-id"]), 1.0, name) for row in parts[2]]
    return _splits(corpus, queries, judged, name)


_PARTS = ("corpus", "queries", "qrels")


def _texts_of(path: Path) -> dict[str, str]:
    """Texts by id; a title stands before its text."""
    rows = open_rows(path)
    found: dict[str, str] = {}
    for number, cells in rows:
        if cells.get("_id") is None or "text" not in cells:
            raise InputError(f"{rows.where(number)}: no _id and text; BEIR's files have both")
        key = str(cells["_id"])
        if key in found:
            raise InputError(f"{rows.where(number)}: the id {key} was there before; ids are given once")
        found[key] = tidy(" ".join(str(cells[name]) for name in ("title", "text") if cells.get(name)))
    return found


def _splits(
    corpus: Mapping[str, str], queries: Mapping[str, str], judgements: Iterable[Judgement], source: str
) -> Splits:
    judged = list(judgements)
    for query, document, _, where in judged:
        for key, known, kind in ((query, queries, "query"), (document, corpus, "document")):
            if key not in known:
                raise InputError(f"{where}: there is no {kind} {key}")
    asked = dict.fromkeys(query for query, _, grade, _ in judged if grade > 0)
    if not asked:
        raise InputError(f"{source}: no query has a relevant document, so there is nothing to find")
    query_of, document_of = ({key: place for place, key in enumerate(keys)} for keys in (asked, corpus))
    gold: list[Any] = [
        (query_of[query], document_of[document], grade) for query, document, grade, _ in judged if query in asked
    ]
    rows = {
        "queries": Rows(([queries[key] for key in asked],), np.arange(len(asked))),
        "corpus": Rows((list(corpus.values()),), np.arange(len(corpus))),
        "test": Rows((), np.array(gold, np.float64)),
    }
    return Splits(rows, {})
