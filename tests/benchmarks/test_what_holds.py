"""The figures that `docs/what_holds.md` compares are those of the files of the commands that it names: C, Q, L, R."""

import csv
import re
import statistics
from collections import defaultdict
from pathlib import Path

import pytest
from scipy.stats import t
from scripts import load_comparison
from tables import near, table_rows

ROOT = Path(__file__).parents[2]
SETS = ("STS12", "STS14", "STS15")
COLUMN = re.compile(r"mean STS|STS-B dev|\bdev\b|STS-B supervised|supervised STS-B|STS-B|\bSTS\b|MRPC|MR|CR|SST2|TREC")
NAMES = {"dev": "STS-B dev", "supervised STS-B": "STS-B supervised", "STS": "mean STS"}
FIGURE = re.compile(
    r"(?<![\w.±-])(?<!± )(?<!by )(?<!at )(?<!gain )(?<!temperature )(?<!teacher )(\d+\.\d+)(?: ± (\d+\.\d+))?"
)
OTHER_RUNS = {"17.6", "26.0"}  # after a tenth of the steps: a run that no file keeps


def comparison(name):
    """The values of every method of a file of the comparison, one a seed, by column."""
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


def runs_of(path, columns, of):
    """The runs of a file, by column: those together that agree in the columns `of`."""
    runs = defaultdict(lambda: defaultdict(list))
    with open(ROOT / path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for column in columns:
                runs[column][tuple(value for name, value in row.items() if name in of)].append(float(row[column]))
    return {column: list(found.values()) for column, found in runs.items()}


def lift():
    """The runs of the better start."""
    return runs_of("model_cards/simcse_lift.csv", ("STS-B dev", "STS-B", "mean STS"), ("variant", "learning_rate"))


def raw_text():
    """The runs of the levers of QuickThoughts; all settings but the seed are those of a row."""
    path = "docs/raw_text_levers.csv"
    columns = (ROOT / path).read_text(encoding="utf-8").partition("\n")[0].split(",")
    figures = (*SETS, "mean STS", "STS-B", "cpu seconds")
    return runs_of(path, ("mean STS", "STS-B"), set(columns) - {"seed", *figures})


def interval(values):
    """Half the width of the 95% interval of the mean."""
    return t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5


def quoted(command):
    """Each figure of ours in the rows of a command: the row's claim, the column, the figure and what follows its ±."""
    for _, claim, cells in table_rows(ROOT / "docs/what_holds.md", lambda _, columns: "ours" in columns):
        if cells["command"] != command or "minus" in cells["ours"]:
            continue
        column = None
        for found in re.finditer(f"{COLUMN.pattern}|{FIGURE.pattern}", f"{claim}: {cells['ours']}"):
            if found[1] is None:
                column = NAMES.get(found[0], found[0])
            elif found.start() > len(claim) and column and found[1] not in OTHER_RUNS:
                yield claim, column, found[1], found[2]


FILES = {
    "C": lambda: comparison("comparison_one_seed.csv"), "Q": lambda: comparison("comparison.csv"),
    "L": lift, "R": raw_text,
}  # fmt: skip


def same(figure, deviation, runs, spread):
    """Whether some of the runs have this mean and, of several seeds, this spread."""
    found = [own for own in runs if near(figure, statistics.mean(own))]
    return any(not deviation or (len(own) > 1 and near(deviation, spread(own))) for own in found)


@pytest.mark.parametrize(("command", "least"), [("C", 60), ("Q", 18), ("L", 25), ("R", 10)])
def test_figures_are_those_of_the_files(command, least):
    """With three seeds the ± is their standard deviation (Q, L) or the interval of their mean (R), and agrees."""
    runs, checked = FILES[command](), 0
    for claim, column, figure, deviation in quoted(command):
        spread = interval if command == "R" else statistics.stdev
        deviation = None if command == "C" else deviation  # of one seed: the error of the test set
        assert same(figure, deviation, runs[column], spread), (claim, column, figure, deviation)
        checked += 1
    assert checked >= least, checked


def test_results_quote_the_levers_of_quickthoughts():
    rows = table_rows(ROOT / "docs/results.md", lambda _, columns: "mean STS before" in columns)
    found = [figure for line, _, _ in rows for figure in re.findall(r"(\d+\.\d) ± (\d+\.\d)", line)]
    assert len(found) >= 6
    assert all(same(*figure, raw_text()["mean STS"], interval) for figure in found)
