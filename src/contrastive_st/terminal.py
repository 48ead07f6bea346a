"""Helpers of all commands: text that is safe to print, how much is printed, one-line errors, and flags with hyphens."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import difflib
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TextIO

from contrastive_st.errors import InputError, first_line

MODEL_HELP = "checkpoint folder or Hub name (default: $CONTRASTIVE_ST_MODEL, or the static model of this package)"
POOLING_HELP = "for checkpoints that record none: mean, cls_before_pooler, ..."

VERBOSITY = (
    ("--quiet", logging.WARNING, "print errors and warnings only: no progress bar, nothing about what was done"),
    ("--verbose", logging.DEBUG, "also print the progress bars, warnings and reports of other libraries"),
)

# Control characters except tab and newline, marks of text direction, line separators, surrogates
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

#: Seconds that other processes wait before they tell an error; a launcher ends them some seconds after the first
_AFTER_THE_FIRST = 15.0

#: Libraries whose own errors, and whose `ValueError`s, tell what is wrong with the input. One that this package's code
#: raises is a defect of the package, and keeps its traceback
_LIBRARIES = ("accelerate", "datasets", "huggingface_hub", "peft", "pyarrow", "safetensors", "safetensors_rust",
              "tokenizers", "torch", "transformers")  # fmt: skip


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
    for name, call in (("transformers.utils.logging", _tell_transformers), ("datasets.utils", _tell_datasets)):
        if name in sys.modules and (level == logging.DEBUG or _set_here):
            call(sys.modules[name], level == logging.DEBUG)


def _tell_transformers(module: Any, loud: bool) -> None:
    (module.enable_progress_bar if loud else module.disable_progress_bar)()
    module.set_verbosity(logging.WARNING if loud else logging.ERROR)


def _tell_datasets(module: Any, loud: bool) -> None:
    (module.enable_progress_bars if loud else module.disable_progress_bars)()


def progress_is_shown() -> bool:
    """Whether a command shows a progress bar: stderr is a terminal, and --quiet was not given."""
    return _level < logging.WARNING and sys.stderr.isatty()


def note(*values: object) -> None:
    """Print what a command has done on stderr, after `clean`; nothing with --quiet."""
    if _level < logging.WARNING:
        say(*values, file=sys.stderr)


class _Verbosity(argparse.Action):
    """`--quiet` and `--verbose`, which hold at once and leave nothing in the namespace."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "nargs": 0, "dest": argparse.SUPPRESS, "default": argparse.SUPPRESS})

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: Any = None) -> None:
        set_verbosity(self.const)


# --- The beginning and the end of a command.


def run(job: Callable[[], Any]) -> int:
    """Call a command or the `main` of a script; returns its exit code.

    Bad input (`InputError`, or an error of a library that says what is wrong with it) and files that cannot be read or
    written (`OSError`) give one line on stderr and code 2; of several processes that meet the same error, the first
    tells it. If the reader of stdout stops reading (`| head`), the command ends without a message. Where several
    processes were joined, this one then ends without the finalization of the interpreter (`_end_with`).

    Example:
        >>> run(lambda: None)
        0
    """
    set_verbosity(logging.INFO)
    code = 1  # of an error that nobody foresaw
    try:
        code = _run(job)
    except SystemExit as ended:  # of a script that is run as a job
        code = int(ended.code or 0) if isinstance(ended.code, int | None) else 1
        raise
    finally:
        _leave_the_process_group(code, wait=False)
    return code


def _run(job: Callable[[], Any]) -> int:
    try:
        try:
            job()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered goes to /dev/null
        return 0
    except Exception as error:
        library = _library(error)
        if not (library or isinstance(error, (InputError, OSError))):
            raise
        if os.environ.get("RANK", "0") != "0":
            time.sleep(_AFTER_THE_FIRST)
        say(f"error: {library}{first_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        say("interrupted", file=sys.stderr)
        return 130
    _leave_the_process_group(0, wait=True)
    return 0


def _library(error: Exception) -> str:
    """The library that raised an error about the input, as `transformers: `; else "".

    That is an error whose class is the library's own (`pyarrow.ArrowInvalid`, `SafetensorError`), or a `ValueError`
    from its code.
    """
    if isinstance(error, (InputError, OSError)):
        return ""
    name = type(error).__module__.partition(".")[0]
    if isinstance(error, ValueError) and (frame := error.__traceback__) is not None:
        while frame.tb_next is not None:
            frame = frame.tb_next
        raised_in = str(frame.tb_frame.f_globals.get("__name__")).partition(".")[0]
        name = name if name in _LIBRARIES else raised_in
    return f"{name.removesuffix('_rust')}: " if name in _LIBRARIES else ""


def _leave_the_process_group(code: int, wait: bool) -> None:
    """If this process has joined others, see to its end with `code`.

    With `wait`, it waits for the others and leaves first: a process that ends while the others communicate aborts them.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    if distributed.get_world_size() > 1:
        atexit.unregister(_end_with)
        atexit.register(_end_with, code)
    if wait:
        distributed.barrier()
        distributed.destroy_process_group()


def _end_with(code: int) -> None:
    """End this process as its interpreter begins to: call what else was registered with atexit, flush, and `_exit`.

    A thread of gloo may hold the last reference to an object of Python (a tensor, or a callback of a future) or call
    one when a connection breaks. If it asks for the interpreter's lock after finalization has begun, CPython ends the
    thread by `pthread_exit`, whose unwinding meets a `noexcept` of C++: "terminate called without an active exception",
    and SIGABRT in place of the exit code. `destroy_process_group` does not wait for such a thread as long as anything,
    DDP for instance, holds the group.
    """
    atexit.unregister(_end_with)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(1 if getattr(sys, "last_type", None) is not None else code)  # an error after `run` ended in a traceback


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` with one-line errors, `--quiet` and `--verbose`, that does not accept abbreviated flags."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})
        add = self.add_mutually_exclusive_group().add_argument
        for flag, level, words in VERBOSITY:
            add(flag, action=_Verbosity, const=level, help=words)

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; {self.prog} --help lists the options")


def snake_case_flags(argv: Sequence[str]) -> list[str]:
    """Rewrite the flags of a command line in snake_case; values, and all that follows a bare `--`, are not changed.

    Example:
        >>> snake_case_flags(["index", "--build_memory=a-b", "-k", "3", "--", "--not-a-flag"])
        ['index', '--build_memory=a-b', '-k', '3', '--', '--not-a-flag']
    """
    end = argv.index("--") if "--" in argv else len(argv)
    return [_snake_case(word) if word.startswith("--") else word for word in argv[:end]] + list(argv[end:])


def _snake_case(flag: str) -> str:
    name, equals, value = flag[2:].partition("=")
    return f"--{name.replace('-', '_')}{equals}{value}"


def suggestion(word: str, known: Iterable[str]) -> str:
    """The known word nearest to a mistyped one, or else the list of known words, for the end of an error message.

    Example:
        >>> suggestion("trian", ["train", "index"])
        'did you mean train?'
        >>> suggestion("x", ["train", "index"])
        'choose from train, index'
    """
    known = list(known)
    near = difflib.get_close_matches(word, known, 1)
    return f"did you mean {near[0]}?" if near else f"choose from {', '.join(known)}"


def peak_resident(process: int | str = "self") -> int:
    """Peak resident memory so far, in bytes, of this process or of another on this machine.

    It is 0 where the system does not report it: on Windows, and for another process outside Linux.

    Example:
        >>> peak_resident() > 10 * 2**20
        True
    """
    if sys.platform == "win32":
        return 0
    status = f"/proc/{process}/status"
    if os.path.exists(status):  # getrusage also counts the parent before the fork
        with open(status, encoding="ascii", errors="replace") as lines:
            return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
    if process != "self":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
