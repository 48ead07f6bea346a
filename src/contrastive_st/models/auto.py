"""Open a checkpoint by its name or its `Checkpoint`: config, tokenizer, and the model in the class of its family.

Nothing in a checkpoint is executed or unpickled: weights must be safetensors, code from repositories is refused, and
the user is never prompted for permission.
"""

from __future__ import annotations

import importlib
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutputWithPooling

from contrastive_st.errors import InputError, first_line
from contrastive_st.files.folders import check_weights
from contrastive_st.files.reading import read_json, weight_names
from contrastive_st.files.repositories import HUB_OPTIONS
from contrastive_st.models.adapters import open_adapter, train_head
from contrastive_st.models.checkpoint import Checkpoint
from contrastive_st.models.configuration import ContrastiveConfig, is_plain_encoder, max_positions, without_code
from contrastive_st.models.pooling import check_pooling, final_layers, needs_all_layers, pool
from contrastive_st.models.saving import check_loaded, load_dense, load_final_layers

#: The module and class of each model_type; only the family that is opened is imported
FAMILIES = {
    "bert": "families.BertForCL",
    "roberta": "families.RobertaForCL",
    "xlm-roberta": "families.XLMRobertaForCL",
    "camembert": "families.CamembertForCL",
    "mpnet": "families.MPNetForCL",
    "distilbert": "families.DistilBertForCL",
    "electra": "families.ElectraForCL",
    "deberta-v2": "families.DebertaV2ForCL",
    "modernbert": "families.ModernBertForCL",
    "qwen2": "decoders.Qwen2ForCL",
    "qwen3": "decoders.Qwen3ForCL",
    "llama": "decoders.LlamaForCL",
    "mistral": "decoders.MistralForCL",
    "gemma": "decoders.GemmaForCL",
    "gemma2": "decoders.Gemma2ForCL",
    "gemma3_text": "decoders.Gemma3ForCL",
    "quickthoughts": "word_models.QuickThoughtsGRU",
    "skipthoughts": "word_models.SkipThoughts",
    "infersent": "word_models.InferSentBiLSTM",
    "universal": "word_models.UniversalSentenceEncoder",
    "static": "static_encoder.StaticEncoder",
}
_HEAD = ("pooler.dense.weight", "mlp.dense.weight")


def family(model_type: object) -> Any:
    """The ForCL class of a `model_type`; None for what is no text encoder, such as an encoder-decoder."""
    if not isinstance(model_type, str):
        return None
    if model_type not in FAMILIES:
        from contrastive_st.models.other_families import other_family

        return other_family(model_type)
    module, _, name = FAMILIES[model_type].rpartition(".")
    return getattr(importlib.import_module(f"contrastive_st.models.{module}"), name)


class AutoModelForCL:
    """Opens a checkpoint as `BertForCL`, `RobertaForCL`, ..., depending on the family in its config."""

    @classmethod
    def from_pretrained(cls, name: str | Path | Checkpoint, **kwargs: Any) -> Any:
        """Open a folder or Hub name with the pooling recorded there by this package or by sentence-transformers.

        An adapter is opened with its base model; further training changes only the adapter.

        Args:
            name: folder, Hub name, or the `Checkpoint` found under it.
            kwargs: settings such as `pooling` (needed if the checkpoint records none); `merge_adapter=True` to merge an
                adapter into its base; and the arguments of `ForCL.from_pretrained` and
                `ContrastiveMixin.from_pretrained`.

        Raises:
            InputError: the checkpoint does not exist, does not record its pooling, has damaged weights or a pickle,
                needs remote code, or is of a family without a ForCL class.
        """
        hub = {key: kwargs.pop(key) for key in (*HUB_OPTIONS, "revision") if key in kwargs}
        checkpoint = _found(name, **hub)
        name = checkpoint.name if isinstance(name, Checkpoint) else name
        config = kwargs.pop("config", None) or load_config(checkpoint)
        model_class = cls._class(config, name)
        head, merge, new_layers = None, kwargs.pop("merge_adapter", False), "dense" in kwargs
        pools = hasattr(model_class, "projection")
        if "pooling" in kwargs:
            held = (getattr(config, "contrastive", None) or {}).get("pooling")
            checkpoint = checkpoint.pooled_with(kwargs["pooling"] if kwargs["pooling"] != held else None)
        elif checkpoint.foreign and (pools or checkpoint.own):
            raise unknown_pooling(checkpoint)
        elif pools and not checkpoint.own:
            if checkpoint.pooling is None:
                raise unknown_pooling(checkpoint)
            head = checkpoint.head if model_class.has_pooler() else None
            checkpoint = checkpoint.with_head() if head else checkpoint
            kwargs = {"new_head": False, **kwargs, "pooling": checkpoint.pooling}
            kwargs |= {"mlp_only_train": False} if head else {}
        if pools:
            kwargs = {"include_prompt": checkpoint.include_prompt, **checkpoint.final_layers, **kwargs}
        kwargs = {**checkpoint.use, **({"default_prompt_name": None} if "prompts" in kwargs else {}), **kwargs}
        loaded = model_class.from_pretrained(checkpoint.model, config=config, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        if checkpoint.adapter is not None:
            open_adapter(getattr(model, "backbone", None), checkpoint.adapter, name, merge)
            if not merge:
                train_head(model)
        if head is not None:
            load_dense(head, model.projection.dense)
        if pools and not new_layers:
            load_final_layers(checkpoint, model.after)
        model.name_or_path = model.config._name_or_path = str(name)
        return loaded

    @classmethod
    def from_config(cls, config: PreTrainedConfig, **settings: Any) -> Any:
        """A newly initialised model of the config's family."""
        return cls._class(config, "this config")(config, **settings)

    @staticmethod
    def _class(config: PreTrainedConfig, name: object) -> Any:
        found = family(config.model_type)
        if found is None:
            known = ", ".join(FAMILIES)
            raise InputError(
                f"{name} has model_type {config.model_type!r}, which cannot be trained here; use {known}, or another "
                "encoder of transformers"
            )
        return found


def unknown_pooling(checkpoint: Checkpoint) -> InputError:
    """The error for a checkpoint that does not record its pooling."""
    name = checkpoint.name
    if checkpoint.foreign:
        kinds = ", ".join(checkpoint.foreign)
        return InputError(
            f"{name} has modules of sentence-transformers ({kinds}) that this package's models do not support; "
            "give --pooling to open its transformer without them"
        )
    return InputError(
        f"{name} does not say how it pools tokens into a sentence vector (no modules.json, not trained by this "
        "package); give --pooling, for example mean or cls_before_pooler, or last for a decoder"
    )


class PooledModel(nn.Module):
    """An encoder of a family without a ForCL class, with a pooling and the layers after it; see `ContrastiveMixin`."""

    def __init__(self, backbone: Any, pooling: str, **settings: Any) -> None:
        super().__init__()
        self.backbone = backbone.get_encoder() if backbone.config.is_encoder_decoder else backbone
        self.pooling, self.config = pooling, backbone.config
        self.settings = ContrastiveConfig.parse({"pooling": pooling, **settings})  # like a ForCL model
        self.after = final_layers(self.config.hidden_size, self.settings.dense, self.settings.normalize)
        self.after.to(backbone.dtype)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, text_mask: Tensor | None = None
    ) -> BaseModelOutputWithPooling:
        """Encode token ids `[N, L]`, padded on the right.

        Args:
            input_ids: token ids.
            attention_mask: 1 on real tokens.
            text_mask: 1 on tokens to pool; by default all real tokens.
        """
        every = needs_all_layers(self.pooling)
        output = self.backbone(input_ids, attention_mask=attention_mask, output_hidden_states=every)
        states = output.hidden_states if every else [output.last_hidden_state]
        pooled = attention_mask if text_mask is None else text_mask
        vectors = self.after(pool(states, pooled, self.pooling))
        return BaseModelOutputWithPooling(last_hidden_state=states[-1], pooler_output=vectors)


def open_trained(checkpoint: Checkpoint, pooling: str | None = None) -> Any:
    """Open a checkpoint's model for inference; all weights must be there, and none is newly initialised.

    An adapter is merged into the weights of its base.

    Args:
        checkpoint: what its folder records.
        pooling: replaces the recorded pooling; the layers after it are then left out.

    Raises:
        InputError: the pooling is not known, the projection head was never trained, or weights are missing.
    """
    folder, config, name = checkpoint.model, load_config(checkpoint), checkpoint.name
    if pooling is not None:
        check_pooling(pooling)
    elif checkpoint.pooling is None and not checkpoint.own:
        raise unknown_pooling(checkpoint)
    checkpoint = checkpoint.pooled_with(pooling)
    chosen = checkpoint.pooling
    check_weights(folder, name)
    if not weight_names(folder):
        raise InputError(f"{name}: its safetensors files hold no weights; download or save them again")
    if chosen == "cls":
        trained = not is_plain_encoder(config) and any(key.endswith(_HEAD) for key in weight_names(folder))
        if not trained or config.model_type not in FAMILIES:
            raise InputError(f"{name} has no trained projection head, which pooling cls needs; use cls_before_pooler")
    if family(config.model_type) is not None:
        settings = {} if checkpoint.own and pooling is None else {"pooling": chosen, "new_head": False}
        model_class = AutoModelForCL._class(config, name)
        if settings and not hasattr(model_class, "projection"):
            raise InputError(
                f"{name} ({config.model_type}) has a pooling of its own, which cannot be changed; leave --pooling out"
            )
        settings |= checkpoint.use
        if hasattr(model_class, "projection"):
            settings |= {"include_prompt": checkpoint.include_prompt, **checkpoint.final_layers}
        model = model_class.from_pretrained(folder, config=config, **settings)
        if hasattr(model, "projection"):
            load_final_layers(checkpoint, model.after)
        if checkpoint.adapter is not None:
            open_adapter(getattr(model, "backbone", None), checkpoint.adapter, name, merge=True)
        model.name_or_path = model.config._name_or_path = str(name)
        return model
    from transformers import AutoModel

    try:
        model, info = AutoModel.from_pretrained(
            folder, config=config, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
    except Exception as error:  # damaged files raise errors of any type
        raise InputError(f"cannot open {name}: {first_line(error)}") from error
    check_loaded(model, [key for key in info["missing_keys"] if "pooler." not in key], name, folder)
    if checkpoint.adapter is not None:
        open_adapter(model, checkpoint.adapter, name, merge=True)
    pooled = PooledModel(
        model, str(chosen), include_prompt=checkpoint.include_prompt, **checkpoint.final_layers, **checkpoint.use
    )
    load_final_layers(checkpoint, pooled.after)
    return pooled


def _found(name: str | Path | Checkpoint, revision: str | None = None, **options: Any) -> Checkpoint:
    return name if isinstance(name, Checkpoint) else Checkpoint.find(name, revision, **options)


def load_config(name: str | Path | Checkpoint, revision: str | None = None, **options: Any) -> PreTrainedConfig:
    """The config of a checkpoint; of an adapter, that of its base.

    Args:
        name: folder, Hub name, or the `Checkpoint` found under it.
        revision: branch, tag or commit of a Hub name.
        options: as for `local_folder`.

    Raises:
        InputError: there is no config, or it cannot be read.
    """
    checkpoint = _found(name, revision, **options)
    path = checkpoint.model / "config.json"
    if not path.is_file():
        raise InputError(f"{checkpoint.name} has no config.json; give the folder of a saved model")
    family(read_json(path, dict).get("model_type"))  # importing the family registers this package's own configs
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(checkpoint.model, trust_remote_code=False)  # None asks
        return without_code(config)
    except InputError:
        raise
    except Exception as error:  # damaged files raise errors of any type
        raise _unreadable(error, "config", checkpoint.name) from error


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
    checkpoint = _found(name, revision, **options)
    try:
        tokenizer = AutoTokenizer.from_pretrained(checkpoint.tokenizer, trust_remote_code=False)
    except Exception as error:  # damaged files raise errors of any type
        raise _unreadable(error, "tokenizer", checkpoint.name) from error
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # transformers makes an empty one if files are missing
        raise InputError(f"{checkpoint.name} has no tokenizer files; save the tokenizer in the same folder")
    limits = {"max_seq_length": checkpoint.max_length} if checkpoint.max_length is not None else {}
    limits = limits or {"model_max_length": tokenizer.model_max_length}
    config = load_config(checkpoint) if (checkpoint.model / "config.json").is_file() else None
    if config is not None:
        limits["max_position_embeddings"] = max_positions(config)
    for name, limit in limits.items():
        if not isinstance(limit, int | float) or not limit >= 1:
            raise InputError(f"{checkpoint.name} is damaged: its {name} leaves {limit} tokens for a text; mend it")
    tokenizer.model_max_length = int(min(limits.values()))
    if config is not None and (fault := _strange_ids(tokenizer, config)):
        raise InputError(f"{checkpoint.name}: {fault}")
    if tokenizer.pad_token is None and tokenizer.eos_token is not None:
        tokenizer.pad_token = tokenizer.eos_token  # decoders often have no padding token; padding is masked anyway
    if checkpoint.lower_case and tokenizer.is_fast:
        _lowercase(tokenizer)
    return tokenizer


def _strange_ids(tokenizer: Any, config: PreTrainedConfig) -> str:
    """What to say of a tokenizer with ids for which the model has no vector, such as that of another model; else "".

    Tokens that were added to its vocabulary are counted only if every text has them, as the first or the last token:
    transformers itself adds some that no text has.
    """
    rows = getattr(config.get_text_config(), "vocab_size", None)
    added = tokenizer.get_added_vocab()
    own = (number for token, number in tokenizer.get_vocab().items() if token not in added)
    greatest = max(chain(own, tokenizer("")["input_ids"]), default=-1)
    if not isinstance(rows, int) or greatest < rows:
        return ""
    return (
        f"the tokenizer has ids up to {greatest}, and the model vectors for {rows} tokens (ids up to {rows - 1}): they "
        "do not belong together; save the model's own tokenizer in the same folder"
    )


def _lowercase(tokenizer: Any) -> None:
    from tokenizers.normalizers import Lowercase, Sequence

    normalizer = tokenizer.backend_tokenizer.normalizer
    tokenizer.backend_tokenizer.normalizer = Sequence([Lowercase(), *([normalizer] if normalizer else [])])


def _unreadable(error: Exception, what: str, name: object) -> InputError:
    if "trust_remote_code" in str(error):
        return InputError(
            f"{name} needs code from its own repository, which this package does not run; read the code, and open the "
            "model with transformers' AutoModel.from_pretrained(..., trust_remote_code=True)"
        )
    return InputError(f"the {what} of {name} cannot be read: {first_line(error)}")
