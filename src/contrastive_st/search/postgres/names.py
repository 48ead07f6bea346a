"""Names and kinds that a store knows, without a database."""

from __future__ import annotations

import re

from contrastive_st.errors import InputError

NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_KEPT = re.compile(
    r"collections|sources|shards|migrations"
    r"|.+_(texts|vectors|codes|hnsw|binary|metadata|words|pkey|idx|fkey)|.+_(vectors|codes|hnsw|binary)_s?\d+.*"
)
STORAGES = {"halfvec": 4000, "vector": 2000}  # with the most dimensions that pgvector can index
FLOAT_BYTES = {"halfvec": 2, "vector": 4}
UNKNOWN_LANGUAGE = "simple"  # of full text: words as they are
INDEXES = ("none", "hnsw", "binary")
SIGNS = 4  # bits for each dimension in a binary graph
BINARY_LIMIT = 64_000 // SIGNS  # dimensions: pgvector indexes 64,000 bits


def check_name(name: str) -> str:
    """Return the name of a collection, or raise `InputError` if it is not valid.

    Example:
        >>> check_name("docs; DROP TABLE x")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: 'docs; DROP TABLE x' is not a valid name of a collection; ...
    """
    if not NAME.fullmatch(name):
        raise InputError(f"{name!r} is not a valid name of a collection; use a-z, 0-9 and _, at most 32 characters")
    return name


def check_free(name: str) -> None:
    """Refuse a new collection whose name a table or an index of another collection has or may get.

    Example:
        >>> check_free("talks_texts")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: 'talks_texts' is reserved for the store's own tables and indices; ...
    """
    if _KEPT.fullmatch(name):
        raise InputError(f"{name!r} is reserved for the store's own tables and indices; choose another --collection")
