"""What commands print: text that is safe for a terminal, at the chosen verbosity, also for other libraries."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

# Control characters except tab and newline, marks of text direction, line separators, surrogates
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    r"""Replace each character that a terminal would act on with U+FFFD, so that printed documents cannot control it.

    Example:
        >>> clean("a\x1b[2Jb").replace("\ufffd", "?")
        'a?[2Jb'
    """
    return _UNSAFE.sub("\ufffd", text)


def say(*values: object, file: TextIO | None = None, end: str = "\n") -> None:
    """Print like `print`, after `clean`.

    Args:
        values: printed with spaces between them, as by `print`.
        file: by default stdout.
        end: printed after the last value.
    """
    print(clean(" ".join(map(str, values))), file=file, end=end)


def columns(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Lines of a table, whose first `left` columns are aligned left and the others right.

    Example:
        >>> columns([["a", "bc"], ["de", "f"]])
        ['a   bc', 'de   f']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    signs = ["<" if i < left else ">" for i in range(len(widths))]
    return ["  ".join(map("{:{}{}}".format, row, signs, widths)).rstrip() for row in rows]


def tell(*values: object) -> None:
    """`say` on stderr, whatever the verbosity."""
    say(*values, file=sys.stderr)


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[int], object]]:
    """A progress bar, as a function that tells it how many more texts are encoded."""
    from tqdm.auto import tqdm  # here, because its import takes a fifth of the time to a first vector

    with tqdm(total=total, unit=" texts", desc="encode") as bar:
        yield bar.update


# --- How much is printed: nothing of other libraries unless asked, and progress on a terminal alone.

#: What makes other libraries silent while they are imported. The first also switches off the bars of transformers.
_SILENT = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}
_level = logging.INFO
_set_here: set[str] = set()


def set_verbosity(level: int) -> None:
    """Set how much commands print on stderr.

    Errors and the warnings of this package are always printed. Variables of the environment that the user has set, such
    as TRANSFORMERS_VERBOSITY, hold for the libraries that they are about.

    Args:
        level: `logging.WARNING` (--quiet): nothing else; `logging.INFO`: also what a command does, and one progress bar
            on a terminal; `logging.DEBUG` (--verbose): also the bars, warnings and reports of other libraries.

    Example:
        >>> set_verbosity(logging.WARNING)
        >>> progress_is_shown()
        False
        >>> set_verbosity(logging.INFO)
    """
    global _level
    _level = level
    logging.getLogger("contrastive_st").setLevel(level)
    for name, value in _SILENT.items():
        if level == logging.DEBUG and name in _set_here:
            _set_here.discard(name)
            os.environ.pop(name, None)
        elif level != logging.DEBUG and name not in os.environ:
            _set_here.add(name)
            os.environ[name] = value
    loud = level == logging.DEBUG
    if loud or _set_here:
        if module := sys.modules.get("transformers.utils.logging"):
            (module.enable_progress_bar if loud else module.disable_progress_bar)()
            module.set_verbosity(logging.WARNING if loud else logging.ERROR)
        if module := sys.modules.get("datasets.utils"):
            (module.enable_progress_bars if loud else module.disable_progress_bars)()


def is_verbose() -> bool:
    """Whether --verbose was given."""
    return _level <= logging.DEBUG


def is_quiet() -> bool:
    """Whether --quiet was given."""
    return _level >= logging.WARNING


def progress_is_shown() -> bool:
    """Whether a command shows a progress bar: stderr is a terminal, and --quiet was not given."""
    return not is_quiet() and sys.stderr.isatty()


def note(*values: object) -> None:
    """Print what a command has done on stderr, after `clean`; nothing with --quiet."""
    if not is_quiet():
        tell(*values)
