"""The map as a picture for the page: a dot a document that says its text when pointed at, the hits numbered.

It is drawn here and not by a plotting library: Gradio's own plots put no text beside a point, a picture by matplotlib
tells nothing when pointed at, and plotly's script weighs more than the rest of the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastive_st.search.analysis.projection import Map, colour, middles, spread
from contrastive_st.search.app.page_html import render
from contrastive_st.search.index import Hit, one_line

WIDTH, HEIGHT, _EDGE = 1200, 700, 24
_LETTER, _LINE = 8.2, 20  # of the names: at most so wide and high, in the picture's own units


def map_svg(layout: Map, hits: Sequence[Hit] = (), places: NDArray[np.float32] | None = None) -> str:
    """SVG of the map, with hits at `places` `[hits, 2]`, numbered as in their list."""
    low, high = layout.xy.min(0), layout.xy.max(0)
    scale = (np.array([WIDTH, HEIGHT]) - 2 * _EDGE) / np.maximum(high - low, 1e-9)

    def at(xy: NDArray[np.float32]) -> NDArray[np.float64]:
        """Places on the map in the picture's own units; the second axis points down."""
        return np.asarray(((xy - low) * scale + _EDGE) * [1, -1] + [0, HEIGHT])

    found = [] if places is None else list(at(places))
    dots = [
        _item(place, one_line(text, 300), colour=colour(int(label)))
        for place, text, label in zip(at(layout.xy), layout.sample.texts, layout.labels, strict=True)
    ]
    numbered = [
        _item(place, one_line(hit.text, 300), colour="", rank=rank)
        for rank, (hit, place) in enumerate(zip(hits, found, strict=True), 1)
    ]
    labels = list(middles(layout))
    sizes = [(_LETTER * len(name) + 8, _LINE) for name, _, _ in labels]
    frame, taken = (2, 2, WIDTH - 2, HEIGHT - 2), [(place, (20, 20)) for place in found]
    free = spread([at(place) for _, place, _ in labels], sizes, frame, taken)
    names = [_item(place, name) for (name, _, _), place in zip(labels, free, strict=True)]
    label = f"Map of {len(dots)} documents in {len(layout.names)} clusters: {', '.join(layout.names)}"
    return render("map", label, WIDTH, HEIGHT, dots, names, numbered)


def _item(place: NDArray[np.float64], text: str, **more: Any) -> dict[str, Any]:
    return {"x": f"{place[0]:.0f}", "y": f"{place[1]:.0f}", "text": text, **more}
