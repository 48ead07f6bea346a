"""InfoNCE with candidates masked by document or by another encoder, and with a consistency term."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from contrastive_st.citations import cited
from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.errors import InputError
from contrastive_st.losses.functional import check_shape, in_blocks, jensen_shannon, normalize
from contrastive_st.losses.info_nce import Contrast, Guide, InfoNCE, Queue, all_candidates
from contrastive_st.options import Finite, NotNegative

# --- InfoNCE of sentences of documents: what a document says is not contrasted with the rest of it.


@dataclass(frozen=True)
class DocumentInfoNCE(InfoNCE):
    r"""InfoNCE of pairs from documents: candidates of the anchor's document are masked, except its positive.

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

    takes_queue = False  # the documents of earlier batches are not kept

    def describe(self, anchors: int, num_views: int) -> str:
        """Describe what a step contrasts."""
        return f"{super().describe(anchors, num_views)}, but those of its own document"

    def _contrast(self, views: Tensor, targets: Tensor | None, **other: Any) -> Contrast:
        documents = check_shape("documents of the rows", targets, (len(views),), "NeighborPairCollator")
        return Contrast.of(views, documents=documents, **other)


# --- InfoNCE with a consistency term between the two views: the loss of Cutoff.


@dataclass(frozen=True)
class ConsistentInfoNCE(InfoNCE):
    r"""InfoNCE plus the divergence between the predictions of the two views (Shen et al. 2020, Cutoff).

    Over the sentences (and hard negatives) c, the first view predicts `p_i = softmax_c(z_i0 . z_c1 / T)` and the second
    `q_i = softmax_c(z_i1 . z_c0 / T)`:

        loss = InfoNCE + js_weight * mean over i of (KL(p_i || m_i) + KL(q_i || m_i)) / 2,   m_i = (p_i + q_i) / 2

    Args:
        js_weight: weight of the Jensen-Shannon divergence; 1 in the paper.

    Example:
        >>> views = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])  # equal views: no divergence
        >>> bool(ConsistentInfoNCE(js_weight=9.0)(views) == InfoNCE()(views))
        True
    """

    name: ClassVar[str] = "consistent_info_nce"
    words: ClassVar[str] = "Cutoff"
    tag: ClassVar[str] = "cutoff"
    citation: ClassVar[str] = cited("shen2020simple")
    js_weight: NotNegative = 1.0

    def __call__(self, views: Tensor, targets: Tensor | None = None, **other: Any) -> Tensor:
        """The loss of one batch; arguments and errors are those of `InfoNCE`."""
        loss = super().__call__(views, targets, **other)
        return loss + self.js_weight * self.consistency(views, other.get("text_hashes"), other.get("gather", LOCAL))

    def consistency(self, views: Tensor, text_hashes: Tensor | None = None, gather: Gather = LOCAL) -> Tensor:
        """The mean divergence over the sentences of all processes, 0 to ln 2."""
        swapped, gather = [1, 0, *range(2, views.shape[1])], gather.without_ring()
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

    The anchor's positive is never masked. Hard negatives, and candidates of other processes and of a queue, are
    masked like all others. Solatorio 2024 (https://arxiv.org/abs/2402.16829) uses absolute, margin 0, temperature 0.01,
    and contrasts anchors and positives with each other too; Moreira et al. 2024 (https://arxiv.org/abs/2407.15831) use
    both strategies and margin 0.05.

    The metrics have `masked` too: the share of the candidates that are masked, including equal texts.

    Args:
        margin: candidates are masked above the positive's similarity minus this margin; a greater margin masks more.
        margin_strategy: `absolute` or `relative`: a share of the positive's similarity.
        contrast_anchors: other anchors are candidates too.
        contrast_positives: other positives are also contrasted with the anchor's positive.

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
    citation: ClassVar[str] = cited("solatorio2024gistembed", "moreira2024nv")
    margin: Finite = 0.0
    margin_strategy: Literal["absolute", "relative"] = "absolute"
    contrast_anchors: bool = False
    contrast_positives: bool = False

    def describe(self, anchors: int, num_views: int) -> str:
        """Describe what a step contrasts."""
        below = f" less {self.margin:g}{' of it' if self.margin_strategy == 'relative' else ''}" if self.margin else ""
        return f"{super().describe(anchors, num_views)}, but those more similar than the positive{below} to the guide"

    def _contrast(self, views: Tensor, targets: Tensor | None, **other: Any) -> Contrast:
        targets = check_shape("the guide's vectors of the texts (GuidedRows)", targets, (*views.shape[:2], None))
        queue: Queue | None = other.get("queue")
        if queue is not None and queue.guide is None:
            raise InputError("the queue has no embeddings of the guide; start a new queue with this loss")
        also: dict[str, Any] = {"with_anchors": self.contrast_anchors, "with_positives": self.contrast_positives}
        contrast = Contrast.of(views, **other, **also)
        unit, queued = normalize(targets.detach()), None if queue is None else queue.guide
        anchors = unit[:, : 1 + self.contrast_positives].flatten(1)
        gather = LOCAL if contrast.sizes else other.get("gather", LOCAL)
        candidates = all_candidates(unit, queued, gather, self.contrast_anchors)
        positive = (unit[:, 0] * unit[:, 1]).sum(1)
        relative = self.margin_strategy == "relative"
        return replace(contrast, guide=Guide(anchors, candidates, positive, self.margin, relative))
