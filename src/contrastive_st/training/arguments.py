"""Training arguments: those of transformers with defaults for contrastive training, and their command line."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, get_type_hints

import torch
from transformers import HfArgumentParser, TrainingArguments
from transformers.integrations import get_reporting_integration_callbacks
from transformers.trainer_utils import IntervalStrategy, SaveStrategy

from contrastive_st.errors import InputError, first_line
from contrastive_st.losses.base import LOSSES, loss_class
from contrastive_st.models.hardware import bf16_is_fast
from contrastive_st.terminal import Parser, snake_case_flags, suggestion


@dataclass
class ContrastiveTrainingArguments(TrainingArguments):
    """`transformers.TrainingArguments` with other defaults, and arguments for GradCache and momentum queues.

    bf16 is on if the hardware is faster with it, a last batch that is not full is dropped (it would have fewer
    negatives than the others), and columns of the data set are never dropped. The texts of a batch
    (`per_device_train_batch_size`, on all processes) are each other's negatives.

    With `early_stopping_patience` the run is evaluated and saved ten times (`evaluate_regularly`), stops when it no
    longer gets better, and ends with the best checkpoint: that of the lowest `eval_loss`, or of the greatest measure
    if the validation rows have no loss. `metric_for_best_model` chooses another figure, such as `mrr`.
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
    per_device_eval_batch_size: int | None = field(  # type: ignore[assignment]
        default=None,
        metadata={
            "help": "Rows of a validation batch, which are each other's negatives in eval_loss; by default "
            "per_device_train_batch_size."
        },
    )
    early_stopping_patience: int | None = field(
        default=None,
        metadata={
            "help": "Stop after this many evaluations without a better metric_for_best_model (by default eval_loss). "
            "The run is evaluated and saved ten times, if not told otherwise, and ends with its best checkpoint."
        },
    )
    allow_changed_resume: bool = field(
        default=False,
        metadata={
            "help": "Resume even if optimizer, scheduler or random state are missing, or data, seed or batch changed."
        },
    )
    momentum: float = field(
        default=0.999, metadata={"help": "With momentum_queue: share of the moving average that is kept per step."}
    )
    overwrite_output_dir: bool = field(
        default=False, metadata={"help": "Write into an output folder that has another run."}
    )
    data_license: str | None = field(
        default=None, metadata={"help": "Licence of the training data, for the training metadata and the model card."}
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
        if self.per_device_eval_batch_size is None:
            self.per_device_eval_batch_size = self.per_device_train_batch_size
        self.metric_left_open = self.metric_for_best_model is None  # the trainer knows which figures there are
        if self.early_stopping_patience is not None:
            self.evaluate_regularly()
            self.restore_callback_states_from_checkpoint = True  # how many evaluations were not better
        own = self.accelerator_config is None
        with told("training arguments"):
            super().__post_init__()
        if own and self.dataloader_pin_memory:  # batches are copied during the previous step
            self.accelerator_config.non_blocking = True  # type: ignore[union-attr]

    def evaluate_regularly(self) -> None:
        """Evaluate and save ten times a run, and end with the best checkpoint, unless the arguments say otherwise.

        Arguments that differ from their defaults are kept, and the others follow them: with `eval_steps=50` the run is
        saved every 50 steps too. The best and the last checkpoint stay. With `save_strategy="no"` nothing is saved, and
        the run ends with its last weights. For scripts whose user gives validation data.

        Raises:
            InputError: the given intervals do not go with each other.

        Example:
            >>> args = ContrastiveTrainingArguments("out")
            >>> args.evaluate_regularly()
            >>> args.eval_strategy.value, args.eval_steps, args.save_steps, args.load_best_model_at_end
            ('steps', 0.1, 0.1, True)
        """
        usual = {spec.name: spec.default for spec in fields(TrainingArguments)}
        free_saves = self.save_strategy == "steps" and self.save_steps == usual["save_steps"]
        if self.eval_strategy == "no":
            epochs = self.save_strategy == "epoch" and self.eval_steps is None
            self.eval_strategy = IntervalStrategy("epoch" if epochs else "steps")
        if self.eval_strategy == "steps" and self.eval_steps is None:
            self.eval_steps = self.save_steps if self.save_strategy == "steps" and not free_saves else _SHARE
        if free_saves:
            self.save_strategy = SaveStrategy(IntervalStrategy(self.eval_strategy).value)
            self.save_steps = self.eval_steps or self.save_steps
        if self.save_strategy != "no":
            self.load_best_model_at_end = True
            self.save_total_limit = self.save_total_limit or 2
        if self.metric_for_best_model is None:
            self.metric_for_best_model, self.greater_is_better = "loss", False
        with told("training arguments"):
            self._validate_args()

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
        if self.max_steps == 0:
            raise InputError("max_steps 0: give 1 or more, or -1 for num_train_epochs")
        if self.max_steps < 0 and not 0 < self.num_train_epochs < math.inf:
            raise InputError(
                f"num_train_epochs {self.num_train_epochs}: give a positive number of epochs, or max_steps"
            )

    def get_warmup_steps(self, num_training_steps: int) -> int:
        """As in transformers, but the warm-up leaves the last step its full rate: one step alone has no warm-up."""
        return min(int(super().get_warmup_steps(num_training_steps)), num_training_steps - 1)


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


_SHARE = 0.1  # of a run, between two evaluations
Ranges = Sequence[tuple[str, Callable[[Any], bool], str]]
_RANGES: Ranges = (
    (
        "per_device_train_batch_size per_device_eval_batch_size gradient_accumulation_steps chunk_size chunk_tokens "
        "save_total_limit early_stopping_patience",
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

    def format_help(self) -> str:
        """The options of the script and of contrastive training; those of transformers are only named."""
        usual = {spec.name for spec in fields(TrainingArguments)} - set(
            vars(ContrastiveTrainingArguments)["__annotations__"]
        )
        lines = [f"usage: {self.prog} [options]", "", str(self.description or ""), "", "options:"]
        for kind in self.dataclass_types:
            for spec in fields(kind):
                if spec.init and spec.name not in usual:
                    lines += _option(spec.name, str(spec.metadata.get("help", "")), self.get_default(spec.name))
        changed = {name: value for name, value in self._defaults.items() if name in usual}
        lines += ["", "Every field of transformers.TrainingArguments is an option too. This script sets:"]
        words = ", ".join(f"--{name} {_shown(value)}" for name, value in changed.items()) or "none of them"
        return "\n".join([*lines, *textwrap.wrap(words, 100, initial_indent="  ", subsequent_indent="  ")]) + "\n"

    def _instead(self, flag: str) -> str:
        flags = [name for name in self._option_string_actions if name.startswith("--")]
        near = suggestion(flag, flags)
        return near if near.startswith("did you mean") else "--help lists all arguments"


def _option(name: str, words: str, default: Any) -> list[str]:
    given = words if default is None else f"{words} (default: {_shown(default)})"
    head = f"  --{name}"
    body = textwrap.wrap(given, 76) or [""]
    first = [f"{head:28}{body[0]}"] if len(head) < 27 else [head, " " * 28 + body[0]]
    return [*first, *(" " * 28 + line for line in body[1:])]


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _check_reporting(report_to: Sequence[str]) -> None:
    """Raise if a logger is not installed. (The Trainer would only find out after the data has been read.)"""
    for callback in get_reporting_integration_callbacks(report_to):
        callback()


# --- Options that training scripts share, in groups: a script takes the groups that it uses.

_SCRIPT_RANGES: Ranges = (
    (
        "vocab_size hidden_size embedding_size max_train_samples k preprocessing_num_workers max_length lora_r "
        "truncate_dim label_samples task_batch_size idf_sentences search_sentences families members length",
        lambda value: value >= 1,
        "1 or more",
    ),
    ("block_size", lambda value: value >= 4, "4 or more"),
    ("num_layers shuffle_buffer task_seeds head_hidden heldout", lambda value: value >= 0, "0 or more"),
    (
        "mlm_weight js_weight order_seconds similarity_weight distance_weight angle_weight task_learning_rate",
        lambda value: 0 <= value < math.inf,
        "a number that is not negative",
    ),
    ("temperature lora_alpha task_epochs", lambda value: 0 < value < math.inf, "a positive number"),
    (
        "dropout mlm_probability lora_dropout deletion_ratio cutoff_ratio",
        lambda value: 0 <= value < 1,
        "a number in [0, 1)",
    ),
    ("hard_negative_weight", math.isfinite, "a finite number"),
)


class ScriptArguments:
    """Base of the groups: checks the ranges of the options that have one, and raises `InputError`."""

    def __post_init__(self) -> None:
        check_ranges(self, _SCRIPT_RANGES)


@dataclass
class DataArguments(ScriptArguments):
    """The file to train on, whose columns have roles (`contrastive_st.data.read_examples`)."""

    train_file: str | None = field(
        default=None,
        metadata={
            "help": ".txt, .csv, .tsv, .json(l), .parquet or a data set of the Hub. One column of text, two (pairs), "
            "three or more (hard negatives), or pairs with a score or a label."
        },
    )
    columns: list[str] | None = field(
        default=None,
        metadata={
            "help": "Columns to use, by name or position, or as name=role: anchor, positive, negative, text, score or "
            "label."
        },
    )
    score_scale: list[float] | None = field(
        default=None, metadata={"help": "The lowest and the highest score, such as 0 5; by default 0 1."}
    )
    strict: bool = field(
        default=False, metadata={"help": "Stop at a blank cell instead of dropping and counting its row."}
    )
    max_train_samples: int | None = field(default=None, metadata={"help": "Train on the first rows only."})
    preprocessing_num_workers: int | None = field(default=None, metadata={"help": "Processes that tokenize."})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.score_scale and (len(self.score_scale) != 2 or self.score_scale[0] >= self.score_scale[1]):
            given = " ".join(map(str, self.score_scale))
            raise InputError(f"--score_scale {given}: give the lowest and the highest score, such as 0 5")


@dataclass
class CorpusArguments(ScriptArguments):
    """Sentences in their order, in documents."""

    train_file: list[str] | None = field(
        default=None,
        metadata={
            "help": "Sentences in order: .txt (a sentence a line, a blank line ends a document) or .parquet. Without "
            "it: the documentation of the installed Python packages."
        },
    )
    text_column: str = field(default="text", metadata={"help": "Of parquet files."})
    document_column: str | None = field(
        default=None,
        metadata={
            "help": "Document column of parquet files; the sentences of a document must be adjacent. By default doc; a "
            "file without that column is one document."
        },
    )


@dataclass
class SuiteArguments(ScriptArguments):
    """Tasks of SentEval that a script measures."""

    eval_tasks: str = field(
        default="MR,CR,SST2,TREC",
        metadata={"help": "Tasks to measure, where CONTRASTIVE_ST_DATA or --eval_data names their files."},
    )
    eval_data: str | None = field(default=None, metadata={"help": "Folder of SentEval's files, or hub."})


@dataclass
class EncoderArguments(ScriptArguments):
    """The encoder to start from, or the size of a new one; its prompts; an adapter in place of all weights."""

    model_name_or_path: str | None = field(
        default=None, metadata={"help": "Encoder to start from; by default a small BERT from scratch."}
    )
    pooling: str | None = field(
        default=None,
        metadata={
            "help": "cls (with projection head), cls_before_pooler, mean, max, avg_first_last, avg_top2, last; by "
            "default what the encoder to start from records."
        },
    )
    max_length: int | None = field(
        default=None,
        metadata={
            "help": "Longest text, in tokens, in training and for the saved encoder; by default that of the encoder "
            "to start from, 128 from scratch."
        },
    )
    dropout: float | None = field(
        default=None, metadata={"help": "Dropout of the encoder; by default its own, 0.1 from scratch."}
    )
    new_head: bool | None = field(
        default=None, metadata={"help": "Draw a new projection head; by default when starting from a plain encoder."}
    )
    bidirectional: bool | None = field(
        default=None, metadata={"help": "Let a decoder attend in both directions; by default as its config says."}
    )
    num_layers: int = field(default=2, metadata={"help": "Layers of an encoder from scratch."})
    hidden_size: int = field(default=256, metadata={"help": "Width of an encoder from scratch."})
    vocab_size: int = field(
        default=16_000, metadata={"help": "Vocabulary of an encoder from scratch, learned from the training text."}
    )
    prompts: list[str] | None = field(
        default=None,
        metadata={
            "help": "What is put before each text, in training and by the saved encoder, such as query='query: ' "
            "document='passage: ': the first of several columns holds queries, the others documents. By default what "
            "the encoder to start from records."
        },
    )
    default_prompt_name: str | None = field(
        default=None, metadata={"help": "The prompt of a column without one of its own, and of every other text."}
    )
    include_prompt: bool | None = field(
        default=None,
        metadata={
            "help": "false: the prompt is read, but its tokens are not pooled. By default what the encoder to start "
            "from records, true from scratch."
        },
    )
    lora_r: int | None = field(
        default=None,
        metadata={
            "help": "Freeze the encoder and train a LoRA adapter of this rank (16, say; needs peft). What is saved is "
            "the adapter; contrastive-st merge makes an ordinary checkpoint of it."
        },
    )
    lora_alpha: float | None = field(default=None, metadata={"help": "Scale of the adapter; by default 2 * lora_r."})
    lora_dropout: float | None = field(default=None, metadata={"help": "Dropout of the adapter's input; by default 0."})
    lora_target_modules: list[str] | None = field(
        default=None, metadata={"help": "Linear layers to adapt, such as query value; by default all of them."}
    )

    @property
    def named_prompts(self) -> dict[str, str] | None:
        """The prompts by name; None if none are given.

        Raises:
            InputError: a prompt has no name, or two have the same name.

        Example:
            >>> EncoderArguments(prompts=["query=query: ", "document=passage: "]).named_prompts
            {'query': 'query: ', 'document': 'passage: '}
        """
        if self.prompts is None:
            return None
        named: dict[str, str] = {}
        for given in self.prompts:
            name, parted, text = given.partition("=")
            if not name or not parted or name in named:
                raise InputError(f"--prompts {given!r}: give NAME=TEXT with different names, such as query='query: '")
            named[name] = text
        return named

    @property
    def lora(self) -> dict[str, Any]:
        """The settings of the adapter that are given, without its rank."""
        given = {name: vars(self)[f"lora_{name}"] for name in ("alpha", "dropout", "target_modules")}
        given = {name: value for name, value in given.items() if value is not None}
        if self.lora_r is None and given:
            raise InputError(f"--lora_{next(iter(given))} is a setting of an adapter; give its rank with --lora_r")
        return given


@dataclass
class MatryoshkaArguments(ScriptArguments):
    """Several dimensions of the embedding, each trained by the loss (Matryoshka)."""

    matryoshka_dims: list[int] | None = field(
        default=None,
        metadata={
            "help": "Train the first dimensions of the embedding alone too: a term of the loss for each number, "
            "such as 256 128 64. Name the whole embedding as well."
        },
    )
    matryoshka_weights: list[float] | None = field(
        default=None, metadata={"help": "Weights of these dimensions; by default 1 each."}
    )
    truncate_dim: int | None = field(
        default=None,
        metadata={"help": "One of these numbers: the saved encoder keeps so many dimensions; by default all."},
    )

    def over(self, loss: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a loss, or of `MatryoshkaLoss` over it if dimensions are given.

        Raises:
            InputError: weights without dimensions, or `truncate_dim` is not one of the dimensions.

        Example:
            >>> MatryoshkaArguments(matryoshka_dims=[8, 4]).over({"loss": "cosent"})
            {'loss': 'matryoshka', 'inner': {'loss': 'cosent'}, 'dims': [8, 4], 'weights': None}
        """
        dims, weights, truncate = self.matryoshka_dims, self.matryoshka_weights, self.truncate_dim
        if dims is None and weights is not None:
            raise InputError("--matryoshka_weights needs --matryoshka_dims; give it too")
        if truncate is not None and truncate not in (dims or []):
            raise InputError(
                f"--truncate_dim {truncate} is none of --matryoshka_dims; its {truncate} dimensions would not be "
                "trained"
            )
        if dims is None:
            return dict(loss)
        settings = {"loss": "matryoshka", "inner": dict(loss), "dims": dims, "weights": weights}
        return settings if truncate is None else {**settings, "truncate_dim": truncate}


@dataclass
class WordsLossArguments(ScriptArguments):
    """A masked-language-model loss beside the loss of the script."""

    do_mlm: bool = field(default=False, metadata={"help": "Add a masked-language-model loss."})
    mlm_weight: float = field(default=0.1, metadata={"help": "Weight of the masked-language-model loss."})
    mlm_probability: float = field(default=0.15, metadata={"help": "Share of tokens that loss predicts."})

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the model for it; none without it."""
        return {"do_mlm": True, "mlm_weight": self.mlm_weight} if self.do_mlm else {}

    @property
    def masking(self) -> dict[str, Any]:
        """The settings of a collator for it."""
        return {"do_mlm": self.do_mlm, "mlm_probability": self.mlm_probability}


#: Settings of losses that are read from the data, and so are no options
_FROM_DATA = ("num_labels", "inner", "tasks", "dims", "weights")
_OPTION_TYPES = {float: float, int: int, bool: bool, str: str, tuple[str, ...]: list[str]}


def loss_arguments(names: Sequence[str]) -> type[LossArguments]:
    """A group of options with `--loss` and one option for every setting of these losses.

    So a loss that is added to the package needs no code for its options.

    Args:
        names: names of losses, of which `--loss` chooses one.

    Example:
        >>> group = loss_arguments(["info_nce", "triplet"])
        >>> group(loss="triplet", margin=0.5).settings("info_nce")
        {'loss': 'triplet', 'margin': 0.5}
        >>> group(margin=0.5).settings("info_nce")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: the loss info_nce has no setting margin; leave out --margin, or give --loss
    """
    takers: dict[str, list[str]] = {}
    kinds: dict[str, Any] = {}
    for name in names:
        hints = get_type_hints(LOSSES[name])
        for setting in LOSSES[name].setting_names():
            if setting not in _FROM_DATA and hints[setting] in _OPTION_TYPES:
                takers.setdefault(setting, []).append(name)
                kinds[setting] = _OPTION_TYPES[hints[setting]]
    options = [("loss", str | None, field(default=None, metadata={
        "help": f"One of {', '.join(names)}; by default the first that trains rows of this kind."}))]  # fmt: skip
    for setting, losses in takers.items():
        words = f"Of {', '.join(losses)}; see docs/losses.md."
        options.append((setting, kinds[setting] | None, field(default=None, metadata={"help": words})))
    return make_dataclass("ChosenLossArguments", options, bases=(LossArguments,))


class LossArguments(ScriptArguments):
    """Base of the groups that `loss_arguments` makes."""

    loss: str | None

    def settings(self, default: str) -> dict[str, Any]:
        """The name of the loss and those of its settings that are given.

        Args:
            default: the name without `--loss`.

        Raises:
            InputError: an option is given that is no setting of this loss.
        """
        kind = loss_class(self.loss or default)
        given = {name: value for name, value in vars(self).items() if name != "loss" and value is not None}
        for name in given:
            if name not in kind.setting_names():
                raise InputError(f"the loss {kind.name} has no setting {name}; leave out --{name}, or give --loss")
        return {"loss": kind.name, **given}


@dataclass
class ValidationArguments(ScriptArguments):
    """Rows to validate on: during training their loss and measure are logged, and the best checkpoint is kept."""

    validation_file: str | None = field(
        default=None,
        metadata={
            "help": "A file as --train_file, of which loss and measure are logged ten times a run; the best checkpoint "
            "is kept. --early_stopping_patience stops the run when they no longer get better."
        },
    )
    validation_split: float | None = field(
        default=None,
        metadata={
            "help": "In its place: a share of the training rows, such as 0.05, which are not trained on. Rows with "
            "the same first text stay on one side."
        },
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.validation_file is not None and self.validation_split is not None:
            raise InputError("--validation_file and --validation_split are both given; leave one out")
        if self.validation_split is not None and not 0 < self.validation_split <= 0.5:
            raise InputError(f"--validation_split {self.validation_split:g}: give a share above 0, at most 0.5")
