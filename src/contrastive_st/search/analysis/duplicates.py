"""Exact search for near-duplicates in an index: every pair is compared, without an N x N matrix in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contrastive_st.data.table_writers import write_table
from contrastive_st.files.writing import check_target, write_json
from contrastive_st.search.in_memory import near_pairs
from contrastive_st.search.index import VectorIndex, sample
from contrastive_st.search.values import Row, digests, json_id
from contrastive_st.vectors import unit_vectors

HEAD = 64  # dimensions that are enough to exclude most pairs
_ROUNDING = 1e-6  # of the cosine of a text with itself
_ROWS = 8192  # vectors that are compared with their equals at a time


@dataclass(frozen=True)
class Member:
    """One document of a group.

    Args:
        id: id of the document, as its source writes it.
        similarity: cosine to the nearest other member.
        nearest: id of that member.
        text: text of the document.
        metadata: metadata of the document.
    """

    id: int | str
    similarity: float
    nearest: int | str
    text: str
    metadata: Row


Group = list[Member]


def find_duplicates(
    index: VectorIndex,
    threshold: float = 0.95,
    *,
    progress: bool = False,
    limit: int | None = None,
    knows: Callable[[list[str]], NDArray[np.bool_]] | None = None,
) -> list[Group]:
    """Groups of documents connected by cosines of `threshold` or more (single linkage); members ordered by id.

    Groups come first whose documents but the longest have most characters together, which is what deleting them saves.

    The vectors are read once into a temporary file and rotated so that their first 64 dimensions have most of their
    length. By the Cauchy-Schwarz inequality the cosine is at most the product over these 64 dimensions plus the product
    of the lengths of the rest. So one matrix product of width 65 tells which pairs of a block need the full product,
    and no pair is missed. Of equal texts, and of equal vectors, only the first is compared with the others.

    Args:
        index: any `VectorIndex`.
        threshold: a cosine above 0, at most 1.
        progress: show a bar with the time left.
        limit: most groups to return; texts are loaded only for these.
        knows: `SentenceEncoder.knows` of the model of the index. A text of which it knows no token has no duplicates,
            because its vector does not depend on the text.

    Returns:
        The groups, each of two documents or more.

    Raises:
        InputError: the index is empty.
    """
    # a basis [d, d], ordered by the share of a sample's length in each direction
    drawn = sample(index, 5_000).vectors.astype(np.float64)
    basis = np.linalg.eigh(drawn.T @ drawn)[1][:, ::-1].astype(np.float32)
    head = min(HEAD, index.dimension)
    with tempfile.TemporaryDirectory(prefix="contrastive_st") as folder:
        numbers, hashes, sizes = list[NDArray[np.int64]](), list[NDArray[np.int64]](), list[int]()
        with open(Path(folder, "vectors"), "wb") as file, open(Path(folder, "heads"), "wb") as file_of_heads:
            for block, texts, _, batch in index.scan():
                units = unit_vectors(batch)
                if knows is not None:
                    units = units * knows(list(texts))[:, None]
                turned = units @ basis  # which may round equal rows otherwise
                rest = np.linalg.norm(turned[:, head:], axis=1)[:, None]
                turned.tofile(file)
                np.concatenate([turned[:, :head], rest], axis=1).tofile(file_of_heads)
                numbers.append(block)
                of_texts = digests(text.encode("utf-8", "surrogatepass") for text in texts)
                hashes.append(np.stack([of_texts, digests(unit.tobytes() for unit in units)], axis=1))
                sizes += map(len, texts)
        ids, lengths = np.concatenate(numbers), np.array(sizes, np.int64)
        vectors = np.memmap(Path(folder, "vectors"), dtype=np.float32, mode="r", shape=(len(ids), index.dimension))
        heads = np.memmap(Path(folder, "heads"), dtype=np.float32, mode="r", shape=(len(ids), head + 1))
        links, alone = _Links(len(ids)), np.ones(len(ids), dtype=bool)
        for column in np.concatenate(hashes).T:  # each text is linked to the first that equals it
            _, first, number = np.unique(column, return_index=True, return_inverse=True)
            first = first[number]
            for rows in np.array_split(np.flatnonzero(first != np.arange(len(first))), len(first) // _ROWS + 1):
                cosines = np.einsum("nd,nd->n", vectors[first[rows]], vectors[rows]).clip(max=1.0)
                equal = cosines >= 1 - _ROUNDING  # a store may have different vectors for a text
                links.add(first[rows][equal], rows[equal], cosines[equal])
                alone[rows[equal]] = False
        kept = np.flatnonzero(alone)
        compared, bounds = _Rows(vectors, kept), _Rows(heads, kept)
        # the cosine of a text with itself may round to less than 1
        for rows, columns, cosines in near_pairs(compared, threshold - _ROUNDING, bounds, progress):
            links.add(kept[rows], kept[columns], cosines)
    members, roots = links.groups()
    ends = np.flatnonzero(roots[1:] != roots[:-1]) + 1
    saved = lambda group: int(lengths[group].sum() - lengths[group].max())
    groups: list[Group] = []
    for group in sorted(np.split(members, ends), key=saved, reverse=True)[:limit] if len(members) else ():
        hits = {hit.id: hit for hit in index.get(ids[group].tolist())}
        shown_id = lambda id, there=hits: there[id].own_id if id in there else id  # one that was deleted meanwhile
        groups.append([
            Member(hit.own_id, float(links.best[p]), shown_id(int(ids[links.nearest[p]])), hit.text, hit.metadata)
            for p in group if (hit := hits.get(int(ids[p])))
        ])  # fmt: skip
    return groups


class _Rows:
    """Some rows of a memory-mapped file, which are read when they are asked for."""

    def __init__(self, file: NDArray[np.float32], rows: NDArray[np.int64]) -> None:
        self.file, self.rows = file, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, places: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        return np.asarray(self.file[self.rows[places]])


class _Links:
    """Union-find over the numbers 0 to n-1, with the nearest neighbour of each; takes whole arrays of pairs."""

    def __init__(self, n: int) -> None:
        self.parent = np.arange(n)
        self.best, self.nearest = np.full(n, -2, dtype=np.float32), np.full(n, -1)

    def add(self, a: NDArray[np.int64], b: NDArray[np.int64], cosines: NDArray[np.float32]) -> None:
        if not len(a):
            return
        for one, other in ((a, b), (b, a)):
            order = np.lexsort((-other, cosines))  # the largest cosine is written last; of equal ones, the first number
            one, other, values = one[order], other[order], cosines[order]
            better = values > self.best[one]
            self.best[one[better]], self.nearest[one[better]] = values[better], other[better]
        a, b = self._find(a), self._find(b)
        while len(a):  # the lowest of the roots becomes that of both groups
            nodes, lower = np.maximum(a, b), np.minimum(a, b)
            np.minimum.at(self.parent, nodes, lower)
            while (up := self.parent[self.parent[nodes]]).tobytes() != self.parent[nodes].tobytes():
                self.parent[nodes] = up  # each step halves the way of all of them
            a, b = self.parent[a], self.parent[b]
            a, b = a[a != b], b[a != b]

    def groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The numbers that have a link, in the order of their roots, and these roots."""
        members = np.flatnonzero(self.nearest >= 0)
        roots = self._find(members)
        order = np.argsort(roots, kind="stable")
        return members[order], roots[order]

    def _find(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        roots = self.parent[places]
        while (up := self.parent[roots]).tobytes() != roots.tobytes():
            roots = up
        self.parent[places] = roots
        return roots


FORMATS = (".csv", ".json")
_COLUMNS = ("group", "id", "similarity", "nearest", "text")


def save(groups: list[Group], path: str | Path) -> Path:
    """Write `.csv` (a row per document: group, id, similarity, nearest, text, metadata) or `.json`.

    Metadata of the name of another column, such as `id`, are in a column such as `own_id`.

    Args:
        groups: as `find_duplicates` returns them.
        path: the file.

    Returns:
        The path.
    """
    path = check_target(path, overwrite=True, formats=FORMATS)
    if path.suffix == ".json":
        ids = lambda member: {"id": json_id(member.id), "nearest": json_id(member.nearest)}
        content = [[asdict(member) | ids(member) for member in group] for group in groups]
        write_json(path, content, default=str)
    else:
        name = lambda key: f"own_{key}" if key in _COLUMNS else key
        rows = [
            {"group": n, "id": m.id, "similarity": f"{m.similarity:.4f}", "nearest": m.nearest, "text": m.text}
            | {name(key): value for key, value in m.metadata.items()}
            for n, group in enumerate(groups, 1) for m in group
        ]  # fmt: skip
        write_table(path, rows, () if rows else _COLUMNS)
    return path
