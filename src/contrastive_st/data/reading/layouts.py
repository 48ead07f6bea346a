"""Files of other tools, recognized by their columns: Label Studio, Argilla, tevatron, MEDI, BEIR."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

Cells = dict[str, Any]
T = TypeVar("T", bound=Any)


class Layout(NamedTuple):
    """A layout: the tool that writes it, the columns by which it is recognized, and its rows as flat ones."""

    tool: str
    columns: frozenset[str]
    flat: Callable[[Cells], Cells]


def _label_studio(row: Cells) -> Cells:
    """The texts of a task, and the choices of its first annotation by the name of the question."""
    done = [one for one in row["annotations"] or [] if isinstance(one, dict) and not one.get("was_cancelled")]
    chosen = {}
    for result in (done[0].get("result") or []) if done else []:
        value = result.get("value") or {}
        answers = value.get("choices") or value.get("text") or value.get("rating") or []
        several = isinstance(answers, list) and len(answers) > 1
        chosen[result.get("from_name")] = answers if several or not isinstance(answers, list) else "".join(answers)
    return {"id": row.get("id"), **row["data"], **{name: answer for name, answer in chosen.items() if name}}


def _argilla(row: Cells) -> Cells:
    """The fields of a record, and the first response to each question."""
    responses = {name: _first(given) for name, given in (row["responses"] or {}).items()}
    return {"id": row.get("id"), **row["fields"], **responses}


def _argilla_1(row: Cells) -> Cells:
    inputs = row["inputs"] if isinstance(row["inputs"], dict) else {"text": row["inputs"]}
    return {"id": row.get("id"), **inputs, "label": row["annotation"]}


def _argilla_flat(row: Cells) -> Cells:
    """A record as `Dataset.records.to_datasets` writes it: `label.responses` has the answers to `label`."""
    asked = {name.removesuffix(".responses") for name in row if name.endswith(".responses")}
    kept = {name: cell for name, cell in row.items() if not any(name.startswith(f"{one}.") for one in asked)}
    return {**kept, **{name: _first(row[f"{name}.responses"]) for name in asked}}


def _first(given: Any) -> Any:
    first = given[0] if isinstance(given, list) and given else None if isinstance(given, list) else given
    return first.get("value") if isinstance(first, dict) else first


def _tevatron(row: Cells) -> Cells:
    names = {"positive_passages": "positive", "negative_passages": "negative"}
    return {names.get(name, name): _passages(cell) if name in names else cell for name, cell in row.items()}


def _passages(given: Any) -> list[str]:
    return [f"{one.get('title') or ''} {one.get('text') or ''}".strip() for one in given or []]


def _medi(row: Cells) -> Cells:
    """Each text with its instruction before it."""
    texts = ("query", "pos", "neg")
    return {name: " ".join(map(str, cell)) if name in texts and cell else cell for name, cell in row.items()}


LAYOUTS = (
    Layout("Label Studio", frozenset({"data", "annotations"}), _label_studio),
    Layout("Argilla", frozenset({"fields", "responses"}), _argilla),
    Layout("Argilla", frozenset({"inputs", "annotation"}), _argilla_1),
    Layout("tevatron", frozenset({"query", "positive_passages"}), _tevatron),
)


def find_layout(row: Mapping[str, Any]) -> Layout | None:
    """The layout of another tool that a row has; None if it has none of them.

    Example:
        >>> find_layout({"query": "Why?", "positive_passages": [{"docid": "1", "title": "", "text": "So."}]}).tool
        'tevatron'
        >>> find_layout({"query": ["Represent it:", "Why?"], "pos": ["Represent it:", "So."]}).tool
        'MEDI'
    """
    found = next((one for one in LAYOUTS if one.columns <= row.keys()), None)
    if found and isinstance(row.get("data", {}), dict) and isinstance(row.get("fields", {}), dict):
        return found
    if any(name.endswith(".responses") for name in row):
        return Layout("Argilla", frozenset(), _argilla_flat)
    query = row.get("query")
    if isinstance(query, list) and len(query) == 2 and isinstance(row.get("pos"), list) and len(row["pos"]) == 2:
        return Layout("MEDI", frozenset(), _medi)
    return None


def plain_rows(table: T) -> T:
    """A table whose rows are flat: it itself, or with each row of another tool's layout as one of texts and labels."""
    if not set(table.columns or ["?"]) & {"?", "data", "fields", "inputs", "query"} and not any(
        name.endswith(".responses") for name in table.columns or ()
    ):
        return table
    first = next(iter(table), None)
    layout = find_layout(first.cells) if first else None
    if layout is None:
        return table
    read = lambda: (row._replace(cells=layout.flat(row.cells)) for row in table.read())
    return replace(
        table,
        read=read,
        columns=None,
        schema=None,
        mapped=None,
        notes=(*table.notes, f"read as a file of {layout.tool}"),
    )


def is_beir(folder: Path) -> bool:
    """Whether a folder has the layout of BEIR: a corpus, queries, and judgements in `qrels`."""
    return folder.joinpath("qrels").is_dir() and all(any(folder.glob(f"{name}.*")) for name in ("corpus", "queries"))


def beir_rows(texts: Callable[[str], Iterator[Cells]], judgements: Iterator[Cells]) -> Iterator[Cells]:
    """Queries and their relevant documents, a row for each judgement above 0, from a folder in BEIR's layout.

    Args:
        texts: gives the rows of `corpus` and of `queries`.
        judgements: rows of `query-id`, `corpus-id` and `score`.
    """
    relevant: dict[str, list[str]] = defaultdict(list)
    for row in judgements:
        query, document, *score = list(row.values())
        if float(score[0] if score else 1) > 0:
            relevant[str(query)].append(str(document))
    wanted = {document for documents in relevant.values() for document in documents}
    kept = {
        str(row["_id"]): f"{row.get('title') or ''} {row['text']}".strip()
        for row in texts("corpus")
        if str(row["_id"]) in wanted
    }
    for row in texts("queries"):
        for document in relevant.get(str(row["_id"]), ()):
            yield {"query": row["text"], "positive": kept.get(document)}
