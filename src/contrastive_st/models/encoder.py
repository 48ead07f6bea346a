"""Texts in, vectors out: a model and its tokenizer, with length-sorted batches of a token budget."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm.auto import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from contrastive_st.errors import InputError
from contrastive_st.models.auto import AutoModelForCL, first_line
from contrastive_st.models.buckets import bucket_rows
from contrastive_st.models.packed import packed_products
from contrastive_st.objectives import angular_similarity
from contrastive_st.storage.repositories import TOKENIZER, local_folder

_FEW_TOKENS = 512  # below, packing the weights costs more than it saves


class SentenceEncoder:
    """A sentence encoder ready to use.

    Args:
        model: a ForCL model; it is used in evaluation mode and put back into its mode afterwards.
        tokenizer: its tokenizer; texts are truncated to `tokenizer.model_max_length`, as in training.

    Example:
        >>> encoder = SentenceEncoder.from_pretrained("out")  # doctest: +SKIP
        >>> encoder.encode(["one sentence", "another"]).shape  # doctest: +SKIP
        (2, 256)
    """

    def __init__(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        self.model, self.tokenizer = model, tokenizer
        self._turn = threading.Lock()  # encoding puts the model into another mode for a while

    @classmethod
    def from_pretrained(
        cls, name: str | Path, device: str | torch.device | None = None, **kwargs: Any
    ) -> SentenceEncoder:
        """Open a checkpoint folder or Hub name on `device` (the GPU where there is one).

        Args:
            name: folder or Hub name.
            device: where to run it.
            kwargs: `revision`, `token` and the other options of a Hub name, and the model's settings.
        """
        model, tokenizer = AutoModelForCL.from_pretrained(name, **kwargs), load_tokenizer(name, **kwargs)
        return cls(model.to(device or ("cuda" if torch.cuda.is_available() else "cpu")), tokenizer)

    @torch.inference_mode()
    def encode(
        self,
        texts: Sequence[str],
        *,
        batch_tokens: int = 8192,
        dtype: torch.dtype = torch.float32,
        normalize: bool = False,
        progress: bool = False,
    ) -> NDArray[np.float32]:
        """Embeddings `[len(texts), d]` in float32, in the order of the texts.

        Args:
            texts: any number of sentences; an empty one is encoded as its special tokens.
            batch_tokens: tokens in a forward pass, padding included.
            dtype: `torch.bfloat16` runs the matrix products in half the width where the hardware is faster so.
            normalize: return unit vectors.
            progress: show a bar with the rate and the time left.
        """
        rows = self.tokenizer(list(texts), truncation=True, add_special_tokens=True)["input_ids"] if len(texts) else []
        output = np.empty((len(rows), width_of(self.model.config)), dtype=np.float32)
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        with (
            tqdm(total=len(rows), disable=not progress, unit=" texts", desc="encode") as bar,
            self._ready(dtype, many=lengths.sum() > _FEW_TOKENS),
        ):
            for bucket in bucket_rows(lengths, max_tokens=batch_tokens, min_tokens=min(2048, batch_tokens // 2)):
                output[bucket] = self._forward([rows[i] for i in bucket])
                bar.update(len(bucket))
        if normalize:
            output /= np.maximum(np.linalg.norm(output, axis=1, keepdims=True), 1e-12)
        return output

    def similarity(self, a: Sequence[str], b: Sequence[str]) -> NDArray[np.float32]:
        """Similarities `[len(a), len(b)]`: cosines, or what the model's config names (`angular`)."""
        first, second = self.encode(a, normalize=True), self.encode(b, normalize=True)
        if getattr(self.model.config, "similarity", "cosine") == "angular":
            return angular_similarity(torch.from_numpy(first), torch.from_numpy(second)).numpy()
        return first @ second.T

    def _forward(self, rows: list[list[int]]) -> NDArray[np.float32]:
        width = max(max(map(len, rows)), 1)
        ids = torch.full((len(rows), width), self.tokenizer.pad_token_id or 0)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
            mask[i, : len(row)] = 1
        device = self.model.device
        return self.model(ids.to(device), attention_mask=mask.to(device)).pooler_output.float().cpu().numpy()

    @contextlib.contextmanager
    def _ready(self, dtype: torch.dtype, many: bool) -> Iterator[None]:
        """The model in evaluation mode, with the products of `dtype`; then as it was."""
        with self._turn:
            was_training = self.model.training
            self.model.eval()
            try:
                if dtype != torch.float32:
                    with torch.autocast(self.model.device.type, dtype):
                        yield
                else:
                    with packed_products(self.model) if many else contextlib.nullcontext():
                        yield
            finally:
                self.model.train(was_training)


def width_of(config: Any) -> int:
    """Width of a model's sentence embeddings."""
    return getattr(config, "projection_dim", None) or config.hidden_size


def load_tokenizer(name: str | Path, revision: str | None = None, **options: Any) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder or Hub name, or one clear line on why it cannot be had; options as `local_folder`'s."""
    folder = local_folder(name, revision, patterns=TOKENIZER, **options)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise InputError(f"no tokenizer can be opened in {name}: {first_line(error)}") from error
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # what transformers gives where the files are missing
        raise InputError(f"{name} holds no tokenizer files; save the tokenizer beside the model")
    return tokenizer
