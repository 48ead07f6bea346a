"""`InputError`, the error for input that the user must correct, and one-line forms of other errors."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

_LONGEST = 300  # characters that are shown of what a library says, and of a list of names
_OURS = ("builtins", "contrastive_st")
_FULL, _LITE = "contrastive-st", "contrastive-st-lite"  # the distributions: all of it, and what needs no torch
_COMPILED = "<compiled>"  # the file of a module that has none: part of the interpreter, or of a library's binary
_INSTALLED = (_COMPILED, *(sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")))


class InputError(ValueError):
    """Some input cannot be used. The message says in one line what is wrong, where, and how to fix it.

    The command line prints the message without a traceback and exits with status 2.

    Example:
        >>> raise InputError("pairs.csv, row 3: 1 cell, not 2; quote cells that hold commas")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: pairs.csv, row 3: 1 cell, not 2; quote cells that hold commas
    """


def first_line(error: BaseException) -> str:
    """The first line of an error's message that is not blank, with the next if it ends in a colon; else its type.

    The line of a library is cut. That of an `InputError` is not, because it may end in a command to paste.

    Example:
        >>> first_line(OSError("disk full\\nsee the log")), first_line(KeyError())
        ('disk full', 'KeyError')
    """
    text = f"KeyError: {error}" if isinstance(error, KeyError) and error.args else str(error)
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)  # colors
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    line = " ".join(lines[: 1 + lines[0].endswith(":")])
    return line if isinstance(error, InputError) else line[:_LONGEST]


@contextlib.contextmanager
def about(what: object) -> Iterator[None]:
    """Name the object that a library works on: errors pass unchanged, and the command line prints the name before them.

    Args:
        what: usually the name of a file, as the user wrote it.

    Example:
        >>> with about("config.json"):
        ...     int("two")
        Traceback (most recent call last):
        ...
        ValueError: invalid literal for int() with base 10: 'two'
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, InputError) and not hasattr(error, "about"):
            error.about = str(what)  # type: ignore[attr-defined]
        raise


def one_line(error: Exception) -> str:
    """The line that the command line prints for an error: what it is `about`, the library, its first line, its hint.

    Blank for an error that the code of this package raised and that is not an `InputError`: a defect, which needs its
    traceback.

    Example:
        >>> one_line(InputError("no such rows")), one_line(RuntimeError("unforeseen"))
        ('no such rows', '')
    """
    what, library = getattr(error, "about", ""), _library_of(error)
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("contrastive_st"):
        return ": ".join(filter(None, (what, what_to_install(error))))
    if not (what or library or isinstance(error, (InputError, OSError))):
        return ""
    hint = getattr(getattr(error, "diag", None), "message_hint", None)  # of PostgreSQL: how to fix it
    return "; ".join(filter(None, (": ".join(filter(None, (what, library, first_line(error)))), hint)))


def _library_of(error: Exception) -> str:
    """The library, installed or part of Python, whose class an error is or whose code raised it; else blank."""
    if isinstance(error, (InputError, OSError)):
        return ""
    name = type(error).__module__.partition(".")[0]
    file = getattr(sys.modules.get(name), "__file__", None) or _COMPILED
    if name not in _OURS and file.startswith(_INSTALLED):
        return name.removesuffix("_rust")
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is None:
        return ""
    name = str(frame.tb_frame.f_globals.get("__name__")).partition(".")[0]
    file = frame.tb_frame.f_code.co_filename
    return name if name not in _OURS and (file.startswith(_INSTALLED) or file.endswith((".pyx", ".pxi"))) else ""


def install(extra: str = "") -> str:
    """The command that installs an extra, or all that this package needs: from the clone that it is run from, or by
    the name of the distribution that is installed, if it has the extra.

    Example:
        >>> install("lora").endswith("[lora]'")
        True
    """
    clone, suffix = Path(__file__).parents[2], f"[{extra}]" if extra else ""
    if (clone / "pyproject.toml").is_file():
        return f"pip install -c '{clone / 'constraints.txt'}' -e '{clone}{suffix}'"
    from importlib import metadata  # here, because it takes a tenth of the time to a first vector

    with contextlib.suppress(metadata.PackageNotFoundError):
        if extra in (metadata.metadata(_LITE).get_all("Provides-Extra") or ()):
            return f"pip install '{_LITE}{suffix}'"
    return f"pip install '{_FULL}{suffix}'"


def installed_version(name: str) -> str:
    """The version of a distribution; empty if it is not installed."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def what_to_install(error: ModuleNotFoundError) -> str:
    """What to install for a module that the light distribution does without.

    Example:
        >>> what_to_install(ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")).partition(";")[0]
        'this needs torch, which is not installed'
    """
    if asked := re.match(r"The '([\w-]+)", str(error.name)):  # by transformers, of a version of a library
        return f"this needs {asked[1]}, which is not installed; pip install {asked[1]}"
    return f"this needs {str(error.name).partition('.')[0]}, which is not installed; {install()}"


def require(what: str, extra: str, *modules: str) -> ModuleType:
    """Check, before they are imported, that the modules of an extra are installed; imports the first of them.

    Args:
        what: what needs them, for the message.
        extra: the extra of this package that has them.
        modules: their names.

    Returns:
        The first module.

    Raises:
        InputError: one is missing; the message says which, and how to install it.

    Example:
        >>> require("a store", "search", "json", "no_such_module")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: a store needs no_such_module; pip install ...
    """
    if missing := [name for name in modules if importlib.util.find_spec(name) is None]:
        raise InputError(f"{what} needs {', '.join(missing)}; {install(extra)}")
    return importlib.import_module(modules[0])


def choice(what: str, name: object, allowed: Iterable[object], where: object = "") -> Any:
    """The name, if it is among the known ones.

    Args:
        what: what it is the name of, for the message.
        name: the name.
        allowed: the known ones.
        where: the file in which it is looked for, if it is one.

    Returns:
        The name.

    Raises:
        InputError: it is not one of them.

    Example:
        >>> choice("precision", "int4", ["float32", "int8"])
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: unknown precision 'int4'; choose one of float32, int8
    """
    allowed = list(allowed)
    if name not in allowed:
        _refuse(what, name, allowed, where)
    return name


def _refuse(what: str, name: object, allowed: Iterable[object], where: object) -> NoReturn:
    names = listed(one for one in allowed if one is not None)
    choices = f"choose one of {names}" if names else "there are none"
    raise InputError(f"{f'{where}: ' if where else ''}unknown {what} {str(name)[:_LONGEST]!r}; {choices}")


def listed(names: Iterable[object]) -> str:
    """Names in a message, with commas between them: as many as a line has room for, and how many more there are.

    Example:
        >>> listed(["text", 3]), listed(f"column {number}" for number in range(1000))[-30:]
        ('text, 3', 'umn 26, column 27 and 972 more')
    """
    written = list(map(str, names))
    ends = list(accumulate(len(name) + 2 for name in written))
    count = max(1, sum(end <= _LONGEST for end in ends))
    more = f" and {len(written) - count:,} more" if len(written) > count else ""
    return ", ".join(written[:count]) + more


def suggestion(word: str, candidates: Iterable[str]) -> str:
    """The known word nearest to a mistyped one, or else the list of known words, for the end of an error message.

    Example:
        >>> suggestion("trian", ["train", "index"])
        'did you mean train?'
        >>> suggestion("x", ["train", "index"])
        'choose from train, index'
    """
    candidates = list(candidates)
    bare = {name.lstrip("-"): name for name in candidates}  # the dashes of flags make all of them alike
    near = difflib.get_close_matches(word.lstrip("-"), bare, 1)
    return f"did you mean {bare[near[0]]}?" if near else f"choose from {', '.join(candidates)}"
