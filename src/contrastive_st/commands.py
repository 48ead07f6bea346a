"""A command from its arguments to its exit code: flags, `--quiet` and `--verbose`, one-line errors, the end."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import dataclasses
import functools
import inspect
import io
import logging
import os
import re
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from contrastive_st.device import DEVICE
from contrastive_st.errors import InputError, one_line, suggestion
from contrastive_st.options import add_flags, parsed
from contrastive_st.terminal import is_verbose, set_verbosity, tell
from contrastive_st.text_format import TEXT_FORMAT_HELP, TextFormat, add_text_format, set_text_format

MODEL_HELP = (
    "checkpoint folder or Hub name (default: $CONTRASTIVE_ST_MODEL, or static-minilm, which is part of this package)"
)
PRECISION_HELP = "precision of the {}; auto: bf16 if the hardware is faster with it, else fp32"
POOLING_HELP = "mean, cls_before_pooler, ...; only needed if the checkpoint does not record its pooling"

DEVICE_HELP = (
    "where models run: cpu, cuda, cuda:1, mps (default: $CONTRASTIVE_ST_DEVICE, or else the GPU if there is one)"
)

VERBOSITY = (
    ("--quiet", logging.WARNING, "print only errors and warnings, without progress bars and summaries"),
    ("--verbose", logging.DEBUG, "also print the progress bars and warnings of other libraries, and tracebacks"),
)

#: What help and errors of a script call it, where a command runs it; None for the name of its file
program: str | None = None

#: Seconds that other processes wait before they tell an error; a launcher ends them some seconds after the first
_AFTER_THE_FIRST = 15.0


class _AtOnce(argparse.Action):
    """A flag that holds at once, for the whole process: `act` gets its value, and nothing is left in the namespace."""

    def __init__(self, *args: Any, act: Callable[[Any], None], **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "dest": argparse.SUPPRESS, "default": argparse.SUPPRESS})
        self.act = act

    def __call__(self, parser: object, namespace: object, values: object, option_string: str | None = None) -> None:
        self.act(self.const if self.nargs == 0 else values)


#: The titles of groups of options in the help of a command, with the options in them; others are in `options`
_GROUPS = {
    "store": "store collection",
    "texts": "input train_file max_train_samples column columns metadata id_column hub_split split_into strict "
    "corpus corpus_column examples_file data pairs retrieval installed_docs",
    "model": "model models names teacher pooling precision revision max_length guide cross_encoder query_prompt "
    "query_prompt_name corpus_prompt corpus_prompt_name batch_size cache truncate",
    "indexing": "build_memory partitions shard_rows",
    "indexing again": "replace restore sync",
    "negatives": "range_min range_max num_negatives max_score absolute_margin relative_margin sampling_strategy "
    "include_positives",
    "server": "host port token token_file write_token_file allow_origin batch_tokens max_waiting_tokens",
    "output": "output output_format output_scores overwrite json limit examples card",
}
_GROUP_OF = {name: title for title, names in _GROUPS.items() for name in names.split()}


class Parser(argparse.ArgumentParser):
    """The parser of commands and scripts, with one-line errors, `--device`, `--quiet` and `--verbose`.

    Flags are not abbreviated, and an unknown one is refused with the flag that is nearest to it.

    Args:
        args: as for `ArgumentParser`.
        general: add the options of every command now; else `add_general` adds them, after those of the command.
        kwargs: as for `ArgumentParser`.
    """

    def __init__(self, *args: Any, general: bool = True, **kwargs: Any) -> None:
        usual = {"allow_abbrev": False, "formatter_class": argparse.RawDescriptionHelpFormatter}
        super().__init__(*args, **{**usual, **kwargs})
        if general:
            self.add_general()

    def add_general(self, reads_texts: bool = True) -> None:
        """Add the options of every command, and those of commands that read texts."""
        if reads_texts:
            group = self.add_argument_group("files of text")
            for name, text in TEXT_FORMAT_HELP.items():
                act = functools.partial(add_text_format, name)
                group.add_argument(f"--{name}", action=_AtOnce, act=act, metavar=name.upper(), help=text)
        group = self.add_argument_group("every command")
        set_device = functools.partial(os.environ.__setitem__, DEVICE)
        group.add_argument("--device", action=_AtOnce, act=set_device, metavar="NAME", help=DEVICE_HELP)
        add = group.add_mutually_exclusive_group().add_argument
        for flag, level, text in VERBOSITY:
            add(flag, action=_AtOnce, act=set_verbosity, nargs=0, const=level, help=text)

    def error(self, message: str) -> NoReturn:
        """Raise the error instead of ending the process.

        Raises:
            InputError: always.
        """
        raise InputError(f"{message}; {self.prog} --help lists the options")

    def refuse(self, unknown: Sequence[str]) -> None:
        """Refuse what is left of a command line, if anything is.

        Raises:
            InputError: with the first word, and the flag that may be meant.
        """
        if unknown:
            flag = unknown[0].partition("=")[0]
            raise InputError(f"unknown argument {flag}; {self.instead(flag)}")

    def instead(self, flag: str) -> str:
        """What to give in place of a flag that there is not."""
        near = suggestion(flag, [name for name in self._option_string_actions if name.startswith("--")])
        return near if near.startswith("did you mean") else f"{self.prog} --help lists all arguments"


def add_command(commands: Any, kind: Any) -> None:
    """Add a command to the subparsers of `contrastive-st`.

    Args:
        commands: the subparsers.
        kind: a dataclass of options, which is called to run the command. The command has the name of the class in lower
            case, with hyphens between words. The first line of its docstring is its help, the others are examples.
    """
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", kind.__name__).lower()
    about, _, examples = inspect.cleandoc(kind.__doc__).partition("\n\n")
    positional = [spec for spec in dataclasses.fields(kind) if spec.metadata.get("positional")]
    operands = []
    for spec in positional:
        operand = spec.metadata.get("flag", {}).get("metavar", spec.name)
        operand += " ..." if str(spec.type).startswith("list") else ""
        operands.append(operand if spec.default is dataclasses.MISSING else f"[{operand}]")
    parser = commands.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}.", general=False,
        usage=" ".join([f"contrastive-st {name} [options]", *operands]),
        epilog=f"example:\n{textwrap.indent(examples, '  ')}" if examples else None,
    )  # fmt: skip
    add_flags(parser, kind, groups=_GROUP_OF)
    parser.add_general(any(_GROUP_OF.get(spec.name) == "texts" for spec in dataclasses.fields(kind)))
    parser.set_defaults(function=lambda args: parsed(kind, args)())


def snake_case_flags(argv: Sequence[str]) -> list[str]:
    """Rewrite the flags of a command line in snake_case; values, and all that follows a bare `--`, are not changed.

    Example:
        >>> snake_case_flags(["index", "--build_memory=a-b", "-k", "3", "--", "--not-a-flag"])
        ['index', '--build_memory=a-b', '-k', '3', '--', '--not-a-flag']
    """
    end = argv.index("--") if "--" in argv else len(argv)
    parted = [word[2:].partition("=") if word.startswith("--") else ("", "", word) for word in argv[:end]]
    flags = [f"--{name.replace('-', '_')}{equals}{value}" if name else value for name, equals, value in parted]
    return [*flags, *argv[end:]]


# --- The end of a command.


def run(job: Callable[[], object]) -> int:
    """Call a command or the `main` of a script; returns its exit code.

    Bad input (`InputError`), what a library says of it, and files that cannot be read or written (`OSError`) give one
    line on stderr and code 2, with --verbose after the traceback; of several processes that meet the same error, the
    first tells it. An error that this package raises by mistake keeps its traceback, and code 1. If the reader of
    stdout or stderr stops reading (`| head`), the command goes on to its end, and what it still prints goes nowhere.
    Where several processes were joined, this one then ends without the finalization of the interpreter (`_end_with`).

    Example:
        >>> run(lambda: None)
        0
    """
    set_verbosity(logging.INFO)
    set_text_format(TextFormat())
    device = os.environ.get(DEVICE)  # `--device` sets it for this command alone
    _lasting_streams()
    code = 1  # of an error that nobody foresaw
    try:
        code = _run(job)
    except SystemExit as ended:  # of a script that is run as a job
        code = int(ended.code or 0) if isinstance(ended.code, int | None) else 1
        raise
    finally:
        _leave_the_process_group(code, wait=False)
        os.environ.pop(DEVICE, None)
        os.environ |= {} if device is None else {DEVICE: device}
    return code


class _Lasting(io.FileIO):
    """A file descriptor whose reader may go away: it then leads to the null device, and writing goes on."""

    def write(self, data: Any) -> int:
        """Write bytes; all of them count as written where nobody reads any more."""
        try:
            return super().write(data)
        except BrokenPipeError:
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), self.fileno())
            return super().write(data)


def _lasting_streams() -> None:
    """Give this process the streams that it was started without, and output that lasts as long as the job.

    What a terminal of cp1252 or ASCII lacks is printed as \\u20ac.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the caller has closed it
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - open as long as the process
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper):
            continue
        stream.reconfigure(errors="backslashreplace")
        raw = getattr(stream.buffer, "raw", stream.buffer)  # with `python -u` nothing is between the two
        if stream is getattr(sys, f"__{name}__") and type(raw) is io.FileIO:
            stream.flush()
            lasting = _Lasting(raw.fileno(), "wb", closefd=False)
            inner: Any = lasting if raw is stream.buffer else io.BufferedWriter(lasting)
            how = {"line_buffering": stream.line_buffering, "write_through": stream.write_through}
            setattr(sys, name, io.TextIOWrapper(inner, stream.encoding, stream.errors, **how))


def _run(job: Callable[[], object]) -> int:
    try:
        try:
            job()
        finally:
            sys.stdout.flush()
    except Exception as error:
        line = one_line(error)
        if not line:
            raise
        if os.environ.get("RANK", "0") != "0":
            time.sleep(_AFTER_THE_FIRST)
        if is_verbose():
            traceback.print_exception(error)
        tell(f"error: {line}")
        return 2
    except KeyboardInterrupt as error:
        if os.environ.get("RANK", "0") == "0":
            tell(str(error) or "interrupted")
        return 130
    _leave_the_process_group(0, wait=True)
    return 0


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
