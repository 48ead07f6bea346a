"""Poolings against plain loops."""

import pytest
import torch
from plain import loop_pool

from contrastive_st.errors import InputError
from contrastive_st.models.poolings import POOLINGS, pool


@pytest.mark.parametrize("pooling", POOLINGS)
def test_equals_a_plain_loop_and_ignores_padding(pooling):
    layers = [torch.randn(3, 5, 4, dtype=torch.float64, requires_grad=True) for _ in range(4)]
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]])
    ours, plain = pool(layers, mask, pooling), loop_pool(layers, mask, pooling)
    torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-12)
    weight = torch.randn_like(ours)
    gradients = [torch.autograd.grad((x * weight).sum(), layers, allow_unused=True) for x in (ours, plain)]
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


def test_an_unknown_pooling_names_those_there_are():
    with pytest.raises(InputError, match="avg_first_last"):
        pool([torch.randn(1, 2, 3)], torch.ones(1, 2), "median")
