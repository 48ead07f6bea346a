"""Losses: pure functions of embeddings and targets that return a scalar. They know no models and read no files."""

from contrastive_st.distributed import LOCAL, Gather, ProcessGather, default_gather
from contrastive_st.losses.base import LOSSES, Loss, parse_loss, suitable
from contrastive_st.losses.candidates import KLDistillationLoss, MarginMSELoss
from contrastive_st.losses.custom import CallableLoss, as_loss
from contrastive_st.losses.distillation import EmbeddingDistillationLoss, RelationalDistillationLoss
from contrastive_st.losses.functional import angular_similarity, cosine_scores, dot_scores
from contrastive_st.losses.info_nce import InfoNCE
from contrastive_st.losses.info_nce_variants import ConsistentInfoNCE, DocumentInfoNCE, GuidedInfoNCE
from contrastive_st.losses.labelled_pairs import AnglELoss, CoSENTLoss, CosineSimilarityLoss, SoftmaxLoss, TripletLoss
from contrastive_st.losses.matryoshka import MatryoshkaLoss
from contrastive_st.losses.multi_task import MixtureLoss, MultiTaskLoss
from contrastive_st.losses.targets import TargetsLoss
from contrastive_st.losses.words import ReconstructionLoss, SkipThoughtsLoss, TSDAELoss

__all__ = [
    "LOCAL", "LOSSES", "AnglELoss", "CallableLoss", "CoSENTLoss", "ConsistentInfoNCE", "CosineSimilarityLoss",
    "DocumentInfoNCE", "EmbeddingDistillationLoss", "Gather", "GuidedInfoNCE", "InfoNCE", "KLDistillationLoss", "Loss",
    "MarginMSELoss", "MatryoshkaLoss", "MixtureLoss", "MultiTaskLoss", "ProcessGather", "ReconstructionLoss",
    "RelationalDistillationLoss", "SkipThoughtsLoss", "SoftmaxLoss", "TSDAELoss", "TargetsLoss", "TripletLoss",
    "angular_similarity", "as_loss", "cosine_scores", "default_gather", "dot_scores", "parse_loss", "suitable",
]  # fmt: skip
