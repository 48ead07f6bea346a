"""Configuration of the QuickThoughts encoder. Saved beside checkpoints: it imports transformers alone."""

from typing import Any

from transformers import PreTrainedConfig

CHOICES = {
    "encoder": ("gru", "lstm", "transformer"),
    "readout": ("last", "max", "mean"),
    "word_vectors": ("trained", "frozen", "multichannel"),
    "positions": ("sinusoidal", "learned"),
}


class QuickThoughtsConfig(PreTrainedConfig):
    """Two sentence encoders f and g over word vectors (Logeswaran and Lee, 2018, https://arxiv.org/abs/1803.02893).

    Args:
        vocab_size: rows of every word table, pad and unk included.
        embedding_size: width of a word vector.
        hidden_size: width of one tower's output; the sentence embedding `[f; g]` is twice as wide.
        encoder: `gru`, `lstm` or `transformer`.
        bidirectional: read recurrent towers both ways, half of `hidden_size` each.
        num_layers: layers of a tower.
        readout: what a tower makes of its states: the `last` (of each direction, where that has read everything), their
            `max` or their `mean`.
        word_vectors: `trained`; `frozen`, one table for both towers; or `multichannel`, a frozen and a trained vector
            of each word side by side, the tower reading both.
        shared_embeddings: whether f and g share their trained vectors.
        dropout: on a tower's word vectors, between its layers and on its readout.
        num_attention_heads: of a transformer tower.
        intermediate_size: inner width of a transformer tower's feed-forward layers.
        positions: of a transformer tower, `sinusoidal` (any length) or `learned`.
        max_position_embeddings: longest sentence of learned positions, in words.
        initializer_range: word vectors and recurrent weights start uniform in plus or minus this.
        pad_token_id: the row of the word tables that stays zero.

    Raises:
        ValueError: an unknown choice, or a width that cannot be split as asked.

    Example:
        >>> QuickThoughtsConfig(hidden_size=1000, readout="max").projection_dim
        2000
    """

    model_type = "quickthoughts"

    def __init__(
        self,
        vocab_size: int = 20000,
        embedding_size: int = 300,
        hidden_size: int = 1000,
        encoder: str = "gru",
        bidirectional: bool = False,
        num_layers: int = 1,
        readout: str = "last",
        word_vectors: str = "trained",
        shared_embeddings: bool = False,
        dropout: float = 0.0,
        num_attention_heads: int = 4,
        intermediate_size: int = 1024,
        positions: str = "sinusoidal",
        max_position_embeddings: int = 512,
        initializer_range: float = 0.1,
        pad_token_id: int = 0,
        **kwargs: Any,
    ) -> None:
        self.vocab_size, self.embedding_size, self.hidden_size = vocab_size, embedding_size, hidden_size
        self.encoder, self.bidirectional, self.num_layers, self.readout = encoder, bidirectional, num_layers, readout
        self.word_vectors, self.shared_embeddings = word_vectors, shared_embeddings
        self.dropout, self.initializer_range = dropout, initializer_range
        self.num_attention_heads, self.intermediate_size = num_attention_heads, intermediate_size
        self.positions, self.max_position_embeddings = positions, max_position_embeddings
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"unknown {name} {getattr(self, name)!r}; choose one of {', '.join(allowed)}")
        heads = num_attention_heads if encoder == "transformer" else 1 + bidirectional
        if hidden_size % heads or (encoder == "transformer" and positions == "sinusoidal" and hidden_size % 2):
            raise ValueError(f"hidden_size {hidden_size} cannot be split over {heads} heads or directions, or is odd")
        super().__init__(pad_token_id=pad_token_id, **kwargs)

    @property
    def projection_dim(self) -> int:
        """Width of the sentence embedding `[f; g]`, under the name by which sentence-transformers asks for it."""
        return 2 * self.hidden_size
