"""What every command shares: text that is safe to print, errors of one line, and flags in either spelling."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TextIO

from contrastive_st.errors import InputError, first_line

MODEL_HELP = "checkpoint folder or Hub name (default: $CONTRASTIVE_ST_MODEL, or the static model of this package)"

# Control characters but tab and newline, marks that turn the direction of text, line separators, halves of surrogates
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    r"""`text` with U+FFFD for each character that a terminal would act on: text of a document must not move the cursor.

    Example:
        >>> clean("a\x1b[2Jb").replace("\ufffd", "?")
        'a?[2Jb'
    """
    return _UNSAFE.sub("\ufffd", text)


def say(*values: object, file: TextIO | None = None, end: str = "\n") -> None:
    """`print`, with all that is printed cleaned.

    Args:
        values: parted by blanks, as by `print`.
        file: by default stdout.
        end: printed last.
    """
    print(clean(" ".join(map(str, values))), file=file, end=end)


def run(job: Callable[[], Any]) -> int:
    """Call a command or the `main` of a script; returns its exit code.

    Bad input (`InputError`) and files that cannot be read or written (`OSError`) are one line on stderr and code 2. A
    reader of stdout that has enough (`| head`) ends the command in silence.

    Example:
        >>> run(lambda: None)
        0
    """
    try:
        try:
            job()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is flushed into nothing
        return 0
    except (InputError, OSError) as error:
        say(f"error: {first_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        say("interrupted", file=sys.stderr)
        return 130
    _leave_the_process_group()
    return 0


def _leave_the_process_group() -> None:
    """Leave it together: a process that ends while the others still talk aborts."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.barrier()
        distributed.destroy_process_group()


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors are one line, and which takes no shortened flags."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; {self.prog} --help lists what there is")


def snake_case_flags(argv: Sequence[str]) -> list[str]:
    """A command line with its flags in snake_case; values, and what follows a bare `--`, stay as they are.

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
    """What a mistyped word may have meant, for the end of an error line.

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
    """Most bytes of this process, or of another on this machine, that were in memory at once, so far.

    0 where the system does not tell: on Windows, and outside Linux of another process.

    Example:
        >>> peak_resident() > 10 * 2**20
        True
    """
    if sys.platform == "win32":
        return 0
    status = f"/proc/{process}/status"
    if os.path.exists(status):  # getrusage also counts what the process was forked from
        with open(status, encoding="ascii", errors="replace") as lines:
            return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
    if process != "self":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
