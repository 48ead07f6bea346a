"""What a checkpoint folder may ask for, checked before anything of it is built: regular files, and sizes of models.

A number in config.json or tokenizer.json costs its author nothing, and whoever opens it memory and time: ten million
layers build for ever, and a token id of four thousand million makes a table of as many entries.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from contrastive_st.errors import InputError
from contrastive_st.files.reading import LARGE_JSON, LARGE_TOKENIZER, read_header, read_json

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
_LARGEST_ID = 1 << 24
_MANY_DIGITS = re.compile(rb"[0-9]{8}")
_SMALL_TABLE = 1 << 24
_FEWER_WEIGHTS = 2  # a table of config.json has at most so many entries for each byte of the weights


def check_regular(path: Path) -> None:
    """Refuse what is no regular file (a pipe would be waited for), and JSON of a size that no checkpoint has.

    Raises:
        InputError: with the name of the file.
    """
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise InputError(f"{path} is no regular file (a pipe, a socket or a device); remove it")
    most = LARGE_TOKENIZER if path.name in ("tokenizer.json", "vocab.json") else LARGE_JSON
    if path.suffix in (".json", ".jinja", ".txt") and about.st_size > most:
        raise InputError(f"{path} has {about.st_size:,} bytes, and no checkpoint has more than {most:,} there")


def check_sizes(folder: Path) -> None:
    """Refuse a folder whose config.json or tokenizer.json asks for more than any model has, or than its weights hold.

    Raises:
        InputError: with the file, the number, and its limit.
    """
    path = folder / "config.json"
    if path.is_file():
        config = read_json(path)  # that it is an object is seen where it is opened
        for name, value in _numbers(config):
            _check_number(path, name, value)
        if isinstance(config, dict):
            _check_table(path, config)
    if (folder / "tokenizer.json").is_file():
        _check_ids(folder / "tokenizer.json")


def _numbers(content: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Each number of an object and of the objects in it, by its own name."""
    if isinstance(content, Mapping) and depth < 8:
        for name, value in content.items():
            if isinstance(value, Mapping):
                yield from _numbers(value, depth + 1)
            elif isinstance(value, int | float) and not isinstance(value, bool):
                yield str(name), value


def _check_number(path: Path, name: str, value: float) -> None:
    for pattern, least, greatest in SIZES:
        if pattern.fullmatch(name):
            if not least <= value <= greatest:
                raise InputError(f"{path} is damaged: its {name} is {value}, and models have {least} to {greatest:,}")
            return


def _check_table(path: Path, config: Mapping[str, Any]) -> None:
    """The table of token vectors, which every model has, against the bytes of the weights beside the config."""
    weights = [file.stat().st_size for file in path.parent.glob("*.safetensors")]
    rows, wide = config.get("vocab_size"), config.get("embedding_size", config.get("hidden_size"))
    if not weights or not all(isinstance(size, int) for size in (rows, wide)):
        return
    if rows * wide > max(_FEWER_WEIGHTS * sum(weights), _SMALL_TABLE):  # a small one does no harm until it is opened
        raise InputError(
            f"{path} is damaged: it has {rows:,} tokens of {wide:,} numbers, and the weights "
            f"have {sum(weights):,} bytes"
        )


def _check_ids(path: Path) -> None:
    with path.open("rb") as file:
        if not _MANY_DIGITS.search(file.read()):
            return
    content = read_json(path, dict)  # only a file with a long number is parsed here
    vocabulary = (content.get("model") or {}).get("vocab")
    ids = list(vocabulary.values()) if isinstance(vocabulary, dict) else []
    ids += [token.get("id") for token in content.get("added_tokens") or [] if isinstance(token, dict)]
    for number in ids:
        if isinstance(number, int | float) and not 0 <= number < _LARGEST_ID:
            raise InputError(f"{path} is damaged: it has a token of id {number}, and ids are below {_LARGEST_ID:,}")


def integer_weights(folder: Path) -> dict[str, str]:
    """The tensors of a folder's safetensors files that hold integers or booleans, by name, with their types."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.safetensors")):
        for name, entry in read_header(path).items():
            kind = entry.get("dtype") if isinstance(entry, dict) else None
            if isinstance(kind, str) and kind[:1] in "IUB" and kind != "BF16":
                found[name] = kind
    return found


def check_float(folder: Path, names: set[str], shown: object) -> None:
    """Refuse integers in place of the weights with these names: they would be read as numbers, without a scale.

    Args:
        folder: the folder of the safetensors files.
        names: the parameters of the model; a file may put a prefix before them, or leave one out.
        shown: the model's name in messages.

    Raises:
        InputError: with the first such weight.
    """
    for name, kind in integer_weights(folder).items():
        if any(name == own or name.endswith(f".{own}") or own.endswith(f".{name}") for own in names):
            raise InputError(
                f"{shown}: the weights {name} are of the type {kind}, and the model's are floats; save it in float32"
            )
