"""Encoders over word vectors that are trained by labelled pairs and by several tasks: InferSent's and USE's."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.modeling_outputs import BaseModelOutputWithPooling

from contrastive_st.models.contrastive import ForCL
from contrastive_st.models.infersent import InferSentConfig, InferSentModel
from contrastive_st.models.remote import CarriesCode, register
from contrastive_st.models.settings import ObjectiveSettings, apply_settings
from contrastive_st.models.universal import UniversalConfig, UniversalModel


@register
class InferSentBiLSTM(CarriesCode, ForCL, InferSentModel):
    """InferSent (Conneau et al. 2017): a max-pooled BiLSTM, by default trained to classify pairs.

    The classifier reads `[u; v; |u - v|; u * v]`; it is dropped when the encoder is finished (`drop_heads`).

    Args:
        config: widths and word vectors.
        settings: of the objective, such as `head_hidden=512`; see `contrastive_st.models.settings`.

    Example:
        >>> import torch
        >>> model = InferSentBiLSTM(InferSentConfig(vocab_size=50, embedding_size=4, hidden_size=8))
        >>> ids = torch.tensor([[[2, 7], [8, 9]], [[5, 6], [4, 3]]])  # two pairs
        >>> model(ids, targets=torch.tensor([0, 2])).loss.shape
        torch.Size([])
    """

    code_class = InferSentModel
    _keys_to_ignore_on_load_missing = [r"^objective_head\."]

    def __init__(self, config: InferSentConfig, **settings: Any) -> None:
        if not hasattr(config, "contrastive"):
            settings = {"objective": "classification", "parts": ("u", "v", "abs(u-v)", "u*v"), **settings}
        apply_settings(config, settings, ObjectiveSettings)
        super().__init__(config)
        self.add_head()

    def _encode(self, input_ids: Tensor, attention_mask: Tensor) -> BaseModelOutputWithPooling:  # type: ignore[override]
        return self.encode(input_ids, attention_mask)


@register
class UniversalSentenceEncoder(CarriesCode, ForCL, UniversalModel):
    """Universal Sentence Encoder (Cer et al. 2018): one encoder for several tasks with heads of their own.

    Args:
        config: `UniversalConfig(encoder="dan")`, the deep averaging network, or `encoder="transformer"`.
        settings: of the objective, such as `objective="multi_task", tasks={...}`.

    Example:
        >>> import torch
        >>> config = UniversalConfig(vocab_size=50, embedding_size=4, hidden_size=8, bigram_buckets=30)
        >>> tasks = {"answers": {"objective": "info_nce"}, "nli": {"objective": "classification"}}
        >>> model = UniversalSentenceEncoder(config, objective="multi_task", tasks=tasks)
        >>> ids = torch.tensor([[[2, 7], [8, 9]], [[5, 6], [4, 3]]])  # two pairs
        >>> model(ids, targets=torch.tensor([[1, 0], [1, 2]])).loss.shape  # of task 1: labels 0 and 2
        torch.Size([])
    """

    code_class = UniversalModel
    _keys_to_ignore_on_load_missing = [r"^objective_head\."]

    def __init__(self, config: UniversalConfig, **settings: Any) -> None:
        apply_settings(config, settings, ObjectiveSettings)
        super().__init__(config)
        self.add_head()

    def _encode(self, input_ids: Tensor, attention_mask: Tensor) -> BaseModelOutputWithPooling:  # type: ignore[override]
        return self.encode(input_ids, attention_mask)
