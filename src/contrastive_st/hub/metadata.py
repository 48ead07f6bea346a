"""What a checkpoint folder says of itself, for its card: config, modules, training, evaluation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from contrastive_st.errors import InputError, about
from contrastive_st.evaluation.report.report import Report
from contrastive_st.files.folders import ADAPTER, CLASSIFIER, read_export
from contrastive_st.files.reading import read_json
from contrastive_st.models.checkpoint import Checkpoint, recorded_pooling, written_by_another
from contrastive_st.training.metadata import read_training_metadata
from contrastive_st.training.methods import Method, method_of

EVALUATION = "evaluation"  # the folder that `contrastive-st evaluate --output` wrote
CURVE = "training_curve.png"


@dataclass(frozen=True)
class CheckpointMetadata:
    """A checkpoint folder's config, modules, training and evaluation, read from its files.

    Entries that the files do not have are not guessed.

    Args:
        folder: the checkpoint folder.
        newer_than: seconds since the epoch; an older evaluation is of other weights and is ignored.

    Raises:
        InputError: the folder is not a checkpoint, or a file is damaged.
    """

    folder: Path
    newer_than: float = 0.0
    config: Mapping[str, Any] = field(init=False)
    training: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        path, training = self.folder / "config.json", read_training_metadata(self.folder)
        if path.is_file():
            config = read_json(path, dict)
        elif (self.folder / ADAPTER).is_file():  # the config is its base's; training has recorded what a card says
            loss = training.get("loss", {})
            settings = {**(loss.get("settings") or {}), "loss": loss["name"]} if loss.get("name") else {}
            config = {"model_type": training.get("model", {}).get("type", "an adapter"), "contrastive": settings}
        else:
            raise InputError(
                f"{self.folder} is not a checkpoint folder (it has no config.json); give the folder of a saved model"
            )
        object.__setattr__(self, "config", config)
        object.__setattr__(self, "training", training)

    @cached_property
    def adapter_base(self) -> str | None:
        """The Hub name of the base of an adapter; None for a whole model, or if the base is a folder."""
        path = self.folder / ADAPTER
        base = str(read_json(path, dict).get("base_model_name_or_path") or "") if path.is_file() else ""
        return base if base and not (os.path.isabs(base) or os.path.isdir(base)) else None

    @property
    def architecture(self) -> str:
        """The family of models."""
        return str(self.config.get("model_type"))

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """Pooling, loss and the rest, as this package's config holds them; empty for other checkpoints."""
        with about(self.folder / "config.json"):
            return dict(self.config.get("contrastive", {}))

    @cached_property
    def _modules(self) -> Checkpoint | None:
        """What the modules of sentence-transformers say of a folder in which settings of this package do not hold."""
        adapter, ours = (self.folder / ADAPTER).is_file(), self.settings and not written_by_another(self.folder)
        found = None if adapter or ours else Checkpoint.read(self.folder)
        return None if found is None or found.own else found

    @property
    def pooling(self) -> str | None:
        """How the embedding is pooled when the model is used."""
        return recorded_pooling(self.settings) if self._modules is None else self._modules.pooling

    @property
    def has_dense_layers(self) -> bool:
        """Whether there are layers after the pooling."""
        return bool(self.settings.get("dense") if self._modules is None else self._modules.dense)

    @property
    def method(self) -> Method:
        """The training method; its name is "not recorded" if the config has no loss."""
        return method_of(self.architecture, self.settings, self.training)

    @property
    def hyper_parameters(self) -> dict[str, Any]:
        """Hyper-parameters of the loss, the trainer and the job, in that order."""
        settings = self.training.get("loss", {}).get("settings") or {}
        return {**settings, **self.training.get("hyper_parameters", {}), **self.training.get("arguments", {})}

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
        return (self.folder / "modules.json").is_file()

    @cached_property
    def max_length(self) -> int | None:
        """Number of tokens to which a text is truncated."""
        path = self.folder / "tokenizer_config.json"
        length = self.training.get("max_length") or (read_json(path, dict) if path.is_file() else {}).get(
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
        report = Report.read(path)
        name = report.models[0] if len(report.models) == 1 else self.folder.resolve().name
        if name not in report.models:
            raise InputError(
                f"{path} is a report on {', '.join(report.models)}, and none of them is called {name}; evaluate {name} "
                "alone"
            )
        return report, name

    @cached_property
    def classifiers(self) -> dict[str, dict[str, Any]]:
        """What the folder says of each `SentenceClassifier` in it, by its name."""
        paths = sorted(self.folder.glob(f"*{CLASSIFIER[0]}"))
        return {path.name.removesuffix(CLASSIFIER[0]): read_json(path, dict) for path in paths}
