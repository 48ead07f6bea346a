"""`InputError`, the error for input that the user must correct, and one-line forms of other errors."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator

_LONGEST = 300  # characters of an error that are shown

#: Libraries whose own errors, and whose `ValueError`s, tell what is wrong with the input. One that this package's code
#: raises is a defect of the package, and keeps its traceback
_LIBRARIES = ("accelerate", "datasets", "huggingface_hub", "peft", "pyarrow", "safetensors", "safetensors_rust",
              "tokenizers", "torch", "transformers")  # fmt: skip


class InputError(ValueError):
    """Some input cannot be used. The message says in one line what is wrong, where, and how to mend it.

    The command line prints the message without a traceback and exits with status 2.

    Example:
        >>> raise InputError("pairs.csv, row 3: 1 cell, not 2; quote cells that hold commas")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: pairs.csv, row 3: 1 cell, not 2; quote cells that hold commas
    """


def first_line(error: BaseException) -> str:
    """The first line of an error's message that is not blank, or the error's type if there is none.

    Example:
        >>> first_line(OSError("disk full\\nsee the log")), first_line(KeyError())
        ('disk full', 'KeyError')
    """
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)[:_LONGEST]


@contextlib.contextmanager
def input_errors(what: str) -> Iterator[None]:
    """Turn errors of transformers, torch or a missing package into an `InputError` of one line.

    Example:
        >>> with input_errors("optim apollo_adamw"):
        ...     raise ImportError("install apollo_torch")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: optim apollo_adamw: install apollo_torch
    """
    try:
        yield
    except InputError:
        raise
    except (ValueError, TypeError, ImportError) as error:
        raise InputError(f"{what}: {first_line(error)}") from error


def library_of(error: Exception) -> str:
    """The library that raised an error about the input, such as transformers; else "".

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
    return name.removesuffix("_rust") if name in _LIBRARIES else ""


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
