"""The QuickThoughts encoder. Saved beside checkpoints: it imports torch and transformers alone."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import can_return_tuple

from .configuration_quickthoughts import QuickThoughtsConfig
from .packing_quickthoughts import PackedGRU, PackedLSTM, Packing


class QuickThoughtsModel(PreTrainedModel):
    """Two sentence encoders f and g, whose outputs side by side are the sentence embedding `[f; g]`.

    A sentence without words has the embedding zero. Padding takes no part in any product.

    Example:
        >>> model = QuickThoughtsModel(QuickThoughtsConfig(vocab_size=50, embedding_size=4, hidden_size=8)).eval()
        >>> ids = torch.tensor([[2, 7, 8], [9, 0, 0], [0, 0, 0]])
        >>> output = model(ids, attention_mask=(ids > 0).long())
        >>> output.pooler_output.shape, output.last_hidden_state.shape
        (torch.Size([3, 16]), torch.Size([3, 3, 16]))
    """

    config_class = QuickThoughtsConfig
    base_model_prefix = ""
    main_input_name = "input_ids"

    def __init__(self, config: QuickThoughtsConfig) -> None:
        super().__init__(config)
        size, pad = config.embedding_size, config.pad_token_id
        if config.word_vectors != "frozen":  # the vectors for f and for g stand side by side in a row
            width = size if config.shared_embeddings else 2 * size
            self.word_embeddings = nn.Embedding(config.vocab_size, width, padding_idx=pad)
        if config.word_vectors != "trained":
            self.frozen_embeddings = nn.Embedding(config.vocab_size, size, padding_idx=pad)
        self.f, self.g = Tower(config), Tower(config)
        self.post_init()
        self._freeze()

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """As `PreTrainedModel.from_pretrained`, which makes every loaded weight a trained one; not the frozen table."""
        loaded = super().from_pretrained(*args, **kwargs)
        (loaded[0] if isinstance(loaded, tuple) else loaded)._freeze()
        return loaded

    @can_return_tuple
    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> BaseModelOutputWithPooling:
        """Encode rows of word ids `[N, L]`.

        Args:
            input_ids: word ids, padded anywhere.
            attention_mask: not zero on real words; every word is one when absent.

        Returns:
            `pooler_output [N, 2h]`, the embeddings, and `last_hidden_state [N, L, 2h]`, the states of f and of g side
            by side, zero on padding.
        """
        return self.encode(input_ids, torch.ones_like(input_ids) if attention_mask is None else attention_mask)

    def encode(self, input_ids: Tensor, attention_mask: Tensor, states: bool = True) -> BaseModelOutputWithPooling:
        """As `forward`; without `states` the padded states are not made."""
        packing = Packing(attention_mask)
        words_f, words_g = self._look_up(input_ids.flatten()[packing.source])
        (states_f, f), (states_g, g) = self.f(words_f, packing), self.g(words_g, packing)
        return BaseModelOutputWithPooling(
            last_hidden_state=packing.unpack(torch.cat([states_f, states_g], dim=-1)) if states else None,
            pooler_output=torch.cat([f, g], dim=-1),
        )

    def set_word_vectors(self, vectors: Tensor) -> None:
        """Put vectors `[V, embedding_size]` into the frozen table where there is one, else into both trained ones.

        The pad row becomes zero. A frozen or trained table of another length gives way to one of V rows; with
        `multichannel` the length must be that of the model.

        Raises:
            ValueError: the width or, with `multichannel`, the length is not the model's.
        """
        config = self.config
        table = self.word_embeddings if config.word_vectors == "trained" else self.frozen_embeddings
        fits = vectors.dim() == 2 and vectors.shape[1] == config.embedding_size
        if not fits or (config.word_vectors == "multichannel" and len(vectors) != config.vocab_size):
            wanted = f"[{config.vocab_size}, {config.embedding_size}]"
            raise ValueError(f"word vectors are {list(vectors.shape)}; this model takes {wanted}")
        copies = table.embedding_dim // config.embedding_size
        values = vectors.detach().to(table.weight).repeat(1, copies)
        values[config.pad_token_id] = 0
        table.weight = nn.Parameter(values, requires_grad=table.weight.requires_grad)
        table.num_embeddings = config.vocab_size = len(values)

    def get_input_embeddings(self) -> nn.Embedding:
        """The trained word table, the vectors of f and g side by side; the frozen one where no other is."""
        return self.frozen_embeddings if self.config.word_vectors == "frozen" else self.word_embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace what `get_input_embeddings` gives."""
        if self.config.word_vectors == "frozen":
            self.frozen_embeddings = value.requires_grad_(False)
        else:
            self.word_embeddings = value

    def _freeze(self) -> None:
        if self.config.word_vectors != "trained":
            self.frozen_embeddings.requires_grad_(False)

    def _look_up(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Word ids `[T]` to the vectors that f and that g reads, each `[T, d]`."""
        towers: list[list[Tensor]] = [[], []]
        if self.config.word_vectors != "trained":
            frozen = self.frozen_embeddings(ids)
            towers = [[frozen], [frozen]]
        if self.config.word_vectors != "frozen":
            trained = self.word_embeddings(ids)
            halves = (trained, trained) if self.config.shared_embeddings else trained.chunk(2, dim=-1)
            towers = [[*channels, half] for channels, half in zip(towers, halves, strict=True)]
        first, second = (torch.cat(channels, dim=-1) for channels in towers)
        return first, second

    def _init_weights(self, module: nn.Module) -> None:
        init_weights(module, self.config.initializer_range)


@torch.no_grad()
def init_weights(module: nn.Module, span: float) -> None:
    """Draw new weights: word vectors and recurrent weights uniform in plus or minus `span`."""
    if isinstance(module, nn.Embedding):
        if not getattr(module.weight, "_is_hf_initialized", False):
            nn.init.uniform_(module.weight, -span, span)
            if module.padding_idx is not None:
                module.weight[module.padding_idx] = 0
    elif isinstance(module, nn.GRU | nn.LSTM):
        for name, weight in module.named_parameters():
            _ = nn.init.zeros_(weight) if name.startswith("bias") else nn.init.uniform_(weight, -span, span)
    elif isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.LayerNorm):
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)


class Tower(nn.Module):
    """One sentence encoder: packed word vectors `[T, d]` to states `[T, h]` and embeddings `[N, h]`."""

    def __init__(self, config: QuickThoughtsConfig) -> None:
        super().__init__()
        self.config = config
        self.dropout = nn.Dropout(config.dropout)
        width = config.embedding_size * (2 if config.word_vectors == "multichannel" else 1)
        if config.encoder == "transformer":
            self.encoder: nn.Module = PackedTransformer(width, config)
        else:
            self.encoder = (PackedGRU if config.encoder == "gru" else PackedLSTM)(
                width,
                config.hidden_size // (1 + config.bidirectional),
                config.num_layers,
                bidirectional=config.bidirectional,
                dropout=config.dropout if config.num_layers > 1 else 0.0,
            )

    def forward(self, words: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
        states = self.encoder(self.dropout(words), packing)
        return states, self.dropout(packing.rows(self._read_out(states, packing)))

    def _read_out(self, states: Tensor, packing: Packing) -> Tensor:
        if self.config.readout == "max":
            return packing.pad(states, float("-inf")).amax(1) if len(states) else states
        if self.config.readout == "mean":
            exact = states.to(torch.promote_types(states.dtype, torch.float32))
            sums = exact.new_zeros(len(packing.order), states.shape[1]).index_add(0, packing.rank, exact)
            return (sums / packing.lengths[:, None]).to(states.dtype)
        last = states[packing.last]
        if self.config.bidirectional and self.config.encoder != "transformer":
            half = states.shape[1] // 2  # the backward half has read everything at the first word
            last = torch.cat([last[:, :half], states[: len(last), half:]], dim=-1)
        return last


class PackedTransformer(nn.Module):
    """A small pre-norm transformer on packed words `[T, d]`; attention alone sees the padded batch."""

    def __init__(self, width: int, config: QuickThoughtsConfig) -> None:
        super().__init__()
        self.config = config
        self.project, self.norm = nn.Linear(width, config.hidden_size), nn.LayerNorm(config.hidden_size)
        if config.positions == "learned":
            self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(TransformerLayer(config) for _ in range(config.num_layers))
        self.last_norm = nn.LayerNorm(config.hidden_size)

    def forward(self, words: Tensor, packing: Packing) -> Tensor:
        steps = len(packing.sizes)
        mask = packing.pad(words.new_ones(len(words), 1))[:, None, None, :, 0] > 0  # [n, 1, 1, steps]
        states = self.norm(self.project(words))
        states = states + self._positions(steps, states)[packing.cell % max(steps, 1)]
        for layer in self.layers:
            states = layer(self.dropout(states), packing, mask)
        return self.last_norm(states)

    def _positions(self, steps: int, like: Tensor) -> Tensor:
        if self.config.positions == "learned":
            if steps > self.config.max_position_embeddings:
                limit = self.config.max_position_embeddings
                raise ValueError(f"a sentence of {steps} words; this model has learned {limit} positions: truncate")
            return self.position_embeddings.weight[:steps]
        exact = torch.promote_types(like.dtype, torch.float32)
        half = torch.arange(like.shape[1] // 2, device=like.device, dtype=exact)
        angles = torch.arange(steps, device=like.device)[:, None] * torch.exp(half * (-math.log(1e4) / len(half)))
        return torch.cat([angles.sin(), angles.cos()], dim=1).to(like.dtype)


class TransformerLayer(nn.Module):
    """Self-attention and a feed-forward layer, each behind a layer norm and beside a shortcut."""

    def __init__(self, config: QuickThoughtsConfig) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.heads = config.num_attention_heads
        self.norm, self.inner_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, states: Tensor, packing: Packing, mask: Tensor) -> Tensor:
        padded = packing.pad(self.qkv(self.norm(states)))
        query, key, value = padded.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        states = states + self.dropout(self.out(seen.transpose(1, 2).flatten(2).flatten(0, 1)[packing.cell]))
        return states + self.dropout(self.narrow(functional.gelu(self.widen(self.inner_norm(states)))))
