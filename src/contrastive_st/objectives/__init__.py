"""Objectives: pure functions from embeddings and targets to a loss. No models, no input or output."""

from contrastive_st.objectives.consistency import ConsistentInfoNCE
from contrastive_st.objectives.gather import LOCAL, Gather, ProcessGather, default_gather
from contrastive_st.objectives.info_nce import InfoNCE
from contrastive_st.objectives.multi_task import MultiTask
from contrastive_st.objectives.objective import Objective
from contrastive_st.objectives.pairs import Classification, Regression, Triplet
from contrastive_st.objectives.relational import Relational
from contrastive_st.objectives.scores import angular_similarity, cosine_scores, dot_scores
from contrastive_st.objectives.targets_loss import TargetsLoss

__all__ = [
    "LOCAL", "Classification", "ConsistentInfoNCE", "Gather", "InfoNCE", "MultiTask", "Objective", "ProcessGather",
    "Regression", "Relational", "TargetsLoss", "Triplet", "angular_similarity", "cosine_scores", "default_gather",
    "dot_scores",
]  # fmt: skip
