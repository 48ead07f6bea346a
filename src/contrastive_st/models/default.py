"""The default model, and `open_encoder`, which opens static models without torch."""

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
    """The name of the default model: `$CONTRASTIVE_ST_MODEL`, else the static model that comes with the package."""
    return os.environ.get("CONTRASTIVE_ST_MODEL") or SHIPPED.name


def folder_or_name(model: Any) -> Any:
    """Replace None by the default model, and the name of the package's own model by its folder.

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
    """Open an encoder for commands and indices: `StaticVectors` for a static model's folder, else `SentenceEncoder`.

    For a static model both give the same vectors and the same fingerprint, but `StaticVectors` opens in a tenth of a
    second. A static model that records prompts or `truncate_dim` is opened by `SentenceEncoder`, which uses them.

    Args:
        model: folder or Hub name, or another model that `SentenceEncoder` accepts; by default `default_model()`.
        pooling: as for `SentenceEncoder`; not for static models.
        name: its name in reports; by default that of the folder.
        options: options of `SentenceEncoder`, such as `precision`.

    Raises:
        InputError: the model cannot be opened.

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
    """Whether a local folder has a static model that records no prompts and no `truncate_dim`."""
    about = _read(folder / "config_sentence_transformers.json")
    prompts = about.get("prompts")
    prompted = isinstance(prompts, dict) and any(prompts.values())
    return _read(folder / "config.json").get("model_type") in KINDS and not prompted and not about.get("truncate_dim")


def _read(path: Path) -> dict[str, Any]:
    """A JSON object, or an empty one if it cannot be read; the encoder then raises the error."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
