"""Encoders that this package has no class for, and the pooling that sentence-transformers records beside a model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import cached_file

from contrastive_st.errors import InputError
from contrastive_st.models.pooling import needs_all_layers, pool

_MODES = {
    "pooling_mode_cls_token": "cls_before_pooler",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "last",
}
_NAMES = {"cls": "cls_before_pooler", "mean": "mean", "max": "max", "lasttoken": "last"}


class PooledBackbone(nn.Module):
    """Any `AutoModel` with a pooling: `forward(input_ids [N, L]).pooler_output [N, d]`, as `SentenceEncoder` wants."""

    def __init__(self, backbone: Any, pooling: str) -> None:
        super().__init__()
        self.backbone = backbone.get_encoder() if backbone.config.is_encoder_decoder else backbone
        self.pooling, self.config = pooling, backbone.config

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> BaseModelOutputWithPooling:
        """Token ids padded on the right, and 1 on real tokens."""
        every = needs_all_layers(self.pooling)
        output = self.backbone(input_ids, attention_mask=attention_mask, output_hidden_states=every)
        states = output.hidden_states if every else [output.last_hidden_state]
        return BaseModelOutputWithPooling(pooler_output=pool(states, attention_mask, self.pooling))


@dataclass(frozen=True)
class RecordedPooling:
    """What `modules.json` and the files it names say."""

    pooling: str | None
    max_length: int | None
    normalized: bool
    needs_sentence_transformers: bool


def pooling_of_modules(name: str | Path) -> RecordedPooling | None:
    """Read a checkpoint's `modules.json`; None where it has none.

    Transformer, one of four poolings and Normalize are run here; any other module needs sentence-transformers.
    """
    modules = _json(name, "modules.json")
    if modules is None:
        return None
    kinds = [str(module["type"]).rsplit(".", 1)[-1] for module in modules]
    length = (_json(name, "sentence_bert_config.json") or {}).get("max_seq_length")
    pooling = None
    for module, kind in zip(modules, kinds, strict=True):
        if kind == "Pooling":
            pooling = _pooling(_json(name, f"{module['path']}/config.json") or {})
    known = kinds[:2] == ["Transformer", "Pooling"] and kinds[2:] in ([], ["Normalize"]) and pooling is not None
    prompted = (_json(name, "config_sentence_transformers.json") or {}).get("default_prompt_name")
    return RecordedPooling(pooling, length, "Normalize" in kinds, not known or prompted is not None)


def _pooling(config: dict[str, Any]) -> str | None:
    if "pooling_mode" in config:
        mode = config["pooling_mode"]
        return _NAMES.get(mode) if isinstance(mode, str) else None
    used = [mode for mode, on in config.items() if mode.startswith("pooling_mode_") and on]
    return _MODES.get(used[0]) if len(used) == 1 else None


def _json(name: str | Path, file: str) -> Any:
    if Path(name).is_dir():
        path = Path(name, file)
        found = str(path) if path.is_file() else None
    else:
        try:
            found = cached_file(
                str(name),
                file,
                _raise_exceptions_for_missing_entries=False,
                _raise_exceptions_for_connection_errors=False,
            )
        except OSError:
            found = None
    if found is None:
        return None
    try:
        return json.loads(Path(found).read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{found}: not valid JSON ({error}); download the checkpoint again") from None
