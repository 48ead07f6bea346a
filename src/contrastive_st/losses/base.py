"""The base class of all losses, and the registry of loss classes by name."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import Field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from contrastive_st.distributed import LOCAL, Gather
from contrastive_st.errors import InputError
from contrastive_st.former import with_former_names
from contrastive_st.options import check_options

if TYPE_CHECKING:
    from datasets import Dataset

#: `text_hashes`, `gather` and what else a loss takes by keyword
Others: TypeAlias = Mapping[str, Any]
#: Every loss class by its name in a checkpoint's config; a subclass is added when it is defined
LOSSES: dict[str, type[Loss]] = {}
_PACKAGE = __name__.partition(".")[0] + "."

# --- Checks of values on the device. The host would have to wait to read them, so a trainer reads them later.


class Check(NamedTuple):
    """A condition on values of the device.

    Attributes:
        fine: a bool `[]`.
        words: returns what is wrong if it is false.
        skips: a trainer leaves out a batch for which it is false, instead of ending the run.
    """

    fine: Tensor
    words: Callable[[], str]
    skips: bool = False


_held: ContextVar[list[Check] | None] = ContextVar("held", default=None)


def require(fine: Tensor, words: Callable[[], str], skips: bool = False) -> None:
    """Raise `InputError` unless a tensor is true; inside `deferred_checks`, keep the check for later instead.

    Args:
        fine: a bool `[]`, on any device.
        words: returns the error message; called only if the check fails, so it may read values.
        skips: the batch has nothing to learn from, its loss is 0, and a run may go on without it.

    Raises:
        InputError: `fine` is false.

    Example:
        >>> import torch
        >>> scores = torch.tensor([0.5, 3.0])
        >>> with deferred_checks() as checks:
        ...     require((scores <= 1).all(), lambda: f"scores go up to {scores.max():g}")
        >>> [(bool(check.fine), check.words()) for check in checks]
        [(False, 'scores go up to 3')]
        >>> require(*checks[0])
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: scores go up to 3
    """
    held = _held.get()
    if held is not None:
        held.append(Check(fine.detach(), words, skips))
    elif not fine:
        raise InputError(words())


@contextlib.contextmanager
def deferred_checks() -> Iterator[list[Check]]:
    """A context in which `require` reads no values and appends each check to this list; the caller reads them later."""
    checks: list[Check] = []
    token = _held.set(checks)
    try:
        yield checks
    finally:
        _held.reset(token)


# --- A loss.


@with_former_names
class Loss:
    """Base class of losses, which return a scalar for the views and targets of a batch.

    A subclass needs `__call__` alone. If it is a dataclass, its fields are the settings of the loss, which their types
    check (`contrastive_st.options`), and which checkpoints record with its name: `name`, or else that of the class.

    Args:
        register: add the class to `LOSSES`, from which a checkpoint's loss is made again.
    """

    name: ClassVar[str]
    words: ClassVar[str] = ""  # the training method, as a model card calls it; by default the name
    tag: ClassVar[str] = ""  # of the method, on the Hub
    citation: ClassVar[str] = ""  # BibTeX entries, with an empty line between two
    description: ClassVar[str] = "{anchors} rows per step of {views} each, compared by {self.name}"  # see `describe`
    chance: ClassVar[bool] = False  # whether it is ln(candidates) if nothing was learned
    generates: ClassVar[bool] = False  # whether targets `[B, L]` are the ids of words to generate, each but the first
    needs_two_texts: ClassVar[bool] = False  # a text and itself, which differ by dropout, cannot be validated
    takes_queue: bool = False  # whether it accepts candidates from earlier batches, in the argument `queue`
    #: Of words that the model predicts from states of tokens, in addition to the loss of views
    words_weight: ClassVar[float] = 0.0
    of_package: ClassVar[bool] = True  # whether this package defines the loss, rather than a user of it
    trains: ClassVar[tuple[str, ...]] = ()  # kinds of rows: keys of `contrastive_st.data.roles.KINDS`

    def __init_subclass__(cls, register: bool = True) -> None:
        if "name" not in vars(cls):
            cls.name = cls.__name__
        cls.of_package = cls.__module__.startswith(_PACKAGE)
        if register:
            held = LOSSES.get(cls.name)
            if held is not None and held.of_package and not cls.of_package:
                raise InputError(f"{cls.name!r} is the name of {held.__name__} of this package; choose another name")
            LOSSES[cls.name] = cls

    def __post_init__(self) -> None:
        with contextlib.suppress(NameError):  # a user's types may not be found by their names
            check_options(self)

    def __call__(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> Tensor:
        """The loss of views `[B, V, d]`, scaled so that its average over processes is the mean of the whole batch."""
        raise NotImplementedError

    def metrics(
        self, views: Tensor, targets: Tensor | None = None, *, text_hashes: Tensor | None = None, gather: Gather = LOCAL
    ) -> dict[str, float]:
        """Metrics of a batch for the training log; by default none."""
        return {}

    def chances(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """What the losses of the log would be if nothing were learned, by name, from the `metrics` of a batch.

        By default that is known of a loss with `chance` alone.
        """
        candidates = metrics.get("candidates", 0) if self.chance else 0
        return {"loss": math.log(candidates)} if candidates > 0 else {}

    def describe(self, anchors: int, num_views: int) -> str:
        """Describe what a step compares: `description`, filled in.

        Args:
            anchors: number of anchors over all processes.
            num_views: views per anchor.

        Returns:
            A line for the log.
        """
        views = f"{num_views} view{'s' * (num_views > 1)}"
        counts = {"anchors": anchors, "candidates": num_views - 1, "negatives": num_views - 2}
        return self.description.format(self=self, views=views, **counts)

    def task_of(self, targets: Tensor | None) -> str | None:
        """The name of the batch's data set, read from the targets; None for losses that do not need it."""
        return None

    def of_task(self, task: str | None) -> Loss:
        """This loss for batches of the data set `task`, so that the name need not be read from the targets."""
        return self

    def truncated(self, views: Tensor, targets: Tensor | None, dim: int) -> tuple[Tensor, Tensor | None]:
        """Views truncated to their first `dim` dimensions, and the targets for them."""
        return views[..., :dim], targets

    def make_head(self, dim: int) -> nn.Module | None:
        """A new module that is trained with an encoder of `dim` dimensions and dropped after training, or None."""
        return None

    def with_head(self, head: nn.Module | None) -> Loss:
        """This loss with the module `head`, if it has a field of that name."""
        has_one = is_dataclass(self) and any(field.name == "head" for field in fields(self))
        return replace(self, head=head) if has_one else self  # type: ignore[type-var]

    def in_use(self, part: str | None = None) -> tuple[Loss, int | None]:
        """The loss, with its head, of the embedding after training, and its dimension, if that is not the encoder's.

        Args:
            part: the data set of a mixture that the rows are of.
        """
        return self, None

    def measure(self, num_views: int, targets: Tensor | None) -> str | None:
        """The main metric for validation rows with this number of texts and these targets: `mrr`, `spearman` or None.

        Example:
            >>> import torch
            >>> Loss().measure(2, None), Loss().measure(2, torch.tensor([0.5]))
            ('mrr', 'spearman')
            >>> Loss().measure(1, torch.tensor([[0, 4]])) is None  # context windows
            True
        """
        if num_views < 2 or (targets is not None and targets.dim() == 3 and targets.shape[1] != num_views):
            return None
        if targets is None or targets.dim() == 3 or (num_views > 2 and targets.shape[1:] == (num_views - 1,)):
            return "mrr"
        return "spearman" if targets.dim() == 1 and num_views == 2 and targets.is_floating_point() else None

    @classmethod
    def setting_names(cls) -> list[str]:
        """The names of the settings: all fields except the head and the data set of a batch."""
        all_fields: Sequence[Field[object]] = fields(cls) if is_dataclass(cls) else ()
        return [field.name for field in all_fields if field.init and field.name not in ("head", "task")]

    @classmethod
    def settings_from(cls, rows: Dataset) -> dict[str, object]:
        """Settings that follow from the rows to train on, as `read_examples` returns them; by default none."""
        return {}

    def settings(self) -> dict[str, object]:
        """The name and the settings of this loss as JSON values, from which `parse_loss` makes it again.

        Example:
            >>> from contrastive_st.losses import TripletLoss
            >>> TripletLoss(margin=0.5).settings()
            {'loss': 'triplet', 'margin': 0.5}
        """
        return {"loss": self.name, **{name: _as_json(getattr(self, name)) for name in self.setting_names()}}


def _as_json(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _as_json(part) for name, part in value.items()}
    if isinstance(value, Loss):
        return value.settings()
    return list(value) if isinstance(value, tuple) else value


# --- Losses of losses.


class Term(NamedTuple):
    """One loss in the sum of a `Wrapper`, and what it is given of a batch.

    Attributes:
        around: what is put before and after the names of its metrics in the log.
        weight: its weight in the sum.
        loss: the loss, with its head.
        batch: views `[B, V, d]`, and the targets of this loss.
        other: `text_hashes`, `gather` and so on.
    """

    around: tuple[str, str]
    weight: float
    loss: Loss
    batch: tuple[Tensor, Tensor | None]
    other: Others


class Wrapper(Loss, register=False):
    """Base of losses that are weighted sums of other losses, each of which gets a part of the batch."""

    def terms(self, views: Tensor, targets: Tensor | None, other: Others) -> Iterator[Term]:
        """The terms of the sum, for the arguments of `__call__`."""
        raise NotImplementedError

    def __call__(self, views: Tensor, targets: Tensor | None = None, **other: object) -> Tensor:
        """The loss of one batch; arguments and errors are those of the losses inside."""
        terms = self.terms(views, targets, other)
        return torch.stack([weight * loss(*batch, **options) for _, weight, loss, batch, options in terms]).sum()

    def metrics(self, views: Tensor, targets: Tensor | None = None, **other: object) -> dict[str, float]:
        """The metrics of the losses inside."""
        terms = self.terms(views, targets, other)
        return {
            name.join(around): value
            for around, _, loss, batch, options in terms
            for name, value in loss.metrics(*batch, **options).items()
        }


def head_of(loss: Loss) -> nn.Module:
    """The head of a loss.

    Raises:
        InputError: there is none.
    """
    head: nn.Module | None = getattr(loss, "head", None)
    if head is None:
        raise InputError("this model was saved without the head of its loss; open it with with_head=True for a new one")
    return head


# --- A loss by its name.


class UnknownLoss(InputError):
    """There is no loss of this name.

    Args:
        message: what is wrong.
        name: the name.
    """

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


def loss_class(name: object) -> type[Loss]:
    """The class of the loss with this name.

    Raises:
        UnknownLoss: there is no such loss.
    """
    if not isinstance(name, str) or name not in LOSSES:
        raise UnknownLoss(f"unknown loss {name!r}; choose one of {', '.join(LOSSES)}", str(name))
    return LOSSES[name]


def parse_loss(settings: Mapping[str, object], besides: Sequence[str] = ()) -> Loss:
    """Make a loss from its name and its settings.

    Args:
        settings: `loss`, a name of `LOSSES` (by default `info_nce`), and fields of its dataclass.
        besides: names of settings that are given with those of the loss, for the message about an unknown one.

    Raises:
        InputError: no loss of that name, or a setting or value that the loss does not accept.

    Example:
        >>> from contrastive_st.losses import parse_loss
        >>> parse_loss({"loss": "triplet", "margin": 0.5})
        TripletLoss(margin=0.5)
    """
    if not isinstance(settings, Mapping):
        raise InputError(f"a loss is recorded as {settings!r:.60}; give a mapping with its name and its settings")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    kind = loss_class(values.pop("loss", "info_nce"))
    if unknown := sorted(set(values) - set(kind.setting_names())):
        takes = ", ".join([*besides, *kind.setting_names()]) or "none"
        raise InputError(f"unknown setting {', '.join(unknown)}; with the loss {kind.name} there are {takes}")
    return kind(**values)


def suitable(kind: str | None = None) -> tuple[str, ...]:
    """The names of the losses that train rows of a kind, which their classes name in `trains`; by default of any kind.

    Args:
        kind: a key of `contrastive_st.data.roles.KINDS`.

    Example:
        >>> from contrastive_st.losses import suitable
        >>> suitable("scored_pairs")
        ('cosine_similarity', 'cosent', 'angle')
    """
    return tuple(name for name, loss in LOSSES.items() if (kind in loss.trains if kind else loss.trains))
