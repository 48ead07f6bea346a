"""InfoNCE against a plain loop, in value and gradient, and its edge cases."""

import itertools
import math

import pytest
import torch
from plain import loop_loss, value_and_gradient

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


def test_temperature_and_gradient_scale_hold_without_keys():
    views = torch.randn(4, 2, 3, dtype=torch.float64)
    ours = value_and_gradient(InfoNCE(0.05), views)
    torch.testing.assert_close(ours, value_and_gradient(lambda x: loop_loss(x, 0.05), views), rtol=1e-9, atol=1e-9)


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


def test_one_anchor_with_a_hard_negative_is_enough():
    assert torch.isfinite(InfoNCE()(torch.randn(1, 3, 4)))


def test_a_batch_of_one_sentence_repeated_has_no_negatives():
    with pytest.raises(InputError, match="no negatives"):
        InfoNCE()(torch.randn(4, 2, 4), text_hashes=torch.full((4, 2), 7))


def peak_of(loss_fn, rows, dim):
    """Most bytes that one forward and backward pass holds at once, by torch's account of what it takes."""
    views = torch.randn(rows, 2, dim, requires_grad=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        loss_fn(views).backward()
    events = sorted(profile.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    taken = itertools.accumulate(event.nbytes() for event in events if event.name() == "[memory]")
    return max(taken)


def test_scores_never_build_a_cube():
    """[B, C] is what is held: a [B, C, d] tensor would take 512 times one."""
    scores = 512 * 512 * 4
    peak = peak_of(InfoNCE(), 512, 512)
    assert scores <= peak < 12 * scores
    cube = lambda views: (torch.cosine_similarity(views[:256, None, 0], views[None, :256, 1], dim=-1) / 0.05).sum()
    assert peak_of(cube, 512, 512) > 50 * scores  # the measure does see one, of a quarter of the pairs


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
