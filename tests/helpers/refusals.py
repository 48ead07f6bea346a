"""What a command says that is refused."""

from contrastive_st.cli import main


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
