"""Word-level vocabularies: one id a word, for encoders with word embeddings of their own."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from contrastive_st.errors import InputError

PAD, UNK = "[PAD]", "[UNK]"
PAD_ID, UNK_ID = 0, 1
_APOSTROPHES = "\u2019"  # the typographic one; vector tables know the ASCII one
# What one word is, tried in this order. Contractions are parted as in the Penn treebank, which is how GloVe's corpus
# and SentEval's files are parted: "don't" and "do n't" are the same two words.
_WORD = "|".join(
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


def word_tokenizer(words: Iterable[str], max_length: int = 128, lowercase: bool = True) -> PreTrainedTokenizerFast:
    """A tokenizer that knows `words`; id 0 is padding, id 1 any other word, the words follow in their order.

    Text becomes NFC and, with `lowercase`, lower case, and is then cut into words, numbers and marks. No token is added
    around a sentence; one without words gives an empty list. A reserved name within a text is text like any other.

    Args:
        words: distinct words.
        max_length: the tokenizer's `model_max_length`, in words.
        lowercase: False for a vocabulary that has capitals.

    Raises:
        InputError: no word, a repeated word, or one of the reserved names.

    Example:
        >>> tokenizer = word_tokenizer(["the", "cat", "sat"])
        >>> tokenizer(["The cat sat", "a cat", ""])["input_ids"]
        [[2, 3, 4], [1, 3], []]
    """
    ids = {PAD: PAD_ID, UNK: UNK_ID}
    for word in words:
        if ids.setdefault(word, len(ids)) != len(ids) - 1:
            what = "a reserved name" if word in (PAD, UNK) else f"there twice (id {ids[word]} the first time)"
            raise InputError(f"the vocabulary's word {word!r} is {what}; take it out")
    if len(ids) == 2:
        raise InputError("the vocabulary has no words; give at least one")
    return _fast(_backend(models.WordLevel(vocab=ids, unk_token=UNK), lowercase), max_length)


def train_word_tokenizer(
    texts: Iterable[str], vocab_size: int = 30_000, max_length: int = 128, lowercase: bool = True
) -> PreTrainedTokenizerFast:
    """The most frequent words of a corpus; of equally frequent ones, those first in the order of code points.

    The same texts, in any order, give the same vocabulary.

    Args:
        texts: the corpus; read once.
        vocab_size: upper bound on the ids, the two reserved ones included.
        max_length: as for `word_tokenizer`.
        lowercase: as for `word_tokenizer`.

    Raises:
        InputError: no room for a word, or no word in the texts.

    Example:
        >>> tokenizer = train_word_tokenizer(["the cat sat", "the dog sat"], vocab_size=5)
        >>> tokenizer.convert_ids_to_tokens(range(5))
        ['[PAD]', '[UNK]', 'sat', 'the', 'cat']
    """
    if vocab_size < 3:
        raise InputError(f"vocab_size {vocab_size} leaves no room beside the two reserved ids; give 3 or more")
    backend = _backend(models.WordLevel(unk_token=UNK), lowercase)
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab_size, min_frequency=0, special_tokens=[PAD, UNK], show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    if backend.get_vocab_size() == 2:
        raise InputError("the texts hold no word to make a vocabulary of; give other texts")
    return _fast(backend, max_length)


def words_of(tokenizer: PreTrainedTokenizerFast) -> list[str]:
    """The tokens of a tokenizer in the order of their ids, reserved ones included.

    Example:
        >>> words_of(word_tokenizer(["cat"]))
        ['[PAD]', '[UNK]', 'cat']
    """
    return tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))


def reachable(words: Iterable[str], tokenizer: PreTrainedTokenizerFast) -> list[str]:
    """Those of `words` that a text can give: which the tokenizer's rules neither change nor cut.

    Example:
        >>> reachable(["cat", "Cat", "well-known", "[PAD]"], word_tokenizer(["dog"]))
        ['cat']
    """
    backend = tokenizer.backend_tokenizer
    normalize, cut = backend.normalizer.normalize_str, backend.pre_tokenizer.pre_tokenize_str
    return [word for word in words if normalize(word) == word and [part for part, _ in cut(word)] == [word]]


def with_more_words(tokenizer: PreTrainedTokenizerFast, words: Iterable[str]) -> PreTrainedTokenizerFast:
    """The same tokenizer with further words; the ids it has stay as they are.

    Raises:
        InputError: a word that it has already.

    Example:
        >>> with_more_words(word_tokenizer(["cat"]), ["dog"])("a dog, a cat")["input_ids"]
        [1, 3, 1, 1, 2]
    """
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    ids = state["model"]["vocab"]
    for word in words:
        if ids.setdefault(word, len(ids)) != len(ids) - 1:
            raise InputError(f"the vocabulary has the word {word!r} already; take it out")
    return _fast(Tokenizer.from_str(json.dumps(state)), tokenizer.model_max_length)


def _backend(model: models.Model, lowercase: bool) -> Tokenizer:
    backend = Tokenizer(model)
    steps = [normalizers.NFC(), normalizers.Replace(_APOSTROPHES, "'")]
    backend.normalizer = normalizers.Sequence([*steps, normalizers.Lowercase()] if lowercase else steps)
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(f"(?i){_WORD}"), "removed", invert=True)
    return backend


def _fast(backend: Tokenizer, max_length: int) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        unk_token=UNK,
        padding_side="right",
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
        split_special_tokens=True,  # else "[PAD]" within a text would be padding
    )
