"""One class an encoder family; everything they share is in `ContrastiveMixin`."""

from __future__ import annotations

from torch import Tensor
from transformers import (
    BertForMaskedLM,
    BertModel,
    BertPreTrainedModel,
    DistilBertForMaskedLM,
    DistilBertModel,
    DistilBertPreTrainedModel,
    ModernBertForMaskedLM,
    ModernBertModel,
    ModernBertPreTrainedModel,
    MPNetForMaskedLM,
    MPNetModel,
    MPNetPreTrainedModel,
    RobertaForMaskedLM,
    RobertaModel,
    RobertaPreTrainedModel,
    XLMRobertaForMaskedLM,
    XLMRobertaModel,
    XLMRobertaPreTrainedModel,
)

from contrastive_st.models.modeling import ContrastiveMixin


class BertForCL(ContrastiveMixin, BertPreTrainedModel):
    """Contrastive BERT.

    Example:
        >>> import torch
        >>> from transformers import BertConfig
        >>> shape = dict(vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
        >>> model = BertForCL(BertConfig(**shape), pooling="mean").eval()
        >>> ids = torch.tensor([[2, 7, 8, 3], [2, 9, 3, 0]])
        >>> model(ids, attention_mask=(ids > 0).long()).pooler_output.shape  # sentences in, embeddings out
        torch.Size([2, 8])
        >>> model(ids[:, None].repeat(1, 2, 1)).loss.shape  # [B, V, L] in, loss out
        torch.Size([])
    """

    base_model_prefix = "bert"
    backbone_class, mlm_class = BertModel, BertForMaskedLM

    def mlm_logits(self, hidden: Tensor) -> Tensor:
        return self.cls(hidden)


class RobertaForCL(ContrastiveMixin, RobertaPreTrainedModel):
    """Contrastive RoBERTa; see `BertForCL`."""

    base_model_prefix = "roberta"
    backbone_class, mlm_class = RobertaModel, RobertaForMaskedLM

    def mlm_logits(self, hidden: Tensor) -> Tensor:
        return self.lm_head(hidden)


class XLMRobertaForCL(ContrastiveMixin, XLMRobertaPreTrainedModel):
    """Contrastive XLM-RoBERTa; see `BertForCL`."""

    base_model_prefix = "roberta"
    backbone_class, mlm_class = XLMRobertaModel, XLMRobertaForMaskedLM

    def mlm_logits(self, hidden: Tensor) -> Tensor:
        return self.lm_head(hidden)


class MPNetForCL(ContrastiveMixin, MPNetPreTrainedModel):
    """Contrastive MPNet; see `BertForCL`."""

    base_model_prefix = "mpnet"
    backbone_class, mlm_class = MPNetModel, MPNetForMaskedLM

    def mlm_logits(self, hidden: Tensor) -> Tensor:
        return self.lm_head(hidden)


class DistilBertForCL(ContrastiveMixin, DistilBertPreTrainedModel):
    """Contrastive DistilBERT; it has no pooler, so every pooling but `cls`."""

    base_model_prefix = "distilbert"
    backbone_class, mlm_class = DistilBertModel, DistilBertForMaskedLM

    def mlm_logits(self, hidden: Tensor) -> Tensor:
        return self.vocab_projector(self.vocab_layer_norm(self.activation(self.vocab_transform(hidden))))


class ModernBertForCL(ContrastiveMixin, ModernBertPreTrainedModel):
    """Contrastive ModernBERT; it has no pooler, so every pooling but `cls`."""

    base_model_prefix = "model"
    backbone_class, mlm_class = ModernBertModel, ModernBertForMaskedLM

    def mlm_logits(self, hidden: Tensor) -> Tensor:
        return self.decoder(self.head(hidden))


FAMILIES = (BertForCL, RobertaForCL, XLMRobertaForCL, MPNetForCL, DistilBertForCL, ModernBertForCL)
