"""Read JSON and the headers of safetensors; a damaged file is an `InputError` of one line that names it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file

from contrastive_st.errors import InputError, first_line


def read_json(path: Path, kind: type = object) -> Any:
    """The content of a JSON file.

    Args:
        path: the file.
        kind: `dict` or `list`, if the content must be one.

    Raises:
        InputError: the file is damaged, or its content is of another kind.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise InputError(f"{path} is damaged: it is nested too deep") from None
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is damaged: {first_line(error)}") from error
    if not isinstance(content, kind):
        wanted = "an object {...}" if kind is dict else "a list [...]"
        raise InputError(f"{path} is damaged: it must hold {wanted} in JSON")
    return content


def weight_names(folder: str | Path) -> list[str]:
    """The names of the tensors in a folder's safetensors files; only the headers are read.

    Raises:
        InputError: a file is damaged.
    """
    names: list[str] = []
    for path in sorted(Path(folder).glob("*.safetensors")):
        try:
            with safe_open(path, "numpy") as file:
                names += file.keys()
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path} is damaged: {first_line(error)}; download or save it again") from error
    return names


def read_tensors(path: Path) -> dict[str, Any]:
    """The tensors of a safetensors file, as numpy arrays.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is damaged: {first_line(error)}; download or save it again") from error
