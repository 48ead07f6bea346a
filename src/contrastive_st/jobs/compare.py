"""Train each method on the same budget, and lay the metrics beside published ones."""

from __future__ import annotations

import argparse
import csv
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive_st.errors import InputError
from contrastive_st.jobs.methods import (
    CONTEXT_COLUMNS,
    CONTEXT_METHODS,
    EVERY,
    FIGURE_OF,
    LOSS_COLUMNS,
    LOSS_METHODS,
    SCALES,
    SYSTEM_COLUMNS,
    TASKS,
    Method,
    flags_of,
    job_of,
)
from contrastive_st.terminal import Parser

if TYPE_CHECKING:
    from contrastive_st.evaluation.tasks import Task


logger = logging.getLogger(__name__)
MISSING = "not run"


def tables(methods: Sequence[Method], figures: dict[str, Any]) -> str:
    """Measured rows, the published row below each that has one; and every method in one table, with its cost."""
    parts = []
    for title, rows, columns in (
        ("Losses", [m for m in methods if m in LOSS_METHODS], LOSS_COLUMNS),
        ("Context size", [m for m in methods if m in CONTEXT_METHODS], CONTEXT_COLUMNS),
    ):
        if rows:
            columns = [*columns, *other_columns(rows, figures, columns)]
            parts.append(_table(title, rows, figures, columns, with_published=True))
    known = [name for name in SYSTEM_COLUMNS if any(value_of(figures[m.name], name) for m in methods)]
    columns = known or other_columns(methods, figures, [])
    parts.append(_table("Method", methods, figures, columns))
    return "\n\n".join(parts)


def _table(
    title: str, methods: Sequence[Method], figures: dict[str, Any], columns: Sequence[str], with_published: bool = False
) -> str:
    cost = [] if with_published else ["texts", "seconds"]
    lines = [f"| {title} | {' | '.join([*columns, *cost])} |", "|---|" + "---:|" * (len(columns) + len(cost))]
    for method in methods:
        found = figures[method.name]
        cells = row_of(found, columns)
        if cost:
            cells += [f"{found['run'].get('texts_encoded', 0):,}", f"{found['run'].get('seconds', 0):.0f}"]
        lines.append(f"| {method.label} | {' | '.join(cells)} |")
        if with_published and method.published:
            theirs = [f"*{method.published[name]:.2f}*" if name in method.published else "" for name in columns]
            lines.append(f"| *{method.label}, published* | {' | '.join(theirs)} |")
    return "\n".join(lines)


def value_of(result: dict[str, Any], column: str) -> float | None:
    """The figure of one column, x100; None where it was not run."""
    wanted = FIGURE_OF.get(column, (column, None, None))
    for figure in result["figures"]:
        if figure["split"] == "dev":
            continue
        task, metric, aggregation = figure["task"], figure["metric"], figure["aggregation"]
        if (task, metric, aggregation) == wanted or (
            task == wanted[0] and wanted[1] in (None, metric) and not wanted[2]
        ):
            return None if figure["value"] is None else 100 * figure["value"]
    return None


def row_of(result: dict[str, Any], columns: Sequence[str]) -> list[str]:
    """The cells of one measured row."""
    values = [value_of(result, column) for column in columns]
    return [MISSING if value is None else f"{value:.2f}" for value in values]


def other_columns(methods: Sequence[Method], figures: dict[str, Any], columns: Sequence[str]) -> list[str]:
    """Tasks that were run and are in no published table."""
    known = {FIGURE_OF.get(column, (column,))[0] for column in columns}
    run = [f["task"] for m in methods for f in figures[m.name]["figures"] if f["value"] is not None]
    return [task for task in dict.fromkeys(run) if task not in known and task not in ("STSB", "SICKR")]


def write_csv(path: Path, methods: Sequence[Method], figures: dict[str, Any]) -> None:
    """One line a method, task and source (measured or published)."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["method", "source", "task", "split", "metric", "aggregation", "value"])
        for method in methods:
            for figure in figures[method.name]["figures"]:
                row = [figure[name] for name in ("task", "split", "metric", "aggregation", "value")]
                writer.writerow([method.name, "measured", *row])
            for column, value in method.published.items():
                writer.writerow([method.name, "published", column, "", "", "", value / 100])


def draw(methods: Sequence[Method], figures: dict[str, Any], path: Path) -> Path | None:
    """Write a PNG with one panel for classification and one for STS: means over the tasks that were run.

    A published bar is the mean over the same tasks. None where matplotlib is missing or nothing was run.
    """
    import numpy as np

    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        logger.warning("no picture: matplotlib is not installed (pip install contrastive-st[plots])")
        return None

    panels = {"classification accuracy": ("MR", "SUBJ", "CR", "MPQA"), "STS, Pearson x100": tuple(
        f"STS{year}" for year in range(12, 17))}  # fmt: skip
    run = {
        title: [name for name in names if all(value_of(figures[m.name], name) is not None for m in methods)]
        for title, names in panels.items()
    }
    run = {title: names for title, names in run.items() if names}
    if not run:
        return None
    figure = Figure(figsize=(5 * len(run) + 1.5, 0.45 * len(methods) + 1.4), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    for axis, (title, names) in zip(np.atleast_1d(figure.subplots(1, len(run), sharey=True)), run.items(), strict=True):
        ours = [float(np.mean([value_of(figures[m.name], name) for name in names])) for m in methods]
        places = np.arange(len(methods))[::-1]
        bars = axis.barh(places + 0.2, ours, 0.38, color="tab:blue", label="measured here")
        axis.bar_label(bars, fmt="%.1f", padding=2, fontsize=8)
        theirs = [(p, m) for p, m in zip(places, methods, strict=True) if all(name in m.published for name in names)]
        if theirs:
            means = [float(np.mean([m.published[name] for name in names])) for _, m in theirs]
            bars = axis.barh([p - 0.2 for p, _ in theirs], means, 0.38, color="tab:gray", label="published")
            axis.bar_label(bars, fmt="%.1f", padding=2, fontsize=8)
        axis.set(title=f"{title} ({', '.join(names)})", xlim=(0, 100))
        axis.set_yticks(places, [m.label for m in methods])
        axis.spines[["top", "right"]].set_visible(False)
    axis.legend(loc="lower right", frameon=False)
    figure.savefig(path)
    return path


FIGURES = "figures.json"


def main(argv: Sequence[str] | None = None) -> str:
    """Run the comparison; returns the tables as Markdown. A model that is there already is not trained again."""
    args, extra = _parser().parse_known_args(argv)
    output, methods = Path(args.output_dir), chosen(args.only)
    from contrastive_st.evaluation.suite import load
    from contrastive_st.evaluation.tasks import chosen as tasks_named
    from contrastive_st.jobs.job import say_what_happens

    say_what_happens()
    if args.data:
        load(tasks_named(TASKS, 10), args.data)  # before hours of training
    asked = {
        method.name: [
            *flags_of(method, args.scale, args.data, args.train_file or (), args.encoder, args.teacher), *extra,
        ]
        for method in methods
    }  # fmt: skip
    for name, flags in asked.items():
        if (found := found_in(output / name)) and found["flags"] != flags:
            raise InputError(
                f"{output / name} holds a method trained with other flags; choose another --output_dir, or remove it"
            )
    figures = {method.name: measure(method, output / method.name, asked[method.name], args.data) for method in methods}
    text = tables(methods, figures)
    command = "contrastive-st compare " + " ".join(sys.argv[1:] if argv is None else argv)
    output.joinpath("table.md").write_text(f"{text}\n\nMade by `{command.strip()}`.\n", encoding="utf-8")
    write_csv(output / "table.csv", methods, figures)
    drawn = draw(methods, figures, output / "table.png")
    print(text)
    print(f"tables in {output}/table.md and table.csv" + (f", drawn in {drawn}" if drawn else ""))
    return text


def measure(method: Method, folder: Path, flags: Sequence[str], data: str | None) -> dict[str, Any]:
    """Train and evaluate one method, or read what was found the last time."""
    if before := found_in(folder):
        logger.info(f"{method.label}: measured before, in {folder}")
        return before
    from contrastive_st.evaluation.suite import evaluate
    from contrastive_st.hub.metadata import read_training_metadata
    from contrastive_st.jobs.cli import train

    logger.info(f"{method.label}: training")
    train([job_of(method, flags), *flags, "--output_dir", str(folder), "--overwrite_output_dir", "true"])
    checkpoint = folder / method.checkpoint
    tasks, where = (TASKS, data) if data else (documentation_tasks(), "hub")
    report = evaluate([checkpoint], tasks, where, names=[method.label])
    result = {
        "flags": list(flags),
        "run": read_training_metadata(checkpoint)["run"],
        "figures": [figure.as_row() for figure in report.scores],
    }
    folder.joinpath(FIGURES).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def found_in(folder: Path) -> dict[str, Any] | None:
    """What was measured of the method in a folder, where it was trained to its end."""
    found = folder / FIGURES
    return json.loads(found.read_text(encoding="utf-8")) if found.is_file() else None


def documentation_tasks() -> list[Task]:
    """What is measured where there is no data: the package of a paragraph of the documentation."""
    from contrastive_st.data import installed_docs, split_pairs
    from contrastive_st.jobs.docs_search import HELDOUT, package_task

    return [package_task(split_pairs(installed_docs(), HELDOUT)[1])]


def chosen(names: Sequence[str] | None) -> list[Method]:
    """Methods by name; all without names."""
    known = {method.name: method for method in EVERY}
    if unknown := [name for name in names or () if name not in known]:
        raise InputError(f"unknown method {', '.join(unknown)}; choose from {', '.join(known)}")
    return [method for name, method in known.items() if not names or name in names]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="contrastive-st compare",
        description="Compare methods; any flag of transformers.TrainingArguments may follow and holds for every one.",
    )
    parser.add_argument(
        "--scale", choices=SCALES, default="small", help="tiny: a few steps, to see it run; small: 240,000 texts each, "
        "minutes on two cores; full: the settings of the published tables, a GPU",
    )  # fmt: skip
    parser.add_argument("--only", nargs="+", metavar="METHOD", help=", ".join(method.name for method in EVERY))
    parser.add_argument(
        "--data", default=os.environ.get("CONTRASTIVE_ST_DATA"), help="folder with novels.parquet, wikipedia.parquet, "
        "nli/ and SentEval's files; the Python documentation stands in for what is missing",
    )  # fmt: skip
    parser.add_argument("--train_file", nargs="+", help="sentences in order, in place of the novels and Wikipedia")
    parser.add_argument(
        "--encoder", help="checkpoint or name that the BERT methods start from, such as one of examples/run_mlm.py; by "
        "default a small BERT from scratch",
    )  # fmt: skip
    parser.add_argument(
        "--teacher", help="checkpoint or name that the distilled methods learn from; by default out/demo, or TF-IDF"
    )
    parser.add_argument("--output_dir", default="out/compare", help="checkpoints, figures and tables")
    return parser
