"""`ExactIndex`: exact nearest neighbours without a database, over memory-mapped vectors."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError
from contrastive_st.files.writing import atomic_write, write_json
from contrastive_st.search.bm25 import Postings, Segment, best, norms_of, shares
from contrastive_st.search.column_types import joined_types, types_of
from contrastive_st.search.filters import Filter, Filterable, as_filter, values_of, with_document
from contrastive_st.search.index import (
    FUSED,
    Batch,
    Hit,
    Id,
    Ids,
    Metadata,
    Vectors,
    all_known,
    check_filter,
    check_model,
    check_search,
    fuse,
)
from contrastive_st.search.lexemes import language_of, query_keys
from contrastive_st.search.shards import RECORD, ShardFolder, read_table
from contrastive_st.search.values import GIVEN, OWN_ID, Row, as_documents, as_id, as_ids, given_and_own, storable
from contrastive_st.vectors import top_k_in_blocks

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 32_768  # rows that are multiplied at a time: 48 MB at 384 dimensions
_NO_VALUE = (list, dict, type(None))  # what a filter does not compare
Rows = slice | Ids  # which rows


class ExactIndex:
    """An index that compares every vector, in blocks: for small corpora, and to test the recall of other indices.

    Args:
        ids: N distinct ids, integers or texts.
        texts: N texts.
        vectors: `[N, d]`, unit vectors in memory or memory-mapped.
        metadata: N JSON objects.
        fingerprint: fingerprint of the model that made the vectors.
        model: its name.

    Example:
        >>> index = ExactIndex([5, 6], ["up", "right"], np.eye(2), [{"axis": "y"}, {"axis": "x"}])
        >>> [(hit.id, round(hit.score, 2)) for hit in index.search(np.array([0.6, 0.8]), k=2)[0]]
        [(6, 0.8), (5, 0.6)]
        >>> [hit.text for hit in index.search(np.array([0.6, 0.8]), filter={"axis": "y"})[0]]
        ['up']
    """

    def __init__(
        self,
        ids: object,
        texts: Sequence[str],
        vectors: NDArray[np.floating],
        metadata: Metadata | None = None,
        fingerprint: str = "",
        model: str = "",
    ) -> None:
        self._texts, self._metadata = texts, metadata or ()
        if isinstance(ids, np.ndarray) and isinstance(texts, _Column):
            self.ids: Ids = ids
        else:
            self.ids, self._texts, self._metadata = as_documents(ids, texts, metadata, len(vectors))
        self._vectors = vectors
        self.fingerprint, self.model, self.dimension = fingerprint, model, vectors.shape[1]
        self._order = np.argsort(self.ids, kind="stable")
        self.language = ""  # of full text, and its postings, from the first hybrid search on
        self._words: Segment | None = None
        self._types: dict[str, str] | None = None  # from the first filter on
        self.recorded_types: dict[str, str] = {}

    @staticmethod
    def is_at(path: Path) -> bool:
        """Whether a path is a folder that `open` opens."""
        return (path / RECORD).is_file()

    @classmethod
    def open(cls, folder: str | Path, *, fingerprint: str | None = None) -> ExactIndex:
        """Open a folder that `contrastive-st index --output` wrote.

        The first call copies the shards into `exact/` for memory-mapping; no file is read into memory as a whole.

        Args:
            folder: the folder of the shards.
            fingerprint: fingerprint of the model of the queries; an index of another model is refused.

        Returns:
            The index.

        Raises:
            InputError: the folder has no vectors, or vectors of another model than `fingerprint`.
        """
        import pyarrow as pa

        shards = ShardFolder(folder)
        made = shards.encoding
        check_model(made, fingerprint, str(folder))
        place = _laid_out(shards)
        with pa.memory_map(str(place / "documents.arrow")) as file:
            table = pa.ipc.open_file(file).read_all()
        texts, metadata = _Column(table["text"]), _Column(table["metadata"], json.loads)
        vectors = np.load(place / "vectors.npy", mmap_mode="r")
        index = cls(table["id"].to_numpy(), texts, vectors, metadata, made.fingerprint, made.model)
        index.recorded_types = made.types
        return index

    def __len__(self) -> int:
        return len(self.ids)

    def search(
        self,
        vectors: Vectors,
        k: int = 10,
        *,
        filter: Filterable = None,
        text: str | None = None,
        exact: bool | None = None,
        ef_search: int | None = None,
    ) -> list[list[Hit]]:
        """The k nearest documents of each query; see `VectorIndex.search`.

        Args:
            vectors: `[d]` or `[Q, d]`.
            k: number of hits.
            filter: conditions on the metadata.
            text: the query as text, for a hybrid ranking.
            exact: ignored; every search compares all vectors.
            ef_search: ignored; there is no graph.

        Returns:
            For each query its hits, best first.
        """
        queries, chosen = check_search(vectors, self.dimension, k, filter, self.types() if filter else {}, text)
        rows = self._matching(chosen) if chosen else None
        check_filter(self, chosen, rows is None or len(rows) > 0)
        if text is None:
            nearest = self._nearest(queries, k, rows)
            return [self._hits(*result) for result in zip(*nearest, strict=True)]
        near = self._nearest(queries, max(k, FUSED), rows)[0][0]
        words, postings = self._by_words(text, max(k, FUSED), rows)
        union = np.union1d(near, words)
        cosines = self._rows(union) @ queries[0]
        order = fuse(union, cosines, shares(postings, self._norms, len(self), union), self._length)[:k]
        return [self._hits(union[order], cosines[order])]

    def similar(self, id: Id, k: int = 10, *, filter: Filterable = None) -> list[Hit]:
        """The k documents nearest to document `id`, without itself; see `VectorIndex.similar`."""
        vector = self.vectors([id])[0]
        return [hit for hit in self.search(vector, k + 1, filter=filter)[0] if hit.id != as_id(id)][:k]

    def get(self, ids: Sequence[Id]) -> list[Hit]:
        """The documents of these ids, in that order; their score is NaN."""
        places = self._places(ids)
        return self._hits(places, np.full(len(places), math.nan))

    def vectors(self, ids: Sequence[Id]) -> Vectors:
        """The vectors of these documents, `[n, d]`, in that order."""
        return self._rows(self._places(ids))

    def draw(self, count: int, seed: int = 0) -> Batch:
        """So many documents at random, or all, ordered by id; see `VectorIndex.draw`."""
        chosen = np.random.default_rng(seed).permutation(len(self))[:count]
        return self._batch(self._order[np.sort(chosen)])

    def scan(self, batch_size: int = 10_000) -> Iterator[Batch]:
        """All documents in batches, ordered by id."""
        return (self._batch(self._order[start : start + batch_size]) for start in range(0, len(self), batch_size))

    def columns(self) -> list[str]:
        """The names of the metadata of all documents, sorted."""
        return sorted({key for row in range(len(self)) for key in self._of(row)} - {OWN_ID, GIVEN})

    def types(self) -> dict[str, str]:
        """The types of the columns, of all values that there are and as the folder records them."""
        if self._types is None:
            self._types = joined_types(types_of(map(self._of, range(len(self)))), self.recorded_types)
        return self._types

    def count(self, filter: Filterable = None) -> int:
        """How many documents meet a filter."""
        return len(self._matching(as_filter(filter).of_types(self.types()))) if filter else len(self)

    def values(self, column: str, most: int = 20) -> list[object]:
        """At most so many of the different values of a column; see `VectorIndex.values`."""
        result: dict[object, object] = {}
        for row in range(len(self)):
            values = values_of(self._of(row), column)
            result |= {(type(one), one): one for one in values if not isinstance(one, _NO_VALUE)}
            if len(result) >= most:
                break
        return list(result.values())[:most]

    def close(self) -> None:
        """Do nothing; this index holds no resources."""

    # ------------------------------------------------------------------ inside

    def _batch(self, rows: Ids) -> Batch:
        texts, metadata = [self._texts[i] for i in rows], [given_and_own(self._of(i))[0] for i in rows]
        return self.ids[rows], texts, metadata, self._rows(rows)

    def _rows(self, rows: Rows) -> Vectors:
        return np.asarray(self._vectors[rows], dtype=np.float32)

    def _nearest(self, queries: Vectors, k: int, rows: Ids | None) -> tuple[Ids, Vectors]:
        """The numbers and scores `[Q, min(k, N)]` of the best of all or of these rows, best first; ties by row."""

        def compare(block: slice, part: slice) -> Vectors:
            return queries[block] @ self._rows(part if rows is None else rows[part]).T

        scores, numbers = top_k_in_blocks(compare, len(queries), len(self) if rows is None else len(rows), k, _BLOCK)
        return numbers if rows is None else rows[numbers], scores

    def _matching(self, filter: Filter) -> Ids:
        whole = lambda i: with_document(self._of(i), int(self.ids[i]), self._texts[i])
        read = whole if filter.of_document else self._of
        return np.array([i for i in range(len(self)) if filter.holds(read(i))], dtype=np.int64)

    def _by_words(self, text: str, k: int, rows: Ids | None) -> tuple[Ids, list[Postings]]:
        """The rows with the highest BM25, best first, and the postings of the words."""
        if self._words is None:
            texts = [self._texts[i] for i in range(len(self))]
            self.language = language_of(texts)
            self._words = Segment.of(self.ids, texts, self.language)
            self._length = float(self._words.lengths.mean()) if len(self) else 0.0
            self._norms = norms_of(self._words.lengths, self._length)
        chosen = None
        if rows is not None:
            chosen = np.zeros(len(self), np.bool_)
            chosen[rows] = True
        postings = list(self._words.postings(query_keys(storable(text), self.language)))
        return best(postings, self._norms, len(self), k, chosen)[0], postings

    def _hits(self, rows: Ids, scores: NDArray[np.floating]) -> list[Hit]:
        result = zip(rows.tolist(), scores.tolist(), strict=True)
        return [Hit.of(int(self.ids[i]), score, self._texts[i], self._of(i)) for i, score in result]

    def _of(self, row: int) -> Row:
        return dict(self._metadata[row])

    def _places(self, ids: Sequence[Id]) -> Ids:
        wanted = as_ids(ids)
        at = np.minimum(np.searchsorted(self.ids, wanted, sorter=self._order), max(len(self) - 1, 0))
        places = self._order[at] if len(self) else np.empty(0, dtype=np.int64)
        if len(places) < len(wanted) or (self.ids[places] != wanted).any():
            all_known(ids, self.ids)
        return places


class _Column(Sequence[Any]):
    """A column of an Arrow table as a sequence, one cell read at a time."""

    def __init__(self, column: pa.ChunkedArray, parse: Callable[[str], object] = str) -> None:
        self._column, self._parse = column, parse

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, row: Any) -> Any:
        return self._parse(self._column[int(row)].as_py())


# --- A folder of shards, copied for memory-mapping.


def _laid_out(shards: ShardFolder) -> Path:
    """The folder with `documents.arrow` and `vectors.npy`; made again if the shards have changed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = shards.paths()
    if not paths:
        raise InputError(f"{shards.folder} has no shards yet; encode the corpus first")
    place = shards.folder / "exact"
    state = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
    try:
        if json.loads((place / "state.json").read_text()) == state:
            return place
    except (OSError, ValueError):
        pass
    place.mkdir(exist_ok=True)
    (place / "state.json").unlink(missing_ok=True)
    rows = sum(pq.read_metadata(path).num_rows for path in paths)
    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), ("metadata", pa.string())])
    with ExitStack() as stack:
        documents, vectors = (
            stack.enter_context(atomic_write(place / name, overwrite=True))
            for name in ("documents.arrow", "vectors.npy")
        )
        array, filled = np.lib.format.open_memmap(vectors, "w+", np.float32, (rows, shards.encoding.dimension)), 0
        with pa.OSFile(str(documents), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for path in paths:
                table, array[filled : filled + len(table)] = read_table(path)
                writer.write_table(table.select(schema.names).cast(schema))
                filled += len(table)
        array.flush()
    write_json(place / "state.json", state)
    return place
