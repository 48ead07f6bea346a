"""Anything that turns texts into vectors, opened the same way and described the same way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel

from contrastive_st.errors import InputError
from contrastive_st.evaluation.pooled import PooledBackbone, pooling_of_modules
from contrastive_st.models import AutoModelForCL, SentenceEncoder
from contrastive_st.models.auto import first_line, load_config
from contrastive_st.models.encoder import load_tokenizer
from contrastive_st.models.families import FAMILIES
from contrastive_st.models.pooling import check_pooling
from contrastive_st.models.settings import is_plain_encoder, max_positions
from contrastive_st.storage.folders import check_weights
from contrastive_st.storage.repositories import local_folder

_CPU_TOKENS, _GPU_TOKENS = 4096, 32_768  # in a batch
_OWN_FAMILIES = {family.config_class.model_type for family in FAMILIES}


@dataclass
class OpenedEncoder:
    """A model to evaluate: `encode` takes texts to `[N, d]`; the rest says what it is.

    Args:
        name: how reports call it.
        encode: texts to embeddings, in their order.
        pooling: one of `contrastive_st.models.pooling.POOLINGS`, or words where it is not known.
        max_length: tokens it reads of a text; None where it alone knows.
        fingerprint: a hash of all that decides the embeddings, or None: then nothing is cached on disk.
        folder: the folder it was opened from, if any.
        sentence_encoder: model and tokenizer, where it is this package that runs them.
    """

    name: str
    encode: Callable[[Sequence[str]], NDArray[np.floating]]
    pooling: str = "the callable's own"
    max_length: int | None = None
    fingerprint: str | None = None
    folder: Path | None = field(default=None, repr=False)
    sentence_encoder: SentenceEncoder | None = field(default=None, repr=False)


def open_encoder(
    source: Any,
    *,
    pooling: str | None = None,
    max_length: int | None = None,
    name: str | None = None,
    device: str | None = None,
) -> OpenedEncoder:
    """Open a checkpoint, a `SentenceEncoder`, a `SentenceTransformer` or a callable.

    A folder or Hub name is opened with the pooling it records (this package's config, or the `modules.json` of
    sentence-transformers); a plain encoder records none, and then it must be given: it is never guessed from a name.

    Args:
        source: what to open. A callable takes a list of N texts to an array `[N, d]`.
        pooling: overrides what the checkpoint records.
        max_length: tokens read of each text; by default what the checkpoint records.
        name: how reports call it; by default the folder's name.
        device: where to run it; the GPU where there is one.

    Raises:
        InputError: it cannot be opened, or its pooling is not known.

    Example:
        >>> open_encoder(lambda texts: np.array([[len(text), 1.0] for text in texts]), name="lengths").encode(["ab"])
        array([[2., 1.]])
    """
    if isinstance(source, OpenedEncoder):
        return source
    if isinstance(source, SentenceEncoder):
        return of_sentence_encoder(source, name or "model")
    if hasattr(source, "encode") and hasattr(source, "max_seq_length"):
        return _of_sentence_transformer(source, name or "model")
    if callable(source):
        return OpenedEncoder(name or str(getattr(source, "__name__", "callable")), source)
    encoder = _open_checkpoint(source, pooling, max_length, device)
    opened = of_sentence_encoder(encoder, "") if isinstance(encoder, SentenceEncoder) else encoder
    opened.name = name or (Path(source).name if Path(source).is_dir() else str(source))
    opened.folder = Path(source) if Path(source).is_dir() else None
    return opened


def of_sentence_encoder(encoder: SentenceEncoder, name: str = "model", fingerprint: bool = True) -> OpenedEncoder:
    """Describe a `SentenceEncoder`; without `fingerprint` its weights are not hashed, and nothing is cached."""
    model, length = encoder.model, min(encoder.tokenizer.model_max_length, max_positions(encoder.model.config))
    settings = getattr(model.config, "contrastive", {})
    pooling = getattr(model, "pooling", None) or settings.get("pooling", "the model's own")
    if settings.get("pooling") == "cls" and settings.get("mlp_only_train"):
        pooling = "cls_before_pooler"
    normalized = bool(getattr(encoder, "normalized", False))
    mark = model_hash(model.state_dict(), encoder.tokenizer, pooling, length, normalized) if fingerprint else None

    def encode(texts: Sequence[str]) -> NDArray[np.floating]:
        tokens = _CPU_TOKENS if model.device.type == "cpu" else _GPU_TOKENS
        return encoder.encode(texts, batch_tokens=tokens, normalize=normalized)

    return OpenedEncoder(name, encode, pooling, length if length < 1 << 29 else None, mark, sentence_encoder=encoder)


def model_hash(weights: dict[str, torch.Tensor], tokenizer: Any, *settings: object) -> str:
    """A hash of the weights, the tokenizer and whatever else decides an embedding: 32 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    vocabulary = backend.to_str() if backend is not None else json.dumps(tokenizer.get_vocab(), sort_keys=True)
    digest.update(json.dumps([vocabulary, *map(str, settings)]).encode())
    return digest.hexdigest()


def _open_checkpoint(source: Any, pooling: str | None, max_length: int | None, device: str | None) -> Any:
    config = load_config(source)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    recorded = None if hasattr(config, "contrastive") else pooling_of_modules(source)
    if recorded is not None and recorded.needs_sentence_transformers and pooling is None:
        return _of_sentence_transformer(_sentence_transformer(source, device), str(source), max_length)
    chosen = pooling or (recorded.pooling if recorded else None)
    if chosen is not None:
        check_pooling(chosen)
    elif not hasattr(config, "contrastive"):
        raise InputError(
            f"{source} does not say how it pools tokens into a sentence vector (no modules.json, not trained by this "
            "package); give --pooling, for example mean or cls_before_pooler"
        )
    if chosen == "cls" and (is_plain_encoder(config) or config.model_type not in _OWN_FAMILIES):
        raise InputError(f"{source} has no trained projection head, which pooling cls needs; use cls_before_pooler")
    tokenizer = load_tokenizer(source)
    length = max_length or (recorded.max_length if recorded else None) or tokenizer.model_max_length
    tokenizer.model_max_length = min(length, max_positions(config))
    encoder = SentenceEncoder(_open_model(source, config, chosen).to(device).eval(), tokenizer)
    encoder.normalized = bool(recorded and recorded.normalized and pooling is None)  # type: ignore[attr-defined]
    return encoder


def _open_model(source: Any, config: Any, pooling: str | None) -> Any:
    if config.model_type in _OWN_FAMILIES or (pooling is None and hasattr(config, "contrastive")):
        settings = {} if pooling is None else {"pooling": pooling}
        return AutoModelForCL.from_pretrained(source, **settings)
    folder = local_folder(source)
    check_weights(folder, source)
    try:
        return PooledBackbone(AutoModel.from_pretrained(folder, use_safetensors=True), str(pooling))
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"cannot open {source}: {first_line(error)}") from error


def _sentence_transformer(source: Any, device: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise InputError(
            f"{source} holds modules that only sentence-transformers can run; pip install sentence-transformers"
        ) from None
    folder = local_folder(source)
    check_weights(folder, source)
    return SentenceTransformer(str(folder), device=device)


def _of_sentence_transformer(model: Any, name: str, max_length: int | None = None) -> OpenedEncoder:
    if max_length is not None:
        model.max_seq_length = max_length
    modes = [getattr(module, "pooling_mode", None) for module in model]
    pooling = next((str(mode) for mode in modes if mode), "sentence-transformers' own")
    modules = [f"{type(module).__name__} {getattr(module, 'get_config_dict', dict)()}" for module in model]
    mark = model_hash(model.state_dict(), model.tokenizer, model.max_seq_length, *modules)

    def encode(texts: Sequence[str]) -> NDArray[np.floating]:
        return model.encode(list(texts), batch_size=64, show_progress_bar=False, convert_to_numpy=True)

    return OpenedEncoder(name, encode, pooling, model.max_seq_length, mark)
