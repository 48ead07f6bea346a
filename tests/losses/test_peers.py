"""The losses that sentence-transformers has too, on equal embeddings in float64: value and gradient to 1e-6."""

import itertools
from functools import partial

import plain
import pytest
import torch
from torch import nn

from contrastive_st.losses import (
    AnglELoss,
    CoSENTLoss,
    GuidedInfoNCE,
    InfoNCE,
    KLDistillationLoss,
    MarginMSELoss,
    MatryoshkaLoss,
)

peers = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
pairwise_cos_sim = pytest.importorskip("sentence_transformers.util").pairwise_cos_sim
SCORES = torch.tensor([0.0, 0.25, 0.5, 0.5, 0.9, 1.0, 0.25], dtype=torch.float64)


class Embeddings(nn.Module):
    """What their losses take for a model: each column of a batch is its embeddings."""

    max_seq_length = 16

    def __init__(self, tokenizer=None):
        super().__init__()
        self.tokenizer = tokenizer

    def forward(self, features):
        return {"sentence_embedding": features["embeddings"]}

    def get_embedding_dimension(self):
        return None


class Guide(Embeddings):
    def forward(self, features):
        return {"sentence_embedding": features["guide"]}


def columns(views, guide=None):
    guides = [None] * views.shape[1] if guide is None else guide.unbind(1)
    return [{"embeddings": view, "guide": own} for view, own in zip(views.unbind(1), guides, strict=True)]


agree = partial(plain.agree, within=1e-6)


def drawn(num_views=2, dim=8):
    return torch.randn(7, num_views, dim, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize(("ours", "theirs"), [(CoSENTLoss, "CoSENTLoss"), (AnglELoss, "AnglELoss")])
@pytest.mark.parametrize("dim", [8, 7])
@pytest.mark.parametrize("scale", [20.0, 3.0])
def test_scored_pairs(ours, theirs, dim, scale):
    views = drawn(dim=dim)
    peer = getattr(peers, theirs)(Embeddings(), scale=scale)
    agree(ours(1 / scale)(views, SCORES), peer(columns(views), SCORES), views)


@pytest.mark.parametrize("num_views", [2, 3])
@pytest.mark.parametrize("weights", [None, [0.3, 1.0, 2.0]])
def test_matryoshka_of_ranking(num_views, weights):
    views, model = drawn(num_views), Embeddings()
    peer = peers.MatryoshkaLoss(model, peers.MultipleNegativesRankingLoss(model), [8, 5, 2], weights)
    agree(MatryoshkaLoss(InfoNCE(), (8, 5, 2), weights)(views), peer(columns(views), None), views)


@pytest.mark.parametrize(("ours", "theirs"), [(CoSENTLoss, "CoSENTLoss"), (AnglELoss, "AnglELoss")])
def test_matryoshka_of_scored_pairs(ours, theirs):
    views, model = drawn(), Embeddings()
    peer = peers.MatryoshkaLoss(model, getattr(peers, theirs)(model), [8, 5, 2])
    agree(MatryoshkaLoss(ours(), (8, 5, 2))(views, SCORES), peer(columns(views), SCORES), views)


@pytest.mark.parametrize("num_views", [2, 3])
@pytest.mark.parametrize("strategy", ["absolute", "relative"])
@pytest.mark.parametrize("margin", [0.0, 0.1])
@pytest.mark.parametrize("same_side", list(itertools.product((False, True), repeat=2)))
def test_guided(num_views, strategy, margin, same_side, tokenizer):
    views, guide = drawn(num_views), torch.randn(7, num_views, 5, dtype=torch.float64)
    peer = peers.GISTEmbedLoss(Embeddings(tokenizer), Guide(tokenizer), 0.01, strategy, margin, *same_side)
    ours = GuidedInfoNCE(0.01, margin=margin, margin_strategy=strategy, contrast_anchors=same_side[0],
                         contrast_positives=same_side[1])  # fmt: skip
    agree(ours(views, guide), peer(columns(views, guide), None), views)


def test_matryoshka_of_guided(tokenizer):
    views, guide, model = drawn(3), torch.randn(7, 3, 5, dtype=torch.float64), Embeddings(tokenizer)
    peer = peers.MatryoshkaLoss(model, peers.GISTEmbedLoss(model, Guide(tokenizer)), [8, 3])
    ours = MatryoshkaLoss(GuidedInfoNCE(0.01, contrast_anchors=True, contrast_positives=True), (8, 3))
    agree(ours(views, guide), peer(columns(views, guide), None), views)


def candidates(negatives):
    return drawn(negatives + 2), torch.randn(7, negatives + 1, dtype=torch.float64)


@pytest.mark.parametrize("negatives", [1, 4])
def test_margins(negatives):
    views, scores = candidates(negatives)
    agree(MarginMSELoss()(views, scores), peers.MarginMSELoss(Embeddings())(columns(views), scores), views)


@pytest.mark.parametrize("negatives", [1, 4])
def test_margins_of_cosines(negatives):
    views, scores = candidates(negatives)
    peer = peers.MarginMSELoss(Embeddings(), lambda a, b: pairwise_cos_sim(a, b) / 0.1)
    agree(MarginMSELoss("cosine", 0.1)(views, scores), peer(columns(views), scores), views)


@pytest.mark.parametrize("negatives", [1, 4])
@pytest.mark.parametrize(("ours", "theirs"), [(1.0, 1.0), (2.0, 2.0), (0.5, 3.0)])
def test_distributions_over_candidates(negatives, ours, theirs):
    """Their loss is ours times the square of the student's temperature."""
    views, scores = candidates(negatives)
    peer = peers.DistillKLDivLoss(Embeddings(), student_temperature=ours, teacher_temperature=theirs)
    loss = KLDistillationLoss("dot", ours, theirs)(views, scores) * ours**2
    agree(loss, peer(columns(views), scores), views)
