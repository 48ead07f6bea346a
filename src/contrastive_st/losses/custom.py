"""Losses from outside the package: any callable of views, and one that a checkpoint names but nobody defines here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import NoReturn

import torch
from torch import Tensor, nn

from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.errors import InputError
from contrastive_st.losses.base import LOSSES, Loss
from contrastive_st.losses.functional import at_least_float32


class CallableLoss(Loss, register=False):
    """Any callable of views `[B, V, d]` that returns a scalar, as a `Loss`.

    `targets`, `text_hashes` and `gather` are passed by keyword if the signature names them. A callable without `gather`
    gets the rows of all processes, so that it needs to know nothing of processes: each one computes the whole loss.
    With `gather`, it gets the rows of this process and is to return a value whose average over processes is the loss.
    The weights of an `nn.Module` are trained too, as the head of the loss.

    Args:
        function: the callable.

    Example:
        >>> def spread(views):
        ...     return (views[:, 0] - views[:, 1]).square().sum(-1).mean()
        >>> loss = CallableLoss(spread)
        >>> loss.name, loss(torch.tensor([[[3.0, 0.0], [0.0, 4.0]]])).item()
        ('spread', 25.0)
    """

    def __init__(self, function: Callable[..., Tensor]) -> None:
        self.function = function
        name = _name(function)
        self.name = f"custom_{name}" if name in LOSSES else name  # type: ignore[misc]
        called = function.forward if isinstance(function, nn.Module) else function
        try:
            parameters = inspect.signature(called).parameters.values()
        except (TypeError, ValueError):  # some builtins have no signature
            parameters = {}.values()
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        self.takes = {parameter.name for parameter in parameters if parameter.kind in by_name}
        if "sentence_features" in self.takes:
            raise InputError(
                f"{name} is a loss of sentence-transformers; docs/migrating.md names the one to give instead"
            )

    def __call__(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> Tensor:
        """The loss of one batch, computed in float32 or wider.

        Raises:
            InputError: the callable returns something else than a scalar tensor.
        """
        arguments: dict[str, object] = {"targets": targets, "text_hashes": text_hashes, "gather": gather}
        arguments = {name: value for name, value in arguments.items() if name in self.takes}
        views = at_least_float32(views)
        if "gather" not in arguments:
            views = gather(views.contiguous())
            arguments = {name: _gathered(x, gather) if isinstance(x, Tensor) else None for name, x in arguments.items()}
        with torch.autocast(views.device.type, enabled=False):
            loss = self.function(views, **arguments)
        if not isinstance(loss, Tensor) or loss.dim():
            got = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
            raise InputError(f"the loss {self.name} returned {got}; return a scalar tensor, such as a mean")
        return loss

    def make_head(self, dim: int) -> nn.Module | None:
        """The callable itself if it is an `nn.Module`: its weights are trained with the encoder."""
        return self.function if isinstance(self.function, nn.Module) else None


class UndefinedLoss(Loss, register=False):
    """The loss that a checkpoint was trained with, if it is not defined in this process.

    It is kept as it was recorded, so that the checkpoint opens for inference and is saved again unchanged.

    Args:
        recorded: its name and its settings.
        missing: the name that is not defined: its own, or that of a loss inside it.
    """

    def __init__(self, recorded: Mapping[str, object], missing: str) -> None:
        self.recorded, self.missing = dict(recorded), missing
        self.name = str(recorded["loss"])  # type: ignore[misc]

    def settings(self) -> dict[str, object]:
        """What the checkpoint records."""
        return dict(self.recorded)

    def with_head(self, head: nn.Module | None) -> NoReturn:
        """Raise an `InputError`: the loss is asked for, and there is none.

        Raises:
            InputError: always.
        """
        raise InputError(
            f"trained with the loss {self.missing!r}, which is not defined here: import its class, or give loss=..."
        )


def as_loss(loss: object) -> Loss:
    """A `Loss` as it is, and any other callable as a `CallableLoss`.

    Raises:
        InputError: it is not callable, or a class instead of an object of it.

    Example:
        >>> as_loss(lambda views: views.mean()).name
        'lambda'
    """
    if isinstance(loss, type) or not callable(loss):
        what = f"the class {loss.__name__}" if isinstance(loss, type) else f"a {type(loss).__name__}"
        raise InputError(f"loss: {what}; give a loss such as InfoNCE(), or a function of views [B, V, d]")
    return loss if isinstance(loss, Loss) else CallableLoss(loss)


def _name(function: object) -> str:
    if isinstance(function, functools.partial):
        return _name(function.func)
    return str(getattr(function, "__name__", type(function).__name__)).strip("<>")


def _gathered(rows: Tensor, gather: Gather) -> Tensor:
    """The rows of all processes, each padded with zeros to the widest of all."""
    if rows.dim() > 1:
        missing = gather.widest(rows.shape[1]) - rows.shape[1]
        rows = torch.cat([rows, rows.new_zeros(len(rows), missing, *rows.shape[2:])], 1) if missing else rows
    return gather(rows.contiguous())
