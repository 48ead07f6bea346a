"""A static sentence encoder. Saved with checkpoints: it imports torch and transformers alone."""

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import can_return_tuple

STORAGES = ("float32", "float16", "int8")


class StaticConfig(PreTrainedConfig):
    """A table with one vector per token; a sentence is the mean of its tokens' vectors.

    Args:
        vocab_size: rows of the table.
        hidden_size: dimension of a vector.
        normalize: return unit vectors.
        storage: how the table is stored: `float32`, `float16`, or `int8` with one scale per row.
        pad_token_id: id of the padding token.
        reading: how texts are read: `max_length`, and `left_out`, the id of a token that does not count.

    Raises:
        ValueError: an unknown storage.
    """

    model_type = "static"

    def __init__(
        self,
        vocab_size: int = 30522,
        hidden_size: int = 256,
        normalize: bool = True,
        storage: str = "float32",
        pad_token_id: int = 0,
        reading: dict[str, object] | None = None,
        **kwargs: object,
    ) -> None:
        self.vocab_size, self.hidden_size, self.normalize, self.storage = vocab_size, hidden_size, normalize, storage
        self.reading = reading or {}
        if storage not in STORAGES:
            raise ValueError(f"unknown storage {storage!r}; choose one of {', '.join(STORAGES)}")
        super().__init__(pad_token_id=pad_token_id, **kwargs)  # type: ignore[arg-type, call-arg]

    @property
    def projection_dim(self) -> int:
        """Dimension of the sentence embedding, under the name by which sentence-transformers asks for it."""
        return self.hidden_size


class StaticModel(PreTrainedModel):
    """The mean of the vectors of a text's tokens; padding takes no part, and a text without tokens gives zeros.

    The tensors have the names of model2vec: `embeddings [V, d]`, and with `int8` and `float16` storage
    `weights [V]`, the scale of each row (1 with float16: in its presence other loaders compute in float32). So the same
    file opens in model2vec and in sentence-transformers.

    Example:
        >>> config = StaticConfig(vocab_size=50, hidden_size=8)
        >>> ids = torch.tensor([[2, 7, 8], [9, 0, 0], [0, 0, 0]])
        >>> StaticModel(config).eval()(ids, attention_mask=(ids > 0).long()).pooler_output.norm(dim=1).round().tolist()
        [1.0, 1.0, 0.0]
    """

    config_class = StaticConfig
    base_model_prefix = ""
    main_input_name = "input_ids"
    embeddings: Tensor
    weights: Tensor

    def __init__(self, config: StaticConfig) -> None:
        super().__init__(config)
        shape = (config.vocab_size, config.hidden_size)
        if config.storage == "int8":
            self.register_buffer("embeddings", torch.zeros(shape, dtype=torch.int8))
        else:
            self.embeddings = nn.Parameter(torch.randn(shape) * 0.1)
        if config.storage != "float32":
            self.register_buffer("weights", torch.ones(config.vocab_size))
        self.post_init()

    @can_return_tuple
    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> BaseModelOutputWithPooling:
        """Encode rows of token ids `[N, L]`, padded anywhere, to `pooler_output [N, d]`."""
        return self.encode(input_ids, torch.ones_like(input_ids) if attention_mask is None else attention_mask)

    def encode(self, input_ids: Tensor, attention_mask: Tensor) -> BaseModelOutputWithPooling:
        """As `forward`."""
        real = self.counted(input_ids, attention_mask).to(torch.float32)
        vectors = self.embeddings[input_ids].float()
        if self.config.storage != "float32":
            vectors = vectors * self.weights[input_ids][..., None].float()
        means = (vectors * real[..., None]).sum(1) / real.sum(1, keepdim=True).clamp(min=1)
        return BaseModelOutputWithPooling(pooler_output=unit(means) if self.config.normalize else means)

    def counted(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Which tokens count, bool `[N, L]`."""
        left_out = self.config.reading.get("left_out")
        real = attention_mask != 0
        return real if left_out is None else real & (input_ids != left_out)

    def table(self) -> Tensor:
        """The vectors of all tokens `[V, d]` in float32."""
        table = self.embeddings.float()
        return table * self.weights[:, None].float() if self.config.storage != "float32" else table

    def get_input_embeddings(self) -> nn.Embedding:
        """The table as a module, whose weight is the parameter of this model."""
        if self.config.storage == "int8":
            raise ValueError("a table of int8 has no gradient and is not resized; save it in float32")
        table = nn.Embedding(0, self.config.hidden_size)
        table.weight, table.num_embeddings = self.embeddings, len(self.embeddings)
        return table

    def set_input_embeddings(self, value: nn.Embedding) -> None:  # type: ignore[override]
        """Take the table of a module; new tokens have the scale 1."""
        self.embeddings = value.weight
        if self.config.storage != "float32":
            more = (0, len(value.weight) - len(self.weights))
            self.weights = nn.functional.pad(self.weights, more, value=1.0)

    def _init_weights(self, module: nn.Module) -> None:
        """The table is made in `__init__`."""


def unit(vectors: Tensor) -> Tensor:
    """Unit vectors; a zero vector stays zero."""
    return nn.functional.normalize(vectors, dim=-1)
