"""Texts in, vectors out: a model and its tokenizer, with length-sorted batches of a token budget."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from tqdm.auto import tqdm
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import cached_file

from contrastive_st.errors import InputError, first_line
from contrastive_st.losses import angular_similarity
from contrastive_st.models.buckets import bucket_rows
from contrastive_st.models.checkpoint import AutoModelForCL, load_config
from contrastive_st.models.configuration import is_plain_encoder, max_positions
from contrastive_st.models.cpu import bf16_is_fast, packed_products
from contrastive_st.models.modeling import FAMILIES
from contrastive_st.models.pooling import check_pooling, needs_all_layers, pool
from contrastive_st.safety.folders import check_weights
from contrastive_st.safety.repositories import TOKENIZER, local_folder
from contrastive_st.tokens import pad_rows
from contrastive_st.vectors import unit_vectors

# --- Encoders that this package has no class for, and the pooling that sentence-transformers records beside a model.

_MODES = {
    "pooling_mode_cls_token": "cls_before_pooler",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "last",
}
_NAMES = {"cls": "cls_before_pooler", "mean": "mean", "max": "max", "lasttoken": "last"}


class PooledBackbone(nn.Module):
    """Any `AutoModel` with a pooling: `forward(input_ids [N, L]).pooler_output [N, d]`, as `SentenceEncoder` wants."""

    def __init__(self, backbone: Any, pooling: str) -> None:
        super().__init__()
        self.backbone = backbone.get_encoder() if backbone.config.is_encoder_decoder else backbone
        self.pooling, self.config = pooling, backbone.config

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> BaseModelOutputWithPooling:
        """Token ids padded on the right, and 1 on real tokens."""
        every = needs_all_layers(self.pooling)
        output = self.backbone(input_ids, attention_mask=attention_mask, output_hidden_states=every)
        states = output.hidden_states if every else [output.last_hidden_state]
        return BaseModelOutputWithPooling(pooler_output=pool(states, attention_mask, self.pooling))


@dataclass(frozen=True)
class RecordedPooling:
    """What `modules.json` and the files it names say."""

    pooling: str | None
    max_length: int | None
    normalized: bool
    needs_sentence_transformers: bool


def pooling_of_modules(name: str | Path) -> RecordedPooling | None:
    """Read a checkpoint's `modules.json`; None where it has none.

    Transformer, one of four poolings and Normalize are run here; any other module needs sentence-transformers.
    """
    modules = _json(name, "modules.json")
    if modules is None:
        return None
    kinds = [str(module["type"]).rsplit(".", 1)[-1] for module in modules]
    length = (_json(name, "sentence_bert_config.json") or {}).get("max_seq_length")
    pooling = None
    for module, kind in zip(modules, kinds, strict=True):
        if kind == "Pooling":
            pooling = _pooling(_json(name, f"{module['path']}/config.json") or {})
    known = kinds[:2] == ["Transformer", "Pooling"] and kinds[2:] in ([], ["Normalize"]) and pooling is not None
    prompted = (_json(name, "config_sentence_transformers.json") or {}).get("default_prompt_name")
    return RecordedPooling(pooling, length, "Normalize" in kinds, not known or prompted is not None)


def _pooling(config: dict[str, Any]) -> str | None:
    if "pooling_mode" in config:
        mode = config["pooling_mode"]
        return _NAMES.get(mode) if isinstance(mode, str) else None
    used = [mode for mode, on in config.items() if mode.startswith("pooling_mode_") and on]
    return _MODES.get(used[0]) if len(used) == 1 else None


def _json(name: str | Path, file: str) -> Any:
    if Path(name).is_dir():
        path = Path(name, file)
        found = str(path) if path.is_file() else None
    else:
        try:
            found = cached_file(
                str(name),
                file,
                _raise_exceptions_for_missing_entries=False,
                _raise_exceptions_for_connection_errors=False,
            )
        except OSError:
            found = None
    if found is None:
        return None
    try:
        return json.loads(Path(found).read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{found}: not valid JSON ({error}); download the checkpoint again") from None


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
            output = unit_vectors(output)
        return output

    def similarity(self, a: Sequence[str], b: Sequence[str]) -> NDArray[np.float32]:
        """Similarities `[len(a), len(b)]`: cosines, or what the model's config names (`angular`)."""
        first, second = self.encode(a, normalize=True), self.encode(b, normalize=True)
        if getattr(self.model.config, "similarity", "cosine") == "angular":
            return angular_similarity(torch.from_numpy(first), torch.from_numpy(second)).numpy()
        return first @ second.T

    def _forward(self, rows: list[list[int]]) -> NDArray[np.float32]:
        ids, mask = pad_rows(rows, self.tokenizer.pad_token_id)
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


# --- Anything that turns texts into vectors, opened the same way and described the same way.

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


# --- A model made for encoding much: half-width weights where they are fast, no padding, tokens made ahead in a thread.

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
        tensors = [tensor.to(self._model.device) for tensor in pad_rows(rows, self._tokenizer.pad_token_id)]
        return self._model(tensors[0], attention_mask=tensors[1]).pooler_output

    def _unit(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.all(np.isfinite(norms) & (norms > 0)):
            raise InputError(
                f"{self.name} gives NaN, infinite or zero vectors, which nothing is near to. Did it diverge?"
            )
        return vectors / norms
