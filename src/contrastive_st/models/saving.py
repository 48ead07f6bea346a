"""Save what other loaders of a checkpoint read: modules of sentence-transformers, code of this package's architectures.

`checkpoint.py` reads the modules again.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast
from transformers.dynamic_module_utils import get_relative_import_files

from contrastive_st.errors import InputError, about
from contrastive_st.files.folders import check_weights
from contrastive_st.files.reading import JsonObject, read_json, weight_types
from contrastive_st.files.writing import write_json
from contrastive_st.models.checkpoint import PROMPTS_FILE, SAME_PROMPT, most_tokens
from contrastive_st.models.poolings import POOLINGS
from contrastive_st.tokens import DOCUMENT, lowercases, tokenizer_state

if TYPE_CHECKING:
    from transformers import (
        PreTrainedConfig,
        PreTrainedModel as _Base,  # the base of every class that uses this mixin
        PreTrainedTokenizerBase,
    )

    from contrastive_st.models.checkpoint import Checkpoint
    from contrastive_st.models.configuration import LossConfig
else:
    _Base = object

Registered = TypeVar("Registered", bound="type[RemoteCodeMixin]")
TRANSFORMER_FILE = "sentence_bert_config.json"


def write_tensors(tensors: dict[str, Tensor], path: Path, note: tuple[str, str] = ("format", "pt")) -> None:
    """Write a safetensors file with the mode of the umask; the library makes it readable for the owner only.

    Equal tensors make equal files, by which `push` knows them, because there is one note: safetensors 0.8 writes
    several in any order.
    """
    path.touch()
    mode = path.stat().st_mode
    save_file(tensors, path, metadata=dict([note]))
    path.chmod(mode)


#: The floating types of safetensors that a model is saved in
_SMALL = 1 << 24  # weights that do no harm
_DTYPES = {"F64": torch.float64, "F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


def stored_dtype(folder: Path) -> torch.dtype | None:
    """The type of most of the floats in a folder's weights; None if there are none."""
    kinds = Counter(_DTYPES[kind] for kind in weight_types(folder).values() if kind in _DTYPES)
    return kinds.most_common(1)[0][0] if kinds else None


def runs_in_float32(folder: Path) -> bool:
    """Whether a folder has weights in half precision for a model that runs in float32, as its config says."""
    path = folder / "config.json"
    config = read_json(path, dict) if path.is_file() else {}
    runs = config.get("dtype", config.get("torch_dtype"))
    return runs == "float32" and stored_dtype(folder) in (torch.float16, torch.bfloat16)


@contextlib.contextmanager
def weights_as(module: nn.Module, dtype: torch.dtype | None, options: JsonObject | None = None) -> Iterator[None]:
    """A context in which the floats of a module have another type, for saving; afterwards they are what they were.

    Args:
        module: the module.
        dtype: the type; None changes nothing.
        options: the arguments of `save_pretrained`, whose `state_dict`, if there is one, gets the type too.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> with weights_as(layer, torch.bfloat16):
        ...     print(layer.weight.dtype)
        torch.bfloat16
        >>> layer.weight.dtype
        torch.float32
    """
    floats = [x for x in (*module.parameters(), *module.buffers()) if x.is_floating_point() and dtype is not None]
    held = [x.data for x in floats]
    if options and options.get("state_dict") is not None and dtype is not None:
        tensors = options["state_dict"].items()
        options["state_dict"] = {name: x.to(dtype) if x.is_floating_point() else x for name, x in tensors}
    try:
        for x in floats:
            x.data = x.data.to(dtype)
        yield
    finally:
        for x, data in zip(floats, held, strict=True):
            x.data = data


class RemoteCodeMixin(_Base):
    """Mixin for a model class whose checkpoints include the code that defines `code_class`.

    `code_class` is a base of the class with the same weights. Its file imports only torch, transformers and, by
    `from .name import`, other such files, including that of its config. If this package is not installed,
    `AutoModel.from_pretrained(folder, trust_remote_code=True)` returns a `code_class`, and sentence-transformers uses
    its `pooler_output` as the embedding. If it is installed, both find the registered class (`register`) without the
    flag.
    """

    code_class: ClassVar[type[PreTrainedModel]]
    settings: Any

    def save_pretrained(self, save_directory: str | Path, **kwargs: Any) -> None:  # type: ignore[override]
        """Save weights, config and code."""
        classes: dict[str, Any] = {"AutoConfig": self.config_class, "AutoModel": self.code_class}
        names = {name: f"{kind.__module__.rsplit('.', 1)[-1]}.{kind.__name__}" for name, kind in classes.items()}
        self.config.auto_map = names
        super().save_pretrained(save_directory, **kwargs)

    def write_other_loaders(self, folder: str | Path, state_dict: dict[str, Tensor] | None) -> None:
        """Write the code, and the files that tell sentence-transformers that `pooler_output` is the embedding."""
        classes: tuple[Any, ...] = (self.config_class, self.code_class)
        for source in map(inspect.getfile, classes):
            for file in (source, *get_relative_import_files(source)):
                shutil.copyfile(file, Path(folder) / Path(file).name)
        write_pooler_output_module(Path(folder), self.settings)


def write_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: str | Path, types: bool = True) -> None:
    """Write a tokenizer so that `AutoTokenizer` reads it with the same ids; the model's config is there already.

    A class of a family, such as `BertTokenizer`, makes its own normalizer when it is opened, and so forgets a
    `Lowercase` or another change. The folder then names the class that takes `tokenizer.json` as it is. For some
    families (`qwen2`) transformers ignores that name; sentence-transformers and this package then read
    `do_lower_case`.

    Args:
        tokenizer: a tokenizer of transformers.
        folder: the folder of its model.
        types: False if the model leaves out the types of tokens. Then the tokenizer gives none to other loaders:
            GPT-2, XLM and others add the vector of a word for each type.
    """
    tokenizer.save_pretrained(folder)
    path = Path(folder, "tokenizer_config.json")
    config = read_json(path, dict)
    inputs = [name for name in tokenizer.model_input_names if types or name != "token_type_ids"]
    if inputs != tokenizer.model_input_names:
        config["model_input_names"] = inputs
    # Of a tokenizer that was opened, transformers also writes from where, and how tokenizer.json says texts are cut.
    cut = (tokenizer.backend_tokenizer.truncation if tokenizer.is_fast else None) or {}
    keys = {"max_length": "max_length", "stride": "stride", "truncation_side": "direction",
            "truncation_strategy": "strategy"}  # fmt: skip
    twice = [name for name, key in keys.items() if key in cut and config.get(name) == cut[key]]
    for name in ("is_local", "local_files_only", *twice):
        config.pop(name, None)
    write_json(path, config)
    _write_length(tokenizer.model_max_length, Path(folder))

    def reads_alike() -> bool:
        opened = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        return tokenizer_state(opened) == tokenizer_state(tokenizer)

    if not tokenizer.is_fast or reads_alike():
        return
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": inputs}
    write_json(path, read_json(path, dict) | names)
    path = Path(folder, TRANSFORMER_FILE)
    if lowercases(tokenizer.backend_tokenizer) and path.is_file() and not reads_alike():
        write_json(path, read_json(path, dict) | {"do_lower_case": True})


def _write_length(asked: float, folder: Path) -> None:
    """Write the maximum length for servers that take it from the file of the transformer alone.

    (text-embeddings-inference reads no file without it. A model that pools itself has another file.)
    """
    path, config = folder / TRANSFORMER_FILE, folder / "config.json"
    about = read_json(path, dict) if path.is_file() else {}
    if "max_seq_length" in about and config.is_file():  # not of an adapter: the positions are its base's
        recorded = {key: value for key, value in read_json(config, dict).items() if value is not None}
        shape = SimpleNamespace(**{"model_type": "", **recorded})
        write_json(path, about | {"max_seq_length": most_tokens(asked, shape)})


def of_one_file(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerFast:
    """A tokenizer in the class whose `save_pretrained` keeps all that was changed in it (see `write_tokenizer`)."""
    with tempfile.TemporaryDirectory() as folder:
        write_tokenizer(tokenizer, folder)
        opened: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(folder)
    opened.name_or_path = tokenizer.name_or_path
    return opened


def register(model_class: Registered) -> Registered:
    """A decorator that registers `model_class` with `AutoConfig` and `AutoModel` of this process."""
    config = cast("type[PreTrainedConfig]", model_class.config_class)
    AutoConfig.register(config.model_type, config)
    AutoModel.register(config, model_class)
    return model_class


def write_modules(folder: Path, *modules: tuple[str, str]) -> None:
    """Write `modules.json` with the folder of each module, and its class in sentence-transformers."""
    entries = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.{kind}"}
        for i, (path, kind) in enumerate(modules)
    ]
    write_json(folder / "modules.json", entries)


def write_pooler_output_module(folder: Path, settings: LossConfig | Checkpoint) -> None:
    """Write the files that make sentence-transformers use a model's `pooler_output` as the sentence embedding."""
    write_modules(folder, ("", "base.modules.transformer.Transformer"))
    about = {
        "transformer_task": "feature-extraction",
        "modality_config": {"text": {"method": "forward", "method_output_name": "pooler_output"}},
        "module_output_name": "sentence_embedding",
    }
    write_json(folder / TRANSFORMER_FILE, about)
    write_use(folder, settings)


def write_use(folder: Path, settings: LossConfig | Checkpoint, by_another: bool = False) -> None:
    """Write the prompts, the number of dimensions to keep and the similarity of a model's settings.

    Args:
        folder: the folder.
        settings: an object with these settings.
        by_another: keep what sentence-transformers, which wrote the file, says of itself there.
    """
    path, prompts = folder / PROMPTS_FILE, dict(getattr(settings, "prompts", {}))
    held = read_json(path, dict) if by_another else {}
    about = {name: held[name] for name in ("__version__", "model_type") if name in held}
    about |= {"similarity_fn_name": getattr(settings, "similarity", "cosine"), "prompts": prompts,
              "default_prompt_name": getattr(settings, "default_prompt_name", None)}  # fmt: skip
    same = next((name for name in DOCUMENT if name in prompts), "document")
    if same != "document":  # or that of sentence-transformers would be empty
        about |= {"prompts": {**prompts, "document": prompts[same]}, SAME_PROMPT: same}
    dim = getattr(settings, "truncate_dim", None)
    write_json(path, {**about, **({} if dim is None else {"truncate_dim": dim})})


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

    def folder_of(kind: str) -> Path:
        modules.append((f"{len(modules)}_{kind}", kind))
        return folder / modules[-1][0]

    about: dict[str, object] = {"max_seq_length": None, "do_lower_case": False}
    adapter = not (folder / "config.json").is_file()
    if names := model.encoder_alone(adapter) if hasattr(model, "encoder_alone") else None:
        about["model_args"] = {"key_mapping": names}
    row = POOLINGS[settings.pooling]
    if len(row.layers) > 1:
        if adapter:  # the config of its base does not return all layers
            about["config_args"] = {"output_hidden_states": True}
        layers, inside = model.config.num_hidden_layers, folder_of("WeightedLayerPooling")
        first = row.layers[0] % (layers + 1)
        weighted = {"word_embedding_dimension": dim, "layer_start": first, "num_hidden_layers": layers}
        write_json(inside / "config.json", weighted)
        halves = torch.zeros(layers + 1 - first)
        halves[0] += 0.5
        halves[-1] += 0.5
        write_tensors({"layer_weights": halves}, inside / "model.safetensors")
    write_json(folder / TRANSFORMER_FILE, about)
    modes = dict.fromkeys(pooling.mode for pooling in POOLINGS.values() if pooling.mode)
    flags = {f"pooling_mode_{mode}": mode == row.mode for mode in modes}
    if row.mode is None:
        flags[f"pooling_mode_{settings.pooling}"] = True  # which sentence-transformers refuses
    pooled = {"word_embedding_dimension": dim, **flags, "include_prompt": settings.include_prompt}
    write_json(folder_of("Pooling") / "config.json", pooled)
    weights: Mapping[str, Tensor] = model.state_dict() if state_dict is None else state_dict
    if settings.pooling == "cls" and not settings.mlp_only_train:
        _write_dense(folder_of("Dense"), weights, f"{model.base_model_prefix}.pooler.dense.", "Tanh")
    for number, layer in enumerate(settings.dense):
        _write_dense(folder_of("Dense"), weights, f"after.{2 * number}.", layer["activation"])
    if settings.normalize:
        folder_of("Normalize").mkdir(exist_ok=True)
    write_modules(folder, *((path, f"models.{name}") for path, name in modules))
    write_use(folder, settings)


def _write_dense(folder: Path, weights: Mapping[str, Tensor], prefix: str, activation: str) -> None:
    """Write the linear layer whose weights begin with `prefix`, and its activation."""
    names = [name for name in ("weight", "bias") if prefix + name in weights]
    dense = {f"linear.{name}": weights[prefix + name].detach().cpu().contiguous() for name in names}
    width, kind = dense["linear.weight"].shape, getattr(nn, activation)
    about = {"in_features": width[1], "out_features": width[0], "bias": "bias" in names,
             "activation_function": f"{kind.__module__}.{kind.__name__}"}  # fmt: skip
    write_json(folder / "config.json", about)
    write_tensors(dense, folder / "model.safetensors")


# --- Reading weights back.


def load_dense(folder: Path, linear: nn.Linear) -> None:
    """Copy the weights of a dense layer's folder into a layer of a model, such as the projection head.

    Raises:
        InputError: weights are damaged or a pickle, or have another shape.
    """
    check_weights(folder)
    with about(folder), torch.no_grad():
        tensors = {name.removeprefix("linear."): x for name, x in load_file(folder / "model.safetensors").items()}
        check_floats(tensors, folder)
        if linear.bias is not None:
            tensors.setdefault("bias", torch.zeros_like(linear.bias))
        linear.load_state_dict(tensors)


def check_floats(tensors: Mapping[str, Tensor], name: object) -> None:
    """Refuse weights that are integers, which would be read without their scale.

    Args:
        tensors: the weights by name.
        name: the file in messages.

    Raises:
        InputError: with the first of them.
    """
    if integers := next((key for key, weight in tensors.items() if not weight.is_floating_point()), None):
        raise InputError(f"{name}: the weights {integers} are integers; save them in float32")


def check_built(
    kind: Callable[[PreTrainedConfig], nn.Module], config: PreTrainedConfig, name: object, folder: Path
) -> None:
    """Refuse a config with far more weights and buffers than its files have bytes; allocates no memory for them.

    Args:
        kind: the class of the encoder.
        config: its config.
        name: its name in messages.
        folder: where its files are.

    Raises:
        InputError: it has more than two for each byte: as many, a head that is new, and room for tables of positions.
    """
    with about(name), torch.device("meta"):
        built: nn.Module = kind(copy.deepcopy(config))
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    asked = sum(x.numel() for x in (*built.parameters(), *built.buffers()))
    if asked > 2 * size + _SMALL:
        raise InputError(f"{name}: its config.json describes {asked:,} weights, but its files have only {size:,} bytes")


def init_unused_pooler(model: nn.Module, folder: Path) -> None:
    """Give a pooler that is not in the files the same weights whenever they are opened.

    transformers draws them at random: no embedding depends on them, but the hash of the model does, by which
    collections and caches know it.

    Args:
        model: the loaded model.
        folder: where its files are.
    """
    weights = [weight for name, weight in model.named_parameters() if "pooler" in name.split(".")]
    if any("pooler" in key.split(".") or key.startswith("mlp.dense.") for key in weight_types(folder)):
        return
    with torch.no_grad():
        for weight in weights:
            nn.init.eye_(weight) if weight.dim() == 2 else weight.zero_()


def check_loaded(model: PreTrainedModel, missing: Iterable[str], name: object, folder: Path) -> None:
    """Refuse a model with missing weights, which are initialised at random, with integers for floats, or with NaN.

    Args:
        model: the loaded model.
        missing: names of weights missing in its files; heads that only training uses may be among them.
        name: its name in messages.
        folder: where its files are.

    Raises:
        InputError: with the name of the first such weight.
    """
    floats = {key for key, weight in model.named_parameters() if weight.is_floating_point()}
    for key, kind in weight_types(folder).items():  # which would be read without a scale
        # a file may put a prefix before the name of a parameter, or leave one out
        integers = kind[:1] in "IU" or kind == "BOOL"
        if integers and any(key == other or key.endswith(f".{other}") or other.endswith(f".{key}") for other in floats):
            raise InputError(
                f"{name}: the weights {key} are of the type {kind}, and the model's are floats; save it in float32"
            )
    prefix = f"{model.base_model_prefix}." if hasattr(model, model.base_model_prefix or " ") else ""
    needed = sorted(key for key in missing if key.startswith((prefix, "after.")) and not key.startswith("loss_head."))
    if needed:
        more = f" and {len(needed) - 1} more" if len(needed) > 1 else ""
        raise InputError(f"{name} lacks weights: {needed[0]}{more}; is it a checkpoint of another model?")
    for key, weight in model.named_parameters():
        if not weight.isfinite().all():
            raise InputError(f"{name}: the weights {key} have NaN or infinite values; did training diverge?")
