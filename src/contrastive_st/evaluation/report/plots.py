"""Plots. matplotlib is an extra: without it nothing is drawn, and a line in the log says so."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)


def training_curve(log_history: Sequence[dict[str, Any]], path: str | Path) -> Path | None:
    """Draw the loss, the in-batch accuracy and every evaluation figure of a run over its steps.

    Args:
        log_history: `trainer.state.log_history`.
        path: the PNG to write.

    Returns:
        The path, or None where matplotlib is missing or there is nothing to draw.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        logger.warning("no training curve: matplotlib is not installed (pip install contrastive-st[plots])")
        return None
    rows = [row for row in log_history if "loss" in row]
    if not rows:
        return None
    evaluations = [row for row in log_history if any(_is_figure(name) for name in row)]
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    left = figure.subplots()
    left.plot([row["step"] for row in rows], [row["loss"] for row in rows], color="tab:blue", label="loss")
    left.set(xlabel="step", ylabel="loss", ylim=(0, None))
    right = left.twinx()
    right.set(ylabel="share", ylim=(0, 1))
    if all("accuracy" in row for row in rows):
        right.plot(
            [row["step"] for row in rows],
            [row["accuracy"] for row in rows],
            color="tab:gray",
            alpha=0.6,
            label="in-batch accuracy",
        )
    for i, name in enumerate(sorted({name for row in evaluations for name in row if _is_figure(name)})):
        points = [(row["step"], row[name]) for row in evaluations if name in row]
        right.plot(*zip(*points, strict=True), marker="o", color=f"C{i + 1}", label=name.removeprefix("eval_"))
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path)
    return Path(path)


def _is_figure(name: str) -> bool:
    return name.startswith("eval_") and not name.endswith(("_runtime", "_per_second", "_loss"))
