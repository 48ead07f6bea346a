"""Losses of labelled pairs, scored pairs and triplets: those of Sentence-BERT, InferSent, CoSENT and AnglE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor, nn
from torch.nn import functional

from contrastive_st.citations import cited
from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.errors import choice
from contrastive_st.losses.base import Loss, head_of, require
from contrastive_st.losses.functional import at_least_float32, check_shape, normalize
from contrastive_st.options import CountOrZero, Finite, Positive

if TYPE_CHECKING:
    from datasets import Dataset

# --- Heads: modules that are trained with the encoder; the trained encoder is saved without them.

#: Features of the embeddings u and v of a pair that a classifier may read
FEATURES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "u": lambda u, v: u,
    "v": lambda u, v: v,
    "abs(u-v)": lambda u, v: (u - v).abs(),
    "u*v": lambda u, v: u * v,
}


def pair_features(u: Tensor, v: Tensor, features: Sequence[str]) -> Tensor:
    """The features of pairs, concatenated, `[B, d], [B, d] -> [B, len(features) * d]`.

    Example:
        >>> pair_features(torch.tensor([[3.0]]), torch.tensor([[5.0]]), ["u", "v", "abs(u-v)", "u*v"])
        tensor([[ 3.,  5.,  2., 15.]])
    """
    return torch.cat([FEATURES[choice("feature", feature, FEATURES)](u, v) for feature in features], dim=-1)


class PairHead(nn.Module):
    """A classifier of pairs, which gives logits `[B, num_labels]`: a linear layer, with `head_hidden` after two more.

    The additional layers have a tanh activation. (InferSent's classifier has three layers without a non-linearity: that
    is the same as one linear layer, but trains slowly.)

    Example:
        >>> PairHead(4, ("u", "v", "abs(u-v)"), num_labels=3)(torch.ones(2, 4), torch.ones(2, 4)).shape
        torch.Size([2, 3])
    """

    def __init__(self, dim: int, features: Sequence[str], num_labels: int, head_hidden: int = 0) -> None:
        super().__init__()
        self.features = tuple(features)
        wide = dim * len(self.features)
        if head_hidden:
            layers = [nn.Linear(wide, head_hidden), nn.Tanh(), nn.Linear(head_hidden, head_hidden), nn.Tanh()]
            self.layers = nn.Sequential(*layers, nn.Linear(head_hidden, num_labels))
        else:
            self.layers = nn.Sequential(nn.Linear(wide, num_labels))

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """Logits `[B, num_labels]` of pairs `[B, d]`, `[B, d]`."""
        logits: Tensor = self.layers(pair_features(u, v, self.features))
        return logits


@dataclass(frozen=True)
class SoftmaxLoss(Loss):
    r"""Cross-entropy of the label of a pair, predicted by `softmax(W [u; v; |u - v|])`.

    Reimers and Gurevych 2019 (Sentence-BERT), section 3. Conneau et al. 2017 (InferSent) use `[u; v; |u - v|; u * v]`.

    Args:
        num_labels: number of classes.
        features: features that the head reads; names of `contrastive_st.losses.labelled_pairs.FEATURES`.
        head_hidden: width of the head's two hidden layers; 0 for a linear head.
        head: the classifier; `make_head` makes one.

    Example:
        >>> views = torch.zeros(2, 2, 4)  # B=2 pairs, d=4
        >>> loss = SoftmaxLoss()
        >>> head = loss.make_head(4)
        >>> _ = [torch.nn.init.zeros_(weight) for weight in head.parameters()]
        >>> round(loss.with_head(head)(views, torch.tensor([0, 2])).item(), 4)  # ln 3
        1.0986
    """

    name: ClassVar[str] = "softmax"
    words: ClassVar[str] = "Classification of pairs"
    tag: ClassVar[str] = "sentence-bert"
    trains: ClassVar[tuple[str, ...]] = ("labelled_pairs",)
    citation: ClassVar[str] = cited("reimers2019sentence")
    num_labels: Annotated[int, Ge(2)] = 3
    features: tuple[str, ...] = ("u", "v", "abs(u-v)")
    head_hidden: CountOrZero = 0
    head: nn.Module | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        pair_features(torch.zeros(1, 1), torch.zeros(1, 1), self.features)

    @classmethod
    def settings_from(cls, rows: Dataset) -> dict[str, object]:
        """`num_labels`, from the names of the classes, or else from the labels."""
        names = getattr(rows.features["label"], "names", None)
        return {"num_labels": len(names) if names else max(rows["label"][:]) + 1}

    def __call__(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> Tensor:
        """The mean loss over the pairs of all processes.

        Args:
            views: `[B, 2, d]`, u and v.
            targets: `[B]` labels, 0 to num_labels - 1.
            text_hashes: not used.
            gather: makes the mean one over all processes.

        Raises:
            InputError: labels are missing or out of range, or the model was saved without its head.
        """
        targets = _rows(targets, views, "labels").long()
        valid = (targets >= 0) & (targets < self.num_labels)
        require(
            valid.all(),
            lambda: (
                f"labels {sorted(set(targets.tolist()))} are not all in 0 to {self.num_labels - 1}; set num_labels, "
                "or correct the labels"
            ),
        )
        labels = targets.where(valid, 0)  # an invalid label would end a process on a GPU before the check is read
        return gather.mean(functional.cross_entropy(self._scores(views), labels, reduction="sum"), len(views))

    def metrics(self, views: Tensor, targets: Tensor | None = None, **other: object) -> dict[str, float]:
        """`accuracy`, and the number of labels as `candidates`."""
        right = self._scores(views).argmax(1) == _rows(targets, views, "labels")
        return {"accuracy": right.float().mean().item(), "candidates": self.num_labels}

    def describe(self, anchors: int, num_views: int) -> str:
        """Describe what a step compares."""
        return f"{anchors} pairs per step, {self.num_labels} labels, predicted from [{'; '.join(self.features)}]"

    def make_head(self, dim: int) -> nn.Module:
        """A new head for embeddings of `dim` dimensions."""
        return PairHead(dim, self.features, self.num_labels, self.head_hidden)

    def measure(self, num_views: int, targets: Tensor | None) -> str | None:
        """`accuracy` of the head for pairs with a label, else as for every loss."""
        labels = targets is not None and targets.dim() == 1 and not targets.is_floating_point()
        return "accuracy" if labels and num_views == 2 else super().measure(num_views, targets)

    def _scores(self, views: Tensor) -> Tensor:
        head = head_of(self)
        u, v = at_least_float32(views[:, :2]).unbind(1)
        with torch.autocast(views.device.type, enabled=False):
            logits: Tensor = head(u, v)
        return logits


class ScoredPairsLoss(Loss, register=False):
    """A loss of the similarities of pairs and of their scores."""

    trains: ClassVar[tuple[str, ...]] = ("scored_pairs", "labelled_texts")

    def metrics(self, views: Tensor, targets: Tensor | None = None, **other: object) -> dict[str, float]:
        """`correlation`: Pearson correlation of similarities and scores, in this process's part of the batch."""
        both = torch.stack([self.similarities(views).float(), _rows(targets, views, "scores").float()])
        return {"correlation": torch.corrcoef(both)[0, 1].nan_to_num(0.0).item() if len(views) > 1 else 0.0}

    def similarities(self, views: Tensor) -> Tensor:
        """The similarities of pairs, by default their cosines, `[B, 2, d] -> [B]`."""
        u, v = normalize(views[:, :2]).unbind(1)
        return (u * v).sum(-1)


@dataclass(frozen=True)
class CosineSimilarityLoss(ScoredPairsLoss):
    """Squared error between the cosine of a pair and its score in [-1, 1] (Sentence-BERT, section 3).

    Example:
        >>> views = torch.tensor([[[3.0, 4.0], [4.0, 3.0]]])  # cosine 0.96
        >>> round(CosineSimilarityLoss()(views, torch.tensor([0.5])).item(), 4)
        0.2116
    """

    name: ClassVar[str] = "cosine_similarity"
    words: ClassVar[str] = "Regression on pairs"
    tag: ClassVar[str] = "sentence-bert"
    citation: ClassVar[str] = SoftmaxLoss.citation
    description: ClassVar[str] = "{anchors} pairs per step, the cosine of each compared with its score"

    def __call__(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> Tensor:
        """The mean loss over the pairs of all processes.

        Args:
            views: `[B, 2, d]`.
            targets: `[B]` scores, -1 to 1; usually 0 to 1.
            text_hashes: not used.
            gather: makes the mean one over all processes.

        Raises:
            InputError: scores are missing or out of range.
        """
        targets = _rows(targets, views, "scores")
        require(
            ((targets >= -1) & (targets <= 1)).all(),  # cosines, such as a teacher's, may be below 0
            lambda: f"scores go from {targets.min().item():g} to {targets.max().item():g}; scale them to -1 to 1",
        )
        cosines = self.similarities(views)
        return gather.mean((cosines - targets.to(cosines.dtype)).square().sum(), len(views))


@dataclass(frozen=True)
class CoSENTLoss(ScoredPairsLoss):
    r"""Ranking loss: pairs with higher scores should have higher cosines (Huang et al. 2024, CoSENT).

        loss = log(1 + sum over pairs i, j with score_i > score_j of exp((s_j - s_i) / T)),   s = cos(u, v)

    https://doi.org/10.1109/TASLP.2024.3402087. Only the order of the scores matters, not their scale; pairs with equal
    scores are not compared. All N pairs of all processes are compared, in time N log N and memory N.

    Args:
        temperature: `T`, by which the cosines are divided; 0.05 in the papers, which multiply by 20 instead.

    Example:
        >>> views = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]])  # cosines 0 and 1
        >>> round(CoSENTLoss(temperature=1.0)(views, torch.tensor([0.2, 0.9])).item(), 4)  # log(1 + exp(0 - 1))
        0.3133
    """

    name: ClassVar[str] = "cosent"
    words: ClassVar[str] = "CoSENT"
    tag: ClassVar[str] = "cosent"
    citation: ClassVar[str] = cited("huang2024cosent")
    description: ClassVar[str] = "{anchors} pairs per step, their cosines ranked by their scores"
    temperature: Positive = 0.05

    def __call__(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> Tensor:
        """The loss of the pairs of all processes; each process gets the same value.

        Args:
            views: `[B, 2, d]`.
            targets: `[B]` scores of any scale.
            text_hashes: not used.
            gather: collects the pairs and scores of all processes.

        Raises:
            InputError: scores are missing or not finite, or there is only one pair.
        """
        scores = gather(_rows(targets, views, "scores"))
        require(scores.isfinite().all(), lambda: "a score is not finite; correct the scores")
        several = scores.new_full((), len(scores) >= 2, dtype=torch.bool)  # filled on the device: nothing is copied
        require(several, lambda: "one pair cannot be ranked; give a larger batch size", skips=True)
        return rank_loss(gather(self.similarities(views) / self.temperature), scores)


@dataclass(frozen=True)
class AnglELoss(CoSENTLoss):
    r"""`CoSENTLoss` with an angle between complex vectors instead of the cosine (Li and Li 2024, AnglE).

    The two halves of a unit vector are the real and the imaginary part of `z_u` or `z_v`, and

        s = |Re q + Im q|,   q = sum over the d / 2 components of z_u * conj(z_v)

    https://arxiv.org/abs/2309.12871, as in the published code. `Re q` is the cosine, whose gradient vanishes near 1 and
    -1; that of `Im q` does not. If d is odd, a zero is appended. The paper adds this loss to others.

    Example:
        >>> views = torch.tensor([[[1.0, 0.0], [0.0, -1.0]], [[0.6, 0.8], [0.6, 0.8]]])  # cosines 0 and 1
        >>> AnglELoss().similarities(views).round(decimals=4)  # q = i, and q = 1
        tensor([1., 1.])
    """

    name: ClassVar[str] = "angle"
    words: ClassVar[str] = "AnglE"
    tag: ClassVar[str] = "angle"
    citation: ClassVar[str] = cited("li2024angle")

    def similarities(self, views: Tensor) -> Tensor:
        """The similarities that are ranked, `[B, 2, d] -> [B]`."""
        unit = normalize(views[:, :2])
        u, v = torch.complex(*functional.pad(unit, (0, unit.shape[-1] % 2)).chunk(2, -1)).unbind(1)
        angle = (u * v.conj()).sum(-1)
        return (angle.real + angle.imag).abs()


def rank_loss(similarities: Tensor, scores: Tensor) -> Tensor:
    """`log(1 + sum of exp(similarity_j - similarity_i))` over all i, j with score_i > score_j; `[N], [N] -> []`.

    Pairs are sorted by score in descending order. Those with a higher score then come before each pair, so that one
    cumulative sum has all terms. If all scores are equal, the loss is 0.

    Example:
        >>> rank_loss(torch.tensor([1.0, 3.0, 2.0]), torch.tensor([0.5, 0.1, 0.1]))  # log(1 + exp(2) + exp(1))
        tensor(2.4076)
    """
    scores, order = scores.sort(descending=True)
    similarities = similarities[order]
    higher = torch.searchsorted(-scores, -scores)  # number of pairs with a higher score
    before = (-similarities).logcumsumexp(0)[(higher - 1).clamp(min=0)]
    terms = torch.where(higher > 0, similarities + before, float("-inf"))
    return torch.cat([terms.new_zeros(1), terms]).logsumexp(0)


@dataclass(frozen=True)
class TripletLoss(Loss):
    """`max(|a - p| - |a - n| + margin, 0)` with Euclidean distances (Sentence-BERT, section 3, with margin 1).

    Between equal embeddings the distance and the gradient are 0, never NaN.

    Args:
        margin: the loss is 0 if the positive is nearer to the anchor than the negative by this distance or more.

    Example:
        >>> views = torch.tensor([[[0.0, 0.0], [3.0, 4.0], [0.0, 5.5]]])  # distances 5 and 5.5
        >>> TripletLoss()(views)
        tensor(0.5000)
    """

    name: ClassVar[str] = "triplet"
    words: ClassVar[str] = "Triplets"
    tag: ClassVar[str] = "sentence-bert"
    trains: ClassVar[tuple[str, ...]] = ("triplets",)
    citation: ClassVar[str] = SoftmaxLoss.citation
    description: ClassVar[str] = "{anchors} triplets per step, positives to be nearer than negatives by {self.margin:g}"
    margin: Finite = 1.0

    def __call__(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> Tensor:
        """The mean loss over the triplets of all processes; `views` are `[B, 3, d]`: anchor, positive, negative."""
        near, far = _distances(views)
        return gather.mean(functional.relu(near - far + self.margin).sum(), len(views))

    def metrics(self, views: Tensor, targets: Tensor | None = None, **other: object) -> dict[str, float]:
        """`accuracy`: how often the positive is nearer than the negative."""
        near, far = _distances(views)
        return {"accuracy": (near < far).float().mean().item()}


def _distances(views: Tensor) -> tuple[Tensor, Tensor]:
    check_shape("views of an anchor, a positive and a negative", views, (None, 3, None))
    anchor, positive, negative = at_least_float32(views).unbind(1)
    norm = torch.linalg.vector_norm
    return norm(anchor - positive, dim=-1), norm(anchor - negative, dim=-1)


def _rows(targets: Tensor | None, views: Tensor, what: str) -> Tensor:
    check_shape(f"views of {what}", views, (None, 2, None))
    return check_shape(f"targets, {what}", targets, (len(views),), "LabelledPairCollator")
