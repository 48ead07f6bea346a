"""Checkpoints of a run: they are written atomically, and checked before a run resumes from one.

    save     every process writes into a hidden folder; one process fsyncs it and renames it to `checkpoint-N`;
             so is the model at the end, whose files take the places of those in the output folder
    begin    checkpoints that the run does not go on from, such as those of another run, go to `checkpoints.old`
    resume   from the newest complete checkpoint; one that is damaged, lacks weights, has pickled ones, or is of another
             run (`resumable.py`) is refused with an error of one line; a finished run ends at once

Only one training at a time may write into an output folder.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader
from transformers import (
    EarlyStoppingCallback,
    PreTrainedTokenizerBase,
    SchedulerType,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_utils import TrainOutput, rotate_checkpoints

from contrastive_st.distributed import any_process, from_first, is_first_process
from contrastive_st.errors import InputError, about, first_line, one_line
from contrastive_st.files.cards import STATE
from contrastive_st.files.folders import ADAPTER_WEIGHTS, TRAINED
from contrastive_st.files.reading import JsonObject, digest_of_file, read_json
from contrastive_st.files.writing import SAVING, atomic_write, locked, replace_model, write_errors, write_json
from contrastive_st.models.adapters import has_adapter
from contrastive_st.models.base import ForCL
from contrastive_st.models.checkpoint import most_tokens
from contrastive_st.models.encoder import SentenceEncoder
from contrastive_st.models.read_back import check_read_back
from contrastive_st.models.saving import write_tensors, write_tokenizer
from contrastive_st.models.wrapped import EncoderForCL, own_module
from contrastive_st.options import checked
from contrastive_st.training.arguments import ContrastiveTrainingArguments
from contrastive_st.training.order import leave_sigterm
from contrastive_st.training.resumable import differences, fingerprint, settings_record
from contrastive_st.training.stopping import StopOnSigterm

if TYPE_CHECKING:
    from optuna import Trial

logger = logging.getLogger(__name__)
RUN, _OLD = "resumable_run.json", "checkpoints.old"
_LOCK = ".training.lock"
_BEFORE = ("runs", _LOCK)  # what a run leaves that did not begin: logs of TensorBoard, and the lock if it was killed
_STATES = ("optimizer.pt", "scheduler.pt")
_SUMS = "checksums.json"  # of the files below; optimizer.pt, an archive twice as large as the weights, has its own
_SUMMED = (STATE, "*.safetensors", "rng_state*.pth", "scheduler.pt")
_ASKED = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_NO_CHECKPOINT = ("none was saved yet", "none is complete")
_HYPER = ("initial_lr", "weight_decay", "betas", "eps")  # of a group of weights; the rate follows from the schedule
_RATES = ("learning_rate", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon")


class TrainingDiverged(InputError):
    """The loss or a weight became NaN or infinite; the weights on disk are those of the last good checkpoint."""


class CheckpointTrainer(Trainer):
    """The Trainer of transformers, with checkpoints that are written atomically and checked before a run resumes.

    Args:
        args, kwargs: as for `transformers.Trainer`.

    Attributes:
        beside_model: functions that write further files into the folder of a model, wherever one is saved.
        beside_state: the same for checkpoints alone.
        resumed_from: the checkpoint that the run goes on from.
        finished_before: the run that is resumed was finished.
        sigterm: on SIGTERM it ends the run with a checkpoint; `sigterm.stopped` says that it did.
        run_settings: the settings that the run computes with (`settings_record`), from when it began; before, none.
    """

    model: nn.Module
    args: ContrastiveTrainingArguments
    hub_model_id: Any
    push_in_progress: Any
    metadata: dict[str, dict[str, object]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.beside_model: list[Callable[[Path], None]] = []
        self.beside_state: list[Callable[[Path], None]] = [
            self._write_trained,
            lambda folder: write_json(folder / RUN, self.run_record()),
        ]
        self._run_folder: str | None = None  # the output folder, while a checkpoint is written elsewhere
        self.resumed_from: str | None = None
        self.run_settings: JsonObject = {}
        self.finished_before, self._epochs = False, 0
        self._asked: tuple[list[JsonObject], list[float]] = [], []  # settings of the optimizer, as its run asks
        self._opening = contextlib.ExitStack()
        super().__init__(*args, **kwargs)
        self._given_optimizer = self.optimizer
        self.sigterm = StopOnSigterm()
        for callback in (_BeginCallback(self), self.sigterm):
            self.add_callback(callback)

    @property
    def core(self) -> ForCL:
        """The model without what accelerate has wrapped around it."""
        core: ForCL = self.accelerator.unwrap_model(self.model)
        return core

    def get_train_dataloader(self) -> DataLoader[object]:
        """As in `transformers.Trainer`; its workers leave SIGTERM to this process, which saves a checkpoint."""
        return leave_sigterm(super().get_train_dataloader())

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Trial | JsonObject | None = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        """As `transformers.Trainer.train`; `True` resumes from the newest complete checkpoint.

        Raises:
            InputError: another training writes into the folder, or the run cannot resume from the checkpoint.
        """
        folder = Path(str(self.args.output_dir))
        self.finished_before = False
        self.run_settings = settings_record(self, self._given_optimizer)
        with self.sigterm, _only_training(folder), contextlib.ExitStack() as self._opening:
            checkpoint = self.resumed_from = from_first(lambda: self._to_resume_from(folder, resume_from_checkpoint))
            base = self.core.name_or_path if has_adapter(self.core) else None
            from_first(lambda: _put_aside(Path(self._get_output_dir(trial)), checkpoint, base))
            self._opening.enter_context(_kept_padding(self.core, self.processing_class))
            if checkpoint is not None:  # until training begins, errors are those of its files
                self._opening.enter_context(about(checkpoint))
            try:
                return super().train(checkpoint, trial, ignore_keys_for_eval)
            except KeyboardInterrupt as error:
                newest = last_good(str(folder))
                more = "" if newest in _NO_CHECKPOINT else "; continue with --resume_from_checkpoint true"
                step = self.state.global_step
                raise KeyboardInterrupt(f"interrupted at step {step}; the newest checkpoint: {newest}{more}") from error

    def _to_resume_from(self, folder: Path, asked: str | bool | None) -> str | None:
        checkpoint = asked_checkpoint(folder, asked)
        if checkpoint is None:
            earlier = any(path for kind in ("checkpoint-*", "*.safetensors") for path in folder.glob(kind))
            if earlier and not (self.args.overwrite_output_dir or self.state.global_step):
                logger.warning(
                    f"{folder} holds another run, which this one overwrites; to keep it, choose another output_dir. "
                    "With overwrite_output_dir=True there is no such warning"
                )
            return None
        _check_names(checkpoint, self.core)
        changes = changed_run(checkpoint, self.run_record())
        whose = f"{checkpoint} cannot be resumed unchanged: {'; '.join(changes)}"
        if changes and not self.args.allow_changed_resume:
            raise InputError(f"{whose}. Give --allow_changed_resume true to resume anyway")
        if self._is_new_in(str(checkpoint), ["optim"]) and any(checkpoint.glob("optimizer*")):
            raise InputError(f"{whose}. Its state of another optimizer is useless; start a new run from its weights")
        return str(checkpoint)

    def run_record(self) -> JsonObject:
        """What the run computes, which must be the same in a resumed run; data is read when it is first asked for."""
        if "data" not in self.run_settings:
            self.run_settings["data"] = fingerprint(self.train_dataset)
        return self.run_settings

    def set_initial_training_values(self, args: TrainingArguments, dataloader: DataLoader[object]) -> tuple[Any, ...]:
        """As in transformers, but a finished run that is resumed has no epoch left."""
        self._epochs, *result = super().set_initial_training_values(args, dataloader)
        if self.resumed_from is not None:  # it took its last step, or had stopped because it did not get better
            state = TrainerState.load_from_json(str(Path(self.resumed_from, STATE)))
            self._restore_callbacks(state)
            waited = any(
                isinstance(callback, EarlyStoppingCallback)
                and callback.early_stopping_patience_counter >= callback.early_stopping_patience
                for callback in self.callback_handler.callbacks
            )
            self.finished_before = state.global_step >= result[-1] or (waited and state.global_step > 0)
        return (0 if self.finished_before else self._epochs, *result)

    def _restore_callbacks(self, state: TrainerState) -> None:
        """Give the callbacks of this run the attributes that those of the checkpoint had.

        With `restore_callback_states_from_checkpoint` transformers makes new ones, with the arguments that they had.
        """
        held: Any = state.stateful_callbacks or {}
        for name, states in held.items():
            states = states if isinstance(states, list) else [states]
            callbacks = [one for one in self.callback_handler.callbacks if type(one).__name__ == name]
            last = states[len(states) - len(callbacks) :]  # transformers adds those of each checkpoint to a list
            for callback, kept in zip(callbacks, last, strict=False):
                vars(callback).update(kept["attributes"])

    def begin(self) -> None:
        """What is left to do when everything is loaded, before the first step."""
        self._opening.pop_all().close()
        done = f"step {self.state.global_step} of {self.state.max_steps}"
        if self.finished_before:
            self.state.num_train_epochs = self._epochs
            logger.warning(f"the run is finished ({done}); its weights are unchanged")
        elif self.resumed_from is not None:
            if is_first_process():
                logger.info(f"resumes from {self.resumed_from}, {done}")
            if self._is_new_in(self.resumed_from, _RATES):
                # Continue with the rate, weight decay and betas of the arguments, not with those in the checkpoint.
                optimizer, scheduler, (asked, rates) = cast("Optimizer", self.optimizer), self.lr_scheduler, self._asked
                for group, values in zip(optimizer.param_groups, asked, strict=True):
                    group.update(values)
                if isinstance(scheduler, LambdaLR):  # the schedules of transformers; others set the rates themselves
                    scheduler.base_lrs = [*rates]
                    factors = [share(scheduler.last_epoch) for share in scheduler.lr_lambdas]
                    scheduler._last_lr = [rate * factor for rate, factor in zip(rates, factors, strict=True)]
                    for group, rate in zip(optimizer.param_groups, scheduler._last_lr, strict=True):
                        group["lr"] = rate

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """As in transformers, but a finished run that is resumed logs no mean loss."""
        early = any(
            isinstance(callback, EarlyStoppingCallback)
            and callback.early_stopping_patience_counter >= callback.early_stopping_patience
            for callback in self.callback_handler.callbacks
        )
        short = self.state.global_step < self.state.max_steps and not early
        if self.is_in_train and "train_loss" in logs and short:
            # It was stopped and can go on from its last checkpoint, of which transformers would now keep the best alone
            # if save_total_limit is 1.
            self._opening.enter_context(changed(self, save_total_limit=None))
        if not (self.finished_before and "train_loss" in logs):  # the mean of no steps
            super().log(logs, start_time)

    # ------------------------------------------------------------------ saving

    def check_weights(self) -> None:
        """Raise an error if a weight is not finite, before saving; a collective call if weights are sharded.

        Raises:
            TrainingDiverged: a weight is NaN or infinite.
        """
        parts = ((name, getattr(x, "to_local", lambda x=x: x)()) for name, x in self.model.named_parameters())  # shards
        bad = next((name for name, weight in parts if not bool(torch.isfinite(weight.detach()).all())), None)
        if any_process(bad is not None) if self.is_fsdp_enabled else bad is not None:
            raise TrainingDiverged(
                f"the weights ({bad or 'of another process'}) are NaN or infinite at step {self.state.global_step}: "
                "nothing was saved. Lower the learning rate; the last good checkpoint is "
                f"{last_good(self._run_folder or str(self.args.output_dir))}"
            )

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """As in transformers; a model outside of a checkpoint takes the place of the one before at once."""
        self.check_weights()
        folder, run = output_dir or str(self.args.output_dir), self._run_folder or self.args.output_dir
        replaced = self.args.should_save and self._run_folder is None and not self.is_deepspeed_enabled
        with _save_errors(folder), contextlib.ExitStack() as stack:
            stack.enter_context(changed(self, output_dir=run, hub_token=None))  # as they are saved with the model
            path = stack.enter_context(replace_model(folder)) if replaced else Path(folder)
            super().save_model(str(path), True)
            saved = self.core
            tokenizer: Any = self.processing_class or getattr(self.data_collator, "tokenizer", None)
            if self.args.should_save and isinstance(tokenizer, PreTrainedTokenizerBase):
                write_tokenizer(tokenizer, path, getattr(saved, "takes_types", True))
                if getattr(saved, "is_table", False):
                    saved.write_max_length(path, most_tokens(tokenizer.model_max_length, saved.config))
            for write in self.beside_model:
                write(path)
            if replaced and Path(folder) == Path(str(run)):  # or that of a former run would be put aside
                self.state.save_to_json(str(path / STATE))
            if replaced and isinstance(tokenizer, PreTrainedTokenizerBase):
                encoder = SentenceEncoder(own_module(saved), tokenizer, name=folder)
                check_read_back(encoder, path, vectors=not self.is_fsdp_enabled)
        if self.args.push_to_hub and not _internal_call:
            self.push_to_hub(commit_message="Model save", revision=self.args.hub_revision)

    def _save_checkpoint(self, model: nn.Module, trial: Trial | JsonObject | None) -> None:
        """As in transformers; the checkpoint is written under a hidden name and appears whole. Then it is pushed."""
        folder, name = Path(str(self.args.output_dir)), f"checkpoint-{self.state.global_step}"
        scratch, self._run_folder = folder / SAVING, str(folder)
        if self.args.should_save:
            # Delete what a run that was killed while saving has left in its folder, or in that of a trial.
            hidden = [path for pattern in (".*.tmp", "*/.*.tmp") for path in folder.glob(pattern) if path.is_dir()]
            of_runs = [path for path in hidden if all(x.name.startswith("checkpoint-") for x in path.iterdir())]
            for left in (scratch, *of_runs):
                shutil.rmtree(left, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        core = self.core
        dtype, core.save_dtype = getattr(core, "save_dtype", None), None  # a run resumes from the type of training
        try:
            with _save_errors(folder / name), changed(self, output_dir=str(scratch), push_to_hub=False):
                super()._save_checkpoint(model, trial)
        finally:
            self._run_folder, core.save_dtype = None, dtype
        self.accelerator.wait_for_everyone()
        written = next(scratch.rglob(name), scratch / name)
        run = folder / written.parent.relative_to(scratch)  # each trial of a search has its folder
        best = run / f"checkpoint-{self.state.best_global_step}"
        if self.state.best_global_step and (best.name == name or best.is_dir()):
            self.state.best_model_checkpoint = str(best)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            self.state.save_to_json(str(written / STATE))
            for write in self.beside_state:
                write(written)
            sums = {path.name: digest_of_file(path) for kind in _SUMMED for path in sorted(written.glob(kind))}
            write_json(written / _SUMS, sums)
            with atomic_write(run / name, overwrite=True, parents=True) as temporary:
                os.rename(written, temporary)
            shutil.rmtree(scratch, ignore_errors=True)
            rotate_checkpoints(str(run), self.args.save_total_limit, self.state.best_model_checkpoint)
        self.accelerator.wait_for_everyone()
        if self.args.push_to_hub:
            self.push_checkpoint(run / name)

    def push_checkpoint(self, checkpoint: Path) -> None:
        """Push what `hub_strategy` says of a checkpoint."""
        self._push_from_checkpoint(str(checkpoint))

    def _write_trained(self, checkpoint: Path) -> None:
        """Write all trained weights of a model with an adapter or of a user's module, including heads."""
        model = self.core
        if isinstance(model, EncoderForCL):
            write_tensors(model.trained_state(), checkpoint / TRAINED)
        elif has_adapter(model) and not self.is_fsdp_enabled:  # FSDP shards have them all
            weights = {name: weight.detach().cpu() for name, weight in _trained(model).items()}
            write_tensors(weights, checkpoint / TRAINED)

    # ------------------------------------------------------------------ resuming

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        if not self._load_trained(resume_from_checkpoint):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_best_model(self) -> None:
        if not self._load_trained(str(self.state.best_model_checkpoint)):
            super()._load_best_model()

    def _load_trained(self, checkpoint: str) -> bool:
        """Load the weights that `_write_trained` wrote; False if there are none."""
        path = Path(checkpoint, TRAINED)
        if not path.is_file():
            return False
        model = self.core
        if isinstance(model, EncoderForCL):
            model.load_trained_state(load_file(path))
            return True
        weights, current = load_file(path), _trained(model)
        if strange := sorted(weights.keys() ^ current.keys()):
            raise InputError(f"{checkpoint} was trained with another adapter: only one of the two has {strange[0]}")
        model.load_state_dict(weights, strict=False)
        return True

    def create_scheduler(self, *args: Any, **kwargs: Any) -> Any:
        """As in transformers; errors name the options, and the rates of this run are kept, for a resumed run."""
        kind, options = SchedulerType(self.args.lr_scheduler_type).value, self.args.lr_scheduler_kwargs
        with about(f"lr_scheduler_type {kind}, lr_scheduler_kwargs {options}"):
            scheduler = super().create_scheduler(*args, **kwargs)
        groups = getattr(self.optimizer, "param_groups", [])  # before those of a checkpoint are loaded
        asked = [{name: value for name, value in group.items() if name in _HYPER} for group in groups]
        self._asked = asked, list(getattr(scheduler, "base_lrs", []))
        return scheduler

    def _is_new_in(self, checkpoint: str, names: Sequence[str]) -> bool:
        """Whether one of these settings is another than that of the run that wrote the checkpoint."""
        path = Path(checkpoint, RUN)
        before = read_json(path, dict) if path.is_file() else {}
        return any(name in before and before[name] != self.run_settings[name] for name in names)


@contextlib.contextmanager
def changed(trainer: Trainer, **changes: object) -> Iterator[None]:
    """A context in which a trainer has other arguments."""
    before, trainer.args = trainer.args, copy.copy(trainer.args)
    vars(trainer.args).update(changes)
    try:
        yield
    finally:
        trainer.args = before


class _BeginCallback(TrainerCallback):
    def __init__(self, trainer: CheckpointTrainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: object, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        self.trainer.begin()


@contextlib.contextmanager
def _kept_padding(model: object, tokenizer: object) -> Iterator[None]:
    """Leave the `pad_token_id` of a config as it was, since models like RoBERTa count positions from it.

    Meanwhile it is that of the tokenizer, which transformers would write there for good, with a warning.
    """
    config: Any = getattr(model, "config", None)
    config = config and config.get_text_config()
    of_model, of_tokenizer = getattr(config, "pad_token_id", None), getattr(tokenizer, "pad_token_id", None)
    if of_model is None or of_tokenizer is None:  # transformers writes where there was none
        yield
        return
    config.pad_token_id = of_tokenizer
    try:
        yield
    finally:
        config.pad_token_id = of_model


def check_output_dir(training: TrainingArguments, overwrite: bool = False) -> str | None:
    """Check the output folder before training; returns the checkpoint to resume from, or None.

    Args:
        training: its `output_dir` and `resume_from_checkpoint` (a folder, or `true` for the newest one) are read.
        overwrite: write into a folder that has another run.

    Raises:
        InputError: there is no such checkpoint, or the folder has another run.
    """
    folder = Path(str(training.output_dir))
    checkpoint = asked_checkpoint(folder, training.resume_from_checkpoint)
    held = folder.is_dir() and any(path.name not in _BEFORE for path in folder.iterdir())
    if checkpoint is None and not overwrite and held:
        raise InputError(
            f"{folder}/ holds another run; choose another --output_dir, resume with --resume_from_checkpoint true, "
            "or give --overwrite_output_dir"
        )
    return None if checkpoint is None else str(checkpoint)


def asked_checkpoint(folder: Path, asked: str | bool | None) -> Path | None:
    """The checkpoint to resume from: that of the name, or for True or `true` the newest one of a folder; checked.

    Raises:
        InputError: there is none, or it is not complete.
    """
    asked = _ASKED.get(str(asked).lower(), asked)
    if not asked:
        return None
    if asked is not True:
        check_checkpoint(asked)
        return Path(asked)
    if (newest := newest_checkpoint(folder)) is None:
        raise InputError(f"{folder} has no checkpoint to resume from; start without --resume_from_checkpoint")
    return newest


def newest_checkpoint(folder: str | Path) -> Path | None:
    """The newest complete `checkpoint-N` in a folder, or None; a warning names newer ones that are damaged.

    Raises:
        InputError: there are checkpoints, and none of them is complete.

    Example:
        >>> newest_checkpoint("no_such_folder") is None
        True
    """
    passed = []
    for path in reversed(_by_step(folder)):
        try:
            check_checkpoint(path)
        except Exception as error:  # a library says what is wrong with its file
            passed.append(one_line(error) or repr(error))
            continue
        if passed:
            logger.warning(f"{'; '.join(passed)}. Resuming from {path}, the newest complete checkpoint")
        return path
    if passed:
        raise InputError(f"no complete checkpoint in {folder}: {'; '.join(passed)}")
    return None


def _by_step(folder: str | Path) -> list[Path]:
    """The checkpoints of a folder, from the first step to the last; damaged ones too."""
    steps = {path: path.name.removeprefix("checkpoint-") for path in Path(folder).glob("checkpoint-*")}
    return sorted((path for path, step in steps.items() if step.isdigit()), key=lambda path: int(steps[path]))


def _put_aside(run: Path, resumed: str | None, base: str | None) -> None:
    """Move the checkpoints that a run does not go on from, so that none is taken for one of its own.

    Args:
        run: the folder of its checkpoints.
        resumed: the checkpoint that it resumes from; those before are its own too.
        base: the base of the adapter that it trains.

    Raises:
        InputError: the run needs one of them.
    """
    used = [Path(name).resolve() for name in (resumed, base) if name]
    checkpoints, old = _by_step(run), run / _OLD
    places = [path.resolve() for path in checkpoints]
    count = places.index(used[0]) + 1 if resumed and used[0] in places else 0
    if not (former := checkpoints[count:]):
        return
    for path in used:
        if any(path.is_relative_to(other) for other in (*places[count:], old.resolve())):
            raise InputError(f"this run needs {path}, which it would put aside; choose another output_dir")
    with write_errors(old):
        shutil.rmtree(old, ignore_errors=True)
        old.mkdir()
        for path in former:
            os.replace(path, old / path.name)
    names = ", ".join(path.name for path in former)
    logger.warning(f"{run} has checkpoints that this run does not go on from: {names} moved to {old}")


def last_good(folder: str) -> str:
    """The newest complete checkpoint, in words for an error message."""
    try:
        return str(newest_checkpoint(folder) or _NO_CHECKPOINT[0])
    except InputError:
        return _NO_CHECKPOINT[1]


def check_checkpoint(folder: str | Path) -> None:
    """Refuse a checkpoint that is not complete or has pickled weights. Nothing is unpickled here.

    Raises:
        InputError: with the file, and what is wrong with it.
    """
    folder = Path(folder)
    if not (folder / STATE).is_file():
        raise InputError(f"{folder} is not a complete checkpoint of a training run (no {STATE}); give another")
    for path in (*(folder / name for name in _STATES), *folder.glob("rng_state*.pth")):
        if path.is_file():
            with about(path), zipfile.ZipFile(path) as archive:
                wrong = archive.testzip()
            if wrong is not None:
                raise InputError(f"{path} is damaged: {wrong} in it has a wrong checksum")
        elif path.exists():  # transformers would go on without it
            raise InputError(f"{path} is not a regular file; resume from another checkpoint")
    sums = read_json(folder / _SUMS, dict) if (folder / _SUMS).is_file() else {}
    for path in (folder / str(name) for name in sums):
        if path.is_file() and digest_of_file(path) != sums[path.name]:
            raise InputError(f"{path} is damaged: its checksum does not match")
    if not isinstance(read_json(folder / STATE, dict).get("global_step"), int):
        raise InputError(f"{folder / STATE} is damaged: it has no global_step")
    if (folder / "config.json").is_file():  # an adapter or a module of the user has none; transformers reads it whole
        read_json(folder / "config.json", dict)
    if any(path.is_dir() for path in folder.glob("pytorch_model_fsdp*")):  # these have another format
        return
    files, index = [folder / "model.safetensors"], folder / "model.safetensors.index.json"
    if not files[0].is_file() and index.is_file():
        named = checked(f"{index}: weight_map", read_json(index, dict).get("weight_map"), dict[str, str])
        files = [folder / name for name in sorted(set(named.values()))]
    if not files[0].is_file() and (folder / ADAPTER_WEIGHTS).is_file():
        files = [folder / ADAPTER_WEIGHTS, *folder.glob(TRAINED)]
    for path in files:
        if not path.is_file() or path.suffix != ".safetensors":
            pickle = next(folder.glob("pytorch_model*.bin*"), None)
            why = f"{pickle.name} is a pickle, which can run code when it is opened" if pickle else "it is missing"
            raise InputError(f"{folder} has no safetensors weights ({path.name}): {why}")
        with about(path), safe_open(path, "pt") as weights:
            weights.keys()


def changed_run(checkpoint: Path, run: JsonObject) -> list[str]:
    """The differences between a run and the one that wrote the checkpoint: missing states, and changed settings."""
    states = {"optimizer.pt": "optimizer*", "scheduler.pt": "scheduler.pt", "rng_state.pth": "rng_state*.pth"}
    changes = [f"{name} is missing" for name, kind in states.items() if not any(checkpoint.glob(kind))]
    path = checkpoint / RUN
    if not path.is_file():
        return [*changes, f"{RUN} is missing"]
    return changes + differences(read_json(path, dict), run)


def _check_names(folder: Path, model: nn.Module) -> None:
    """Refuse a checkpoint whose weights are not those of the model; a weight that is tied to another comes once.

    Raises:
        InputError: with the name of the first weight that only one of the two has.
    """
    if any(folder.glob("pytorch_model_fsdp*")) or (folder / TRAINED).is_file():
        return  # FSDP and `_load_trained` compare names themselves
    held: set[str] = set()
    for path in sorted(folder.glob("model*.safetensors")):
        with safe_open(path, "pt") as weights:
            held |= set(weights.keys())
    held_by_model = model.state_dict()
    tied: dict[object, set[str]] = {}
    for name, weight in held_by_model.items():
        key = (weight.data_ptr(), weight.shape) if weight.numel() else name
        tied.setdefault(key, set()).add(name)
    missing = [min(names) for names in tied.values() if not names & held]
    if strange := sorted(missing) or sorted(held - held_by_model.keys()):
        more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
        what = "lacks weights of the model" if missing else "has weights that the model lacks"
        raise InputError(f"{folder} {what}: {strange[0]}{more}; resume from another, or with the model of that run")


@contextlib.contextmanager
def _only_training(folder: Path) -> Iterator[None]:
    """A context in which no other training can write into an output folder; a collective call.

    Raises:
        InputError: another process trains there.
    """
    error = f"another training writes into {folder}; wait until it ends, or choose another output_dir"
    with contextlib.ExitStack() as held:

        def hold() -> None:
            if is_first_process():
                folder.mkdir(parents=True, exist_ok=True)
                held.enter_context(locked(folder / _LOCK, error))

        from_first(hold)
        yield


@contextlib.contextmanager
def _save_errors(path: str | Path) -> Iterator[None]:
    """As `write_errors`, also for what torch and tokenizers raise when the disk is full, which are not `OSError`s."""
    with write_errors(Path(path)):
        try:
            yield
        except Exception as error:
            if isinstance(error, (OSError, InputError)) or not any(words in str(error) for words in _FULL):
                raise
            raise OSError(f"the disk is full, or a quota is reached ({first_line(error)})") from error


_FULL = ("PytorchStreamWriter", "file write", "iostream error", "inline_container", "No space left on device")


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
