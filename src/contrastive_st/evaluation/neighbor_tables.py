"""The nearest neighbours of several models side by side, for a terminal and as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from contrastive_st.evaluation.neighbors import Neighbor

Found = Mapping[str, Sequence[Sequence[Neighbor]]]  # by model: for each query its neighbours, nearest first


def as_text(queries: Sequence[str], found: Found, width: int = 120) -> str:
    """A column a model, in lines of at most `width` characters.

    Example:
        >>> print(as_text(["a cat"], {"A": [[(0.9, "the cat")]], "B": [[(0.5, "a dog")]]}, 41))
        a cat
          A                    B
          0.900 the cat        0.500 a dog
    """
    column = max((width - 2) // len(found) - 2, 20)
    lines: list[str] = []
    for number, query in enumerate(queries):
        lines += ["", *textwrap.wrap(query, width)] if lines else textwrap.wrap(query, width)
        lines.append(_row(list(found), column))
        for ranked in zip_longest(*(rows[number] for rows in found.values())):
            cells = [_wrapped(neighbor, column) for neighbor in ranked]
            lines += [_row(parts, column) for parts in zip_longest(*cells, fillvalue="")]
    return "\n".join(lines)


def as_markdown(queries: Sequence[str], found: Found, caption: str) -> str:
    """A table a query, under a caption.

    Example:
        >>> print(as_markdown(["a|b"], {"A": [[(0.9, "the cat")]]}, "Nearest."))
        Nearest.
        <BLANKLINE>
        **a\\|b**
        <BLANKLINE>
        | cosine | A |
        |--:|---|
        | 0.900 | the cat |
        <BLANKLINE>
    """
    parts = [caption, ""]
    for number, query in enumerate(queries):
        parts += [f"**{_cell(query)}**", ""]
        parts += ["| " + " | ".join(f"cosine | {_cell(name)}" for name in found) + " |"]
        parts += ["|" + "--:|---|" * len(found)]
        for ranked in zip_longest(*(rows[number] for rows in found.values())):
            cells = [f"{neighbor[0]:.3f} | {_cell(neighbor[1])}" if neighbor else " | " for neighbor in ranked]
            parts.append("| " + " | ".join(cells) + " |")
        parts.append("")
    return "\n".join(parts)


def _wrapped(neighbor: Neighbor | None, column: int) -> list[str]:
    if neighbor is None:
        return [""]
    score = f"{neighbor[0]:.3f} "
    return textwrap.wrap(score + neighbor[1], column, subsequent_indent=" " * len(score))


def _row(cells: Sequence[str], column: int) -> str:
    return "  " + "  ".join(f"{cell:{column}.{column}}" for cell in cells).rstrip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
