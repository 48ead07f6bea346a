"""Lexemes: what full-text search indexes of a text, and looks up of a query. Both come from the text alone."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

# Vowel signs and accents, which Python's \w leaves out
_MARKS = (
    "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963\u0966-\u0e3a\u0e40-\u0eff"
    "\u0f71-\u0f84\u1000-\u109f\u1780-\u17d3"
)
# A word, or the parts of a code such as AB-1234, --no-cache, /etc/hosts or C++ with what joins them
_TOKEN_OF = r"[-./\\~@#$%+]{{0,3}}{word}+(?:[-./\\:@+#=~&%$',]+{word}+)*[+#]*"
_ASCII, _ANY = (re.compile(_TOKEN_OF.format(word=word)) for word in (r"\w", rf"[\w{_MARKS}]"))
_PART = re.compile(rf"(?:[^\W_]|[{_MARKS}])+")
_COMMA = re.compile(r"(?<!\d),|,(?!\d)")  # one that is not inside a number
_IS_CODE = re.compile(rf"[^\w{_MARKS}']|_")
_PIECE = re.compile(r"[^/\\:=@]+")  # of a path or an address
# Scripts without blanks between words, and Hangul, where particles are written together with the word
_HAN = "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7a3\U00020000-\U0003ffff"
_DENSE = re.compile(rf"[{_HAN}]+|[\u0e00-\u0e7f]+|[\u0e80-\u0eff]+|[\u1000-\u109f]+|[\u1780-\u17ff]+")
_IS_HAN = re.compile(f"[{_HAN}]")
# Hyphens and apostrophes of other keyboards; characters without width
_SAME = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-")
    | dict.fromkeys("\u2018\u2019\u02bc", "'")
    | dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff")
)
_OTHER = re.compile(f"[{''.join(map(chr, _SAME))}]")
_COMPOUNDING = {"danish", "dutch", "estonian", "finnish", "german", "hungarian", "norwegian", "swedish"}
_GRAM = 5  # letters of the parts by which a word in a compound is found
_COMPOUND = 10  # letters of a word that may be a compound
_stemmers = threading.local()  # a stemmer of PyStemmer must not be used by two threads at a time


def tokens_of(text: str) -> list[str]:
    """The words and codes of a text, in lower case and NFKC.

    Example:
        >>> tokens_of("“Pass --no-cache to AB-1234, or don’t.”")
        ['pass', '--no-cache', 'to', 'ab-1234', 'or', "don't"]
    """
    folded = _fold(text)
    return (_ASCII if folded.isascii() else _ANY).findall(folded)


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    if not unicodedata.is_normalized("NFKC", text):
        text = unicodedata.normalize("NFKC", text)
    if _OTHER.search(text):
        text = text.translate(_SAME)
    text = text.casefold()
    return text if unicodedata.is_normalized("NFKC", text) else unicodedata.normalize("NFKC", text)


def lexemes_of(text: str, language: str = "simple", *, query: bool = False) -> list[str]:
    """The lexemes of a text, one for each occurrence.

    A word is stemmed. A code such as `AB-1234`, a path or a flag is a lexeme as written, and so are its parts. Chinese,
    Japanese, Korean, Thai, Lao, Khmer and Burmese are cut into pairs of characters. In languages with compounds, a long
    word also has a lexeme for each five of its letters.

    Args:
        text: a document or a query.
        language: the language of the stemmer, such as `german`; `simple` does not stem.
        query: the text is a query, in which also short words have their five letters, to be found in compounds.

    Returns:
        The lexemes; those of five letters of a word begin with a NUL character.

    Example:
        >>> lexemes_of("Caching, AB-1234", "english"), lexemes_of("東京都")
        (['cach', 'ab', '1234', 'ab-1234'], ['東', '京', '都', '東京', '京都'])
    """
    return [lexeme for token in tokens_of(text) for lexeme in _expand(token, language, query)]


@lru_cache(maxsize=1 << 12)
def query_keys(text: str, language: str) -> tuple[int, ...]:
    """The keys of the distinct lexemes of a query, which are hashes of 63 bits."""
    return tuple(_hashes(list(dict.fromkeys(lexemes_of(text, language, query=True)))).tolist())


def document_keys(
    texts: Iterable[str], language: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The sorted keys of all lexemes of documents; which of them each document has; and how many each has.

    Each distinct token is expanded and stemmed once.
    """
    numbers, codes, sizes = dict[str, int](), list[int](), list[int]()
    for text in texts:
        tokens = tokens_of(text)
        codes += [numbers.setdefault(token, len(numbers)) for token in tokens]
        sizes.append(len(tokens))
    lexemes, counts = list[str](), list[int]()
    for token in numbers:
        of_token = _expand(token, language, False)
        lexemes += of_token
        counts.append(len(of_token))
    many, tokens_in_order = np.array(counts, np.int64), np.array(codes, np.int64)
    keys, number = np.unique(_hashes(lexemes), return_inverse=True)
    ends = np.append(0, np.cumsum(many[tokens_in_order]))[np.append(0, np.cumsum(sizes, dtype=np.int64))]
    return keys, number[ranges((np.cumsum(many) - many)[tokens_in_order], many[tokens_in_order])], np.diff(ends)


def _hashes(lexemes: list[str]) -> NDArray[np.int64]:
    digests = b"".join([blake2b(lexeme.encode(), digest_size=8).digest() for lexeme in lexemes])
    return (np.frombuffer(digests, ">u8") >> 1).astype(np.int64)


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers `start, start + 1, ...` of each range, one range after the other.

    Example:
        >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
        [5, 6, 0, 1, 2]
    """
    shift = starts - (np.cumsum(counts) - counts)
    return np.asarray(np.arange(int(counts.sum())) + np.repeat(shift, counts), np.int64)


def _expand(token: str, language: str, query: bool) -> list[str]:
    if token.isascii() and token.isalpha():
        return _word(token, language, query)
    result: list[str] = []
    for code in _COMMA.split(token):
        parts = _PART.findall(code)
        for part in parts:
            end = 0
            for run in () if part.isascii() else _DENSE.finditer(part):
                result += _word(part[end : run.start()], language, query)
                result += _pairs(run[0], query)
                end = run.end()
            result += _word(part[end:], language, query)
        if _IS_CODE.search(code) and not _DENSE.search(code):
            core = code.lstrip("-./\\~@#$%+")
            result += sorted({code, core, *_PIECE.findall(core)} - set(parts))
    return result


def _word(word: str, language: str, query: bool) -> list[str]:
    if language == "simple" or not word.isalpha():
        return [word] if word else []
    result = [_stemmer(language)(word)]
    if language in _COMPOUNDING and len(word) >= (_GRAM if query else _COMPOUND):
        result += ("\0" + word[start : start + _GRAM] for start in range(len(word) - _GRAM + 1))
    return result


def _pairs(run: str, query: bool) -> Iterator[str]:
    """Pairs of characters; and single Chinese or Japanese characters, which a query has only if it is no longer."""
    if len(run) == 1 or (not query and _IS_HAN.match(run)):
        yield from run
    for start in range(len(run) - 1):
        yield run[start : start + 2]


def _stemmer(language: str) -> Callable[[str], str]:
    """What stems a word."""
    import Stemmer

    if language == "simple":
        return str
    if (stem := getattr(_stemmers, language, None)) is None:
        stem = Stemmer.Stemmer(language).stemWord
        setattr(_stemmers, language, stem)
    return stem  # type: ignore[no-any-return]
