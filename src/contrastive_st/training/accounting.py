"""What a run does a second, what of it is padding, and the memory that it takes: for the log."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from contrastive_st.models.buckets import bucket_rows
from contrastive_st.storage.memory import peak_resident


class Accounting(TrainerCallback):
    """Counts batches and times steps between two logs; evaluation and saving are not timed, reading data is.

    Figures: `sentences_per_second` (anchors) and `tokens_per_second` (real ones, of all views), both over all processes
    (of equal shares), `padding_share` (of the tokens that were encoded, after bucketing) and `peak_memory_gib` of this
    process: of the GPU where there is one, else resident.
    """

    def __init__(self) -> None:
        self._mark = time.perf_counter()
        self._reset()

    def _reset(self) -> None:
        self.sentences = self.tokens = self.encoded = 0
        self.seconds = 0.0

    def count(self, inputs: dict[str, Any], model: Any, chunk_size: int | None, chunk_tokens: int | None) -> None:
        """Add a batch `[B, V, L]` that `model` encodes, in chunks where the cached step makes them."""
        mask: Tensor | None = inputs.get("attention_mask")
        if mask is None:
            mask = torch.ones_like(inputs["input_ids"])
        lengths = mask.flatten(0, -2).sum(1).cpu().numpy()
        if chunk_size or chunk_tokens:
            buckets = bucket_rows(lengths, max_rows=chunk_size or len(lengths), max_tokens=chunk_tokens or 1 << 62)
            self.encoded += sum(len(rows) * int(lengths[rows[0]]) for rows in buckets)
        elif getattr(model, "length_bucketing", False):
            buckets = bucket_rows(lengths, **model.bucket_options)
            self.encoded += sum(len(rows) * int(lengths[rows[0]]) for rows in buckets)
        else:
            self.encoded += mask.numel()
        self.sentences += len(mask)
        self.tokens += int(lengths.sum())

    def figures(self, processes: int) -> dict[str, float]:
        """The figures since they were last asked for; none before a step is timed."""
        if not self.seconds:
            return {}
        figures = {
            "sentences_per_second": round(self.sentences * processes / self.seconds, 2),
            "tokens_per_second": round(self.tokens * processes / self.seconds, 1),
            "padding_share": round(1 - self.tokens / max(self.encoded, 1), 4),
            "peak_memory_gib": round(peak_memory() / 2**30, 3),
        }
        self._reset()
        return figures

    def _resume(self, *args: Any, **kwargs: Any) -> None:
        self._mark = time.perf_counter()

    on_train_begin = on_evaluate = on_save = _resume

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        now = time.perf_counter()
        self.seconds += now - self._mark
        self._mark = now


def peak_memory() -> int:
    """Most memory that this process has held so far, in bytes: on the GPU where there is one, else resident.

    Example:
        >>> peak_memory() > 10 * 2**20
        True
    """
    return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else peak_resident()
