"""Dropout whose masks are cheap to draw on a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

_STEPS = 1 << 16  # a mask compares 16 random bits with the probability


class IntegerDropout(nn.Dropout):
    """`nn.Dropout`, several times as fast on the CPU: four 16-bit draws come from each 64-bit random number.

    The probability is rounded to a multiple of 1/65536 and what is kept is scaled by its exact inverse, so the
    expectation is exact. On other devices, and for probability 1, it is `nn.Dropout`. Like that, it draws from the
    default generator: the same state gives the same mask.

    Example:
        >>> dropped = IntegerDropout(0.25)(torch.ones(1000))
        >>> sorted(set(dropped.tolist())) == [0.0, torch.tensor(4 / 3).item()]
        True
    """

    def forward(self, input: Tensor) -> Tensor:
        steps = round(self.p * _STEPS)
        if not self.training or steps == 0:
            return input
        if input.device.type != "cpu" or steps == _STEPS:
            return super().forward(input)
        return _Drop.apply(input, steps)


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, steps: int) -> Tensor:
        words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
        draws = words.view(torch.int16)[: x.numel()].view(x.shape)
        dropped = draws < steps - _STEPS // 2
        ctx.save_for_backward(dropped)
        ctx.scale = _STEPS / (_STEPS - steps)
        return (x * ctx.scale).masked_fill_(dropped, 0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (dropped,) = ctx.saved_tensors
        return (grad * ctx.scale).masked_fill_(dropped, 0), None


def use_integer_dropout(module: nn.Module) -> None:
    """Make every `nn.Dropout` inside of `module` an `IntegerDropout`, in place."""
    for name, child in module.named_children():
        if type(child) is nn.Dropout:
            setattr(module, name, IntegerDropout(child.p))
        else:
            use_integer_dropout(child)
