"""Names and kinds that a store knows, without a database."""

from __future__ import annotations

import re

from contrastive_st.errors import InputError

NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_RESERVED = re.compile(
    r"collections|sources|shards|migrations"
    r"|.+_(texts|vectors|codes|hnsw|binary|metadata|words|pkey|idx|fkey|seq)|.+_(vectors|codes|hnsw|binary)_s?\d+.*"
)
STORAGES = {"halfvec": 4000, "vector": 2000}  # with the most dimensions that pgvector can index
FLOAT_BYTES = {"halfvec": 2, "vector": 4}
INDEXES = ("none", "hnsw", "binary")
SIGNS = 4  # bits for each dimension in a binary graph
BINARY_LIMIT = 64_000 // SIGNS  # dimensions: pgvector indexes 64,000 bits


def check_name(name: str, new: bool = False) -> str:
    """Check the name of a collection and return it.

    Args:
        name: the name.
        new: it becomes the name of a collection, and so must not be one that a table or an index of another collection
            has or may get.

    Returns:
        The same name.

    Raises:
        InputError: it is not valid.

    Example:
        >>> check_name("docs; DROP TABLE x")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: 'docs; DROP TABLE x' is not a valid name of a collection; ...
    """
    if not NAME.fullmatch(name) or (new and _RESERVED.fullmatch(name)):
        rule = "a-z, 0-9 and _, at most 32 characters, and no name or ending of the store's tables, such as _texts"
        raise InputError(f"{name!r} is not a valid name of a collection; use {rule}")
    return name
