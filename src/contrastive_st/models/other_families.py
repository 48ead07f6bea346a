"""A class for every other encoder of transformers: what `families.py` names by hand is made here from its mappings."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from torch import Tensor
from transformers import CONFIG_MAPPING, MODEL_FOR_MASKED_LM_MAPPING, MODEL_MAPPING, PreTrainedModel

from contrastive_st.errors import InputError
from contrastive_st.models.modeling import ContrastiveMixin

_FIXED = ("embed_positions",)  # tables of sines


class OtherFamily(ContrastiveMixin):
    """A contrastive encoder whose parts are not known by name: it has no projection head and no head of words.

    It is trained without length buckets, because some families compute their masks from the token ids.
    """

    citation = ""
    packable = False
    length_bucketing = False

    @property
    def projection(self) -> Any:
        """None: poolers differ between families, so none of them is used as the projection head."""
        return None

    @classmethod
    def has_pooler(cls) -> bool:
        """False: see `projection`."""
        return False

    def _freeze_unused(self) -> None:
        """Freeze what no embedding depends on, and fixed positions, which transformers makes trainable as it loads."""
        for name, weight in self.backbone.named_parameters():
            if {"pooler", "contact_head", *_FIXED} & set(name.split(".")):
                weight.requires_grad_(False)

    def _add_mlm_head(self) -> None:
        raise InputError(
            f"the head of words of {self.config.model_type} is not known here, which do_mlm and TSDAE need; leave them "
            "out, or choose a model of the kin of BERT"
        )

    def mlm_logits(self, hidden: Tensor) -> Tensor:
        raise NotImplementedError


@cache
def other_family(model_type: str) -> Any:
    """A ForCL class for an encoder of transformers, made from its base model; None for what is no text encoder.

    Args:
        model_type: that of its config.

    Example:
        >>> other_family("albert").__name__, other_family("albert").base_model_prefix
        ('AlbertForCL', 'albert')
        >>> other_family("vit") is None, other_family("bart") is None
        (True, True)
    """
    if model_type not in CONFIG_MAPPING:
        return None
    config_class = CONFIG_MAPPING[model_type]
    backbone = MODEL_MAPPING.get(config_class, None)
    if not isinstance(backbone, type) or MODEL_FOR_MASKED_LM_MAPPING.get(config_class, None) is None:
        return None
    takes = inspect.signature(backbone.forward).parameters
    if not {"input_ids", "attention_mask"} <= set(takes) or {"pixel_values", "decoder_input_ids"} & set(takes):
        return None
    base = next(kind for kind in backbone.__mro__[1:] if issubclass(kind, PreTrainedModel))
    name = f"{backbone.__name__.removesuffix('Model')}ForCL"
    prefix = base.base_model_prefix
    return type(name, (OtherFamily, base), {
        "__doc__": f"Contrastive {name.removesuffix('ForCL')}; see `OtherFamily`.",
        "__module__": __name__,
        "backbone_class": backbone,
        "mlm_class": None,
        "_keys_to_ignore_on_load_unexpected": [rf"^(?!{prefix}\.)"],  # heads of other tasks
        "_keys_to_ignore_on_load_missing": [r"\.pooler\.", r"^(loss_head|after)\."],
    })  # fmt: skip
