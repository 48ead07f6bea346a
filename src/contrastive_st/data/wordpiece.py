"""A WordPiece vocabulary from the user's own text, for encoders that start from scratch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import BertTokenizer

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_INSIDE = 0xF0000  # private code points: a letter inside of a word, as against one at its start
_MARK = {code: code + _INSIDE for code in range(0x10000)}
_UNMARK = {marked: code for code, marked in _MARK.items()}


def train_wordpiece(
    texts: Iterable[str], vocab_size: int = 16_000, max_length: int = 128, min_frequency: int = 2
) -> BertTokenizer:
    """Learn a lower-cased WordPiece vocabulary and return it as a ready BERT tokenizer.

    The same texts give the same vocabulary, which `tokenizers.trainers.WordPieceTrainer` does not promise: it numbers
    the `##` letters in the order of a hash table, and ties between merges follow those numbers. Here the letters inside
    of words are marked as letters of their own, byte-pair merges are learned from words in sorted order, and the marks
    become `##` again.

    Args:
        texts: the corpus; read once, in any order.
        vocab_size: upper bound on the number of word pieces, special tokens included.
        max_length: the tokenizer's `model_max_length`, in tokens.
        min_frequency: merges and letters seen less often are left out.

    Example:
        >>> tokenizer = train_wordpiece(["the cat sat", "the cat ran"] * 10, vocab_size=60)
        >>> tokenizer.tokenize("The cat")
        ['the', 'cat']
    """
    words = _count_words(texts)
    letters: Counter[str] = Counter()
    for word, count in words.items():
        letters.update(dict.fromkeys(word, count))
    rare = {letter for letter, count in letters.items() if count < min_frequency or ord(letter) >= 0x10000}
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(SPECIAL_TOKENS), min_frequency=min_frequency, show_progress=False
    )
    tokenizer.train_from_iterator(_marked_lines(words, rare), trainer)
    pieces = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    vocabulary = {token: i for i, token in enumerate([*SPECIAL_TOKENS, *map(_as_wordpiece, pieces)])}
    return BertTokenizer(vocab=vocabulary, model_max_length=max_length)


def _count_words(texts: Iterable[str]) -> Counter[str]:
    normalize = normalizers.BertNormalizer(lowercase=True).normalize_str
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    words: Counter[str] = Counter()
    for text in texts:
        words.update(word for word, _ in split(normalize(text)))
    return words


def _marked_lines(words: Counter[str], rare: set[str]) -> Iterator[str]:
    for word in sorted(words):
        if not rare.intersection(word):
            marked = word[0] + word[1:].translate(_MARK)
            yield " ".join([marked] * words[word])


def _as_wordpiece(piece: str) -> str:
    plain = piece.translate(_UNMARK)
    return f"##{plain}" if ord(piece[0]) >= _INSIDE else plain
