"""What every loss is, and the registry from a loss's name to its class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

from torch import Tensor, nn

from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.errors import InputError

#: Every loss by its name in a checkpoint's config; a subclass that has a `name` enters itself
LOSSES: dict[str, type[Loss]] = {}


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
        """What the loss is made with, its head aside."""
        return [field.name for field in fields(cls) if field.init and field.name != "head"]  # type: ignore[arg-type]

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
