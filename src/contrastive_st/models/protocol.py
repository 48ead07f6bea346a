"""`Encoder`, the interface of everything that turns texts into vectors, and `as_encoder`, which makes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from contrastive_st.models.default import open_encoder


class Encoder(Protocol):
    """What evaluation, mining and the search page use of `SentenceEncoder`, `StaticVectors` and `FunctionEncoder`."""

    name: str

    @property
    def pooling(self) -> str:
        """How tokens become a vector."""

    @property
    def max_length(self) -> int | None:
        """Tokens read of a text, where it is known."""

    @property
    def fingerprint(self) -> str | None:
        """A hash of everything that determines a vector; None if embeddings must not be cached on disk."""

    def encode(self, texts: list[str]) -> Any:
        """`[N] texts -> [N, d]`, in their order."""

    def encode_query(self, texts: list[str]) -> Any:
        """As `encode`, for queries: with the prompt for queries if the encoder has one."""

    def encode_document(self, texts: list[str]) -> Any:
        """As `encode`, for documents."""


@dataclass
class FunctionEncoder:
    """A function from N texts to an array `[N, d]`, as an encoder.

    Args:
        name: its name in reports.
        encode: the function.
        pooling: its pooling in reports.
        max_length: longest text in tokens; None if unknown.
        fingerprint: a hash of everything that determines the vectors; None if they must not be cached on disk.
    """

    name: str
    encode: Callable[[list[str]], Any]
    pooling: str = "the callable's own"
    max_length: int | None = None
    fingerprint: str | None = None

    def encode_query(self, texts: list[str]) -> Any:
        """`encode`."""
        return self.encode(texts)

    def encode_document(self, texts: list[str]) -> Any:
        """`encode`."""
        return self.encode(texts)


def as_encoder(source: Any, *, name: str | None = None, **options: Any) -> Encoder:
    """Make an encoder of a function or of a model that `open_encoder` opens; encoders are returned as they are.

    Example:
        >>> import numpy as np
        >>> as_encoder(lambda texts: np.array([[len(text), 1.0] for text in texts]), name="lengths").encode(["ab"])
        array([[2., 1.]])
    """
    if isinstance(source, FunctionEncoder):
        return source
    if callable(source) and not hasattr(source, "encode"):
        return FunctionEncoder(name or str(getattr(source, "__name__", "callable")), source)
    return open_encoder(source, name=name, **options)
