"""`ExactIndex`: exact nearest neighbours without a database, over memory-mapped vectors."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError
from contrastive_st.safety.writing import written_whole
from contrastive_st.search.index import (
    Batch,
    Filter,
    Hit,
    Ids,
    Metadata,
    Vectors,
    as_queries,
    check_k,
    matches,
    reciprocal_rank_fusion,
)
from contrastive_st.search.shards import ShardFolder
from contrastive_st.vectors import top_k

_BLOCK = 32_768  # rows that are multiplied at a time: 48 MB at 384 dimensions
_FUSED = 100


class ExactIndex:
    """Documents whose vectors are compared one and all, in blocks: for small corpora, and to judge other indices by.

    Args:
        ids: int64 `[N]`, each once.
        texts: N texts.
        vectors: `[N, d]`, in memory or memory-mapped; unit vectors.
        metadata: N JSON objects.
        fingerprint: of the model that made the vectors.
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
        ids: Any,
        texts: Sequence[str],
        vectors: NDArray[np.floating[Any]],
        metadata: Metadata | None = None,
        fingerprint: str = "",
        model: str = "",
    ) -> None:
        self.ids = np.asarray(ids, dtype=np.int64)
        if not len(self.ids) == len(texts) == len(vectors) or vectors.ndim != 2:
            raise InputError(
                f"{len(self.ids)} ids, {len(texts)} texts, {len(vectors)} vectors: give one of each a document"
            )
        self._texts, self._vectors, self._metadata = texts, vectors, metadata
        self.fingerprint, self.model, self.dimension = fingerprint, model, vectors.shape[1]
        self._order = np.argsort(self.ids, kind="stable")
        self._words: Any = None

    @classmethod
    def open(cls, folder: str | Path, *, fingerprint: str | None = None) -> ExactIndex:
        """Open a folder that `contrastive-st index --output` wrote.

        The first time, the shards are laid out in `exact/` for memory-mapping: nothing is read into memory as a whole.

        Raises:
            InputError: the folder holds no vectors, or those of another model than `fingerprint`.
        """
        import pyarrow as pa

        shards = ShardFolder(folder)
        if fingerprint is not None and fingerprint != shards.encoding.fingerprint:
            what = f"{folder} holds vectors of {shards.encoding.model}"
            ours = f"fingerprint {shards.encoding.fingerprint[:8]}, not {fingerprint[:8]}"
            raise InputError(f"{what} ({ours}); open that model, or encode anew")
        place = _laid_out(shards)
        vectors = np.load(place / "vectors.npy", mmap_mode="r")
        with pa.memory_map(str(place / "documents.arrow")) as file:
            table = pa.ipc.open_file(file).read_all()
        texts, metadata = _Column(table["text"]), _Column(table["metadata"], parse=True)
        made_by = shards.encoding.fingerprint, shards.encoding.model
        return cls(table["id"].to_numpy(), texts, vectors, metadata, *made_by)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.ids)

    def search(
        self, vectors: Vectors, k: int = 10, *, filter: Filter = None, text: str | None = None, **options: Any
    ) -> list[list[Hit]]:
        """The k nearest documents of each query; see `VectorIndex.search`. It takes no other options."""
        queries = as_queries(vectors, self.dimension)
        check_k(k)
        rows = self._matching(filter)
        if text is None:
            return [self._hits(*found) for found in zip(*self._nearest(queries, k, rows), strict=True)]
        if len(queries) != 1:
            raise InputError(f"a hybrid search takes one query, not {len(queries)}; call it once for each")
        near = self._nearest(queries, max(k, _FUSED), rows)[0][0]
        fused = reciprocal_rank_fusion([near.tolist(), self._by_words(text, max(k, _FUSED), rows)])[:k]
        found = np.array(fused, dtype=np.int64)
        return [self._hits(found, np.asarray(self._vectors[found], dtype=np.float32) @ queries[0])]

    def similar(self, id: int, k: int = 10, *, filter: Filter = None) -> list[Hit]:
        """The k documents nearest to document `id`, without itself."""
        vector = np.asarray(self._vectors[self._places([id])[0]], dtype=np.float32)
        return [hit for hit in self.search(vector, k + 1, filter=filter)[0] if hit.id != id][:k]

    def get(self, ids: Sequence[int]) -> list[Hit]:
        """The documents of these ids, in that order; their score is NaN."""
        places = self._places(ids)
        return self._hits(places, np.full(len(places), math.nan))

    def scan(self, batch_size: int = 10_000) -> Iterator[Batch]:
        """All documents in batches, ordered by id."""
        for start in range(0, len(self), batch_size):
            rows = self._order[start : start + batch_size]
            texts, metadata = [self._texts[i] for i in rows], [self._of(i) for i in rows]
            yield self.ids[rows], texts, metadata, np.asarray(self._vectors[rows], dtype=np.float32)

    def columns(self) -> list[str]:
        """The names of the metadata of all documents, ordered."""
        return sorted({key for row in range(len(self)) for key in self._of(row)})

    def close(self) -> None:
        """Nothing is held open."""

    # ------------------------------------------------------------------ inside

    def _nearest(self, queries: Vectors, k: int, rows: Ids | None) -> tuple[Ids, Vectors]:
        """Rows and scores `[Q, min(k, N)]`, best first; ties by row."""
        count = len(self) if rows is None else len(rows)
        best = top_k(np.empty((len(queries), 0), dtype=np.float32), k)
        for start in range(0, count, _BLOCK):
            stop = min(start + _BLOCK, count)
            part = self._vectors[start:stop] if rows is None else self._vectors[rows[start:stop]]
            best = top_k(queries @ np.asarray(part, dtype=np.float32).T, k, best, first=start)
        scores, numbers = best
        return numbers if rows is None else rows[numbers], scores

    def _matching(self, filter: Filter) -> Ids | None:
        if not filter:
            return None
        matches({}, filter)  # a fault in the filter is named even where there are no documents
        return np.array([i for i in range(len(self)) if matches(self._of(i), filter)], dtype=np.int64)

    def _by_words(self, text: str, k: int, rows: Ids | None) -> list[int]:
        """Rows by TF-IDF, best first, those that share a word with the text."""
        if self._words is None:
            from sklearn.feature_extraction.text import TfidfVectorizer

            vectorizer = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+")
            try:
                self._words = vectorizer, vectorizer.fit_transform(self._texts[i] for i in range(len(self)))
            except ValueError:  # no document holds a word
                return []
        vectorizer, matrix = self._words
        chosen = np.arange(len(self)) if rows is None else rows
        scores = (matrix[chosen] @ vectorizer.transform([text]).T).toarray()[:, 0]
        order = np.lexsort((chosen, -scores))[:k]
        return [int(chosen[i]) for i in order if scores[i] > 0]

    def _hits(self, rows: Ids, scores: NDArray[np.floating]) -> list[Hit]:
        found = zip(rows.tolist(), scores.tolist(), strict=True)
        return [Hit(int(self.ids[i]), score, self._texts[i], self._of(i)) for i, score in found]

    def _of(self, row: int) -> dict[str, Any]:
        return {} if self._metadata is None else dict(self._metadata[row])

    def _places(self, ids: Sequence[int]) -> Ids:
        wanted = np.asarray(ids, dtype=np.int64).reshape(-1)
        at = np.minimum(np.searchsorted(self.ids, wanted, sorter=self._order), max(len(self) - 1, 0))
        places = self._order[at] if len(self) else np.empty(0, dtype=np.int64)
        if len(places) < len(wanted) or (self.ids[places] != wanted).any():
            missing = set(wanted.tolist()) - set(self.ids.tolist())
            raise InputError(f"there is no document {min(missing)}")
        return places


class _Column:
    """A column of an Arrow table as a sequence, one cell read at a time."""

    def __init__(self, column: Any, parse: bool = False) -> None:
        self._column, self._parse = column, parse

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, row: int) -> Any:
        cell = self._column[int(row)].as_py()
        return json.loads(cell) if self._parse else cell


def _laid_out(shards: ShardFolder) -> Path:
    """The folder with `vectors.npy` and `documents.arrow`, made anew where the shards have changed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = shards.paths()
    if not paths:
        raise InputError(f"{shards.folder} holds no shards yet; encode the corpus first")
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
        vectors, documents = (
            stack.enter_context(written_whole(place / name, overwrite=True))
            for name in ("vectors.npy", "documents.arrow")
        )
        array = np.lib.format.open_memmap(vectors, "w+", np.float32, (rows, shards.encoding.dimension))
        filled = 0
        with pa.OSFile(str(documents), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for path in paths:
                table = pq.read_table(path)
                read = table["embedding"].combine_chunks().flatten().to_numpy()
                array[filled : filled + len(table)] = read.reshape(len(table), -1)
                writer.write_table(table.select(schema.names).cast(schema))
                filled += len(table)
        array.flush()
    with written_whole(place / "state.json", overwrite=True) as path:
        path.write_text(json.dumps(state))
    return place
