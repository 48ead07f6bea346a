"""Plots of a report: scores by task, alignment against uniformity, few-shot curves, similarity by human score."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers.utils import logging

if TYPE_CHECKING:
    from contrastive_st.evaluation.report import Report

logger = logging.get_logger(__name__)
_DRAW = re.compile(r"(?P<method>.+), (?P<size>\d+) a class")


def draw(report: Report, folder: str | Path) -> dict[str, Path]:
    """Draw what the report has figures for; names to the PNG files written. Without matplotlib a warning, and none."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        logger.warning("no plots: matplotlib is not installed (pip install contrastive-st[plots])")
        return {}
    written = {}
    for name, fill in _PLOTS.items():
        figure = Figure(figsize=(7.5, 4), dpi=90, layout="constrained")
        FigureCanvasAgg(figure)
        if fill(report, figure):
            path = Path(folder, f"{name.replace(' ', '_')}.png")
            figure.savefig(path)
            written[name] = path
    return written


def _scores(report: Report, figure: Any) -> bool:
    rows = [row for row in report.rows() if any(f.value is not None for f in row)]
    rows = [row for row in rows if not row[0].task.endswith(("space", "few-shot")) and row[0].metric != "mse"]
    rows = list({row[0].task: row for row in reversed(rows)}.values())[::-1]  # the first figure of each task
    if not rows:
        return False
    axes = figure.subplots()
    width = 0.8 / len(report.models)
    for i, model in enumerate(report.models):
        heights = [100 * (row[i].value or 0) for row in rows]
        axes.bar([x + i * width for x in range(len(rows))], heights, width, label=model)
    labels = [row[0].task + ("*" if any(f.note for f in row) else "") for row in rows]
    axes.set_xticks([x + 0.4 - width / 2 for x in range(len(rows))], labels, rotation=45, ha="right", fontsize=8)
    axes.set(ylabel="x100", ylim=(0, 100))
    axes.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return True


def _space(report: Report, figure: Any) -> bool:
    found = {(f.model, f.metric): f.value for f in report.figures if f.task == "space" and f.value is not None}
    models = [m for m in report.models if (m, "alignment") in found]
    if not models:
        return False
    axes = figure.subplots()
    for model in models:
        point = found[model, "uniformity"], found[model, "alignment"]
        axes.scatter(*point)
        axes.annotate(model, point, textcoords="offset points", xytext=(6, 4), fontsize=8)
    axes.margins(0.25)
    axes.set(xlabel="uniformity (lower is better)", ylabel="alignment (lower is better)")
    axes.grid(alpha=0.3)
    return True


def _few_shot(report: Report, figure: Any) -> bool:
    curves: dict[tuple[str, str, str], list[tuple[int, float, float]]] = {}
    for f in report.figures:
        match = _DRAW.match(f.aggregation)
        if f.task.endswith("-few-shot") and match and f.value is not None:
            key = f.task.removesuffix("-few-shot"), f.model, match["method"]
            curves.setdefault(key, []).append((int(match["size"]), 100 * f.value, 100 * (f.deviation or 0)))
    tasks = list(dict.fromkeys(task for task, _, _ in curves))
    if not tasks:
        return False
    for axes, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        drawn = set()
        for (own, model, method), points in curves.items():
            label = method if method == "keywords" or len(report.models) == 1 else f"{model}, {method}"
            if own != task or label in drawn:
                continue
            drawn.add(label)
            axes.errorbar(*zip(*points, strict=True), marker="o", markersize=3, capsize=2, label=label)
        axes.set(xscale="log", xlabel="examples a class", ylabel="accuracy x100", title=task)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    return True


def _similarity(report: Report, figure: Any) -> bool:
    if not report.histograms:
        return False
    panels = figure.subplots(1, len(report.histograms), squeeze=False, sharey=True)[0]
    for axes, (model, content) in zip(panels, report.histograms.items(), strict=True):
        edges = content["edges"]
        centres = [(a + b) / 2 for a, b in pairwise(edges)]
        for band, counts in content["counts"].items():
            share = [count / max(sum(counts), 1) for count in counts]
            axes.step(centres, share, where="mid", label=f"scored {band}")
        axes.set(xlabel=f"cosine similarity, {content['data']}", title=model)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("share of the pairs of that score")
    panels[0].legend(fontsize=7)
    return True


_PLOTS = {
    "scores by task": _scores,
    "alignment and uniformity": _space,
    "few-shot": _few_shot,
    "similarity by score": _similarity,
}
