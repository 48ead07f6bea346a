"""Files of other tools, recognized by their columns: a row of `EXPORTS` each, with a function that makes rows flat."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from contrastive_st.data.profile import Record, is_blank, items_of
from contrastive_st.data.reading.rows import Row, Table
from contrastive_st.data.roles import has_role
from contrastive_st.data.suggestions import converted
from contrastive_st.errors import InputError, listed

_FASTTEXT = re.compile(r"(?<!\S)__label__(\S+)\s*")  # a word anywhere in a line
_LISTED = ("positive", "docs", "documents", "passages"), ("labels", "label", "scores")
_MEDI = ("query", "pos")
_OF_PRODIGY = ("answer", "accept", "options", "label", "spans", "tokens", "config", "view_id")
_HASHES_OR_OPTIONS = ({"_input_hash", "_task_hash"}, {"options", "accept", "answer"})  # of Prodigy
#: The status of an answer whose label is not clear, and of one that is not a label
_REFUSED, _SKIPPED = ("draft", "reject"), ("discarded", "Discarded", "ignore")


class Unclear(ValueError):
    """A row whose labels are not clear."""


class Export(NamedTuple):
    """A tool whose files are read.

    Args:
        tool: its name.
        tells: whether a row is in one of its files.
        flat: makes a row of texts, scores and labels.
        advice: how the tool exports labels that are clear; added to the error where they are not.
    """

    tool: str
    tells: Callable[[Record], object]
    flat: Callable[[Record], Record]
    advice: str = ""


def _instructions(row: Record) -> Record:
    """Each text with its instruction before it."""
    return {name: " ".join(map(str, cell)) if name in ("query", "pos", "neg") and cell else cell
            for name, cell in row.items()}  # fmt: skip


def _fasttext(row: Record) -> Record:
    """The labels of a line, and the text without them."""
    labels, text = _FASTTEXT.findall(str(row["text"])), _FASTTEXT.sub("", str(row["text"])).rstrip()
    return {"text": text, "label": labels if len(labels) > 1 else next(iter(labels), None)}


def _positions(row: Record) -> Record:
    names = ("anchor", "positive", *(f"negative_{number}" for number in range(1, len(row))))
    return dict(zip(names, row.values(), strict=False))


def _is_list_of_texts(row: Mapping[str, object]) -> bool:
    """Whether a row is a list of an anchor, a positive and negatives, as sentence-transformers publishes them."""
    numbered = len(row) > 1 and list(row) == list(map(str, range(len(row))))
    return numbered and all(isinstance(cell, str) for cell in row.values())


def _is_listed(row: Mapping[str, object]) -> bool:
    texts, marks = (next((name for name in names if name in row and items_of(row[name])), None) for names in _LISTED)
    same = texts and marks and len(items_of(row[texts]) or ()) == len(items_of(row[marks]) or ())
    return bool(same) and not any(name.startswith("neg") for name in row)


def _listed(row: Record) -> Record:
    """Texts with a label above 0 are positives; with scores, the first is, or the best if nothing names them so."""
    texts, marks = (next((name for name in names if name in row), names[0]) for names in _LISTED)
    rest = {name: cell for name, cell in row.items() if name not in (texts, marks)}
    listed_texts, listed_marks = items_of(row[texts]) or [], items_of(row[marks])
    if listed_marks is not None and len(listed_marks) != len(listed_texts):
        raise Unclear(f"{len(listed_texts)} texts in {texts!r} and {len(listed_marks)} values in {marks!r}")
    pairs = list(zip(listed_texts, listed_marks or [], strict=False))
    if marks != "scores":
        sides = {"positive": True, "negative": False}
        return {**rest, **{name: [text for text, mark in pairs if (mark > 0) is side] for name, side in sides.items()}}
    pairs = pairs if texts == "positive" else sorted(pairs, key=lambda pair: -pair[1])
    first, *others = [text for text, _ in pairs] or [None]
    return {**rest, "positive": first, "negative": others, "scores": [mark for _, mark in pairs]}


# --- Tools in which people label texts: an answer that all annotators gave is a label; what is not is refused.


def _label_studio(row: Record) -> Record:
    answers = []
    for one in row["annotations"]:
        for result in one.get("result") or []:
            value, skipped = result.get("value") or {}, bool(one.get("was_cancelled"))
            answer = value.get("choices") or value.get("text") or value.get("rating")
            if answer is None and not skipped:
                raise Unclear("an answer is not a choice, text or rating")
            answers.append((result.get("from_name") or "label", answer, "discarded" if skipped else None))
    return _settled({"id": row.get("id"), **row["data"]}, answers)


def _argilla(row: Record) -> Record:
    """A record with `fields` and `responses`, with columns like `label.responses`, or of the first version."""
    if "annotation" in row:
        inputs = row["inputs"] if isinstance(row["inputs"], dict) else {"text": row["inputs"]}
        return _settled({"id": row.get("id"), **inputs}, [("label", row["annotation"], row.get("status"))])
    if "fields" in row:
        answers = [(name, one["value"], one.get("status")) for name, many in row["responses"].items() for one in many]
        return _settled({"id": row.get("id"), **row["fields"]}, answers)
    asked = [name.removesuffix(".responses") for name in row if name.endswith(".responses")]
    cells = {name: cell for name, cell in row.items() if not name.startswith(tuple(f"{one}." for one in asked))}
    of = lambda name: zip_longest(row[f"{name}.responses"] or [], row.get(f"{name}.responses.status") or [])
    return _settled(cells, [(name, *one) for name in asked for one in of(name)])


def _prodigy(row: Record) -> Record:
    cells = {name: cell for name, cell in row.items() if name not in _OF_PRODIGY and not name.startswith("_")}
    return _settled(cells, [("label", row.get("accept", row.get("label")), row.get("answer"))])


def _spacy(row: Record) -> Record:
    if any(value not in (0, 1) for value in row["cats"].values()):
        raise Unclear("a value of cats is not 0 or 1")
    rest = {name: cell for name, cell in row.items() if name != "cats"}
    return _settled(rest, [("label", [name for name, value in row["cats"].items() if value], None)])


def _settled(cells: Record, answers: Iterable[tuple[str, object, object]]) -> Record:
    """The cells with the answer to each question: None without one, a list for several labels.

    Args:
        cells: the text, and what else a row has.
        answers: of annotators: the name of the question, the answer and its status.
    """
    by_question: dict[str, list[list[object]]] = {}
    for name, answer, status in answers:
        several = by_question.setdefault(name, [])
        if status in _REFUSED:
            raise Unclear(f"an answer is {status}")
        if answer is not None and status not in _SKIPPED:
            several.append(answer if isinstance(answer, list) else [answer])
    for name, several in by_question.items():
        if any(isinstance(label, (list, dict)) for answer in several for label in answer):
            raise Unclear("labels inside labels")
        if any(answer != several[0] for answer in several):
            raise Unclear(f"annotators disagree: {' and '.join(map(str, several[:2]))}")
        labels = several[0] if several else [None]
        cells = {**cells, name: labels[0] if len(labels) == 1 else labels}
    return cells


#: The tools, what tells their rows, and what makes them flat; BEIR's folders are in `relevance`
EXPORTS = (
    Export("Label Studio", lambda row: isinstance(row.get("data"), dict) and isinstance(row.get("annotations"), list),
           _label_studio, "settle it in Label Studio, then label-studio export PROJECT JSON"),
    Export("Argilla", lambda row: {"inputs", "annotation"} <= row.keys() or {"responses", "fields"} <= row.keys()
           or any(name.endswith(".responses") for name in row),
           _argilla, "submit or discard it in Argilla, then dataset.records.to_json(path)"),
    Export("Prodigy", lambda row: any(names <= row.keys() for names in _HASHES_OR_OPTIONS),
           _prodigy, "prodigy db-out DATASET --answer accept exports the labels"),
    Export("spaCy", lambda row: "text" in row and isinstance(row.get("cats"), dict),
           _spacy, "write the labels that you mean"),
    Export("MEDI", lambda row: all(isinstance(row.get(n), list) and len(row[n]) == 2 for n in _MEDI), _instructions),
    Export("fastText", lambda row: row.keys() == {"text"} and _FASTTEXT.search(str(row["text"])), _fasttext),
    Export("sets of paraphrases", lambda row: row.keys() == {"set"} and isinstance(row["set"], list),
           lambda row: {"anchor": row["set"][0] if row["set"] else None, "positive": row["set"][1:]}),
    Export("lists of labeled texts", _is_listed, _listed, "give each text one"),
    Export("lists of texts", _is_list_of_texts, _positions),
)  # fmt: skip


def plain_rows(table: Table) -> Table:
    """A table with flat rows: rows of another tool become rows of texts and labels.

    Example:
        >>> from contrastive_st.data.reading import in_memory
        >>> [row.cells for row in plain_rows(in_memory([["Why?", "So.", "No."]]))]
        [{'anchor': 'Why?', 'positive': 'So.', 'negative_1': 'No.'}]
    """
    first = next((row for row in table if not all(map(is_blank, row.cells.values()))), None)
    export = first and next((one for one in EXPORTS if one.tells(first.cells)), None)
    if not first or not export or (table.delimited and export.flat is _positions):
        return table
    if export.flat is _positions and all(map(has_role, first.cells.values())):
        what = f"{listed(first.cells.values())} may be the names of the columns"
        fix = converted("sed 1d", table.source) if table.unit == "line" else "leave it out"
        raise InputError(f"{table.where(first.number)}: {what}; {fix}, or write each row as an object")

    def flat() -> Iterator[Row]:
        for row in table:
            try:
                yield row._replace(cells=export.flat(row.cells))
            except Unclear as error:
                raise InputError(f"{table.where(row.number)}: {error}; {export.advice}") from None
            except (AttributeError, KeyError, TypeError) as error:
                what = f"is not a row of {export.tool} as the first one is"
                raise InputError(f"{table.where(row.number)} {what}") from error

    notes = (*table.notes, f"read as a file of {export.tool}")
    return replace(table, read=flat, columns=None, schema=None, read_columns=None, notes=notes)
