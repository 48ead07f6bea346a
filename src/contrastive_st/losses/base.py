"""What every loss is, and the registry from a loss's name to its class."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import fields
from typing import Any, ClassVar

from torch import Tensor, nn

from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.errors import InputError

#: Every loss by its name in a checkpoint's config; a subclass that has a `name` enters itself
LOSSES: dict[str, type[Loss]] = {}

# --- What must hold of values. To read one the host waits for the device, so a trainer puts that off.

Check = tuple[Tensor, Callable[[], str]]
_held: ContextVar[list[Check] | None] = ContextVar("held", default=None)


def require(fine: Tensor, words: Callable[[], str]) -> None:
    """Raise `InputError` unless a value that is on the device is true; within `held_checks` it is kept for later.

    Args:
        fine: a bool, `[]`.
        words: what to say where it is not; called then alone, and may read values.

    Raises:
        InputError: `fine` is false.

    Example:
        >>> import torch
        >>> scores = torch.tensor([0.5, 3.0])
        >>> with held_checks() as checks:
        ...     require((scores <= 1).all(), lambda: f"scores go up to {scores.max():g}")
        >>> [(bool(fine), words()) for fine, words in checks]
        [(False, 'scores go up to 3')]
        >>> require(*checks[0])
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: scores go up to 3
    """
    held = _held.get()
    if held is not None:
        held.append((fine.detach(), words))
    elif not fine:
        raise InputError(words())


@contextlib.contextmanager
def held_checks() -> Iterator[list[Check]]:
    """Within, `require` reads nothing: what it was given is in this list, for whoever reads it."""
    checks: list[Check] = []
    token = _held.set(checks)
    try:
        yield checks
    finally:
        _held.reset(token)


# --- A loss.


class Loss:
    """A loss: views of a batch and targets in, a scalar out. Subclasses are frozen dataclasses of their settings."""

    name: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            LOSSES[cls.name] = cls

    def __call__(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> Tensor:
        """The loss of views `[B, V, d]`: local sums weighted so that the average over processes is the batch's mean."""
        raise NotImplementedError

    def metrics(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> dict[str, float]:
        """Metrics of a batch for the training log."""
        raise NotImplementedError

    def describe(self, anchors: int, num_views: int) -> str:
        """What a step compares, in words, from the number of anchors over all processes and the views of each."""
        raise NotImplementedError

    @property
    def takes_queue(self) -> bool:
        """Whether the loss takes candidates of earlier batches, in the argument `queue`."""
        return False

    def task_of(self, targets: Tensor | None) -> str | None:
        """The name of the data set that a batch is of, where the loss tells several apart; it reads the targets."""
        return None

    def of_task(self, task: str | None) -> Any:
        """This loss for a batch of that data set, which it then need not read from the targets."""
        return self

    def truncated(self, views: Tensor, targets: Tensor | None, dim: int) -> tuple[Tensor, Tensor | None]:
        """Views cut to their first `dim` dimensions, and the targets of these."""
        return views[..., :dim], targets

    def make_head(self, dim: int) -> nn.Module | None:
        """A fresh module that is trained with an encoder of `dim` dimensions, and dropped when it is finished."""
        return None

    def with_head(self, head: Any) -> Any:
        """This loss, using that module."""
        return self

    @classmethod
    def setting_names(cls) -> list[str]:
        """What the loss is made with, aside from its head and from what it is told of a batch."""
        return [field.name for field in fields(cls) if field.init and field.name not in ("head", "task")]  # type: ignore[arg-type]

    def settings(self) -> dict[str, Any]:
        """What `parse_loss` makes this loss of, as JSON has it.

        Example:
            >>> from contrastive_st.losses import TripletLoss
            >>> TripletLoss(margin=0.5).settings()
            {'loss': 'triplet', 'margin': 0.5}
        """
        return {"loss": self.name, **{name: _as_json(getattr(self, name)) for name in self.setting_names()}}


def _as_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _as_json(own) for name, own in value.items()}
    if isinstance(value, Loss):
        return value.settings()
    return list(value) if isinstance(value, tuple) else value


def loss_class(name: Any) -> type[Loss]:
    """The class of a loss by its name.

    Raises:
        InputError: there is none of that name.
    """
    if not isinstance(name, str) or name not in LOSSES:
        raise InputError(f"unknown loss {name!r}; choose one of {', '.join(LOSSES)}")
    return LOSSES[name]


def parse_loss(settings: Mapping[str, Any]) -> Loss:
    """The loss of a name and its settings.

    Args:
        settings: `loss`, a name of `LOSSES` (by default `info_nce`), and fields of its dataclass.

    Raises:
        InputError: no loss of that name, a setting that it does not have, or a value that it cannot have.

    Example:
        >>> parse_loss({"loss": "triplet", "margin": 0.5})
        TripletLoss(margin=0.5)
    """
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    kind = loss_class(given.pop("loss", "info_nce"))
    if unknown := sorted(set(given) - set(kind.setting_names())):
        raise InputError(
            f"the loss {kind.name} has no setting {', '.join(unknown)}; it takes "
            f"{', '.join(kind.setting_names()) or 'none'}"
        )
    try:
        return kind(**given)
    except (TypeError, AttributeError) as error:  # a value of another type
        raise InputError(f"the settings of the loss {kind.name} are damaged: {error}") from error
