"""`ContrastiveMixin`, which turns encoders of transformers into contrastive models."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import MODEL_MAPPING, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling

from contrastive_st.buckets import few_lengths, in_buckets, in_order, row_lengths, training_buckets
from contrastive_st.errors import InputError
from contrastive_st.files.reading import JsonObject
from contrastive_st.losses import TSDAELoss
from contrastive_st.losses.functional import normalize
from contrastive_st.models.adapters import attach, has_adapter, save_adapter
from contrastive_st.models.base import ForCL, attend_by_length
from contrastive_st.models.configuration import ContrastiveConfig, is_plain_encoder
from contrastive_st.models.poolings import POOLINGS, WITHOUT_HEAD, Pooling
from contrastive_st.models.saving import weights_as
from contrastive_st.models.words import Inputs, Rows, VectorDecoder, Words, cross_entropies, row_index
from contrastive_st.speed import switch
from contrastive_st.speed.attention import training_attention
from contrastive_st.speed.dropout import use_integer_dropout
from contrastive_st.speed.packing import PackedRows

if TYPE_CHECKING:
    from peft import PeftConfig

logger = logging.getLogger(__name__)
_UNUSED = {"pooler", "contact_head", "embed_positions"}


class ContrastiveMixin(ForCL):
    """Turns an encoder of transformers into a contrastive model.

    `from_pretrained` opens any checkpoint of the family, including those of this package and both published SimCSE
    layouts. The projection head (Linear + Tanh over the first token) *is* the backbone's pooler. So a checkpoint with
    `pooling="cls"` opens in plain `AutoModel`, and its `pooler_output` is the sentence embedding. A family without a
    pooler supports every pooling except `cls`.

    The layers after the pooling, `after`, are part of the model: dense layers and `Normalize`, as the settings `dense`
    and `normalize` say. They are trained with the encoder.
    """

    backbone_class: ClassVar[type[PreTrainedModel]]
    mlm_class: ClassVar[type[PreTrainedModel]]
    settings_class = ContrastiveConfig
    takes_lengths = True
    length_bucketing = True
    #: Whether rows are packed in training (`PackedRows`), instead of padded in buckets; by default on a CPU, and the
    #: Trainer sets it on a GPU in half precision
    unpadded: bool | None = None
    packable: ClassVar[bool] = True  # whether attention sees all tokens of a row, and nothing but their states
    decodes: ClassVar[bool] = False  # whether the states of an encoder-decoder are those of its decoder
    pooled: ClassVar[bool] = False  # whether the backbone's pooler is a Linear and Tanh over the first token
    words: ClassVar[Sequence[str] | None] = ("lm_head",)  # from states of tokens to scores of words, if that is known
    embedding_width: ClassVar[str] = "hidden_size"  # where the config has the width of the embedding layer
    layout: ClassVar[Mapping[str, str]] = {r"^mlp\.dense\.": "{prefix}.pooler.dense."}  # of SimCSE
    bucket_options: ClassVar[dict[str, float]] = {}  # of `bucket_rows`, in place of those of the device
    _keys_to_ignore_on_load_missing: set[str] | list[str] | None = [r"\.pooler\.", r"^(loss_head|after)\."]

    def __init__(self, config: PreTrainedConfig, **settings: object) -> None:
        plain = is_plain_encoder(config)
        parsed = self.parse_settings(config, settings)
        if len(POOLINGS[parsed.pooling].layers) > 1:
            config.output_hidden_states = True  # so that every loader returns the layers that this pooling reads
        if self.decodes:
            config.use_cache = False  # an embedding needs only one forward pass
        super().__init__(config)
        self.settings, self.starts_from_plain_encoder = parsed, plain
        setattr(self, self.base_model_prefix, self.backbone_class(config))
        if self.encoder_alone():
            _drop_decoder(getattr(self, self.base_model_prefix))
        use_integer_dropout(self.backbone)
        attend_by_length(self.backbone)
        self.after = final_layers(config.hidden_size, parsed.dense, parsed.normalize)
        if self.projection is None and parsed.pooling == "cls":
            raise InputError(
                f"{config.model_type} has no pooler to hold the projection head, so pooling 'cls' would be lost "
                f"on AutoModel; choose {WITHOUT_HEAD}"
            )
        self._freeze_unused()
        if self.writes_words:
            self._add_words_head(config)
        self.add_head()
        if self.writes_words and not self.settings.do_mlm:
            self.loss_head = VectorDecoder(config, self.embedding_dim)
        self.post_init()

    def _add_words_head(self, config: PreTrainedConfig) -> None:
        if self.words is None:
            raise InputError(
                f"the MLM head of {config.model_type} is not known here, which do_mlm and TSDAE need; leave them "
                "out, or choose a model like BERT"
            )
        template = self.mlm_class(config)
        for name, module in template.named_children():
            if name != self.base_model_prefix:
                setattr(self, name, module)
        self._tied_weights_keys = template._tied_weights_keys

    # ------------------------------------------------------------------ encoding

    def embed(self, input_ids: Tensor, attention_mask: Tensor | None = None, **other: Any) -> Tensor:
        """Encode token ids `[..., L]` to embeddings `[..., d]`; `[B, V, L]` gives views `[B, V, d]`."""
        batch = self._rows(input_ids, attention_mask, **other)
        encode = lambda **rows: cast("Tensor", self._encode(**rows).pooler_output)
        # NEFTune, with which the Trainer adds noise to word embeddings, depends on the length of the batch
        noisy = hasattr(self.get_input_embeddings(), "neftune_noise_alpha")
        if not self.length_bucketing or noisy or self.packs(batch.get("lengths")):
            embeddings: Tensor = encode(**batch)
        else:
            batch |= self._places(batch["input_ids"])
            options = training_buckets(input_ids.device, self.bucket_options)
            embeddings = in_buckets(encode, self.get_input_embeddings(), batch, self.positions, **options)
        return embeddings.view(*input_ids.shape[:-1], -1)

    def check_words(self) -> None:
        """Raise `InputError` for a family without a table of word embeddings, such as CANINE, which is not trained."""
        try:
            self.get_input_embeddings()
        except NotImplementedError:
            raise InputError(
                f"{self.config.model_type} has no table of word embeddings, which training needs; it only encodes, so "
                "train a model of another family"
            ) from None

    @property
    def positions(self) -> int | None:
        """The most tokens that a row may be padded to; None if the model sets no limit."""
        most, padding = getattr(self.config, "max_position_embeddings", None), self._padding_position()
        return most if most is None or padding is None else most - padding - 1

    def _padding_position(self) -> int | None:
        """The position of padding in RoBERTa and similar models, whose positions start after it; else None."""
        positions = getattr(getattr(self.backbone, "embeddings", None), "position_embeddings", None)
        return getattr(positions, "padding_idx", None)

    def _places(self, input_ids: Tensor) -> dict[str, Tensor]:
        """Position ids for RoBERTa and similar models, which derive them from ids and cannot from embeddings."""
        padding = self._padding_position()
        if padding is None:
            return {}
        counted = input_ids.ne(padding)
        return {"position_ids": counted.cumsum(-1) * counted + padding}

    # ------------------------------------------------------------------ methods that transformers calls

    def after_loading(self, new_head: bool | None) -> None:
        """Freeze what no embedding depends on, and draw a new projection head if one is asked for or needed."""
        self._freeze_unused()  # transformers makes every weight that it loads trainable
        if self.has_trained_head and (self.starts_from_plain_encoder if new_head is None else new_head):
            self.init_head()
            logger.info("the projection head is newly initialised")

    def save_pretrained(self, save_directory: str | Path, **kwargs: Any) -> None:  # type: ignore[override]
        """As `ForCL.save_pretrained`; of a model with an adapter, only the adapter is saved."""
        if not has_adapter(self):
            super().save_pretrained(save_directory, **kwargs)
        elif kwargs.get("is_main_process", True):
            with weights_as(self, self.save_dtype, kwargs):
                save_adapter(self, save_directory, kwargs.get("state_dict"))
                self.write_other_loaders(save_directory, kwargs.get("state_dict"))
        kind = type(self)
        if not kind.__module__.startswith("contrastive_st.") and MODEL_MAPPING.get(type(self.config), None) is not kind:
            _say_that_code_is_missing(kind.__name__)

    def add_adapter(self, adapter_config: PeftConfig, adapter_name: str = "default") -> None:  # type: ignore[override]
        """Freeze the encoder and add a LoRA adapter to it, in place, as transformers does; see `add_lora`.

        Args:
            adapter_config: peft's `LoraConfig`.
            adapter_name: its name.

        Raises:
            InputError: as for `add_lora`.
        """
        attach(self, adapter_config, adapter_name)

    def _freeze_unused(self) -> None:
        """Freeze what no embedding depends on, such as an unused pooler, and positions that are sines.

        It is kept so that AutoModel finds all weights.
        """
        used = {id(weight) for weight in self.backbone.parameters()}
        parts = _UNUSED - {"pooler"} if self.has_trained_head else _UNUSED
        for name, weight in getattr(self, self.base_model_prefix).named_parameters():
            if id(weight) not in used or parts & set(name.split(".")):
                weight.requires_grad_(False)

    def init_head(self) -> None:
        """Draw new weights for the projection head."""
        with torch.no_grad():
            self.projection.dense.weight.normal_(0.0, self.config.initializer_range)
            self.projection.dense.bias.zero_()

    def head_parameters(self) -> list[nn.Parameter]:
        """The weights of the heads of the loss and over the vocabulary, except those shared with the encoder."""
        inside = {id(weight) for weight in (*self.backbone.parameters(), *self.after.parameters())}
        return [weight for weight in self.parameters() if weight.requires_grad and id(weight) not in inside]

    def drop_mlm_head(self) -> None:
        """Remove the head of the auxiliary loss, before the trained encoder is saved."""
        kept = (self.base_model_prefix, "after", "loss_head")
        for name in [name for name, _ in self.named_children() if self.writes_words and name not in kept]:
            delattr(self, name)
        self._tied_weights_keys = None  # type: ignore[assignment]
        self.change_settings(do_mlm=False)

    def drop_heads(self) -> None:
        """Remove the heads of the loss and of the auxiliary loss; what training added to its loss is switched off."""
        self.drop_mlm_head()
        super().drop_heads()
        self.change_settings(**self.settings.without_methods())

    @property
    def backbone(self) -> nn.Module:
        """The encoder of transformers inside this model."""
        # `backbone` itself in Mamba
        module = cast("PreTrainedModel", dict(self.named_children())[self.base_model_prefix])
        return module.get_encoder() if self.config.is_encoder_decoder and not self.decodes else module

    def encoder_alone(self, as_published: bool = False) -> dict[str, str]:
        """Names of weights, as patterns, and those in the encoder's class, which sentence-transformers opens.

        Args:
            as_published: names in the base of an adapter too, which is often a whole model as it was published.

        Returns:
            The names; none if that class is the one that is saved, as T5EncoderModel. In a group `(?:`, or transformers
            would write what sentence-transformers saves again under the former names.
        """
        whole = getattr(self, self.base_model_prefix)
        if self.backbone is not getattr(whole, "encoder", None) or type(whole).__name__.endswith("EncoderModel"):
            return {}
        if not as_published:
            return {rf"^(?:{self.base_model_prefix}\.encoder\.)": ""}
        start, tied = rf"^(?:(?:{self.base_model_prefix}\.)?", whole._tied_weights_keys.items()
        shared = {rf"{start}{re.escape(of)}$)": name.removeprefix("encoder.") for of, name in tied}
        return {rf"{start}encoder\.)": "", **shared}

    @property
    def projection(self) -> Any:
        """The projection head, which is the backbone's pooler; None if the family has none."""
        return getattr(self.backbone, "pooler", None) if self.pooled else None

    @property
    def embedding_dim(self) -> int:
        """Dimension of the embeddings: that of the last dense layer after the pooling, else of the encoder."""
        dense = self.settings.dense
        return int(dense[-1]["out_features"]) if dense else super().embedding_dim

    @property
    def takes_types(self) -> bool:
        """Whether the types of tokens decide its vectors."""
        return getattr(self.config, "type_vocab_size", 0) > 1 or self.config.model_type == "xlnet"

    @property
    def uses_head(self) -> bool:
        """Whether the embedding goes through the head in the current mode (training or evaluation)."""
        return self.settings.pooling == "cls" and (self.training or not self.settings.mlp_only_train)

    @property
    def has_trained_head(self) -> bool:
        """Whether the views in training go through the head."""
        return self.projection is not None and self.settings.pooling == "cls"

    # ------------------------------------------------------------------ inside

    def _rows(self, input_ids: Tensor, attention_mask: Tensor | None, *args: Any, **other: Any) -> Inputs:
        if not self.takes_types:
            other.pop("token_type_ids", None)
        return super()._rows(input_ids, attention_mask, *args, **other)

    def _encode(
        self,
        attention_mask: Tensor,
        text_mask: Tensor | None = None,
        lengths: NDArray[np.int64] | None = None,
        **rows: Any,
    ) -> BaseModelOutputWithPooling:
        settings, pooling = self.settings, POOLINGS[self.settings.pooling]
        all_layers = len(pooling.layers) > 1
        if all_layers:
            rows["output_hidden_states"] = True
        packed: PackedRows | None = None
        if "input_ids" in rows and lengths is not None and self.packs(lengths):  # and no bucket of others
            packed, output = self._encode_packed(attention_mask, lengths, rows)
        else:
            cut: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
            if settings.cutoff and self.training:
                width: int = getattr(self.config, self.embedding_width)
                factors, attention_mask = draw_cutoff(attention_mask, width, settings.cutoff, settings.cutoff_ratio)
                scale = lambda _, inputs, output: output * factors.to(output.dtype)
                cut = self.backbone.get_submodule("embeddings").register_forward_hook(scale)  # until the block ends
            # a compiled model takes masks with padding alone, in all batches
            padded: bool | None = None  # not known
            if lengths is not None:
                holes = self.backbone._compiled_call_impl is not None or bool(settings.cutoff)
                padded = holes or bool((lengths < attention_mask.shape[1]).any())
            kernels, attends = self.training and not self._recomputes, cast("PreTrainedConfig", self.backbone.config)
            usual = padded is None and not kernels
            with cut, contextlib.nullcontext() if usual else training_attention(attends, None, padded, kernels):
                output = self.backbone(attention_mask=attention_mask, **rows)
        # of the layers that end in the last state: in an encoder-decoder, those of its decoder
        states, weights = (output.get(name, output.get(f"decoder_{name}")) for name in ("hidden_states", "attentions"))
        layers = states if all_layers else [output.last_hidden_state]
        pooled = attention_mask if text_mask is None else attention_mask * text_mask
        if self.uses_head:
            embedding = output.pooler_output
        elif packed is not None and packed.exact:  # sums over padding would be rounded otherwise
            embedding = _pooled_by_length(pooling, layers, pooled, packed)
        else:
            embedding = pooling.of(layers, pooled)
        return BaseModelOutputWithPooling(
            last_hidden_state=output.last_hidden_state, pooler_output=self.after(embedding),
            hidden_states=states, attentions=weights,
        )  # fmt: skip

    def _encode_packed(
        self, attention_mask: Tensor, lengths: NDArray[np.int64], rows: Inputs
    ) -> tuple[PackedRows, Any]:
        exact, kernels = not self.training and self.device.type == "cpu", self.training and not self._recomputes
        packed = PackedRows(lengths, attention_mask.shape[1], attention_mask.device, exact)
        ids: Tensor = rows["input_ids"]
        rows = {"position_ids": torch.arange(ids.shape[1], device=ids.device).expand(ids.shape), **rows}
        rows |= self._places(ids)
        with training_attention(cast("PreTrainedConfig", self.backbone.config), packed, kernels=kernels):
            output = self.backbone(**{name: packed.pack(x) if isinstance(x, Tensor) else x for name, x in rows.items()})
            output.last_hidden_state = packed.unpack(output.last_hidden_state)
            if output.get("hidden_states") is not None:
                output.hidden_states = tuple(packed.unpack(states) for states in output.hidden_states)
            if self.projection is not None:
                output.pooler_output = self.projection(output.last_hidden_state)
        return packed, output

    @property
    def can_pack(self) -> bool:
        """Whether `unpadded` does anything: in families whose attention sees whole rows, computed by torch."""
        config = cast("PreTrainedConfig", self.backbone.config)
        of_layers = (getattr(part, "config", config) for part in self.backbone.children())
        shared = all(other is config for other in of_layers)  # or layers do not attend as `training_attention` says
        return self.packable and config._attn_implementation == "sdpa" and shared and switch.on

    @property
    def _recomputes(self) -> bool:
        """Whether layers run again in the backward pass (activation checkpointing), outside of all contexts."""
        return any(getattr(module, "gradient_checkpointing", False) for module in self.backbone.modules())

    def packs(self, lengths: NDArray[np.int64] | None) -> bool:
        """Whether these rows are computed as one row of their tokens: their places must be known, without holes."""
        if lengths is None or not lengths.all():
            return False
        if not self.training and lengths.min() == lengths.max():  # rows without padding have the same bits unpacked
            tokens = int(lengths.sum())
            if few_lengths(tokens) == tokens:
                return False
        if int(lengths.max()) > self.most_packed:
            return False
        noisy = hasattr(self.get_input_embeddings(), "neftune_noise_alpha")
        return not (self.training and (self.settings.cutoff or self._recomputes or noisy))

    @property
    def most_packed(self) -> int:
        """Most tokens of a row that is packed; 0 if rows are not packed."""
        on_cpu = self.device.type == "cpu"
        asked = (self.length_bucketing and on_cpu) if self.unpadded is None else self.unpadded
        packs = asked and self.can_pack and (self.training or on_cpu)
        if not packs or self.backbone._compiled_call_impl is not None:  # which is for rows that are not packed
            return 0
        within = getattr(self.config, "sliding_window", None)  # tokens to either side, in some layers
        return 1 << 30 if within is None else int(within) + 1

    def get_output_embeddings(self) -> nn.Module | None:
        """The vocabulary matrix of the MLM head, tied to the input embeddings; None without one."""
        return self.mlm_class.get_output_embeddings(self) if self.writes_words else None

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        """Replace the vocabulary matrix of the MLM head."""
        self.mlm_class.set_output_embeddings(self, new_embeddings)

    @property
    def writes_words(self) -> bool:
        """Whether there is a head over the vocabulary: for the auxiliary loss, or for TSDAE until heads are dropped."""
        tsdae = isinstance(self.settings.loss, TSDAELoss) and self.settings.with_head
        return self.settings.do_mlm or tsdae

    def words_of(self, batch: Inputs) -> Words | None:
        """The masked words of the auxiliary loss (`do_mlm`), or with TSDAE those of the whole sentences."""
        if isinstance(self.settings.loss, TSDAELoss):
            return self._words_of_sentences(batch)
        masked = self.settings.do_mlm and batch.get("mlm_targets") is not None
        return self._masked_words(batch) if masked else None

    def _words_of_sentences(self, batch: Inputs) -> Words:
        targets: Tensor | None = batch.get("targets")
        if targets is None or targets.dim() != 2 or batch["input_ids"].shape[1] != 1:
            raise InputError("tsdae needs both a part of each sentence and the whole sentence; use DeletionCollator")
        if not self.settings.with_head:
            raise InputError("this encoder was saved without its decoder; open it with with_head=True to train")
        sentences, written = targets, row_lengths(targets[:, 1:] != -100, batch.get("predicted"))

        def sum_of(vectors: Tensor, rows: Rows) -> Tensor:
            ids, counts = sentences[row_index(rows, sentences.device)], written[slice(None) if rows is None else rows]
            states = self.loss_head(self.backbone, ids[:, :-1].clamp(min=0), vectors)
            return cross_entropies(self.mlm_logits, states, ids[:, 1:], int(counts.sum()))

        return Words(1.0, int(written.sum()), sum_of)

    def _masked_words(self, batch: Inputs) -> Words:
        labels, all_lengths = batch["mlm_targets"].flatten(0, -2), batch.get("lengths")
        attends = cast("PreTrainedConfig", self.backbone.config)
        predicted = row_lengths(batch["mlm_targets"] != -100, batch.get("predicted")).reshape(-1)
        texts = self._rows(
            batch["mlm_input_ids"], batch.get("attention_mask"), token_type_ids=batch.get("token_type_ids")
        )

        def sum_of(vectors: Tensor, rows: Rows) -> Tensor:
            index, of_host = row_index(rows, labels.device), slice(None) if rows is None else rows
            lengths = None if all_lengths is None else all_lengths.reshape(-1)[of_host]
            width = labels.shape[1] if rows is None or lengths is None else int(lengths.max())
            padded = None if lengths is None else bool((lengths < width).any())
            with training_attention(attends, padded=padded):
                states = self.backbone(**{name: x[index, :width] for name, x in texts.items()}).last_hidden_state
            return cross_entropies(self.mlm_logits, states, labels[index, :width], int(predicted[of_host].sum()))

        return Words(self.settings.mlm_weight, int(predicted.sum()), sum_of)

    def mlm_logits(self, hidden: Tensor) -> Tensor:
        """Vocabulary scores `[n, vocabulary]` of token states `[n, d]`, from the family's MLM head."""
        if hasattr(self, "lm_predictions"):  # the later head of DeBERTa reads the word embeddings, too
            return self.lm_predictions(hidden, self.get_input_embeddings())  # type: ignore[no-any-return]
        for name in self.words or ():
            hidden = getattr(self, name)(hidden)
        return hidden


def _drop_decoder(whole: PreTrainedModel) -> None:
    """Remove the decoder, on which no vector depends; word embeddings are saved under the name of the encoder's."""
    del whole.decoder
    tied = {of: name for name, of in (whole._tied_weights_keys or {}).items() if name.startswith("encoder.")}
    whole._tied_weights_keys = whole.all_tied_weights_keys = tied


@cache  # once, and not for each checkpoint
def _say_that_code_is_missing(kind: str) -> None:
    logger.warning(
        f"a folder has the weights of {kind}, and not its code: open it with {kind}.from_pretrained, or register "
        f"{kind} and a model_type for it (AutoModel.register)"
    )


# --- Layers after the pooling: dense layers with their activations, and `Normalize`.


class Normalize(nn.Module):
    """Divides vectors by their lengths, in float32 or wider."""

    def forward(self, x: Tensor) -> Tensor:
        """`[N, d] -> [N, d]`."""
        return normalize(x)


def final_layers(dim: int, dense: Sequence[JsonObject], normalized: bool) -> nn.Sequential:
    """The layers from the pooled vector to the embedding: `Linear` and activation for each dense layer, `Normalize`.

    Args:
        dim: dimension of the pooled vector.
        dense: the settings of the dense layers.
        normalized: whether `Normalize` is last.

    Example:
        >>> dense = {"out_features": 4, "bias": True, "activation": "Tanh"}
        >>> vectors = final_layers(16, [dense], True)(torch.ones(2, 16))
        >>> [round(length, 4) for length in vectors.norm(dim=1).tolist()]
        [1.0, 1.0]
    """
    layers = nn.Sequential()
    for layer in dense:
        linear = nn.Linear(dim, layer["out_features"], bias=layer["bias"])
        layers.extend([linear, getattr(nn, layer["activation"])()])
        dim = layer["out_features"]
    if normalized:
        layers.append(Normalize())
    return layers


def _pooled_by_length(pooling: Pooling, layers: Sequence[Tensor], mask: Tensor, packed: PackedRows) -> Tensor:
    """The vectors of packed rows, from rows of one length at a time, without padding."""
    vectors = [
        pooling.of([states[rows, :length] for states in layers], mask[rows, :length]) for rows, length in packed.groups
    ]
    return in_order(vectors, [rows for rows, _ in packed.groups])


# --- Cutoff (Shen et al. 2020, https://arxiv.org/abs/2009.13818): set parts of a sentence's embedding matrix to zero.


def draw_cutoff(attention_mask: Tensor, width: int, kind: str, ratio: float) -> tuple[Tensor, Tensor]:
    """Draw a random cutoff: factors `[N, L, 1]` or `[N, 1, width]` of the embeddings, and the new attention mask.

    In a row of n tokens, `int(n * ratio)` different tokens are cut, never the first ([CLS]). With the kind `feature`,
    `int(width * ratio)` features are cut, the same for all tokens. Cut tokens are not attended to; cut features do not
    change the mask. The numbers come from torch's default generator: the same state gives the same cutoff.

    Args:
        attention_mask: `[N, L]`, padded on the right.
        width: number of features of the embeddings.
        kind: `token`, `span` or `feature`.
        ratio: share of the tokens or features to cut.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> factors, mask = draw_cutoff(torch.tensor([[1, 1, 1, 1, 1, 0]]), 8, "span", 0.4)
        >>> factors[0, :, 0].tolist(), mask.tolist()
        ([1.0, 1.0, 0.0, 0.0, 1.0, 0.0], [[1, 1, 0, 0, 1, 0]])
    """
    rows, length = attention_mask.shape
    device = attention_mask.device
    if kind == "feature":
        ranks = torch.rand(rows, width, device=device).argsort(1).argsort(1)
        return (ranks >= int(width * ratio))[:, None].float(), attention_mask
    tokens = attention_mask.sum(1, keepdim=True)
    count = (tokens * ratio + 1e-6).long()  # 30 * 0.1 is 3, in float32 too
    places = torch.arange(length, device=device)
    if kind == "span":
        start = 1 + (torch.rand(rows, 1, device=device) * (tokens - count)).long()
        cut = (places >= start) & (places < start + count)
    else:
        free = (attention_mask != 0) & (places > 0)
        draws = torch.rand(rows, length, device=device).masked_fill(~free, 2.0)
        cut = draws.argsort(1).argsort(1) < count
    mask = attention_mask * ~cut
    return mask[..., None].float(), mask
