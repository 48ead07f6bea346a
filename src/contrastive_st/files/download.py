"""Download checkpoints from the Hub into the local cache, without pickles and with checked hashes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from huggingface_hub import constants, errors, snapshot_download

from contrastive_st.errors import InputError, first_line
from contrastive_st.files.reading import digest_of_file
from contrastive_st.files.redact import without_secrets

# the base of all errors of its HTTP client, which is httpx or httpx2
_HTTPError: type[Exception] = next(kind for kind in errors.HfHubHTTPError.__mro__ if kind.__name__ == "HTTPError")
RESUMING = ("last-checkpoint/*", "checkpoint-*/*")  # for resuming a run; not part of the model
_PASSED = ("token", "cache_dir", "local_files_only", "force_download")


def download(name: str, revision: str | None, patterns: Sequence[str], subfolder: str = "", **options: Any) -> Path:
    """The folder of a repository in the local cache, unchecked; arguments and errors as for `local_folder`."""
    allowed = [f"{subfolder}/{pattern}" if subfolder else pattern for pattern in patterns]
    ignored = None if subfolder else list(RESUMING)
    passed = {key: options[key] for key in _PASSED if options.get(key) is not None}
    with hub_errors(name, revision):
        folder = snapshot_download(name, revision=revision, allow_patterns=allowed, ignore_patterns=ignored, **passed)
    _check_hashes(Path(folder), allowed, name)
    return Path(folder)


@contextlib.contextmanager
def hub_errors(name: str, revision: str | None = None) -> Iterator[None]:
    """Turn errors of the Hub and the network into an `InputError` of one line without secrets."""
    kinds = (errors.HfHubHTTPError, _HTTPError, OSError, errors.HFValidationError)
    try:
        yield
    except (*kinds, RuntimeError) as error:
        cause = error.__cause__ if isinstance(error, RuntimeError) else error  # an upload raises it from the real error
        if not isinstance(cause, kinds):
            raise
        raise InputError(without_secrets(_reason(cause, name, revision))) from None


def _reason(error: Exception, name: str, revision: str | None) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.HFValidationError):
        return f"{name}: no such folder, and not a name on the Hub (user/name)"
    if isinstance(error, errors.GatedRepoError):
        return f"{name} is gated: ask for access on its page, and log in (hf auth login)"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{name} has no revision {revision!r}; give a branch, a tag or a commit of it"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"there is no {name} on the Hub, or it is private: check the name, or log in (hf auth login)"
    if status == 401:
        return f"{name}: the Hub does not accept this token; log in again (hf auth login) or correct HF_TOKEN"
    if status == 403:
        return f"{name}: the Hub does not allow this with your token; use one with write access"
    if status is not None:
        return f"{name}: the Hub answered {status}: {first_line(error)}; try again"
    if isinstance(error, errors.LocalEntryNotFoundError):
        return f"{name} is neither a folder nor in the local cache, and the Hub cannot be reached: {first_line(error)}"
    if "xet" in str(error):
        return f"{name}: this Hub has no Xet storage; set HF_HUB_DISABLE_XET=1 ({first_line(error)})"
    if isinstance(error, _HTTPError) and not isinstance(error, errors.HfHubHTTPError):  # no answer came at all
        return (
            f"{name}: the Hub ({constants.ENDPOINT}) cannot be reached: {first_line(error)}; look at the network, "
            "HTTPS_PROXY and HF_ENDPOINT"
        )
    return f"{name}: the transfer failed: {first_line(error)}; try again"


def _check_hashes(folder: Path, patterns: list[str], name: str) -> None:
    """Compare each file of a cached snapshot with its hash, which is the name of its content in the cache.

    The client only compares sizes, so it would not notice a changed byte. A damaged file is removed from the cache.
    """
    for path in sorted(path for path in folder.rglob("*") if path.is_symlink()):
        if not any(fnmatch(path.relative_to(folder).as_posix(), pattern) for pattern in patterns):
            continue
        blob = path.parent / os.readlink(path)
        digest: object = None  # where this Hub gives no hash
        if re.fullmatch(r"[0-9a-f]{64}", blob.name):  # large files: SHA-256
            digest = hashlib.sha256()
        elif re.fullmatch(r"[0-9a-f]{40}", blob.name) and path.is_file():  # others: git's hash of a blob
            digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
        if digest is not None and path.is_file() and digest_of_file(path, digest) != blob.name:
            blob.resolve().unlink(missing_ok=True)
            blob.unlink(missing_ok=True)
            path.unlink()
            raise InputError(
                f"{name}: {path.relative_to(folder)} was damaged in the download (its hash is not that of the Hub) "
                "and has been removed from the cache; try again"
            )
