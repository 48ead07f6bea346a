"""A corpus that needs no download: (summary, explanation) pairs from the docstrings of the installed packages.

The first paragraph of a docstring summarizes in a line what the next paragraph of prose explains, so the two are an
anchor and its positive. The rules for such a pair are in `docstrings.py`.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import logging
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Ge, Lt
from numpy.typing import NDArray

from contrastive_st.data import docstrings
from contrastive_st.data.docstrings import pairs_of_files
from contrastive_st.errors import InputError
from contrastive_st.files.writing import own_cache, write_json
from contrastive_st.options import checked
from contrastive_st.processors import usable

logger = logging.getLogger(__name__)

EXTRACTOR_VERSION = 1  # part of the cache file's name: increase it with each change of the rules in docstrings.py
_DENSE = 50_000_000  # numbers of a dense block of counts
SKIPPED_FOLDERS = {  # tests, vendored copies, the site-packages inside a standard library, and this package
    *("test", "tests", "testing", "idle_test", "_vendor", "__pycache__", "site-packages", "dist-packages"),
    "contrastive_st",
}


class DocPair(NamedTuple):
    """The first paragraph of a docstring, the next paragraph of prose, and the dotted name of the documented object."""

    title: str
    text: str
    source: str


def installed_docs(
    cache_dir: str | Path | None = None, workers: int | None = None, *, roots: Sequence[str | Path] | None = None
) -> list[DocPair]:
    """The pairs in all packages of the running interpreter's environment, and in its standard library.

    With torch, transformers, pandas, scipy and scikit-learn these are about 20,000 pairs, 2,300 of them from the
    standard library. Summaries have 11 words, explanations 27. The first call for an environment parses 200 MB of
    Python in 10 to 30 seconds and caches the result in a JSON file, whose name has a fingerprint of the environment.
    The result depends on the installed packages, but not on the number of workers.

    Args:
        cache_dir: folder of the cache; by default `$CONTRASTIVE_ST_CACHE`, else `~/.cache/contrastive_st`.
        workers: number of processes that parse; by default one per processor, at most 8.
        roots: read the packages in these folders instead, without a cache.

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
    folder = own_cache() if cache_dir is None else Path(cache_dir).expanduser()
    path = folder / f"installed_docs-{environment_fingerprint()}.json"
    try:
        return [DocPair(*row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):  # the file does not exist, or this function did not write it
        pairs = unique_pairs(_extract(installed_roots(), workers))
    try:
        write_json(path, pairs, indent=0)
    except InputError as error:
        logger.warning("%s: the docstrings will be read again next time", error)
    return pairs


def installed_roots() -> list[Path]:
    """The folders of the running interpreter's packages: site-packages first, then the standard library."""
    paths = (Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib", "stdlib"))
    return [path for path in dict.fromkeys(paths) if path.is_dir()]


def environment_fingerprint() -> str:
    """Sixteen hex digits that change with the interpreter, the installed packages and `EXTRACTOR_VERSION`."""
    folders = list({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    installed = importlib.metadata.distributions(path=folders)
    versions = sorted(f"{dist.name}=={dist.version}" for dist in installed)
    state = [EXTRACTOR_VERSION, sys.version, sys.platform, versions]
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()[:16]


def split_pairs(pairs: Iterable[DocPair], heldout: int = 1000) -> tuple[list[DocPair], list[DocPair]]:
    """Split pairs into training pairs and held-out pairs by a hash of the text; the order of `pairs` does not matter.

    The held-out pairs are those with the smallest hashes, smallest first. So that no held-out pair is learnt in
    training, a training pair is dropped if it has the title of a held-out pair (ignoring case) or is a near copy of one
    (`near_copies`).

    Raises:
        InputError: `heldout` is negative, or there are not more than `heldout` pairs.

    Example:
        >>> pairs = [DocPair(f"title {i}", f"a text of {i} and {i + 100} and {i + 200}", "here") for i in range(5)]
        >>> train, test = split_pairs(pairs, heldout=2)
        >>> len(train), len(test), split_pairs(pairs[::-1], heldout=2)[1] == test
        (3, 2, True)
    """
    pairs = list(pairs)
    checked(f"heldout of {len(pairs)} pairs", heldout, Annotated[int, Ge(0), Lt(len(pairs))])
    ranked = sorted(pairs, key=lambda pair: (hashlib.sha256(pair.text.encode()).digest(), pair))
    test = ranked[:heldout]
    titles = {pair.title.casefold() for pair in test}
    copies = near_copies(pairs, test)
    kept = [not copy and pair.title.casefold() not in titles for pair, copy in zip(pairs, copies, strict=True)]
    return [pair for pair, keep in zip(pairs, kept, strict=True) if keep], test


def near_copies(pairs: Sequence[DocPair], of: Sequence[DocPair], least: float = 0.5) -> NDArray[np.bool_]:
    """Which of the N `pairs` are near copies of a pair in `of`: `[N]`.

    Two pairs are near copies if the Jaccard index of the sets of words in their texts, or in their titles and texts
    together, is at least `least`.

    Example:
        >>> here = DocPair("Height of the tide.", "The sum of the waves of moon and sun.", "a")
        >>> there = DocPair("Level of the sea.", "The sum of the waves of moon, sun and wind.", "b")
        >>> near_copies([here, there, DocPair("Width of a river.", "Bank to bank, at noon.", "c")], [here]).tolist()
        [True, True, False]
    """
    return np.asarray(near_pairs(pairs, of, least).any(1))


def near_pairs(pairs: Sequence[DocPair], of: Sequence[DocPair], least: float = 0.5) -> NDArray[np.bool_]:
    """Which of N pairs are near copies (`near_copies`) of which of M others: `[N, M]`."""
    from sklearn.feature_extraction.text import CountVectorizer

    near = np.zeros((len(pairs), len(of)), bool)
    for words in (lambda pair: pair.text, lambda pair: f"{pair.title} {pair.text}"):
        counter = CountVectorizer(binary=True, token_pattern=r"\w+", dtype=np.float32)
        if not (len(pairs) and len(of) and any(re.search(r"\w", words(pair)) for pair in pairs)):
            continue
        ours, theirs = counter.fit_transform(map(words, pairs)), counter.transform(map(words, of))
        sizes, others = (np.asarray(counts.sum(1)).ravel() for counts in (ours, theirs))
        step = max(1, min(500, _DENSE // ours.shape[1]))
        for start in range(0, len(of), step):
            shared = ours @ theirs[start : start + step].toarray().T
            both = sizes[:, None] + others[None, start : start + step]
            near[:, start : start + step] |= (1 + least) * shared >= least * np.maximum(both, 1)
    return near


def unique_pairs(pairs: Iterable[DocPair]) -> list[DocPair]:
    """The pairs whose title and text both have not occurred before (ignoring case)."""
    seen: set[str] = set()
    kept = []
    for pair in pairs:
        folded = {pair.title.casefold(), pair.text.casefold()}
        if not seen & folded:
            seen |= folded
            kept.append(pair)
    return kept


def _extract(roots: Iterable[str | Path], workers: int | None) -> list[DocPair]:
    files = [file for root in roots for file in _python_files(Path(root))]
    workers = workers or min(8, usable())
    size = max(100, -(-len(files) // (8 * workers)))
    chunks = [files[start : start + size] for start in range(0, len(files), size)]
    if workers == 1 or len(chunks) < 2:
        result = map(pairs_of_files, chunks)
    else:
        with ThreadPoolExecutor(workers) as pool:
            result = pool.map(_in_a_process, chunks)
    return [DocPair(*row) for rows in result for row in rows]


def _python_files(root: Path) -> list[tuple[str, str]]:
    files = []
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if name not in SKIPPED_FOLDERS]
        files += [Path(folder, name) for name in names if name.endswith(".py")]
    named = sorted((file.relative_to(root).with_suffix("").parts, str(file)) for file in files)
    return [(file, ".".join(parts).removesuffix(".__init__")) for parts, file in named]


def _in_a_process(files: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
    try:  # -I: ignore the caller's folders and settings; -S: ignore the installed packages
        command = [sys.executable, "-I", "-S", docstrings.__file__]
        done = subprocess.run(command, input=json.dumps(files).encode(), stdout=subprocess.PIPE, check=True)
        pairs: list[tuple[str, str, str]] = json.loads(done.stdout)
        return pairs
    except (OSError, subprocess.CalledProcessError) as error:
        logger.debug("no process for %d files (%s): read here instead", len(files), error)
        return pairs_of_files(files)
