"""The comparison as a picture: classification and STS, measured and published, a pair of bars a method."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from contrastive_st.recipes.methods import Method

logger = logging.getLogger(__name__)


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
    from contrastive_st.recipes.compare_tables import value_of

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
