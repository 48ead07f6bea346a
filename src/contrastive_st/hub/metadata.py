"""Training metadata of a run, the records of a checkpoint folder, and the works that a model card cites."""

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
from functools import cache, cached_property
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive_st.errors import InputError
from contrastive_st.safety.folders import ADAPTER, read_export, read_json
from contrastive_st.safety.redact import publishable, publishable_arguments
from contrastive_st.safety.writing import written_whole

if TYPE_CHECKING:
    from contrastive_st.evaluation.report.report import Report


TRAINING_METADATA = "training_metadata.json"
EVALUATION = "evaluation"  # the folder that `contrastive-st evaluate --output` wrote
CURVE = "training_curve.png"
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


def training_metadata(trainer: Any, clock: Clock, given: Mapping[str, Any]) -> dict[str, Any]:
    """The training metadata of a trainer's run, without secrets and without paths of this machine.

    Args:
        trainer: a `transformers.Trainer` of a contrastive model.
        clock: its counters.
        given: entries that the trainer cannot know, such as `data` (name, licence) and `arguments` (of a job).
    """
    args, model = trainer.args, trainer.accelerator.unwrap_model(trainer.model)
    settings = dict(getattr(model.config, "contrastive", {}))
    collator = type(trainer.data_collator).__name__
    tokenizer, of_run = trainer.processing_class, hyper_parameters(args)
    method = method_of(model.config.model_type, settings, {"collator": collator, "hyper_parameters": of_run})
    found = {
        "method": method.name,
        "loss": {"name": settings.get("loss"), "settings": settings_of(model)},
        "collator": collator,
        "model": {
            "class": type(model).__name__,
            "type": model.config.model_type,
            "parameters": sum(p.numel() for p in model.parameters()),
        },
        "base_model": base_model(model),
        "data": {"rows": _rows(trainer.train_dataset), **given.get("data", {})},
        "max_length": getattr(tokenizer, "model_max_length", None),
        "hyper_parameters": of_run,
        "arguments": dict(given.get("arguments", {})),
        "launch": {"argv": list(sys.argv), "processes": args.world_size},
        "seed": args.seed,
        "versions": {"python": platform.python_version(), **versions()},
        "hardware": hardware(),
        "run": _run(trainer.state, clock),
    }
    if adapter := adapter_of(model):
        found["adapter"] = adapter
    shown: dict[str, Any] = publishable(found)
    shown["loss"] |= words_of(getattr(model, "loss_fn", None))
    shown["launch"]["argv"] = publishable_arguments(sys.argv)
    return shown


def adapter_of(model: Any) -> dict[str, Any]:
    """The settings of the adapter that is trained; {} if the whole model is trained."""
    configs = getattr(getattr(model, "backbone", None), "peft_config", None)
    if not configs:
        return {}
    (config,) = configs.values()
    return {
        "kind": "LoRA", "r": config.r, "alpha": config.lora_alpha, "dropout": config.lora_dropout,
        "target_modules": sorted(config.target_modules),
        "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
    }  # fmt: skip


def words_of(loss: Any) -> dict[str, str]:
    """Name and formula of a loss, from the docstring of its class.

    Example:
        >>> from contrastive_st.losses import InfoNCE
        >>> words_of(InfoNCE())["class"], "loss_i = -log exp" in words_of(InfoNCE())["formula"]
        ('InfoNCE', True)
    """
    text = inspect.getdoc(type(loss)) or ""
    return {"class": type(loss).__name__, "formula": _SECTIONS.split(text)[0].strip()} if loss else {}


def settings_of(model: Any) -> dict[str, Any]:
    """The settings of the model's loss and of its embedding."""
    loss, config = getattr(model, "loss_fn", None), getattr(model.config, "contrastive", {})
    own = {name: value for name, value in loss.settings().items() if name != "loss"} if loss else {}
    return {**own, **{name: config[name] for name in ("pooling", "mlp_only_train", "do_mlm") if name in config}}


def write_training_metadata(content: Mapping[str, Any], folder: str | Path) -> Path:
    """Write `training_metadata.json` into a checkpoint folder."""
    path = Path(folder, TRAINING_METADATA)
    with written_whole(path, overwrite=True) as file:
        file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def read_training_metadata(folder: str | Path) -> dict[str, Any]:
    """The training metadata of a checkpoint; {} if there is none.

    Raises:
        InputError: the file is damaged.
    """
    path = Path(folder, TRAINING_METADATA)
    content = _read_object(path) if path.is_file() else {}
    for section in ("loss", "data", "base_model", "hyper_parameters", "arguments", "launch", "run", "hardware",
                    "versions", "model", "adapter"):  # fmt: skip
        if not isinstance(content.get(section, {}), dict):
            raise InputError(f"{path} is damaged: {section} is not a JSON object")
    return content


def _read_object(path: Path) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(f"{path} is damaged: it is not a JSON object")
    return content


def base_model(model: Any) -> dict[str, Any]:
    """The source of a model's initial weights: none, a folder (its last name only), or the Hub (name, commit)."""
    name = getattr(model, "name_or_path", "") or ""
    if not name:
        return {"from": "scratch"}
    if os.path.isdir(name) or os.path.isabs(name):
        return {"from": "folder", "name": Path(name).resolve().name}
    return {"from": "hub", "name": name, "commit": getattr(model.config, "_commit_hash", None)}


def hyper_parameters(args: Any) -> dict[str, Any]:
    """Every training argument that differs from its default, and the most important ones in any case."""
    found = {}
    for spec in dataclasses.fields(args):
        value = getattr(args, spec.name, None)
        if spec.name not in _NEVER and (spec.name in _ALWAYS or not _is_default(value, spec)):
            found[spec.name] = _plain(value)
    return found


def _is_default(value: Any, field: dataclasses.Field[Any]) -> bool:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return bool(value == type(value)())
    if field.default is None or field.default is dataclasses.MISSING:  # filled in by the arguments themselves
        return value is None or value is False or value in ([], {}, "")
    return bool(value == field.default)


def changed_arguments(args: Any, *without: str) -> dict[str, Any]:
    """The fields of a dataclass of arguments that differ from their defaults."""
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


def versions() -> dict[str, str]:
    """The installed versions of the libraries that training uses."""
    installed = {}
    for package in _PACKAGES:
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return installed


def _rows(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except TypeError:  # a stream, or a mixture with one
        return None


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
    if isinstance(value, (str, int, float, bool, type(None), list, tuple, dict)):
        return value
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else str(value)


@dataclass(frozen=True)
class CheckpointMetadata:
    """A checkpoint folder's config, modules, training and evaluation, read from its files.

    Entries that the files do not have are not guessed.

    Args:
        folder: the checkpoint folder.
        newer_than: seconds since the epoch; an older evaluation is of other weights and is ignored.

    Raises:
        InputError: the folder is no checkpoint, or a file is damaged.
    """

    folder: Path
    newer_than: float = 0.0
    config: Mapping[str, Any] = field(init=False)
    training: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        path, training = self.folder / "config.json", read_training_metadata(self.folder)
        if path.is_file():
            config = _read_object(path)
        elif (self.folder / ADAPTER).is_file():  # the config is its base's; training has recorded what a card says
            loss = training.get("loss", {})
            settings = {**(loss.get("settings") or {}), "loss": loss["name"]} if loss.get("name") else {}
            config = {"model_type": training.get("model", {}).get("type", "an adapter"), "contrastive": settings}
        else:
            raise InputError(
                f"{self.folder} is no checkpoint folder (no config.json); give the folder of a saved model"
            )
        object.__setattr__(self, "config", config)
        object.__setattr__(self, "training", training)

    @cached_property
    def adapter_base(self) -> str | None:
        """The Hub name of the base of an adapter; None for a whole model, or if the base is a folder."""
        path = self.folder / ADAPTER
        base = str(_read_object(path).get("base_model_name_or_path") or "") if path.is_file() else ""
        return base if base and not (os.path.isabs(base) or os.path.isdir(base)) else None

    @property
    def architecture(self) -> str:
        """The family of models."""
        return str(self.config.get("model_type"))

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """Pooling, loss and the rest, as this package's config holds them; empty for other checkpoints."""
        held = self.config.get("contrastive", {})
        if not isinstance(held, dict):
            raise InputError(f"{self.folder / 'config.json'} is damaged: contrastive is not a JSON object")
        return held

    @property
    def pooling(self) -> str | None:
        """How the embedding is pooled when the model is used."""
        pooling = self.settings.get("pooling")
        return "cls_before_pooler" if pooling == "cls" and self.settings.get("mlp_only_train") else pooling

    @property
    def method(self) -> Method:
        """The training method; its name is "not recorded" if the config has no loss."""
        return method_of(self.architecture, self.settings, self.training)

    @property
    def hyper_parameters(self) -> dict[str, Any]:
        """Hyper-parameters of the loss, the trainer and the job, in that order."""
        own = self.training.get("loss", {}).get("settings") or {}
        return {**own, **self.training.get("hyper_parameters", {}), **self.training.get("arguments", {})}

    @property
    def needs_remote_code(self) -> bool:
        """Whether plain transformers opens it only with `trust_remote_code=True`."""
        return "auto_map" in self.config

    @property
    def backend(self) -> str | None:
        """What runs the graph of an exported folder: `onnx` or `openvino`; None for a checkpoint."""
        return read_export(self.folder).get("backend")

    @property
    def opens_in_sentence_transformers(self) -> bool:
        """Whether the folder has the files that `SentenceTransformer(folder)` reads."""
        return (self.folder / "modules.json").is_file() and self.pooling != "mask"

    @cached_property
    def max_length(self) -> int | None:
        """Number of tokens to which a text is truncated."""
        path = self.folder / "tokenizer_config.json"
        length = self.training.get("max_length") or (_read_object(path) if path.is_file() else {}).get(
            "model_max_length"
        )
        return int(length) if isinstance(length, (int, float)) and 0 < length < 1 << 29 else None

    @cached_property
    def report(self) -> tuple[Report, str] | None:
        """The evaluation report and the name of this model in it.

        Raises:
            InputError: the report has several models, and none has the name of the folder.
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


@dataclass(frozen=True)
class Method:
    """A training method.

    Args:
        name: for use in a sentence.
        tag: tag on the Hub.
        citations: BibTeX entries of the works to cite.
    """

    name: str
    tag: str = ""
    citations: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the entries."""
        return tuple(map(_key, self.citations))


def method_of(architecture: str, settings: Mapping[str, Any], training: Mapping[str, Any] | None = None) -> Method:
    """The training method of a model, from its architecture, its loss and its training metadata.

    Args:
        architecture: the `model_type` of the config.
        settings: `config.contrastive`, under its present names; without a loss the method is "not recorded".
        training: the training metadata; its collator tells how pairs are made.

    Example:
        >>> method_of("bert", {"loss": "info_nce"}, {"collator": "DropoutPairCollator"}).name
        'SimCSE, unsupervised'
        >>> method_of("infersent", {"loss": "softmax"}).keys
        ('conneau2017supervised',)
        >>> method_of("bert", {"loss": "softmax"}).keys
        ('reimers2019sentence', 'devlin2019bert')
    """
    from contrastive_st.models.checkpoint import family  # which takes seconds to import

    training = training or {}
    method = _SYSTEMS.get((architecture, str(settings.get("loss")))) or _of_loss(settings, training)
    soup = _works("wortsman2022model") if training.get("soup") else ()
    lora = _works("hu2022lora") if training.get("adapter") else ()
    own = _entries(getattr(family(architecture), "citation", ""))
    return Method(method.name, method.tag, tuple(dict.fromkeys((*method.citations, *soup, *lora, *own))))


def references() -> dict[str, str]:
    """Every work that a card may cite, by its key: of all losses, architectures and methods."""
    from contrastive_st.losses import LOSSES
    from contrastive_st.models.checkpoint import FAMILIES, family

    classes = [*LOSSES.values(), *map(family, FAMILIES)]
    return {**_of_methods(), **{_key(entry): entry for kind in classes for entry in _entries(kind.citation)}}


@cache
def _of_methods() -> dict[str, str]:
    """The works of methods that are neither a loss nor an architecture: the entries of `templates/references.bib`."""
    text = (resources.files(__package__) / "templates" / "references.bib").read_text(encoding="utf-8")
    return {_key(entry): entry for entry in _entries(text)}


def _entries(text: str) -> tuple[str, ...]:
    return tuple(text.strip().split("\n\n")) if text.strip() else ()


def _key(entry: str) -> str:
    return re.split("[{,]", entry, maxsplit=2)[1]


def _works(*keys: str) -> tuple[str, ...]:
    return tuple(_of_methods()[key] for key in keys)


def _of_loss(settings: Mapping[str, Any], training: Mapping[str, Any]) -> Method:
    from contrastive_st.losses import LOSSES

    loss = "consistent_info_nce" if settings.get("cutoff") else str(settings.get("loss") or "not recorded")
    kind = LOSSES.get(loss)
    own = _entries(kind.citation) if kind else ()
    if settings.get("pooling") == "mask" and loss != "consistent_info_nce":
        return Method("PromptBERT", "promptbert", _works("jiang2022promptbert"))
    if loss == "info_nce" and (training.get("hyper_parameters") or {}).get("momentum_queue"):
        return Method("CERT", "cert", _works("fang2020cert", "he2020momentum"))
    if loss == "info_nce" and (found := _PAIRS.get(str(training.get("collator")))):
        return Method(*found, _works("gao2021simcse") if found[1] == "simcse" else own)
    if loss == "targets" and settings.get("row_loss") in ("block", "pairwise"):
        return Method("CURL", "curl", _works("arora2019theoretical"))
    if loss == "targets" and (named := _TARGETS.get(str(settings.get("targets")))):
        return Method(*named, own)
    if loss == "matryoshka":
        inner = _of_loss(settings.get("inner") or {}, training)
        return Method(f"{inner.name}, Matryoshka", "matryoshka", (*inner.citations, *own))
    if loss in ("mixture", "multi_task"):
        tasks = [_of_loss(task, {}) for task in (settings.get("tasks") or {}).values()]
        return Method("Several tasks", "multi-task", tuple(work for method in tasks for work in method.citations))
    return Method(vars(kind).get("words", loss), vars(kind).get("tag", ""), own) if kind else Method(loss)


_PAIRS = {
    "DropoutPairCollator": ("SimCSE, unsupervised", "simcse"),
    "PairCollator": ("InfoNCE on pairs", "info-nce"),
    "NLITripletCollator": ("SimCSE, supervised", "simcse"),
}
_TARGETS = {
    "next": ("QuickThoughts", "quickthoughts"),
    "window": ("QuickThoughts", "quickthoughts"),
    "counts": ("Co-occurrence counts", "co-occurrence"),
    "tfidf": ("TF-IDF targets", "tf-idf"),
    "tfidf_bin": ("Binarized TF-IDF targets", "tf-idf"),
}  # the last three replace the targets of QuickThoughts and keep the rest of it
_SYSTEMS = {  # published as one: an architecture with its loss
    ("infersent", "softmax"): Method("InferSent", "infersent"),
    ("universal", "multi_task"): Method("Universal Sentence Encoder", "universal-sentence-encoder"),
}
