"""The training metadata of a run, `training_metadata.json`: what was trained, on what, how, and where."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import inspect
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any, cast

from torch import nn
from transformers import TrainingArguments

from contrastive_st.errors import installed_version
from contrastive_st.files.cards import TRAINING_METADATA
from contrastive_st.files.folders import folder_name
from contrastive_st.files.reading import JsonObject, read_json
from contrastive_st.files.redact import publishable, publishable_arguments
from contrastive_st.files.writing import write_json
from contrastive_st.models.adapters import adapted_names
from contrastive_st.models.configuration import OF_METHODS
from contrastive_st.options import checked
from contrastive_st.processors import affinity
from contrastive_st.training.checkpoints import CheckpointTrainer
from contrastive_st.training.methods import method_of

_SECTIONS = re.compile(r"^(?:Args|Example|Raises|Attributes):", re.MULTILINE)  # of a docstring
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
    """Counters of a run: texts encoded so far (each view counts, on all processes) and seconds of training."""

    texts: int = 0
    seconds: float = 0.0
    first_step: int = 0


def training_metadata(trainer: CheckpointTrainer, clock: Clock, extra: JsonObject) -> JsonObject:
    """The training metadata of a trainer's run, without secrets and without paths of this machine.

    Args:
        trainer: a `transformers.Trainer` of a contrastive model.
        clock: its counters.
        extra: entries that the trainer cannot know, such as `data` (name, licence) and `arguments` (of a job).
    """
    args, model = trainer.args, trainer.accelerator.unwrap_model(trainer.model)
    # heads may be dropped by now, and with them the settings of what the run added to its loss
    added = {name: value for name, value in trainer.run_settings.items() if name in OF_METHODS}
    settings = {**getattr(model.config, "contrastive", {}), **added}
    collator = type(trainer.data_collator).__name__
    tokenizer, of_run = trainer.processing_class, hyper_parameters(args) | {"data_seed": args.order_seed}
    # less than asked for with auto_find_batch_size
    of_run["per_device_train_batch_size"] = trainer._train_batch_size // max(args.n_gpu, 1)
    method = method_of(model.config.model_type, settings, {"collator": collator, "hyper_parameters": of_run})
    rows = None  # of a stream, or of a mixture with one
    with contextlib.suppress(TypeError):
        rows = len(cast("list[object]", trainer.train_dataset))
    result: JsonObject = {
        "method": method.name,
        "loss": {"name": settings.get("loss"), "settings": settings_of(model, settings)},
        "collator": collator,
        "model": {
            "class": type(model).__name__,
            "type": model.config.model_type,
            "parameters": sum(p.numel() for p in model.parameters()),
        },
        "base_model": base_model(model),
        "data": {"rows": rows, **extra.get("data", {})},
        "max_length": getattr(tokenizer, "model_max_length", None),
        "hyper_parameters": of_run,
        "arguments": dict(extra.get("arguments", {})),
        "launch": {"argv": list(sys.argv), "processes": args.world_size},
        "seed": args.seed,
        "versions": versions(),
        "hardware": hardware(),
        "run": {
            "steps": trainer.state.global_step, "of_steps": trainer.state.max_steps,
            "epochs": round(trainer.state.epoch or 0.0, 4),
        },
    }  # fmt: skip
    if clock.first_step:
        result["run"]["resumed_from_step"] = clock.first_step
    if clock.seconds and clock.texts:
        result["run"] |= {"seconds": round(clock.seconds, 2), "texts_encoded": clock.texts}
        result["run"]["texts_per_second"] = round(clock.texts / clock.seconds, 1)
    if adapter := adapter_of(model):
        result["adapter"] = adapter
    shown: JsonObject = publishable(result)
    shown["loss"] |= class_and_formula(getattr(model, "loss_fn", None))
    shown["launch"]["argv"] = publishable_arguments(sys.argv)
    return shown


def adapter_of(model: nn.Module) -> JsonObject:
    """The settings of the adapter that is trained; {} if the whole model is trained."""
    backbone: Any = getattr(model, "backbone", None)
    configs = getattr(backbone, "peft_config", None)
    if not configs:
        return {}
    (config,) = configs.values()
    return {
        "kind": "LoRA", "r": config.r, "alpha": config.lora_alpha, "dropout": config.lora_dropout,
        "target_modules": adapted_names(backbone, config),
        "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
    }  # fmt: skip


def class_and_formula(loss: object) -> dict[str, str]:
    """Name and formula of a loss, from the docstring of its class.

    Example:
        >>> from contrastive_st.losses import InfoNCE
        >>> class_and_formula(InfoNCE())["class"], "loss_i = -log exp" in class_and_formula(InfoNCE())["formula"]
        ('InfoNCE', True)
    """
    text = inspect.getdoc(type(loss)) or ""
    return {"class": type(loss).__name__, "formula": _SECTIONS.split(text)[0].strip()} if loss else {}


def settings_of(model: nn.Module, settings: JsonObject) -> JsonObject:
    """The settings of a model's loss, and from `settings` those of its embedding and of what was added to the loss."""
    loss = getattr(model, "loss_fn", None)
    of_loss = {name: value for name, value in loss.settings().items() if name != "loss"} if loss else {}
    names = ["pooling", "mlp_only_train", "do_mlm", *(["mlm_weight"] if settings.get("do_mlm") else [])]
    names += ["cutoff", "cutoff_ratio"] if settings.get("cutoff") else []
    return {**of_loss, **{name: settings[name] for name in names if name in settings}}


def write_training_metadata(content: JsonObject, folder: str | Path) -> Path:
    """Write `training_metadata.json` into a checkpoint folder."""
    path = Path(folder, TRAINING_METADATA)
    write_json(path, content)
    return path


def read_training_metadata(folder: str | Path) -> JsonObject:
    """The training metadata of a checkpoint; {} if there is none.

    Raises:
        InputError: the file is damaged.
    """
    path = Path(folder, TRAINING_METADATA)
    content = read_json(path, dict) if path.is_file() else {}
    for section in ("loss", "data", "base_model", "hyper_parameters", "arguments", "launch", "run", "hardware",
                    "versions", "model", "adapter"):  # fmt: skip
        checked(f"{path}: {section}", content.get(section, {}), JsonObject)
    return content


def base_model(model: object) -> JsonObject:
    """The source of a model's initial weights: none, a folder (its last name only), or the Hub (name, commit)."""
    name = getattr(model, "name_or_path", "") or ""
    if not name:
        return {"from": "scratch"}
    if os.path.isdir(name) or os.path.isabs(name):
        return {"from": "folder", "name": folder_name(name)}
    return {"from": "hub", "name": name, "commit": getattr(getattr(model, "config", None), "_commit_hash", None)}


def hyper_parameters(args: TrainingArguments) -> JsonObject:
    """Every training argument that differs from its default, and the most important ones in any case."""
    result = {}
    for spec in dataclasses.fields(args):
        value = getattr(args, spec.name, None)
        usual = value == spec.default
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            usual = value == type(value)()
        elif spec.default is None or spec.default is dataclasses.MISSING:  # filled in by the arguments themselves
            usual = value is None or value is False or value in ([], {}, "")
        if spec.name not in _NEVER and (spec.name in _ALWAYS or not usual):
            result[spec.name] = _plain(value)
    return result


def changed_arguments(args: Any, *without: str) -> JsonObject:
    """The fields of a dataclass of arguments that differ from their defaults."""
    fields = [spec for spec in dataclasses.fields(args) if spec.name not in without]
    return {f.name: _plain(getattr(args, f.name)) for f in fields if getattr(args, f.name) != f.default}


def hardware() -> JsonObject:
    """The processor, its usable cores and the accelerators; no names of hosts or users."""
    import torch

    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = [f"model name: {platform.processor()}"] if platform.processor() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    result: JsonObject = {"cpu": next(names, platform.machine()), "cores": affinity()}
    if torch.cuda.is_available():
        result["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return result


def versions() -> dict[str, str]:
    """The versions of Python, and of the libraries that training uses and that are installed."""
    installed = {name: version for name in _PACKAGES if (version := installed_version(name))}
    return {"python": platform.python_version(), **installed}


def _plain(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (str, int, float, bool, type(None), list, tuple, dict)):
        return value
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else str(value)
