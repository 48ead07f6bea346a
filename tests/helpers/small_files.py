"""Writers of small files as people have them."""

import bz2
import csv
import gzip
import io
import json
import lzma
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq


def delimited(rows, delimiter=",", encoding="utf-8"):
    """A table as Python's own writer writes it."""
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode(encoding)


def lines(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda content: pa.compress(content, codec="zstd", asbytes=True),
}


def put(folder, name, content):
    """Write a file (bytes, text, or rows in the format of its name), or a folder (a mapping of such); its path."""
    path = folder / name
    if isinstance(content, Mapping) and not isinstance(content, (bytes, str)):
        for inner, own in content.items():
            put(path, inner, own)
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    zipped = COMPRESS.get(path.suffix, bytes)
    kind = path.with_suffix("").suffix if path.suffix in COMPRESS else path.suffix
    if isinstance(content, pa.Table) or (kind == ".parquet" and isinstance(content, list)):
        written = pa.BufferOutputStream()
        pq.write_table(content if isinstance(content, pa.Table) else pa.Table.from_pylist(content), written)
        path.write_bytes(zipped(written.getvalue().to_pybytes()))
    elif isinstance(content, list):
        written = {".json": lambda: json.dumps(content).encode(), ".jsonl": lambda: lines(content)}
        other = {".csv": lambda: delimited(content), ".tsv": lambda: delimited(content, "\t")}
        path.write_bytes(zipped((written | other)[kind]()))
    else:
        path.write_bytes(zipped(content.encode() if isinstance(content, str) else content))
    return path


@contextmanager
def full_disk(size: int = 1000) -> Iterator[None]:
    """No file may grow past this size, which ends a write as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
