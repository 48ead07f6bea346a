"""Callbacks of the trainer: words when training goes wrong, and a clean stop."""

from __future__ import annotations

import logging
import math
import signal
import threading
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from contrastive_st.training.processes import any_process

logger = logging.getLogger(__name__)


class HealthCallback(TrainerCallback):
    """Warn once, in words, when the embedding collapses or the loss stays at chance for several logs in a row."""

    patience = 3

    def __init__(self) -> None:
        self._in_a_row = {"collapse": 0, "chance": 0}
        self._said: set[str] = set()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not logs or "uniformity" not in logs:
            return
        chance = math.log(logs.get("candidates", 1))  # 0 where the objective chooses among nothing
        self._count(
            "collapse",
            logs["uniformity"] > -0.02 or logs["effective_rank"] < 1.5,
            "the embedding collapses: the sentences of a batch get nearly the same vector "
            f"(uniformity {logs['uniformity']:.3f}, effective rank {logs['effective_rank']:.1f}). "
            "Lower the learning rate, or look for near-duplicate texts",
        )
        self._count(
            "chance",
            "loss" in logs and abs(logs["loss"] - chance) < 0.01 * chance,
            f"the loss sits at ln(candidates) = {chance:.2f}: no positive is told from the negatives. "
            "Are the pairs aligned, is dropout on (for dropout pairs), is the learning rate high enough?",
        )

    def _count(self, kind: str, bad: bool, words: str) -> None:
        self._in_a_row[kind] = self._in_a_row[kind] + 1 if bad else 0
        if self._in_a_row[kind] == self.patience and kind not in self._said:
            self._said.add(kind)
            logger.warning(words)


class StopOnSigterm(TrainerCallback):
    """On SIGTERM: finish the step, save a checkpoint, end training cleanly, on all processes at the same step.

    (transformers' own just-in-time checkpoint saves between the backward pass and the optimizer step, from where a
    resumed run cannot be bit-equal.)
    """

    def __init__(self) -> None:
        self.stopped = False
        self._asked = False
        self._previous: Any = None

    def __enter__(self) -> StopOnSigterm:
        self.stopped = self._asked = False
        if threading.current_thread() is threading.main_thread():  # signals belong to it
            self._previous = signal.signal(signal.SIGTERM, self._ask)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGTERM, self._previous)

    def _ask(self, number: int, frame: Any) -> None:
        self._asked = True

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if any_process(self._asked, args.device):
            self.stopped = control.should_save = control.should_training_stop = True

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self.stopped:
            logger.warning(
                f"SIGTERM: stopped after step {state.global_step}, checkpoint saved; "
                "resume with --resume_from_checkpoint true"
            )
