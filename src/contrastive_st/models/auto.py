"""Open a checkpoint by its name or its `Checkpoint`: config, tokenizer, and the model in the class of its family.

Nothing in a checkpoint is executed or unpickled: weights must be safetensors, code from repositories is refused, and
the user is never prompted for permission.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, cast

import torch
import transformers
from annotated_types import Ge
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from contrastive_st.errors import InputError, about
from contrastive_st.files.folders import HUB_OPTIONS, check_weights
from contrastive_st.files.reading import JsonObject, read_json, weight_types
from contrastive_st.models.adapters import open_adapter, train_head
from contrastive_st.models.base import ForCL
from contrastive_st.models.checkpoint import ONE_VECTOR, Checkpoint, Dense, max_positions, unknown_pooling
from contrastive_st.models.configuration import is_plain_encoder, without_code
from contrastive_st.models.families import DECODERS, family, family_of
from contrastive_st.models.modeling import ContrastiveMixin
from contrastive_st.models.saving import load_dense, of_one_file
from contrastive_st.options import checked
from contrastive_st.static_vectors import Reading, StaticVectors
from contrastive_st.tokens import lowercase, lowercases

logger = logging.getLogger(__name__)
_HEAD = ("pooler.dense.weight", "mlp.dense.weight")


class AutoModelForCL:
    """Opens a checkpoint as `BertForCL`, `RobertaForCL`, ..., depending on the family in its config."""

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path | Checkpoint, **kwargs: Any) -> ForCL:
        """Open a folder or Hub name for training: `open_model` with `train=True`.

        Args:
            pretrained_model_name_or_path: folder, Hub name, or the `Checkpoint` of one.
            kwargs: options of finding a Hub name, such as `revision` and `token`, and those of `open_model`.

        Returns:
            The model, in float32 and in evaluation mode.

        Raises:
            InputError: as for `open_model`, or the checkpoint does not exist.
        """
        hub = {key: kwargs.pop(key) for key in (*HUB_OPTIONS, "revision") if key in kwargs}
        name = pretrained_model_name_or_path
        checkpoint = name if isinstance(name, Checkpoint) else Checkpoint.find(name, **hub)
        return open_model(checkpoint, train=True, **kwargs)

    @classmethod
    def from_config(cls, config: PreTrainedConfig, **settings: object) -> ForCL:
        """A newly initialised model of the config's family.

        Args:
            config: of transformers.
            settings: `pooling`, `loss` and so on.

        Raises:
            InputError: a family that does not encode texts, or a setting that is not valid.
        """
        return family_of(config, "this config")(config, **settings)


def open_model(
    checkpoint: Checkpoint,
    *,
    train: bool = False,
    config: PreTrainedConfig | None = None,
    pooling: str | None = None,
    merge_adapter: bool | None = None,
    **options: Any,
) -> ForCL:
    """The model of a checkpoint, with the pooling recorded there by this package or by sentence-transformers.

    To be trained, it has float32 weights and, where its config names another task, a new projection head; an adapter is
    opened with its base, and is all that is trained. Otherwise all weights must be there, those of an adapter are
    merged into its base, and floats are of the type of the folder.

    Args:
        checkpoint: what the folder records.
        train: whether the model is to be trained.
        config: its config, if another than that of the folder.
        pooling: replaces the recorded pooling; the layers after it, which were trained with that one, are left out.
        merge_adapter: merge an adapter into its base.
        options: settings, and arguments of `ForCL.from_pretrained` and `ContrastiveMixin.from_pretrained`.

    Raises:
        InputError: the checkpoint does not record its pooling, has a pickle, lacks weights, needs remote code, or is of
            a family without a ForCL class.
    """
    settings: dict[str, object] = {
        "prompts": dict(checkpoint.prompts), "default_prompt_name": checkpoint.default_prompt_name,
        "truncate_dim": checkpoint.truncate_dim, "similarity": checkpoint.similarity,
    }  # fmt: skip
    if checkpoint.is_table and (checkpoint.table_alone or not checkpoint.settings_hold):
        return _of_table(checkpoint, pooling, {**settings, **options})
    other_kind = checkpoint.kind != ONE_VECTOR and pooling is None
    if other_kind or (checkpoint.foreign and checkpoint.needs_sentence_transformers):
        raise unknown_pooling(checkpoint)
    name, config = checkpoint.name, config or load_config(checkpoint)
    kind = family_of(config, name)
    if checkpoint.model_type != config.model_type and issubclass(kind, ContrastiveMixin):
        logger.warning(f"{name} is opened by its text part ({config.model_type})")
        prefix = _prefix_of_text_part(checkpoint.model, config, kind)
        options["key_mapping"] = {f"^{re.escape(prefix)}": f"{kind.base_model_prefix}."}
    saved = str((config.architectures or [""])[0])
    if getattr(config, "is_encoder_decoder", False) and saved.endswith("Encoder"):  # of sentence-transformers, alone
        options["key_mapping"] = {"^": f"{kind.base_model_prefix}.encoder."}
    if "bidirectional" in options and config.model_type not in DECODERS:
        raise InputError(
            f"bidirectional is for {', '.join(DECODERS)}, and {name} is a {config.model_type}; leave it out"
        )
    check_weights(checkpoint.model, name, options.get("variant"))
    head: Dense | None = None
    settings |= {"default_prompt_name": None} if "prompts" in options else {}
    if issubclass(kind, ContrastiveMixin):
        checkpoint, head, of_pooling = _pooled(checkpoint, config, kind, pooling, train)
        settings |= of_pooling
    else:
        _check_fixed(checkpoint, pooling)
    settings |= {} if train else {"dtype": "auto"}
    loaded = kind.load(checkpoint.model, name, config=config, **{**settings, **options})
    model = loaded[0] if isinstance(loaded, tuple) else loaded
    _check_class(model, checkpoint)
    if checkpoint.adapter is not None:
        merge = not train if merge_adapter is None else merge_adapter
        open_adapter(getattr(model, "backbone", None), checkpoint.adapter, name, merge)
        if not merge:
            train_head(model)
            model.save_dtype = None  # that of the base is not that of the adapter
    if head is not None:
        load_dense(head.folder, model.projection.dense)
    if issubclass(kind, ContrastiveMixin) and "dense" not in options and checkpoint.modules:
        linears = [layer for layer in model.after if isinstance(layer, torch.nn.Linear)]
        for layer, linear in zip(checkpoint.dense, linears, strict=True):
            load_dense(layer.folder, linear)
    return loaded


def opened(
    checkpoint: Checkpoint, device: torch.device, pooling: str | None = None
) -> tuple[ForCL, PreTrainedTokenizerBase]:
    """The model of a checkpoint on a device, in evaluation mode, and its tokenizer.

    Args:
        checkpoint: what the folder records.
        device: where to run it.
        pooling: as for `open_model`.

    Raises:
        InputError: as for `open_model` and `load_tokenizer`.
    """
    model, tokenizer = open_model(checkpoint, pooling=pooling).eval(), load_tokenizer(checkpoint)
    model.to(device)
    return model, tokenizer


def _check_class(model: ForCL, checkpoint: Checkpoint) -> None:
    """Say that a user's class, whose code is not in the folder, has saved it; refuse to leave out weights of it."""
    config, kind = read_json(checkpoint.model / "config.json", dict), type(model)
    saved = str((config.get("architectures") or [kind.__name__])[0])
    of_encoder = type(getattr(model, "backbone", None)).__name__
    known = saved in {of_encoder, *(base.__name__ for base in kind.__mro__)} or hasattr(transformers, saved)
    if known or "contrastive" not in config:  # or another program wrote it, whose heads are left out
        return
    way = f"open it with {saved}.from_pretrained, or register {saved} and a model_type for it (AutoModel.register)"
    left = sorted(set(weight_types(checkpoint.model)) - set(model.state_dict()))
    if left := [key for key in left if not key.startswith(("loss_head.", "after."))]:  # which may be left out
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        raise InputError(f"{checkpoint.name} has weights of the class {saved} that saved it ({left[0]}{more}); {way}")
    logger.warning(f"{checkpoint.name} is opened as {kind.__name__}, without the code of {saved} that saved it; {way}")


def _prefix_of_text_part(folder: Path, config: PreTrainedConfig, kind: type[ContrastiveMixin]) -> str:
    """What weights of the text part have before their names in the files of a model of several modalities."""
    with torch.device("meta"):
        names = list(kind.backbone_class(copy.deepcopy(config)).state_dict())
    held = weight_types(folder)
    prefixes = {key.removesuffix(names[0]) for key in held if key.endswith(names[0])}
    return max(prefixes, key=lambda prefix: sum(prefix + name in held for name in names), default="")


def _check_fixed(checkpoint: Checkpoint, pooling: str | None) -> None:
    """Refuse another pooling, and modules after it, for a model whose pooling is part of its architecture."""
    if pooling is not None:
        raise InputError(f"{checkpoint.name} has a fixed pooling; leave --pooling out")
    if checkpoint.foreign and checkpoint.settings_hold:
        raise unknown_pooling(checkpoint)


def _of_table(checkpoint: Checkpoint, pooling: str | None, settings: JsonObject) -> ForCL:
    """The table of another library as a `StaticEncoder`, in float32."""
    from contrastive_st.models.static_encoder import STORAGES, StaticEncoder

    _check_fixed(checkpoint, pooling)
    table = StaticVectors.from_pretrained(checkpoint.folder)
    model = StaticEncoder.from_vectors(
        table, **{key: value for key, value in settings.items() if key not in ("dtype", "new_head")}
    )
    kind = str(table.embeddings.dtype)
    model.save_dtype = getattr(torch, kind) if kind in STORAGES else None
    model.name_or_path = model.config._name_or_path = checkpoint.name
    return cast("ForCL", model)


def _pooled(
    checkpoint: Checkpoint, config: PreTrainedConfig, kind: type[ContrastiveMixin], pooling: str | None, train: bool
) -> tuple[Checkpoint, Dense | None, dict[str, object]]:
    """The checkpoint with the pooling that is asked for, the folder of its projection head, and settings of a model."""
    head: Dense | None = None
    settings: dict[str, object] = {}
    held = (getattr(config, "contrastive", None) or {}).get("pooling")
    asked = pooling is not None and not (train and checkpoint.settings_hold and pooling == held)
    if asked:
        if pooling != checkpoint.pooling:  # the layers after it were trained with the recorded one
            checkpoint = replace(checkpoint, pooling=pooling, modules=True, dense=(), normalized=False, foreign=())
    elif checkpoint.foreign or (checkpoint.pooling is None and not checkpoint.settings_hold):
        raise unknown_pooling(checkpoint)
    elif train and not checkpoint.settings_hold and kind.pooled and checkpoint.head:
        head, settings = checkpoint.head, {"mlp_only_train": False}
        checkpoint = replace(checkpoint, pooling="cls", dense=checkpoint.dense[1:])
    if checkpoint.pooling == "cls" and not train:
        trained = kind.pooled and not is_plain_encoder(config)
        if not trained or not any(key.endswith(_HEAD) for key in weight_types(checkpoint.model)):
            raise InputError(
                f"{checkpoint.name} has no trained projection head, which pooling cls needs; use cls_before_pooler"
            )
    if asked or not checkpoint.settings_hold:
        settings |= {"pooling": checkpoint.pooling, **({} if train and asked else {"new_head": False})}
    layers: dict[str, object] = {}
    if checkpoint.modules:  # else the config has them
        dense = [{"out_features": x.out_features, "bias": x.bias, "activation": x.activation} for x in checkpoint.dense]
        layers = {"dense": dense, "normalize": checkpoint.normalized}
    return checkpoint, head, {"include_prompt": checkpoint.include_prompt, **layers, **settings}


@contextlib.contextmanager
def _without_remote_code(what: str, name: object) -> Iterator[None]:
    """A context in which what transformers says of remote code, which would have to be trusted, is another line."""
    try:
        with about(f"the {what} of {name}"):
            yield
    except ValueError as error:
        if "trust_remote_code" not in str(error):
            raise
        raise InputError(
            f"{name} needs code from its own repository, which this package does not run; read the code, and open the "
            "model with transformers' AutoModel.from_pretrained(..., trust_remote_code=True)"
        ) from error


def load_config(name: str | Path | Checkpoint, revision: str | None = None, **options: Any) -> PreTrainedConfig:
    """The config of a checkpoint; of an adapter, that of its base.

    Args:
        name: folder, Hub name, or the `Checkpoint` found under it.
        revision: branch, tag or commit of a Hub name.
        options: as for `local_folder`.

    Raises:
        InputError: there is no config, or it cannot be read.
    """
    checkpoint = name if isinstance(name, Checkpoint) else Checkpoint.find(name, revision, **options)
    path = checkpoint.model / "config.json"
    if checkpoint.foreign and not path.is_file():
        raise unknown_pooling(checkpoint)
    family(read_json(path, dict).get("model_type"))  # importing the family registers the configs of this package
    with _without_remote_code("config", checkpoint.name):
        config: PreTrainedConfig = AutoConfig.from_pretrained(checkpoint.model, trust_remote_code=False)  # None asks
    text = getattr(config, "text_config", None)  # of a model of several modalities
    if isinstance(text, PreTrainedConfig) and family(config.model_type) is None and family(text.model_type) is not None:
        config = text
    return without_code(config)


def load_tokenizer(
    name: str | Path | Checkpoint, revision: str | None = None, **options: Any
) -> PreTrainedTokenizerBase:
    """The tokenizer of a checkpoint, with the checkpoint's maximum length as `model_max_length`.

    Args:
        name: folder, Hub name, or the `Checkpoint` found under it.
        revision: branch, tag or commit of a Hub name.
        options: as for `local_folder`.

    Raises:
        InputError: there is no tokenizer, or it is damaged or needs remote code.
    """
    checkpoint = name if isinstance(name, Checkpoint) else Checkpoint.find(name, revision, **options)
    if checkpoint.table_alone:  # without a tokenizer_config.json
        from contrastive_st.models.static_encoder import static_tokenizer

        file = PreTrainedTokenizerFast(tokenizer_file=str(checkpoint.model / "tokenizer.json"))
        return static_tokenizer(file, Reading.of_folder(checkpoint.folder, file.backend_tokenizer).max_length)
    with _without_remote_code("tokenizer", checkpoint.name):
        tokenizer = AutoTokenizer.from_pretrained(checkpoint.tokenizer, trust_remote_code=False)
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # transformers makes an empty one if files are missing
        raise InputError(f"{checkpoint.name} has no tokenizer files; save the tokenizer in the same folder")
    limits = {"max_seq_length": checkpoint.max_length} if checkpoint.max_length is not None else {}
    limits = limits or {"model_max_length": tokenizer.model_max_length}
    config = load_config(checkpoint) if (checkpoint.model / "config.json").is_file() else None
    if config is not None:
        limits["max_position_embeddings"] = max_positions(config)
    for name, limit in limits.items():
        checked(f"{checkpoint.name}: {name}", limit, Annotated[float, Ge(1)])
    tokenizer.model_max_length = int(min(limits.values()))
    if checkpoint.is_table:  # which other loaders read as far as config.json says
        length = Reading.of_folder(checkpoint.folder, tokenizer.backend_tokenizer).max_length
        tokenizer.model_max_length = length or 1 << 30
    rows = None if config is None else getattr(config.get_text_config(), "vocab_size", None)
    if isinstance(rows, int):
        # of tokens that were added, those that every text has count: transformers itself adds some that no text has
        added = tokenizer.get_added_vocab()
        built_in = (number for token, number in tokenizer.get_vocab().items() if token not in added)
        if (greatest := max(chain(built_in, tokenizer("")["input_ids"]), default=-1)) >= rows:
            raise InputError(
                f"{checkpoint.name}: the tokenizer has ids up to {greatest}, and the model vectors for {rows} tokens "
                f"(ids up to {rows - 1}): they do not belong together; save the model's tokenizer in the same folder"
            )
    if tokenizer.pad_token is None and tokenizer.eos_token is not None:
        tokenizer.pad_token = tokenizer.eos_token  # decoders often have no padding token; padding is masked anyway
    if checkpoint.lower_case and tokenizer.is_fast and not lowercases(tokenizer.backend_tokenizer):
        lowercase(tokenizer.backend_tokenizer)
        tokenizer = of_one_file(tokenizer)
    return tokenizer
