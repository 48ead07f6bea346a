"""InfoNCE against a plain loop, in value and gradient, and its edge cases."""

import math

import pytest
import torch
from plain import loop_loss, value_and_gradient
from torch.utils._python_dispatch import TorchDispatchMode

from contrastive_st.errors import InputError
from contrastive_st.losses import InfoNCE


@pytest.mark.parametrize("num_views", [2, 3, 4])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("weight", [0.0, 0.7])
@pytest.mark.parametrize("duplicates", [False, True])
def test_equals_a_plain_loop(num_views, symmetric, weight, duplicates):
    views = torch.randn(5, num_views, 6, dtype=torch.float64)
    keys = torch.arange(5 * num_views).view(5, num_views)
    if duplicates:
        keys[3, 0] = keys[0, 0]  # the same anchor twice
        keys[4, 1] = keys[1, 1]  # the same positive twice
        keys[2, -1] = keys[4, 1]  # another row's last view is this row's positive
    loss_fn = InfoNCE(0.3, weight, symmetric)
    ours = value_and_gradient(lambda x: loss_fn(x, text_hashes=keys), views)
    plain = value_and_gradient(lambda x: loop_loss(x, 0.3, weight, keys, symmetric), views)
    torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-9)


def test_hard_negative_weight_is_the_log_of_alpha_on_the_own_negative_only():
    views = torch.randn(3, 3, 4, dtype=torch.float64)
    scores, _ = InfoNCE(1.0).scores(views)
    weighted, _ = InfoNCE(1.0, hard_negative_weight=math.log(2)).scores(views)
    expected = torch.zeros(3, 6, dtype=torch.float64)
    expected[:, 3:].fill_diagonal_(math.log(2))
    torch.testing.assert_close(weighted - scores, expected)


def test_half_precision_views_are_scored_in_float32():
    views = torch.randn(4, 2, 8)
    with torch.autocast("cpu", torch.bfloat16):
        scores, _ = InfoNCE(0.05).scores(views.bfloat16())
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, InfoNCE(0.05).scores(views.bfloat16().float())[0])


@pytest.mark.parametrize("shape", [(1, 2, 4), (3, 1, 4), (3, 4)])
def test_nothing_to_contrast_is_an_error(shape):
    with pytest.raises(InputError, match=r"no negatives|V >= 2"):
        InfoNCE()(torch.randn(shape))


def test_a_batch_of_one_sentence_repeated_has_no_negatives():
    with pytest.raises(InputError, match="no negatives"):
        InfoNCE()(torch.randn(4, 2, 4), text_hashes=torch.full((4, 2), 7))


class Largest(TorchDispatchMode):
    """The most elements that the result of an operation has."""

    most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.most = max(self.most, result.numel())
        return result


def test_scores_never_build_a_cube():
    """[B, C] is what is held: a [B, C, d] tensor would take 64 times that."""
    with Largest() as seen:
        InfoNCE()(torch.randn(512, 2, 64, requires_grad=True)).backward()
    assert seen.most == 512 * 512


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("block", [1, 25, 40])
def test_blocks_of_scores_give_the_whole_loss(block, symmetric, monkeypatch):
    views, keys = torch.randn(7, 3, 5, dtype=torch.float64), torch.arange(21).view(7, 3)
    keys[5] = keys[2]
    loss_fn = InfoNCE(0.1, 0.4, symmetric)
    whole = value_and_gradient(lambda x: loss_fn(x, text_hashes=keys), views)
    monkeypatch.setattr("contrastive_st.losses.functional.BLOCK", block)
    blocked = value_and_gradient(lambda x: loss_fn(x, text_hashes=keys), views)
    torch.testing.assert_close(blocked, whole, rtol=1e-12, atol=1e-12)
    with pytest.raises(InputError, match="no negatives"):
        loss_fn(views, text_hashes=torch.zeros_like(keys))
