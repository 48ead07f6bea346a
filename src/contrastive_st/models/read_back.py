"""What was written is read back: a new folder of a model is opened as anybody would, and compared with the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from contrastive_st.errors import InputError
from contrastive_st.files.reading import weight_types

#: Capitals, letters and signs that few tokenizers know, no text, and more than most models read
_TEXTS = ("The Cat SAT on the Mat", "Zürich 猫 zxqvj №42", "", "a long text " * 600)
_FEW = 64  # tokens of a text that are encoded: whether it is cut at the same length is seen in its token ids
_SETTINGS = ("max_length", "truncate_dim", "similarity_fn_name", "default_prompt_name")
_EXACT, _ROUNDED = 1e-3, 0.2  # differences of vectors of length 1: of other kernels; of half precision and int8


def check_read_back(saved: Any, folder: Path, vectors: bool = True) -> None:
    """Open a folder that was just written, and compare settings, token ids and vectors of a few texts.

    The folder of a user's own module, which only its code can open, is left unchecked.

    Args:
        saved: the `SentenceEncoder` that was written.
        folder: the folder.
        vectors: False if this process alone cannot run the model, as when its weights are sharded.

    Raises:
        InputError: with the first difference, or the folder cannot be opened.
    """
    if not saved._running.opens_again:
        return
    try:
        difference = next(_differences(saved, type(saved)(folder, device="cpu"), vectors), None)
    except InputError as error:
        difference = f"it cannot be opened: {error}"
    if difference:
        raise InputError(
            f"{saved.name} was not saved, because its folder would not give the same vectors: {difference}"
        )


def _differences(saved: Any, opened: Any, vectors: bool) -> Iterator[str]:
    for name in _SETTINGS:
        kept, read = getattr(saved, name), getattr(opened, name)
        if kept != read:
            yield f"the {name} is {kept}, and in the folder {read}"
    if dict(saved.prompts) != dict(opened.prompts):
        yield f"the prompts are {dict(saved.prompts)}, and in the folder {dict(opened.prompts)}"
    kinds = set(weight_types(opened.checkpoint.model).values())
    rounded = not kinds <= {"F32", "F64"} or saved.precision != "fp32" or str(saved._running.device) != "cpu"
    for prompt in dict.fromkeys(("", max(saved.prompts.values(), key=len, default=""))):
        rows = saved.token_rows(_TEXTS, prompt)
        for text, row, other in zip(_TEXTS, rows, opened.token_rows(_TEXTS, prompt), strict=True):
            if row != other:
                yield f"{(prompt + text)[:40]!r} has the token ids {str(row)[:60]}, and in the folder {str(other)[:60]}"
        if vectors:
            few = [row[:_FEW] for row in rows]
            kept, read = saved.encode_rows(few, prompt), opened.encode_rows(few, prompt)
            if kept.shape != read.shape:
                yield f"vectors have {kept.shape[1]} dimensions, and in the folder {read.shape[1]}"
            apart = np.linalg.norm(kept - read, axis=1) / np.maximum(np.linalg.norm(kept, axis=1), 1e-6)
            if apart.max() > (_ROUNDED if rounded else _EXACT):
                text = prompt + _TEXTS[int(apart.argmax())]
                yield f"the vector of {text[:40]!r} is off by {apart.max():.2g} of its length"
