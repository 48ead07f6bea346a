"""A static model as `SentenceEncoder` holds it: encoded by numpy, opened in torch on demand."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from contrastive_st.errors import InputError
from contrastive_st.files.reading import read_json
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


def static_vectors_of(found: Checkpoint) -> StaticVectors | None:
    """The vectors of a static model whose texts are read whole, without special tokens; None if torch must open it."""
    plain = found.max_length is None and not found.lower_case and found.include_prompt and found.adapter is None
    if not plain or not found.is_table or not _sound_length(found.tokenizer / "tokenizer_config.json"):
        return None
    try:
        vectors = StaticVectors.from_pretrained(found.folder)
    except InputError:  # torch says what is wrong, or can open it
        return None
    return None if vectors.tokenizer.num_special_tokens_to_add(is_pair=False) else vectors


def _sound_length(path: Path) -> bool:
    """Whether the maximum length of a tokenizer, which a static model does not use, is one."""
    length = read_json(path, dict).get("model_max_length", 1) if path.is_file() else 1
    return isinstance(length, int | float) and length >= 1
