"""Read JSON and the headers of safetensors; a damaged file is an `InputError` of one line that names it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file

from contrastive_st.errors import InputError, first_line

LARGE_JSON, LARGE_TOKENIZER = 32 << 20, 512 << 20  # bytes; the tokenizers of 250,000 tokens have 35 MB
_LONGEST_HEADER = 100_000_000  # bytes, as in the library


def read_json(path: Path, kind: type = object) -> Any:
    """The content of a JSON file.

    Args:
        path: the file.
        kind: `dict` or `list`, if the content must be one.

    Raises:
        InputError: the file is damaged, or its content is of another kind.
    """
    try:
        content = json.loads(_read_regular(path).decode("utf-8"))
    except RecursionError:
        raise InputError(f"{path} is damaged: it is nested too deep") from None
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is damaged: {first_line(error)}") from error
    if not isinstance(content, kind):
        wanted = "an object {...}" if kind is dict else "a list [...]"
        raise InputError(f"{path} is damaged: it must hold {wanted} in JSON")
    return content


def _read_regular(path: Path) -> bytes:
    """The bytes of a regular file; a pipe, which would be waited for, or gigabytes of JSON are an `OSError`."""
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError("it is no regular file")
        most = LARGE_TOKENIZER if path.name in ("tokenizer.json", "vocab.json") else LARGE_JSON
        if about.st_size > most:
            raise OSError(f"it has {about.st_size:,} bytes, and no checkpoint has more than {most:,} there")
        return file.read()


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


def integer_weights(folder: Path) -> dict[str, str]:
    """The tensors of a folder's safetensors files that hold integers or booleans, by name, with their types.

    Raises:
        InputError: a file is damaged.
    """
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(length)) if length <= _LONGEST_HEADER else {}
        except (ValueError, OSError, RecursionError) as error:
            raise InputError(f"{path} is damaged: {first_line(error)}; download or save it again") from error
        kinds = {name: str(entry.get("dtype")) for name, entry in header.items() if isinstance(entry, dict)}
        found |= {name: kind for name, kind in kinds.items() if kind[:1] in "IU" or kind == "BOOL"}
    return found
