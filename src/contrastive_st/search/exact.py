"""`ExactIndex`: exact nearest neighbours without a database, over memory-mapped float32, int8 or binary vectors."""

from __future__ import annotations

import functools
import json
import logging
import math
import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from contrastive_st.device import VECTOR_PRECISIONS
from contrastive_st.errors import InputError, choice
from contrastive_st.files.writing import atomic_write, write_errors, write_json
from contrastive_st.search.bm25 import Postings, Segment, best, norms_of, shares
from contrastive_st.search.column_types import types_of
from contrastive_st.search.filters import DOCUMENT_ID, DOCUMENT_TEXT, Filter, Filterable, as_filter, cells_of, values_of
from contrastive_st.search.index import (
    Asked,
    Batch,
    Hit,
    Id,
    Ids,
    Metadata,
    VectorIndex,
    Vectors,
    all_known,
    check_model,
    fuse,
)
from contrastive_st.search.lexemes import language_of, query_keys
from contrastive_st.search.shards import ShardFolder, read_table
from contrastive_st.search.values import GIVEN, OWN_ID, Row, as_documents, as_ids, given_and_own, storable
from contrastive_st.vectors import (
    buckets,
    dequantize,
    differing_bits,
    quantization_ranges,
    quantize,
    rotated,
    top_k,
    top_k_in_blocks,
    unit_vectors,
)

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

_BLOCK = 32_768  # rows that are multiplied at a time: 48 MB at 384 dimensions
_CACHED = 1 << 18  # int8 numbers that are converted to float32 at a time: as many as a processor's cache holds
_ROTATIONS = 2  # signs for each dimension: a sixteenth of float32
_NO_VALUE = (list, dict, type(None))  # what a filter does not compare
Rows = slice | Ids  # which rows
Floats = NDArray[np.floating]
Fill = Callable[[int, NDArray[np.generic]], None]


class Codes:
    """Vectors `[N, d]` as int8 or as packed signs, for the first pass of a search.

    Signs are compared by the number of those that differ; int8 with the query in full. `codes[rows]` gives unit vectors
    close to those that were quantized, float32 `[n, d]`.

    Args:
        stored: int8 `[N, d]`, or uint64 `[W, N]`: 64 signs of all vectors in each row. May be memory-mapped.
        dimension: d.
        ranges: `[2, d]`, the ranges given to `quantize`, for int8.
        rotation: `[d, b]` if the signs are those of `vectors @ rotation`; None if they are those of the vectors.

    Example:
        >>> codes = Codes.of(np.eye(3), "int8")
        >>> int(codes.scores(np.array([[0.0, 0.6, 0.8]]), slice(0, 3)).argmax()), codes[np.array([1])].round(2).tolist()
        (2, [[0.0, 1.0, 0.0]])
    """

    def __init__(
        self, stored: np.ndarray, dimension: int, ranges: Floats | None = None, rotation: Floats | None = None
    ) -> None:
        self.stored, self.ranges, self.rotation = stored, ranges, rotation
        self.precision = "int8" if stored.dtype == np.int8 else "ubinary"
        self.shape = (stored.shape[0] if self.precision == "int8" else stored.shape[1], dimension)

    @classmethod
    def of(cls, vectors: NDArray[np.floating], precision: str, ranges: NDArray[np.floating] | None = None) -> Codes:
        """The codes of vectors `[N, d]`; int8 with the ranges of the vectors by default, signs after `rotated`.

        Raises:
            InputError: the precision is neither `int8` nor `ubinary`.
        """
        if choice("precision", precision, tuple(_FILES)) == "int8":
            ranges = quantization_ranges(vectors) if ranges is None else ranges
            return cls(quantize(vectors, precision, ranges), vectors.shape[1], ranges)
        rotation = _rotation(vectors.shape[1])
        return cls(_in_rows(quantize(vectors @ rotation, precision)), vectors.shape[1], None, rotation)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Rows) -> Vectors:
        int8 = self.precision == "int8"
        codes = self.stored[rows] if int8 else np.ascontiguousarray(self.stored[:, rows].T).view(np.uint8)
        width = self.shape[1] if self.rotation is None else self.rotation.shape[1]
        vectors = dequantize(codes, self.precision, width, self.ranges)
        return unit_vectors(vectors if self.rotation is None else vectors @ self.rotation.T, np.float32)

    def scores(self, queries: Vectors, rows: Rows) -> NDArray[np.float32]:
        """Scores of each row for each query, `[Q, n]`; only their order has a meaning.

        Args:
            queries: unit vectors `[Q, d]`.
            rows: which rows, n of them.

        Returns:
            float32 `[Q, n]`.
        """
        if self.precision == "ubinary":
            rotated = queries if self.rotation is None else queries @ self.rotation
            packed, signs = self.stored[:, rows], _in_rows(quantize(rotated, "ubinary"))
            return np.stack([(-differing_bits(packed, query)).astype(np.float32) for query in signs.T])
        codes, dim = self.stored[rows], self.shape[1]
        weights = queries * buckets([] if self.ranges is None else self.ranges, dim)[1]  # width of one bucket
        step = max(_CACHED // dim, 1)
        result = np.empty((len(queries), len(codes)), dtype=np.float32)
        for start in range(0, len(codes), step):
            result[:, start : start + step] = weights @ codes[start : start + step].astype(np.float32).T
        return result


class ExactIndex(VectorIndex):
    """An index that compares every vector, in blocks: for small corpora, and to test the recall of other indices.

    With `codes`, a first pass compares those, and the nearest `oversample * k` are compared again by their vectors. A
    search then reads only these vectors, so they may be on disk (Yamada, Asai and Hajishirzi 2021, "Efficient Passage
    Retrieval with Hashing for Open-domain Question Answering").

    Args:
        ids: N distinct ids, integers or texts.
        texts: N texts.
        vectors: `[N, d]`, unit vectors in memory or memory-mapped; or `Codes`, if there are no float32 vectors.
        metadata: N JSON objects.
        fingerprint: fingerprint of the model that made the vectors.
        model: its name.
        codes: codes of the same vectors, for the first pass.

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
        vectors: NDArray[np.floating] | Codes,
        metadata: Metadata | None = None,
        fingerprint: str = "",
        model: str = "",
        codes: Codes | None = None,
    ) -> None:
        self._texts, self._metadata = texts, metadata or ()
        if isinstance(ids, np.ndarray) and isinstance(texts, _Column):
            self.ids: Ids = ids
        else:
            self.ids, self._texts, self._metadata = as_documents(ids, texts, metadata, len(vectors))
        self._vectors = vectors
        self._codes = vectors if isinstance(vectors, Codes) else codes
        self.fingerprint, self.model, self.dimension = fingerprint, model, vectors.shape[1]
        self._order = np.argsort(self.ids, kind="stable")
        self.language = ""  # of full text, and its postings, from the first hybrid search on
        self._words: Segment | None = None
        self._types: dict[str, str] | None = None  # from the first filter on
        self.recorded_types: dict[str, str] = {}

    @classmethod
    def open(cls, folder: str | Path, *, fingerprint: str | None = None, precision: str | None = None) -> ExactIndex:
        """Open a folder that `contrastive-st index --output` wrote.

        The first call copies the shards into `exact/` for memory-mapping; no file is read into memory as a whole.

        Args:
            folder: the folder of the shards.
            fingerprint: fingerprint of the model of the queries; an index of another model is refused.
            precision: with `int8` or `ubinary` these codes are compared first, and then only the nearest of the shards'
                float32 vectors, which stay on disk. By default the vectors are compared as the shards store them.

        Returns:
            The index.

        Raises:
            InputError: the folder has no vectors, vectors of another model than `fingerprint`, or quantized vectors of
                another precision.
        """
        import pyarrow as pa

        shards = ShardFolder(folder)
        made = shards.encoding
        check_model(made, fingerprint, str(folder))
        if missing := shards.missing():
            logger.warning(missing)
        prepared = _laid_out(shards)
        with pa.memory_map(str(prepared / "documents.arrow")) as file:
            table = pa.ipc.open_file(file).read_all()
        texts, metadata = _Column(table["text"]), _Column(table["metadata"], json.loads)
        vectors, codes = _opened(shards, prepared, precision or made.precision)
        index = cls(table["id"].to_numpy(), texts, vectors, metadata, made.fingerprint, made.model, codes)
        index.recorded_types = made.types
        return index

    def __len__(self) -> int:
        return len(self.ids)

    def state(self) -> int:
        """The documents never change."""
        return 0

    def nearest(self, asked: Asked) -> list[list[Hit]]:
        """As for `VectorIndex`; with codes, all are compared by them first unless `exact` is set."""
        rows = self._matching(asked.filter) if asked.filter else None
        if asked.text is None:
            neighbors = self._nearest(asked, asked.k, rows)
            return [self._hits(*result) for result in zip(*neighbors, strict=True)]
        near = self._nearest(asked, asked.candidates, rows)[0][0]
        words, postings = self._by_words(asked.text, asked.candidates, rows)
        union = np.union1d(near, words)
        cosines = self._rows(union) @ asked.queries[0]
        of_words = shares(postings, self._norms, len(self), union)
        order = fuse(union, cosines, of_words, self._length, (near, words))[: asked.k]
        return [self._hits(union[order], cosines[order])]

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

    def has_column(self, column: str) -> bool:
        """Whether a document has a column, if only with null; see `VectorIndex.has_column`."""
        return any(cells_of(self._of(row), column) for row in range(len(self)))

    def types(self) -> dict[str, str]:
        """The types of the columns, of all values that there are and as the folder records them."""
        if self._types is None:
            self._types = types_of(map(self._of, range(len(self))), self.recorded_types)
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

    # ------------------------------------------------------------------ inside

    def _batch(self, rows: Ids) -> Batch:
        texts, metadata = [self._texts[i] for i in rows], [given_and_own(self._of(i))[0] for i in rows]
        return self.ids[rows], texts, metadata, self._rows(rows)

    def _rows(self, rows: Rows) -> Vectors:
        return np.asarray(self._vectors[rows], dtype=np.float32)

    def _nearest(self, asked: Asked, k: int, rows: Ids | None) -> tuple[Ids, Vectors]:
        """The numbers and scores `[Q, min(k, N)]` of the best of all or of these rows, best first; ties by row.

        With codes, they are the best by their vectors among the `oversample * k` with the nearest codes.
        """
        queries, codes = asked.queries, None if asked.exact else self._codes

        def compare(block: slice, part: slice) -> Vectors:
            some: Rows = part if rows is None else rows[part]
            return queries[block] @ self._rows(some).T if codes is None else codes.scores(queries[block], some)

        count, most = len(self) if rows is None else len(rows), k
        if codes is not None:
            most = min(max(asked.oversample, 1) * k, max(len(self), 1))
        scores, numbers = top_k_in_blocks(compare, len(queries), count, most, _BLOCK)
        numbers = numbers if rows is None else rows[numbers]
        if codes is None:
            return numbers, scores
        near = np.sort(numbers, axis=1)  # in the order of the file
        exact = np.stack([self._rows(block) @ query for query, block in zip(queries, near, strict=True)])
        scores, places = top_k(exact, k)
        return np.take_along_axis(near, places, axis=1), scores

    def _matching(self, filter: Filter) -> Ids:
        complete = lambda i: {**self._of(i), DOCUMENT_ID: int(self.ids[i]), DOCUMENT_TEXT: self._texts[i]}
        read = complete if filter.of_document else self._of
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
        numbers = as_ids(ids)
        at = np.minimum(np.searchsorted(self.ids, numbers, sorter=self._order), max(len(self) - 1, 0))
        places = self._order[at] if len(self) else np.empty(0, dtype=np.int64)
        if len(places) < len(numbers) or (self.ids[places] != numbers).any():
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

_FILES = {"int8": "int8.npy", "ubinary": "ubinary.npy"}  # codes; float32 is vectors.npy
_RANGES = "ranges.npy"  # those of int8 that was made here


def _laid_out(shards: ShardFolder) -> Path:
    """The folder with `documents.arrow` and the vectors as stored; made again if the shards have changed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = shards.paths()
    if not paths:
        raise InputError(f"{shards.folder} has no shards yet; encode the corpus first")
    folder = shards.folder / "exact"
    state = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
    try:
        if json.loads((folder / "state.json").read_text()) == state:
            return folder
    except (OSError, ValueError):
        pass
    with write_errors(folder, "the first search writes it; search once from an account that may, or copy the folder"):
        folder.mkdir(exist_ok=True)
        for name in ("state.json", *_FILES.values()):
            (folder / name).unlink(missing_ok=True)
    rows = sum(pq.read_metadata(path).num_rows for path in paths)
    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), ("metadata", pa.string())])
    precision, dim = shards.encoding.precision, shards.encoding.dimension
    with ExitStack() as stack:
        documents = stack.enter_context(atomic_write(folder / "documents.arrow", overwrite=True))
        fill, filled = stack.enter_context(_new_array(folder, precision, rows, dim)), 0
        with pa.OSFile(str(documents), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for path in paths:
                table, stored = read_table(path)
                fill(filled, stored)
                writer.write_table(table.select(schema.names).cast(schema))
                filled += len(table)
    write_json(folder / "state.json", state)
    return folder


def _opened(shards: ShardFolder, folder: Path, precision: str) -> tuple[Vectors | Codes, Codes | None]:
    """The vectors of a prepared folder, and the codes to compare first, which are made if they are missing."""
    held, dim = shards.encoding.precision, shards.encoding.dimension
    if choice("precision", precision, VECTOR_PRECISIONS) != held != "float32":
        raise InputError(
            f"{shards.folder} has vectors in {held}, not in {precision}; encode the corpus again with "
            f"--storage {precision}"
        )
    if held != "float32":
        codes = Codes(np.load(folder / _FILES[held], mmap_mode="r"), dim, shards.ranges)
        return codes, codes
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    if precision == held:
        return vectors, None
    if not (folder / _FILES[precision]).exists():
        _make_codes(folder, vectors, precision)
    if hasattr(vectors._mmap, "madvise"):  # otherwise each row that is read brings its neighbours into memory
        vectors._mmap.madvise(mmap.MADV_RANDOM)
    stored = np.load(folder / _FILES[precision], mmap_mode="r")
    if precision == "int8":
        return vectors, Codes(stored, dim, np.load(folder / _RANGES))
    return vectors, Codes(stored, dim, rotation=_rotation(dim))


def _make_codes(folder: Path, vectors: Vectors, precision: str) -> None:
    blocks, ranges, rotation = [slice(i, i + _BLOCK) for i in range(0, len(vectors), _BLOCK)], None, None
    if precision == "int8":
        ranges = quantization_ranges(np.concatenate([[vectors[part].min(0), vectors[part].max(0)] for part in blocks]))
        with atomic_write(folder / _RANGES, overwrite=True) as path:
            np.save(path, ranges)
    else:
        rotation = _rotation(vectors.shape[1])
    with _new_array(folder, precision, len(vectors), vectors.shape[1] if rotation is None else len(rotation.T)) as fill:
        for part in blocks:
            turned = vectors[part] if rotation is None else vectors[part] @ rotation
            fill(part.start, quantize(turned, precision, ranges))


@contextmanager
def _new_array(folder: Path, precision: str, rows: int, dim: int) -> Iterator[Fill]:
    """Write quantized or float32 vectors from some row on, into a file that appears when it is complete."""
    kind = {"float32": np.float32, "int8": np.int8, "ubinary": np.uint64}[precision]
    shape = (-(-dim // 64), rows) if precision == "ubinary" else (rows, dim)
    with atomic_write(folder / _FILES.get(precision, "vectors.npy"), overwrite=True) as path:
        array = np.lib.format.open_memmap(path, "w+", kind, shape)

        def fill(start: int, stored: NDArray[np.generic]) -> None:
            if precision == "ubinary":
                array[:, start : start + len(stored)] = _in_rows(stored)
            else:
                array[start : start + len(stored)] = stored

        yield fill
        array.flush()


@functools.cache
def _rotation(dim: int) -> NDArray[np.float32]:
    """The matrix `[d, b]` after which signs are taken; it depends on d alone."""
    return rotated(np.eye(dim), _ROTATIONS)


def _in_rows(stored: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Packed signs uint8 `[n, B]` as uint64 `[W, n]`, each row contiguous over the vectors."""
    padded = np.pad(stored, ((0, 0), (0, -stored.shape[1] % 8)))
    return np.ascontiguousarray(padded.view(np.uint64).T)
