"""What is in a file: decompressed, with its encoding detected, line by line. `decode` does the same for bytes."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import gzip
import io
import logging
import lzma
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from contrastive_st import text_format
from contrastive_st.errors import InputError

logger = logging.getLogger(__name__)
LONGEST_LINE = 64 << 20  # bytes; a book has a few MB, and a file of zeros is one line of whatever size
LARGEST_WHOLE = 1 << 30  # bytes of what is read as a whole: a list of JSON, a document
_SAMPLE = 1 << 14  # bytes of lines beyond ASCII from which an encoding is detected
_BLOCK = 1 << 20
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32",
          codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}  # fmt: skip
#: How a file begins that is not text, with the extension that its name lacks
_NOT_TEXT = re.compile(
    rb"(?P<gz>\x1f\x8b)|(?P<bz2>BZh\d1AY&SY)|(?P<xz>\xfd7zXZ\0)|(?P<zst>\x28\xb5\x2f\xfd)|"
    rb"(?P<parquet>PAR1\x15)|(?P<arrow>ARROW1\0)|(?P<zip>PK\x03\x04)|(?P<xls>\xd0\xcf\x11\xe0)"
)
_NOT_ASCII = re.compile(r"\w*[^\W\x00-\x7f]\w*")  # words with a letter beyond ASCII
# a Latin letter next to a Greek, Cyrillic, Hebrew or Arabic one
_MIXED = re.compile("[a-zA-Z][\u0370-\u06ff]|[\u0370-\u06ff][a-zA-Z]")
_DECLARED = re.compile(rb"<(?:meta[^>]+charset|\?xml[^>]+encoding)=[\"']?([\w.:-]+)", re.IGNORECASE)


def _open_zstd(path: Path) -> BinaryIO:
    import pyarrow as pa  # here, because texts are read without it

    opened: BinaryIO = pa.input_stream(str(path), compression="zstd")
    return opened


#: How a file is opened, by the extension of its compression
COMPRESSED: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _open_zstd,
}


class MissingData(InputError):
    """A file or data set does not exist; tasks that need it are reported as not run."""


def path_of(source: str | Path) -> Path:
    """A path, with `~` or `~user` expanded to the home folder if there is such a user."""
    return Path(os.path.expanduser(Path(source)))


def format_of(path: str | Path) -> str:
    """The extension that names the format of a file, in lower case: `.jsonl` for `a.jsonl` and `a.jsonl.gz`.

    Example:
        >>> format_of(Path("a.JSONL.gz")), format_of(Path("a.csv"))
        ('.jsonl', '.csv')
    """
    stem, suffix = os.path.splitext(path)
    return (os.path.splitext(stem)[1] if suffix.lower() in COMPRESSED else suffix).lower()


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading, decompressed if its name ends in `.gz`, `.bz2`, `.xz` or `.zst`."""
    opened: BinaryIO = COMPRESSED.get(path.suffix.lower(), partial(open, mode="rb"))(path)
    return opened


@contextlib.contextmanager
def reading(source: str | Path) -> Iterator[None]:
    """Name the file in the errors of reading it; a file that does not exist is `MissingData`."""
    try:
        yield
    except FileNotFoundError:
        raise MissingData(f"{source}: there is no such file; check the path (seen from {Path.cwd()})") from None
    except Exception as error:
        if not isinstance(error, InputError) and not hasattr(error, "about"):  # as `errors.about`
            error.about = str(source)  # type: ignore[attr-defined]
        raise


def check_file(path: Path, source: str | Path) -> os.stat_result:
    """The `stat` of a file; raises `InputError` if it is not a regular file, or empty."""
    with reading(source):
        facts = path.stat()
    if not stat.S_ISREG(facts.st_mode):
        raise InputError(f"{source} is not a regular file, and it must be read twice; save it as a file first")
    if facts.st_size == 0:
        raise InputError(f"{source}: the file is empty; it needs at least one sentence")
    return facts


# --- Encodings.


def decode(content: bytes, source: str) -> tuple[str, str]:
    """Decode bytes by their byte order mark, the encoding they declare, UTF-8, or else the encoding that is detected.

    Args:
        content: such as a whole HTML page.
        source: where it comes from, for messages.

    Raises:
        InputError: it is not text.

    Example:
        >>> decode("café".encode("utf-16"), "a.txt"), decode("Καλημέρα κόσμε".encode("cp1253"), "b.txt")
        (('café', 'utf-16'), ('Καλημέρα κόσμε', 'cp1253'))
        >>> decode('<meta charset="windows-1251"><p>Да'.encode("cp1251"), "c.html")[0][-2:]
        'Да'
    """
    declared = _DECLARED.search(content[:4096])
    if declared and not content.startswith(tuple(_MARKS)):
        with contextlib.suppress(LookupError, UnicodeDecodeError):
            return content.decode(name := declared[1].decode()), name
    encoding = encoding_of(io.BytesIO(content), source)
    with reading(source):
        return content.decode(encoding), encoding


def encoding_of(file: BinaryIO, source: str) -> str:
    """Find the encoding of an opened file, which is read to its end: by a byte order mark, UTF-8, or else detected.

    What `--encoding` says goes before all.

    Raises:
        InputError: it is not text.
    """
    if asked := text_format.asked.encoding:
        try:
            return codecs.lookup(asked).name
        except LookupError:
            raise InputError(f"--encoding {asked}: there is no such encoding") from None
    start = file.read(4096)
    if packed := _NOT_TEXT.match(start):
        kind = str(packed.lastgroup)
        fix = f"rename it to {source}.{kind}" if kind not in ("zip", "xls") else "unpack it, or save it as csv"
        raise InputError(f"{source} is not text but {'.xlsx or ' * (kind == 'zip')}.{kind}; {fix}")
    if mark := next((mark for mark in _MARKS if start.startswith(mark)), None):
        return _MARKS[mark]
    if start and not start.strip(b"\0"):
        raise InputError(f"{source} begins with {len(start):,} null characters; is this a text file?")
    if len(start) > 1 and (zeros := start.count(0)) * 3 > len(start) and zeros < len(start) * 0.6:  # no byte order mark
        return "utf-16-le" if start[1::2].count(0) > start[::2].count(0) else "utf-16-be"
    decoder, sample = codecs.getincrementaldecoder("utf-8")(), list[bytes]()
    blocks = chain([start], iter(partial(file.read, _BLOCK), b""))
    try:
        for block in blocks:
            if not block.isascii() or decoder.getstate()[0]:  # ASCII alone need not be decoded
                decoder.decode(block)
    except UnicodeDecodeError:
        for other in chain([block], blocks):
            sample += [line for line in other.splitlines() if not line.isascii()]
            if sum(map(len, sample)) > _SAMPLE:
                break
        return _detected(b"\n".join(sample)[:_SAMPLE])
    return "utf-8"


def _detected(content: bytes) -> str:
    """The encoding of some lines that are not UTF-8."""
    import chardet  # here, because few files need it

    era = chardet.EncodingEra.MODERN_WEB  # with those of DOS and of old Macs, short texts are taken for them
    names = [one["encoding"] or "cp1252" for one in chardet.detect_all(content, encoding_era=era, prefer_superset=True)]
    for name in names:  # short French is taken for Cyrillic: then most of its words mix the scripts
        words = _NOT_ASCII.findall(content.decode(name, "replace"))
        if 2 * sum(_MIXED.search(word) is not None for word in words) <= len(words):
            return codecs.lookup(name).name
    return codecs.lookup(names[0]).name


def encoding_note(encoding: str) -> str:
    """The line that says which encoding was detected; blank for UTF-8 and what was asked for."""
    if encoding.startswith("utf-8") or text_format.asked.encoding:
        return ""
    return f"not UTF-8: read as {encoding}; if its texts look wrong, give --encoding, such as --encoding cp1252"


# --- Lines.


def text_lines(path: Path, source: str, encoding: str = "utf-8-sig", errors: str = "strict") -> Iterator[str]:
    r"""The lines of a file with their ends: `\n` and `\r\n`, or `\r` in a file that has no other.

    A byte order mark before a line, as where files were joined, is left out.

    Raises:
        InputError: a line has `LONGEST_LINE` characters or more.
    """
    with reading(source), open_bytes(path) as file:
        start = file.read(_BLOCK)
    end = "\r" if b"\r" in start and b"\n" not in start else "\n"
    with reading(source), open_bytes(path) as file:
        text = io.TextIOWrapper(file, encoding, errors, newline=end)
        for number, line in enumerate(iter(partial(text.readline, LONGEST_LINE), ""), 1):
            if len(line) == LONGEST_LINE and not line.endswith(end):
                raise InputError(f"{source}, line {number} has {LONGEST_LINE:,} bytes or more; is this a text file?")
            yield line.removeprefix("\ufeff")


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    r"""Yield the lines of a text file with their numbers, without line ends (`\n` or `\r\n`) and byte order mark.

    The encoding is detected.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "a.txt")
        ...     _ = path.write_bytes("café \x85 one\r\ntwo\n".encode())
        ...     list(numbered_lines(path))
        [(1, 'café \x85 one'), (2, 'two')]
    """
    with reading(path), open_bytes(path_of(path)) as file:
        encoding = encoding_of(file, str(path))
    if note := encoding_note(encoding):
        logger.warning(f"{path}: {note}")
    return enumerate((line.rstrip("\r\n") for line in text_lines(path_of(path), str(path), encoding)), 1)


def stdin_texts() -> list[str]:
    r"""The texts of stdin, one for each line that is not blank, as a file of them is read: lines end with `\n`."""
    content = sys.stdin.buffer.read()
    encoding = encoding_of(io.BytesIO(content), "stdin")
    if note := encoding_note(encoding):
        logger.warning(f"stdin: {note}")
    with reading("stdin"):
        return [text for line in content.decode(encoding).split("\n") if (text := line.strip("\ufeff").strip())]
