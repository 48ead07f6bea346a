"""Train each method on the same budget and compare the metrics with published ones.

    python benchmarks/compare.py --only untrained next counts --seeds 0 1 2 --data DATA

Without data it trains on the documentation of the installed Python packages. Existing models are not trained again.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive_st.commands import Parser, run
from contrastive_st.errors import InputError
from contrastive_st.files.reading import read_json
from methods import (
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
)

if TYPE_CHECKING:
    from contrastive_st.evaluation.tasks import Task


logger = logging.getLogger("contrastive_st.benchmarks.compare")
MISSING = "not run"


Results = list[dict[str, Any]]  # of one method, a result for each seed


def tables(methods: Sequence[Method], figures: dict[str, Results]) -> str:
    """The tables: measured rows with the published row below, if any; and all methods in one table, with their cost."""
    parts = []
    for title, rows, columns in (
        ("Losses", [m for m in methods if m in LOSS_METHODS], LOSS_COLUMNS),
        ("Context size", [m for m in methods if m in CONTEXT_METHODS], CONTEXT_COLUMNS),
    ):
        if rows:
            columns = [*columns, *other_columns(rows, figures, columns)]
            parts.append(_table(title, rows, figures, columns, with_published=True))
    known = [name for name in SYSTEM_COLUMNS if any(values_of(figures[m.name], name) for m in methods)]
    columns = known or other_columns(methods, figures, [])
    parts.append(_table("Method", methods, figures, columns))
    return "\n\n".join(parts)


def _table(
    title: str,
    methods: Sequence[Method],
    figures: dict[str, Results],
    columns: Sequence[str],
    with_published: bool = False,
) -> str:
    cost = [] if with_published else ["learning rate", "texts", "seconds"]
    lines = [f"| {title} | {' | '.join([*columns, *cost])} |", "|---|" + "---:|" * (len(columns) + len(cost))]
    for method in methods:
        found = figures[method.name]
        cells = row_of(found, columns)
        if cost:
            seconds = statistics.mean(result["run"].get("seconds", 0) for result in found)
            cells += [
                f"{found[0]['learning_rate']:g}",
                f"{found[0]['run'].get('texts_encoded', 0):,}",
                f"{seconds:.0f}",
            ]
        lines.append(f"| {method.label} | {' | '.join(cells)} |")
        if with_published and method.published:
            theirs = [f"*{method.published[name]:.2f}*" if name in method.published else "" for name in columns]
            lines.append(f"| *{method.label}, published* | {' | '.join(theirs)} |")
    return "\n".join(lines)


def values_of(results: Results, column: str) -> list[float]:
    """The results of one column, x100, one per seed; none if it was not run."""
    wanted = FIGURE_OF.get(column, (column, None, None))
    found = []
    for result in results:
        for figure in result["figures"]:
            name = figure["task"], figure["metric"], figure["aggregation"]
            asked = name == wanted or (name[0] == wanted[0] and wanted[1] in (None, name[1]) and not wanted[2])
            if asked and figure["split"] != "dev":
                found += [] if figure["value"] is None else [100 * figure["value"]]
                break
    return found


def row_of(results: Results, columns: Sequence[str]) -> list[str]:
    """The cells of one measured row: the mean over the seeds, and their standard deviation."""
    return [cell_of(values_of(results, column)) for column in columns]


def cell_of(values: Sequence[float], digits: int = 2) -> str:
    """Mean and standard deviation as text of a table cell.

    Example:
        >>> cell_of([61.0, 63.0]), cell_of([61.0]), cell_of([])
        ('62.00 ± 1.41', '61.00', 'not run')
    """
    if not values:
        return MISSING
    deviation = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{deviation}"


def other_columns(methods: Sequence[Method], figures: dict[str, Results], columns: Sequence[str]) -> list[str]:
    """Tasks that were run and are in no published table."""
    known = {FIGURE_OF.get(column, (column,))[0] for column in columns}
    run = [f["task"] for m in methods for f in figures[m.name][0]["figures"] if f["value"] is not None]
    return [task for task in dict.fromkeys(run) if task not in known and task not in ("STSB", "SICKR")]


def write_csv(path: Path, methods: Sequence[Method], figures: dict[str, Results]) -> None:
    """One line per method, task and seed, and one per published result."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        of_run = ["seed", "learning_rate", "texts", "seconds"]
        writer.writerow(["method", "source", *of_run, "task", "split", "metric", "aggregation", "value"])
        for method in methods:
            for result in figures[method.name]:
                run = [result["seed"], result["learning_rate"], result["run"].get("texts_encoded"),
                       result["run"].get("seconds")]  # fmt: skip
                for figure in result["figures"]:
                    row = [figure[name] for name in ("task", "split", "metric", "aggregation", "value")]
                    writer.writerow([method.name, "measured", *run, *row])
            for column, value in method.published.items():
                writer.writerow([method.name, "published", "", "", "", "", column, "", "", "", value / 100])


def draw(methods: Sequence[Method], figures: dict[str, Results], path: Path) -> Path | None:
    """Write a PNG with two panels, classification and STS, that show the means over the tasks that were run.

    A published bar is the mean over the same tasks. Returns None if matplotlib is missing or nothing was run.
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
        title: [name for name in names if all(values_of(figures[m.name], name) for m in methods)]
        for title, names in panels.items()
    }
    run = {title: names for title, names in run.items() if names}
    if not run:
        return None
    figure = Figure(figsize=(5 * len(run) + 1.5, 0.45 * len(methods) + 1.4), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    for axis, (title, names) in zip(np.atleast_1d(figure.subplots(1, len(run), sharey=True)), run.items(), strict=True):
        ours = [float(np.mean([values_of(figures[m.name], name) for name in names])) for m in methods]
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
TASKS_TO_CHOOSE_BY = "STSB"


def main(argv: Sequence[str] | None = None) -> str:
    """Run the comparison; return the tables as Markdown."""
    args, extra = _parser().parse_known_args(argv)
    if "--seed" in extra:
        raise InputError("--seed is not an option of compare; give --seeds")
    output, methods = Path(args.output_dir), chosen(args.only)
    logging.getLogger("contrastive_st").setLevel(logging.INFO)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    from contrastive_st.evaluation.suite import load
    from contrastive_st.evaluation.tasks import chosen as tasks_named

    if args.data:
        load(tasks_named(TASKS, 10), args.data)  # checked before hours of training
    asked = {
        method.name: [
            *flags_of(method, args.scale, args.data, args.train_file or (), args.encoder, args.teacher), *extra,
        ]
        for method in methods
    }  # fmt: skip
    for name, flags in asked.items():
        for folder in output.joinpath(name).glob("*"):
            if (found := found_in(folder)) and found["flags"][: len(flags)] != flags:
                raise InputError(
                    f"{folder} has a method trained with other flags; choose another --output_dir, or remove it"
                )
    figures = {method.name: measured(method, output / method.name, asked[method.name], args) for method in methods}
    text = tables(methods, figures)
    command = "python benchmarks/compare.py " + " ".join(sys.argv[1:] if argv is None else argv)
    output.joinpath("table.md").write_text(f"{text}\n\nMade by `{command.strip()}`.\n", encoding="utf-8")
    write_csv(output / "table.csv", methods, figures)
    drawn = draw(methods, figures, output / "table.png")
    print(text)
    print(f"tables in {output}/table.md and table.csv" + (f", drawn in {drawn}" if drawn else ""))
    return text


def measured(method: Method, folder: Path, flags: list[str], args: argparse.Namespace) -> Results:
    """A result for each seed, at the method's own learning rate or at the best one of the grid.

    Each rate of the grid is tried with the first seed on a tenth of the steps; `dev_of` says which is the best.
    """
    seeds = [["--seed", str(seed)] for seed in args.seeds]
    if args.learning_rates and "--max_steps" not in method.flags:  # a method without training has no learning rate
        tried = {}
        for rate in args.learning_rates:
            own = folder / f"rate-{rate:g}"
            shorter = [*flags, *seeds[0], *_tenth(flags), "--learning_rate", f"{rate:g}"]
            tried[rate] = dev_of(method, own, measure(method, own, shorter, args.data, TASKS_TO_CHOOSE_BY))
        best = max(tried, key=lambda rate: tried[rate])
        words = ", ".join(f"{rate:g} {value:.3f}" for rate, value in tried.items())
        logger.info(f"{method.label}: learning rate {best:g}; on dev at a tenth of the steps: {words}")
        flags = [*flags, "--learning_rate", f"{best:g}"]
    names = [f"seed-{seed}" for seed in args.seeds]
    return [measure(method, folder / name, [*flags, *own], args.data) for name, own in zip(names, seeds, strict=True)]


def _tenth(flags: Sequence[str]) -> list[str]:
    if "--max_steps" in flags:
        steps = max(i for i, flag in enumerate(flags) if flag == "--max_steps")
        return ["--max_steps", str(max(int(flags[steps + 1]) // 10, 1))]
    return ["--num_train_epochs", "0.1"]


def dev_of(method: Method, folder: Path, result: dict[str, Any]) -> float:
    """The score by which a learning rate is chosen, higher is better; the lowest if the model has none.

    It is STS-B dev, or without data the dev part of the documentation task. For QuickThoughts it is minus the training
    loss: a GRU of random weights has a higher STS than one after a tenth of the steps, so STS would choose the rate
    that changes it least.
    """
    if method.script == "quickthoughts":
        return -float(read_json(folder / "trainer_state.json", dict)["log_history"][-1]["train_loss"])
    values = [figure["value"] for figure in result["figures"] if figure["split"] == "dev"]
    return values[0] if values and values[0] is not None else -1.0


def measure(method: Method, folder: Path, flags: Sequence[str], data: str | None, tasks: str = TASKS) -> dict[str, Any]:
    """Train and evaluate one method, or read its earlier results."""
    if before := found_in(folder):
        logger.info(f"{method.label}: measured before, in {folder}")
        return before
    from contrastive_st.evaluation.suite import evaluate
    from contrastive_st.scripts.cli import train
    from contrastive_st.training.metadata import read_training_metadata

    logger.info(f"{method.label}: training, {folder.name}")
    if train([method.script, *flags, "--output_dir", str(folder), "--overwrite_output_dir", "true"]):
        raise InputError(f"{method.label} was not trained; the error is above")
    on, where = (tasks, data) if data else (documentation_tasks(), "hub")
    report = evaluate([folder], on, where, names=[method.label])
    about = read_training_metadata(folder)
    result = {
        "flags": list(flags),
        "seed": about["seed"],
        "learning_rate": about["hyper_parameters"]["learning_rate"],
        "run": about["run"],
        "figures": [figure.as_row() for figure in report.scores],
    }
    folder.joinpath(FIGURES).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def found_in(folder: Path) -> dict[str, Any] | None:
    """The results of a method in a folder, if its training was finished."""
    found = folder / FIGURES
    return json.loads(found.read_text(encoding="utf-8")) if found.is_file() else None


def documentation_tasks() -> list[Task]:
    """The tasks without data: predict the package of a paragraph of the documentation."""
    from contrastive_st.data import installed_docs, split_pairs
    from contrastive_st.data.docs_sets import HELDOUT
    from contrastive_st.evaluation.docs_search import package_task

    return [package_task(split_pairs(installed_docs(), HELDOUT)[1])]


def chosen(names: Sequence[str] | None) -> list[Method]:
    """Methods by name; all without names."""
    known = {method.name: method for method in EVERY}
    if unknown := [name for name in names or () if name not in known]:
        raise InputError(f"unknown method {', '.join(unknown)}; choose from {', '.join(known)}")
    return [method for name, method in known.items() if not names or name in names]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python benchmarks/compare.py",
        description="Compare methods; flags of transformers.TrainingArguments apply to all methods.",
    )
    parser.add_argument(
        "--scale", choices=SCALES, default="small", help="tiny: a few steps, to see it run; small: 240,000 texts each, "
        "minutes on two cores; full: the settings of the published tables, a GPU",
    )  # fmt: skip
    parser.add_argument("--only", nargs="+", metavar="METHOD", help=", ".join(method.name for method in EVERY))
    parser.add_argument(
        "--data", default=os.environ.get("CONTRASTIVE_ST_DATA"), help="folder with novels.parquet, wikipedia.parquet, "
        "nli/ and SentEval's files; the Python documentation replaces missing files",
    )  # fmt: skip
    parser.add_argument("--train_file", nargs="+", help="sentences in order, in place of the novels and Wikipedia")
    parser.add_argument(
        "--encoder", help="checkpoint or name that the BERT methods start from, such as one of examples/run_mlm.py; by "
        "default a small BERT from scratch",
    )  # fmt: skip
    parser.add_argument(
        "--teacher",
        help="checkpoint or name that the distilled methods learn from; by default out/demo/tuned, or TF-IDF",
    )
    parser.add_argument(
        "--seeds", nargs="+", type=int, default=[42], help="train each method with each (default: 42); tables have the "
        "mean and the standard deviation",
    )  # fmt: skip
    parser.add_argument(
        "--learning_rates", nargs="+", type=float, metavar="RATE", help="try these on a tenth of the steps and take "
        "the best on STS-B dev, for QuickThoughts by the loss (default: the method's own, see methods.py)",
    )  # fmt: skip
    parser.add_argument("--output_dir", default="out/compare", help="checkpoints, results and tables")
    return parser


if __name__ == "__main__":
    sys.exit(run(main))
