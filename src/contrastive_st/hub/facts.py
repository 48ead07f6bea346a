"""What a checkpoint folder says about itself, read from its files; nothing is guessed where they are silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive_st.errors import InputError
from contrastive_st.hub.methods import Method, method_of
from contrastive_st.hub.recipe import RECIPE
from contrastive_st.storage.folders import read_json

if TYPE_CHECKING:
    from contrastive_st.evaluation.report import Report

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
        """Pooling, objective and the rest, as this package's config holds them; empty for other checkpoints."""
        return self.config.get("contrastive", {})

    @property
    def pooling(self) -> str | None:
        """How the embedding is pooled when the model is used."""
        pooling = self.settings.get("pooling")
        return "cls_before_pooler" if pooling == "cls" and self.settings.get("mlp_only_train") else pooling

    @property
    def method(self) -> Method:
        """The training method; its name is "not recorded" where the config holds no objective."""
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
        from contrastive_st.evaluation.model_card import read_report

        report = read_report(path)
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
