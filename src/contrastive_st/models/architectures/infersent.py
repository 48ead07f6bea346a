"""The InferSent encoder. This file is saved with checkpoints, so it imports only torch and transformers."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig
from transformers.modeling_outputs import BaseModelOutputWithPooling

from .quickthoughts import PackedLSTM, Packing, WordModel


class InferSentConfig(PreTrainedConfig):
    """A bidirectional LSTM over word vectors, max-pooled (Conneau et al. 2017, https://arxiv.org/abs/1705.02364).

    Args:
        vocab_size: rows of the word table, pad and unk included.
        embedding_size: dimension of a word vector.
        hidden_size: dimension of one direction; the sentence embedding is twice as wide (2048 and 4096 in the paper).
        frozen_words: do not train the word vectors, as in the paper.
        dropout: dropout of the word vectors.
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
        **kwargs: object,
    ) -> None:
        self.vocab_size, self.embedding_size, self.hidden_size = vocab_size, embedding_size, hidden_size
        self.frozen_words, self.dropout = frozen_words, dropout
        super().__init__(pad_token_id=pad_token_id, **kwargs)  # type: ignore[arg-type, call-arg]

    @property
    def projection_dim(self) -> int:
        """Dimension of the sentence embedding, under the name that sentence-transformers reads."""
        return 2 * self.hidden_size


class InferSentModel(WordModel):
    """A BiLSTM with max pooling: each feature is its maximum over the words of the sentence.

    Padding is left out of the maximum; the published code includes it as zeros, and takes features of zero or below for
    padding. The embedding of a sentence without words is zero.

    Example:
        >>> model = InferSentModel(InferSentConfig(vocab_size=50, embedding_size=4, hidden_size=8)).eval()
        >>> ids = torch.tensor([[2, 7, 8], [9, 0, 0], [0, 0, 0]])
        >>> model(ids, attention_mask=(ids > 0).long()).pooler_output.shape
        torch.Size([3, 16])
    """

    config_class = InferSentConfig

    def __init__(self, config: InferSentConfig) -> None:
        super().__init__(config)
        self.word_embeddings = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.dropout = nn.Dropout(config.dropout)
        self.lstm = PackedLSTM(config.embedding_size, config.hidden_size, bidirectional=True)
        self.post_init()
        self._freeze()

    def encode(self, input_ids: Tensor, attention_mask: Tensor, lengths: Any = None) -> BaseModelOutputWithPooling:
        """As `forward`; for `lengths` see `Packing`."""
        packing = Packing(attention_mask, lengths)
        states = self.lstm(self.dropout(self.word_embeddings(input_ids.flatten()[packing.source])), packing)
        best = packing.pad(states, float("-inf")).amax(1) if len(states) else states
        return BaseModelOutputWithPooling(last_hidden_state=packing.unpack(states), pooler_output=packing.rows(best))

    def set_word_vectors(self, vectors: Tensor) -> None:
        """Put vectors `[V, embedding_size]` into the word table; the row of the padding becomes zero.

        Raises:
            ValueError: the dimension is not that of the model.
        """
        if vectors.dim() != 2 or vectors.shape[1] != self.config.embedding_size:
            raise ValueError(f"word vectors are {list(vectors.shape)}; this model takes {self.config.embedding_size}")
        values = vectors.detach().to(self.word_embeddings.weight, copy=True)
        values[self.config.pad_token_id] = 0
        self.word_embeddings.weight = nn.Parameter(values)
        self.word_embeddings.num_embeddings = self.config.vocab_size = len(values)
        self._freeze()

    def _freeze(self) -> None:
        self.word_embeddings.requires_grad_(not self.config.frozen_words)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            if not getattr(module.weight, "_is_hf_initialized", False):
                nn.init.normal_(module.weight, std=0.5)  # as long as GloVe's: SGD starts slowly from short vectors
                module.weight[self.config.pad_token_id] = 0
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
