"""A folder of encoded shards: parquet files that appear only when they are complete."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator, Set
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError, about
from contrastive_st.files.reading import read_json
from contrastive_st.files.writing import atomic_write, write_json
from contrastive_st.search.index import Batch, Members, Sink, Vectors
from contrastive_st.search.values import storable
from contrastive_st.vectors import dequantize, quantization_ranges, quantize, unit_vectors

if TYPE_CHECKING:
    import pyarrow as pa

RECORD, RANGES = "encoding.json", "ranges.npy"
_LEFT_OUT = b"left_out"  # of a file's own metadata: `Members.left_out`
FIRST = 1 << 40  # most documents of a source: ids are `source number * FIRST + row in the source`


@dataclass(frozen=True)
class Encoding:
    """The record of a folder: its model, its corpus, and how vectors are stored (`float32`, `int8`, `ubinary`)."""

    model: str = field(compare=False)  # where it is; the fingerprint says which it is
    fingerprint: str
    dimension: int
    corpus: str
    corpus_fingerprint: str
    shard_rows: int
    precision: str = "float32"
    own_ids: bool = False
    types: dict[str, str] = field(default_factory=dict)  # of the columns of the metadata, if they were decided
    #: `Files.digests` of the corpus, without the files that could not be read to their end, and `Files.hashed`
    files: dict[str, str] = field(default_factory=dict, compare=False)
    hashed: bool = field(default=False, compare=False)
    #: How many the whole corpus has; 0 until a process has read it to its end, None in folders of former versions
    shards: int | None = field(default=None, compare=False)


class ShardFolder(Sink):
    """Vectors with their texts and metadata in `shard-000000.parquet`, ...: the output of a bulk encoding.

    After a kill each shard is complete or missing. Of n processes, each takes every n-th shard (`rank` and `world`).

    Columns: `id` int64, `text`, `metadata` (JSON), `embedding`: unit vectors, as a fixed-size list of float32, or
    quantized by `quantize`. The ranges of int8 are those of the shard that was encoded first, in `ranges.npy`.
    `file` is the name of a document's file in a folder; shards of former versions do not have it.

    Args:
        folder: the folder of the shards.
        encoding: the record, to start or continue the folder; None opens an existing folder.
        rank: number of this process, of `world`.

    Raises:
        InputError: the folder has other vectors, or none.
    """

    def __init__(self, folder: str | Path, encoding: Encoding | None = None, rank: int = 0, world: int = 1) -> None:
        self.folder, self.rank, self.world = Path(folder).expanduser(), rank, world
        record = self.folder / RECORD
        if encoding is not None and not record.exists():
            write_json(record, asdict(replace(encoding, shards=0)))
        if not record.is_file():
            raise InputError(f"{folder} has no encoded vectors (no {RECORD})")
        with about(record):
            self.encoding = Encoding(**read_json(record, dict))
        if encoding is not None and encoding != self.encoding:
            ours, theirs = asdict(self.encoding), asdict(encoding)
            compared = [one.name for one in fields(Encoding) if one.compare]
            other = ", ".join(
                "the corpus has changed, or is read with other options" if name == "corpus_fingerprint"
                else f"{name} {theirs[name]}, not {ours[name]}"
                for name in compared if ours[name] != theirs[name]
            )  # fmt: skip
            raise InputError(f"{folder} does not fit: {other}; remove it to start again, or choose another --output")
        if encoding is not None and encoding.model != self.encoding.model and rank == 0:
            self.encoding = replace(self.encoding, model=encoding.model)
            write_json(record, asdict(self.encoding))

    def claim(self, shard: int) -> bool:
        """Whether this process should encode the shard."""
        return shard % self.world == self.rank and not self._path(shard).exists()

    def add(self, shard: int, batch: Batch, members: Members | None = None) -> None:
        """Write a shard."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        ids, texts, metadata, vectors = batch
        members = members or Members([""] * len(ids), ids)
        if len(vectors):
            if self.encoding.precision == "int8" and self.ranges is None:
                self._calibrate(vectors)
            stored = quantize(vectors, self.encoding.precision, self.ranges)
        else:  # all were left out; of no vectors there are no ranges
            zeros = np.zeros((2, self.encoding.dimension), np.float32)
            stored = quantize(zeros, self.encoding.precision, zeros)[:0]
        table = pa.table(
            {
                "id": pa.array(ids),
                "text": pa.array([storable(text) for text in texts], pa.string()),
                "metadata": pa.array([json.dumps(item, ensure_ascii=False) for item in metadata]),
                "embedding": pa.FixedSizeListArray.from_arrays(pa.array(stored.reshape(-1)), stored.shape[1]),
                "file": pa.array(members.files, pa.string()),
            },
            metadata={_LEFT_OUT: json.dumps(members.left_out.tolist())},
        )
        with atomic_write(self._path(shard), overwrite=True) as path:
            pq.write_table(table, path, use_dictionary=["metadata", "file"])

    def finish(self, shards: int, unread: Set[str] = frozenset()) -> bool:
        """Whether all shards exist; called when the corpus has been read to its end, and records their number."""
        if self.encoding.shards != shards:
            files = {name: digest for name, digest in self.encoding.files.items() if name not in unread}
            self.encoding = replace(self.encoding, shards=shards, files=files)
            write_json(self.folder / RECORD, asdict(self.encoding))
        return len(self.paths()) == shards

    def missing(self) -> str:
        """A line that says that shards are missing; blank if all are there, as far as the folder knows."""
        numbers, total = [int(path.stem.removeprefix("shard-")) for path in self.paths()], self.encoding.shards
        if numbers == list(range(len(numbers) if total is None else total)):
            return ""
        of_all = f" of {total:,}" if total else ""
        return f"{self.folder} is incomplete (shards: {len(numbers):,}{of_all}); finish encoding the corpus first"

    def paths(self) -> list[Path]:
        """The existing shards, in their order."""
        return sorted(self.folder.glob("shard-*.parquet"))

    def batches(self) -> Iterator[tuple[int, Batch, Members]]:
        """Each shard's number with its documents, and which these are."""
        for path in self.paths():
            yield int(path.stem.removeprefix("shard-")), *self.read(path)

    def read(self, path: Path) -> tuple[Batch, Members]:
        """Ids, texts, metadata and unit vectors of one file, and its members; quantized vectors are decoded."""
        (table, stored), made = read_table(path), self.encoding
        if not len(stored):
            stored = np.empty((0, made.dimension), np.float32)
        elif made.precision != "float32":
            stored = unit_vectors(dequantize(stored, made.precision, made.dimension, self.ranges))
        metadata = [json.loads(item) for item in table["metadata"].to_pylist()]
        ids, left_out = table["id"].to_numpy(), json.loads((table.schema.metadata or {}).get(_LEFT_OUT, "[]"))
        named = bool(made.files) and "file" in table.column_names  # not if a former version began the folder
        files = table["file"].to_pylist() if named else [""] * len(ids)
        members = Members(files, ids, np.array(left_out, dtype=np.int64))
        return (ids, table["text"].to_pylist(), metadata, stored), members

    @property
    def ranges(self) -> NDArray[np.float32] | None:
        """Lowest and highest value of each dimension, `[2, d]`, for int8; None before the first shard."""
        path = self.folder / RANGES
        return np.load(path) if self.encoding.precision == "int8" and path.exists() else None

    def _calibrate(self, vectors: Vectors) -> None:
        """Take the ranges of these vectors, or those of another process if it was first."""
        temporary = self.folder / f".{secrets.token_hex(8)}.npy"
        try:
            with open(temporary, "wb") as file:
                np.save(file, quantization_ranges(vectors))
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(temporary, self.folder / RANGES)
        finally:
            temporary.unlink(missing_ok=True)

    def _path(self, shard: int) -> Path:
        return self.folder / f"shard-{shard:06}.parquet"


def is_folder_of_shards(where: str | Path) -> bool:
    """Whether a path is a folder that `ShardFolder` opens."""
    return Path(where).expanduser().joinpath(RECORD).is_file()


def read_table(path: Path) -> tuple[pa.Table, np.ndarray]:
    """The table of one file, and its vectors `[n, ...]` as stored."""
    import pyarrow.parquet as pq

    with about(path):
        table = pq.read_table(path).combine_chunks()
        rows = table["embedding"].combine_chunks()
        return table, rows.flatten().to_numpy().reshape(len(table), rows.type.list_size)
