"""What a user says of files of text that they do not say themselves: `--encoding`, `--delimiter`, `--header`, ..."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from contrastive_st.errors import InputError, choice


@dataclass(frozen=True)
class TextFormat:
    """How files of text are read; None for what the file says itself.

    Args:
        encoding: such as `cp1251`.
        delimiter: the character between the cells of a table.
        header: whether the first row of a table holds the names of its columns.
        escapes: whether backslashes in a table are escapes, and quotes around the cells of one with tabs are marks:
            all of them, none, only backslashes before `quotes`, or what databases escape (`copy`), such as a line end.
        decimal: whether the decimal mark of its numbers is a `point` or a `comma`.
    """

    encoding: str | None = None
    delimiter: str | None = None
    header: bool | None = None
    escapes: bool | str | None = None
    decimal: str | None = None


#: The flags of every command that reads texts, and what they say
TEXT_FORMAT_HELP = {
    "encoding": "encoding of files of text, such as cp1251 (default: UTF-8, a byte order mark, or what is detected)",
    "delimiter": "character between the cells of a table (default: as in its header line: , ; | or a tab)",
    "header": "whether the first row of a table holds the names of its columns: true or false (default: true if its "
    "cells are known names)",
    "escapes": "whether backslashes in a table are escapes, and with tabs quotes are marks around cells: true, false, "
    "quotes (a backslash before quotes alone) or copy (\\n is a line end; as databases write) (default: a question)",
    "decimal": "decimal mark of the numbers in a table: point or comma (default: point)",
}
#: How this process reads files of text
asked = TextFormat()


def set_text_format(chosen: TextFormat) -> None:
    """Set how this process reads files of text."""
    global asked
    asked = chosen


@contextmanager
def reading_as(**changes: Any) -> Iterator[None]:
    """Read files of text with these fields of `TextFormat` inside of the `with` statement; None leaves what is set."""
    former = asked
    set_text_format(replace(asked, **{name: value for name, value in changes.items() if value is not None}))
    try:
        yield
    finally:
        set_text_format(former)


def add_text_format(name: str, value: str) -> None:
    r"""Set one of the fields from what a command line gives; `\t` is a tab.

    Raises:
        InputError: the value is not one of this field.

    Example:
        >>> from contrastive_st import text_format
        >>> add_text_format("header", "false")
        >>> text_format.asked.header
        False
        >>> set_text_format(TextFormat())
    """
    parsed: Any = value
    if name == "delimiter":
        parsed = value.encode().decode("unicode_escape") if value.startswith("\\") else value
        if len(parsed) != 1:
            raise InputError(f"--delimiter {value}: give one character, such as ';'")
    if name == "decimal":
        parsed = choice("value of --decimal", value.lower(), ("point", "comma"))
    if name in ("header", "escapes"):
        others = ("quotes", "copy") if name == "escapes" else ()
        parsed = choice(f"value of --{name}", value.lower(), ("true", "false", *others))
        parsed = parsed if parsed in others else parsed == "true"
    set_text_format(replace(asked, **{name: parsed}))
