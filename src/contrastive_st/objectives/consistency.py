"""InfoNCE and a consistency term between the two views: the loss of Cutoff."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from contrastive_st.objectives.blocks import in_blocks
from contrastive_st.objectives.gather import LOCAL, Gather
from contrastive_st.objectives.info_nce import Contrast, InfoNCE
from contrastive_st.objectives.row_losses import jensen_shannon


@dataclass(frozen=True)
class ConsistentInfoNCE(InfoNCE):
    r"""Cross-entropy of the contrast, and the divergence of what the two views make of it (Shen et al. 2020, Cutoff).

    With `p_i = softmax_c(z_i0 . z_c1 / T)` over the sentences (and hard negatives), and `q_i` the same from the other
    side, `softmax_c(z_i1 . z_c0 / T)`:

        loss = InfoNCE + js_weight * mean over i of (KL(p_i || m_i) + KL(q_i || m_i)) / 2,   m_i = (p_i + q_i) / 2

    Args:
        js_weight: of the divergence; 1 in the paper.

    Example:
        >>> views = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])  # equal views: no divergence
        >>> bool(ConsistentInfoNCE(js_weight=9.0)(views) == InfoNCE()(views))
        True
    """

    js_weight: float = 1.0

    def __call__(
        self,
        views: Tensor,
        targets: Tensor | None = None,
        *,
        keys: Tensor | None = None,
        gather: Gather = LOCAL,
        **other: Any,
    ) -> Tensor:
        """The loss of one batch; arguments and errors as of `InfoNCE`."""
        loss = super().__call__(views, targets, keys=keys, gather=gather, **other)
        return loss + self.js_weight * self.consistency(views, keys, gather)

    def consistency(self, views: Tensor, keys: Tensor | None = None, gather: Gather = LOCAL) -> Tensor:
        """The mean divergence over the sentences of all processes, 0 to ln 2."""
        swapped = [1, 0, *range(2, views.shape[1])]
        both = (
            Contrast.of(views, keys, gather),
            Contrast.of(views[:, swapped], None if keys is None else keys[:, swapped], gather),
        )

        def rows_loss(anchors: Tensor, candidates: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
            scores = [
                contrast.scores(anchor, candidate, rows, self)[0]
                for contrast, anchor, candidate in zip(both, anchors.chunk(2, 1), candidates.chunk(2, 1), strict=True)
            ]
            return jensen_shannon(*scores).sum(), torch.tensor(len(anchors), device=anchors.device)

        anchors = torch.cat([contrast.anchors for contrast in both], 1)
        total, _ = in_blocks(anchors, torch.cat([contrast.candidates for contrast in both], 1), rows_loss)
        return gather.mean(total, len(views))
