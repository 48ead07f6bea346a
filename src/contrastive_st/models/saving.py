"""The files that let `SentenceTransformer(folder)` open a ForCL checkpoint, with the same embeddings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from contrastive_st.models.pooling import needs_all_layers

_MODULES = "sentence_transformers.models."
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
    _write(folder / "sentence_bert_config.json", {"max_seq_length": None, "do_lower_case": False})
    if needs_all_layers(settings.pooling):
        modules.append((f"{len(modules)}_WeightedLayerPooling", "WeightedLayerPooling"))
        _write_layer_weights(folder / modules[-1][0], settings.pooling, model.config.num_hidden_layers, dim)
    modules.append((f"{len(modules)}_Pooling", "Pooling"))
    mode = "pooling_mode_" + _MODES.get(settings.pooling, "mean_tokens")
    names = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    flags = {f"pooling_mode_{name}": f"pooling_mode_{name}" == mode for name in names}
    _write(folder / modules[-1][0] / "config.json", {"word_embedding_dimension": dim, **flags})
    if settings.pooling == "cls" and not settings.mlp_only_train:
        modules.append((f"{len(modules)}_Dense", "Dense"))
        _write_dense(folder / modules[-1][0], model, dim, state_dict)
    entries = [
        {"idx": i, "name": str(i), "path": path, "type": _MODULES + name} for i, (path, name) in enumerate(modules)
    ]
    _write(folder / "modules.json", entries)
    _write(
        folder / "config_sentence_transformers.json",
        {"similarity_fn_name": "cosine", "prompts": {}, "default_prompt_name": None},
    )


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
    save_file(dense, folder / "model.safetensors", metadata={"format": "pt"})


def _write_layer_weights(folder: Path, pooling: str, layers: int, dim: int) -> None:
    first = 1 if pooling == "avg_first_last" else layers - 1
    _write(folder / "config.json", {"word_embedding_dimension": dim, "layer_start": first, "num_hidden_layers": layers})
    weights = torch.zeros(layers + 1 - first)
    weights[0] += 0.5
    weights[-1] += 0.5
    save_file({"layer_weights": weights}, folder / "model.safetensors", metadata={"format": "pt"})


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
