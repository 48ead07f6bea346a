"""Distillation of embeddings against plain loops in float64."""

import pytest
import torch

from contrastive_st.errors import InputError
from contrastive_st.losses import EmbeddingDistillationLoss


def by_hand(views, teacher, distance):
    total, count = 0.0, 0
    for row, wanted in zip(views.double().tolist(), teacher.double().tolist(), strict=True):
        for view in row:
            size = lambda x: sum(v * v for v in x) ** 0.5
            a, b = (view, wanted)
            if distance == "mse":
                total += sum((p - q) ** 2 for p, q in zip(a, b, strict=True)) / len(a)
            else:
                a, b = [v / size(a) for v in a], [v / size(b) for v in b]
                square = sum((p - q) ** 2 for p, q in zip(a, b, strict=True))
                total += square / 2 if distance == "cosine" else square
            count += 1
    return total / count


@pytest.mark.parametrize("distance", ["squared", "cosine", "mse"])
@pytest.mark.parametrize("num_views", [1, 2])
def test_equals_the_plain_loop(distance, num_views):
    views, teacher = torch.randn(7, num_views, 5), torch.randn(7, 5) * 3
    found = EmbeddingDistillationLoss(distance)(views, teacher)
    assert found.item() == pytest.approx(by_hand(views, teacher, distance), rel=1e-5)


def test_half_width_views_are_measured_in_float32():
    views, teacher = torch.randn(4, 1, 8).bfloat16(), torch.randn(4, 8)
    assert EmbeddingDistillationLoss()(views, teacher).dtype == torch.float32


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EmbeddingDistillationLoss("angle"), "squared or cosine"),
        (lambda: EmbeddingDistillationLoss()(torch.ones(2, 1, 3)), "got none"),
        (lambda: EmbeddingDistillationLoss()(torch.ones(2, 1, 3), torch.ones(3, 3)), r"got \(3, 3\)"),
        (lambda: EmbeddingDistillationLoss()(torch.ones(2, 1, 3), torch.ones(2, 4)), "3 dimensions and its teacher 4"),
    ],
)
def test_bad_input_is_one_line(make, message):
    with pytest.raises(InputError, match=message):
        make()
