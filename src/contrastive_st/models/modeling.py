"""The mixin that turns an encoder of transformers into a contrastive sentence encoder."""

from __future__ import annotations

import contextlib
import logging
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig
from transformers.modeling_outputs import BaseModelOutputWithPooling

from contrastive_st.errors import InputError
from contrastive_st.models.buckets import in_buckets
from contrastive_st.models.contrastive import ContrastiveOutput, ForCL
from contrastive_st.models.cutoff import draw_cutoff, scaled_output
from contrastive_st.models.dropout import use_integer_dropout
from contrastive_st.models.pooling import needs_all_layers, pool
from contrastive_st.models.settings import ContrastiveSettings, apply_settings, is_plain_encoder

logger = logging.getLogger(__name__)


class ContrastiveMixin(ForCL):
    """Views from tokens, and a contrastive loss from views, over any encoder of transformers.

    The projection head (Linear + Tanh over the first token) *is* the backbone's pooler, so a checkpoint with
    `pooling="cls"` opens with plain `AutoModel` and its `pooler_output` is the sentence embedding. A family without
    a pooler has no such slot and takes every pooling but `cls`.
    """

    backbone_class: ClassVar[Any]
    mlm_class: ClassVar[Any]
    settings_class = ContrastiveSettings
    length_bucketing = True
    bucket_options: ClassVar[dict[str, Any]] = {}  # for contrastive_st.models.buckets.bucket_rows
    _keys_to_ignore_on_load_missing: ClassVar[list[str]] = [r"\.pooler\.dense\.", r"^objective_head\."]
    _keys_to_ignore_on_load_unexpected: ClassVar[list[str]] = [
        r"^(cls|lm_head|head|decoder|classifier|pre_classifier|vocab_transform|vocab_layer_norm|vocab_projector)\."
    ]

    def __init__(self, config: PreTrainedConfig, **settings: Any) -> None:
        plain = is_plain_encoder(config)
        pooling = apply_settings(config, settings, ContrastiveSettings).pooling
        if needs_all_layers(pooling):
            config.output_hidden_states = True  # so that every loader sees the layers this pooling reads
        super().__init__(config)  # type: ignore[call-arg]
        self.starts_from_plain_encoder = plain
        setattr(self, self.base_model_prefix, self.backbone_class(config))
        use_integer_dropout(self.backbone)
        if self.projection is None and pooling == "cls":
            raise InputError(
                f"{config.model_type} has no pooler to hold the projection head, so pooling 'cls' would be lost "
                "on AutoModel; choose cls_before_pooler, mean, max, avg_first_last, avg_top2 or last"
            )
        self._freeze_unused()
        if self.settings.do_mlm:
            self._add_mlm_head()
        self.add_head()
        self.post_init()

    # ------------------------------------------------------------------ the two halves

    def embed(self, input_ids: Tensor, attention_mask: Tensor | None = None, **other: Tensor | None) -> Tensor:
        """Encode token ids `[..., L]` to embeddings `[..., d]`; `[B, V, L]` gives views `[B, V, d]`."""
        if not self.length_bucketing:
            return super().embed(input_ids, attention_mask, **other)
        batch = self._rows(input_ids, attention_mask, **other)
        encode = lambda **rows: self._encode(**rows).pooler_output
        embeddings = in_buckets(encode, self.get_input_embeddings(), batch, **self.bucket_options)
        return embeddings.view(*input_ids.shape[:-1], -1)

    # ------------------------------------------------------------------ transformers' contract

    def forward(  # type: ignore[override]
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        targets: Tensor | None = None,
        mlm_input_ids: Tensor | None = None,
        mlm_labels: Tensor | None = None,
        **keys: Any,
    ) -> BaseModelOutputWithPooling | ContrastiveOutput:
        """As `ForCL.forward`, and an auxiliary masked-language-model loss.

        Args:
            input_ids: token ids `[N, L]` or `[B, V, L]`, padded on the right.
            attention_mask: 1 on real tokens; all ones when absent.
            token_type_ids: as in BERT; ignored by families that have none.
            targets: what the objective wants beside the views, from the collator.
            mlm_input_ids: `[B, V, L]` masked copies for the auxiliary loss (`do_mlm`).
            mlm_labels: the masked ids, -100 elsewhere.
            keys: `key_views` and `past`, as in `ForCL.forward`.
        """
        output = super().forward(input_ids, attention_mask, targets, token_type_ids=token_type_ids, **keys)
        if mlm_input_ids is not None and mlm_labels is not None and self.settings.do_mlm:
            output.loss = output.loss + self.settings.mlm_weight * self._mlm_loss(
                mlm_input_ids, attention_mask, token_type_ids, mlm_labels
            )
        return output

    @classmethod
    def from_pretrained(cls, name: Any, *args: Any, new_head: bool | None = None, **kwargs: Any) -> Any:
        """Open any encoder checkpoint of the family, this package's and both published SimCSE layouts included.

        Args:
            name: folder or Hub name.
            new_head: initialise the projection head anew; by default when the checkpoint is a plain encoder
                (`BertForMaskedLM` and the like), whose pooler was trained for another task or not at all.
            kwargs: settings such as `pooling="mean"`, or anything `PreTrainedModel.from_pretrained` takes.
        """
        prefix = cls.base_model_prefix
        layout = {r"^mlp\.dense\.": f"{prefix}.pooler.dense."}
        if prefix == "bert":
            layout[r"^lm_head\."] = "cls.predictions."
        loaded = super().from_pretrained(name, *args, key_mapping=kwargs.pop("key_mapping", layout), **kwargs)  # type: ignore[misc]
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model._freeze_unused()  # transformers makes every weight that it loads trainable
        if model.settings.pooling == "cls" and (model.starts_from_plain_encoder if new_head is None else new_head):
            model.init_head()
            logger.info("the projection head is newly initialised")
        return loaded

    def _freeze_unused(self) -> None:
        """Poolings without the head keep it, so that AutoModel opens cleanly; it is no part of the embedding."""
        if self.projection is not None and self.settings.pooling != "cls":
            self.projection.requires_grad_(False)

    def init_head(self) -> None:
        """Draw new weights for the projection head."""
        with torch.no_grad():
            self.projection.dense.weight.normal_(0.0, self.config.initializer_range)
            self.projection.dense.bias.zero_()

    def drop_mlm_head(self) -> None:
        """Forget the head of the auxiliary loss: a finished encoder is saved without it."""
        for name in [
            name
            for name, _ in self.named_children()
            if self.settings.do_mlm and name not in (self.base_model_prefix, "objective_head")
        ]:
            delattr(self, name)
        self._tied_weights_keys = None
        apply_settings(self.config, {"do_mlm": False}, ContrastiveSettings)

    def drop_heads(self) -> None:
        """Forget the heads of the objective and of the auxiliary loss."""
        super().drop_heads()
        self.drop_mlm_head()

    @property
    def backbone(self) -> nn.Module:
        """The encoder of transformers inside."""
        return getattr(self, self.base_model_prefix)

    @property
    def projection(self) -> Any:
        """The projection head: the backbone's pooler, where the family has one."""
        return getattr(self.backbone, "pooler", None)

    @property
    def uses_head(self) -> bool:
        """Whether the embedding of the present mode goes through the head."""
        return self.settings.pooling == "cls" and (self.training or not self.settings.mlp_only_train)

    # ------------------------------------------------------------------ inside

    def _rows(self, input_ids: Tensor, attention_mask: Tensor | None, **other: Tensor | None) -> dict[str, Tensor]:
        if getattr(self.config, "type_vocab_size", 0) <= 1:
            other.pop("token_type_ids", None)
        return super()._rows(input_ids, attention_mask, **other)

    def _encode(self, attention_mask: Tensor, **rows: Tensor) -> BaseModelOutputWithPooling:
        if needs_all_layers(self.settings.pooling):
            rows["output_hidden_states"] = True  # type: ignore[assignment]
        settings = self.settings
        cut: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if settings.cutoff and self.training:
            width = self.config.hidden_size
            factors, attention_mask = draw_cutoff(attention_mask, width, settings.cutoff, settings.cutoff_ratio)
            cut = scaled_output(self.backbone.get_submodule("embeddings"), factors)
        with cut:
            output = self.backbone(attention_mask=attention_mask, **rows)
        layers = output.hidden_states if needs_all_layers(self.settings.pooling) else [output.last_hidden_state]
        embedding = output.pooler_output if self.uses_head else pool(layers, attention_mask, self.settings.pooling)
        return BaseModelOutputWithPooling(last_hidden_state=output.last_hidden_state, pooler_output=embedding)

    def _add_mlm_head(self) -> None:
        template = self.mlm_class(self.config)
        for name, module in template.named_children():
            if name != self.base_model_prefix:
                setattr(self, name, module)
        self._tied_weights_keys = template._tied_weights_keys

    def get_output_embeddings(self) -> nn.Module | None:
        """The vocabulary matrix of the MLM head, tied to the input embeddings; None without one."""
        return self.mlm_class.get_output_embeddings(self) if self.settings.do_mlm else None

    def mlm_logits(self, hidden: Tensor) -> Tensor:
        """Vocabulary scores `[n, vocabulary]` of token states `[n, d]`, by the family's own MLM head."""
        raise NotImplementedError

    def _mlm_loss(
        self, input_ids: Tensor, attention_mask: Tensor | None, token_type_ids: Tensor | None, labels: Tensor
    ) -> Tensor:
        rows = self._rows(input_ids, attention_mask, token_type_ids=token_type_ids)
        masked = labels.flatten(0, -2) != -100
        hidden = self.backbone(**rows).last_hidden_state[masked]  # the head sees only what is to be predicted
        if not len(hidden):
            return self.mlm_logits(hidden).sum()  # zero, with every parameter in its graph as DDP expects
        return functional.cross_entropy(self.mlm_logits(hidden).float(), labels.flatten(0, -2)[masked])
