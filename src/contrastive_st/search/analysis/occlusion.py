"""What in a hit makes it similar to the query: the similarity it loses when a part of it is left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from contrastive_st.search.documents import sentences
from contrastive_st.vectors import unit_vectors

MOST_SPANS = 48  # of a hit; each is one more text to encode
READ = 4000  # characters of a hit, more than models read
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Span:
    """A piece of a hit's text.

    Args:
        text: the piece; those of a hit, joined, are its text with its blanks made single.
        effect: cosine to the query of the whole text less that of the text without this piece; 0 beyond what is read.
    """

    text: str
    effect: float = 0.0


def explain(encoder: Any, query: NDArray[np.float32], texts: Sequence[str]) -> list[list[Span]]:
    """The spans of each text with their effect: its sentences, or its words where it has one sentence only.

    Args:
        encoder: its `encode` takes texts to vectors `[n, d]`.
        query: unit vector `[d]`.
        texts: of the hits.

    Example:
        >>> count = lambda texts: np.array([[text.count("a"), 1.0] for text in texts])
        >>> encoder = type("", (), {"encode": lambda self, texts: count(texts)})()
        >>> [(span.text, round(span.effect, 2)) for span in explain(encoder, np.array([1.0, 0.0]), ["a b aa"])[0]]
        [('a ', 0.05), ('b ', 0.0), ('aa', 0.24)]
    """
    cut = [pieces(text) for text in texts]
    variants = [variant for own, _ in cut for variant in ("".join(own), *_without_each(own))]
    cosines = unit_vectors(encoder.encode(variants)) @ query if variants else np.empty(0)
    found, start = [], 0
    for own, rest in cut:
        whole, others = cosines[start], cosines[start + 1 : start + 1 + len(own)]
        start += 1 + len(own)
        spans = [Span(text, float(whole - other)) for text, other in zip(own, others, strict=True)]
        found.append(spans + [Span(rest)] * bool(rest))
    return found


def pieces(text: str) -> tuple[list[str], str]:
    """At most 48 pieces of the first 4,000 characters, and the rest.

    Example:
        >>> pieces("One sentence."), pieces("One.  Two.")
        ((['One ', 'sentence.'], ''), (['One. ', 'Two.'], ''))
    """
    text = " ".join(text.split())
    head, rest = (text, "") if len(text) <= READ else (text[:READ], text[READ:])
    units = sentences(head)
    if len(units) < 2:
        units = head.split(" ")
    size = -(-len(units) // MOST_SPANS)
    own = [" ".join(units[start : start + size]) for start in range(0, len(units), size)]
    return [piece + " " for piece in own[:-1]] + own[-1:], rest


def shared_words(query: str, text: str) -> set[str]:
    """Words of the text, in small letters, that are in the query too; stop words are not counted.

    Example:
        >>> sorted(shared_words("The tides of the sea", "Tides rise: the sea is up"))
        ['sea', 'tides']
    """
    words: set[str] = {word.casefold() for word in WORD.findall(query)} - ENGLISH_STOP_WORDS
    return words & {word.casefold() for word in WORD.findall(text)}


def _without_each(own: list[str]) -> list[str]:
    return ["".join(own[:i] + own[i + 1 :]) for i in range(len(own))]
