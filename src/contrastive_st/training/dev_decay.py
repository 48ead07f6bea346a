"""InferSent's learning rate: it falls a little every epoch, and much where the dev figure does not rise."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState


class DevDecay(TrainerCallback, ExportableState):
    """After each epoch's evaluation: lr * decay, divided by `shrink` if the figure did not rise; stop below `lowest`.

    For a constant schedule with evaluation each epoch (Conneau et al. 2017: SGD from 0.1). The best figure is kept in
    the trainer's state, so that a resumed run goes on as the whole one.

    Args:
        metric: the figure, as the evaluator names it.
        decay: of every epoch.
        shrink: where the figure did not rise.
        lowest: a rate below it ends the training.
    """

    def __init__(
        self, metric: str = "dev_accuracy", decay: float = 0.99, shrink: float = 5.0, lowest: float = 1e-5
    ) -> None:
        self.metric, self.decay, self.shrink, self.lowest = metric, decay, shrink, lowest
        self.best, self.seen = float("-inf"), 0.0

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        names = ("metric", "decay", "shrink", "lowest")
        return {
            "args": {name: getattr(self, name) for name in names},
            "attributes": {"best": self.best, "seen": self.seen},
        }

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float] | None = None,
        lr_scheduler: Any = None,
        **kwargs: Any,
    ) -> None:
        epoch = float(state.epoch or 0)
        if lr_scheduler is None or epoch <= self.seen:  # before training, or again after its end
            return
        self.seen, figure = epoch, (metrics or {})[f"eval_{self.metric}"]
        factor = self.decay if figure > self.best else self.decay / self.shrink
        self.best = max(self.best, figure)
        lr_scheduler.base_lrs = [rate * factor for rate in lr_scheduler.base_lrs]
        for group, rate in zip(lr_scheduler.optimizer.param_groups, lr_scheduler.base_lrs, strict=True):
            group["lr"] = rate
        if max(lr_scheduler.base_lrs) < self.lowest:
            control.should_training_stop = True
