"""`Report`: the figures of a run as a table, JSON, Markdown, plots and model-card metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from transformers.utils import logging

from contrastive_st.evaluation.score import NOT_RUN, Figure
from contrastive_st.evaluation.tasks import Task, tasks

_COLUMNS = (
    "model", "task", "split", "metric", "aggregation", "value", "x100 +-", "n", "pooling", "max_length", "note"
)  # fmt: skip
AVERAGED = ("sts", "transfer")  # groups whose average papers quote


@dataclass
class Report:
    """Every figure of a run, in the order of models and tasks.

    Args:
        source: "files" or "hub".
        tasks: what was asked for.
        figures: what came out; a figure without a value says why in its note.
        histograms: of each model's similarities, by human score.
        failures: models that could not be evaluated, and why.
        seconds: wall time of each model; the only part of a report that differs from run to run.
    """

    source: str
    tasks: Sequence[Task]
    figures: list[Figure] = field(default_factory=list)
    histograms: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def models(self) -> list[str]:
        """Names of the models, in order."""
        return list(dict.fromkeys(figure.model for figure in self.figures))

    def main(self, model: str, task: Task) -> Figure:
        """The figure of a task to quote; without a value where it was not run."""
        own = [f for f in self.figures if f.model == model and f.task == task.name]
        empty = Figure(task.name, *task.main[:2], None, task.main[2], note="no such figure", model=model)
        return next((f for f in own if task.is_main(f)), own[0] if len(own) == 1 else empty)

    def average(self, model: str, group: str) -> Figure | None:
        """The mean of a group's quoted figures; over an incomplete set its note says what is missing.

        None where fewer than two of the group were asked for.
        """
        if group not in AVERAGED or sum(task.group == group for task in self.tasks) < 2:
            return None
        every = [self.main(model, task) for task in tasks().values() if task.group == group]
        found = [f for f in every if f.value is not None and not f.note]
        missing = [f.task for f in every if f not in found]
        note = f"over {len(found)} of {len(every)}, without {', '.join(missing)}" if missing else ""
        value = sum(f.value for f in found if f.value is not None) / len(found) if found else None
        n = sum(f.n for f in found)
        return Figure(
            f"{group} average", every[0].split, every[0].metric, value, "mean of tasks", n, note=note, model=model
        )

    def rows(self) -> list[list[Figure]]:
        """What a table shows: a row a quoted figure or average, a column a model."""
        listed: list[list[Figure]] = []
        for group in dict.fromkeys(task.group for task in self.tasks):
            for task in (task for task in self.tasks if task.group == group):
                listed += self._task_rows(task)
            averages = [self.average(model, group) for model in self.models]
            listed += [[f for f in averages if f is not None]] if averages and averages[0] else []
        return listed

    def _task_rows(self, task: Task) -> list[list[Figure]]:
        mains = [self.main(model, task) for model in self.models]
        if task.group not in ("space", "retrieval", "pairs"):
            return [mains]
        keys = dict.fromkeys((f.split, f.metric, f.aggregation) for f in self.figures if f.task == task.name)
        by = {(f.model, f.split, f.metric, f.aggregation): f for f in self.figures if f.task == task.name}
        return [[by.get((m, *key), Figure(task.name, *key[:2], None, key[2])) for m in self.models] for key in keys]

    def table(self) -> str:
        """Plain text, for a terminal."""
        lines = self._cells()
        widths = [max(len(row[i]) for row in lines) for i in range(len(lines[0]))]
        text = []
        for row in lines:
            padded = enumerate(zip(row, widths, strict=True))
            cells = [cell.ljust(w) if i < 3 else cell.rjust(w) for i, (cell, w) in padded]
            text.append("  ".join(cells).rstrip())
        return "\n".join([text[0], "-" * len(text[0]), *text[1:], *self._notes()])

    def markdown(self, plots: Mapping[str, Path] | None = None) -> str:
        """Markdown: the table, its notes, all figures below, and the plots by relative path."""
        head, *body = self._cells()
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * 3 + "--:|" * (len(head) - 3)]
        lines += ["| " + " | ".join(row) + " |" for row in body]
        lines += ["", *(f"{note}\n" for note in self._notes())]
        lines += [f"![{name}]({path.name})\n" for name, path in (plots or {}).items()]
        lines += ["<details><summary>All figures</summary>", "", "| " + " | ".join(_COLUMNS) + " |"]
        lines.append("|---" * len(_COLUMNS) + "|")
        for f in self.figures:
            row = {**f.as_row(), "value": f.text, "x100 +-": "" if f.deviation is None else f"{100 * f.deviation:.2f}"}
            lines.append("| " + " | ".join(str(row[name] or "") for name in _COLUMNS) + " |")
        return "\n".join([*lines, "", "</details>", ""])

    def json(self) -> str:
        """All of it as JSON; byte for byte the same for the same models and data but for `seconds`, its last entry."""
        averages = [self.average(m, g) for m in self.models for g in dict.fromkeys(t.group for t in self.tasks)]
        content = {
            "source": self.source,
            "figures": [figure.as_row() for figure in self.figures],
            "averages": [figure.as_row() for figure in averages if figure is not None],
            "failures": self.failures,
            "histograms": self.histograms,
            "seconds": {model: round(seconds, 3) for model, seconds in self.seconds.items()},
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    def save(self, folder: str | Path) -> list[Path]:
        """Write `report.json`, `report.md` and, where matplotlib is there, the plots; returns the paths."""

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        plots = draw(self, folder)
        (folder / "report.json").write_text(self.json(), encoding="utf-8")
        (folder / "report.md").write_text(self.markdown(plots), encoding="utf-8")
        return [folder / "report.json", folder / "report.md", *plots.values()]

    def _cells(self) -> list[list[str]]:
        rows = [["task", "metric", "n", *self.models]]
        for row in self.rows():
            some = next((f for f in row if f.value is not None), row[0])
            how = " ".join(
                dict.fromkeys(w for w in (some.split, some.metric, some.aggregation) if w not in ("", "all"))
            )
            rows.append([some.task, how, str(some.n or ""), *(figure.text for figure in row)])
        return rows

    def _notes(self) -> list[str]:
        settings = dict.fromkeys((f.model, f.pooling, f.max_length) for f in self.figures if f.pooling)
        lines = [f"{m}: {p} pooling, {f'{k} tokens' if k else 'its own length'}" for m, p, k in settings]
        by_note: dict[str, list[str]] = {}
        for figure in (f for row in self.rows() for f in row if f.note):
            if figure.model not in self.failures:
                kind = NOT_RUN if figure.value is None else "*"
                by_note.setdefault(f"{kind}: {figure.note}", []).append(figure.task)
        lines += [f"{model}: {NOT_RUN}: {why}" for model, why in self.failures.items()]
        lines += [f"{', '.join(dict.fromkeys(names))} {note}" for note, names in by_note.items()]
        return ["", "Correlations and shares x100; data: " + self.source, *lines]


# --- Plots of a report: scores by task, alignment against uniformity, few-shot curves, similarity by human score.

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
