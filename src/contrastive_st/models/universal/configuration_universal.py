"""Configuration of the Universal Sentence Encoder. Saved beside checkpoints: it imports transformers alone."""

from typing import Any

from transformers import PreTrainedConfig


class UniversalConfig(PreTrainedConfig):
    """Deep averaging network, or transformer, over word vectors (Cer et al. 2018, https://arxiv.org/abs/1803.11175).

    Args:
        vocab_size: rows of the word table, pad and unk included.
        encoder: `dan`: the mean of the vectors of words and bigrams, through feed-forward layers; or `transformer`: the
            sum of the words' states over the square root of their number.
        embedding_size: width of a word vector; a transformer's is `hidden_size`.
        hidden_size: width of the embedding (512 in the paper).
        num_layers: feed-forward layers of a dan, layers of a transformer.
        bigram_buckets: rows of the table that bigrams are hashed into; 0 leaves bigrams out.
        num_attention_heads: of a transformer.
        intermediate_size: inner width of a transformer's layers.
        dropout: on the mean and between the layers.
        similarity: how embeddings are compared: `angular` or `cosine`.
        pad_token_id: the row of the word table that stays zero.

    Raises:
        ValueError: an unknown choice, or a width that the heads cannot share.
    """

    model_type = "universal"

    def __init__(
        self,
        vocab_size: int = 20000,
        encoder: str = "dan",
        embedding_size: int = 320,
        hidden_size: int = 512,
        num_layers: int = 2,
        bigram_buckets: int = 200_000,
        num_attention_heads: int = 8,
        intermediate_size: int = 2048,
        dropout: float = 0.0,
        similarity: str = "angular",
        pad_token_id: int = 0,
        **kwargs: Any,
    ) -> None:
        self.vocab_size, self.encoder, self.embedding_size = vocab_size, encoder, embedding_size
        self.hidden_size, self.num_layers, self.bigram_buckets = hidden_size, num_layers, bigram_buckets
        self.num_attention_heads, self.intermediate_size = num_attention_heads, intermediate_size
        self.dropout, self.similarity = dropout, similarity
        for name, allowed in (("encoder", ("dan", "transformer")), ("similarity", ("angular", "cosine"))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"unknown {name} {getattr(self, name)!r}; choose one of {', '.join(allowed)}")
        if encoder == "transformer" and (hidden_size % num_attention_heads or hidden_size % 2):
            raise ValueError(f"hidden_size {hidden_size} cannot be shared by {num_attention_heads} heads, or is odd")
        super().__init__(pad_token_id=pad_token_id, **kwargs)

    @property
    def projection_dim(self) -> int:
        """Width of the sentence embedding, under the name by which sentence-transformers asks for it."""
        return self.hidden_size
