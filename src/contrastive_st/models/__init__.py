"""Models: tokens to views, as `PreTrainedModel` subclasses, and what saves and opens them."""

from contrastive_st.models.architectures.infersent import InferSentConfig
from contrastive_st.models.architectures.quickthoughts import QuickThoughtsConfig
from contrastive_st.models.architectures.skipthoughts import SkipThoughtsConfig
from contrastive_st.models.architectures.universal import UniversalConfig
from contrastive_st.models.checkpoint import AutoModelForCL
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.models.modeling import (
    BertForCL,
    ContrastiveMixin,
    ContrastiveOutput,
    DistilBertForCL,
    ForCL,
    ModernBertForCL,
    MPNetForCL,
    RobertaForCL,
    XLMRobertaForCL,
)
from contrastive_st.models.pooling import POOLINGS, pool
from contrastive_st.models.word_models import InferSentBiLSTM, QuickThoughtsGRU, SkipThoughts, UniversalSentenceEncoder

__all__ = [
    "POOLINGS",
    "AutoModelForCL",
    "BertForCL",
    "ContrastiveMixin",
    "ContrastiveOutput",
    "DistilBertForCL",
    "ForCL",
    "InferSentBiLSTM",
    "InferSentConfig",
    "MPNetForCL",
    "ModernBertForCL",
    "QuickThoughtsConfig",
    "QuickThoughtsGRU",
    "RobertaForCL",
    "SentenceEncoder",
    "SkipThoughts",
    "SkipThoughtsConfig",
    "UniversalConfig",
    "UniversalSentenceEncoder",
    "XLMRobertaForCL",
    "pool",
]
