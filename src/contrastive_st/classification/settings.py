"""Heads of classifiers, and the settings of the training on pairs, for Python and the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from contrastive_st.options import Count, CountOrZero, Options, Positive, option

#: Logistic regression, the nearest class mean, or a layer trained by gradient
HEADS = ("logistic", "means", "differentiable")


#: The title above these options in the help of `classify`
_GROUP = "with --tune"


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
        "how to balance pairs from the same class and pairs from different classes; oversampling: repeat the rarer "
        "kind until both are equally frequent; undersampling: leave out some of the more frequent kind; unique: take "
        "each pair once, without balancing",
        "oversampling", group=_GROUP,
    )  # fmt: skip
    num_epochs: Positive = option("number of passes over the pairs", 1.0, group=_GROUP)
    max_steps: int = option(
        "train for this many steps; overrides --num_epochs; -1: as --num_epochs says", -1, group=_GROUP
    )
    batch_size: Count = option("pairs per step", 16, group=_GROUP)
    learning_rate: Positive = option("peak learning rate", 2e-5, group=_GROUP)
    seed: CountOrZero = option("seed of the pairs and of dropout", 42, group=_GROUP)
    show_progress_bar: bool = False
