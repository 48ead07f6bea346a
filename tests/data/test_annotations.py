"""Exports of labelling tools: plain answers are labels, and others are refused."""

# ruff: noqa: E501 - a case is one line
import json

import pytest

from contrastive_st.data.labels import read_labels
from contrastive_st.errors import InputError

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


DISAGREE = [("b", "submitted"), ("a", "submitted")]
AGREE = [("a", "submitted"), ("a", "submitted"), ("b", "discarded")]
#: rows and their labels; None: left out
READ = {
    "one label each": (one_of(*zip(["SPORT", "NEWS", "NEWS", "SPORT"], ["accept"] * 3 + ["ignore"], strict=True)), ["SPORT", "NEWS", "NEWS", None]),
    "no answers yet": (prodigy(*[{"label": "SPORT"}, {"label": "NEWS"}] * 2), ["SPORT", "NEWS"] * 2),
    "choices": (chosen((["SPORT"], "accept"), (["SPORT", "NEWS"], "accept"), ([], "accept"), (["NEWS"], "ignore")),
                [["SPORT"], ["SPORT", "NEWS"], [], None]),
    "discarded": (argilla([("a", "discarded"), ("b", "submitted")], [], AGREE, [("a", "submitted")]), ["b", None, "a", "a"]),
    "lists": (argilla(*[[(["a", "b"], "submitted")], [(["a"], "submitted")]] * 2), [["a", "b"], ["a"]] * 2),
    "discarded, nested": (nested([("a", "discarded"), ("b", "submitted")], [], AGREE, [("a", "submitted")]), ["b", None, "a", "a"]),
    "annotators who agree": (studio([["b"], ["b"]], [["a"]], [{"result": ["b"], "was_cancelled": True}, ["a"]], []), ["b", "a", "a", None]),
    "several choices of tasks": (studio([["a", "b"]], [["a"]], [["b"]], []), [["a", "b"], ["a"], ["b"], None]),
    "without a status": (nested(*[[("a", None)]] * 4), ["a"] * 4),
    "choices without hashes": ([{"text": t, "options": [{"id": "SPORT"}], "accept": ["SPORT"], "answer": "accept"} for t in TEXTS], ["SPORT"] * 4),
    "discarded, of the first version": ([{"inputs": t, "annotation": "a", "status": own} for t, own in zip(TEXTS, ["Validated", "Discarded"] * 2, strict=True)], ["a", None] * 2),
    "a table of tasks": ([{"text": t, "id": i, "label": own, "annotator": 1, "annotation_id": i, "lead_time": 1.5}
                          for i, (t, own) in enumerate(zip(TEXTS, ["a", '{"choices":["a","b"]}', "b", ""], strict=True))],
                         [["a"], ["a", "b"], ["b"], None]),
    "categories": ([{"text": t, "cats": {"a": a, "b": b}} for t, a, b in zip(TEXTS, (1.0, 1, 0.0, 1), (0.0, 1.0, 0, 0), strict=True)],
                   [["a"], ["a", "b"], [], ["a"]]),
}  # fmt: skip
#: rows, the line at fault, what the tool must do
REFUSED = {
    "rejected": (one_of(*zip(["SPORT", "NEWS", "NEWS", "SPORT"], ["accept", "reject"] * 2, strict=True)), 2, "prodigy db-out DATASET --answer accept"),
    "a draft": (argilla([("a", "submitted")], [("a", "draft")], [], []), 2, "dataset.records.to_json"),
    "annotators disagree": (argilla([("a", "submitted")], DISAGREE, [], []), 2, "dataset.records.to_json"),
    "a draft, nested": (nested([("a", "draft")], [], [], []), 1, "dataset.records.to_json"),
    "annotators of tasks disagree": (studio([["a"]], [["b"], ["a"]], [], []), 2, "label-studio export PROJECT"),
    "nested choices": (studio([[["a", "b"]]], [["a"]], [], []), 1, "label-studio export PROJECT"),
    "categories between": ([{"text": t, "cats": {"a": 0.4, "b": 0.9}} for t in TEXTS], 1, "cats"),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_plain_answers_are_labels(case, tmp_path):
    rows, labels = READ[case]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    result = read_labels(path)
    assert dict(zip(*result, strict=True)) == {t: own for t, own in zip(TEXTS, labels, strict=True) if own is not None}


@pytest.mark.parametrize("case", REFUSED)
def test_other_answers_are_refused_with_what_their_tool_can_do(case, tmp_path):
    rows, line, mend = REFUSED[case]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match=rf"line {line}: .*{mend}"):
        read_labels(path)
