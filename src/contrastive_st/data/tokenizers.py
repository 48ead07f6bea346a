"""Make tokenizers: WordPiece, word-level and subword."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, cast

from annotated_types import Ge, Gt, Le
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import BertTokenizer, PreTrainedTokenizerFast

from contrastive_st.errors import InputError
from contrastive_st.options import checked
from contrastive_st.tokens import each_text
from contrastive_st.word_cache import WORD_SPLIT

# --- A WordPiece vocabulary learned from the user's text, for encoders trained from scratch.

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_INSIDE = 0xF0000  # private code points for letters inside a word, which differ from letters at its start
_MARK = {code: code + _INSIDE for code in range(0x10000)}
_UNMARK = {marked: code for code, marked in _MARK.items()}


def train_wordpiece(
    texts: Iterable[str], vocab_size: int = 16_000, max_length: int = 128, min_frequency: int = 2
) -> BertTokenizer:
    """Learn a lower-cased WordPiece vocabulary and return a BERT tokenizer with it.

    The same texts always give the same vocabulary. `tokenizers.trainers.WordPieceTrainer` does not guarantee this: it
    numbers the `##` letters in the order of a hash table, and ties between merges follow those numbers. Here letters
    inside words are replaced by private characters, byte-pair merges are learned from words in sorted order, and the
    private characters are turned into `##` pieces.

    Args:
        texts: the corpus; read once, in any order.
        vocab_size: upper bound on the number of word pieces, special tokens included.
        max_length: the tokenizer's `model_max_length`, in tokens.
        min_frequency: merges and letters that are less frequent are left out.

    Raises:
        InputError: `vocab_size` or `max_length` leaves no room for a word piece besides the special tokens.

    Example:
        >>> tokenizer = train_wordpiece(["the cat sat", "the cat ran"] * 10, vocab_size=60)
        >>> tokenizer.tokenize("The cat")
        ['the', 'cat']
    """
    check_max_length(max_length, max_length)
    checked("vocab_size", vocab_size, Annotated[int, Gt(len(SPECIAL_TOKENS))])
    normalize = normalizers.BertNormalizer(lowercase=True).normalize_str
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    words = Counter(word for text in each_text(texts) for word, _ in split(normalize(text)))
    letters: Counter[str] = Counter()
    for word, count in words.items():
        letters.update(dict.fromkeys(word, count))
    rare = {letter for letter, count in letters.items() if count < min_frequency or ord(letter) >= 0x10000}
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    size = vocab_size - len(SPECIAL_TOKENS)
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=min_frequency, show_progress=False)
    common = (word for word in sorted(words) if not rare.intersection(word))
    lines = (" ".join([word[0] + word[1:].translate(_MARK)] * words[word]) for word in common)
    tokenizer.train_from_iterator(lines, trainer)
    pieces = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    tokens = ["##" * (ord(piece[0]) >= _INSIDE) + piece.translate(_UNMARK) for piece in pieces]
    vocabulary = {token: i for i, token in enumerate([*SPECIAL_TOKENS, *tokens])}
    return BertTokenizer(vocab=vocabulary, model_max_length=max_length)


# --- Word-level vocabularies: one id per word, for encoders with their word embeddings.

PAD, UNK = "[PAD]", "[UNK]"
PAD_ID, UNK_ID = 0, 1
_APOSTROPHES = "\u2019"  # the typographic one; vector tables know the ASCII one


def word_tokenizer(words: Iterable[str], max_length: int = 128, lowercase: bool = True) -> PreTrainedTokenizerFast:
    """A tokenizer with one id per word: id 0 is padding, id 1 any unknown word, and `words` follow in their order.

    Text is normalized to NFC, converted to lower case if `lowercase`, and split into words, numbers and punctuation
    marks. No special tokens are added; a text without words gives an empty list. `[PAD]` and `[UNK]` inside a text are
    ordinary text.

    Args:
        words: distinct words.
        max_length: the tokenizer's `model_max_length`, in words.
        lowercase: False for a vocabulary with capitals.

    Raises:
        InputError: there are no words, or one is repeated or reserved (`[PAD]`, `[UNK]`).

    Example:
        >>> tokenizer = word_tokenizer(["the", "cat", "sat"])
        >>> tokenizer(["The cat sat", "a cat", ""])["input_ids"]
        [[2, 3, 4], [1, 3], []]
    """
    ids = {PAD: PAD_ID, UNK: UNK_ID}
    _add_words(ids, words)
    return _fast(_backend(models.WordLevel(vocab=ids, unk_token=UNK), lowercase), max_length)


def _add_words(ids: dict[str, int], words: Iterable[str]) -> None:
    for word in words:
        if ids.setdefault(word, len(ids)) != len(ids) - 1:
            what = "a reserved name" if word in (PAD, UNK) else f"there twice (first with id {ids[word]})"
            raise InputError(f"the vocabulary's word {word!r} is {what}; remove it")


def train_word_tokenizer(
    texts: Iterable[str], vocab_size: int = 30_000, max_length: int = 128, lowercase: bool = True
) -> PreTrainedTokenizerFast:
    """A word tokenizer whose vocabulary is the most frequent words of a corpus.

    Equally frequent words come in the order of their code points, so the same texts give the same vocabulary, in
    whatever order they are.

    Args:
        texts: the corpus; read once.
        vocab_size: upper bound on the number of ids, the two reserved ones included.
        max_length: as for `word_tokenizer`.
        lowercase: as for `word_tokenizer`.

    Raises:
        InputError: `vocab_size` leaves no room for a word, or the texts have no words.

    Example:
        >>> tokenizer = train_word_tokenizer(["the cat sat", "the dog sat"], vocab_size=5)
        >>> tokenizer.convert_ids_to_tokens(range(5))
        ['[PAD]', '[UNK]', 'sat', 'the', 'cat']
    """
    checked("vocab_size", vocab_size, Annotated[int, Gt(2)])
    backend = _backend(models.WordLevel(unk_token=UNK), lowercase)
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab_size, min_frequency=0, special_tokens=[PAD, UNK], show_progress=False
    )
    backend.train_from_iterator(each_text(texts), trainer)
    return _fast(backend, max_length)


def train_subword_tokenizer(
    texts: Iterable[str], vocab_size: int = 80_000, max_length: int = 128, lowercase: bool = True
) -> PreTrainedTokenizerFast:
    """A tokenizer of text in any script: frequent words are one token, others the pieces of a byte-pair encoding.

    In scripts that write no spaces between words, frequent runs of characters are the tokens. Characters that are in
    no text of the corpus become the unknown token.

    Args:
        texts: the corpus; read once.
        vocab_size: upper bound on the number of ids, the two reserved ones included.
        max_length: the tokenizer's `model_max_length`, in tokens.
        lowercase: False to tell capitals.

    Raises:
        InputError: the texts have no words.

    Example:
        >>> tokenizer = train_subword_tokenizer(["the cat sat", "cats sat", "\u732b\u304c\u3044\u308b", "the cats"], 60)
        >>> tokenizer.tokenize("The cats sat; that cat"), len(tokenizer.tokenize("\u732b\u304c"))
        (['the', 'cats', 'sat', '[UNK]', 't', 'h', 'at', 'cat'], 2)
    """
    backend = _backend(models.BPE(unk_token=UNK), lowercase)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=2, special_tokens=[PAD, UNK], limit_alphabet=max(vocab_size // 2, 1),
        max_token_length=_LONGEST, show_progress=False,
    )  # fmt: skip
    backend.train_from_iterator(each_text(texts), trainer)
    return _fast(backend, max_length)


_LONGEST = 30  # characters of a token


def words_of(tokenizer: PreTrainedTokenizerFast) -> list[str]:
    """The tokens of a tokenizer in the order of their ids, reserved ones included.

    Example:
        >>> words_of(word_tokenizer(["cat"]))
        ['[PAD]', '[UNK]', 'cat']
    """
    return cast("list[str]", tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))))


def reachable(words: Iterable[str], tokenizer: PreTrainedTokenizerFast) -> list[str]:
    """The words that the tokenizer can produce, because its rules neither change nor split them.

    Example:
        >>> reachable(["cat", "Cat", "well-known", "[PAD]"], word_tokenizer(["dog"]))
        ['cat']
    """
    backend = tokenizer.backend_tokenizer
    normalize, cut = backend.normalizer.normalize_str, backend.pre_tokenizer.pre_tokenize_str
    return [word for word in words if normalize(word) == word and [part for part, _ in cut(word)] == [word]]


def with_more_words(tokenizer: PreTrainedTokenizerFast, words: Iterable[str]) -> PreTrainedTokenizerFast:
    """The same tokenizer with further words; existing ids stay the same.

    Raises:
        InputError: the tokenizer has one of the words already.

    Example:
        >>> with_more_words(word_tokenizer(["cat"]), ["dog"])("a dog, a cat")["input_ids"]
        [1, 3, 1, 1, 2]
    """
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    _add_words(state["model"]["vocab"], words)
    return _fast(Tokenizer.from_str(json.dumps(state)), tokenizer.model_max_length)


def _backend(model: models.Model, lowercase: bool) -> Tokenizer:
    backend = Tokenizer(model)
    steps = [normalizers.NFC(), normalizers.Replace(_APOSTROPHES, "'")]
    backend.normalizer = normalizers.Sequence([*steps, normalizers.Lowercase()] if lowercase else steps)
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(WORD_SPLIT["pattern"]["Regex"]), "removed", invert=True)
    return backend


def _fast(backend: Tokenizer, max_length: int) -> PreTrainedTokenizerFast:
    if backend.get_vocab_size() == 2:
        raise InputError("the vocabulary has no words; give other texts, or at least one word")
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        unk_token=UNK,
        padding_side="right",
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
        split_special_tokens=True,  # otherwise "[PAD]" inside a text would be padding
    )


def check_max_length(max_length: int, limit: int) -> int:
    """Check that a maximum length leaves room for a word between two special tokens.

    Args:
        max_length: number of tokens.
        limit: number of positions of the model.

    Returns:
        `max_length`.

    Raises:
        OptionError: it is below 3 or above the limit.
    """
    return checked("max_length", max_length, Annotated[int, Ge(3), Le(limit)])
