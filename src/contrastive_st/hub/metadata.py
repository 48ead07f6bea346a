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
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive_st.errors import InputError
from contrastive_st.hub.citations import Method, method_of
from contrastive_st.safety.folders import read_json
from contrastive_st.safety.redact import publishable, publishable_arguments

if TYPE_CHECKING:
    from contrastive_st.evaluation.report.report import Report


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
        "loss": {"name": settings.get("loss"), "settings": settings_of(model)},
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
    shown["loss"] |= words_of(getattr(model, "loss_fn", None))
    shown["launch"]["argv"] = publishable_arguments(sys.argv)
    return shown


def words_of(loss: Any) -> dict[str, str]:
    """Name and formula of a loss, from what its class says of itself.

    Example:
        >>> from contrastive_st.losses import InfoNCE
        >>> words_of(InfoNCE())["class"], "loss_i = -log exp" in words_of(InfoNCE())["formula"]
        ('InfoNCE', True)
    """
    text = inspect.getdoc(type(loss)) or ""
    return {"class": type(loss).__name__, "formula": _SECTIONS.split(text)[0].strip()} if loss else {}


def settings_of(model: Any) -> dict[str, Any]:
    """What the model's loss is made with, and how its embedding is made."""
    loss = getattr(model, "loss_fn", None)
    own = {f.name: getattr(loss, f.name) for f in dataclasses.fields(loss) if f.init} if loss else {}
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
    for spec in dataclasses.fields(args):
        value = getattr(args, spec.name, None)
        if spec.name not in _NEVER and (spec.name in _ALWAYS or not _is_default(value, spec)):
            found[spec.name] = _plain(value)
    return found


def _is_default(value: Any, field: dataclasses.Field[Any]) -> bool:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return value == type(value)()
    if field.default is None or field.default is dataclasses.MISSING:  # filled in by the arguments themselves
        return value is None or value is False or value in ([], {}, "")
    return value == field.default


def changed_arguments(args: Any, *without: str) -> dict[str, Any]:
    """The fields of a dataclass of arguments that are not at their defaults."""
    fields = [spec for spec in dataclasses.fields(args) if spec.name not in without]
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


# --- What a checkpoint folder says about itself, read from its files; nothing is guessed where they are silent.

EVALUATION = "evaluation"  # the folder that `contrastive-st evaluate --output` wrote
CURVE = "training_curve.png"
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class Facts:
    """A checkpoint folder's config, modules, recipe and evaluation.

    Args:
        folder: where they are.
        newer_than: seconds since the epoch; an evaluation older than that is of other weights and does not count.
    """

    folder: Path
    newer_than: float = 0.0
    recipe: Mapping[str, Any] = field(init=False)
    config: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        config = self._json("config.json")
        if not config:
            raise InputError(
                f"{self.folder} is no checkpoint folder (no config.json); give the folder of a saved model"
            )
        object.__setattr__(self, "config", config)
        object.__setattr__(self, "recipe", self._json(RECIPE))

    @property
    def settings(self) -> Mapping[str, Any]:
        """Pooling, loss and the rest, as this package's config holds them; empty for other checkpoints."""
        from contrastive_st.models.configuration import upgrade_settings

        return upgrade_settings(self.config.get("contrastive", {}))

    @property
    def pooling(self) -> str | None:
        """How the embedding is pooled when the model is used."""
        pooling = self.settings.get("pooling")
        return "cls_before_pooler" if pooling == "cls" and self.settings.get("mlp_only_train") else pooling

    @property
    def method(self) -> Method:
        """The training method; its name is "not recorded" where the config holds no loss."""
        return method_of(self.settings, str(self.recipe.get("collator", "")))

    @property
    def needs_remote_code(self) -> bool:
        """Whether plain transformers opens it only with `trust_remote_code=True`."""
        return "auto_map" in self.config

    @property
    def opens_in_sentence_transformers(self) -> bool:
        """Whether the folder has the files that `SentenceTransformer(folder)` reads."""
        return (self.folder / "modules.json").is_file()

    @property
    def max_length(self) -> int | None:
        """Tokens a text is cut to."""
        length = self.recipe.get("max_length") or self._json("tokenizer_config.json").get("model_max_length")
        return int(length) if length and length < 1 << 29 else None

    @cached_property
    def report(self) -> tuple[Report, str] | None:
        """The evaluation report and what it calls this model.

        Raises:
            InputError: it holds several models, and none has the name of the folder.
        """
        path = self.folder / EVALUATION / "report.json"
        if not path.is_file() or path.stat().st_mtime < self.newer_than:
            return None
        from contrastive_st.evaluation.report.report import Report

        report = Report.read(path)
        name = report.models[0] if len(report.models) == 1 else self.folder.resolve().name
        if name not in report.models:
            raise InputError(
                f"{path} is of the models {', '.join(report.models)}, and none is called {name}; evaluate it alone"
            )
        return report, name

    @property
    def plots(self) -> list[str]:
        """The evaluation's plots, as paths below the folder."""
        found = sorted((self.folder / EVALUATION).glob("*.png")) if self.report else []
        return [path.relative_to(self.folder).as_posix() for path in found]

    def _json(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        content = read_json(path) if path.is_file() else {}
        if not isinstance(content, dict):
            raise InputError(f"{path} is damaged: it holds no names and values")
        return content
