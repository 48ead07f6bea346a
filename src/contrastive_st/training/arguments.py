"""Training arguments: those of transformers, with the defaults that contrastive training wants."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import TrainingArguments

from contrastive_st.errors import InputError, first_line
from contrastive_st.models.cpu import bf16_is_fast


@dataclass
class ContrastiveTrainingArguments(TrainingArguments):
    """`transformers.TrainingArguments`; `per_device_train_batch_size` is what contrasts.

    What differs: bf16 is on where the hardware is faster so, a short last batch is dropped (it would have fewer
    negatives than the others), and no column of the data set is dropped behind your back.
    """

    bf16: bool | None = field(  # type: ignore[assignment]
        default=None,
        metadata={"help": "bf16 autocast; by default where the hardware is faster so. The loss is float32."},
    )
    dataloader_drop_last: bool = field(default=True, metadata={"help": "Drop a last batch that is not full."})
    remove_unused_columns: bool = field(default=False, metadata={"help": "Leave as it is: collators read the columns."})

    ddp_find_unused_parameters: bool | None = field(
        default=False, metadata={"help": "Look for parameters without gradient; the models here have none."}
    )
    chunk_size: int | None = field(
        default=None,
        metadata={
            "help": "Encode at most this many texts at a time (GradCache step): memory stops growing with the batch."
        },
    )
    chunk_tokens: int | None = field(
        default=None, metadata={"help": "The same limit in tokens, padding included; may be combined with chunk_size."}
    )
    momentum_queue: int = field(
        default=0,
        metadata={
            "help": "Contrast with this many past positives too (MoCo), encoded by a moving average of the model: more "
            "negatives without a larger batch. One encoder, loss info_nce; a step encodes no more texts."
        },
    )
    allow_changed_resume: bool = field(
        default=False,
        metadata={
            "help": "Resume although optimizer, scheduler or random state are missing, or data, seed or batch changed."
        },
    )
    momentum: float = field(
        default=0.999, metadata={"help": "With momentum_queue: share of the moving average that stays, a step."}
    )

    def __post_init__(self) -> None:
        self._check()
        if not torch.accelerator.is_available():
            self.use_cpu = True
        if self.bf16 is None:
            self.bf16 = not self.fp16 and bf16_is_fast()
        if getattr(self, "data_seed", None) is None:
            self.data_seed: int | None = (
                self.seed
            )  # so that the order of the rows does not hang on what else draws random numbers
        try:
            super().__post_init__()
        except (ValueError, TypeError) as error:
            raise InputError(f"training arguments: {first_line(error)}") from error

    def _check(self) -> None:
        """Raise for a number that no training can have."""
        for names, fits, wanted in _RANGES:
            for name in names.split():
                value: Any = getattr(self, name)
                if value is not None and not fits(value):
                    raise InputError(f"{name} {value}: give {wanted}")
        for name in self._VALID_DICT_FIELDS:
            if str(value := getattr(self, name)).lstrip().startswith("{") and isinstance(value, str):
                try:
                    json.loads(value)
                except ValueError as error:
                    raise InputError(f"{name} {value}: no JSON ({first_line(error)})") from error
        if self.max_steps <= 0 and not 0 < self.num_train_epochs < math.inf:
            raise InputError(
                f"num_train_epochs {self.num_train_epochs}: give a positive number of epochs, or max_steps"
            )


#: Names of arguments, what their values must be, and in words
_RANGES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (
        "per_device_train_batch_size per_device_eval_batch_size gradient_accumulation_steps chunk_size chunk_tokens "
        "save_total_limit",
        lambda value: value >= 1,
        "1 or more",
    ),
    ("dataloader_num_workers momentum_queue", lambda value: value >= 0, "0 or more"),
    ("seed data_seed", lambda value: 0 <= value < 1 << 32, "a number from 0 to 4294967295"),
    (
        "learning_rate weight_decay warmup_steps max_grad_norm",
        lambda value: 0 <= value < math.inf,
        "a number that is not negative",
    ),
    ("logging_steps save_steps eval_steps", lambda value: 0 < value < math.inf, "a positive number"),
    ("adam_epsilon", lambda value: 0 < value < math.inf, "a positive number"),
    ("momentum adam_beta1 adam_beta2", lambda value: 0 <= value < 1, "a number in [0, 1)"),
)
