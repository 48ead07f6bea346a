"""Relational distillation: each relation against its definition, its invariances, and no N^3 in memory."""

import pytest
import torch
from plain import agree

from contrastive_st.errors import InputError
from contrastive_st.losses import RelationalDistillationLoss, functional as blocks

WEIGHTS = {"similarities": (1.0, 0.0, 0.0), "distances": (0.0, 1.0, 0.0), "angles": (0.0, 0.0, 1.0)}


def huber(x):
    return 0.5 * x * x if abs(x) < 1 else abs(x) - 0.5


def norm(x):
    return (x * x).sum().sqrt() if (x != 0).any() else x.sum() * 0


def cosine(a, b):
    return (a * b).sum() / (norm(a) * norm(b)) if (a != 0).any() and (b != 0).any() else (a * b).sum() * 0


def loop(kind, s, t, temperature, keys=None):
    """The definition, one pair or triple at a time."""
    n = len(s)
    if kind == "similarities":
        total = 0.0
        for i in range(n):
            others = [j for j in range(n) if j != i]
            ours = torch.stack([cosine(s[i], s[j]) / temperature for j in others]).softmax(0)
            theirs = torch.stack([cosine(t[i], t[j]) / temperature for j in others]).softmax(0)
            total = total + sum(q * (q.log() - p.log()) for p, q in zip(ours, theirs, strict=True))
        return total / n
    if kind == "distances":
        means = []
        for x in (s, t):
            apart = [norm(x[i] - x[j]) for i in range(n) for j in range(n) if i != j]
            means.append(sum(apart) / len(apart))
        pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
        return sum(huber(norm(s[i] - s[j]) / means[0] - norm(t[i] - t[j]) / means[1]) for i, j in pairs) / len(pairs)
    triples = [(i, j, k) for i in range(n) for j in range(n) for k in range(n) if len({i, j, k}) == 3]
    if keys is not None:
        triples = [(i, j, k) for i, j, k in triples if keys[j] not in (keys[i], keys[k])]
    angles = [huber(cosine(s[i] - s[j], s[k] - s[j]) - cosine(t[i] - t[j], t[k] - t[j])) for i, j, k in triples]
    return sum(angles) / len(angles)


def student_and_teacher(rows=7):
    student = torch.randn(rows, 1, 4, dtype=torch.float64)
    teacher = torch.randn(rows, 5, dtype=torch.float64)
    teacher[3] = teacher[0]  # the teacher has two sentences in one point, the student has not
    return student.requires_grad_(), teacher


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("block", [1 << 24, 40])
@pytest.mark.parametrize("keys", [None, [4, 1, 2, 4, 5, 6, 1]])
def test_value_and_gradient_are_those_of_the_definition(kind, block, keys, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", block)
    student, teacher = student_and_teacher()
    given = None if keys is None else torch.tensor(keys)[:, None]
    ours = RelationalDistillationLoss(*WEIGHTS[kind], temperature=0.3)(student, teacher, text_hashes=given)
    wanted = loop(kind, student[:, 0], teacher, 0.3, keys)
    agree(ours, wanted, student)


def test_the_loss_is_the_weighted_sum():
    student, teacher = student_and_teacher()
    parts = [RelationalDistillationLoss(*weights)(student, teacher) for weights in WEIGHTS.values()]
    whole = RelationalDistillationLoss(0.5, 1.0, 2.0)(student, teacher)
    torch.testing.assert_close(whole, 0.5 * parts[0] + parts[1] + 2 * parts[2])


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_student_embeddings_have_finite_gradients(kind, dtype):
    student = torch.randn(6, 1, 4, dtype=dtype)
    student[2] = student[4]
    student.requires_grad_()
    RelationalDistillationLoss(*WEIGHTS[kind])(student, torch.randn(6, 3)).backward()
    assert student.grad.isfinite().all()
    assert student.grad.abs().max() < 1e3
    collapsed = torch.zeros(6, 1, 4, dtype=dtype, requires_grad=True)
    RelationalDistillationLoss(*WEIGHTS[kind])(collapsed, torch.randn(6, 3)).backward()
    assert collapsed.grad.isfinite().all()


def test_angles_are_never_all_in_memory(monkeypatch):
    """Of 64 x 64 x 64 cosines a few vertices' are there at a time."""
    held = []
    product = torch.Tensor.__matmul__
    monkeypatch.setattr(blocks, "BLOCK", 64 * 64 * 4)

    def watched(a, b):
        result = product(a, b)
        held.append(result.numel())
        return result

    monkeypatch.setattr(torch.Tensor, "__matmul__", watched)
    RelationalDistillationLoss(0.0, 0.0, 1.0)(torch.randn(64, 1, 8), torch.randn(64, 8))
    assert max(held) <= 4 * 64 * 64
    assert sum(held) == 2 * 64**3  # student and teacher


def test_the_towers_side_by_side_are_the_student():
    views, teacher = torch.randn(5, 2, 4), torch.randn(5, 3)
    torch.testing.assert_close(
        RelationalDistillationLoss()(views, teacher), RelationalDistillationLoss()(views.flatten(1)[:, None], teacher)
    )


def test_metrics():
    student, teacher = student_and_teacher()
    same = RelationalDistillationLoss().metrics(student.detach(), student.detach()[:, 0] * 2)
    assert (same["accuracy"], same["candidates"]) == (1.0, 6)
    assert same["correlation"] == pytest.approx(1.0)
    assert -1 <= RelationalDistillationLoss().metrics(student.detach(), teacher)["correlation"] < 0.9
    assert "distances x 1, angles x 2" in RelationalDistillationLoss().describe(64, 1)


@pytest.mark.parametrize(
    ("views", "targets", "words"),
    [
        ((4, 1, 3), None, "TeacherCollator"),
        ((4, 1, 3), (3, 2), "TeacherCollator"),
        ((2, 1, 3), (2, 2), "give 3 or more"),
    ],
)
def test_what_is_no_batch(views, targets, words):
    with pytest.raises(InputError, match=words):
        RelationalDistillationLoss()(torch.randn(views), None if targets is None else torch.randn(targets))


@pytest.mark.parametrize("weights", [(0.0, 0.0, 0.0), (-1.0, 1.0, 1.0)])
def test_weights_that_say_nothing(weights):
    with pytest.raises(InputError, match=r"one above 0|0 or more"):
        RelationalDistillationLoss(*weights)
