"""The Skip-Thoughts encoder. This file is saved with checkpoints, so it imports only torch and transformers."""

from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPooling

from .quickthoughts import Packing, QuickThoughtsConfig, Tower, WordModel


class SkipThoughtsConfig(QuickThoughtsConfig):
    """One sentence encoder over word vectors (Kiros et al. 2015, https://arxiv.org/abs/1506.06726).

    Args:
        hidden_size: dimension of the sentence embedding, and of the decoders that train it.
        bidirectional: bi-skip, with half of `hidden_size` for each direction; by default uni-skip.
        other: other arguments of `QuickThoughtsConfig`.

    Raises:
        ValueError: as for `QuickThoughtsConfig`.

    Example:
        >>> SkipThoughtsConfig(hidden_size=2400).projection_dim
        2400
    """

    model_type = "skipthoughts"

    def __init__(self, **other: object) -> None:
        super().__init__(**{"shared_embeddings": True, **other})  # type: ignore[arg-type]

    @property
    def projection_dim(self) -> int:
        """Dimension of the sentence embedding, under the name that sentence-transformers reads."""
        return self.hidden_size


class SkipThoughtsModel(WordModel):
    """A sentence encoder whose embedding is the last state of a GRU.

    The embedding of a sentence without words is zero. Nothing is computed for padding.

    Example:
        >>> import torch
        >>> model = SkipThoughtsModel(SkipThoughtsConfig(vocab_size=50, embedding_size=4, hidden_size=8)).eval()
        >>> ids = torch.tensor([[2, 7, 8], [9, 0, 0], [0, 0, 0]])
        >>> model(ids, attention_mask=(ids > 0).long()).pooler_output.shape
        torch.Size([3, 8])
    """

    config_class = SkipThoughtsConfig

    def __init__(self, config: SkipThoughtsConfig) -> None:
        super().__init__(config)
        self.word_embeddings = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.f = Tower(config)
        self.post_init()

    def encode(self, input_ids: Tensor, attention_mask: Tensor, states: bool = True) -> BaseModelOutputWithPooling:
        """As `forward`; if not `states`, `last_hidden_state` is None."""
        packing = Packing(attention_mask)
        result, embeddings = self.f(self.word_embeddings(input_ids.flatten()[packing.source]), packing)
        return BaseModelOutputWithPooling(
            last_hidden_state=packing.unpack(result) if states else None, pooler_output=embeddings
        )
