"""The Universal Sentence Encoder. This file is saved with checkpoints, so it imports only torch and transformers."""

import math

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import can_return_tuple


class UniversalConfig(PreTrainedConfig):
    """Deep averaging network, or transformer, over word vectors (Cer et al. 2018, https://arxiv.org/abs/1803.11175).

    Args:
        vocab_size: rows of the word table, pad and unk included.
        encoder: `dan`, feed-forward layers over the mean of the vectors of words and bigrams; or `transformer`, the sum
            of the words' states divided by the square root of their number.
        embedding_size: dimension of a word vector for `dan`; for `transformer` it is `hidden_size`.
        hidden_size: dimension of the embedding (512 in the paper).
        num_layers: number of feed-forward or transformer layers.
        bigram_buckets: rows of the table into which bigrams are hashed; 0 leaves bigrams out.
        num_attention_heads: number of heads of a transformer.
        intermediate_size: inner dimension of a transformer's layers.
        dropout: dropout of the mean and between the layers.
        similarity: how embeddings are compared: `angular` or `cosine`.
        pad_token_id: the row of the word table that stays zero.

    Raises:
        ValueError: an unknown choice, or a `hidden_size` that cannot be divided among the heads.
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
        **kwargs: object,
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
        super().__init__(pad_token_id=pad_token_id, **kwargs)  # type: ignore[arg-type, call-arg]

    @property
    def projection_dim(self) -> int:
        """Dimension of the sentence embedding, under the name that sentence-transformers reads."""
        return self.hidden_size


class UniversalModel(PreTrainedModel):
    """A deep averaging network or a transformer; both ignore padding.

    Example:
        >>> config = UniversalConfig(vocab_size=50, embedding_size=4, hidden_size=8, bigram_buckets=30)
        >>> ids = torch.tensor([[2, 7, 8], [9, 0, 0], [0, 0, 0]])
        >>> UniversalModel(config).eval()(ids, attention_mask=(ids > 0).long()).pooler_output.shape
        torch.Size([3, 8])
    """

    config_class = UniversalConfig
    base_model_prefix = ""
    main_input_name = "input_ids"

    def __init__(self, config: UniversalConfig) -> None:
        super().__init__(config)
        build = DeepAveragingEncoder if config.encoder == "dan" else SummingTransformer
        self.encoder = build(config)
        self.post_init()

    @can_return_tuple
    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> BaseModelOutputWithPooling:
        """Encode rows of word ids `[N, L]`, padded on the right, to `pooler_output [N, h]`."""
        return self.encode(input_ids, torch.ones_like(input_ids) if attention_mask is None else attention_mask)

    def encode(self, input_ids: Tensor, attention_mask: Tensor) -> BaseModelOutputWithPooling:
        """As `forward`."""
        return BaseModelOutputWithPooling(pooler_output=self.encoder(input_ids, attention_mask))

    def similarity(self, a: Tensor, b: Tensor) -> Tensor:
        """The similarity that the config names, `[B, d], [C, d] -> [B, C]`."""
        a, b = (nn.functional.normalize(x.double(), dim=-1) for x in (a, b))
        cosine = (a @ b.T).clamp(-1, 1)
        return (1 - cosine.acos() / math.pi if self.config.similarity == "angular" else cosine).float()

    def get_input_embeddings(self) -> nn.Embedding:
        """The word table."""
        return self.encoder.words

    def set_input_embeddings(self, value: nn.Embedding) -> None:  # type: ignore[override]
        """Replace the word table."""
        self.encoder.words = value

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            if not getattr(module.weight, "_is_hf_initialized", False):
                nn.init.normal_(module.weight, std=0.1)
                if module.padding_idx is not None:
                    module.weight[module.padding_idx] = 0
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)


class DeepAveragingEncoder(nn.Module):
    """Feed-forward layers over the mean of the vectors of a sentence's words and bigrams (Iyyer et al. 2015)."""

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        dim, hidden = config.embedding_size, config.hidden_size
        self.words = nn.Embedding(config.vocab_size, dim, padding_idx=config.pad_token_id)
        self.bigrams = nn.Embedding(config.bigram_buckets, dim) if config.bigram_buckets else None
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(nn.Linear(hidden if i else dim, hidden) for i in range(config.num_layers))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Embeddings `[N, h]` of word ids `[N, L]`."""
        real = mask.to(self.words.weight.dtype)
        total, count = (self.words(ids) * real[..., None]).sum(1), real.sum(1, keepdim=True)
        if self.bigrams is not None and ids.shape[1] > 1:
            both = real[:, 1:] * real[:, :-1]
            total = total + (self.bigrams(self.bucket(ids[:, :-1], ids[:, 1:])) * both[..., None]).sum(1)
            count = count + both.sum(1, keepdim=True)
        states = self.dropout(total / count.clamp(min=1))
        for i, layer in enumerate(self.layers):
            states = layer(states if i == 0 else self.dropout(states.relu()))
        result: Tensor = states
        return result

    def bucket(self, first: Tensor, second: Tensor) -> Tensor:
        """The row of a bigram, by a hash of its two word ids; bigrams with the same hash share a row."""
        mixed = (first * 1_000_003 + second) * 2_654_435_761
        return (mixed ^ (mixed >> 15)) % self.bigrams.num_embeddings  # type: ignore[union-attr]


class SummingTransformer(nn.Module):
    """A transformer whose embedding is the sum of the words' states divided by the square root of their number."""

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        dim = config.hidden_size
        self.words = nn.Embedding(config.vocab_size, dim, padding_idx=config.pad_token_id)
        layer = nn.TransformerEncoderLayer(
            dim, config.num_attention_heads, config.intermediate_size, config.dropout, batch_first=True,
            norm_first=True,
        )  # fmt: skip
        self.layers = nn.TransformerEncoder(layer, config.num_layers, nn.LayerNorm(dim), enable_nested_tensor=False)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Embeddings `[N, h]` of word ids `[N, L]`."""
        words = self.words(ids)
        half = torch.arange(words.shape[-1] // 2, device=ids.device)
        angles = torch.arange(ids.shape[1], device=ids.device)[:, None] / 1e4 ** (half / len(half))
        states = words + torch.cat([angles.sin(), angles.cos()], 1).to(words.dtype)
        padding = mask == 0
        padding = padding & ~padding.all(1, keepdim=True)  # attention over nothing is NaN
        states = self.layers(states, src_key_padding_mask=padding)
        real = mask.to(states.dtype)
        summed: Tensor = (states * real[..., None]).sum(1)
        return summed / real.sum(1, keepdim=True).clamp(min=1).sqrt()
