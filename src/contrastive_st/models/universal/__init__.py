"""The Universal Sentence Encoder, in files that are saved beside checkpoints: they import torch and transformers."""

from contrastive_st.models.universal.configuration_universal import UniversalConfig
from contrastive_st.models.universal.modeling_universal import UniversalModel

__all__ = ["UniversalConfig", "UniversalModel"]
