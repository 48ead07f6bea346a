"""A ForCL class for every text encoder of transformers, made from its mappings and from a row of `ENCODERS`.

The classes have names: `from contrastive_st.models.families import BertForCL`. A family that has no row is trained too,
without a projection head, a head over the vocabulary, and length buckets.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

import transformers
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    MODEL_FOR_TEXT_ENCODING_MAPPING,
    MODEL_MAPPING,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.models.auto import modeling_auto

from contrastive_st.errors import InputError
from contrastive_st.files.reading import JsonObject
from contrastive_st.models.base import ForCL
from contrastive_st.models.modeling import ContrastiveMixin

#: Of each model_type its citation, and the names of what `ContrastiveMixin` uses of it
ENCODERS: dict[str, JsonObject] = {
    "bert": {
        "cite": "devlin2019bert",
        "words": ("cls",),
        "layout": {**ContrastiveMixin.layout, r"^lm_head\.": "cls.predictions."},
    },
    "roberta": {"cite": "liu2019roberta"},
    "xlm-roberta": {"cite": "conneau2020unsupervised"},
    "camembert": {"cite": "martin2020camembert"},
    "mpnet": {"cite": "song2020mpnet", "packable": False},  # its attention adds a bias for the distance of two tokens
    "distilbert": {
        "cite": "sanh2019distilbert",
        "words": ("vocab_transform", "activation", "vocab_layer_norm", "vocab_projector"),
    },
    "modernbert": {"cite": "warner2024smarter", "words": ("head", "decoder")},
    "electra": {
        "cite": "clark2020electra",
        "words": ("generator_predictions", "generator_lm_head"),
        "embedding_width": "embedding_size",
    },
    "deberta-v2": {"cite": "he2021deberta", "words": ("cls",), "packable": False},  # as MPNet
}
DECODERS = {
    "qwen2": {"cite": "yang2024qwen2"},
    "qwen3": {"cite": "yang2025qwen3"},
    "llama": {"cite": "touvron2023llama"},
    "mistral": {"cite": "jiang2023mistral"},
    "gemma": {"cite": "gemma2024open"},
    "gemma2": {"cite": "gemma2024improving"},
    "gemma3_text": {"cite": "gemma2025technical"},
}
#: The module and class of this package's architectures, by model_type; only the one that is opened is imported
_OF_PACKAGE = {
    "quickthoughts": "word_models.QuickThoughtsGRU",
    "skipthoughts": "word_models.SkipThoughts",
    "infersent": "word_models.InferSentBiLSTM",
    "universal": "word_models.UniversalSentenceEncoder",
    "static": "static_encoder.StaticEncoder",
}
FAMILIES = (*ENCODERS, *DECODERS, *_OF_PACKAGE)
_OTHERS = {"words": None, "packable": False, "length_bucketing": False}  # some compute their masks from the token ids
#: Encoder-decoders whose `AutoModel` needs the text alone. Their vectors are made of the states of the decoder, as by
#: `AutoModel` and sentence-transformers; of all others the encoder is run
_DECODING = ("bart", "bigbird_pegasus", "fsmt", "led", "mbart", "mvp", "plbart")
#: Classes of encoders alone that transformers does not list among its text encoders; sentence-transformers saves them
_ENCODERS_ALONE = {"longt5": "LongT5EncoderModel", "switch_transformers": "SwitchTransformersEncoderModel"}


class DecoderMixin(ContrastiveMixin):
    """Uses a decoder as an encoder: pools the state of its last token, or the mean (`pooling="last"` or `"mean"`).

    Rows are padded on the right; `last` reads the last real token, which is the end token if the tokenizer adds one.
    `bidirectional=True` removes the causal mask, so that each token reads the whole text (as in LLM2Vec, BehnamGhader
    et al. 2024, https://arxiv.org/abs/2404.05961); the model must then be trained. The config records this as
    `is_causal: false`, which transformers and sentence-transformers obey.

    Args:
        config: the config of the family.
        bidirectional: attend in both directions; by default what the config says.
        settings: settings such as `pooling="mean"`.

    Raises:
        InputError: settings for encoders only (`cls`, `do_mlm`, `cutoff`, the loss `tsdae`), or an attention direction
            that the family's code does not implement exactly.
    """

    default_settings: ClassVar[dict[str, object]] = {"loss": "info_nce", "pooling": "last"}
    packable = False  # a token sees those before it alone

    def __init__(self, config: PreTrainedConfig, *, bidirectional: bool | None = None, **settings: object) -> None:
        before = getattr(config, "is_causal", None) is not False
        if getattr(config, "use_bidirectional_attention", None):  # a setting of Gemma
            if config.model_type != "gemma3_text":  # in other versions it only works in batches without padding
                raise InputError(
                    f"transformers applies use_bidirectional_attention of {config.model_type} only to some batches; "
                    "set it to false in config.json and give bidirectional=True"
                )
            if bidirectional is False:
                raise InputError("use_bidirectional_attention of the config cannot be undone; leave bidirectional out")
        elif bidirectional is not None:
            config.is_causal = not bidirectional
        self.direction_changed = before != (getattr(config, "is_causal", None) is not False)
        config.use_cache = False  # an embedding needs only one forward pass
        super().__init__(config, **settings)

    @classmethod
    def parse_settings(cls, config: PreTrainedConfig, changes: Mapping[str, object]) -> Any:
        """As `ForCL.parse_settings`; raises `InputError` for settings that decoders do not support."""
        settings = super().parse_settings(config, changes)
        asked = {"do_mlm": settings.do_mlm, "cutoff": settings.cutoff, "tsdae": settings.loss.name == "tsdae"}
        if name := next((name for name, value in asked.items() if value), None):
            raise InputError(f"{name} is for encoders, and {config.model_type} is a decoder; leave it out")
        return settings


def transformers_family(model_type: str) -> type[ForCL] | None:
    """The ForCL class of an encoder of transformers; None for what does not encode texts.

    Of an encoder-decoder, its encoder; of BART and the like, all of it, with the states of the decoder. A ForCL class
    that a user has registered with `AutoModel` is returned as it is.

    Args:
        model_type: that of its config.

    Example:
        >>> [transformers_family(name).__name__ for name in ("bert", "gemma3_text", "albert", "t5")]
        ['BertForCL', 'Gemma3ForCL', 'AlbertForCL', 'T5ForCL']
        >>> transformers_family("vit") is None
        True
    """
    if model_type not in CONFIG_MAPPING:
        return None
    config_class: Any = CONFIG_MAPPING[model_type]
    if config_class.model_type not in (model_type, "") and config_class.model_type in CONFIG_MAPPING:
        return transformers_family(config_class.model_type)  # another name of the same type, as gpt-sw3 of gpt2
    backbone: Any = MODEL_FOR_TEXT_ENCODING_MAPPING.get(config_class, None) or MODEL_MAPPING.get(config_class, None)
    backbone = getattr(transformers, _ENCODERS_ALONE.get(model_type, ""), backbone)
    takes: Mapping[str, object] = inspect.signature(backbone.forward).parameters if hasattr(backbone, "forward") else {}
    if not {"input_ids", "attention_mask"} <= set(takes) or "pixel_values" in takes:
        return None
    return backbone if issubclass(backbone, ForCL) else _made(model_type, config_class, backbone)


@cache
def _made(model_type: str, config_class: Any, backbone: Any) -> type[ContrastiveMixin]:
    row = dict(ENCODERS.get(model_type) or DECODERS.get(model_type) or _OTHERS)
    base = next(kind for kind in backbone.__mro__[1:] if issubclass(kind, PreTrainedModel))
    name = _class_name(backbone.__name__)
    return type(name, (DecoderMixin if model_type in DECODERS else ContrastiveMixin, base), {
        "__doc__": f"Contrastive {name.removesuffix('ForCL')}; see `ContrastiveMixin`.",
        "__module__": __name__,
        "config_class": config_class,
        "backbone_class": backbone,
        "mlm_class": MODEL_FOR_MASKED_LM_MAPPING.get(config_class, None),
        "pooled": model_type in ENCODERS and "add_pooling_layer" in inspect.signature(backbone).parameters,
        "decodes": model_type in _DECODING,
        "citation": row.pop("cite", ""),
        "_keys_to_ignore_on_load_unexpected": [  # heads of other tasks
            rf"^(?!{base.base_model_prefix}\.)", r"(^|\.)(pooler|position_embeddings)\.", r"^(\w+\.)?decoder\.",
        ],
        **row,
    })  # fmt: skip


def family(model_type: object) -> type[ForCL] | None:
    """The ForCL class of a `model_type`; None for what does not encode texts."""
    if model_type not in _OF_PACKAGE:
        return transformers_family(str(model_type))
    module, _, name = _OF_PACKAGE[str(model_type)].rpartition(".")
    kind: type[ForCL] = getattr(importlib.import_module(f"contrastive_st.models.{module}"), name)
    return kind


def family_of(config: PreTrainedConfig, name: object) -> type[ForCL]:
    """The ForCL class of a config.

    Args:
        config: of transformers.
        name: of its checkpoint in messages.

    Raises:
        InputError: there is none.
    """
    if (kind := family(config.model_type)) is None:
        raise InputError(
            f"{name} has model_type {config.model_type!r}, which does not encode texts; use {', '.join(FAMILIES)}, or "
            "another text encoder of transformers"
        )
    if isinstance(getattr(config, "encoder", None), PreTrainedConfig):
        raise InputError(
            f"{name} is a {config.model_type}, whose config holds one of its encoder and one of its decoder; it is not "
            "opened here: open it with sentence-transformers, and give its SentenceTransformer"
        )
    return kind


def _class_name(backbone: str) -> str:
    return re.sub("((Text|Encoder)?Model|Encoder)$", "ForCL", backbone)


def __getattr__(name: str) -> type[ForCL]:
    """A class by its name, such as `BertForCL`."""
    of_encoders = modeling_auto.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES
    names: dict[str, object] = {**modeling_auto.MODEL_MAPPING_NAMES, **of_encoders}
    types = (*ENCODERS, *DECODERS, *names) if name.endswith("ForCL") else ()  # Python asks for `__path__`
    for model_type in types:  # several types share a class, and the table names the first
        held = names[model_type]
        if isinstance(held, str) and _class_name(held) == name and (kind := transformers_family(model_type)):
            return kind
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
