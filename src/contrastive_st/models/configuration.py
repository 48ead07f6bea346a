"""The settings that a ForCL model adds to the config of its backbone, so that they are saved and loaded with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Literal, TypeVar

from transformers import PreTrainedConfig

from contrastive_st.errors import InputError, choice
from contrastive_st.files.reading import JsonObject
from contrastive_st.losses import Loss
from contrastive_st.losses.base import UnknownLoss, parse_loss
from contrastive_st.losses.custom import UndefinedLoss
from contrastive_st.models.checkpoint import ACTIVATIONS
from contrastive_st.models.poolings import POOLINGS, WITHOUT_HEAD
from contrastive_st.options import PROMPTS, Count, NotNegative, Options, Share, from_keys

#: Settings of what a training adds to its loss. No embedding depends on them, and a training by another loss does not
#: inherit them: a trained encoder is saved without them (`drop_heads`), and `training_metadata.json` keeps them.
OF_METHODS = ("do_mlm", "mlm_weight", "cutoff", "cutoff_ratio")


@dataclass(frozen=True)
class LossConfig(Options):
    """The settings in `config.contrastive` of any contrastive model: its loss, prompts and number of dimensions.

    The section of the config is flat and has only the fields of its loss: `{"loss": "triplet", "margin": 1.0, ...}`.
    It is a separate section because transformers uses some of the names, such as `temperature`, for text generation
    and does not save them at the top level.

    Args:
        loss: a loss, an instance of one of `contrastive_st.losses.LOSSES`.
        with_head: whether the model has the head of its loss, such as a classifier.
        prompts: prompts by name; `encode_query` and `encode_document` use `query` and `document`.
        default_prompt_name: the prompt that is put before a text if no other is asked for.
        truncate_dim: number of dimensions to keep, for a Matryoshka model; None keeps all. Training uses all of them.
        similarity: how two vectors are compared: `cosine`, `dot`, `euclidean` or `manhattan`.
    """

    loss: Loss
    with_head: bool = True
    prompts: PROMPTS = field(default_factory=dict)
    default_prompt_name: str | None = None
    truncate_dim: Count | None = None
    similarity: str = "cosine"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("default_prompt_name", self.default_prompt_name, (None, *self.prompts))

    @classmethod
    def parse(cls: type[Config], settings: JsonObject, loss: Loss | None = None) -> Config:
        """Make the settings from a flat section.

        Args:
            settings: the section; a loss that is not defined here is kept as it is (`UndefinedLoss`).
            loss: used if its settings are those of the section, so that it need not be made again.

        Raises:
            InputError: an unknown setting or pooling, or a value that is not valid.
        """
        names = cls.own_names()
        settings = {name: value for name, value in settings.items() if name not in _FORMER or value is not None}
        of_loss = {name: value for name, value in settings.items() if name not in names}
        if loss is None or loss.settings() != of_loss:
            try:
                loss = parse_loss(of_loss, names)
            except UnknownLoss as error:  # one not defined here may have any settings
                if not isinstance(of_loss["loss"], str):
                    raise
                loss = UndefinedLoss(of_loss, error.name)
        return cls(loss, **{name: value for name, value in settings.items() if name in names})

    @classmethod
    def own_names(cls) -> list[str]:
        """The names of the settings that are not those of the loss."""
        return [field.name for field in fields(cls) if field.name != "loss"]

    @classmethod
    def without_methods(cls) -> JsonObject:
        """The settings `OF_METHODS` of a training that adds nothing to its loss.

        Example:
            >>> ContrastiveConfig.without_methods()
            {'do_mlm': False, 'mlm_weight': 0.1, 'cutoff': None, 'cutoff_ratio': 0.1}
        """
        return {field.name: field.default for field in fields(cls) if field.name in OF_METHODS}

    def section(self) -> dict[str, object]:
        """The flat section, as JSON values."""
        others = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "loss"}
        return {**self.loss.settings(), **others}


@dataclass(frozen=True)
class ContrastiveConfig(LossConfig):
    """The settings of a ForCL model over an encoder of transformers: how it pools, and what training adds.

    Args:
        pooling: one of `contrastive_st.models.poolings.POOLINGS`.
        mlp_only_train: use the projection head only in training (unsupervised SimCSE).
        do_mlm: add a masked-language-model loss on separately masked inputs.
        mlm_weight: weight of that loss.
        cutoff: remove a part of each sentence in training: `token`, `span` or `feature` (`draw_cutoff`).
        cutoff_ratio: the share that is removed.
        include_prompt: False pools only the tokens of the text; its prompt is read, but not pooled.
        dense: the dense layers after the pooling, such as `{"out_features": 64, "bias": True, "activation": "Tanh"}`.
        normalize: whether embeddings are divided by their lengths, after the dense layers.
    """

    pooling: str = "cls"
    mlp_only_train: bool = False
    do_mlm: bool = False
    mlm_weight: NotNegative = 0.1
    cutoff: Literal["token", "span", "feature"] | None = None
    cutoff_ratio: Share = 0.1
    include_prompt: bool = True
    dense: Sequence[Mapping[str, object]] = ()
    normalize: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "dense", [dense_settings(layer) for layer in self.dense])  # complete in the config
        choice("pooling", self.pooling, POOLINGS)
        if not self.include_prompt and self.pooling == "cls":
            raise InputError(f"pooling cls does not support include_prompt=False; choose {WITHOUT_HEAD}")


def dense_settings(values: object) -> dict[str, object]:
    """The settings of a dense layer, complete; by default it has a bias and Tanh, as in sentence-transformers.

    Args:
        values: `out_features`, and perhaps `bias` and `activation`, one of `ACTIVATIONS`.

    Raises:
        InputError: they are not such settings.

    Example:
        >>> dense_settings({"out_features": 64})
        {'out_features': 64, 'bias': True, 'activation': 'Tanh'}
    """
    layer = asdict(from_keys(_Dense, values))
    choice("activation of a dense layer:", layer["activation"], ACTIVATIONS)
    return layer


@dataclass
class _Dense(Options):
    out_features: Count
    bias: bool = True
    activation: str = "Tanh"


Config = TypeVar("Config", bound=LossConfig)
_FORMER = ("template",)  # settings that are gone; folders of before hold null there


def asks_for_code(path: Path) -> bool:
    """Whether a config.json names an implementation or a library of quantized weights (`without_code`)."""
    content = path.read_bytes() if path.is_file() else b""
    return b"_implementation" in content or b"quantization_config" in content


def without_code(config: PreTrainedConfig) -> PreTrainedConfig:
    """The config without the implementations that it asks for, which transformers may load from the Hub as kernels.

    A user's choice is an argument (`attn_implementation="sdpa"`), and comes after this.

    Raises:
        InputError: the weights are quantized by a library, whose kernels would open them.
    """
    if getattr(config, "quantization_config", None) is not None:
        raise InputError(
            f"{config.name_or_path} has weights quantized by a library (quantization_config); open one in float weights"
        )
    config._attn_implementation = config._experts_implementation = None  # in the configs inside of it, too
    return config


def is_plain_encoder(config: PreTrainedConfig) -> bool:
    """Whether a config is one of a model for another task, whose pooler was not trained as a sentence head.

    `BertForMaskedLM` and `BertForPreTraining` are plain encoders. `BertForCL` and `BertModel`, in which layout sentence
    encoders are published, keep their pooler.
    """
    if hasattr(config, "contrastive"):
        return False
    names = getattr(config, "architectures", None) or []
    return any(not name.endswith(("ForCL", "Model")) for name in names)
