"""Open a checkpoint: its config, its tokenizer and its model, in the class of its family.

Nothing in a checkpoint is executed or unpickled: weights must be safetensors, code from repositories is refused, and
the user is never prompted for permission.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutputWithPooling

from contrastive_st.errors import InputError, first_line
from contrastive_st.models.adapters import open_adapter, train_head
from contrastive_st.models.configuration import ContrastiveConfig, check_loaded, is_plain_encoder, max_positions
from contrastive_st.models.pooling import check_pooling, final_layers, needs_all_layers, pool
from contrastive_st.models.recorded import CheckpointInfo, base_folder, load_dense, load_final_layers, read_recorded
from contrastive_st.safety.folders import ADAPTER, check_weights, read_json, weight_names
from contrastive_st.safety.repositories import ENCODER, HUB_OPTIONS, local_folder

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
    """The ForCL class of a `model_type`, or None if there is none."""
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        return None
    module, _, name = FAMILIES[model_type].rpartition(".")
    return getattr(importlib.import_module(f"contrastive_st.models.{module}"), name)


class AutoModelForCL:
    """Opens a checkpoint as `BertForCL`, `RobertaForCL`, ..., depending on the family in its config."""

    @classmethod
    def from_pretrained(cls, name: str | Path, **kwargs: Any) -> Any:
        """Open a folder or Hub name with the pooling recorded there by this package or by sentence-transformers.

        An adapter is opened with its base model; further training changes only the adapter.

        Args:
            name: folder or Hub name.
            kwargs: settings such as `pooling` (needed if the checkpoint records none); `merge_adapter=True` to merge an
                adapter into its base; and the arguments of `ForCL.from_pretrained` and
                `ContrastiveMixin.from_pretrained`.

        Raises:
            InputError: the checkpoint does not exist, does not record its pooling, has damaged weights or a pickle,
                needs remote code, or is of a family without a ForCL class.
        """
        hub = {key: kwargs.pop(key) for key in (*HUB_OPTIONS, "revision") if key in kwargs}
        folder = local_folder(name, patterns=ENCODER, **hub)
        recorded = read_recorded(folder, **hub)
        config = kwargs.pop("config", None) or load_config(recorded.model, name)
        model_class = cls._class(config, name)
        head, merge, new_layers = None, kwargs.pop("merge_adapter", False), "dense" in kwargs
        pools = hasattr(model_class, "projection")
        if "pooling" in kwargs:
            held = (getattr(config, "contrastive", None) or {}).get("pooling")
            recorded = recorded.pooled_with(kwargs["pooling"] if kwargs["pooling"] != held else None)
        elif recorded.foreign and (pools or recorded.own):
            raise unknown_pooling(recorded, name)
        elif pools and not recorded.own:
            if recorded.pooling is None:
                raise unknown_pooling(recorded, name)
            head = recorded.head if model_class.has_pooler() else None
            recorded = recorded.with_head() if head else recorded
            kwargs = {"new_head": False, **kwargs, "pooling": recorded.pooling}
            kwargs |= {"mlp_only_train": False} if head else {}
        if pools:
            kwargs = {"include_prompt": recorded.include_prompt, **recorded.final_layers, **kwargs}
        kwargs = {**recorded.use, **({"default_prompt_name": None} if "prompts" in kwargs else {}), **kwargs}
        loaded = model_class.from_pretrained(recorded.model, config=config, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        if recorded.adapter is not None:
            open_adapter(getattr(model, "backbone", None), recorded.adapter, name, merge)
            if not merge:
                train_head(model)
        if head is not None:
            load_dense(head, model.projection.dense)
        if pools and not new_layers:
            load_final_layers(recorded, model.after)
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
            raise InputError(f"{name} has model_type {config.model_type!r}, which is not supported; use {known}")
        return found


def unknown_pooling(recorded: CheckpointInfo, name: object) -> InputError:
    """The error for a checkpoint that does not record its pooling."""
    if recorded.foreign:
        kinds = ", ".join(recorded.foreign)
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


def open_trained(recorded: CheckpointInfo, name: object, pooling: str | None = None) -> Any:
    """Open a checkpoint's model for inference; all weights must be there, and none is newly initialised.

    An adapter is merged into the weights of its base.

    Args:
        recorded: what the folder records.
        name: its name in messages.
        pooling: replaces the recorded pooling; the layers after it are then left out.

    Raises:
        InputError: the pooling is not known, the projection head was never trained, or weights are missing.
    """
    folder, config = recorded.model, load_config(recorded.model, name)
    if pooling is not None:
        check_pooling(pooling)
    elif recorded.pooling is None and not recorded.own:
        raise unknown_pooling(recorded, name)
    recorded = recorded.pooled_with(pooling)
    chosen = recorded.pooling
    check_weights(folder, name)
    if chosen == "cls":
        trained = not is_plain_encoder(config) and any(key.endswith(_HEAD) for key in weight_names(folder))
        if not trained or config.model_type not in FAMILIES:
            raise InputError(f"{name} has no trained projection head, which pooling cls needs; use cls_before_pooler")
    if config.model_type in FAMILIES:
        settings = {} if recorded.own and pooling is None else {"pooling": chosen, "new_head": False}
        model_class = AutoModelForCL._class(config, name)
        if settings and not hasattr(model_class, "projection"):
            raise InputError(
                f"{name} ({config.model_type}) has a pooling of its own, which cannot be changed; leave --pooling out"
            )
        settings |= recorded.use
        if hasattr(model_class, "projection"):
            settings |= {"include_prompt": recorded.include_prompt, **recorded.final_layers}
        model = model_class.from_pretrained(folder, config=config, **settings)
        if hasattr(model, "projection"):
            load_final_layers(recorded, model.after)
        if recorded.adapter is not None:
            open_adapter(getattr(model, "backbone", None), recorded.adapter, name, merge=True)
        model.name_or_path = model.config._name_or_path = str(name)
        return model
    from transformers import AutoModel

    try:
        model, info = AutoModel.from_pretrained(
            folder, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
    except Exception as error:  # damaged files raise errors of any type
        raise InputError(f"cannot open {name}: {first_line(error)}") from error
    check_loaded(model, [key for key in info["missing_keys"] if "pooler." not in key], name)
    if recorded.adapter is not None:
        open_adapter(model, recorded.adapter, name, merge=True)
    pooled = PooledModel(
        model, str(chosen), include_prompt=recorded.include_prompt, **recorded.final_layers, **recorded.use
    )
    load_final_layers(recorded, pooled.after)
    return pooled


def load_config(
    name: str | Path, shown: object | None = None, revision: str | None = None, **options: Any
) -> PreTrainedConfig:
    """The config of a folder or Hub name.

    Args:
        name: folder or Hub name.
        shown: its name in messages, if that is not `name`.
        revision: branch, tag or commit of a Hub name.
        options: as for `local_folder`.

    Raises:
        InputError: there is no config, or it cannot be read.
    """
    folder = local_folder(name, revision, patterns=("config.json", ADAPTER), **options)
    if (folder / ADAPTER).is_file():
        folder = base_folder(folder, **options)
    name = name if shown is None else str(shown)
    if not (folder / "config.json").is_file():
        raise InputError(f"{name} has no config.json; give the folder of a saved model")
    content = read_json(folder / "config.json", dict)
    family(content.get("model_type"))  # importing the family registers this package's own configs
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False)  # None would prompt
    except Exception as error:  # damaged files raise errors of any type
        raise _unreadable(error, "config", name) from error
    return config


def load_tokenizer(name: str | Path, revision: str | None = None, **options: Any) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder or Hub name, with the checkpoint's maximum length as `model_max_length`.

    Args:
        name: folder or Hub name.
        revision: branch, tag or commit of a Hub name.
        options: as for `local_folder`.

    Raises:
        InputError: there is no tokenizer, or it is damaged or needs remote code.
    """
    folder = local_folder(name, revision, patterns=ENCODER, **options)
    recorded = read_recorded(folder, **options)
    try:
        tokenizer = AutoTokenizer.from_pretrained(recorded.tokenizer, trust_remote_code=False)
    except Exception as error:  # damaged files raise errors of any type
        raise _unreadable(error, "tokenizer", name) from error
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # transformers makes an empty one if files are missing
        raise InputError(f"{name} has no tokenizer files; save the tokenizer in the same folder")
    limits = [recorded.max_length or tokenizer.model_max_length]
    if (recorded.model / "config.json").is_file():
        limits.append(max_positions(load_config(recorded.model, name)))
    tokenizer.model_max_length = min(limits)
    if tokenizer.pad_token is None and tokenizer.eos_token is not None:
        tokenizer.pad_token = tokenizer.eos_token  # decoders often have no padding token; padding is masked anyway
    if recorded.lower_case and tokenizer.is_fast:
        _lowercase(tokenizer)
    return tokenizer


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
