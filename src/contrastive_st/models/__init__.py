"""Models: tokens to views, as `PreTrainedModel` subclasses, and what saves and opens them."""

from contrastive_st.models.auto import AutoModelForCL
from contrastive_st.models.contrastive import ContrastiveOutput, ForCL
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.models.families import (
    BertForCL,
    DistilBertForCL,
    ModernBertForCL,
    MPNetForCL,
    RobertaForCL,
    XLMRobertaForCL,
)
from contrastive_st.models.infersent import InferSentConfig
from contrastive_st.models.modeling import ContrastiveMixin
from contrastive_st.models.pooling import POOLINGS, pool
from contrastive_st.models.quickthoughts import QuickThoughtsConfig, SkipThoughtsConfig
from contrastive_st.models.skipthoughts import SkipThoughts
from contrastive_st.models.towers import QuickThoughtsGRU
from contrastive_st.models.universal import UniversalConfig
from contrastive_st.models.word_encoders import InferSentBiLSTM, UniversalSentenceEncoder

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
