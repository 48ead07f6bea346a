"""InfoNCE over views: the objective of SimCSE, unsupervised and supervised."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from contrastive_st.errors import InputError
from contrastive_st.objectives.gather import LOCAL, Gather
from contrastive_st.objectives.scores import matmul_float32, normalize


@dataclass(frozen=True)
class InfoNCE:
    r"""Cross-entropy of picking an anchor's own positive among all candidates (Gao et al. 2021, SimCSE).

    With `z` the unit views, `C` the candidates (the positives of all N sentences, then their hard negatives):

        loss_i = -log exp(z_i0 . z_i1 / T) / sum_c exp(z_i0 . z_c / T + [c is i's own hard negative] * w)

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
        scores, labels = self.scores(views, keys=keys, gather=gather)
        loss = functional.cross_entropy(scores, labels)
        if self.symmetric:
            backwards, labels = self.scores(
                views[:, [1, 0]], keys=None if keys is None else keys[:, [1, 0]], gather=gather
            )
            loss = (loss + functional.cross_entropy(backwards, labels)) / 2
        return loss * gather.share(len(views))

    def scores(self, views: Tensor, *, keys: Tensor | None = None, gather: Gather = LOCAL) -> tuple[Tensor, Tensor]:
        """Scores `[B, (V-1) * N]` with -inf on what is no negative, and the column of each own positive `[B]`."""
        if views.dim() != 3 or views.shape[1] < 2:
            raise InputError(
                f"views must be [B, V, d] with V >= 2 (an anchor and a positive), got {tuple(views.shape)}"
            )
        anchors, candidates = normalize(views[:, 0]), gather(normalize(views[:, 1:]))
        rows, (total, others) = len(views), candidates.shape[:2]
        own = gather.offset(rows) + torch.arange(rows, device=views.device)
        scores = matmul_float32(anchors, candidates.transpose(0, 1).flatten(0, 1)) / self.temperature
        if self.hard_negative_weight and others > 1:
            blocks = torch.arange(1, others, device=views.device) * total
            weight = torch.zeros_like(scores)
            weight.scatter_(1, own[:, None] + blocks, self.hard_negative_weight)
            scores = scores + weight
        excluded = _not_negatives(keys, gather, total, others) if keys is not None else torch.zeros_like(scores).bool()
        excluded.scatter_(1, own[:, None], True)
        if excluded.all():
            raise InputError(
                "this batch has no negatives: every anchor's candidates are its own positive or equal texts. "
                "Give more than one distinct sentence a batch (a larger batch size, or a look at the data)"
            )
        excluded.scatter_(1, own[:, None], False)
        return scores.masked_fill(excluded, float("-inf")), own


def _not_negatives(keys: Tensor, gather: Gather, total: int, others: int) -> Tensor:
    """True `[B, others * total]` where a candidate's text is the anchor's or its positive's.

    The positive of another row is excluded too when that row has the same anchor text; a hard negative is not,
    since what contradicts an anchor contradicts its equal.
    """
    everyone = gather(keys)
    anchor, positive = keys[:, :1], keys[:, 1:2]
    candidates = everyone[:, 1:].T.flatten()
    excluded = (candidates == anchor) | (candidates == positive)
    excluded[:, :total] |= everyone[:, 0] == anchor
    return excluded
