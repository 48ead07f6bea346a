"""Plots as PNG: the training curve, and what every plot needs. They need matplotlib (extra `plots`)."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from transformers.utils import logging

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import LayoutEngine

logger = logging.get_logger(__name__)


def training_curve_png(log_history: Sequence[Mapping[str, Any]]) -> bytes | None:
    """A PNG of a run over its steps: losses on the left axis; in-batch accuracy and evaluation metrics on the right.

    Args:
        log_history: `trainer.state.log_history`.

    Returns:
        The content of the file, or None if matplotlib is missing or there is nothing to draw.
    """
    is_loss = lambda name: name == "loss" or name.endswith("_loss")
    named = {name for row in log_history for name in row if name.startswith("eval_")}
    evaluated = {name for name in named if not name.endswith(("_runtime", "_per_second"))}
    curves = {}  # the points of each line, losses first
    for name in ["loss", *sorted(evaluated, key=lambda name: (not is_loss(name), name)), "accuracy"]:
        if rows := [row for row in log_history if name in row and (name != "accuracy" or "loss" in row)]:
            curves[name] = [(row["step"], row[name]) for row in rows]
    losses = {name: points for name, points in curves.items() if is_loss(name)}
    if not losses or not can_draw("no training curve"):
        return None
    figure = new_figure(8, 4.5, 120)
    left = figure.subplots()
    left.set(xlabel="step", ylabel="loss")
    right = left.twinx() if len(curves) > len(losses) else None
    for i, (name, points) in enumerate(curves.items()):
        style: dict[str, object] = {"color": f"C{i}", "label": name.removeprefix("eval_")}
        if name.startswith("eval_"):
            style["marker"] = "o"
        style["label"] = {"loss": "training loss", "eval_loss": "validation loss"}.get(name, style["label"])
        if name == "accuracy":
            style |= {"color": "tab:gray", "alpha": 0.6, "label": "in-batch accuracy"}
        axes: Any = left if name in losses else right
        axes.plot(*zip(*points, strict=True), **style)
    if right is not None:
        right.set(ylabel="metric")
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    return png(figure)


# --- What every plot needs.


def can_draw(otherwise: str) -> bool:
    """Whether matplotlib is installed; if not, logs a warning with `otherwise`, such as "no plots"."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        logger.warning(f"{otherwise}: matplotlib is not installed (pip install contrastive-st[plots])")
        return False
    return True


def new_figure(
    width: float = 7.5,
    height: float = 4,
    dpi: int = 90,
    layout: LayoutEngine | Literal["constrained", "compressed", "tight"] | None = "constrained",
) -> Figure:
    """An empty plot of matplotlib, in inches, which is drawn without a screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing

    figure = Drawing(figsize=(width, height), dpi=dpi, layout=layout)
    FigureCanvasAgg(figure)
    return figure


def png(figure: Any) -> bytes:
    """The plot as a PNG file."""
    for text in figure.findobj(lambda artist: hasattr(artist, "set_parse_math")):
        text.set_parse_math(False)  # dollar signs in a name are not a formula
    content = io.BytesIO()
    figure.savefig(content)
    return content.getvalue()
