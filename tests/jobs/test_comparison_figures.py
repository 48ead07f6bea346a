"""The rows of the comparison, wherever they are printed, are those of `model_cards/comparison.csv`."""

import csv
import re
import statistics
from pathlib import Path

import pytest

from contrastive_st.jobs.compare import values_of
from contrastive_st.jobs.methods import EVERY

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "model_cards/comparison.md", *sorted((ROOT / "docs").rglob("*.md"))]


def figures():
    """What the file holds: `{(method, source): {"figures": [...]}}`."""
    found = {}
    with open(ROOT / "model_cards/comparison.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            row["value"] = float(row["value"]) if row["value"] else None
            found.setdefault((row["method"], row["source"]), {"figures": []})["figures"].append(row)
    return found


def key_of(label):
    """The method and the source of a row's label, or None where it is another table's."""
    label = label.strip().strip("*")
    source = "published" if label.endswith(", published") else "measured"
    label = label.removesuffix(", published").removeprefix("QuickThoughts, ")
    label = re.sub(r"^window of (\d)$", r"context size \1", label)
    label = re.sub(r"^the BERT that the next \w+ start from$", "the BERT", label)
    names = {re.sub(r"^the BERT that .*", "the BERT", method.label): method.name for method in EVERY}
    return (names[label], source) if label in names else None


def rows(page):
    """The rows of methods on a page: the line, its key, and its cells by column."""
    columns = []
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().strip("*") for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            columns = []
        elif not columns:
            columns = cells[1:]
        elif key_of(cells[0]):
            yield line, key_of(cells[0]), dict(zip(columns, cells[1:], strict=True))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_printed_rows_are_those_of_the_file(page):
    known, checked = figures(), 0
    for line, key, cells in rows(page):
        for column, cell in cells.items():
            if not re.fullmatch(r"-?\d+\.\d+", cell):  # costs, and what was not run
                continue
            if key[1] == "published":
                [value] = [100 * row["value"] for row in known[key]["figures"] if row["task"] == column]
            else:
                [value] = values_of([known[key]], column)
            digits = len(cell.partition(".")[2])
            assert abs(float(cell) - value) <= 0.5001 * 10**-digits, f"{column}: {value:.4f} in the file, {line}"
            checked += 1
    assert checked >= 300 or page.name != "comparison.md"


def test_the_table_of_the_simcse_page_is_that_of_its_runs():
    """Mean and standard deviation over the seeds, of the learning rate that the row names."""
    runs, shown = {}, {}
    with open(ROOT / "model_cards/simcse_lift.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            runs.setdefault((row["variant"], row["learning_rate"] and float(row["learning_rate"])), []).append(row)
    for line in (ROOT / "docs/simcse.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| 100 steps |"):
            columns = cells[1:]
        variant, rate = re.fullmatch(r"(.*?)(?: \(([\d.e-]+)\))?", cells[0]).groups()
        if (key := (variant, float(rate) if rate else "")) in runs:
            shown[key] = dict(zip(columns, cells[1:], strict=True))
    assert len(shown) >= 8
    for key, found in shown.items():
        for column, cell in found.items():
            values = [float(row[column]) for row in runs[key]]
            digits = len(cell.split(" ±")[0].partition(".")[2])
            deviation = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
            assert cell == f"{statistics.mean(values):.{digits}f}{deviation}", (key, column)
