"""`evaluate.Metric` classes that need no download, for `evaluate.combine` and for your code.

Create a metric from its class, not by name: `PairCorrelation().compute(predictions=[...], references=[...])`. Metrics
of pairs of embeddings take them as `predictions` and `references`, metrics of one set as `predictions`.
"""

from __future__ import annotations

import datasets
import evaluate
import numpy as np
import torch
from numpy.typing import ArrayLike

from contrastive_st.evaluation.scorers.retrieval import ranking_metrics, relevant_rows
from contrastive_st.evaluation.scorers.sts import CORRELATIONS
from contrastive_st.losses.geometry import alignment, anisotropy, effective_rank, uniformity

_VECTOR = datasets.Sequence(datasets.Value("float64"))
_NUMBER = datasets.Value("float64")
_CITATIONS = {
    "alignment": "Wang and Isola, 2020, Understanding contrastive representation learning",
    "uniformity": "Wang and Isola, 2020, Understanding contrastive representation learning",
    "anisotropy": "Ethayarajh, 2019, How contextual are contextualized word representations?",
    "effective_rank": "Roy and Vetterli, 2007, The effective rank",
}


class _LocalMetric(evaluate.Metric):
    description = ""
    columns: dict[str, object] = {"predictions": _NUMBER, "references": _NUMBER}

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=self.description,
            citation=_CITATIONS.get(self.name, ""),
            inputs_description="columns " + ", ".join(self.columns),
            features=datasets.Features(self.columns),
        )

    @property
    def name(self) -> str:
        """The name of the metric in the result."""
        return type(self).__name__.lower()


class PairCorrelation(_LocalMetric):
    """Pearson's r and Spearman's rho of `predictions` (similarities) with `references` (scores), by scipy.

    Example:
        >>> PairCorrelation().compute(predictions=[0.1, 0.4, 0.9], references=[0, 3, 5])
        {'pearson': 0.9..., 'spearman': 1.0}
    """

    description = "Correlation of similarities with scores"

    def _compute(self, predictions: ArrayLike, references: ArrayLike) -> dict[str, float]:
        return {name: float(f(predictions, references).statistic) for name, f in CORRELATIONS.items()}


class Ranking(_LocalMetric):
    """MRR@k, recall@k, recall@100 and nDCG@k of queries (`predictions`) and documents (`references`), as embeddings.

    Document i is the only one that is relevant to query i. Each query is compared with all documents by cosine.

    Example:
        >>> Ranking().compute(predictions=[[1.0, 0.0], [1.0, 0.0]], references=[[2.0, 0.0], [3.0, 0.1]], k=1)
        {'mrr@1': 0.5, 'recall@1': 0.5, 'recall@100': 1.0, 'ndcg@1': 0.5}
    """

    description = "Ranking of each query's document among all documents"
    columns = {"predictions": _VECTOR, "references": _VECTOR}

    def _compute(self, predictions: ArrayLike, references: ArrayLike, k: int = 10) -> dict[str, float]:
        relevance = relevant_rows([i] for i in range(len(np.asarray(predictions))))
        return ranking_metrics(np.asarray(predictions), np.asarray(references), relevance, k)


class Alignment(_LocalMetric):
    """Mean squared distance between unit vectors of positive pairs; 0 is best.

    Example:
        >>> Alignment().compute(predictions=[[1.0, 0.0]], references=[[0.0, 2.0]])
        {'alignment': 2.0}
    """

    description = "Mean squared distance of positive pairs on the unit sphere"
    columns = {"predictions": _VECTOR, "references": _VECTOR}

    def _compute(self, predictions: ArrayLike, references: ArrayLike) -> dict[str, float]:
        a, b = (torch.tensor(x, dtype=torch.float64) for x in (predictions, references))
        return {"alignment": alignment(a, b).item()}


class _OneSet(_LocalMetric):
    columns = {"predictions": _VECTOR}
    metric: staticmethod[[torch.Tensor], torch.Tensor]

    def _compute(self, predictions: ArrayLike) -> dict[str, float]:
        return {self.metric.__name__: self.metric(torch.tensor(predictions, dtype=torch.float64)).item()}


class Uniformity(_OneSet):
    """Log of the mean of `exp(-2 |x - y|^2)` over distinct pairs of unit vectors; lower is better.

    Example:
        >>> Uniformity().compute(predictions=[[1.0, 0.0], [-1.0, 0.0]])
        {'uniformity': -8.0}
    """

    description = "Spread over the unit sphere"
    metric = staticmethod(uniformity)


class Anisotropy(_OneSet):
    """Mean cosine of distinct rows: 0 if directions are spread evenly, 1 if all are the same.

    Example:
        >>> Anisotropy().compute(predictions=[[1.0, 0.0], [0.0, 1.0]])
        {'anisotropy': 0.0}
    """

    description = "Mean cosine of distinct vectors"
    metric = staticmethod(anisotropy)


class EffectiveRank(_OneSet):
    """Exponential of the entropy of the centred singular values: the number of dimensions in use.

    Example:
        >>> EffectiveRank().compute(predictions=[[1.0, 0.0], [-1.0, 0.0]])
        {'effective_rank': 1.0}
    """

    description = "Dimensions in use"
    metric = staticmethod(effective_rank)
