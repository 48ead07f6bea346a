"""What a new model costs and is worth for an index, measured on a sample of its documents before anything changes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from contrastive_st.data.reading import open_table
from contrastive_st.data.reading.relevance import entries, judgements
from contrastive_st.data.reading.table import open_entries, open_judgements
from contrastive_st.errors import InputError
from contrastive_st.search.index import Id, VectorIndex, Vectors
from contrastive_st.search.values import as_id
from contrastive_st.vectors import top_k_in_blocks, unit_vectors

if TYPE_CHECKING:
    from contrastive_st.models.encoder import SentenceEncoder

K = 10  # hits of a query
_MOST, _SECONDS = 5_000, 60.0  # documents of a sample, and how long to encode them
_DRAWS, _BATCH, _BLOCK = 2_000, 256, 32_768
Values = NDArray[np.float64]
#: Queries with the ids of the documents that answer them
Answers = Mapping[str, Sequence[Id]]


@dataclass(frozen=True)
class Sample:
    """What a sample says of a change of the model.

    Args:
        documents: how many the index has.
        sampled: how many were encoded with the new model.
        rate: documents that the new model encodes in a second.
        ndcg: nDCG@10 of each query in the sample, by the old and by the new model, `[Q]` each; empty without queries.
    """

    documents: int
    sampled: int
    rate: float
    ndcg: tuple[Values, ...]

    def lines(self) -> list[str]:
        """The results as lines of text."""
        lines = [f"sample: {self.sampled:,} of {self.documents:,} documents encoded, {self.rate:,.0f} a second"]
        if self.ndcg:
            old, new = self.ndcg
            lines.append(
                f"nDCG@{K} of {len(old):,} queries in the sample: old model {interval(old)}, new model "
                f"{interval(new)}, difference {interval(new - old)}"
            )
        return lines


def sample(
    index: VectorIndex, encoder: SentenceEncoder, answers: Answers | None = None, former: SentenceEncoder | None = None
) -> Sample:
    """Encode random documents with a new model, and search them by both models.

    Args:
        index: the index.
        encoder: the new model.
        answers: queries with the ids of documents that answer them, all of which are in the sample.
        former: the model of the index, for the queries of `answers`.

    Returns:
        The rate, and nDCG@10 of both models.

    Raises:
        InputError: the new model knows no token of the documents, or the index does not have the answers.
    """
    relevant = [sorted({as_id(id) for id in ids}) for ids in (answers or {}).values()]
    needed = sorted({id for ids in relevant for id in ids})
    drawn, *_ = index.draw(_MOST)
    ids = np.concatenate([np.array(needed, np.int64), drawn[~np.isin(drawn, needed)]])[: max(_MOST, len(needed))]
    if not len(ids):
        raise InputError("the index has no documents")
    started, batches = time.perf_counter(), list[Vectors]()
    for start in range(0, len(ids), _BATCH):
        if start and start >= len(needed) and time.perf_counter() - started > _SECONDS:
            break
        texts = [hit.text for hit in index.get(ids[start : start + _BATCH].tolist())]
        ((_, vectors),) = encoder.encode_stream([texts])
        batches.append(vectors)
    took, new = time.perf_counter() - started, np.concatenate(batches)
    ids = ids[: len(new)]
    if not new.any():
        raise InputError(f"{encoder.name} knows none of the tokens of the documents; choose another model")
    ndcgs = []
    if answers and former:
        for model, documents in ((former, unit_vectors(index.vectors(ids.tolist()))), (encoder, new)):
            queries = unit_vectors(np.asarray(model.encode_query(list(answers))))
            compare = lambda rows, part, queries=queries, held=documents: queries[rows] @ held[part].T
            nearest = top_k_in_blocks(compare, len(queries), len(documents), K, _BLOCK)[1]
            ndcgs.append(ndcg(ids[nearest], relevant))
    return Sample(len(index), len(ids), len(ids) / took, tuple(ndcgs))


def interval(values: Values) -> str:
    """The mean of values `[Q]` with its 95% interval by bootstrap over the queries.

    Example:
        >>> interval(np.ones(7))
        '1.000 (1.000 to 1.000)'
    """
    counts = np.random.default_rng(0).multinomial(len(values), np.full(len(values), 1 / len(values)), _DRAWS)
    low, high = np.percentile(counts @ values / len(values), [2.5, 97.5])
    return f"{values.mean():.3f} ({low:.3f} to {high:.3f})"


def ndcg(ranked: NDArray[np.int64], relevant: Sequence[Sequence[int]]) -> Values:
    """nDCG of each query `[Q]`, of the ids that it finds `[Q, k]`, where an answer is relevant or not.

    Args:
        ranked: ids that each query finds, int64 `[Q, k]`, best first.
        relevant: ids of the answers of each query.

    Returns:
        float64 `[Q]`, from 0 to 1.

    Example:
        >>> ndcg(np.array([[7, 8], [7, 8]]), [[7], [8]]).round(2).tolist()
        [1.0, 0.63]
    """
    discounts = 1 / np.log2(np.arange(2, ranked.shape[1] + 2))
    pairs = zip(ranked, relevant, strict=True)
    return np.array([np.isin(top, list(true)) @ discounts / discounts[: len(true)].sum() for top, true in pairs])


def read_answers(file: str | Path) -> dict[str, list[Id]]:
    """The queries of a table with columns `query` and `id`, a row for each answer."""
    result: dict[str, list[Id]] = {}
    source = open_table(str(file))
    for number, row in source:
        query, id = row.get("query"), row.get("id")
        if not isinstance(query, str) or not query.strip() or id is None:
            raise InputError(f"{source.where(number)}: give the columns query and id, of a document that answers it")
        result.setdefault(query, []).append(str(id))
    return result


def read_retrieval(folder: Path) -> dict[str, list[Id]]:
    """The queries of a folder as BEIR has them: `queries.jsonl` and `qrels/test.tsv`; grades above 0 are answers."""
    texts = {query.id: query.titled for query in entries(open_entries(folder / "queries.jsonl"))}
    result: dict[str, list[Id]] = {}
    for query, document, grade, _ in judgements(open_judgements(folder / "qrels" / "test.tsv")):
        if grade > 0 and query in texts:
            result.setdefault(texts[query], []).append(document)
    return result
