"""A figure that more than one page quotes stands in `docs/figures.csv`, and the pages quote it by name.

A table whose runs are in a file of their own (`docs/few_shot.csv` and others) is what that file gives.
"""

import collections
import csv
import re
import statistics

import pytest
from scripts import EXAMPLES, load

figures = load("figures", EXAMPLES.parent / "benchmarks")
ROWS = figures.read()
PAGES = {page.relative_to(figures.ROOT).as_posix(): page.read_text(encoding="utf-8") for page in figures.pages()}
MEASURE = re.compile(r"(?<![\w.])\d(?:[\d,.]*\d)?\*{0,2} ?(?:x|ms|GiB|rows/s|sentences/s)(?![\w/])")
SUMMARIES = {
    "README.md": ("## Measured", "## Read on"),
    "docs/results.md": ("## The demo", "## Methods"),
    "docs/what_holds.md": ("## This package's own claims", None),
}


def forms(row, topic):
    """How a row would be printed: its interval, or its value on a page of this topic; to its digits and to one."""
    for digits in {len(row["value"].partition(".")[2]), 1}:
        value, low, high = (row[end] and f"{float(row[end]):,.{digits}f}" for end in ("value", "low", "high"))
        if low:
            yield rf"(?<![\d.,]){low}(?: to |-){high}(?!\d)"
        elif row["unit"] and float(row["value"]) >= 1 and topic:
            yield rf"(?<![\d.,]){value} ?{row['unit']}(?![\w/])"
    if not row["unit"] and topic:
        yield rf"(?<![\d.,]){row['value']}(?![\d.])"


@pytest.mark.parametrize("page", PAGES)
def test_pages_quote_the_figures_of_the_file(page):
    """`python benchmarks/figures.py` would change nothing, and each name stands right behind a number."""
    assert figures.written(PAGES[page], ROWS) == PAGES[page]
    assert len(re.findall(r"<!--\s+[a-z][\w.]*\s+-->", PAGES[page])) == len(list(figures.names(PAGES[page])))


def test_each_row_is_quoted_by_more_than_one_page_or_place():
    counts = collections.Counter(name for text in PAGES.values() for name in figures.names(text))
    assert not [name for name in ROWS if counts[name] < 2]


@pytest.mark.parametrize("page", PAGES)
def test_no_figure_of_the_file_stands_without_its_name(page):
    topics = {name.partition(".")[0] for name in figures.names(PAGES[page])}
    rest = figures.QUOTED.sub("", PAGES[page])
    sought = [form for name, row in ROWS.items() for form in forms(row, name.partition(".")[0] in topics)]
    assert not [found[0] for form in sought if (found := re.search(form, rest))]


@pytest.mark.parametrize("page", SUMMARIES)
def test_each_measure_of_a_summary_has_a_name(page):
    """So a summary cannot keep the figure of a run whose table was measured again."""
    first, last = SUMMARIES[page]
    section = PAGES[page].partition(first)[2]
    section = figures.QUOTED.sub("", section.partition(last)[0] if last else section)
    lines = [line.rsplit("|", 2)[0] if line.startswith("|") else line for line in section.splitlines()]
    assert sum(line.startswith("|") for line in lines) > 5
    assert not [line for line in lines if MEASURE.search(line)]


def test_a_row_that_changes_is_written_with_the_digits_of_each_place():
    rows = {"a.b": {"value": "2.26", "low": "1.94", "high": "3.05", "unit": "x"}}
    rows |= {"c": {"value": "1234", "low": "", "high": "", "unit": "ms"}, "d": {**rows["a.b"], "value": "0.25"}}
    text = "5 **5.1 x** (4 to 5.22)<!-- a.b -->, 9 x<!-- a.b -->, 1.0 s<!-- c -->, 9,000\nms<!--\nc -->, 7%<!-- d -->"
    new = "5 **2.3 x** (2 to 3.05)<!-- a.b -->, 2 x<!-- a.b -->, 1.2 s<!-- c -->, 1,234\nms<!--\nc -->, 25%<!-- d -->"
    assert figures.written(text, rows) == new
    with pytest.raises(KeyError):
        figures.written("1<!-- e -->", rows)


def test_the_table_beside_setfit_is_that_of_its_file():
    study = load("few_shot", EXAMPLES.parent / "benchmarks")
    table = study.table(study.read(figures.ROOT / "docs/few_shot.csv"))
    assert table.count("\n") >= 5
    assert f"\n\n{table}\n\n" in PAGES["docs/classification.md"]


def test_an_encoder_from_raw_text_has_the_figures_of_its_file():
    """The rows of the page, and the mean that the summaries quote."""
    with open(figures.ROOT / "docs/raw_static.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    named = {row["row"]: [row] for row in rows} | {"trained": [row for row in rows if row["row"].startswith("seed")]}

    def cell(row, column):
        values = [float(own[column]) for own in named[row]]
        deviation = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
        return f"{statistics.mean(values):.1f}{deviation}"

    page = PAGES["docs/raw_text.md"].replace("*", "")
    sts = ("STS12", "STS14", "STS15", "STS-B", "SICKR", "mean", "STS-B dev")
    for row in ("TF-IDF of words", "TF-IDF of characters", "trained"):
        assert f"| {row} | {' | '.join(cell(row, column) for column in sts)} |" in page
    for name in ("README.md", "docs/results.md", "model_cards/comparison.md"):
        assert cell("trained", "mean") in PAGES[name].replace("*", "")
