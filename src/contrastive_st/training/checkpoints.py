"""Checkpoints of a run: they are written atomically, and checked before a run resumes from one.

    save     every process writes into a hidden folder; one process fsyncs it and renames it to `checkpoint-N`;
             so is the model at the end, whose files take the places of those in the output folder
    resume   from the newest complete checkpoint; one that is damaged, lacks weights, has pickled ones, or is of another
             run (`resumable.py`) is refused with an error of one line; a finished run ends at once

Only one training at a time may write into an output folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import nn
from transformers import (
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_utils import rotate_checkpoints
from transformers.training_args import OptimizerNames

from contrastive_st.distributed import any_process, from_first, is_first_process
from contrastive_st.errors import InputError, about, first_line
from contrastive_st.files.folders import ADAPTER_WEIGHTS, TRAINED
from contrastive_st.files.reading import read_json
from contrastive_st.files.writing import SAVING, atomic_write, locked, replace_model, write_errors
from contrastive_st.models.adapters import has_adapter
from contrastive_st.models.saving import write_tensors
from contrastive_st.models.wrapped import EncoderForCL
from contrastive_st.training.arguments import ContrastiveTrainingArguments
from contrastive_st.training.resumable import differences, fingerprint, settings_record

logger = logging.getLogger(__name__)
STATE, RUN = "trainer_state.json", "resumable_run.json"
_LOCK = ".training.lock"
_STATES = ("optimizer.pt", "scheduler.pt")
_SUMS = "checksums.json"  # of the files below; optimizer.pt, an archive twice as large as the weights, has its own
_SUMMED = (STATE, "*.safetensors", "rng_state*.pth", "scheduler.pt")
_NO_CHECKPOINT = ("none was saved yet", "none is complete")
_HYPER = ("initial_lr", "weight_decay", "betas", "eps")  # of a group of weights; the rate follows from the schedule
_RATES = ("learning_rate", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon")


class TrainingDiverged(InputError):
    """The loss or a weight became NaN or infinite; the weights on disk are those of the last good checkpoint."""


class CheckpointTrainer(Trainer):
    """The Trainer of transformers, with checkpoints that are written atomically and checked before a run resumes.

    Args:
        args, kwargs: as for `transformers.Trainer`.
    """

    model: nn.Module
    args: ContrastiveTrainingArguments

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._scratch: Path | None = None
        self.resumed_from: str | None = None
        self._run: dict[str, Any] = {}
        self.finished_before = False
        super().__init__(*args, **kwargs)
        self._given_optimizer = self.optimizer
        self.add_callback(_EndCallback(self))

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """As `transformers.Trainer.train`; `True` resumes from the newest complete checkpoint.

        Raises:
            InputError: another training writes into the folder, or the run cannot resume from the checkpoint.
        """
        folder = Path(str(self.args.output_dir))
        self.finished_before = False
        self._run = settings_record(self, self._given_optimizer)
        with _only_training(folder):
            checkpoint = self.resumed_from = from_first(lambda: self._checkpoint(folder, resume_from_checkpoint))
            try:
                return super().train(checkpoint, *args, **kwargs)
            except KeyboardInterrupt:
                newest = last_good(str(folder))
                mend = "" if newest in _NO_CHECKPOINT else "; go on with --resume_from_checkpoint true"
                logger.warning(f"interrupted at step {self.state.global_step}; the newest checkpoint: {newest}{mend}")
                raise

    def _checkpoint(self, folder: Path, asked: str | bool | None) -> str | None:
        if not asked:
            return None
        checkpoint = newest_checkpoint(folder) if asked is True else Path(asked)
        if checkpoint is None:
            raise InputError(f"{folder} has no checkpoint to resume from; start without resume_from_checkpoint")
        check_checkpoint(checkpoint)
        if "TrainerControl" not in (read_json(checkpoint / STATE, dict).get("stateful_callbacks") or {}):
            raise InputError(f"{checkpoint / STATE} is damaged: it has no TrainerControl; resume from another")
        _check_names(checkpoint, self.accelerator.unwrap_model(self.model))
        changes = changed_run(checkpoint, self.run_record())
        if changes and not self.args.allow_changed_resume:
            raise InputError(
                f"{checkpoint} cannot be resumed unchanged: {'; '.join(changes)}. "
                "Give --allow_changed_resume true to resume anyway"
            )
        if self._is_new_in(str(checkpoint), ["optim"]) and any(checkpoint.glob("optimizer*")):
            raise InputError(
                f"{checkpoint} has the state of another optimizer ({'; '.join(changes)}), which "
                f"{OptimizerNames(self.args.optim).value} cannot use; start a new run from its weights"
            )
        return str(checkpoint)

    def run_record(self) -> dict[str, Any]:
        """What the run computes, which must be the same in a resumed run; data is read when it is first asked for."""
        if "data" not in self._run:
            self._run["data"] = fingerprint(self.train_dataset)
        return self._run

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        """As in transformers, but a finished run that is resumed takes no further step."""
        if self.finished_before:
            self.control.should_training_stop = True
        else:
            super()._run_epoch(*args, **kwargs)

    def look_for_the_end(self) -> None:
        """See whether the run that is resumed is finished, before its first epoch: there may be none left."""
        if self.state.global_step >= self.state.max_steps or self._stopped_early():
            self.finished_before = True
            done = f"step {self.state.global_step} of {self.state.max_steps}"
            logger.warning(f"the run is finished ({done}); its weights are unchanged")

    def _stopped_early(self) -> bool:
        """Whether the run that is resumed had stopped because it did not get better."""
        stoppers = [x for x in self.callback_handler.callbacks if isinstance(x, EarlyStoppingCallback)]
        waited = any(x.early_stopping_patience_counter >= x.early_stopping_patience for x in stoppers)
        return waited and self.state.global_step > 0

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if not (self.finished_before and "train_loss" in logs):  # the mean of no steps
            super().log(logs, start_time)

    # ------------------------------------------------------------------ saving

    def check_weights(self) -> None:
        """Raise an error if a weight is not finite, before saving; a collective call if weights are sharded.

        Raises:
            TrainingDiverged: a weight is NaN or infinite.
        """
        bad = next((name for name, weight in self.model.named_parameters() if not _is_finite(weight)), None)
        if any_process(bad is not None) if self.is_fsdp_enabled else bad is not None:
            raise TrainingDiverged(
                f"the weights ({bad or 'of another process'}) are NaN or infinite at step {self.state.global_step}: "
                "nothing was saved. Lower the learning rate; the last good checkpoint is "
                f"{last_good(str(self.args.output_dir))}"
            )

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        self.check_weights()
        with _save_errors(output_dir or str(self.args.output_dir)):
            super().save_model(output_dir, _internal_call)

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        """As in transformers; a model outside of a checkpoint takes the place of the one before at once."""
        if self._scratch is not None or not self.args.should_save:
            super()._save(output_dir, state_dict)
            return
        with replace_model(output_dir or str(self.args.output_dir)) as temporary:
            super()._save(str(temporary), state_dict)

    def _get_output_dir(self, trial: Any) -> str:
        return super()._get_output_dir(trial) if self._scratch is None else str(self._scratch)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        run = Path(self._get_output_dir(trial))
        name, scratch = f"checkpoint-{self.state.global_step}", run / SAVING
        if self.args.should_save:
            for left in (scratch, *filter(Path.is_dir, run.glob(".*.tmp"))):  # of a run killed while saving
                if left == scratch or all(path.name.startswith("checkpoint-") for path in left.iterdir()):
                    shutil.rmtree(left, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        self._scratch = scratch
        try:
            with _save_errors(run / name), _exactly(self.accelerator.unwrap_model(self.model)):
                super()._save_checkpoint(model, trial)
        finally:
            self._scratch = None
        best = run / f"checkpoint-{self.state.best_global_step}"
        if self.state.best_global_step and (best.name == name or best.is_dir()):
            self.state.best_model_checkpoint = str(best)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            self.state.save_to_json(str(scratch / name / STATE))
            self.write_own(scratch / name)
            with atomic_write(run / name, overwrite=True) as temporary:
                os.rename(scratch / name, temporary)
            shutil.rmtree(scratch, ignore_errors=True)
            rotate_checkpoints(str(run), self.args.save_total_limit, self.state.best_model_checkpoint)
        self.accelerator.wait_for_everyone()

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        if self.args.should_save:
            self.write_own(Path(checkpoint_folder))  # a run resumes from what is pulled, too
        super()._push_from_checkpoint(checkpoint_folder)

    def write_own(self, checkpoint: Path) -> None:
        """Write the files that only this package's checkpoints have."""
        self._write_trained(checkpoint / TRAINED)
        (checkpoint / RUN).write_text(json.dumps(self.run_record(), indent=2) + "\n", encoding="utf-8")
        sums = {path.name: _digest(path) for kind in _SUMMED for path in sorted(checkpoint.glob(kind))}
        (checkpoint / _SUMS).write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8")

    def _write_trained(self, path: Path) -> None:
        """Write all trained weights of a model with an adapter or of a user's module, including heads."""
        model: Any = self.accelerator.unwrap_model(self.model)
        if isinstance(model, EncoderForCL):
            write_tensors(model.trained_state(), path)
        elif has_adapter(model) and not self.is_fsdp_enabled:  # FSDP shards have them all
            write_tensors({name: weight.detach().cpu() for name, weight in _trained(model).items()}, path)

    # ------------------------------------------------------------------ resuming

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        with about(resume_from_checkpoint):
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
        model: Any = self.accelerator.unwrap_model(self.model)
        if isinstance(model, EncoderForCL):
            model.load_trained_state(load_file(path))
            return True
        weights, wanted = load_file(path), _trained(model)
        if strange := sorted(weights.keys() ^ wanted.keys()):
            raise InputError(f"{checkpoint} was trained with another adapter: only one of the two has {strange[0]}")
        model.load_state_dict(weights, strict=False)
        return True

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        optimizer: Any = self.optimizer
        asked = [{name: value for name, value in group.items() if name in _HYPER} for group in optimizer.param_groups]
        rates = list(getattr(self.lr_scheduler, "base_lrs", []))
        with about(checkpoint) if checkpoint else contextlib.nullcontext():
            super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None and self._is_new_in(checkpoint, _RATES):
            self._set_rates(asked, rates)

    def _is_new_in(self, checkpoint: str, names: Sequence[str]) -> bool:
        """Whether one of these settings is another than that of the run that wrote the checkpoint."""
        path = Path(checkpoint, RUN)
        before = read_json(path, dict) if path.is_file() else {}
        return any(name in before and before[name] != self._run[name] for name in names)

    def _set_rates(self, asked: list[dict[str, Any]], rates: list[float]) -> None:
        """Continue with the rate, weight decay and betas of the arguments, not with those in the checkpoint."""
        optimizer, scheduler = cast("Any", self.optimizer), cast("Any", self.lr_scheduler)
        for group, own in zip(optimizer.param_groups, asked, strict=True):
            group.update(own)
        if hasattr(scheduler, "lr_lambdas"):  # the schedules of transformers; others have rates of their own
            scheduler.base_lrs = rates
            factors = [share(scheduler.last_epoch) for share in scheduler.lr_lambdas]
            scheduler._last_lr = [rate * factor for rate, factor in zip(rates, factors, strict=True)]
            for group, rate in zip(optimizer.param_groups, scheduler._last_lr, strict=True):
                group["lr"] = rate


@contextlib.contextmanager
def _exactly(model: Any) -> Iterator[None]:
    """A context in which a model is saved in the type in which it is trained, from which a run resumes."""
    dtype, model.save_dtype = getattr(model, "save_dtype", None), None
    try:
        yield
    finally:
        model.save_dtype = dtype


class _EndCallback(TrainerCallback):
    def __init__(self, trainer: CheckpointTrainer) -> None:
        self.trainer = trainer

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.trainer.look_for_the_end()


def check_output_dir(training: TrainingArguments, overwrite: bool = False) -> str | None:
    """Check the output folder before training; returns the checkpoint to resume from, or None.

    Args:
        training: its `output_dir` and `resume_from_checkpoint` (a folder, or `true` for the newest one) are read.
        overwrite: write into a folder that has another run.

    Raises:
        InputError: there is no such checkpoint, or the folder has another run.
    """
    folder = Path(str(training.output_dir))
    resume = training.resume_from_checkpoint
    if resume and resume.lower() in ("true", "1", "yes"):
        newest = newest_checkpoint(folder)
        if newest is None:
            raise InputError(f"{folder} has no checkpoint to resume from; start without --resume_from_checkpoint")
        return str(newest)
    if resume and resume.lower() in ("false", "0", "no"):
        resume = None
    if resume:
        check_checkpoint(resume)
    if not resume and not overwrite and folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"{folder}/ holds another run; choose another --output_dir, resume with --resume_from_checkpoint true, "
            "or give --overwrite_output_dir"
        )
    return resume


def newest_checkpoint(folder: str | Path) -> Path | None:
    """The newest complete `checkpoint-N` in a folder, or None; a warning names newer ones that are damaged.

    Example:
        >>> newest_checkpoint("no_such_folder") is None
        True
    """
    found = [path for path in Path(folder).glob("checkpoint-*") if path.name.removeprefix("checkpoint-").isdigit()]
    passed = []
    for path in sorted(found, key=lambda path: -int(path.name.removeprefix("checkpoint-"))):
        try:
            check_checkpoint(path)
        except InputError as error:
            passed.append(str(error))
            continue
        if passed:
            logger.warning(f"{'; '.join(passed)}. Resuming from {path}, the newest complete checkpoint")
        return path
    if passed:
        raise InputError(f"no complete checkpoint in {folder}: {'; '.join(passed)}")
    return None


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
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give a checkpoint of a training run")
    if not (folder / STATE).is_file():
        raise InputError(f"{folder} is not a complete checkpoint of a training run (no {STATE}); give another")
    state = read_json(folder / STATE, dict)
    if not isinstance(state.get("global_step"), int):
        raise InputError(f"{folder / STATE} is damaged: it has no global_step")
    try:
        TrainerState(**state)
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{folder / STATE} is damaged: {first_line(error)}") from error
    _check_kinds(folder / STATE, state)
    if not any(
        path.is_dir() for path in folder.glob("pytorch_model_fsdp*")
    ):  # FSDP's shards have a format of their own
        _check_safetensors(folder)
    for path in (*(folder / name for name in _STATES), *folder.glob("rng_state*.pth")):
        if path.is_file():
            _check_archive(path)
        elif path.exists():  # transformers would go on without it
            raise InputError(f"{path} is no regular file; resume from another checkpoint")
    sums = read_json(folder / _SUMS, dict) if (folder / _SUMS).is_file() else {}
    for path in (folder / str(name) for name in sums):
        if path.is_file() and _digest(path) != sums[path.name]:
            raise InputError(f"{path} is damaged: it is not what was written (its checksum is another)")


def _check_kinds(path: Path, state: dict[str, Any]) -> None:
    """Refuse a trainer's state that has text for a number, a list for a name and the like."""
    declared = get_type_hints(TrainerState)
    del declared["stateful_callbacks"]  # a list in memory, an object in the file
    for name in sorted(declared.keys() & state.keys()):
        kind = declared[name]
        kinds = {
            get_origin(own) or own for own in (get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,))
        }
        kinds |= {int, float} if kinds & {int, float} else set()
        if not isinstance(state[name], (*kinds, NoneType)):
            raise InputError(f"{path} is damaged: {name} is {state[name]!r:.60}; resume from another checkpoint")


def _check_safetensors(folder: Path) -> None:
    files, index = [folder / "model.safetensors"], folder / "model.safetensors.index.json"
    if not files[0].is_file() and index.is_file():
        content = read_json(index)
        named = content.get("weight_map") if isinstance(content, dict) else None
        files = [folder / str(name) for name in sorted(set(named.values()))] if isinstance(named, dict) else []
        if not files:
            raise InputError(f"{index} is damaged: it has no weight_map")
    if not files[0].is_file() and (folder / ADAPTER_WEIGHTS).is_file():
        files = [folder / ADAPTER_WEIGHTS, *folder.glob(TRAINED)]
    for path in files:
        if not path.is_file() or path.suffix != ".safetensors":
            pickle = next(folder.glob("pytorch_model*.bin*"), None)
            why = f"{pickle.name} is a pickle, which can run code when it is opened" if pickle else "it is missing"
            raise InputError(f"{folder} has no safetensors weights ({path.name}): {why}")
        try:
            with safe_open(path, "pt") as weights:
                weights.keys()
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path} is damaged: {first_line(error)}") from error


def _digest(path: Path) -> str:
    content = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            content.update(block)
    return content.hexdigest()


def _check_archive(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            wrong = archive.testzip()
    except Exception as error:  # damaged archives raise errors of many types
        raise InputError(f"{path} is damaged: {first_line(error)}") from error
    if wrong is not None:
        raise InputError(f"{path} is damaged: {wrong} in it has a wrong checksum")


def changed_run(checkpoint: Path, run: dict[str, Any]) -> list[str]:
    """The differences between a run and the one that wrote the checkpoint: missing states, and changed settings."""
    states = {"optimizer.pt": "optimizer*", "scheduler.pt": "scheduler.pt", "rng_state.pth": "rng_state*.pth"}
    changes = [f"{name} is missing" for name, kind in states.items() if not any(checkpoint.glob(kind))]
    path = checkpoint / RUN
    if not path.is_file():
        return [*changes, f"{RUN} is missing"]
    before = read_json(path)
    if not isinstance(before, dict):
        raise InputError(f"{path} is damaged: it is not a JSON object")
    return changes + differences(before, run)


def _check_names(folder: Path, model: Any) -> None:
    """Refuse a checkpoint whose weights are not those of the model; a weight that is tied to another comes once.

    Raises:
        InputError: with the name of the first weight that only one of the two has.
    """
    if any(path.is_dir() for path in folder.glob("pytorch_model_fsdp*")) or (folder / TRAINED).is_file():
        return  # FSDP and `_load_trained` compare names themselves
    if (folder / ADAPTER_WEIGHTS).is_file():
        return  # of a `PeftModel`; peft compares the names
    held: set[str] = set()
    for path in sorted(folder.glob("model*.safetensors")):
        with safe_open(path, "pt") as weights:
            held |= set(weights.keys())
    held_by_model = model.state_dict()
    tied: dict[Any, set[str]] = {}
    for name, weight in held_by_model.items():
        own = (weight.data_ptr(), weight.shape) if weight.numel() else name
        tied.setdefault(own, set()).add(name)
    lacking = [min(names) for names in tied.values() if not names & held]
    if strange := sorted(lacking) or sorted(held - held_by_model.keys()):
        more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
        what = "lacks weights of the model" if lacking else "has weights that the model lacks"
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
    """As `write_errors`, also for what torch raises when the disk is full."""
    with write_errors(Path(path)):
        try:
            yield
        except RuntimeError as error:
            if not any(words in str(error) for words in ("PytorchStreamWriter", "file write", "iostream error")):
                raise
            raise OSError(f"the disk is full, or a quota is reached ({first_line(error)})") from error


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def _is_finite(weight: torch.Tensor) -> bool:
    local: Any = getattr(weight, "to_local", lambda: weight)()  # the local shard under FSDP
    return bool(torch.isfinite(local.detach()).all())
