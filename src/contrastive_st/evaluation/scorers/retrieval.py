"""Finding the relevant documents among many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from contrastive_st.errors import InputError
from contrastive_st.evaluation.datasets.senteval import Embed, Splits
from contrastive_st.evaluation.score import Score
from contrastive_st.vectors import unit_vectors


def ranks_of_own(
    queries: NDArray[np.floating], documents: NDArray[np.floating], block: int = 1024
) -> NDArray[np.int64]:
    """Rank (1 is first) of document i for query i by dot product, `[N, d], [N, d] -> [N]`.

    Ties count against the model, so that equal embeddings do not look like a perfect ranking. NaN ranks last.
    """
    ranks = np.empty(len(queries), dtype=np.int64)
    for start in range(0, len(queries), block):
        scores = np.asarray(queries[start : start + block] @ documents.T)
        own = scores[np.arange(len(scores)), np.arange(start, start + len(scores))]
        ranks[start : start + block] = (~(scores < own[:, None])).sum(1)
    return ranks


def reciprocal_ranks(ranks: NDArray[np.int64], k: int = 10) -> NDArray[np.float64]:
    """1 / rank of each query's document, 0 where it is not among the first k; their mean is `mrr@k`."""
    return np.where(ranks <= k, 1 / ranks, 0.0)


def retrieval_metrics(ranks: NDArray[np.int64], k: int = 10) -> dict[str, float]:
    """`mrr@k` and `recall@k`, each from 0 to 1, of one relevant document a query.

    Example:
        >>> retrieval_metrics(np.array([1, 2, 50]), k=10)
        {'mrr@10': 0.5, 'recall@10': 0.6666666666666666}
    """
    return {f"mrr@{k}": float(reciprocal_ranks(ranks, k).mean()), f"recall@{k}": float((ranks <= k).mean())}


def ranks_of_relevant(
    queries: NDArray[np.floating],
    documents: NDArray[np.floating],
    relevant: Sequence[Sequence[int]],
    block: int = 1024,
) -> list[NDArray[np.int64]]:
    """Ranks of each query's relevant documents by cosine, rising; an irrelevant document of equal score goes first.

    Args:
        queries: `[N, d]`.
        documents: `[M, d]`.
        relevant: for each query the numbers of its relevant documents, at least one.
        block: queries that are scored at a time.

    Raises:
        InputError: a vector is NaN or infinite.

    Example:
        >>> eye = np.eye(3)
        >>> ranks_of_relevant(np.array([[0.9, 0.5, 0.1]]), eye, [[2, 0]])[0].tolist()
        [1, 3]
    """
    if not (np.isfinite(queries).all() and np.isfinite(documents).all()):
        raise InputError("the model returns NaN or infinite embeddings, so there is nothing to rank")
    queries, documents = (unit_vectors(x).astype(np.float32, copy=False) for x in (queries, documents))
    ranks = []
    for start in range(0, len(queries), block):
        scores = queries[start : start + block] @ documents.T
        for row, own in zip(scores, relevant[start : start + block], strict=True):
            mine = np.sort(row[list(own)])[::-1]
            others = np.delete(row, list(own))
            above = np.array([np.count_nonzero(others >= score) for score in mine])
            ranks.append(above + np.arange(1, len(mine) + 1))
    return ranks


def ranking_metrics(ranks: Sequence[NDArray[np.int64]], k: int = 10) -> dict[str, float]:
    """`mrr@k`, `recall@k` and `ndcg@k` (binary relevance, log2 discount), 0 to 1, averaged over queries.

    Example:
        >>> ranking_metrics([np.array([1, 3])], k=2)
        {'mrr@2': 1.0, 'recall@2': 0.5, 'ndcg@2': 0.6131471927654584}
    """
    discount = 1 / np.log2(np.arange(2, k + 2))
    mrr = [1 / own[0] if own[0] <= k else 0.0 for own in ranks]
    recall = [np.mean(own <= k) for own in ranks]
    ndcg = [discount[own[own <= k] - 1].sum() / discount[: len(own)].sum() for own in ranks]
    return {f"mrr@{k}": float(np.mean(mrr)), f"recall@{k}": float(np.mean(recall)), f"ndcg@{k}": float(np.mean(ndcg))}


def score_retrieval(splits: Splits, embed: Embed, task: str, k: int = 10) -> list[Score]:
    """Rows are (query, relevant document); equal queries are one query, the documents are those of all rows."""
    queries, documents = splits["test"].columns
    query_of, document_of = ({text: i for i, text in enumerate(dict.fromkeys(c))} for c in (queries, documents))
    relevant: list[dict[int, None]] = [{} for _ in query_of]
    for query, document in zip(queries, documents, strict=True):
        relevant[query_of[query]][document_of[document]] = None
    ranks = ranks_of_relevant(embed(list(query_of)), embed(list(document_of)), [list(own) for own in relevant])
    note = f"among {len(document_of)} documents"
    return [Score(task, "test", name, value, note, len(ranks)) for name, value in ranking_metrics(ranks, k).items()]
