"""`EmbeddingStore` encodes each distinct sentence once, on all processes together, and keeps the embeddings on disk."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from transformers.utils import logging

from contrastive_st.distributed import from_first, processes, shared
from contrastive_st.errors import InputError
from contrastive_st.evaluation.datasets.senteval import Document, Query
from contrastive_st.files.writing import atomic_write
from contrastive_st.models.protocol import Encoder
from contrastive_st.vectors import check_finite

logger = logging.get_logger(__name__)
_CHUNK = 512  # sentences of similar length that are encoded in one call, by one process


class EmbeddingStore:
    """The embeddings of a set of sentences; calling it looks them up, `[N] texts -> [N, d]`.

    A `Query` and a `Document` are encoded with the model's prompts, so they differ from the same plain text.
    Sentences go to the model in chunks of similar length whose make-up does not depend on the number of processes, so
    that one process and many get the same bits.

    Args:
        encoder: the model.
        texts: all sentences that will be looked up; they may repeat.
        cache: folder to read known embeddings from and to write new ones to; None keeps nothing, and embeddings in
            bf16 or int8 are never kept.
        distributed: divide the work among the processes (a collective call), or do all of it here.

    Raises:
        InputError: the model returns NaN, infinities, or an array of another shape; names the model.

    Example:
        >>> from contrastive_st.models.protocol import FunctionEncoder
        >>> model = FunctionEncoder("lengths", lambda texts: np.array([[len(text)] for text in texts]))
        >>> EmbeddingStore(model, ["a", "bcd", "a"])(["bcd", "a", "bcd"])[:, 0].tolist()
        [3.0, 1.0, 3.0]
    """

    def __init__(
        self, encoder: Encoder, texts: Iterable[str], cache: str | Path | None = None, distributed: bool = True
    ) -> None:
        self.position: dict[tuple[str, str], int] = {}
        for text in texts:
            self.position.setdefault((_how(text), text), len(self.position))
        distinct = [text for _, text in self.position]
        self.encoder = encoder
        # the fingerprint is that of the checkpoint in every precision: embeddings in bf16 or int8 would be taken for it
        keeps = cache and encoder.fingerprint and getattr(encoder, "precision", "fp32") == "fp32"
        folder = Path(str(cache), str(encoder.fingerprint)) if keeps else None
        cached = from_first(lambda: _read(folder, distinct), distributed=distributed) if folder else {}
        missing = [i for i in range(len(distinct)) if i not in cached]
        self.encoded = len(missing)
        vectors = self._encode([distinct[i] for i in missing], distributed)
        width = (next(iter(cached.values())) if cached else vectors).shape[-1]
        self.vectors = np.empty((len(distinct), width), dtype=np.float32)
        if missing:
            self.vectors[missing] = vectors
        for i, vector in cached.items():
            self.vectors[i] = vector
        if folder and missing and (not distributed or processes()[0] == 0):
            _write(folder, [distinct[i] for i in missing], vectors)

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The embeddings `[n, d]` of texts that the store has."""
        return self.vectors[[self.position[_how(text), text] for text in texts]]

    def _encode(self, texts: list[str], distributed: bool) -> NDArray[np.float32]:
        chunks = []
        for method in sorted(set(map(_how, texts))):
            places = (i for i, text in enumerate(texts) if _how(text) == method)
            order = sorted(places, key=lambda i: (-len(texts[i]), texts[i]))
            chunks += [order[i : i + _CHUNK] for i in range(0, len(order), _CHUNK)]
        costs = [float(sum(len(texts[i]) + 20 for i in chunk)) for chunk in chunks]
        parts = shared(lambda chunk: self._checked([texts[i] for i in chunk]), chunks, costs, distributed=distributed)
        if not parts:
            return np.empty((0, 0), dtype=np.float32)
        vectors = np.empty((len(texts), parts[0].shape[1]), dtype=np.float32)
        for chunk, part in zip(chunks, parts, strict=True):
            vectors[chunk] = part
        return vectors

    def _checked(self, texts: list[str]) -> NDArray[np.float32]:
        vectors = np.asarray(getattr(self.encoder, _how(texts[0]))(texts), dtype=np.float32)
        return check_finite(vectors, f"the embeddings of {self.encoder.name}")


def _key(text: str) -> bytes:
    role = "" if _how(text) == "encode" else f"{_how(text)}\0"
    return hashlib.blake2b(f"{role}{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _how(text: str) -> str:
    """The encoder's method for a text."""
    return "encode_query" if isinstance(text, Query) else "encode_document" if isinstance(text, Document) else "encode"


def _read(folder: Path, texts: Sequence[str]) -> dict[int, NDArray[np.float32]]:
    """Known embeddings by the number of the text; a damaged file is ignored, and its sentences are encoded again."""
    index_of = {_key(text): i for i, text in enumerate(texts)}
    cached = {}
    for path in sorted(folder.glob("*.npz")):
        try:
            with np.load(path) as part:
                keys, vectors = part["keys"], part["vectors"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            logger.warning(f"{path} cannot be read ({error}); its sentences are encoded again")
            continue
        for key, vector in zip((bytes(row) for row in keys), vectors, strict=True):
            if key in index_of:
                cached[index_of[key]] = vector
    return cached


def _write(folder: Path, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
    keys = np.frombuffer(b"".join(map(_key, texts)), dtype=np.uint8).reshape(len(texts), 16)
    name = hashlib.blake2b(keys.tobytes(), digest_size=8).hexdigest()
    try:
        with atomic_write(folder / f"{name}.npz", overwrite=True, parents=True) as path:
            np.savez(path, keys=keys, vectors=vectors)
    except InputError as error:
        logger.warning(f"embeddings are not kept: {error}")
