"""Which parts of a text carry a score: how much the score drops when a part is left out and the rest is encoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def effects(
    encode: Callable[[list[str]], Any], texts: Sequence[Sequence[str]], score: Callable[[Any], NDArray[Any]]
) -> list[NDArray[np.float64]]:
    """The effect of each part of each text: the score of the whole text less that of the text without the part.

    Args:
        encode: texts to vectors `[m, d]`.
        texts: the parts of each text, which joined are the text.
        score: vectors `[m, d]` to scores `[m]` or `[m, K]`.

    Returns:
        For each text an array `[parts]`, or `[parts, K]`.

    Example:
        >>> count = lambda texts: np.array([text.count("a") for text in texts])
        >>> [own.tolist() for own in effects(count, [["a b ", "aa"], ["b"]], lambda counts: counts)]
        [[1, 2], [0]]
    """
    variants = [variant for parts in texts for variant in ("".join(parts), *_without_each(list(parts)))]
    scores = np.asarray(score(encode(variants))) if variants else np.empty(0)
    result, start = [], 0
    for parts in texts:
        result.append(scores[start] - scores[start + 1 : start + 1 + len(parts)])
        start += 1 + len(parts)
    return result


def _without_each(parts: list[str]) -> list[str]:
    return ["".join(parts[:i] + parts[i + 1 :]) for i in range(len(parts))]
