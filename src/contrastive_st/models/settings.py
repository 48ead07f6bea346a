"""What a ForCL model adds to its backbone's config, so that it survives save, push and pull."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from transformers import PreTrainedConfig

from contrastive_st.errors import InputError
from contrastive_st.models.pooling import check_pooling, needs_all_layers


@dataclass(frozen=True)
class ContrastiveSettings:
    """What `config.contrastive` holds: everything needed to rebuild a contrastive encoder.

    The names have a section of their own in the config because transformers keeps some of them, `temperature`
    among them, for text generation and refuses to save them at the top level.

    Args:
        pooling: one of `contrastive_st.models.pooling.POOLINGS`.
        temperature: divides the cosine scores.
        hard_negative_weight: log of the weight on an anchor's own hard negatives.
        mlp_only_train: use the projection head in training only (unsupervised SimCSE).
        objective: name of the loss; `info_nce`, or `info_nce_symmetric` which also picks anchors from positives.
        do_mlm: add a masked-language-model loss on separately masked inputs.
        mlm_weight: weight of that loss.
    """

    pooling: str = "cls"
    temperature: float = 0.05
    hard_negative_weight: float = 0.0
    mlp_only_train: bool = False
    objective: str = "info_nce"
    do_mlm: bool = False
    mlm_weight: float = 0.1


OBJECTIVES = ("info_nce", "info_nce_symmetric")


def apply_settings(config: PreTrainedConfig, given: dict[str, Any]) -> ContrastiveSettings:
    """Write the settings into `config.contrastive`: what is given wins over what is there, then the defaults.

    Raises:
        InputError: an unknown name, pooling or objective, or a temperature that is not positive.
    """
    merged = {**getattr(config, "contrastive", {}), **given}
    names = [field.name for field in fields(ContrastiveSettings)]
    if unknown := sorted(set(merged) - set(names)):
        raise InputError(f"unknown setting {', '.join(unknown)}; a contrastive model takes {', '.join(names)}")
    settings = ContrastiveSettings(**merged)
    check_pooling(settings.pooling)
    if settings.temperature <= 0:
        raise InputError(f"temperature must be positive, got {settings.temperature}")
    if settings.objective not in OBJECTIVES:
        raise InputError(f"unknown objective {settings.objective!r}; choose one of {', '.join(OBJECTIVES)}")
    config.contrastive = asdict(settings)
    if needs_all_layers(settings.pooling):
        config.output_hidden_states = True  # so that every loader sees the layers this pooling reads
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
