"""One class per encoder family of transformers; what they share is in `ContrastiveMixin`."""

from __future__ import annotations

from torch import Tensor, nn
from transformers import (
    BertForMaskedLM,
    BertModel,
    BertPreTrainedModel,
    CamembertForMaskedLM,
    CamembertModel,
    CamembertPreTrainedModel,
    DebertaV2ForMaskedLM,
    DebertaV2Model,
    DebertaV2PreTrainedModel,
    DistilBertForMaskedLM,
    DistilBertModel,
    DistilBertPreTrainedModel,
    ElectraForMaskedLM,
    ElectraModel,
    ElectraPreTrainedModel,
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

    citation = """
@inproceedings{devlin2019bert,
  title = {{BERT}: Pre-training of Deep Bidirectional Transformers for Language Understanding},
  author = {Devlin, Jacob and Chang, Ming-Wei and Lee, Kenton and Toutanova, Kristina},
  booktitle = {North American Chapter of the Association for Computational Linguistics},
  year = {2019}
}
"""
    base_model_prefix = "bert"
    backbone_class, mlm_class = BertModel, BertForMaskedLM
    cls: nn.Module

    def mlm_logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.cls(hidden)
        return logits


class RobertaForCL(ContrastiveMixin, RobertaPreTrainedModel):
    """Contrastive RoBERTa; see `BertForCL`."""

    citation = """
@misc{liu2019roberta,
  title = {{RoBERTa}: A Robustly Optimized {BERT} Pretraining Approach},
  author = {Liu, Yinhan and Ott, Myle and Goyal, Naman and Du, Jingfei and Joshi, Mandar and Chen, Danqi and Levy,
    Omer and Lewis, Mike and Zettlemoyer, Luke and Stoyanov, Veselin},
  note = {arXiv:1907.11692},
  year = {2019}
}
"""
    base_model_prefix = "roberta"
    backbone_class, mlm_class = RobertaModel, RobertaForMaskedLM


class XLMRobertaForCL(ContrastiveMixin, XLMRobertaPreTrainedModel):
    """Contrastive XLM-RoBERTa; see `BertForCL`."""

    citation = r"""
@inproceedings{conneau2020unsupervised,
  title = {Unsupervised Cross-lingual Representation Learning at Scale},
  author = {Conneau, Alexis and Khandelwal, Kartikay and Goyal, Naman and Chaudhary, Vishrav and Wenzek, Guillaume
    and Guzm{\'a}n, Francisco and Grave, Edouard and Ott, Myle and Zettlemoyer, Luke and Stoyanov, Veselin},
  booktitle = {Association for Computational Linguistics},
  year = {2020}
}
"""
    base_model_prefix = "roberta"
    backbone_class, mlm_class = XLMRobertaModel, XLMRobertaForMaskedLM


class MPNetForCL(ContrastiveMixin, MPNetPreTrainedModel):
    """Contrastive MPNet; see `BertForCL`."""

    citation = """
@inproceedings{song2020mpnet,
  title = {{MPNet}: Masked and Permuted Pre-training for Language Understanding},
  author = {Song, Kaitao and Tan, Xu and Qin, Tao and Lu, Jianfeng and Liu, Tie-Yan},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2020}
}
"""
    base_model_prefix = "mpnet"
    packable = False  # its attention adds a bias for the distance of two tokens
    backbone_class, mlm_class = MPNetModel, MPNetForMaskedLM


class DistilBertForCL(ContrastiveMixin, DistilBertPreTrainedModel):
    """Contrastive DistilBERT, which has no pooler and so supports every pooling except `cls`."""

    citation = """
@misc{sanh2019distilbert,
  title = {{DistilBERT}, a distilled version of {BERT}: smaller, faster, cheaper and lighter},
  author = {Sanh, Victor and Debut, Lysandre and Chaumond, Julien and Wolf, Thomas},
  note = {arXiv:1910.01108},
  year = {2019}
}
"""
    base_model_prefix = "distilbert"
    backbone_class, mlm_class = DistilBertModel, DistilBertForMaskedLM
    activation: nn.Module
    vocab_transform: nn.Module
    vocab_layer_norm: nn.Module
    vocab_projector: nn.Module

    def mlm_logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.vocab_projector(self.vocab_layer_norm(self.activation(self.vocab_transform(hidden))))
        return logits


class ModernBertForCL(ContrastiveMixin, ModernBertPreTrainedModel):
    """Contrastive ModernBERT, which has no pooler and so supports every pooling except `cls`."""

    citation = r"""
@misc{warner2024smarter,
  title = {Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder for Fast, Memory Efficient, and Long
    Context Finetuning and Inference},
  author = {Warner, Benjamin and Chaffin, Antoine and Clavi{\'e}, Benjamin and Weller, Orion and Hallstr{\"o}m,
    Oskar and Taghadouini, Said and Gallagher, Alexis and Biswas, Raja and Ladhak, Faisal and Aarsen, Tom and
    Cooper, Nathan and Adams, Griffin and Howard, Jeremy and Poli, Iacopo},
  note = {arXiv:2412.13663},
  year = {2024}
}
"""
    base_model_prefix = "model"
    backbone_class, mlm_class = ModernBertModel, ModernBertForMaskedLM
    head: nn.Module
    decoder: nn.Module

    def mlm_logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.decoder(self.head(hidden))
        return logits


class CamembertForCL(ContrastiveMixin, CamembertPreTrainedModel):
    """Contrastive CamemBERT; see `BertForCL`."""

    citation = r"""
@inproceedings{martin2020camembert,
  title = {{CamemBERT}: a Tasty {French} Language Model},
  author = {Martin, Louis and Muller, Benjamin and Ortiz Su{\'a}rez, Pedro Javier and Dupont, Yoann and Romary,
    Laurent and de la Clergerie, {\'E}ric and Seddah, Djam{\'e} and Sagot, Beno{\^i}t},
  booktitle = {Annual Meeting of the Association for Computational Linguistics},
  year = {2020}
}
"""
    base_model_prefix = "roberta"
    backbone_class, mlm_class = CamembertModel, CamembertForMaskedLM


class ElectraForCL(ContrastiveMixin, ElectraPreTrainedModel):
    """Contrastive ELECTRA, which has no pooler and so supports every pooling except `cls`."""

    citation = """
@inproceedings{clark2020electra,
  title = {{ELECTRA}: Pre-training Text Encoders as Discriminators Rather Than Generators},
  author = {Clark, Kevin and Luong, Minh-Thang and Le, Quoc V. and Manning, Christopher D.},
  booktitle = {International Conference on Learning Representations},
  year = {2020}
}
"""
    base_model_prefix = "electra"
    backbone_class, mlm_class = ElectraModel, ElectraForMaskedLM
    _keys_to_ignore_on_load_unexpected = [
        r"^(after|loss_head|generator_predictions|generator_lm_head|discriminator_predictions)\."
    ]
    generator_predictions: nn.Module
    generator_lm_head: nn.Module

    @property
    def cutoff_dim(self) -> int:
        width: int = self.config.embedding_size  # they are projected to the hidden size later
        return width

    def mlm_logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.generator_lm_head(self.generator_predictions(hidden))
        return logits


class DebertaV2ForCL(ContrastiveMixin, DebertaV2PreTrainedModel):
    """Contrastive DeBERTa-v2 and v3, which have no pooler and so support every pooling except `cls`."""

    citation = """
@inproceedings{he2021deberta,
  title = {{DeBERTa}: Decoding-enhanced {BERT} with Disentangled Attention},
  author = {He, Pengcheng and Liu, Xiaodong and Gao, Jianfeng and Chen, Weizhu},
  booktitle = {International Conference on Learning Representations},
  year = {2021}
}
"""
    base_model_prefix = "deberta"
    packable = False  # its attention adds a bias for the distance of two tokens
    backbone_class, mlm_class = DebertaV2Model, DebertaV2ForMaskedLM
    _keys_to_ignore_on_load_unexpected = [
        r"^(after|loss_head|cls|lm_predictions|mask_predictions|pooler|classifier)\.", "position_embeddings",
    ]  # fmt: skip
    cls: nn.Module
    lm_predictions: nn.Module

    def mlm_logits(self, hidden: Tensor) -> Tensor:
        if self.config.legacy:
            logits: Tensor = self.cls(hidden)
        else:
            logits = self.lm_predictions(hidden, self.get_input_embeddings())
        return logits


FAMILIES = (
    BertForCL, RobertaForCL, XLMRobertaForCL, CamembertForCL, MPNetForCL, DistilBertForCL, ElectraForCL, DebertaV2ForCL,
    ModernBertForCL,
)  # fmt: skip
