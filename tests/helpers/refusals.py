"""What a command says that is refused or that ends well, and the one line of an error."""

from contextlib import contextmanager

import pytest

from contrastive_st.cli import main
from contrastive_st.errors import InputError


def told(capsys, *arguments):
    """What a command that ends well has printed, and what was there to read before it: `out` and `err`."""
    assert main(list(map(str, arguments))) == 0
    return capsys.readouterr()


def refused(capsys, *arguments):
    """The one line of a command that ends with exit code 2."""
    capsys.readouterr()
    assert main(list(map(str, arguments))) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


def error_of(capsys, *arguments):
    """The last line of a command that ends with exit code 2, and that may say other things before."""
    capsys.readouterr()
    assert main(list(map(str, arguments))) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    return error


@contextmanager
def refusal(words, *parts):
    """An error for the user: a line, and no long one, that has these words (a regular expression) and these parts."""
    with pytest.raises(InputError, match=words) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 1000
    assert [part for part in parts if part not in message] == [], message
