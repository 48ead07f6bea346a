"""Heads of classifiers, and the settings of the training on pairs, for Python and the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from contrastive_st.options import Count, CountOrZero, Options, Positive, option

#: Logistic regression, the nearest class mean, or a layer trained by gradient
HEADS = ("logistic", "means", "differentiable")


@dataclass
class TuningSettings(Options):
    """Settings of the training on pairs; the defaults are setfit's.

    Args:
        sampling_strategy: `oversampling`, `undersampling` or `unique` (see `class_pairs`).
        num_epochs: times that each pair is seen.
        max_steps: at most this many steps of training; -1 for `num_epochs`.
        batch_size: pairs per step.
        learning_rate: highest rate, after a tenth of the steps; it falls to 0.
        seed: seed of the pairs, their order and dropout.
        show_progress_bar: show steps and time left on stderr.

    Raises:
        InputError: a batch without a pair, or a number out of its bounds.
    """

    sampling_strategy: Literal["oversampling", "undersampling", "unique"] = option(
        "with --tune: oversampling repeats pairs of the rarer kind until both are equally many, undersampling leaves "
        "out pairs of the other kind, unique takes each pair once", "oversampling"
    )  # fmt: skip
    num_epochs: Positive = option("with --tune: times that each pair is seen", 1.0)
    max_steps: int = option("with --tune: stop after this many steps, whatever --num_epochs says; -1: no limit", -1)
    batch_size: Count = option("with --tune: pairs per step", 16)
    learning_rate: Positive = option("with --tune: highest learning rate", 2e-5)
    seed: CountOrZero = option("with --tune: seed of the pairs and of dropout", 42)
    show_progress_bar: bool = False
