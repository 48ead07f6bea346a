"""The InferSent encoder, in files that import torch and transformers alone: they are saved beside checkpoints."""

from contrastive_st.models.infersent.configuration_infersent import InferSentConfig
from contrastive_st.models.infersent.modeling_infersent import InferSentModel

__all__ = ["InferSentConfig", "InferSentModel"]
