"""DNA, RNA and protein sequences from FASTA files."""

from __future__ import annotations

import gzip
import lzma
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from contrastive_st.errors import InputError

#: The letters of each kind of sequence, and those that stand for several or for what is not known (IUPAC)
ALPHABETS = {"dna": "ACGT", "rna": "ACGU", "protein": "ACDEFGHIKLMNPQRSTVWY"}
AMBIGUOUS = {"dna": "BDHKMNRSVWY", "rna": "BDHKMNRSVWY", "protein": "BJOUXZ"}


class Sequence(NamedTuple):
    """One record: `name` is the header up to the first white space, `description` the rest of it."""

    name: str
    description: str
    letters: str


def check_kind(kind: str) -> str:
    """Return `kind` if it is one of `ALPHABETS`, else raise `InputError` with the list."""
    if kind not in ALPHABETS:
        raise InputError(f"unknown kind of sequence {kind!r}; choose one of {', '.join(ALPHABETS)}")
    return kind


def read_fasta(path: str | Path, kind: str) -> Iterator[Sequence]:
    """The sequences of a FASTA file, one after the other; never the whole file.

    Lower case (soft masking) is made upper case. Ambiguity letters are kept: no k-mer with one of them is in a
    vocabulary. The stop sign `*` that ends a protein is left out.

    Args:
        path: plain, or packed as `.gz` or `.xz`.
        kind: `dna`, `rna` or `protein`.

    Raises:
        InputError: no such file, no FASTA, a record without letters, or a letter that the kind has not (a gap `-` of an
            alignment is one); names file and line.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "two.fasta")
        ...     _ = path.write_text(">one first of two\\nACGT\\nacgn\\n\\n>two\\nTTTT\\n")
        ...     list(read_fasta(path, "dna"))
        [Sequence(name='one', description='first of two', letters='ACGTACGN'),
         Sequence(name='two', description='', letters='TTTT')]
    """
    wrong = re.compile(f"[^{ALPHABETS[check_kind(kind)]}{AMBIGUOUS[kind]}]")
    header, at = "", 0
    parts: list[str] = []
    for number, line in _lines(Path(path).expanduser()):
        if line.startswith(">"):
            if at:
                yield _record(path, at, header, parts)
            header, at, parts = line[1:].strip(), number, []
        elif not at:
            raise InputError(f"{path}, line {number}: no FASTA, which starts with a line '>name'; give another file")
        else:
            letters = "".join(line.split()).upper()
            found = wrong.search(letters.removesuffix("*") if kind == "protein" else letters)
            if found:
                raise InputError(f"{path}, line {number}: {found.group()!r} {_why(found.group(), kind)}")
            parts.append(letters)
    if not at:
        raise InputError(f"{path}: the file holds no sequence; it needs at least one, after a line '>name'")
    yield _record(path, at, header, parts)


def _record(path: str | Path, line: int, header: str, parts: list[str]) -> Sequence:
    letters = "".join(parts)
    if "*" in letters[:-1]:
        raise InputError(
            f"{path}, line {line}: {header[:40]!r} has a stop '*' before its end; translate it in one frame"
        )
    letters = letters.removesuffix("*")
    if not letters:
        raise InputError(f"{path}, line {line}: {header[:40]!r} has no letters; take the record out")
    name, _, description = header.partition(" ")
    return Sequence(name, description.strip(), letters)


def _why(letter: str, kind: str) -> str:
    if letter in "-.":
        return "is a gap of an alignment; give the sequences without gaps"
    others = [name for name in ALPHABETS if name != kind and letter in ALPHABETS[name] + AMBIGUOUS[name]]
    return f"is no letter of {kind}" + (f"; is it {' or '.join(others)}?" if others else "; mend the file")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    opened: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix.lower(), open)
    number = 0
    try:
        with opened(path, "rt", encoding="ascii") as file:
            for number, line in enumerate(file, 1):
                if line.strip() and not line.startswith(";"):
                    yield number, line.strip()
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; check the path (seen from {Path.cwd()})") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {number + 1}: not plain ASCII text; is the file packed otherwise?") from error
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        raise InputError(f"{path}, line {number + 1} cannot be read: {error}; fetch the file anew") from error
