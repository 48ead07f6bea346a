"""Texts split into lines, sentences or passages, and whether a text file is a list of sentences."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from contrastive_st.errors import choice

WHOLE, FILES, LINES, SENTENCES, PASSAGES = PARTS = ("whole", "files", "lines", "sentences", "passages")
#: About 130 tokens: the usual length in the training of sentence encoders, and well below their limit
PASSAGE_WORDS = 100
_MARKS, _CJK, _CLOSING = ".!?؟۔।॥።။។", "。！？｡", "\"'”’»)\\]」』）》】〉"
# Marks before a blank and a word, which must not begin with a small letter; CJK marks, even without one; blank lines
_END = re.compile(
    rf"(?<![{_MARKS}])[{_MARKS}]+[{_CLOSING}]*\s+(?=[\"'“‘«¿¡(\[]*([^\W_]))"
    rf"|(?<![{_CJK}])[{_CJK}]+[{_CLOSING}]*\s*(?=[^\s{_CJK}{_CLOSING}，、；：])|\n\s*\n"
)
_ABBREVIATION = re.compile(r"(?:\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Gen|Col|Lt|vs|cf|No|Fig|[ei]\.[ge]|al))\.$")
_ENDED = re.compile(rf"[{_MARKS}…{_CJK}][{_CLOSING}]*$")
# A word with the blanks before it, or a character of a script without blanks: Thai, Lao, Burmese, Khmer, Chinese, kana
_DENSE = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"\s*(?:[{_DENSE}]|[^\s{_DENSE}]+)")
_JOINED = re.compile(rf"[{_DENSE}{_CJK}][{_CLOSING}]*$")


def sentences(text: str) -> list[str]:
    """The sentences of a text, by its punctuation; initials and common abbreviations do not end a sentence.

    Example:
        >>> sentences("Gen. Meade won. Lee, however, lost! 1863 was over.")
        ['Gen. Meade won.', 'Lee, however, lost!', '1863 was over.']
        >>> sentences("他说：「你好！」然后走了。")
        ['他说：「你好！」', '然后走了。']
    """
    parts: list[str] = []
    small = lambda letter: letter is not None and letter != letter.title()
    ends = [match.end() for match in _END.finditer(text) if not small(match[1])]
    for start, end in itertools.pairwise([0, *ends, len(text)]):
        piece = " ".join(text[start:end].split())
        if not piece:
            continue
        if parts and _ABBREVIATION.search(parts[-1]):
            parts[-1] += " " + piece
        else:
            parts.append(piece)
    return parts


def split(text: str, into: str, words: int = PASSAGE_WORDS) -> list[str]:
    """Split a text into lines, into sentences, or into passages of whole sentences with at most about `words` words.

    A longer sentence is split between words. In scripts without blanks, such as Chinese or Thai, a character counts as
    a word. `whole` and `files` leave the text as it is.

    Example:
        >>> split("One two. Three four. Five.", "passages", words=4)
        ['One two. Three four.', 'Five.']
    """
    if choice("part", into, PARTS) in (WHOLE, FILES):
        return [text]
    if into == LINES:
        return [line.strip() for line in text.splitlines() if line.strip()]
    if into == SENTENCES:
        return sentences(text)
    passages, count = list[str](), 0
    for sentence in sentences(text):
        in_words = _WORD.findall(sentence)
        for start in range(0, len(in_words), words):
            chunk = in_words[start : start + words]
            if passages and count + len(chunk) <= words:
                blank = "" if _JOINED.search(passages[-1]) else " "
                passages[-1] += blank + "".join(chunk)
                count += len(chunk)
            else:
                passages.append("".join(chunk).strip())
                count = len(chunk)
    return passages


def is_list(lines: Sequence[str]) -> bool:
    """Whether the first lines of a text file are a list of sentences (or queries, titles), not a document.

    In a list, lines are sentences with punctuation; or else there are no blank lines between them, few hold several
    sentences, and few end where the next word did not fit.

    Example:
        >>> is_list(["a cat sat", "a dog ran"]), is_list(["On tides", "", "The moon pulls. It is far away."])
        (True, False)
        >>> is_list(["The moon pulls the sea towards it and", "so it rises, and falls again in less", "than a day."])
        False
    """
    texts = [line.strip() for line in lines]
    while texts and not texts[-1]:
        texts.pop()
    full = [text for text in texts if text]
    several = sum(len(sentences(text)) > 1 for text in full)
    if sum(bool(_ENDED.search(text)) for text in full) - several >= 0.8 * len(full):
        return True
    width = max(map(len, full), default=0)
    wraps = sum(
        len(line) + 1 + len(after.split()[0]) > width and not _ENDED.search(line)
        for line, after in itertools.pairwise(texts)
        if line and after and len(line) >= 30
    )
    wraps -= 1  # the widest line is one of them
    return len(full) == len(texts) and several <= 0.2 * len(full) and wraps <= 0.3 * len(full)
