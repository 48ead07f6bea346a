"""Exports of tools in which people label texts (Label Studio, Argilla, Prodigy): which answers are labels."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from contrastive_st.data.reading.rows import Row

Cells = dict[str, Any]


class Answer(NamedTuple):
    """What one annotator answered to a question.

    Args:
        chosen: the labels, or the text or number that was entered.
        unused: why it is not a label, such as `rejected`; empty if it is one.
        truth: whether it is marked as the right answer.
        unclear: whether it may have been discarded: the file does not say.
    """

    chosen: list[Any]
    unused: str = ""
    truth: bool = False
    unclear: bool = False


class Annotated(NamedTuple):
    """A row of such a tool.

    Args:
        cells: the text, and what else is known of it.
        answers: those to each question.
        nothing: whether somebody looked at it and chose nothing.
    """

    cells: Cells
    answers: Mapping[str, Sequence[Answer]]
    nothing: bool = False


def with_labels(read: Callable[[Cells], Annotated], rows: Iterable[Row]) -> tuple[Callable[[Cells], Cells], list[str]]:
    """A function that makes rows of cells and labels, and what to say about the answers that are not labels.

    If a question has a single label and some answers reject it, the labels are `accept` and `reject`.

    Args:
        read: makes cells and answers of a row.
        rows: those that the function is for.

    Example:
        >>> tasks = [Row(1, {"text": "a", "label": "SPORT", "answer": "reject"}),
        ...          Row(2, {"text": "b", "label": "NEWS", "answer": "accept"})]
        >>> flat, notes = with_labels(prodigy, tasks)
        >>> [flat(task.cells) for task in tasks], notes
        ([{'text': 'a', 'label': None}, {'text': 'b', 'label': 'NEWS'}], ['answers not used as labels: 1 rejected'])
    """
    unused: dict[str, Counter[str]] = defaultdict(Counter)
    labels: dict[str, set[str]] = defaultdict(set)
    split = unclear = 0
    for row in rows:
        for question, answers in read(row.cells).answers.items():
            unused[question].update(one.unused for one in answers if one.unused)
            unclear += sum(one.unclear for one in answers)
            split += any(chosen != _used(answers)[0] for chosen in _used(answers))
            if len(labels[question]) < 2:
                labels[question].update(str(label) for one in answers for label in one.chosen)
    yes_no = {name: min(known) for name, known in labels.items() if len(known) == 1 and unused[name].pop("rejected", 0)}

    def flat(row: Cells) -> Cells:
        cells, answers, nothing = read(row)
        given = {question: answers.get(question, ()) for question in labels}
        given |= {question: [_yes_or_no(one) for one in given[question]] for question in yes_no}
        none: list[Any] | None = [] if nothing else None
        return {**cells, **{question: _label(own) if own else none for question, own in given.items()}}

    notes = [f"the labels are accept and reject, the answers to {label}" for label in yes_no.values()]
    if counts := sum(unused.values(), Counter()):
        notes.append("answers not used as labels: " + ", ".join(f"{count:,} {why}" for why, count in counts.items()))
    if unclear:
        notes.append(f"{unclear:,} answers have no status: those that were discarded are read as labels too")
    if split:
        notes.append(
            f"rows on which annotators disagree: {split:,}; the label is what most of them chose, else the first"
        )
    return flat, notes


def _used(answers: Sequence[Answer]) -> list[list[Any]]:
    """What was chosen in the answers that count: those marked as the truth if there are any."""
    used = [one for one in answers if not one.unused]
    return [one.chosen for one in used if one.truth] or [one.chosen for one in used]


def _label(answers: Sequence[Answer]) -> Any:
    """The label of a row, a list of other than one, or None; the first of those that most annotators chose."""
    used = _used(answers)
    chosen = max(used, key=used.count, default=None)
    return chosen[0] if chosen and len(chosen) == 1 else chosen


def _yes_or_no(answer: Answer) -> Answer:
    rejected = answer.unused == "rejected"
    return Answer(["reject" if rejected else "accept"], "" if rejected else answer.unused, answer.truth)


# --- The tools.


def label_studio(row: Cells) -> Annotated:
    """A task, whose annotations have the choices to each question."""
    answers: dict[str, list[Answer]] = defaultdict(list)
    nothing = False
    for one in (one for one in row["annotations"] or () if isinstance(one, dict)):
        chosen: dict[str, list[Any]] = defaultdict(list)
        for result in one.get("result") or ():
            value = result.get("value") or {}
            given = value.get("choices") or value.get("text") or value.get("rating") or []
            chosen[result.get("from_name") or ""] += given if isinstance(given, list) else [given]
        unused = "skipped" if one.get("was_cancelled") else ""
        nothing = nothing or not (chosen or unused)
        for question in filter(None, chosen):
            answers[question].append(Answer(chosen[question], unused, one.get("ground_truth") is True))
    return Annotated({"id": row.get("id"), **row["data"]}, answers, nothing)


def argilla(row: Cells) -> Annotated:
    """A record, with the responses to each question."""
    responses = {name: [_response(one) for one in _as_list(given)] for name, given in (row["responses"] or {}).items()}
    return Annotated({"id": row.get("id"), **row["fields"]}, responses)


def argilla_1(row: Cells) -> Annotated:
    """A record of the first version of Argilla, with one annotation."""
    inputs = row["inputs"] if isinstance(row["inputs"], dict) else {"text": row["inputs"]}
    unused = "discarded" if row.get("status") == "Discarded" else ""
    answer = Answer(_as_list(row["annotation"]), unused)
    return Annotated({"id": row.get("id"), **inputs}, {"label": [answer] if answer.chosen else []})


def argilla_flat(row: Cells) -> Annotated:
    """A record as `Dataset.records.to_datasets` writes it: `label.responses` has the answers to `label`."""
    asked = [name.removesuffix(".responses") for name in row if name.endswith(".responses")]
    cells = {name: cell for name, cell in row.items() if not any(name.startswith(f"{one}.") for one in asked)}
    of = {name: (_as_list(row[f"{name}.responses"]), _as_list(row.get(f"{name}.responses.status"))) for name in asked}
    return Annotated(cells, {name: [_response(*one) for one in zip_longest(*both)] for name, both in of.items()})


def _response(given: Any, status: str | None = None) -> Answer:
    value = given.get("value") if isinstance(given, dict) else given
    status = given.get("status", status) if isinstance(given, dict) else status
    unclear = isinstance(given, dict) and status is None
    return Answer(_as_list(value), "" if status in (None, "submitted") else str(status), unclear=unclear)


_OF_PRODIGY = ("answer", "accept", "options", "label", "spans", "tokens", "config", "view_id")


def prodigy(row: Cells) -> Annotated:
    """A task, with the options that were chosen, or its one label; either may be rejected or ignored."""
    unused = {"reject": "rejected", "ignore": "ignored"}.get(row.get("answer", ""), "")
    cells = {name: cell for name, cell in row.items() if name not in _OF_PRODIGY and not name.startswith("_")}
    given = next((row[name] for name in ("accept", "label") if name in row), None)
    return Annotated(cells, {} if given is None else {"label": [Answer(_as_list(given), unused)]})


def _as_list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [] if given is None else [given]
