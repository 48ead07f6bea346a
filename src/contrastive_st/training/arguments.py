"""Training arguments: those of transformers with defaults for contrastive training, and their command line."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated

import torch
from annotated_types import Ge, Lt
from transformers import TrainingArguments
from transformers.trainer_utils import IntervalStrategy, SaveStrategy
from transformers.utils import is_in_notebook

from contrastive_st.device import DEVICE, bf16_is_fast
from contrastive_st.errors import InputError, about
from contrastive_st.options import Count, CountOrZero, NotNegative, Positive, Share, check_options, field_types, option
from contrastive_st.terminal import progress_is_shown


@dataclass
class ContrastiveTrainingArguments(TrainingArguments):
    """`transformers.TrainingArguments` with other defaults, and arguments for GradCache and momentum queues.

    bf16 is on if the hardware is faster with it, a last batch that is not full is dropped (it would have fewer
    negatives than the others), and columns of the data set are never dropped. The texts of a batch
    (`per_device_train_batch_size`, on all processes) are each other's negatives.

    With `early_stopping_patience` the run is evaluated and saved ten times (`evaluate_regularly`), stops when it no
    longer gets better, and ends with the best checkpoint: that of the lowest `eval_loss`, or of the greatest measure
    if the validation rows have no loss. `metric_for_best_model` chooses another metric, such as `mrr`.
    """

    bf16: bool | None = option(  # type: ignore[assignment]
        "Train with bf16 autocast; by default if the hardware is faster with it. The loss is computed in float32."
    )
    eval_strategy: IntervalStrategy | str | None = option(  # type: ignore[assignment]
        "When to evaluate: no, steps or epoch; by default ten times a run if there are validation rows."
    )
    save_strategy: SaveStrategy | str | None = option(  # type: ignore[assignment]
        "When to save: no, steps, epoch or best; by default as eval_strategy, or each save_steps."
    )
    save_steps: float | None = option(  # type: ignore[assignment]
        "Save a checkpoint every so many steps, or at this share of the run; by default at each evaluation, or every "
        "500 steps without one."
    )
    load_best_model_at_end: bool | None = option(  # type: ignore[assignment]
        "End with the best checkpoint; by default if there are validation rows and checkpoints are saved."
    )
    dataloader_drop_last: bool = option("Drop the last batch if it is not full.", default=True)
    remove_unused_columns: bool = option("Do not change: collators read the columns.", default=False)

    logging_nan_inf_filter: bool = option("Do not change: a NaN or infinite loss must stop the run.", default=False)
    ddp_find_unused_parameters: bool | None = option(
        "In DDP, search for parameters without gradients. Models of this package have no such parameters.",
        default=False,
    )
    chunk_size: Count | None = option(
        "Encode at most this many texts at a time (GradCache), so that memory does not grow with the batch; by "
        "default the whole batch."
    )
    chunk_tokens: Count | None = option(
        "Like chunk_size, but a number of tokens, padding included; may be combined with it."
    )
    unpadded: bool | None = option(
        "Compute without padding: all texts are joined in one row, and attention does not cross from one text to "
        "another. By default on for a CPU, and for a GPU in half precision (flash attention) without chunks. Not "
        "supported for MPNet, decoders and torch_compile."
    )
    momentum_queue: CountOrZero = option(
        "Use this many positives of earlier batches as further negatives (MoCo), encoded by a moving average of the "
        "model. Only if one encoder embeds all columns, and for the loss info_nce.",
        default=0,
    )
    per_device_eval_batch_size: int | None = option(  # type: ignore[assignment]
        "Batch size in validation; by default per_device_train_batch_size. The rows of a batch are each other's "
        "negatives in eval_loss."
    )
    early_stopping_patience: Count | None = option(
        "Stop when this many evaluations in a row bring no improvement of metric_for_best_model (by default "
        "eval_loss). Unless you set other intervals, the run is evaluated and saved ten times. It ends with its best "
        "checkpoint."
    )
    allow_changed_resume: bool = option(
        "Resume even if the state of the optimizer, scheduler or random numbers is missing, or if data, seed or batch "
        "size have changed.",
        default=False,
    )
    momentum: Share = option("With momentum_queue: decay of the moving average per step.", default=0.999)
    overwrite_output_dir: bool = option(
        "Write to an output folder that holds another run; its checkpoints are moved to checkpoints.old.", default=False
    )
    resume_from_checkpoint: str | None = field(
        default=None,
        metadata={
            "help": "Continue the run of this checkpoint folder; without a value, that of the newest checkpoint in the "
            "output folder.",
            "nargs": "?",
            "const": "true",
        },
    )
    save_dtype: str | None = field(
        default=None,
        metadata={
            "help": "Data type of the saved model: float32, bfloat16 or float16; by default that of the checkpoint to "
            "start from. Training and its checkpoints are in float32.",
            "choices": ["float32", "bfloat16", "float16"],
        },
    )
    data_license: str | None = option("Licence of the training data, for the training metadata and the model card.")

    def __post_init__(self) -> None:
        self._check()
        if (device := os.environ.get(DEVICE) or None) not in (None, "cpu"):
            with about(f"device {device}"):
                torch.empty(0, device=device)
            os.environ["ACCELERATE_TORCH_DEVICE"] = str(device)  # which accelerate reads
        self.use_cpu |= device == "cpu" or not torch.accelerator.is_available()
        if self.disable_tqdm is None:
            self.disable_tqdm = not (progress_is_shown() or is_in_notebook())
        if self.bf16 is None:
            self.bf16 = not self.fp16 and bf16_is_fast()
        #: What is chosen by the rest; of the metric, the trainer knows which there are
        self.left_open = {name for name in (*_USUAL, "metric_for_best_model") if getattr(self, name) is None}
        vars(self).update({name: value for name, value in _USUAL.items() if name in self.left_open})
        if (self.load_best_model_at_end and self.eval_strategy == "no") or self.early_stopping_patience is not None:
            self.evaluate_regularly()
        if self.save_strategy == "best" and "metric_for_best_model" in self.left_open:
            self.metric_for_best_model = "loss"
        by_default = self.accelerator_config is None
        with about("training arguments"):
            super().__post_init__()
        if self.mixed_precision == "fp16" and self.use_cpu:
            raise InputError(
                "fp16: on a CPU, accelerate computes in float32 instead; give --bf16 true, or --fp16 false "
                "(accelerate launch: --mixed_precision)"
            )
        # where no flag decides, `accelerate launch --mixed_precision` does
        self.bf16, self.fp16 = self.mixed_precision == "bf16", self.mixed_precision == "fp16"
        if by_default and self.dataloader_pin_memory:  # batches are copied during the previous step
            self.accelerator_config.non_blocking = True  # type: ignore[union-attr]

    @property
    def order_seed(self) -> int:
        """The seed of the order of the rows, which depends on no other random numbers: `data_seed`, or else `seed`."""
        return self.seed if self.data_seed is None else self.data_seed

    @property
    def eval_batch_size(self) -> int:
        """Rows of a batch of validation, on all GPUs of this process."""
        rows = self.per_device_eval_batch_size or self.per_device_train_batch_size
        return rows * max(1, int(self.n_gpu))

    def evaluate_regularly(self) -> None:
        """Evaluate and save ten times a run, and end with the best checkpoint, unless the arguments say otherwise.

        Arguments that are given are kept, and the others follow them: with `eval_steps=50` the run is saved every 50
        steps too. The best and the last checkpoint stay. With `save_strategy="no"` nothing is saved, and the run ends
        with its last weights; with `eval_strategy="no"` nothing changes. For scripts whose user gives validation data.

        Raises:
            InputError: the given intervals do not go with each other.

        Example:
            >>> args = ContrastiveTrainingArguments("out")
            >>> args.evaluate_regularly()
            >>> args.eval_strategy.value, args.eval_steps, args.save_steps, args.load_best_model_at_end
            ('steps', 0.1, 0.1, True)
        """
        free_saves = self.save_strategy == "steps" and "save_steps" in self.left_open
        if self.eval_strategy == "no":
            if "eval_strategy" not in self.left_open:
                return
            epochs = self.save_strategy == "epoch" and self.eval_steps is None
            self.eval_strategy = IntervalStrategy("epoch" if epochs else "steps")
        if self.eval_strategy == "steps" and self.eval_steps is None:
            self.eval_steps = self.save_steps if self.save_strategy == "steps" and not free_saves else _SHARE
        if free_saves and ("save_strategy" in self.left_open or self.eval_strategy == "steps"):
            self.save_strategy = SaveStrategy(IntervalStrategy(self.eval_strategy).value)
            self.save_steps = self.eval_steps or self.save_steps
        if self.save_strategy != "no":
            if "load_best_model_at_end" in self.left_open:  # without a checkpoint of each evaluation there is no best
                self.load_best_model_at_end = self.save_strategy in (self.eval_strategy, "best")
            self.save_total_limit = self.save_total_limit or 2
        if self.load_best_model_at_end and self.metric_for_best_model is None:
            self.metric_for_best_model, self.greater_is_better = "loss", False
        with about("training arguments"):
            self._validate_args()

    def _check(self) -> None:
        """Raise `InputError` for a value that is not valid in any training."""
        types = {name: kind for name, kind in field_types(type(self)).items() if name in _ADDED}
        check_options(self, {**_BOUNDS, **types})
        for name in self._VALID_DICT_FIELDS:
            if isinstance(value := getattr(self, name), str) and value.lstrip().startswith("{"):
                with about(f"{name} {value}"):
                    json.loads(value)
        for fault in self._faults():
            raise InputError(fault)

    def _faults(self) -> Iterator[str]:
        folder = Path(self.output_dir or ".")
        if file := next((path for path in (folder, *folder.parents) if path.is_file()), None):
            yield f"output_dir {folder}: {file} is a file; give a folder"
        if any(pair.count("=") != 1 for pair in (self.optim_args or "=").split(",")):
            yield f"optim_args {self.optim_args}: give name=value, separated by commas"
        if self.load_best_model_at_end and self.save_strategy == "no":
            yield "load_best_model_at_end needs the checkpoints of each validation; leave out save_strategy no"
        for name in ("load_best_model_at_end", "early_stopping_patience"):
            if getattr(self, name) and self.eval_strategy == "no":
                yield f"{name} needs evaluations; leave out eval_strategy no"
        if self.max_steps == 0:
            yield "max_steps 0: give 1 or more, or -1 for num_train_epochs"
        if self.max_steps < 0 and not 0 < self.num_train_epochs < math.inf:
            yield f"num_train_epochs {self.num_train_epochs}: give a positive number of epochs, or max_steps"

    def get_warmup_steps(self, num_training_steps: int) -> int:
        """As in transformers, but the warm-up leaves the last step its full rate: one step alone has no warm-up."""
        return min(int(super().get_warmup_steps(num_training_steps)), num_training_steps - 1)


def check_parts(parts: Mapping[str, object]) -> None:
    """Raise `InputError` if the `args`, `train_dataset` or `data_collator` of a trainer cannot train contrastively."""
    args, rows = parts.get("args"), parts.get("train_dataset")
    if not isinstance(args, ContrastiveTrainingArguments):
        raise InputError(f"args: {type(args).__name__}; give ContrastiveTrainingArguments(output_dir, ...)")
    if isinstance(rows, Mapping):
        raise InputError(
            f"train_dataset is a {type(rows).__name__} of {', '.join(map(str, rows))}; give one of its data sets, or a "
            "Mixture to train on several"
        )
    if rows is not None and parts.get("data_collator") is None:
        raise InputError(
            "there is no data_collator; give PairCollator(tokenizer), for instance, or DropoutPairCollator(tokenizer) "
            "for rows with one text"
        )


_SHARE = 0.1  # of a run, between two evaluations
_OPEN = ("eval_strategy", "save_strategy", "save_steps", "load_best_model_at_end")
#: The values of arguments that are left open, where nothing else decides them
_USUAL = {spec.name: spec.default for spec in fields(TrainingArguments) if spec.name in _OPEN}
_ADDED = ("chunk_size", "chunk_tokens", "momentum_queue", "early_stopping_patience", "momentum")
_Seed = Annotated[int, Ge(0), Lt(1 << 32)]
#: The bounds of arguments of transformers, whose fields have none
_BOUNDS = {
    **dict.fromkeys(("gradient_accumulation_steps", "per_device_train_batch_size"), Count),
    **dict.fromkeys(("per_device_eval_batch_size", "save_total_limit"), Count | None),
    "dataloader_num_workers": CountOrZero,
    **dict.fromkeys(("seed", "data_seed"), _Seed | None),
    **dict.fromkeys(("weight_decay", "warmup_steps", "max_grad_norm", "neftune_noise_alpha"), NotNegative | None),
    **dict.fromkeys(("learning_rate", "logging_steps", "save_steps", "eval_steps"), Positive | None),
    "adam_epsilon": Positive,
    **dict.fromkeys(("adam_beta1", "adam_beta2"), Share),
}
