"""Write files and folders atomically: under a temporary name, then fsync and rename."""

from __future__ import annotations

import contextlib
import filecmp
import importlib
import json
import logging
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from contrastive_st.errors import InputError
from contrastive_st.files.redact import log_failures

logger = logging.getLogger(__name__)


def own_cache(name: str = "") -> Path:
    """A folder of this package's cache: below `$CONTRASTIVE_ST_CACHE`, or else below `~/.cache/contrastive_st`.

    Args:
        name: its name; by default the whole cache.

    Example:
        >>> own_cache("embeddings").name
        'embeddings'
    """
    return Path(os.environ.get("CONTRASTIVE_ST_CACHE") or "~/.cache/contrastive_st").expanduser() / name


SAVING = ".saving"  # a folder of what is being written, in the folder that it is for


def check_target(
    path: str | Path,
    overwrite: bool = False,
    flag: str = "--overwrite",
    parents: bool = False,
    formats: Sequence[str] = (),
    through: bool = True,
) -> Path:
    """Raise an error if a path cannot be written to; call it before you compute what is written there.

    Args:
        path: path of a new file or folder; an empty folder may exist.
        overwrite: an existing file or folder may be replaced.
        flag: the flag for overwriting that the message suggests; "" if there is none.
        parents: missing parent folders will be created.
        formats: the suffixes that can be written, if not all.
        through: of a link, what it leads to is written; else the link is replaced.

    Returns:
        The path that is written.

    Raises:
        InputError: the path has another suffix, exists or is a device, its folder is missing or read-only, or its name
            is too long.

    Example:
        >>> check_target("/no/a.npy")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: /no/a.npy cannot be written: the folder /no does not exist; create it first
    """
    path = Path(path)
    if formats and path.suffix not in formats:
        raise InputError(f"{path}: write one of {', '.join(formats)}")
    if path.suffix == ".parquet":
        importlib.import_module("pyarrow")  # an error now, not when all is computed
    with write_errors(path):
        try:
            path.lstat()  # of a link itself: a broken link exists too; a name that is too long raises
            there = not path.is_dir() or any(path.iterdir())
            if path.exists() and not (path.is_file() or path.is_dir()):  # which a rename would replace
                raise InputError(f"{path} is a device or a pipe; give the name of a file")
        except FileNotFoundError:
            there = False
        if there and not overwrite:
            raise InputError(f"{path} exists already; choose another name or {f'give {flag}' if flag else 'remove it'}")
        if through and path.is_symlink():
            path = Path(os.path.realpath(path))
        parent = path.absolute().parent
        while parents and not parent.exists():
            parent = parent.parent
        if not (parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)):
            fault = "is read-only; choose another one" if parent.is_dir() else "does not exist; create it first"
            raise InputError(f"{path} cannot be written: the folder {parent} {fault}")
    return path


@contextlib.contextmanager
def atomic_write(
    path: str | Path, overwrite: bool = False, flag: str = "--overwrite", parents: bool = False, through: bool = True
) -> Iterator[Path]:
    """A context that gives a temporary path for a file or a folder, and renames it to `path` at the end.

    Everything is on the disk before the rename, so a crash leaves either the old or the new content. If the block
    fails, what it wrote is removed and the old content is kept.

    Args:
        path: path of a new file or folder; an empty folder may exist.
        overwrite: replace an existing file or folder.
        flag: the flag for overwriting that a message suggests; "" if there is none.
        parents: create missing parent folders.
        through: as for `check_target`. Files of a folder replace links: those in the Hub's cache lead to shared files.

    Yields:
        A path of the same name in a temporary folder next to `path`; the file or folder does not exist yet.

    Raises:
        InputError: `check_target` refuses the path, or the disk is full or read-only.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with atomic_write(Path(folder, "a.txt")) as temporary:
        ...         _ = temporary.write_text("hello")
        ...     os.listdir(folder)
        ['a.txt']
    """
    path = check_target(path, overwrite, flag, parents, through=through)
    scratch = path.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        with write_errors(path):
            scratch.mkdir(parents=parents)
            yield scratch / path.name
            _to_disk(scratch, scratch.stat().st_mode & 0o666)
            new = scratch / path.name
            if new.is_dir() and path.is_dir():  # a rename replaces files and empty folders
                os.replace(path, scratch / f"{secrets.token_hex(8)}.old")
            os.replace(new, path)
            _sync(path.absolute().parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_json(path: str | Path, content: object, **layout: Any) -> None:
    """Write a JSON file atomically, in place of the former one; missing folders are created.

    Args:
        path: path of the file.
        content: what it will hold.
        layout: other options of `json.dumps`, for instance `indent=None` for a file that only programs read.

    Raises:
        InputError: the disk is full or read-only.
    """
    text = json.dumps(content, **{"indent": 2, "ensure_ascii": False} | layout) + "\n"
    with atomic_write(path, overwrite=True, parents=True, through=False) as file:
        # Half a surrogate pair, as in the name of a file that is not UTF-8, becomes its escape in JSON.
        file.write_bytes(text.encode("utf-8", "backslashreplace"))


def write_files(folder: str | Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write several files into a folder; all are on the disk before the first existing file is replaced.

    Args:
        folder: the folder, which is created if needed.
        files: the content of each file, by its path in the folder.

    Returns:
        The paths of the files, in order.

    Raises:
        InputError: the disk is full or read-only; the folder was not changed.
    """
    folder = Path(folder)
    paths = [folder / name for name in files]
    with contextlib.ExitStack() as stack:
        for path, content in zip(paths, files.values(), strict=True):
            new = stack.enter_context(atomic_write(path, overwrite=True, parents=True, through=False))
            new.write_bytes(content)
    return paths


#: A model is opened by one of these files, the last of them first
OPENED_BY = ("modules.json", "adapter_config.json", "config.json")
_WEIGHTS = ("model*.safetensors*", "adapter_model*.safetensors*")
#: Of a tokenizer, next to tokenizer.json; of one that is replaced transformers would read them with the new files
TOKENIZER_FILES = ("vocab.*", "merges.txt", "bpe.codes", "added_tokens.json", "special_tokens_map.json",
                   "chat_template.jinja", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model")  # fmt: skip


@contextlib.contextmanager
def replace_model(folder: str | Path) -> Iterator[Path]:
    """A context that gives a temporary folder for the files of a model, and moves them into `folder` at the end.

    It is for a folder that has other files too, such as the checkpoints of a run, and so cannot be renamed as a whole
    (`atomic_write`). All files are on the disk before the first one is moved. Those by which a model is opened are
    removed before, and moved last: a process that is killed leaves the former model, one that does not open, or the new
    one; never parts of both. What other weights have scored, and how they were trained, is put aside: `evaluation`
    becomes `evaluation.old`, and a card loses its metrics.

    Yields:
        The temporary folder, in `folder`; what a killed process left there is removed.

    Raises:
        InputError: the disk is full or read-only; the former model is kept.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with replace_model(folder) as temporary:
        ...         _ = (temporary / "config.json").write_text("{}")
        ...     os.listdir(folder)
        ['config.json']
    """
    folder = Path(folder)
    scratch, is_new = folder / SAVING, not folder.is_dir()
    with write_errors(folder):
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        try:
            yield scratch
            _to_disk(scratch, folder.stat().st_mode & 0o666)
            new = {path.relative_to(scratch) for path in scratch.rglob("*") if path.is_file()}
            if new:  # none where sharded weights are only saved in checkpoints
                last = [Path(name) for name in OPENED_BY if Path(name) in new]
                patterns = (*_WEIGHTS, *(TOKENIZER_FILES if Path("tokenizer_config.json") in new else ()))
                stale = [path for pattern in patterns for path in folder.glob(pattern) if Path(path.name) not in new]
                former, weights = _weight_files(folder), _weight_files(scratch)
                same, *_ = filecmp.cmpfiles(scratch, folder, former, shallow=False)
                if former and not former == weights == same:
                    _put_records_aside(folder, new)
                for path in [*(folder / name for name in reversed(OPENED_BY)), *stale]:
                    path.unlink(missing_ok=True)
                for name in [*sorted(new.difference(last)), *last]:
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    os.replace(scratch / name, folder / name)
                _sync(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            if is_new and not any(folder.iterdir()):
                folder.rmdir()


def _weight_files(folder: Path) -> list[str]:
    """The files of weights in a folder, and in those of the modules of sentence-transformers in it."""
    files = (path for prefix in ("", "[0-9]*_*/") for pattern in _WEIGHTS for path in folder.glob(prefix + pattern))
    return sorted(path.relative_to(folder).as_posix() for path in files)


def _put_records_aside(folder: Path, new: set[Path]) -> None:
    """Put aside what a folder says of former weights; `new` are the files that come into it."""
    from contrastive_st.files.cards import CARD, RECORDS, read_head, with_head

    changes, card = [], folder / CARD
    with log_failures(f"the records of former weights stay in {folder}"):
        for path in (folder / name for name in RECORDS if Path(name) not in new):
            if path.exists():
                old = path.with_name(f"{path.name}.old")
                shutil.rmtree(old, ignore_errors=True)
                os.replace(path, old)
                changes.append(f"{path.name} is now {old.name}")
        if card.is_file() and (head := read_head(card)).pop("model-index", None):
            with atomic_write(card, overwrite=True, through=False) as file:
                file.write_bytes(with_head(card, head))
            changes.append(f"{CARD} has no metrics (a new one: contrastive-st card {folder})")
    if changes:
        logger.warning(f"{folder} has other weights than those of its records: {', '.join(changes)}")


@contextlib.contextmanager
def write_errors(path: Path, fix: str = "") -> Iterator[None]:
    """Turn errors of writing into an `InputError` of one line that names the path, and how to `fix` it.

    Raises:
        InputError: the disk is full or read-only, or another error of writing.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error).partition("\n")[0]
        shown = str(path) if len(str(path)) < 150 else f"{str(path)[:100]}...{str(path)[-40:]}"
        raise InputError(f"{shown} cannot be written: {why}" + f"; {fix}" * bool(fix)) from error


@contextlib.contextmanager
def only_writer(
    path: str | Path, overwrite: bool = False, flag: str = "--overwrite", parents: bool = False
) -> Iterator[Path]:
    """A context in which no other process writes to an output; whoever comes second does not compute for nothing.

    The lock is a hidden file next to the output, which ends with this process, and which other accounts cannot hold.

    Args:
        path: path of the output.
        overwrite: the output may exist.
        flag: the flag for overwriting that a message suggests; "" if there is none.
        parents: create missing parent folders.

    Yields:
        The path.

    Raises:
        InputError: `check_target` refuses the path, or another process writes to it.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, only_writer(Path(folder, "soup")) as path:
        ...     os.listdir(folder)
        ['.soup.lock']
    """
    path = check_target(path, overwrite, flag, parents)
    with contextlib.ExitStack() as held:
        with write_errors(path):
            path.absolute().parent.mkdir(parents=parents, exist_ok=True)
            error = f"another process writes into {path}; wait until it ends, or choose another output"
            held.enter_context(locked(path.absolute().with_name(f".{path.absolute().name}.lock"), error))
        check_target(path, overwrite, flag, parents)  # what the one before wrote
        yield path


@contextlib.contextmanager
def locked(path: Path, error: str) -> Iterator[None]:
    """Hold a lock file in an existing folder. The lock belongs to this process (not its children) and ends with it.

    Raises:
        InputError: another process holds the lock; the message is `error`.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    while True:
        # for reading too, another account could hold it, and a link would lead elsewhere
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as held:
            os.close(file)
            raise InputError(error) from held
        if os.fstat(file).st_nlink:  # else the one before removed it after it was opened here
            break
        os.close(file)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(file)


def _to_disk(path: Path, mode: int) -> None:
    """fsync a file, or everything in a folder; files get the mode of the user's umask.

    (safetensors writes files that only their owner may read.)
    """
    if path.is_dir():
        for below in path.iterdir():
            _to_disk(below, mode)
    else:
        path.chmod(path.stat().st_mode | mode)
    _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
