"""InfoNCE, the loss of SimCSE (unsupervised and supervised), also with a consistency term or with a guide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from contrastive_st.citations import cited
from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.errors import InputError
from contrastive_st.losses.base import Loss, require
from contrastive_st.losses.functional import in_blocks, matmul_float32, measured_rows, normalize
from contrastive_st.options import Finite, Positive


class Queue(NamedTuple):
    """K candidates from earlier batches.

    Attributes:
        embeddings: unit vectors `[K, d]`.
        text_hashes: `[K, 2]`: hashes of the text of the candidate's anchor, and of its text.
        guide: the guide's unit vectors of the candidates, `[K, D]`, for `GuidedInfoNCE`.
    """

    embeddings: Tensor
    text_hashes: Tensor
    guide: Tensor | None = None


@dataclass(frozen=True)
class InfoNCE(Loss):
    r"""Cross-entropy of choosing the anchor's positive among all candidates (Gao et al. 2021, SimCSE).

    `z` are the views as unit vectors; the candidates c are the positives of all N sentences, then their hard negatives:

        loss_i = -log exp(z_i0 . z_i1 / T) / sum_c exp(z_i0 . z_c / T + [c is the hard negative of i] * w)

    A large matrix of scores is computed in blocks of rows, each together with its gradient. The result is the same, and
    only one block is in memory.

    Args:
        temperature: `T`, by which the cosines are divided; 0.05 in the paper.
        hard_negative_weight: `w`, the *logarithm* of the weight of an anchor's hard negatives; log(alpha) in the paper.
        symmetric: add the loss of the other direction, in which each positive has to find its anchor, and average both.

    Example:
        >>> import torch
        >>> views = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])  # B=2, V=2, d=2
        >>> round(InfoNCE(temperature=1.0)(views).item(), 4)  # log(1 + exp(-1))
        0.3133
    """

    name: ClassVar[str] = "info_nce"
    words: ClassVar[str] = "InfoNCE"
    tag: ClassVar[str] = "info-nce"
    trains: ClassVar[tuple[str, ...]] = ("texts", "pairs", "triplets", "scored_candidates")
    needs_two_texts: ClassVar[bool] = True
    chance: ClassVar[bool] = True
    citation: ClassVar[str] = cited("oord2018representation")
    temperature: Positive = 0.05
    hard_negative_weight: Finite = 0.0
    symmetric: bool = False

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
            targets: only used by `GuidedInfoNCE`; each anchor's target is its positive.
            text_hashes: `[B, V]` integers, equal for equal texts, which are not negatives of each other; `NO_TEXT` for
                a view without text, which is not a candidate: rows may have different numbers of hard negatives.
            gather: collects the candidates of all processes; see `contrastive_st.distributed`.
            queue: candidates from earlier batches, the same on every process.

        Raises:
            InputError: no anchor has a negative, so there is nothing to learn from.
        """
        shared = {"gather": gather, "queue": queue}
        loss = self._one_way(self._contrast(views, targets, text_hashes=text_hashes, **shared), gather)
        if self.symmetric:
            guides, hashes = (x if x is None or x.dim() < 2 else x[:, [1, 0]] for x in (targets, text_hashes))
            swapped = self._contrast(views[:, [1, 0]], guides, text_hashes=hashes, **shared)
            loss = (loss + self._one_way(swapped, gather)) / 2
        return loss

    def metrics(self, views: Tensor, targets: Tensor | None = None, **other: Any) -> dict[str, float]:
        """Metrics of a batch for the training log.

        In-batch `accuracy`, the number of `candidates`, `temperature`, and `alignment`: the mean squared distance
        between the unit vectors of anchor and positive (Wang and Isola 2020). The accuracy is that of the first rows
        among all candidates; where these are passed around the ring, it is left out.
        """
        contrast = self._contrast(views, targets, **other)
        anchor, positive = normalize(views[:, :2]).unbind(1)
        result = {
            "candidates": len(contrast.columns),
            "temperature": self.temperature,
            "alignment": (2 - 2 * (anchor * positive).sum(1)).mean().item(),
        }
        if contrast.sizes:  # the candidates of the others are not here
            return result
        rows = measured_rows(len(contrast.columns))
        scores, _ = contrast.scores(contrast.anchors[rows], contrast.candidates, rows, self)
        result = {"accuracy": (scores.argmax(1) == contrast.target[rows]).float().mean().item(), **result}
        return result if contrast.guide is None else {**result, "masked": scores.isneginf().float().mean().item()}

    def scores(self, views: Tensor, targets: Tensor | None = None, **other: Any) -> tuple[Tensor, Tensor]:
        """Scores `[B, C]`, -inf for candidates that are masked, and the column of each anchor's positive, `[B]`.

        C is `(V - 1) * N`, plus K with a queue of K candidates.

        Args:
            views: as for the loss.
            targets: as for the loss.
            other: `text_hashes`, `gather` and `queue`, as for the loss.
        """
        contrast = self._contrast(views, targets, **{**other, "gather": other.get("gather", LOCAL).without_ring()})
        scores, _ = contrast.scores(contrast.anchors, contrast.candidates, slice(None), self)
        return scores, contrast.target

    def describe(self, anchors: int, num_views: int) -> str:
        """Describe what a step contrasts, given the number of anchors over all processes and of views per anchor."""
        hard = anchors * (num_views - 2)
        words = f"{anchors} anchors per step, each against {anchors - 1} in-batch negatives"
        return words + (f" and {hard} hard negatives" if hard else "")

    @property
    def takes_queue(self) -> bool:  # type: ignore[override]
        """Whether the loss accepts candidates from earlier batches: not if `symmetric`, where they would be anchors."""
        return not self.symmetric

    def _contrast(self, views: Tensor, targets: Tensor | None, **other: Any) -> Contrast:
        """The anchors and candidates of a batch; `other` are `text_hashes`, `gather` and `queue`."""
        return Contrast.of(views, **other)

    def _one_way(self, contrast: Contrast, gather: Gather) -> Tensor:
        def rows_loss(anchors: Tensor, candidates: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
            scores, result = contrast.scores(anchors, candidates, rows, self)
            return functional.cross_entropy(scores, contrast.target[rows], reduction="sum"), result.sum()

        if contrast.sizes:
            total, result = self._around(contrast, gather)
        else:
            total, result = in_blocks(contrast.anchors, contrast.candidates, rows_loss)
        masked = ", or masked by the guide" if contrast.guide else ""
        require(
            result > 0,
            lambda: (
                "this batch has no negatives: the candidates of each anchor are its positive or equal texts"
                f"{masked}; give a larger batch size, or check the data for repeated sentences"
            ),
            skips=True,
        )
        return gather.mean(total, len(contrast.target), contrast.total)

    def _around(self, contrast: Contrast, gather: Gather) -> tuple[Tensor, Tensor]:
        """As `in_blocks`, with candidates around the ring: the sum of losses, and how many rows have a negative."""
        parts = [contrast.of_rank(rank, gather.rank) for rank in range(gather.world)]
        block, guide, dim = contrast.candidates, contrast.guide, contrast.candidates.shape[1]
        if guide is not None:
            block = torch.cat([block, guide.candidates], 1)

        def score(anchors: Tensor, held: Tensor, rank: int, rows: slice) -> tuple[Tensor, Tensor]:
            candidates, guides = held[:, :dim], held[:, dim:]
            part = parts[rank] if guide is None else replace(parts[rank], guide=guide._replace(candidates=guides))
            return part.scores(anchors, candidates, rows, self)

        kinds = len(block) // contrast.sizes[gather.rank]
        sums, result = gather.logsumexp(contrast.anchors, block, [kinds * size for size in contrast.sizes], score)
        positives = contrast.candidates[: len(sums)]  # the positives come first among the candidates
        positive = (contrast.anchors[:, :dim] * positives).sum(1) / self.temperature
        return (sums - positive).sum(), result.sum()


class Guide(NamedTuple):
    """Unit vectors of another encoder, and the similarity above which it masks a candidate as a false negative.

    Args:
        anchors: as `Contrast.anchors`, `[B, D]` or `[B, 2 * D]`.
        candidates: as `Contrast.candidates`, `[C, D]`.
        positive: similarity of each anchor and its positive, `[B]`.
        margin: candidates are masked above the similarity of anchor and positive minus this margin.
        relative: the margin is a fraction of that similarity.
    """

    anchors: Tensor
    candidates: Tensor
    positive: Tensor
    margin: float
    relative: bool


#: The hash of a view without text: where a row has fewer hard negatives than the others
NO_TEXT = torch.iinfo(torch.int64).min
#: Similarities closer than this count as equal, so that rounding, which depends on the shape of a product, does not
#: change the mask
TIE = 1e-6


@dataclass(frozen=True)
class Contrast:
    """The anchors of this process and the candidates of all processes, from which any block of rows is scored.

    The columns of the scores are, in this order: all positives, all first hard negatives, and so on; the anchors, if
    they are candidates too; the candidates of the queue; and the positives again, if they are also compared with the
    row's positive.

    Args:
        anchors: unit vectors `[B, d]` of this process; `[B, 2 * d]` if the positives are appended to them.
        candidates: unit vectors `[C, d]`; with `sizes` only those of this process.
        target: `[B]`, the column of each anchor's positive; empty if the candidates do not include it.
        total: N, the number of sentences over all processes.
        hard: number of hard negatives per anchor.
        text_hashes: hashes `[B, 2]` of the texts of anchors and positives on this process; with documents `[B, 3]`.
        columns: hashes `[columns, 2]` of the text of each column, and of the anchor that the column is a positive of;
            with documents `[columns, 3]`.
        guide: the guide's vectors of the same texts.
        sizes: number of anchors of each process, if candidates are passed around the ring; else empty.
    """

    anchors: Tensor
    candidates: Tensor
    target: Tensor
    total: int
    hard: int
    text_hashes: Tensor
    columns: Tensor
    guide: Guide | None = None
    sizes: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        views: Tensor,
        text_hashes: Tensor | None = None,
        gather: Gather = LOCAL,
        queue: Queue | None = None,
        with_anchors: bool = False,
        with_positives: bool = False,
        documents: Tensor | None = None,
    ) -> Contrast:
        """Gather the candidates of `views` `[B, V, d]`, and add those of the queue.

        Args:
            views: anchor, positive, hard negatives.
            text_hashes: `[B, V]`; without them all texts count as different.
            gather: collects the candidates of all processes.
            queue: candidates from earlier batches.
            with_anchors: also contrast anchors with each other.
            with_positives: also contrast positives with each other.
            documents: `[B]`, the document of each row, 0 or more; positives of the anchor's document are masked.
        """
        if views.dim() != 3 or views.shape[1] < 2:
            raise InputError(
                f"views must be [B, V, d] with V >= 2 (an anchor and a positive), got {tuple(views.shape)}"
            )
        rows, num_views = views.shape[:2]
        sizes = gather.sizes(rows)
        numbers = sum(sizes[: gather.rank]) + torch.arange(rows, device=views.device)
        if text_hashes is None:
            text_hashes = -1 - numbers[:, None] * num_views - torch.arange(num_views, device=views.device)
        columns = torch.stack([text_hashes, text_hashes], -1)
        columns[:, 1, 1] = text_hashes[:, 0]  # only positives: a hard negative stays one for equal anchors too
        anchors_of = text_hashes[:, :2]
        if documents is not None:
            documents_of = documents[:, None, None].repeat(1, num_views, 1)
            documents_of[:, 2:] = -1  # hard negatives are meant to be negatives
            columns = torch.cat([columns, documents_of], -1)
            anchors_of = torch.cat([anchors_of, documents[:, None]], 1)
        held_texts = None if queue is None else queue.text_hashes.flip(1)
        columns = all_candidates(columns, held_texts, gather, with_anchors, sizes)
        held = 0 if queue is None else len(queue.text_hashes)
        total = (len(columns) - held) // (num_views - 1 + with_anchors)
        unit, queued = normalize(views), None if queue is None else queue.embeddings
        around = queue is None and gather.uses_ring(len(columns) * views.shape[2])
        anchors = unit[:, : 1 + with_positives].flatten(1)
        candidates = all_candidates(unit, queued, LOCAL if around else gather, with_anchors, sizes)
        columns = torch.cat([columns, columns[:total]]) if with_positives else columns
        ring = tuple(sizes) if around else ()
        return cls(anchors, candidates, numbers, total, num_views - 2, anchors_of, columns, sizes=ring)

    def of_rank(self, rank: int, this_rank: int) -> Contrast:
        """The columns of one process's candidates; the caller has the vectors. `this_rank` is that of this process."""
        start, size = sum(self.sizes[:rank]), self.sizes[rank]
        groups = self.columns.split(self.total)  # positives, first hard negatives, ...
        numbers = torch.arange(size if rank == this_rank else 0, device=self.columns.device)
        return replace(self, target=numbers, total=size, columns=torch.cat([group[start:][:size] for group in groups]))

    def scores(self, anchors: Tensor, candidates: Tensor, rows: slice, loss: InfoNCE) -> tuple[Tensor, Tensor]:
        """Scores of a block of rows, -inf for masked candidates, and which of the rows have a negative."""
        scores = self._cosines(anchors, candidates) / loss.temperature
        # a column is left out if it has the text of the anchor or of its positive, is the positive of an equal
        # anchor or of the anchor's document, or is empty, where a row has fewer hard negatives than the others
        anchor, positive, *document = self.text_hashes[rows].split(1, dim=1)
        text, anchor_of, *document_of = self.columns.T.contiguous()  # strided integers compare at half the speed
        excluded: Tensor = text == anchor
        excluded |= text == positive
        excluded |= anchor_of == anchor
        excluded |= text == NO_TEXT
        for one, other in zip(document, document_of, strict=True):
            excluded |= one == other
        if guide := self.guide:  # or more similar to the anchor than the positive minus the margin, to the guide
            similar, positive = self._cosines(guide.anchors[rows], guide.candidates), guide.positive[rows, None]
            excluded |= similar > positive - guide.margin * (positive.abs() if guide.relative else 1.0) + TIE
        if not len(self.target):
            return scores.masked_fill_(excluded, float("-inf")), _any_left(excluded)
        column, weight = self.target[rows, None], loss.hard_negative_weight
        hard = column + self.total * torch.arange(1, self.hard + 1, device=column.device)
        if weight and self.hard:
            scores = scores + torch.zeros_like(scores).scatter_(1, hard, weight)
        result = _any_left(excluded.scatter_(1, column, True))
        return scores.masked_fill_(excluded.scatter_(1, column, False), float("-inf")), result

    def _cosines(self, anchors: Tensor, candidates: Tensor) -> Tensor:
        """Similarities of a block of anchors to the candidates, and of appended positives to all positives."""
        sides = anchors.split(candidates.shape[1], 1)
        scores = [matmul_float32(*pair) for pair in zip(sides, (candidates, candidates[: self.total]), strict=False)]
        return scores[0] if len(scores) == 1 else torch.cat(scores, 1)


def _any_left(excluded: Tensor) -> Tensor:
    """Which rows have a column that is not excluded; `any` of booleans is far slower on a CPU.

    Example:
        >>> _any_left(torch.tensor([[True, False], [True, True]])).tolist(), _any_left(torch.ones(1, 0).bool()).tolist()
        ([True, False], [False])
    """
    return excluded.view(torch.uint8).amin(1) == 0 if excluded.shape[1] else excluded.any(1)


def all_candidates(
    views: Tensor, queued: Tensor | None, gather: Gather, with_anchors: bool = False, sizes: list[int] | None = None
) -> Tensor:
    """Arrange values of each view, `[B, V, ...]`, as values of each candidate, `[C, ...]`, of all processes.

    `sizes` are the rows B of each process, if they are known.

    Example:
        >>> views = torch.tensor([[1, 2, 3], [4, 5, 6]])  # anchors 1 4, positives 2 5, hard negatives 3 6
        >>> all_candidates(views, None, LOCAL).tolist(), all_candidates(views, None, LOCAL, True).tolist()
        ([2, 5, 3, 6], [2, 5, 3, 6, 1, 4])
    """
    shifted = views.roll(-1, 1)[:, : views.shape[1] - (not with_anchors)]
    candidates = gather(shifted, sizes).transpose(0, 1).flatten(0, 1)
    return candidates if queued is None else torch.cat([candidates, queued.to(candidates.dtype)])
