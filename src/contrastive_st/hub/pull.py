"""Pull a model from the Hub: into the cache, or into a folder of its own; never a pickle."""

from __future__ import annotations

import shutil
from pathlib import Path

from huggingface_hub.utils import filter_repo_objects

from contrastive_st.errors import InputError
from contrastive_st.storage.folders import check_weights
from contrastive_st.storage.repositories import ENCODER, RESUMING, local_folder

EVERYTHING = (*ENCODER, "*.md", "*.png", "*.svg", "*.py")  # of what `push` pushes


def pull(name: str, revision: str | None = None, to: str | Path | None = None, token: str | None = None) -> Path:
    """Download a model; the second time only what changed, and offline (`HF_HUB_OFFLINE=1`) nothing.

    Args:
        name: on the Hub.
        revision: branch, tag or commit.
        to: a new folder to copy it into; by default it stays in the cache of the Hub's client.
        token: by default `HF_TOKEN`, or the one logged in with.

    Returns:
        Where it is.

    Raises:
        InputError: there is no such model, it may not be read, it is damaged, or its weights are a pickle.
    """
    if to is not None and Path(to).exists() and (not Path(to).is_dir() or any(Path(to).iterdir())):
        raise InputError(f"{to} is there already; give a new folder, or remove it")
    if Path(name).is_dir():
        raise InputError(f"{name} is a folder here; give a name on the Hub (user/name)")
    folder = local_folder(name, revision, patterns=EVERYTHING, token=token)
    check_weights(folder, name)
    if to is None:
        return folder
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    for path in filter_repo_objects(files, allow_patterns=list(EVERYTHING), ignore_patterns=list(RESUMING)):
        Path(to, path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / path, Path(to, path))  # the file itself, where the cache has a link
    return Path(to)
