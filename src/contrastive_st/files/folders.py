"""Checks of a checkpoint folder before it is opened, pushed or converted."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from contrastive_st.errors import InputError
from contrastive_st.files.reading import LARGE_JSON, LARGE_TOKENIZER, read_json

#: The static model that is part of the package; it is opened by its name, like a model on the Hub
SHIPPED = Path(__file__).parents[1] / "static-minilm"
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")  # opening one can run code
CLASSIFIER = (".classifier.json", ".classifier.safetensors")  # files of a `SentenceClassifier` beside its encoder
ADAPTER, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"  # names used by peft
TRAINED = "trained_weights.safetensors"  # of a model with an adapter, in the checkpoints of a run
INDICES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
#: The entry of config.json, and the folders of the graphs, by which a folder that `export` wrote is known
EXPORTED, GRAPHS = "exported", ("onnx", "openvino")

#: The greatest value of each number of a config.json; no published encoder has a tenth of these
SIZES: tuple[tuple[re.Pattern[str], int, int], ...] = (  # names, least, greatest
    (re.compile(r"num_.*layers|n_layers?|num_hidden_groups|inner_group_num"), 0, 1024),
    (re.compile(r"(num_.*|n_)heads?"), 1, 4096),
    (re.compile(r"vocab_size"), 1, 1 << 24),
    (re.compile(r"type_vocab_size"), 0, 1 << 16),
    (re.compile(r"max_position_embeddings|n_positions|position_buckets|max_relative_positions"), -1, 1 << 24),
    (
        re.compile(r".*_size|.*_dim|d_model|d_ff|d_kv|dim|.*_rank|num_experts.*|num_local_experts|num_labels"),
        0,
        1 << 18,
    ),
)
_LONGEST_NAME = 255  # characters, as in file systems
_LARGEST_ID = 1 << 24
_MANY_DIGITS = re.compile(rb"[0-9]{8}")
_SMALL_TABLE = 1 << 24
_FEWER_WEIGHTS = 2  # a table of config.json has at most so many entries for each byte of the weights


def check_folder(folder: str | Path) -> Path:
    """Refuse a folder that refers to files outside of itself, or asks for what no model has.

    Returns:
        The folder.

    Raises:
        InputError: a link leads out of the folder (except links of a Hub cache into its own store), the path of a
            weights file or module is absolute or has `..`, a file is a pipe, or a size is out of all bounds.
    """
    folder = Path(folder)
    if folder.is_dir():
        _check_files(folder)
    for path in _links(folder):
        if not any(path.resolve().is_relative_to(root) for root in _roots(folder)):
            raise InputError(
                f"{path} is a link to a place outside of its folder; copy the file there, or remove the link"
            )
        if not path.exists():
            raise InputError(f"{path} is a link to a missing file; copy the file there, or remove the link")
    for index, named in _named_files(folder):
        place = PurePosixPath(named.replace("\\", "/"))
        if max(map(len, place.parts), default=0) > _LONGEST_NAME:
            raise InputError(f"{index} is damaged: it names a file of {len(named):,} characters")
        if place.is_absolute() or ".." in place.parts or ":" in named:
            raise InputError(f"{index} names {named!r}, a place outside of its folder; such folders are not opened")
    for place in dict.fromkeys([folder, *(folder / named for index, named in _named_files(folder))]):
        if place.is_dir():
            _check_files(place)
            check_sizes(place)
    return folder


def _check_files(folder: Path) -> None:
    """Refuse what is no regular file (a pipe would be waited for), and text of a size that no checkpoint has."""
    for path in folder.iterdir():
        if not path.exists() or path.is_dir():
            continue
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise InputError(f"{path} is no regular file (a pipe, a socket or a device); remove it")
        most = LARGE_TOKENIZER if path.name in ("tokenizer.json", "vocab.json") else LARGE_JSON
        if path.suffix in (".json", ".jinja", ".txt") and about.st_size > most:
            raise InputError(f"{path} has {about.st_size:,} bytes, and no checkpoint has more than {most:,} there")


def check_weights(folder: str | Path, name: object | None = None) -> None:
    """Refuse a folder without safetensors weights of a model or an adapter; a pickle is never opened.

    Args:
        folder: the folder.
        name: its name in messages.

    Raises:
        InputError: there are no safetensors weights (the message has the command that converts a pickle), or an index
            names files that are not safetensors, which a loader would open as pickles.
    """
    folder, name = Path(folder), name or folder
    if (folder / "model.safetensors").is_file() or (folder / ADAPTER_WEIGHTS).is_file():
        return
    if (folder / INDICES[0]).is_file():
        for _, file in _weight_files(folder / INDICES[0]):
            if not file.endswith(".safetensors"):
                raise InputError(f"{name}: {INDICES[0]} names {file!r}, which is not safetensors; convert it first")
        return
    if (folder / ADAPTER).is_file():
        raise InputError(
            f"{name} is an adapter without {ADAPTER_WEIGHTS}; a pickle (adapter_model.bin) can run code when it is "
            "opened; save it again with peft"
        )
    convert = f"contrastive-st convert {name} NEW_FOLDER --to package"
    if any(folder.glob("pytorch_model*.bin")):
        raise InputError(
            f"{name} has its weights as a pickle only (pytorch_model.bin), which can run code when it is opened; "
            f"convert it first: {convert}"
        )
    if any((folder / backend).is_dir() for backend in GRAPHS):
        raise InputError(f"{name} is exported and has no weights; give the checkpoint that it was exported from")
    raise InputError(
        f"{name} has no safetensors weights (model.safetensors); if it has a pytorch_model.bin, convert that "
        f"first: {convert}"
    )


def read_export(folder: str | Path) -> dict[str, Any]:
    """What `contrastive_st.models.export` recorded in an exported folder (backend, precision, ...); else empty.

    Raises:
        InputError: config.json is damaged, or names an unknown backend.
    """
    path = Path(folder) / "config.json"
    record = read_json(path, dict).get(EXPORTED, {}) if path.is_file() else {}
    if not isinstance(record, dict):
        raise InputError(f"{path} is damaged: its {EXPORTED} is no JSON object")
    if record and record.get("backend") not in GRAPHS:
        raise InputError(f"{path} is damaged: it is exported for {record.get('backend')!r}")
    return record


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
            yield from _weight_files(index)
    modules = folder / "modules.json"
    if modules.is_file():
        entries = read_json(modules, list)
        if not all(isinstance(entry, dict) and isinstance(entry.get("path", ""), str) for entry in entries):
            raise InputError(f"{modules} is damaged: it is not a list of modules, each with a path")
        yield from ((modules, entry.get("path", "")) for entry in entries)


def _weight_files(index: Path) -> Iterator[tuple[Path, str]]:
    weights = read_json(index, dict).get("weight_map")
    if not isinstance(weights, dict) or not all(isinstance(file, str) for file in weights.values()):
        raise InputError(f"{index} is damaged: it has no weight_map with names of files")
    yield from ((index, file) for file in dict.fromkeys(weights.values()))


# --- What a folder may ask for. A number in config.json or tokenizer.json costs its author nothing, and whoever opens
# --- it memory and time: ten million layers build for ever, and an id of four thousand million makes as large a table.


def check_sizes(folder: Path) -> None:
    """Refuse a folder whose config.json or tokenizer.json asks for more than any model has, or than its weights hold.

    Raises:
        InputError: with the file, the number, and its limit.
    """
    path = folder / "config.json"
    config = read_json(path) if path.is_file() else {}  # that it is an object is seen where it is opened
    weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    if fault := next(_size_faults(config, weights), None):
        raise InputError(f"{path} is damaged: {fault}")
    path = folder / "tokenizer.json"
    long = path.is_file() and _MANY_DIGITS.search(path.read_bytes())  # only a file with a long number is parsed here
    if long and (fault := next(_id_faults(read_json(path, dict)), None)):
        raise InputError(f"{path} is damaged: {fault}")


def _size_faults(config: Any, weights: int, depth: int = 0) -> Iterator[str]:
    """What is wrong with the numbers of a config, and of the configs in it, beside so many bytes of weights."""
    if not isinstance(config, dict) or depth > 8:
        return
    for name, value in config.items():
        yield from _size_faults(value, weights, depth + 1)
        limits = next(((least, most) for kind, least, most in SIZES if kind.fullmatch(name)), None)
        if limits and isinstance(value, int | float) and not limits[0] <= value <= limits[1]:
            yield f"its {name} is {value}, and models have {limits[0]} to {limits[1]:,}"
    rows, wide = config.get("vocab_size"), config.get("embedding_size", config.get("hidden_size"))
    if not weights or not isinstance(rows, int) or not isinstance(wide, int):
        return
    if rows * wide > max(_FEWER_WEIGHTS * weights, _SMALL_TABLE):  # a small one does no harm until it is opened
        yield f"it has {rows:,} tokens of {wide:,} numbers, and the weights have {weights:,} bytes"


def _id_faults(tokenizer: dict[str, Any]) -> Iterator[str]:
    model, added = tokenizer.get("model"), tokenizer.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    ids = list(vocabulary.values()) if isinstance(vocabulary, dict) else []
    ids += [token.get("id") for token in added if isinstance(token, dict)] if isinstance(added, list) else []
    for number in ids:
        if isinstance(number, int | float) and not 0 <= number < _LARGEST_ID:
            yield f"it has a token of id {number}, and ids are below {_LARGEST_ID:,}"
