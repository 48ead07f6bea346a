"""The losses of candidates with a teacher's scores, against plain loops in float64."""

import math

import pytest
import torch
from plain import agree

from contrastive_st.errors import InputError
from contrastive_st.losses import InfoNCE, KLDistillationLoss, MarginMSELoss, functional
from contrastive_st.losses.info_nce import NO_TEXT

ROWS, CANDIDATES, DIM = 5, 4, 6


@pytest.fixture
def batch():
    """Views, scores that are NaN where a row has fewer candidates, and hashes."""
    torch.manual_seed(1)
    views = torch.randn(ROWS, 1 + CANDIDATES, DIM, dtype=torch.float64)
    scores = 3 * torch.randn(ROWS, CANDIDATES, dtype=torch.float64)
    hashes = torch.arange(1, views[..., 0].numel() + 1).view(ROWS, -1)
    for row, count in enumerate((4, 2, 3, 2, 4)):
        scores[row, count:] = float("nan")
        hashes[row, 1 + count :] = NO_TEXT
    hashes[3, 0] = hashes[0, 0]  # an equal anchor, whose positive is another text
    hashes[4, 2] = hashes[2, 1]  # a negative that is the positive of row 2
    hashes[1, 2] = hashes[0, 0]  # a negative that is the anchor of row 0
    return views.requires_grad_(), scores, hashes


def similarity(a, b, kind):
    product = sum(x * y for x, y in zip(a, b, strict=True))
    return product / (a.norm() * b.norm()) if kind == "cosine" else product


def count_of(scores, row):
    return int((~scores[row].isnan()).sum())


def softmax(numbers):
    total = sum(number.exp() for number in numbers)
    return [number.exp() / total for number in numbers]


def margins(views, scores, kind, temperature):
    errors = []
    for i in range(ROWS):
        own = [similarity(views[i, 0], views[i, 1 + c], kind) / temperature for c in range(CANDIDATES)]
        errors += [(own[0] - own[c] - (scores[i, 0] - scores[i, c])) ** 2 for c in range(1, count_of(scores, i))]
    return sum(errors) / len(errors)


def divergence(views, scores, hashes, kind, temperature, teacher_temperature, in_batch):
    total = 0.0
    for i in range(ROWS):
        count, anchor = count_of(scores, i), views[i, 0]
        wanted = softmax([scores[i, c] / teacher_temperature for c in range(count)])
        taken = [views[i, 1 + c] for c in range(count)]
        known = {*hashes[i, : 1 + count].tolist(), NO_TEXT}
        for j in range(ROWS) if in_batch else ():
            for c in range(CANDIDATES if j != i else 0):
                positive_of_equal = c == 0 and hashes[j, 0] == hashes[i, 0]
                if hashes[j, 1 + c].item() not in known and not positive_of_equal:
                    taken.append(views[j, 1 + c])
        found = softmax([similarity(anchor, view, kind) / temperature for view in taken])
        total = total + sum(p * (p / q).log() for p, q in zip(wanted, found[:count], strict=True))
    return total / ROWS


@pytest.mark.parametrize("kind", ["dot", "cosine"])
@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_margins(batch, kind, temperature):
    views, scores, _ = batch
    agree(MarginMSELoss(kind, temperature)(views, scores), margins(views, scores, kind, temperature), views)


@pytest.mark.parametrize("kind", ["dot", "cosine"])
@pytest.mark.parametrize("in_batch", [False, True])
@pytest.mark.parametrize("block", [1 << 24, 30])
def test_distributions(batch, kind, in_batch, block, monkeypatch):
    views, scores, hashes = batch
    monkeypatch.setattr(functional, "BLOCK", block)
    ours = KLDistillationLoss(kind, 0.7, 1.3, in_batch)(views, scores, text_hashes=hashes)
    agree(ours, divergence(views, scores, hashes, kind, 0.7, 1.3, in_batch), views)


@pytest.mark.parametrize("loss", [MarginMSELoss(), KLDistillationLoss(), KLDistillationLoss(in_batch_negatives=True)])
def test_a_missing_candidate_has_no_part(batch, loss):
    views, scores, hashes = batch
    moved = views.detach().clone()
    moved[:, 1:][scores.isnan()] = 100.0
    assert torch.equal(loss(moved, scores, text_hashes=hashes), loss(views, scores, text_hashes=hashes))
    (gradient,) = torch.autograd.grad(loss(views, scores, text_hashes=hashes), views)
    assert not gradient[:, 1:][scores.isnan()].any()
    assert gradient.isfinite().all()


def test_info_nce_has_no_candidate_where_there_is_no_text():
    views = torch.randn(4, 4, 8, dtype=torch.float64)
    hashes = torch.arange(1, 17).view(4, 4)
    hashes[1, 3] = hashes[2, 3] = NO_TEXT
    loss, total = InfoNCE(0.5), 0.0
    unit = torch.nn.functional.normalize(views, dim=-1)
    for i in range(4):
        columns = [unit[j, v] for j in range(4) for v in (1, 2, 3) if hashes[j, v] != NO_TEXT]
        scores = torch.stack([unit[i, 0] @ column / 0.5 for column in columns])
        total += scores.logsumexp(0) - unit[i, 0] @ unit[i, 1] / 0.5
    torch.testing.assert_close(loss(views, text_hashes=hashes), total / 4)


def test_log(batch):
    views, scores, _ = batch
    loss = KLDistillationLoss()
    assert set(loss.metrics(views, scores)) == {"accuracy", "correlation"}
    own = loss.student_scores(views).detach().where(~scores.isnan(), float("nan"))
    assert loss.metrics(views, own * 3 + 7) == pytest.approx({"accuracy": 1.0, "correlation": 1.0})
    assert loss.metrics(views, -own)["correlation"] == pytest.approx(-1.0)


def test_the_temperature_of_the_teacher_follows_its_scores():
    nan = math.nan
    assert KLDistillationLoss.settings_from({"scores": [[0.9, -0.2, nan], [1.0, 0.1, 0.0]]}) == {
        "teacher_temperature": 0.05
    }
    assert KLDistillationLoss.settings_from({"scores": [[9.5, -2.0, nan]]}) == {}


@pytest.mark.parametrize(
    ("views", "scores"),
    [
        (torch.ones(2, 3, 4), None),
        (torch.ones(2, 3, 4), torch.ones(2, 3)),
        (torch.ones(2, 2, 4), torch.ones(2, 1)),
        (torch.ones(2, 3, 4), torch.tensor([[1.0, math.inf], [1.0, 2.0]])),
        (torch.ones(2, 3, 4), torch.tensor([[math.nan, 1.0], [1.0, 2.0]])),
    ],
)
@pytest.mark.parametrize("loss", [MarginMSELoss(), KLDistillationLoss()])
def test_scores_that_cannot_be_learned_from(loss, views, scores):
    with pytest.raises(InputError, match="score"):
        loss(views, scores)


@pytest.mark.parametrize("settings", [{"scores": "euclidean"}, {"temperature": 0.0}, {"teacher_temperature": -1.0}])
def test_settings_that_are_not_valid(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        KLDistillationLoss(**settings)
