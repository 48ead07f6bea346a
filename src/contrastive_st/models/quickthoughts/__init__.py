"""Encoders over word vectors, in files that import torch and transformers alone: they are saved beside checkpoints."""

from contrastive_st.models.quickthoughts.configuration_quickthoughts import QuickThoughtsConfig
from contrastive_st.models.quickthoughts.configuration_skipthoughts import SkipThoughtsConfig
from contrastive_st.models.quickthoughts.modeling_quickthoughts import QuickThoughtsModel
from contrastive_st.models.quickthoughts.modeling_skipthoughts import SkipThoughtsModel

__all__ = ["QuickThoughtsConfig", "QuickThoughtsModel", "SkipThoughtsConfig", "SkipThoughtsModel"]
