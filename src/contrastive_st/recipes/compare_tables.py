"""What `compare` found, as Markdown tables and as one CSV file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contrastive_st.recipes import published
from contrastive_st.recipes.methods import CONTEXTS, OBJECTIVES, Method

MISSING = "not run"


def tables(methods: Sequence[Method], figures: dict[str, Any]) -> str:
    """Measured rows, the published row below each that has one; and every method in one table, with its cost."""
    parts = []
    for title, rows, columns in (
        ("Objectives", [m for m in methods if m in OBJECTIVES], published.OBJECTIVE_COLUMNS),
        ("Context size", [m for m in methods if m in CONTEXTS], published.CONTEXT_COLUMNS),
    ):
        if rows:
            columns = [*columns, *other_columns(rows, figures, columns)]
            parts.append(_table(title, rows, figures, columns, with_published=True))
    known = [name for name in published.SYSTEM_COLUMNS if any(value_of(figures[m.name], name) for m in methods)]
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
    wanted = published.FIGURE_OF.get(column, (column, None, None))
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
    known = {published.FIGURE_OF.get(column, (column,))[0] for column in columns}
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
