"""The training recipe: what a run was, recorded where and when it ran, and kept beside the weights."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import os
import platform
import re
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from contrastive_st.hub.methods import method_of
from contrastive_st.storage.redact import publishable, publishable_arguments

RECIPE = "training_recipe.json"
_SECTIONS = re.compile(r"^(?:Args|Example|Raises|Attributes):", re.MULTILINE)  # of a docstring
_PLAIN = (str, int, float, bool, type(None))
_PACKAGES = ("contrastive-st", "torch", "transformers", "tokenizers", "accelerate", "datasets", "safetensors")
_ALWAYS = (
    "per_device_train_batch_size", "gradient_accumulation_steps", "learning_rate", "lr_scheduler_type", "warmup_steps",
    "weight_decay", "num_train_epochs", "max_steps", "optim", "max_grad_norm", "bf16", "fp16", "data_seed",
)  # fmt: skip
_NEVER = (
    "output_dir", "logging_dir", "run_name", "resume_from_checkpoint", "local_rank", "hub_token", "hub_model_id",
    "push_to_hub", "report_to", "disable_tqdm", "dataloader_pin_memory", "debug",
)  # fmt: skip


@dataclasses.dataclass
class Clock:
    """What a run has done so far: texts encoded (every view is one, of all processes) and seconds of training."""

    texts: int = 0
    seconds: float = 0.0
    first_step: int = 0


def describe_run(trainer: Any, clock: Clock, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe of a trainer's run, without secrets and without paths of this machine.

    Args:
        trainer: a `transformers.Trainer` of a contrastive model.
        clock: what it has done.
        facts: what the trainer cannot know, such as `data` (name, licence) and `arguments` (of the recipe).
    """
    args, model = trainer.args, trainer.accelerator.unwrap_model(trainer.model)
    settings = dict(getattr(model.config, "contrastive", {}))
    collator = type(trainer.data_collator).__name__
    method = method_of(settings, collator)
    tokenizer = trainer.processing_class
    recipe = {
        "method": method.name,
        "objective": {"name": settings.get("objective"), "settings": settings_of(model)},
        "collator": collator,
        "model": {"class": type(model).__name__, "parameters": sum(p.numel() for p in model.parameters())},
        "base_model": base_model(model),
        "data": {"rows": _rows(trainer.train_dataset), **facts.get("data", {})},
        "max_length": getattr(tokenizer, "model_max_length", None),
        "hyper_parameters": hyper_parameters(args),
        "arguments": dict(facts.get("arguments", {})),
        "launch": {"argv": list(sys.argv), "processes": args.world_size},
        "seed": args.seed,
        "versions": {"python": platform.python_version(), **_versions()},
        "hardware": hardware(),
        "run": _run(trainer.state, clock),
    }
    shown = publishable(recipe)
    shown["objective"] |= words_of(getattr(model, "contrast", None))
    shown["launch"]["argv"] = publishable_arguments(sys.argv)
    return shown


def words_of(objective: Any) -> dict[str, str]:
    """Name and formula of an objective, from what its class says of itself.

    Example:
        >>> from contrastive_st.objectives import InfoNCE
        >>> words_of(InfoNCE())["class"], "loss_i = -log exp" in words_of(InfoNCE())["formula"]
        ('InfoNCE', True)
    """
    text = inspect.getdoc(type(objective)) or ""
    return {"class": type(objective).__name__, "formula": _SECTIONS.split(text)[0].strip()} if objective else {}


def settings_of(model: Any) -> dict[str, Any]:
    """What the model's objective is made with, and how its embedding is made."""
    objective = getattr(model, "contrast", None)
    own = {f.name: getattr(objective, f.name) for f in dataclasses.fields(objective) if f.init} if objective else {}
    settings = getattr(model.config, "contrastive", {})
    embedding = {name: settings[name] for name in ("pooling", "mlp_only_train", "do_mlm") if name in settings}
    return {name: value for name, value in {**own, **embedding}.items() if isinstance(value, (*_PLAIN, tuple, list))}


def write_recipe(recipe: Mapping[str, Any], folder: str | Path) -> Path:
    """Write `training_recipe.json` into a checkpoint folder."""
    path = Path(folder, RECIPE)
    path.write_text(json.dumps(recipe, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def base_model(model: Any) -> dict[str, Any]:
    """Where a model's first weights came from: nowhere, a folder (its last name only), or the Hub (name, commit)."""
    name = getattr(model, "name_or_path", "") or ""
    if not name:
        return {"from": "scratch"}
    if os.path.isdir(name) or os.path.isabs(name):
        return {"from": "folder", "name": Path(name).resolve().name}
    return {"from": "hub", "name": name, "commit": getattr(model.config, "_commit_hash", None)}


def hyper_parameters(args: Any) -> dict[str, Any]:
    """Every training argument that is not at its default, and those that a reader looks for even where it is."""
    found = {}
    for field in dataclasses.fields(args):
        value = getattr(args, field.name, None)
        if field.name not in _NEVER and (field.name in _ALWAYS or not _is_default(value, field)):
            found[field.name] = _plain(value)
    return found


def _is_default(value: Any, field: dataclasses.Field[Any]) -> bool:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return value == type(value)()
    if field.default is None or field.default is dataclasses.MISSING:  # filled in by the arguments themselves
        return value is None or value is False or value in ([], {}, "")
    return value == field.default


def changed_arguments(args: Any, *without: str) -> dict[str, Any]:
    """The fields of a dataclass of arguments that are not at their defaults."""
    fields = [field for field in dataclasses.fields(args) if field.name not in without]
    return {f.name: _plain(getattr(args, f.name)) for f in fields if getattr(args, f.name) != f.default}


def hardware() -> dict[str, Any]:
    """The processor, its usable cores and the accelerators; no names of hosts or users."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found: dict[str, Any] = {"cpu": _cpu_name(), "cores": cores}
    if torch.cuda.is_available():
        found["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return found


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _versions() -> dict[str, str]:
    installed = {}
    for package in _PACKAGES:
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return installed


def _rows(dataset: Any) -> int | None:
    return len(dataset) if hasattr(dataset, "__len__") else None


def _run(state: Any, clock: Clock) -> dict[str, Any]:
    run = {"steps": state.global_step, "of_steps": state.max_steps, "epochs": round(state.epoch or 0.0, 4)}
    if clock.first_step:
        run["resumed_from_step"] = clock.first_step
    if clock.seconds and clock.texts:
        run |= {"seconds": round(clock.seconds, 2), "texts_encoded": clock.texts}
        run["texts_per_second"] = round(clock.texts / clock.seconds, 1)
    return run


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (*_PLAIN, list, tuple, dict)):
        return value
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else str(value)
