"""InfoNCE over views: the loss of SimCSE, unsupervised and supervised; with a consistency term, or with a guide."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.errors import InputError
from contrastive_st.losses.base import Loss, require
from contrastive_st.losses.functional import at_least_float32, in_blocks, jensen_shannon, matmul_float32, normalize


class Queue(NamedTuple):
    """Candidates of former batches: unit vectors `[K, d]`; text hashes `[K, 2]` of their anchors and of themselves.

    Where a guide masks candidates, also the guide's unit vectors of them, `[K, D]`.
    """

    embeddings: Tensor
    text_hashes: Tensor
    guide: Tensor | None = None


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
            targets: unused, but by `GuidedInfoNCE`; each anchor's target is its own positive.
            text_hashes: `[B, V]` integers, equal where the texts are equal. Equal texts are not each other's negatives.
            gather: where the candidates come from; see `contrastive_st.distributed`.
            queue: candidates of former batches, the same on every process.

        Raises:
            InputError: no anchor has a negative, so there is nothing to learn from.
        """
        guide = self._guide(views, targets)
        loss = self._one_way(self._contrast(views, guide, text_hashes, gather, queue), gather)
        if self.symmetric:
            guide, hashes = (None if x is None else x[:, [1, 0]] for x in (guide, text_hashes))
            swapped = self._contrast(views[:, [1, 0]], guide, hashes, gather, queue)
            loss = (loss + self._one_way(swapped, gather)) / 2
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
        scores, own = self.scores(views, targets, text_hashes=text_hashes, gather=gather, queue=queue)
        own = own[:, None]
        return {
            "accuracy": (scores.argmax(1, keepdim=True) == own).float().mean().item(),
            "candidates": scores.shape[1],
            "temperature": self.temperature,
            "alignment": (2 - 2 * self.temperature * scores.gather(1, own)).mean().item(),
        }

    def scores(self, views: Tensor, targets: Tensor | None = None, **other: Any) -> tuple[Tensor, Tensor]:
        """Scores `[B, C]` with -inf on what is no negative, and the column of each own positive `[B]`.

        Args:
            views: as for the loss.
            targets: as for the loss.
            other: `text_hashes`, `gather` and `queue`, as for the loss. C is `(V - 1) * N`, and K with a queue of K.
        """
        hashes, gather, queue = other.get("text_hashes"), other.get("gather", LOCAL).whole(), other.get("queue")
        contrast = self._contrast(views, self._guide(views, targets), hashes, gather, queue)
        scores, _ = contrast.scores(contrast.anchors, contrast.candidates, slice(None), self)
        own: Tensor = contrast.own
        return scores, own

    def describe(self, anchors: int, num_views: int) -> str:
        """What a step contrasts, in words, from the number of anchors over all processes and the views of each."""
        hard = anchors * (num_views - 2)
        words = f"{anchors} anchors a step, each against {anchors - 1} in-batch negatives"
        return words + (f" and {hard} hard negatives" if hard else "")

    @property
    def takes_queue(self) -> bool:
        """Whether candidates of former batches can be added: not where they would have to be anchors too."""
        return not self.symmetric

    def _guide(self, views: Tensor, targets: Tensor | None) -> Tensor | None:
        """Another encoder's embeddings `[B, V, D]` of the texts of the views, where the loss is guided by one."""
        return None

    def _contrast(
        self, views: Tensor, guide: Tensor | None, text_hashes: Tensor | None, gather: Gather, queue: Queue | None
    ) -> Contrast:
        """What is compared with what."""
        return Contrast.of(views, text_hashes, gather, queue)

    def _one_way(self, contrast: Contrast, gather: Gather) -> Tensor:
        def rows_loss(anchors: Tensor, candidates: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
            scores, found = contrast.scores(anchors, candidates, rows, self)
            return functional.cross_entropy(scores, contrast.own[rows], reduction="sum"), found.sum()

        if contrast.sizes:
            total, found = self._around(contrast, gather)
        else:
            total, found = in_blocks(contrast.anchors, contrast.candidates, rows_loss)
        masked = ", or masked by the guide" if contrast.guide else ""
        require(
            found > 0,
            lambda: (
                "this batch has no negatives: every anchor's candidates are its own positive or equal texts"
                f"{masked}. Give more than one distinct sentence a batch (a larger batch size, or a look at the data)"
            ),
        )
        return gather.mean(total, len(contrast.own))

    def _around(self, contrast: Contrast, gather: Gather) -> tuple[Tensor, Tensor]:
        """What `in_blocks` would give: the sum of the losses, and how many rows have a negative anywhere."""
        parts = [contrast.of_rank(rank, gather.rank) for rank in range(gather.world)]
        block, guide, dim = contrast.candidates, contrast.guide, contrast.candidates.shape[1]
        if guide is not None:
            block = torch.cat([block, guide.candidates], 1)

        def score(anchors: Tensor, held: Tensor, rank: int, rows: slice) -> tuple[Tensor, Tensor]:
            candidates, guides = held[:, :dim], held[:, dim:]
            part = parts[rank] if guide is None else replace(parts[rank], guide=guide._replace(candidates=guides))
            return part.scores(anchors, candidates, rows, self)

        kinds = len(block) // contrast.sizes[gather.rank]
        sums, found = gather.logsumexp(contrast.anchors, block, [kinds * size for size in contrast.sizes], score)
        positives = contrast.candidates[: len(sums)]  # of the own anchors, the first of the own candidates
        own = (contrast.anchors[:, :dim] * positives).sum(1) / self.temperature
        return (sums - own).sum(), found.sum()


class Guide(NamedTuple):
    """Unit vectors of another encoder, and the similarity from which it masks a candidate as a false negative.

    Args:
        anchors: as `Contrast.anchors`, `[B, D]` or `[B, 2 * D]`.
        candidates: as `Contrast.candidates`, `[C, D]`.
        positive: similarity of each anchor and its positive, `[B]`.
        margin: how far below the similarity of anchor and positive that begins.
        relative: the margin is a share of that similarity.
    """

    anchors: Tensor
    candidates: Tensor
    positive: Tensor
    margin: float
    relative: bool


#: Similarities closer than this are equal: rounding, which hangs on the shape of a product, must not decide of a mask
TIE = 1e-6


@dataclass(frozen=True)
class Contrast:
    """Local anchors and everybody's candidates: what is needed to score any block of rows.

    The columns of the scores are all positives, all first hard negatives, and so on; the anchors, where they are
    candidates too; the candidates of the queue; and the positives once more where they are compared with the row's
    own positive.

    Args:
        anchors: unit vectors `[B, d]` of this process; `[B, 2 * d]` with the own positives beside them.
        candidates: unit vectors `[C, d]`; with `sizes` those of this process alone.
        own: `[B]`, the column that is an anchor's own positive; None where there is none among the candidates.
        total: N, the number of sentences over all processes.
        hard: how many hard negatives an anchor has.
        text_hashes: `[B, 2]` of the local anchors and their positives.
        columns: text hashes `[columns, 2]` of each column, and of the anchor that it is a positive of.
        guide: what another encoder makes of the same texts.
        sizes: anchors of each process, where each keeps its candidates and they go round; else none.
    """

    anchors: Tensor
    candidates: Tensor
    own: Any
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
        text_hashes: Tensor | None,
        gather: Gather,
        queue: Queue | None = None,
        with_anchors: bool = False,
        with_positives: bool = False,
    ) -> Contrast:
        """Gather the candidates of `views` `[B, V, d]`, and add those of the queue.

        Args:
            views: anchor, positive, hard negatives.
            text_hashes: `[B, V]`; without them every text is another.
            gather: where the candidates come from.
            queue: candidates of former batches.
            with_anchors: contrast anchors with each other too.
            with_positives: contrast positives with each other too.
        """
        if views.dim() != 3 or views.shape[1] < 2:
            raise InputError(
                f"views must be [B, V, d] with V >= 2 (an anchor and a positive), got {tuple(views.shape)}"
            )
        rows, num_views = views.shape[:2]
        own = gather.offset(rows) + torch.arange(rows, device=views.device)
        if text_hashes is None:
            text_hashes = -1 - own[:, None] * num_views - torch.arange(num_views, device=views.device)
        columns = torch.stack([text_hashes, text_hashes], -1)
        columns[:, 1, 1] = text_hashes[:, 0]  # a hard negative belongs to no anchor: it contradicts equal ones too
        columns = all_candidates(columns, None if queue is None else queue.text_hashes.flip(1), gather, with_anchors)
        held = 0 if queue is None else len(queue.text_hashes)
        total = (len(columns) - held) // (num_views - 1 + with_anchors)
        unit, queued = normalize(views), None if queue is None else queue.embeddings
        around = queue is None and gather.goes_round(len(columns) * views.shape[2])
        return cls(
            unit[:, : 1 + with_positives].flatten(1),
            all_candidates(unit, queued, LOCAL if around else gather, with_anchors),
            own,
            total,
            num_views - 2,
            text_hashes[:, :2],
            torch.cat([columns, columns[:total]]) if with_positives else columns,
            sizes=tuple(gather.sizes(rows)) if around else (),
        )

    def of_rank(self, rank: int, own: int) -> Contrast:
        """The part of one process's candidates, without them; `own` is the rank of this process."""
        start, size = sum(self.sizes[:rank]), self.sizes[rank]
        groups = self.columns.split(self.total)  # positives, first hard negatives, ...
        place = torch.arange(size, device=self.columns.device) if rank == own else None
        return replace(self, own=place, total=size, columns=torch.cat([group[start:][:size] for group in groups]))

    def scores(self, anchors: Tensor, candidates: Tensor, rows: slice, loss: InfoNCE) -> tuple[Tensor, Tensor]:
        """Scores of a block of rows, -inf where there is no negative; and which of the rows have a negative."""
        scores = self._cosines(anchors, candidates) / loss.temperature
        excluded = self._equal_texts(rows)
        if self.guide is not None:
            excluded |= self._alike(rows, self.guide)
        if self.own is None:
            return scores.masked_fill(excluded, float("-inf")), (~excluded).any(1)
        own, weight = self.own[rows, None], loss.hard_negative_weight
        hard = own + self.total * torch.arange(1, self.hard + 1, device=own.device)
        if weight and self.hard:
            scores = scores + torch.zeros_like(scores).scatter_(1, hard, weight)
        found = (~excluded.scatter(1, own, True)).any(1)
        return scores.masked_fill(excluded.scatter_(1, own, False), float("-inf")), found

    def _cosines(self, anchors: Tensor, candidates: Tensor) -> Tensor:
        """Similarities of a block of anchors, and of their positives where they stand beside them."""
        sides = anchors.split(candidates.shape[1], 1)
        scores = [matmul_float32(*pair) for pair in zip(sides, (candidates, candidates[: self.total]), strict=False)]
        return scores[0] if len(scores) == 1 else torch.cat(scores, 1)

    def _equal_texts(self, rows: slice) -> Tensor:
        """True where a column's text is the anchor's or its positive's, or it is a positive of the same anchor text."""
        anchor, positive = self.text_hashes[rows].split(1, dim=1)
        text, anchor_of = self.columns.unbind(1)
        excluded: Tensor = (text == anchor) | (text == positive) | (anchor_of == anchor)
        return excluded

    def _alike(self, rows: slice, guide: Guide) -> Tensor:
        """True where the guide finds a column more alike to the anchor than the positive is, less the margin."""
        similar, positive = self._cosines(guide.anchors[rows], guide.candidates), guide.positive[rows, None]
        limit = positive - guide.margin * (positive.abs() if guide.relative else 1.0)
        return similar > limit + TIE


def all_candidates(views: Tensor, queued: Tensor | None, gather: Gather, with_anchors: bool = False) -> Tensor:
    """Whatever belongs to each candidate, `[C, ...]`, from what belongs to each view, `[B, V, ...]`.

    Example:
        >>> views = torch.tensor([[1, 2, 3], [4, 5, 6]])  # anchors 1 4, positives 2 5, hard negatives 3 6
        >>> all_candidates(views, None, LOCAL).tolist(), all_candidates(views, None, LOCAL, True).tolist()
        ([2, 5, 3, 6], [2, 5, 3, 6, 1, 4])
    """
    given = views.roll(-1, 1)[:, : views.shape[1] - (not with_anchors)]
    candidates = gather(given).transpose(0, 1).flatten(0, 1)
    return candidates if queued is None else torch.cat([candidates, queued.to(candidates.dtype)])


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
        swapped, gather = [1, 0, *range(2, views.shape[1])], gather.whole()
        both = (
            Contrast.of(views, text_hashes, gather),
            Contrast.of(views[:, swapped], None if text_hashes is None else text_hashes[:, swapped], gather),
        )

        def rows_loss(anchors: Tensor, candidates: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
            scores = [
                contrast.scores(anchor, candidate, rows, self)[0]
                for contrast, anchor, candidate in zip(both, anchors.chunk(2, 1), candidates.chunk(2, 1), strict=True)
            ]
            return jensen_shannon(*scores).sum(), torch.full((), len(anchors), device=anchors.device)

        anchors = torch.cat([contrast.anchors for contrast in both], 1)
        total, _ = in_blocks(anchors, torch.cat([contrast.candidates for contrast in both], 1), rows_loss)
        return gather.mean(total, len(views))


# --- InfoNCE whose false negatives another encoder finds.

STRATEGIES = ("absolute", "relative")


@dataclass(frozen=True)
class GuidedInfoNCE(InfoNCE):
    r"""InfoNCE without the candidates that a guide, another encoder, takes for positives (GISTEmbed, NV-Retriever).

    With `g` the guide's unit vectors of the same texts, a candidate c of the anchor i is masked where

        g_i . g_c > g_i . g_i1 - margin                absolute
        g_i . g_c > g_i . g_i1 - margin |g_i . g_i1|   relative

    Own positives always stay; hard negatives and candidates of other processes and of a queue are masked alike.
    Solatorio 2024 (https://arxiv.org/abs/2402.16829: absolute, margin 0, temperature 0.01, anchors and positives
    contrasted too); Moreira et al. 2024 (https://arxiv.org/abs/2407.15831: both strategies, margin 0.05).

    Args:
        margin: how far below the positive's similarity masking begins; greater masks more.
        margin_strategy: `absolute` or `relative`.
        contrast_anchors: the other anchors are candidates too.
        contrast_positives: the other positives are also scored against the own positive.

    Example:
        >>> views = torch.eye(3)[:, None].repeat(1, 2, 1)  # three pairs, d=3
        >>> guide = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])[:, None].repeat(1, 2, 1)  # 0 and 1 say the same
        >>> loss = GuidedInfoNCE(temperature=1.0, margin=0.1)
        >>> loss.scores(views, guide)[0].tolist()
        [[1.0, -inf, 0.0], [-inf, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    name: ClassVar[str] = "guided_info_nce"
    margin: float = 0.0
    margin_strategy: str = "absolute"
    contrast_anchors: bool = False
    contrast_positives: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.margin_strategy not in STRATEGIES or not math.isfinite(self.margin):
            raise InputError(
                f"margin {self.margin}, margin_strategy {self.margin_strategy!r}: give a number, and one of "
                f"{', '.join(STRATEGIES)}"
            )

    def metrics(self, views: Tensor, targets: Tensor | None = None, **other: Any) -> dict[str, float]:
        """As for `InfoNCE`, and `masked`: the share of the candidates that are masked, equal texts among them."""
        masked = self.scores(views, targets, **other)[0].isneginf().float().mean().item()
        return {**super().metrics(views, targets, **other), "masked": masked}

    def describe(self, anchors: int, num_views: int) -> str:
        """What a step contrasts, in words."""
        below = f" less {self.margin:g}{' of it' if self.margin_strategy == 'relative' else ''}" if self.margin else ""
        return f"{super().describe(anchors, num_views)}, but those more alike than the positive{below} to the guide"

    def _guide(self, views: Tensor, targets: Tensor | None) -> Tensor | None:
        if targets is None or targets.dim() != 3 or targets.shape[:2] != views.shape[:2]:
            got = "none" if targets is None else str(tuple(targets.shape))
            raise InputError(
                f"a guided loss wants the guide's embeddings {[*views.shape[:2], 'D']} of every text, got {got}; "
                "give rows with them by GuidedRows"
            )
        return at_least_float32(targets.detach())

    def _contrast(
        self, views: Tensor, guide: Tensor | None, text_hashes: Tensor | None, gather: Gather, queue: Queue | None
    ) -> Contrast:
        if queue is not None and queue.guide is None:
            raise InputError("the queue holds no embeddings of the guide; start it anew with this loss")
        sides = self.contrast_anchors, self.contrast_positives
        contrast = Contrast.of(views, text_hashes, gather, queue, *sides)
        assert guide is not None
        unit, queued = normalize(guide), None if queue is None else queue.guide
        anchors = unit[:, : 1 + self.contrast_positives].flatten(1)
        candidates = all_candidates(unit, queued, LOCAL if contrast.sizes else gather, self.contrast_anchors)
        positive = (unit[:, 0] * unit[:, 1]).sum(1)
        relative = self.margin_strategy == "relative"
        return replace(contrast, guide=Guide(anchors, candidates, positive, self.margin, relative))
