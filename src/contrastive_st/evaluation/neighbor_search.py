"""Exact nearest neighbours by cosine over a corpus whose embeddings and scores need not fit in memory."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from contrastive_st.evaluation.embedding_store import EmbeddingStore
from contrastive_st.models.protocol import Encoder
from contrastive_st.terminal import progress_is_shown
from contrastive_st.vectors import Best, top_k, unit_vectors

BLOCK = 4096  # sentences that are embedded and searched at a time
_QUERIES = 1024  # queries that are scored against a block at a time

Neighbor = tuple[float, str]  # the cosine, and the sentence


def nearest(queries: NDArray[np.floating], blocks: Iterable[NDArray[np.floating]], k: int = 5) -> Best:
    """The k candidates with the greatest cosine for each query; of equal ones, those that come first.

    The best candidates so far are merged with those of each block, so only the scores of one block are in memory.

    Args:
        queries: `[Q, d]`.
        blocks: candidates, `[n, d]` each, numbered from 0 through all blocks; float16 ones are multiplied in float32.
        k: how many; all candidates where there are fewer.

    Returns:
        Cosines `[Q, k]`, highest first, and the candidates' numbers `[Q, k]`. Zero vectors have cosine 0.

    Example:
        >>> blocks = [np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[1.0, 1.0], [3.0, 0.0]])]
        >>> scores, rows = nearest(np.array([[1.0, 0.0]]), blocks, k=3)
        >>> scores.round(3).tolist(), rows.tolist()
        ([[1.0, 1.0, 0.707]], [[0, 3, 2]])
    """
    parts = [unit_vectors(queries[start : start + _QUERIES]) for start in range(0, len(queries), _QUERIES)]
    best = [top_k(np.empty((len(part), 0), part.dtype), k) for part in parts]
    first = 0
    for block in blocks:
        if len(block):
            unit = unit_vectors(block)
            best = [top_k(part @ unit.T, k, item, first) for item, part in zip(best, parts, strict=True)]
            first += len(block)
    if not best:
        return np.empty((0, min(k, first))), np.empty((0, min(k, first)), np.int64)
    return np.concatenate([scores for scores, _ in best]), np.concatenate([numbers for _, numbers in best])


def neighbors(encoder: Encoder, queries: Sequence[str], corpus: Sequence[str], k: int = 5) -> list[list[Neighbor]]:
    """For each query the k nearest sentences of the corpus, nearest first; the query itself is left out.

    Args:
        encoder: the model.
        queries: any sentences.
        corpus: distinct sentences, read in slices: a list, or a column of a data set on disk.
        k: how many neighbours.

    Returns:
        For each query its neighbours, as (cosine, sentence).

    Raises:
        InputError: the model returns NaN, infinities, or an array of another shape; names the model.

    Example:
        >>> from contrastive_st.models.protocol import FunctionEncoder
        >>> model = FunctionEncoder("lengths", lambda texts: np.array([[len(text), 3.0] for text in texts]))
        >>> neighbors(model, ["abc"], ["a", "abc", "abcd"], k=2)
        [[(0.989949..., 'abcd'), (0.894427..., 'a')]]
    """
    embedded = EmbeddingStore(encoder, queries, distributed=False)(queries)
    scores, numbers = nearest(embedded, embedding_blocks(encoder, corpus), k + 1)
    result = []
    for query, item, row in zip(queries, scores.tolist(), numbers.tolist(), strict=True):
        rows = [(score, corpus[number]) for score, number in zip(item, row, strict=True)]
        result.append([(score, text) for score, text in rows if text != query][:k])
    return result


def embedding_blocks(encoder: Encoder, corpus: Sequence[str]) -> Iterator[NDArray[np.float32]]:
    """The embeddings of a corpus, `[n, d]` float32, block after block; memory is that of one block.

    Example:
        >>> from contrastive_st.models.protocol import FunctionEncoder
        >>> model = FunctionEncoder("lengths", lambda texts: np.array([[len(text)] for text in texts]))
        >>> [block.tolist() for block in embedding_blocks(model, ["a", "bcd"])]
        [[[1.0], [3.0]]]
    """
    with tqdm(total=len(corpus), desc=encoder.name, unit=" texts", disable=not progress_is_shown()) as bar:
        for start in range(0, len(corpus), BLOCK):
            texts = list(corpus[start : start + BLOCK])
            yield EmbeddingStore(encoder, texts, distributed=False)(texts)
            bar.update(len(texts))


def first_of_each(texts: Iterable[str]) -> NDArray[np.int64]:
    """The position of the first occurrence of each distinct text, in order; 8 bytes are kept per text.

    Example:
        >>> first_of_each(["b", "a", "b", "c"]).tolist()
        [0, 1, 3]
    """
    digests = (hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts)
    keys = np.fromiter((int.from_bytes(digest, "little") for digest in digests), dtype=np.uint64)
    return np.sort(np.unique(keys, return_index=True)[1])


# --- The nearest neighbours of several models side by side, for a terminal and as Markdown.

Neighbors = Mapping[str, Sequence[Sequence[Neighbor]]]  # for each model: the neighbours of each query, nearest first


def as_text(queries: Sequence[str], result: Neighbors, width: int = 120) -> str:
    """Plain text with one column per model, in lines of at most `width` characters.

    Args:
        queries: the queries.
        result: for each model the neighbours of each query.
        width: of a line, in characters.

    Returns:
        The text.

    Example:
        >>> print(as_text(["a cat"], {"A": [[(0.9, "the cat")]], "B": [[(0.5, "a dog")]]}, 41))
        a cat
          A                    B
          0.900 the cat        0.500 a dog
    """
    column = max((width - 2) // len(result) - 2, 20)
    lines: list[str] = []
    for number, query in enumerate(queries):
        lines += ["", *textwrap.wrap(query, width)] if lines else textwrap.wrap(query, width)
        lines.append(_row(list(result), column))
        for ranked in zip_longest(*(rows[number] for rows in result.values())):
            cells = [_wrapped(neighbor, column) for neighbor in ranked]
            lines += [_row(parts, column) for parts in zip_longest(*cells, fillvalue="")]
    return "\n".join(lines)


def as_markdown(queries: Sequence[str], result: Neighbors, caption: str) -> str:
    """Markdown with one table per query, under a caption.

    Args:
        queries: the queries.
        result: for each model the neighbours of each query.
        caption: the first line.

    Returns:
        The Markdown.

    Example:
        >>> print(as_markdown(["a|b"], {"A": [[(0.9, "the cat")]]}, "Nearest."))
        Nearest.
        <BLANKLINE>
        **a\\|b**
        <BLANKLINE>
        | cosine | A |
        |--:|---|
        | 0.900 | the cat |
        <BLANKLINE>
    """
    parts = [caption, ""]
    for number, query in enumerate(queries):
        parts += [f"**{_cell(query)}**", ""]
        parts += ["| " + " | ".join(f"cosine | {_cell(name)}" for name in result) + " |"]
        parts += ["|" + "--:|---|" * len(result)]
        for ranked in zip_longest(*(rows[number] for rows in result.values())):
            cells = [f"{neighbor[0]:.3f} | {_cell(neighbor[1])}" if neighbor else " | " for neighbor in ranked]
            parts.append("| " + " | ".join(cells) + " |")
        parts.append("")
    return "\n".join(parts)


def _wrapped(neighbor: Neighbor | None, column: int) -> list[str]:
    if neighbor is None:
        return [""]
    score = f"{neighbor[0]:.3f} "
    return textwrap.wrap(score + neighbor[1], column, subsequent_indent=" " * len(score))


def _row(cells: Sequence[str], column: int) -> str:
    return "  " + "  ".join(f"{cell:{column}.{column}}" for cell in cells).rstrip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
