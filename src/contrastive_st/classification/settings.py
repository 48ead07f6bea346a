"""Heads of classifiers, and the settings of the training on pairs, for Python and the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from contrastive_st.errors import InputError

#: Logistic regression, the nearest class mean, or a layer trained by gradient
HEADS = ("logistic", "means", "differentiable")


def _setting(default: Any, words: str) -> Any:
    return field(default=default, metadata={"help": words})


@dataclass(frozen=True)
class TuningSettings:
    """Settings of the training on pairs; the defaults are setfit's.

    Args:
        sampling_strategy: `oversampling`, `undersampling` or `unique` (see `class_pairs`).
        num_epochs: times that each pair is seen.
        max_steps: at most this many steps of training; -1 for `num_epochs`.
        batch_size: pairs a step.
        learning_rate: highest rate, after a tenth of the steps; it falls to 0.
        seed: seed of the pairs, their order and dropout.
        show_progress_bar: show steps and time left on stderr.

    Raises:
        InputError: a batch without a pair.
    """

    sampling_strategy: str = _setting(
        "oversampling", "oversampling repeats pairs of the rarer kind until both are equally many, undersampling "
        "leaves out pairs of the other kind, unique takes each pair once"
    )  # fmt: skip
    num_epochs: float = _setting(1.0, "times that each pair is seen")
    max_steps: int = _setting(-1, "at most this many steps, in place of num_epochs")
    batch_size: int = _setting(16, "pairs a step")
    learning_rate: float = _setting(2e-5, "highest learning rate")
    seed: int = _setting(42, "seed of the pairs and of dropout")
    show_progress_bar: bool = False

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise InputError(f"batch_size {self.batch_size}: give 1 or more")
