"""Training arguments: those of transformers with defaults for contrastive training, and their command line."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import HfArgumentParser, TrainingArguments
from transformers.integrations import get_reporting_integration_callbacks

from contrastive_st.errors import InputError, first_line
from contrastive_st.models.hardware import bf16_is_fast
from contrastive_st.terminal import Parser, snake_case_flags, suggestion


@dataclass
class ContrastiveTrainingArguments(TrainingArguments):
    """`transformers.TrainingArguments` with other defaults, and arguments for GradCache and momentum queues.

    bf16 is on if the hardware is faster with it, a last batch that is not full is dropped (it would have fewer
    negatives than the others), and columns of the data set are never dropped. The texts of a batch
    (`per_device_train_batch_size`, on all processes) are each other's negatives.
    """

    bf16: bool | None = field(  # type: ignore[assignment]
        default=None,
        metadata={"help": "bf16 autocast; by default on if the hardware is faster with it. The loss is in float32."},
    )
    dataloader_drop_last: bool = field(default=True, metadata={"help": "Drop a last batch that is not full."})
    remove_unused_columns: bool = field(default=False, metadata={"help": "Do not change: collators read the columns."})

    logging_nan_inf_filter: bool = field(
        default=False, metadata={"help": "Do not change: a NaN or infinite loss must stop the run."}
    )
    ddp_find_unused_parameters: bool | None = field(
        default=False, metadata={"help": "Search for parameters without gradient; models of this package have none."}
    )
    chunk_size: int | None = field(
        default=None,
        metadata={
            "help": "Encode at most this many texts at a time (GradCache), so that memory does not grow with the batch."
        },
    )
    chunk_tokens: int | None = field(
        default=None, metadata={"help": "The same limit in tokens, padding included; may be combined with chunk_size."}
    )
    unpadded: bool = field(
        default=False,
        metadata={
            "help": "Compute real tokens alone, in one row, which attention keeps apart, instead of padded buckets: "
            "for GPUs, where it is flash attention. Not for MPNet, decoders or torch_compile."
        },
    )
    momentum_queue: int = field(
        default=0,
        metadata={
            "help": "Also contrast with this many positives of earlier batches (MoCo), encoded by a moving average of "
            "the model: more negatives without a larger batch. Only for one encoder and the loss info_nce."
        },
    )
    allow_changed_resume: bool = field(
        default=False,
        metadata={
            "help": "Resume even if optimizer, scheduler or random state are missing, or the data or a setting that "
            "changes what is computed (batch, loss, learning rate, ...) is another."
        },
    )
    momentum: float = field(
        default=0.999, metadata={"help": "With momentum_queue: share of the moving average that is kept per step."}
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
            )  # so that the order of the rows does not depend on other random numbers
        own = self.accelerator_config is None
        with told("training arguments"):
            super().__post_init__()
        if own and self.dataloader_pin_memory:  # batches are copied during the previous step
            self.accelerator_config.non_blocking = True  # type: ignore[union-attr]

    def get_warmup_steps(self, num_training_steps: int) -> int:
        """As in transformers, but fewer than all steps: with one step, its rate would be zero."""
        return min(int(super().get_warmup_steps(num_training_steps)), max(num_training_steps - 1, 0))

    def _check(self) -> None:
        """Raise `InputError` for a value that is not valid in any training."""
        check_ranges(self, _RANGES)
        if any(pair.count("=") != 1 for pair in (self.optim_args or "=").split(",")):
            raise InputError(f"optim_args {self.optim_args}: give name=value, separated by commas")
        for name in self._VALID_DICT_FIELDS:
            if str(value := getattr(self, name)).lstrip().startswith("{") and isinstance(value, str):
                try:
                    json.loads(value)
                except ValueError as error:
                    raise InputError(f"{name} {value}: not JSON ({first_line(error)}); mend it") from error
        if not self.max_steps:
            raise InputError("max_steps 0: give a positive number of steps, or num_train_epochs")
        if self.max_steps < 0 and not 0 < self.num_train_epochs < math.inf:
            raise InputError(
                f"num_train_epochs {self.num_train_epochs}: give a positive number of epochs, or max_steps"
            )


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Turn errors of transformers, torch or a missing package into an `InputError` of one line.

    Example:
        >>> with told("optim apollo_adamw"):
        ...     raise ImportError("install apollo_torch")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: optim apollo_adamw: install apollo_torch
    """
    try:
        yield
    except InputError:
        raise
    except (ValueError, TypeError, ImportError) as error:
        raise InputError(f"{what}: {first_line(error)}") from error


def check_ranges(args: Any, ranges: Ranges) -> None:
    """Raise for the first argument that is out of its range; None and missing arguments are accepted.

    Args:
        args: an object with the arguments as attributes.
        ranges: names of arguments, a function that tells whether a value is in range, and the range in words.

    Raises:
        InputError: with the name, the value and the range.

    Example:
        >>> from types import SimpleNamespace
        >>> ranges = [("dropout", lambda value: 0 <= value < 1, "a number in [0, 1)")]
        >>> check_ranges(SimpleNamespace(dropout=2.0), ranges)
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: dropout 2.0: give a number in [0, 1)
    """
    for names, fits, wanted in ranges:
        for name in names.split():
            value = getattr(args, name, None)
            if value is not None and not fits(value):
                raise InputError(f"{name} {value}: give {wanted}")


Ranges = Sequence[tuple[str, Callable[[Any], bool], str]]
_RANGES: Ranges = (
    (
        "per_device_train_batch_size per_device_eval_batch_size gradient_accumulation_steps chunk_size chunk_tokens "
        "save_total_limit",
        lambda value: value >= 1,
        "1 or more",
    ),
    ("dataloader_num_workers momentum_queue", lambda value: value >= 0, "0 or more"),
    ("seed data_seed", lambda value: 0 <= value < 1 << 32, "a number from 0 to 4294967295"),
    (
        "weight_decay warmup_steps max_grad_norm neftune_noise_alpha",
        lambda value: 0 <= value < math.inf,
        "a number that is not negative",
    ),
    ("learning_rate logging_steps save_steps eval_steps", lambda value: 0 < value < math.inf, "a positive number"),
    ("adam_epsilon", lambda value: 0 < value < math.inf, "a positive number"),
    ("momentum adam_beta1 adam_beta2", lambda value: 0 <= value < 1, "a number in [0, 1)"),
)


# --- The command line of a training script, with one-line errors.


class TrainingParser(Parser, HfArgumentParser):
    """`transformers.HfArgumentParser` with one-line errors; flags may be in snake_case or kebab-case.

    Args:
        kinds: dataclasses whose fields become flags.
        kwargs: as for `argparse.ArgumentParser`.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Arguments:
        ...     max_length: int = 32
        >>> TrainingParser(Arguments).parse(["--max_length", "64"])
        [Arguments(max_length=64)]
    """

    def __init__(self, kinds: Any, **kwargs: Any) -> None:
        super().__init__(kinds, **kwargs)

    def parse(self, argv: Sequence[str] | None = None, defaults: Mapping[str, Any] | None = None) -> list[Any]:
        """Parse a command line into one instance of each dataclass.

        Args:
            argv: the command line; by default that of this process.
            defaults: replace the defaults of the dataclasses, also in `--help`.

        Raises:
            InputError: an unknown flag, a value of the wrong type, or one that a dataclass refuses.
        """
        self.set_defaults(**(defaults or {}))
        argv = snake_case_flags(sys.argv[1:] if argv is None else argv)
        try:
            found: list[Any] = list(
                self.parse_args_into_dataclasses(argv, return_remaining_strings=True, look_for_args_file=False)
            )
            unknown = found.pop()
            for args in found:
                _check_reporting(getattr(args, "report_to", []))
        except InputError:
            raise
        except json.JSONDecodeError as error:
            raise InputError(f"{error.doc[:60]}: not JSON: {error}") from error
        except Exception as error:  # transformers raises errors of any type
            raise InputError(first_line(error)) from error
        if unknown:
            flag = unknown[0].partition("=")[0]
            raise InputError(f"unknown argument {flag}; {self._instead(flag)}")
        return found

    def _instead(self, flag: str) -> str:
        flags = [name for name in self._option_string_actions if name.startswith("--")]
        near = suggestion(flag, flags)
        return near if near.startswith("did you mean") else "--help lists all arguments"


def _check_reporting(report_to: Sequence[str]) -> None:
    """Raise if a logger is not installed. (The Trainer would only find out after the data has been read.)"""
    for callback in get_reporting_integration_callbacks(report_to):
        callback()
