"""What is saved beside weights and config, so that other loaders open a folder with the same embeddings.

The files of sentence-transformers, and for this package's own architectures the code that defines them.
"""

from __future__ import annotations

import inspect
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoConfig, AutoModel
from transformers.dynamic_module_utils import get_relative_import_files

from contrastive_st.models.pooling import needs_all_layers

if TYPE_CHECKING:
    from transformers import PreTrainedModel as _Base  # which every class that mixes this in is
else:
    _Base = object


def write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write a safetensors file with the mode that the umask asks for, where the library lets only the owner read it."""
    path.touch()
    mode = path.stat().st_mode
    save_file(tensors, path, metadata={"format": "pt"})
    path.chmod(mode)


class RemoteCodeMixin(_Base):
    """Mixed into a model class: whatever saves it also saves the files that define `code_class`.

    `code_class` is a base of the class with the same weights, in a file that imports torch, transformers and, by
    `from .name import`, files like itself, its configuration's among them. Where this package is not installed,
    `AutoModel.from_pretrained(folder, trust_remote_code=True)` gives a `code_class`, and sentence-transformers takes
    its `pooler_output` for the embedding; where it is, both find the class that `register` named, without the flag.
    """

    code_class: ClassVar[Any]

    def save_pretrained(self, save_directory: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Save weights, config and code."""
        self.config.auto_map = {"AutoConfig": _address(self.config_class), "AutoModel": _address(self.code_class)}
        super().save_pretrained(save_directory, **kwargs)

    def write_other_loaders(self, folder: Any, state_dict: dict[str, Tensor] | None) -> None:
        """Write the code, and what tells sentence-transformers that `pooler_output` is the embedding."""
        classes: tuple[Any, Any] = (self.config_class, self.code_class)
        for cls in classes:
            own = inspect.getfile(cls)
            for file in (own, *get_relative_import_files(own)):
                shutil.copyfile(file, Path(folder) / Path(file).name)
        write_pooler_output_module(folder, self.settings)


def register(model_class: Any) -> Any:
    """Make `AutoConfig` and `AutoModel` of this process open checkpoints of `model_class` as such; a decorator."""
    AutoConfig.register(model_class.config_class.model_type, model_class.config_class)
    AutoModel.register(model_class.config_class, model_class)
    return model_class


def write_pooler_output_module(folder: str | Path, settings: Any) -> None:
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
    }
    for name, content in files.items():
        _write(Path(folder, name), content)
    _write_use(Path(folder), settings)


def _write_use(folder: Path, settings: Any) -> None:
    """Write how vectors are asked for: prompts, and how many dimensions are kept."""
    about = {"similarity_fn_name": "cosine", "prompts": dict(getattr(settings, "prompts", {})),
             "default_prompt_name": getattr(settings, "default_prompt_name", None)}  # fmt: skip
    dim = getattr(settings, "truncate_dim", None)
    _write(folder / "config_sentence_transformers.json", {**about, **({} if dim is None else {"truncate_dim": dim})})


def _address(cls: Any) -> str:
    return f"{cls.__module__.rsplit('.', 1)[-1]}.{cls.__name__}"


_MODULES = "sentence_transformers.models."
#: In `modules.json` where sentence-transformers has no such pooling: it refuses the folder, and does not take the mean
MASK_POOLING = "contrastive_st.MaskPooling"
_MODES = {"max": "max_tokens", "last": "lasttoken", "cls": "cls_token", "cls_before_pooler": "cls_token"}


def write_sentence_transformers(model: Any, folder: str | Path, state_dict: dict[str, Tensor] | None = None) -> None:
    """Write `modules.json`, the pooling and, where inference uses it, the projection head as `2_Dense`.

    Args:
        model: what is being saved.
        folder: where its weights and config already are.
        state_dict: the gathered weights when the model's own are sharded.
    """
    folder, settings = Path(folder), model.settings
    dim = model.config.hidden_size
    modules = [("", "Transformer")]
    about: dict[str, Any] = {"max_seq_length": None, "do_lower_case": False}
    if needs_all_layers(settings.pooling):
        if not (folder / "config.json").is_file():  # an adapter: its base's config does not ask for all layers
            about["config_args"] = {"output_hidden_states": True}
        modules.append((f"{len(modules)}_WeightedLayerPooling", "WeightedLayerPooling"))
        _write_layer_weights(folder / modules[-1][0], settings.pooling, model.config.num_hidden_layers, dim)
    _write(folder / "sentence_bert_config.json", about)
    modules.append((f"{len(modules)}_Pooling", "Pooling"))
    names = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    mode = _MODES.get(settings.pooling, "mask" if settings.pooling == "mask" else "mean_tokens")
    flags = {f"pooling_mode_{name}": name == mode for name in names}
    pooled = {"word_embedding_dimension": dim, **flags, "include_prompt": settings.include_prompt}
    _write(folder / modules[-1][0] / "config.json", pooled)
    if settings.pooling == "cls" and not settings.mlp_only_train:
        modules.append((f"{len(modules)}_Dense", "Dense"))
        _write_dense(folder / modules[-1][0], model, dim, state_dict)
    entries = [
        {"idx": i, "name": str(i), "path": path, "type": _MODULES + name} for i, (path, name) in enumerate(modules)
    ]
    if settings.pooling == "mask":
        entries[1]["type"] = MASK_POOLING
    _write(folder / "modules.json", entries)
    _write_use(folder, settings)


def _write_dense(folder: Path, model: Any, dim: int, state_dict: dict[str, Tensor] | None) -> None:
    activation = "torch.nn.modules.activation.Tanh"
    _write(
        folder / "config.json",
        {"in_features": dim, "out_features": dim, "bias": True, "activation_function": activation},
    )
    weights: dict[str, Any] = model.state_dict() if state_dict is None else state_dict
    names = {"linear.weight": "pooler.dense.weight", "linear.bias": "pooler.dense.bias"}
    prefix = model.base_model_prefix
    dense = {to: weights[f"{prefix}.{name}"].detach().cpu().contiguous() for to, name in names.items()}
    write_tensors(dense, folder / "model.safetensors")


def _write_layer_weights(folder: Path, pooling: str, layers: int, dim: int) -> None:
    first = 1 if pooling == "avg_first_last" else layers - 1
    _write(folder / "config.json", {"word_embedding_dimension": dim, "layer_start": first, "num_hidden_layers": layers})
    weights = torch.zeros(layers + 1 - first)
    weights[0] += 0.5
    weights[-1] += 0.5
    write_tensors({"layer_weights": weights}, folder / "model.safetensors")


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
