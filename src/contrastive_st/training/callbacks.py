"""Callbacks of the trainer (throughput, warnings), and the summary before the first step."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PrinterCallback, ProgressCallback, SchedulerType, TrainerCallback, TrainerControl, TrainerState
from transformers.integrations.integration_utils import TensorBoardCallback

from contrastive_st.buckets import bucket_rows, padded_tokens, row_lengths, training_buckets
from contrastive_st.device import peak_resident
from contrastive_st.models.base import ForCL
from contrastive_st.models.wrapped import own_module
from contrastive_st.speed.packing import packed_tokens
from contrastive_st.terminal import clean
from contrastive_st.training.checkpoints import CheckpointTrainer
from contrastive_st.training.gradcache import Batch, Chunks

# --- What is shown of a log: one line, on the first process. Everything is in the history of the trainer's state.

_WIDTH = 100  # characters of a line
_ORDER = ("loss", "learning_rate", "grad_norm", "accuracy", "candidates")
_TIMES = ("epoch", "total_flos", "_runtime", "_per_second")


def log_line(step: int, steps: int, logs: Mapping[str, object]) -> str:
    """The most important numbers of a log in a line of at most 100 characters; empty if there are only times.

    Example:
        >>> log_line(8, 40, {"accuracy": 0.25, "loss": 5.30041, "epoch": 0.2, "effective_rank": 7.1})
        'step 8/40  loss 5.3  accuracy 0.25  effective_rank 7.1'
    """
    names = [name for name in logs if not name.endswith(_TIMES)]
    names.sort(key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))
    line = head = f"step {step}/{steps}" if steps else f"step {step}"
    for name in names:
        value = logs[name]
        field = f"  {name} {value:.4g}" if isinstance(value, float) else f"  {name} {value}"
        if len(line) + len(field) <= _WIDTH:
            line += field
    return "" if line == head else line


class LogPrinter(PrinterCallback):
    """Prints each log as a `log_line`."""

    def on_log(self, args: object, state: TrainerState, control: object, logs: Any = None, **kwargs: object) -> None:
        """Print the line on the first process."""
        if state.is_world_process_zero and (line := log_line(state.global_step, state.max_steps, logs or {})):
            print(line, flush=True)


class LogProgress(ProgressCallback):
    """Progress bars, with each log as a `log_line` above them."""

    def on_log(self, args: object, state: TrainerState, control: object, logs: Any = None, **kwargs: object) -> None:
        """Write the line above the bar."""
        line = log_line(state.global_step, state.max_steps, logs or {})
        if state.is_world_process_zero and line and self.training_bar is not None:
            self.training_bar.write(line)


class OneEventFile(TensorBoardCallback):
    """A run has one file of events: it stays open for an evaluation after the last step."""

    def on_train_end(self, args: object, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        """Close the file only if another trial of a search follows."""
        if state.is_hyper_param_search:
            super().on_train_end(args, state, control, **kwargs)


# --- Throughput, padding and memory for the log.


class Throughput(TrainerCallback):
    """Records the throughput between two logs. The time includes reading data, but not evaluation and saving.

    Metrics: `anchors_per_second` and `tokens_per_second` (real tokens of all views), both over all
    processes; `padding_share`, the share of padding among the tokens that were encoded, after bucketing; and
    `peak_memory_gib` of this process, on the GPU if there is one, else resident.
    """

    def __init__(self) -> None:
        self._mark = time.perf_counter()
        self._reset()

    def _reset(self) -> None:
        self.anchors = self.tokens = self.encoded = 0
        self.seconds = 0.0

    def count(self, inputs: Batch, model: ForCL, chunks: Chunks) -> None:
        """Add a batch `[B, V, L]` that `model` encodes, in chunks if the GradCache step is used."""
        ids, mask = inputs["input_ids"], inputs.get("attention_mask")
        on_host = np.full(ids.shape[:-1], ids.shape[-1]) if mask is None else inputs.get("lengths")
        lengths = row_lengths(ids if mask is None else mask, on_host).reshape(-1)
        most = model.positions or ids.shape[-1]
        chunked, packs = chunks.size or chunks.tokens, hasattr(model, "packs") and model.packs(lengths)
        if chunked:
            buckets = bucket_rows(lengths, **chunks.limits(ids.device, len(lengths)))
        elif getattr(model, "length_bucketing", False) and not packs:
            buckets = bucket_rows(lengths, **training_buckets(ids.device, model.bucket_options))
        else:
            buckets = [np.arange(len(lengths))]
        if packs:
            self.encoded += sum(packed_tokens(lengths[rows], ids.device) for rows in buckets)
        elif chunked or len(buckets) > 1:
            self.encoded += padded_tokens(buckets, lengths, most)
        else:
            self.encoded += ids.numel()
        self.anchors += len(ids)
        self.tokens += int(lengths.sum())

    def metrics(self, processes: int) -> dict[str, float]:
        """The metrics since the last call; empty before the first step has been timed."""
        if not self.seconds:
            return {}
        metrics = {
            "anchors_per_second": round(self.anchors * processes / self.seconds, 2),
            "tokens_per_second": round(self.tokens * processes / self.seconds, 1),
            "padding_share": round(1 - self.tokens / max(self.encoded, 1), 4),
            "peak_memory_gib": round(peak_memory() / 2**30, 3),
        }
        self._reset()
        return metrics

    def _resume(self, *args: object, **kwargs: object) -> None:
        self._mark = time.perf_counter()

    on_train_begin = on_evaluate = on_save = _resume

    def on_step_end(self, args: object, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        """Add the time of the step."""
        now = time.perf_counter()
        self.seconds += now - self._mark
        self._mark = now


def peak_memory() -> int:
    """Peak memory of this process so far, in bytes: on the GPU if there is one, else resident.

    Example:
        >>> peak_memory() > 10 * 2**20
        True
    """
    return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else peak_resident()


class TaskLosses:
    """The mean loss of each data set of a mixture between two logs, as `loss_<name>`; nothing without a mixture."""

    def __init__(self) -> None:
        self._losses: dict[str, list[Tensor]] = {}

    def count(self, task: str | None, loss: Tensor) -> None:
        """Add the loss `[]` of a batch of this process from the data set `task`."""
        if task is not None:
            self._losses.setdefault(task, []).append(loss)

    def metrics(self, average: Callable[[Tensor], Tensor]) -> dict[str, float]:
        """The means since the last call; `average` averages them over all processes."""
        names = sorted(self._losses)
        means = [torch.stack(self._losses[name]).float().mean() for name in names]
        self._losses = {}
        over_all = average(torch.stack(means)).tolist() if names else []
        return {f"loss_{name}": round(mean, 4) for name, mean in zip(names, over_all, strict=True)}


logger = logging.getLogger(__name__)


class HealthCallback(TrainerCallback):
    """Warns once if the embedding collapses or the loss stays at chance level for several logs in a row."""

    patience = 3

    def __init__(self) -> None:
        self.chances: dict[str, float] = {}  # of the last step, as `Loss.chances` returns them
        self._in_a_row: Counter[str] = Counter()
        self._said: set[str] = set()

    def on_log(self, args: object, state: TrainerState, control: object, logs: Any = None, **kwargs: object) -> None:
        """Look at the metrics that are logged."""
        if not logs or "uniformity" not in logs:
            return
        self._count(
            "collapse",
            logs["uniformity"] > -0.02 or logs["effective_rank"] < 1.5,
            "the embedding collapses: all sentences of a batch get nearly the same vector "
            f"(uniformity {logs['uniformity']:.3f}, effective rank {logs['effective_rank']:.1f}). "
            "Lower the learning rate, or look for near-duplicate texts",
        )
        for name, chance in self.chances.items():
            self._count(
                name,
                name in logs and abs(logs[name] - chance) < 0.01 * chance,
                f"the {name.replace('_', ' of ', 1)} stays at ln(candidates) = {chance:.2f}: positives are not "
                "distinguished from negatives. Check that the pairs are aligned, that dropout is on (for dropout "
                "pairs), and the learning rate",
            )

    def _count(self, kind: str, bad: bool, words: str) -> None:
        self._in_a_row[kind] = self._in_a_row[kind] + 1 if bad else 0
        if self._in_a_row[kind] == self.patience and kind not in self._said:
            self._said.add(kind)
            logger.warning(words)


# --- The summary of a run, logged before its first step.

_SHOWN = 70  # characters of each text of the example row


def run_summary(trainer: CheckpointTrainer, inputs: Batch) -> str:
    """A summary of the run of a `ContrastiveTrainer`.

    Args:
        trainer: the trainer, with model, arguments and tokenizer.
        inputs: the first batch of this process, with `input_ids` `[B, V, L]`.

    Returns:
        Lines with base, pooling, maximum length, the texts of one row by role, loss, batch, rate and precision.
    """
    args, model = trainer.args, trainer.accelerator.unwrap_model(trainer.model)
    tokenizer: Any = trainer.processing_class or getattr(trainer.data_collator, "tokenizer", None)
    longest, rows = getattr(tokenizer, "model_max_length", None), inputs["input_ids"][0].tolist()
    hard = [f"hard negative {i}" for i in range(1, len(rows) - 1)]
    example = {}  # the texts of the first row by their roles
    for name, ids in zip(["text"] if len(rows) == 1 else ["anchor", "positive", *hard], rows, strict=False):
        text = tokenizer.decode(ids, skip_special_tokens=True) if hasattr(tokenizer, "decode") else str(ids)
        example[name] = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    if (targets := inputs.get("targets")) is not None:
        example["target"] = str(targets[0].tolist())[:_SHOWN]
    loss = {name: value for name, value in model.loss_fn.settings().items() if name != "loss" and value is not None}
    precision = f"weights {next(model.parameters()).dtype}, matrix products "
    precision += "bfloat16" if args.bf16 else "float16" if args.fp16 else "float32"
    saved = getattr(model, "save_dtype", None)
    precision = (precision if saved is None else f"{precision}, saved in {saved}").replace("torch.", "")
    schedule = SchedulerType(args.lr_scheduler_type).value
    accumulated = f" x {args.gradient_accumulation_steps} batches" if args.gradient_accumulation_steps > 1 else ""
    lines = {
        "base": f"{getattr(model, 'name_or_path', '') or 'from scratch'} ({type(own_module(model)).__name__})",
        "pooling": getattr(model.settings, "pooling", "the model's own"),
        "max length": f"{longest} tokens" if longest and longest < 1 << 29 else "as long as the texts",
        **example,
        "loss": " ".join([model.settings.loss.name, *(f"{name}={value}" for name, value in loss.items())]),
        "batch": f"{len(inputs['input_ids'])} rows of {len(rows)} texts per process{accumulated}",
        "learning rate": f"{args.learning_rate:g}, {schedule}, {trainer.state.max_steps} steps",
        "precision": precision,
    }
    return "\n".join(f"{name + ':':<16} {clean(str(text))}" for name, text in lines.items())
