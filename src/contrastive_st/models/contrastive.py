"""What every contrastive model is: views from tokens, and a loss from views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import ModelOutput, can_return_tuple

from contrastive_st.models.saving import write_sentence_transformers
from contrastive_st.models.settings import ObjectiveSettings, apply_settings
from contrastive_st.objectives import LOCAL, default_gather
from contrastive_st.objectives.info_nce import PastKeys
from contrastive_st.storage.folders import check_weights
from contrastive_st.storage.repositories import HUB_OPTIONS, WEIGHTS, local_folder

_Base: Any = PreTrainedModel if TYPE_CHECKING else object  # every class that mixes this in is a PreTrainedModel


@dataclass
class ContrastiveOutput(ModelOutput):
    """Output of a batch of views: the loss, the embeddings `[B, V, d]` and their text keys `[B, V]`."""

    loss: Tensor | None = None
    views: Tensor | None = None
    text_keys: Tensor | None = None


class ForCL(_Base):
    """The contrastive half of a model; an encoder gives the other by `_encode`.

    Every kind of training step is built from `embed`, which makes views, and `objective`, which makes a loss of them.
    """

    settings_class: ClassVar[type[ObjectiveSettings]] = ObjectiveSettings
    accepts_loss_kwargs = False  # the loss is a mean over the batch: the Trainer divides it when accumulating

    def _encode(self, attention_mask: Tensor, **rows: Tensor) -> BaseModelOutputWithPooling:
        """Rows `[N, L]` to embeddings `[N, D]` in `pooler_output`."""
        raise NotImplementedError

    def split_views(self, embeddings: Tensor) -> Tensor:
        """Embeddings `[B, V, D]` to views; a model of two towers f and g makes two views of each embedding."""
        return embeddings

    def embed(self, input_ids: Tensor, attention_mask: Tensor | None = None, **other: Tensor | None) -> Tensor:
        """Encode token ids `[..., L]` to embeddings `[..., D]`."""
        embeddings = self._encode(**self._rows(input_ids, attention_mask, **other)).pooler_output
        return embeddings.view(*input_ids.shape[:-1], -1)

    def objective(
        self,
        views: Tensor,
        targets: Tensor | None = None,
        keys: Tensor | None = None,
        past: PastKeys | None = None,
    ) -> Tensor:
        """The loss of views `[B, V, d]`; candidates come from every process that trains along, and from the past."""
        queue: dict[str, Any] = {} if past is None else {"past": past}  # only InfoNCE knows one
        return self.contrast(views, targets, keys=keys, gather=default_gather() if self.training else LOCAL, **queue)

    @property
    def contrast(self) -> Any:
        """The objective that the config describes."""
        return self.settings.build().with_head(getattr(self, "objective_head", None))

    def add_head(self) -> None:
        """Create what the objective trains beside the encoder, such as a classifier, where it has one."""
        if not self.settings.with_head:
            return
        head = self.settings.build().make_head(getattr(self.config, "projection_dim", None) or self.config.hidden_size)
        if head is not None:
            self.objective_head = head

    def drop_heads(self) -> None:
        """Forget what only training needs: a finished encoder is saved without it."""
        if hasattr(self, "objective_head"):
            del self.objective_head
            apply_settings(self.config, {"with_head": False}, self.settings_class)

    @property
    def settings(self) -> Any:
        """Objective, temperature and the rest, as the config holds them."""
        return self.settings_class(**self.config.contrastive)

    @can_return_tuple  # sentence-transformers passes `return_dict`
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        targets: Tensor | None = None,
        key_views: Tensor | None = None,
        past: PastKeys | None = None,
        **other: Tensor | None,
    ) -> BaseModelOutputWithPooling | ContrastiveOutput:
        """`input_ids [N, L]` gives embeddings in `pooler_output [N, D]`; `[B, V, L]` gives the loss of B anchors.

        Args:
            input_ids: token ids, padded on the right.
            attention_mask: 1 on real tokens; all ones when absent.
            targets: what the objective wants beside the views, from the collator.
            key_views: all views but the first, `[B, V-1, d]`, where something else encodes them (a momentum queue).
            past: candidates of former batches.
            other: what else the encoder takes, such as `token_type_ids`.
        """
        if input_ids.dim() == 2:
            return self._encode(**self._rows(input_ids, attention_mask, **other))
        rows = {"input_ids": input_ids, "attention_mask": attention_mask, **other}
        if key_views is not None:
            rows = {name: None if tensor is None else tensor[:, :1] for name, tensor in rows.items()}
        views = with_keys(self.split_views(self.embed(**rows)), key_views)  # type: ignore[arg-type]
        keys = text_keys(input_ids, attention_mask)
        return ContrastiveOutput(loss=self.objective(views, targets, keys, past), views=views, text_keys=keys)

    @classmethod
    def from_pretrained(cls, name: Any, *args: Any, revision: str | None = None, **kwargs: Any) -> Any:
        """Open a folder or Hub name; weights in safetensors alone, since a pickle can run code when it is opened.

        Args:
            name: folder or Hub name.
            args: as for `PreTrainedModel.from_pretrained`.
            revision: branch, tag or commit of a Hub name.
            kwargs: settings, and whatever `PreTrainedModel.from_pretrained` takes.

        Raises:
            InputError: there is no such checkpoint, it holds no safetensors, or it reaches outside of its folder.
        """
        if name is None:
            return super().from_pretrained(name, *args, **kwargs)  # type: ignore[misc]
        hub = {key: kwargs.pop(key) for key in HUB_OPTIONS if key in kwargs}
        folder = local_folder(name, revision, patterns=(*WEIGHTS, "config.json"), **hub)
        check_weights(folder, name)
        loaded = super().from_pretrained(folder, *args, **{**kwargs, "use_safetensors": True})  # type: ignore[misc]
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model.name_or_path = model.config._name_or_path = str(name)
        if folder.parent.name == "snapshots":
            model.config._commit_hash = folder.name
        return loaded

    def save_pretrained(self, save_directory: Any, **kwargs: Any) -> None:
        """Save weights and config, and the files that sentence-transformers reads: one folder, three loaders."""
        kwargs["save_original_format"] = False  # always this package's key names, whatever was loaded
        super().save_pretrained(save_directory, **kwargs)  # type: ignore[misc]
        if kwargs.get("is_main_process", True):
            self.write_other_loaders(save_directory, kwargs.get("state_dict"))

    def write_other_loaders(self, folder: Any, state_dict: dict[str, Tensor] | None) -> None:
        """Write what loaders other than transformers read."""
        write_sentence_transformers(self, folder, state_dict)  # type: ignore[arg-type]

    def _rows(self, input_ids: Tensor, attention_mask: Tensor | None, **other: Tensor | None) -> dict[str, Tensor]:
        """Tensors `[..., L]` as rows `[N, L]`."""
        rows = {"input_ids": input_ids, "attention_mask": attention_mask, **other}
        if attention_mask is None:
            rows["attention_mask"] = torch.ones_like(input_ids)
        return {name: tensor.flatten(0, -2) for name, tensor in rows.items() if tensor is not None}


def with_keys(views: Tensor, key_views: Tensor | None) -> Tensor:
    """Views `[B, V, d]` of anchors and, where these were encoded apart, of their keys."""
    return views if key_views is None else torch.cat([views, key_views.to(views.dtype)], 1)


def text_keys(input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
    """A 64-bit fingerprint of each row of token ids, `[..., L] -> [...]`; padding does not count.

    Equal texts have equal keys; different ones collide with probability about 2^-63. Found from the ids, never from
    the embeddings, which dropout makes differ.
    """
    places = torch.arange(1, input_ids.shape[-1] + 1, device=input_ids.device)
    weights = places * -7046029254386353131  # odd 64-bit constant; products wrap around
    weights = (weights ^ (weights >> 29)) * -4658895280553007687
    weights = (weights ^ (weights >> 32)) | 1
    ids = input_ids + 1 if attention_mask is None else (input_ids + 1) * attention_mask
    return (ids * weights).sum(-1)
