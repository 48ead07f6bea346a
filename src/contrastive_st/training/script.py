"""What every training script does: read its command line, open its encoder, and at the end train, save and report.

The scripts are in `examples/` (`run_simcse.py`, ...), and `contrastive-st train NAME` runs them.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
from datasets import Dataset
from transformers import BertConfig, PreTrainedConfig, set_seed

from contrastive_st import data
from contrastive_st.data import (
    DocPair,
    check_max_length,
    installed_docs,
    pairs_of_labels,
    read_examples,
    read_template,
    split_pairs,
    split_rows,
    tokenize,
    train_wordpiece,
    with_template,
)
from contrastive_st.data.docs_sets import texts_of, write_docs_corpus
from contrastive_st.data.roles import KINDS, ColumnRoles
from contrastive_st.distributed import is_first_process
from contrastive_st.errors import InputError
from contrastive_st.evaluation import SuiteEvaluator, sts_evaluator
from contrastive_st.evaluation.docs_search import package_task
from contrastive_st.hub.metadata import changed_arguments
from contrastive_st.models import AutoModelForCL, BertForCL
from contrastive_st.models.adapters import add_lora
from contrastive_st.models.checkpoint import family, load_config, load_tokenizer
from contrastive_st.models.configuration import max_positions
from contrastive_st.models.default import folder_or_name
from contrastive_st.models.recorded import read_recorded
from contrastive_st.plots import training_curve
from contrastive_st.safety.repositories import ENCODER, local_folder
from contrastive_st.tokens import column_prompts, token_ids
from contrastive_st.training.arguments import (
    ContrastiveTrainingArguments,
    DataArguments,
    EncoderArguments,
    SuiteArguments,
    TrainingParser,
    ValidationArguments,
)
from contrastive_st.training.checkpoints import check_output_dir
from contrastive_st.training.trainer import ContrastiveTrainer

logger = logging.getLogger(__name__)
_DOCUMENTATION = "the documentation of the Python packages installed where it was trained"
_FROM_SCRATCH = 128  # longest text of an encoder from scratch, in tokens
_DROPOUTS = (
    "hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout", "mlp_dropout",
    "embedding_dropout",
)  # fmt: skip


def start(kinds: Sequence[Any], defaults: Mapping[str, Any], argv: Sequence[str] | None = None) -> list[Any]:
    """Parse the command line of a script, set the seed, and check its output folder.

    Args:
        kinds: the groups of options; the last is `ContrastiveTrainingArguments`, whose `resume_from_checkpoint`
            afterwards is the folder to resume from, or None.
        defaults: defaults that differ from those of the groups.
        argv: the command line; by default that of this process.

    Returns:
        An instance of each group.

    Raises:
        InputError: an argument is unknown or not valid, or the output folder has another run.
    """
    main = sys.modules["__main__"]
    parsed = TrainingParser(kinds, description=(main.__doc__ or "").strip().split("\n\n")[0]).parse(argv, defaults)
    training: ContrastiveTrainingArguments = parsed[-1]
    if is_first_process():
        logging.getLogger("contrastive_st").setLevel(logging.INFO)
        logging.basicConfig(format="%(message)s", stream=sys.stderr)
    training.resume_from_checkpoint = check_output_dir(training, training.overwrite_output_dir)
    set_seed(training.seed)
    return parsed


# --- The encoder.


def recorded_pooling(args: EncoderArguments) -> str | None:
    """The pooling that is asked for, or that the encoder to start from records; None for a new one, or a plain BERT."""
    if args.pooling is not None or args.model_name_or_path is None:
        return args.pooling
    name = folder_or_name(args.model_name_or_path)
    return read_recorded(local_folder(name, patterns=ENCODER)).pooling


def no_prompts(args: EncoderArguments, what: str) -> dict[str, Any]:
    """Settings for `open_encoder` of a method that reads texts without prompts, by an encoder of transformers.

    Args:
        args: which encoder.
        what: the name of the method, for the error.

    Raises:
        InputError: prompts are given, or the encoder is none of transformers.

    Example:
        >>> no_prompts(EncoderArguments(prompts=["query=query: "]), "TSDAE")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: TSDAE does not work with prompts; leave out --prompts and its flags
    """
    if (args.prompts, args.default_prompt_name, args.include_prompt) != (None, None, None):
        raise InputError(f"{what} does not work with prompts; leave out --prompts and its flags")
    name = args.model_name_or_path
    kind = None if name is None else family(load_config(name).model_type)
    if kind is not None and not hasattr(kind, "projection"):
        raise InputError(f"{name} is not a transformer, which {what} needs; choose another model")
    return {"prompts": {}, "include_prompt": True}


def open_encoder(
    args: EncoderArguments,
    texts: Iterable[str],
    resume: str | None = None,
    pooling: str | None = None,
    template: str | None = None,
    **settings: Any,
) -> tuple[Any, Any]:
    """The encoder to train and its tokenizer: a given checkpoint, or a small BERT whose vocabulary is of the texts.

    Args:
        args: which encoder, or the size of a new one.
        texts: the training texts, for the vocabulary of a new encoder.
        resume: the checkpoint that the run resumes from, whose tokenizer is used in place of a new one.
        pooling: that of an encoder that records none; without it a new one has `mean`, and a given one is refused.
        template: put around every text, which is embedded at its [MASK] (PromptBERT).
        settings: settings of the model, such as those of its loss.

    Raises:
        InputError: the checkpoint cannot be opened, or an option does not go with it.
    """
    settings |= {} if args.pooling is None else {"pooling": args.pooling}
    settings |= {} if args.named_prompts is None else {"prompts": args.named_prompts}
    for name in ("default_prompt_name", "include_prompt"):
        settings |= {} if getattr(args, name) is None else {name: getattr(args, name)}
    if args.model_name_or_path is None:
        length = check_max_length(args.max_length or _FROM_SCRATCH, 512)
        words = chain(texts, *[(args.named_prompts or {}).values()] * 2)  # what occurs once is left out
        tokenizer: Any = load_tokenizer(resume) if resume else train_wordpiece(words, args.vocab_size, length)
        settings |= _template_settings(template, tokenizer)
        config = with_dropout(small_bert(len(tokenizer), args.hidden_size, args.num_layers, length), args.dropout)
        model: Any = BertForCL(config, **{"pooling": pooling or "mean", **settings})
    else:
        if pooling is not None and recorded_pooling(args) is None:
            settings["pooling"] = pooling
        config = with_dropout(load_config(args.model_name_or_path), args.dropout)
        for name in ("new_head", "bidirectional"):
            settings |= {} if getattr(args, name) is None else {name: getattr(args, name)}
        tokenizer = load_tokenizer(args.model_name_or_path)
        settings |= _template_settings(template, tokenizer)
        model = AutoModelForCL.from_pretrained(args.model_name_or_path, config=config, with_head=True, **settings)
        if args.max_length is not None:
            tokenizer.model_max_length = check_max_length(args.max_length, max_positions(model.config))
    if template is not None:
        tokenizer = with_template(tokenizer, read_template(template, tokenizer), tokenizer.model_max_length)
    lora = args.lora
    return model if args.lora_r is None else add_lora(model, args.lora_r, **lora), tokenizer


def _template_settings(template: str | None, tokenizer: Any) -> dict[str, Any]:
    return {} if template is None else {"pooling": "mask", "template": read_template(template, tokenizer).shape}


def every_text(rows: Dataset) -> Iterable[str]:
    """The texts of all columns of text, one column after the other."""
    columns = [name for name, feature in rows.features.items() if feature.dtype in ("string", "large_string")]
    return (text for name in columns for batch in rows.iter(10_000) for text in batch[name])


def small_bert(vocab_size: int, hidden_size: int, num_layers: int, max_length: int, **others: Any) -> BertConfig:
    """A BERT with heads about 64 wide, for texts of `max_length` tokens.

    Args:
        vocab_size: size of its vocabulary.
        hidden_size: width.
        num_layers: number of layers.
        max_length: longest text, in tokens.
        others: further settings of `BertConfig`.

    Example:
        >>> config = small_bert(1000, hidden_size=200, num_layers=1, max_length=48)
        >>> config.num_attention_heads, config.intermediate_size, config.max_position_embeddings
        (2, 800, 128)
    """
    return BertConfig(
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=max(n for n in range(1, max(hidden_size // 64, 1) + 1) if hidden_size % n == 0),
        intermediate_size=4 * hidden_size,
        max_position_embeddings=max(max_length, 128),
        attention_probs_dropout_prob=0.0,  # for the fused kernel of attention; the other dropouts are unchanged
        **others,
    )


def with_dropout(config: PreTrainedConfig, probability: float | None) -> PreTrainedConfig:
    """`config` with every dropout of the encoder set to `probability`; unchanged for None."""
    for name in _DROPOUTS:
        if probability is not None and hasattr(config, name):
            setattr(config, name, probability)
    return config


# --- Rows.


class Rows(NamedTuple):
    """Rows of text to train on and to validate on.

    Attributes:
        texts: a column for each view, then the score or the label.
        kind: the kind of the rows, a key of `contrastive_st.data.roles.KINDS`.
        held_out: validation rows, or None.
        held_out_kind: their kind, which may be another.
    """

    texts: Dataset
    kind: str
    held_out: Dataset | None = None
    held_out_kind: str | None = None

    @property
    def collator(self) -> Any:
        """The class of the collator that suits the rows."""
        return getattr(data, KINDS[self.kind].collator)


def read_rows(
    args: DataArguments,
    validation: ValidationArguments,
    training: ContrastiveTrainingArguments,
    kinds: Sequence[str] = (),
) -> Rows:
    """Read the training file, and the validation file or a share of the rows to validate on; prints what they are.

    Texts with a class become pairs with a score (`pairs_of_labels`). With validation rows the run is evaluated
    regularly and keeps the best checkpoint.

    Args:
        args: which file, and which of its columns.
        validation: where the validation rows come from.
        training: its seed draws rows; `evaluate_regularly` is called if there are validation rows.
        kinds: the kinds of rows that the script trains; by default any.

    Raises:
        InputError: there is no file, or its rows are of another kind.
    """
    if args.train_file is None:
        raise InputError("give --train_file, a file or a data set of the Hub")
    texts, roles = _read(args.train_file, args)
    if kinds and roles.kind not in kinds:
        wanted = "; ".join(KINDS[kind].words for kind in kinds)
        raise InputError(
            f"{args.train_file} holds {roles.words}, and this script trains {wanted}; name columns with --columns "
            f"{' '.join(roles.texts)}, or run contrastive-st train --train_file, which trains every kind"
        )
    texts = texts.take(min(args.max_train_samples or len(texts), len(texts)))
    held_out, held_out_kind = None, roles.kind
    if validation.validation_file is not None:
        held_out, own = _read(validation.validation_file, args)
        held_out_kind = own.kind
    elif validation.validation_split is not None:
        texts, held_out = split_rows(texts, validation.validation_split, training.seed)
    if held_out is not None:
        training.evaluate_regularly()
    parts = []
    for part, kind in ((texts, roles.kind), (held_out, held_out_kind)):
        labelled = part is not None and kind == "labelled_texts"
        parts.append(pairs_of_labels(part, training.seed) if labelled else part)
    return Rows(parts[0], roles.kind, parts[1], held_out_kind)


def _read(file: str, args: DataArguments) -> tuple[Dataset, ColumnRoles]:
    scale: Any = args.score_scale and tuple(args.score_scale)
    texts, roles = read_examples(file, args.columns, strict=args.strict, scale=scale)
    if is_first_process():
        print(roles)
    return texts, roles


def documentation_rows() -> Rows:
    """Paragraphs of the documentation of the installed Python packages: the texts of a script without a file."""
    return Rows(texts_of(split_pairs(installed_docs(), 1000)[0]).select_columns(["text"]), "texts")


def validation_parts(rows: Rows, model: Any, tokenizer: Any, training: ContrastiveTrainingArguments) -> dict[str, Any]:
    """The arguments of `ContrastiveTrainer` for the validation rows; none without them.

    Rows of the kind that is trained have a loss and a measure; rows of another kind, such as scored pairs beside texts,
    have a collator of their own and the measure alone.
    """
    if rows.held_out is None:
        return {}
    found = {"eval_dataset": tokenized(rows.held_out, model, tokenizer, training)}
    if rows.held_out_kind != rows.kind:
        found["eval_collator"] = getattr(data, KINDS[str(rows.held_out_kind)].collator)(tokenizer)
    return found


def tokenized(
    texts: Dataset, model: Any, tokenizer: Any, training: ContrastiveTrainingArguments, num_proc: int | None = None
) -> Dataset:
    """The rows of `contrastive_st.data.tokenize`, each text with the prompt of its column; says how many are truncated.

    Args:
        texts: columns of text, with columns of numbers beside them.
        model: its prompts are put before the texts.
        tokenizer: texts are truncated to its `model_max_length`.
        training: the first process tokenizes, the others read what it cached.
        num_proc: processes that tokenize.
    """
    columns = [name for name in texts.column_names if name not in ("label", "score")]
    own, longest = model.settings, tokenizer.model_max_length
    prompts = column_prompts(columns, own.prompts, own.default_prompt_name)
    if any(own.prompts.values()) and not any(prompts.values()):
        raise InputError(
            f"the prompts {' '.join(own.prompts)} are for no column of {', '.join(columns)}: name them query for the "
            "first of several and document for the others, or name one with --default_prompt_name"
        )
    if any(prompts.values()):
        logger.info("prompts: " + ", ".join(f"{prompt!r} before {name}" for name, prompt in prompts.items() if prompt))
    with training.main_process_first(desc="tokenize"):
        rows = tokenize(texts, tokenizer, longest, num_proc, {name: text for name, text in prompts.items() if text})
    if count := _truncated(texts, rows, tokenizer, [prompts.get(name, "") for name in columns]):
        total = len(rows) * len(columns)
        logger.warning(f"{count:,} of {total:,} texts are truncated to {longest} tokens; --max_length sets the limit")
    return rows


def _truncated(texts: Dataset, rows: Dataset, tokenizer: Any, prompts: Sequence[str]) -> int:
    """How many texts have more tokens than the tokenizer's `model_max_length`; those that fill it are read again."""
    longest = tokenizer.model_max_length
    ids = rows.with_format("arrow")["input_ids"][:]
    ids = pc.list_flatten(ids) if len(prompts) > 1 else ids
    full = np.flatnonzero(pc.greater_equal(pc.list_value_length(ids), min(longest, 1 << 30)).to_numpy())
    if not len(full):
        return 0
    columns = [name for name in texts.column_names if name not in ("label", "score")]
    count = 0
    for i, (name, prompt) in enumerate(zip(columns, prompts, strict=True)):
        own = texts.select(full[full % len(columns) == i] // len(columns))[name]
        count += sum(len(row) > longest for row in token_ids(tokenizer, [prompt + text for text in own], longest + 1))
    return count


def check_window(training: ContrastiveTrainingArguments, corpus: Any, context_size: int = 1) -> None:
    """Check that a batch of consecutive sentences holds a sentence and its neighbours on one side.

    Raises:
        InputError: it does not, or the corpus is too small for it.
    """
    batch = min(training.per_device_train_batch_size, len(corpus) // max(training.world_size, 1))
    if batch <= context_size:
        raise InputError(
            f"a batch of {batch} sentences, of {len(corpus)} in the corpus, is smaller than a window of {context_size} "
            "and the sentence itself; give more sentences, a larger --per_device_train_batch_size, or a smaller window"
        )


def corpus_files(
    files: Sequence[str] | None, training: ContrastiveTrainingArguments
) -> tuple[list[str], Sequence[DocPair]]:
    """The files of sentences in order, by default the installed documentation, and its pairs that are held out."""
    if files:
        return list(files), []
    path = Path(str(training.output_dir), "corpus.txt")
    with training.main_process_first(desc="read the documentation"):
        heldout = write_docs_corpus(path)
    return [str(path)], heldout


# --- Evaluation.


def suite_evaluator(tokenizer: Any, args: SuiteArguments, heldout: Sequence[DocPair] = ()) -> SuiteEvaluator | None:
    """The evaluator of the tasks; of the package of held-out pairs of the documentation if there are any.

    None if the files of the tasks are not at hand.
    """
    if heldout:
        return SuiteEvaluator(tokenizer, [package_task(heldout)], "hub", folds=5)
    if where := args.eval_data or os.environ.get("CONTRASTIVE_ST_DATA"):
        return SuiteEvaluator(tokenizer, args.eval_tasks, where, folds=5)
    logger.info("no evaluation: set --eval_data or CONTRASTIVE_ST_DATA to a folder with SentEval's files")
    return None


def measures(tokenizer: Any, **others: Callable[[Any], float]) -> Callable[[Any], dict[str, float]]:
    """An evaluator for the trainer: `others` by name, and Spearman of STS-B dev if CONTRASTIVE_ST_DATA has it."""
    sts = sts_evaluator(tokenizer)
    return lambda model: {name: measure(model) for name, measure in others.items()} | (sts(model) if sts else {})


# --- The end.


def describe_data(
    trainer: ContrastiveTrainer, files: str | Sequence[str] | None, *groups: Any, licence: str = ""
) -> None:
    """Record the data of a run, by name only, and the options that differ from their defaults, for the model card.

    Args:
        trainer: its `metadata` is written.
        files: files or data sets of the Hub; None for the documentation of the installed packages.
        groups: the groups of options of the script, without those of training.
        licence: the licence that the data record.
    """
    files = [files] if isinstance(files, str) else list(files or [])
    on_hub = [name for name in files if not Path(name).exists()]
    data = {"name": ", ".join(name if name in on_hub else Path(name).name for name in files) or _DOCUMENTATION}
    data["from"] = "hub" if on_hub else "files" if files else "installed packages"
    if known := trainer.args.data_license or licence:
        data["licence"] = known
    rows: Any = trainer.train_dataset
    rows = None if getattr(rows, "endless", False) or not hasattr(rows, "__len__") else len(rows)
    options: dict[str, Any] = {}
    for group in groups:
        paths = [spec.name for spec in dataclasses.fields(group) if spec.name.endswith("_file")]
        options |= changed_arguments(group, *paths, "mixture")
    trainer.metadata = {"data": {**data, "rows": rows}, "arguments": options}


def finish(trainer: ContrastiveTrainer) -> dict[str, float]:
    """Train, save the encoder without the heads of its loss, and print the figures before and after.

    Figures and the training curve are written beside the checkpoint. Returns the figures after training.
    """
    judged = trainer.evaluator is not None or trainer.eval_dataset is not None
    before = trainer.evaluate() if judged else {}
    trainer.train(resume_from_checkpoint=trainer.args.resume_from_checkpoint)
    if trainer.sigterm.stopped:
        return before
    after = trainer.evaluate() if judged else {}  # before the heads are dropped, which it may need
    trainer.accelerator.unwrap_model(trainer.model).drop_heads()
    trainer.save_model()
    trainer.save_state()
    if is_first_process():
        report(trainer, before, after)
    return after


def report(trainer: ContrastiveTrainer, before: Mapping[str, float], after: Mapping[str, float]) -> None:
    """Print the figures before and after training, and write them and the training curve beside the checkpoint."""
    folder = Path(str(trainer.args.output_dir))
    training_curve(trainer.state.log_history, folder / "training_curve.png")
    for name, value in after.items():
        if name in before and not name.endswith(("epoch", "_runtime", "_per_second", "_preparation_time")):
            print(f"{name.removeprefix('eval_'):24} {before[name]:.3f} before, {value:.3f} after")
    results = json.dumps({"before": before, "after": after}, indent=2)
    (folder / "results.json").write_text(results + "\n", encoding="utf-8")
    print(f"checkpoint in {folder}/")
