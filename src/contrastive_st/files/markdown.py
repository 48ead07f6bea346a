"""Names, notes and command lines in Markdown, escaped so that they are not read as markup."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"[\\`*\[\]|~]")
_TAGS = str.maketrans({"<": "&lt;", ">": "&gt;", "&": "&amp;"})


def as_text(text: object) -> str:
    """`text` escaped as one line of Markdown, also for the cell of a table.

    Example:
        >>> as_text("<b>bold</b> | [link](x)")
        '&lt;b&gt;bold&lt;/b&gt; \\\\| \\\\[link\\\\](x)'
    """
    return _SPECIAL.sub(r"\\\g<0>", " ".join(_printable(text).split()).translate(_TAGS))


def as_code(text: object) -> str:
    """`text` as inline code, also for the cell of a table; an empty string for an empty text.

    Example:
        >>> as_code("a|b `c`"), as_code("")
        ("`a\\\\|b 'c'`", '')
    """
    line = " ".join(_printable(text).split()).replace("|", "\\|").replace("`", "'")
    return f"`{line}`" if line else ""


def as_block(text: object, language: str = "") -> str:
    """`text` as a fenced code block; the fence is longer than any in the text.

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
