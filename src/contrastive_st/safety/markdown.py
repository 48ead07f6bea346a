"""Texts of others inside Markdown: names, notes and command lines that are shown, and neither markup nor code."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"[\\`*\[\]|~]")
_TAGS = str.maketrans({"<": "&lt;", ">": "&gt;", "&": "&amp;"})


def as_text(text: object) -> str:
    """One line of Markdown that shows `text`, whatever it holds; it fits into the cell of a table.

    Example:
        >>> as_text("<b>bold</b> | [link](x)")
        '&lt;b&gt;bold&lt;/b&gt; \\\\| \\\\[link\\\\](x)'
    """
    return _SPECIAL.sub(r"\\\g<0>", " ".join(_printable(text).split()).translate(_TAGS))


def as_code(text: object) -> str:
    """`text` as code in a line, in the cell of a table too; nothing for an empty one.

    Example:
        >>> as_code("a|b `c`"), as_code("")
        ("`a\\\\|b 'c'`", '')
    """
    line = " ".join(_printable(text).split()).replace("|", "\\|").replace("`", "'")
    return f"`{line}`" if line else ""


def as_block(text: object, language: str = "") -> str:
    """`text` as a block of code; a fence in the text does not end it.

    Example:
        >>> print(as_block("a ``` b", "text"))
        ````text
        a ``` b
        ````
    """
    lines = _printable(text).rstrip("\n")
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", lines + "``")))
    return f"{fence}{language}\n{lines}\n{fence}"


def _printable(text: object) -> str:
    return "".join(c if c in "\n\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
