"""How far a row of scores is from a row of targets: `[B, N]` scores and targets to `[B]` losses."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from contrastive_st.errors import InputError


def cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    """`- sum_j t_j log softmax(scores)_j`; candidates scored -inf take no part.

    Example:
        >>> import torch
        >>> cross_entropy(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
        tensor([0.6931])
    """
    return -(targets * scores.log_softmax(1).masked_fill(targets == 0, 0.0)).sum(1)


def kl_divergence(scores: Tensor, targets: Tensor) -> Tensor:
    """`KL(targets || softmax(scores))`: cross-entropy less the targets' own entropy, so that 0 is a perfect match.

    Example:
        >>> import torch
        >>> kl_divergence(torch.zeros(1, 2), torch.tensor([[0.5, 0.5]]))
        tensor([0.])
    """
    return cross_entropy(scores, targets) + torch.special.xlogy(targets, targets).sum(1)


def squared_error(scores: Tensor, targets: Tensor) -> Tensor:
    """Mean of `(score - target)^2` over the candidates not scored -inf: L2 against raw counts.

    Example:
        >>> import torch
        >>> squared_error(torch.tensor([[1.0, 5.0, float("-inf")]]), torch.tensor([[3.0, 5.0, 9.0]]))
        tensor([2.])
    """
    allowed = ~scores.isneginf()
    error = torch.where(allowed, scores - targets, 0.0)
    return error.square().sum(1) / allowed.sum(1).clamp_min(1)


def jensen_shannon(scores: Tensor, others: Tensor) -> Tensor:
    """`(KL(p || m) + KL(q || m)) / 2`, `m = (p + q) / 2`, of the softmaxes p and q of two rows of scores: 0 to ln 2.

    Candidates scored -inf have probability 0. (The published code of Cutoff has the divergences the wrong way round.)

    Example:
        >>> import torch
        >>> p, q = torch.tensor([[0.9, 0.1]]), torch.tensor([[0.1, 0.9]])
        >>> jensen_shannon(p.log(), q.log())
        tensor([0.3681])
    """
    logs = [rows.log_softmax(1) for rows in (scores, others)]
    first, second = (log.masked_fill(log.isneginf(), -1e30) for log in logs)  # finite: infinities have no difference
    middle = torch.logaddexp(first, second) - math.log(2)
    return (first.exp() * (first - middle) + second.exp() * (second - middle)).sum(1) / 2


def margin(difference: Tensor, link: str = "logistic") -> Tensor:
    """`l(positive - negative)` of Arora et al. 2019 (CURL): logistic `log(1 + exp(-x))`, or hinge `max(0, 1 - x)`.

    Example:
        >>> import torch
        >>> margin(torch.tensor([0.0, 3.0]), "hinge")
        tensor([1., 0.])
    """
    if link == "logistic":
        return functional.softplus(-difference)
    if link == "hinge":
        return functional.relu(1 - difference)
    raise InputError(f"unknown link {link!r}; choose logistic or hinge")


def block_loss(scores: Tensor, positives: Tensor, negatives: Tensor, link: str = "logistic") -> Tensor:
    """CURL's `l(f(x) . (mean of positives - mean of negatives))`; the scores are linear in the candidates.

    Args:
        scores: `[B, N]` dot products, finite wherever a weight is positive.
        positives: `[B, N]` rows that sum to one: the Toeplitz matrix that averages a block of positives.
        negatives: `[B, N]` rows that sum to one.
        link: logistic or hinge.
    """
    weights = positives - negatives
    return margin((weights * torch.where(weights == 0, 0.0, scores)).sum(1), link)


def pairwise_loss(scores: Tensor, positives: Tensor, negatives: Tensor, link: str = "logistic") -> Tensor:
    """CURL's `L_un`: the mean of `l(f(x) . (x+ - x-))` over an anchor's pairs of a positive and a negative.

    By Jensen's inequality it is at least `block_loss` of the same arguments.
    """
    total = torch.zeros_like(scores[:, 0])
    for weight, column in _columns(positives):
        difference = scores.gather(1, column) - torch.where(negatives == 0, 0.0, scores)
        total = total + weight * (negatives * margin(difference, link)).sum(1)
    return total


def _columns(weights: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The weights of each row from the largest down, `[B]`, with their columns `[B, 1]`, until all are zero."""
    width = int((weights > 0).sum(1).max()) if weights.numel() else 0
    values, columns = weights.topk(width, dim=1)
    return [(values[:, i], columns[:, i : i + 1]) for i in range(width)]
