"""Distillation losses: the student learns the teacher's relations between sentences, or the teacher's embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

from contrastive_st.citations import cited
from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.errors import InputError
from contrastive_st.losses.base import Loss
from contrastive_st.losses.functional import (
    at_least_float32,
    check_shape,
    cosine_scores,
    in_blocks,
    kl_divergence,
    measured_rows,
    normalize,
)
from contrastive_st.options import NotNegative, Positive


@dataclass(frozen=True)
class RelationalDistillationLoss(Loss):
    r"""Relations between the N sentences of a batch, compared between student `s` and teacher `t` in up to three ways.

        similarities  mean over i of KL(softmax_j(cos(t_i, t_j) / T) || softmax_j(cos(s_i, s_j) / T)), j not i
        distances     mean over i, j of h(|s_i - s_j| / mean |s - s'|, |t_i - t_j| / mean |t - t'|)
        angles        mean over i, j, k of h(cos of the angle at s_j of s_i and s_k, the same of t)

    The loss is the weighted sum of these terms. `h` is the smooth L1 (Huber) loss; pairs and triples are of distinct
    sentences. Distances and angles, and the default weights, are from Park et al. 2019 (RKD,
    https://arxiv.org/abs/1904.05068); mean distances are over the batch of all processes. Similarities are soft
    targets as in `TargetsLoss`, from a teacher instead of shared words. Angles are computed for a block of vertices at
    a time, so memory grows with N^2.

    Args:
        similarity_weight: weight of the term of similarities.
        distance_weight: weight of the term of distances.
        angle_weight: weight of the term of angles.
        temperature: `T`, by which the similarities of student and teacher are divided.

    Example:
        >>> import torch
        >>> views = torch.randn(6, 1, 4)  # B=6 sentences, one view, d=4
        >>> teacher = torch.cat([views[:, 0], torch.zeros(6, 5)], 1) * 3  # the same relations, in 9 dimensions
        >>> abs(RelationalDistillationLoss(1.0)(views, teacher).item()) < 1e-6
        True
    """

    name: ClassVar[str] = "relational_distillation"
    words: ClassVar[str] = "Relational distillation"
    tag: ClassVar[str] = "distillation"
    citation: ClassVar[str] = cited("park2019relational")
    similarity_weight: NotNegative = 0.0
    distance_weight: NotNegative = 1.0
    angle_weight: NotNegative = 2.0
    temperature: Positive = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.similarity_weight or self.distance_weight or self.angle_weight):
            raise InputError("the weights of similarities, distances and angles are all 0; give one above 0")

    def __call__(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> Tensor:
        """The loss of one batch.

        Args:
            views: `[B, V, d]`, of the student; the views of a sentence are concatenated (towers f and g: `[f; g]`).
            targets: `[B, D]`, the teacher's embeddings of the same sentences.
            text_hashes: `[B, V]` integers, equal for equal texts. Between equal texts there is no direction, so they
                are left out of the angles.
            gather: collects the sentences of all processes, whose relations are compared.

        Raises:
            InputError: no teacher embeddings, or fewer than 3 sentences.
        """
        batch = _Batch.of(views, targets, text_hashes, gather)
        if batch.total < 3:
            raise InputError(f"a batch of {batch.total} sentences is too small for relations; give 3 or more")
        loss = views.new_zeros(())
        if self.similarity_weight:
            loss = loss + self.similarity_weight * self._similarities(batch)
        if self.distance_weight:
            loss = loss + self.distance_weight * _distances(batch)
        if self.angle_weight:
            loss = loss + self.angle_weight * _angles(batch)
        return loss

    def metrics(self, views: Tensor, targets: Tensor | None = None, **other: Any) -> dict[str, float]:
        """Metrics of a batch for the training log.

        `accuracy`: how often the nearest other sentence is also the teacher's nearest. `candidates`: their number.
        `correlation`: Pearson correlation of the cosines of student and teacher.
        """
        batch = _Batch.of(views, targets, None, other.get("gather", LOCAL))
        part = measured_rows(batch.total)
        others = batch.others(part)
        student = cosine_scores(batch.student[part], batch.all_student)
        teacher = cosine_scores(batch.teacher[part], batch.all_teacher)
        nearest = [scores.masked_fill(~others, float("-inf")).argmax(1) for scores in (student, teacher)]
        pairs = torch.stack([student[others], teacher[others]])
        return {
            "accuracy": (nearest[0] == nearest[1]).float().mean().item(),
            "candidates": batch.total - 1,
            "correlation": torch.corrcoef(pairs)[0, 1].nan_to_num(0.0).item(),
        }

    def describe(self, anchors: int, num_views: int) -> str:
        """Describe what a step compares."""
        weights = (self.similarity_weight, self.distance_weight, self.angle_weight)
        named = [
            f"{name} x {w:g}" for name, w in zip(("similarities", "distances", "angles"), weights, strict=True) if w
        ]
        return f"{anchors} sentences per step, their relations compared with the teacher's: {', '.join(named)}"

    def _similarities(self, batch: _Batch) -> Tensor:
        student, all_student = normalize(batch.student), normalize(batch.all_student)

        def rows_loss(anchors: Tensor, candidates: Tensor, part: slice) -> tuple[Tensor, Tensor]:
            others = batch.others(part)
            teacher = cosine_scores(batch.teacher[part], batch.all_teacher, self.temperature)
            target = teacher.masked_fill(~others, float("-inf")).softmax(1)
            with torch.autocast(anchors.device.type, enabled=False):
                scores = (anchors @ candidates.T / self.temperature).masked_fill(~others, float("-inf"))
            return kl_divergence(scores, target.to(scores.dtype)).sum(), others.any(1).sum()

        total, count = in_blocks(student, all_student, rows_loss)
        return batch.gather.mean(total, count)


def _teacher(views: Tensor, targets: Tensor | None) -> Tensor:
    """The teacher's embeddings `[B, D]` of the sentences of `views`, in float32 or wider."""
    targets = check_shape("the teacher's embeddings of the texts", targets, (len(views), None), "TeacherCollator")
    return targets.detach().to(torch.promote_types(views.dtype, torch.float32))


@dataclass(frozen=True)
class _Batch:
    """The rows of student and teacher on this process, and those of all processes."""

    student: Tensor  # [B, d]
    teacher: Tensor  # [B, D]
    all_student: Tensor  # [N, d]
    all_teacher: Tensor  # [N, D]
    column_of: Tensor  # [B], the column of each row's sentence
    text_hashes: Tensor | None  # [B]
    all_hashes: Tensor | None  # [N]
    gather: Gather

    @classmethod
    def of(cls, views: Tensor, targets: Tensor | None, text_hashes: Tensor | None, gather: Gather) -> _Batch:
        student, teacher = at_least_float32(views.flatten(1)), _teacher(views, targets)
        columns = gather.offset(len(views)) + torch.arange(len(views), device=views.device)
        text_hashes = None if text_hashes is None else text_hashes[:, 0].contiguous()
        all_hashes = None if text_hashes is None else gather(text_hashes)
        return cls(student, teacher, gather(student), gather(teacher), columns, text_hashes, all_hashes, gather)

    @property
    def total(self) -> int:
        return len(self.all_student)

    def others(self, part: slice) -> Tensor:
        """A mask `[b, N]`: True except for the row's sentence."""
        column = self.column_of[part, None]
        return torch.ones((len(column), self.total), dtype=torch.bool, device=column.device).scatter_(1, column, False)

    def other_texts(self, part: slice) -> Tensor:
        """A mask `[b, N]`: True except for sentences with the same text as the row's."""
        others = self.others(part)
        if self.text_hashes is not None and self.all_hashes is not None:
            others &= self.text_hashes[part, None] != self.all_hashes
        return others


def _distances(batch: _Batch) -> Tensor:
    student = _at_mean_distance_one(batch.student, batch.all_student, batch.gather)
    teacher = _at_mean_distance_one(batch.teacher, batch.all_teacher, batch.gather)

    def rows_loss(anchors: Tensor, candidates: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        ours, theirs = _pairwise(anchors, candidates), _pairwise(teacher[0][part], teacher[1])
        loss = functional.smooth_l1_loss(ours, theirs, reduction="none")
        others = batch.others(part)
        return (loss * others).sum(), others.sum()

    total, count = in_blocks(*student, rows_loss)
    return batch.gather.mean(total, count)


def _at_mean_distance_one(rows: Tensor, all_rows: Tensor, gather: Gather) -> tuple[Tensor, Tensor]:
    """Divide the rows of this process and of all processes by the mean distance of two rows, which has a gradient."""

    def rows_loss(anchors: Tensor, candidates: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        return _pairwise(anchors, candidates).sum(), torch.full((), len(anchors), device=anchors.device)

    total, _ = in_blocks(rows, all_rows, rows_loss)
    mean = gather(total[None]).sum() / (len(all_rows) * (len(all_rows) - 1))
    mean = torch.where(mean > 0, mean, 1.0)  # all embeddings are equal
    return rows / mean, all_rows / mean


def _pairwise(a: Tensor, b: Tensor) -> Tensor:
    """Distances `[B, C]`, which between equal rows are exactly 0 with gradient 0 (unlike those from squared norms)."""
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


def _angles(batch: _Batch) -> Tensor:
    def rows_loss(anchors: Tensor, candidates: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        ours, theirs = _cosines_at(anchors, candidates), _cosines_at(batch.teacher[part], batch.all_teacher)
        others = batch.other_texts(part)
        triples = others[:, :, None] & others[:, None, :]
        triples.diagonal(dim1=1, dim2=2).fill_(False)
        loss = functional.smooth_l1_loss(ours, theirs.to(ours.dtype), reduction="none")
        return (loss * triples).sum(), triples.sum()

    dim = max(batch.total, batch.student.shape[1], batch.teacher.shape[1])
    total, count = in_blocks(batch.student, batch.all_student, rows_loss, batch.total * dim)
    return batch.gather.mean(total, count)


def _cosines_at(vertices: Tensor, points: Tensor) -> Tensor:
    """Cosines `[b, N, N]` of the angle at each vertex between any two points; 0 if a point equals the vertex."""
    with torch.autocast(vertices.device.type, enabled=False):
        lines = points[None] - vertices[:, None]
        square = lines.square().sum(-1, keepdim=True)
        unit = lines / torch.where(square > 0, square, 1.0).sqrt()
        return unit @ unit.transpose(1, 2)


@dataclass(frozen=True)
class EmbeddingDistillationLoss(Loss):
    r"""The mean distance between the student's embedding `s` and the teacher's embedding `t` of the same sentence.

        squared  |s / |s| - t / |t||^2         (2 - 2 cos; the default)
        cosine   1 - cos(s, t)
        mse      mean over the dimensions of (s - t)^2, without normalization

    All views of a sentence are compared with the same teacher embedding, which must have the student's dimension
    (`distill` projects the teacher's embeddings to it).

    Args:
        distance: distance of the embeddings of student and teacher: `squared`, `cosine` or `mse`.

    Example:
        >>> views = torch.tensor([[[3.0, 0.0]], [[0.0, 2.0]]])  # two sentences, one view, d=2
        >>> teacher = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        >>> EmbeddingDistillationLoss()(views, teacher).item()  # distances 0 and 2
        1.0
        >>> EmbeddingDistillationLoss("cosine")(views, teacher).item()
        0.5
    """

    name: ClassVar[str] = "embedding_distillation"
    words: ClassVar[str] = "Distillation of embeddings"
    tag: ClassVar[str] = "distillation"
    description: ClassVar[str] = (
        "{anchors} sentences per step, each compared with that of the teacher ({self.distance})"
    )
    distance: Literal["squared", "cosine", "mse"] = "squared"

    def __call__(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> Tensor:
        """The loss of one batch.

        Args:
            views: `[B, V, d]`, the student's embeddings.
            targets: `[B, D]`, the teacher's embeddings of the same sentences.
            text_hashes: not used: a sentence that occurs twice counts twice.
            gather: makes the mean one over the sentences of all processes.

        Raises:
            InputError: no teacher embeddings, or of another dimension than the student's.
        """
        student, teacher = self._both(views, targets)
        if self.distance == "mse":
            distances = (student - teacher).square().mean(-1)
        else:
            student, teacher = (normalize(x) for x in (student, teacher))
            distances = (student - teacher).square().sum(-1)
            distances = distances / 2 if self.distance == "cosine" else distances
        return gather.mean(distances.sum(), distances.numel())

    def metrics(self, views: Tensor, targets: Tensor | None = None, **other: object) -> dict[str, float]:
        """`cosine`: the mean cosine of student and teacher."""
        student, teacher = self._both(views, targets)
        return {"cosine": functional.cosine_similarity(student, teacher, dim=-1).mean().item()}

    def truncated(self, views: Tensor, targets: Tensor | None, dim: int) -> tuple[Tensor, Tensor | None]:
        """The first `dim` dimensions of the student and of the teacher, which are compared with each other."""
        student, teacher = self._both(views, targets)
        return student[..., :dim], teacher[:, 0, :dim]

    def _both(self, views: Tensor, targets: Tensor | None) -> tuple[Tensor, Tensor]:
        """Student and teacher `[B, V, D]`, in float32 or wider."""
        student, teacher = at_least_float32(views), _teacher(views, targets)[:, None]
        if student.shape[-1] != teacher.shape[-1]:
            raise InputError(
                f"the student has {student.shape[-1]} dimensions and its teacher {teacher.shape[-1]}; "
                "give a student of the teacher's dimension, or use RelationalDistillationLoss"
            )
        return student, teacher.expand_as(student)
