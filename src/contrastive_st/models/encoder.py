"""`SentenceEncoder`, which encodes texts to vectors with a model and its tokenizer."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from tqdm.auto import tqdm
from transformers.modeling_outputs import BaseModelOutputWithPooling

from contrastive_st.errors import InputError, first_line
from contrastive_st.files.download import hub_errors
from contrastive_st.files.folders import check_weights
from contrastive_st.files.repositories import ENCODER, default_model, is_local
from contrastive_st.losses.functional import angular_similarity, normalize
from contrastive_st.models.auto import PooledModel, load_tokenizer, open_trained, unknown_pooling
from contrastive_st.models.checkpoint import Checkpoint, of_settings
from contrastive_st.models.configuration import LossConfig, asks_for_code, max_positions
from contrastive_st.models.graph import GraphModel, backend_of, export_command
from contrastive_st.models.hardware import bf16_is_fast, on_cores
from contrastive_st.models.products import packed_products
from contrastive_st.models.saving import write_sentence_transformers, write_use
from contrastive_st.models.wrapped import EncoderForCL, sentence_vectors
from contrastive_st.precision import MODEL_PRECISIONS, check_precision
from contrastive_st.prefetch import prefetch
from contrastive_st.static_vectors import StaticVectors
from contrastive_st.tokens import (
    DOCUMENT,
    QUERY,
    bucket_rows,
    pad_rows,
    padded_widths,
    prompt_length,
    role_prompt,
    token_ids,
)
from contrastive_st.vectors import unit_vectors

SIMILARITIES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cosine": lambda a, b: normalize(a) @ normalize(b).T,
    "dot": lambda a, b: a @ b.T,
    "euclidean": lambda a, b: -torch.cdist(a, b),
    "manhattan": lambda a, b: -torch.cdist(a, b, p=1),
    "angular": angular_similarity,
}
#: Options of `bucket_rows` for a forward pass; on a CPU all have about as many tokens, so that few shapes are compiled
_BUCKETS: dict[str, dict[str, float]] = {
    "cpu": {"min_tokens": 2048, "max_tokens": 2048},
    "cuda": {"max_padding": 0.05, "min_tokens": 32_768, "max_tokens": 131_072},
}
_FEW_TOKENS = 512  # with fewer, packing the weights takes longer than it saves
_TOKENIZING = threading.Lock()  # copies of a tokenizer share state that only one thread may use at a time
_TURNS: weakref.WeakKeyDictionary[nn.Module, threading.Lock] = weakref.WeakKeyDictionary()
Item = TypeVar("Item")
Result = TypeVar("Result")
Vectors = NDArray[np.float32]


class SentenceEncoder:
    """Encodes texts to vectors with a checkpoint (a folder or Hub name) or with a model in memory.

    Pooling, dense layers, normalization, maximum length, prompts and `truncate_dim` are those that the checkpoint
    records: in `config.contrastive` of this package, else in `modules.json` of sentence-transformers. Threads may share
    an encoder, and encoders may share a model.

    Args:
        model: folder or Hub name; a model with `forward(input_ids, attention_mask).pooler_output`, which is used in
            evaluation mode and afterwards returned to its previous mode; a `SentenceTransformer`; a torch module that
            returns vectors `[N, d]` (see `EncoderForCL`); or a `SentenceEncoder`. By default `default_model()`: the
            static model that comes with the package.
        tokenizer: tokenizer of a model in memory; texts are cut to `tokenizer.model_max_length`, as in training.
        device: where to run a model opened by name; by default the GPU of this process if there is one.
        pooling: one of `contrastive_st.models.POOLINGS`, in place of the recorded one; needed if none is recorded.
        max_length: maximum number of tokens of a text; by default that of the checkpoint.
        precision: precision of weights and activations: `fp32`; `bf16`, with cosines to float32 above 0.999; `int8`,
            for folders written by `contrastive-st export --int8`; or `auto`, bf16 if the hardware is faster with it.
        backend: `torch`, `onnx` or `openvino`; by default that of the folder (see `contrastive-st export`).
        truncate_dim: keep only the first dimensions, this many (for a Matryoshka model).
        revision: branch, tag or commit of a Hub name.
        token: access token for a private Hub repository.
        name: its name in reports; by default that of the folder.
        hub: `cache_dir`, `local_files_only`, `force_download`, `subfolder`.

    Raises:
        InputError: the model cannot be opened, its pooling is not known, or weights are missing, damaged or NaN.

    Example:
        >>> encoder = SentenceEncoder()
        >>> encoder.encode("one sentence").shape, encoder.encode(["one sentence", "another"]).shape
        ((256,), (2, 256))
        >>> near, far = encoder.similarity("a cat sat", ["a feline rested", "the train left"])[0]
        >>> bool(near > far)
        True
    """

    def __init__(
        self,
        model: Any = None,
        tokenizer: Any = None,
        *,
        device: str | torch.device | None = None,
        pooling: str | None = None,
        max_length: int | None = None,
        precision: str = "fp32",
        truncate_dim: int | None = None,
        backend: str | None = None,
        revision: str | None = None,
        token: str | None = None,
        name: str | None = None,
        **hub: Any,
    ) -> None:
        check_precision(precision, MODEL_PRECISIONS)
        if max_length is not None and max_length < 1:
            raise InputError(f"max_length is {max_length}; give 1 or more")
        self.folder: Path | None = None
        self.checkpoint, self._fingerprint = Checkpoint.in_memory(), None
        model = default_model() if model is None else model
        if isinstance(model, (str, Path)):
            self._open(model, device, pooling, (backend, precision), revision, {"token": token, **hub})
        elif isinstance(model, SentenceEncoder):
            self.__dict__.update(model.__dict__)
        elif hasattr(model, "max_seq_length"):
            self._wrap(model)
        elif tokenizer is None:
            raise InputError(f"{type(model).__name__} needs a tokenizer; give SentenceEncoder(model, tokenizer)")
        else:
            whole = isinstance(model, nn.Module) and hasattr(model, "config") and hasattr(model, "device")
            model = model if whole or not isinstance(model, nn.Module) else EncoderForCL(model)
            self.model, self.tokenizer, self.name = model, tokenizer, "model"
            settings = getattr(model, "settings", None)
            if isinstance(settings, LossConfig):
                self.checkpoint = Checkpoint.in_memory(**of_settings(settings.section()))
        self.name = name or self.name
        self.max_length = self._length(max_length)
        if truncate_dim is not None:
            self.checkpoint = replace(self.checkpoint, truncate_dim=truncate_dim)
        fast = precision == "bf16" or (precision == "auto" and bf16_is_fast(self.device))
        graph = self.model if isinstance(self.model, GraphModel) else None
        fast = fast and graph is None and not getattr(self.model, "is_table", False)
        self.precision = graph.precision if graph else "bf16" if fast else "fp32"
        if precision == "int8" and self.precision != "int8":
            raise InputError(f"{self.name} is not in int8; run {export_command(self.name, 'openvino --int8')}")
        if fast:
            self._fingerprint = self.fingerprint  # of the weights before they are rounded
            own: Any = self.model if isinstance(model, (str, Path)) else copy.deepcopy(self.model)  # not the caller's
            self.model = own.to(torch.bfloat16)

    @classmethod
    def from_pretrained(cls, name: str | Path, device: str | torch.device | None = None, **options: Any) -> Any:
        """The same as `SentenceEncoder(name, device=device, ...)`, under the name used in transformers."""
        return cls(name, device=device, **options)

    # ------------------------------------------------------------------ texts to vectors

    def encode(
        self,
        texts: str | Sequence[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        *,
        batch_tokens: int | None = None,
        normalize_embeddings: bool = False,
        convert_to_tensor: bool = False,
        truncate_dim: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> Any:
        """Encode texts to float32 embeddings: `[d]` for a string, `[len(texts), d]` for a list, in the same order.

        Args:
            texts: a text or a list of texts; an empty text is encoded as its special tokens.
            prompt_name: which of `prompts` to put before each text; by default the checkpoint's default prompt.
            prompt: a prompt to put before each text, instead of a named one.
            batch_size: most texts in a forward pass.
            show_progress_bar: show the rate and the time left.
            batch_tokens: most tokens in a forward pass, padding included.
            normalize_embeddings: return unit vectors.
            convert_to_tensor: return a tensor on the model's device instead of an array.
            truncate_dim: keep only the first dimensions, this many.
            dtype: `torch.bfloat16` runs the matrix products of float32 weights under autocast in bfloat16.

        Raises:
            InputError: a text is not a string, the prompt does not exist, or the model gives NaN or infinite numbers.
        """
        if not isinstance(texts, Iterable):
            raise InputError(f"the texts are of the type {type(texts).__name__}; give a string or a list of strings")
        given = [texts] if isinstance(texts, str) else list(texts)
        prompt = self._prompt(prompt_name, prompt)
        rows = self._tokenize(given, prompt)
        limits = {"max_rows": batch_size, "max_tokens": batch_tokens, "min_tokens": batch_tokens and batch_tokens // 2}
        with tqdm(total=len(rows), disable=not show_progress_bar, unit=" texts", desc="encode") as bar:
            vectors = self._vectors(rows, prompt, limits, dtype, bar.update)[:, :truncate_dim]
        if normalize_embeddings:
            vectors = unit_vectors(vectors)
        found = vectors[0] if isinstance(texts, str) else vectors
        return torch.from_numpy(found).to(self.device) if convert_to_tensor else found

    def encode_query(self, texts: str | Sequence[str], **options: Any) -> Any:
        """`encode` with the prompt named `query`, or without a prompt if the checkpoint has none of that name."""
        return self.encode(texts, **self._for_role(QUERY, options))

    def encode_document(self, texts: str | Sequence[str], **options: Any) -> Any:
        """`encode` with the prompt named `document`, `passage` or `corpus`, or without a prompt if there is none."""
        return self.encode(texts, **self._for_role(DOCUMENT, options))

    def encode_stream(
        self,
        items: Iterable[Item],
        texts_of: Callable[[Item], Sequence[str]] = lambda item: item,  # type: ignore[assignment, return-value]
    ) -> Iterator[tuple[Item, Vectors]]:
        """Yield each item with the unit vectors `[n, d]` of its texts, encoded as documents.

        The next item is read and tokenized in a thread while the model encodes.

        Args:
            items: lists of texts, or any objects for which `texts_of` is given.
            texts_of: returns the texts of an item.

        Raises:
            InputError: the model gives a zero vector, which cannot be normalized.
        """
        prompt = role_prompt(self.checkpoint.prompts, DOCUMENT)
        tokenized = ((item, self._tokenize(list(texts_of(item)), prompt)) for item in items)
        for item, rows in prefetch(tokenized):
            yield item, unit_vectors(self._vectors(rows, prompt), of=self.name)

    def prompt_text(self, name: str | None = None) -> str:
        """The text of the prompt with this name; by default of the checkpoint's default prompt.

        Raises:
            InputError: there is no such prompt.
        """
        return self._prompt(name, None)

    def token_rows(self, texts: Sequence[str], prompt: str = "", max_length: int | None = None) -> list[list[int]]:
        """Token ids of each text, special tokens and the prompt included, for `encode_rows`.

        Args:
            texts: the texts.
            prompt: put before each text.
            max_length: maximum number of tokens; by default that of the encoder.

        Raises:
            InputError: a text is not a string.
        """
        return self._tokenize(list(texts), prompt, max_length)

    def truncated(self, texts: Sequence[str], rows: Sequence[Sequence[int]], prompt: str = "") -> list[int]:
        """Positions of the texts that have more tokens than their `token_rows`, which end at `max_length`.

        Example:
            >>> encoder = SentenceEncoder(max_length=3)
            >>> texts = ["one two three", "one two three four"]
            >>> encoder.truncated(texts, encoder.token_rows(texts))
            [1]
        """
        longest = self.max_length
        full = [] if longest is None else [i for i, row in enumerate(rows) if len(row) >= longest]
        again = self._tokenize([texts[i] for i in full], prompt, (longest or 0) + 1) if full else []
        return [i for i, row in zip(full, again, strict=True) if len(row) > (longest or 0)]

    def encode_rows(self, rows: Sequence[Sequence[int]], prompt: str = "") -> Vectors:
        """Embeddings `[len(rows), d]` of token ids.

        Args:
            rows: the result of `token_rows`.
            prompt: the prompt that the rows begin with; it is not pooled if the checkpoint has `include_prompt` false.

        Raises:
            InputError: the model gives NaN or infinite numbers.
        """
        return self._vectors(list(map(list, rows)), prompt)

    def encode_buckets(self, buckets: Iterable[tuple[Sequence[Sequence[int]], str] | None]) -> Iterator[Vectors]:
        """Embeddings `[n, d]` of each bucket of a stream; the next buckets are read while one is computed.

        So a server computes without a pause, whatever comes meanwhile.

        Args:
            buckets: rows of about the same length, as `bucket_rows` with `bucket_limits` makes them, and the prompt
                that they begin with, for `encode_rows`. None in the stream says that no bucket waits at this moment:
                the next vectors come before it is asked again.

        Raises:
            InputError: the model gives NaN or infinite numbers.

        Example:
            >>> [vectors.shape for vectors in SentenceEncoder().encode_buckets([([[5, 6], [7, 8]], ""), ([[9]], "")])]
            [(2, 256), (1, 256)]
        """
        stream = iter(buckets)
        first = list(islice(stream, 1))

        @torch.inference_mode()
        def forward(bucket: tuple[Sequence[Sequence[int]], str]) -> Tensor:
            rows, prompt = [list(row) for row in bucket[0]], bucket[1]
            longest = max(map(len, rows))
            width = padded_widths(np.array([longest]), self.max_length or longest)
            return self._forward(rows, self._unpooled(prompt), int(width[0]))

        tokens = sum(len(row) for bucket in first if bucket for row in bucket[0])
        with self._ready(None, many=tokens > _FEW_TOKENS):
            for found in self._computed(forward, chain(first, stream)):
                yield self._finite(np.asarray(found.cpu().numpy()))

    def similarity(self, a: Any, b: Any) -> NDArray[np.float32]:
        """Similarities `[len(a), len(b)]` of texts or vectors: cosines, unless the checkpoint records another kind."""
        kind = getattr(self.model.config, "similarity", None) or self.checkpoint.similarity
        if kind not in SIMILARITIES:
            raise InputError(f"unknown similarity {kind!r}; choose one of {', '.join(SIMILARITIES)}")
        first, second = (torch.atleast_2d(self._as_vectors(x)).float().cpu() for x in (a, b))
        return np.asarray(SIMILARITIES[kind](first, second).numpy(), dtype=np.float32)

    # ------------------------------------------------------------------ properties

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return torch.device(self.model.device)

    @property
    def dimension(self) -> int:
        """Dimension of the vectors."""
        return int(self.encode("a").shape[-1])

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens of the tokenizer for which the model has a vector; their ids are smaller."""
        config: Any = getattr(self.model, "config", None)
        rows = getattr(config and config.get_text_config(), "vocab_size", None)
        return min(len(self.tokenizer), rows) if isinstance(rows, int) else len(self.tokenizer)

    @property
    def bucket_limits(self) -> dict[str, float]:
        """Options of `bucket_rows` for a forward pass on this device."""
        return dict(_BUCKETS["cpu" if self.device.type == "cpu" else "cuda"])

    @property
    def prompts(self) -> dict[str, str]:
        """The prompts that the checkpoint records, by name."""
        return dict(self.checkpoint.prompts)

    @property
    def pooling(self) -> str:
        """The pooling: one of `POOLINGS`, or a description for a model with a pooling of its own."""
        settings = getattr(self.model.config, "contrastive", {})
        if settings.get("pooling") == "cls" and settings.get("mlp_only_train"):
            return "cls_before_pooler"
        return str(getattr(self.model, "pooling", None) or settings.get("pooling", "the model's own"))

    @property
    def fingerprint(self) -> str:
        """A hash (32 hexadecimal digits) of everything that decides the vectors, except the precision."""
        prompts = sorted((name, prompt) for name, prompt in self.checkpoint.prompts.items() if prompt)
        others = (prompts, self.checkpoint.include_prompt) if prompts else ()
        prompt = self._prompt(None, None)
        after = map(str, getattr(self.model, "after", ()))
        decides = (self.pooling, self.max_length, self.checkpoint.truncate_dim, prompt, *after, *others)
        return self._fingerprint or model_hash(self.model.state_dict(), self.tokenizer, *decides)

    def __repr__(self) -> str:
        kind = type(self.model).__name__
        return (
            f"SentenceEncoder({self.name!r}, {kind}, pooling={self.pooling!r}, max_length={self.max_length}, "
            f"precision={self.precision!r}, device={str(self.device)!r})"
        )

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder that opens here, in sentence-transformers and in transformers, with the same vectors."""
        folder = Path(folder)
        if isinstance(self.model, _Modules):
            self.model.source.save_pretrained(str(folder))
            return
        if isinstance(self.model, PooledModel):
            self.model.backbone.save_pretrained(folder)
            write_sentence_transformers(self.model, folder)
        elif isinstance(self.model, EncoderForCL):
            self.model.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)
            return
        else:
            self.model.save_pretrained(folder)
        tokenizer = copy.copy(self.tokenizer)
        tokenizer.model_max_length = self.max_length or tokenizer.model_max_length
        tokenizer.save_pretrained(folder)
        write_use(folder, self.checkpoint)

    def push_to_hub(self, repo_id: str, *, private: bool = False, token: str | None = None) -> str:
        """Save to a repository of the Hub, which is created if needed; returns its address.

        `contrastive-st push` also adds a model card, and checks for content that should not be published.
        """
        from huggingface_hub import HfApi

        api = HfApi(token=token)
        with tempfile.TemporaryDirectory() as folder, hub_errors(repo_id):
            self.save_pretrained(folder)
            url = api.create_repo(repo_id, private=private, exist_ok=True)
            api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message="Add the sentence encoder")
        return str(url)

    # ------------------------------------------------------------------ opening

    def _open(
        self,
        name: str | Path,
        device: Any,
        pooling: str | None,
        runs: tuple[str | None, str],
        revision: str | None,
        hub: dict[str, Any],
    ) -> None:
        found = Checkpoint.find(name, revision, **hub)
        self.checkpoint = found
        self.folder = found.folder if is_local(name) else None
        self.name = found.name if self.folder is None else found.folder.resolve().name
        if backend := backend_of(found.folder, runs[0], name):
            if str(device or "cpu") != "cpu" or pooling not in (None, found.pooling):
                raise InputError(f"{name} is exported: it runs on the cpu with pooling {found.pooling}; give no other")
            if self.folder is None:  # the graph is downloaded too
                found = Checkpoint.find(name, revision, **{**hub, "patterns": (*ENCODER, f"{backend}/*")})
            self.model, self.tokenizer = GraphModel(found, runs[1]), load_tokenizer(found)
            self._fingerprint = self.model.fingerprint
            return
        device = _usable(device)
        if found.foreign and pooling is None:
            self._wrap(_sentence_transformer(found, device))
            return
        self.model = open_trained(found, pooling).to(device).eval()
        self.tokenizer = load_tokenizer(found)
        if getattr(self.model, "is_table", False):
            self.tokenizer.model_max_length = 1 << 30  # other loaders of static models do not truncate
            if found.is_bare:
                self._fingerprint = StaticVectors.from_pretrained(found.folder).fingerprint

    def _wrap(self, model: Any) -> None:
        """Use a `SentenceTransformer` as the model."""
        self.model, self.tokenizer, self.name = _Modules(model), model.tokenizer, "model"
        self.checkpoint = Checkpoint.in_memory(
            include_prompt=all(getattr(module, "include_prompt", True) for module in model),
            max_length=model.max_seq_length, prompts=dict(model.prompts),
            default_prompt_name=model.default_prompt_name, truncate_dim=model.truncate_dim,
            similarity=str(model.similarity_fn_name or "cosine"),
        )  # fmt: skip

    def _length(self, asked: int | None) -> int | None:
        """Maximum number of tokens of a text; None if there is no limit."""
        asked = asked or self.checkpoint.max_length or self.tokenizer.model_max_length
        length = min(asked, max_positions(self.model.config))
        before, after, _ = getattr(self.model.config, "contrastive", {}).get("template") or (0, 0, 0)
        if length <= before + after > 0:
            raise InputError(f"max_length {length} leaves no room besides the {before + after} tokens of the template")
        return int(length) if length < 1 << 29 else None

    # ------------------------------------------------------------------ encoding

    def _prompt(self, name: str | None, prompt: str | None) -> str:
        if prompt is not None:
            return prompt
        name = name or self.checkpoint.default_prompt_name
        if name is None:
            return ""
        if name not in self.checkpoint.prompts:
            raise InputError(
                f"{self.name} has no prompt {name!r}; it has {', '.join(self.checkpoint.prompts) or 'none'}"
            )
        return self.checkpoint.prompts[name]

    def _for_role(self, names: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
        asked = any(options.get(name) is not None for name in ("prompt", "prompt_name"))
        return options if asked else {**options, "prompt": role_prompt(self.checkpoint.prompts, names)}

    def _tokenize(self, texts: list[str], prompt: str, max_length: int | None = None) -> list[list[int]]:
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"text {number} is of the type {type(text).__name__}; give strings")
        with _TOKENIZING:
            longest = max_length or self.max_length or 1 << 30
            return token_ids(self.tokenizer, [prompt + text for text in texts], longest)

    @torch.inference_mode()
    def _vectors(
        self,
        rows: list[list[int]],
        prompt: str = "",
        limits: dict[str, int | None] | None = None,
        dtype: torch.dtype | None = None,
        done: Callable[[int], object] = lambda count: None,
    ) -> Vectors:
        if not rows:
            return np.empty((0, self.dimension), dtype=np.float32)
        before = self._unpooled(prompt)
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        own = {name: limit for name, limit in (limits or {}).items() if limit is not None}
        widths = padded_widths(lengths, self.max_length or int(lengths.max()))
        buckets = bucket_rows(lengths, **(self.bucket_limits | own))  # type: ignore[arg-type]
        forward = lambda bucket: self._forward([rows[i] for i in bucket], before, int(widths[bucket[0]]))
        output: Vectors | None = None
        with self._ready(dtype, many=bool(lengths.sum() > _FEW_TOKENS)):
            for bucket, found in zip(buckets, self._computed(forward, buckets), strict=True):
                vectors = np.asarray(found.cpu().numpy())
                output = np.empty((len(rows), vectors.shape[1]), dtype=np.float32) if output is None else output
                output[bucket] = vectors
                done(len(bucket))
        assert output is not None
        return self._finite(output)

    def _computed(self, forward: Callable[[Item], Tensor], buckets: Iterable[Item | None]) -> Iterator[Tensor]:
        """`map(forward, buckets)`, as this device computes several buckets fastest."""
        return (on_cores if self._on_cores else _one_ahead)(forward, buckets)

    @property
    def _on_cores(self) -> bool:
        return self.device.type == "cpu" and not isinstance(self.model, GraphModel)

    @property
    def parallel_buckets(self) -> int:
        """Number of buckets that are computed at the same time."""
        return torch.get_num_threads() if self._on_cores else 1

    def _unpooled(self, prompt: str) -> int:
        """Number of tokens at the start of each row that are not pooled."""
        if not prompt or self.checkpoint.include_prompt:
            return 0
        with _TOKENIZING:
            return prompt_length(self.tokenizer, prompt, self.max_length or 1 << 30)

    def _finite(self, vectors: Vectors) -> Vectors:
        if not np.isfinite(vectors).all():
            raise InputError(f"{self.name} gives NaN or infinite vectors; did training diverge?")
        return vectors[:, : self.checkpoint.truncate_dim]

    def _forward(self, rows: list[list[int]], before: int, width: int) -> Tensor:
        padded = pad_rows(rows, self.tokenizer.pad_token_id, least=width)
        ids, mask = (x.to(self.device, non_blocking=True) for x in padded)
        text: dict[str, Any] = (
            {"text_mask": mask * (torch.arange(mask.shape[1], device=mask.device) >= before)} if before else {}
        )
        if self.device.type != "cpu" and getattr(self.model, "takes_lengths", False):  # or the host would wait for them
            text["lengths"] = np.array([len(row) for row in rows], dtype=np.int64)
        try:
            vectors: Tensor = sentence_vectors(self.model(ids, attention_mask=mask, **text))
        except IndexError as error:
            if (greatest := max(map(max, rows))) < self.vocabulary_size:
                raise
            token = str(self.tokenizer.convert_ids_to_tokens(greatest))[:40]
            raise InputError(
                f"{self.name} has no vector for the token {token!r}, which was added to its tokenizer; resize the "
                "table and train it, or remove the token"
            ) from error
        return vectors.float()

    @contextlib.contextmanager
    def _ready(self, dtype: torch.dtype | None, many: bool) -> Iterator[None]:
        """Put the model into evaluation mode with fast products, and back afterwards; only for one caller at a time."""
        with _TURNS.setdefault(self.model, threading.Lock()):
            was_training = self.model.training
            self.model.eval()
            half = dtype is not None and dtype != torch.float32
            try:
                with (
                    torch.autocast(self.device.type, dtype) if half else contextlib.nullcontext(),
                    packed_products(self.model) if many and not half else contextlib.nullcontext(),
                ):
                    yield
            finally:
                self.model.train(was_training)

    def _as_vectors(self, x: Any) -> Tensor:
        if isinstance(x, str) or (isinstance(x, Sequence) and all(isinstance(text, str) for text in x)):
            x = self.encode(x)
        return x if isinstance(x, Tensor) else torch.from_numpy(np.asarray(x, dtype=np.float32))


def _one_ahead(work: Callable[[Item], Result], items: Iterable[Item | None]) -> Iterator[Result]:
    """`map(work, items)`, one item behind: a GPU computes the next one while the host reads the result of this.

    None is as for `on_cores`.
    """
    started: deque[Result] = deque()
    for item in items:
        if item is not None:
            started.append(work(item))
        if len(started) > (item is not None):
            yield started.popleft()
    yield from started


def _usable(asked: str | torch.device | None) -> torch.device:
    """The device that is asked for, by default the GPU of this process if there is one.

    Raises:
        InputError: torch does not know or find the device.
    """
    gpu = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    device = asked or (gpu if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=device).device
    except (AssertionError, RuntimeError, NotImplementedError) as error:
        raise InputError(f"device {device}: {first_line(error)}; leave it out for one that is there") from error


class _Modules(nn.Module):
    """The modules of a `SentenceTransformer` as a model with `pooler_output`."""

    def __init__(self, source: Any) -> None:
        super().__init__()
        self.source, self.config = source, source[0].auto_model.config
        modes = [getattr(module, "pooling_mode", None) for module in source]
        self.pooling = next((mode for mode in modes if isinstance(mode, str)), "sentence-transformers' own")

    @property
    def device(self) -> Any:
        return self.source.device

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, text_mask: Tensor | None = None
    ) -> BaseModelOutputWithPooling:
        rows: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask}
        if text_mask is not None:
            rows["prompt_length"] = int((attention_mask - text_mask).sum(1).max())
        features = self.source(rows)
        return BaseModelOutputWithPooling(pooler_output=features["sentence_embedding"])


def _sentence_transformer(found: Checkpoint, device: torch.device) -> Any:
    """Open a folder that only sentence-transformers can run; pickles and remote code are refused."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise InputError(
            f"{found.name} has modules that only sentence-transformers runs ({', '.join(found.foreign)}); "
            "pip install sentence-transformers"
        ) from None
    for place in {path.parent for path in found.folder.rglob("*.bin")} | {found.model}:
        check_weights(place, found.name)
    if any(asks_for_code(path) for path in found.folder.rglob("config.json")):
        raise InputError(
            f"{found.name} asks for an implementation (attn_implementation) in config.json; remove it there"
        )
    try:
        model = SentenceTransformer(str(found.folder), device=str(device), trust_remote_code=False)
    except Exception as error:  # damaged files raise errors of any type
        raise InputError(f"sentence-transformers cannot open {found.name}: {first_line(error)}") from error
    if not hasattr(model[0], "auto_model"):
        raise unknown_pooling(found)
    return model


def model_hash(weights: dict[str, Tensor], tokenizer: Any, *settings: object) -> str:
    """A hash (32 hexadecimal digits) of the weights, the tokenizer and the settings that decide an embedding."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    content = json.loads(backend.to_str()) if backend is not None else tokenizer.get_vocab()
    content |= {"truncation": None, "padding": None}  # these change when it is used
    digest.update(json.dumps([content, *map(str, settings)], sort_keys=True).encode())
    return digest.hexdigest()
