"""Read JSON, YAML and the headers of safetensors; a damaged file is an `InputError` of one line that names it."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import deserialize, safe_open

from contrastive_st.errors import InputError, about, first_line

LARGE_JSON = 512 << 20  # bytes; the tokenizers of 250,000 tokens have 35 MB
#: An object of JSON, whose values each reader checks as it needs them
JsonObject: TypeAlias = dict[str, Any]


def read_json(path: Path, kind: type = object) -> Any:
    """The content of a JSON file.

    Args:
        path: the file.
        kind: `dict` or `list`, if the content must be one.

    Raises:
        InputError: the file is missing or damaged, or its content is of another kind.
    """
    try:  # a pipe would be waited for
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGE_JSON:
                raise OSError(f"it is not a regular file of at most {LARGE_JSON:,} bytes")
            content = json.loads(file.read().decode("utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path.parent} has no {path.name}; check the name of the folder, or save it again") from None
    except (ValueError, OSError, RecursionError) as error:
        raise InputError(f"{path} is damaged: {first_line(error)}") from error
    if not isinstance(content, kind):
        expected = "an object {...}" if kind is dict else "a list [...]"
        raise InputError(f"{path} is damaged: it must hold {expected} in JSON")
    return content


def read_yaml(path: Path) -> Any:
    """The content of a YAML file.

    Raises:
        InputError: it is missing or not YAML; names the line.
    """
    import yaml  # here, because models are opened without it

    with about(path):
        text = path.read_bytes()
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else path
        raise InputError(f"{where}: not YAML ({getattr(error, 'problem', None) or first_line(error)})") from error


def digest_of_file(path: str | Path, digest: Any = None) -> str:
    """The digest of a file in hex digits: 16 bytes of BLAKE2b, or what `digest`, which is updated, gives."""
    digest = digest or hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return str(digest.hexdigest())


def weight_types(folder: str | Path) -> dict[str, str]:
    """The types of the tensors in a folder's safetensors files by their names, such as `BF16`; headers alone are read.

    Example:
        >>> from contrastive_st.files.folders import SHIPPED
        >>> weight_types(SHIPPED)["embeddings"]
        'I8'
    """
    types: dict[str, str] = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        with about(path), safe_open(path, "numpy") as file:
            types |= {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    return types


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a safetensors file, as numpy arrays; those in bfloat16, which numpy lacks, are made float32."""
    with about(path), safe_open(path, "numpy") as file:
        types = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
        tensors = {name: file.get_tensor(name) for name, kind in types.items() if kind != "BF16"}
    if len(tensors) < len(types):
        for name, held in deserialize(path.read_bytes()):
            if held["dtype"] == "BF16":  # the upper half of a float32
                halves = np.frombuffer(held["data"], "<u2").reshape(held["shape"])
                tensors[name] = (halves.astype(np.uint32) << 16).view(np.float32)
    return tensors
