"""The loss of several first dimensions at once: sums of the inner loss, its heads, its queue, and its checkpoint."""

import pytest
import torch
from plain import agree
from refusals import refusal
from torch import nn

from contrastive_st import BertForCL, InputError, QuickThoughtsConfig, QuickThoughtsGRU
from contrastive_st.losses import (
    CoSENTLoss,
    EmbeddingDistillationLoss,
    InfoNCE,
    MatryoshkaLoss,
    SoftmaxLoss,
    TargetsLoss,
    TripletLoss,
    parse_loss,
)
from contrastive_st.losses.info_nce import Queue

DIMS, WEIGHTS = (6, 4, 1), (1.0, 0.5, 2.0)
PLACES = torch.tensor([[0, i] for i in range(5)])
INNER = [
    (InfoNCE(0.3), 2, None),
    (InfoNCE(0.3, 0.4), 3, None),
    (InfoNCE(0.3, symmetric=True), 2, None),
    (TripletLoss(0.5), 3, None),
    (CoSENTLoss(), 2, torch.tensor([0.1, 0.9, 0.4, 0.4, 0.0])),
    (TargetsLoss("window", context_size=2), 1, PLACES),
]


@pytest.mark.parametrize(("inner", "num_views", "targets"), INNER, ids=lambda value: getattr(value, "name", None))
def test_is_the_sum_of_the_inner_loss_of_cut_embeddings(inner, num_views, targets):
    x = torch.randn(5, num_views, 6, dtype=torch.float64, requires_grad=True)
    ours = MatryoshkaLoss(inner, DIMS, WEIGHTS)(x, targets)
    one_by_one = sum(w * inner(x[:, :, :dim], targets) for dim, w in zip(DIMS, WEIGHTS, strict=True))
    agree(ours, one_by_one, x)
    logged = MatryoshkaLoss(inner, DIMS).metrics(x, targets)
    first = inner.metrics(x[:, :, :1], targets)
    assert {name: logged[f"{name}_1"] for name in first} == first


def test_embeddings_of_a_teacher_are_cut_along():
    student, teacher = torch.randn(4, 1, 6, dtype=torch.float64), torch.randn(4, 6, dtype=torch.float64)
    inner = EmbeddingDistillationLoss()
    wanted = inner(student, teacher) + inner(student[..., :2], teacher[:, :2])
    torch.testing.assert_close(MatryoshkaLoss(inner, (6, 2))(student, teacher), wanted)


def test_each_dimension_has_a_classifier_of_its_own():
    loss_fn = MatryoshkaLoss(SoftmaxLoss(), (6, 2))
    with pytest.raises(InputError, match="without"):
        loss_fn(torch.randn(3, 2, 6), torch.tensor([0, 1, 2]))
    head = loss_fn.make_head(6)
    assert [head[name].layers[0].in_features for name in ("6", "2")] == [18, 6]
    loss_fn.with_head(head)(torch.randn(3, 2, 6), torch.tensor([0, 1, 2])).backward()
    assert all(weight.grad.abs().max() > 0 for weight in head.parameters())
    assert MatryoshkaLoss(InfoNCE(), (6, 2)).make_head(6) is None


def test_a_queue_is_cut_along():
    views = torch.randn(4, 2, 6, dtype=torch.float64)
    unit = nn.functional.normalize(torch.randn(7, 6, dtype=torch.float64), dim=-1)
    queue = Queue(unit, torch.arange(100, 114).view(7, 2))
    small = queue._replace(embeddings=nn.functional.normalize(unit[:, :2], dim=-1))
    inner = InfoNCE(0.2)
    wanted = inner(views, queue=queue) + inner(views[..., :2], queue=small)
    torch.testing.assert_close(MatryoshkaLoss(inner, (6, 2))(views, queue=queue), wanted)
    assert MatryoshkaLoss(inner, (6, 2)).takes_queue
    assert not MatryoshkaLoss(TripletLoss(), (6, 2)).takes_queue


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda config: MatryoshkaLoss(), "give one or more different"),
        (lambda config: MatryoshkaLoss(dims=(4, 4)), "give one or more different"),
        (lambda config: MatryoshkaLoss(dims=(4, 0)), "dims .* 1 or more"),
        (lambda config: MatryoshkaLoss(dims=(4, 2), weights=(1.0,)), "a weight for each"),
        (lambda config: MatryoshkaLoss(dims=(4,), weights=(-1.0,)), "weights .* above 0"),
        (lambda config: MatryoshkaLoss({"loss": "guessing"}, (4,)), "unknown loss"),
        (lambda config: MatryoshkaLoss(dims=(9,))(torch.randn(3, 2, 8)), "has 8 dimensions; give none above"),
        (
            lambda config: BertForCL(config, loss="matryoshka", dims=[32]),
            "has 16 dimensions; give none above",
        ),
        (lambda config: parse_loss({"loss": "matryoshka", "dims": 4}), "dims 4: give a list"),
        (
            lambda config: QuickThoughtsGRU(
                QuickThoughtsConfig(60, 6, 8), loss="matryoshka", inner={"loss": "targets"}, dims=[4]
            ),
            "does not suit the views of QuickThoughtsGRU",
        ),
    ],
)
def test_bad_input_is_one_line(make, message, bert_config):
    with refusal(message):
        make(bert_config)
