"""The works that losses and architectures are from: entries of `references.bib`."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources


def cited(*keys: str) -> str:
    """The BibTeX entries with these keys, with an empty line between two.

    Example:
        >>> cited("park2019relational").splitlines()[1]
        '  title = {Relational Knowledge Distillation},'
    """
    return "\n\n".join(_entries()[key] for key in keys)


@cache
def _entries() -> dict[str, str]:
    text = (resources.files(__package__) / "references.bib").read_text(encoding="utf-8")
    return {re.split("[{,]", entry, maxsplit=2)[1]: entry for entry in text.strip().split("\n\n")}
