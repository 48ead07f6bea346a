"""Threads in training that follow the cores which other processes leave free."""

from __future__ import annotations

import logging
import os
import time

import torch
from transformers import TrainerCallback, TrainingArguments

from contrastive_st.processors import Others, affinity
from contrastive_st.speed import switch

logger = logging.getLogger(__name__)
_SECONDS = 1.0  # between two looks


class FreeCores(TrainerCallback):
    """Keeps torch's threads, in training on a CPU, to the cores that other processes leave free.

    Threads share each product, and all wait for the one whose core another process has. So with one of two cores taken,
    two threads make fewer steps than one (results in docs/launching.md). Two readings in a row must agree: threads
    are taken away when others come, and given back when they go.

    Another number of threads rounds sums otherwise. With `full_determinism`, and where OMP_NUM_THREADS is set, their
    number stays, and with it every bit of a run that is repeated.
    """

    def __init__(self) -> None:
        self.most = self.threads = torch.get_num_threads()
        self.others, self.next_look = Others(), 0.0

    def on_step_begin(self, args: TrainingArguments, *rest: object, **options: object) -> None:
        """Look every few seconds how many cores other processes use, and set the number of threads."""
        fixed = args.full_determinism or "OMP_NUM_THREADS" in os.environ or not switch.on
        if fixed or self.most == 1 or args.device.type != "cpu" or time.monotonic() < self.next_look:
            return
        self.next_look = time.monotonic() + _SECONDS
        taken = self.others.taken()
        before, self.threads = self.threads, min(self.most, max(1, round(affinity() - taken)))
        if self.threads == before != torch.get_num_threads():
            torch.set_num_threads(self.threads)
            logger.info(
                f"other processes use {taken:.1f} of {affinity()} cores: this one computes with {self.threads} threads"
            )

    def on_train_end(self, *args: object, **options: object) -> None:
        """Set the number of threads back."""
        if torch.get_num_threads() < self.most:
            torch.set_num_threads(self.most)
