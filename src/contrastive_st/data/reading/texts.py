"""Read columns of a table as text: into a `datasets.Dataset`, as a list or as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from contrastive_st.data.profile import Record, as_text, is_blank, simple
from contrastive_st.data.reading.rows import Dropped, Table, check_rows
from contrastive_st.data.reading.table import open_table
from contrastive_st.data.roles import named_columns
from contrastive_st.data.text_columns import text_column
from contrastive_st.errors import InputError, listed
from contrastive_st.text_format import reading_as

if TYPE_CHECKING:
    import datasets


def read_texts(
    source: object,
    columns: Sequence[str | int] | None = None,
    *,
    strict: bool = False,
    split: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    escapes: bool | str | None = None,
    decimal: str | None = None,
) -> datasets.Dataset:
    """Read one or more columns of text; white space around each cell is removed.

    A row with a blank or null cell in one of the columns is dropped; a warning says how many were.

    Args:
        source: a file, several, the name of a data set, or rows in memory, as for
            `contrastive_st.data.reading.open_table`.
        columns: the columns wanted, in that order, by name or by position from 0. By default all columns that
            hold strings. A column of numbers is read as text if you name it. With a role, as `name=role`, they are read
            as `read_examples` reads them.
        strict: raise an error for a blank cell instead.
        split: which split to read, of a data set of the Hub, a saved folder, or files named after splits; by default
            `train`, and a line of the log names the others.
        header: whether the first row of a table holds the names of the columns; by default it does if you name a
            column, or if its cells are names that `ROLES` has.
        encoding: of files of text, such as `cp1251`; by default UTF-8, a byte order mark, or what is detected.
        delimiter: the character between the cells of a table; by default as in its header line: `,`, `;`, `|` or a tab.
        escapes: whether backslashes in a table are escapes, and quotes around the cells of one with tabs are marks:
            True, False, "quotes" (a backslash before quotes alone) or "copy" (what databases escape, as a line end);
            by default they are text, or that is asked for.
        decimal: the decimal mark of the numbers in a table, `point` or `comma`.

    Raises:
        InputError: the source cannot be read as described, or no rows are left. The message says what is wrong, where
            (the header of a table is row 1) and how to fix it.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "pairs.csv")
        ...     _ = path.write_text('id,question,answer\\n1,Why?,"Well, because."\\n')
        ...     read_texts(str(path), ["answer", 1])[0]
        {'answer': 'Well, because.', 'question': 'Why?'}
    """
    from contrastive_st.data.reading.columns import columns_of
    from contrastive_st.data.reading.examples import read_examples

    with reading_as(header=header, encoding=encoding, delimiter=delimiter, escapes=escapes, decimal=decimal):
        table = open_table(source, split=split, columns=columns)
        check_rows(table)
        if columns is None:
            columns = _columns_of_texts(table)
        chosen = named_columns(columns, table.names, table.source)
        if any(chosen.values()):
            return read_examples(table, [columns] if isinstance(columns, (str, int)) else columns, strict=strict)[0]
        if not chosen:
            raise InputError(f"{table.source}: no column of text; name one or more of {listed(table.names)}")
        return columns_of(table, list(chosen), strict)


def _columns_of_texts(table: Table) -> list[str]:
    """The columns of which each cell is text or blank; those with a text, if there are any."""
    if table.delimited:
        return table.names
    if table.schema is not None:
        return [name for name in table.names if table.is_stored(name)]
    left, texts = dict.fromkeys(table.names), set[str]()
    for _, cells in table:
        for name in [name for name in left if not is_blank(cells.get(name))]:
            if isinstance(simple(cells[name]), str):
                texts.add(name)
            else:
                del left[name]
    return [name for name in left if name in texts] or list(left)


def stream_texts(
    source: object, column: str | int | None = None, name: str | None = None
) -> Callable[[], Iterator[str]]:
    """A function that streams the texts of one column of a source of any size; each call starts from the first row.

    White space around texts is removed. No row is dropped: a blank or null cell is an empty text.

    Args:
        source: as for `read_texts`.
        column: the column, by name or position (from 0); by default the one that `text_column` finds.
        name: name of the source in messages.

    Raises:
        InputError: as for `read_texts`, or it is not clear which column has the text.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "lines.txt")
        ...     _ = path.write_text("one\\n\\n three\\n")
        ...     list(stream_texts(str(path))())
        ['one', '', 'three']
    """
    table = open_table(source, columns=column, name=name)
    chosen = column_of(table, column)
    return lambda: (as_text(cells.get(chosen), chosen, table.where(number)).strip() for number, cells in table)


def read_corpus(source: object, column: str | int | None = None) -> datasets.Dataset:
    """The texts of a corpus, in one column; rows with a blank text are dropped, and a line says how many.

    Args:
        source: as for `read_texts`.
        column: the column, by name or position (from 0); by default the one that `text_column` finds.

    Raises:
        InputError: as for `stream_texts`.
    """
    from contrastive_st.data.reading.columns import columns_of

    table = open_table(source, columns=column)
    return columns_of(table, [column_of(table, column)])


def column_of(table: Table, column: str | int | None) -> str:
    """The column of the texts of a table, which must have rows."""
    check_rows(table)
    return text_column(table, column)


def corpus_texts(source: object, column: str | int | None = None) -> list[str]:
    """The texts of `read_corpus` as a list, read without `datasets`.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "lines.txt")
        ...     _ = path.write_text("one\\n\\n three\\n")
        ...     corpus_texts(str(path))
        ['one', 'three']
    """
    table = open_table(source, columns=column)
    name = column_of(table, column)
    return [row[name] for row in rows_with_text(table, name)]


def rows_with_text(table: Table, name: str) -> list[Record]:
    """The rows that have a text in this column, stripped, with all their cells; a line says how many have none.

    Raises:
        InputError: a cell is not a text, or no row has one.
    """
    result: list[Record] = []
    dropped = Dropped(table, [name])
    for number, cells in table:
        text = as_text(cells.get(name), name, table.where(number)).strip()
        dropped.add(number, cells) if is_blank(text) else result.append({**cells, name: text})
    dropped.report(len(result) + dropped.count)
    return result
