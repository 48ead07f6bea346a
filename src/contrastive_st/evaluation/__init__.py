"""Evaluation of embeddings: tasks, scores, reports and measures of the embedding space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrastive_st.lazy import lazy

__all__ = ["EmbeddingStore", "SuiteEvaluator", "evaluate", "neighbors", "retrieval_evaluator", "sts_evaluator"]
__getattr__, __dir__ = lazy(
    __name__,
    {
        "embedding_store": ["EmbeddingStore"],
        "neighbors": ["neighbors"],
        "suite": ["SuiteEvaluator", "evaluate", "retrieval_evaluator", "sts_evaluator"],
    },
)

if TYPE_CHECKING:
    from contrastive_st.evaluation.embedding_store import EmbeddingStore
    from contrastive_st.evaluation.neighbors import neighbors
    from contrastive_st.evaluation.suite import SuiteEvaluator, evaluate, retrieval_evaluator, sts_evaluator
