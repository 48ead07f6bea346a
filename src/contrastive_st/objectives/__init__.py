"""Objectives: pure functions from embeddings and targets to a loss. No models, no input or output."""

from contrastive_st.objectives.gather import LOCAL, Gather, ProcessGather, default_gather
from contrastive_st.objectives.info_nce import InfoNCE
from contrastive_st.objectives.scores import cosine_scores, dot_scores
from contrastive_st.objectives.targets_loss import TargetsLoss

__all__ = [
    "LOCAL", "Gather", "InfoNCE", "ProcessGather", "TargetsLoss", "cosine_scores", "default_gather", "dot_scores",
]  # fmt: skip
