"""Search, paraphrase mining and communities of embeddings in memory, as functions; exact, and in blocks.

They have the names, arguments and results of `sentence_transformers.util`. Embeddings are arrays or tensors `[N, d]`,
compared on the CPU by as many threads as numpy's products have (OMP_NUM_THREADS). For corpora that stay, filters and
full text, use an index (`open_index`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from contrastive_st.errors import InputError
from contrastive_st.models.protocol import as_encoder, with_options
from contrastive_st.options import Count, checked
from contrastive_st.prefetch import on_threads
from contrastive_st.search.values import as_list, digests
from contrastive_st.vectors import Best, check_finite, check_widths, float_array, top_k_in_chunks, unit_vectors

ROWS = 512  # rows and columns of a block of scores: 512 x 8192 float32 are 16 MiB
COLUMNS = 8192
_AT_ONCE = 1 << 20  # pairs that are handed on at a time
_SLACK = 1e-5  # larger than the float32 rounding of a bound, so that no pair is lost
Pairs = tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.floating]]  # rows, columns and cosines


def near_pairs(vectors: Any, threshold: float, bounds: Any = None, progress: bool = False) -> Iterator[Pairs]:
    """Yield the rows, columns (row < column) and cosines of the pairs that are near, at most a million at a time.

    Args:
        vectors: unit vectors `[N, d]`, float32; may be memory-mapped.
        threshold: lowest cosine.
        bounds: `[N, b]`, such that no cosine is greater than the product of two rows of them. Only pairs whose bound
            reaches the threshold are then compared in full, which is faster if b is small and such pairs are few.
        progress: show a bar with the time left.

    Example:
        >>> vectors = np.array([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6]], dtype=np.float32)
        >>> [[part.tolist() for part in pairs[:2]] for pairs in near_pairs(vectors, 0.7)]
        [[[0, 1], [2, 2]]]
    """
    count = len(vectors)
    compared, least = (vectors, threshold) if bounds is None else (bounds, threshold - _SLACK)

    def of_block(corner: tuple[int, int]) -> Pairs:
        i, j = corner
        scores = compared[i : i + ROWS] @ compared[j : j + COLUMNS].T
        # 4 bytes a number: where many vectors are alike, nearly every pair of a block is near
        rows, columns = np.divmod(np.flatnonzero(scores >= least).astype(np.int32), np.int32(scores.shape[1]))
        upper = rows + i < columns + j
        rows, columns = rows[upper], columns[upper]
        cosines = scores[rows, columns]
        rows, columns = rows + np.int32(i), columns + np.int32(j)
        if bounds is None:
            return rows, columns, cosines
        for start in range(0, len(rows), COLUMNS):
            part = slice(start, start + COLUMNS)
            cosines[part] = np.einsum("nd,nd->n", vectors[rows[part]], vectors[columns[part]])
        near = cosines >= threshold
        return rows[near], columns[near], cosines[near]

    blocks = [(i, j) for i in range(0, count, ROWS) for j in range(i // COLUMNS * COLUMNS, count, COLUMNS)]
    result = on_threads(of_block, blocks)
    for pairs in tqdm(result, total=len(blocks), disable=not progress, unit=" blocks", desc="compare"):
        for start in range(0, len(pairs[0]), _AT_ONCE):
            rows, columns, cosines = (column[start : start + _AT_ONCE] for column in pairs)
            yield rows.astype(np.int64), columns.astype(np.int64), cosines


ScoreFunction = Callable[[Any, Any], Any]
_QUERIES, _CORPUS = 512, 16_384  # scores of a block: 512 x 16,384 float32 are 32 MiB, for each thread
_SCORES = 1 << 25  # most scores of central embeddings and all others at a time: 128 MiB in float32
Vectors = NDArray[np.floating]


def semantic_search(
    query_embeddings: object,
    corpus_embeddings: object,
    query_chunk_size: int = _QUERIES,
    corpus_chunk_size: int = _CORPUS,
    top_k: int = 10,
    score_function: ScoreFunction | None = None,
) -> list[list[dict[str, int | float]]]:
    """The nearest of a corpus for each query, as `sentence_transformers.util.semantic_search` gives them.

    Args:
        query_embeddings: `[Q, d]`, or `[d]` for one query; an array or a tensor.
        corpus_embeddings: `[N, d]`.
        query_chunk_size: queries that are compared at a time.
        corpus_chunk_size: embeddings of the corpus that they are compared with at a time.
        top_k: how many of the corpus for each query.
        score_function: returns scores `[q, n]` of queries `[q, d]` and a part of the corpus `[n, d]`, such as
            `dot_score` of sentence-transformers; by default the cosine.

    Returns:
        For each query a list of `{"corpus_id": ..., "score": ...}`, best first; of equal scores the first.

    Raises:
        InputError: the embeddings have different dimensions or are not finite, or a number is below 1.

    Example:
        >>> semantic_search([1.0, 0.0], [[0.0, 1.0], [0.6, 0.8]], top_k=1)
        [[{'corpus_id': 1, 'score': 0.6}]]
    """
    queries, corpus = _embeddings(query_embeddings, "query_embeddings"), _embeddings(corpus_embeddings)
    result = _nearest(queries, corpus, top_k, score_function, (query_chunk_size, corpus_chunk_size))
    return [
        [{"corpus_id": i, "score": score} for i, score in zip(*block, strict=True)]
        for scores, numbers in result
        for block in zip(numbers.tolist(), scores.tolist(), strict=True)
    ]


def paraphrase_mining(
    model: object,
    sentences: Sequence[str],
    show_progress_bar: bool = False,
    batch_size: int | None = None,
    query_chunk_size: int = _QUERIES,
    corpus_chunk_size: int = _CORPUS,
    max_pairs: int = 500_000,
    top_k: int = 100,
    score_function: ScoreFunction | None = None,
    truncate_dim: int | None = None,
    prompt_name: str | None = None,
    prompt: str | None = None,
) -> list[list[float | int]]:
    """The pairs of sentences that are most alike, as `sentence_transformers.util.paraphrase_mining` gives them.

    Args:
        model: what encodes the sentences: a model that `SentenceEncoder` opens, a function from texts to vectors, or
            None for the model of this package.
        sentences: N texts.
        show_progress_bar: show the rate of encoding and the time left.
        batch_size: most texts in a forward pass.
        query_chunk_size: embeddings that are compared at a time.
        corpus_chunk_size: embeddings that they are compared with at a time.
        max_pairs: most pairs to return.
        top_k: of each sentence, only the pairs with its nearest so many are considered.
        score_function: as for `semantic_search`; symmetric.
        truncate_dim: keep only the first dimensions of the vectors.
        prompt_name: name of a prompt of the model.
        prompt: text before each sentence.

    Returns:
        Lists `[score, i, j]` with i < j, numbers of sentences, best first.

    Example:
        >>> lengths = lambda texts: np.array([[len(text), 5.0] for text in texts])
        >>> [pair[1:] for pair in paraphrase_mining(lengths, ["one", "three", "two"], max_pairs=1)]
        [[0, 2]]
    """
    encoder, texts = as_encoder(model), as_list("sentences", sentences, str)
    asked: dict[str, Any] = {"prompt_name": prompt_name, "prompt": prompt, "batch_size": batch_size}
    asked |= {"truncate_dim": truncate_dim, "show_progress_bar": show_progress_bar}
    vectors = with_options(encoder, **asked).encode(texts)
    limits = (query_chunk_size, corpus_chunk_size, max_pairs, top_k, score_function)
    # all others have the same vector, which does not depend on the text
    known = np.asarray(encoder.knows(texts), dtype=bool)
    return paraphrase_mining_embeddings(vectors * known[:, None], *limits)


def paraphrase_mining_embeddings(
    embeddings: object,
    query_chunk_size: int = _QUERIES,
    corpus_chunk_size: int = _CORPUS,
    max_pairs: int = 500_000,
    top_k: int = 100,
    score_function: ScoreFunction | None = None,
) -> list[list[float | int]]:
    """`paraphrase_mining` of embeddings.

    Args:
        embeddings: `[N, d]`, an array or a tensor.
        query_chunk_size: embeddings that are compared at a time.
        corpus_chunk_size: embeddings that they are compared with at a time.
        max_pairs: most pairs to return.
        top_k: of each embedding, only the pairs with its nearest so many are considered.
        score_function: as for `semantic_search`; symmetric.

    Returns:
        Lists `[score, i, j]` with i < j, best first.

    Example:
        >>> [pair[1:] for pair in paraphrase_mining_embeddings([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])]
        [[1, 2], [0, 2], [0, 1]]
    """
    vectors = _embeddings(embeddings)
    if len(vectors) < 2:
        return []
    checked("max_pairs", max_pairs, Count)
    pairs: list[NDArray[np.int64]] = []
    values: list[Vectors] = []
    start, worst = 0, -np.inf
    chunks = query_chunk_size, corpus_chunk_size
    for scores, numbers in _nearest(vectors, vectors, checked("top_k", top_k, Count) + 1, score_function, chunks):
        rows = np.repeat(np.arange(start, start + len(scores)), scores.shape[1]).reshape(scores.shape)
        start += len(scores)
        other = numbers != rows
        other &= np.cumsum(other, axis=1) <= top_k  # itself may not be among them, behind equal ones
        other &= scores >= worst
        low, high = np.minimum(rows, numbers)[other], np.maximum(rows, numbers)[other]
        pairs.append(low * len(vectors) + high)
        values.append(scores[other])
        if sum(map(len, pairs)) > 4 * max_pairs:
            keys, result = _best_pairs(pairs, values, max_pairs)
            pairs, values = [keys], [result]
            worst = result[-1] if len(result) == max_pairs else worst
    keys, result = _best_pairs(pairs, values, max_pairs)
    first, second = (keys // len(vectors)).tolist(), (keys % len(vectors)).tolist()
    return [list(pair) for pair in zip(result.tolist(), first, second, strict=True)]


def community_detection(
    embeddings: Any,
    threshold: float = 0.75,
    min_community_size: int = 10,
    batch_size: int = 1024,
    show_progress_bar: bool = False,
) -> list[list[int]]:
    """Groups of embeddings around a central one, as `sentence_transformers.util.community_detection` gives them.

    The embedding with the most neighbours, of cosine `threshold` or more, makes a community with them; then the next
    with the most, less those that are in a community already, and so on. All pairs of distinct embeddings are compared;
    memory grows with N.

    Args:
        embeddings: `[N, d]`, an array or a tensor.
        threshold: lowest cosine of a member and the central embedding.
        min_community_size: members of a community at least, the central one included.
        batch_size: most central embeddings whose neighbours are searched at a time.
        show_progress_bar: show a bar with the time left.

    Returns:
        Communities, the largest first; each begins with its central embedding, then the others, the nearest first.

    Raises:
        InputError: a number is below 1.

    Example:
        >>> community_detection([[1.0, 0.0], [0.0, 1.0], [0.1, 1.0]], min_community_size=2)
        [[1, 2]]
    """
    checked("min_community_size", min_community_size, Count)
    checked("batch_size", batch_size, Count)
    if not len(embeddings):
        return []
    vectors = unit_vectors(_embeddings(embeddings))
    # the distinct ones, in the order of their first occurrence, and the number of each row among them
    keys = digests(row.tobytes() for row in vectors)
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    vectors, number = vectors if len(first) == len(vectors) else vectors[first[order]], np.argsort(order)[number]
    counts = np.bincount(number)
    near = np.where(np.einsum("nd,nd->n", vectors, vectors) > 0.5, counts, 0)  # itself, unless it is zero
    for rows, columns, _ in near_pairs(vectors, threshold, progress=show_progress_bar):
        np.add.at(near, rows, counts[columns])
        np.add.at(near, columns, counts[rows])
    places = np.split(np.argsort(number, kind="stable"), np.cumsum(counts)[:-1])  # of the equal ones
    order = np.argsort(-near, kind="stable")
    order = order[near[order] >= min_community_size]
    used, communities, size = np.zeros(len(near), dtype=bool), [], max(min(batch_size, _SCORES // len(near)), 1)
    while len(order := order[~used[order]]):
        centers, order = order[:size], order[size:]
        for center, scores in zip(centers, vectors[centers] @ vectors.T, strict=True):
            scores[center] = 1.0
            members = np.flatnonzero(scores >= threshold)
            members = members[~used[members]]
            if not used[center] and counts[members].sum() >= min_community_size:
                rows = np.sort(np.concatenate([places[member] for member in members]))
                rows = rows[np.argsort(-scores[number[rows]], kind="stable")]
                first = places[center][0]
                communities.append([int(first), *rows[rows != first].tolist()])
                used[members] = True
    return sorted(communities, key=len, reverse=True)


def _nearest(
    queries: Vectors, corpus: Vectors, k: int, score: ScoreFunction | None, chunks: tuple[int, int]
) -> Iterator[Best]:
    """Scores and numbers of the k nearest of the corpus, for each chunk of queries in turn."""
    rows, columns = checked("query_chunk_size", chunks[0], Count), checked("corpus_chunk_size", chunks[1], Count)
    checked("top_k", k, Count)
    if score is None:
        check_widths(queries, corpus)
        same = queries is corpus
        queries = unit_vectors(queries)
        corpus = queries if same else unit_vectors(corpus)

    def compare(block: slice, part: slice) -> Vectors:
        result = queries[block] @ corpus[part].T if score is None else score(queries[block], corpus[part])
        return result.detach().cpu().numpy() if hasattr(result, "detach") else np.asarray(result)

    return top_k_in_chunks(compare, len(queries), len(corpus), k, (rows, columns))


def _best_pairs(keys: list[NDArray[np.int64]], values: list[Vectors], most: int) -> tuple[NDArray[np.int64], Vectors]:
    """The `most` best of distinct pairs, each a key and a score; of equal scores the lower key first."""
    distinct, first = np.unique(np.concatenate(keys), return_index=True)
    scores = np.concatenate(values)[first]
    order = np.argsort(-scores, kind="stable")[:most]
    return distinct[order], scores[order]


def _embeddings(rows: object, name: str = "embeddings") -> Vectors:
    """An array `[N, d]` of floats; a single vector, and a list of vectors, are taken too."""
    result = np.atleast_2d(float_array(rows))
    if result.shape == (1, 0):  # an empty list
        result = result.T
    if result.ndim != 2 or not np.issubdtype(result.dtype, np.floating):
        raise InputError(f"{name} of shape {result.shape}: give one vector for each text, [N, d]")
    return check_finite(result, name)
