"""InfoNCE over views: the objective of SimCSE, unsupervised and supervised."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from contrastive_st.errors import InputError
from contrastive_st.objectives.gather import LOCAL, Gather
from contrastive_st.objectives.scores import matmul_float32, normalize

BLOCK = 1 << 24  # scores held at a time, 64 MiB in float32: a larger matrix is never made


@dataclass(frozen=True)
class InfoNCE:
    r"""Cross-entropy of picking an anchor's own positive among all candidates (Gao et al. 2021, SimCSE).

    With `z` the unit views, `C` the candidates (the positives of all N sentences, then their hard negatives):

        loss_i = -log exp(z_i0 . z_i1 / T) / sum_c exp(z_i0 . z_c / T + [c is i's own hard negative] * w)

    Many anchors times many candidates are scored in blocks, each with its gradient at once: the result is that of the
    whole matrix, and the memory that of one block.

    Args:
        temperature: `T`; 0.05 in the paper.
        hard_negative_weight: `w`, the *log* of the paper's alpha, on an anchor's own hard negatives.
        symmetric: also pick the anchor from the positive, and average the two losses.

    Example:
        >>> import torch
        >>> views = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])  # B=2, V=2, d=2
        >>> round(InfoNCE(temperature=1.0)(views).item(), 4)  # log(1 + exp(-1))
        0.3133
    """

    temperature: float = 0.05
    hard_negative_weight: float = 0.0
    symmetric: bool = False

    def __call__(
        self, views: Tensor, targets: Tensor | None = None, *, keys: Tensor | None = None, gather: Gather = LOCAL
    ) -> Tensor:
        """The loss of one batch.

        Args:
            views: `[B, V, d]`, V >= 2: anchor, positive, then any number of hard negatives.
            targets: unused; each anchor's target is its own positive.
            keys: `[B, V]` integers, equal where the texts are equal. Equal texts are not each other's negatives.
            gather: where the candidates come from; see `contrastive_st.objectives.gather`.

        Raises:
            InputError: no anchor has a negative, so there is nothing to learn from.
        """
        loss = self._one_way(views, keys, gather)
        if self.symmetric:
            swapped = None if keys is None else keys[:, [1, 0]]
            loss = (loss + self._one_way(views[:, [1, 0]], swapped, gather)) / 2
        return loss * gather.share(len(views))

    def scores(self, views: Tensor, *, keys: Tensor | None = None, gather: Gather = LOCAL) -> tuple[Tensor, Tensor]:
        """Scores `[B, (V-1) * N]` with -inf on what is no negative, and the column of each own positive `[B]`."""
        contrast = Contrast.of(views, keys, gather)
        scores, _ = contrast.scores(slice(None), self.temperature, self.hard_negative_weight)
        return scores, contrast.own

    def _one_way(self, views: Tensor, keys: Tensor | None, gather: Gather) -> Tensor:
        contrast = Contrast.of(views, keys, gather)
        size = max(BLOCK // len(contrast.candidates), 1)
        if size >= len(views):
            total, found = self._block_loss(contrast, slice(None))
        else:
            blocks = [slice(start, start + size) for start in range(0, len(views), size)]
            total, found = _Blocked.apply(contrast.anchors, contrast.candidates, contrast, blocks, self._block_loss)
        if not found:
            raise InputError(
                "this batch has no negatives: every anchor's candidates are its own positive or equal texts. "
                "Give more than one distinct sentence a batch (a larger batch size, or a look at the data)"
            )
        return total / len(views)

    def _block_loss(self, contrast: Contrast, rows: slice) -> tuple[Tensor, Tensor]:
        scores, found = contrast.scores(rows, self.temperature, self.hard_negative_weight)
        return functional.cross_entropy(scores, contrast.own[rows], reduction="sum"), found


class _Blocked(torch.autograd.Function):
    """The sum of the losses of blocks of rows; each block's gradient is taken while its scores are there."""

    @staticmethod
    def forward(
        ctx: Any, anchors: Tensor, candidates: Tensor, contrast: Contrast, blocks: list[slice], block_loss: Any
    ) -> tuple[Tensor, Tensor]:
        leaves = [anchors.detach().requires_grad_(), candidates.detach().requires_grad_()]
        sums = [torch.zeros_like(leaf) for leaf in leaves]
        contrast = replace(contrast, anchors=leaves[0], candidates=leaves[1])
        total, any_found = anchors.new_zeros(()), torch.zeros((), dtype=torch.bool, device=anchors.device)
        for rows in blocks:
            with torch.enable_grad():
                loss, found = block_loss(contrast, rows)
            for gradient, part in zip(sums, torch.autograd.grad(loss, leaves), strict=True):
                gradient += part
            total += loss.detach()
            any_found |= found
        ctx.save_for_backward(*sums)
        ctx.mark_non_differentiable(any_found)
        return total, any_found

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor, Tensor, None, None, None]:  # type: ignore[override]
        anchors, candidates = ctx.saved_tensors
        return grad * anchors, grad * candidates, None, None, None


@dataclass(frozen=True)
class Contrast:
    """Local anchors and everybody's candidates: what is needed to score any block of rows.

    Args:
        anchors: unit vectors `[B, d]` of this process.
        candidates: unit vectors `[C, d]`, C = (V-1) * N: all positives, then all first hard negatives, and so on.
        own: `[B]`, the candidate that is an anchor's own positive.
        total: N, the number of sentences over all processes.
        keys: `[B, 2]` keys of the local anchors and their positives, or None.
        all_keys: `[N, V]` keys of everybody's texts, or None.
    """

    anchors: Tensor
    candidates: Tensor
    own: Tensor
    total: int
    keys: Tensor | None
    all_keys: Tensor | None

    @classmethod
    def of(cls, views: Tensor, keys: Tensor | None, gather: Gather) -> Contrast:
        """Gather the candidates of `views` `[B, V, d]`."""
        if views.dim() != 3 or views.shape[1] < 2:
            raise InputError(
                f"views must be [B, V, d] with V >= 2 (an anchor and a positive), got {tuple(views.shape)}"
            )
        candidates = gather(normalize(views[:, 1:]))
        own = gather.offset(len(views)) + torch.arange(len(views), device=views.device)
        return cls(
            normalize(views[:, 0]),
            candidates.transpose(0, 1).flatten(0, 1),
            own,
            len(candidates),
            None if keys is None else keys[:, :2],
            None if keys is None else gather(keys),
        )

    def scores(self, rows: slice, temperature: float, own_weight: float) -> tuple[Tensor, Tensor]:
        """Scores `[b, C]` of a block of rows, -inf where there is no negative; and whether it has any negative."""
        scores = matmul_float32(self.anchors[rows], self.candidates) / temperature
        own = self.own[rows, None]
        hard = own + torch.arange(self.total, len(self.candidates), self.total, device=own.device)
        if own_weight and hard.shape[1]:
            scores = scores + torch.zeros_like(scores).scatter_(1, hard, own_weight)
        excluded = self._equal_texts(rows, scores)
        found = ~excluded.scatter(1, own, True).all()
        return scores.masked_fill(excluded.scatter_(1, own, False), float("-inf")), found

    def _equal_texts(self, rows: slice, scores: Tensor) -> Tensor:
        """True `[b, C]` where a candidate's text is the anchor's or its positive's.

        The positive of another row is excluded too when that row has the same anchor text; a hard negative is not,
        since what contradicts an anchor contradicts its equal.
        """
        if self.keys is None or self.all_keys is None:
            return torch.zeros_like(scores, dtype=torch.bool)
        anchor, positive = self.keys[rows].split(1, dim=1)
        candidates = self.all_keys[:, 1:].T.flatten()
        excluded = (candidates == anchor) | (candidates == positive)
        excluded[:, : self.total] |= self.all_keys[:, 0] == anchor
        return excluded
