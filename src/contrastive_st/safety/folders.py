"""What is looked at before a checkpoint folder is opened, pushed or converted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from contrastive_st.errors import InputError, first_line

PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")  # opening one can run code
INDICES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


def check_folder(folder: str | Path) -> Path:
    """Refuse a folder that reaches outside of itself.

    Returns:
        The folder.

    Raises:
        InputError: a link leads out of it (those of a Hub cache into the cache's own store do not count), or a file
            of weights or of a module is named by an absolute path or one with `..`.
    """
    folder = Path(folder)
    for path in _links(folder):
        if not any(path.resolve().is_relative_to(root) for root in _roots(folder)):
            raise InputError(
                f"{path} is a link to a place outside of its folder; put the file itself there, or remove the link"
            )
    for index, named in _named_files(folder):
        place = PurePosixPath(named.replace("\\", "/"))
        if place.is_absolute() or ".." in place.parts or ":" in named:
            raise InputError(f"{index} names {named!r}, a place outside of its folder; such a folder is not opened")
    return folder


def check_weights(folder: str | Path, name: object | None = None) -> None:
    """Refuse a folder without safetensors weights; a pickle is never opened.

    Args:
        folder: the folder.
        name: what the user calls it.

    Raises:
        InputError: with the command that converts a pickle.
    """
    folder, name = Path(folder), name or folder
    if any(folder.glob("*.safetensors")):
        return
    if any(folder.glob("pytorch_model*.bin")):
        raise InputError(
            f"{name} holds its weights as a pickle only (pytorch_model.bin), which can run code when it is opened; "
            f"convert it first: contrastive-st convert {name} NEW_FOLDER --to package"
        )
    raise InputError(
        f"{name} holds no weights in safetensors; if it holds a pytorch_model.bin, convert that first: "
        f"contrastive-st convert {name} NEW_FOLDER --to package"
    )


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        InputError: it is damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is damaged: {first_line(error)}") from error


def _roots(folder: Path) -> list[Path]:
    roots = [folder.resolve()]
    if roots[0].parent.name == "snapshots":  # a Hub cache: snapshots/<commit>/<file> links to blobs/<hash>, its own or
        roots += [above / "blobs" for above in roots[0].parents[1:3]]  # those that all repositories share
    return roots


def _links(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        yield from (path for path in (Path(place, name) for name in (*folders, *files)) if path.is_symlink())


def _named_files(folder: Path) -> Iterator[tuple[Path, str]]:
    for index in (folder / name for name in INDICES):
        if index.is_file():
            content = read_json(index)
            weights = content.get("weight_map") if isinstance(content, dict) else None
            if not isinstance(weights, dict):
                raise InputError(f"{index} is damaged: it holds no weight_map")
            yield from ((index, str(name)) for name in dict.fromkeys(weights.values()))
    modules = folder / "modules.json"
    if modules.is_file():
        content = read_json(modules)
        if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
            raise InputError(f"{modules} is damaged: it is no list of modules")
        yield from ((modules, str(entry.get("path", ""))) for entry in content)
