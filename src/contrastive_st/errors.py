"""`InputError`, the error for input that the user must correct, and one-line forms of other errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

_LONGEST = 300  # characters of an error that are shown


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
