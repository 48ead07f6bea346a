"""Files and Hub data sets -> a `datasets.Dataset` of text columns; faults are named with their place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import datasets

from contrastive_st.data.columns import any_of
from contrastive_st.data.stored import from_hub, from_parquet, tidy
from contrastive_st.data.text_files import read_text_file
from contrastive_st.errors import InputError

EXTENSIONS = (".txt", ".csv", ".tsv", ".json", ".jsonl", ".parquet")


def read_texts(
    source: str, columns: Sequence[str | int] | None = None, *, strict: bool = False, split: str = "train"
) -> datasets.Dataset:
    """Read one or more columns of text, each cell stripped of the white space around it.

    | source           | what is in it                                                               |
    |------------------|-----------------------------------------------------------------------------|
    | `.txt`           | a sentence a line, in a column named `text`; commas and quotes mean nothing |
    | `.csv`           | a header, then rows; cells that hold commas, quotes or line ends are quoted |
    | `.tsv`           | a header, then rows; tabs part the cells, quotes mean nothing               |
    | `.json` `.jsonl` | an object a line, or one list of objects                                    |
    | `.parquet`       | memory-mapped: only the columns wanted, and never as a whole in memory      |
    | anything else    | a data set of the Hub, "owner/name" or "owner/name:config"; of it, `split`  |

    A row with a blank or null cell in one of the columns is dropped; one warning tells how many were.

    Args:
        source: a file or the name of a data set.
        columns: the columns wanted, in that order, by name or by position from 0. By default all columns that
            hold strings. A column of numbers is read as text where it is named.
        strict: raise for a blank cell instead.
        split: which part of a data set of the Hub; files have one part only.

    Raises:
        InputError: the source cannot be read as above, or nothing is left of it. Says what, where (the header
            of a table is row 1) and how to mend it.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "pairs.csv")
        ...     _ = path.write_text('id,question,answer\\n1,Why?,"Well, because."\\n')
        ...     read_texts(str(path), ["answer", 1])[0]
        {'answer': 'Well, because.', 'question': 'Why?'}
    """
    if isinstance(columns, (str, int)):
        columns = [columns]
    path = Path(source).expanduser()
    kind = path.suffix.lower()
    if path.is_dir():
        raise InputError(f"{source} is a folder; name one file in it ({', '.join(EXTENSIONS)})")
    if kind not in EXTENSIONS:
        if path.exists():
            raise InputError(
                f"{source}: no reader for {kind or 'no extension'}; rename it to one of {any_of(EXTENSIONS)}"
            )
        return tidy(from_hub(source, columns, split), source, strict)
    try:
        if path.stat().st_size == 0:
            raise InputError(f"{source}: the file is empty; it needs at least one sentence")
        if kind == ".parquet":
            return tidy(from_parquet(path, columns, source), source, strict)
        return read_text_file(path, columns, source, strict)
    except FileNotFoundError:
        raise InputError(f"{source}: there is no such file; check the path (seen from {Path.cwd()})") from None
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror or error}; check its permissions") from error
