"""The files of a corpus: which there are, which are left out and why, and a digest of the content of each."""

from __future__ import annotations

import contextlib
import functools
import glob
import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from contrastive_st.data.reading import TABLES, MissingData
from contrastive_st.data.reading.content import format_of, reading
from contrastive_st.data.reading.sources import check_log
from contrastive_st.errors import InputError, install
from contrastive_st.files.reading import digest_of_file
from contrastive_st.files.writing import own_cache, write_json
from contrastive_st.search.document_readers import READERS, missing_reader

UNREADABLE, HIDDEN, LINKED = "unreadable", "hidden", "linked folders"
UNSUPPORTED = "of an unsupported type"
MISSING = f"without a reader ({install('documents')})"
_FRESH = 2_000_000_000  # nanoseconds: a file written more recently may change again within the same time stamp


class Entry(NamedTuple):
    """A file of a corpus, or a folder that is left out: where it is, its name in the corpus, and why it is left out.

    `reason` is blank for a file that is read. `name` is relative to the folder; what is not UTF-8 in it is spelled in
    hexadecimal digits.
    """

    path: str
    name: str
    reason: str = ""


def files_in(folder: Path) -> list[Entry]:
    """The files of a folder in the order of their names. Links to folders, which may be loops, are not followed.

    Raises:
        InputError: it is a table with a log, as of Delta Lake.
    """
    result: list[Entry] = []

    def closed(error: OSError) -> None:
        result.append(_entry(os.fsdecode(error.filename), folder, UNREADABLE))

    for parent, folders, files in os.walk(folder, onerror=closed):
        check_log(parent, folders)
        for name in list(folders):
            path = f"{parent}/{name}"
            reason = HIDDEN if name.startswith(".") else LINKED if os.path.islink(path) else ""
            if reason:
                folders.remove(name)
                result.append(_entry(path, folder, reason))
        result += [_entry(path, folder, left_out(path)) for path in (f"{parent}/{name}" for name in files)]
    return sorted(result, key=lambda entry: entry.name)


def files_like(pattern: Path, base: Path) -> list[Entry]:
    """The files that a pattern matches, in the order of their names, which are relative to `base`.

    Raises:
        MissingData: there is none.
    """
    result = [path for path in glob.glob(str(pattern), recursive=True) if os.path.isfile(path)]
    if not result:
        raise MissingData(f"{pattern}: no file matches; check the pattern (seen from {Path.cwd()})")
    return sorted((_entry(path, base, left_out(path)) for path in result), key=lambda entry: entry.name)


def _entry(path: str, folder: Path, reason: str) -> Entry:
    name = path.removeprefix(os.fspath(folder)).lstrip("/")
    return Entry(path, os.fsencode(name).decode("utf-8", "backslashreplace"), reason)


def left_out(path: str) -> str:
    """Why a file is left out without being opened; blank if it is not."""
    if os.path.basename(path).startswith((".", "~$")):
        return HIDDEN
    if unread := _unread(format_of(path)):
        return unread
    return "" if os.path.isfile(path) and os.access(path, os.R_OK) else UNREADABLE


@functools.lru_cache(1024)
def _unread(suffix: str) -> str:
    """Why files with this extension are left out."""
    if suffix not in (*TABLES, *READERS):
        return UNSUPPORTED
    return MISSING if suffix in READERS and missing_reader(suffix) else ""


# --- Digests.


def content_digests(corpus: str, paths: Mapping[str, str], unread: set[str] | None = None) -> dict[str, str]:
    """A digest of the content of each file of a corpus, by its name.

    They are kept in a file of the cache, and each is taken from there until the size, the times or the inode of the
    file change. What was written in the last two seconds may change again within the same time stamp, and is not kept.

    Args:
        corpus: the name of the corpus.
        paths: where the files are, by their names.
        unread: gets the names of files that cannot be read; without it, such a file is an error.
    """
    kept = own_cache("digests") / f"{digest_of([corpus])}.json"
    cached, result, now = dict[str, Any](), dict[str, str](), dict[str, object]()
    with contextlib.suppress(OSError, ValueError):
        cached = json.loads(kept.read_bytes())
    for name, path in paths.items():
        try:
            with reading(path):
                facts = os.stat(path)
                state = [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]
                *then, digest = cached.get(name) or [""]
                result[name] = digest if then == state else digest_of_file(path)
        except (OSError, InputError):
            if unread is None:
                raise
            unread.add(name)
            continue
        if time.time_ns() - facts.st_mtime_ns > _FRESH:
            now[name] = [*state, result[name]]
    if now != cached:
        with contextlib.suppress(InputError):  # without a writable cache, the digests are computed each time
            write_json(kept, now, indent=None)
    return result


def digest_of(parts: Iterable[str]) -> str:
    """A digest of texts, which differs when one of them does."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part.encode("utf-8", "surrogatepass")
        digest.update(str(len(content)).encode() + b" " + content)
    return digest.hexdigest()
