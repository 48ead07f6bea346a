"""`Encoder`, the interface of everything that turns texts into vectors; `open_encoder` and `as_encoder` make one."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError, choice
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.options import Count, checked
from contrastive_st.static_vectors import StaticVectors
from contrastive_st.vectors import float_array

logger = logging.getLogger(__name__)


class Encoder(Protocol):
    """What evaluation, mining and the search page use of `SentenceEncoder` and `FunctionEncoder`."""

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

    def encode(self, texts: list[str]) -> np.ndarray:
        """`[N] texts -> [N, d]`, in their order; for options use `with_options`."""

    def knows(self, texts: list[str]) -> NDArray[np.bool_]:
        """Which texts have a token that it knows, bool `[N]`."""

    def encode_query(self, texts: list[str]) -> np.ndarray:
        """As `encode`, for queries: with the prompt for queries if the encoder has one."""

    def encode_document(self, texts: list[str]) -> np.ndarray:
        """As `encode`, for documents."""


@dataclass
class FunctionEncoder:
    """A function from N texts to N vectors, as an encoder: its methods return an array `[N, d]` of floats.

    The function may return an array, a tensor or a list. The methods have the options `prompt`, `prompt_name`,
    `truncate_dim`, `batch_size` and `show_progress_bar`. The function gets those that it names; of the others, the
    prompt is put before each text and the vectors are cut here.

    Args:
        name: its name in reports.
        encode: the function.
        pooling: its pooling in reports.
        max_length: maximum number of tokens of a text; None if unknown.
        fingerprint: a hash of everything that determines the vectors; None if they must not be cached on disk.
        query, document: functions for queries and documents, if they are others.
        similarity_fn_name: how two vectors are compared.
        prompts: prompts by name.

    Raises:
        InputError: in a call: the function does not return one vector for each text, or no prompt has the name.

    Example:
        >>> encoder = FunctionEncoder("lengths", lambda texts: [[len(text), 1] for text in texts])
        >>> encoder.encode(["ab"], prompt="to: ", truncate_dim=1)
        array([[6.]], dtype=float32)
    """

    name: str
    encode: Callable[..., np.ndarray]
    pooling: str = "the callable's own"
    max_length: int | None = None
    fingerprint: str | None = None
    query: Callable[..., np.ndarray] | None = None
    document: Callable[..., np.ndarray] | None = None
    similarity_fn_name: str = "cosine"
    prompts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Give the functions their options."""
        self.encode = partial(self._vectors, self.encode)
        self.query, self.document = (one and partial(self._vectors, one) for one in (self.query, self.document))

    def knows(self, texts: list[str]) -> NDArray[np.bool_]:
        """All of them, since it is not known what a function reads."""
        return np.ones(len(texts), dtype=bool)

    def encode_query(self, texts: list[str], **options: object) -> np.ndarray:
        """`query`, or else `encode`."""
        return (self.query or self.encode)(texts, **options)

    def encode_document(self, texts: list[str], **options: object) -> np.ndarray:
        """`document`, or else `encode`."""
        return (self.document or self.encode)(texts, **options)

    def _vectors(
        self,
        function: Callable[..., object],
        texts: list[str],
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        truncate_dim: int | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
    ) -> NDArray[np.floating]:
        options = {
            "prompt": prompt, "prompt_name": prompt_name, "truncate_dim": truncate_dim, "batch_size": batch_size,
            "show_progress_bar": show_progress_bar,
        }  # fmt: skip
        named = _named(function)
        if truncate_dim is not None:
            checked("truncate_dim", truncate_dim, Count)
        if prompt is None and prompt_name is not None and "prompt_name" not in named:
            options["prompt"] = self.prompts[choice("prompt", prompt_name, self.prompts, self.name)]
        if options["prompt"] is not None and "prompt" not in named:
            texts = [f"{options['prompt']}{text}" for text in texts]
        handed = {name: value for name, value in options.items() if name in named and value is not None}
        vectors = float_array(function(texts, **handed))
        if not len(texts) and vectors.ndim != 2:  # of a loop over no texts
            vectors = np.empty((0, 0), np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise InputError(
                f"{self.name} returns an array of shape {vectors.shape} for {len(texts)} texts; "
                f"it must return one vector for each text, [{len(texts)}, d]"
            )
        return vectors[:, :truncate_dim]


def _named(function: Callable[..., object]) -> set[str]:
    """The options that a function names; one that takes any (**kwargs) may ignore them."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # of some functions in C
        return set()
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    return {one.name for one in parameters[1:] if one.kind in kinds}


def warn_of_unknown(encoder: Encoder, texts: list[str]) -> None:
    """Log a warning for texts of which the model knows no token: their vectors, zeros or all alike, say nothing."""
    silent = [text for text, known in zip(texts, encoder.knows(texts), strict=True) if not known]
    if silent:
        logger.warning(
            "%s knows no token of %d of %d texts, such as %r: their vectors have no meaning; leave them out, or use a "
            "model for their language", encoder.name, len(silent), len(texts), silent[0][:60],
        )  # fmt: skip


open_encoder = SentenceEncoder


def fast_if_named(model: object, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `open_encoder`, with precision `auto` for a folder or name; what is open runs as it was opened."""
    return {**({"precision": "auto"} if isinstance(model, str | Path | None) else {}), **options}


def as_encoder(source: Any, *, name: str | None = None, **options: Any) -> Encoder:
    """Make an encoder of any model; encoders are returned as they are.

    Args:
        source: a function from texts to vectors, an object with a method `encode` that is one, such as a `StaticModel`
            of model2vec, or what `open_encoder` opens, such as a folder or a `SentenceTransformer`.
        name: its name in reports.
        options: options of `open_encoder`; a function has none but `device`, which it need not obey.

    Returns:
        The encoder.

    Raises:
        InputError: as for `SentenceEncoder`, or options for a function.

    Example:
        >>> import numpy as np
        >>> as_encoder(lambda texts: np.array([[len(text), 1.0] for text in texts]), name="lengths").encode(["ab"])
        array([[2., 1.]])
    """
    opened = (str, Path, StaticVectors, SentenceEncoder)
    if source is None or isinstance(source, opened):
        return SentenceEncoder(source, name=name, **options)
    if hasattr(source, "forward"):
        from contrastive_st.models.wrapped import is_sentence_transformer, recorded_modules

        if not (is_sentence_transformer(source) and recorded_modules(source).needs_sentence_transformers):
            return SentenceEncoder(source, name=name, **options)
    if given := [key for key, value in options.items() if key != "device" and value not in (None, "fp32")]:
        raise InputError(f"a model that is a function has no option {given[0]}; leave it out")
    if isinstance(source, FunctionEncoder):
        return source
    if not hasattr(source, "encode"):
        return FunctionEncoder(name or str(getattr(source, "__name__", "callable")), source)
    query, document = (getattr(source, f"encode_{role}", None) for role in ("query", "document"))
    return FunctionEncoder(
        name or type(source).__name__, source.encode, "the model's own", query=query, document=document,
        similarity_fn_name=str(getattr(source, "similarity_fn_name", None) or "cosine"),
        prompts=getattr(source, "prompts", None) or {},
    )  # fmt: skip


def with_options(
    encoder: Encoder,
    *,
    query: dict[str, object] | None = None,
    document: dict[str, object] | None = None,
    **options: object,
) -> Encoder:
    """An encoder that is called with some options; those that are None are left out.

    Args:
        encoder: the encoder.
        query: options for queries alone: `prompt`, `prompt_name`.
        document: the same for documents.
        options: those of `FunctionEncoder`.

    Returns:
        An encoder; the same one if there is nothing to change.

    Example:
        >>> with_options(open_encoder(), truncate_dim=8, batch_size=2).encode(["a cat", "a dog"]).shape
        (2, 8)
    """
    shared, asked, held = (
        {name: value for name, value in (one or {}).items() if value is not None} for one in (options, query, document)
    )
    if not (shared or asked or held):
        return encoder
    source: Any = encoder
    return FunctionEncoder(
        encoder.name, partial(source.encode, **shared), encoder.pooling, encoder.max_length, None,
        partial(source.encode_query, **shared, **asked), partial(source.encode_document, **shared, **held),
        getattr(encoder, "similarity_fn_name", "cosine"),
    )  # fmt: skip
