"""`Report`: the figures of a run as a table, JSON, Markdown, plots and model-card metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contrastive_st.evaluation.figures import NOT_RUN, Figure
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
        from contrastive_st.evaluation.report_plots import draw

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
