"""A search corpus that needs no download: (summary, explanation) pairs from the docstrings on this machine.

The first paragraph of a docstring says in a line what the next paragraph of prose explains, which makes the
two an anchor and its positive. What counts as such a pair is in `docstrings.py`.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import logging
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from contrastive_st.data import docstrings
from contrastive_st.data.docstrings import pairs_of_files
from contrastive_st.errors import InputError

logger = logging.getLogger(__name__)

EXTRACTOR_VERSION = 1  # part of the cache's name: raise it whenever a rule in docstrings.py changes what comes out
SKIPPED_FOLDERS = {  # tests, second copies, the site-packages within a standard library, and ourselves
    *("test", "tests", "testing", "idle_test", "_vendor", "__pycache__", "site-packages", "dist-packages"),
    "contrastive_st",
}


class DocPair(NamedTuple):
    """The first paragraph of a docstring, the next one of prose, and the dotted name of what they tell of."""

    title: str
    text: str
    source: str


def installed_docs(
    cache_dir: str | Path | None = None,
    workers: int | None = None,
    *,
    roots: Sequence[str | Path] | None = None,
) -> list[DocPair]:
    """The pairs in every package installed beside the running interpreter, and in its standard library.

    With torch, transformers, pandas, scipy and scikit-learn that is about 20,000 pairs, 2,300 of them from
    the standard library: summaries of 11 words, explanations of 27. The first call for an environment parses
    200 MB of Python in 10 to 30 seconds; its result is kept in a JSON file whose name is a fingerprint of the
    environment. What comes out depends on what is installed, and not on the number of workers.

    Args:
        cache_dir: where the result is kept; `$CONTRASTIVE_ST_CACHE`, else `~/.cache/contrastive_st`.
        workers: processes that parse; by default one for each processor, at most 8.
        roots: read the packages below these folders instead, and keep nothing.

    Example:
        >>> import pathlib, tempfile
        >>> prose = "The level is the sum of the waves that the moon and the sun raise."
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "tide.py").write_text(f"'''Levels of the tide.\\n\\n{prose}'''")
        ...     installed_docs(roots=[folder])[0][::2]
        ('Levels of the tide.', 'tide')
    """
    if roots is not None:
        return unique_pairs(_extract(roots, workers))
    folder = Path(cache_dir or os.environ.get("CONTRASTIVE_ST_CACHE") or "~/.cache/contrastive_st").expanduser()
    path = folder / f"installed_docs-{environment_fingerprint()}.json"
    try:
        return [DocPair(*row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):  # not there yet, or not what this function wrote
        pairs = unique_pairs(_extract(installed_roots(), workers))
    try:
        _write_atomically(path, json.dumps(pairs, ensure_ascii=False, indent=0))
    except OSError as error:
        logger.warning("%s cannot be written (%s): the docstrings will be read again next time", path, error)
    return pairs


def installed_roots() -> list[Path]:
    """Where the packages of the running interpreter lie: site-packages first, then the standard library."""
    paths = (Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib", "stdlib"))
    return [path for path in dict.fromkeys(paths) if path.is_dir()]


def environment_fingerprint() -> str:
    """Sixteen hex digits that change with the interpreter, with what is installed, or with the rules here."""
    folders = list({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    installed = importlib.metadata.distributions(path=folders)
    versions = sorted(f"{dist.name}=={dist.version}" for dist in installed)
    state = [EXTRACTOR_VERSION, sys.version, sys.platform, versions]
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()[:16]


def split_pairs(pairs: Iterable[DocPair], heldout: int = 1000) -> tuple[list[DocPair], list[DocPair]]:
    """Training pairs and held-out pairs, by a hash of the text alone: the order of `pairs` is of no account.

    The held-out pairs are those with the smallest hashes, smallest first. A training pair that shares its
    title or its text with one of them, whatever the case of the letters, is left out.

    Raises:
        InputError: there are not more than `heldout` pairs, or `heldout` is negative.

    Example:
        >>> pairs = [DocPair(f"title {i}", f"text {i}", "here") for i in range(5)]
        >>> train, test = split_pairs(pairs, heldout=2)
        >>> len(train), len(test), split_pairs(pairs[::-1], heldout=2)[1] == test
        (3, 2, True)
    """
    pairs = list(pairs)
    if not 0 <= heldout < len(pairs):
        raise InputError(f"cannot hold out {heldout} of {len(pairs)} pairs; hold out fewer, and at least 0")
    ranked = sorted(pairs, key=lambda pair: (hashlib.sha256(pair.text.encode()).digest(), pair))
    test = ranked[:heldout]
    taken = {string for pair in test for string in _folded(pair)}
    return [pair for pair in pairs if not taken & _folded(pair)], test


def unique_pairs(pairs: Iterable[DocPair]) -> list[DocPair]:
    """Those pairs neither of whose strings was met before, whatever the case of the letters."""
    seen: set[str] = set()
    kept = []
    for pair in pairs:
        if not seen & _folded(pair):
            seen |= _folded(pair)
            kept.append(pair)
    return kept


def _folded(pair: DocPair) -> set[str]:
    return {pair.title.casefold(), pair.text.casefold()}


def _extract(roots: Iterable[str | Path], workers: int | None) -> list[DocPair]:
    files = [file for root in roots for file in _python_files(Path(root))]
    workers = workers or min(8, os.cpu_count() or 1)
    size = max(100, -(-len(files) // (8 * workers)))
    chunks = [files[start : start + size] for start in range(0, len(files), size)]
    if workers == 1 or len(chunks) < 2:
        found = map(pairs_of_files, chunks)
    else:
        with ThreadPoolExecutor(workers) as pool:
            found = pool.map(_in_a_process, chunks)
    return [DocPair(*row) for rows in found for row in rows]


def _python_files(root: Path) -> list[tuple[str, str]]:
    files = []
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if name not in SKIPPED_FOLDERS]
        files += [Path(folder, name) for name in names if name.endswith(".py")]
    named = sorted((file.relative_to(root).with_suffix("").parts, str(file)) for file in files)
    return [(file, ".".join(parts).removesuffix(".__init__")) for parts, file in named]


def _in_a_process(files: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
    try:  # -I: nothing of the caller's folders or settings; -S: nor of what is installed
        command = [sys.executable, "-I", "-S", docstrings.__file__]
        done = subprocess.run(command, input=json.dumps(files).encode(), stdout=subprocess.PIPE, check=True)
        pairs: list[tuple[str, str, str]] = json.loads(done.stdout)
        return pairs
    except (OSError, subprocess.CalledProcessError) as error:
        logger.debug("no process for %d files (%s): read here instead", len(files), error)
        return pairs_of_files(files)


def _write_atomically(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
