"""LoRA: low-rank adapters of frozen weights (Hu et al. 2021, https://arxiv.org/abs/2106.09685), with peft.

    y = W x + (alpha / r) B A x      W [d, k] is frozen; A [r, k] and B [d, r] are trained, and B starts as zeros

An adapter folder has A and B (`adapter_model.safetensors`), the name of the base model (`adapter_config.json`), the
tokenizer, and the files from which sentence-transformers reads the pooling. The weights have the same names as in plain
transformers, so sentence-transformers, `AutoModel` and peft can load the adapter too. Their file has a hash of the
base, which tells a base that was changed later.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from contrastive_st.errors import InputError, about, require
from contrastive_st.files.folders import ADAPTER_WEIGHTS, check_weights
from contrastive_st.models.checkpoint import Checkpoint
from contrastive_st.models.saving import check_floats, write_tensors
from contrastive_st.random_state import preserved_random_state

if TYPE_CHECKING:
    from peft import PeftConfig, PeftModel
    from peft.tuners.tuners_utils import BaseTunerLayer

    from contrastive_st.models.base import ForCL

logger = logging.getLogger(__name__)
ALL = "all-linear"
_HEAD = "pooler.dense"  # trained without an adapter, or not at all
_BASE = "base_weights"  # of the metadata of an adapter's weights
_PREFIX = "base_model.model."  # what peft puts before each name


def add_lora(
    model: ForCL,
    r: int = 16,
    alpha: float | None = None,
    dropout: float = 0.0,
    target_modules: str | Sequence[str] | None = None,
) -> ForCL:
    """Freeze the encoder of a model and add a LoRA adapter to it, in place; saving the model then saves the adapter.

    The head of the loss and the projection head of the pooling `cls` are trained as well; dense layers after the
    pooling stay as they are.

    Args:
        model: from `AutoModelForCL.from_pretrained`; the adapter is saved with the name that was opened there.
        r: rank.
        alpha: scale; by default `2 * r`.
        dropout: dropout before A.
        target_modules: names of linear layers, such as `query value` or `q_proj v_proj`; by default all of them. A
            string is a regular expression of their whole names, as in peft.

    Returns:
        The model.

    Raises:
        InputError: peft is not installed, or the model is not a transformer, has an adapter already, or a changed
            `bidirectional`; or its weights are not those of the checkpoint that it was opened from, with which
            the adapter will be opened.
        ValueError: from peft: the model has no such layers.

    Example:
        >>> add_lora(None)
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: LoRA needs an encoder of transformers, and NoneType is not one
    """
    asked = target_modules or ALL
    targets = asked if isinstance(asked, str) else ALL if list(asked) == [ALL] else sorted(asked)
    config = require("LoRA", "lora", "peft").LoraConfig(
        r=r, lora_alpha=2 * r if alpha is None else alpha, lora_dropout=dropout, target_modules=targets,
        task_type="FEATURE_EXTRACTION",
    )  # fmt: skip
    attach(model, config)
    return model


def attach(model: ForCL, config: Any, name: str = "default") -> None:
    """Add a LoRA adapter with peft's `config` to the encoder of a model; see `add_lora`.

    Raises:
        InputError: as for `add_lora`.
    """
    _check_base(model)
    _check_type(config, "this adapter")
    backbone: PreTrainedModel = model.backbone
    targets = [config.target_modules] if isinstance(config.target_modules, str) else sorted(config.target_modules or [])
    with about(f"lora_target_modules {' '.join(targets)}"):
        if hasattr(backbone, "pooler") and any(t == ALL or re.fullmatch(rf"(.*\.)?{t}", _HEAD) for t in targets):
            config.exclude_modules = config.exclude_modules or [_HEAD]
        _inject(backbone, config, name)
    train_head(model)
    _settle(model, config)


def adopt(wrapped: PeftModel) -> ForCL:
    """The model inside a `PeftModel`, with its adapter where `add_lora` has it, so that it is saved in the same way.

    The weights that peft has frozen stay frozen, heads included.

    Args:
        wrapped: from peft's `get_peft_model`, around a model from `AutoModelForCL.from_pretrained`.

    Raises:
        InputError: as for `add_lora`, or peft adapts a head, which the folder of an adapter has no place for.
    """
    model = cast("ForCL", wrapped.get_base_model())
    backbone = getattr(model, "backbone", None)
    if getattr(backbone, "peft_config", None) is wrapped.peft_config:
        return model  # adopted before
    config, *others = wrapped.peft_config.values()
    _check_type(config, "this adapter")
    if others:
        raise InputError(f"the model has {1 + len(others)} adapters; train one, and delete the others")
    inside = {id(weight) for weight in model.backbone.parameters()}
    for name, weight in model.named_parameters():
        head = id(weight) not in inside or (f".{_HEAD}." in name and model.settings.pooling == "cls")
        if "modules_to_save" in name or "trainable_tokens" in name or (head and "lora_" in name):
            raise InputError(f"an adapter folder has no place for {name}; call add_lora(model, ...) instead of peft")
    _check_base(model)
    model.backbone.peft_config, model.backbone._hf_peft_config_loaded = wrapped.peft_config, True
    model._hf_peft_config_loaded = True
    _settle(model, config)
    return model


def _settle(model: ForCL, config: Any) -> None:
    """Record the base of an adapter, and log its size."""
    base = str(model.name_or_path)
    config.base_model_name_or_path = str(Path(base).resolve()) if Path(base).is_dir() else base
    config.revision = getattr(model.config, "_commit_hash", None)
    setattr(config, _BASE, _hash_of(model.backbone))
    model.save_dtype = None  # that of the base is not that of the adapter
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    logger.info(
        f"LoRA of rank {config.r}: {trained:,} of {sum(p.numel() for p in model.parameters()):,} weights are trained"
    )


def _check_base(model: ForCL) -> None:
    """Raise `InputError` if a model cannot get an adapter, which its saved base must fit."""
    if not isinstance(getattr(model, "backbone", None), PreTrainedModel):
        raise InputError(f"LoRA needs an encoder of transformers, and {type(model).__name__} is not one")
    if has_adapter(model):
        raise InputError(f"{model.name_or_path} is an adapter already; train it without lora_r, or merge it first")
    if not model.name_or_path:
        raise InputError("LoRA needs a saved base model, but this encoder is new; give model_name_or_path")
    if getattr(model, "direction_changed", False):
        raise InputError(
            f"bidirectional changes {model.name_or_path}, and an adapter is opened with the unchanged base; save the "
            "model with bidirectional first, and train from that folder"
        )
    base = Checkpoint.find(model.name_or_path, getattr(model.config, "_commit_hash", None))
    if base.adapter is not None:
        raise InputError(
            f"{base.name} is an adapter, and an adapter cannot be opened on another; merge it first (contrastive-st "
            f"merge {base.name} -o NEW_FOLDER), and train from the new folder"
        )
    with preserved_random_state():
        opened = type(model).from_pretrained(base.model, dtype="auto", pooling=model.settings.pooling, new_head=False)
    stored: dict[str, Tensor] = opened.backbone.state_dict()
    held = model.backbone.state_dict().items()
    current = {name.replace(".base_layer.", "."): x for name, x in held if "lora_" not in name}
    for name in dict.fromkeys((*current, *stored)):
        one, other = current.get(name), stored.get(name)
        same = one is not None and other is not None and one.shape == other.shape and torch.equal(other.to(one), one)
        if not same and not name.startswith("pooler."):  # the head is saved with the adapter
            raise InputError(
                f"the model in memory is no longer that of {base.name} ({name} differs), with which its adapter would "
                "be opened; save it first, as SentenceEncoder(model, tokenizer).save_pretrained(NEW_FOLDER), and add "
                "LoRA to the model of the new folder"
            )


def _hash_of(backbone: PreTrainedModel) -> str:
    """A hash of some numbers of each weight of a base, rounded, so that a base has it in bfloat16 too."""
    result = hashlib.sha256()
    for name, x in sorted((name.replace(".base_layer.", "."), x) for name, x in backbone.state_dict().items()):
        if "lora_" not in name and not name.startswith("pooler."):
            some = x.detach().flatten()[:: max(x.numel() // 256, 1)].to("cpu", torch.bfloat16)
            result.update(name.encode() + some.view(torch.int16).numpy().tobytes())
    return result.hexdigest()[:32]


def has_adapter(model: object) -> bool:
    """Whether a model has a frozen encoder with an adapter."""
    return bool(getattr(getattr(model, "backbone", None), "peft_config", None))


def adapter_base(model: object) -> str | None:
    """The name or folder of the base of a model's adapter; None without an adapter."""
    configs = getattr(getattr(model, "backbone", None), "peft_config", None) or {}
    return next((config.base_model_name_or_path for config in configs.values()), None)


def with_merged_adapter(model: ForCL) -> ForCL:
    """A model without an adapter: itself, or a copy with the adapter added to its weights."""
    if not has_adapter(model):
        return model
    model = copy.deepcopy(model)
    for layer in list(_adapted(model.backbone)):
        if not layer.merged:
            layer.merge(safe_merge=True)
        name = next(name for name, module in model.backbone.named_modules() if module is layer)
        model.backbone.set_submodule(name, layer.get_base_layer())
    return model


def train_head(model: ForCL) -> None:
    """Make the projection head of a model with an adapter trainable if the pooling uses it, and freeze dense layers.

    The methods that transformers has for adapters then work on the model, too.
    """
    model.peft_config, model._hf_peft_config_loaded = model.backbone.peft_config, True
    model.after.requires_grad_(False)
    if model.projection is not None:
        model.projection.requires_grad_(model.settings.pooling == "cls")


def save_adapter(model: ForCL, folder: str | Path, state_dict: dict[str, Tensor] | None = None) -> None:
    """Write `adapter_config.json` and `adapter_model.safetensors` of a model with an adapter.

    Args:
        model: the model to save.
        folder: where to write; it is created if needed.
        state_dict: the gathered weights if those of the model are sharded.
    """
    backbone, folder = model.backbone, Path(folder)
    name = next(layer.active_adapters[0] for layer in _adapted(backbone))
    weights = None
    if state_dict is not None:
        start = f"{model.base_model_prefix}."
        weights = {key.removeprefix(start): tensor for key, tensor in state_dict.items() if key.startswith(start)}
    result = require("LoRA", "lora", "peft").get_peft_model_state_dict(
        backbone, weights, adapter_name=name, save_embedding_layers=False
    )
    folder.mkdir(parents=True, exist_ok=True)
    for key in [key for key in result if key.endswith("lora_magnitude_vector")]:
        result[f"{key}.weight"] = result.pop(key)  # of DoRA; by peft's shorter name transformers would not load it
    tensors = {_PREFIX + key: tensor.detach().cpu().contiguous() for key, tensor in result.items()}
    config = copy.copy(backbone.peft_config[name])
    write_tensors(tensors, folder / ADAPTER_WEIGHTS, (_BASE, getattr(config, _BASE)))
    config.inference_mode = True
    config.target_modules = adapted_names(backbone, config)
    config.save_pretrained(str(folder))


def adapted_names(backbone: nn.Module, config: Any) -> list[str]:
    """The `target_modules` of an adapter, sorted; in place of a pattern or a path, the names in its encoder."""
    asked = config.target_modules
    if isinstance(asked, str) or any("." in name for name in asked):
        asked = {name for name, part in backbone.named_modules() if hasattr(part, "lora_A")}
    return sorted(asked)


def open_adapter(backbone: object, folder: Path, name: object, merge: bool = False) -> None:
    """Add the adapter of a folder to its base in place, either for training or merged into the weights.

    Args:
        backbone: the adapter's base, an encoder of transformers.
        folder: an adapter folder of this package, of sentence-transformers or of peft.
        name: its name in messages.
        merge: add `(alpha / r) B A` to the weights, which gives an ordinary encoder.

    Raises:
        InputError: peft is not installed, or the adapter is not LoRA, damaged, or of another base.
    """
    peft = require(f"{name} is an adapter, which", "lora", "peft")
    check_weights(folder, name)
    if not isinstance(backbone, PreTrainedModel):
        raise InputError(f"{name} is an adapter, and its base is not an encoder of transformers; give another base")
    with about(name):
        config, weights = peft.PeftConfig.from_pretrained(str(folder)), load_file(folder / ADAPTER_WEIGHTS)
    check_floats(weights, f"the adapter {name}")
    _check_type(config, name)
    for key in ("megatron_config", "megatron_core"):  # peft would import the module that they name
        setattr(config, key, None)
    weights = {key.removeprefix(_PREFIX): tensor for key, tensor in weights.items()}
    inside = f"{backbone.base_model_prefix}."
    if all(key.startswith(inside) for key in weights):  # it was trained inside another model
        weights = {key.removeprefix(inside): tensor for key, tensor in weights.items()}
    base, config.inference_mode = config.base_model_name_or_path, merge
    with safe_open(folder / ADAPTER_WEIGHTS, "pt") as file:
        noted = (file.metadata() or {}).get(_BASE)
    setattr(config, _BASE, _hash_of(backbone))
    if noted not in (None, getattr(config, _BASE)):
        logger.warning(
            f"{base} has changed since the adapter {name} was trained on it, so vectors are others; train the adapter "
            "again, or open it with the weights that it was trained on"
        )
    with about(f"the adapter {name} of {base}"):
        if merge:
            trains = {id(weight) for weight in backbone.parameters() if weight.requires_grad}
            with warnings.catch_warnings():  # peft asks for what transformers has renamed
                warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
                holder = peft.PeftModel(backbone, config)
            result = peft.set_peft_model_state_dict(holder, {_PREFIX + key: x for key, x in weights.items()})
        else:
            _inject(backbone, config, "default")
            config.base_model_name_or_path = base
            result = peft.set_peft_model_state_dict(backbone, weights)
        missing = [key for key in result.missing_keys if "lora_" in key]
        strange = [*result.unexpected_keys, *(key for key in missing if "pooler." not in key)]  # it may be left out
        if strange:
            raise InputError(f"the adapter {name} does not fit its base {base}: only one of the two has {strange[0]}")
        if merge:
            holder.merge_and_unload(safe_merge=True)
            for weight in backbone.parameters():  # which peft has frozen
                weight.requires_grad_(id(weight) in trains)


def _check_type(config: PeftConfig, name: object) -> None:
    if str(getattr(config.peft_type, "value", config.peft_type)) != "LORA":
        raise InputError(f"{name} is of type {config.peft_type}; only LoRA adapters can be opened")


def _inject(backbone: PreTrainedModel, config: PeftConfig, name: str) -> None:
    """Add an adapter as `add_adapter` of transformers does, which refuses a peft that is older than it expects."""
    peft = require("LoRA", "lora", "peft")
    peft.inject_adapter_in_model(config, backbone, name)
    backbone._hf_peft_config_loaded = True
    for layer in _adapted(backbone):
        layer.set_adapter(name)
    for parameter in backbone.parameters():  # adapters are trained in float32
        if parameter.requires_grad and parameter.dtype in (torch.float16, torch.bfloat16):
            parameter.data = parameter.data.float()


def _adapted(backbone: PreTrainedModel) -> Iterator[BaseTunerLayer]:
    """The layers with an adapter."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    return (layer for layer in backbone.modules() if isinstance(layer, BaseTunerLayer))
