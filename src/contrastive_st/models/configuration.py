"""What a ForCL model adds to its backbone's config, so that it survives save, push and pull."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from transformers import PreTrainedConfig

from contrastive_st.errors import InputError
from contrastive_st.losses import InfoNCE, Relational, TargetsLoss
from contrastive_st.losses.base import Objective
from contrastive_st.losses.info_nce import ConsistentInfoNCE
from contrastive_st.losses.labelled_pairs import Classification, Regression, Triplet
from contrastive_st.losses.multi_task import MultiTask
from contrastive_st.losses.targets import BAGS, PLACES
from contrastive_st.models.pooling import check_cutoff, check_pooling


@dataclass(frozen=True)
class ObjectiveSettings:
    """What `config.contrastive` holds of any contrastive model: its objective.

    The names have a section of their own in the config because transformers keeps some of them, `temperature`
    among them, for text generation and refuses to save them at the top level.

    Args:
        objective: `info_nce`, or `info_nce_symmetric` which also picks anchors from positives; or the targets of a
            `contrastive_st.losses.TargetsLoss`: `next`, `window`, `counts`, `tfidf`, `tfidf_bin`; or `relational`,
            distillation from a teacher's embeddings.
        temperature: divides the cosine scores of InfoNCE and of relational similarities.
        hard_negative_weight: log of the weight on an anchor's own hard negatives.
        loss: of targets: `kl`, `cross_entropy`, `l2`, `block` or `pairwise`.
        context_size: sentences to a side in the context window.
        context_weights: one weight a distance, nearest first.
        target_temperature: of the softmax that makes targets of counts and similarities.
        label_smoothing: total mass of a row of targets that goes to all candidates alike.
        link: `logistic` or `hinge`, of the block and pairwise losses.
        js_weight: of the consistency of the two views beside InfoNCE (`contrastive_st.losses.ConsistentInfoNCE`).
        num_labels: of the objective `classification`; the others of labelled pairs are `regression` and `triplet`.
        parts: what the classifier reads of a pair: some of `u`, `v`, `abs(u-v)`, `u*v`.
        head_hidden: width of the classifier's hidden layers; 0 is a linear one.
        margin: of `triplet`.
        tasks: of the objective `multi_task`: name to the settings of that task's objective.
        with_head: whether what the objective trains beside the encoder, such as a classifier, is there.
        similarity_weight: of relational distillation; see `contrastive_st.losses.Relational`.
        distance_weight: likewise.
        angle_weight: likewise.
    """

    objective: str = "info_nce"
    temperature: float = 0.05
    hard_negative_weight: float = 0.0
    loss: str = "kl"
    context_size: int = 1
    context_weights: tuple[float, ...] | None = None
    target_temperature: float = 1.0
    label_smoothing: float = 0.0
    link: str = "logistic"
    js_weight: float = 0.0
    num_labels: int = 3
    parts: tuple[str, ...] = ("u", "v", "abs(u-v)")
    head_hidden: int = 0
    margin: float = 1.0
    tasks: Mapping[str, Mapping[str, Any]] | None = None
    with_head: bool = True
    similarity_weight: float = 0.0
    distance_weight: float = 1.0
    angle_weight: float = 2.0

    def __post_init__(self) -> None:
        for name in ("parts", "context_weights"):  # JSON gives lists back
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else tuple(value))
        if self.temperature <= 0:
            raise InputError(f"temperature must be positive, got {self.temperature}")
        self.build()

    def build(self) -> Objective | InfoNCE | TargetsLoss | Relational:
        """The objective described.

        Raises:
            InputError: there is none of that name, or a value that it cannot have.
        """
        if self.objective in PAIRS:
            return PAIRS[self.objective](self)
        if self.objective in INFO_NCE and self.js_weight:
            symmetric = self.objective == "info_nce_symmetric"
            return ConsistentInfoNCE(self.temperature, self.hard_negative_weight, symmetric, js_weight=self.js_weight)
        if self.objective in INFO_NCE:
            return InfoNCE(self.temperature, self.hard_negative_weight, self.objective == "info_nce_symmetric")
        if self.objective == RELATIONAL:
            return Relational(self.similarity_weight, self.distance_weight, self.angle_weight, self.temperature)
        if self.objective not in TARGETS:
            raise InputError(f"unknown objective {self.objective!r}; choose one of {', '.join(OBJECTIVES)}")
        return TargetsLoss(
            self.objective, self.loss, self.context_size, self.context_weights, self.target_temperature,
            self.label_smoothing, self.link,
        )  # fmt: skip


@dataclass(frozen=True)
class ContrastiveSettings(ObjectiveSettings):
    """What a ForCL model over an encoder of transformers adds: how its embedding is made.

    Args:
        pooling: one of `contrastive_st.models.pooling.POOLINGS`.
        mlp_only_train: use the projection head in training only (unsupervised SimCSE).
        do_mlm: add a masked-language-model loss on separately masked inputs.
        mlm_weight: weight of that loss.
        cutoff: in training take away a part of each sentence: `token`, `span` or `feature` (`models/cutoff.py`).
        cutoff_ratio: the share taken away.
    """

    pooling: str = "cls"
    mlp_only_train: bool = False
    do_mlm: bool = False
    mlm_weight: float = 0.1
    cutoff: str | None = None
    cutoff_ratio: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pooling(self.pooling)
        check_cutoff(self.cutoff, self.cutoff_ratio)


def _multi_task(settings: ObjectiveSettings) -> MultiTask:
    if not settings.tasks:
        raise InputError("the objective multi_task needs tasks: a name and the settings of an objective for each")
    return MultiTask({name: ObjectiveSettings(**own).build() for name, own in settings.tasks.items()})


#: Objectives of labelled rows, each from the settings
PAIRS: dict[str, Callable[[ObjectiveSettings], Objective]] = {
    "classification": lambda own: Classification(own.num_labels, own.parts, own.head_hidden),
    "regression": lambda own: Regression(),
    "triplet": lambda own: Triplet(own.margin),
    "multi_task": _multi_task,
}
INFO_NCE = ("info_nce", "info_nce_symmetric")
TARGETS = (*PLACES, *BAGS)
RELATIONAL = "relational"
OBJECTIVES = (*INFO_NCE, *TARGETS, RELATIONAL)
OBJECTIVES = (*OBJECTIVES, *PAIRS)
_Settings = TypeVar("_Settings", bound=ObjectiveSettings)


def apply_settings(config: PreTrainedConfig, given: dict[str, Any], kind: type[_Settings]) -> _Settings:
    """Write the settings into `config.contrastive`: what is given wins over what is there, then the defaults.

    Raises:
        InputError: an unknown name, pooling or objective, or a value that one cannot have.
    """
    merged = {**getattr(config, "contrastive", {}), **given}
    names = [field.name for field in fields(kind)]
    if unknown := sorted(set(merged) - set(names)):
        raise InputError(f"unknown setting {', '.join(unknown)}; a contrastive model takes {', '.join(names)}")
    settings = kind(**merged)
    held = asdict(settings).items()
    config.contrastive = {name: list(value) if isinstance(value, tuple) else value for name, value in held}  # as JSON
    return settings


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
