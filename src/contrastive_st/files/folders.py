"""Find the folder of a checkpoint (a folder, the model in this package, or one of the Hub), and check its files."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from contrastive_st.errors import InputError, about
from contrastive_st.files.reading import LARGE_JSON, JsonObject, read_json, weight_types

#: The static model that is part of the package; it is opened by its name, like a model on the Hub
SHIPPED = Path(__file__).parents[1] / "static-minilm"
CLASSIFIER = (".classifier.json", ".classifier.safetensors")  # files of a `SentenceClassifier` next to its encoder
ADAPTER, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"  # names used by peft
TRAINED = "trained_weights.safetensors"  # of a model with an adapter, in the checkpoints of a run
INDICES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
TOKENIZER = ("*.json", "*.txt", "*.model", "*.jinja", "*.spm", "bpe.codes")
ENCODER = (*WEIGHTS, *TOKENIZER)
HUB_OPTIONS = ("token", "cache_dir", "local_files_only", "force_download", "subfolder")  # are about finding files
#: The entry of config.json, and the folders of the graphs, by which a folder that `export` wrote is known
EXPORTED, GRAPHS = "exported", ("onnx", "openvino")

#: Numbers of a config.json by which modules are built one by one, and labels
_LAYERS = re.compile(r"num_.*layers|n_layers?|num_hidden_groups|inner_group_num")
_COUNTS = re.compile(r"(num|n)_.*experts|num_labels")
_LARGEST_ID = 1 << 24
_MANY_DIGITS = re.compile(rb"[0-9]{8}")


def default_model() -> str:
    """The name of the default model: `$CONTRASTIVE_ST_MODEL`, else the static model that comes with the package."""
    return os.environ.get("CONTRASTIVE_ST_MODEL") or SHIPPED.name


def folder_name(folder: str | Path) -> str:
    """The last part of the path of a folder, as it was given: the name of a link, not of where it leads.

    Example:
        >>> folder_name("models/./v1/")
        'v1'
    """
    return os.path.basename(os.path.abspath(folder))


def local_folder(
    name: str | Path,
    revision: str | None = None,
    *,
    patterns: Sequence[str] = ENCODER,
    subfolder: str = "",
    **options: object,
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

    return check_folder(download(str(name), revision, patterns, subfolder, **options)) / subfolder


def check_folder(folder: str | Path) -> Path:
    """Check that a folder refers to no files outside of itself, and asks for no sizes that no model has.

    Returns:
        The folder.

    Raises:
        InputError: a link leads out of the folder (except links inside a Hub cache), the path of a
            weights file or module is absolute or has `..`, a file is a pipe, or a size is out of all bounds.
    """
    folder = Path(folder)
    if folder.is_dir():
        _check_files(folder)
    roots = [folder.resolve()]
    if roots[0].parent.name == "snapshots":  # a Hub cache: snapshots/<commit>/<file> links to blobs/<hash> of the
        roots += [above / "blobs" for above in roots[0].parents[1:3]]  # repository, or to those that all share
    inside = (Path(parent, name) for parent, folders, files in os.walk(folder) for name in (*folders, *files))
    for path in filter(Path.is_symlink, inside):
        if not any(path.resolve().is_relative_to(root) for root in roots):
            raise InputError(
                f"{path} is a link to a place outside of its folder; copy the file into the folder, or remove the link"
            )
    for index, named in _named_files(folder):
        target = PurePosixPath(named.replace("\\", "/"))
        if target.is_absolute() or ".." in target.parts or ":" in named:
            raise InputError(f"{index} names {named!r}, a place outside of its folder; such folders are not opened")
    for part in dict.fromkeys([folder, *(folder / named for index, named in _named_files(folder))]):
        if part.is_dir():
            _check_files(part)
            check_sizes(part, is_checkpoint=part == folder)
    return folder


def _check_files(folder: Path) -> None:
    """Refuse what is not a regular file (a pipe would be waited for), and text of a size that no checkpoint has."""
    for path in folder.iterdir():
        if not path.exists() or path.is_dir():
            continue
        what = path.stat()
        text = path.suffix in (".json", ".jinja", ".txt")
        if not stat.S_ISREG(what.st_mode) or (text and what.st_size > LARGE_JSON):
            raise InputError(f"{path} is not a regular file, or a text of more than {LARGE_JSON:,} bytes; remove it")


def check_weights(folder: str | Path, name: object | None = None, variant: str | None = None) -> None:
    """Refuse a folder without safetensors weights of a model or an adapter; a pickle is never opened.

    Args:
        folder: the folder.
        name: its name in messages.
        variant: as in transformers: the weights are `model.VARIANT.safetensors`.

    Raises:
        InputError: there are no safetensors weights (the message has the command that converts a pickle), or an index
            names files that are not safetensors, which a loader would open as pickles.
    """
    folder, name = Path(folder), name or folder
    if variant and any(folder.glob(f"model.{variant}*.safetensors")):
        return
    if (folder / "model.safetensors").is_file() or (folder / ADAPTER_WEIGHTS).is_file():
        return
    if fault := _weights_fault(folder, f"contrastive-st convert {name} NEW_FOLDER --to package"):
        raise InputError(f"{name} {fault}")


def _weights_fault(folder: Path, convert: str) -> str:
    """What is wrong with the weights of a folder that has them not in one safetensors file; blank if nothing is."""
    if (folder / INDICES[0]).is_file():
        others = [file for _, file in _weight_files(folder / INDICES[0]) if not file.endswith(".safetensors")]
        return f"({INDICES[0]}) names {others[0]!r}, which is not safetensors; convert it first" if others else ""
    if (folder / ADAPTER).is_file():
        return (
            f"is an adapter without {ADAPTER_WEIGHTS}; a pickle (adapter_model.bin) can run code when it is opened; "
            "save it again with peft"
        )
    if any((folder / backend).is_dir() for backend in GRAPHS):
        return "is exported and has no weights; give the checkpoint that it was exported from"
    return (
        "has no safetensors weights (model.safetensors); if it has a pickle (pytorch_model.bin), which can run code "
        f"when it is opened, convert that first: {convert}"
    )


def read_export(folder: str | Path) -> JsonObject:
    """What `contrastive_st.models.export` recorded in an exported folder (backend, precision, ...); else empty.

    Raises:
        InputError: config.json is damaged, or names an unknown backend.
    """
    path = Path(folder) / "config.json"
    with about(path):
        record = dict(read_json(path, dict).get(EXPORTED, {}) if path.is_file() else {})
    if record and record.get("backend") not in GRAPHS:
        raise InputError(f"{path} is damaged: it is exported for {record.get('backend')!r}")
    return record


def _named_files(folder: Path) -> Iterator[tuple[Path, str]]:
    for index in (folder / name for name in INDICES):
        if index.is_file():
            yield from _weight_files(index)
    modules = folder / "modules.json"
    if modules.is_file():
        with about(modules):
            yield from ((modules, os.fspath(entry.get("path", ""))) for entry in read_json(modules, list))


def _weight_files(index: Path) -> Iterator[tuple[Path, str]]:
    with about(index):
        yield from ((index, os.fspath(file)) for file in dict.fromkeys(read_json(index, dict)["weight_map"].values()))


# --- What a folder may ask for. A number in config.json or tokenizer.json costs its author nothing, and whoever opens
# --- it time: ten million layers build for ever. So there are no more than the weights hold.


def check_sizes(folder: Path, is_checkpoint: bool = True) -> None:
    """Refuse a folder whose config.json or tokenizer.json asks for more than its weights hold.

    (The numbers of weights are compared where a model is built: `contrastive_st.models.saving.check_built`.)

    Args:
        folder: the folder.
        is_checkpoint: whether it is a checkpoint, not a module of one, which may be a pooling.

    Raises:
        InputError: with the file, the number, and its limit.
    """
    path, weights = folder / "config.json", [*folder.glob("*.safetensors")]
    size = sum(file.stat().st_size for file in weights)
    config = read_json(path) if path.is_file() and weights else {}  # that it is an object is seen where it is opened
    is_checkpoint = is_checkpoint or (isinstance(config, dict) and "model_type" in config)
    faults = _size_faults(config, len(weight_types(folder)), size) if is_checkpoint and config else iter(())
    if fault := next(faults, ""):
        raise InputError(f"{path} is damaged: {fault}")
    path = folder / "tokenizer.json"
    if path.is_file() and _MANY_DIGITS.search(path.read_bytes()):  # only a file with a long number is parsed here
        _check_ids(path, max(size, _LARGEST_ID))


def _check_ids(path: Path, most: int) -> None:
    tokenizer = read_json(path, dict)
    model, added = tokenizer.get("model"), tokenizer.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    ids = list(vocabulary.values()) if isinstance(vocabulary, dict) else []
    ids += [token.get("id") for token in added if isinstance(token, dict)] if isinstance(added, list) else []
    wrong = next((one for one in ids if isinstance(one, int | float) and not 0 <= one < most), None)
    if wrong is not None:
        raise InputError(f"{path} is damaged: it has a token with id {wrong}, but ids must be below {most:,}")


def _size_faults(config: object, tensors: int, size: int, depth: int = 0) -> Iterator[str]:
    """What is wrong with the numbers of a config, and of the configs in it, given what the weights hold."""
    if not isinstance(config, dict) or depth > 8:
        return
    for name, value in config.items():
        yield from _size_faults(value, tensors, size, depth + 1)
        most = tensors if _LAYERS.fullmatch(name) else size if _COUNTS.fullmatch(name) else None
        if most is not None and isinstance(value, int | float) and value > most:
            yield f"its {name} is {value}, but the weights have only {tensors:,} tensors of {size:,} bytes"
