"""The figures of the small models stand in `docs/small_models.csv`; what pages and reports print is what it holds."""

import csv
import json
import re
from pathlib import Path

import pytest
from tables import near, table_rows

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MEAN = ("STS12", "STS14", "STS15", "STS-B")
REPORTS = {
    "static-minilm": ROOT / "src/contrastive_st/static-minilm/evaluation/report.json",
    "minilm-1-layer": ROOT / "model_cards/minilm-1-layer/evaluation/report.json",
}
IN_REPORTS = {"STSB": "STS-B", "quora_test": "QQP"}


@pytest.fixture(scope="module")
def figures():
    """`{model: {set: (value, digits)}}`; the mean of four is that of the values."""
    found = {}
    with open(ROOT / "docs/small_models.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            assert row["set"] not in found.setdefault(row["model"], {}), row
            found[row["model"]][row["set"]] = float(row["x100"])
    for own in found.values():
        if set(MEAN) <= set(own):
            own["mean"] = sum(own[name] for name in MEAN) / 4
    return found


def test_pages_print_the_figures_of_the_file(figures):
    checked = 0
    for page in PAGES:
        for _, label, cells in table_rows(page, lambda label, columns: "STS12" in columns):
            model = next((name for name in figures if label.startswith(name)), None)
            for column, cell in cells.items() if model else ():
                if re.fullmatch(r"\d+\.\d+", cell):
                    assert near(cell, figures[model][column]), (page.name, label, column, cell)
                    checked += 1
    assert checked >= 70


def test_published_means_are_those_of_the_file(figures):
    text = (ROOT / "docs/small_models.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| ([^|]+?) \| (\d+\.\d+) \|$", text, re.MULTILINE))
    published = {name: own["mean of 7"] for name, own in figures.items() if "mean of 7" in own}
    assert {name: float(table[name]) for name in published} == published


@pytest.mark.parametrize("model", REPORTS)
def test_reports_hold_the_same(figures, model):
    scores = json.loads(REPORTS[model].read_text(encoding="utf-8"))["scores"]
    main, checked = {"STS": "spearman", "QQP": "average_precision"}, 0
    for row in scores:
        name = IN_REPORTS.get(row["task"], row["task"])
        quoted = row["split"] != "dev" and row["metric"] == main.get(name[:3], "accuracy")
        if quoted and name in figures[model] and row["aggregation"] in ("all", "10 folds, nested"):
            assert near(f"{figures[model][name]:.2f}", 100 * row["value"]), row
            checked += 1
    assert checked == 10


def test_the_report_of_the_teacher_prints_the_same(figures):
    text = (ROOT / "docs/evaluation.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (\w+) \| ([^|]+) \| +\d+ \| (\d+\.\d+) \|$", text, re.MULTILINE)
    own, checked = figures["all-MiniLM-L6-v2"], 0
    for task, metric, value in cells:
        name = IN_REPORTS.get(task, task)
        if name in own and re.search(r"test spearman$|accuracy|average_precision", metric) and "best" not in metric:
            if name == "QQP" and "average_precision" not in metric:
                continue
            assert near(value, own[name]), (task, metric, value)
            checked += 1
    assert checked == 10


@pytest.mark.parametrize("page", ["README.md", "docs/what_holds.md"])
def test_quoted_means_are_those_of_the_file(figures, page):
    [line] = [
        line for line in (ROOT / page).read_text(encoding="utf-8").splitlines()
        if line.startswith(("| a model of 26 MiB, mean Spearman", "| static-minilm is within 4 points of its teacher"))
    ]  # fmt: skip
    for name in ("static-minilm", "all-MiniLM-L6-v2"):
        assert f"{figures[name]['mean']:.1f}" in line
