"""Losses of candidates with a teacher's scores: MarginMSE, and the KL divergence of a list of candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from contrastive_st.citations import cited
from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.errors import InputError
from contrastive_st.losses.base import Loss, require
from contrastive_st.losses.functional import at_least_float32, in_blocks, kl_divergence, matmul_float32, normalize
from contrastive_st.options import Positive

if TYPE_CHECKING:
    from datasets import Dataset

Scores = Literal["cosine", "dot"]
_SHARP = 0.05  # temperature of scores that lie between -1 and 1: cosines, or probabilities


class CandidatesLoss(Loss, register=False):
    """Base of the losses whose targets `[B, C]` are a teacher's scores of an anchor's C candidates.

    The first candidate is the positive. A row with fewer candidates than the others is filled up with views that have
    no text, and NaN as their scores: they are in no term of a loss.
    """

    scores: Scores
    temperature: Positive
    tag: ClassVar[str] = "distillation"
    trains: ClassVar[tuple[str, ...]] = ("scored_candidates",)

    def metrics(self, views: Tensor, targets: Tensor | None = None, **other: object) -> dict[str, float]:
        """Metrics of this process's part of a batch.

        `accuracy`: how often the student's best candidate is the teacher's best. `correlation`: Pearson correlation of
        their scores, each less the mean of its row.
        """
        teacher, there = _teacher(views, targets)
        student = self.student_scores(views)
        best = [scores.masked_fill(~there, float("-inf")).argmax(1) for scores in (student, teacher)]
        count = there.sum(1, keepdim=True)
        ours, theirs = (
            ((rows - (rows * there).sum(1, keepdim=True) / count) * there).flatten() for rows in (student, teacher)
        )
        return {
            "accuracy": (best[0] == best[1]).float().mean().item(),
            "correlation": torch.nn.functional.cosine_similarity(ours, theirs, dim=0).item(),
        }

    def student_scores(self, views: Tensor) -> Tensor:
        """The student's scores of its own candidates, `[B, 1 + C, d] -> [B, C]`: similarity over temperature."""
        vectors = self._vectors(views)
        return (vectors[:, :1] * vectors[:, 1:]).sum(-1) / self.temperature

    def _vectors(self, views: Tensor) -> Tensor:
        return normalize(views) if self.scores == "cosine" else at_least_float32(views)


def _teacher(views: Tensor, targets: Tensor | None) -> tuple[Tensor, Tensor]:
    """The teacher's scores `[B, C]`, 0 where there is no candidate, and a mask of the candidates that there are."""
    rows, count = views.shape[0], views.shape[1] - 1
    if views.dim() != 3 or count < 2 or targets is None or targets.shape != (rows, count):
        got = "none" if targets is None else str(tuple(targets.shape))
        raise InputError(
            f"this loss needs an anchor and two or more candidates, views [B, 1 + C, d], and their scores [B, C]; got "
            f"views {tuple(views.shape)} and scores {got}; collate with CandidatesCollator"
        )
    targets = targets.detach().to(torch.promote_types(views.dtype, torch.float32))
    there = ~targets.isnan()
    require(
        there[:, 0].all() & ~targets.isinf().any(),
        lambda: "the positive of a row has no score, or a score is infinite; give finite scores",
    )
    return targets.where(there, 0.0), there


@dataclass(frozen=True)
class MarginMSELoss(CandidatesLoss):
    r"""Squared error of the margins between positive and negatives: the student's and the teacher's.

        mean over i, n of ((s_ip - s_in) / T - (t_ip - t_in))^2,   s the student's similarities, t the teacher's scores

    Hofstätter et al. 2020, https://arxiv.org/abs/2010.02666. The mean is over all negatives of the batch, so a row with
    more of them counts for more. Margins are fitted as they are: if the embeddings are normalized, or `scores` is
    `cosine`, the student's margins are at most `2 / T`, and a teacher's of logits needs a small `T`.

    Args:
        scores: similarity of two embeddings, `dot` or `cosine`.
        temperature: `T`, by which the student's similarities are divided.

    Example:
        >>> views = torch.tensor([[[1.0, 0.0], [3.0, 0.0], [1.0, 0.0]]])  # similarities 3 and 1: a margin of 2
        >>> MarginMSELoss()(views, torch.tensor([[9.0, 6.0]])).item()  # the teacher's margin is 3
        1.0
    """

    name: ClassVar[str] = "margin_mse"
    words: ClassVar[str] = "MarginMSE"
    citation: ClassVar[str] = cited("hofstatter2020improving")
    description: ClassVar[str] = (
        "{anchors} anchors per step, the margins of up to {negatives} negatives compared with the teacher's"
    )
    scores: Scores = "dot"
    temperature: Positive = 1.0

    def __call__(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> Tensor:
        """The mean loss over the negatives of all processes.

        Args:
            views: `[B, 1 + C, d]`: anchor, positive, negatives.
            targets: `[B, C]`, the teacher's scores of positive and negatives; NaN where there is no negative.
            text_hashes: not used.
            gather: makes the mean one over all processes.

        Raises:
            InputError: scores are missing or not finite.
        """
        teacher, there = _teacher(views, targets)
        student = self.student_scores(views)
        errors = (student[:, :1] - student[:, 1:]) - (teacher[:, :1] - teacher[:, 1:])
        return gather.mean(errors.where(there[:, 1:], 0.0).square().sum(), there[:, 1:].sum())


@dataclass(frozen=True)
class KLDistillationLoss(CandidatesLoss):
    r"""KL divergence of the student's distribution over an anchor's candidates from the teacher's.

        mean over i of KL(softmax_c(t_ic / T_t) || softmax_c(s_ic / T)),   s the student's similarities, t the scores

    Lin et al. 2020 (https://arxiv.org/abs/2010.11386). Only differences within a row matter, so scores may have any
    zero point. With `in_batch_negatives`, the candidates of the other rows, of all processes, are candidates too, to
    which the teacher gives probability 0; with a very sharp teacher that is InfoNCE. A text that is among the row's own
    candidates is not taken again, nor is a positive of an equal anchor.

    sentence-transformers multiplies the loss by `T^2`, which is 1 at its default. Here the scale of a loss does not
    depend on the unit of the similarities, so that it can be mixed with others.

    Args:
        scores: similarity of two embeddings, `cosine` or `dot`.
        temperature: `T`, by which the student's similarities are divided.
        teacher_temperature: `T_t`, by which the teacher's scores are divided; about 1 for logits, 0.05 for cosines or
            probabilities. A training script chooses between these two by the range of the scores.
        in_batch_negatives: contrast with the candidates of the other rows too.

    Example:
        >>> views = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])  # cosines 1 and 0
        >>> loss = KLDistillationLoss(temperature=0.5)
        >>> loss(views, torch.tensor([[7.0, 5.0]])).abs().item() < 1e-6  # the same difference: 2
        True
        >>> round(loss(views, torch.tensor([[5.0, 7.0]])).item(), 4)
        1.5232
    """

    name: ClassVar[str] = "kl_distillation"
    words: ClassVar[str] = "Distillation of rankings"
    citation: ClassVar[str] = cited("lin2020distilling")
    scores: Scores = "cosine"
    temperature: Positive = 0.05
    teacher_temperature: Positive = 1.0
    in_batch_negatives: bool = False

    @classmethod
    def settings_from(cls, rows: Dataset) -> dict[str, object]:
        """`teacher_temperature`, if the scores are cosines or probabilities: all of them between -1 and 1."""
        most = max((abs(score) for row in rows["scores"][:] for score in row if score == score), default=0.0)
        return {"teacher_temperature": _SHARP} if most <= 1 + 1e-6 else {}

    def __call__(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> Tensor:
        """The mean loss over the rows of all processes.

        Args:
            views: `[B, 1 + C, d]`: anchor, and its candidates.
            targets: `[B, C]`, the teacher's scores of the candidates; NaN where there is none.
            text_hashes: `[B, 1 + C]`, equal for equal texts, which with `in_batch_negatives` are taken once.
            gather: collects the candidates of all processes, and makes the mean one over all of them.

        Raises:
            InputError: scores are missing or not finite.
        """
        teacher, there = _teacher(views, targets)
        target = (teacher / self.teacher_temperature).masked_fill(~there, float("-inf")).softmax(1)
        if self.in_batch_negatives:
            total = self._among_all(views, target, there, text_hashes, gather)
            return gather.mean(total, len(views))
        scores = self.student_scores(views).masked_fill(~there, float("-inf"))
        return gather.mean(kl_divergence(scores, target).sum(), len(views))

    def describe(self, anchors: int, num_views: int) -> str:
        """Describe what a step compares."""
        words = f"{anchors} anchors per step, each with up to {num_views - 1} candidates, ranked as by the teacher"
        others = (anchors - 1) * (num_views - 1)
        return words + (f", against up to {others} of the other anchors" if self.in_batch_negatives else "")

    def _among_all(
        self, views: Tensor, target: Tensor, there: Tensor, text_hashes: Tensor | None, gather: Gather
    ) -> Tensor:
        """The sum of the divergences among the candidates of all rows, whose columns are those of row 0, row 1, ..."""
        rows, count = target.shape
        if text_hashes is None:  # all texts are different
            start = gather.offset(rows) * (count + 1)
            text_hashes = start + torch.arange(rows * (count + 1), device=views.device).view(rows, -1)
        columns = (gather.offset(rows) + torch.arange(rows, device=views.device))[:, None] * count
        columns = columns + torch.arange(count, device=views.device)
        positive_of = text_hashes[:, :1].expand(-1, count)
        first = torch.arange(count, device=views.device).expand(rows, -1) == 0
        facts = torch.stack([text_hashes[:, 1:], positive_of, first.long(), there.long()], -1)
        text, anchor_of, is_positive, present = gather(facts).flatten(0, 1).unbind(-1)
        vectors = self._vectors(views)

        def rows_loss(anchors: Tensor, candidates: Tensor, part: slice) -> tuple[Tensor, Tensor]:
            excluded = (present == 0) | (is_positive.bool() & (anchor_of == text_hashes[part, :1]))
            for hashes in text_hashes[part].split(1, 1):
                excluded = excluded | (text == hashes)
            excluded = excluded.scatter(1, columns[part], ~there[part])
            scores = (matmul_float32(anchors, candidates) / self.temperature).masked_fill(excluded, float("-inf"))
            targets = torch.zeros_like(scores).scatter(1, columns[part], target[part])
            return kl_divergence(scores, targets).sum(), excluded.new_zeros((), dtype=torch.long)

        total, _ = in_blocks(vectors[:, 0], gather(vectors[:, 1:]).flatten(0, 1), rows_loss)
        return total
