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
from contrastive_st.models.modeling import ContrastiveMixin
from contrastive_st.models.pooling import POOLINGS, pool

__all__ = [
    "POOLINGS",
    "AutoModelForCL",
    "BertForCL",
    "ContrastiveMixin",
    "ContrastiveOutput",
    "DistilBertForCL",
    "ForCL",
    "MPNetForCL",
    "ModernBertForCL",
    "RobertaForCL",
    "SentenceEncoder",
    "XLMRobertaForCL",
    "pool",
]
