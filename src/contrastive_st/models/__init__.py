"""Models: `PreTrainedModel` subclasses that encode tokens, and functions that save and open them.

The names below are imported when they are first used, so opening an encoder imports only the code of its family.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrastive_st.lazy import lazy

if TYPE_CHECKING:
    from contrastive_st.models.adapters import add_lora
    from contrastive_st.models.architectures.infersent import InferSentConfig
    from contrastive_st.models.architectures.quickthoughts import QuickThoughtsConfig
    from contrastive_st.models.architectures.skipthoughts import SkipThoughtsConfig
    from contrastive_st.models.architectures.static import StaticConfig
    from contrastive_st.models.architectures.universal import UniversalConfig
    from contrastive_st.models.checkpoint import AutoModelForCL, load_tokenizer
    from contrastive_st.models.decoders import (
        Gemma2ForCL,
        Gemma3ForCL,
        GemmaForCL,
        LlamaForCL,
        MistralForCL,
        Qwen2ForCL,
        Qwen3ForCL,
    )
    from contrastive_st.models.encoder import SentenceEncoder
    from contrastive_st.models.families import (
        BertForCL,
        CamembertForCL,
        DebertaV2ForCL,
        DistilBertForCL,
        ElectraForCL,
        ModernBertForCL,
        MPNetForCL,
        RobertaForCL,
        XLMRobertaForCL,
    )
    from contrastive_st.models.modeling import ContrastiveMixin, ContrastiveOutput, ForCL
    from contrastive_st.models.pooling import POOLINGS, pool
    from contrastive_st.models.static_encoder import StaticEncoder, fit_static
    from contrastive_st.models.students import student_of
    from contrastive_st.models.word_models import (
        InferSentBiLSTM,
        QuickThoughtsGRU,
        SkipThoughts,
        UniversalSentenceEncoder,
    )
    from contrastive_st.models.wrapped import EncoderForCL

__getattr__, __dir__ = lazy(
    __name__,
    {
        "adapters": ["add_lora"],
        "architectures.infersent": ["InferSentConfig"],
        "architectures.quickthoughts": ["QuickThoughtsConfig"],
        "architectures.skipthoughts": ["SkipThoughtsConfig"],
        "architectures.static": ["StaticConfig"],
        "architectures.universal": ["UniversalConfig"],
        "checkpoint": ["AutoModelForCL", "load_tokenizer"],
        "decoders": [
            "Gemma2ForCL", "Gemma3ForCL", "GemmaForCL", "LlamaForCL", "MistralForCL", "Qwen2ForCL", "Qwen3ForCL",
        ],
        "encoder": ["SentenceEncoder"],
        "families": [
            "BertForCL", "CamembertForCL", "DebertaV2ForCL", "DistilBertForCL", "ElectraForCL", "MPNetForCL",
            "ModernBertForCL", "RobertaForCL", "XLMRobertaForCL",
        ],
        "modeling": ["ContrastiveMixin", "ContrastiveOutput", "ForCL"],
        "pooling": ["POOLINGS", "pool"],
        "static_encoder": ["StaticEncoder", "fit_static"],
        "students": ["student_of"],
        "word_models": ["InferSentBiLSTM", "QuickThoughtsGRU", "SkipThoughts", "UniversalSentenceEncoder"],
        "wrapped": ["EncoderForCL"],
    },
)  # fmt: skip

__all__ = [
    "POOLINGS", "AutoModelForCL", "BertForCL", "CamembertForCL", "ContrastiveMixin", "ContrastiveOutput",
    "DebertaV2ForCL", "DistilBertForCL", "ElectraForCL", "EncoderForCL", "ForCL", "Gemma2ForCL", "Gemma3ForCL",
    "GemmaForCL", "InferSentBiLSTM", "InferSentConfig", "LlamaForCL", "MPNetForCL", "MistralForCL", "ModernBertForCL",
    "QuickThoughtsConfig", "QuickThoughtsGRU", "Qwen2ForCL", "Qwen3ForCL", "RobertaForCL", "SentenceEncoder",
    "SkipThoughts", "SkipThoughtsConfig", "StaticConfig", "StaticEncoder", "UniversalConfig",
    "UniversalSentenceEncoder", "XLMRobertaForCL", "add_lora", "fit_static", "load_tokenizer", "pool", "student_of",
]  # fmt: skip
