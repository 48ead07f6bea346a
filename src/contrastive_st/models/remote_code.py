"""Checkpoints of this package's own architectures carry their code, so that they open where it is not installed."""

from __future__ import annotations

import inspect
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.dynamic_module_utils import get_relative_import_files

_Base: Any = PreTrainedModel if TYPE_CHECKING else object


class RemoteCodeMixin(_Base):
    """Mixed into a model class: whatever saves it also saves the files that define `code_class`.

    `code_class` is a base of the class with the same weights, in a file that imports torch, transformers and, by
    `from .name import`, files like itself, its configuration's among them. Where this package is not installed,
    `AutoModel.from_pretrained(folder, trust_remote_code=True)` gives a `code_class`, and sentence-transformers takes
    its `pooler_output` for the embedding; where it is, both find the class that `register` named, without the flag.
    """

    code_class: ClassVar[Any]

    def save_pretrained(self, save_directory: Any, **kwargs: Any) -> None:
        """Save weights, config and code."""
        self.config.auto_map = {"AutoConfig": _address(self.config_class), "AutoModel": _address(self.code_class)}
        super().save_pretrained(save_directory, **kwargs)

    def write_other_loaders(self, folder: Any, state_dict: dict[str, Tensor] | None) -> None:
        """Write the code, and what tells sentence-transformers that `pooler_output` is the embedding."""
        for cls in (self.config_class, self.code_class):
            own = inspect.getfile(cls)
            for file in (own, *get_relative_import_files(own)):
                shutil.copyfile(file, Path(folder) / Path(file).name)
        write_pooler_output_module(folder)


def register(model_class: Any) -> Any:
    """Make `AutoConfig` and `AutoModel` of this process open checkpoints of `model_class` as such; a decorator."""
    AutoConfig.register(model_class.config_class.model_type, model_class.config_class)
    AutoModel.register(model_class.config_class, model_class)
    return model_class


def write_pooler_output_module(folder: str | Path) -> None:
    """Write the files by which sentence-transformers takes a model's `pooler_output` for the sentence embedding."""
    files: dict[str, Any] = {
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}
        ],
        "sentence_bert_config.json": {
            "transformer_task": "feature-extraction",
            "modality_config": {"text": {"method": "forward", "method_output_name": "pooler_output"}},
            "module_output_name": "sentence_embedding",
        },
        "config_sentence_transformers.json": {
            "similarity_fn_name": "cosine", "prompts": {}, "default_prompt_name": None,
        },
    }  # fmt: skip
    for name, content in files.items():
        (Path(folder) / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _address(cls: type) -> str:
    return f"{cls.__module__.rsplit('.', 1)[-1]}.{cls.__name__}"
