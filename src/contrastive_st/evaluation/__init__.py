"""Evaluation: how good embeddings are, and what their space looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrastive_st.lazy import lazy

__all__ = ["EmbeddingStore", "SuiteEvaluator", "evaluate", "neighbors", "retrieval_evaluator", "sts_evaluator"]
__getattr__, __dir__ = lazy(
    __name__,
    {
        "embedding_store": ["EmbeddingStore"],
        "evaluator": ["SuiteEvaluator", "retrieval_evaluator", "sts_evaluator"],
        "neighbors": ["neighbors"],
        "suite": ["evaluate"],
    },
)

if TYPE_CHECKING:
    from contrastive_st.evaluation.embedding_store import EmbeddingStore
    from contrastive_st.evaluation.evaluator import SuiteEvaluator, retrieval_evaluator, sts_evaluator
    from contrastive_st.evaluation.neighbors import neighbors
    from contrastive_st.evaluation.suite import evaluate
