"""Documents cut into sentences or passages."""

from __future__ import annotations

import re

from contrastive_st.errors import InputError

WHOLE, SENTENCES, PASSAGES = "whole", "sentences", "passages"
PARTS = (WHOLE, SENTENCES, PASSAGES)
PASSAGE_WORDS = 100  # about 130 tokens: what sentence encoders were trained on, and well below what they cut
_END = re.compile(
    r"(?<=[.!?。！？])[\"'”’)\]]*\s+(?=[\"'“‘(\[]*[^\Wa-z_])|(?<=[。！？])(?=\S)|\n\s*\n"
)  # a mark and a capital or digit, CJK full stops, and blank lines
_ABBREVIATION = re.compile(r"(?:\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Gen|Col|Lt|vs|cf|No|Fig|[ei]\.[ge]|al))\.$")


def sentences(text: str) -> list[str]:
    """The sentences of a text, by its marks; initials and common abbreviations end none.

    Example:
        >>> sentences("Gen. Meade won. Lee, however, lost! 1863 was over.")
        ['Gen. Meade won.', 'Lee, however, lost!', '1863 was over.']
    """
    parts: list[str] = []
    for piece in _END.split(text):
        piece = " ".join(piece.split())
        if not piece:
            continue
        if parts and _ABBREVIATION.search(parts[-1]):
            parts[-1] += " " + piece
        else:
            parts.append(piece)
    return parts


def split(text: str, into: str, words: int = PASSAGE_WORDS) -> list[str]:
    """A text as a whole, by sentences, or by passages of whole sentences with at most about `words` words.

    A sentence longer than that is cut between words.

    Example:
        >>> split("One two. Three four. Five.", "passages", words=4)
        ['One two. Three four.', 'Five.']
    """
    if into not in PARTS:
        raise InputError(f"texts cannot be split into {into!r}; choose one of {', '.join(PARTS)}")
    if into == WHOLE:
        return [text]
    if into == SENTENCES:
        return sentences(text)
    passages: list[list[str]] = []
    for sentence in sentences(text):
        own = sentence.split()
        for start in range(0, len(own), words):
            chunk = own[start : start + words]
            if passages and len(passages[-1]) + len(chunk) <= words:
                passages[-1] += chunk
            else:
                passages.append(list(chunk))
    return [" ".join(passage) for passage in passages]
