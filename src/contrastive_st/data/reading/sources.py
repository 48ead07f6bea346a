"""What a source names: files (one, several, a glob, a folder of shards), a folder of `save_to_disk`, a Hub data set."""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from contrastive_st.data.pair_sets import BY_NAME
from contrastive_st.data.reading.content import MissingData, format_of, path_of, reading
from contrastive_st.errors import InputError, about, choice, listed
from contrastive_st.files.reading import read_json

logger = logging.getLogger(__name__)
TABLES = (".txt", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".arrow")
HUB_NAME = re.compile(r"(?P<name>[\w-][\w.-]*(/[\w.-]+)?)(:(?P<config>[\w.-]+))?")
_SPLITS_SAVED = "dataset_dict.json"
_SAVED = ("dataset_info.json", _SPLITS_SAVED)  # files that `save_to_disk` writes into a folder
_SPLITS = {"train": ("train", "training"), "test": ("test", "testing", "eval", "evaluation"),
           "validation": ("validation", "valid", "val", "dev")}  # fmt: skip
_SPLIT_OF = {name: split for split, names in _SPLITS.items() for name in names}
#: The folder in one whose files also hold the former rows of a table, and how its tool writes those of now
_LOGS = {
    "_delta_log": ("Delta Lake", "DeltaTable({!r}).to_pandas().to_parquet('rows.parquet')"),
    ".hoodie": ("Hudi", 'spark.read.format("hudi").load({!r}).write.parquet("rows")'),
    "metadata": ("Iceberg", 'spark.read.format("iceberg").load({!r}).write.parquet("rows")'),
}
_OF_ICEBERG = re.compile(r"(v\d+|\d{5}-.+)(\.gz)?\.metadata\.json")

_PLAIN_NAME = re.compile(r"[!-~]*|.*\.[A-Za-z]\w{0,7}", re.DOTALL)  # ASCII without white space, or it has an extension

Source = str | Path | Sequence[str | Path]


def names_in(source: object) -> list[str | Path] | None:
    """The names of one or several sources; None for rows in memory, which a list of sentences is too.

    A list of strings has names if one of them exists, or if none of them is like a sentence.

    Example:
        >>> names_in("a.csv"), names_in(["a.csv", "b.cvs"]), names_in(["A cat sat.", "It ran."])
        (['a.csv'], ['a.csv', 'b.cvs'], None)
    """
    names = [source] if isinstance(source, (str, Path)) else source
    if not (isinstance(names, (list, tuple)) and names and all(isinstance(one, (str, Path)) for one in names)):
        return None
    named = all(_PLAIN_NAME.fullmatch(str(one)) for one in names) or any(map(os.path.exists, map(path_of, names)))
    return list(names) if names[0] is source or named else None


def files_of(source: Source, split: str = "train") -> list[Path] | None:
    """The files of a source in order; None for a folder of `save_to_disk` or a data set of the Hub alone.

    Args:
        source: a file, a pattern such as `part-*.jsonl`, a folder of files of one format; or a list of these and of
            folders of `save_to_disk`, or of one data set of the Hub, whose files are those that hold it on disk.
        split: of a folder whose files are named after splits (`train-00000.parquet`), those of this split.

    Raises:
        InputError: there is no such file, or no reader for it.
    """
    if not isinstance(source, (str, Path)):
        result: list[Path] = []
        for one in source:
            held = files_of(one, split)
            if held is None and len(source) > 1 and not is_saved(path_of(one)):
                raise InputError(f"{one}: there is no such file, and several sources cannot be data sets of the Hub")
            if held is None:
                held = [Path(file["filename"]) for file in stored(str(one), split, keep_in_memory=False).cache_files]
            result += held
        return result
    path = path_of(source)
    with reading(source):
        if path.is_dir():
            return None if is_saved(path) else _shards(path, str(source), split)
        files = [path] if path.exists() or path.is_symlink() else []
    if not files and set("*?[") & set(str(source)):
        files = _with_rows(sorted(Path(one) for one in glob.glob(str(path), recursive=True) if Path(one).is_file()))
        if not files:
            raise MissingData(f"{source}: no file matches; check the pattern (seen from {Path.cwd()})")
    if other := next((one for one in files if format_of(one) not in TABLES), None):
        what = f"no reader for {other.suffix or 'no extension'}; save it as one of {', '.join(TABLES)}"
        raise InputError(f"{other}: {what}")
    return files or None


def _shards(folder: Path, source: str, split: str) -> list[Path]:
    """The files of a folder, of one format; of one split, if they are named after splits."""
    held = files_by_split(folder)
    files = held.pop("", [])
    if held:
        if files:
            others = listed(path.relative_to(folder) for path in files)
            logger.warning(f"{source}: left out, because their names are of no split: {others}")
        files = held[choice("split", split_key(split), sorted(held), source)]
    kinds = sorted({format_of(path) for path in files})
    if len(kinds) != 1:
        result = f"of several formats ({', '.join(kinds)})" if kinds else "without files of rows"
        raise InputError(f"{source} is a folder {result}; name files, such as {source}/*{(kinds or TABLES)[0]}")
    return files


def split_key(name: str) -> str:
    """The one name of a split that has several: `validation` for `dev`; any other name as it is.

    Example:
        >>> split_key("dev"), split_key("corpus")
        ('validation', 'corpus')
    """
    return _SPLIT_OF.get(name.lower(), name)


def check_log(folder: str, inside: Sequence[str]) -> None:
    """Raise `InputError` if a folder is a table of which a log says what its files hold now.

    Args:
        folder: its path.
        inside: the names of the folders in it.
    """
    for name, (tool, rows) in _LOGS.items():
        if name in inside and (name != "metadata" or any(map(_OF_ICEBERG.fullmatch, os.listdir(f"{folder}/{name}")))):
            what = f"is a table of {tool}, whose files also hold rows that were changed or deleted"
            raise InputError(f"{folder} {what}; write those of now with {rows.format(folder)}, and give that instead")


def files_by_split(folder: Path, formats: Sequence[str] = TABLES, deep: bool = True) -> dict[str, list[Path]]:
    """The files of some formats in a folder, in order, by the key of the split that they are named after, or by "".

    A name is that of a split if a whole word of it is, as for `datasets`, and if the names of all files of this format
    are too. Else all are by "" if no name is more than like that of a split, as `dev-ops.csv` is. Empty files are left
    out.

    Args:
        folder: the folder.
        formats: as `format_of` calls them.
        deep: also the files in folders inside; else only in those named after splits, but also files that begin with _.

    Raises:
        InputError: there are files of several splits, or one that is called as a split is, and one of none; or it
            is a table with a log.
    """
    files: list[Path] = []
    for parent, folders, names in os.walk(folder):
        check_log(parent, folders)
        folders[:] = [name for name in folders if (name[0] not in "._" if deep else name.lower() in _SPLIT_OF)]
        paths = (Path(parent, name) for name in names if name[0] not in ("._" if deep else "."))
        files += [path for path in paths if path.is_file() and format_of(path) in formats]
    files.sort()
    splits = {path: _split_of(path.relative_to(folder)) for path in _with_rows(files)}
    named, there = {format_of(path) for path in splits if splits[path]}, sorted({*splits.values()} - {""})
    others = [path for path, split in splits.items() if not split and format_of(path) in named]
    called = {part.partition(".")[0].lower() for path in splits for part in path.relative_to(folder).parts}
    if others and (len(there) > 1 or called & _SPLIT_OF.keys()):
        what = f"has files named after splits ({listed(there)}), and {others[0].relative_to(folder)}, which is of none"
        example = min(splits, key=lambda path: splits[path] != "train")
        raise InputError(f"{folder} {what}; name files, such as {example}")
    result: dict[str, list[Path]] = {}
    for path, split in splits.items():
        result.setdefault("" if others else split, []).append(path)
    return result


def _with_rows(files: list[Path]) -> list[Path]:
    """The files that are not empty, as the parts are that Spark writes without rows; all if all are empty."""
    return [path for path in files if path.stat().st_size] or files


def partition_of(path: Path, names: Sequence[str | Path]) -> dict[str, str | None]:
    """The cells that are in the names of the folders below a source, `label=yes/part-0.csv`, as Spark writes them.

    Example:
        >>> partition_of(Path("out/label=so%20so/a.csv"), ["out"]), partition_of(Path("n=1/a.csv"), ["n=1/*.csv"])
        ({'label': 'so so'}, {})
    """
    roots = [Path(*takewhile(lambda part: not set("*?[") & set(part), path_of(name).parts)) for name in names]
    below = next((path.relative_to(root).parts[:-1] for root in roots if path.is_relative_to(root)), ())
    cells = dict(part.split("=", 1) for part in below if "=" in part)
    return {name: None if cell == "__HIVE_DEFAULT_PARTITION__" else unquote(cell) for name, cell in cells.items()}


def _split_of(path: Path) -> str:
    """The split that a file or else a folder above it is named after; blank if there is none."""
    words = [re.split(r"[-_. \d]", path.name)[0], *reversed(path.parts[:-1])]
    return next((_SPLIT_OF[word.lower()] for word in words if word.lower() in _SPLIT_OF), "")


def stored(source: str, split: str = "train", **options: Any) -> Any:
    """Open a `datasets.Dataset` from a folder of `save_to_disk`, or from the Hub.

    Args:
        source: the folder, "owner/name" or "owner/name:config", or a name of `PAIR_SETS`.
        split: which split, if the folder or the data set has splits.
        options: for `datasets.load_dataset`, such as `streaming` or `revision`.

    Raises:
        InputError: the data set cannot be found, or has no such split.
    """
    import datasets  # here, because files of text are read without it

    if is_saved(path_of(source)):
        with about(f"{source}: not a valid save_to_disk folder"):
            data = datasets.load_from_disk(str(path_of(source)), options.get("keep_in_memory"))
        return data if isinstance(data, datasets.Dataset) else data[choice("split", split, data, source)]
    if pair_set := BY_NAME.get(source.lower()):
        source, split = pair_set.source, pair_set.dev if split == "dev" else split
        options = {"revision": pair_set.revision, **options} if pair_set.revision else options
    with _on_hub(source, split) as match:
        return datasets.load_dataset(match["name"], match["config"], split=split, **options)


def hub_commit(source: str, split: str = "train") -> str:
    """The current commit of a data set of the Hub, which changes with its content.

    Args:
        source: "owner/name" or "owner/name:config".
        split: for the error message only.

    Raises:
        InputError: the data set cannot be found.
    """
    import huggingface_hub

    with _on_hub(source, split) as match:
        return str(huggingface_hub.dataset_info(match["name"]).sha)


@contextlib.contextmanager
def _on_hub(source: str, split: str) -> Iterator[re.Match[str]]:
    if source == "-":
        raise MissingData("-: rows are read more than once, which stdin cannot be; save them as a file and name that")
    match = HUB_NAME.fullmatch(source)
    if not match or format_of(source) in TABLES:
        raise MissingData(f"{source}: there is no such file; check the path (seen from {Path.cwd()})")
    with about(f"{source} is not a file, and split {split!r} of a data set of the Hub of that name cannot be read"):
        yield match


def is_saved(path: Path) -> bool:
    """Whether a folder was written by `save_to_disk` of `datasets`."""
    return any((path / name).is_file() for name in _SAVED)


def splits_of(path: Path) -> list[str]:
    """The names of the splits in a folder of `save_to_disk` or of files named after splits; none if it has none."""
    with reading(path):
        if (path / _SPLITS_SAVED).is_file():
            return list(read_json(path / _SPLITS_SAVED, dict)["splits"])
        files = {} if is_saved(path) or not path.is_dir() else files_by_split(path)
        return sorted({*files} - {""})


def splits_note(folders: Iterable[Path]) -> str:
    """Which splits of folders are not read, where none is asked for; "" if there are no others than `train`."""
    others = sorted({other for folder in folders for other in splits_of(folder)} - {"train"})
    return f"only split train is read, not {', '.join(others)}" if others else ""
