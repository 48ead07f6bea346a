"""The map as a picture for the page: a dot a document that says its text when pointed at, the hits numbered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from contrastive_st.search.analysis.projection import Map, colour, middles, spread
from contrastive_st.search.analysis.topics import one_line
from contrastive_st.search.app.page_html import escape
from contrastive_st.search.index import Hit

WIDTH, HEIGHT, _EDGE = 1200, 700, 24
_LETTER, _LINE = 8.2, 20  # of the names: at most so wide and high, in the picture's own units
CSS = """
.map {width: 100%; height: auto; border: 1px solid var(--border-color-primary); border-radius: 8px}
.map circle {fill-opacity: .6}
.map circle:hover {fill-opacity: 1; stroke: var(--body-text-color)}
.map text {font-weight: 700; text-anchor: middle; dominant-baseline: central; pointer-events: none}
.map .name {font-size: 14px; fill: var(--body-text-color); paint-order: stroke; stroke-width: 5px;
  stroke: var(--body-background-fill); stroke-linejoin: round}
.map .hit circle {fill: var(--body-text-color); fill-opacity: 1}
.map .hit text {font-size: 12px; fill: var(--body-background-fill)}
"""


def map_svg(layout: Map, hits: Sequence[Hit] = (), places: NDArray[np.float32] | None = None) -> str:
    """SVG of the map, with hits at `places` `[hits, 2]`, numbered as in their list."""
    low, high = layout.xy.min(0), layout.xy.max(0)
    scale = (np.array([WIDTH, HEIGHT]) - 2 * _EDGE) / np.maximum(high - low, 1e-9)

    def at(xy: NDArray[np.float32]) -> NDArray[np.float64]:
        return ((xy - low) * scale + _EDGE) * [1, -1] + [0, HEIGHT]

    dots = [
        _dot(x, y, 4, one_line(text, 300), f' fill="{colour(int(label))}"')
        for (x, y), label, text in zip(at(layout.xy), layout.labels, layout.sample.texts, strict=True)
    ]
    found = [] if places is None else list(at(places))
    numbered = [
        f'<g class="hit">{_dot(x, y, 10, one_line(hit.text, 300))}{_text(x, y, str(rank))}</g>'
        for rank, hit, (x, y) in zip(range(1, len(hits) + 1), hits, found, strict=True)
    ]
    label = f"Map of {len(dots)} documents in {len(layout.names)} clusters: {', '.join(layout.names)}"
    return (
        f'<svg class="map" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
        f"{''.join(dots)}{''.join(_names(layout, at, found))}{''.join(numbered[::-1])}</svg>"  # the best hit on top
    )


def _names(
    layout: Map, at: Callable[[NDArray[np.float32]], NDArray[np.float64]], hits: Sequence[NDArray[np.float64]]
) -> list[str]:
    labels = list(middles(layout))
    sizes = [(_LETTER * len(name) + 8, _LINE) for name, _, _ in labels]
    places = spread(
        [at(place) for _, place, _ in labels], sizes, (2, 2, WIDTH - 2, HEIGHT - 2), [(hit, (20, 20)) for hit in hits]
    )
    return [_text(x, y, name, ' class="name"') for (name, _, _), (x, y) in zip(labels, places, strict=True)]


def _dot(x: float, y: float, radius: int, title: str, more: str = "") -> str:
    return f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{radius}"{more}><title>{escape(title)}</title></circle>'


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}"{more}>{escape(text)}</text>'
