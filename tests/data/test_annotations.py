"""Exports of labelling tools: which answers are labels, and what is said of the others."""

# ruff: noqa: E501 - a case is one line
import json

import pytest

from contrastive_st.data.labels import read_labels
from contrastive_st.data.reading import open_table

TEXTS = ["a match", "the vote", "a goal", "the party"]


def prodigy(*tasks):
    return [{"text": text, **task, "_input_hash": 1, "_task_hash": 1} for text, task in zip(TEXTS, tasks, strict=True)]


def one_of(*answers):
    return prodigy(*({"label": label, "answer": answer} for label, answer in answers))


def chosen(*answers):
    options = [{"id": "SPORT"}, {"id": "NEWS"}]
    return prodigy(*({"options": options, "accept": accept, "answer": answer} for accept, answer in answers))


def argilla(*records):
    """Records with the answers of annotators, each with its status, as `to_datasets` writes them."""
    return [{"text": text, "label.responses": [own for own, _ in given], "label.responses.users": ["u"] * len(given),
             "label.responses.status": [status for _, status in given]}
            for text, given in zip(TEXTS, records, strict=True)]  # fmt: skip


def nested(*records):
    return [{"fields": {"text": text}, "responses": {"label": [{"value": own, "status": status} for own, status in given]}}
            for text, given in zip(TEXTS, records, strict=True)]  # fmt: skip


def studio(*tasks):
    """Tasks with the choices of annotators: lists, or annotations."""
    result = lambda choices: [{"from_name": "label", "value": {"choices": choices}}] if choices else []
    annotation = lambda own: own if isinstance(own, dict) else {"result": own}
    annotations = [[annotation(own) for own in given] for given in tasks]
    annotations = [[{**own, "result": result(own["result"])} for own in given] for given in annotations]
    return [{"data": {"text": t}, "annotations": own} for t, own in zip(TEXTS, annotations, strict=True)]


BINARY = ("accept", "reject", "accept", "ignore")
DISAGREE = [("b", "submitted"), ("a", "submitted"), ("a", "submitted")]
#: rows, their labels (None: left out), and what is said
CASES = {
    "one label": (one_of(*(("SPORT", answer) for answer in BINARY)), ["accept", "reject", "accept", None],
                  "the labels are accept and reject, the answers to SPORT", "answers not used as labels: 1 ignored"),
    "several labels": (one_of(*zip(["SPORT", "NEWS", "NEWS", "SPORT"], BINARY, strict=True)), ["SPORT", None, "NEWS", None],
                       "answers not used as labels: 1 rejected, 1 ignored"),
    "no answers yet": (prodigy(*[{"label": "SPORT"}, {"label": "NEWS"}] * 2), ["SPORT", "NEWS"] * 2, ""),
    "choices": (chosen((["SPORT"], "accept"), (["SPORT"], "reject"), ([], "accept"), (["NEWS"], "ignore")),
                ["SPORT", None, None, None], "answers not used as labels: 1 rejected, 1 ignored"),
    "several choices": (chosen((["SPORT"], "accept"), (["SPORT", "NEWS"], "accept"), ([], "accept"), (["NEWS"], "reject")),
                        [["SPORT"], ["SPORT", "NEWS"], [], None], "answers not used as labels: 1 rejected"),
    "discarded": (argilla([("a", "discarded"), ("b", "submitted")], [("a", "draft")], [], [("a", "submitted")]),
                  ["b", None, None, "a"], "answers not used as labels: 1 discarded, 1 draft"),
    "several annotators": (argilla(DISAGREE, DISAGREE[:2], DISAGREE[1:], DISAGREE[:1]), ["a", "b", "a", "b"],
                           "rows on which annotators disagree: 2;"),
    "without a status": (nested(*[[("a", None)]] * 4), ["a"] * 4, "4 answers have no status"),
    "a table of tasks": ([{"text": t, "id": i, "label": own, "annotator": 1, "annotation_id": i, "lead_time": 1.5}
                          for i, (t, own) in enumerate(zip(TEXTS, ["a", '{"choices":["a","b"]}', "b", ""], strict=True))],
                         [["a"], ["a", "b"], ["b"], None], "read as a file of Label Studio"),
    "lists": (argilla(*[[(["a", "b"], "submitted")], [(["a"], "submitted")]] * 2), [["a", "b"], ["a"]] * 2, ""),
    "discarded, nested": (nested([("a", "discarded"), ("b", "submitted")], [("a", "draft")], [], [("a", "submitted")]),
                          ["b", None, None, "a"], "answers not used as labels: 1 discarded, 1 draft"),
    "several annotators of tasks": (studio([["b"], ["a"], ["a"]], [["b"], {"result": ["a"], "ground_truth": True}],
                                           [{"result": ["b"], "was_cancelled": True}, ["a"]], [["b"]]),
                                    ["a", "a", "a", "b"], "rows on which annotators disagree: 1;"),
    "several choices of tasks": (studio([["a", "b"]], [["a"]], [[]], []), [["a", "b"], ["a"], [], None], ""),
    "categories": ([{"text": t, "cats": {"a": a, "b": b}} for t, a, b in zip(TEXTS, (1.0, 0.9, 0.0, 1), (0.0, 1.0, 0.2, 0), strict=True)],
                   [["a"], ["a", "b"], [], ["a"]], "read as a file of spaCy"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_labels_are_answers_that_were_given(case, tmp_path, caplog):
    rows, labels, *said = CASES[case]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    result = read_labels(path)
    assert dict(zip(*result, strict=True)) == {t: own for t, own in zip(TEXTS, labels, strict=True) if own is not None}
    assert all(line in caplog.text for line in said)


def test_choices_are_recognized_without_the_hashes_of_prodigy():
    tasks = [{"text": "a", "options": [{"id": "SPORT"}], "accept": ["SPORT"], "answer": "accept"}]
    assert [row.cells for row in open_table(tasks)] == [{"text": "a", "label": "SPORT"}]


def test_records_of_the_first_version_of_argilla_may_be_discarded():
    rows = [{"inputs": text, "annotation": "a", "status": status} for text, status in zip("xy", ("Validated", "Discarded"), strict=True)]  # fmt: skip
    assert read_labels(rows) == (["x"], ["a"])
