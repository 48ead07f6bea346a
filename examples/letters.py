"""Random vectors of the letters of tokens, weighted by rarity and whitened: an embedding matrix without training."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from contrastive_st import StaticEncoder
from contrastive_st.models.architectures.static import unit
from contrastive_st.models.static_encoder import count_rows


def gram_directions(
    tokens: Sequence[str], dim: int, seed: int = 0, frequencies: NDArray[np.integer] | None = None, texts: int = 0
) -> Tensor:
    """Vectors `[V, dim]` of tokens, the sums of random directions of their character 2- to 4-grams.

    So words that share a stem are similar, as in fastText (Bojanowski et al. 2017). A `<` and a `>` mark the ends of a
    token. The cosine of two tokens is, up to the noise of the directions, that of their vectors of grams. Their length
    is 1, or with `frequencies` the square root of the IDF of the token's grams (the root of its mean square).

    Args:
        tokens: the vocabulary.
        dim: dimension of the vectors; the noise of a cosine is about 1 / sqrt(dim).
        seed: seed of the directions.
        frequencies: `[V]`, in how many texts each token occurs; rare grams then weigh more, by their IDF.
        texts: number of texts.

    Example:
        >>> a, b, c = gram_directions(["walking", "walks", "tree"], 256)
        >>> bool(a @ b > 0.3), bool(abs(a @ c) < 0.3)
        (True, True)
    """
    grams: dict[str, int] = {}
    rows = [[grams.setdefault(text[i : i + n], len(grams)) for n in (2, 3, 4) for i in range(len(text) - n + 1)]
            for text in (f"<{token}>" for token in tokens)]  # fmt: skip
    counts = count_rows(rows, len(grams))
    length: Any = 1.0
    if frequencies is not None:
        of_gram = np.minimum((counts > 0).T @ frequencies, texts)  # at most: two tokens of a text may share a gram
        counts = counts.multiply((np.log((1 + texts) / (1 + of_gram)) + 1).astype(np.float32)).tocsr()
        length = torch.from_numpy(np.asarray(counts.power(2).sum(1)) ** 0.25)
    draw = torch.Generator().manual_seed(seed)
    table = np.empty((len(tokens), dim), np.float32)
    for first in range(0, dim, _DRAWN):  # directions of all grams would take more memory than the table
        some = min(_DRAWN, dim - first)
        table[:, first : first + some] = counts @ torch.randn(len(grams), some, generator=draw).numpy()
    return unit(torch.from_numpy(table)) * length


_DRAWN = 64  # dimensions drawn at a time


def untrained_static(
    tokens: Sequence[str],
    weights: NDArray[np.floating],
    dim: int,
    seed: int = 0,
    frequencies: NDArray[np.integer] | None = None,
    texts: int = 0,
    **settings: Any,
) -> StaticEncoder:
    """A static encoder of `gram_directions` times the weights `[V]` of the tokens.

    Without training, sentences are similar as far as they share words, or words of one stem.

    Args:
        tokens: the vocabulary.
        weights: such as `contrastive_st.data.sif_weights`; zero for tokens without a meaning (`silent_ids`).
        dim: dimension of the vectors.
        seed: seed of the directions.
        frequencies: as for `gram_directions`.
        texts: as for `gram_directions`.
        settings: settings of the loss.

    Example:
        >>> model = untrained_static(["[UNK]", "cat", "cats"], np.array([0.0, 1.0, 0.5]), dim=4)
        >>> model.table().norm(dim=1).round(decimals=3).tolist()
        [0.0, 1.0, 0.5]
    """
    table = gram_directions(tokens, dim, seed, frequencies, texts)
    return StaticEncoder.from_table(table * torch.from_numpy(np.asarray(weights, np.float32))[:, None], **settings)


def whitened(table: Tensor, rows: Sequence[Sequence[int]], silent: Sequence[int] = (), power: float = 0.5) -> Tensor:
    """The matrix `[V, d]` with which texts like these have mean 0, and more equal variances in all directions.

    The mean of vectors that were shifted and rotated is the shifted and rotated mean, so whitening (Su et al. 2021,
    https://arxiv.org/abs/2103.15316) can be a part of the matrix.

    Args:
        table: the vectors of the tokens.
        rows: token ids of texts.
        silent: tokens whose vectors become zero.
        power: each principal axis of the texts' unit vectors is divided by its variance to this power: 0.5 makes all
            variances equal, 0 only shifts.

    Example:
        >>> whitened(torch.tensor([[5.0, 1.0], [3.0, 1.0]]), [[0], [1], [0, 1]], power=0.0).abs().tolist()
        [[0.0, 1.0], [0.0, 1.0]]
    """
    means = mean_vectors(table, rows)
    center = means.mean(0)
    values, axes = torch.linalg.eigh(torch.cov(unit(means - center).T.double(), correction=0))
    scales = values.clamp(min=1e-6 * float(values[-1])) ** -power
    found: Tensor = (table - center) @ (axes * scales).float()
    found[list(silent)] = 0
    return found


def channels(tables: Sequence[Tensor], shares: Sequence[float], rows: Sequence[Sequence[int]]) -> Tensor:
    """Tables `[V, d_i]` side by side, `[V, sum of d_i]`, so that each has its share of the cosine of typical texts.

    Example:
        >>> table = channels([torch.eye(2) * 9, torch.ones(2, 1)], [0.2, 0.8], [[0], [1]])
        >>> [[round(x, 3) for x in row] for row in (table**2).tolist()]
        [[0.2, 0.0, 0.8], [0.0, 0.2, 0.8]]
    """
    squares = [mean_vectors(table, rows).square().sum(1).mean() for table in tables]
    parts = [table * (share / size) ** 0.5 for table, share, size in zip(tables, shares, squares, strict=True)]
    return torch.cat(parts, 1)


def mean_vectors(table: Tensor, rows: Sequence[Sequence[int]]) -> Tensor:
    """The mean vector of the tokens of each text, `[len(rows), d]`."""
    lengths = torch.tensor([len(row) for row in rows])
    flat = torch.tensor(list(chain.from_iterable(rows)))
    return functional.embedding_bag(flat, table, lengths.cumsum(0) - lengths, mode="mean")
