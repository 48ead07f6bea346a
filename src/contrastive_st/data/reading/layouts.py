"""Files of other tools, recognized by their columns: Label Studio, Argilla, Prodigy, tevatron, DPR, BEIR, and more."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from contrastive_st.data.profile import items_of
from contrastive_st.data.reading.annotations import (
    Annotated,
    Cells,
    argilla,
    argilla_1,
    argilla_flat,
    label_studio,
    prodigy,
    with_labels,
)  # fmt: skip

T = TypeVar("T", bound=Any)


class Layout(NamedTuple):
    """A file layout.

    Args:
        tool: what writes it.
        columns: those that identify it.
        flat: makes a row flat.
        annotated: in place of `flat`, makes cells and answers of a row.
    """

    tool: str
    columns: frozenset[str]
    flat: Callable[[Cells], Cells] = dict
    annotated: Callable[[Cells], Annotated] | None = None


_LABEL = "__label__"
_FASTTEXT = re.compile(rf"((?:{_LABEL}\S+\s+)+)(.*)")


def _fasttext(row: Cells) -> Cells:
    """The labels of a line, and the text after them."""
    result = _FASTTEXT.match(row["text"])
    labels = result[1].replace(_LABEL, "").split() if result else [None]
    return {"text": result[2] if result else row["text"], "label": labels[0] if len(labels) == 1 else labels}


def _set(row: Cells) -> Cells:
    """Texts that mean the same."""
    first, *others = row["set"] or [None]
    return {"anchor": first, "positive": others}


def _spacy(row: Cells) -> Cells:
    """The text, and its categories of at least a half."""
    rest = {name: cell for name, cell in row.items() if name != "cats"}
    return {**rest, "label": [name for name, value in row["cats"].items() if value and value >= 0.5]}


def _label_studio_table(row: Cells) -> Cells:
    """The CSV or TSV of a project, in which several choices are an object: `{"choices":["A","B"]}`."""
    chosen = {name: str(cell) for name, cell in row.items() if str(cell).startswith('{"choices":')}
    return {**row, **{name: json.loads(cell)["choices"] for name, cell in chosen.items()}}


_PASSAGES = {"positive_passages": "positive", "negative_passages": "negative",
             "positive_ctxs": "positive", "hard_negative_ctxs": "negative"}  # fmt: skip


def _tevatron(row: Cells) -> Cells:
    return {_PASSAGES.get(name, name): _passages(cell) if name in _PASSAGES else cell for name, cell in row.items()}


def _passages(given: Any) -> list[str]:
    return [f"{one.get('title') or ''} {one.get('text') or ''}".strip() for one in given or []]


def _medi(row: Cells) -> Cells:
    """Each text with its instruction before it."""
    texts = ("query", "pos", "neg")
    return {name: " ".join(map(str, cell)) if name in texts and cell else cell for name, cell in row.items()}


def _marks(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """The columns with the list of an anchor's texts and with the label or score of each; None if there are none."""
    lists = {name: items for name, cell in row.items() if (items := items_of(cell))}
    texts = next((name for name in ("positive", "docs", "documents", "passages") if name in lists), None)
    marks = next((name for name in ("labels", "label", "scores") if name in lists), None)
    negatives = any(name.startswith("neg") for name in row)
    return (texts, marks) if texts and marks and not negatives and len(lists[texts]) == len(lists[marks]) else None


def _labeled_list(row: Cells) -> Cells:
    """Texts with a label above 0 are positives; with scores, the first is, or the best if nothing names them so."""
    names = ("positive", "docs", "documents", "passages"), ("labels", "label", "scores")
    texts, marks = (next(name for name in some if name in row) for some in names)
    rest = {name: cell for name, cell in row.items() if name not in (texts, marks)}
    pairs = list(zip(items_of(row[texts]) or [], items_of(row[marks]) or [], strict=False))
    if marks != "scores":
        sides = {"positive": True, "negative": False}
        return {**rest, **{name: [text for text, mark in pairs if (mark > 0) is side] for name, side in sides.items()}}
    pairs = pairs if texts == "positive" else sorted(pairs, key=lambda pair: -pair[1])
    first, *others = [text for text, _ in pairs] or [None]
    return {**rest, "positive": first, "negative": others, "scores": [mark for _, mark in pairs]}


LAYOUTS = (
    Layout("Label Studio", frozenset({"data", "annotations"}), annotated=label_studio),
    Layout("Label Studio", frozenset({"annotation_id", "annotator", "lead_time"}), _label_studio_table),
    Layout("Argilla", frozenset({"fields", "responses"}), annotated=argilla),
    Layout("Argilla", frozenset({"inputs", "annotation"}), annotated=argilla_1),
    Layout("tevatron", frozenset({"query", "positive_passages"}), _tevatron),
    Layout("DPR", frozenset({"question", "positive_ctxs"}), _tevatron),
    Layout("Prodigy", frozenset({"_input_hash", "_task_hash"}), annotated=prodigy),
    Layout("Prodigy", frozenset({"options", "accept", "answer"}), annotated=prodigy),
    Layout("spaCy", frozenset({"text", "cats"}), _spacy),
)


def find_layout(row: Mapping[str, Any]) -> Layout | None:
    """The layout of another tool that a row has; None for other rows.

    Example:
        >>> find_layout({"query": "Why?", "positive_passages": [{"docid": "1", "title": "", "text": "So."}]}).tool
        'tevatron'
        >>> find_layout({"query": ["Represent it:", "Why?"], "pos": ["Represent it:", "So."]}).tool
        'MEDI'
    """
    result = next((one for one in LAYOUTS if one.columns <= row.keys()), None)
    if result and all(isinstance(row.get(name, {}), dict) for name in ("data", "fields", "cats")):
        return result
    if any(name.endswith(".responses") for name in row):
        return Layout("Argilla", frozenset(), annotated=argilla_flat)
    if _marks(row):
        return Layout("lists of labeled texts", frozenset(), _labeled_list)
    if row.keys() == {"set"} and isinstance(row["set"], list):
        return Layout("sets of paraphrases", frozenset(), _set)
    if row.keys() == {"text"} and str(row["text"]).startswith(_LABEL):
        return Layout("fastText", frozenset(), _fasttext)
    query = row.get("query")
    if isinstance(query, list) and len(query) == 2 and isinstance(row.get("pos"), list) and len(row["pos"]) == 2:
        return Layout("MEDI", frozenset(), _medi)
    return None


def plain_rows(table: T) -> T:
    """A table with flat rows: rows in the layout of another tool become rows of texts and labels."""
    first = next(iter(table), None)
    layout = find_layout(first.cells) if first else None
    if layout is None:
        return table
    flat, notes = layout.flat, list[str]()
    if layout.annotated:
        flat, notes = with_labels(layout.annotated, islice(table, table.sampled))
    read = lambda: (row._replace(cells=flat(row.cells)) for row in table.read())
    return replace(
        table,
        read=read,
        columns=None,
        schema=None,
        mapped=None,
        notes=(*table.notes, f"read as a file of {layout.tool}", *notes),
    )
