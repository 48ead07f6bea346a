"""The QuickThoughts encoder. This file is saved with checkpoints, so it imports only torch and transformers."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import can_return_tuple

CHOICES = {
    "encoder": ("gru", "lstm", "transformer", "mean"),
    "readout": ("last", "max", "mean"),
    "word_vectors": ("trained", "frozen", "multichannel"),
    "positions": ("sinusoidal", "learned"),
    "towers": (1, 2),
}


class QuickThoughtsConfig(PreTrainedConfig):
    """Two sentence encoders f and g over word vectors (Logeswaran and Lee, 2018, https://arxiv.org/abs/1803.02893).

    Args:
        vocab_size: rows of every word table, pad and unk included.
        embedding_size: dimension of a word vector.
        hidden_size: dimension of one tower's output; the sentence embedding `[f; g]` is twice as wide.
        encoder: `gru`, `lstm`, `transformer`, or `mean`: the average of the word vectors, whose dimension is then the
            `hidden_size` and whose `readout` is `mean`.
        bidirectional: recurrent towers read in both directions, with half of `hidden_size` for each.
        num_layers: number of layers of a tower.
        readout: how a tower pools its states: the `last` one (of each direction), their `max` or their `mean`.
        word_vectors: `trained`; `frozen`, one table for both towers; or `multichannel`, a frozen and a trained vector
            of each word, concatenated.
        shared_embeddings: whether f and g share their trained vectors.
        towers: 2, or 1: f alone, which serves as g too; the embedding is then f.
        word_weights: whether every word vector is multiplied by a weight of its word, which is not trained; the weights
            are 1 until `set_word_weights` is called.
        dropout: dropout of a tower's word vectors, between its layers and of its output.
        num_attention_heads: number of heads of a transformer tower.
        intermediate_size: inner dimension of the feed-forward layers of a transformer tower.
        positions: positions of a transformer tower: `sinusoidal` (any length) or `learned`.
        max_position_embeddings: longest sentence for learned positions, in words.
        initializer_range: word vectors and recurrent weights are initialised uniformly in plus or minus this.
        pad_token_id: the row of the word tables that stays zero.

    Raises:
        ValueError: an unknown choice, or a `hidden_size` that cannot be divided among heads or directions.

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
        towers: int = 2,
        word_weights: bool = False,
        **kwargs: object,
    ) -> None:
        if encoder == "mean":
            hidden_size, readout = embedding_size * (2 if word_vectors == "multichannel" else 1), "mean"
            if bidirectional or num_layers != 1:
                raise ValueError("an average of word vectors has no directions and no layers; give one layer")
        self.towers, self.word_weights = towers, word_weights
        self.vocab_size, self.embedding_size, self.hidden_size = vocab_size, embedding_size, hidden_size
        self.encoder, self.bidirectional, self.num_layers, self.readout = encoder, bidirectional, num_layers, readout
        self.word_vectors, self.shared_embeddings = word_vectors, shared_embeddings
        self.dropout, self.initializer_range = dropout, initializer_range
        self.num_attention_heads, self.intermediate_size = num_attention_heads, intermediate_size
        self.positions, self.max_position_embeddings = positions, max_position_embeddings
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                names = ", ".join(map(str, allowed))
                raise ValueError(f"unknown {name} {getattr(self, name)!r}; choose one of {names}")
        heads = num_attention_heads if encoder == "transformer" else 1 + bidirectional
        if hidden_size % heads or (encoder == "transformer" and positions == "sinusoidal" and hidden_size % 2):
            raise ValueError(f"hidden_size {hidden_size} cannot be split over {heads} heads or directions, or is odd")
        super().__init__(pad_token_id=pad_token_id, **kwargs)  # type: ignore[arg-type, call-arg]

    @property
    def projection_dim(self) -> int:
        """Dimension of the sentence embedding `[f; g]`, under the name that sentence-transformers reads."""
        return self.towers * self.hidden_size


# --- Batches without padding, and a GRU over them.


class Packing:
    """The order of a `PackedSequence` for the T real words of a batch, with rows in descending order of length.

    The first words of all rows come first, then all second words, and so on. Padding may be anywhere in a row. Rows
    without words are left out.

    Args:
        attention_mask: `[N, L]`, not zero on real words.
        lengths: an array `[N]` with the number of words of each row, if the host knows it and rows are padded on the
            right; then the host need not wait for the device.

    Example:
        >>> packing = Packing(torch.tensor([[1, 0, 0], [1, 1, 1], [0, 0, 0]]))
        >>> packing.source.tolist(), packing.sizes.tolist()
        ([3, 0, 4, 5], [2, 1, 1])
    """

    def __init__(self, attention_mask: Tensor, lengths: Any = None) -> None:
        if lengths is None:
            self._place(attention_mask != 0)
            return
        self._place(torch.arange(attention_mask.shape[1]) < torch.from_numpy(lengths)[:, None])
        for name, value in list(vars(self).items()):
            if isinstance(value, Tensor):
                setattr(self, name, value.to(attention_mask.device, non_blocking=True))

    def _place(self, mask: Tensor) -> None:
        self.shape = mask.shape
        lengths = mask.sum(1)
        self.order = lengths.argsort(descending=True, stable=True)[: int((lengths > 0).sum())]  # [n], longest first
        self.lengths = lengths[self.order]
        steps = torch.arange(int(self.lengths[0]) if len(self.lengths) else 0, device=mask.device)
        self.sizes = (self.lengths > steps[:, None]).sum(1)  # [steps] rows that have a word there
        starts = self.sizes.cumsum(0) - self.sizes
        rank = torch.zeros_like(lengths)
        rank[self.order] = torch.arange(len(self.order), device=mask.device)
        row, column = mask.nonzero(as_tuple=True)
        step = (mask.cumsum(1) - 1)[row, column]
        position = starts[step] + rank[row]
        back = position.argsort()
        self.source = (row * mask.shape[1] + column)[back]  # [T] places in the flat batch
        self.rank, step = rank[row][back], step[back]  # [T] place of the row in `order`
        self.cell = self.rank * len(steps) + step  # [T] places in the flat `pad`
        self.flip = starts[self.lengths[self.rank] - 1 - step] + self.rank  # [T] the same rows read backwards
        self.last = starts[self.lengths - 1] + torch.arange(len(self.order), device=mask.device)  # [n]

        self.size_list: list[int] = self.sizes.tolist()

    def pad(self, packed: Tensor, value: float = 0.0) -> Tensor:
        """Unpack `[T, d]` to `[n, steps, d]`, with the rows in the order of `order`."""
        rows, steps, dim = len(self.order), len(self.sizes), packed.shape[1]
        return packed.new_full((rows * steps, dim), value).index_copy(0, self.cell, packed).view(rows, steps, dim)

    def unpack(self, packed: Tensor) -> Tensor:
        """Unpack `[T, d]` to the shape of the batch, `[N, L, d]`, zero on padding."""
        flat = packed.new_zeros(self.shape.numel(), packed.shape[1]).index_copy(0, self.source, packed)
        return flat.view(*self.shape, packed.shape[1])

    def rows(self, vectors: Tensor) -> Tensor:
        """Put a vector for each row of `order`, `[n, d]`, into the batch order, `[N, d]`; empty rows get zeros."""
        return vectors.new_zeros(self.shape[0], vectors.shape[1]).index_copy(0, self.order, vectors)


class PackedGRU(nn.GRU):
    """`nn.GRU` on packed words `[T, d]`: the same parameters, values and gradients, faster on a CPU.

    The input projection and the gradient of the recurrent weight are one product each, where torch adds up the gradient
    step by step. Under bf16 autocast the products are in bf16 and the state stays in float32.
    """

    def forward(self, words: Tensor, packing: Packing) -> Tensor:  # type: ignore[override]
        """The states `[T, h]` of packed words `[T, d]`."""
        if words.device.type != "cpu":
            return run_packed(super().forward, words, packing)
        sizes = packing.size_list
        for layer in range(self.num_layers):
            if layer:
                words = functional.dropout(words, self.dropout, self.training)
            read = [self._read(words, sizes, f"l{layer}")]
            if self.bidirectional:
                read.append(self._read(words[packing.flip], sizes, f"l{layer}_reverse")[packing.flip])
            words = torch.cat(read, dim=1)
        return words

    def _read(self, words: Tensor, sizes: list[int], name: str) -> Tensor:
        inputs, recurrent = (
            (getattr(self, f"weight_{kind}_{name}"), getattr(self, f"bias_{kind}_{name}")) for kind in ("ih", "hh")
        )
        half = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else words.dtype
        states: Tensor = _Recurrence.apply(functional.linear(words, *inputs), *recurrent, sizes, half)
        return states


class PackedLSTM(nn.LSTM):
    """`nn.LSTM` on packed words `[T, d]`."""

    def forward(self, words: Tensor, packing: Packing) -> Tensor:  # type: ignore[override]
        """The states `[T, h]` of packed words `[T, d]`."""
        return run_packed(super().forward, words, packing)


def run_packed(module: Callable[..., tuple[PackedSequence, object]], words: Tensor, packing: Packing) -> Tensor:
    """Run one of torch's recurrent modules on packed words `[T, d]`."""
    if not len(words):
        words = torch.cat([words, words.new_zeros(1, words.shape[1])])  # torch refuses a batch without words
        return module(PackedSequence(words, torch.ones(1, dtype=torch.long)))[0].data[:0]
    return module(PackedSequence(words, torch.tensor(packing.size_list)))[0].data


sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward


class _Recurrence(torch.autograd.Function):
    """The states `[T, h]` of a GRU layer, from its projected inputs `[T, 3h]` (reset, update, new)."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, sizes: list[int], product: torch.dtype
    ) -> Tensor:
        dim = weight.shape[1]
        exact = torch.promote_types(weight.dtype, torch.float32)
        states = inputs.new_empty(len(inputs), dim, dtype=exact)
        before = inputs.new_empty(len(inputs), dim, dtype=product)  # the state that each step starts from
        seen, new = inputs.new_empty(len(inputs), 3 * dim, dtype=product), torch.empty_like(before)
        weight_, bias_ = weight.to(product), bias.to(product)
        state, start = states.new_zeros(sizes[0] if sizes else 0, dim), 0
        for size in sizes:
            at = slice(start, start + size)
            part, gates = inputs[at], torch.addmm(bias_, before[at].copy_(state[:size]), weight_.T, out=seen[at])
            gates[:, : 2 * dim].add_(part[:, : 2 * dim]).sigmoid_()
            reset, update, hidden = gates.chunk(3, 1)
            torch.addcmul(part[:, 2 * dim :], reset, hidden, out=new[at]).tanh_()
            state = torch.lerp(new[at].to(exact), state[:size], update.to(exact), out=states[at])
            start += size
        ctx.save_for_backward(weight_, seen, new, before, states)
        ctx.sizes, ctx.parameter = sizes, weight.dtype
        return states.to(weight.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weight, seen, new, before, states = ctx.saved_tensors
        dim, end = weight.shape[1], len(grad)
        d_inputs, d_seen = torch.empty_like(seen), torch.empty_like(seen)
        carried = states.new_zeros(0, dim)
        for step in reversed(range(len(ctx.sizes))):
            size = ctx.sizes[step]
            at = slice(end - size, end)
            end -= size
            d_state = grad[at].to(states.dtype, copy=True)
            d_state[: len(carried)] += carried
            reset, update, hidden = seen[at].to(states.dtype).chunk(3, 1)
            proposed = new[at].to(states.dtype)
            state = states[end - ctx.sizes[step - 1] :][:size] if step else torch.zeros_like(d_state)
            kept = d_state * update
            d_new = tanh_backward(d_state - kept, proposed)
            d_seen[at, :dim] = sigmoid_backward(d_new * hidden, reset)
            d_seen[at, dim : 2 * dim] = sigmoid_backward((state - proposed).mul_(d_state), update)
            d_inputs[at, : 2 * dim] = d_seen[at, : 2 * dim]
            d_inputs[at, 2 * dim :] = d_new
            d_seen[at, 2 * dim :] = d_new.mul_(reset)
            if step:
                carried = kept.add_(d_seen[at] @ weight)
        d_weight = (d_seen.T @ before).to(ctx.parameter)
        return d_inputs, d_weight, d_seen.sum(0).to(ctx.parameter), None, None


class WordModel(PreTrainedModel):
    """Base of encoders over word vectors, whose frozen vectors stay frozen when they are opened."""

    base_model_prefix = ""
    main_input_name = "input_ids"
    encode: Callable[..., BaseModelOutputWithPooling]

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """As `PreTrainedModel.from_pretrained`, but frozen word vectors stay frozen."""
        loaded = super().from_pretrained(*args, **kwargs)
        (loaded[0] if isinstance(loaded, tuple) else loaded)._freeze()
        return loaded

    @can_return_tuple
    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> BaseModelOutputWithPooling:
        """Encode rows of word ids `[N, L]`.

        Args:
            input_ids: word ids, padded anywhere.
            attention_mask: not zero on real words; by default all words are real.

        Returns:
            `pooler_output [N, d]`, the embeddings, and `last_hidden_state [N, L, d]`, the states, zero on padding.
        """
        return self.encode(input_ids, torch.ones_like(input_ids) if attention_mask is None else attention_mask)

    def get_input_embeddings(self) -> nn.Embedding:
        """The word table."""
        return self.word_embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:  # type: ignore[override]
        """Replace the word table."""
        self.word_embeddings = value

    def _freeze(self) -> None:
        """Freeze the word vectors that are not trained."""

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        span = self.config.initializer_range
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


class QuickThoughtsModel(WordModel):
    """Two sentence encoders f and g, whose concatenated outputs are the sentence embedding `[f; g]`.

    The embedding of a sentence without words is zero. Nothing is computed for padding.

    Example:
        >>> model = QuickThoughtsModel(QuickThoughtsConfig(vocab_size=50, embedding_size=4, hidden_size=8)).eval()
        >>> ids = torch.tensor([[2, 7, 8], [9, 0, 0], [0, 0, 0]])
        >>> output = model(ids, attention_mask=(ids > 0).long())
        >>> output.pooler_output.shape, output.last_hidden_state.shape
        (torch.Size([3, 16]), torch.Size([3, 3, 16]))
    """

    config_class = QuickThoughtsConfig
    word_weights: Tensor

    def __init__(self, config: QuickThoughtsConfig) -> None:
        super().__init__(config)
        size, pad = config.embedding_size, config.pad_token_id
        if config.word_vectors != "frozen":  # a row has the vector for f and the vector for g
            dim = size if config.shared_embeddings else config.towers * size
            self.word_embeddings = nn.Embedding(config.vocab_size, dim, padding_idx=pad)
        if config.word_vectors != "trained":
            self.frozen_embeddings = nn.Embedding(config.vocab_size, size, padding_idx=pad)
        if config.word_weights:
            self.register_buffer("word_weights", torch.ones(config.vocab_size))
        self.f = Tower(config)
        if config.towers == 2:
            self.g = Tower(config)
        self.post_init()
        self._freeze()

    def encode(
        self, input_ids: Tensor, attention_mask: Tensor, states: bool = True, lengths: Any = None
    ) -> BaseModelOutputWithPooling:
        """As `forward`, with the vectors and states of f and g concatenated.

        If not `states`, `last_hidden_state` is None. For `lengths` see `Packing`.
        """
        packing = Packing(attention_mask, lengths)
        towers = [self.f, self.g] if self.config.towers == 2 else [self.f]
        words = self._look_up(input_ids.flatten()[packing.source])
        read = [tower(vectors, packing) for tower, vectors in zip(towers, words, strict=True)]
        return BaseModelOutputWithPooling(
            last_hidden_state=packing.unpack(torch.cat([hidden for hidden, _ in read], dim=-1)) if states else None,
            pooler_output=torch.cat([embedding for _, embedding in read], dim=-1),
        )

    def set_word_vectors(self, vectors: Tensor) -> None:
        """Put vectors `[V, embedding_size]` into the frozen table if there is one, else into the trained ones.

        The row of the padding becomes zero. The table is resized to V rows; with `multichannel`, V must be the
        vocabulary size of the model.

        Raises:
            ValueError: the dimension or, with `multichannel`, the number of rows does not fit the model.
        """
        config = self.config
        table = self.word_embeddings if config.word_vectors == "trained" else self.frozen_embeddings
        fits = vectors.dim() == 2 and vectors.shape[1] == config.embedding_size
        if not fits or (config.word_vectors == "multichannel" and len(vectors) != config.vocab_size):
            expected = f"[{config.vocab_size}, {config.embedding_size}]"
            raise ValueError(f"word vectors are {list(vectors.shape)}; this model takes {expected}")
        copies = table.embedding_dim // config.embedding_size
        values = vectors.detach().to(table.weight).repeat(1, copies)
        values[config.pad_token_id] = 0
        table.weight = nn.Parameter(values, requires_grad=table.weight.requires_grad)
        table.num_embeddings = config.vocab_size = len(values)
        if config.word_weights:
            self.word_weights = torch.ones(len(values)).to(self.word_weights)

    def set_word_weights(self, weights: Tensor) -> None:
        """Multiply the vectors of each word by its weight `[V]`, in training and afterwards; see `word_weights`.

        (They are not multiplied into the table: an optimizer such as Adam moves all vectors by about the same length,
        so that small ones would soon be as long as others.)

        Raises:
            ValueError: the model has no word weights, or another number of words.
        """
        if not self.config.word_weights or weights.shape != (self.config.vocab_size,):
            raise ValueError(f"weights are {list(weights.shape)}; a model with word_weights takes one for each word")
        self.word_weights = weights.to(self.word_weights)

    def resize_token_embeddings(self, *args: object, **kwargs: object) -> nn.Embedding:
        """As `PreTrainedModel.resize_token_embeddings`, of both tables; new words have a weight of 1."""
        resized = super().resize_token_embeddings(*args, **kwargs)  # type: ignore[arg-type]
        if self.config.word_vectors == "multichannel":
            self.frozen_embeddings = self._get_resized_embeddings(self.frozen_embeddings, self.config.vocab_size)
            self._freeze()
        if self.config.word_weights:
            more = self.config.vocab_size - len(self.word_weights)
            self.word_weights = functional.pad(self.word_weights, (0, more), value=1.0)
        return resized

    def get_input_embeddings(self) -> nn.Embedding:
        """The trained word table, whose rows have the vectors of f and g; the frozen one if there is no other."""
        return self.frozen_embeddings if self.config.word_vectors == "frozen" else self.word_embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:  # type: ignore[override]
        """Replace the table that `get_input_embeddings` returns."""
        if self.config.word_vectors == "frozen":
            self.frozen_embeddings = value.requires_grad_(False)
        else:
            self.word_embeddings = value

    def _freeze(self) -> None:
        if self.config.word_vectors != "trained":
            self.frozen_embeddings.requires_grad_(False)

    def _look_up(self, ids: Tensor) -> list[Tensor]:
        """The word vectors that each tower reads for word ids `[T]`, each `[T, d]`."""
        count = self.config.towers
        towers: list[list[Tensor]] = [[] for _ in range(count)]
        if self.config.word_vectors != "trained":
            frozen = self.frozen_embeddings(ids)
            towers = [[frozen]] * count
        if self.config.word_vectors != "frozen":
            trained = self.word_embeddings(ids)
            parts = [trained] * count if self.config.shared_embeddings else trained.chunk(count, dim=-1)
            towers = [[*channels, part] for channels, part in zip(towers, parts, strict=True)]
        words = [torch.cat(channels, dim=-1) for channels in towers]
        return [vectors * self.word_weights[ids][:, None] for vectors in words] if self.config.word_weights else words


class Tower(nn.Module):
    """One sentence encoder: turns packed word vectors `[T, d]` into states `[T, h]` and embeddings `[N, h]`."""

    def __init__(self, config: QuickThoughtsConfig) -> None:
        super().__init__()
        self.config = config
        self.dropout = nn.Dropout(config.dropout)
        dim = config.embedding_size * (2 if config.word_vectors == "multichannel" else 1)
        if config.encoder == "mean":
            self.encoder: nn.Module | None = None
        elif config.encoder == "transformer":
            self.encoder = PackedTransformer(dim, config)
        else:
            kind, hidden = PackedGRU if config.encoder == "gru" else PackedLSTM, config.hidden_size
            between = config.dropout if config.num_layers > 1 else 0.0
            both = {"bidirectional": config.bidirectional, "dropout": between}
            self.encoder = kind(dim, hidden // (1 + config.bidirectional), config.num_layers, **both)

    def forward(self, words: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
        """The vectors of the rows and the states of their words."""
        states = self.dropout(words) if self.encoder is None else self.encoder(self.dropout(words), packing)
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
    """A small pre-norm transformer on packed words `[T, d]`; only attention works on the padded batch."""

    def __init__(self, dim: int, config: QuickThoughtsConfig) -> None:
        super().__init__()
        self.config = config
        self.project, self.norm = nn.Linear(dim, config.hidden_size), nn.LayerNorm(config.hidden_size)
        if config.positions == "learned":
            self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(TransformerLayer(config) for _ in range(config.num_layers))
        self.last_norm = nn.LayerNorm(config.hidden_size)

    def forward(self, words: Tensor, packing: Packing) -> Tensor:
        """The states `[T, d]` of packed words `[T, d]`."""
        steps = len(packing.sizes)
        mask = packing.pad(words.new_ones(len(words), 1))[:, None, None, :, 0] > 0  # [n, 1, 1, steps]
        states = self.norm(self.project(words))
        states = states + self._positions(steps, states)[packing.cell % max(steps, 1)]
        for layer in self.layers:
            states = layer(self.dropout(states), packing, mask)
        normed: Tensor = self.last_norm(states)
        return normed

    def _positions(self, steps: int, states: Tensor) -> Tensor:
        if self.config.positions == "learned":
            if steps > self.config.max_position_embeddings:
                limit = self.config.max_position_embeddings
                raise ValueError(f"a sentence of {steps} words; this model has learned {limit} positions: truncate")
            return self.position_embeddings.weight[:steps]
        exact = torch.promote_types(states.dtype, torch.float32)
        half = torch.arange(states.shape[1] // 2, device=states.device, dtype=exact)
        angles = torch.arange(steps, device=states.device)[:, None] * torch.exp(half * (-math.log(1e4) / len(half)))
        return torch.cat([angles.sin(), angles.cos()], dim=1).to(states.dtype)


class TransformerLayer(nn.Module):
    """Self-attention and a feed-forward layer, each with a layer norm before it and a residual connection."""

    def __init__(self, config: QuickThoughtsConfig) -> None:
        super().__init__()
        dim, inner = config.hidden_size, config.intermediate_size
        self.heads = config.num_attention_heads
        self.norm, self.inner_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.widen, self.narrow = nn.Linear(dim, inner), nn.Linear(inner, dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, states: Tensor, packing: Packing, mask: Tensor) -> Tensor:
        """The states `[T, d]` after this layer."""
        padded = packing.pad(self.qkv(self.norm(states)))
        query, key, value = padded.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        states = states + self.dropout(self.out(seen.transpose(1, 2).flatten(2).flatten(0, 1)[packing.cell]))
        total: Tensor = states + self.dropout(self.narrow(functional.gelu(self.widen(self.inner_norm(states)))))
        return total
