"""Encoders of two towers f and g, trained by what stands near or shares words (QuickThoughts and its relatives)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from transformers.modeling_outputs import BaseModelOutputWithPooling

from contrastive_st.errors import InputError
from contrastive_st.models.contrastive import ForCL
from contrastive_st.models.quickthoughts import QuickThoughtsConfig, QuickThoughtsModel
from contrastive_st.models.remote import CarriesCode, register
from contrastive_st.models.settings import RELATIONAL, TARGETS, ObjectiveSettings, apply_settings


@dataclass(frozen=True)
class TowerSettings(ObjectiveSettings):
    """As `ObjectiveSettings`, of objectives with targets; by default the neighbours to either side, as in the paper."""

    objective: str = "window"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.objective not in (*TARGETS, RELATIONAL):
            known = ", ".join((*TARGETS, RELATIONAL))
            raise InputError(f"objective {self.objective!r} is for views of one tower; choose {known}")


@register
class QuickThoughtsGRU(CarriesCode, ForCL, QuickThoughtsModel):
    """QuickThoughts (Logeswaran and Lee 2018): the f tower of a sentence picks its neighbours' g towers.

    The sentence embedding is `[f; g]`; the encoder is a GRU, or what the config says.

    Args:
        config: widths, encoder, readout, word vectors.
        settings: of the objective, such as `objective="tfidf_bin"`; see `contrastive_st.models.settings`.

    Example:
        >>> import torch
        >>> config = QuickThoughtsConfig(vocab_size=50, embedding_size=4, hidden_size=8)
        >>> model = QuickThoughtsGRU(config, objective="next")
        >>> ids = torch.tensor([[2, 7, 8], [9, 5, 0], [4, 0, 0]])  # three sentences, one after the other
        >>> places = torch.tensor([[0, 0], [0, 1], [0, 2]])
        >>> model(ids[:, None], attention_mask=(ids > 0)[:, None].long(), targets=places).loss.shape
        torch.Size([])
        >>> model.eval()(ids).pooler_output.shape
        torch.Size([3, 16])
    """

    code_class = QuickThoughtsModel
    settings_class = TowerSettings

    def __init__(self, config: QuickThoughtsConfig, **settings: Any) -> None:
        apply_settings(config, settings, TowerSettings)
        super().__init__(config)

    def split_views(self, embeddings: Tensor) -> Tensor:
        """Embeddings `[B, 1, 2h]` to the two towers `[B, 2, h]`."""
        return embeddings.unflatten(-1, (2, -1)).flatten(1, 2)

    def _encode(self, input_ids: Tensor, attention_mask: Tensor) -> BaseModelOutputWithPooling:  # type: ignore[override]
        return self.encode(input_ids, attention_mask, states=not self.training)
