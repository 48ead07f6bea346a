"""A clean stop: on SIGTERM a run finishes its step, saves a checkpoint and ends."""

from __future__ import annotations

import logging
import signal
import threading
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from contrastive_st.distributed import any_process

logger = logging.getLogger(__name__)


class StopOnSigterm(TrainerCallback):
    """On SIGTERM, finish the step, save a checkpoint and end training, on all processes at the same step.

    (The just-in-time checkpoint of transformers is saved between the backward pass and the optimizer step, so a run
    resumed from it cannot be bit-identical.)
    """

    def __init__(self) -> None:
        self.stopped = False
        self._asked = False
        self._previous: Any = None

    def __enter__(self) -> StopOnSigterm:
        self.stopped = self._asked = False
        if threading.current_thread() is threading.main_thread():  # only it can handle signals
            self._previous = signal.signal(signal.SIGTERM, lambda number, frame: setattr(self, "_asked", True))
        return self

    def __exit__(self, *exception: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGTERM, self._previous)

    def on_step_end(self, args: object, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        """Stop and save if a process was asked to."""
        if any_process(self._asked):
            self.stopped = control.should_save = control.should_training_stop = True

    def on_train_end(self, args: object, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        """Log that the run was stopped."""
        if self.stopped:
            logger.warning(
                f"SIGTERM: stopped after step {state.global_step}, checkpoint saved; "
                "resume with --resume_from_checkpoint true"
            )
