"""The names of precisions: of a model's weights and activations, and of the vectors that are stored."""

from __future__ import annotations

from collections.abc import Sequence

from contrastive_st.errors import InputError

#: Of a model: `auto` is bf16 where the hardware is faster with it
MODEL_PRECISIONS = ("auto", "bf16", "fp32", "int8")
#: Of stored vectors: 32, 8 or 1 bits for each dimension
VECTOR_PRECISIONS = ("float32", "int8", "ubinary")


def check_precision(precision: str, known: Sequence[str] = VECTOR_PRECISIONS) -> str:
    """The precision, if it is known.

    Raises:
        InputError: it is not.

    Example:
        >>> check_precision("int8")
        'int8'
    """
    if precision not in known:
        raise InputError(f"unknown precision {precision!r}; choose one of {', '.join(known)}")
    return precision
