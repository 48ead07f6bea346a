"""Find the local folder of a checkpoint: a folder, the model in this package, or a repository of the Hub."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contrastive_st.files.folders import SHIPPED, check_folder

WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
TOKENIZER = ("*.json", "*.txt", "*.model", "*.jinja")
ENCODER = (*WEIGHTS, *TOKENIZER)
HUB_OPTIONS = ("token", "cache_dir", "local_files_only", "force_download", "subfolder")  # are about finding files


def default_model() -> str:
    """The name of the default model: `$CONTRASTIVE_ST_MODEL`, else the static model that comes with the package."""
    return os.environ.get("CONTRASTIVE_ST_MODEL") or SHIPPED.name


def local_folder(
    name: str | Path,
    revision: str | None = None,
    *,
    patterns: Sequence[str] = ENCODER,
    subfolder: str = "",
    **options: Any,
) -> Path:
    """The local folder of a checkpoint: a folder, the model in this package, or a Hub repository, which is downloaded.

    Once a checkpoint has been downloaded, it can be opened offline (`HF_HUB_OFFLINE=1`). The hash of every downloaded
    file is compared with that of the Hub.

    Args:
        name: folder or Hub name.
        revision: branch, tag or commit of a Hub name.
        patterns: the files to download from a Hub repository.
        subfolder: folder of the checkpoint inside the folder or repository.
        options: `token`, `cache_dir`, `local_files_only`, `force_download`, as for `snapshot_download`; others are
            ignored.

    Raises:
        InputError: the checkpoint does not exist or may not be read, the Hub cannot be reached, a file is damaged, or
            the folder refers to files outside of itself.

    Example:
        >>> local_folder("/no/such/folder")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: /no/such/folder: no such folder, and not a name on the Hub (user/name)
    """
    if Path(name).is_dir():
        return check_folder(Path(name, subfolder))
    if str(name) == SHIPPED.name:
        return SHIPPED
    from contrastive_st.files.download import download  # a local folder opens without huggingface_hub

    return download(str(name), revision, patterns, subfolder, **options)
