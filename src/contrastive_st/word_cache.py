"""Tokenize texts word by word, and every different word once: most words of a text were met before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from contrastive_st.forks import Lock

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Ids = NDArray[np.int32]
Lengths = NDArray[np.int64]
_MOST_WORDS, _MOST_CHARACTERS = 1 << 17, 1 << 23  # of a cache; a fuller one starts again
_TOGETHER = 256  # words that are tokenized as one text
_LOCK = Lock()  # threads share an encoder, and with it the cache
#: Parts of a tokenizer for which the tokens of "a b" are those of "a" and those of "b", whatever a and b are
_SPLIT_AT_SPACES = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
_SPLIT_FURTHER = {"Digits", "Punctuation"}
_OF_CHARACTERS = {"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents"}
_OF_WORDS = {"BPE", "WordLevel", "WordPiece"}
#: A word in text of any script, tried in this order. Contractions are split as in the Penn treebank, in the corpus of
#: GloVe and in the files of SentEval: "don't" and "do n't" are the same two words. Nothing of it matches a space.
WORD = "|".join(
    [
        r"(?:[^\W\d_]\.){2,}",  # u.s.
        r"\d+(?:[.,]\d+)+",  # 10,000 or 3.14
        r"\w+?(?=n't\b)",  # do|n't
        r"n't\b",
        r"'(?:s|re|ve|ll|d|m)\b",  # it|'s
        r"\w+",
        r"([^\w\s])\1*",  # a mark, or a run of the same: ... and --
    ]
)
WORD_SPLIT: dict[str, Any] = {"pattern": {"Regex": f"(?i){WORD}"}, "behavior": "Removed", "invert": True}


def flat(rows: Sequence[Sequence[int]]) -> tuple[Ids, Lengths]:
    """The ids of all rows, one after the other, `[T]`, and the number of ids of each row, `[len(rows)]`."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths


class _Numbers(dict[str, int]):
    """Word -> number; a new word gets the next one."""

    new: list[str]

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        self.new.append(word)
        return number


class WordCache:
    """The token ids of texts, by those of their words: what stands between two spaces, with its case and punctuation.

    A look-up takes a fiftieth of the time of the tokenizer, and gives the same ids if `reads_word_by_word`.

    Args:
        tokenizer: a `tokenizers.Tokenizer`; its special tokens are not added.

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> words = Tokenizer(models.WordLevel({"a": 0, "cat": 1, ".": 2, "?": 3}, unk_token="?"))
        >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> ids, lengths = WordCache(words).ids(["a cat.", "", "a dog"])
        >>> ids.tolist(), lengths.tolist()
        ([0, 1, 2, 0, 3], [3, 0, 2])
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self._is_changing = tokenizer, False
        self._forget()

    def _forget(self) -> None:
        self._numbers, self._characters = _Numbers(), 0
        self._numbers.new = []
        self._starts, self._lengths = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._ids = np.zeros(0, np.int32)

    def ids(self, texts: Sequence[str]) -> tuple[Ids, Lengths]:
        """The ids of all texts, one after the other, `[T]`, and the number of tokens of each text, `[len(texts)]`."""
        words = [text.split(" ") for text in texts]
        ends = np.cumsum(np.fromiter(map(len, words), np.int64, len(words)))
        flat = list(chain.from_iterable(words))
        with _LOCK.held():
            is_full = len(self._numbers) > _MOST_WORDS or self._characters > _MOST_CHARACTERS
            was_changing, self._is_changing = self._is_changing, True  # by a call that failed or stayed in the parent
            if was_changing or is_full:
                self._forget()
            numbers = np.fromiter(map(self._numbers.__getitem__, flat), np.int64, len(flat))
            if self._numbers.new:
                self._learn()
            starts, lengths, ids = self._starts[numbers], self._lengths[numbers], self._ids
            self._is_changing = False
        ends_of_words = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(starts - ends_of_words[:-1], lengths) + np.arange(ends_of_words[-1])
        return ids[places], np.diff(ends_of_words[ends], prepend=0)

    def _learn(self) -> None:
        """Tokenize the new words."""
        new = self._numbers.new
        ids, lengths = self._marked(new) or flat(
            [row.ids for row in self.tokenizer.encode_batch_fast(new, add_special_tokens=False)]
        )
        self._starts = np.concatenate([self._starts, len(self._ids) + np.cumsum(lengths) - lengths])
        self._lengths, self._ids = np.concatenate([self._lengths, lengths]), np.concatenate([self._ids, ids])
        self._characters += sum(map(len, new))
        self._numbers.new = []

    def _marked(self, words: list[str]) -> tuple[Ids, Lengths] | None:
        """The ids of each word, from texts of many words with a special token after each: texts take longer than words.

        None if the tokenizer has no token whose id stands for itself alone, whatever is around it, or a word holds it.
        """
        unknown, added = getattr(self.tokenizer.model, "unk_token", None), self.tokenizer.get_added_tokens_decoder()
        marks = (x.content for x in added.values() if x.special and not x.normalized and x.content != unknown)
        mark = next(marks, None)
        if mark is None or any(mark in word for word in words):
            return None
        texts = [f" {mark} ".join([*words[i : i + _TOGETHER], ""]) for i in range(0, len(words), _TOGETHER)]
        rows = self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        ids = np.concatenate([np.array(row.ids, np.int32) for row in rows])
        is_mark = ids == self.tokenizer.token_to_id(mark)
        ends = np.flatnonzero(is_mark)
        return (ids[~is_mark], np.diff(ends, prepend=-1) - 1) if len(ends) == len(words) else None


def reads_word_by_word(tokenizer: Tokenizer) -> bool:
    """Whether the tokens of a text are those of its words between spaces, each tokenized alone.

    That is known of BERT's tokenizer and its relatives, and of those that this package makes. The start of a text, or a
    space, is a separate token for others.

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> words = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
        >>> words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        >>> reads_word_by_word(words)
        True
        >>> words.pre_tokenizer = pre_tokenizers.Metaspace()
        >>> reads_word_by_word(words)
        False
    """
    splitters, normalizers = (_kinds(part) for part in (tokenizer.pre_tokenizer, tokenizer.normalizer))
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    return (
        type(tokenizer.model).__name__ in _OF_WORDS
        and not getattr(tokenizer.model, "dropout", None)
        and not getattr(tokenizer.model, "fuse_unk", False)
        and bool(splitters & _SPLIT_AT_SPACES)
        and splitters <= _SPLIT_AT_SPACES | _SPLIT_FURTHER
        and normalizers <= _OF_CHARACTERS
        and all(content.split() == [content] for content in added)  # no token reaches over a space
    )


def _kinds(part: Any) -> set[str]:
    """The types of the steps of a pre-tokenizer or a normalizer."""
    if part is None:
        return set()
    about: dict[str, Any] = json.loads(part.__getstate__())
    steps = about.get("pretokenizers", about.get("normalizers")) if about["type"] == "Sequence" else [about]
    result: set[str] = set()
    for step in steps or ():
        replaced = step.get("pattern", {}).get("String", " ") + step.get("content", " ")
        kind = "Lowercase" if step["type"] == "Replace" and replaced.split() == [replaced] else str(step["type"])
        result.add("Whitespace" if step.items() >= WORD_SPLIT.items() else kind)
    return result
