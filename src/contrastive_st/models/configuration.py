"""What a ForCL model adds to its backbone's config, so that it survives save, push and pull."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from transformers import PreTrainedConfig, PreTrainedModel

from contrastive_st.errors import InputError
from contrastive_st.losses import Loss, parse_loss
from contrastive_st.losses.base import loss_class
from contrastive_st.models.pooling import check_cutoff, check_template


@dataclass(frozen=True)
class LossConfig:
    """What `config.contrastive` holds of any contrastive model: its loss.

    In the config it is flat, with the fields of that loss alone: `{"loss": "triplet", "margin": 1.0, ...}`.
    It has a section of its own because transformers keeps some of the names, `temperature` among them, for text
    generation and refuses to save them at the top level.

    Args:
        loss: one of `contrastive_st.losses.LOSSES`.
        with_head: whether what the loss trains beside the encoder, such as a classifier, is there.
        prompts: by name, what is put before a text: `query` and `document` of `encode_query` and `encode_document`.
        default_prompt_name: the prompt that is put before a text where no other is asked for.
        truncate_dim: how many dimensions of a vector are kept, of a Matryoshka model; all where it is None.
    """

    loss: Loss
    with_head: bool = True
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None
    truncate_dim: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.prompts, Mapping) or not all(isinstance(text, str) for text in self.prompts.values()):
            raise InputError(f"prompts {self.prompts!r}: give texts by their names, such as {{'query': 'query: '}}")
        if self.default_prompt_name not in (None, *self.prompts):
            known = ", ".join(self.prompts) or "none are given"
            raise InputError(f"default_prompt_name {self.default_prompt_name!r} is none of the prompts ({known})")
        if self.truncate_dim is not None and (not isinstance(self.truncate_dim, int) or self.truncate_dim < 1):
            raise InputError(f"truncate_dim {self.truncate_dim}: give the number of dimensions to keep, 1 or more")

    @classmethod
    def parse(cls: type[Config], settings: Mapping[str, Any]) -> Config:
        """The settings of a flat section.

        Raises:
            InputError: an unknown name, pooling or loss, or a value that one cannot have.
        """
        own = [field.name for field in fields(cls) if field.name != "loss"]
        kind = loss_class(settings.get("loss", "info_nce"))
        if unknown := sorted(set(settings) - {"loss", *own, *kind.setting_names()}):
            takes = ", ".join([*own, *kind.setting_names()])
            raise InputError(
                f"unknown setting {', '.join(unknown)}; a contrastive model takes {takes} with the loss {kind.name}"
            )
        loss = parse_loss({name: value for name, value in settings.items() if name not in own})
        try:
            return cls(loss, **{name: value for name, value in settings.items() if name in own})
        except TypeError as error:  # a value of another type
            raise InputError(f"the settings of a contrastive model are damaged: {error}") from error

    def section(self) -> dict[str, Any]:
        """The flat section, as JSON has it."""
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "loss"}
        return {**self.loss.settings(), **own}


@dataclass(frozen=True)
class ContrastiveConfig(LossConfig):
    """What a ForCL model over an encoder of transformers adds: how its embedding is made.

    Args:
        pooling: one of `contrastive_st.models.pooling.POOLINGS`, or `mask`, the state at the [MASK] of a template.
        template: of the pooling `mask`: how many tokens the template has before the sentence and after it, and how many
            of these stand behind [MASK]. The words are in the tokenizer (`contrastive_st.data.with_template`).
        mlp_only_train: use the projection head in training only (unsupervised SimCSE).
        do_mlm: add a masked-language-model loss on separately masked inputs.
        mlm_weight: weight of that loss.
        cutoff: in training take away a part of each sentence: `token`, `span` or `feature` (`models/pooling.py`).
        cutoff_ratio: the share taken away.
        include_prompt: False pools the tokens of the text alone; its prompt is read, and left out.
    """

    pooling: str = "cls"
    mlp_only_train: bool = False
    do_mlm: bool = False
    mlm_weight: float = 0.1
    cutoff: str | None = None
    cutoff_ratio: float = 0.1
    template: Sequence[int] | None = None
    include_prompt: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_template(self.pooling, self.template, self.cutoff)
        check_cutoff(self.cutoff, self.cutoff_ratio)
        if not self.include_prompt and self.pooling in ("cls", "mask"):
            raise InputError(
                f"pooling {self.pooling} reads one token, whatever the prompt is; include_prompt=False goes with mean, "
                "max, cls_before_pooler, last, avg_first_last and avg_top2"
            )
        if self.pooling == "mask" and any(self.prompts.values()):
            raise InputError("a template has its own words before a text; leave out the prompts")


Config = TypeVar("Config", bound=LossConfig)


def apply_settings(
    config: PreTrainedConfig, given: Mapping[str, Any], kind: type[Config], defaults: Mapping[str, Any] | None = None
) -> Config:
    """Write the settings into `config.contrastive`: what is given wins over what is there, then the defaults.

    A loss that is given takes nothing of another one's settings.

    Args:
        config: of the model.
        given: flat settings; `loss` may be a `Loss`, too.
        kind: what holds them.
        defaults: what a config without a section starts from.

    Raises:
        InputError: as for `LossConfig.parse`.
    """
    held = upgrade_settings(getattr(config, "contrastive", None) or defaults or {})
    given = dict(given)
    if isinstance(given.get("loss"), Loss):
        given = {**given.pop("loss").settings(), **given}
    held_loss = held.get("loss", "info_nce")
    if given.get("loss", held_loss) != held_loss:
        former = set(loss_class(held_loss).setting_names())
        held = {name: value for name, value in held.items() if name not in former}
    settings = kind.parse({**held, **given})
    config.contrastive = settings.section()
    return settings


# --- Configs saved before each loss held its own fields: one `objective`, and the fields of all of them.

_FORMER_NAMES = {
    "relational": "relational_distillation",
    "classification": "softmax",
    "regression": "cosine_similarity",
}
_FORMER_TARGETS = ("next", "window", "counts", "tfidf", "tfidf_bin")
_FORMER_FIELDS = {
    "temperature", "hard_negative_weight", "loss", "context_size", "context_weights", "target_temperature",
    "label_smoothing", "link", "js_weight", "num_labels", "parts", "head_hidden", "margin", "tasks",
    "similarity_weight", "distance_weight", "angle_weight",
}  # fmt: skip


def upgrade_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The section `config.contrastive` under its present names, whatever it was saved with.

    Example:
        >>> upgrade_settings({"objective": "classification", "num_labels": 2, "parts": ["u", "v"], "margin": 1.0})
        {'loss': 'softmax', 'num_labels': 2, 'features': ['u', 'v']}
    """
    if "objective" not in settings:
        return dict(settings)
    old = dict(settings)
    objective = str(old.pop("objective"))
    rest = {name: value for name, value in old.items() if name not in _FORMER_FIELDS}
    old = {{"parts": "features", "link": "surrogate"}.get(name, name): value for name, value in old.items()}
    if objective in _FORMER_TARGETS:
        former = {"loss": "row_loss", "target_temperature": "temperature"}
        old.pop("temperature", None)
        old = {former.get(name, name): value for name, value in old.items()} | {"targets": objective}
        name = "targets"
    elif objective.startswith("info_nce"):
        name = "consistent_info_nce" if old.get("js_weight") else "info_nce"
        old["symmetric"] = objective == "info_nce_symmetric"
    else:
        name = _FORMER_NAMES.get(objective, objective)
    if old.get("tasks"):
        old["tasks"] = {task: upgrade_settings({"objective": "info_nce", **own}) for task, own in old["tasks"].items()}
    kept = loss_class(name).setting_names()
    return {"loss": name, **{field: value for field, value in old.items() if field in kept}, **rest}


def is_plain_encoder(config: PreTrainedConfig) -> bool:
    """Whether a checkpoint's config names another task's head, so that its pooler is no sentence head.

    `BertForMaskedLM` and `BertForPreTraining` are plain encoders; `BertForCL` and `BertModel` (the layout in which
    sentence encoders are published) keep the pooler they come with.
    """
    if hasattr(config, "contrastive"):
        return False
    names = getattr(config, "architectures", None) or []
    return any(not name.endswith(("ForCL", "Model")) for name in names)


def max_positions(config: PreTrainedConfig) -> int:
    """Longest input in tokens; RoBERTa and MPNet number positions from `pad_token_id + 1`."""
    limit = int(getattr(config, "max_position_embeddings", 1 << 30))
    if config.model_type in ("roberta", "xlm-roberta"):
        return limit - int(config.pad_token_id or 0) - 1
    return limit - 2 if config.model_type == "mpnet" else limit


def check_loaded(model: PreTrainedModel, missing: Iterable[str], name: object) -> None:
    """Refuse a model of which weights were missing, and so drawn at random, or hold NaN or infinities.

    Args:
        model: as it was loaded.
        missing: names of weights that its files lack; heads that only training uses may be among them.
        name: what the user calls it.

    Raises:
        InputError: names the first of them.
    """
    prefix = f"{model.base_model_prefix}." if hasattr(model, model.base_model_prefix or " ") else ""
    needed = sorted(key for key in missing if key.startswith(prefix) and not key.startswith("loss_head."))
    if needed:
        more = f" and {len(needed) - 1} more" if len(needed) > 1 else ""
        raise InputError(f"{name} lacks weights: {needed[0]}{more}; is it a checkpoint of another model?")
    for key, weight in model.named_parameters():
        if not weight.isfinite().all():
            raise InputError(f"{name}: the weights {key} hold NaN or infinite values; did training diverge?")
