"""Targets: which candidates belong to which anchor, from where sentences stand or from the words they share.

Every function gives rows of `[B, N]`: one row an anchor, one column a sentence of the whole batch (of all processes).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from contrastive_st.errors import InputError


def window_offsets(size: int, weights: Sequence[float] | None = None, *, both_sides: bool = True) -> dict[int, float]:
    """Offset to weight, for a context window of `size` sentences to either side (or only after, as "next" does).

    Args:
        size: at least 1.
        weights: one weight a distance, nearest first; all 1 by default.
        both_sides: also the sentences before.

    Raises:
        InputError: a size below 1, or another number of weights than distances, or no positive weight.

    Example:
        >>> window_offsets(2, [1.0, 0.5])
        {1: 1.0, -1: 1.0, 2: 0.5, -2: 0.5}
        >>> window_offsets(1, both_sides=False)
        {1: 1.0}
    """
    if size < 1:
        raise InputError(f"context size {size}: a context window needs at least one sentence; give 1 or more")
    weights = [1.0] * size if weights is None else list(weights)
    if len(weights) != size:
        raise InputError(f"{len(weights)} context weights for a context size of {size}; give one weight a distance")
    if min(weights) < 0 or max(weights) <= 0:
        raise InputError(f"context weights {weights}: none may be negative and one must be positive")
    signs = (1, -1) if both_sides else (1,)
    return {sign * distance: float(weight) for distance, weight in enumerate(weights, 1) for sign in signs}


def context_window(places: Tensor, all_places: Tensor, offsets: Mapping[int, float]) -> Tensor:
    """Weights of the sentences in each other's context window, inside one document (QuickThoughts).

    A place is (document, position in it). Sentences 0-2 are one document, 3-4 another; next sentence only::

        places  [0 0]      targets  [ 0 1 0  0 0 ]
                [0 1]               [ 0 0 1  0 0 ]
                [0 2]               [ 0 0 0  0 0 ]   <- the last of its document: no positive, no loss
                [1 0]               [ 0 0 0  0 1 ]
                [1 1]               [ 0 0 0  0 0 ]

    A sentence left out of the data leaves a gap in the positions: its neighbours do not become adjacent.

    Args:
        places: `[B, 2]` integers, the anchors' documents and positions.
        all_places: `[N, 2]`, the candidates'.
        offsets: weight by offset of position; see `window_offsets`.

    Returns:
        `[B, N]` weights, not normalised.

    Example:
        >>> import torch
        >>> places = torch.tensor([[0, 0], [0, 1], [1, 0]])
        >>> context_window(places, places, {1: 1.0, -1: 0.5})
        tensor([[0.0000, 1.0000, 0.0000],
                [0.5000, 0.0000, 0.0000],
                [0.0000, 0.0000, 0.0000]])
    """
    reach = max(map(abs, offsets))
    table = torch.zeros(2 * reach + 3, device=places.device)  # a zero on either end for whatever is further away
    for offset, weight in offsets.items():
        table[offset + reach + 1] = weight
    distance = (all_places[None, :, 1] - places[:, None, 1]).clamp(-reach - 1, reach + 1) + reach + 1
    return table[distance] * (all_places[None, :, 0] == places[:, None, 0])


def overlap(bags: Tensor, all_bags: Tensor) -> Tensor:
    """Dot products of bags of words, `[B, K, 2], [N, M, 2] -> [B, N]`: co-occurrence counts, or TF-IDF similarities.

    A bag is a list of (word id, weight), padded with weight 0. Over "the lamp is red", "the birds sang", "birds eat
    worms", "the boy near the gate fed the cows", with counts and with TF-IDF weights::

        counts  [ 4  1  0  3 ]        TF-IDF  [ 1     0.155 0     0.225 ]
                [ 1  3  1  3 ]                [ 0.155 1     0.270 0.291 ]
                [ 0  1  3  0 ]                [ 0     0.270 1     0     ]
                [ 3  3  0 14 ]                [ 0.225 0.291 0     1     ]

    The words are joined by id: nothing of size batch x vocabulary is made.

    Example:
        >>> import torch
        >>> bags = torch.tensor([[[7, 1.0], [8, 1.0]], [[7, 2.0], [9, 1.0]]])  # words 7 8, and 7 7 9
        >>> overlap(bags, bags)
        tensor([[2., 2.],
                [2., 5.]])
    """
    ids = torch.cat([bags[..., 0].flatten(), all_bags[..., 0].flatten()])
    _, columns = ids.unique(return_inverse=True)
    left, right = columns.split([bags[..., 0].numel(), all_bags[..., 0].numel()])
    width = int(columns.max()) + 1 if len(columns) else 1
    a, b = _sparse(bags, left, width), _sparse(all_bags, right, width)
    with torch.autocast(bags.device.type, enabled=False), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")  # the product goes through it
        return torch.sparse.mm(a, b.T).to_dense()


def _sparse(bags: Tensor, columns: Tensor, width: int) -> Tensor:
    rows = torch.arange(len(bags), device=bags.device).repeat_interleave(bags.shape[1])
    kept = bags[..., 1].flatten() != 0
    where = torch.stack([rows, columns])[:, kept]
    values = bags[..., 1].flatten()[kept]
    return torch.sparse_coo_tensor(where, values, (len(bags), width), check_invariants=True).coalesce()


def soften(similarities: Tensor, allowed: Tensor, temperature: float = 1.0) -> Tensor:
    """softmax(similarities / temperature) over the allowed candidates; T -> 0 is the peaked limit.

    Example:
        >>> import torch
        >>> soften(torch.tensor([[9.0, 1.0, 1.0]]), torch.tensor([[False, True, True]]))
        tensor([[0.0000, 0.5000, 0.5000]])
    """
    return (similarities / temperature).masked_fill(~allowed, float("-inf")).softmax(1).nan_to_num(0.0)


def binarize(similarities: Tensor, allowed: Tensor) -> Tensor:
    """One-hot of the most similar allowed candidate, the first of equals; a row that resembles nothing has none.

    Of the TF-IDF similarities shown at `overlap`, without the diagonal::

        [ 0 0 0 1 ]
        [ 0 0 0 1 ]
        [ 0 1 0 0 ]
        [ 0 1 0 0 ]

    Example:
        >>> import torch
        >>> binarize(torch.tensor([[1.0, 0.2, 0.3], [0.2, 1.0, 0.0]]), ~torch.eye(3, dtype=torch.bool)[:2])
        tensor([[0., 0., 1.],
                [1., 0., 0.]])
    """
    best, column = similarities.masked_fill(~allowed, 0.0).max(1, keepdim=True)
    return torch.zeros_like(similarities).scatter_(1, column, (best > 0).to(similarities.dtype))


def normalize_rows(weights: Tensor) -> Tensor:
    """Rows that sum to one; a row of zeros stays so.

    Example:
        >>> import torch
        >>> normalize_rows(torch.tensor([[1.0, 3.0], [0.0, 0.0]]))
        tensor([[0.2500, 0.7500],
                [0.0000, 0.0000]])
    """
    return weights / weights.sum(1, keepdim=True).clamp_min(1e-30)


def smooth_labels(targets: Tensor, allowed: Tensor, mass: float) -> Tensor:
    """Move a total of `mass` of each row to all its allowed candidates alike.

    Example:
        >>> import torch
        >>> smooth_labels(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([[False, True, True]]), 0.1)
        tensor([[0.0000, 0.9500, 0.0500]])
    """
    return (1 - mass) * targets + mass * targets.sum(1, keepdim=True) * normalize_rows(allowed.to(targets.dtype))
