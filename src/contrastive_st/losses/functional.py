"""Scores of anchors and candidates, and losses of rows of scores; in float32 or wider, also under autocast."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional

from contrastive_st.errors import InputError, choice

# --- Losses `[B]` of rows: how far scores `[B, N]` are from targets `[B, N]`.


def check_shape(what: str, x: Tensor | None, shape: Sequence[int | None], collator: str = "") -> Tensor:
    """Check the shape of a tensor that a loss is given.

    Args:
        what: what the tensor holds, for the message.
        x: the tensor.
        shape: its shape; None for a dimension of any size.
        collator: the collator that makes it.

    Returns:
        The tensor.

    Raises:
        InputError: there is none, or it has another shape.

    Example:
        >>> check_shape("scores", torch.ones(2), (2, None), "CandidatesCollator")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: scores: a tensor (2, *) is needed, got (2,); collate with CandidatesCollator
    """
    fits = (
        x is not None
        and x.dim() == len(shape)
        and all(want in (None, n) for n, want in zip(x.shape, shape, strict=True))
    )
    if x is None or not fits:
        expected = ", ".join("*" if n is None else str(n) for n in shape)
        got = "none" if x is None else tuple(x.shape)
        how = f"; collate with {collator}" if collator else ""
        raise InputError(f"{what}: a tensor ({expected}) is needed, got {got}{how}")
    return x


def cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    """`- sum_j t_j log softmax(scores)_j`; candidates with score -inf are left out.

    Example:
        >>> import torch
        >>> cross_entropy(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
        tensor([0.6931])
    """
    return -(targets * scores.log_softmax(1).masked_fill(targets == 0, 0.0)).sum(1)


def kl_divergence(scores: Tensor, targets: Tensor) -> Tensor:
    """`KL(targets || softmax(scores))`: the cross-entropy minus the entropy of the targets; 0 for a perfect match.

    Example:
        >>> import torch
        >>> kl_divergence(torch.zeros(1, 2), torch.tensor([[0.5, 0.5]]))
        tensor([0.])
    """
    divergence: Tensor = cross_entropy(scores, targets) + torch.special.xlogy(targets, targets).sum(1)
    return divergence


def squared_error(scores: Tensor, targets: Tensor) -> Tensor:
    """Mean of `(score - target)^2` over the candidates whose score is not -inf.

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

    Candidates with score -inf have probability 0. (In the published code of Cutoff, both divergences have their
    arguments swapped.)

    Example:
        >>> import torch
        >>> p, q = torch.tensor([[0.9, 0.1]]), torch.tensor([[0.1, 0.9]])
        >>> jensen_shannon(p.log(), q.log())
        tensor([0.3681])
    """
    logs = [rows.log_softmax(1) for rows in (scores, others)]
    first, second = (log.masked_fill(log.isneginf(), -1e30) for log in logs)  # finite, because inf - inf is NaN
    middle = torch.logaddexp(first, second) - math.log(2)
    return (first.exp() * (first - middle) + second.exp() * (second - middle)).sum(1) / 2


def margin(difference: Tensor, surrogate: str = "logistic") -> Tensor:
    """`l(positive - negative)` of Arora et al. 2019 (CURL): logistic `log(1 + exp(-x))`, or hinge `max(0, 1 - x)`.

    Example:
        >>> import torch
        >>> margin(torch.tensor([0.0, 3.0]), "hinge")
        tensor([1., 0.])
    """
    hinge = choice("surrogate", surrogate, ("logistic", "hinge")) == "hinge"
    return functional.relu(1 - difference) if hinge else functional.softplus(-difference)


def block_loss(scores: Tensor, positives: Tensor, negatives: Tensor, surrogate: str = "logistic") -> Tensor:
    """The block loss of CURL, `l(f(x) . (mean of positives - mean of negatives))`, computed from dot products.

    Args:
        scores: `[B, N]` dot products, finite wherever a weight is positive.
        positives: `[B, N]` weights of the positives; rows sum to one.
        negatives: `[B, N]` weights of the negatives; rows sum to one.
        surrogate: logistic or hinge.
    """
    weights = positives - negatives
    return margin((weights * torch.where(weights == 0, 0.0, scores)).sum(1), surrogate)


def pairwise_loss(
    scores: Tensor, positives: Tensor, negatives: Tensor, surrogate: str = "logistic", most: int | None = None
) -> Tensor:
    """The loss `L_un` of CURL: the mean of `l(f(x) . (x+ - x-))` over an anchor's pairs of a positive and a negative.

    By Jensen's inequality it is at least `block_loss` of the same arguments.

    Args:
        scores: as for `block_loss`.
        positives: as for `block_loss`.
        negatives: as for `block_loss`.
        surrogate: logistic or hinge.
        most: greatest number of negatives in a row; by default they are counted, for which the host waits.
    """
    if most is None:
        most = int((negatives > 0).sum(1).max()) if negatives.numel() else 0
    total = torch.zeros_like(scores[:, 0])
    reached = torch.where(positives == 0, 0.0, scores)
    for weight, column in zip(*(x.unbind(1) for x in negatives.topk(most, dim=1)), strict=True):
        against = torch.where(weight[:, None] == 0, 0.0, scores.gather(1, column[:, None]))
        total = total + weight * (positives * margin(reached - against, surrogate)).sum(1)
    return total


# --- Losses over many anchors and candidates, computed a block of rows at a time to bound the size of score matrices.

BLOCK = 1 << 24  # most scores held at a time, 64 MiB in float32
_CPU_ROWS = 512  # most anchors of a block on a CPU, whose caches then hold more of their scores

RowsLoss = Callable[[Tensor, Tensor, slice], tuple[Tensor, Tensor]]


def in_blocks(
    anchors: Tensor, candidates: Tensor, rows_loss: RowsLoss, held: int | None = None
) -> tuple[Tensor, Tensor]:
    """Sum `rows_loss` over blocks of anchors; value and gradient are the same as without blocks.

    The gradient of a block is computed together with its loss, so only the scores of one block are in memory.

    Args:
        anchors: `[B, d]`.
        candidates: `[C, d]`.
        rows_loss: called with the anchors `[b, d]` of a block, all candidates, and the slice of the block's rows;
            returns the sum of the losses of these rows, and a count that is summed too (such as of the rows that have
            a loss).
        held: how many numbers `rows_loss` holds per anchor; by default a score for each candidate.

    Returns:
        The sum of the losses and the sum of the counts, scalars.

    Example:
        >>> import torch
        >>> loss = lambda a, c, rows: ((a @ c.T).sum(), torch.tensor(len(a)))
        >>> total, count = in_blocks(torch.ones(3, 2), torch.ones(4, 2), loss)
        >>> total.item(), count.item()
        (24.0, 3)
    """
    size = max(BLOCK // max(len(candidates) if held is None else held, 1), 1)
    if anchors.device.type == "cpu":
        size = min(size, _CPU_ROWS)
    if size >= len(anchors):
        return rows_loss(anchors, candidates, slice(0, len(anchors)))
    blocks = [slice(start, min(start + size, len(anchors))) for start in range(0, len(anchors), size)]
    sums: tuple[Tensor, Tensor] = _Blocked.apply(anchors, candidates, blocks, rows_loss)
    return sums


class _Blocked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx, anchors: Tensor, candidates: Tensor, blocks: list[slice], rows_loss: RowsLoss
    ) -> tuple[Tensor, Tensor]:
        leaves = [anchors.detach().requires_grad_(), candidates.detach().requires_grad_()]
        sums = [torch.zeros_like(leaf) for leaf in leaves]
        total, count = anchors.new_zeros(()), torch.zeros((), dtype=torch.long, device=anchors.device)
        for rows in blocks:
            with torch.enable_grad():
                loss, result = rows_loss(leaves[0][rows], leaves[1], rows)
            for gradient, part in zip(sums, torch.autograd.grad(loss, leaves), strict=True):
                gradient += part
            total += loss.detach()
            count += result
        ctx.save_for_backward(*sums)
        ctx.mark_non_differentiable(count)
        return total, count

    @staticmethod
    def backward(ctx: _Saved, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None]:
        anchors, candidates = ctx.saved_tensors
        return grad * anchors, grad * candidates, None, None


def at_least_float32(x: Tensor) -> Tensor:
    """`x` in float32, or in float64 if it is that already."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def normalize(x: Tensor) -> Tensor:
    """Unit vectors along the last dimension; a zero vector stays zero, and so does its gradient.

    torch's is 1 / eps there (findings/torch_normalize_zero.sh), and clipping then takes all from the others: a static
    model has a zero vector for a text without a known token.

    Example:
        >>> import torch
        >>> x = torch.tensor([[3.0, 4.0], [0.0, 0.0]], dtype=torch.float64, requires_grad=True)
        >>> normalize(x).sum().backward()
        >>> x.grad.round(decimals=3).tolist()
        [[0.032, -0.024], [0.0, 0.0]]
    """
    x = at_least_float32(x)
    return torch.nn.functional.normalize(x, dim=-1).masked_fill(~x.any(-1, keepdim=True), 0.0)


def cosine_scores(anchors: Tensor, candidates: Tensor, temperature: float = 1.0) -> Tensor:
    """Cosine similarity over temperature, `[B, d], [C, d] -> [B, C]`, as one matrix product.

    Example:
        >>> import torch
        >>> cosine_scores(torch.tensor([[2.0, 0.0]]), torch.tensor([[3.0, 0.0], [0.0, 1.0]]), 0.5)
        tensor([[2., 0.]])
    """
    return matmul_float32(normalize(anchors), normalize(candidates)) / temperature


def angular_similarity(a: Tensor, b: Tensor) -> Tensor:
    """`1 - arccos(cos(a, b)) / pi`, `[B, d], [C, d] -> [B, C]`: 1 for the same direction, 0 for the opposite.

    It differs more than the cosine between nearly equal vectors (Cer et al. 2018, Universal Sentence Encoder). It is
    computed in float64, since the arc cosine loses half of the digits near 1, and kept 5e-7 away from 0 and 1, so that
    the gradient is finite.

    Example:
        >>> import torch
        >>> a, b = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 1.0], [-3.0, 0.0]])
        >>> angular_similarity(a, b).round(decimals=4)
        tensor([[1.0000, 0.5000, 0.0000]])
    """
    cosines = matmul_float32(normalize(a.double()), normalize(b.double())).clamp(-1 + 1e-12, 1 - 1e-12)
    return (1 - cosines.acos() / math.pi).to(at_least_float32(a).dtype)


def dot_scores(anchors: Tensor, candidates: Tensor) -> Tensor:
    """Plain dot products, `[B, d], [C, d] -> [B, C]`."""
    return matmul_float32(at_least_float32(anchors), at_least_float32(candidates))


def matmul_float32(anchors: Tensor, candidates: Tensor) -> Tensor:
    """`anchors @ candidates.T` outside autocast; large float32 products on a CPU are computed by oneDNN."""
    with torch.autocast(anchors.device.type, enabled=False):
        on_cpu = anchors.device.type == candidates.device.type == "cpu"
        large = len(anchors) * len(candidates) >= _LEAST and anchors.dtype == candidates.dtype == torch.float32
        if on_cpu and large and torch.backends.mkldnn.is_available() and hasattr(_OPS, "_linear_pointwise"):
            product: Tensor = _OneDNNProduct.apply(anchors, candidates)
            return product
        return anchors @ candidates.T


_LEAST = 1 << 18  # scores; with fewer it gains nothing
_OPS = torch.ops.mkldnn


class _Saved(Protocol):
    saved_tensors: tuple[Tensor, ...]


class _OneDNNProduct(torch.autograd.Function):
    """`a @ b.T` and its gradient. torch's library for float32 products takes twice as long on AMD processors."""

    @staticmethod
    def forward(ctx: FunctionCtx, a: Tensor, b: Tensor) -> Tensor:
        a, b = a.contiguous(), b.contiguous()  # for rows with gaps, such as every second one, oneDNN has no fast code
        ctx.save_for_backward(a, b)
        return _OneDNNProduct.product(a, b)

    @staticmethod
    @once_differentiable
    def backward(ctx: _Saved, grad: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        grad = grad.contiguous()
        return _OneDNNProduct.product(grad, b.T), _OneDNNProduct.product(grad.T, a.T)

    @staticmethod
    def product(a: Tensor, b: Tensor) -> Tensor:
        """`a @ b.T`."""
        result: Tensor = _OPS._linear_pointwise(a, b, None, "none", [], "")
        return result


_MEASURED, _MEASURED_SCORES = 1024, 1 << 24


def measured_rows(columns: int) -> slice:
    """The first rows of a batch, which are measured for the log, if each has scores of this many candidates.

    Example:
        >>> measured_rows(2048), measured_rows(1 << 20)
        (slice(None, 1024, None), slice(None, 16, None))
    """
    return slice(min(_MEASURED, max(_MEASURED_SCORES // max(columns, 1), 1)))
