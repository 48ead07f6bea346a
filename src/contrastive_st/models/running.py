"""What `SentenceEncoder` does with torch: open a model, run it over rows of token ids in buckets, save and hash it."""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import json
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedTokenizerFast
from transformers.modeling_outputs import BaseModelOutputWithPooling

from contrastive_st.buckets import Pass, bucket_rows, in_order, on_device, padded_widths, rows_of_one_length
from contrastive_st.device import DEVICE, bf16_is_fast
from contrastive_st.errors import InputError, about
from contrastive_st.files.folders import check_weights
from contrastive_st.forks import Lock, undone
from contrastive_st.models.auto import opened
from contrastive_st.models.base import attend_by_length, sentence_vectors
from contrastive_st.models.checkpoint import Checkpoint, mixes_padding, most_tokens, of_settings
from contrastive_st.models.configuration import LossConfig, asks_for_code
from contrastive_st.models.families import family
from contrastive_st.models.saving import init_unused_pooler, write_tokenizer, write_use
from contrastive_st.models.wrapped import (
    EncoderForCL,
    check_modules,
    includes_prompt,
    is_sentence_transformer,
    modules_of,
    output_of,
    reads_messages,
    settings_of_modules,
)
from contrastive_st.speed import switch
from contrastive_st.speed.products import all_modules, packed_products
from contrastive_st.static_vectors import Reading, StaticTable, StaticVectors
from contrastive_st.tokens import (
    check_id,
    pad_rows,
    prompt_length,
    token_ids,
    token_types,
    tokenizer_state,
    without_surrogates,
)

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    Opened = tuple[Any, PreTrainedTokenizerBase, Checkpoint]  # a model, its tokenizer and what is recorded of it

#: Options of `bucket_rows` for a forward pass; on a CPU all have about as many tokens, so that few shapes are compiled
_BUCKETS: dict[str, dict[str, float]] = {
    "cpu": {"min_tokens": 2048, "max_tokens": 2048},
    "cuda": {"max_padding": 0.05, "min_tokens": 32_768, "max_tokens": 131_072},
}
#: What configs say that decides vectors with the same weights, and what is as usual
_USUAL: dict[str, tuple[object, ...]] = {
    "is_causal": (True,), "is_decoder": (False,), "use_bidirectional_attention": (False,),  # of transformers
    "normalize": (True,), "left_out": (), "characters": (0,),  # of static models
    "readout": ("last",), "positions": ("sinusoidal",),  # of word models
}  # fmt: skip
_PRECISIONS = {torch.bfloat16: "bf16", torch.float16: "fp16"}
_TOKENIZING = Lock()  # copies of a tokenizer share state that only one thread may use at a time
_TURNS: weakref.WeakKeyDictionary[nn.Module, Lock] = weakref.WeakKeyDictionary()
Item = TypeVar("Item")
Result = TypeVar("Result")
Vectors = NDArray[np.float32]


# --- Opening.


def with_sentence_transformers(checkpoint: Checkpoint, device: torch.device) -> Opened:
    """The model of a folder that only sentence-transformers can run, its tokenizer, and what is recorded of it.

    Raises:
        InputError: sentence-transformers is not installed, or the folder is refused.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise InputError(
            f"{checkpoint.name} has modules that only sentence-transformers runs ({', '.join(checkpoint.foreign)}); "
            "pip install sentence-transformers"
        ) from None
    for folder in {path.parent for path in checkpoint.folder.rglob("*.bin")} | {checkpoint.model}:
        check_weights(folder, checkpoint.name)
    for path in (*checkpoint.folder.rglob("config.json"), *checkpoint.folder.rglob("sentence_*_config.json")):
        if asks_for_code(path):
            raise InputError(f"{path} asks for an implementation (attn_implementation); remove it there")
    with about(checkpoint.name):
        source = SentenceTransformer(str(checkpoint.folder), device=str(device), trust_remote_code=False)
    init_unused_pooler(source, checkpoint.model)
    model, tokenizer, recorded = in_memory(source, None)
    return model, tokenizer, replace(recorded, prompts=checkpoint.prompts, similarity=checkpoint.similarity)


def in_memory(model: Any, tokenizer: PreTrainedTokenizerBase | None) -> Opened:
    """A model that the caller opened; arguments as for `SentenceEncoder`.

    Raises:
        InputError: the tokenizer is missing.
    """
    if is_sentence_transformer(model):
        modules, inner = _Modules(model), model.tokenizer
        bare = not hasattr(inner, "model_max_length")  # of tokenizers, of a static model
        if bare:
            from contrastive_st.models.static_encoder import static_tokenizer

            longest = (inner.truncation or {}).get("max_length")
            inner = static_tokenizer(PreTrainedTokenizerFast(tokenizer_object=inner), longest)
        return modules, inner, Checkpoint.in_memory(
            include_prompt=includes_prompt(model),
            max_length=None if bare else modules.max_length, prompts=dict(model.prompts),
            default_prompt_name=model.default_prompt_name, truncate_dim=model.truncate_dim,
            similarity=str(model.similarity_fn_name or "cosine"),
        )  # fmt: skip
    if tokenizer is None:
        raise InputError(f"{type(model).__name__} needs a tokenizer; give SentenceEncoder(model, tokenizer)")
    has_config = isinstance(model, nn.Module) and hasattr(model, "config") and hasattr(model, "device")
    model = model if has_config or not isinstance(model, nn.Module) else EncoderForCL(model)
    settings = getattr(model, "settings", None)
    recorded = of_settings(settings.section()) if isinstance(settings, LossConfig) else {}
    return model, tokenizer, Checkpoint.in_memory(**recorded)


def of_vectors(vectors: StaticVectors) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The torch model of a static model, that of its folder or one with the same table, and its tokenizer."""
    if vectors.folder is not None:
        return opened(Checkpoint.find(vectors.folder), torch.device("cpu"))
    from contrastive_st.models.static_encoder import StaticEncoder, static_tokenizer

    model = StaticEncoder.from_vectors(vectors).eval()
    tokenizer = static_tokenizer(PreTrainedTokenizerFast(tokenizer_object=vectors.tokenizer), vectors.max_length)
    return model, tokenizer


# --- Running.


@dataclass(frozen=True)
class Running:
    """A model, run over rows of token ids.

    Args:
        model: a torch module.
        tokenizer: its tokenizer.
        name: its name in messages.
        max_length: maximum number of tokens of a row; None if there is no limit.
    """

    model: Any
    tokenizer: PreTrainedTokenizerBase
    name: str
    max_length: int | None = None

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return torch.device(self.model.device)

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens of the tokenizer for which the model has a vector."""
        return min(len(self.tokenizer), self._vectors or len(self.tokenizer))

    @property
    def bucket_limits(self) -> dict[str, float]:
        """Options of `bucket_rows` for a forward pass on this device."""
        return _BUCKETS["cpu" if self.device.type == "cpu" else "cuda"]

    @property
    def pooling(self) -> str:
        """The pooling, for `SentenceEncoder.pooling`."""
        if getattr(self.model, "is_table", False):
            return StaticVectors.pooling
        recorded = of_settings(getattr(self.model.config, "contrastive", {}))["pooling"]
        return str(getattr(self.model, "pooling", None) or recorded or "the model's own")

    def length(self, asked: int | None) -> int | None:
        """Maximum number of tokens of a text; None if there is no limit."""
        return most_tokens(asked or self.tokenizer.model_max_length, self.model.config)

    def on(self, device: str | torch.device) -> Any:
        """The model on another device, and its last state there.

        Raises:
            InputError: torch does not know or find the device.
        """
        return self.model.to(usable(device))

    def precision(self, asked: str) -> tuple[str, bool]:
        """The precision in which the model runs if one is asked for, and whether its weights are to be rounded."""
        weights = (x.dtype for x in self.model.parameters() if x.is_floating_point())
        held = _PRECISIONS.get(next(weights, torch.float32), "fp32")
        fast = asked == "bf16" or (asked == "auto" and bf16_is_fast(self.device))
        fast = fast and held != "bf16" and not getattr(self.model, "is_table", False)
        return ("bf16" if fast else held), fast

    def hash(self, max_length: int | None, truncate_dim: int | None, prompt: str, *others: object) -> str:
        """A hash (32 hexadecimal digits) of the weights, the tokenizer and what else decides the vectors."""
        decides = (self.pooling, max_length, truncate_dim, prompt, *computation(self._not_compiled))
        return model_hash(self._not_compiled.state_dict(), self.tokenizer, *decides, *others)

    @property
    def silent(self) -> set[int]:
        """Ids of tokens that say nothing: of transformers, the unknown token is one of the special ones."""
        return set(self.tokenizer.all_special_ids)

    @property
    def opens_again(self) -> bool:
        """Whether a folder of the model can be opened: the code of a user's own module is not in it."""
        kind = family(getattr(self.model.config, "model_type", None))
        return type(self._not_compiled) is kind or is_sentence_transformer(getattr(self.model, "encoder", None))

    def save(self, folder: Path, recorded: Checkpoint) -> None:
        """Write a folder, for `SentenceEncoder.save_pretrained`."""
        self.model.save_pretrained(folder)
        if not (isinstance(self.model, _Modules) and self.model.is_static):  # which saves its tokenizer in a module
            tokenizer = copy.copy(self.tokenizer)
            tokenizer.model_max_length = self.max_length or tokenizer.model_max_length
            write_tokenizer(tokenizer, folder, getattr(self.model, "takes_types", True))
        write_use(folder, recorded, is_sentence_transformer(getattr(self.model, "encoder", None)))
        if getattr(self.model, "is_table", False):
            self.model.write_max_length(folder, self.max_length)

    def token_rows(self, texts: list[str], longest: int | None = None, prompt: str = "") -> list[list[int]]:
        """Token ids of each text after a prompt, at most `longest`."""
        marked = [prompt + text for text in texts]
        if getattr(self.model, "is_table", False):
            marked = list(self._reading.beginnings(marked, longest))
        with _TOKENIZING.held():
            if isinstance(self.model, _Modules) and self.model.tokenizes:
                return self.model.token_rows(texts, longest or self.tokenizer.model_max_length, prompt)
            return token_ids(self.tokenizer, marked, longest or 1 << 30)

    def prompt_length(self, prompt: str) -> int:
        """Number of tokens of a prompt at the start of each row, for `vectors`."""
        with _TOKENIZING.held():
            return prompt_length(self.tokenizer, prompt, self.max_length or 1 << 30)

    def of_texts(self, texts: list[str], longest: int | None, before: int, run: Pass, prompt: str = "") -> Vectors:
        """`vectors` of texts after a prompt, of at most `longest` tokens."""
        return self.vectors(self.token_rows(texts, longest, prompt), before, run)

    @torch.inference_mode()
    def vectors(self, rows: list[list[int]], before: int, run: Pass) -> Vectors:
        """Vectors `[len(rows), d]` of one or more rows.

        Args:
            rows: token ids.
            before: number of tokens at the start of each row that are not pooled.
            run: how they are computed.
        """
        if (table := self._table) is not None:
            self.check_rows(rows)
            run.done(len(rows))
            return table.encode_rows(rows)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        buckets = self._buckets(lengths, run.limits) if len(rows) > 1 else [np.zeros(1, np.int64)]
        forward = lambda bucket: self.forward([rows[i] for i in bucket], before)
        output: Vectors | None = None
        with self.ready(run.dtype):
            for bucket, result in zip(buckets, self._computed(forward, buckets), strict=True):
                vectors = np.asarray(result.cpu().numpy())
                output = np.empty((len(rows), vectors.shape[1]), dtype=np.float32) if output is None else output
                output[bucket] = vectors
                run.done(len(bucket))
        assert output is not None
        return output

    @torch.inference_mode()
    def token_vectors(self, rows: list[list[int]], run: Pass) -> list[Tensor]:
        """The states `[tokens, width]` of the tokens of each row, before they are pooled; arguments as for `vectors`.

        Raises:
            InputError: the model does not return them.
        """
        if (table := self._table) is not None:
            run.done(len(rows))
            return [torch.from_numpy(table.token_vectors(row)) for row in rows]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        result: dict[int, Tensor] = {}
        with self.ready(run.dtype):
            for bucket in self._buckets(lengths, run.limits):
                output = self._output([rows[i] for i in bucket], 0)
                states = getattr(output, "last_hidden_state", None)
                if states is None:
                    raise InputError(f"{self.name} does not return the vectors of tokens; leave output_value out")
                result |= {i: row[: lengths[i]].float().clone() for i, row in zip(bucket.tolist(), states, strict=True)}
                run.done(len(bucket))
        return [result[i] for i in range(len(rows))]

    def stream(self, buckets: Iterable[tuple[Sequence[Sequence[int]], int] | None]) -> Iterator[Vectors]:
        """Vectors of each bucket of rows, with the number of tokens at their start that are not pooled.

        None is as for `SentenceEncoder.encode_buckets`.
        """
        if self._table is not None:
            yield from (self.vectors(list(map(list, rows)), before, Pass()) for rows, before in filter(None, buckets))
            return

        @torch.inference_mode()
        def forward(bucket: tuple[Sequence[Sequence[int]], int]) -> Tensor:
            rows = [list(row) for row in bucket[0]]
            if len(rows) == 1 or not (self._most_packed(self.device) or self._mixes_padding):
                return self.forward(rows, bucket[1])
            parts = self._buckets(np.fromiter(map(len, rows), np.int64, len(rows)), {})
            return in_order([self.forward([rows[i] for i in part], bucket[1]) for part in parts], parts)

        with self.ready(None):
            for result in self._computed(forward, buckets):
                yield np.asarray(result.cpu().numpy())

    def forward(self, rows: list[list[int]], before: int) -> Tensor:
        """Vectors of a bucket of rows."""
        return sentence_vectors(self._output(rows, before)).float()

    def _output(self, rows: list[list[int]], before: int) -> object:
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        least = max(int(lengths.max()), 1)
        device = self.device
        packs = self._most_packed(device)
        if not (packs or self._mixes_padding):
            least = int(padded_widths(np.array([least]), self.max_length or least)[0])
        padded = pad_rows(rows, self.tokenizer.pad_token_id, least=least)
        ids, mask = (on_device(x, device) for x in padded)
        text: dict[str, Tensor | NDArray[np.int64]] = (
            {"text_mask": mask * (torch.arange(mask.shape[1], device=mask.device) >= before)} if before else {}
        )
        takes_lengths = device.type != "cpu" and getattr(self.model, "takes_lengths", False)
        if packs or (takes_lengths and not self._is_compiled):
            text["lengths"] = lengths
        if getattr(self.model, "takes_types", False) and (types := token_types(self.tokenizer, mask)) is not None:
            text["token_type_ids"] = types
        self.check_rows(rows)
        return self.model(ids, attention_mask=mask, **text)

    def _most_packed(self, device: torch.device) -> int:
        """Most tokens of a row that is packed, on a CPU; 0 if the model does not pack."""
        packs = device.type == "cpu" and not self._is_compiled
        return int(getattr(self.model, "most_packed", 0)) if packs else 0

    @property
    def _mixes_padding(self) -> bool:
        """Whether padding changes the vector of a row, by its encoder or by a module of sentence-transformers."""
        return mixes_padding(self.model.config) or getattr(self.model, "mixes_padding", False)

    @property
    def _is_compiled(self) -> bool:
        """Whether torch compiles the whole model, whose inputs are tensors then."""
        return getattr(self.model, "_compiled_call_impl", None) is not None or self._not_compiled is not self.model

    @property
    def _not_compiled(self) -> Any:
        """The model, without what `torch.compile(model)` puts around it."""
        return getattr(self.model, "_orig_mod", self.model)

    def check_rows(self, rows: Sequence[Sequence[int]]) -> None:
        """Raise `InputError` for a token that the model has no vector for."""
        if (size := self._vectors) is not None:
            check_id(max(map(max, filter(None, rows)), default=0), size, self.tokenizer, self.name)

    def _buckets(self, lengths: NDArray[np.int64], limits: Mapping[str, float]) -> list[NDArray[np.int64]]:
        """Rows that are computed at once.

        On a CPU no row of a model that packs is padded: rows are packed, or those of a bucket have one length. How a
        row is computed depends on its length alone, so that it has the same bits among other rows. Nor is one of a
        model that mixes padding into its vector.
        """
        limits, most = {**self.bucket_limits, **limits}, self._most_packed(self.device)
        if not (most or self._mixes_padding):
            return bucket_rows(lengths, **limits)  # type: ignore[arg-type]
        packed = (lengths > 0) & (lengths <= most)
        at_once = {name: int(limits[name]) for name in ("max_tokens", "max_rows") if name in limits}
        one, other = np.flatnonzero(packed), np.flatnonzero(~packed)
        buckets = [one[rows] for rows in bucket_rows(lengths[one], widths=lengths[one], **limits)]  # type: ignore[arg-type]
        return buckets + [other[rows] for rows in rows_of_one_length(lengths[other], **at_once)]

    @property
    def _table(self) -> StaticTable | None:
        """The table of a static model on a CPU, with which numpy encodes; None for any other model."""
        if not getattr(self.model, "is_table", False) or self.device.type != "cpu":
            return None
        table, normalize = self.model.table().detach().numpy(), self.model.config.normalize
        return StaticTable(table, normalize=normalize, left_out=self._reading.left_out)

    @property
    def _reading(self) -> Reading:
        """How a static model reads texts; of other models, the tokenizer alone decides."""
        return Reading(**getattr(getattr(self.model, "config", None), "reading", {}))

    @property
    def _vectors(self) -> int | None:
        config: PreTrainedConfig | None = getattr(self.model, "config", None)
        rows = getattr(config and config.get_text_config(), "vocab_size", None)
        return rows if isinstance(rows, int) else None

    @contextlib.contextmanager
    def ready(self, dtype: torch.dtype | None, packs: bool = True) -> Iterator[None]:
        """Put the model into evaluation mode with fast products, and back afterwards; only for one caller at a time."""
        trained: list[nn.Module] = []
        wrapped: list[object] = []

        def undo() -> None:
            if wrapped:
                self.model.forward = wrapped[0]
            for module in trained:
                module.training = True

        with _TURNS.setdefault(self.model, Lock()).held(), undone(undo):
            trained += [module for module in all_modules(self.model) if module.training]
            self.model.eval() if trained else None
            # accelerate puts its autocast around the forward of what it trains; an encoder has its own precision
            if hasattr(self.model, "_original_forward") and "forward" in vars(self.model):
                wrapped.append(self.model.forward)
                del self.model.forward
            half = dtype is not None and dtype != torch.float32
            with (
                torch.autocast(self.device.type, dtype) if half else contextlib.nullcontext(),
                packed_products(self.model, keep=not trained)
                if packs and not half and switch.on
                else contextlib.nullcontext(),
            ):
                yield

    def _computed(self, forward: Callable[[Item], Tensor], buckets: Iterable[Item | None]) -> Iterator[Tensor]:
        """`map(forward, buckets)`; None is as for `SentenceEncoder.encode_buckets`."""
        if self.device.type == "cpu":
            return (forward(bucket) for bucket in buckets if bucket is not None)
        return _one_ahead(forward, buckets)


def _one_ahead(work: Callable[[Item], Result], items: Iterable[Item | None]) -> Iterator[Result]:
    """`map(work, items)`, one item behind: a GPU computes the next one while the host reads the result of this.

    At None, the next result comes before another item is read.
    """
    started: deque[Result] = deque()
    for item in items:
        if item is not None:
            started.append(work(item))
        if len(started) > (item is not None):
            yield started.popleft()
    yield from started


# A forked process lacks the threads of GNU's OpenMP, for which torch's next product would wait forever. With one
# thread, OpenMP asks for no others
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=functools.partial(torch.set_num_threads, 1))


def usable(asked: str | torch.device | None) -> torch.device:
    """The device that is asked for, by default the GPU of this process if there is one.

    Raises:
        InputError: torch does not know or find the device, or there are several.
    """
    if isinstance(asked, (list, tuple)):
        raise InputError(f"devices {asked}: an encoder runs on one; give one, and use accelerate launch for several")
    gpu = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    device = asked or os.environ.get(DEVICE) or (gpu if torch.cuda.is_available() else "cpu")
    with about(f"device {device}"):
        return torch.empty(0, device=device).device


class _Modules(nn.Module):
    """The modules of a `SentenceTransformer` as a model with `pooler_output`."""

    takes_types = True

    def __init__(self, source: SentenceTransformer) -> None:
        super().__init__()
        check_modules(source)
        modules = modules_of(source)
        first: Any = modules[0]
        self.encoder = source
        self.is_static = type(first).__name__ == "StaticEmbedding"
        self.config: Any = PreTrainedConfig() if self.is_static else first.auto_model.config
        if self.is_static:
            self.config.vocab_size = first.num_embeddings
        #: How its tokenizer is called, if not as others are
        self.settings_of_calls: dict[str, dict[str, int]] = getattr(first, "processing_kwargs", {})
        #: Whether sentence-transformers makes the token ids, and not the tokenizer alone
        self.tokenizes = bool(self.settings_of_calls) or reads_messages(source)
        #: Whether one of its modules reads the states of padding
        self.mixes_padding = any(type(module).__name__ == "CNN" for module in modules)
        attend_by_length(source)
        modes = [getattr(module, "pooling_mode", None) for module in modules]
        self.pooling = next((mode for mode in modes if isinstance(mode, str)), "sentence-transformers' own")
        self.after = settings_of_modules(source)
        if reads_messages(source):
            self.after.append(f"chat template {source.tokenizer.chat_template}")

    @property
    def device(self) -> torch.device:
        return torch.device(self.encoder.device)

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens of a text."""
        of_calls = {**self.settings_of_calls.get("common", {}), **self.settings_of_calls.get("text", {})}
        return of_calls.get("max_length", self.encoder.max_seq_length)

    def token_rows(self, texts: Sequence[str], longest: int, prompt: str) -> list[list[int]]:
        """Token ids of each text, at most `longest`, as `preprocess` of sentence-transformers makes them."""
        if not texts:
            return []
        asked = {"text": {"max_length": longest}}
        features = self.encoder.preprocess(without_surrogates(texts), prompt or None, processing_kwargs=asked)
        pairs = zip(features["input_ids"], features["attention_mask"].bool(), strict=True)
        return [row[real].tolist() for row, real in pairs]

    def save_pretrained(self, folder: Path) -> None:
        self.encoder.save_pretrained(str(folder))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        text_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> BaseModelOutputWithPooling:
        output = output_of(self.encoder, input_ids, attention_mask, text_mask, token_type_ids)
        states = output.get("token_embeddings")
        return BaseModelOutputWithPooling(last_hidden_state=states, pooler_output=output["sentence_embedding"])


def computation(model: Any) -> list[str]:
    """What decides the vectors of a model besides its weights, tokenizer and pooling, where it is not as usual.

    These are the layers after the pooling, or the modules of sentence-transformers, and what its config says. Of a
    model without anything of the kind it is an empty list: a fingerprint does not change when a name joins `_USUAL`.
    """
    config = getattr(model, "config", None)
    says = {**vars(config), **getattr(config, "reading", {})} if config is not None else {}
    values = [(name, says.get(name)) for name in _USUAL]
    rope = getattr(config, "rope_parameters", None) or {}
    for of_layers in (rope, *rope.values()):  # of all layers, or of each kind of them
        if isinstance(of_layers, dict) and of_layers.get("rope_type", "default") != "default":
            values.append(("rope_parameters", sorted(of_layers.items())))
    unusual = [f"{name} {value}" for name, value in values if value not in (None, *_USUAL.get(name, ()))]
    return [*map(str, getattr(model, "after", ())), *unusual]


def model_hash(weights: dict[str, Tensor], tokenizer: PreTrainedTokenizerBase, *settings: object) -> str:
    """A hash (32 hexadecimal digits) of the weights, the tokenizer and the settings that decide an embedding."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    state = tokenizer_state(tokenizer)
    state.pop("encode_special_tokens", None)  # is not in the fingerprints of collections that were indexed before
    digest.update(json.dumps([state, *map(str, settings)], sort_keys=True).encode())
    return digest.hexdigest()
