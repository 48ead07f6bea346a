"""A WordPiece vocabulary from the user's own text, for encoders that start from scratch."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import BertTokenizer

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def train_wordpiece(texts: Iterable[str], vocab_size: int = 16_000, max_length: int = 128) -> BertTokenizer:
    """Learn a lower-cased WordPiece vocabulary and return it as a ready BERT tokenizer.

    Args:
        texts: the corpus; read once, in any order.
        vocab_size: upper bound on the number of word pieces, special tokens included.
        max_length: the tokenizer's `model_max_length`, in tokens.

    Example:
        >>> tokenizer = train_wordpiece(["the cat sat", "the cat ran"] * 10, vocab_size=60)
        >>> tokenizer.tokenize("The cat")
        ['the', 'cat']
    """
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=SPECIAL_TOKENS, min_frequency=2, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return BertTokenizer(vocab=tokenizer.get_vocab(), model_max_length=max_length)
