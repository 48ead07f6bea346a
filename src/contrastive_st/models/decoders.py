"""Contrastive sentence encoders over decoders (Qwen, Llama, Mistral, Gemma), causal or bidirectional."""

from __future__ import annotations

from typing import Any, ClassVar

from transformers import (
    Gemma2Model,
    Gemma2PreTrainedModel,
    Gemma3PreTrainedModel,
    Gemma3TextConfig,
    Gemma3TextModel,
    GemmaModel,
    GemmaPreTrainedModel,
    LlamaModel,
    LlamaPreTrainedModel,
    MistralModel,
    MistralPreTrainedModel,
    PreTrainedConfig,
    Qwen2Model,
    Qwen2PreTrainedModel,
    Qwen3Model,
    Qwen3PreTrainedModel,
)

from contrastive_st.errors import InputError
from contrastive_st.models.modeling import ContrastiveMixin


class DecoderMixin(ContrastiveMixin):
    """Uses a decoder as an encoder: pools the state of its last token, or the mean (`pooling="last"` or `"mean"`).

    Rows are padded on the right; `last` reads the last real token, which is the end token if the tokenizer adds one.
    `bidirectional=True` removes the causal mask, so that each token reads the whole text (as in LLM2Vec, BehnamGhader
    et al. 2024, https://arxiv.org/abs/2404.05961); the model must then be trained. The config records this as
    `is_causal: false`, which transformers and sentence-transformers obey.

    Args:
        config: the config of the family.
        bidirectional: attend in both directions; by default what the config says.
        settings: settings such as `pooling="mean"`.

    Raises:
        InputError: settings for encoders only (`cls`, `do_mlm`, `cutoff`, the loss `tsdae`), or an attention direction
            that the family's code does not implement exactly.
    """

    default_settings: ClassVar[dict[str, Any]] = {"loss": "info_nce", "pooling": "last"}
    packable = False  # a token sees those before it alone

    def __init__(self, config: PreTrainedConfig, *, bidirectional: bool | None = None, **settings: Any) -> None:
        before = getattr(config, "is_causal", None) is not False
        _set_direction(config, bidirectional)
        self.direction_changed = before != (getattr(config, "is_causal", None) is not False)
        config.use_cache = False  # an embedding needs only one forward pass
        super().__init__(config, **settings)

    @classmethod
    def parse_settings(cls, config: PreTrainedConfig, given: Any) -> Any:
        """As `ForCL.parse_settings`; raises `InputError` for settings that decoders do not support."""
        settings = super().parse_settings(config, given)
        for name, asked in (
            ("do_mlm", settings.do_mlm),
            ("cutoff", settings.cutoff),
            ("tsdae", settings.loss.name == "tsdae"),
        ):
            if asked:
                raise InputError(f"{name} is for encoders, and {config.model_type} is a decoder; leave it out")
        return settings


def _set_direction(config: PreTrainedConfig, bidirectional: bool | None) -> None:
    if getattr(config, "use_bidirectional_attention", None):  # a setting of Gemma
        if config.model_type != "gemma3_text":  # in other versions it only works in batches without padding
            raise InputError(
                f"transformers obeys use_bidirectional_attention of {config.model_type} in some batches only; set it "
                "to false in config.json and give bidirectional=True"
            )
        if bidirectional is False:
            raise InputError("use_bidirectional_attention of the config cannot be undone; leave bidirectional out")
    elif bidirectional is not None:
        config.is_causal = not bidirectional


class Qwen2ForCL(DecoderMixin, Qwen2PreTrainedModel):
    """Contrastive Qwen2 and Qwen2.5; see `DecoderMixin`."""

    citation = """
@misc{yang2024qwen2,
  title = {Qwen2 Technical Report},
  author = {Yang, An and others},
  note = {arXiv:2407.10671},
  year = {2024}
}
"""
    base_model_prefix = "model"
    backbone_class = Qwen2Model


class Qwen3ForCL(DecoderMixin, Qwen3PreTrainedModel):
    """Contrastive Qwen3; see `DecoderMixin`.

    Example:
        >>> import torch
        >>> from transformers import Qwen3Config
        >>> shape = dict(vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
        >>> model = Qwen3ForCL(Qwen3Config(**shape, head_dim=4, num_key_value_heads=1)).eval()
        >>> ids, mask = torch.tensor([[7, 8, 3], [9, 3, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])
        >>> model(ids, attention_mask=mask).pooler_output.shape
        torch.Size([2, 8])
    """

    citation = """
@misc{yang2025qwen3,
  title = {Qwen3 Technical Report},
  author = {Yang, An and others},
  note = {arXiv:2505.09388},
  year = {2025}
}
"""
    base_model_prefix = "model"
    backbone_class = Qwen3Model


class LlamaForCL(DecoderMixin, LlamaPreTrainedModel):
    """Contrastive Llama; see `DecoderMixin`."""

    citation = r"""
@misc{touvron2023llama,
  title = {{LLaMA}: Open and Efficient Foundation Language Models},
  author = {Touvron, Hugo and Lavril, Thibaut and Izacard, Gautier and Martinet, Xavier and Lachaux, Marie-Anne and
    Lacroix, Timoth{\'e}e and Rozi{\`e}re, Baptiste and Goyal, Naman and Hambro, Eric and Azhar, Faisal and others},
  note = {arXiv:2302.13971},
  year = {2023}
}
"""
    base_model_prefix = "model"
    backbone_class = LlamaModel


class MistralForCL(DecoderMixin, MistralPreTrainedModel):
    """Contrastive Mistral; see `DecoderMixin`."""

    citation = """
@misc{jiang2023mistral,
  title = {Mistral 7B},
  author = {Jiang, Albert Q. and Sablayrolles, Alexandre and Mensch, Arthur and Bamford, Chris and Chaplot, Devendra
    Singh and de las Casas, Diego and Bressand, Florian and Lengyel, Gianna and Lample, Guillaume and Saulnier,
    Lucile and others},
  note = {arXiv:2310.06825},
  year = {2023}
}
"""
    base_model_prefix = "model"
    backbone_class = MistralModel


class GemmaForCL(DecoderMixin, GemmaPreTrainedModel):
    """Contrastive Gemma; see `DecoderMixin`."""

    citation = """
@misc{gemma2024open,
  title = {Gemma: Open Models Based on {Gemini} Research and Technology},
  author = {{Gemma Team}},
  note = {arXiv:2403.08295},
  year = {2024}
}
"""
    base_model_prefix = "model"
    backbone_class = GemmaModel


class Gemma2ForCL(DecoderMixin, Gemma2PreTrainedModel):
    """Contrastive Gemma 2; see `DecoderMixin`."""

    citation = """
@misc{gemma2024improving,
  title = {Gemma 2: Improving Open Language Models at a Practical Size},
  author = {{Gemma Team}},
  note = {arXiv:2408.00118},
  year = {2024}
}
"""
    base_model_prefix = "model"
    backbone_class = Gemma2Model


class Gemma3ForCL(DecoderMixin, Gemma3PreTrainedModel):
    """Contrastive Gemma 3 for text (`gemma3_text`), including EmbeddingGemma; see `DecoderMixin`."""

    citation = """
@misc{gemma2025technical,
  title = {Gemma 3 Technical Report},
  author = {{Gemma Team}},
  note = {arXiv:2503.19786},
  year = {2025}
}
"""
    config_class = Gemma3TextConfig
    base_model_prefix = "model"
    backbone_class = Gemma3TextModel


DECODERS = (Qwen2ForCL, Qwen3ForCL, LlamaForCL, MistralForCL, GemmaForCL, Gemma2ForCL, Gemma3ForCL)
