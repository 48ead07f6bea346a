"""Configuration of the InferSent encoder. Saved beside checkpoints: it imports transformers alone."""

from typing import Any

from transformers import PreTrainedConfig


class InferSentConfig(PreTrainedConfig):
    """A bidirectional LSTM over word vectors, max-pooled (Conneau et al. 2017, https://arxiv.org/abs/1705.02364).

    Args:
        vocab_size: rows of the word table, pad and unk included.
        embedding_size: width of a word vector.
        hidden_size: of one direction; the sentence embedding is twice as wide (2048 and 4096 in the paper).
        frozen_words: whether the word vectors stay as they are, as in the paper.
        dropout: on the word vectors.
        pad_token_id: the row of the word table that stays zero.

    Example:
        >>> InferSentConfig(hidden_size=100).projection_dim
        200
    """

    model_type = "infersent"

    def __init__(
        self,
        vocab_size: int = 20000,
        embedding_size: int = 300,
        hidden_size: int = 2048,
        frozen_words: bool = False,
        dropout: float = 0.0,
        pad_token_id: int = 0,
        **kwargs: Any,
    ) -> None:
        self.vocab_size, self.embedding_size, self.hidden_size = vocab_size, embedding_size, hidden_size
        self.frozen_words, self.dropout = frozen_words, dropout
        super().__init__(pad_token_id=pad_token_id, **kwargs)

    @property
    def projection_dim(self) -> int:
        """Width of the sentence embedding, under the name by which sentence-transformers asks for it."""
        return 2 * self.hidden_size
