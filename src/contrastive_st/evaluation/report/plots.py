"""Plots of the scores of a report, as PNG. They need matplotlib (extra `plots`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from contrastive_st.evaluation.scorers import Score
from contrastive_st.plots import can_draw, new_figure, png

_DRAW = re.compile(r"(?P<method>.+), (?P<size>\d+) a class")


def report_plots(
    rows: Sequence[Sequence[Score]], scores: Sequence[Score], histograms: Mapping[str, Mapping[str, Any]]
) -> dict[str, bytes]:
    """Draw the plots of a report.

    Args:
        rows: the rows of its table: a row per task, a column per model.
        scores: all of its scores.
        histograms: similarities by human score, for each model.

    Returns:
        PNG files by the name of the plot.
    """
    if not can_draw("no plots"):
        return {}
    drawn = {
        "scores by task": _by_task(rows),
        "alignment and uniformity": _space(scores),
        "few-shot": _few_shot(scores),
        "similarity by score": _similarity(histograms),
    }
    return {name: png(figure) for name, figure in drawn.items() if figure is not None}


def _by_task(rows: Sequence[Sequence[Score]]) -> Any:
    rows = [row for row in rows if any(f.value is not None for f in row)]
    rows = [row for row in rows if not row[0].task.endswith(("space", "few-shot")) and row[0].metric != "mse"]
    rows = list({row[0].task: row for row in reversed(rows)}.values())[::-1]  # the first score of each task
    if not rows:
        return None
    figure = new_figure()
    axes, width = figure.subplots(), 0.8 / len(rows[0])
    for i, item in enumerate(zip(*rows, strict=True)):
        axes.bar([x + i * width for x in range(len(rows))], [100 * (f.value or 0) for f in item], width,
                 label=item[0].model)  # fmt: skip
    labels = [row[0].task + ("*" if any(f.note for f in row) else "") for row in rows]
    axes.set_xticks([x + 0.4 - width / 2 for x in range(len(rows))], labels, rotation=45, ha="right", fontsize=8)
    axes.set(ylabel="x100", ylim=(0, 100))
    axes.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def _space(scores: Sequence[Score]) -> Any:
    result = {(f.model, f.metric): f.value for f in scores if f.task == "space" and f.value is not None}
    models = [model for model, metric in result if metric == "alignment" and (model, "uniformity") in result]
    if not models:
        return None
    figure = new_figure()
    axes = figure.subplots()
    for model in models:
        point = result[model, "uniformity"], result[model, "alignment"]
        axes.scatter(*point)
        axes.annotate(model, point, textcoords="offset points", xytext=(6, 4), fontsize=8)
    axes.margins(0.25)
    axes.set(xlabel="uniformity (lower is better)", ylabel="alignment (lower is better)")
    axes.grid(alpha=0.3)
    return figure


def _few_shot(scores: Sequence[Score]) -> Any:
    curves: dict[tuple[str, str, str], list[tuple[int, float, float]]] = {}
    for f in scores:
        match = _DRAW.match(f.aggregation)
        if f.task.endswith("-few-shot") and match and f.value is not None:
            key = f.task.removesuffix("-few-shot"), f.model, match["method"]
            curves.setdefault(key, []).append((int(match["size"]), 100 * f.value, 100 * (f.deviation or 0)))
    tasks = list(dict.fromkeys(task for task, _, _ in curves))
    if not tasks:
        return None
    figure, one_model = new_figure(), len({model for _, model, _ in curves}) == 1
    for axes, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        drawn = set()
        for (item, model, method), points in curves.items():
            label = method if method == "keywords" or one_model else f"{model}, {method}"
            if item == task and label not in drawn:
                drawn.add(label)
                axes.errorbar(*zip(*points, strict=True), marker="o", markersize=3, capsize=2, label=label)
        axes.set(xscale="log", xlabel="examples a class", ylabel="accuracy x100", title=task)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    return figure


def _similarity(histograms: Mapping[str, Mapping[str, Any]]) -> Any:
    if not histograms:
        return None
    figure = new_figure()
    panels = figure.subplots(1, len(histograms), squeeze=False, sharey=True)[0]
    for axes, (model, content) in zip(panels, histograms.items(), strict=True):
        centres = [(a + b) / 2 for a, b in pairwise(content["edges"])]
        for band, counts in content["counts"].items():
            share = [count / max(sum(counts), 1) for count in counts]
            axes.step(centres, share, where="mid", label=f"scored {band}")
        axes.set(xlabel=f"cosine similarity, {content['data']}", title=model)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("share of the pairs of that score")
    panels[0].legend(fontsize=7)
    return figure
