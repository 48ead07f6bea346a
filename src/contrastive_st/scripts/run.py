"""The beginning and the end of every training script: its command line; then training, saving and the report."""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase, set_seed

from contrastive_st.data import DocPair
from contrastive_st.data.reading.sources import HUB_NAME
from contrastive_st.distributed import is_first_process
from contrastive_st.evaluation import SuiteEvaluator, sts_evaluator
from contrastive_st.evaluation.docs_search import package_task
from contrastive_st.files.cards import CURVE
from contrastive_st.files.reading import JsonObject
from contrastive_st.files.writing import write_files, write_json
from contrastive_st.models.base import ForCL
from contrastive_st.plots import training_curve_png
from contrastive_st.scripts.arguments import SuiteArguments
from contrastive_st.scripts.parser import TrainingParser
from contrastive_st.terminal import is_quiet, say
from contrastive_st.training.arguments import ContrastiveTrainingArguments
from contrastive_st.training.checkpoints import check_output_dir
from contrastive_st.training.metadata import changed_arguments
from contrastive_st.training.trainer import ContrastiveTrainer

logger = logging.getLogger(__name__)
_DOCUMENTATION = "the documentation of the Python packages installed where it was trained"


def start(kinds: Sequence[type], defaults: Mapping[str, object], argv: Sequence[str] | None = None) -> list[Any]:
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
        logging.getLogger("contrastive_st").setLevel(logging.WARNING if is_quiet() else logging.INFO)
        logging.basicConfig(format="%(message)s", stream=sys.stderr)
    else:  # all processes would say the same
        logging.getLogger("contrastive_st").setLevel(logging.ERROR)
    training.resume_from_checkpoint = check_output_dir(training, training.overwrite_output_dir)
    set_seed(training.seed)
    return parsed


def done(*values: object) -> None:
    """Print what a script has done on stdout, after `clean`; nothing with --quiet."""
    if not is_quiet():
        say(*values)


def suite_evaluator(
    tokenizer: PreTrainedTokenizerBase, args: SuiteArguments, heldout: Sequence[DocPair] = ()
) -> SuiteEvaluator | None:
    """The evaluator of the tasks; of the package of held-out pairs of the documentation if there are any.

    None if the files of the tasks are not available.
    """
    if heldout:
        return SuiteEvaluator(tokenizer, [package_task(heldout)], "hub", folds=5)
    if where := args.eval_data or os.environ.get("CONTRASTIVE_ST_DATA"):
        return SuiteEvaluator(tokenizer, args.eval_tasks, where, folds=5)
    logger.info("no evaluation: set --eval_data or CONTRASTIVE_ST_DATA to a folder with SentEval's files")
    return None


def metrics_evaluator(
    tokenizer: PreTrainedTokenizerBase, **others: Callable[[ForCL], float]
) -> Callable[[ForCL], dict[str, float]]:
    """An evaluator for the trainer: `others` by name, and Spearman of STS-B dev if CONTRASTIVE_ST_DATA has it."""
    sts = sts_evaluator(tokenizer)
    return lambda model: {name: metric(model) for name, metric in others.items()} | (sts(model) if sts else {})


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
    on_hub = [name for name in files if HUB_NAME.fullmatch(name) and not Path(name).exists()]
    names = ", ".join(name if name in on_hub else Path(name).name for name in files) or _DOCUMENTATION
    data: JsonObject = {"name": names, "from": "hub" if on_hub else "files" if files else "installed packages"}
    if terms := trainer.args.data_license or licence:
        data["licence"] = terms
    options: JsonObject = {}
    for group in groups:
        paths = [spec.name for spec in dataclasses.fields(group) if spec.name.endswith("_file")]
        options |= changed_arguments(group, *paths, "mixture")
    trainer.metadata = {"data": data, "arguments": options}


def finish(trainer: ContrastiveTrainer) -> dict[str, float]:
    """Train, save the encoder without the heads of its loss, and print the metrics before and after.

    Metrics and the training curve are written next to the checkpoint.

    Returns:
        The metrics after training.
    """
    evaluated = trainer.evaluator is not None or trainer.eval_dataset is not None
    # accelerate shards a model together with its optimizer alone, which there is in training
    before = trainer.evaluate() if evaluated and not trainer.is_fsdp_enabled else {}
    trainer.train(resume_from_checkpoint=trainer.args.resume_from_checkpoint)
    if trainer.sigterm.stopped:
        return before
    after = trainer.evaluate() if evaluated else {}  # before the heads are dropped, which it may need
    trainer.core.drop_heads()
    trainer.save_model()
    trainer.save_state()
    if is_first_process():
        report(trainer, before, after)
    return after


def report(trainer: ContrastiveTrainer, before: Mapping[str, float], after: Mapping[str, float]) -> None:
    """Print the metrics before and after training, and write them and the training curve next to the checkpoint."""
    folder = Path(str(trainer.args.output_dir))
    if curve := training_curve_png(trainer.state.log_history):
        write_files(folder, {CURVE: curve})
    for name, value in after.items():
        if name in before and not name.endswith(("epoch", "_runtime", "_per_second")):
            done(f"{name.removeprefix('eval_'):24} {before[name]:.3f} before, {value:.3f} after")
    write_json(folder / "results.json", {"before": before, "after": after})
    done(f"checkpoint in {folder}/")
