"""The model where none is named, and the lightest encoder for a model: a static one needs no torch."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive_st.safety.folders import SHIPPED
from contrastive_st.static_vectors import KINDS, StaticVectors

if TYPE_CHECKING:
    from contrastive_st.models.encoder import SentenceEncoder

__all__ = ["SHIPPED", "default_model", "folder_or_name", "open_encoder"]


def default_model() -> str:
    """`$CONTRASTIVE_ST_MODEL`, else the static model that comes with the package."""
    return os.environ.get("CONTRASTIVE_ST_MODEL") or SHIPPED.name


def folder_or_name(model: Any) -> Any:
    """The default where nothing is named, and the package's folder where its own model is named.

    Example:
        >>> folder_or_name("static-minilm") == str(SHIPPED), folder_or_name("user/name")
        (True, 'user/name')
    """
    model = default_model() if model is None else model
    return str(SHIPPED) if str(model) == SHIPPED.name and not Path(SHIPPED.name).is_dir() else model


def open_encoder(
    model: str | Path | SentenceEncoder | StaticVectors | None = None,
    *,
    pooling: str | None = None,
    name: str | None = None,
    **options: Any,
) -> SentenceEncoder | StaticVectors:
    """An encoder for commands and indices: `StaticVectors` of a folder with a static model, else `SentenceEncoder`.

    A static model that records prompts or `truncate_dim` is opened by `SentenceEncoder`, which reads them.

    Both give the same vectors of a static model and have the same fingerprint; the former opens in a tenth of a second.

    Args:
        model: folder or Hub name, or what `SentenceEncoder` takes else; by default `default_model()`.
        pooling: as for `SentenceEncoder`; a static model takes none.
        name: how reports call it; by default the folder's name.
        options: of `SentenceEncoder`, such as `precision`.

    Raises:
        InputError: it cannot be opened.

    Example:
        >>> encoder = open_encoder()
        >>> encoder.encode("a cat sat").shape
        (256,)
    """
    model = folder_or_name(model)
    if isinstance(model, StaticVectors):
        return model
    as_recorded = pooling is None and all(options.get(option) is None for option in ("max_length", "truncate_dim"))
    if isinstance(model, (str, Path)) and as_recorded and _is_table_alone(Path(model)):
        return StaticVectors.from_pretrained(model, name)
    from contrastive_st.models.encoder import SentenceEncoder

    return SentenceEncoder(model, pooling=pooling, name=name, **options)


def _is_table_alone(folder: Path) -> bool:
    """Whether a local folder holds a static model whose vectors are those of the texts as they are, and whole."""
    about = _read(folder / "config_sentence_transformers.json")
    prompts = about.get("prompts")
    prompted = isinstance(prompts, dict) and any(prompts.values())
    return _read(folder / "config.json").get("model_type") in KINDS and not prompted and not about.get("truncate_dim")


def _read(path: Path) -> dict[str, Any]:
    """A JSON object; an empty one where it cannot be read, which an encoder then explains."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
