"""`SentenceEncoder`, which encodes texts to vectors with a model and its tokenizer."""

from __future__ import annotations

import copy
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrastive_st.buckets import Pass
from contrastive_st.device import ALL_CODES, DEVICE, MODEL_PRECISIONS
from contrastive_st.errors import InputError, choice
from contrastive_st.files.folders import ENCODER, HUB_OPTIONS, SHIPPED, default_model, folder_name
from contrastive_st.files.reading import JsonObject, read_json
from contrastive_st.files.writing import replace_model
from contrastive_st.models.checkpoint import BACKENDS, Checkpoint, export_command, wrong_backend
from contrastive_st.models.read_back import check_read_back
from contrastive_st.options import PROMPTS, Count, checked
from contrastive_st.prefetch import prefetch
from contrastive_st.static_vectors import StaticVectors, known
from contrastive_st.terminal import progress
from contrastive_st.tokens import DOCUMENT, QUERY, list_of_texts, role_prompt, texts_or_vectors
from contrastive_st.vectors import PAIRWISE, SIMILARITIES, check_finite, check_widths, quantize, unit_vectors

if TYPE_CHECKING:  # torch and transformers are imported where they are needed: static models are encoded without
    from typing import Literal, Self, TypeAlias, TypedDict, Unpack

    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from contrastive_st.models.base import ForCL
    from contrastive_st.models.graph import FileTokenizer, GraphVectors
    from contrastive_st.models.running import Running
    from contrastive_st.models.static_encoder import StaticEncoder

    Engine: TypeAlias = "StaticVectors | GraphVectors | Running"
    Encoded: TypeAlias = "np.ndarray | torch.Tensor | list[torch.Tensor]"

    class Options(TypedDict, total=False):
        """Arguments of `SentenceEncoder.encode`."""

        prompt_name: str | None
        prompt: str | None
        batch_size: int | None
        show_progress_bar: bool | None
        precision: str
        device: str | torch.device | None
        normalize_embeddings: bool
        truncate_dim: int | None
        batch_tokens: int | None
        dtype: torch.dtype | None

    class ForArrays(Options, total=False):
        """Those with which it returns an array."""

        output_value: Literal["sentence_embedding"]
        convert_to_numpy: Literal[True]
        convert_to_tensor: Literal[False]

    class ForAll(Options, total=False):
        """Those with which it may return tensors."""

        output_value: str
        convert_to_numpy: bool
        convert_to_tensor: bool


Item = TypeVar("Item")
Vectors = NDArray[np.float32]
Texts = str | Sequence[str]
Compared = Texts | ArrayLike  # texts or vectors


class SentenceEncoder:
    """Encodes texts to vectors with a checkpoint (a folder or Hub name) or with a model in memory.

    Pooling, dense layers, normalization, maximum length, prompts and `truncate_dim` are those that the checkpoint
    records: in `config.contrastive` of this package, else in `modules.json` of sentence-transformers. They are
    attributes under the names of sentence-transformers, and may be set: `max_seq_length` (or `max_length`),
    `truncate_dim`, `prompts`, `default_prompt_name`, `similarity_fn_name`, `tokenizer`. An attribute that an encoder
    does not have cannot be set. Threads may share an encoder, and encoders may share a model.

    Args:
        model: folder or Hub name; a model with `forward(input_ids, attention_mask).pooler_output`, which is used in
            evaluation mode and afterwards returned to its previous mode; a `SentenceTransformer`; a torch module that
            returns vectors `[N, d]` (see `EncoderForCL`); a `StaticVectors`; or a `SentenceEncoder`. By default
            `default_model()`: the static model that comes with the package.
        tokenizer: tokenizer of a model in memory; texts are cut to `tokenizer.model_max_length`, as in training.
        device: where to run a model opened by name; by default the GPU of this process if there is one, and the CPU
            for a static model, which is then encoded without torch.
        pooling: one of `contrastive_st.models.POOLINGS`, in place of the recorded one; needed if none is recorded.
        max_length: maximum number of tokens of a text; by default that of the checkpoint.
        precision: precision of weights and activations: `fp32`; `bf16`, with cosines to float32 above 0.999; `int8`,
            for folders written by `contrastive-st export --int8`; or `auto`, bf16 if the hardware is faster with it.
            Weights in half precision stay so; the attribute says in what the model runs.
        backend: `torch`, `onnx` or `openvino`; by default that of the folder (see `contrastive-st export`).
        truncate_dim: keep only the first dimensions, this many (for a Matryoshka model).
        prompts: prompts by name, besides those of the checkpoint or in their place.
        default_prompt_name: the prompt that `encode` puts before every text; by default that of the checkpoint.
        similarity_fn_name: how `similarity` compares two vectors; by default that of the checkpoint.
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

    __slots__ = (
        "__weakref__", "_fingerprint", "_max_length", "_model", "_rounded", "_static", "_tokenizer", "asked_pooling",
        "checkpoint", "folder", "name", "precision",
    )  # fmt: skip
    folder: Path | None
    name: str
    asked_pooling: str | None  # in place of the recorded one: by its name alone it is not opened with that again
    checkpoint: Checkpoint
    _model: ForCL | GraphVectors | None  # None for a static model, until its torch model is asked for
    _static: StaticVectors | None
    _tokenizer: PreTrainedTokenizerBase | FileTokenizer | None
    _fingerprint: str | None
    _rounded: str | None  # the precision for which the weights were rounded: "bf16" or "auto"

    def __init__(
        self,
        model: object = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        *,
        device: str | torch.device | None = None,
        pooling: str | None = None,
        max_length: int | None = None,
        precision: str = "fp32",
        truncate_dim: int | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
        similarity_fn_name: str | None = None,
        backend: str | None = None,
        revision: str | None = None,
        token: str | None = None,
        name: str | None = None,
        **hub: Any,
    ) -> None:
        choice("precision", precision, MODEL_PRECISIONS)
        choice("backend", backend or "torch", ("torch", *BACKENDS))
        if unknown := hub.keys() - {*HUB_OPTIONS}:
            raise TypeError(f"SentenceEncoder() got an unexpected keyword argument {min(unknown)!r}")
        model = default_model() if model is None else model
        self.folder, self.name, self._model, self._static = None, "model", None, None
        self._fingerprint, self._tokenizer, self._rounded, self.asked_pooling = None, None, None, None
        if isinstance(model, (str, Path)):
            self.checkpoint = Checkpoint.find(model, revision, token=token, **hub)
            if backend not in (None, self.checkpoint.exported or "torch"):
                raise wrong_backend(self.checkpoint, str(backend))
            local = Path(model).is_dir() or str(model) == SHIPPED.name
            self.folder = self.checkpoint.folder if local else None
            self.name = folder_name(self.checkpoint.folder) if local else self.checkpoint.name
            if self.checkpoint.exported and not local:  # the graph is downloaded too
                patterns = (*ENCODER, f"{self.checkpoint.exported}/*")
                self.checkpoint = Checkpoint.find(model, revision, token=token, **{**hub, "patterns": patterns})
            self.asked_pooling = None if pooling == self.checkpoint.pooling else pooling
            self._open(device, pooling, precision)
        else:
            self._hold(model, tokenizer)
            if pooling not in (None, self.pooling):
                raise InputError(f"the model has pooling {self.pooling}; to choose {pooling}, open a folder or name")
        self.name = name or self.name
        if max_length is not None or not isinstance(model, SentenceEncoder):
            self.max_length = max_length
        settings = {
            "prompts": None if prompts is None else {**self.prompts, **prompts}, "truncate_dim": truncate_dim,
            "default_prompt_name": default_prompt_name, "similarity_fn_name": similarity_fn_name,
        }  # fmt: skip
        for attribute, value in settings.items():
            if value is not None:
                setattr(self, attribute, value)
        self.precision, rounded = self._running.precision(precision)
        if precision == "int8" and self.precision != "int8":
            raise InputError(f"{self.name} is not in int8; run {export_command(self.name, 'openvino --int8')}")
        if rounded:
            self._fingerprint = self.fingerprint  # of the weights before they are rounded
            self._rounded = precision
            copied = self.model if isinstance(model, (str, Path)) else copy.deepcopy(self.model)  # not the caller's
            self.model = copied.bfloat16()

    def _hold(self, model: object, tokenizer: PreTrainedTokenizerBase | None) -> None:
        """Take what the caller opened: an encoder, the table of a static model, or a model with its tokenizer."""
        if isinstance(model, SentenceEncoder):
            for slot in self.__slots__[1:]:
                setattr(self, slot, getattr(model, slot))
        elif isinstance(model, StaticVectors):
            self.folder, self.name = model.folder, model.name
            self.checkpoint, self._static = Checkpoint.in_memory(), copy.copy(model)
        else:
            from contrastive_st.models.running import in_memory

            self._model, self._tokenizer, self.checkpoint = in_memory(model, tokenizer)

    def _open(self, device: str | torch.device | None, pooling: str | None, precision: str) -> None:
        """Open what runs the checkpoint: its exported graph, its table with numpy, or its model with torch.

        Raises:
            InputError: as for `SentenceEncoder`.
        """
        checkpoint, asked = self.checkpoint, device or os.environ.get(DEVICE)
        if checkpoint.exported:
            self._open_graph(asked, pooling, precision)
            return
        plain = pooling is None and checkpoint.max_length is None and checkpoint.adapter is None
        if checkpoint.is_table and plain and not checkpoint.lower_case and checkpoint.include_prompt:
            path = checkpoint.tokenizer / "tokenizer_config.json"
            length = read_json(path, dict).get("model_max_length", 1) if path.is_file() else 1
            if isinstance(length, int | float) and length >= 1:  # else torch says what is wrong, or can open it
                with suppress(InputError):
                    vectors = StaticVectors.from_pretrained(checkpoint.folder)
                    if not (checkpoint.settings_hold and vectors.tokenizer.num_special_tokens_to_add(is_pair=False)):
                        self._static = vectors
        if self._static is None:
            self._open_in_torch(device, pooling)
        elif asked:
            self.to(asked)

    def _open_graph(self, asked: object, pooling: str | None, precision: str) -> None:
        checkpoint = self.checkpoint
        if str(asked or "cpu") != "cpu" or pooling not in (None, checkpoint.pooling):
            raise InputError(
                f"{checkpoint.name} is an exported model, which runs only on the cpu with pooling {checkpoint.pooling}"
            )
        from contrastive_st.models.graph import GraphVectors

        self._model = GraphVectors(checkpoint, precision)
        self._tokenizer, self._fingerprint = self._model.tokenizer, self._model.fingerprint

    def _open_in_torch(self, device: str | torch.device | None, pooling: str | None) -> None:
        from contrastive_st.models.auto import opened
        from contrastive_st.models.running import usable, with_sentence_transformers

        checkpoint, chosen = self.checkpoint, usable(device)
        if checkpoint.foreign and pooling is None and not checkpoint.is_refused:
            self._model, self._tokenizer, self.checkpoint = with_sentence_transformers(checkpoint, chosen)
        else:
            self._model, self._tokenizer = opened(checkpoint, chosen, pooling)
        if checkpoint.is_table and checkpoint.truncate_dim is None and not any(checkpoint.prompts.values()):
            # the fingerprint is that of the same folder without torch
            self._fingerprint = StaticVectors.from_pretrained(checkpoint.folder).fingerprint

    @classmethod
    def from_pretrained(cls, name: str | Path, device: str | torch.device | None = None, **options: Any) -> Self:
        """The same as `SentenceEncoder(name, device=device, ...)`, under the name used in transformers.

        Args:
            name: folder or Hub name.
            device: where to run the model.
            options: other arguments of `SentenceEncoder`.

        Returns:
            The encoder.
        """
        return cls(name, device=device, **options)

    # ------------------------------------------------------------------ texts to vectors

    @overload
    def encode(self, texts: Texts, **options: Unpack[ForArrays]) -> np.ndarray: ...

    @overload
    def encode(self, texts: Texts, **options: Unpack[ForAll]) -> Encoded: ...

    def encode(
        self,
        texts: Texts,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        output_value: str = "sentence_embedding",
        precision: str = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: str | torch.device | None = None,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        *,
        batch_tokens: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> Encoded:
        """Encode texts to float32 embeddings: `[d]` for a string, `[len(texts), d]` for a list, in the same order.

        Args:
            texts: a text, or a list, column, array or generator of them; an empty one is encoded as its special tokens.
            prompt_name: which of `prompts` to put before each text; by default `default_prompt_name`.
            prompt: a prompt to put before each text, instead of a named one.
            batch_size: most texts in a forward pass.
            show_progress_bar: show the rate and the time left.
            output_value: `sentence_embedding`; or `token_embeddings`, for a tensor `[tokens, width]` of each text: the
                states before they are pooled.
            precision: `float32`, or codes of one byte or bit per dimension: `int8`, `uint8`, `binary`, `ubinary`. int8
                and uint8 divide the range of these embeddings (`contrastive_st.vectors.quantize` takes other ranges).
            convert_to_numpy: False returns a list of tensors instead of an array.
            convert_to_tensor: return a tensor on the model's device instead of an array.
            device: move the model to this device first.
            normalize_embeddings: return unit vectors.
            truncate_dim: keep only the first dimensions, this many, in place of `truncate_dim` of the encoder.
            batch_tokens: most tokens in a forward pass, padding included.
            dtype: `torch.bfloat16` runs the matrix products of float32 weights under autocast in bfloat16.

        Returns:
            Float32 `[d]` or `[len(texts), d]`: an array, a tensor or a list of tensors. With codes of a byte per
            dimension int8 or uint8 of the same shape, with codes of a bit bytes `[len(texts), ceil(d / 8)]`.

        Raises:
            InputError: a text is not a string, the prompt does not exist, or the model gives NaN or infinite numbers.
        """
        items, _ = list_of_texts(texts), choice("precision", precision, ALL_CODES)
        if device is not None:
            self.to(device)  # as sentence-transformers, which keeps it there
        prompt = self.prompt_text(prompt_name) if prompt is None else prompt
        sizes = {"batch_size": batch_size, "batch_tokens": batch_tokens, "truncate_dim": truncate_dim}
        for name, size in sizes.items():
            if size is not None:
                checked(name, size, Count)
        asked = {"max_rows": batch_size, "min_tokens": batch_tokens and batch_tokens // 2, "max_tokens": batch_tokens}
        limits = {name: limit for name, limit in asked.items() if limit is not None}
        choice("output_value", output_value, ("sentence_embedding", "token_embeddings"))
        with progress(len(items)) if show_progress_bar else nullcontext(lambda count: None) as done:
            run = Pass(limits, dtype, done)
            if output_value == "token_embeddings":
                if (precision, normalize_embeddings, truncate_dim) != ("float32", False, None):
                    what = "precision, normalize_embeddings and truncate_dim"
                    raise InputError(f"token_embeddings are returned unchanged; leave out {what}")
                states = self._torch.token_vectors(self._tokenize(items, prompt), run)
                return states[0] if isinstance(texts, str) else states
            if items:
                before = self._unpooled(prompt) if prompt else 0
                result = self._running.of_texts(items, self._max_length, before, run, prompt)
                vectors = check_finite(result, self.name)[:, : truncate_dim or self.checkpoint.truncate_dim]
            else:
                vectors = np.empty((0, self.dimension), np.float32)[:, :truncate_dim]
        vectors = unit_vectors(vectors) if normalize_embeddings else vectors
        codes = vectors if precision == "float32" else quantize(vectors, precision)  # which would copy them
        if convert_to_numpy and not convert_to_tensor:
            return codes[0] if isinstance(texts, str) else codes
        import torch

        tensor = torch.from_numpy(codes).to(self.device)
        return tensor[0] if isinstance(texts, str) else tensor if convert_to_tensor else list(tensor)

    @overload
    def encode_query(self, texts: Texts, **options: Unpack[ForArrays]) -> np.ndarray: ...

    @overload
    def encode_query(self, texts: Texts, **options: Unpack[ForAll]) -> Encoded: ...

    def encode_query(self, texts: Texts, **options: Any) -> Encoded:
        """`encode` with the prompt named `query`, or without a prompt if the checkpoint has none of that name.

        Args:
            texts: as for `encode`.
            options: other arguments of `encode`; a prompt among them replaces that of the role.

        Returns:
            As `encode`.
        """
        return self.encode(texts, **self._for_role(QUERY, options))

    @overload
    def encode_document(self, texts: Texts, **options: Unpack[ForArrays]) -> np.ndarray: ...

    @overload
    def encode_document(self, texts: Texts, **options: Unpack[ForAll]) -> Encoded: ...

    def encode_document(self, texts: Texts, **options: Any) -> Encoded:
        """`encode` with the prompt named `document`, `passage` or `corpus`, or without a prompt if there is none.

        Args:
            texts: as for `encode`.
            options: other arguments of `encode`; a prompt among them replaces that of the role.

        Returns:
            As `encode`.
        """
        return self.encode(texts, **self._for_role(DOCUMENT, options))

    def encode_stream(
        self,
        items: Iterable[Item],
        texts_of: Callable[[Item], Sequence[str]] = lambda item: item,  # type: ignore[assignment, return-value]
        longer: Callable[[Item, list[int]], None] | None = None,
    ) -> Iterator[tuple[Item, Vectors]]:
        """Yield each item with the unit vectors `[n, d]` of its texts, encoded as documents.

        The next item is read and tokenized in a thread while the model encodes.

        Args:
            items: lists of texts, or any objects for which `texts_of` is given.
            texts_of: returns the texts of an item. One of which the model knows no token (see `knows`) gets zeros.
            longer: called with an item and the positions of its texts that are longer than `max_length`.

        Returns:
            An iterator of items, each with float32 vectors `[n, d]`.

        Raises:
            InputError: a text is not a string, or the model gives NaN or infinite numbers.
        """
        prompt = role_prompt(self.checkpoint.prompts, DOCUMENT)

        def tokenized() -> Iterator[tuple[Item, list[list[int]]]]:
            for item in items:
                texts = list_of_texts(texts_of(item))
                rows = self._tokenize(texts, prompt)
                if longer is not None:
                    longer(item, self.truncated(texts, rows, prompt))
                yield item, rows

        for item, rows in prefetch(tokenized()):
            vectors = unit_vectors(self._vectors(rows, prompt)[:, : self.truncate_dim])
            vectors[~self.known_rows(rows, prompt)] = 0
            yield item, vectors

    def knows(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Which texts have a token that the model knows, bool `[len(texts)]`.

        The vector of any other text says nothing of it: all such texts have the same one, or one that depends on their
        lengths alone.

        Example:
            >>> SentenceEncoder().knows(["a cat", "\U0001f600"]).tolist()
            [True, False]
        """
        return self.known_rows(self._tokenize(list_of_texts(texts), ""))

    def prompt_text(self, name: str | None = None) -> str:
        """The text of the prompt with this name; by default of the checkpoint's default prompt.

        Raises:
            InputError: there is no such prompt.
        """
        name = name or self.checkpoint.default_prompt_name
        return "" if name is None else self.checkpoint.prompts[choice("prompt", name, self.prompts, self.name)]

    def token_rows(self, texts: Sequence[str], prompt: str = "", max_length: int | None = None) -> list[list[int]]:
        """Token ids of each text, special tokens and the prompt included, for `encode_rows`.

        Args:
            texts: the texts.
            prompt: put before each text.
            max_length: maximum number of tokens; by default that of the encoder.

        Returns:
            A list of token ids for each text.

        Raises:
            InputError: a text is not a string.
        """
        return self._tokenize(list_of_texts(texts), prompt, max_length)

    def truncated(self, texts: Sequence[str], rows: Sequence[Sequence[int]], prompt: str = "") -> list[int]:
        """Positions of the texts that have more tokens than their `token_rows`, which end at `max_length`.

        Args:
            texts: the texts.
            rows: their `token_rows`.
            prompt: the prompt that the rows begin with.

        Returns:
            Positions in `texts`, ascending.

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

        Returns:
            Float32 vectors `[len(rows), d]`.

        Raises:
            InputError: the model gives NaN or infinite numbers.
        """
        return self._vectors(list(map(list, rows)), prompt)[:, : self.truncate_dim]

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
        result = self._running.stream(bucket and (bucket[0], self._unpooled(bucket[1])) for bucket in buckets)
        yield from (check_finite(vectors, self.name)[:, : self.truncate_dim] for vectors in result)

    def similarity(self, a: Compared | torch.Tensor, b: Compared | torch.Tensor) -> NDArray[np.float32]:
        """Similarities of texts or vectors: cosines, unless the checkpoint records another kind.

        Args:
            a: a text, a list of texts, a vector `[d]` or vectors `[n, d]`.
            b: the same.

        Returns:
            Float32 `[len(a), len(b)]`.

        Raises:
            InputError: the vectors have different dimensions.
        """
        first, second = self._as_vectors(a), self._as_vectors(b)
        check_widths(first, second)
        return np.asarray(SIMILARITIES[self.similarity_fn_name](first, second), np.float32)

    def similarity_pairwise(self, a: Compared | torch.Tensor, b: Compared | torch.Tensor) -> NDArray[np.float32]:
        """Similarity of each text or vector of `a` with the same one of `b`.

        Args:
            a: a text, a list of texts, a vector `[d]` or vectors `[n, d]`.
            b: as many.

        Returns:
            Float32 `[n]`.

        Raises:
            InputError: the vectors have other shapes.

        Example:
            >>> SentenceEncoder().similarity_pairwise(["a cat", "a dog"], ["a cat", "rain"]).round(1).tolist()[0]
            1.0
        """
        first, second = self._as_vectors(a), self._as_vectors(b)
        if first.shape != second.shape:
            raise InputError(f"{first.shape} and {second.shape}: pairs need two arrays of the same shape")
        return np.asarray(PAIRWISE[self.similarity_fn_name](first, second), np.float32)

    def to(self, device: str | torch.device) -> SentenceEncoder:
        """Move the model to a device; returns the encoder.

        Raises:
            InputError: torch does not know or find the device, or the model is an exported graph.
        """
        if str(device) != str(self._running.device):
            moved = self._torch.on(device)
            if moved is not self.model:
                self.model = moved
        return self

    # ------------------------------------------------------------------ properties

    @property
    def model(self) -> ForCL:
        """The torch model, or an exported graph. That of a static folder is opened when it is first asked for."""
        return cast("ForCL", self._model if self._static is None else self._in_torch(self._static)[0])

    @model.setter
    def model(self, model: ForCL) -> None:
        self._model, self._tokenizer, self._static = model, self.tokenizer, None

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of transformers."""
        held = self._tokenizer if self._static is None else self._in_torch(self._static)[1]
        return cast("PreTrainedTokenizerBase", held)

    @tokenizer.setter
    def tokenizer(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._model, self._tokenizer, self._static = self.model, tokenizer, None

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        import torch

        return torch.device(self._running.device)

    @property
    def dimension(self) -> int:
        """Dimension of the vectors."""
        return int(self.encode("a").shape[-1])

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens of the tokenizer for which the model has a vector; their ids are smaller."""
        return self._running.vocabulary_size

    @property
    def bucket_limits(self) -> dict[str, float]:
        """Options of `bucket_rows` for a forward pass on this device."""
        return dict(self._running.bucket_limits)

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens of a text; None if there is no limit. None restores that of the checkpoint."""
        return self._max_length

    @max_length.setter
    def max_length(self, length: int | None) -> None:
        asked = checked("max_length", length, Count | None) or self.checkpoint.max_length
        before, self._max_length = getattr(self, "_max_length", None), self._running.length(asked)
        if length is not None or before not in (None, self._max_length):
            self._changed(max_length=self._max_length if length is None else length)

    max_seq_length = max_length

    @property
    def prompts(self) -> Mapping[str, str]:
        """The prompts by name: those that the checkpoint records, unless others are set. It is set as a whole."""
        return MappingProxyType(self.checkpoint.prompts)

    @prompts.setter
    def prompts(self, prompts: Mapping[str, str]) -> None:
        self._changed(prompts=checked("prompts", dict(prompts), PROMPTS))

    @property
    def default_prompt_name(self) -> str | None:
        """The prompt that `encode` puts before every text."""
        return self.checkpoint.default_prompt_name

    @default_prompt_name.setter
    def default_prompt_name(self, name: str | None) -> None:
        self.prompt_text(name)  # or it does not exist
        self._changed(default_prompt_name=name)

    @property
    def truncate_dim(self) -> int | None:
        """Number of dimensions that are kept; None for all."""
        return self.checkpoint.truncate_dim

    @truncate_dim.setter
    def truncate_dim(self, dim: int | None) -> None:
        self._changed(truncate_dim=checked("truncate_dim", dim, Count | None))

    @property
    def similarity_fn_name(self) -> str:
        """How `similarity` compares two vectors: one of `contrastive_st.vectors.SIMILARITIES`."""
        of_model = getattr(getattr(self._model, "config", None), "similarity", None)
        return _similarity(of_model or self.checkpoint.similarity)

    @similarity_fn_name.setter
    def similarity_fn_name(self, name: str) -> None:
        self._changed(similarity=_similarity(name))
        if self.similarity_fn_name != name:
            raise InputError(f"{self.name} has the similarity {self.similarity_fn_name}, which cannot be changed")

    @property
    def pooling(self) -> str:
        """The pooling: one of `POOLINGS`, or a description for a model that pools in another way."""
        return self._running.pooling

    @property
    def fingerprint(self) -> str:
        """A hash (32 hexadecimal digits) of everything that decides the vectors, except the precision."""
        if self._fingerprint is not None:
            return self._fingerprint
        prompts = sorted((name, prompt) for name, prompt in self.checkpoint.prompts.items() if prompt)
        others = (prompts, self.checkpoint.include_prompt) if prompts else ()
        runs = self._static if self._static and self._is_unchanged() else self._running
        return runs.hash(self._max_length, self.checkpoint.truncate_dim, self.prompt_text(), *others)

    def __repr__(self) -> str:
        runs = self._running
        kind = type(runs if isinstance(runs, StaticVectors) else self.model).__name__
        return (
            f"SentenceEncoder({self.name!r}, {kind}, pooling={self.pooling!r}, max_length={self.max_length}, "
            f"precision={self.precision!r}, device={str(runs.device)!r})"
        )

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a folder that opens here, in sentence-transformers and in transformers, with the same vectors.

        The folder is opened again before it gets its name. Of an existing folder, the files of the model are replaced.

        Raises:
            InputError: the folder cannot be written, or would be opened with other vectors, or the weights were rounded
                by `precision="auto"`; nothing was changed.
        """
        if self._rounded == "auto":
            why = "precision auto rounded its weights to bf16"
            raise InputError(f"{self.name} is not saved: {why}; open it with precision fp32 or bf16")
        static, about = self._static, self.checkpoint
        unchanged = (
            static
            and about.settings_hold
            and self._is_unchanged()
            and (about, self.max_length) == (Checkpoint.find(about.name, folder=about.folder), static.max_length)
        )
        with replace_model(folder) as new:
            if static and unchanged:
                static.save_pretrained(new)
            else:
                self._torch.save(new, self.checkpoint)
            check_read_back(self, new)

    def push_to_hub(self, repo_id: str, *, private: bool = False, token: str | None = None) -> str:
        """Save to a repository of the Hub, which is created if needed; returns its address.

        `contrastive-st push` also adds a model card, and checks for content that should not be published.

        Args:
            repo_id: user and name.
            private: create a private repository.
            token: access token with the right to write; by default that of `hf auth login`.

        Returns:
            The address of the repository.

        Raises:
            InputError: the Hub cannot be reached or refuses.
        """
        from huggingface_hub import HfApi

        from contrastive_st.files.download import hub_errors

        api = HfApi(token=token)
        with tempfile.TemporaryDirectory() as folder, hub_errors(repo_id):
            self.save_pretrained(folder)
            url = api.create_repo(repo_id, private=private, exist_ok=True)
            api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message="Add the sentence encoder")
        return str(url)

    @property
    def _running(self) -> Engine:
        """What encodes: the table of a static model, until its torch model is asked for; else a graph, or torch."""
        static = self._static
        return static if static is not None and static.in_torch is None else self._torch

    def _in_torch(self, static: StaticVectors) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        """The torch model and the tokenizer of a static model, opened when they are first asked for."""
        if static.in_torch is None:
            from contrastive_st.models.running import of_vectors

            static.in_torch = of_vectors(static)
        return static.in_torch

    def _is_unchanged(self) -> bool:
        """Whether the torch model of a static one, if it was asked for, still has the same embedding matrix."""
        static = self._static
        if static is None or static.in_torch is None:
            return True
        return np.array_equal(cast("StaticEncoder", static.in_torch[0]).table().detach().cpu(), static.table())

    @property
    def _torch(self) -> Running | GraphVectors:
        if hasattr(self._model, "of_texts"):  # an exported graph
            return cast("GraphVectors", self._model)
        from contrastive_st.models.running import Running

        held = (self._model, self._tokenizer) if self._static is None else self._in_torch(self._static)
        model, tokenizer = held[0], cast("PreTrainedTokenizerBase", held[1])
        return Running(model, tokenizer, self.name, getattr(self, "_max_length", None))

    def _changed(self, **settings: Any) -> None:
        """Record settings of this encoder alone; its fingerprint follows those that decide the vectors."""
        fields = {name: value for name, value in settings.items() if name != "max_length"}
        before, self.checkpoint = self.checkpoint, replace(self.checkpoint, **fields)
        if self._fingerprint is not None and not ((self.checkpoint == before and fields) or "similarity" in settings):
            changed = f"{self._fingerprint} {settings}".encode()
            self._fingerprint = hashlib.blake2b(changed, digest_size=16).hexdigest()

    # ------------------------------------------------------------------ encoding

    def _for_role(self, names: Sequence[str], options: JsonObject) -> JsonObject:
        asked = any(options.get(name) is not None for name in ("prompt", "prompt_name"))
        return options if asked else {**options, "prompt": role_prompt(self.checkpoint.prompts, names)}

    def _tokenize(self, texts: list[str], prompt: str, max_length: int | None = None) -> list[list[int]]:
        return self._running.token_rows(texts, max_length or self.max_length, prompt)

    def _vectors(self, rows: list[list[int]], prompt: str = "") -> Vectors:
        if not rows:
            return np.empty((0, self.dimension), dtype=np.float32)
        return check_finite(self._running.vectors(rows, self._unpooled(prompt), Pass()), self.name)

    def known_rows(self, rows: list[list[int]], prompt: str = "") -> NDArray[np.bool_]:
        """Which rows of `token_rows` have a token beyond those of the prompt that is neither unknown nor special."""
        silent = self._running.silent
        of_prompt = sum(id not in silent for id in self._tokenize([""], prompt)[0])  # and of a chat template
        return known(rows, silent, of_prompt)

    def begin_with(self, rows: Sequence[Sequence[int]], prompt: str) -> NDArray[np.bool_]:
        """Which rows of token ids begin with the tokens of a prompt that is not pooled, as `token_rows` puts them."""
        start = self._tokenize([""], prompt)[0][: self._unpooled(prompt)]
        return np.array([list(row[: len(start)]) == start for row in rows], dtype=np.bool_)

    def _unpooled(self, prompt: str) -> int:
        """Number of tokens at the start of each row that are not pooled."""
        return 0 if not prompt or self.checkpoint.include_prompt else self._torch.prompt_length(prompt)

    def _as_vectors(self, x: Compared | torch.Tensor) -> Vectors:
        items = texts_or_vectors(x)
        return np.atleast_2d(self.encode(items) if isinstance(items, list) else items)


def _similarity(name: str) -> str:
    return str(choice("similarity", getattr(name, "value", name), SIMILARITIES))
