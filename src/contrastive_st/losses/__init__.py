"""Objectives: pure functions from embeddings and targets to a loss. No models, no input or output."""

from contrastive_st.distributed import LOCAL, Gather, ProcessGather, default_gather
from contrastive_st.losses.base import Objective
from contrastive_st.losses.distillation import Relational
from contrastive_st.losses.functional import angular_similarity, cosine_scores, dot_scores
from contrastive_st.losses.info_nce import ConsistentInfoNCE, InfoNCE
from contrastive_st.losses.labelled_pairs import Classification, Regression, Triplet
from contrastive_st.losses.multi_task import MultiTask
from contrastive_st.losses.targets import TargetsLoss

__all__ = [
    "LOCAL", "Classification", "ConsistentInfoNCE", "Gather", "InfoNCE", "MultiTask", "Objective", "ProcessGather",
    "Regression", "Relational", "TargetsLoss", "Triplet", "angular_similarity", "cosine_scores", "default_gather",
    "dot_scores",
]  # fmt: skip
