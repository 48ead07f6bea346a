"""`encode_file`: encode a file of texts of any size into a file of vectors, block by block; a killed run continues."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from contrastive_st.data.reading import stream_texts
from contrastive_st.device import VECTOR_PRECISIONS
from contrastive_st.errors import InputError, about, choice
from contrastive_st.files.writing import atomic_write, check_target, locked, write_errors, write_json
from contrastive_st.models.protocol import open_encoder
from contrastive_st.prefetch import in_chunks, prefetch
from contrastive_st.search.documents import open_corpus
from contrastive_st.vectors import quantization_ranges, quantize, unit_vectors

PIECE = 16_384  # texts that are encoded and committed together: a kill loses at most one such block
_FORMATS = (".npy", ".parquet")
_ROWS, _TABLE, _STATE, _STDIN, _LOCK = "rows", "whole.parquet", "state.json", "stdin.txt", "lock"  # in OUTPUT.part
_KINDS = {"float32": np.float32, "int8": np.int8, "ubinary": np.uint8}
Texts = Callable[[], Iterator[str]]


class Encoded(NamedTuple):
    """Result of a call.

    Args:
        rows: number of vectors in the file.
        dimension: of a vector.
        encoded: how many of them this call encoded.
        truncated: how many of these are of a text longer than the model reads, and so of its beginning.
        unknown: how many of these are of a blank text, or one of which the model knows no token.
    """

    rows: int
    dimension: int
    encoded: int
    truncated: int
    unknown: int = 0


def encode_file(
    source: str,
    output: str | Path,
    model: object = None,
    *,
    column: str | int | None = None,
    normalize: bool = False,
    precision: str = "float32",
    ranges: str | Path | None = None,
    overwrite: bool = False,
    show_progress_bar: bool = False,
    model_precision: str = "fp32",
    **options: Any,
) -> Encoded:
    """Encode a file that may be larger than memory; after a kill, the same call continues where it stopped.

    Row i of the output is row i of the source; blank rows are kept. Unfinished work is kept in `OUTPUT.part`. The
    output has the same bytes as that of a call that was never killed.

    Args:
        source: as for `read_texts`; `-` is stdin, one text per line.
        output: `.npy`: vectors `[N, d]` for `numpy.load`; `.parquet`: the columns `text` and `embedding`.
        model: as for `open_encoder`.
        column: the column to encode, by name or position (from 0); by default the first one with text.
        normalize: write unit vectors.
        precision: precision of the output: `float32`, `int8` or `ubinary` (see `contrastive_st.vectors.quantize`).
        ranges: ranges of int8, a `.npy` file `[2, d]`; by default those of the first 16,384 texts. They are written
            next to the output, as `NAME.ranges.npy`.
        overwrite: replace an existing output, and restart work that was begun with another source or model.
        show_progress_bar: show the rate and the time left, on stderr.
        model_precision: the `precision` of `SentenceEncoder`.
        options: options of `open_encoder`, such as `pooling`.

    Returns:
        How many vectors the file has, and how many this call encoded.

    Raises:
        InputError: the source is damaged, the output exists or was begun with another source, or the disk is full.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     texts = Path(folder, "texts.txt")
        ...     _ = texts.write_text("a cat sat\\na dog ran\\n")
        ...     encode_file(str(texts), Path(folder, "vectors.npy"))
        Encoded(rows=2, dimension=256, encoded=2, truncated=0, unknown=0)
    """
    if choice("precision", precision, VECTOR_PRECISIONS) != "int8" and ranges is not None:
        raise InputError(f"ranges are for int8, not for {precision}; leave them out")
    output, bounds = check_target(Path(output), overwrite, formats=_FORMATS), None
    if ranges is not None:
        with about(ranges):
            bounds = np.lib.format.read_array(io.BytesIO(Path(ranges).read_bytes()), allow_pickle=False)
            if bounds.ndim != 2 or len(bounds) != 2 or not np.isfinite(bounds).all():
                raise InputError(f"{ranges}: give a .npy file [2, d] with the lowest and the highest values, finite")
        bounds = bounds.astype(np.float32)
    with _part_folder(output) as folder:
        name = None
        if source == "-":  # stdin is written to the disk first
            name, path = "stdin", folder / _STDIN
            with write_errors(output), open(path, "wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
            if not path.stat().st_size:
                raise InputError("stdin is empty; pipe one sentence per line, or name a file")
            source = str(path)
        texts, corpus = stream_texts(source, column, name), open_corpus(source)
        encoder = open_encoder(model, precision=model_precision, **options)
        made_of = {
            "source": corpus.fingerprint, "column": column, "model": encoder.fingerprint, "normalize": normalize,
            "model_precision": getattr(encoder, "precision", "fp32"), "precision": precision, "piece": PIECE,
            "ranges": None if bounds is None else hashlib.blake2b(bounds.tobytes(), digest_size=16).hexdigest(),
        }  # fmt: skip
        growing = _Growing(output, folder, made_of, encoder.dimension, bounds, overwrite)
        with growing.file:
            before, truncated, unknown, prompt = growing.rows, 0, 0, encoder.prompt_text()
            with tqdm(
                total=corpus.rows, initial=before, disable=not show_progress_bar, unit=" texts", desc="encode"
            ) as bar:
                for piece in prefetch(in_chunks(islice(texts(), before, None), PIECE)):
                    rows = encoder.token_rows(piece, prompt)
                    vectors = encoder.encode_rows(rows, prompt)
                    truncated += len(encoder.truncated(piece, rows, prompt))
                    unknown += int((~encoder.known_rows(rows, prompt)).sum())
                    growing.add(unit_vectors(vectors) if normalize else vectors)
                    bar.update(len(piece))
                growing.finish(texts)
            return Encoded(growing.rows, encoder.dimension, growing.rows - before, truncated, unknown)


@contextlib.contextmanager
def _part_folder(output: Path) -> Iterator[Path]:
    """The folder of unfinished work; it is removed if it has no complete block."""
    folder = output.with_name(f"{output.name}.part")
    with write_errors(output):
        folder.mkdir(exist_ok=True)
    with locked(folder / _LOCK, f"another process is encoding into {output}; wait until it ends"):
        try:
            yield folder
        finally:
            if not (folder / _STATE).exists():
                for name in (_ROWS, _TABLE, _STDIN, _LOCK):
                    (folder / name).unlink(missing_ok=True)
                for scratch in folder.glob(".*.tmp"):  # left by `atomic_write` in a process that was killed
                    shutil.rmtree(scratch, ignore_errors=True)
                with contextlib.suppress(OSError):  # the folder has other files
                    folder.rmdir()


class _Growing:
    """Vectors in `OUTPUT.part`: the first bytes of a `.npy` file, and the number of rows that are committed.

    Args:
        output: the final file.
        folder: `OUTPUT.part`.
        made_of: everything that determines the bytes.
        dimension: d.
        ranges: ranges of int8; None takes those of the first block.
        overwrite: restart work that was begun with another source, model or option.
    """

    def __init__(
        self,
        output: Path,
        folder: Path,
        made_of: dict[str, object],
        dimension: int,
        ranges: NDArray[np.float32] | None,
        overwrite: bool,
    ) -> None:
        self.output, self.folder, self.made_of, self.overwrite = output, folder, made_of, overwrite
        self.precision, self.ranges, self.rows = str(made_of["precision"]), ranges, 0
        self.ranges_file = output.with_name(f"{output.stem}.ranges.npy")
        self.kind = np.dtype(_KINDS[self.precision])
        self.width = -(-dimension // 8) if self.precision == "ubinary" else dimension
        begun = self._begun()
        if self.precision == "int8" and not begun:
            check_target(self.ranges_file, overwrite)
        with write_errors(output):
            self.file = open(folder / _ROWS, "r+b" if begun else "w+b")  # noqa: SIM115 - closed by close()
            self.file.write(_header(self.kind, (0, self.width)))
            self.file.truncate(self._size())
            self.file.seek(0, os.SEEK_END)

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Commit the next piece."""
        if self.precision == "int8" and self.ranges is None:
            self.ranges = quantization_ranges(vectors)
        stored = np.ascontiguousarray(quantize(vectors, self.precision, self.ranges))
        with write_errors(self.output):
            self.file.write(stored.data)
            self._to_disk()
        self.rows += len(stored)
        ranges = None if self.ranges is None else self.ranges.tolist()
        write_json(self.folder / _STATE, {"made_of": self.made_of, "rows": self.rows, "ranges": ranges}, indent=None)

    def finish(self, texts: Texts) -> None:
        """Move the output to its final name; a parquet file also gets the texts."""
        if self.ranges is not None and self.precision == "int8":
            with atomic_write(self.ranges_file, overwrite=True) as path:
                np.save(path, self.ranges)
        if self.output.suffix == ".parquet":
            import pyarrow as pa
            from pyarrow import parquet

            kind, complete = pa.list_(pa.from_numpy_dtype(self.kind), self.width), self.folder / _TABLE
            schema = pa.schema([("text", pa.string()), ("embedding", kind)])
            self.file.seek(_HEADER)
            with (
                atomic_write(complete, overwrite=True) as path,
                parquet.ParquetWriter(path, schema, use_dictionary=False) as writer,
            ):
                for piece in in_chunks(texts(), PIECE):
                    stored = np.frombuffer(self.file.read(len(piece) * self.width * self.kind.itemsize), self.kind)
                    if len(stored) != len(piece) * self.width:
                        raise InputError("the source has changed since it was encoded; give --overwrite to start again")
                    vectors = pa.FixedSizeListArray.from_arrays(pa.array(stored), self.width)
                    table = pa.table([pa.array(piece, pa.string()), vectors], schema=schema)
                    writer.write_table(table, row_group_size=len(piece))
        else:
            complete = self.folder / _ROWS
            with write_errors(self.output):
                self.file.seek(0)
                self.file.write(_header(self.kind, (self.rows, self.width)))
                self._to_disk()
        check_target(self.output, self.overwrite)
        with write_errors(self.output):
            os.replace(complete, self.output)
        (self.folder / _STATE).unlink()

    # ------------------------------------------------------------------ inside

    def _begun(self) -> bool:
        """Whether there are complete blocks to continue from; loads their number and ranges."""
        try:
            state = json.loads((self.folder / _STATE).read_text(encoding="utf-8"))
            made_of, rows, ranges = state["made_of"], int(state["rows"]), state["ranges"]
            if (self.folder / _ROWS).stat().st_size < self._size(rows):
                return False
        except (OSError, ValueError, LookupError, TypeError):
            return False
        if made_of != self.made_of:
            other = ", ".join(name for name in self.made_of if made_of.get(name) != self.made_of[name])
            if self.overwrite:
                return False
            fix = "give --overwrite to start again, or choose another --output"
            raise InputError(f"{self.folder} was started with another {other}; {fix}")
        self.rows, self.ranges = rows, None if ranges is None else np.array(ranges, dtype=np.float32)
        return True

    def _size(self, rows: int | None = None) -> int:
        rows = self.rows if rows is None else rows
        return _HEADER + rows * self.width * int(self.kind.itemsize)

    def _to_disk(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())


def _header(kind: np.dtype, shape: tuple[int, int]) -> bytes:
    """The header of a `.npy` file; its length does not depend on the number of rows."""
    file = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, described)
    return file.getvalue()


_HEADER = len(_header(np.dtype(np.float32), (0, 1)))
