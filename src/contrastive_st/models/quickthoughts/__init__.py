"""The QuickThoughts encoder, in files that import torch and transformers alone: they are saved beside checkpoints."""

from contrastive_st.models.quickthoughts.configuration_quickthoughts import QuickThoughtsConfig
from contrastive_st.models.quickthoughts.modeling_quickthoughts import QuickThoughtsModel

__all__ = ["QuickThoughtsConfig", "QuickThoughtsModel"]
