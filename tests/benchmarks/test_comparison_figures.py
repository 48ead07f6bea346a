"""The rows of the comparison, wherever they are printed, are those of its files in `model_cards`."""

import csv
import re
import statistics
from pathlib import Path

import pytest
from scripts import load_comparison
from tables import table_rows

compare, methods = load_comparison()
EVERY, values_of = methods.EVERY, compare.values_of
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "model_cards/comparison.md", *sorted((ROOT / "docs").rglob("*.md"))]
SEEDS, ONE_SEED = (ROOT / "model_cards" / name for name in ("comparison.csv", "comparison_one_seed.csv"))
LEVERS = ROOT / "model_cards/comparison_levers.csv"
COSTS = ("learning rate", "texts", "seconds")


def figures(path):
    """What a file holds: `{(method, source): [{"figures": [...]} of each seed]}`."""
    found = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            row["value"] = float(row["value"]) if row["value"] else None
            runs = found.setdefault((row["method"], row["source"]), {})
            runs.setdefault(row.get("seed"), {"figures": []})["figures"].append(row)
    return {key: list(runs.values()) for key, runs in found.items()}


def key_of(label):
    """The method and the source of a row's label, or None where it is another table's."""
    label = label.strip().strip("*")
    source = "published" if label.endswith(", published") else "measured"
    label = label.removesuffix(", published").removesuffix(", all settings").removeprefix("QuickThoughts, ")
    label = re.sub(r"^window of (\d)$", r"context size \1", label)
    label = re.sub(r"^the BERT that the next \w+ start from$", "the BERT", label)
    names = {re.sub(r"^the BERT that .*", "the BERT", method.label): method.name for method in EVERY}
    return (names[label], source) if label in names else None


def printed(values, like):
    """Mean and standard deviation of the values, with as many digits as another cell."""
    digits = len(like.partition(" ")[0].partition(".")[2])
    deviation = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{deviation}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_printed_rows_are_those_of_the_files(page):
    """A row with deviations is one of three seeds, as all are that README and the results quote; others are of one."""
    known, levers, checked = {True: figures(SEEDS), False: figures(ONE_SEED)}, figures(LEVERS), 0
    for line, label, cells in table_rows(page, lambda label, columns: key_of(label)):
        key = key_of(label)
        assert "±" in line or page.name not in ("README.md", "results.md")
        of = (
            levers
            if label.strip().endswith(", all settings")
            else known["±" in line or (key in known[True] and key[1] == "published")]
        )
        runs = of[key]
        for column, cell in cells.items():
            if column in COSTS or not re.fullmatch(r"-?\d+\.\d+( ± \d+\.\d+)?", cell):  # "not run", or empty
                continue
            if key[1] == "published":
                values = [100 * row["value"] for row in runs[0]["figures"] if row["task"] == column]
            else:
                values = values_of(runs, column)
            assert cell == printed(values, cell), f"{column}: {values} in the file, {line}"
            checked += 1
    assert checked >= 300 or page.name != "comparison.md"


def test_quoted_rows_have_three_seeds_and_one_protocol():
    """Each method of the file of seeds has the same three seeds, and a learning rate of the same grid."""
    runs = figures(SEEDS)
    measured = {method: found for (method, source), found in runs.items() if source == "measured"}
    assert len(measured) >= 4
    for found in measured.values():
        assert [run["figures"][0]["seed"] for run in found] == ["0", "1", "2"]
        assert len({run["figures"][0]["learning_rate"] for run in found}) == 1


@pytest.mark.parametrize(("page", "least"), [("simcse.md", 8), ("results.md", 2)])
def test_the_runs_of_simcse_lift_are_those_of_its_file(page, least):
    """Mean and standard deviation over the seeds, of the learning rate that the row names."""
    runs, shown = {}, {}
    with open(ROOT / "model_cards/simcse_lift.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            runs.setdefault((row["variant"], row["learning_rate"] and float(row["learning_rate"])), []).append(row)

    def run_of(label):
        variant, rate = re.fullmatch(r"(.*?)(?: \(([\d.]+(?:e-\d+)?)\))?", label).groups()
        return variant, float(rate) if rate else ""

    for _, label, cells in table_rows(ROOT / "docs" / page, lambda label, columns: run_of(label) in runs):
        shown[run_of(label)] = cells
    assert len(shown) >= least
    for key, found in shown.items():
        for column, cell in found.items():
            assert cell == printed([float(row[column]) for row in runs[key]], cell), (key, column)
