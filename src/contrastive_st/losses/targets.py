"""Targets: which candidates belong to which anchor, from the positions of sentences or from the words they share.

Every function returns `[B, N]`: one row per anchor, one column per sentence of the whole batch (of all processes).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

from contrastive_st.citations import cited
from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.errors import InputError
from contrastive_st.losses import functional as row_losses
from contrastive_st.losses.base import Loss, require
from contrastive_st.losses.functional import (
    at_least_float32,
    check_shape,
    in_blocks,
    matmul_float32,
    measured_rows,
    normalize,
)
from contrastive_st.options import Count, NotNegative, Positive, Share


def window_offsets(size: int, weights: Sequence[float] | None = None, *, both_sides: bool = True) -> dict[int, float]:
    """The weight of each offset in a context window of `size` sentences on both sides, or only after the sentence.

    Args:
        size: at least 1.
        weights: one weight per distance, nearest first; all 1 by default.
        both_sides: include the sentences before.

    Raises:
        InputError: a size below 1, a number of weights that is not `size`, or no positive weight.

    Example:
        >>> window_offsets(2, [1.0, 0.5])
        {1: 1.0, -1: 1.0, 2: 0.5, -2: 0.5}
        >>> window_offsets(1, both_sides=False)
        {1: 1.0}
    """
    weights = [1.0] * size if weights is None else list(weights)
    if size < 1 or len(weights) != size or min(weights) < 0 or max(weights) <= 0:
        what = f"context size {size} with weights {weights}"
        raise InputError(f"{what}: give a size of 1 or more, and for each distance a weight of 0 or more, not all 0")
    signs = (1, -1) if both_sides else (1,)
    return {sign * distance: float(weight) for distance, weight in enumerate(weights, 1) for sign in signs}


def context_window(places: Tensor, all_places: Tensor, offsets: Mapping[int, float]) -> Tensor:
    """Weights of the sentences in the context window of each anchor, within its document (QuickThoughts).

    A place is (document, position in it). Sentences 0-2 are one document, 3-4 another; with only the next sentence::

        places  [0 0]      targets  [ 0 1 0  0 0 ]
                [0 1]               [ 0 0 1  0 0 ]
                [0 2]               [ 0 0 0  0 0 ]   <- the last of its document: no positive, no loss
                [1 0]               [ 0 0 0  0 1 ]
                [1 1]               [ 0 0 0  0 0 ]

    If a sentence is missing in the data, its position is missing too, so its neighbours do not become adjacent.

    Args:
        places: `[B, 2]` integers, document and position of the anchors.
        all_places: `[N, 2]`, document and position of the candidates.
        offsets: weight of each offset in position; see `window_offsets`.

    Returns:
        Weights `[B, N]`, not normalized.

    Example:
        >>> import torch
        >>> places = torch.tensor([[0, 0], [0, 1], [1, 0]])
        >>> context_window(places, places, {1: 1.0, -1: 0.5})
        tensor([[0.0000, 1.0000, 0.0000],
                [0.5000, 0.0000, 0.0000],
                [0.0000, 0.0000, 0.0000]])
    """
    reach = max(map(abs, offsets))
    table = torch.zeros(2 * reach + 3)  # a zero at each end for sentences that are further away
    for offset, weight in offsets.items():
        table[offset + reach + 1] = weight
    table = table.to(places.device, non_blocking=True)
    distance = (all_places[None, :, 1] - places[:, None, 1]).clamp(-reach - 1, reach + 1) + reach + 1
    return table[distance] * (all_places[None, :, 0] == places[:, None, 0])


def overlap(bags: Tensor, all_bags: Tensor) -> Tensor:
    """Dot products of bags of words, `[B, K, 2], [N, M, 2] -> [B, N]`: co-occurrence counts, or TF-IDF similarities.

    A bag is a list of (word id, weight), padded with weight 0. For the sentences "the lamp is red", "the birds sang",
    "birds eat worms", "the boy near the gate fed the cows", with counts and with TF-IDF weights::

        counts  [ 4  1  0  3 ]        TF-IDF  [ 1     0.155 0     0.225 ]
                [ 1  3  1  3 ]                [ 0.155 1     0.270 0.291 ]
                [ 0  1  3  0 ]                [ 0     0.270 1     0     ]
                [ 3  3  0 14 ]                [ 0.225 0.291 0     1     ]

    Words are matched by id, so nothing of size batch x vocabulary is made. The shape of a sparse product depends on the
    values, for which the host would wait on a GPU; there, dense products of a few thousand words at a time are used.

    Example:
        >>> import torch
        >>> bags = torch.tensor([[[7, 1.0], [8, 1.0]], [[7, 2.0], [9, 1.0]]])  # words 7 8, and 7 7 9
        >>> overlap(bags, bags)
        tensor([[2., 2.],
                [2., 5.]])
    """
    ids = torch.cat([bags[..., 0].flatten(), all_bags[..., 0].flatten()])
    if not _on_host(ids):
        return _overlap_of_fixed_shape(bags, all_bags, ids)
    _, columns = ids.unique(return_inverse=True)
    left, right = columns.split([bags[..., 0].numel(), all_bags[..., 0].numel()])
    words = int(columns.max()) + 1 if len(columns) else 1
    a, b = _sparse(bags, left, words), _sparse(all_bags, right, words)
    with torch.autocast(bags.device.type, enabled=False), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")  # the product uses CSR
        products: Tensor = torch.sparse.mm(a, b.T).to_dense()
    return products


_WORDS = 4096  # columns of each dense product


def _on_host(x: Tensor) -> bool:
    return x.device.type == "cpu"


def _overlap_of_fixed_shape(bags: Tensor, all_bags: Tensor, ids: Tensor) -> Tensor:
    """`overlap` with shapes that depend only on the shapes of the bags; `ids` are the words of both."""
    order = ids.argsort()
    result = ids[order]
    rank = torch.cat([order[:1] * 0, (result[1:] != result[:-1]).long()]).cumsum(0)
    columns = torch.empty_like(rank).scatter_(0, order, rank)
    sides = list(zip((bags, all_bags), columns.split([bags[..., 0].numel(), all_bags[..., 0].numel()]), strict=True))
    products = bags.new_zeros(len(bags), len(all_bags))
    for start in range(0, len(ids), _WORDS):
        dense = []
        for side, column in sides:
            position = (column - start).view(side.shape[:2])
            position = position.where((position >= 0) & (position < _WORDS), _WORDS)  # a last column for all others
            made = side.new_zeros(len(side), _WORDS + 1)
            dense.append(made.scatter_add_(1, position, side[..., 1])[:, :_WORDS])
        products += matmul_float32(*dense)
    return products


def _sparse(bags: Tensor, columns: Tensor, words: int) -> Tensor:
    rows = torch.arange(len(bags), device=bags.device).repeat_interleave(bags.shape[1])
    kept = bags[..., 1].flatten() != 0
    where = torch.stack([rows, columns])[:, kept]
    values = bags[..., 1].flatten()[kept]
    return torch.sparse_coo_tensor(where, values, (len(bags), words), check_invariants=True).coalesce()


def soften(similarities: Tensor, allowed: Tensor, temperature: float = 1.0) -> Tensor:
    """`softmax(similarities / temperature)` over the allowed candidates; towards temperature 0 it becomes one-hot.

    Example:
        >>> import torch
        >>> soften(torch.tensor([[9.0, 1.0, 1.0]]), torch.tensor([[False, True, True]]))
        tensor([[0.0000, 0.5000, 0.5000]])
    """
    return (similarities / temperature).masked_fill(~allowed, float("-inf")).softmax(1).nan_to_num(0.0)


def binarize(similarities: Tensor, allowed: Tensor) -> Tensor:
    """One-hot rows of the most similar allowed candidate, the first of equals; zeros if no similarity is positive.

    For the TF-IDF similarities shown in `overlap`, without the diagonal::

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
    """Divide each row by its sum; a row of zeros stays zero.

    Example:
        >>> import torch
        >>> normalize_rows(torch.tensor([[1.0, 3.0], [0.0, 0.0]]))
        tensor([[0.2500, 0.7500],
                [0.0000, 0.0000]])
    """
    return weights / weights.sum(1, keepdim=True).clamp_min(1e-30)


def smooth_labels(targets: Tensor, allowed: Tensor, mass: float) -> Tensor:
    """Distribute a total of `mass` of each row equally over all its allowed candidates.

    Example:
        >>> import torch
        >>> smooth_labels(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([[False, True, True]]), 0.1)
        tensor([[0.0000, 0.9500, 0.0500]])
    """
    return (1 - mass) * targets + mass * targets.sum(1, keepdim=True) * normalize_rows(allowed.to(targets.dtype))


# --- The loss of scores and target rows: QuickThoughts, CURL blocks, co-occurrence counts, TF-IDF, binarized TF-IDF.

PLACES, BAGS = ("next", "window"), ("counts", "tfidf", "tfidf_bin")
SCORES = {"dot": 1.0, "cosine": 0.05}  # with the temperature by default


@dataclass(frozen=True)
class TargetsLoss(Loss):
    r"""Compares the scores of towers f and g with rows of targets.

        scores_ij = f(s_i) . g(s_j) / temperature,   where j are all sentences of the whole batch except i
        loss      = mean over the anchors that have a positive of KL(targets_i || softmax(scores_i))

    The published scores are plain dot products, and the other sentences of the anchor's document are negatives. For
    vectors that are compared by cosine later, `scores="cosine"` and `own_document="mask"` are better: sentences of
    one document belong together, and the loss need not tell them apart.

    Args:
        targets: which sentences are positives. `next` and `window`: the sentences after, or around, in the document
            (Logeswaran and Lee 2018, QuickThoughts). `counts` and `tfidf`: a softmax of the shared words, divided by
            `target_temperature`. `tfidf_bin`: the other sentence with the most similar TF-IDF.
        row_loss: `kl`, `cross_entropy`, `l2` (of the raw weights or counts), or one of Arora et al. 2019: `block`
            compares the mean of the positives with the mean of as many negatives, taken from half a batch away, and
            `pairwise` each pair of a positive and a negative.
        context_size: number of sentences on each side that belong to the window.
        context_weights: one weight per distance, nearest first; all 1 by default.
        scores: `dot`, or `cosine`: f(s_i) and g(s_j) are scaled to unit length.
        temperature: by which scores are divided; by default 1 for dot products and 0.05 for cosines.
        own_document: what the candidates of the anchor's document are that are not positives: `negatives`, or left
            out of the row (`mask`). With soft targets, a positive is a sentence that shares a word.
        target_temperature: of the softmax that turns counts and similarities into targets.
        label_smoothing: total mass of a row that is distributed equally over all candidates.
        surrogate: `logistic` or `hinge`, for the block and pairwise losses.

    Example:
        >>> import torch
        >>> views = torch.zeros(3, 2, 4)  # B=3 sentences, f and g towers, d=4
        >>> places = torch.tensor([[0, 0], [0, 1], [0, 2]])  # one document, positions 0 1 2
        >>> round(TargetsLoss("next")(views, places).item(), 4)  # ln 2: two candidates each; the last has no positive
        0.6931
    """

    name: ClassVar[str] = "targets"
    words: ClassVar[str] = "Targets"
    tag: ClassVar[str] = ""
    citation: ClassVar[str] = cited("logeswaran2018efficient")
    targets: Literal["next", "window", "counts", "tfidf", "tfidf_bin"] = "next"
    row_loss: Literal["kl", "cross_entropy", "l2", "block", "pairwise"] = "kl"
    context_size: Count = 1
    context_weights: tuple[NotNegative, ...] | None = None
    scores: Literal["dot", "cosine"] = "dot"
    temperature: Positive | None = None
    own_document: Literal["negatives", "mask"] = "negatives"
    target_temperature: Positive = 1.0
    label_smoothing: Share = 0.0
    surrogate: Literal["logistic", "hinge"] = "logistic"
    offsets: dict[int, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        offsets = window_offsets(self.context_size, self.context_weights, both_sides=self.targets == "window")
        object.__setattr__(self, "offsets", offsets)

    def __call__(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> Tensor:
        """The loss of one batch.

        Args:
            views: `[B, V, d]`: the first view is the anchor (f), the last the candidate (g); with V = 1 they are equal.
            targets: what the target rows are computed from: places `[B, 2]` (document, position); for targets from
                words `[B, 1 + K, 2]`, the place and then the bag of K words (word id, weight).
            text_hashes: `[B, V]` integers, equal for equal texts, which are not negatives of each other.
            gather: collects the candidates and places or bags of all processes.

        Raises:
            InputError: no anchor has a positive, so there is nothing to learn from.
        """
        rows = _Rows.of(self, views, targets, text_hashes, gather)

        def rows_loss(anchors: Tensor, candidates: Tensor, part: slice) -> tuple[Tensor, Tensor]:
            scores = matmul_float32(anchors, candidates) / self.score_temperature
            losses, valid = self._losses(scores, *rows.targets(part), rows.column_of[part])
            return torch.where(valid, losses, 0.0).sum(), valid.sum()

        total, count = in_blocks(self._vectors(views[:, 0]), rows.candidates, rows_loss)
        require(gather.sum(count) > 0, self._nothing, skips=True)
        return gather.mean(total, count)

    def metrics(self, views: Tensor, targets: Tensor | None = None, **other: Any) -> dict[str, float]:
        """Metrics of a batch for the training log.

        `accuracy`: how often the candidate with the highest score is a positive (for soft targets, the one with the
        greatest weight). `candidates`: their number. `positives`: the share of anchors that have a positive.
        """
        rows = _Rows.of(self, views, targets, **other)
        part = measured_rows(len(rows.candidates))  # among all candidates
        raw, allowed = rows.targets(part)
        scores = matmul_float32(self._vectors(views[part, 0]), rows.candidates)
        scores = scores.masked_fill(~allowed, float("-inf"))
        weights = raw.masked_fill(~allowed, 0.0)
        valid = weights.sum(1) > 0
        correct = weights == weights.amax(1, keepdim=True) if self.targets in BAGS else weights > 0
        right = correct.gather(1, scores.argmax(1, keepdim=True))[:, 0][valid]
        return {
            "accuracy": right.float().mean().item() if len(right) else 0.0,
            "candidates": scores.shape[1] - 1,
            "positives": valid.float().mean().item(),
        }

    @property
    def chance(self) -> bool:  # type: ignore[override]
        """Whether the row loss compares distributions."""
        return self.row_loss in ("kl", "cross_entropy")

    def describe(self, anchors: int, num_views: int) -> str:
        """Describe what a step contrasts."""
        positives = {
            "next": f"the next {self.context_size} of its document",
            "window": f"those within {self.context_size} of it in its document",
            "counts": "shared words",
            "tfidf": "the similarity of their TF-IDF",
            "tfidf_bin": "the one whose TF-IDF is most similar",
        }[self.targets]
        others = f"the {anchors - 1} others"
        if self.own_document == "mask":
            others += " but those of its document that are not positives"
        scores = "dot products" if self.scores == "dot" else "cosines"
        scores = f"{scores} / {self.score_temperature:g}"
        return f"{anchors} sentences per step, each against {others}; {scores}; targets: {positives}"

    @property
    def score_temperature(self) -> float:
        """By which scores are divided: `temperature`, or that of the similarity by default."""
        return SCORES[self.scores] if self.temperature is None else self.temperature

    def _vectors(self, x: Tensor) -> Tensor:
        """What anchors and candidates are compared by, in float32 or wider."""
        return normalize(x) if self.scores == "cosine" else at_least_float32(x)

    def _losses(self, scores: Tensor, raw: Tensor, allowed: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        """The losses `[b]`, and which rows have a loss."""
        if self.row_loss == "l2":
            return row_losses.squared_error(scores.masked_fill(~allowed, float("-inf")), raw), allowed.any(1)
        positives = self._rows_of_targets(raw, allowed)
        valid = positives.sum(1) > 0
        if self.row_loss in ("block", "pairwise"):
            negatives = self._negatives(positives, allowed, columns)
            if self.row_loss == "block":
                losses = row_losses.block_loss(scores, positives, negatives, self.surrogate)
            else:
                most = min(len(self.offsets), negatives.shape[1])
                losses = row_losses.pairwise_loss(scores, positives, negatives, self.surrogate, most)
            return losses, valid & (negatives.sum(1) > 0)
        valid &= allowed.sum(1) > 1
        scores = torch.where(valid[:, None], scores.masked_fill(~allowed, float("-inf")), 0.0)
        if self.label_smoothing:
            positives = smooth_labels(positives, allowed, self.label_smoothing)
        loss = row_losses.kl_divergence if self.row_loss == "kl" else row_losses.cross_entropy
        return loss(scores, torch.where(valid[:, None], positives, 0.0)), valid

    def _rows_of_targets(self, raw: Tensor, allowed: Tensor) -> Tensor:
        if self.targets == "tfidf_bin":
            return binarize(raw, allowed)
        if self.targets in PLACES or self.row_loss in ("block", "pairwise"):  # CURL averages
            return normalize_rows(raw.masked_fill(~allowed, 0.0))
        similar = (raw.masked_fill(~allowed, 0.0) > 0).any(1, keepdim=True)  # no shared word, no positive
        return soften(raw, allowed, self.target_temperature) * similar

    def positives(self, raw: Tensor, allowed: Tensor) -> Tensor:
        """A mask `[b, N]` of the candidates that are positives of each anchor, given raw targets."""
        return (binarize(raw, allowed) if self.targets == "tfidf_bin" else raw) > 0

    def _negatives(self, positives: Tensor, allowed: Tensor, columns: Tensor) -> Tensor:
        """Rows that average a block of negatives, which is half a batch further on and as long as the window."""
        total = positives.shape[1]
        block = columns[:, None] + total // 2 + torch.arange(len(self.offsets), device=columns.device)
        negatives = torch.zeros_like(positives).scatter_(1, block % total, 1.0)
        return normalize_rows(negatives * (allowed & (positives == 0)))

    def _nothing(self) -> str:
        if self.targets in BAGS:
            return "no two sentences of this batch share a word, so there is no positive; give a larger batch size"
        return (
            f"no sentence of this batch has another within {self.context_size} of it in its document; give documents "
            "of more than one sentence, in order, and batches larger than the context window"
        )


@dataclass(frozen=True)
class _Rows:
    """The anchors of this process and the sentences of all: gives any block of rows of targets."""

    loss: TargetsLoss
    candidates: Tensor  # [N, d]
    column_of: Tensor  # [B], the column of each anchor's sentence
    local: Tensor  # [B, 1 + K, 2], place and bag; K is 0 for context windows
    everybody: Tensor  # [N, 1 + K, 2]
    text_hashes: Tensor | None
    all_hashes: Tensor | None

    @classmethod
    def of(
        cls,
        loss: TargetsLoss,
        views: Tensor,
        targets: Tensor | None,
        text_hashes: Tensor | None = None,
        gather: Gather = LOCAL,
    ) -> _Rows:
        bags = loss.targets in BAGS
        collator = "CooccurrenceCollator" if bags else "ContextWindowCollator"
        shape = (None, None, 2) if bags else (None, 2)
        targets = check_shape("places, and bags of words" if bags else "places", targets, shape, collator)
        local = targets if bags else targets[:, None]
        return cls(
            loss,
            gather(loss._vectors(views[:, -1])),
            gather.offset(len(views)) + torch.arange(len(views), device=views.device),
            local,
            gather(functional.pad(local, (0, 0, 0, gather.widest(local.shape[1]) - local.shape[1])) if bags else local),
            None if text_hashes is None else text_hashes[:, 0],
            None if text_hashes is None else gather(text_hashes[:, 0].contiguous()),
        )

    def targets(self, part: slice) -> tuple[Tensor, Tensor]:
        """Raw targets `[b, N]`, and a mask of the candidates that each anchor may be contrasted with."""
        local, loss = self.local[part], self.loss
        places, all_places = local[:, 0], self.everybody[:, 0]
        if loss.targets in BAGS:
            raw = overlap(local[:, 1:], self.everybody[:, 1:])
        else:
            raw = context_window(places, all_places, loss.offsets)
        raw = raw.to(self.candidates.dtype)
        allowed = torch.ones_like(raw, dtype=torch.bool).scatter_(1, self.column_of[part, None], False)
        if self.text_hashes is not None and self.all_hashes is not None:
            allowed &= (self.text_hashes[part, None] != self.all_hashes) | (raw > 0)
        if loss.own_document == "mask":
            other = (places[:, :1] != all_places[:, 0]) | (places[:, :1] < 0)  # -1: a text without a document
            allowed &= other | loss.positives(raw, allowed)
        return raw, allowed
