"""What `compare` found: Markdown tables, one CSV file, and a picture; published metrics beside the measured ones."""

from __future__ import annotations

import csv
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contrastive_st.jobs.methods import (
    CONTEXT_COLUMNS,
    CONTEXT_METHODS,
    FIGURE_OF,
    LOSS_COLUMNS,
    LOSS_METHODS,
    SYSTEM_COLUMNS,
    Method,
)

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
