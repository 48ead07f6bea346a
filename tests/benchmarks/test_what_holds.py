"""The figures that `docs/what_holds.md` compares are those of the files of the commands that it names: C, Q, L."""

import csv
import re
import statistics
from collections import defaultdict
from pathlib import Path

import pytest
from scripts import load_comparison

ROOT = Path(__file__).parents[2]
SETS = ("STS12", "STS14", "STS15")
COLUMN = re.compile(r"mean STS|STS-B dev|\bdev\b|STS-B supervised|supervised STS-B|STS-B|\bSTS\b|MRPC|MR|CR|SST2|TREC")
NAMES = {"dev": "STS-B dev", "supervised STS-B": "STS-B supervised", "STS": "mean STS"}
FIGURE = re.compile(r"(?<![\w.±-])(?<!± )(?<!by )(?<!at )(?<!teacher )(\d+\.\d+)(?: ± (\d+\.\d+))?")
OTHER_RUNS = {"17.6", "26.0"}  # after a tenth of the steps: a run that no file keeps


def comparison(name):
    """Mean and standard deviation of every method of a file of the comparison, by column."""
    compare, _ = load_comparison()
    runs = defaultdict(lambda: defaultdict(list))
    with open(ROOT / "model_cards" / name, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["value"] and row["source"] == "measured":
                runs[row["method"]][row.get("seed")].append({**row, "value": float(row["value"])})
    found = defaultdict(list)
    for seeds in runs.values():
        results = [{"figures": figures} for figures in seeds.values()]
        columns = {
            name: compare.values_of(results, name) for name in ("MR", "CR", "SST2", "TREC", "MRPC", "STS-B", *SETS)
        }
        columns["STS-B supervised"] = compare.values_of(results, "STSB-supervised")
        columns["mean STS"] = [
            statistics.mean(values) for values in zip(*(columns[name] for name in SETS), strict=True)
        ]
        for column, values in columns.items():
            found[column] += [values] if values else []
    return found


def lift():
    """The runs of the better start, by column: those of one variant and rate together."""
    runs = defaultdict(lambda: defaultdict(list))
    with open(ROOT / "model_cards/simcse_lift.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for column in ("STS-B dev", "STS-B", "mean STS"):
                runs[column][row["variant"], row["learning_rate"]].append(float(row[column]))
    return {column: list(found.values()) for column, found in runs.items()}


def quoted(command):
    """Each figure of ours in the rows of a command: the row's claim, the column, the figure and what follows its ±."""
    for line in (ROOT / "docs/what_holds.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 5 or cells[3] != command or "minus" in cells[2]:
            continue
        column = None
        for found in re.finditer(f"{COLUMN.pattern}|{FIGURE.pattern}", f"{cells[0]}: {cells[2]}"):
            if found[1] is None:
                column = NAMES.get(found[0], found[0])
            elif found.start() > len(cells[0]) and column and found[1] not in OTHER_RUNS:
                yield cells[0], column, found[1], found[2]


def near(cell, value):
    """Whether a printed number is this value, to its own digits."""
    return abs(float(cell) - value) <= 0.5 * 10 ** -len(cell.partition(".")[2]) + 1e-6


@pytest.mark.parametrize(("command", "least"), [("C", 60), ("Q", 18), ("L", 25)])
def test_figures_are_those_of_the_files(command, least):
    """With three seeds (Q, L) the ± is their standard deviation and agrees; with one (C) it is that of the test set."""
    files = {"C": "comparison_one_seed.csv", "Q": "comparison.csv"}
    runs = comparison(files[command]) if command in files else lift()
    checked = 0
    for claim, column, figure, deviation in quoted(command):
        same = [own for own in runs[column] if near(figure, statistics.mean(own))]
        if deviation and command != "C":
            same = [own for own in same if len(own) > 1 and near(deviation, statistics.stdev(own))]
        assert same, (claim, column, figure, deviation)
        checked += 1
    assert checked >= least, checked
