"""InfoNCE, the loss of SimCSE (unsupervised and supervised), also with a consistency term or with a guide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.errors import InputError
from contrastive_st.losses.base import Loss, require
from contrastive_st.losses.functional import (
    at_chance,
    at_least_float32,
    check_shape,
    in_blocks,
    jensen_shannon,
    matmul_float32,
    measured_rows,
    normalize,
)
from contrastive_st.options import Finite, NotNegative, Positive


class Queue(NamedTuple):
    """K candidates from earlier batches.

    Attributes:
        embeddings: unit vectors `[K, d]`.
        text_hashes: `[K, 2]`: hashes of the text of the candidate's anchor, and of its own text.
        guide: the guide's unit vectors of the candidates, `[K, D]`, for `GuidedInfoNCE`.
    """

    embeddings: Tensor
    text_hashes: Tensor
    guide: Tensor | None = None


@dataclass(frozen=True)
class InfoNCE(Loss):
    r"""Cross-entropy of choosing an anchor's own positive among all candidates (Gao et al. 2021, SimCSE).

    `z` are the views as unit vectors; the candidates c are the positives of all N sentences, then their hard negatives:

        loss_i = -log exp(z_i0 . z_i1 / T) / sum_c exp(z_i0 . z_c / T + [c is i's own hard negative] * w)

    A large matrix of scores is computed in blocks of rows, each together with its gradient. The result is the same, and
    only one block is in memory.

    Args:
        temperature: `T`; 0.05 in the paper.
        hard_negative_weight: `w`, the *logarithm* of the paper's alpha, for an anchor's own hard negatives.
        symmetric: also choose the anchor given the positive, and average the two losses.

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
    citation: ClassVar[str] = """
@misc{oord2018representation,
  title = {Representation Learning with Contrastive Predictive Coding},
  author = {van den Oord, Aaron and Li, Yazhe and Vinyals, Oriol},
  note = {arXiv:1807.03748},
  year = {2018}
}
"""
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
            targets: only used by `GuidedInfoNCE`; each anchor's target is its own positive.
            text_hashes: `[B, V]` integers, equal for equal texts, which are not negatives of each other; `NO_TEXT` for
                a view without text, which is no candidate: rows may have different numbers of hard negatives.
            gather: collects the candidates of all processes; see `contrastive_st.distributed`.
            queue: candidates from earlier batches, the same on every process.

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
        """Metrics of a batch for the training log.

        In-batch `accuracy`, the number of `candidates`, `temperature`, and `alignment`: the mean squared distance
        between the unit vectors of anchor and positive (Wang and Isola 2020). The accuracy is that of the first rows
        among all candidates; where these are passed around the ring, it is left out.
        """
        contrast = self._contrast(views, self._guide(views, targets), text_hashes, gather, queue)
        anchor, positive = normalize(views[:, :2]).unbind(1)
        return {
            **self._of_scores(contrast),
            "candidates": len(contrast.columns),
            "temperature": self.temperature,
            "alignment": (2 - 2 * (anchor * positive).sum(1)).mean().item(),
        }

    def chances(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """ln(candidates)."""
        return at_chance(metrics)

    def _of_scores(self, contrast: Contrast) -> dict[str, float]:
        """The metrics for which the scores of the first rows are needed."""
        if contrast.sizes:  # the candidates of the others are not here
            return {}
        rows = measured_rows(len(contrast.columns))
        scores, _ = contrast.scores(contrast.anchors[rows], contrast.candidates, rows, self)
        found = {"accuracy": (scores.argmax(1) == contrast.own[rows]).float().mean().item()}
        return found if contrast.guide is None else {**found, "masked": scores.isneginf().float().mean().item()}

    def scores(self, views: Tensor, targets: Tensor | None = None, **other: Any) -> tuple[Tensor, Tensor]:
        """Scores `[B, C]`, -inf for candidates that are masked, and the column of each anchor's own positive, `[B]`.

        C is `(V - 1) * N`, plus K with a queue of K candidates.

        Args:
            views: as for the loss.
            targets: as for the loss.
            other: `text_hashes`, `gather` and `queue`, as for the loss.
        """
        hashes, gather, queue = other.get("text_hashes"), other.get("gather", LOCAL).whole(), other.get("queue")
        contrast = self._contrast(views, self._guide(views, targets), hashes, gather, queue)
        scores, _ = contrast.scores(contrast.anchors, contrast.candidates, slice(None), self)
        own: Tensor = contrast.own
        return scores, own

    def describe(self, anchors: int, num_views: int) -> str:
        """Describe what a step contrasts, given the number of anchors over all processes and of views per anchor."""
        hard = anchors * (num_views - 2)
        words = f"{anchors} anchors a step, each against {anchors - 1} in-batch negatives"
        return words + (f" and {hard} hard negatives" if hard else "")

    @property
    def takes_queue(self) -> bool:
        """Whether the loss accepts candidates from earlier batches: not if `symmetric`, where they would be anchors."""
        return not self.symmetric

    def _guide(self, views: Tensor, targets: Tensor | None) -> Tensor | None:
        """The guide's embeddings `[B, V, D]` of the texts of the views; None for losses without a guide."""
        return None

    def _contrast(
        self, views: Tensor, guide: Tensor | None, text_hashes: Tensor | None, gather: Gather, queue: Queue | None
    ) -> Contrast:
        """The anchors and candidates of a batch."""
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
                f"{masked}; give a larger batch size, or check the data for repeated sentences"
            ),
            skips=True,
        )
        return gather.mean(total, len(contrast.own), contrast.total)

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
        sums, found = gather.logsumexp(contrast.anchors, block, [kinds * size for size in contrast.sizes], score)
        positives = contrast.candidates[: len(sums)]  # the positives come first among the candidates
        own = (contrast.anchors[:, :dim] * positives).sum(1) / self.temperature
        return (sums - own).sum(), found.sum()


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
        own: `[B]`, the column of each anchor's own positive; None if the candidates do not include it.
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
            documents: `[B]`, the document of each row, 0 or more; positives of the anchor's own document are masked.
        """
        if views.dim() != 3 or views.shape[1] < 2:
            raise InputError(
                f"views must be [B, V, d] with V >= 2 (an anchor and a positive), got {tuple(views.shape)}"
            )
        rows, num_views = views.shape[:2]
        sizes = gather.sizes(rows)
        own = sum(sizes[: gather.rank]) + torch.arange(rows, device=views.device)
        if text_hashes is None:
            text_hashes = -1 - own[:, None] * num_views - torch.arange(num_views, device=views.device)
        columns = torch.stack([text_hashes, text_hashes], -1)
        columns[:, 1, 1] = text_hashes[:, 0]  # only positives: a hard negative stays one for equal anchors too
        anchors_of = text_hashes[:, :2]
        if documents is not None:
            documents_of = documents[:, None, None].repeat(1, num_views, 1)
            documents_of[:, 2:] = -1  # hard negatives are meant to be negatives
            columns = torch.cat([columns, documents_of], -1)
            anchors_of = torch.cat([anchors_of, documents[:, None]], 1)
        columns = all_candidates(
            columns, None if queue is None else queue.text_hashes.flip(1), gather, with_anchors, sizes
        )
        held = 0 if queue is None else len(queue.text_hashes)
        total = (len(columns) - held) // (num_views - 1 + with_anchors)
        unit, queued = normalize(views), None if queue is None else queue.embeddings
        around = queue is None and gather.uses_ring(len(columns) * views.shape[2])
        return cls(
            unit[:, : 1 + with_positives].flatten(1),
            all_candidates(unit, queued, LOCAL if around else gather, with_anchors, sizes),
            own,
            total,
            num_views - 2,
            anchors_of,
            torch.cat([columns, columns[:total]]) if with_positives else columns,
            sizes=tuple(sizes) if around else (),
        )

    def of_rank(self, rank: int, own: int) -> Contrast:
        """The columns of one process's candidates; the caller has the vectors. `own` is the rank of this process."""
        start, size = sum(self.sizes[:rank]), self.sizes[rank]
        groups = self.columns.split(self.total)  # positives, first hard negatives, ...
        place = torch.arange(size, device=self.columns.device) if rank == own else None
        return replace(self, own=place, total=size, columns=torch.cat([group[start:][:size] for group in groups]))

    def scores(self, anchors: Tensor, candidates: Tensor, rows: slice, loss: InfoNCE) -> tuple[Tensor, Tensor]:
        """Scores of a block of rows, -inf for masked candidates, and which of the rows have a negative."""
        scores = self._cosines(anchors, candidates) / loss.temperature
        excluded = self._equal_texts(rows)
        if self.guide is not None:
            excluded |= self._alike(rows, self.guide)
        if self.own is None:
            return scores.masked_fill_(excluded, float("-inf")), _any_left(excluded)
        own, weight = self.own[rows, None], loss.hard_negative_weight
        hard = own + self.total * torch.arange(1, self.hard + 1, device=own.device)
        if weight and self.hard:
            scores = scores + torch.zeros_like(scores).scatter_(1, hard, weight)
        found = _any_left(excluded.scatter_(1, own, True))
        return scores.masked_fill_(excluded.scatter_(1, own, False), float("-inf")), found

    def _cosines(self, anchors: Tensor, candidates: Tensor) -> Tensor:
        """Similarities of a block of anchors to the candidates, and of appended positives to all positives."""
        sides = anchors.split(candidates.shape[1], 1)
        scores = [matmul_float32(*pair) for pair in zip(sides, (candidates, candidates[: self.total]), strict=False)]
        return scores[0] if len(scores) == 1 else torch.cat(scores, 1)

    def _equal_texts(self, rows: slice) -> Tensor:
        """True if a column has the text of the anchor or of its positive, is the positive of an equal anchor, or empty.

        A column is empty where a row has fewer hard negatives than the others. With documents a column is also excluded
        if it is of the anchor's document.
        """
        anchor, positive, *document = self.text_hashes[rows].split(1, dim=1)
        text, anchor_of, *document_of = self.columns.T.contiguous()  # strided integers compare at half the speed
        excluded: Tensor = text == anchor
        excluded |= text == positive
        excluded |= anchor_of == anchor
        excluded |= text == NO_TEXT
        for own, other in zip(document, document_of, strict=True):
            excluded |= own == other
        return excluded

    def _alike(self, rows: slice, guide: Guide) -> Tensor:
        """True if the guide's similarity of column and anchor is above that of positive and anchor minus the margin."""
        similar, positive = self._cosines(guide.anchors[rows], guide.candidates), guide.positive[rows, None]
        limit = positive - guide.margin * (positive.abs() if guide.relative else 1.0)
        return similar > limit + TIE


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
    given = views.roll(-1, 1)[:, : views.shape[1] - (not with_anchors)]
    candidates = gather(given, sizes).transpose(0, 1).flatten(0, 1)
    return candidates if queued is None else torch.cat([candidates, queued.to(candidates.dtype)])


# --- InfoNCE of sentences of documents: what a document says is not contrasted with the rest of it.


@dataclass(frozen=True)
class DocumentInfoNCE(InfoNCE):
    r"""InfoNCE of pairs from documents: candidates of the anchor's own document are masked, except its positive.

    For the neighbours of a sentence as its positives. Sentences of a document are about the same things; contrasted
    with each other they teach the encoder to tell apart what belongs together. Hard negatives are not masked.

    Example:
        >>> views = torch.eye(3)[:, None].repeat(1, 2, 1)  # three pairs, d=3
        >>> loss = DocumentInfoNCE(temperature=1.0)
        >>> loss.scores(views, torch.tensor([0, 0, 1]))[0].tolist()  # the first two are of one document
        [[1.0, -inf, 0.0], [-inf, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    name: ClassVar[str] = "document_info_nce"
    words: ClassVar[str] = "InfoNCE of neighbouring sentences"
    tag: ClassVar[str] = "next-sentence"
    trains: ClassVar[tuple[str, ...]] = ()

    @property
    def takes_queue(self) -> bool:
        """False: the documents of earlier batches are not kept."""
        return False

    def describe(self, anchors: int, num_views: int) -> str:
        """Describe what a step contrasts."""
        return f"{super().describe(anchors, num_views)}, but those of its own document"

    def _guide(self, views: Tensor, targets: Tensor | None) -> Tensor | None:
        """The document of each view, `[B, V]`."""
        targets = check_shape("documents of the rows", targets, (len(views),), "NeighborPairCollator")
        return targets[:, None].expand(-1, views.shape[1])

    def _contrast(
        self, views: Tensor, guide: Tensor | None, text_hashes: Tensor | None, gather: Gather, queue: Queue | None
    ) -> Contrast:
        assert guide is not None
        return Contrast.of(views, text_hashes, gather, queue, documents=guide[:, 0])


# --- InfoNCE with a consistency term between the two views: the loss of Cutoff.


@dataclass(frozen=True)
class ConsistentInfoNCE(InfoNCE):
    r"""InfoNCE plus the divergence between the predictions of the two views (Shen et al. 2020, Cutoff).

    Over the sentences (and hard negatives) c, the first view predicts `p_i = softmax_c(z_i0 . z_c1 / T)` and the second
    `q_i = softmax_c(z_i1 . z_c0 / T)`:

        loss = InfoNCE + js_weight * mean over i of (KL(p_i || m_i) + KL(q_i || m_i)) / 2,   m_i = (p_i + q_i) / 2

    Args:
        js_weight: weight of the divergence; 1 in the paper.

    Example:
        >>> views = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])  # equal views: no divergence
        >>> bool(ConsistentInfoNCE(js_weight=9.0)(views) == InfoNCE()(views))
        True
    """

    name: ClassVar[str] = "consistent_info_nce"
    words: ClassVar[str] = "Cutoff"
    tag: ClassVar[str] = "cutoff"
    citation: ClassVar[str] = """
@misc{shen2020simple,
  title = {A Simple but Tough-to-Beat Data Augmentation Approach for Natural Language Understanding and Generation},
  author = {Shen, Dinghan and Zheng, Mingzhi and Shen, Yelong and Qu, Yanru and Chen, Weizhu},
  note = {arXiv:2009.13818},
  year = {2020}
}
"""
    js_weight: NotNegative = 1.0

    def __call__(
        self,
        views: Tensor,
        targets: Tensor | None = None,
        *,
        text_hashes: Tensor | None = None,
        gather: Gather = LOCAL,
        **other: Any,
    ) -> Tensor:
        """The loss of one batch; arguments and errors are those of `InfoNCE`."""
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


# --- InfoNCE with false negatives masked by another encoder.


@dataclass(frozen=True)
class GuidedInfoNCE(InfoNCE):
    r"""InfoNCE without the candidates that a guide, another encoder, takes for positives (GISTEmbed, NV-Retriever).

    With `g` the guide's unit vectors of the same texts, a candidate c of the anchor i is masked if

        g_i . g_c > g_i . g_i1 - margin                absolute
        g_i . g_c > g_i . g_i1 - margin |g_i . g_i1|   relative

    An anchor's own positive is never masked. Hard negatives, and candidates of other processes and of a queue, are
    masked like all others. Solatorio 2024 (https://arxiv.org/abs/2402.16829) uses absolute, margin 0, temperature 0.01,
    and contrasts anchors and positives with each other too; Moreira et al. 2024 (https://arxiv.org/abs/2407.15831) use
    both strategies and margin 0.05.

    The metrics have `masked` too: the share of the candidates that are masked, including equal texts.

    Args:
        margin: candidates are masked above the positive's similarity minus this margin; a greater margin masks more.
        margin_strategy: `absolute` or `relative`.
        contrast_anchors: other anchors are candidates too.
        contrast_positives: other positives are also contrasted with the anchor's own positive.

    Example:
        >>> views = torch.eye(3)[:, None].repeat(1, 2, 1)  # three pairs, d=3
        >>> guide = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])[:, None].repeat(1, 2, 1)  # 0 and 1 say the same
        >>> loss = GuidedInfoNCE(temperature=1.0, margin=0.1)
        >>> loss.scores(views, guide)[0].tolist()
        [[1.0, -inf, 0.0], [-inf, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    name: ClassVar[str] = "guided_info_nce"
    words: ClassVar[str] = "Guided negatives"
    tag: ClassVar[str] = "gistembed"
    trains: ClassVar[tuple[str, ...]] = ("texts", "pairs", "triplets")  # the guide takes the place of scores
    citation: ClassVar[str] = """
@misc{solatorio2024gistembed,
  title = {{GISTEmbed}: Guided In-sample Selection of Training Negatives for Text Embedding Fine-tuning},
  author = {Solatorio, Aivin V.},
  note = {arXiv:2402.16829},
  year = {2024}
}

@misc{moreira2024nv,
  title = {{NV-Retriever}: Improving text embedding models with effective hard-negative mining},
  author = {Moreira, Gabriel de Souza P. and Osmulski, Radek and Xu, Mengyao and Ak, Ronay and Schifferer, Benedikt
    and Oldridge, Even},
  note = {arXiv:2407.15831},
  year = {2024}
}
"""
    margin: Finite = 0.0
    margin_strategy: Literal["absolute", "relative"] = "absolute"
    contrast_anchors: bool = False
    contrast_positives: bool = False

    def describe(self, anchors: int, num_views: int) -> str:
        """Describe what a step contrasts."""
        below = f" less {self.margin:g}{' of it' if self.margin_strategy == 'relative' else ''}" if self.margin else ""
        return f"{super().describe(anchors, num_views)}, but those more similar than the positive{below} to the guide"

    def _guide(self, views: Tensor, targets: Tensor | None) -> Tensor | None:
        targets = check_shape("the guide's vectors of the texts (GuidedRows)", targets, (*views.shape[:2], None))
        return at_least_float32(targets.detach())

    def _contrast(
        self, views: Tensor, guide: Tensor | None, text_hashes: Tensor | None, gather: Gather, queue: Queue | None
    ) -> Contrast:
        if queue is not None and queue.guide is None:
            raise InputError("the queue has no embeddings of the guide; start a new queue with this loss")
        sides = self.contrast_anchors, self.contrast_positives
        contrast = Contrast.of(views, text_hashes, gather, queue, *sides)
        assert guide is not None
        unit, queued = normalize(guide), None if queue is None else queue.guide
        anchors = unit[:, : 1 + self.contrast_positives].flatten(1)
        candidates = all_candidates(unit, queued, LOCAL if contrast.sizes else gather, self.contrast_anchors)
        positive = (unit[:, 0] * unit[:, 1]).sum(1)
        relative = self.margin_strategy == "relative"
        return replace(contrast, guide=Guide(anchors, candidates, positive, self.margin, relative))
