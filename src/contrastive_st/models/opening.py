"""What `SentenceEncoder` opens by a name: an exported graph, a static model for numpy, or a torch model."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from contrastive_st.device import asked_device
from contrastive_st.errors import InputError
from contrastive_st.files.reading import read_json
from contrastive_st.files.repositories import ENCODER, is_local
from contrastive_st.models.backends import backend_of
from contrastive_st.models.checkpoint import Checkpoint
from contrastive_st.static_vectors import StaticVectors


class StaticFolder:
    """A static model, which encoders may share: its embedding matrix, and its torch model once it is needed."""

    def __init__(self, vectors: StaticVectors, recorded: Checkpoint) -> None:
        self.vectors, self.recorded = vectors, recorded

    @cached_property
    def opened(self) -> tuple[Any, Any]:
        """The torch model and the tokenizer of transformers."""
        from contrastive_st.models.running import of_vectors

        return of_vectors(self.vectors)[:2]

    @property
    def is_opened(self) -> bool:
        """Whether the torch model was asked for; its weights may have changed since."""
        return "opened" in self.__dict__

    @property
    def as_opened(self) -> tuple[Checkpoint, int | None]:
        """What an encoder records that was not changed."""
        return self.recorded, self.vectors.max_length

    @property
    def is_unchanged(self) -> bool:
        """Whether the torch model, if it was asked for, still has the table."""
        return not self.is_opened or np.array_equal(self.opened[0].table().detach().cpu(), self.vectors.table())


class Parts(NamedTuple):
    """What a name is opened as: of `model` and `static` there is one."""

    checkpoint: Checkpoint
    folder: Path | None
    name: str
    fingerprint: str | None = None
    model: Any = None
    tokenizer: Any = None
    static: StaticFolder | None = None


def open_parts(
    name: str | Path,
    device: Any = None,
    pooling: str | None = None,
    *,
    backend: str | None = None,
    precision: str = "fp32",
    revision: str | None = None,
    **hub: Any,
) -> Parts:
    """Open a checkpoint by its folder or Hub name; the arguments are those of `SentenceEncoder`.

    Returns:
        The parts of an encoder.

    Raises:
        InputError: the model cannot be opened, or is exported and other settings are asked for.
    """
    checkpoint = Checkpoint.find(name, revision, **hub)
    folder = checkpoint.folder if is_local(name) else None
    shown = checkpoint.name if folder is None else checkpoint.folder.resolve().name
    parts = Parts(checkpoint, folder, shown)
    if runs_in := backend_of(checkpoint.folder, backend, name):
        if str(device or asked_device() or "cpu") != "cpu" or pooling not in (None, checkpoint.pooling):
            raise InputError(
                f"{name} is an exported model, which runs only on the cpu with pooling {checkpoint.pooling}"
            )
        if folder is None:  # the graph is downloaded too
            checkpoint = Checkpoint.find(name, revision, **{**hub, "patterns": (*ENCODER, f"{runs_in}/*")})
        from contrastive_st.models.graph import GraphVectors

        graph = GraphVectors(checkpoint, precision)
        return parts._replace(model=graph, tokenizer=graph.tokenizer, fingerprint=graph.fingerprint)
    if pooling is None and (vectors := static_vectors_of(checkpoint)):
        return parts._replace(static=StaticFolder(vectors, checkpoint))
    from contrastive_st.models.running import opened

    model, tokenizer, recorded = opened(checkpoint, device, pooling)
    bare = checkpoint.is_table and checkpoint.is_bare  # its fingerprint is that of the same folder without torch
    fingerprint = StaticVectors.from_pretrained(checkpoint.folder).fingerprint if bare else None
    return parts._replace(checkpoint=recorded, model=model, tokenizer=tokenizer, fingerprint=fingerprint)


def parts_in_memory(model: Any, tokenizer: Any = None) -> Parts:
    """The parts of an encoder of a model in memory; the arguments are those of `SentenceEncoder`."""
    if isinstance(model, StaticVectors):
        checkpoint = Checkpoint.in_memory()
        return Parts(checkpoint, model.folder, model.name, static=StaticFolder(model, checkpoint))
    from contrastive_st.models.running import in_memory

    model, tokenizer, checkpoint = in_memory(model, tokenizer)
    return Parts(checkpoint, None, "model", model=model, tokenizer=tokenizer)


def static_vectors_of(found: Checkpoint) -> StaticVectors | None:
    """The vectors of a static model whose texts are read without special tokens; None if torch must open it."""
    plain = found.max_length is None and not found.lower_case and found.include_prompt and found.adapter is None
    if not plain or not found.is_table or not _sound_length(found.tokenizer / "tokenizer_config.json"):
        return None
    try:
        vectors = StaticVectors.from_pretrained(found.folder)
    except InputError:  # torch says what is wrong, or can open it
        return None
    return None if found.own and vectors.tokenizer.num_special_tokens_to_add(is_pair=False) else vectors


def _sound_length(path: Path) -> bool:
    """Whether the maximum length of a tokenizer, which a static model does not use, is one."""
    length = read_json(path, dict).get("model_max_length", 1) if path.is_file() else 1
    return isinstance(length, int | float) and length >= 1
