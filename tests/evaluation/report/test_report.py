"""A report on disk: whole, read back equal, its names shown and never run."""

import json
import math
import sys

import numpy as np
import pytest

from contrastive_st.errors import one_line
from contrastive_st.evaluation import evaluate
from contrastive_st.evaluation.datasets.senteval import Splits
from contrastive_st.evaluation.report.report import Report
from contrastive_st.evaluation.scorers import Score
from contrastive_st.evaluation.tasks import beir_task, own_task, tasks
from contrastive_st.plots import training_curve_png

NASTY = "<img src=x onerror=alert(1)>|$x_{$ [a](javascript:b) `c`"


@pytest.fixture
def report():
    about = {"pooling": "cls", "max_length": 16, "n": 9}
    scores = [Score("STSB", "test", "spearman", 0.5, model=name, **about) for name in ("plain", NASTY)]
    scores += [Score("space", "dev", metric, 0.5, model=NASTY, **about) for metric in ("alignment", "uniformity")]
    scores += [Score("NanoNQ", "test", metric, 0.5, "among 9", model="plain") for metric in ("mrr@10", "ndcg@10")]
    asked = [tasks()["STSB"], tasks()["space"], beir_task("NanoNQ")]
    return Report("files", asked, scores, {"broken": "no\nweights"}, {"plain": 1.5}, {"plain": "0f"})


def test_it_is_read_back_equal_and_so_is_one_of_before(report, tmp_path):
    report.save(tmp_path)
    assert Report.read(tmp_path / "report.json").json() == report.json()
    content = json.loads((tmp_path / "report.json").read_text())
    content["figures"] = content.pop("scores")
    del content["tasks"], content["fingerprints"]
    (tmp_path / "report.json").write_text(json.dumps(content))
    before = Report.read(tmp_path / "report.json")
    assert before.scores == report.scores
    # a file of the user may have the name of a set of papers
    assert [(task.group, task.main[1]) for task in before.tasks] == [
        ("similarity", "spearman"), ("space", "uniformity"), ("retrieval", "mrr@10"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"source": 1, "scores": [{"task": 1}]}', "[" * 100_000, '{"scores": 3}'], ids=range(6)
)
def test_what_is_no_report_is_told_in_one_line(tmp_path, text):
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Python says what is wrong, and the line has the file
        Report.read(tmp_path / "report.json")
    assert "report.json" in one_line(caught.value)


def test_a_score_that_is_not_a_number_is_null(tmp_path):
    scored = [Score("mine", "test", name, value, deviation=value) for name, value in (("a", math.nan), ("b", 0.5))]
    task = own_task("mine", "pairs", lambda: Splits({}), lambda splits, embed: scored, "a")
    report = evaluate([lambda texts: np.ones((len(texts), 2))], [task], ".")
    report.save(tmp_path)
    json.loads((tmp_path / "report.json").read_text(), parse_constant=pytest.fail)
    read = Report.read(tmp_path / "report.json")
    assert read.scores == report.scores
    assert [(f.value, f.deviation, f.note) for f in read.scores] == [
        (None, None, "undefined: the scorer returned nan"), (0.5, 0.5, ""),
    ]  # fmt: skip


def test_names_are_shown_and_are_no_markup(report, tmp_path):
    report.save(tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert "<img" not in text
    assert "[a](" not in text.replace("\\[a\\](", "")
    for row in text.splitlines():
        if row.startswith("| STSB"):
            assert row.replace("\\|", "").count("|") == 6


def test_without_matplotlib_there_is_no_curve(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert training_curve_png([{"loss": 1.0, "step": 1}]) is None


def test_a_curve_of_a_run():
    log = [
        {"loss": 2.0, "accuracy": 0.1, "step": 1},
        {"eval_stsb": 0.3, "step": 1},
        {"loss": 1.0, "accuracy": 0.4, "step": 2},
    ]
    assert training_curve_png(log)[:4] == b"\x89PNG"
    assert training_curve_png([]) is None
