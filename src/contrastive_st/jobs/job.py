"""The common parts of the jobs: arguments, output folder, the small encoder from scratch, training and report."""

from __future__ import annotations

import copy
import json
import logging
import math
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from datasets import Dataset
from transformers import BertConfig

from contrastive_st.data import LabelledPairCollator
from contrastive_st.distributed import is_first_process
from contrastive_st.errors import InputError
from contrastive_st.evaluation import sts_evaluator
from contrastive_st.evaluation.report.plots import training_curve
from contrastive_st.hub.metadata import changed_arguments
from contrastive_st.models.adapters import add_lora
from contrastive_st.models.configuration import LossConfig
from contrastive_st.tokens import column_prompts
from contrastive_st.training import ContrastiveTrainer, ContrastiveTrainingArguments
from contrastive_st.training.arguments import Ranges, TrainingParser, check_ranges

logger = logging.getLogger(__name__)
Job = TypeVar("Job", bound="JobArguments")
_DOCUMENTATION = "the documentation of the Python packages installed where it was trained"


@dataclass
class JobArguments:
    """Arguments that every job takes."""

    data_license: str | None = field(
        default=None, metadata={"help": "Licence of the training data, for the training metadata and the model card."}
    )
    overwrite_output_dir: bool = field(
        default=False, metadata={"help": "Write into an output folder that has another run."}
    )

    def __post_init__(self) -> None:
        check_ranges(self, _RANGES)


#: Ranges of the arguments of all jobs; losses and tokenizers check their own settings
_RANGES: Ranges = (
    (
        "vocab_size hidden_size embedding_size head_hidden idf_sentences max_train_samples k "
        "preprocessing_num_workers search_sentences label_samples task_batch_size families members length max_length "
        "lora_r",
        lambda value: value >= 1,
        "1 or more",
    ),
    ("num_layers shuffle_buffer task_seeds", lambda value: value >= 0, "0 or more"),
    (
        "mlm_weight js_weight order_seconds similarity_weight distance_weight angle_weight",
        lambda value: 0 <= value < math.inf,
        "a number that is not negative",
    ),
    ("task_epochs task_learning_rate temperature lora_alpha", lambda value: 0 < value < math.inf, "a positive number"),
    ("dropout mlm_probability lora_dropout", lambda value: 0 <= value < 1, "a number in [0, 1)"),
    ("hard_negative_weight", math.isfinite, "a finite number"),
)


@dataclass
class MatryoshkaArguments(JobArguments):
    """Arguments of jobs whose loss can be computed at several dimensions of the embedding (Matryoshka)."""

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


def with_matryoshka(loss: Mapping[str, Any], args: MatryoshkaArguments) -> dict[str, Any]:
    """The settings of a loss, or of `MatryoshkaLoss` over it if dimensions are given.

    Raises:
        InputError: weights without dimensions, or `truncate_dim` is not one of the dimensions.

    Example:
        >>> with_matryoshka({"loss": "cosent"}, MatryoshkaArguments(matryoshka_dims=[8, 4]))
        {'loss': 'matryoshka', 'inner': {'loss': 'cosent'}, 'dims': [8, 4], 'weights': None}
    """
    dims, weights, cut = args.matryoshka_dims, args.matryoshka_weights, args.truncate_dim
    if dims is None and weights is not None:
        raise InputError("--matryoshka_weights needs --matryoshka_dims; give it too")
    if cut is not None and cut not in (dims or []):
        raise InputError(
            f"--truncate_dim {cut} is none of --matryoshka_dims; its {cut} dimensions would not be trained"
        )
    if dims is None:
        return dict(loss)
    settings = {"loss": "matryoshka", "inner": dict(loss), "dims": dims, "weights": weights}
    return settings if cut is None else {**settings, "truncate_dim": cut}


@dataclass
class PromptArguments(JobArguments):
    """Arguments of jobs that put prompts before the texts of their columns."""

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


def prompt_settings(args: PromptArguments) -> dict[str, Any]:
    """The settings of a model for its prompts, as far as they are given.

    Raises:
        InputError: a prompt has no name, or two have the same name.

    Example:
        >>> prompt_settings(PromptArguments(prompts=["query=query: ", "document=passage: "]))
        {'prompts': {'query': 'query: ', 'document': 'passage: '}}
    """
    named: dict[str, str] = {}
    for given in args.prompts or []:
        name, parted, text = given.partition("=")
        if not name or not parted or name in named:
            raise InputError(f"--prompts {given!r}: give NAME=TEXT with different names, such as query='query: '")
        named[name] = text
    found: dict[str, Any] = {} if args.prompts is None else {"prompts": named}
    if args.default_prompt_name is not None:
        found["default_prompt_name"] = args.default_prompt_name
    return found if args.include_prompt is None else {**found, "include_prompt": args.include_prompt}


def prompts_of(args: PromptArguments, texts: Dataset, settings: LossConfig) -> dict[str, str]:
    """The prompt for each column of text of a data set, by the encoder's settings; they are logged.

    Raises:
        InputError: prompts are given, but none is for any column.
    """
    columns = [name for name in texts.column_names if name not in ("label", "score")]
    found = column_prompts(columns, settings.prompts, settings.default_prompt_name)
    if args.prompts and not any(found.values()):
        raise InputError(
            f"--prompts {' '.join(settings.prompts)} are for no column of {', '.join(columns)}: name them query for "
            "the first of several and document for the others, or name one with --default_prompt_name"
        )
    if any(found.values()):
        logger.info("prompts: " + ", ".join(f"{prompt!r} before {name}" for name, prompt in found.items() if prompt))
    return {name: prompt for name, prompt in found.items() if prompt}


@dataclass
class EncoderArguments(MatryoshkaArguments):
    """Arguments of jobs that may start from an encoder of transformers: LoRA and the direction of a decoder."""

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
    bidirectional: bool | None = field(
        default=None, metadata={"help": "Let a decoder attend in both directions; by default as its config says."}
    )


def with_lora(model: Any, args: EncoderArguments) -> Any:
    """The model, with a LoRA adapter if its rank is given.

    Raises:
        InputError: settings of an adapter without its rank, or as for `add_lora`.
    """
    given = {name: vars(args)[f"lora_{name}"] for name in ("alpha", "dropout", "target_modules")}
    given = {name: value for name, value in given.items() if value is not None}
    if args.lora_r is None and given:
        raise InputError(f"--lora_{next(iter(given))} is a setting of an adapter; give its rank with --lora_r")
    return model if args.lora_r is None else add_lora(model, args.lora_r, **given)


def direction(args: EncoderArguments) -> dict[str, bool]:
    """The setting `bidirectional` of a decoder, if it is given; an encoder has none."""
    return {} if args.bidirectional is None else {"bidirectional": args.bidirectional}


@dataclass
class CorpusArguments(JobArguments):
    """Arguments of jobs that read sentences in their order."""

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


def parse_job(
    kind: type[Job], argv: Sequence[str] | None, description: str, defaults: Mapping[str, Any]
) -> tuple[Job, ContrastiveTrainingArguments]:
    """Parse a command line into a job's own arguments and those of training.

    Args:
        kind: the dataclass of the job's own.
        argv: the command line; by default that of this process.
        description: description of the job, for `--help`.
        defaults: defaults that differ from those of the two dataclasses.

    Raises:
        InputError: an argument is unknown, or a value is not valid.
    """
    args, training = TrainingParser((kind, ContrastiveTrainingArguments), description=description).parse(argv, defaults)
    return args, training


def check_data(docs: bool, file: object, job: str) -> None:
    """Check that the job for files has a file, and the job for the installed documentation has none.

    Raises:
        InputError: the file is missing, or is given to the job for the documentation.
    """
    if docs and file:
        raise InputError(f"this job trains on the installed documentation; contrastive-st train {job} takes files")
    if not docs and not file:
        name = {"simcse": "docs"}.get(job, f"{job}_docs")
        raise InputError(f"{job} needs --train_file; contrastive-st train {name} trains on the installed documentation")


def say_what_happens() -> None:
    """Show the log messages of the package on the first process."""
    if is_first_process():
        logging.getLogger("contrastive_st").setLevel(logging.INFO)
        logging.basicConfig(format="%(message)s", stream=sys.stderr)


def own_folder(
    training: ContrastiveTrainingArguments, folder: str | Path, **changes: Any
) -> ContrastiveTrainingArguments:
    """The arguments of one of several trainings in a job: its own folder, and other changes."""
    own = copy.copy(training)
    for name, value in {"output_dir": str(folder), **changes}.items():
        setattr(own, name, value)
    return own


def fit_batch(training: ContrastiveTrainingArguments, rows: int, what: str = "rows") -> int:
    """Reduce the batch of a process to its share of the rows; return its size."""
    batch: int = min(training.per_device_train_batch_size, rows // max(training.world_size, 1))
    if batch < training.per_device_train_batch_size:
        logger.warning(f"only {rows} {what}: the batch size is {batch}, not {training.per_device_train_batch_size}")
        training.per_device_train_batch_size = batch
    return batch


def job_metadata(
    args: JobArguments, rows: int | None, files: str | Sequence[str] | None, licence: str | None = None
) -> dict[str, Any]:
    """`ContrastiveTrainer.metadata` of a job: its data, by name only, and its arguments that are not at their defaults.

    Args:
        args: the job's arguments; their `data_license` takes precedence over `licence`.
        rows: number of training rows; None if unknown.
        files: files or data sets of the Hub; None for the documentation of the installed packages.
        licence: the licence that the data record.
    """
    files = [files] if isinstance(files, str) else list(files or [])
    on_hub = [name for name in files if not Path(name).exists()]
    data = {"name": ", ".join(name if name in on_hub else Path(name).name for name in files) or _DOCUMENTATION}
    data["from"] = "hub" if on_hub else "files" if files else "installed packages"
    if known := args.data_license or licence:
        data["licence"] = known
    paths = [field for field in vars(args) if field.endswith("_file")]
    unsaid = (*paths, "mixture", "data_license", "overwrite_output_dir")
    return {"data": {**data, "rows": rows}, "arguments": changed_arguments(args, *unsaid)}


def small_bert(args: Any, vocab_size: int, **others: Any) -> BertConfig:
    """A BERT of `args.num_layers` and `args.hidden_size`, heads about 64 wide, for texts of `args.max_length`.

    Args:
        args: a job's arguments, with those three fields.
        vocab_size: size of its vocabulary.
        others: further settings of `BertConfig`.

    Example:
        >>> from types import SimpleNamespace
        >>> config = small_bert(SimpleNamespace(num_layers=1, hidden_size=200, max_length=48), 1000)
        >>> config.num_attention_heads, config.intermediate_size, config.max_position_embeddings
        (2, 800, 128)
    """
    width = args.hidden_size
    return BertConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        num_hidden_layers=args.num_layers,
        num_attention_heads=max(heads for heads in range(1, max(width // 64, 1) + 1) if width % heads == 0),
        intermediate_size=4 * width,
        max_position_embeddings=max(args.max_length, 128),
        attention_probs_dropout_prob=0.0,  # for the fused kernel of attention; the other dropouts are unchanged
        **others,
    )


def finish(trainer: ContrastiveTrainer, resume: str | None = None) -> dict[str, float]:
    """Train, save the encoder without its heads, and print the evaluator's figures, if any, before and after."""
    before = trainer.evaluate() if trainer.evaluator else {}
    trainer.train(resume_from_checkpoint=resume)
    if trainer.sigterm.stopped:
        return before
    after = trainer.evaluate() if trainer.evaluator else {}  # the evaluator may need the heads
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    model.drop_heads()
    trainer.save_model()
    trainer.save_state()
    if is_first_process():
        report(trainer, before, after)
    return after


def report(trainer: ContrastiveTrainer, before: dict[str, float], after: dict[str, float]) -> None:
    """Print the figures, and write them and the training curve beside the checkpoint."""
    folder = Path(trainer.args.output_dir)  # type: ignore[arg-type]
    training_curve(trainer.state.log_history, folder / "training_curve.png")
    for name, value in after.items():
        print(f"{name.removeprefix('eval_'):24} {before[name]:.3f} before, {value:.3f} after")
    results = json.dumps({"before": before, "after": after}, indent=2)
    (folder / "results.json").write_text(results + "\n", encoding="utf-8")
    print(f"checkpoint in {folder}/")


# --- Labelled rows.


def sample(rows: Dataset, count: int | None, seed: int = 0) -> Dataset:
    """A sample of the rows, drawn by the seed; all rows for None."""
    if count is None or count >= len(rows):
        return rows
    return rows.select(np.random.default_rng(seed).permutation(len(rows))[:count])


def split_by_first(pairs: Dataset) -> tuple[Dataset, Dataset, Dataset]:
    """Train, dev and test (0.8, 0.1, 0.1), by a checksum of the first text, so all its pairs are in one split.

    The NLI task of `contrastive-st evaluate` splits in the same way, so its test pairs are never trained on.
    """
    tenth = np.array([zlib.crc32(text.encode()) % 10 for text in pairs["first"][:]])
    return tuple(pairs.select(np.flatnonzero(part)) for part in (tenth > 1, tenth == 1, tenth == 0))


@torch.no_grad()
def label_accuracy(model: Any, tokenizer: Any, rows: Dataset, batch_size: int = 256) -> float:
    """Accuracy of the model's classifier on rows of `tokenize_pairs`."""
    collate, was_training, right = LabelledPairCollator(tokenizer), model.training, 0.0
    model.eval()
    for start in range(0, len(rows), batch_size):
        some = rows.select(range(start, min(start + batch_size, len(rows))))
        batch = {name: tensor.to(model.device) for name, tensor in collate(list(some)).items()}
        views = model.embed(batch["input_ids"], batch["attention_mask"])
        right += model.loss_fn.metrics(views, batch["targets"])["accuracy"] * len(some)
    model.train(was_training)
    return right / len(rows)


def measures(tokenizer: Any, **others: Callable[[Any], float]) -> Callable[[Any], dict[str, float]]:
    """An evaluator for the trainer: `others`, and Spearman of STS-B dev if CONTRASTIVE_ST_DATA has it."""
    sts = sts_evaluator(tokenizer)

    def evaluate(model: Any) -> dict[str, float]:
        return {**{name: measure(model) for name, measure in others.items()}, **(sts(model) if sts else {})}

    return evaluate
