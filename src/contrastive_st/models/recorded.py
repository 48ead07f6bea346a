"""Read and write how a checkpoint folder turns a text into a vector: pooling, dense layers, prompts and so on.

This is read from `config.contrastive`, else from the `modules.json` of sentence-transformers. Both are written, and for
this package's own architectures also the code that defines them, so that other loaders give the same embeddings.
"""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel
from transformers.dynamic_module_utils import get_relative_import_files

from contrastive_st.errors import InputError, first_line
from contrastive_st.models.pooling import ACTIVATIONS, needs_all_layers
from contrastive_st.safety.folders import ADAPTER, INDICES, check_weights, read_json, weight_names
from contrastive_st.safety.repositories import local_folder

if TYPE_CHECKING:
    from transformers import PreTrainedModel as _Base  # the base of every class that uses this mixin
else:
    _Base = object

#: Names of poolings in sentence-transformers, and in this package
_POOLINGS = {"cls": "cls_before_pooler", "mean": "mean", "max": "max", "lasttoken": "last"}
_MODULES = "sentence_transformers.models."
_PROMPTS = "config_sentence_transformers.json"
#: The type in `modules.json` for a pooling that sentence-transformers lacks: it then refuses the folder instead of
#: using the mean
MASK_POOLING = "contrastive_st.MaskPooling"
_MODES = {"max": "max_tokens", "last": "lasttoken", "cls": "cls_token", "cls_before_pooler": "cls_token"}
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class CheckpointInfo:
    """What a checkpoint folder records about how a text becomes a vector.

    Args:
        model: the folder of the transformer and its tokenizer; usually the checkpoint folder itself.
        own: whether this package wrote the checkpoint, with settings in `config.contrastive`.
        pooling: one of `POOLINGS`; None if it is not recorded.
        include_prompt: whether the tokens of a prompt are pooled.
        max_length: maximum number of tokens of a text, if `modules.json` limits it.
        lower_case: whether texts are lowercased before they are tokenized.
        modules: whether `modules.json` says which layers come after the pooling; else `config.contrastive` does.
        dense: folders of the dense layers after the pooling.
        normalized: whether vectors are normalized to unit length after that.
        foreign: modules that only sentence-transformers can run.
        prompts: prompts by name.
        default_prompt_name: the name of the prompt that is put before every text.
        truncate_dim: number of dimensions to keep.
        adapter: the folder of an adapter; `model` is then the folder of its base.
        similarity: how two vectors are compared: `cosine`, `dot`, `euclidean` or `manhattan`.
    """

    model: Path
    own: bool = False
    pooling: str | None = None
    include_prompt: bool = True
    max_length: int | None = None
    lower_case: bool = False
    modules: bool = False
    dense: tuple[Path, ...] = ()
    normalized: bool = False
    foreign: tuple[str, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None
    truncate_dim: int | None = None
    similarity: str = "cosine"
    adapter: Path | None = None

    @property
    def tokenizer(self) -> Path:
        """The folder of the tokenizer: the adapter's if it has one, else the model's."""
        own = self.adapter
        return own if own is not None and (own / "tokenizer_config.json").is_file() else self.model

    @property
    def head(self) -> Path | None:
        """The folder of the first dense layer if it is the projection head of the pooling `cls`: square, with Tanh."""
        if self.pooling == "cls_before_pooler" and self.include_prompt and self.dense and not self.foreign:
            about = read_json(self.dense[0] / "config.json", dict)
            square = about.get("in_features") == about.get("out_features")
            return self.dense[0] if square and str(about.get("activation_function", "")).endswith(".Tanh") else None
        return None

    def pooled_with(self, pooling: str | None) -> CheckpointInfo:
        """The same with another pooling, if one is given; the layers after it were trained with the recorded one."""
        if pooling in (None, self.pooling):
            return self
        return replace(self, pooling=pooling, modules=True, dense=(), normalized=False, foreign=())

    def with_head(self) -> CheckpointInfo:
        """The same with the pooling `cls`, whose projection head is the first dense layer (`head`)."""
        return replace(self, pooling="cls", dense=self.dense[1:])

    @property
    def final_layers(self) -> dict[str, Any]:
        """The layers after the pooling, as settings of a model; nothing if its config has them.

        Raises:
            InputError: a dense layer has an unknown activation.
        """
        if not self.modules:
            return {}
        return {"dense": [_dense_settings(folder) for folder in self.dense], "normalize": self.normalized}

    @property
    def use(self) -> dict[str, Any]:
        """The prompts, the number of dimensions and the similarity, as settings of a model."""
        names = ("default_prompt_name", "truncate_dim", "similarity")
        return {"prompts": dict(self.prompts), **{name: getattr(self, name) for name in names}}

    @property
    def as_it_is(self) -> bool:
        """Whether there are no prompts and all dimensions are kept."""
        return self.truncate_dim is None and not any(self.prompts.values())


def of_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `CheckpointInfo` that are in `config.contrastive`, except the pooling."""
    return {
        "include_prompt": settings.get("include_prompt", True) is not False,
        "prompts": settings.get("prompts") or {},
        "default_prompt_name": settings.get("default_prompt_name"),
        "truncate_dim": settings.get("truncate_dim"),
        "similarity": settings.get("similarity") or "cosine",
    }


def read_recorded(folder: Path, **hub: Any) -> CheckpointInfo:
    """Read what a checkpoint folder records; for an adapter without records of its own, what its base records.

    Args:
        folder: the checkpoint folder.
        hub: `token`, `cache_dir` and other options of `local_folder`, for the base of an adapter.

    Raises:
        InputError: a file of the folder is damaged or names code from outside sentence-transformers, or the base of an
            adapter cannot be found.
    """
    if not (folder / ADAPTER).is_file():
        return _read_whole(folder)
    base = _read_whole(base_folder(folder, **hub))
    if (folder / "tokenizer_config.json").is_file():  # its length is that of the adapter, not of the base
        base = replace(base, max_length=None)
    if not (folder / "modules.json").is_file():
        return replace(base, adapter=folder)
    own = _read_whole(folder)
    return replace(own, model=base.model, max_length=own.max_length or base.max_length, adapter=folder)


def base_folder(adapter: Path, **hub: Any) -> Path:
    """The folder of the model that an adapter was trained on; `hub` as for `read_recorded`.

    Raises:
        InputError: the base is not recorded, cannot be found, or is an adapter itself.
    """
    path = adapter / ADAPTER
    about = read_json(path, dict)
    own = ("revision", "subfolder")  # those of the adapter, not of its base
    access = {key: value for key, value in hub.items() if key not in own and value is not None}
    base, revision = (_typed(about, key, str, path) for key in ("base_model_name_or_path", "revision"))
    if any((adapter / name).is_file() for name in ("model.safetensors", *INDICES)):
        raise InputError(f"{adapter} has both a whole model and an adapter; move {ADAPTER} away to open the model")
    if not base:
        raise InputError(f"{path} names no base model (base_model_name_or_path); write its folder or Hub name there")
    try:
        folder = local_folder(base, revision, **access)
    except InputError as error:
        raise InputError(f"{adapter} is an adapter of {base}, which cannot be opened: {error}") from None
    if (folder / ADAPTER).is_file():
        raise InputError(
            f"{adapter} is an adapter of {base}, which is an adapter itself; merge {base} first (contrastive-st merge)"
        )
    return folder


def _read_whole(folder: Path) -> CheckpointInfo:
    config = read_json(folder / "config.json", dict) if (folder / "config.json").is_file() else {}
    settings = config.get("contrastive")
    if settings is not None and not isinstance(settings, dict):
        raise InputError(f"{folder / 'config.json'} is damaged: its contrastive is not a JSON object")
    recorded = CheckpointInfo(folder, own=settings is not None)
    if settings is not None:
        recorded = replace(recorded, pooling=_own_pooling(settings), **of_settings(settings))
    if not (folder / "modules.json").is_file():
        return recorded
    entries = [(_kind(entry, folder), folder / entry.get("path", "")) for entry in read_json(folder / "modules.json")]
    recorded = replace(recorded, modules=True, **_about(folder), **_transformer(folder, entries), **_of_prompt(entries))
    if settings is not None:
        past = next((i for i, (kind, _) in enumerate(entries) if kind == "Pooling"), 0) + 1
        past += settings.get("pooling") == "cls" and not settings.get("mlp_only_train")  # the head is part of the model
        past += bool(config.get("normalize"))  # a static model normalizes its vectors itself
        tail = _tail(entries[past:])
        if "pooling" not in settings and entries[past:]:  # a model that has no such layers
            tail = {"foreign": tuple(kind for kind, _ in entries)}
        return replace(recorded, **tail)
    return replace(recorded, **_pooled(entries))


def _own_pooling(settings: dict[str, Any]) -> str | None:
    pooling = settings.get("pooling")
    return "cls_before_pooler" if pooling == "cls" and settings.get("mlp_only_train") else pooling


def _kind(entry: dict[str, Any], folder: Path) -> str:
    """The class name of a module; a class from outside sentence-transformers is refused."""
    name = entry.get("type")
    if name == MASK_POOLING:
        return "Pooling"
    if not isinstance(name, str) or not name.startswith("sentence_transformers."):
        raise InputError(
            f"{folder} needs code from its own repository (modules.json names {name}); this package runs no remote code"
        )
    return name.rsplit(".", 1)[-1]


def _transformer(folder: Path, entries: list[tuple[str, Path]]) -> dict[str, Any]:
    place = entries[0][1] if entries and entries[0][0] == "Transformer" else folder
    about: dict[str, Any] = next((read_json(path, dict) for path in sorted(place.glob("sentence_*_config.json"))), {})
    length = _typed(about, "max_seq_length", int, place)
    return {"model": place, "max_length": length, "lower_case": bool(about.get("do_lower_case"))}


def _of_prompt(entries: list[tuple[str, Path]]) -> dict[str, Any]:
    pooling = next((path for kind, path in entries if kind == "Pooling"), None)
    if pooling is None:
        return {}
    return {"include_prompt": read_json(pooling / "config.json", dict).get("include_prompt") is not False}


def _about(folder: Path) -> dict[str, Any]:
    path = folder / _PROMPTS
    if not path.is_file():
        return {}
    about = read_json(path, dict)
    prompts = _typed(about, "prompts", dict, path) or {}
    if not all(isinstance(prompt, str) for prompt in prompts.values()):
        raise InputError(f"{path} is damaged: a prompt is not a string")
    default = _typed(about, "default_prompt_name", str, path)
    if default is not None and default not in prompts:
        raise InputError(f"{path} is damaged: its default prompt {default!r} is not one of its prompts")
    return {
        "prompts": prompts,
        "default_prompt_name": default,
        "truncate_dim": _typed(about, "truncate_dim", int, path),
        "similarity": _typed(about, "similarity_fn_name", str, path) or "cosine",
    }


def _typed(content: dict[str, Any], key: str, kind: type[Kind], path: Path) -> Kind | None:
    value = content.get(key)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise InputError(f"{path} is damaged: its {key} is {value!r}, not of type {kind.__name__}")
    return value


def _pooled(entries: list[tuple[str, Path]]) -> dict[str, Any]:
    kinds = [kind for kind, _ in entries]
    if kinds[:2] == ["Transformer", "Pooling"]:
        pooling, past = _pooling(entries[1][1]), 2
    elif kinds[:3] == ["Transformer", "WeightedLayerPooling", "Pooling"] and _pooling(entries[2][1]) == "mean":
        pooling, past = _layers(entries[1][1]), 3
    else:
        pooling, past = None, 0
    if pooling is None:
        return {"foreign": tuple(kinds)}
    return {"pooling": pooling, **_tail(entries[past:])}


def _pooling(folder: Path) -> str | None:
    about = read_json(folder / "config.json", dict)
    flags = [name for name, on in about.items() if name.startswith("pooling_mode_") and on is True]
    mode = about.get("pooling_mode", flags[0] if len(flags) == 1 else None)
    if not isinstance(mode, str):
        return None
    return _POOLINGS.get(mode.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token"))


def _layers(folder: Path) -> str | None:
    """The pooling that a `WeightedLayerPooling` written by this package stands for, or None."""
    first = read_json(folder / "config.json", dict).get("layer_start")
    weights = _tensors(folder).get("layer_weights", torch.empty(0))
    wanted = torch.zeros_like(weights)
    wanted[[0, -1] if len(weights) > 1 else []] = 0.5
    if len(weights) < 2 or not torch.equal(weights, wanted):
        return None
    return "avg_first_last" if first == 1 else "avg_top2" if len(weights) == 2 else None


def _tail(entries: list[tuple[str, Path]]) -> dict[str, Any]:
    kinds = [kind for kind, _ in entries]
    dense = tuple(path for kind, path in entries if kind == "Dense")
    if kinds not in (["Dense"] * len(dense), [*["Dense"] * len(dense), "Normalize"]):
        return {"foreign": tuple(kinds)}
    for about in (read_json(path / "config.json", dict) for path in dense):
        names = {about.get("module_input_name"), about.get("module_output_name")}
        if names - {None, "sentence_embedding"} or about.get("use_residual"):
            return {"foreign": tuple(kinds)}
    return {"dense": dense, "normalized": kinds[-1:] == ["Normalize"]}


def load_final_layers(recorded: CheckpointInfo, layers: nn.Sequential) -> None:
    """Copy the weights of the dense layers of `modules.json`, if there is one, into the `after` of a model.

    Raises:
        InputError: weights are damaged or a pickle, or have another shape.
    """
    linears = [layer for layer in layers if isinstance(layer, nn.Linear)] if recorded.modules else []
    for folder, linear in zip(recorded.dense, linears, strict=True):
        load_dense(folder, linear)


def _dense_settings(folder: Path) -> dict[str, Any]:
    about = read_json(folder / "config.json", dict)
    name = str(about.get("activation_function") or "torch.nn.modules.linear.Identity")
    if not name.startswith("torch.nn.modules.") or name.rsplit(".", 1)[-1] not in ACTIVATIONS:
        raise InputError(f"{folder / 'config.json'}: the activation {name} is not one of {', '.join(ACTIVATIONS)}")
    bias = "linear.bias" in weight_names(folder)
    return {"out_features": about.get("out_features"), "bias": bias, "activation": name.rsplit(".", 1)[-1]}


def load_dense(folder: Path, linear: Any) -> None:
    """Copy the weights of a dense layer's folder into a layer of a model, such as the projection head.

    Raises:
        InputError: as for `load_final_layers`.
    """
    tensors = {name.removeprefix("linear."): tensor for name, tensor in _tensors(folder).items()}
    shape = list(tensors["weight"].shape) if "weight" in tensors else []
    if shape != list(linear.weight.shape):
        raise InputError(
            f"{folder}: weights of shape {shape} do not fit {list(linear.weight.shape)}; download it again"
        )
    with torch.no_grad():
        linear.weight.copy_(tensors["weight"])
        if linear.bias is not None:
            linear.bias.copy_(tensors.get("bias", torch.zeros(())))


def _tensors(folder: Path) -> dict[str, Tensor]:
    check_weights(folder)
    try:
        return load_file(folder / "model.safetensors")
    except Exception as error:  # damaged files raise errors of any type
        raise InputError(f"{folder / 'model.safetensors'} is damaged: {first_line(error)}") from error


# --- Writing.


def write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write a safetensors file with the mode of the umask; the library makes it readable for the owner only."""
    path.touch()
    mode = path.stat().st_mode
    save_file(tensors, path, metadata={"format": "pt"})
    path.chmod(mode)


class RemoteCodeMixin(_Base):
    """Mixin for a model class whose checkpoints include the code that defines `code_class`.

    `code_class` is a base of the class with the same weights. Its file imports only torch, transformers and, by
    `from .name import`, other such files, including that of its config. If this package is not installed,
    `AutoModel.from_pretrained(folder, trust_remote_code=True)` returns a `code_class`, and sentence-transformers uses
    its `pooler_output` as the embedding. If it is installed, both find the registered class (`register`) without the
    flag.
    """

    code_class: ClassVar[Any]

    def save_pretrained(self, save_directory: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Save weights, config and code."""
        self.config.auto_map = {"AutoConfig": _address(self.config_class), "AutoModel": _address(self.code_class)}
        super().save_pretrained(save_directory, **kwargs)

    def write_other_loaders(self, folder: Any, state_dict: dict[str, Tensor] | None) -> None:
        """Write the code, and the files that tell sentence-transformers that `pooler_output` is the embedding."""
        classes: tuple[Any, Any] = (self.config_class, self.code_class)
        for cls in classes:
            own = inspect.getfile(cls)
            for file in (own, *get_relative_import_files(own)):
                shutil.copyfile(file, Path(folder) / Path(file).name)
        write_pooler_output_module(folder, self.settings)


def register(model_class: Any) -> Any:
    """A decorator that registers `model_class` with `AutoConfig` and `AutoModel` of this process."""
    AutoConfig.register(model_class.config_class.model_type, model_class.config_class)
    AutoModel.register(model_class.config_class, model_class)
    return model_class


def write_pooler_output_module(folder: str | Path, settings: Any) -> None:
    """Write the files that make sentence-transformers use a model's `pooler_output` as the sentence embedding."""
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
    write_use(Path(folder), settings)


def write_use(folder: Path, settings: Any) -> None:
    """Write the prompts, the number of dimensions to keep and the similarity of a model's settings."""
    about = {"similarity_fn_name": getattr(settings, "similarity", "cosine"),
             "prompts": dict(getattr(settings, "prompts", {})),
             "default_prompt_name": getattr(settings, "default_prompt_name", None)}  # fmt: skip
    dim = getattr(settings, "truncate_dim", None)
    _write(folder / _PROMPTS, {**about, **({} if dim is None else {"truncate_dim": dim})})


def _address(cls: Any) -> str:
    return f"{cls.__module__.rsplit('.', 1)[-1]}.{cls.__name__}"


def write_sentence_transformers(model: Any, folder: str | Path, state_dict: dict[str, Tensor] | None = None) -> None:
    """Write `modules.json`, the pooling, and after it the projection head, the dense layers and `Normalize`.

    Args:
        model: the model to save.
        folder: the folder where its weights and config already are.
        state_dict: the gathered weights if those of the model are sharded.
    """
    folder, settings = Path(folder), model.settings
    dim = model.config.hidden_size
    modules = [("", "Transformer")]
    about: dict[str, Any] = {"max_seq_length": None, "do_lower_case": False}
    if needs_all_layers(settings.pooling):
        if not (folder / "config.json").is_file():  # an adapter: the config of its base does not return all layers
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
    weights: Mapping[str, Tensor] = model.state_dict() if state_dict is None else state_dict
    if settings.pooling == "cls" and not settings.mlp_only_train:
        modules.append((f"{len(modules)}_Dense", "Dense"))
        _write_dense(folder / modules[-1][0], weights, f"{model.base_model_prefix}.pooler.dense.", "Tanh")
    for number, layer in enumerate(settings.dense):
        modules.append((f"{len(modules)}_Dense", "Dense"))
        _write_dense(folder / modules[-1][0], weights, f"after.{2 * number}.", layer["activation"])
    if settings.normalize:
        modules.append((f"{len(modules)}_Normalize", "Normalize"))
        (folder / modules[-1][0]).mkdir(exist_ok=True)
    entries = [
        {"idx": i, "name": str(i), "path": path, "type": _MODULES + name} for i, (path, name) in enumerate(modules)
    ]
    if settings.pooling == "mask":
        entries[1]["type"] = MASK_POOLING
    _write(folder / "modules.json", entries)
    write_use(folder, settings)


def _write_dense(folder: Path, weights: Mapping[str, Tensor], prefix: str, activation: str) -> None:
    """Write the linear layer whose weights begin with `prefix`, and its activation."""
    names = [name for name in ("weight", "bias") if prefix + name in weights]
    dense = {f"linear.{name}": weights[prefix + name].detach().cpu().contiguous() for name in names}
    width, kind = dense["linear.weight"].shape, getattr(nn, activation)
    about = {"in_features": width[1], "out_features": width[0], "bias": "bias" in names,
             "activation_function": f"{kind.__module__}.{kind.__name__}"}  # fmt: skip
    _write(folder / "config.json", about)
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
