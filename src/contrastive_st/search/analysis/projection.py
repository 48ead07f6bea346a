"""The 2-D map of an index: a sample of its documents, laid out by t-SNE, with the names of the clusters on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.manifold import TSNE

from contrastive_st.errors import require
from contrastive_st.plots import new_figure
from contrastive_st.search.analysis.topics import Trends
from contrastive_st.search.index import Sample, VectorIndex, sample
from contrastive_st.search.values import one_line
from contrastive_st.terminal import clean

POINTS = 2_000
COLOURS = (  # 16 colours that are distinct on white and on black; more clusters repeat them
    "#4477aa", "#ee6677", "#228833", "#b8941f", "#33a6cc", "#aa3377", "#8c6d31", "#7f7f7f",
    "#e6872c", "#5ab4ac", "#7b5ea7", "#c2185b", "#6a8f2f", "#a0522d", "#5c6bc0", "#d081b5",
)  # fmt: skip


@dataclass(frozen=True)
class Map:
    """A 2-D map of documents: near on the map means near in the embedding space; large distances mean little.

    Args:
        sample: the documents.
        xy: their positions, float32 `[n, 2]`.
        labels: their clusters `[n]`, indices into `names`.
        names: names of the clusters.
    """

    sample: Sample
    xy: NDArray[np.float32]
    labels: NDArray[np.int64]
    names: list[str]

    def place(self, vectors: NDArray[np.float32], neighbours: int = 3) -> NDArray[np.float32]:
        """Positions of other vectors `[m, d]`: the mean of the positions of their nearest sampled documents.

        Args:
            vectors: unit vectors `[m, d]`.
            neighbours: how many documents.

        Returns:
            float32 `[m, 2]`.
        """
        cosines = vectors @ self.sample.vectors.T
        near = np.argsort(-cosines, axis=1)[:, :neighbours]
        weights = np.maximum(np.take_along_axis(cosines, near, 1), 1e-6)[..., None] ** 8
        return np.asarray((self.xy[near] * weights).sum(1) / weights.sum(1))


def lay_out(index: VectorIndex, trends: Trends, points: int = POINTS, seed: int = 0) -> Map:
    """A map of at most `points` documents by t-SNE (van der Maaten & Hinton 2008), begun at the PCA.

    Args:
        index: the index.
        trends: its clusters.
        points: at most so many documents.
        seed: of the sample and of t-SNE.

    Returns:
        The map.
    """
    drawn = sample(index, points, seed)
    names = [cluster.name for cluster in trends.clusters]
    return Map(drawn, project(drawn.vectors, seed), trends.assign(drawn.vectors), names)


def project(vectors: NDArray[np.float32], seed: int = 0) -> NDArray[np.float32]:
    """Positions `[n, 2]` of unit vectors `[n, d]`; reproducible for the same vectors and seed.

    Args:
        vectors: unit vectors `[n, d]`.
        seed: of t-SNE.

    Returns:
        float32 `[n, 2]`.
    """
    n = len(vectors)
    if n < 5 or len(np.unique(vectors, axis=0)) < 5:  # too few points for t-SNE: put them on a circle
        angles = 2 * np.pi * np.arange(n) / n
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    # on unit vectors the squared Euclidean distance is 2 - 2 cosine: no other metric is needed
    layout = TSNE(perplexity=min(30, (n - 1) / 3), init="pca", random_state=seed, learning_rate="auto")
    return np.asarray(layout.fit_transform(vectors), dtype=np.float32)


def draw_map(layout: Map, path: str | Path, title: str | None = None) -> Path:
    """Write the map as a PNG, with the name of each cluster at its middle; names do not overlap.

    Args:
        layout: the map.
        path: a .png file.
        title: of the picture; by default it says how many documents there are.

    Returns:
        The path.

    Raises:
        InputError: matplotlib is not installed.
    """
    require("a picture", "plots", "matplotlib")
    figure = new_figure(11, 8, 110, None)
    axes = figure.add_axes((0.02, 0.13, 0.96, 0.80))
    axes.set(xticks=[], yticks=[])
    axes.margins(0.05)
    for label, name in enumerate(layout.names):
        rows = layout.labels == label
        share = f"{_plain(name, 44)} ({100 * rows.mean():.0f}%)"
        axes.scatter(
            layout.xy[rows, 0], layout.xy[rows, 1], s=12, alpha=0.6, linewidths=0, color=colour(label), label=share
        )
    shown, total = len(layout.xy), layout.sample.total
    of = f"{total:,} documents" if shown == total else f"{shown:,} of {total:,} documents"
    axes.set_title(title or f"Map of {of} (t-SNE: near on the map is near in meaning)", fontsize=12)
    place_labels(axes, list(middles(layout)))
    figure.legend(loc="lower center", ncols=4, fontsize=8, frameon=False, markerscale=2)
    figure.savefig(path)
    return Path(path)


def draw_sizes(trends: Trends, path: str | Path) -> Path:
    """Write a PNG of the share of each cluster among the documents of each value of the `by` column.

    Args:
        trends: the clusters, counted by a column.
        path: a .png file.

    Returns:
        The path.
    """
    counts = np.array([cluster.counts for cluster in trends.clusters], dtype=float)
    shares = 100 * counts / np.maximum(counts.sum(0), 1)
    figure = new_figure(3.5 + 0.42 * max(len(trends.values), 8), 1.9 + 0.34 * len(counts), 110)
    axes = figure.subplots()
    image = axes.imshow(shares, aspect="auto", cmap="Blues", vmin=0)
    axes.set_xticks(range(len(trends.values)), [_plain(v, 24) for v in trends.values], rotation=45, ha="right")
    axes.set_yticks(range(len(counts)), [_plain(cluster.name, 44) for cluster in trends.clusters])
    axes.tick_params(labelsize=8)
    axes.set_title(f"Share of each cluster by {_plain(str(trends.by), 60)}", fontsize=12)
    for (row, column), share in np.ndenumerate(shares):
        dark = share > 0.45 * shares.max()
        if share >= 0.5:
            ink = "w" if dark else "0.2"
            axes.text(column, row, f"{share:.0f}", ha="center", va="center", fontsize=7, color=ink)
    figure.colorbar(image, ax=axes, label="% of the documents in the column", pad=0.02)
    figure.savefig(path)
    return Path(path)


def place_labels(axes: Any, labels: Sequence[tuple[str, NDArray[np.float32], str]]) -> list[Any]:
    """Write (text, position, colour) on the axes, each as close to its position as possible without overlap.

    Returns:
        The matplotlib texts, in the same order.
    """
    renderer = axes.figure.canvas.get_renderer()
    frame = axes.get_window_extent(renderer)
    texts = [
        axes.text(0, 0, _plain(text, 40), fontsize=8, weight="bold", ha="center", va="center", color="0.1", zorder=4,
                  transform=None, bbox={"boxstyle": "round,pad=0.25", "fc": "white", "ec": ink, "alpha": 0.88})
        for text, _, ink in labels
    ]  # fmt: skip
    boxes = [text.get_window_extent(renderer).padded(6) for text in texts]
    targets = [axes.transData.transform(position) for _, position, _ in labels]
    places = spread(targets, [(box.width, box.height) for box in boxes], (frame.x0, frame.y0, frame.x1, frame.y1))
    for text, target, position, (_, _, ink) in zip(texts, targets, places, labels, strict=True):
        text.set_position(position)
        if np.linalg.norm(position - target) > 30:
            ends = axes.transData.inverted().transform([target, position])
            axes.plot(*ends.T, color=ink, linewidth=1, zorder=3, scalex=False, scaley=False)
    return texts


def spread(
    targets: Sequence[ArrayLike],
    sizes: Sequence[tuple[float, float]],
    frame: tuple[float, float, float, float],
    taken: Sequence[tuple[ArrayLike, tuple[float, float]]] = (),
) -> list[NDArray[np.float64]]:
    """Middles of boxes of the given sizes that do not overlap, each as near to its target as possible.

    Args:
        targets: where each middle should be, x and y.
        sizes: width and height of each box.
        frame: left, bottom, right and top of the area that the boxes must stay in.
        taken: middles and sizes of existing boxes.

    Example:
        >>> [place.round().tolist() for place in spread([(5, 5), (50, 50)], [(20, 10)] * 2, (0, 0, 100, 100))]
        [[10.0, 5.0], [50.0, 50.0]]
    """
    low, high = np.array(frame[:2]), np.array(frame[2:])
    boxes = [(np.asarray(middle), np.asarray(size)) for middle, size in taken]
    placed: list[NDArray[np.float64]] = []
    for target, size in zip(targets, np.array(sizes, dtype=float), strict=True):
        for step in range(2500):  # a spiral, in pixels; wider than high, like the labels
            angle, radius = 0.5 * step, 1.2 * np.sqrt(step) * 5
            offset = np.array([radius * np.cos(angle) * 1.3, radius * np.sin(angle)])
            middle = np.clip(np.asarray(target) + offset, low + size / 2, high - size / 2)
            if all((np.abs(middle - other) - (size + item) / 2).max() >= 0 for other, item in boxes):
                break
        boxes.append((middle, size))
        placed.append(middle)
    return placed


def _plain(text: str, width: int) -> str:
    """One line with dollar signs escaped, because matplotlib would read a formula between them."""
    return clean(one_line(text, width)).replace("$", r"\$")


def colour(label: int) -> str:
    """The colour of a cluster."""
    return COLOURS[label % len(COLOURS)]


def middles(layout: Map) -> Iterator[tuple[str, NDArray[np.float32], str]]:
    """The name, the densest point and the colour of each cluster that has documents on the map."""
    for label, name in enumerate(layout.names):
        if (rows := layout.labels == label).any():
            xy = layout.xy[rows]  # the point nearest to a tenth of the others; a median could lie between two groups
            distances = np.sort(np.linalg.norm(xy[:, None] - xy, axis=2), axis=1)
            yield one_line(name, 40), xy[distances[:, len(xy) // 10].argmin()], colour(label)
