"""`Checkpoint`: how a folder turns a text into a vector, read once: its base, pooling, dense layers, prompts and so on.

This is read from `config.contrastive`, else from the `modules.json` of sentence-transformers. `saving.py` writes both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from contrastive_st.errors import InputError, choice
from contrastive_st.files.folders import (
    ADAPTER,
    EXPORTED,
    INDICES,
    check_weights,
    default_model,
    local_folder,
    read_export,
)
from contrastive_st.files.reading import JsonObject, read_json, read_tensors, weight_types
from contrastive_st.models.poolings import POOLINGS
from contrastive_st.options import PROMPTS, Count, checked
from contrastive_st.vectors import SIMILARITIES

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

PROMPTS_FILE = "config_sentence_transformers.json"
#: Where that file says which prompt its prompt `document`, which sentence-transformers always has, repeats
SAME_PROMPT = "document_prompt_name"
#: Activations of a dense layer after the pooling, as torch names them
ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid", "LeakyReLU", "ELU", "Mish", "Softplus")
#: The kind of a model of sentence-transformers that gives one vector per text
ONE_VECTOR = "SentenceTransformer"
#: What `Transformer` modules may do with the texts of one role alone
TRANSFORMER_ROLES = ("query_length", "document_length", "query_expansion")
#: What they are said to have if their chat template reads a query otherwise than a document
TASK = "a task in its chat template"
#: Modules of sentence-transformers that read texts otherwise than by one transformer or table, alike in every role
_READERS = {"BoW", "WordEmbeddings", "Router", "Asym", "Transformer with tokenizer_name_or_path",
            *(f"Transformer with {name}" for name in (*TRANSFORMER_ROLES, TASK))}  # fmt: skip
#: Settings of a `Transformer` module that are read here, or that change no vector
_SETTINGS = {"max_seq_length", "do_lower_case", "unpad_inputs", "modality_config", "module_output_name"}
#: The backends that run exported graphs, and what a folder of each holds, where sentence-transformers looks for it
BACKENDS = {"onnx": "onnx/model.onnx", "openvino": "openvino/openvino_model.xml"}
_EMPTY: tuple[object, ...] = (None, {}, [])
#: Values of other settings that change no vector
_PLAIN = {"transformer_task": (*_EMPTY, "feature-extraction"),
          "config_args": (*_EMPTY, {"output_hidden_states": True}),
          "config_kwargs": (*_EMPTY, {"output_hidden_states": True})}  # fmt: skip


class Dense(NamedTuple):
    """A dense layer after the pooling: its folder, and its settings in `modules.json`."""

    folder: Path
    in_features: object
    out_features: object
    bias: bool
    activation: str


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint folder records about how a text becomes a vector; everything that opens one asks here.

    `Checkpoint.find("user/name")` finds the folder and reads it. Neither needs torch or transformers.

    Args:
        name: its folder or Hub name, as it was asked for.
        folder: the checkpoint folder.
        model: the folder of the transformer and its tokenizer; usually the checkpoint folder itself.
        tokenizer: the folder of the tokenizer: the adapter's if it has one, else the model's.
        model_type: that of the config of the model.
        exported: which of `BACKENDS` runs it; None for torch, and for a static model numpy.
        settings_hold: whether the settings in `config.contrastive` hold, because this package wrote the checkpoint, and
            sentence-transformers did not write another pooling, or a head of its own, afterwards.
        pooling: one of `POOLINGS`; None if it is not recorded.
        include_prompt: whether the tokens of a prompt are pooled.
        max_length: maximum number of tokens of a text, if `modules.json` limits it.
        lower_case: whether texts are lowercased before they are tokenized.
        modules: whether `modules.json` says which layers come after the pooling; else `config.contrastive` does.
        dense: the dense layers after the pooling.
        normalized: whether vectors are normalized to unit length after that.
        foreign: modules that only sentence-transformers can run.
        prompts: prompts by name.
        default_prompt_name: the name of the prompt that is put before every text.
        truncate_dim: number of dimensions to keep.
        adapter: the folder of an adapter; `model` is then the folder of its base.
        is_table: whether it is a static model, of this package, of model2vec or of sentence-transformers.
        table_alone: whether it is one of another library, without a config that transformers reads.
        similarity: how two vectors are compared: one of `contrastive_st.vectors.SIMILARITIES`.
        kind: the class of sentence-transformers that wrote it.
    """

    name: str
    folder: Path
    model: Path
    tokenizer: Path
    model_type: object = None
    exported: str | None = None
    settings_hold: bool = False
    pooling: str | None = None
    include_prompt: bool = True
    max_length: int | None = None
    lower_case: bool = False
    modules: bool = False
    dense: tuple[Dense, ...] = ()
    normalized: bool = False
    foreign: tuple[str, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None
    truncate_dim: int | None = None
    similarity: str = "cosine"
    adapter: Path | None = None
    is_table: bool = False
    table_alone: bool = False
    kind: str = ONE_VECTOR

    @property
    def head(self) -> Dense | None:
        """The first dense layer if it is the projection head of the pooling `cls`: square, with Tanh."""
        if self.pooling == "cls_before_pooler" and self.include_prompt and self.dense and not self.foreign:
            first = self.dense[0]
            return first if first.in_features == first.out_features and first.activation == "Tanh" else None
        return None

    @property
    def needs_sentence_transformers(self) -> bool:
        """Whether its texts are not read by one transformer or table, or queries otherwise than documents."""
        return not _READERS.isdisjoint(self.foreign)

    @property
    def is_refused(self) -> bool:
        """Whether no model here gives its vectors, if there are any."""
        return self.needs_sentence_transformers or self.kind != ONE_VECTOR

    @classmethod
    def find(
        cls,
        name: str | Path | None = None,
        revision: str | None = None,
        *,
        folder: Path | None = None,
        **options: Any,
    ) -> Checkpoint:
        """Find a checkpoint by its folder or Hub name and read what it records.

        Of an adapter that records nothing, it reads what its base records.

        Args:
            name: folder or Hub name; by default `default_model()`.
            revision: branch, tag or commit of a Hub name.
            folder: its folder, if that was found and checked before.
            options: as for `local_folder`, and for the base of an adapter.

        Raises:
            InputError: as for `local_folder`, or a file of the folder is damaged or names code from outside
                sentence-transformers, or the base of an adapter cannot be found.

        Example:
            >>> checkpoint = Checkpoint.find("static-minilm")
            >>> checkpoint.is_table, checkpoint.similarity, checkpoint.prompts
            (True, 'cosine', {})
        """
        asked = default_model() if name is None else name
        folder, name = folder or local_folder(asked, revision, **options), str(asked)
        is_adapter = (folder / ADAPTER).is_file()
        return replace(_read_adapter(folder, **options) if is_adapter else _read_model(folder), name=name)

    @classmethod
    def of_folder(cls, folder: Path) -> Checkpoint:
        """What the files of a local folder record; of an adapter, nothing of its base is read.

        Raises:
            InputError: a file of the folder is damaged or names code from outside sentence-transformers.
        """
        return _read_model(folder)

    @classmethod
    def in_memory(cls, **fields: Any) -> Checkpoint:
        """Of a model that has no folder."""
        return cls("model", Path(), Path(), Path(), **fields)


def export_command(name: object, form: str) -> str:
    """The command that exports a checkpoint."""
    return f"contrastive-st export {name} --format {form} --output NEW_FOLDER"


def wrong_backend(checkpoint: Checkpoint, asked: str) -> InputError:
    """The error for a checkpoint that is exported for another backend than the one that must run it, or for none."""
    there, name = checkpoint.exported, checkpoint.name
    if there is None and any((checkpoint.folder / graph).is_file() for graph in BACKENDS.values()):
        check_weights(checkpoint.folder, name)  # or sentence-transformers wrote the graph: nothing to export
    exported = f"exported for {there}; leave out the backend {asked}, or give the checkpoint"
    return InputError(f"{name} is {exported if there else f'not exported for {asked}: {export_command(name, asked)}'}")


def unknown_pooling(checkpoint: Checkpoint) -> InputError:
    """The error for a checkpoint that does not record its pooling, or that no model here computes."""
    name, kinds = checkpoint.name, ", ".join(checkpoint.foreign)
    if checkpoint.kind != ONE_VECTOR:
        return InputError(
            f"{name} is a {checkpoint.kind} of sentence-transformers, which does not give one vector per text; open it "
            f"with sentence_transformers.{checkpoint.kind}"
        )
    if checkpoint.needs_sentence_transformers:
        return InputError(
            f"{name} encodes texts by modules of sentence-transformers ({kinds}), not by one transformer or embedding "
            "matrix for all texts, so it is not opened here; evaluation and mining take a SentenceTransformer of it"
        )
    if checkpoint.foreign:
        way = "give --pooling to open its transformer without them" if checkpoint.model_type else "it is not trained"
        return InputError(
            f"{name} has modules of sentence-transformers ({kinds}) that this package's models do not support; {way}"
        )
    return InputError(
        f"{name} does not record how it pools tokens into a sentence vector (no modules.json, not trained by this "
        "package); give --pooling, for example mean or cls_before_pooler, or last for a decoder, or save it with one: "
        f"contrastive-st convert {name} FOLDER --to package --pooling mean"
    )


def of_settings(settings: Mapping[str, object]) -> JsonObject:
    """The fields of `Checkpoint` that are in `config.contrastive`; the pooling is that after training, without a head.

    Example:
        >>> of_settings({"pooling": "cls", "mlp_only_train": True})["pooling"], of_settings({})["pooling"]
        ('cls_before_pooler', None)
    """
    pooling = settings.get("pooling")
    if pooling == "cls" and settings.get("mlp_only_train"):
        pooling = "cls_before_pooler"
    return {
        "pooling": None if pooling is None else str(pooling),
        "include_prompt": settings.get("include_prompt", True) is not False,
        "prompts": settings.get("prompts") or {},
        "default_prompt_name": settings.get("default_prompt_name"),
        "truncate_dim": settings.get("truncate_dim"),
        "similarity": settings.get("similarity") or "cosine",
    }


def base_folder(adapter: Path, **hub: Any) -> Path:
    """The folder of the model that an adapter was trained on; `hub` as for `Checkpoint.find`.

    Raises:
        InputError: the base is not recorded, cannot be found, or is an adapter itself.
    """
    path = adapter / ADAPTER
    about = read_json(path, dict)
    of_adapter = ("revision", "subfolder")  # those of the adapter, not of its base
    access = {key: value for key, value in hub.items() if key not in of_adapter and value is not None}
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


def _read_adapter(folder: Path, **options: Any) -> Checkpoint:
    base = _read_model(base_folder(folder, **options))
    if (folder / "tokenizer_config.json").is_file():  # its length is that of the adapter, not of the base
        base = replace(base, max_length=None, tokenizer=folder)
    if not (folder / "modules.json").is_file():
        return replace(base, folder=folder, adapter=folder)
    recorded = _read_model(folder)
    return replace(
        recorded, model=base.model, tokenizer=base.tokenizer, model_type=base.model_type, is_table=base.is_table,
        max_length=recorded.max_length or base.max_length, adapter=folder,
    )  # fmt: skip


def _read_model(folder: Path) -> Checkpoint:
    config = read_json(folder / "config.json", dict) if (folder / "config.json").is_file() else {}
    settings = _typed(config, "contrastive", JsonObject, folder / "config.json")
    # the oldest have no modules.json; and a copy of a folder of this package has its config
    of_model2vec = config.get("model_type") == "model2vec" or "embedding_dtype" in config
    recorded = Checkpoint(
        str(folder), folder, folder, folder, config.get("model_type"), settings_hold=settings is not None,
        is_table=of_model2vec or config.get("model_type") == "static", table_alone=of_model2vec,
        exported=read_export(folder).get("backend") if EXPORTED in config else None, **of_settings(settings or {}),
    )  # fmt: skip
    if of_model2vec:
        settings, recorded = None, replace(recorded, settings_hold=False, pooling=None)
    if not (folder / "modules.json").is_file():
        return recorded
    entries = modules_of(folder)
    kinds = [kind for kind, _ in entries]
    model = entries[0][1] if kinds[:1] == ["Transformer"] else folder
    about: JsonObject = next((read_json(path, dict) for path in sorted(model.glob("sentence_*_config.json"))), {})
    for name in ("tokenizer_args", "processor_kwargs"):
        if values := _typed(about, name, JsonObject, model):  # its maximum length comes first
            about |= {name: values, "max_seq_length": values.pop("model_max_length", about.get("max_seq_length"))}
    length = _typed(about, "max_seq_length", Count, model)
    inside = model / "config.json"
    model_type = (config if model == folder or not inside.is_file() else read_json(inside, dict)).get("model_type")
    path = folder / PROMPTS_FILE
    use = read_json(path, dict) if path.is_file() else {}
    changed = "__version__" in use  # by sentence-transformers, which copies `config.contrastive`, whatever it saves
    if isinstance(values := use.get("prompts"), dict):  # null is an empty prompt to sentence-transformers
        use["prompts"] = {name: "" if prompt is None else prompt for name, prompt in values.items()}
    prompts = _typed(use, "prompts", PROMPTS, path) or {}
    same = _typed(use, SAME_PROMPT, str, path)
    if same in prompts and prompts.get("document") == prompts[same]:
        del prompts["document"]
    kind = _typed(use, "model_type", str, path) or ONE_VECTOR
    compared = _typed(use, "similarity_fn_name", str, path) if kind == ONE_VECTOR else None
    if path.is_file():
        recorded = replace(
            recorded, kind=kind, prompts=prompts, truncate_dim=_typed(use, "truncate_dim", Count, path),
            default_prompt_name=choice("default_prompt_name", use.get("default_prompt_name"), (None, *prompts), path),
            similarity=choice("similarity_fn_name", compared or "cosine", SIMILARITIES, path),
        )  # fmt: skip
    recorded = replace(
        recorded, modules=True, model=model, tokenizer=model, model_type=model_type,
        is_table=recorded.table_alone or model_type == "static",
        max_length=length, lower_case=bool(about.get("do_lower_case")),
    )  # fmt: skip
    if pooling := next((path for kind, path in entries if kind == "Pooling"), None):
        included = read_json(pooling / "config.json", dict).get("include_prompt") is not False
        recorded = replace(recorded, include_prompt=included)
    if settings is not None and changed and _pooled(entries).get("pooling") != recorded.pooling:
        settings, recorded = None, replace(recorded, settings_hold=False, pooling=None)
    pools_itself = settings is not None and "pooling" not in settings  # a model that pools itself
    strange = _strange_settings(about, model, pools_itself) if kinds[:1] == ["Transformer"] else []
    if recorded.kind != ONE_VECTOR or (strange and (settings is None or changed)):
        beyond = (f"Transformer with {name}" for name in strange)
        return replace(recorded, settings_hold=False, pooling=None, foreign=(*beyond, *kinds[1:]))
    if settings is not None:
        past = next((i for i, (kind, _) in enumerate(entries) if kind == "Pooling"), 0) + 1
        past += settings.get("pooling") == "cls" and not settings.get("mlp_only_train")  # the head is part of the model
        past += bool(config.get("normalize"))  # a static model normalizes its vectors itself
        if not entries[past:]:
            return recorded
        # a model that pools itself has no layers after that
        return replace(recorded, **({"foreign": tuple(kinds)} if pools_itself else _tail(entries[past:])))
    if kinds in (["StaticEmbedding"], ["StaticEmbedding", "Normalize"]):
        alone, table = config.get("model_type") != "static", entries[0][1]
        return replace(recorded, model=table, tokenizer=table, is_table=True, table_alone=alone)
    return replace(recorded, **_pooled(entries))


def _strange_settings(about: JsonObject, folder: Path, pools_itself: bool) -> list[str]:
    """The settings of a `Transformer` module that only sentence-transformers obeys."""
    args = about.get("model_args")
    if isinstance(args, dict):  # where weights are missing, they are refused here whatever their names are there
        about = {**about, "model_args": {key: value for key, value in args.items() if key != "key_mapping"}}
    strange = [key for key, value in about.items() if key not in _SETTINGS and value not in _PLAIN.get(key, _EMPTY)]
    modalities = _typed(about, "modality_config", dict[str, JsonObject], folder)
    text = (modalities or {"text": {"method_output_name": "last_hidden_state"}}).get("text", {})
    output = text.get("method_output_name") if text.get("method", "forward") == "forward" else None
    if output != ("pooler_output" if pools_itself else "last_hidden_state"):
        strange.append(f"the output {output}" if output else "another method")
    if "message" in (modalities or {}):  # then it reads no text without it
        strange.append("a chat template")
    return strange


def written_by_another(folder: Path) -> bool:
    """Whether sentence-transformers wrote a folder last; it copies `config.contrastive`, whatever its modules are."""
    path = folder / PROMPTS_FILE
    return path.is_file() and "__version__" in read_json(path, dict)


def modules_of(folder: Path) -> list[tuple[str, Path]]:
    """The class and the folder of each module; in place of a `Router` whose routes are all the same modules, these.

    A class from outside sentence-transformers is refused.
    """
    result: list[tuple[str, Path]] = []
    for entry in read_json(folder / "modules.json"):
        path, named = folder / entry.get("path", ""), [(entry.get("type"), "")]
        if str(entry.get("type")).endswith((".Router", ".Asym")):
            named = _equal_routes(path) or named
        for kind, inside in named:
            if not isinstance(kind, str) or not kind.startswith("sentence_transformers."):
                raise InputError(
                    f"{folder} needs code from its own repository (modules.json names {kind}); this package runs no "
                    "remote code"
                )
            result.append((kind.rsplit(".", 1)[-1], path / inside))
    return result


def _equal_routes(router: Path) -> list[tuple[str | None, str]]:
    """The class and the folder of each module of a router, if its routes are all the same; else nothing."""
    files = (router / name for name in ("router_config.json", "config.json"))
    if (file := next(filter(Path.is_file, files), None)) is None:
        return []
    about = read_json(file, dict)
    routes = list((_typed(about, "structure", dict[str, list[str]], file) or {}).values())
    types = _typed(about, "types", dict[str, str], file) or {}
    same = routes and all(route == routes[0] for route in routes)
    return [(types.get(name), Path(name).name) for name in routes[0]] if same else []


def _typed(content: JsonObject, key: str, kind: type, path: Path) -> Any:
    return checked(f"{path}: {key}", content.get(key), kind | None)


def _pooled(entries: list[tuple[str, Path]]) -> JsonObject:
    kinds = [kind for kind, _ in entries]
    if kinds[:2] == ["Transformer", "Pooling"]:
        pooling, past = _pooling(entries[1][1]), 2
        kinds[1] = f"Pooling by {' and '.join(_modes(entries[1][1]))}"
    elif kinds[:3] == ["Transformer", "WeightedLayerPooling", "Pooling"] and _pooling(entries[2][1]) == "mean":
        pooling, past = None, 3
        first = read_json(entries[1][1] / "config.json", dict).get("layer_start")
        weights = read_tensors(entries[1][1] / "model.safetensors").get("layer_weights", np.empty(0))
        if len(weights) >= 2 and weights.tolist() == [0.5, *[0.0] * (len(weights) - 2), 0.5]:  # written by this package
            pooling = "avg_first_last" if first == 1 else "avg_top2" if len(weights) == 2 else None
    else:
        pooling, past = None, 0
    if pooling is None:
        return {"foreign": tuple(kinds[kinds[:1] == ["Transformer"] :])}
    return {"pooling": pooling, **_tail(entries[past:])}


def _modes(folder: Path) -> list[str]:
    about = read_json(folder / "config.json", dict)
    flags = [name.removeprefix("pooling_mode_") for name, on in about.items()
             if name.startswith("pooling_mode_") and on is True]  # fmt: skip
    modes = about.get("pooling_mode", flags)
    return [str(mode) for mode in (modes if isinstance(modes, list) else [modes])]


def _pooling(folder: Path) -> str | None:
    modes = _modes(folder)
    rows = POOLINGS.items()  # the mode of `cls` is that before the head
    by_mode = {row.mode: name for name, row in rows if row.mode and len(row.layers) == 1}
    return next((name for mode, name in by_mode.items() if modes in ([mode], [mode.rpartition("_tok")[0]])), None)


def _tail(entries: list[tuple[str, Path]]) -> JsonObject:
    kinds = [kind for kind, _ in entries]
    folders, dense = [path for kind, path in entries if kind == "Dense"], []
    if kinds not in (["Dense"] * len(folders), [*["Dense"] * len(folders), "Normalize"]):
        return {"foreign": tuple(kinds)}
    for folder in folders:
        about = read_json(folder / "config.json", dict)
        names = {about.get("module_input_name"), about.get("module_output_name")}
        if names - {None, "sentence_embedding"}:
            return {"foreign": (f"Dense of {about.get('module_input_name')}",)}
        if about.get("use_residual"):
            return {"foreign": ("Dense with use_residual",)}
        name = str(about.get("activation_function") or "torch.nn.modules.linear.Identity")
        activation, bias = re.sub(r"^torch\.nn\.modules\.\w+\.", "", name), "linear.bias" in weight_types(folder)
        dense.append(Dense(folder, about.get("in_features"), about.get("out_features"), bias, activation))
    return {"dense": tuple(dense), "normalized": kinds[-1:] == ["Normalize"]}


# --- How a text is read: of a config of transformers, or of its fields.

#: Families that mix the vectors of neighbouring tokens, or of all in a row, and padding with them (MobileBERT if the
#: vector of its padding is not zero)
_MIX_PADDING = (
    "big_bird", "bigbird_pegasus", "canine", "convbert", "mobilebert", "nystromformer", "reformer",
    "sam3_lite_text_text_model", "yoso",
)  # fmt: skip


def mixes_padding(config: PreTrainedConfig | SimpleNamespace | None) -> bool:
    """Whether padding changes the vector of a row, so that only rows of one length are encoded at once."""
    if getattr(config, "attention_type", None) == "original_full":  # else BigBird's last block is in the padding
        return False
    return getattr(config, "model_type", None) in _MIX_PADDING


def max_positions(config: PreTrainedConfig | SimpleNamespace) -> int:
    """Longest input in tokens. (RoBERTa's kin and MPNet number positions from `pad_token_id + 1`.)"""
    of_decoder = getattr(config, "max_decoder_position_embeddings", -1)  # of LED, whose decoder reads it too
    limit = int(getattr(config, "max_position_embeddings", of_decoder))
    limit = 1 << 30 if limit == -1 else limit  # as of XLNet, which has no limit
    if config.model_type in ("roberta", "xlm-roberta", "camembert"):
        return limit - int(config.pad_token_id or 0) - 1
    return limit - 2 if config.model_type == "mpnet" else limit


def most_tokens(asked: float, config: PreTrainedConfig | SimpleNamespace) -> int | None:
    """Maximum number of tokens of a text, at most the model's number of positions; None if there is no limit."""
    length = min(asked, max_positions(config))
    return int(length) if length < 1 << 29 else None
