"""Import public names when they are first used, so that importing the package is fast."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy(package: str, homes: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package (PEP 562).

    Args:
        package: the `__name__` of the package.
        homes: for each of its sub-modules, the public names defined there.

    Example:
        >>> get, names = lazy("contrastive_st", {"errors": ["InputError"]})
        >>> names(), get("InputError").__name__
        (['InputError'], 'InputError')
    """
    home = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home[name]}"), name)

    return get, lambda: sorted(home)
