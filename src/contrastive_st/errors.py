"""The one error of this package that is the user's to mend."""


class InputError(ValueError):
    """Something the user gave cannot be used: what, where, and how to mend it, in one line.

    The command line prints the message without a traceback and exits with status 2.

    Example:
        >>> raise InputError("pairs.csv, row 3: 1 cell, not 2; quote cells that hold commas")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: pairs.csv, row 3: 1 cell, not 2; quote cells that hold commas
    """
