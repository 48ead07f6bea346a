"""IntegerDropout against what dropout means."""

import pytest
import torch

from contrastive_st.speed.dropout import IntegerDropout, use_integer_dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_share_dropped_the_scale_and_the_gradient(p, dtype):
    x = torch.randn(300, 301, dtype=dtype).requires_grad_()
    y = IntegerDropout(p)(x)
    kept = y != 0
    assert kept.float().mean().item() == pytest.approx(1 - p, abs=0.01)
    exact = 1 / (1 - round(p * 65536) / 65536)
    torch.testing.assert_close(y, torch.where(kept, x * exact, 0))
    y.sum().backward()
    torch.testing.assert_close(x.grad, kept.to(dtype) * exact)


def test_masks_are_independent_over_places_and_calls():
    masks = torch.stack([IntegerDropout(0.5)(torch.ones(40_000)) > 0 for _ in range(2)]).double()
    assert abs(torch.corrcoef(masks)[0, 1]) < 0.02
    for lag in (1, 2, 3, 4):  # four draws come from one random number
        assert abs(torch.corrcoef(torch.stack([masks[0, lag:], masks[0, :-lag]]))[0, 1]) < 0.02


def test_the_same_state_gives_the_same_mask():
    state = torch.get_rng_state()
    first = IntegerDropout(0.3)(torch.ones(99))
    torch.set_rng_state(state)
    assert torch.equal(IntegerDropout(0.3)(torch.ones(99)), first)


def test_evaluation_and_the_ends_of_the_scale():
    x = torch.randn(7)
    assert IntegerDropout(0.5).eval()(x) is x
    assert IntegerDropout(0.0)(x) is x
    assert not IntegerDropout(1.0)(x).any()
    assert IntegerDropout(0.5)(torch.empty(0, 3)).shape == (0, 3)


def test_every_dropout_of_a_module_is_exchanged():
    module = torch.nn.Sequential(
        torch.nn.Dropout(0.2), torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.3))
    )
    use_integer_dropout(module)
    assert [m.p for m in module.modules() if isinstance(m, IntegerDropout)] == [0.2, 0.3]
    assert not any(type(m) is torch.nn.Dropout for m in module.modules())
