"""A model made for encoding much: half-width weights where they are fast, no padding, tokens made ahead in a thread."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from contrastive_st.errors import InputError
from contrastive_st.evaluation.encoders import OpenedEncoder, open_encoder
from contrastive_st.models.buckets import bucket_rows

PRECISIONS = ("auto", "bf16", "fp32")
_CPU_BUCKETS = {"max_padding": 0.0, "min_tokens": 1024, "max_tokens": 4096}
_GPU_BUCKETS = {"max_padding": 0.05, "min_tokens": 32_768, "max_tokens": 131_072}
Item = TypeVar("Item")
Tokens = list[list[int]]


class BulkEncoder:
    """Texts to unit vectors `[N, d]` in float32, as fast as the machine allows.

    Rows of one length go through the model together, so nothing is padded, and weights and activations are bfloat16
    where the hardware multiplies those faster (cosine to float32 above 0.999). Models that only sentence-transformers
    can run are run by it, in the precision they come in.

    Args:
        source: what `contrastive_st.evaluation.encoders.open_encoder` opens: checkpoint folder, Hub name, or object.
        precision: `bf16`, `fp32`, or `auto`: bf16 where it is fast.
        options: `pooling`, `max_length`, `device`, as `open_encoder` takes them.

    Raises:
        InputError: the model cannot be opened, or has no fingerprint (a bare callable).

    Example:
        >>> encoder = BulkEncoder("out/demo")  # doctest: +SKIP
        >>> encoder.encode(["one sentence", "another"]).shape  # doctest: +SKIP
        (2, 256)
    """

    def __init__(self, source: Any, *, precision: str = "auto", **options: Any) -> None:
        if precision not in PRECISIONS:
            raise InputError(f"unknown precision {precision!r}; choose one of {', '.join(PRECISIONS)}")
        self.opened: OpenedEncoder = open_encoder(source, **options)
        if self.opened.fingerprint is None:
            raise InputError(f"{self.opened.name} is a bare function: an index must know the model that made it")
        self.name, self.fingerprint = self.opened.name, self.opened.fingerprint
        self.precision = "fp32"
        inner = self.opened.sentence_encoder
        self._tokenizer: Any = inner.tokenizer if inner else None
        self._model: Any = inner.model if inner else None
        if self._model is not None:
            fast = precision == "bf16" or (precision == "auto" and bf16_is_fast(self._model.device))
            self.precision = "bf16" if fast else "fp32"
            own = self._model if isinstance(source, (str, Path)) else copy.deepcopy(self._model)  # the caller keeps his
            self._model = own.to(torch.bfloat16 if fast else torch.float32).eval()
        self.dimension = self.encode(["a"]).shape[1]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors `[len(texts), d]`, in the order of the texts."""
        return next(self.encode_each([texts], lambda item: item))[1]

    def encode_each(
        self, items: Iterable[Item], texts_of: Callable[[Item], Sequence[str]]
    ) -> Iterator[tuple[Item, NDArray[np.float32]]]:
        """Each item with the unit vectors of its texts; the next item is read and tokenized meanwhile."""
        source = iter(items)

        def prepare() -> tuple[Item, Any] | None:
            for item in source:
                return item, self._prepare(texts_of(item))
            return None

        with ThreadPoolExecutor(1) as pool:
            ahead = pool.submit(prepare)
            while (prepared := ahead.result()) is not None:
                ahead = pool.submit(prepare)
                yield prepared[0], self._unit(self._vectors(prepared[1]))

    def _prepare(self, texts: Sequence[str]) -> Any:
        texts = [text.encode("utf-8", "replace").decode() for text in texts]  # half surrogate pairs are no characters
        if self._tokenizer is None or not texts:
            return texts
        return self._tokenizer(texts, truncation=True, add_special_tokens=True)["input_ids"]

    @torch.inference_mode()
    def _vectors(self, rows: Any) -> NDArray[np.float32]:
        if not rows:
            return np.empty((0, getattr(self, "dimension", 0)), dtype=np.float32)
        if self._model is None:
            return np.asarray(self.opened.encode(rows), dtype=np.float32)
        output: NDArray[np.float32] | None = None
        options = _CPU_BUCKETS if self._model.device.type == "cpu" else _GPU_BUCKETS
        for bucket in bucket_rows(np.array([len(row) for row in rows]), **options):  # type: ignore[arg-type]
            vectors = self._forward([rows[i] for i in bucket]).float().cpu().numpy()
            output = np.empty((len(rows), vectors.shape[1]), dtype=np.float32) if output is None else output
            output[bucket] = vectors
        assert output is not None
        return output

    def _forward(self, rows: Tokens) -> torch.Tensor:
        assert self._tokenizer is not None
        lengths = np.array([len(row) for row in rows])
        mask = np.arange(max(int(lengths.max()), 1)) < lengths[:, None]
        ids = np.full(mask.shape, self._tokenizer.pad_token_id or 0, dtype=np.int64)
        ids[mask] = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
        tensors = [torch.from_numpy(array).to(self._model.device) for array in (ids, mask.astype(np.int64))]
        return self._model(tensors[0], attention_mask=tensors[1]).pooler_output

    def _unit(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.all(np.isfinite(norms) & (norms > 0)):
            raise InputError(
                f"{self.name} gives NaN, infinite or zero vectors, which nothing is near to. Did it diverge?"
            )
        return vectors / norms


def bf16_is_fast(device: torch.device | str) -> bool:
    """Whether the hardware multiplies bfloat16 faster than float32: AMX or AVX-512 BF16, or a GPU that has it."""
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        checks = (getattr(torch.cpu, f"_is_{name}_supported", None) for name in ("amx_tile", "avx512_bf16"))
        return any(check is not None and check() for check in checks)
    return False
