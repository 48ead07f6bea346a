"""Losses of labelled pairs, triplets, consistent views and several tasks, against plain loops."""

import math

import pytest
import torch
from plain import agree, cosine, loop_loss, loop_rank_loss

from contrastive_st.errors import InputError
from contrastive_st.losses import (
    AnglELoss,
    ConsistentInfoNCE,
    CoSENTLoss,
    CosineSimilarityLoss,
    InfoNCE,
    MatryoshkaLoss,
    MultiTaskLoss,
    SoftmaxLoss,
    TargetsLoss,
    TripletLoss,
    angular_similarity,
    parse_loss,
)
from contrastive_st.losses.functional import jensen_shannon
from contrastive_st.models import BertForCL
from contrastive_st.tokens import name_number

LABELS = torch.tensor([2, 0, 1, 1, 0])
SCORES = torch.tensor([0.0, 0.25, 0.5, 0.9, 1.0], dtype=torch.float64)


def views(count=2, rows=5, width=4):
    return torch.randn(rows, count, width, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("parts", [("u", "v", "abs(u-v)"), ("u", "v", "abs(u-v)", "u*v"), ("u*v",)])
def test_classification_is_the_plain_loop(parts):
    """The mean over the pairs, taken once: InferSent's own loop divides a mean by the batch again."""
    x, loss_fn = views(), SoftmaxLoss(3, parts)
    head = loss_fn.make_head(4).double()
    weight, bias = head.layers[0].weight, head.layers[0].bias
    total = 0.0
    for (u, v), label in zip(x, LABELS, strict=True):
        known = {"u": u, "v": v, "abs(u-v)": [abs(a - b) for a, b in zip(u, v, strict=True)], "u*v": u * v}
        features = [value for part in parts for value in known[part]]
        scores = [
            sum(w * f for w, f in zip(row, features, strict=True)) + b for row, b in zip(weight, bias, strict=True)
        ]
        total = total + torch.stack(scores).exp().sum().log() - scores[label]
    agree(loss_fn.with_head(head)(x, LABELS), total / len(x), x, weight, bias)


def test_hidden_layers_of_the_classifier_are_not_one_linear_map():
    head = SoftmaxLoss(3, ("u", "v"), head_hidden=6).make_head(2)
    u, v = torch.randn(2, 1, 2)
    middle = head((u + v) / 2, (u + v) / 2)
    assert not torch.allclose(middle, (head(u, u) + head(v, v)) / 2, atol=1e-4)


def test_regression_is_the_plain_loop():
    x = views()
    total = 0.0
    for (u, v), score in zip(x, SCORES, strict=True):
        total = total + (cosine(u, v) - score) ** 2
    agree(CosineSimilarityLoss()(x, SCORES), total / 5, x)


def loop_angle(u, v):
    """The quotient of complex numbers, a component at a time, as in the published code of AnglE."""
    half = len(u) // 2
    lengths = u.square().sum().sqrt() * v.square().sum().sqrt()
    total = 0.0
    for a, b, c, d in zip(u[:half], u[half:], v[:half], v[half:], strict=True):
        total = total + (a * c + b * d) + (b * c - a * d)
    return (total / lengths).abs()


@pytest.mark.parametrize("temperature", [0.05, 1.0])
@pytest.mark.parametrize("scores", [SCORES, torch.tensor([1.0, 0.0, 1.0, 0.5, 0.0]), LABELS])
def test_cosent_and_angle_are_the_plain_loop(temperature, scores):
    x = views()
    cosines = torch.stack([cosine(u, v) for u, v in x])
    agree(CoSENTLoss(temperature)(x, scores), loop_rank_loss(cosines, scores, temperature), x)
    angles = torch.stack([loop_angle(u, v) for u, v in x])
    agree(AnglELoss(temperature)(x, scores), loop_rank_loss(angles, scores, temperature), x)


def test_pairs_of_one_score_are_not_ranked_and_have_a_gradient_of_zero():
    x = views()
    loss = CoSENTLoss()(x, torch.full((5,), 0.5))
    assert loss.item() == 0
    assert torch.equal(torch.autograd.grad(loss, x)[0], torch.zeros_like(x))
    order = torch.tensor([3, 0, 4, 2, 1])
    torch.testing.assert_close(CoSENTLoss()(x[order], SCORES[order]), CoSENTLoss()(x, SCORES))
    torch.testing.assert_close(CoSENTLoss()(x, 100 * SCORES - 7), CoSENTLoss()(x, SCORES))  # only the order counts


def test_a_small_temperature_overflows_nothing():
    x = views().float().detach().requires_grad_()
    loss = CoSENTLoss(0.001)(x, SCORES)
    assert loss.item() == pytest.approx(CoSENTLoss(0.001)(x.double(), SCORES).item(), rel=1e-4)
    loss.backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("margin", [1.0, 0.3])
def test_triplet_is_the_plain_loop(margin):
    x, total = views(3), 0.0
    for a, p, n in x:
        distance = (a - p).square().sum().sqrt() - (a - n).square().sum().sqrt() + margin
        total = total + torch.clamp(distance, min=0)
    agree(TripletLoss(margin)(x), total / 5, x)
    assert TripletLoss().margin == 1.0  # the paper's; sentence-transformers has 5


def test_equal_embeddings_of_a_triplet_have_a_finite_gradient():
    x = torch.ones(2, 3, 4, requires_grad=True)
    loss = TripletLoss()(x)
    assert loss.item() == 1.0
    loss.backward()
    assert torch.equal(x.grad, torch.zeros_like(x))


def loop_divergence(x, temperature, keys=None):
    """Jensen-Shannon divergence of the two views' distributions over the sentences, one scalar at a time."""
    n, total = len(x), 0.0
    unit = x / x.square().sum(-1, keepdim=True).sqrt()

    def distribution(i, own, other):
        candidates = []
        for j in range(n):
            equal = (
                keys is not None
                and j != i
                and (keys[j, other] in (keys[i, own], keys[i, other]) or keys[j, own] == keys[i, own])
            )
            candidates.append(None if equal else (unit[i, own] * unit[j, other]).sum() / temperature)
        weights = [torch.zeros((), dtype=x.dtype) if score is None else score.exp() for score in candidates]
        return [weight / sum(weights) for weight in weights]

    for i in range(n):
        p, q = distribution(i, 0, 1), distribution(i, 1, 0)
        for a, b in zip(p, q, strict=True):
            m = (a + b) / 2
            total = total + sum(0.5 * c * (c / m).log() for c in (a, b) if c > 0)
    return total / n


@pytest.mark.parametrize("with_keys", [False, True])
def test_consistent_views_are_the_plain_loop(with_keys):
    x = views()
    keys = torch.tensor([[1, 1], [2, 2], [3, 3], [1, 1], [5, 5]]) if with_keys else None
    loss = ConsistentInfoNCE(0.3, js_weight=0.7)(x, text_hashes=keys)
    agree(loss, loop_loss(x, 0.3, keys=keys) + 0.7 * loop_divergence(x, 0.3, keys), x)
    assert loss > InfoNCE(0.3)(x, text_hashes=keys)


def test_the_divergence_is_jensen_shannon_and_not_its_reverse():
    """Cutoff's published code computes (KL(m||p) + KL(m||q)) / 2."""
    p, q = torch.tensor([0.9, 0.1], dtype=torch.float64), torch.tensor([0.2, 0.8], dtype=torch.float64)
    m = (p + q) / 2
    true = ((p * (p / m).log()).sum() + (q * (q / m).log()).sum()) / 2
    reverse = ((m * (m / p).log()).sum() + (m * (m / q).log()).sum()) / 2
    found = jensen_shannon(p.log()[None], q.log()[None])[0]
    assert abs(found - true) < 1e-12
    assert abs(found - reverse) > 0.01
    apart = jensen_shannon(torch.tensor([[0.0, -math.inf]]), torch.tensor([[-math.inf, 0.0]]))
    assert apart.item() == pytest.approx(math.log(2))


def test_angular_similarity_keeps_its_digits_where_vectors_are_equal():
    a, b = torch.randn(3, 5), torch.randn(4, 5)
    cosine = torch.nn.functional.cosine_similarity(a[:, None], b[None], dim=-1)
    torch.testing.assert_close(angular_similarity(a, b), 1 - cosine.acos() / math.pi, atol=1e-6, rtol=0)
    x = torch.randn(2, 300, requires_grad=True)
    same = angular_similarity(x, 2 * x.detach()).diagonal()
    assert (same > 1 - 1e-6).all()  # arccos of a rounded cosine is off by up to 1e-4 here
    same.sum().backward()
    assert x.grad.isfinite().all()


def test_each_batch_trains_its_own_task_and_every_head_has_a_gradient():
    tasks = {"near": TargetsLoss("next"), "answers": InfoNCE(0.5), "nli": SoftmaxLoss()}
    loss_fn = MultiTaskLoss(tasks)
    head = loss_fn.make_head(4).double()
    loss_fn = loss_fn.with_head(head)
    x = views()
    places = torch.tensor([[0, i] for i in range(5)])
    number = lambda name, own: torch.cat([torch.full((5, 1), name_number(name)), own], 1)
    near = torch.cat([x[:, :1], head["near"](x[:, 1:])], 1)
    agree(loss_fn(x, number("near", places)), tasks["near"](near, places), x)
    one = x[:, :1]
    torch.testing.assert_close(
        loss_fn(one, number("near", places)), tasks["near"](torch.cat([one, head["near"](one)], 1), places)
    )
    answers = torch.cat([x[:, :1], head["answers"](x[:, 1:])], 1)
    agree(loss_fn(x, number("answers", places[:, :0])), loop_loss(answers, 0.5), x)
    short = MultiTaskLoss({"near": tasks["near"], "answers": MatryoshkaLoss(tasks["answers"], (2, 4))}).with_head(head)
    answers = torch.cat([x[:, :1], head["answers"](x[:, 1:])], 1)
    agree(short(x, number("answers", places[:, :0])), sum(loop_loss(answers[..., :dim], 0.5) for dim in (2, 4)), x)
    nli = loss_fn(x, number("nli", LABELS[:, None]))
    agree(nli, tasks["nli"].with_head(head["nli"])(x, LABELS), x)
    gradients = torch.autograd.grad(loss_fn(x, number("nli", LABELS[:, None])), head.parameters())
    assert sum(bool(gradient.abs().max() > 0) for gradient in gradients) == 2
    with pytest.raises(InputError, match="MixtureCollator"):
        loss_fn(x, torch.tensor([[0], [1], [1], [1], [1]]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "softmax", "num_labels": 1}, "2 or more"),
        ({"loss": "softmax", "features": ("u", "w")}, "unknown feature 'w'"),
        ({"loss": "multi_task"}, "cannot be the name of a task"),
        ({"loss": "cosent", "temperature": 0.0}, "temperature 0.0: give a number above 0"),
        ({"loss": "guessing"}, "triplet"),
    ],
)
def test_settings_that_make_no_loss(settings, message):
    with pytest.raises(InputError, match=message):
        parse_loss(settings)


@pytest.mark.parametrize(
    ("loss_fn", "targets", "message"),
    [
        (SoftmaxLoss(3, head=lambda u, v: u), torch.tensor([0, 1, 2, 3, 0]), "0 to 2"),
        (SoftmaxLoss(), LABELS, "with_head=True"),
        (CosineSimilarityLoss(), SCORES * 5, "scale them"),
        (CosineSimilarityLoss(), None, "LabelledPairCollator"),
        (TripletLoss(), None, "anchor, a positive and a negative"),
        (CoSENTLoss(), None, "LabelledPairCollator"),
        (AnglELoss(), SCORES.clone().fill_(float("nan")), "not finite"),
    ],
)
def test_targets_that_a_loss_cannot_take(loss_fn, targets, message):
    with pytest.raises(InputError, match=message):
        loss_fn(views(), targets)


def test_the_head_is_trained_kept_and_dropped_in_the_end(bert_config, tmp_path):
    """With sentence-transformers on transformers before 4.43 the classifier was never trained."""
    model = BertForCL(bert_config, loss="softmax", pooling="mean")
    ids = torch.randint(5, 40, (4, 2, 6))
    before = {name: weight.clone() for name, weight in model.loss_head.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model(ids, targets=torch.tensor([0, 1, 2, 0])).loss.backward()
    optimizer.step()
    assert all(not torch.equal(before[name], weight) for name, weight in model.loss_head.named_parameters())
    model.save_pretrained(tmp_path / "checkpoint")
    again = BertForCL.from_pretrained(tmp_path / "checkpoint")
    for name, weight in model.loss_head.state_dict().items():
        assert torch.equal(again.loss_head.state_dict()[name], weight)
    model.drop_heads()
    model.save_pretrained(tmp_path / "finished")
    finished = BertForCL.from_pretrained(tmp_path / "finished")
    assert not hasattr(finished, "loss_head")
    with pytest.raises(InputError, match="with_head=True"):
        finished.eval()(ids, targets=torch.tensor([0, 1, 2, 0]))
    anew = BertForCL.from_pretrained(tmp_path / "finished", with_head=True)
    assert anew(ids, targets=torch.tensor([0, 1, 2, 0])).loss.isfinite()
