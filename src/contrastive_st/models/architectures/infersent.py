"""The InferSent encoder. This file is saved with checkpoints, so it imports only torch and transformers."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import can_return_tuple


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


class InferSentModel(PreTrainedModel):
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
    base_model_prefix = ""
    main_input_name = "input_ids"

    def __init__(self, config: InferSentConfig) -> None:
        super().__init__(config)
        self.word_embeddings = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.dropout = nn.Dropout(config.dropout)
        self.lstm = nn.LSTM(config.embedding_size, config.hidden_size, batch_first=True, bidirectional=True)
        self.post_init()
        self._freeze()

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """As `PreTrainedModel.from_pretrained`, but frozen word vectors stay frozen."""
        loaded = super().from_pretrained(*args, **kwargs)
        (loaded[0] if isinstance(loaded, tuple) else loaded)._freeze()
        return loaded

    @can_return_tuple
    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> BaseModelOutputWithPooling:
        """Encode rows of word ids `[N, L]`, padded on the right.

        Args:
            input_ids: word ids.
            attention_mask: 1 on real words; by default all words are real.

        Returns:
            `pooler_output [N, 2h]`, the embeddings, and `last_hidden_state [N, L, 2h]`, zero on padding.
        """
        return self.encode(input_ids, torch.ones_like(input_ids) if attention_mask is None else attention_mask)

    def encode(self, input_ids: Tensor, attention_mask: Tensor, lengths: Any = None) -> BaseModelOutputWithPooling:
        """As `forward`; `lengths` `[N]` is the number of words of each row, if the host knows it without the mask."""
        lengths = (attention_mask != 0).sum(1).cpu().numpy() if lengths is None else lengths
        filled = (-lengths).argsort(kind="stable")[: (lengths > 0).sum()]  # longest first
        some = torch.from_numpy(filled).to(input_ids.device, non_blocking=True)
        words = self.dropout(self.word_embeddings(input_ids))
        states = words.new_zeros(*input_ids.shape, 2 * self.config.hidden_size)
        best = states[:, 0] if input_ids.shape[1] else words.new_zeros(len(input_ids), states.shape[2])
        if len(some):
            packed = pack_padded_sequence(words[some], torch.from_numpy(lengths[filled]), batch_first=True)
            read, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=input_ids.shape[1])
            padding = attention_mask[some, :, None] == 0
            best = best.to(read.dtype).index_copy(0, some, read.masked_fill(padding, float("-inf")).amax(1))
            states = states.to(read.dtype).index_copy(0, some, read)
        return BaseModelOutputWithPooling(last_hidden_state=states, pooler_output=best)

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

    def get_input_embeddings(self) -> nn.Embedding:
        """The word table."""
        return self.word_embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:  # type: ignore[override]
        """Replace the word table."""
        self.word_embeddings = value

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
