"""InfoNCE over views: the loss of SimCSE, unsupervised and supervised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.errors import InputError
from contrastive_st.losses.base import Loss
from contrastive_st.losses.functional import in_blocks, jensen_shannon, matmul_float32, normalize


class Queue(NamedTuple):
    """Candidates of former batches: unit vectors `[K, d]`; text hashes `[K, 2]` of their anchors and of themselves."""

    embeddings: Tensor
    text_hashes: Tensor


@dataclass(frozen=True)
class InfoNCE(Loss):
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

    name: ClassVar[str] = "info_nce"
    temperature: float = 0.05
    hard_negative_weight: float = 0.0
    symmetric: bool = False

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise InputError(f"temperature must be positive, got {self.temperature}")

    def __call__(
        self,
        views: Tensor,
        targets: Tensor | None = None,
        *,
        text_hashes: Tensor | None = None,
        gather: Gather = LOCAL,
        queue: Queue | None = None,
    ) -> Tensor:
        """The loss of one batch.

        Args:
            views: `[B, V, d]`, V >= 2: anchor, positive, then any number of hard negatives.
            targets: unused; each anchor's target is its own positive.
            text_hashes: `[B, V]` integers, equal where the texts are equal. Equal texts are not each other's negatives.
            gather: where the candidates come from; see `contrastive_st.distributed`.
            queue: candidates of former batches, the same on every process.

        Raises:
            InputError: no anchor has a negative, so there is nothing to learn from.
        """
        loss = self._one_way(views, text_hashes, gather, queue)
        if self.symmetric:
            swapped = None if text_hashes is None else text_hashes[:, [1, 0]]
            loss = (loss + self._one_way(views[:, [1, 0]], swapped, gather, queue)) / 2
        return loss

    def metrics(
        self,
        views: Tensor,
        targets: Tensor | None = None,
        *,
        text_hashes: Tensor | None = None,
        gather: Gather = LOCAL,
        queue: Queue | None = None,
    ) -> dict[str, float]:
        """What a training log wants to see of a batch.

        In-batch `accuracy`, the number of `candidates`, `temperature`, and `alignment`: the mean squared distance of
        the unit vectors of anchor and positive (Wang and Isola 2020).
        """
        scores, own = self.scores(views, text_hashes=text_hashes, gather=gather, queue=queue)
        own = own[:, None]
        return {
            "accuracy": (scores.argmax(1, keepdim=True) == own).float().mean().item(),
            "candidates": scores.shape[1],
            "temperature": self.temperature,
            "alignment": (2 - 2 * self.temperature * scores.gather(1, own)).mean().item(),
        }

    def scores(
        self, views: Tensor, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL, queue: Queue | None = None
    ) -> tuple[Tensor, Tensor]:
        """Scores `[B, (V-1) * N + K]` with -inf on what is no negative, and the column of each own positive `[B]`."""
        contrast = Contrast.of(views, text_hashes, gather, queue)
        scores, _ = contrast.scores(contrast.anchors, contrast.candidates, slice(None), self)
        return scores, contrast.own

    def describe(self, anchors: int, num_views: int) -> str:
        """What a step contrasts, in words, from the number of anchors over all processes and the views of each."""
        hard = anchors * (num_views - 2)
        words = f"{anchors} anchors a step, each against {anchors - 1} in-batch negatives"
        return words + (f" and {hard} hard negatives" if hard else "")

    def _one_way(self, views: Tensor, text_hashes: Tensor | None, gather: Gather, queue: Queue | None) -> Tensor:
        contrast = Contrast.of(views, text_hashes, gather, queue)

        def rows_loss(anchors: Tensor, candidates: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
            scores, found = contrast.scores(anchors, candidates, rows, self)
            return functional.cross_entropy(scores, contrast.own[rows], reduction="sum"), found

        total, found = in_blocks(contrast.anchors, contrast.candidates, rows_loss)
        if not found:
            raise InputError(
                "this batch has no negatives: every anchor's candidates are its own positive or equal texts. "
                "Give more than one distinct sentence a batch (a larger batch size, or a look at the data)"
            )
        return gather.mean(total, len(views))


@dataclass(frozen=True)
class Contrast:
    """Local anchors and everybody's candidates: what is needed to score any block of rows.

    Args:
        anchors: unit vectors `[B, d]` of this process.
        candidates: unit vectors `[(V-1) * N + K, d]`: all positives, then all first hard negatives, and so on; at the
            end those of the queue.
        own: `[B]`, the candidate that is an anchor's own positive.
        total: N, the number of sentences over all processes.
        text_hashes: `[B, 2]` of the local anchors and their positives, or None.
        all_hashes: `[N, V]` of everybody's texts, or None.
        queue: the candidates of former batches, or None.
    """

    anchors: Tensor
    candidates: Tensor
    own: Tensor
    total: int
    text_hashes: Tensor | None
    all_hashes: Tensor | None
    queue: Queue | None

    @classmethod
    def of(cls, views: Tensor, text_hashes: Tensor | None, gather: Gather, queue: Queue | None = None) -> Contrast:
        """Gather the candidates of `views` `[B, V, d]`, and add those of the queue."""
        if views.dim() != 3 or views.shape[1] < 2:
            raise InputError(
                f"views must be [B, V, d] with V >= 2 (an anchor and a positive), got {tuple(views.shape)}"
            )
        positives = gather(normalize(views[:, 1:]))
        candidates = positives.transpose(0, 1).flatten(0, 1)
        own = gather.offset(len(views)) + torch.arange(len(views), device=views.device)
        return cls(
            normalize(views[:, 0]),
            candidates if queue is None else torch.cat([candidates, queue.embeddings.to(candidates.dtype)]),
            own,
            len(positives),
            None if text_hashes is None else text_hashes[:, :2],
            None if text_hashes is None else gather(text_hashes),
            queue,
        )

    def scores(self, anchors: Tensor, candidates: Tensor, rows: slice, loss: InfoNCE) -> tuple[Tensor, Tensor]:
        """Scores `[b, C]` of a block of rows, -inf where there is no negative; and how many rows have a negative."""
        scores = matmul_float32(anchors, candidates) / loss.temperature
        own, weight = self.own[rows, None], loss.hard_negative_weight
        in_batch = len(self.candidates) - (0 if self.queue is None else len(self.queue.embeddings))
        hard = own + torch.arange(self.total, in_batch, self.total, device=own.device)
        if weight and hard.shape[1]:
            scores = scores + torch.zeros_like(scores).scatter_(1, hard, weight)
        excluded = self._equal_texts(rows, scores)
        found = (~excluded.scatter(1, own, True)).any(1).sum()
        return scores.masked_fill(excluded.scatter_(1, own, False), float("-inf")), found

    def _equal_texts(self, rows: slice, scores: Tensor) -> Tensor:
        """True `[b, C]` where a candidate's text is the anchor's or its positive's.

        The positive of another row, of this batch or a former one, is excluded too when that row has the same anchor
        text; a hard negative is not, since what contradicts an anchor contradicts its equal.
        """
        if self.text_hashes is None or self.all_hashes is None:
            return torch.zeros_like(scores, dtype=torch.bool)
        anchor, positive = self.text_hashes[rows].split(1, dim=1)
        candidates = self.all_hashes[:, 1:].T.flatten()
        in_batch = len(candidates)
        if self.queue is not None:
            candidates = torch.cat([candidates, self.queue.text_hashes[:, 1]])
        excluded: Tensor = (candidates == anchor) | (candidates == positive)
        excluded[:, : self.total] |= self.all_hashes[:, 0] == anchor
        if self.queue is not None:
            excluded[:, in_batch:] |= self.queue.text_hashes[:, 0] == anchor
        return excluded


# --- InfoNCE and a consistency term between the two views: the loss of Cutoff.


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

    name: ClassVar[str] = "consistent_info_nce"
    js_weight: float = 1.0

    def __call__(
        self,
        views: Tensor,
        targets: Tensor | None = None,
        *,
        text_hashes: Tensor | None = None,
        gather: Gather = LOCAL,
        **other: Any,
    ) -> Tensor:
        """The loss of one batch; arguments and errors as of `InfoNCE`."""
        loss = super().__call__(views, targets, text_hashes=text_hashes, gather=gather, **other)
        return loss + self.js_weight * self.consistency(views, text_hashes, gather)

    def consistency(self, views: Tensor, text_hashes: Tensor | None = None, gather: Gather = LOCAL) -> Tensor:
        """The mean divergence over the sentences of all processes, 0 to ln 2."""
        swapped = [1, 0, *range(2, views.shape[1])]
        both = (
            Contrast.of(views, text_hashes, gather),
            Contrast.of(views[:, swapped], None if text_hashes is None else text_hashes[:, swapped], gather),
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
